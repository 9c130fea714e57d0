"""`python -m loom.devtools.manifest`: print the kernel manifest."""

from __future__ import annotations

import sys

from loom.devtools.manifest import manifest, text

if __name__ == "__main__":
    sys.stdout.write(text(manifest()))
