"""`python -m loom_cli` is `loom`."""

import sys

from loom_cli.main import main

if __name__ == "__main__":
    sys.exit(main())
