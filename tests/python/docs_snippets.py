"""Runs the code blocks of README.md and docs/, page by page, in order, and compares their output with the text.

The line that opens a block determines how it is processed:

- ``python``: run; all blocks of a page share one namespace. A comment after a ``print`` is its output (its only
  line, or one of them in a loop), with ``…`` or ``...`` for omitted text.
- ``python before``: another library's code, shown for comparison, not run.
- ``python shown``: framespool's code that needs data or hardware of the reader, not run.
- ``python title="train.py"``: written to that file, for a command further down.
- ``python raises NameError``: must raise exactly that class, with the message of the ``text output`` that follows.
- ``sh``: lines that start with ``framespool``, ``python`` or ``torchrun`` are run, others (``make``, ``pip``,
  ``export``) are not. They must exit with 0, or with the code of a comment such as ``# exit code 1``.
- ``text output``: the output of the previous block, with ``…`` as above.
- anything else is not run.
"""

from __future__ import annotations

import ast
import contextlib
import io
import itertools
import logging
import os
import re
import shlex
import subprocess
import sys
import textwrap
import tokenize
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Optional packages of snippets; framespool's modules for them count as well.
_PACKAGES = (
    r"^\s*(?:import|from) (?:framespool\.compat\.torch(?:codec|vision)|"
    r"(?:framespool\.)?(torch|ray|jax|lightning|accelerate|transformers|lerobot))\b"
)
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)(?P<marks>[^\n`]*)\n(?P<code>.*?)^(?P=indent)```$", re.M | re.S
)
_PROGRAMS = {
    "framespool": [sys.executable, "-m", "framespool"],
    "python": [sys.executable],
    "torchrun": [sys.executable, "-m", "torch.distributed.run"],
}


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the rest of its first line, its code, and the first line of the code."""

    language: str
    marks: str
    code: str
    line: int


def pages() -> list[str]:
    """The pages with code, by their paths from the root of the project."""
    found = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]
    return [page for page in found if any(True for _ in blocks((ROOT / page).read_text()))]


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page that name a language."""
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start("code")) + 1
        yield Block(found["language"], found["marks"].strip(), textwrap.dedent(found["code"]), line)


def tables(text: str) -> Iterator[tuple[str, list[tuple[int, str, str]]]]:
    """The tables with a column "framespool": the other library, and line and first two cells of each row.

    Code loses its backticks, so a cell is an expression or a sentence.
    """
    lines = text.splitlines()
    for start, line in enumerate(lines):
        header = [cell.strip(" `") for cell in line.strip("|").split("|")]
        if line.startswith("|") and header[1:2] == ["framespool"] and lines[start + 1].startswith("|---"):
            rows = itertools.takewhile(lambda row: row.startswith("|"), lines[start + 2 :])
            cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
            yield header[0], [(start + 3 + n, old.strip("`"), new.strip("`")) for n, (old, new, *_) in enumerate(cells)]


def packages(text: str) -> set[str]:
    """Optional packages that a page's snippets need."""
    run = (block for block in blocks(text) if block.language == "python" and block.marks not in ("before", "shown"))
    code = "\n".join(block.code for block in run)
    return {found[1] or "torch" for found in re.finditer(_PACKAGES, code, flags=re.MULTILINE)}


def run(text: str, where: str, urls: Mapping[str, str] | None = None) -> None:
    """Runs a page in the working directory. ``urls``: replacements for the page's example addresses."""
    for made_up, real in (urls or {}).items():
        text = text.replace(made_up, real)
    code = list(blocks(text))
    page = _Page(where)
    logger = logging.getLogger("framespool")
    level = logger.level
    try:
        for place, block in enumerate(code):
            page.block(block, code[place + 1] if place + 1 < len(code) else None)
    finally:
        logger.setLevel(level)  # a page on logging changes it; other tests in this process read the log


class _Page:
    def __init__(self, where: str) -> None:
        self.where = where
        # A module, so that definitions of a page can be pickled by reference, as in a script.
        module = sys.modules["page"] = types.ModuleType("page")
        self.namespace: dict[str, Any] = module.__dict__
        self.printed: str | None = None

    def block(self, block: Block, behind: Block | None) -> None:
        place = f"{self.where}, line {block.line}"
        kind, _, more = block.marks.partition(" ")
        if block.language == "python":
            _skip_without_packages(block.code)
            title = re.fullmatch(r'title="(\w+\.py)"', block.marks)
            if title is not None:
                Path(title[1]).write_text(block.code)
            elif kind == "raises":
                self.raises(block, more, behind, place)
            elif kind not in ("before", "shown"):
                assert not block.marks, f"{place}: unknown mark {block.marks!r}"
                self.printed = self.python(block, place)
        elif block.language == "sh":
            self.printed = shell(block, place)
        elif (block.language, block.marks) == ("text", "output"):
            assert self.printed is not None, f"{place}: no block before it could have printed this"
            assert _like(block.code.strip(), self.printed.strip()), f"{place}: printed was\n{self.printed}"

    def python(self, block: Block, place: str) -> str:
        """Runs the statements one by one, to separate their outputs; returns all output."""
        said = _said(block.code)
        everything = []
        for statement in ast.parse(block.code).body:
            module = ast.Module([statement], type_ignores=[])
            ast.increment_lineno(module, block.line - 1)
            if sys.modules.get("ray"):  # as for a script: the workers of Ray cannot import the page
                sys.modules["ray"].cloudpickle.register_pickle_by_value(sys.modules["page"])
            held = io.StringIO()
            with contextlib.redirect_stdout(held):
                exec(compile(module, place, "exec"), self.namespace)
            everything.append(held.getvalue())
            for line, words in said.items():
                if statement.lineno <= line + block.line - 1 <= (statement.end_lineno or statement.lineno):
                    lines = held.getvalue().splitlines()
                    assert any(_like(words, each) for each in lines), f"{place}: not {words!r} but {lines[:5]}"
        return "".join(everything)

    def raises(self, block: Block, name: str, behind: Block | None, place: str) -> None:
        message = None
        try:
            self.python(block, place)
        except Exception as error:
            assert type(error).__name__ == name, f"{place}: {type(error).__name__}: {error}"
            message = f"{name}: {error}"
        assert message is not None, f"{place}: nothing was raised"
        assert behind is not None and behind.marks == "output", f"{place}: its message must follow"
        self.printed = message


def _skip_without_packages(code: str) -> None:
    """Skips the test if an optional package that the code imports is not installed."""
    for found in re.finditer(_PACKAGES, code, flags=re.MULTILINE):
        pytest.importorskip(found[1] or "torch")


def _said(code: str) -> dict[int, str]:
    """The comments after prints, by line."""
    prints = {number for number, line in enumerate(code.splitlines(), 1) if re.match(r"\s*print\(", line)}
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    return {t.start[0]: t.string[1:].strip() for t in tokens if t.type == tokenize.COMMENT and t.start[0] in prints}


def _like(said: str, printed: str) -> bool:
    """Whether it was printed: trailing spaces do not count, and ``…`` matches anything."""
    printed = "\n".join(line.rstrip() for line in printed.splitlines())
    parts = re.split(r"…|\.\.\.", said)
    return re.fullmatch(".*?".join(map(re.escape, parts)), printed, flags=re.DOTALL) is not None


def shell(block: Block, place: str) -> str:
    """Runs the runnable lines of a block; returns their stdout."""
    printed = ""
    for line in block.code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words or words[0] not in _PROGRAMS:
            continue
        for program in (word for word in words[1:] if word.endswith(".py")):
            _skip_without_packages(Path(program).read_text())
        code = re.search(r"#.*exit code (\d+)", line)
        environment = {**os.environ, "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
        done = subprocess.run([*_PROGRAMS[words[0]], *words[1:]], capture_output=True, text=True, env=environment)
        expected = int(code[1]) if code else 0
        assert done.returncode == expected, f"{place}: {line}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
        printed += done.stdout
    return printed
