"""Shared by the three programs: images as planes, their exact RGB, lossless files of them, difference counts.

Nothing here uses framespool's arithmetic. Exact RGB is the formula of ITU-R BT.601, BT.709 or BT.2020 (non-constant
luminance) in float64, with each chroma sample repeated over the pixels that it covers.
"""

from __future__ import annotations

import io
import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import av
import numpy as np
from av.video.reformatter import ColorRange, Colorspace, Interpolation

#: Kr, Kb.
WEIGHTS = {"BT.601": (0.299, 0.114), "BT.709": (0.2126, 0.0722), "BT.2020": (0.2627, 0.0593)}
#: Code points of ITU-T H.273 table 4 for these matrices; 2 is "unspecified", for which framespool uses BT.601.
MATRIX_OF_TAG = {1: "BT.709", 2: "BT.601", 5: "BT.601", 6: "BT.601", 9: "BT.2020"}
TAG_OF_MATRIX = {"BT.601": 5, "BT.709": 1, "BT.2020": 9}
SWSCALE_MATRIX = {"BT.601": Colorspace.ITU601, "BT.709": Colorspace.ITU709, "BT.2020": Colorspace.BT2020}
FULL_RANGE_TAG = int(ColorRange.JPEG)
LIMITED_RANGE_TAG = int(ColorRange.MPEG)

#: log2 of the pixels that a chroma sample covers, horizontally and vertically; None: no chroma.
CHROMA = {"4:2:0": (1, 1), "4:2:2": (1, 0), "4:4:4": (0, 0), "4:0:0": None}

#: Flags of libswscale: PyAV's default, and the same with its shortcuts disabled.
PLAIN = Interpolation.BILINEAR
CAREFUL = (
    Interpolation.BILINEAR
    | Interpolation.ACCURATE_RND
    | Interpolation.FULL_CHR_H_INT
    | Interpolation.FULL_CHR_H_INP
    | Interpolation.BITEXACT
)


@dataclass(frozen=True)
class Picture:
    """Planes of code values, with their matrix, range and depth."""

    planes: tuple[np.ndarray, ...]
    chroma: str
    depth: int
    matrix: str
    full_range: bool

    @property
    def size(self) -> tuple[int, int]:
        """(height, width)."""
        return self.planes[0].shape

    @property
    def pix_fmt(self) -> str:
        name = "gray" if self.chroma == "4:0:0" else f"yuv{self.chroma.replace(':', '')}p"
        return name if self.depth == 8 else f"{name}{self.depth}le"


def corpus() -> Path:
    place = os.environ.get("FRAMESPOOL_CORPUS")
    if not place or not (Path(place) / "manifest.json").is_file():
        raise SystemExit(f"no corpus{f' at {place}' if place else ''}: set FRAMESPOOL_CORPUS to its folder")
    return Path(place)


# Formats and files


def picture_of(frame: av.VideoFrame) -> Picture:
    """The planes of a decoded frame, without alpha."""
    parts = frame.format.components
    depth = parts[0].bits
    if frame.format.is_rgb or len(parts) == 2:
        raise ValueError(f"pixel format {frame.format.name} is not Y or YUV")
    planes = []
    for plane in frame.planes[: 3 if len(parts) >= 3 else 1]:
        rows = np.frombuffer(plane, np.uint8)[: plane.height * plane.line_size].reshape(plane.height, plane.line_size)
        planes.append(rows.view(np.uint8 if depth == 8 else "<u2")[:, : plane.width].copy())
    chroma = "4:0:0"
    if len(planes) == 3:
        halved = tuple(a != b for a, b in zip(planes[0].shape, planes[1].shape, strict=True))
        chroma = {(True, True): "4:2:0", (False, True): "4:2:2", (False, False): "4:4:4"}[halved]
    full_range = frame.color_range == FULL_RANGE_TAG or frame.format.name.startswith("yuvj")
    return Picture(tuple(planes), chroma, depth, MATRIX_OF_TAG[frame.colorspace], full_range)


def read_picture(path: Path, index: int) -> Picture:
    """The frame at `index`, by decoding from the start."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        for place, frame in enumerate(container.decode(stream)):
            if place == index:
                return picture_of(frame)
    raise ValueError(f"{path} has no frame {index}")


def frame_of(picture: Picture) -> av.VideoFrame:
    height, width = picture.size
    frame = av.VideoFrame(width, height, picture.pix_fmt)
    for plane, samples in zip(frame.planes, picture.planes, strict=True):
        rows = np.zeros((plane.height, plane.line_size), np.uint8)
        raw = np.ascontiguousarray(samples, np.uint8 if picture.depth == 8 else "<u2").view(np.uint8)
        rows[:, : raw.shape[1]] = raw
        plane.update(rows)
    frame.colorspace = TAG_OF_MATRIX[picture.matrix]
    frame.color_range = FULL_RANGE_TAG if picture.full_range else LIMITED_RANGE_TAG
    return frame


def lossless(pictures: Sequence[Picture]) -> bytes:
    """A Matroska file of FFV1 with the color tags set; read back and compared, tags included."""
    first = pictures[0]
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="matroska") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.height, stream.width = first.size
        stream.pix_fmt = first.pix_fmt
        for time, picture in enumerate(pictures):
            frame = frame_of(picture)
            stream.codec_context.colorspace = frame.colorspace
            stream.codec_context.color_range = frame.color_range
            frame.pts = time
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    with av.open(io.BytesIO(buffer.getvalue())) as container:
        back = [picture_of(frame) for frame in container.decode(video=0)]
        context = container.streams.video[0].codec_context
        tags = (MATRIX_OF_TAG[context.colorspace], context.color_range == FULL_RANGE_TAG)
    for put, got in zip(pictures, back, strict=True):
        same = all(np.array_equal(a, b) for a, b in zip(put.planes, got.planes, strict=True))
        if not same or replace(put, planes=()) != replace(got, planes=()) or tags != (put.matrix, put.full_range):
            raise RuntimeError(f"the file differs from its input: {replace(put, planes=())}, tags {tags}")
    return buffer.getvalue()


# Arithmetic


def cover(samples: np.ndarray, log2: tuple[int, int], size: tuple[int, int]) -> np.ndarray:
    """Each sample repeated over the 2^log2[0] x 2^log2[1] (horizontal, vertical) pixels that it covers."""
    return samples.repeat(1 << log2[1], axis=0)[: size[0]].repeat(1 << log2[0], axis=1)[:, : size[1]]


def components(picture: Picture) -> tuple[np.ndarray, ...]:
    """Y from 0 to 1 and, each at its own resolution, Cb and Cr from -0.5 to 0.5, for colors within the range."""
    top = (1 << picture.depth) - 1
    unit = 1 << (picture.depth - 8)
    black, luma, chroma = (0, top, top) if picture.full_range else (16 * unit, 219 * unit, 224 * unit)
    half = 1 << (picture.depth - 1)
    return (
        (picture.planes[0] - np.float64(black)) / luma,
        *((plane - np.float64(half)) / chroma for plane in picture.planes[1:]),
    )


def rgb_of(y: np.ndarray, cb: np.ndarray, cr: np.ndarray, matrix: str) -> np.ndarray:
    """R, G, B in 8-bit code values, neither rounded nor clipped."""
    kr, kb = WEIGHTS[matrix]
    rgb = np.empty((*y.shape, 3))
    rgb[..., 0] = y + 2 * (1 - kr) * cr
    rgb[..., 1] = y - (2 * kb * (1 - kb) * cb + 2 * kr * (1 - kr) * cr) / (1 - kr - kb)
    rgb[..., 2] = y + 2 * (1 - kb) * cb
    rgb *= 255
    return rgb


def exact_rgb(picture: Picture) -> np.ndarray:
    """The formula in float64, chroma repeated; neither rounded nor clipped."""
    y, *chroma = components(picture)
    if not chroma:
        return (255 * y)[..., None].repeat(3, axis=2)
    return rgb_of(y, *(cover(c, CHROMA[picture.chroma], y.shape) for c in chroma), picture.matrix)


def between(samples: np.ndarray, axis: int, centered: bool) -> np.ndarray:
    """Doubles the resolution along the axis by linear interpolation; the ends are repeated.

    A centered sample is between two pixels, any other one at the first of the two.
    """
    samples = np.moveaxis(samples, axis, 0)
    before = np.concatenate([samples[:1], samples[:-1]])
    after = np.concatenate([samples[1:], samples[-1:]])
    pair = (3 * samples + before, 3 * samples + after) if centered else (4 * samples, 2 * samples + 2 * after)
    twice = np.stack(pair, axis=1).reshape(-1, *samples.shape[1:]) / 4
    return np.moveaxis(twice, 0, axis)


def interpolated_rgb(picture: Picture, siting: str) -> np.ndarray:
    """Like `exact_rgb`, but 4:2:0 chroma is interpolated, sited "center" or "left" across and between two rows."""
    y, *chroma = components(picture)
    height, width = y.shape
    full = (between(between(c, 0, True), 1, siting == "center")[:height, :width] for c in chroma)
    return rgb_of(y, *full, picture.matrix)


def repeated_left_rgb(picture: Picture) -> np.ndarray:
    """Like `exact_rgb`, but 4:2:0 chroma is sited left: sample k covers from half a pixel before 2k to 1.5 after it."""
    y, *chroma = components(picture)
    # The pixel after 2k is covered half by sample k and half by the next one.
    full = (cover(between(c, 1, False)[:, : y.shape[1]], (0, 1), y.shape) for c in chroma)
    return rgb_of(y, *full, picture.matrix)


def encode(rgb: np.ndarray, chroma: str, depth: int, matrix: str, full_range: bool) -> Picture:
    """RGB of full size in a format: chroma averaged; for more than 8 bits, noise in the added bits."""
    rng = np.random.default_rng(0)
    kr, kb = WEIGHTS[matrix]
    y = (rgb @ [kr, 1 - kr - kb, kb]) / 255
    top, unit = (1 << depth) - 1, 1 << (depth - 8)
    black, luma, color = (0, top, top) if full_range else (16 * unit, 219 * unit, 224 * unit)
    planes = [y * luma + black]
    if CHROMA[chroma]:
        for channel, k in ((2, kb), (0, kr)):
            c = (rgb[..., channel] / 255 - y) / (2 * (1 - k))
            across, down = (1 << n for n in CHROMA[chroma])
            height, width = c.shape
            c = np.pad(c, ((0, -height % down), (0, -width % across)), mode="edge")
            c = c.reshape(c.shape[0] // down, down, c.shape[1] // across, across).mean(axis=(1, 3))
            planes.append(c * color + (1 << (depth - 1)))
    if depth > 8:
        planes = [p + rng.uniform(-unit / 2, unit / 2, p.shape) for p in planes]
    codes = (np.clip(np.rint(p), 0, top).astype(np.uint8 if depth == 8 else np.uint16) for p in planes)
    return Picture(tuple(codes), chroma, depth, matrix, full_range)


def to_8_bit(rgb: np.ndarray) -> np.ndarray:
    return np.floor(np.clip(rgb, 0, 255) + 0.5).astype(np.uint8)


def out_of_gamut(rgb: np.ndarray) -> float:
    """The share of values that clipping changes."""
    return float(((rgb < -0.5) | (rgb >= 255.5)).mean())


def triangle(length: int, wanted: int) -> np.ndarray:
    """The weights of antialiased bilinear resizing along one axis, shape (size, length); each row sums to 1."""
    scale = length / wanted
    centers = (np.arange(wanted) + 0.5) * scale
    weights = np.maximum(0, 1 - np.abs(np.arange(length) + 0.5 - centers[:, None]) / max(scale, 1))
    return weights / weights.sum(axis=1, keepdims=True)


def resize(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Antialiased bilinear resize in float64, not rounded."""
    if image.shape[:2] == size:
        return image
    height, width = image.shape[:2]
    down = triangle(height, size[0]) @ image.reshape(height, -1)
    return triangle(width, size[1]) @ down.reshape(size[0], width, *image.shape[2:])


def swscale(picture: Picture, flags: Interpolation = PLAIN, size: tuple[int, int] | None = None) -> np.ndarray:
    """libswscale's rgb24 with explicit matrix and range."""
    height, width = size or picture.size
    return (
        frame_of(picture)
        .reformat(
            width=width,
            height=height,
            format="rgb24",
            interpolation=flags,
            src_colorspace=SWSCALE_MATRIX[picture.matrix],
            src_color_range=ColorRange.JPEG if picture.full_range else ColorRange.MPEG,
        )
        .to_ndarray()
    )


# Counting


class Tally:
    """Differences of 8-bit values from the expected ones."""

    def __init__(self, *pairs: tuple[np.ndarray, np.ndarray]) -> None:
        self.counts = np.zeros(256, np.int64)
        for a, b in pairs:
            self.add(a, b)

    def add(self, a: np.ndarray, b: np.ndarray) -> None:
        if a.shape != b.shape:
            raise ValueError(f"shapes {a.shape} and {b.shape}")
        self.counts += np.bincount((np.maximum(a, b) - np.minimum(a, b)).ravel(), minlength=256)

    def merge(self, others: Iterable[Tally]) -> Tally:
        for other in others:
            self.counts += other.counts
        return self

    @property
    def worst(self) -> int:
        return int(self.counts.nonzero()[0].max())

    @property
    def mean(self) -> float:
        return float(self.counts @ np.arange(256) / self.counts.sum())

    def within(self, most: int) -> float:
        return float(self.counts[: most + 1].sum() / self.counts.sum())

    def properties(self) -> dict[str, float]:
        shares = {f"within_{most}": self.within(most) for most in (0, 1, 2, 3)}
        return {"max": self.worst, "mean": self.mean, **shares}


def share(value: float) -> str:
    """A percentage that shows 100 only if it is exact."""
    text = f"{100 * value:.2f}"
    return "99.99+" if text == "100.00" and value < 1 else text


def versions(**more: str) -> dict[str, str]:
    import framespool

    names = {"framespool": framespool.__version__, "pixels by": framespool._framespool.simd_backend}
    names |= {"PyAV": av.__version__, "libswscale": ".".join(map(str, av.library_versions["libswscale"]))}
    return names | {"NumPy": np.__version__, "Python": platform.python_version()} | more


def write_json(path: Path | None, program: str, using: dict[str, str], **tables: object) -> None:
    if path:
        path.write_text(json.dumps({"program": program, "versions": using, **tables}, indent=1) + "\n")
