"""HTML with frames and metadata, which notebooks show for a `Video`, a batch or a dataset."""

from __future__ import annotations

import base64
import html
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from framespool._validate_args import display_repr
from framespool.errors import Error
from framespool.transforms import Resize

#: Largest side of a frame in pixels, and frames and clips that are shown.
_MAX_SIDE, _MAX_FRAMES, _MAX_CLIPS = 128, 8, 4
#: Samples of a dataset that are listed, and up to which its labels are counted.
_MAX_SAMPLES, _MAX_COUNTED = 5, 1_000_000


def batch_html(properties: Iterable[tuple[str, str]], frames: Any) -> str:
    """Shows the values of a batch by name, and frames of its first clips.

    Args:
        properties: Name and description of each value.
        frames: The frames or images.

    Returns:
        The HTML.
    """
    clips = frames[:_MAX_CLIPS] if hasattr(frames, "__getitem__") and hasattr(frames, "__len__") else []
    return _table(properties) + "".join(_image(_pixels(clip)) for clip in clips)


def video_html(video: Any) -> str:
    """Shows the metadata of a video and some of its frames, evenly spread.

    Args:
        video: A `Video`.

    Returns:
        The HTML.
    """
    info = video.info
    properties = [
        ("path", info.path),
        ("codec", f"{info.codec} in {info.container}"),
        ("size", f"{info.width}x{info.height}"),
        ("frames", f"{info.num_frames}, {info.average_fps:.3f} per second"),
        ("duration", f"{info.end_seconds - info.begin_seconds:.3f} s"),
        ("keyframes", str(len(info.keyframes))),
    ]
    try:
        frames, _ = sample_frames(video, _MAX_FRAMES)
    except Error as error:
        return _table([*properties, ("error", str(error))])
    return _table(properties) + _image(frames)


def sample_frames(video: Any, most: int) -> tuple[Any, list[int]]:
    """Some small frames of a video, evenly spread.

    Args:
        video: A `Video`.
        most: Number of frames, if the video has as many.

    Returns:
        The frames (T, H, W, 3) as an array of NumPy, `None` without NumPy or if there are none, and their indices.

    Raises:
        Error: If a frame cannot be decoded.
    """
    info = video.info
    shrink = max(1.0, max(info.width, info.height) / _MAX_SIDE)
    small = Resize((max(1, round(info.height / shrink)), max(1, round(info.width / shrink))))
    count = min(most, len(video))
    shown = [place * (len(video) - 1) // max(1, count - 1) for place in range(count)]
    return (_pixels(video.frames(shown, transforms=[small]).data) if shown else None), shown


def dataset_html(dataset: Any) -> str:
    """Shows the size, classes and columns of a dataset, and its first samples.

    Args:
        dataset: A `Dataset`.

    Returns:
        The HTML.
    """
    properties = [("samples", str(len(dataset)))]
    if dataset.classes and len(dataset) <= _MAX_COUNTED:
        counts = Counter(label for _, label in dataset)
        shown = [f"{name} {counts[label]}" for label, name in enumerate(dataset.classes[:20])]
        more = f", and {len(dataset.classes) - 20} more" if len(dataset.classes) > 20 else ""
        properties.append((f"{len(dataset.classes)} classes", ", ".join(shown) + more))
    properties += [(f"column {name}", repr(values[:_MAX_SAMPLES])[:200]) for name, values in dataset.columns.items()]
    properties += [
        (f"sample {place}", display_repr(dataset[place])[:200]) for place in range(min(_MAX_SAMPLES, len(dataset)))
    ]
    return _table(properties)


def _table(properties: Iterable[tuple[str, str]]) -> str:
    rows = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th><td style='text-align:left'>{html.escape(value)}</td>"
        "</tr>"
        for name, value in properties
    )
    return f"<table>{rows}</table>"


def _pixels(clip: Any) -> Any:
    """Returns some frames of a clip as (T, H, W, 3) uint8; `None` if they cannot be shown."""
    try:
        import numpy as np
    except ImportError:
        return None
    if hasattr(clip, "detach"):
        clip = clip.detach().cpu()
        clip = clip.float() if clip.is_floating_point() else clip
    elif hasattr(clip, "cpu"):
        clip = clip.cpu()
    if str(getattr(clip, "dtype", "")) == "bfloat16":
        return None  # NumPy has none
    array = np.asarray(clip)
    array = array[0] if array.ndim == 5 else array  # the first of several views
    forward = _channels_last(array.shape)
    if forward is None:
        return None
    array = array.transpose(forward)
    array = array[None] if array.ndim == 3 else array
    array = array[np.linspace(0, len(array) - 1, min(_MAX_FRAMES, len(array))).round().astype(int)]
    if array.dtype == "uint8":
        return array
    if array.dtype == "uint16":
        return (array >> 8).astype("uint8")
    array = array.astype("float32")
    low, high = (0.0, 1.0) if array.min() >= 0 and array.max() <= 1 else (float(array.min()), float(array.max()))
    return ((array - low) / max(high - low, 1e-6) * 255).round().astype("uint8")


def _channels_last(shape: Sequence[int]) -> tuple[int, ...] | None:
    """Returns the order of dimensions that puts the three channels last; `None` if there are none.

    A batch does not know its layout. The default one comes first where several are possible.
    """
    places = {4: (1, 3, 0), 3: (0, 2)}.get(len(shape), ())
    for place in places:
        if shape[place] == 3:
            return (*(axis for axis in range(len(shape)) if axis != place), place)
    return None


def _image(frames: Any) -> str:
    """Shows frames side by side; nothing without Pillow."""
    try:
        from PIL import Image
    except ImportError:
        return ""
    if frames is None or not frames.size:
        return ""
    height, width = frames.shape[1:3]
    shrink = max(1.0, max(height, width) / _MAX_SIDE)
    size = (max(1, round(width / shrink)), max(1, round(height / shrink)))
    strip = Image.new("RGB", (len(frames) * (size[0] + 2) - 2, size[1]), (255, 255, 255))
    for place, frame in enumerate(frames):
        strip.paste(Image.fromarray(frame).resize(size, Image.Resampling.BOX), (place * (size[0] + 2), 0))
    held = io.BytesIO()
    strip.save(held, format="PNG")
    return f'<img src="data:image/png;base64,{base64.b64encode(held.getvalue()).decode()}"><br>'
