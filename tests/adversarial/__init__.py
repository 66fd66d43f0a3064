"""Odd files, made and judged by machine; ``run.py`` is the program."""

import sys
from pathlib import Path

# The modules that make the test media are scripts beside each other.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "media"))
