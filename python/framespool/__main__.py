"""Makes `python -m framespool` the command `framespool`."""

import sys

from framespool.cli import main

if __name__ == "__main__":
    sys.exit(main())
