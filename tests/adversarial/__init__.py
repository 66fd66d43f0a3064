"""Generated malformed and unusual files, and their comparison with an oracle; ``run.py`` is the program."""

import sys
from pathlib import Path

# The modules that generate the test media are scripts in one folder.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "media"))
