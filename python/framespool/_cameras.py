"""Frames of several cameras at the same time, with the features of these frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from framespool import _checkpoint
from framespool._sources import VideoSegment
from framespool._validate_args import display_repr
from framespool.datasets import Dataset
from framespool.datasets._lerobot import LeRobotFrames
from framespool.errors import ArgumentError
from framespool.transforms import Resize, _augment, _color, _erasing
from framespool.transforms._compose import split

#: Transforms whose result has one size for frames of every size.
_FIXED_SIZE = frozenset(
    ["CenterCrop", "RandomCrop", "RandomResizedCrop", "MultiScaleCrop", "FiveCrop", "ThreeCrop", "Letterbox"]
)

#: Transforms whose result has one size if the frames have one; rotations only without `expand`.
_SAME_SIZE = frozenset(
    [
        *(name for module in (_augment, _color, _erasing) for name in module.__all__),
        *("Resize", "SmartResize", "Pad", "RandomHorizontalFlip", "RandomVerticalFlip"),
        *("RandomRotation", "RandomAffine"),
    ]
)


class Cameras:
    """The native loaders of the cameras of `datasets.lerobot()`: one for each, all in the same order.

    Args:
        dataset: The dataset.
        transforms: Those of the loader; each camera draws the same random parameters for a clip.
        on_error: That of the loader.
        dtype: That of the loader.
        collate: That of the loader.

    Raises:
        ArgumentError: If a clip of one camera could be skipped or replaced alone.
    """

    def __init__(
        self, dataset: LeRobotFrames, transforms: Sequence[Any] | None, on_error: str, dtype: str, collate: str
    ) -> None:
        if len(dataset.cameras) > 1 and on_error != "raise":
            raise ArgumentError(f'several cameras need on_error="raise", got {on_error!r}; they fail together')
        self._dataset = dataset
        self._sources = dataset._sources()
        self._dtype = dtype
        self._transforms = transforms
        steps, _ = split(transforms, dtype)
        fixed = any(name in _FIXED_SIZE or (name == "Resize" and _is_pair(values["size"])) for name, values, _ in steps)
        known = all(size is not None for _, _, _, size in self._sources)
        same = all(name in _SAME_SIZE and not values.get("expand") for name, values, _ in steps)
        #: Whether the frames must have the size that info.json states: the size of the result follows from it.
        self._stated = not transforms or (collate == "auto" and known and same and not fixed)
        #: The loader's, or `"stack"` where only the metadata say that all frames have one size.
        self.collate = "stack" if transforms and self._stated else collate

    def _steps(self, size: tuple[int, int] | None) -> Sequence[Any] | None:
        # Without transforms the size is known only from the metadata. The resize changes no frame: see values().
        return [Resize(size)] if not self._transforms and size is not None else self._transforms

    def first(self) -> tuple[Any, Sequence[Any] | None]:
        """The clip sampler and the transforms of the first camera.

        Returns:
            Both.
        """
        _, _, sampler, size = self._sources[0]
        return sampler, self._steps(size)

    def others(self) -> list[tuple[Dataset, Any, list[Any]]]:
        """The other cameras.

        Returns:
            For each its episodes, the arguments of its clip sampler, and its transforms for the engine.

        Raises:
            ArgumentError: If a callable among the transforms would have to apply to all of them.
        """
        found = []
        for _, view, sampler, size in self._sources[1:]:
            steps, functions = split(self._steps(size), self._dtype)
            if functions:
                raise ArgumentError("a callable among the transforms applies to one camera; apply it to the batch")
            found.append((view, sampler._sampler_args(), steps))
        return found

    def share(self, total: int) -> int:
        """The part of a number that one camera gets.

        Args:
            total: Threads or bytes.

        Returns:
            An equal part, at least 1; 0 of 0.
        """
        return total if total == 0 else max(1, total // len(self._sources))

    def config(self) -> str:
        """What determines the clips of all cameras, for checkpoints.

        Returns:
            Text.
        """
        deltas = self._dataset.delta_timestamps
        return _checkpoint.text({"cameras": self._dataset.cameras, "delta_timestamps": deltas})

    def values(self, made: list[dict[str, Any]]) -> dict[str, Any]:
        """The features of a batch.

        Args:
            made: The results of the native loaders.

        Returns:
            The frames of each camera and the other features, by name.

        Raises:
            ArgumentError: If frames do not have the size that info.json states.
        """
        found: dict[str, Any] = {}
        for (name, view, _, size), batch in zip(self._sources, made, strict=True):
            if self._stated and size is not None:
                for (height, width), episode in zip(batch["sizes"].tolist(), batch["video_ids"].tolist(), strict=True):
                    if (height, width) != size:
                        source = view.samples[episode][0]
                        file = display_repr(source.source if isinstance(source, VideoSegment) else source)
                        raise ArgumentError(
                            f"{name}: frames are {width}x{height}, but info.json says {size[1]}x{size[0]} ({file}); "
                            "correct it, or give transforms=[Resize(...)]"
                        )
            frames = batch["frames"]
            if name not in self._dataset.delta_timestamps:
                frames = [clip[0] for clip in frames] if isinstance(frames, list) else frames[:, 0]
            found[name] = frames
        episodes, frames = made[0]["video_ids"].tolist(), made[0]["view_ids"].tolist()
        return {**found, **self._dataset._values(episodes, frames)}


def _is_pair(size: Any) -> bool:
    """Whether the size of a resize is (height, width)."""
    return isinstance(size, (list, tuple)) and len(size) == 2
