#!/usr/bin/env python3
"""Checks that names and prose use the field's standard terms.

Reports, with file and line:

- words of a list, each with its plain replacement, in every source, stub, script and documentation file, also as a part
  of an identifier in snake case or camel case;
- Markdown lines of more than 120 characters outside tables and code blocks;
- docstring paragraphs of more than five lines;
- Python functions and classes whose docstring lacks a Google-style section: `Args:`, `Returns:` and `Raises:` where
  the code has arguments, a result or a `raise`, and `Example:` for every name that a public module exports.

Run it from anywhere. It needs no package:

    scripts/prose_check.py [FILE...]            these files, or all files of the repository
    scripts/prose_check.py --message FILE       the commit message in a file, as git's hook commit-msg passes it
    scripts/prose_check.py --commits A..B       the messages of these commits, without merges
"""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".rs", ".py", ".pyi", ".md", ".cu", ".h", ".c", ".cpp", ".toml", ".sh", ".yml"}
NAMES = {"Makefile"}
# Generated files, records of measurements, licences of others, and the word list itself.
EXCLUDED = re.compile(r"benches/record/|licenses/|nvdec/src/sys/bindings\.rs|scripts/prose_check\.py")

MAX_MARKDOWN_COLUMNS = 120
MAX_PARAGRAPH_LINES = 5
MAX_SUBJECT_CHARACTERS = 72

# A first word in lower case is the start of a phrase, or a prefix such as `fix:` or `feat(cli)!:`. Names of code differ
# from it: `video_metadata()`, `env.sh:`.
LOWER_CASE = re.compile(r"[a-z]+(?:\(.*?\))?!?[:,]?(?:\s|$)")
# First lines that git writes itself.
WRITTEN_BY_GIT = re.compile(r'Merge |Revert "|(?:fixup|squash|amend)! ')

# Pattern (in lower case; found in any case, without letters before or after it) and what to write instead. Words with
# an ordinary meaning in the field are not listed.
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
    r"twins?": "copy, counterpart or reference",
    r"spots?": "slot, position or output",
    r"stand_ins?|stand-ins?": "substitute or placeholder",
    r"footage": "video",
    r"workbench(?:es)?": "clip decoder",
    r"kinship|kin": "and similar",
    # Words that people, not programs, are described with.
    r"told|tells": "reports, reported, listed or distinguished",
    r"complain(?:s|ed|ts?|ing)?": "error message or decoder error",
    r"verdicts?": "result or decision",
    r"(?<!in )facts?": "metadata, properties or info",
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
    r"beside": "next to or in addition to",
    r"alike": "the same way, equally or identical",
    r"whatever|whichever": "any, every or regardless of",
    r"cut (?:short|off)": "truncated",
    r"(?:leav(?:e|es|ing)|left) (?:\w+ )?out": "omit or skip",
    r"ask(?:s|ed|ing)? for": "request",
    r"^ *//! *(?:in|out|never):": "a plain sentence",
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
    r"(?:a|the|this|each|every|one) stretch(?:es)?|stretches of|frame_stretch(?:es)?": "range",
    r"sealed": "checksummed",
    r"spar(?:es|ed) (?:a|the|its|no|every) ": "skips",
    r"in (?:\w+'s|\w+s'|the|their|its) words": "with the argument names of",
    r"sound": "valid or intact; audio",
    r"as (?:\w+ )?(?:it|they|one) comes?": "unchanged",
    r"how often": "count of",
    r"no such thing": "nothing of the kind",
    r"pictures_(?:decoded|delivered)": "frames_decoded, frames",
    r"colour": "color",
    r"most_[a-z]": "max_",
}
WORD = r"(?<![A-Za-z])(?:{})(?![a-z])"
PATTERNS = [(re.compile(WORD.format(pattern), re.IGNORECASE), advice) for pattern, advice in WORDS.items()]
# Most lines match none of them, which one search shows. It reads the line in lower case, because ignoring case is slow.
ANY = re.compile(WORD.format("|".join(WORDS)))
# Where a word begins within a camel-case identifier, and the escapes that would hide one.
HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
ESCAPE = re.compile(r"\\[nrt]")

# Exceptions that are part of a protocol, or that a caller cannot provoke.
CONSTRUCTORS = {"__init__", "__new__", "__post_init__"}
UNDOCUMENTED = {"AssertionError", "AttributeError", "NotImplementedError", "StopIteration"}


def words(path: Path, lines: list[str]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        split = HUMP.sub(" ", ESCAPE.sub(" ", line))
        for text in dict.fromkeys((line, split)):
            if not ANY.search(text.lower()):
                continue
            for pattern, advice in PATTERNS:
                for found in pattern.finditer(text):
                    yield f"{path}:{number}: '{found[0].strip()}': write {advice}"


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


@functools.cache
def exported() -> set[tuple[str, str]]:
    """The public names of the package: the file that defines each, and the name. Without those of other libraries."""
    found = set()
    package = ROOT / "python" / "framespool"
    modules = [path for path in package.rglob("__init__.py") if "compat" not in path.parts]
    for path in [*modules, *package.glob("gpu.py")]:
        body = ast.parse(path.read_text(encoding="utf-8")).body
        listed = [
            node.value for node in body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        ]
        public_names = {each.value for node in listed for each in ast.walk(node) if isinstance(each, ast.Constant)}
        origins = {
            alias.asname or alias.name: node.module
            for node in body
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }
        for name in public_names:
            file = path
            if name in origins:
                module = ROOT / "python" / Path(*origins[name].split("."))
                file = next(
                    (f for f in (module.with_suffix(s) for s in (".py", ".pyi")) if f.is_file()), module / "__init__.py"
                )
            found.add((file.relative_to(ROOT).as_posix(), name))
    return found


def raised(function: ast.FunctionDef) -> set[str]:
    """Exceptions that the body of a function raises by name, without those of functions within it."""
    found, open_nodes = set(), list(function.body)
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            found.add(ast.unparse(node.exc.func).split(".")[-1])
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            open_nodes.extend(ast.iter_child_nodes(node))
    return {name for name in found if name[:1].isupper() and name not in UNDOCUMENTED}


def sections(path: Path, tree: ast.Module) -> Iterator[str]:
    own = {name for file, name in exported() if file == path.as_posix()}
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    protocols = {node.name for node in classes if "Protocol" in map(ast.unparse, node.bases)}
    for name, node, method in public(tree.body):
        if path.suffix == ".pyi" and name.partition(".")[0] not in own:
            continue
        where = f"{path}:{node.lineno}: {name}"
        decorators = {ast.unparse(d).split("(")[0].split(".")[-1] for d in node.decorator_list}
        if decorators & {"overload", "setter", "override"}:
            continue
        text = ast.get_docstring(node)
        if text is None:
            # The methods of a protocol may be documented where they are implemented.
            if not (method and name.partition(".")[0] in protocols):
                yield f"{where}: no docstring"
            continue
        if "\n" in text and text.split("\n")[1].strip():
            yield f"{where}: the summary is one line, followed by an empty one"
        bases = [ast.unparse(base) for base in node.bases] if isinstance(node, ast.ClassDef) else []
        is_error = any(re.search(r"(?:Error|Exception|Warning)$", base) for base in bases)
        if not method and name in own and not is_error and not re.search(r"^Example:$", text, re.M):
            yield f"{where}: no section 'Example:'"
        function = node
        if isinstance(node, ast.ClassDef):
            function = next((f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"), None)
            constructors = [f for f in node.body if isinstance(f, ast.FunctionDef) and f.name in CONSTRUCTORS]
            errors = set().union(*map(raised, constructors))
            if errors and not re.search(r"^Raises:$", text, re.M):
                yield f"{where}: no section 'Raises:' for {', '.join(sorted(errors))}"
            if function is None:
                continue
        elif (errors := raised(node)) and not re.search(r"^Raises:$", text, re.M):
            yield f"{where}: no section 'Raises:' for {', '.join(sorted(errors))}"
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
    if path.suffix in {".py", ".pyi"}:
        tree = ast.parse(text)
        if str(shown).startswith("python/"):
            yield from docstrings(shown, tree)
            if not re.search(r"/cli/|/__main__", str(shown)):
                yield from sections(shown, tree)


def message(name: str, text: str) -> Iterator[str]:
    """Checks the first line of a commit message, and that the second one is empty."""
    first, second = [*text.strip("\n").split("\n"), ""][:2]
    if WRITTEN_BY_GIT.match(first):
        return
    if not first.strip():
        yield f"{name}: the first line is empty"
    if len(first) > MAX_SUBJECT_CHARACTERS:
        yield f"{name}: the first line has {len(first)} characters; at most {MAX_SUBJECT_CHARACTERS}"
    if LOWER_CASE.match(first):
        yield f"{name}: '{first.split()[0]}': start with a capital letter or a name of the code, without a prefix"
    if first.rstrip().endswith("."):
        yield f"{name}: the first line ends with a period"
    if second.strip():
        yield f"{name}: the second line is not empty"


def messages(arguments: list[str]) -> Iterator[str]:
    option, value = arguments
    if option == "--message":
        text = Path(value).read_text(encoding="utf-8")
        # What git adds for the editor, and removes afterwards.
        text = re.split(r"^# -+ >8 -+$", text, maxsplit=1, flags=re.M)[0]
        yield from message("commit message", re.sub(r"^#.*\n?", "", text, flags=re.M))
        return
    log = ["git", "log", "--no-merges", "-z", "--format=%h%n%B", value]
    listed = subprocess.run(log, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout
    for commit in filter(None, listed.split("\0")):
        name, _, text = commit.partition("\n")
        yield from message(f"commit {name}", text)


def report(findings: list[str], rule: str) -> int:
    if findings:
        print("\n".join(findings))
        print(f"prose_check: {len(findings)} findings; {rule}")
    return bool(findings)


def main() -> int:
    if sys.argv[1:2] in (["--message"], ["--commits"]):
        if len(sys.argv) != 3:
            sys.exit("prose_check: --message needs a file, --commits a range of commits")
        return report([*messages(sys.argv[1:])], "CONTRIBUTING.md has the rule under Commits")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    files = [Path(f).resolve() for f in sys.argv[1:]] or [ROOT / f for f in listed.split("\0") if f]
    findings = [
        finding
        for file in files
        if (file.suffix in SUFFIXES or file.name in NAMES)
        and file.is_file()
        and not EXCLUDED.search(file.relative_to(ROOT).as_posix())
        for finding in check(file)
    ]
    return report(findings, f"the word list and its replacements are in {Path(__file__).name}")


if __name__ == "__main__":
    sys.exit(main())
