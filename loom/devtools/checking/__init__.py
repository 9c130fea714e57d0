"""The static rules of `loom check`: source in, findings out. Nothing here reads a file, imports or runs what it checks."""
