"""The GPU tests of the repository, if pytest is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from common import ROOT, media, missing
from items import FAILED, IMPOSSIBLE, OK, Context, Row, item


@item("pytest", seconds=300)
def suite(context: Context) -> Iterator[Row]:
    folder = ROOT / "tests" / "python" / "gpu"
    asked = "the tests in tests/python/gpu pass"
    if not list(folder.glob("test_*.py")):
        yield Row("pytest", asked, IMPOSSIBLE, f"no tests in {folder}")
        return
    if why := missing("pytest") or missing("numpy"):
        yield Row("pytest", asked, IMPOSSIBLE, why)
        return
    with tempfile.TemporaryDirectory() as scratch:
        settings = Path(scratch) / "pytest.ini"
        settings.write_text("[pytest]\n")  # pyproject.toml names plugins that may be missing here
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-c", str(settings)]
        # The tests of the bundle itself need the repository.
        command += ["--rootdir", str(ROOT), "--ignore", str(folder / "test_bundle.py"), str(folder)]
        environment = {**os.environ, "FRAMESPOOL_MEDIA": str(media()), "PYTHONDONTWRITEBYTECODE": "1"}
        run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=context.left())
    lines = run.stdout.strip().splitlines() or run.stderr.strip().splitlines()
    summary = re.findall(r"(\d+) (passed|failed|skipped|error)", "".join(lines[-1:]))
    counts = {word: int(count) for count, word in summary}
    if run.returncode == 0:
        yield Row("pytest", asked, OK, figures=counts)
    else:
        yield Row("pytest", asked, FAILED, " ".join(lines[-6:])[-500:], counts)
