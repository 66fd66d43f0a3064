"""Contact sheets of the first clips that a loader delivers."""

from __future__ import annotations

import base64
import html
import io
import os
from typing import Any

from framespool import _framespool
from framespool._common.validate_args import integer
from framespool.errors import ArgumentError, UnsupportedError
from framespool.loaders._base import BaseLoader
from framespool.loaders._views import Views
from framespool.transforms import Normalize

_GAP = 4
_LINE = 16
TEXT, PAPER = (230, 230, 230), (32, 32, 32)
#: Largest side of a frame on the sheet, in pixels.
_MAX_SIDE = 256


def preview(
    loader: BaseLoader[Any], path: str | os.PathLike[str], *, clips: int = 8, frames: int = 8, epoch: int = 0
) -> list[dict[str, Any]]:
    """Writes a contact sheet of the first clips of an epoch.

    Each row is a clip, with time from left to right; above it are the label, the file and the frame indices. The clips
    are made as for training, with the same random numbers, but as uint8 and without `Normalize` and a callable at the
    end, whose results cannot be displayed. An iteration of the loader that is in progress continues.

    Args:
        loader: A `ClipLoader` or an `ImageLoader`.
        path: A file that ends in `.png`, or in `.html` for a page that also lists what each transform drew.
        clips: Number of rows, 1 to 1000.
        frames: Frames per clip at most, 1 to 256, evenly spread.
        epoch: The epoch to show; random crops differ from epoch to epoch.

    Returns:
        For each clip the result of `ClipLoader.describe_clip()` without `content_key`, with `class`, the name of the
        label, and `pts_seconds`.

    Raises:
        UnsupportedError: If NumPy or Pillow is not installed.
        ArgumentError: If an argument is invalid, or an epoch has no batch.
        Error: If a file fails, as the loader raises it.

    Example:
        >>> import framespool as fsp
        >>> clip_sampler = fsp.samplers.RandomClips(sequence_length=8, stride=2)
        >>> loader = fsp.ClipLoader(fsp.datasets.folder("videos/"), clip_sampler, batch_size=2)
        >>> clips = fsp.tools.preview(loader, "preview.png", clips=2)
        >>> len(clips)
        2
    """
    try:
        import numpy
        from PIL import Image
    except ImportError as error:
        raise UnsupportedError(f"preview needs NumPy and Pillow ({error}); pip install numpy pillow") from error
    del numpy, Image
    place = os.fspath(path)
    ending = place.rpartition(".")[2].lower()
    if ending not in ("png", "html"):
        raise ArgumentError(f"path must end in .png or .html, got {place!r}")
    rows = _rows(
        loader,
        integer("clips", clips, least=1, most=1000),
        integer("frames", frames, least=1, most=256),
        integer("epoch", epoch),
    )
    if not rows:
        raise ArgumentError("an epoch has no batch; use a smaller batch_size or last_batch='partial'")
    if ending == "png":
        sheet([(strip(row["images"]), _title(row)) for row in rows]).save(place, format="PNG")
    else:
        with open(place, "w", encoding="utf-8", errors="replace") as file:
            file.write(_page(rows))
    return [row["metadata"] for row in rows]


def _rows(loader: BaseLoader[Any], clips: int, frames: int, epoch: int) -> list[dict[str, Any]]:
    """Metadata and frames of each clip."""
    import numpy as np

    frames_as = {**loader._settings["frames"], "dtype": "uint8", "layout": "NTHWC"}
    gpu = {"device": None, "decoder": "cpu", "nvdec_threads": None}
    # Clips of the epochs before its own must stay on disk.
    options = {**loader._settings["options"], "gpu": gpu, "prefetch_batches": 0, "lookahead_clips": 0}
    settings = {**loader._settings, "frames": frames_as, "options": {**options, "clip_store": None}}

    def shown_steps(steps: list[Any]) -> list[Any]:
        return [step for step in steps if not isinstance(step, Normalize)]

    steps = shown_steps(loader._steps)
    settings["more_views"] = [(spec, within, shown_steps(more)) for spec, within, more in settings["more_views"]]
    # A separate native loader: an iteration of the given one continues.
    native = _framespool.Loader(loader.dataset._for_engine(), loader._sampler_spec, steps, settings)
    number = native.start_epoch(epoch, 0)
    classes = loader.dataset.classes
    rows: list[dict[str, Any]] = []
    views: Views | None = getattr(loader, "_views", None)
    while len(rows) < clips:
        batch = native.next_batch(number)
        if batch is None:
            break
        parts = {None: batch} if views is None else {name: views.of_view(batch, name) for name in views.names}
        for view, part in parts.items():
            # With group_clips the clips of a video are one row, of which each clip becomes a row of the sheet.
            grouped = part["clip_ids"].ndim > 1
            made = [clip.numpy() for clip in part["frames"]]
            made = [clip for row in made for clip in row] if grouped else made
            clip_ids = part["clip_ids"].numpy().reshape(-1).tolist()
            deliveries = [divmod(each, 1 << 32) for each in part["occurrences"].numpy().reshape(-1).tolist()]
            times = part["pts_seconds"].numpy()
            times = times.reshape(-1, times.shape[-1]).tolist()
            for at in range(min(len(clip_ids), clips - len(rows))):
                images = np.asarray(made[at])
                metadata = native.describe_clip(epoch, clip_ids[at], 0, *deliveries[at])
                del metadata["content_key"]  # bytes, which the command cannot print as JSON
                label = metadata["label"] = loader.dataset[metadata["video_id"]][1]
                metadata["class"] = classes[label] if isinstance(label, int) and 0 <= label < len(classes) else None
                metadata["pts_seconds"] = times[at][: len(metadata["indices"])]
                if view is not None:
                    metadata["view"] = view
                length = len(metadata["indices"])
                shown = np.linspace(0, length - 1, min(frames, length)).round().astype(int)
                crops = images.reshape(-1, length, *images.shape[-3:])
                rows.append({"metadata": metadata, "shown": shown.tolist(), "images": crops[:, shown]})
    native.cancel()
    return rows


def strip(views: Any) -> Any:
    """The frames of a clip in a row; several views are stacked.

    Args:
        views: Pixels (V, T, H, W, 3).

    Returns:
        An image of Pillow.
    """
    from PIL import Image

    height, width = views.shape[2:4]
    shrink = max(1.0, max(height, width) / _MAX_SIDE)
    size = (max(1, round(width / shrink)), max(1, round(height / shrink)))
    columns, lines = views.shape[1], views.shape[0]
    made = Image.new("RGB", (columns * (size[0] + _GAP) - _GAP, lines * (size[1] + _GAP) - _GAP), PAPER)
    for line, view in enumerate(views):
        for column, pixels in enumerate(view):
            image = Image.fromarray(pixels).resize(size, Image.Resampling.BOX)
            made.paste(image, (column * (size[0] + _GAP), line * (size[1] + _GAP)))
    return made


def _title(row: dict[str, Any]) -> str:
    metadata, shown = row["metadata"], row["shown"]
    label = metadata["class"] if metadata["class"] is not None else f"label {metadata['label']}"
    which = ", ".join(str(metadata["indices"][at]) for at in shown)
    seconds = f"{metadata['pts_seconds'][shown[0]]:.2f} to {metadata['pts_seconds'][shown[-1]]:.2f} s"
    view = f"{metadata['view']}   " if "view" in metadata else ""
    return f"{view}{label}   {os.path.basename(str(metadata['path']))}   frames {which}   {seconds}"


def sheet(strips: list[tuple[Any, str]]) -> Any:
    """A contact sheet.

    Args:
        strips: Results of `strip()`, each with its title.

    Returns:
        An image of Pillow.
    """
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(12)
    width = max(row.width for row, _ in strips) + 2 * _GAP
    made = Image.new("RGB", (width, sum(row.height + _LINE + 2 * _GAP for row, _ in strips) + _GAP), PAPER)
    draw = ImageDraw.Draw(made)
    top = _GAP
    for row, title in strips:
        while title and draw.textlength(title, font=font) > width - 2 * _GAP:
            title = title[:-2].rstrip("…") + "…" if len(title) > 2 else ""
        draw.text((_GAP, top), title, fill=TEXT, font=font)
        made.paste(row, (_GAP, top + _LINE))
        top += row.height + _LINE + 2 * _GAP
    return made


def page_head(title: str) -> str:
    """The beginning of a page.

    Args:
        title: Its title.

    Returns:
        HTML.
    """
    return f"""<!doctype html>
<meta charset="utf-8"><title>{html.escape(title)}</title>
<style>body{{font:14px sans-serif;background:#202020;color:#e6e6e6;margin:2em}}img{{display:block;max-width:100%}}
figure{{margin:0 0 2em}}table{{border-collapse:collapse;margin-top:.4em}}td{{padding:0 1em 0 0;vertical-align:top}}
td:first-child{{color:#999}}</style>
<h1>{html.escape(title)}</h1>
"""


def figure(image: Any, title: str, table: str = "") -> str:
    """An image with its title.

    Args:
        image: An image of Pillow.
        title: Its title.
        table: HTML below it.

    Returns:
        HTML.
    """
    held = io.BytesIO()
    image.save(held, format="PNG")
    data, title = base64.b64encode(held.getvalue()).decode(), html.escape(title)
    return (
        f'<figure><figcaption>{title}</figcaption><img alt="{title}" src="data:image/png;base64,{data}">'
        f"{table}</figure>\n"
    )


def _number(value: Any) -> str:
    """A number for people: 2 for 2.0, four digits of others."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_number(each) for each in value) + "]"
    if isinstance(value, float):
        return str(int(value)) if value == int(value) else f"{value:.4g}"
    return str(value)


def _drawn(steps: list[dict[str, Any]], inside: str = "") -> list[tuple[str, str]]:
    """The name of each transform and what it drew; those of a list inside one follow it."""
    rows = []
    for step in steps:
        numbers = [f"{name} {_number(value)}" for name, value in step.items() if name not in ("name", "transforms")]
        rows += [(inside + step["name"], ", ".join(numbers))]
        rows += _drawn(step.get("transforms", []), f"{inside}{step['name']}: ")
    return rows


def _page(rows: list[dict[str, Any]]) -> str:
    parts = [page_head("framespool: the first clips of an epoch")]
    for row in rows:
        metadata = row["metadata"]
        rows_of_metadata = [("file", metadata["path"]), ("label", metadata["label"]), ("frames", metadata["indices"])]
        rows_of_metadata += _drawn(metadata["transforms"])
        lines = "".join(f"<tr><td>{html.escape(str(a))}<td>{html.escape(str(b))}" for a, b in rows_of_metadata)
        parts.append(figure(strip(row["images"]), _title(row), f"<table>{lines}</table>"))
    return "".join(parts)
