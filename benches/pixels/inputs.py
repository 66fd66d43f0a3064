"""Frames of a real video and random augmentations, as files that all workers read.

In a folder: frames.yuv (planes of each frame, no padding), rgb.npy (the same as rounded exact RGB, for libraries that
start from RGB), raw.mkv (the same frames as uncompressed video, for torchcodec), clips.txt (augmentations) and
properties.json.
"""

from __future__ import annotations

import json
import math
import random
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

SIDE = 224
# Shorter side 256 of 1920x1080, and the corner of torchvision's center crop in it.
RESIZED = (455, 256)
CORNER = (116, 16)
MEAN = np.array([0.485, 0.456, 0.406])
STD = np.array([0.229, 0.224, 0.225])

NUM_FRAMES = 16
# Number of frames that share an augmentation.
CLIP = 16
CHECKED_FRAMES = (0, 5, 10, 15)
NUM_CLIPS = 64
# Names of the steps of an augmentation, in the order in which they are added.
STEPS = ("rrc", "flip", "color", "contrast", "rotate", "grid")

KR_KB = {"bt709": (0.2126, 0.0722), "bt601": (0.299, 0.114)}
YIQ = np.array([[0.299, 0.587, 0.114], [0.5959, -0.2746, -0.3213], [0.2115, -0.5227, 0.3112]])


@dataclass(frozen=True)
class Augmentation:
    """The augmentation of one clip."""

    # Left, top, width, height.
    crop: tuple[int, int, int, int]
    flip: bool
    brightness: float
    contrast: float
    saturation: float
    # Degrees in the plane of I and Q.
    hue: float
    # Brightness, saturation and hue as one matrix.
    color: tuple[tuple[float, ...], ...]
    # Counter-clockwise, degrees, and the map from output to input.
    angle: float
    cos: float
    sin: float
    # Pixels per cycle, masked part of a cycle, degrees; two phases by column, row and start.
    grid_tile: int
    grid_ratio: float
    grid_angle: float
    grid: tuple[tuple[float, ...], ...]


def split(planes: np.ndarray, width: int, height: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    luma, chroma = width * height, width * height // 4
    return (
        planes[:luma].reshape(height, width),
        planes[luma : luma + chroma].reshape(height // 2, width // 2),
        planes[luma + chroma :].reshape(height // 2, width // 2),
    )


def exact_rgb(planes: np.ndarray, width: int, height: int, matrix: str) -> np.ndarray:
    """(H, W, 3) in code values."""
    y, u, v = (plane.astype(np.float64) for plane in split(planes, width, height))
    y = (y - 16) * (255 / 219)
    u, v = (((chroma - 128) * (255 / 224)).repeat(2, axis=0).repeat(2, axis=1) for chroma in (u, v))
    kr, kb = KR_KB[matrix]
    kg = 1 - kr - kb
    red = y + 2 * (1 - kr) * v
    green = y - 2 * (1 - kb) * kb / kg * u - 2 * (1 - kr) * kr / kg * v
    blue = y + 2 * (1 - kb) * u
    return np.stack([red, green, blue], axis=2).clip(0, 255)


def random_resized_crop(generator: random.Random, width: int, height: int) -> tuple[int, int, int, int]:
    """torchvision's draw: area 0.08 to 1 of the frame, aspect 3/4 to 4/3."""
    for _ in range(10):
        area = width * height * generator.uniform(0.08, 1)
        aspect = math.exp(generator.uniform(math.log(3 / 4), math.log(4 / 3)))
        crop_width, crop_height = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < crop_width <= width and 0 < crop_height <= height:
            left, top = generator.randint(0, width - crop_width), generator.randint(0, height - crop_height)
            return left, top, crop_width, crop_height
    side = round(height * 4 / 3)
    return (width - side) // 2, 0, side, height


def color_matrix(brightness: float, saturation: float, hue: float) -> np.ndarray:
    turn = math.radians(hue)
    twist = saturation * np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    in_yiq = np.eye(3)
    in_yiq[1:, 1:] = twist
    return brightness * np.linalg.inv(YIQ) @ in_yiq @ YIQ


def draw(generator: random.Random, width: int, height: int, hue: bool) -> Augmentation:
    brightness, contrast, saturation = (generator.uniform(0.6, 1.4) for _ in range(3))
    degrees = generator.uniform(-36, 36) if hue else 0.0
    angle = generator.uniform(-15, 15)
    tile, grid_angle = generator.randint(24, 64), generator.uniform(-45, 45)
    across, down = math.cos(math.radians(grid_angle)) / tile, math.sin(math.radians(grid_angle)) / tile
    turn = math.radians(angle)
    return Augmentation(
        crop=random_resized_crop(generator, width, height),
        flip=generator.random() < 0.5,
        brightness=brightness,
        contrast=contrast,
        saturation=saturation,
        hue=degrees,
        color=tuple(map(tuple, color_matrix(brightness, saturation, degrees).tolist())),
        angle=angle,
        cos=math.cos(turn),
        sin=math.sin(turn),
        grid_tile=tile,
        grid_ratio=generator.uniform(0.3, 0.6),
        grid_angle=grid_angle,
        grid=((across, -down, 0.0), (down, across, 0.0)),
    )


def draw_all(seed: int, width: int, height: int) -> list[Augmentation]:
    """The checked clips are the first ones; all but the last keep their hue, since torchvision rotates it in another
    color space.
    """
    generator = random.Random(seed)
    return [draw(generator, width, height, hue=n >= len(CHECKED_FRAMES) - 1) for n in range(NUM_CLIPS)]


def words(clip: Augmentation) -> str:
    """A line for the Rust worker."""
    rows = [value for row in (*clip.color, *clip.grid) for value in row]
    numbers = [*clip.crop, int(clip.flip), clip.contrast, clip.cos, clip.sin, clip.grid_ratio, *rows]
    return " ".join(map(repr, numbers))


def decode(path: Path) -> tuple[np.ndarray, int, int]:
    """NUM_FRAMES frames, evenly spread over the video, as (frames, bytes)."""
    import av

    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        if stream.format.name != "yuv420p" or (stream.width, stream.height) != (1920, 1080):
            raise ValueError(f"{path}: must be 8-bit YUV 4:2:0 of 1920x1080")
        total = sum(packet.pts is not None for packet in container.demux(stream))
        wanted = {n * (total - 1) // (NUM_FRAMES - 1) for n in range(NUM_FRAMES)}
        container.seek(0)
        frames = [frame.to_ndarray().reshape(-1) for n, frame in enumerate(container.decode(stream)) if n in wanted]
        if len(frames) != NUM_FRAMES:
            raise ValueError(f"{path}: {len(frames)} different frames, {NUM_FRAMES} are needed")
        return np.stack(frames), stream.width, stream.height


def write_raw_video(path: Path, frames: np.ndarray, width: int, height: int) -> None:
    import av

    with av.open(str(path), "w", format="matroska") as container:
        stream = container.add_stream("rawvideo", rate=25)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        # BT.709, limited range, as for the other libraries.
        stream.codec_context.colorspace, stream.codec_context.color_range = 1, 1
        for n, planes in enumerate(frames):
            frame = video_frame(planes, width, height)
            frame.pts = n
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def video_frame(planes: np.ndarray, width: int, height: int):
    """A PyAV frame, tagged BT.709, limited range."""
    import av

    frame = av.VideoFrame.from_ndarray(planes.reshape(height * 3 // 2, width), format="yuv420p")
    frame.colorspace, frame.color_range = 1, 1
    return frame


def write(folder: Path, video: Path, seed: int) -> None:

    frames, width, height = decode(video)
    clips = draw_all(seed, width, height)
    frames.tofile(folder / "frames.yuv")
    rgb = [exact_rgb(planes, width, height, "bt709").round().astype(np.uint8) for planes in frames]
    np.save(folder / "rgb.npy", np.stack(rgb))
    write_raw_video(folder / "raw.mkv", frames, width, height)
    (folder / "clips.txt").write_text("".join(words(clip) + "\n" for clip in clips))
    properties = {"width": width, "height": height, "clips": [asdict(clip) for clip in clips]}
    (folder / "properties.json").write_text(json.dumps(properties))


@dataclass(frozen=True)
class Inputs:
    """The input folder, for the Python adapters."""

    folder: Path
    width: int
    height: int
    clips: list[Augmentation]

    @staticmethod
    def read(folder: Path) -> Inputs:
        properties = json.loads((folder / "properties.json").read_text())
        clips = [Augmentation(**clip) for clip in properties["clips"]]
        return Inputs(folder, properties["width"], properties["height"], clips)

    def planes(self) -> np.ndarray:
        """(frames, bytes)"""
        frame_bytes = self.width * self.height * 3 // 2
        return np.fromfile(self.folder / "frames.yuv", dtype=np.uint8).reshape(-1, frame_bytes)

    def rgb(self) -> np.ndarray:
        """(frames, H, W, 3)"""
        return np.load(self.folder / "rgb.npy")
