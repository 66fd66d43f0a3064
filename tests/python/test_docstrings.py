"""The examples in public docstrings run and print what they show."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import docs_snippets
import framespool as fsp
import pytest
import test_docs

PACKAGE = docs_snippets.ROOT / "python" / "framespool"
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
#: Modules of framespool that need another package.
NEEDS = {"framespool.torch": "torch", "framespool.compat.torchcodec": "torch", "framespool.ray": "ray"}
#: Names that must have an example, by module.
ENTRY_POINTS = {
    "framespool": (
        "BatchSampler",
        "ClipLoader",
        "ImageLoader",
        "Video",
        "analyze_access",
        "decode_image",
        "decode_images",
        "transcode",
        "validate",
    ),
    "framespool.samplers": (
        "custom",
        "delta",
        "dense",
        "indices",
        "preset",
        "random",
        "seconds",
        "segments",
        "uniform",
        "windows",
    ),
}

#: The fixture that creates the videos and images of the documentation.
beside = test_docs.beside


def docstrings(path: Path) -> Iterator[tuple[str, str, int]]:
    """Name, docstring and line of the public classes and functions of a file."""

    def public(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, str, int]]:
        for node in body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name.startswith("_"):
                continue
            text = ast.get_docstring(node)
            if text is not None:
                yield f"{prefix}.{node.name}", text, node.lineno
            if isinstance(node, ast.ClassDef):
                yield from public(node.body, f"{prefix}.{node.name}")

    module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    text = ast.get_docstring(tree)
    if text is not None:
        yield module, text, 1
    yield from public(tree.body, module)


def examples() -> list[doctest.DocTest]:
    """The docstrings with examples, read from the sources: no optional package is imported."""
    parser = doctest.DocTestParser()
    files = sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")])
    tests = [
        parser.get_doctest(text, {"__name__": "example"}, name, str(file), line)
        for file in files
        for name, text, line in docstrings(file)
        if ">>>" in text
    ]
    return [test for test in tests if test.examples]


def packages(test: doctest.DocTest) -> set[str]:
    """Packages other than framespool that an example imports, directly or by a module of framespool."""
    source = "".join(example.source for example in test.examples)
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    names |= {f"framespool.{found}" for found in re.findall(r"\bfsp\.([a-z]+(?:\.[a-z]+)?)\b", source)}
    needed = {package for module, package in NEEDS.items() for name in names if f"{name}.".startswith(f"{module}.")}
    others = {name.partition(".")[0] for name in names} - {"framespool", *sys.stdlib_module_names}
    return needed | others


# Frameworks announce their changes with warnings.
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("beside")
@pytest.mark.parametrize("test", examples(), ids=lambda test: test.name)
def test_example(test, monkeypatch):
    for package in sorted(packages(test)):
        pytest.importorskip(package, reason=f"the example needs {package}, which is not installed")
    if "fsp.transcode(" in test.docstring:
        ffmpeg = importlib.import_module("framespool._transcode._ffmpeg")
        try:
            ffmpeg.find()
        except fsp.UnsupportedError as error:
            pytest.skip(f"the example needs an ffmpeg program: {error}")
    monkeypatch.setenv("RAY_ADDRESS", "local")  # a separate cluster, even if another one is running
    output: list[str] = []
    try:
        result = doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=output.append)
    finally:
        if "ray" in sys.modules:
            sys.modules["ray"].shutdown()
    assert not result.failed, "".join(output)


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in ENTRY_POINTS.items() for name in names]
)
def test_entry_point_has_an_example(module, name):
    assert ">>>" in (getattr(importlib.import_module(module), name).__doc__ or "")
