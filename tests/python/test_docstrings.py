"""The examples in public docstrings run and print what they show."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import docs_snippets
import framespool as fsp
import pytest
import test_docs
from archive_writers import example, packed_picture, recordio, tfrecord
from framespool import _framespool
from framespool._common.counters import DERIVED

PACKAGE = docs_snippets.ROOT / "python" / "framespool"
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
#: Modules of framespool that need another package.
NEEDS = {
    "framespool.torch": "torch",
    "framespool.compat.torchcodec": "torch",
    "framespool.compat.torchvision": "torch",
    "framespool.ray": "ray",
}
#: Files of examples that another package writes.
WRITTEN_BY = {"train.lmdb": "lmdb"}
#: Modules whose public functions and classes have an example. Errors have an entry with a snippet in docs/errors.md.
MODULES = (
    "framespool",
    "framespool.order",
    "framespool.samplers",
    "framespool.samplers.presets",
    "framespool.tools",
    "framespool.video",
    "framespool.transforms",
    "framespool.datasets",
    "framespool.gpu",
    "framespool.ray",
    "framespool.torch",
)

#: The fixture that creates the videos and images of the documentation.
media_files = test_docs.media_files


@pytest.fixture
def tiny_clips(short_clips):
    """Not tiny here: the output of examples states their size."""
    return short_clips


@pytest.fixture
def archives(media_files):
    """Two images as a TFRecord, a RecordIO and an LMDB file, with the other files."""
    images = [(media_files / "photos" / "dog" / f"{number}.jpg").read_bytes() for number in (1, 2)]
    records = [example(image__encoded=image, image__class__label=label) for label, image in enumerate(images, 1)]
    (media_files / "train-00000-of-00001").write_bytes(tfrecord(records))
    packed = [packed_picture(float(label), image, 10 + label) for label, image in enumerate(images)]
    (media_files / "train.rec").write_bytes(recordio(packed)[0])
    if importlib.util.find_spec("lmdb") is not None:
        lmdb = importlib.import_module("lmdb")
        with lmdb.open(str(media_files / "train.lmdb"), map_size=1 << 24) as env, env.begin(write=True) as transaction:
            for number, image in enumerate(images):
                transaction.put(f"image-{number:03}".encode(), image)
                transaction.put(f"label-{number:03}".encode(), str(number + 4).encode())


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


def sources() -> list[Path]:
    """The modules and stubs of the package."""
    return sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")])


def examples() -> list[doctest.DocTest]:
    """The docstrings with examples, read from the sources: no optional package is imported."""
    parser = doctest.DocTestParser()
    tests = [
        parser.get_doctest(text, {"__name__": "example"}, name, str(file), line)
        for file in sources()
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
    needed |= {package for file, package in WRITTEN_BY.items() if file in source}
    others = {name.partition(".")[0] for name in names} - {"framespool", *sys.stdlib_module_names}
    return needed | others


# Frameworks announce their changes with warnings.
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.usefixtures("archives")
@pytest.mark.parametrize("test", examples(), ids=lambda test: test.name)
def test_example(test, monkeypatch):
    for package in sorted(packages(test)):
        pytest.importorskip(package, reason=f"the example needs {package}, which is not installed")
    if "transcode(" in test.docstring:
        ffmpeg = importlib.import_module("framespool.tools._transcode._ffmpeg")
        try:
            ffmpeg.find()
        except fsp.errors.UnsupportedError as error:
            pytest.skip(f"the example needs an ffmpeg program: {error}")
    monkeypatch.setenv("RAY_ADDRESS", "local")  # a separate cluster, even if another one is running
    output: list[str] = []
    try:
        result = doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=output.append)
    finally:
        if "ray" in sys.modules:
            sys.modules["ray"].shutdown()
    assert not result.failed, "".join(output)


def public_names() -> Iterator[tuple[str, str]]:
    """The public functions and classes, without the errors: module and name."""
    for module in MODULES:
        if any(importlib.util.find_spec(package) is None for name, package in NEEDS.items() if name == module):
            continue
        found = importlib.import_module(module)
        for name in found.__all__:
            value = getattr(found, name)
            if callable(value) and not (isinstance(value, type) and issubclass(value, BaseException)):
                yield module, name


def test_every_public_function_and_class_has_an_example():
    # Private modules of the package define what its public modules export.
    having = {name for file in sources() for name, text, _ in docstrings(file) if "Example:\n" in text}
    names = list(public_names())
    assert len(names) > 100
    lacking = [
        f"{module}.{name}"
        for module, name in names
        if not any("._" in each or each == f"{module}.{name}" for each in having if each.rpartition(".")[2] == name)
    ]
    assert not lacking, f"add an Example: to the docstrings of {', '.join(lacking)}"


def test_stats_documents_the_table_of_counters(videos):
    groups: dict[str, list[tuple[str, str]]] = {}
    for group, name, meaning, _ in _framespool.counters():
        groups.setdefault(group, []).append((name, meaning))
    groups["Decoding"] += [(name, meaning) for name, meaning, _ in DERIVED]
    lines = []
    for group, rows in groups.items():
        lines.append(f"- {group}")
        for name, meaning in rows:
            indents = {"initial_indent": "    ", "subsequent_indent": "      "}
            lines += textwrap.wrap(f"- `{name}`: {meaning}", width=120 - len("        "), **indents)
    expected, documented = "\n".join(lines), inspect.getdoc(fsp.ClipLoader.stats)
    assert expected in documented, f"the docstring of BaseLoader.stats() needs this list:\n{expected}"
    largest = [f"`{name}`" for _, name, _, merge in _framespool.counters() if merge == "max"]
    assert f"of {', '.join(largest[:-1])} and {largest[-1]} the largest" in " ".join(documented.split())
    clip_sampler = fsp.samplers.UniformClips(sequence_length=2)
    loader = fsp.ClipLoader([str(videos / "derived" / "base_640x360.mp4")], clip_sampler, batch_size=1)
    names = {"version", *(name for rows in groups.values() for name, _ in rows)}
    assert set(loader.stats()) == names
