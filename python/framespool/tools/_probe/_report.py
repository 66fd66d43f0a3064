"""A summary as text, HTML and PNG: the same sections with the same histograms."""

from __future__ import annotations

import html
import os
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from framespool._common.format import bytes_text
from framespool.errors import ArgumentError, Error, UnsupportedError
from framespool.loaders._images import decode_images
from framespool.tools import _preview
from framespool.tools._notebook import sample_frames
from framespool.tools._probe._distribution import Distribution
from framespool.tools._probe._notes import clip_text
from framespool.tools._probe._read_files import Examples
from framespool.transforms import CenterCrop, Resize
from framespool.video._video import Video

if TYPE_CHECKING:
    from framespool.tools._probe._probe import DatasetSummary

#: Columns of the text, of the names in it, rows of a histogram, and named failures.
_COLUMNS, _NAME_COLUMNS, _MAX_ROWS, _MAX_FAILURES = 100, 28, 10, 20
#: Side of an image on a contact sheet in pixels, images in a row, and frames of a video.
_SIDE, _IN_A_ROW, _FRAMES = 128, 8, 8
#: Pixels of the PNG: width, height of a line, left edge of the counts and of the bars.
_WIDTH, _LINE, _COUNTS, _BARS = 900, 18, 300, 320


@dataclass(frozen=True)
class _Section:
    """A histogram: its title, what is said about all of it, and (name, count, share of the longest bar)."""

    title: str
    about: str
    rows: list[tuple[str, int, float]]


def _section(title: str, about: str, rows: Sequence[tuple[str, int]], *others: tuple[str, int]) -> _Section:
    """A section; `others` have no bar, which would be the longest."""
    most = max(count for _, count in rows)
    bars = [(name, count, count / most) for name, count in rows]
    return _Section(title, about, bars + [(name, count, 0.0) for name, count in others])


def _title(summary: DatasetSummary) -> str:
    samples, files = summary.num_samples, summary.num_files
    text = f"{samples:,} {'sample' if samples == 1 else 'samples'} in {files:,} {'file' if files == 1 else 'files'}"
    if summary.num_files_read < files:
        text += f"; {summary.num_files_read:,} of the files were read, a random subset"
    return text


def _overview(summary: DatasetSummary) -> list[tuple[str, str]]:
    """What is known about all files that were read."""
    rows = []
    share = summary.num_files / summary.num_files_read
    about = "" if share == 1 else ", about {} in all files"
    if summary.durations is not None:
        seconds = summary.total_seconds
        rows.append(("duration", _time(seconds) + about.format(_time(seconds * share))))
        rows.append(("frames", f"{summary.num_frames:,}" + about.format(f"{round(summary.num_frames * share):,}")))
    if summary.num_bytes:
        rows.append(("size", bytes_text(summary.num_bytes) + about.format(bytes_text(summary.num_bytes * share))))
    if summary.packets_per_clip is not None:
        clip = clip_text(summary.sequence_length, summary.stride)
        text = f"{clip}: {summary.packets_per_clip:.0f} packets read"
        if summary.frames_per_clip is not None and summary.bytes_per_clip is not None:
            text += f" ({bytes_text(summary.bytes_per_clip)}), {summary.frames_per_clip:.0f} frames decoded"
        rows.append(("random clip", text))
    if summary.skippable_share:
        rows.append(("skippable", f"{summary.skippable_share:.0%} of the pictures, decoded only for clips with them"))
    rows.append(("unreadable", f"{len(summary.failures):,} of {summary.num_files_read:,} files"))
    return rows


def _sections(summary: DatasetSummary) -> list[_Section]:
    found = [
        _of_numbers("duration in seconds", summary.durations),
        _of_numbers("duration of segments in seconds", summary.segment_durations),
        _of_names("frame size", summary.frame_sizes),
        # Only what is not usual: square pixels, and whole frames.
        _of_names(
            "display size", {} if set(summary.display_sizes) <= set(summary.frame_sizes) else summary.display_sizes
        ),
        _of_names("bucket, of the clips of an epoch", summary.buckets),
        _of_names("field order", {} if set(summary.field_orders) <= {"progressive"} else summary.field_orders),
        _of_names("frames per second", summary.frame_rates),
        _of_names("codec", summary.codecs),
        _of_names("pixel format", summary.pixel_formats),
        _of_names("color: primaries, transfer, matrix", summary.colors),
        _of_names("container", summary.containers),
        _of_names("stream of files with several videos", summary.streams),
        _of_names("image format", summary.image_formats),
        _of_numbers("frames from keyframe to keyframe (GOP)", summary.gop_lengths),
        _of_names("class", summary.classes),
    ]
    return [section for section in found if section is not None]


def _of_numbers(title: str, numbers: Distribution | None) -> _Section | None:
    if numbers is None:
        return None
    about = f"{_n(numbers.min)} to {_n(numbers.max)}, median {_n(numbers.median)}, mean {_n(numbers.mean)}"
    # Few files of different kinds leave most intervals empty.
    return _section(title, about, [(f"{_n(low)} to {_n(high)}", count) for low, high, count in numbers.bins if count])


def _of_names(title: str, counts: Mapping[Any, int]) -> _Section | None:
    if not counts:
        return None
    rows = [(_n(name) if isinstance(name, float) else str(name), count) for name, count in counts.items()]
    # A single row for the rest would save nothing.
    shown, rest = (rows, []) if len(rows) <= _MAX_ROWS + 1 else (rows[:_MAX_ROWS], rows[_MAX_ROWS:])
    others = [(f"{len(rest)} others", sum(count for _, count in rest))] if rest else []
    return _section(title, f"{len(rows)} different" if len(rows) > 1 else "", shown, *others)


def _n(number: float) -> str:
    """A number for people: 2,000 for 2000.0, 29.97, 0.5."""
    return f"{number:.4g}" if abs(number) < 1000 else f"{number:,.0f}"


def _time(seconds: float) -> str:
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:.1f} s"


def _failures(summary: DatasetSummary) -> list[str]:
    lines = [failure["message"] for failure in summary.failures[:_MAX_FAILURES]]
    more = len(summary.failures) - len(lines)
    return [*lines, f"{more} more in summary.failures"] if more else lines


def text_report(summary: DatasetSummary) -> str:
    """The report for a terminal.

    Args:
        summary: The summary.

    Returns:
        Lines of at most 100 columns.
    """
    lines = [_title(summary)]
    overview = _overview(summary)
    lines += [f"  {name:<{max(len(name) for name, _ in overview)}}  {value}" for name, value in overview]
    for section in _sections(summary):
        lines += ["", section.title + (f": {section.about}" if section.about else "")]
        total = sum(count for _, count, _ in section.rows)
        names = [_shortened(name) for name, _, _ in section.rows]
        wide, digits = max(map(len, names)), max(len(f"{count:,}") for _, count, _ in section.rows)
        room = _COLUMNS - wide - digits - 12
        for name, (_, count, share) in zip(names, section.rows, strict=True):
            bar = "#" * (max(1, round(room * share)) if share else 0)
            lines.append(f"  {name:>{wide}}  {count:>{digits},}  {count / total:>4.0%}  {bar}".rstrip())
    for title, sentences in (("notes", summary.notes), ("files that cannot be read", _failures(summary))):
        if sentences:
            lines += ["", title]
        for sentence in sentences:
            lines += textwrap.wrap(
                sentence, _COLUMNS, initial_indent="  - ", subsequent_indent="    ", break_on_hyphens=False
            )
    return "\n".join(lines)


def _shortened(name: str) -> str:
    name = " ".join(name.split())
    return name if len(name) <= _NAME_COLUMNS else name[: _NAME_COLUMNS - 1] + "…"


def html_report(summary: DatasetSummary) -> str:
    """The report for a page or a notebook.

    Args:
        summary: The summary.

    Returns:
        HTML.
    """
    cell = "style='text-align:left;padding:0 1em 0 0'"
    rows = [
        f"<tr><td {cell}>{name}</td><td {cell}>{html.escape(value)}</td></tr>" for name, value in _overview(summary)
    ]
    parts = [f"<p><b>{html.escape(_title(summary))}</b></p><table>{''.join(rows)}</table>"]
    for section in _sections(summary):
        rows = [
            f"<tr><td {cell}>{html.escape(name)}</td><td style='text-align:right;padding:0 1em 0 0'>{count:,}</td>"
            f"<td {cell}><div style='background:#2f6fb2;height:.8em;width:{300 * share:.0f}px'></div></td></tr>"
            for name, count, share in section.rows
        ]
        about = f": {html.escape(section.about)}" if section.about else ""
        parts.append(f"<p><b>{html.escape(section.title)}</b>{about}</p><table>{''.join(rows)}</table>")
    for title, sentences in (("notes", summary.notes), ("files that cannot be read", _failures(summary))):
        if sentences:
            items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences)
            parts.append(f"<p><b>{title}</b></p><ul>{items}</ul>")
    return "\n".join(parts)


def save_report(summary: DatasetSummary, examples: Examples, path: str | os.PathLike[str]) -> None:
    """Implements `DatasetSummary.save()`.

    Args:
        summary: The summary.
        examples: Files to show.
        path: The file.

    Raises:
        ArgumentError: If `path` has another ending.
        UnsupportedError: If a PNG is requested, and NumPy or Pillow is not installed.
    """
    place = os.fspath(path)
    ending = place.rpartition(".")[2].lower()
    if ending not in ("png", "html"):
        raise ArgumentError(f"path must end in .png or .html, got {place!r}")
    try:
        import numpy
        from PIL import Image
    except ImportError as error:
        if ending == "png":
            raise UnsupportedError(
                f"a PNG needs NumPy and Pillow ({error}); pip install numpy pillow, or save a page (.html)"
            ) from error
        strips = []
    else:
        del numpy, Image
        strips = _strips(examples)
    if ending == "png":
        _png(summary, strips).save(place, format="PNG")
        return
    with open(place, "w", encoding="utf-8", errors="replace") as file:
        file.write(_preview.page_head("framespool: summary of a dataset"))
        file.write(html_report(summary))
        file.writelines(_preview.figure(strip, title) for strip, title in strips)


def _strips(examples: Examples) -> list[tuple[Any, str]]:
    """Rows of a contact sheet with their titles: one per video, and rows of images."""
    import numpy as np

    strips = []
    for source in examples.videos:
        try:
            video = Video(source, num_threads=1, stream=examples.stream, index=examples.index, hdr="ignore")
            frames, shown = sample_frames(video, _FRAMES)
        except Error:
            continue  # a frame is damaged, although the container can be read
        if frames is not None:
            which = ", ".join(map(str, shown))
            strips.append((_preview.strip(frames[None]), f"{os.path.basename(video.info.path)}   frames {which}"))
    square = [Resize(_SIDE), CenterCrop(_SIDE)]
    made = decode_images(examples.images, transforms=square, exact=False, layout="HWC", on_error="return")
    squares = [image.numpy() for image in made if not isinstance(image, Exception)]
    for begin in range(0, len(squares), _IN_A_ROW):
        row = np.stack(squares[begin : begin + _IN_A_ROW])
        strips.append((_preview.strip(row[None]), f"{len(row)} images, cropped to squares"))
    return strips


def _png(summary: DatasetSummary, strips: list[tuple[Any, str]]) -> Any:
    """The report as an image: the histograms, the notes, and the contact sheet below them."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(13)
    #: Text and its column in pixels, and the share of the longest bar.
    lines: list[tuple[list[tuple[int, str]], float]] = [([(10, _title(summary))], 0.0)]
    lines += [([(30, name), (150, value)], 0.0) for name, value in _overview(summary)]
    for section in _sections(summary):
        lines += [([], 0.0), ([(10, section.title + (f": {section.about}" if section.about else ""))], 0.0)]
        lines += [([(30, _shortened(name)), (-_COUNTS, f"{count:,}")], share) for name, count, share in section.rows]
    for title, sentences in (("notes", summary.notes), ("files that cannot be read", _failures(summary))):
        if sentences:
            lines += [([], 0.0), ([(10, title)], 0.0)]
        for sentence in sentences:
            lines += [([(30, line)], 0.0) for line in textwrap.wrap(sentence, 120)]
    sheet = _preview.sheet(strips) if strips else None
    top = _LINE * len(lines) + 20
    size = (max(_WIDTH, sheet.width if sheet else 0), top + (sheet.height if sheet else 0))
    image = Image.new("RGB", size, _preview.PAPER)
    draw = ImageDraw.Draw(image)
    for row, (texts, share) in enumerate(lines):
        y = 10 + _LINE * row
        for x, text in texts:
            left = x if x >= 0 else -x - draw.textlength(text, font=font)  # a negative one is the right edge
            draw.text((left, y), text, fill=_preview.TEXT, font=font)
        if share:
            right = _BARS + max(1, share * (_WIDTH - _BARS - 20))
            draw.rectangle((_BARS, y + 2, right, y + _LINE - 5), fill=(47, 111, 178))
    if sheet:
        image.paste(sheet, (0, top))
    return image
