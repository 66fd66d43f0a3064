"""The types in which frames and samples are returned."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


def _describe(frames: Any) -> str:
    rows = [f"{type(frames).__name__}:", f"  data (shape): {frames.data.shape}"]
    rows += [f"  {field.name}: {getattr(frames, field.name)}" for field in dataclasses.fields(frames)[1:]]
    return "\n".join(rows) + "\n"


@dataclass
class Frame:
    """One frame, which unpacks: ``data, pts_seconds, duration_seconds = frame``.

    Attributes:
        data: torch.Tensor uint8 (C, H, W), or (H, W, C).
        pts_seconds: Time at which it appears, in seconds.
        duration_seconds: How long it stays, in seconds.

    Raises:
        ValueError: If ``data`` does not have three dimensions.
    """

    data: Any
    pts_seconds: float
    duration_seconds: float

    def __post_init__(self) -> None:
        if self.data.ndim != 3:
            raise ValueError(f"data must be 3-dimensional, got shape {tuple(self.data.shape)}")
        self.pts_seconds = float(self.pts_seconds)
        self.duration_seconds = float(self.duration_seconds)

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, field.name) for field in dataclasses.fields(self))

    def __repr__(self) -> str:
        return _describe(self)


@dataclass
class FrameBatch:
    """Frames, or clips of frames, with any dimensions before those of a frame.

    An index or slice applies to all three attributes and returns a FrameBatch; so does iteration.

    Attributes:
        data: torch.Tensor uint8 (…, C, H, W), or (…, H, W, C).
        pts_seconds: torch.Tensor float64 (…): times at which the frames appear, in seconds.
        duration_seconds: torch.Tensor float64 (…): how long they stay, in seconds.

    Raises:
        ValueError: If the leading dimensions differ.
    """

    data: Any
    pts_seconds: Any
    duration_seconds: Any

    def __post_init__(self) -> None:
        if self.data.ndim < 3:
            raise ValueError(f"data must be at least 3-dimensional, got shape {tuple(self.data.shape)}")
        leading = self.data.shape[:-3]
        for name in ("pts_seconds", "duration_seconds"):
            shape = getattr(self, name).shape
            if shape != leading:
                raise ValueError(
                    f"the leading dimensions of the inputs do not match: {name} must have shape {tuple(leading)}, "
                    f"as data {tuple(self.data.shape)} has, got {tuple(shape)}"
                )

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, key: Any) -> FrameBatch:
        return FrameBatch(self.data[key], self.pts_seconds[key], self.duration_seconds[key])

    def __iter__(self) -> Iterator[FrameBatch]:
        return (self[place] for place in range(len(self)))

    def __repr__(self) -> str:
        return _describe(self)


@dataclass
class AudioSamples:
    """Samples of audio, which unpack: ``data, pts_seconds, duration_seconds, sample_rate = samples``.

    Attributes:
        data: torch.Tensor float32 (C, S), from -1 to 1.
        pts_seconds: Time of the first sample, in seconds.
        duration_seconds: Duration, in seconds.
        sample_rate: Samples per second.

    Raises:
        ValueError: If ``data`` does not have two dimensions.
    """

    data: Any
    pts_seconds: float
    duration_seconds: float
    sample_rate: int

    def __post_init__(self) -> None:
        if self.data.ndim != 2:
            raise ValueError(f"data must be 2-dimensional, got shape {tuple(self.data.shape)}")
        self.pts_seconds = float(self.pts_seconds)
        self.sample_rate = int(self.sample_rate)

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, field.name) for field in dataclasses.fields(self))

    def __repr__(self) -> str:
        return _describe(self)
