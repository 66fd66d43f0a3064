"""The tables of docs/migrating: every framespool expression runs, and has the value of the other column.

decord and torchcodec are those of framespool.compat, which other tests compare with the libraries themselves.
torchvision is the library, and framespool.compat for what it has no more. DALI, OpenCV and PyTorchVideo are not
installed here, so their columns are not run.
"""

from __future__ import annotations

import ast
import bisect
import importlib
import importlib.util
import io
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import docs_snippets
import framespool as fsp
import numpy as np
import pytest
import test_docs
from framespool.transforms import _compose
from framespool.transforms._functions import FunctionTransform

media_files = test_docs.media_files
PAGES = sorted((docs_snippets.ROOT / "docs" / "migrating").glob("*.md"))
#: The rows of each library, and the page that has them.
TABLES = {name: rows for page in PAGES for name, rows in docs_snippets.tables(page.read_text())}
PAGE_OF = {name: page.name for page in PAGES for name, _ in docs_snippets.tables(page.read_text())}
#: Modules with the names of the other column, and how many values are compared at least.
LIBRARIES = {
    "decord": (["framespool.compat.decord"], 13),
    "torchcodec": ([f"framespool.compat.torchcodec.{name}" for name in ("decoders", "samplers", "transforms")], 19),
    "torchvision": (
        [f"torchvision.{name}" for name in ("io", "datasets", "datasets.samplers", "datasets.video_utils")]
        + ["framespool.compat.torchvision.io"],
        17,
    ),
    "PyAV": ([], 6),
}
#: Calls whose pixels differ by some levels: torchcodec resizes RGB, and VideoClips has another decoder.
INEXACT = ("transforms=[Resize(", "clips.get_clip(")


def omitted(make: Callable[..., Any], *positional: Any, **keywords: Any) -> Callable[..., Any]:
    """A loader class for calls in which `...` stands for the other arguments."""

    def call(*given: Any, **named: Any) -> Any:
        *own, rest = given
        assert rest is ..., "a table writes ... after the positional arguments"
        return make(*own, *positional[len(own) :], **{**keywords, **named})

    return call


def framespool_names() -> dict[str, Any]:
    dataset, photos = fsp.datasets.folder("videos/"), fsp.datasets.image_folder("photos/")
    resize = [fsp.transforms.Resize((32, 32))]
    clips = fsp.samplers.RandomClips(sequence_length=4)
    return {
        "fsp": fsp,
        "t": fsp.transforms,
        "s": fsp.samplers,
        "file": io.BytesIO(Path("a.mp4").read_bytes()),
        "bisect_left": bisect.bisect_left,
        "bisect_right": bisect.bisect_right,
        "ClipLoader": omitted(fsp.ClipLoader, dataset, clips, batch_size=2, transforms=resize),
        "ImageLoader": omitted(fsp.ImageLoader, photos, batch_size=2, transforms=resize),
    }


def run(code: str, names: dict[str, Any]) -> Any:
    """Runs a cell; returns the value of an expression or of an assignment, or None."""
    [statement] = ast.parse(code).body
    if isinstance(statement, ast.Expr):
        return eval(code, names)
    exec(code, names)
    return eval(ast.unparse(statement.targets[0]), names) if isinstance(statement, ast.Assign) else None


def used(value: Any) -> None:
    """Does with a value what it is for, so that an argument that is accepted but fails later is found."""
    if isinstance(value, (fsp.ClipLoader, fsp.ImageLoader)):
        assert len(next(iter(value)).labels) > 0
    elif isinstance(value, fsp.samplers.ClipSampler):
        assert next(iter(fsp.ClipLoader(["a.mp4"], value, batch_size=1))).mask.numpy().any()
    elif isinstance(value, fsp.transforms.Transform):
        assert fsp.Video("a.mp4").frames([0], transforms=[value], dtype="float32").frames.shape[-3] == 3
    elif isinstance(value, fsp.datasets.Dataset):
        assert len(value) > 0 and value[0][1] >= 0
    elif isinstance(value, list) and isinstance(value[0], tuple):
        used(fsp.datasets.Dataset(value))


def numbers(value: Any) -> list[np.ndarray]:
    """The numbers of a value; an empty list for an object that has none, such as a reader."""
    if isinstance(value, tuple):
        return [array for part in value for array in numbers(part)]
    if hasattr(value, "pts_seconds") and (hasattr(value, "data") or hasattr(value, "frames")):
        value = value.data if hasattr(value, "data") else value.frames  # frames of torchcodec or framespool
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list) and value and isinstance(value[0], Fraction):
        value = [float(number) for number in value]
    for convert in ("asnumpy", "numpy"):
        if hasattr(value, convert):
            value = getattr(value, convert)()
    is_known = isinstance(value, (int, float, list, np.ndarray, np.number))
    return [np.asarray(value)] if is_known and np.asarray(value).dtype.kind in "biuf" else []


def assert_same(theirs: Any, ours: Any, *, exact: bool) -> bool:
    """Compares two values; returns whether they can be compared."""
    if isinstance(ours, (fsp.transforms.Transform, FunctionTransform)):
        torch, v2 = pytest.importorskip("torch"), pytest.importorskip("torchvision.transforms.v2")
        to_float = v2.ToDtype(torch.float32, scale=True)
        assert _compose.split([to_float, theirs], "float32") == _compose.split([ours], "float32")
        return True
    left, right = numbers(theirs), numbers(ours)
    if not left or not right:
        return False
    for a, b in zip(left, right, strict=True):
        assert a.shape == b.shape
        if exact or a.dtype != np.uint8:
            np.testing.assert_allclose(a, b, rtol=1e-6)
        else:
            assert np.abs(a.astype(int) - b).mean() < 1.5  # 5 for the next frame
    return True


def media_of_tables(folder: Path, library: str, videos: Path) -> None:
    """Adds the files that only the tables name."""
    if library == "LeRobot":
        from lerobot_writer import write  # skips without pyarrow

        write(folder / "aloha", videos)
    (folder / "list.txt").write_text("a.mp4 0\nphone.mp4 1\n")
    for path in (folder / "videos").glob("*/*.mkv"):
        place = folder / "kinetics" / "val" / path.parent.name
        place.mkdir(parents=True)
        (place / f"{path.stem}.mp4").symlink_to(path)


def runnable(library: str) -> list[tuple[int, str, str]]:
    """The rows with an equivalent that the installed packages can run."""
    has_torch = importlib.util.find_spec("torch") is not None
    rows = [row for row in TABLES[library] if not row[2].startswith("no equivalent: ")]
    return [row for row in rows if has_torch or not re.search(r"torch\(\)|MixUp|OneOf", row[2])]


@pytest.mark.parametrize("library", TABLES)
def test_framespool_column_runs(library, media_files, videos):
    media_of_tables(media_files, library, videos)
    names = framespool_names()
    assert len(TABLES[library]) >= 10
    for line, _, new in runnable(library):
        try:
            used(run(new, names))
        except Exception as error:
            raise AssertionError(f"{PAGE_OF[library]}, line {line}: {new}") from error


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("library", LIBRARIES)
def test_both_columns_have_the_same_value(library, media_files, videos):
    modules, least = LIBRARIES[library]
    ours = framespool_names()
    theirs: dict[str, Any] = {"file": io.BytesIO(Path("a.mp4").read_bytes())}
    if library == "PyAV":
        theirs["av"] = pytest.importorskip("av")
    elif library != "decord":
        theirs["torch"] = pytest.importorskip("torch")
    if library == "torchvision":
        theirs["v2"] = pytest.importorskip("torchvision.transforms.v2")
    for module in modules:
        theirs |= vars(importlib.import_module(module))
    media_of_tables(media_files, library, videos)
    compared = 0
    for line, old, new in runnable(library):
        value = run(new, ours)
        if library == "torchvision" and old.startswith("for frame in reader"):
            continue
        try:
            compared += assert_same(run(old, theirs), value, exact=not any(name in old for name in INEXACT))
        except Exception as error:
            raise AssertionError(f"{PAGE_OF[library]}, line {line}: {old} is not {new}") from error
        finally:
            if library == "decord":
                theirs["bridge"].set_bridge("native")
    assert compared >= least
