#!/usr/bin/env python3
"""Checks that names and prose use the field's standard terms.

Reports, with file and line:

- words of a list, each with its plain replacement, in every source, stub and documentation file;
- Markdown lines of more than 120 characters outside tables and code blocks;
- docstring paragraphs of more than five lines;
- public Python functions and classes whose docstring lacks a Google-style section that their signature calls for.

Run it from anywhere: `scripts/prose_check.py [FILE...]`. It needs no package.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".rs", ".py", ".pyi", ".md", ".cu", ".h", ".c", ".toml", ".sh", ".yml"}
# Generated files, records of measurements, licences of others, and the word list itself.
LEFT_OUT = re.compile(r"benches/record/|licenses/|nvdec/src/sys/bindings\.rs|scripts/prose_check\.py")

MAX_MARKDOWN_COLUMNS = 120
MAX_PARAGRAPH_LINES = 5

# Pattern (in any case, without letters before or after it) and what to write instead. Words with an ordinary meaning in
# the field are not listed.
WORDS = {
    # Metaphors that were names.
    r"desks?(?!_drawing)": "scheduler",
    r"errands?": "decode task",
    r"easels?": "CUDA executor",
    r"painters?|paint(?:s|ed|ing)?": "transform, apply or write",
    r"slabs?": "batch buffer",
    r"hostages?": "requests in flight",
    r"roads?": "path, backend or way",
    r"ledgers?": "picture tracker or call log",
    r"moods?": "mode",
    r"spooled|spools|spool": "loader",
    r"workbench(?:es)?": "clip decoder",
    r"kinship|kin": "and similar",
    # Words that people, not programs, are described with.
    r"told|tells": "reports, reported, listed or distinguished",
    r"complain(?:s|ed|ts?|ing)?": "error message or decoder error",
    r"verdicts?": "result or decision",
    r"vouch(?:es|ed|ing)?": "guarantees or verifies",
    r"heed(?:s|ed|ing)?": "supports, honors or applies",
    r"believ(?:e|es|ed|ing)": "trusts, accepts or assumes",
    r"troubles?": "error or failure",
    r"mistook": "misidentified",
    r"patience": "timeout",
    r"ow(?:es|ed|ing) (?!to)": "still expected or pending",
    r"forgets": "discards or resets",
    r"strangers?": "untrusted",
    r"acquaintances?": "cached state",
    r"whoever|whomever": "the caller or any thread",
    r"nobody|somebody": "no caller, a caller, idle or unused",
    # Inverted or old phrases.
    r"anew": "again or from scratch",
    r"mend(?:s|ed|ing)?": "fix or repair",
    r"dear(?:er|est)?": "expensive",
    r"without a word": "silently",
    r"at hand|in hand": "available, assigned or in progress",
    r"under way": "in progress or in flight",
    r"h(?:o|e)ld against": "compared with or checked against",
    r"tak(?:e|es|en|ing) note of": "records or registers",
    r"stands? in for|stood in for|standing in for": "replaces or substitutes",
    r"hand(?:s|ed|ing)? (?:on|over|out)": "emits, returns or transfers",
    r"g(?:i|a)ve(?:s|n)? up": "abandons, evicts or cancels",
    r"left to the cpu": "fallback to the CPU",
    r"l(?:ies|ay) (?:in|at|on|beside|behind|before)": "is in, is at or is stored in",
    r"whole numbers?": "integer",
    r"(?:a|the|this|each|every|one) stretch(?:es)?|stretches of": "range",
    r"sealed": "checksummed",
    r"spar(?:es|ed) (?:a|the|its|no|every) ": "skips",
    r"in (?:\w+'s|\w+s'|the|their|its) words": "with the argument names of",
    r"sound (?:files?|headers?|videos?|streams?|data|pictures?|ones?)": "valid",
    r"as (?:\w+ )?(?:it|they|one) comes?": "unchanged",
    r"how often": "count of",
    r"no such thing": "nothing of the kind",
    r"pictures_(?:decoded|delivered)": "frames_decoded, frames_delivered",
    r"colour": "color",
    r"most_[a-z]": "max_",
}
PATTERNS = [
    (re.compile(rf"(?<![A-Za-z])(?:{pattern})(?![a-z])", re.IGNORECASE), advice) for pattern, advice in WORDS.items()
]
ANY = re.compile("|".join(pattern.pattern for pattern, _ in PATTERNS), re.IGNORECASE)

# Where a section would only repeat the one-line summary.
NO_SECTIONS = re.compile(r"__\w+__")


def words(path: Path, lines: list[str]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if not ANY.search(line):
            continue
        for pattern, advice in PATTERNS:
            for found in pattern.finditer(line):
                yield f"{path}:{number}: '{found[0]}': write {advice}"


def markdown(path: Path, lines: list[str]) -> Iterator[str]:
    code = False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            code = not code
        if code or line.startswith("|") or len(line) <= MAX_MARKDOWN_COLUMNS:
            continue
        # A link or a path that is longer than a line cannot be wrapped.
        if max(map(len, line.split())) < MAX_MARKDOWN_COLUMNS - 20:
            yield f"{path}:{number}: {len(line)} characters; wrap at {MAX_MARKDOWN_COLUMNS}"


def docstrings(path: Path, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text = ast.get_docstring(node)
        if text is None:
            continue
        for paragraph in re.split(r"\n\s*\n", text):
            # Sections, lists, tables and examples are read line by line.
            if re.search(r"^\s*(?:[-*|>]|\w+:$|```|\.\. )", paragraph, re.M):
                continue
            if (size := paragraph.count("\n") + 1) > MAX_PARAGRAPH_LINES:
                name = getattr(node, "name", "the module")
                line = getattr(node, "lineno", 1)
                yield f"{path}:{line}: {name}: a paragraph of {size} lines; at most {MAX_PARAGRAPH_LINES}"


def public(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef, bool]]:
    """Yields the public classes, functions and methods of a module or class body, with whether each is a method."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield f"{prefix}{node.name}", node, bool(prefix)
            if isinstance(node, ast.ClassDef):
                yield from public(node.body, f"{prefix}{node.name}.")


def sections(path: Path, tree: ast.Module) -> Iterator[str]:
    for name, node, method in public(tree.body):
        where = f"{path}:{node.lineno}: {name}"
        decorators = {ast.unparse(d).split("(")[0].split(".")[-1] for d in node.decorator_list}
        if decorators & {"overload", "setter", "override"}:
            continue
        text = ast.get_docstring(node)
        if text is None:
            yield f"{where}: no docstring"
            continue
        if "\n" in text and text.split("\n")[1].strip():
            yield f"{where}: the summary is one line, followed by an empty one"
        function = node
        if isinstance(node, ast.ClassDef):
            function = next((f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"), None)
            if function is None:
                continue
        if decorators & {"property", "cached_property"}:
            continue
        arguments = function.args
        names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        if method or isinstance(node, ast.ClassDef):
            names = names[1:] if "staticmethod" not in decorators else names
        if arguments.vararg:
            names.append(arguments.vararg.arg)
        described = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n)+)", text, re.M)
        if names and not described:
            yield f"{where}: no section 'Args:'"
        elif described:
            listed = set(re.findall(r"^ +\**(\w+)(?: \([^)]*\))?:", described[1], re.M))
            if lacking := [n for n in names if n not in listed]:
                yield f"{where}: 'Args:' lacks {', '.join(lacking)}"
        if isinstance(node, ast.ClassDef):
            continue
        returns = ast.unparse(node.returns) if node.returns else "None"
        if returns not in {"None", "NoReturn"} and not re.search(r"^(?:Returns|Yields):", text, re.M):
            yield f"{where}: no section 'Returns:'"


def check(path: Path) -> Iterator[str]:
    shown = path.relative_to(ROOT)
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    yield from words(shown, lines)
    if path.suffix == ".md":
        yield from markdown(shown, lines)
    if path.suffix == ".py":
        tree = ast.parse(text)
        if str(shown).startswith("python/"):
            yield from docstrings(shown, tree)
            if not re.search(r"/cli/|/__main__", str(shown)):
                yield from sections(shown, tree)


def main() -> int:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    files = [Path(f).resolve() for f in sys.argv[1:]] or [ROOT / f for f in listed.split("\0") if f]
    findings = [
        finding
        for file in files
        if file.suffix in SUFFIXES and file.is_file() and not LEFT_OUT.search(file.relative_to(ROOT).as_posix())
        for finding in check(file)
    ]
    print("\n".join(findings))
    if findings:
        print(f"prose_check: {len(findings)} findings; the word list and its replacements are in {Path(__file__).name}")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
