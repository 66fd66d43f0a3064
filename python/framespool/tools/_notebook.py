"""HTML with frames and metadata, which notebooks show for a `Video`, frames, a batch, a loader or a dataset.

Importing this module adds the method `_repr_html_`, for which notebooks look, to these classes. They are below the
tools, so they cannot refer to this module themselves.
"""

from __future__ import annotations

import base64
import html
import io
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_args

from framespool._common.batch_methods import BatchMethods, described
from framespool._common.validate_args import Dtype, display_repr
from framespool._framespool import Tensor
from framespool.datasets import Dataset
from framespool.errors import Error
from framespool.loaders._base import BaseLoader
from framespool.order._batch_budget import BatchBudget
from framespool.transforms import Resize
from framespool.video._video import FrameBatch, Video

#: Largest side of a frame in pixels, and frames and clips that are shown.
_MAX_SIDE, _MAX_FRAMES, _MAX_CLIPS = 128, 8, 4
#: Types of frames; other tensors of a batch are numbers.
_FRAME_DTYPES = get_args(Dtype)
#: Samples of a dataset that are listed, and up to which its labels are counted.
_MAX_SAMPLES, _MAX_COUNTED = 5, 1_000_000


def batch_html(batch: BatchMethods) -> str:
    """Shows the values of a batch by name, and frames of its first clips.

    Args:
        batch: A `Batch`, an `ImageBatch` or a `SampleBatch`.

    Returns:
        The HTML.
    """
    values = batch.as_dict()
    parts = [each for each in values.values() if isinstance(each, BatchMethods)] or [batch]  # of a `SampleBatch`
    clips: list[Any] = []
    for frames in (next(iter(part.as_dict().values())) for part in parts):
        clips += frames[:_MAX_CLIPS] if hasattr(frames, "__getitem__") and hasattr(frames, "__len__") else []
    properties = [(name, described(value)) for name, value in values.items()]
    return _table(properties) + "".join(_image(_pixels(clip)) for clip in clips)


def tensor_html(tensor: Tensor) -> str:
    """Shows shape, dtype and device of a tensor, and its frames if it has the shape and the type of frames.

    Args:
        tensor: A `Tensor`.

    Returns:
        The HTML.
    """
    properties = [("shape", str(tensor.shape)), ("dtype", tensor.dtype), ("device", tensor.device)]
    if tensor.dtype not in _FRAME_DTYPES or 0 in tensor.shape:
        return _table(properties)
    clips: Any = tensor[:_MAX_CLIPS] if tensor.ndim > 4 else [tensor]
    return _table(properties) + "".join(_image(_pixels(clip)) for clip in clips if clip.ndim in (3, 4, 5))


def frames_html(batch: FrameBatch) -> str:
    """Shows the times of some frames of a video, and some of them.

    Args:
        batch: A `FrameBatch`.

    Returns:
        The HTML.
    """
    properties = [
        ("length", str(len(batch))),
        ("indices", f"{batch.indices[0]} to {batch.indices[-1]}"),
        ("pts_seconds", f"{batch.pts_seconds[0]:.3f} to {batch.pts_seconds[-1]:.3f}"),
    ]
    shape = getattr(batch.frames, "shape", None)
    properties.append(("frames", described(batch.frames)))
    return _table(properties) + (_image(_pixels(batch.frames)) if shape is not None and 0 not in shape else "")


def loader_html(loader: BaseLoader[Any]) -> str:
    """Shows what a loader delivers, its settings and its position; decodes nothing.

    Args:
        loader: A `ClipLoader` or an `ImageLoader`.

    Returns:
        The HTML.
    """
    settings, order, frames = loader._settings, loader._settings["order"], loader._settings["frames"]
    layout = frames["layout"].replace("T", "") if settings["options"]["images"] else frames["layout"]
    views = getattr(loader, "_views", None)
    steps = [type(step).__name__ for step in loader._steps] + [repr(function) for function in loader._functions]
    properties = [
        ("loader", type(loader).__name__),
        ("samples", f"{len(loader.dataset)}, with {loader.num_clips} clips"),
        # Batches limited by pixels or tokens are known when all videos have been opened.
        *(
            [("batches per epoch", f"{len(loader)} of {loader.batch_size}")]
            if not isinstance(loader._plan, BatchBudget)
            else []
        ),
        ("shuffle", f"{loader._order['shuffle']}, seed {loader.seed}"),
        ("shard", f"{order['shard_id']} of {order['num_shards']}"),
        ("transforms", ", ".join(steps) or "none") if views is None else ("views", ", ".join(views.names)),
        (
            "frames",
            f"{layout}, {frames['dtype']}",
        ),
        ("next", "epoch {}, batch {}".format(*loader._position())),
    ]
    if (clip_sampler := getattr(loader, "clip_sampler", None)) is not None:
        properties.insert(2, ("clip sampler", repr(clip_sampler)))
    return _table(properties)


def video_html(video: Video) -> str:
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


def sample_frames(video: Video, most: int) -> tuple[Any, list[int]]:
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
    return (_pixels(video.frames(shown, transforms=[small]).frames) if shown else None), shown


def dataset_html(dataset: Dataset) -> str:
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


_SHOWN: dict[type, Callable[[Any], str]] = {
    Tensor: tensor_html,
    FrameBatch: frames_html,
    Video: video_html,
    BatchMethods: batch_html,
    BaseLoader: loader_html,
    Dataset: dataset_html,
}
for _class, _html in _SHOWN.items():
    _class._repr_html_ = _html  # type: ignore[attr-defined]
