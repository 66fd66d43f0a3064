"""The page that the demo writes: one HTML file without external resources."""

from __future__ import annotations

import base64
import html
import io
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import framespool as fsp
import numpy as np
import ways
from choose import Choice
from PIL import Image

_HERE = Path(__file__).resolve().parent
_SHOWN_CLIPS, _SHOWN_FRAMES, _SHOWN_FAILURES = 4, 8, 20
#: Below this the page states that there is no gain.
_LEAST_GAIN = 1.2

_NOTES = (
    "opens the file, seeks and decodes for each clip",
    "<code>shuffle=True</code>: decodes a GOP once for all clips of an epoch that need it",
    f"<code>disk=</code>: decodes a video once for {ways.DISK_EPOCHS} epochs",
)

_CODE = """import framespool as fsp
from framespool.transforms import CenterCrop, RandomHorizontalFlip, Resize

loader = fsp.ClipLoader(
    fsp.datasets.folder({folder}),
    fsp.samplers.RandomClips(
        sequence_length={frames}, stride={stride}, clips_per_video={clips}
    ),
    batch_size={batch},
    transforms=[Resize(128), CenterCrop({size}), RandomHorizontalFlip()],
    shuffle=True,
    cache=fsp.Cache(disk="clips", disk_size="1GiB", epochs={epochs}),
)
for batch in loader:
    # ({batch}, {frames}, 3, {size}, {size}) uint8, ({batch},) int64
    frames, labels = batch.torch()"""


@dataclass
class Results:
    """What the demo found.

    Attributes:
        folder: Folder of the videos.
        choice: The videos that were used.
        num_threads: Threads of each way.
        ways: The three ways.
        clips: Frames of the first one.
        credit: Author and license of the videos, if known.
    """

    folder: Path
    choice: Choice
    num_threads: int
    ways: list[ways.Way]
    clips: ways.Clips
    credit: str = ""

    @property
    def equal(self) -> bool:
        """Whether the ways delivered the same frames."""
        return bool(self.clips) and not any(way.differences for way in self.ways)

    @property
    def gain(self) -> float:
        """How many times less CPU time the best loader takes than the first way."""
        return max(self.times_less(way) for way in self.ways[1:])

    def times_less(self, way: ways.Way) -> float:
        """How many times less CPU time a way takes than the first."""
        return self.ways[0].cpu_ms_per_clip / max(1e-9, way.cpu_ms_per_clip)


def headline(results: Results) -> str:
    """The result in one line."""
    if not results.equal:
        return "The frames of the three ways differ"
    if results.gain < _LEAST_GAIN:
        return "No less CPU time on these videos"
    return f"The same clips for {results.gain:.1f} times less CPU time"


def checks(results: Results) -> list[tuple[str, str]]:
    """What was checked.

    Args:
        results: The results.

    Returns:
        `"passed"` or `"failed"`, and a sentence, each.
    """
    found = []
    frames = sum(way.num_clips for way in results.ways[1:]) * ways.FRAMES
    if results.equal:
        found.append(("passed", f"{frames:,} frames of the two loaders equal those read clip by clip, byte for byte"))
        found.append(("passed", f"Each loader delivered all {len(results.clips)} clips, each once"))
    for way in results.ways:
        found += [("failed", f"{way.name}: {text}") for text in way.differences[:_SHOWN_FAILURES]]
    if not results.clips:
        found.append(("failed", "No clip could be decoded"))
    return found


def skipped(results: Results) -> list[str]:
    """Names the files that were skipped, completely or in part, with the reason.

    Args:
        results: The results.

    Returns:
        A line for each.
    """
    partly = {path: text for way in results.ways[::-1] for path, text in way.failures.items()}
    named = [(path, path, text) for path, text in results.choice.failures.items()]
    named += [(path, f"clips of {path}", text) for path, text in partly.items()]
    return [f"{what}: {text.removeprefix(path).lstrip(':, ')}" for path, what, text in named]


def used(choice: Choice) -> str:
    """Which part of the videos was used."""
    count = f"{len(choice.dataset)} of {choice.num_found} videos" if choice.num_found > 1 else "1 video"
    if len(choice.dataset) + len(choice.failures) == choice.num_found:
        return count
    return f"{count}, chosen at random, so that the demo ends soon"


def _image(frame: np.ndarray) -> str:
    held = io.BytesIO()
    Image.fromarray(frame).save(held, format="JPEG", quality=88)
    data = base64.b64encode(held.getvalue()).decode()
    return f'<img alt="" width="{ways.SIZE}" height="{ways.SIZE}" src="data:image/jpeg;base64,{data}">'


def _sheet(results: Results) -> str:
    """The first clip of different videos, of different classes if there are."""
    loader = ways.make_loader(results.choice.dataset, 1)
    plans = [(key, loader.describe_clip(key[1], epoch=key[0])) for key in results.clips]
    by_label = {plan["label"]: (key, plan) for key, plan in plans}
    by_video = {plan["video_id"]: (key, plan) for key, plan in plans}
    shown: dict[int, Any] = {}
    for key, plan in [*by_label.values(), *by_video.values()]:
        shown.setdefault(plan["video_id"], (key, plan))
    classes, parts = results.choice.dataset.classes, []
    for key, plan in list(shown.values())[:_SHOWN_CLIPS]:
        name = f"<b>{html.escape(classes[plan['label']])}</b> · " if classes and plan["label"] >= 0 else ""
        at = np.linspace(0, ways.FRAMES - 1, _SHOWN_FRAMES).round().astype(int)
        where = f"{html.escape(Path(plan['path']).name)}, frames {plan['indices'][0]} to {plan['indices'][-1]}"
        images = "".join(_image(results.clips[key][each]) for each in at)
        parts.append(
            f'<figure class="clip"><figcaption>{name}{where}</figcaption><div class="frames">{images}</div></figure>'
        )
    return "\n".join(parts)


def _bars(results: Results) -> str:
    most = max(way.cpu_ms_per_clip for way in results.ways) or 1.0
    rows = []
    for way, note in zip(results.ways, _NOTES, strict=True):
        # The longest bar leaves room for its value.
        width = 80 * way.cpu_ms_per_clip / most
        rows.append(
            f'<div class="bar"><div><div class="name">{way.name}</div><div class="note">{note}</div></div>'
            f'<div class="track"><div class="fill" style="width:{width:.1f}%"></div>'
            f'<div class="value">{way.cpu_ms_per_clip:.1f} ms</div></div></div>'
        )
    return "\n".join(rows)


def _skipped(results: Results) -> str:
    lines = skipped(results)
    if not lines:
        return ""
    more = [f"and {len(lines) - _SHOWN_FAILURES} more"] if len(lines) > _SHOWN_FAILURES else []
    items = "".join(f"<li>{html.escape(line)}</li>" for line in [*lines[:_SHOWN_FAILURES], *more])
    return f'<h2>Skipped</h2>\n<p>No way delivered these files or clips:</p>\n<ul class="skipped">{items}</ul>'


def _numbers(results: Results, alone: float) -> str:
    rows = []
    for way in results.ways:
        decoded = f"{alone:.2f} *" if way.decoded_per_frame is None else f"{way.decoded_per_frame:.2f}"
        cells = (way.name, f"{way.cpu_ms_per_clip:.1f}", f"{way.clips_per_second:.1f}", decoded)
        rows.append("<tr>" + "".join(f"<td>{cell}" for cell in cells) + "</tr>")
    return "\n".join(rows)


def _commands(folder: str) -> str:
    quoted = shlex.quote(folder)
    commands = {
        "make demo VIDEOS=folder": "this page for your videos",
        f".venv/bin/framespool probe {quoted}": "what a dataset contains, and what will be slow",
        f".venv/bin/framespool preview {quoted}": "a contact sheet of the clips of a training run",
        f".venv/bin/framespool validate {quoted}": "files that cannot be decoded",
    }
    return "\n".join(
        f'<p class="command"><code>{html.escape(command)}</code><span class="small">{purpose}</span></p>'
        for command, purpose in commands.items()
    )


def _counts(found: Mapping[Any, int]) -> str:
    return ", ".join(f"{count} × {name}" if len(found) > 1 else str(name) for name, count in list(found.items())[:5])


def _properties(results: Results, summary: fsp.tools.DatasetSummary) -> str:
    pairs = {
        "folder": str(results.folder),
        "used": used(results.choice),
        "duration": f"{summary.total_seconds / 60:.1f} minutes, {summary.num_frames:,} frames",
        "size": f"{summary.num_bytes / 1e6:.1f} MB",
        "codec": _counts(summary.codecs),
        "frame size": _counts(summary.frame_sizes),
        "frames per second": _counts(summary.frame_rates),
    }
    if (gops := summary.gop_lengths) is not None:
        pairs["frames from keyframe to keyframe"] = f"{gops.min} to {gops.max}, mean {gops.mean:.0f}"
    if results.choice.dataset.classes:
        pairs["classes"] = ", ".join(f"{name} ({count})" for name, count in summary.classes.items())
    return "\n".join(f"<tr><td>{name}<td>{html.escape(value)}</tr>" for name, value in pairs.items())


def _why(results: Results, alone: float) -> str:
    text = (
        f"Decoding can start only at a keyframe. A random clip of these videos needs {alone * ways.FRAMES:.0f} decoded "
        f"frames on average to deliver {ways.FRAMES}. The loader knows which clips come next, and decodes the frames "
        "that several of them need once. Clip by clip is measured with framespool's own <code>Video</code>, which "
        "already skips pictures that no requested frame depends on. The gain grows with the distance between keyframes "
        "and with the number of clips per video."
    )
    if results.gain < _LEAST_GAIN:
        text += " Clips of these videos hardly share frames: few are taken of each GOP."
    return text


def write_page(results: Results, path: Path) -> None:
    """Writes the page.

    Args:
        results: The results.
        path: The file.
    """
    dataset, (_, second, last) = results.choice.dataset, results.ways
    summary = fsp.tools.probe(dataset, sequence_length=ways.FRAMES, stride=ways.STRIDE)
    # Frames decoded per frame of a clip by itself.
    alone = (summary.frames_per_clip or 0.0) / ways.FRAMES
    num_skipped = len(skipped(results))
    code = _CODE.format(
        epochs=ways.DISK_EPOCHS,
        folder=repr(str(results.folder)),
        frames=ways.FRAMES,
        stride=ways.STRIDE,
        clips=ways.CLIPS_PER_VIDEO,
        batch=ways.BATCH_SIZE,
        size=ways.SIZE,
    )
    values = {
        "when": time.strftime("%Y-%m-%d"),
        "icon": (_HERE.parent / "docs" / "figures" / "icon.svg").read_text().strip(),
        "headline": headline(results),
        "lede": (
            f"{len(results.clips)} random clips of {ways.FRAMES} frames from {len(dataset)} videos, made three times: "
            "by opening a file for each clip, by framespool's loader, and by the loader with a disk cache."
            + (f" Damaged files are skipped and named below: {num_skipped}." if num_skipped else "")
        ),
        "bars_label": "; ".join(f"{way.name}: {way.cpu_ms_per_clip:.1f} ms" for way in results.ways),
        "bars": _bars(results),
        "caption": (
            "CPU time per delivered clip, in ms; shorter is better. The loader takes "
            f"{results.times_less(second):.1f} times less, with the disk cache "
            f"{results.times_less(last):.1f} times less. Before, {last.filling_cpu_seconds:.1f} CPU seconds filled it."
        ),
        "checks": "\n".join(f'<li class="{kind}">{html.escape(text)}</li>' for kind, text in checks(results)),
        "skipped": _skipped(results),
        "sheet_note": (
            f"Clips of {ways.FRAMES} frames, {ways.STRIDE} apart, {ways.SIZE}x{ways.SIZE} pixels. Position and flip "
            "are random. Every second frame is shown."
        ),
        "sheet": _sheet(results),
        "numbers": _numbers(results, alone),
        "numbers_note": (
            f"{results.choice.num_epochs} epochs of {ways.CLIPS_PER_VIDEO} clips per video, {results.num_threads} "
            f"threads. With the disk cache, the {ways.DISK_EPOCHS} epochs that fill it come first; they took "
            f"{last.filling_cpu_seconds:.1f} CPU seconds, which the table does not include, and "
            f"{last.disk_bytes / 1e6:.0f} MB on disk. Clips per second depend on what else the machine does. "
            "* Expected: the mean over all positions of a clip."
        ),
        "why": _why(results, alone),
        "code": html.escape(code),
        "commands": _commands(str(results.folder)),
        "properties": _properties(results, summary),
        "advice": "\n".join(f'<p class="small">{html.escape(note)}</p>' for note in summary.notes),
        "footer": html.escape(f"framespool {fsp.__version__}. {results.credit}"),
    }
    path.write_text(Template((_HERE / "page.html").read_text()).substitute(values), encoding="utf-8")
