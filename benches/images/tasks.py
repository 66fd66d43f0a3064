"""Parameters of the tasks, and the job of an adapter. No library is imported here."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

BATCH = 32
CROP = 224
# Shorter side for evaluation.
SHORTER = 256
# Side of the square that `augment` rotates: 1.2 times the crop.
ENLARGED = 269
# Side of the square of `square`.
SQUARE = 640
INITIAL_FILL = 1024
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)

TASKS = {
    "decode": "JPEG to RGB at full size, 8 bits",
    "train": f"random resized crop {CROP}, mirror, normalize; float32 NCHW",
    "augment": f"resize to {ENLARGED}x{ENLARGED}, rotate, random resized crop {CROP}, color twist, grid mask, mirror, "
    "normalize; float32 NCHW",
    "eval": f"shorter side to {SHORTER}, center crop {CROP}, normalize; float32 NCHW",
    "square": f"resize to {SQUARE}x{SQUARE}, 8 bits NHWC, with labels",
}


@dataclass(frozen=True)
class Draws:
    """Ranges that random parameters are drawn from, one draw per image. Equal ends pin a parameter."""

    # As a share of the image's area, and width / height.
    area: tuple[float, float]
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    # Probability of a horizontal flip.
    mirror: float = 0.5
    # Degrees, counter-clockwise.
    angle: tuple[float, float] = (0.0, 0.0)
    brightness: tuple[float, float] = (1.0, 1.0)
    contrast: tuple[float, float] = (1.0, 1.0)
    saturation: tuple[float, float] = (1.0, 1.0)
    # Degrees.
    hue: tuple[float, float] = (0.0, 0.0)
    # Pixels from one square to the next; None for no grid.
    grid_tile: tuple[int, int] | None = None
    grid_ratio: float = 0.4
    # Degrees.
    grid_angle: tuple[float, float] = (0.0, 0.0)

    @staticmethod
    def from_json(fields: dict[str, Any]) -> Draws:
        return Draws(**{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()})


TRAIN = Draws(area=(0.08, 1.0))
AUGMENT = Draws(
    area=(0.3, 1.0),
    angle=(-20.0, 20.0),
    brightness=(0.6, 1.4),
    contrast=(0.6, 1.4),
    saturation=(0.6, 1.4),
    hue=(-36.0, 36.0),
    grid_tile=(64, 128),
    grid_angle=(-15.0, 15.0),
)


def timed(task: str) -> Draws | None:
    return {"train": TRAIN, "augment": AUGMENT}.get(task)


def pinned(task: str, ratio: float) -> Draws | None:
    """No randomness: the complete image, whose width / height is `ratio`.

    Hue and contrast are not changed: libraries rotate hues in different spaces and adjust contrast around different
    grays. Nothing gets brighter, since some clamp after each step.
    """
    whole = Draws(area=(1.0, 1.0), ratio=(ratio, ratio), mirror=0.0)
    if task == "train":
        return whole
    if task == "augment":
        pins = {"angle": (15.0, 15.0), "brightness": (0.8, 0.8), "saturation": (0.7, 0.7), "grid_tile": (64, 64)}
        # The crop is taken from the rotated square.
        return replace(whole, ratio=(1.0, 1.0), **pins)
    return None


def geometry_only(draws: Draws) -> Draws:
    """Without transforms that change or cover colors, so that an image of coordinates can be read back."""
    plain = {"brightness": (1.0, 1.0), "contrast": (1.0, 1.0), "saturation": (1.0, 1.0), "hue": (0.0, 0.0)}
    return replace(draws, grid_tile=None, **plain)


@dataclass(frozen=True)
class Job:
    """The input of an adapter. Files are (path, label), all used once, in complete batches."""

    task: str
    files: list[tuple[str, int]]
    variant: str = ""
    threads: int = 2
    # For a DataLoader.
    workers: int = 0
    batch: int = BATCH
    shuffle: bool = True
    seed: int = 0
    shard_id: int = 0
    num_shards: int = 1
    draws: Draws | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(fields: dict[str, Any]) -> Job:
        draws = fields.pop("draws")
        files = [(path, label) for path, label in fields.pop("files")]
        return Job(**fields, files=files, draws=None if draws is None else Draws.from_json(draws))

    def shard(self) -> list[tuple[str, int]]:
        return self.files[self.shard_id :: self.num_shards]
