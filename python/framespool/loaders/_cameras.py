"""Frames of several cameras at the same time, with the features of these frames."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from framespool._common.validate_args import display_repr, user_stacklevel
from framespool.datasets import Dataset
from framespool.datasets._robot_frames import RobotFrames
from framespool.errors import ArgumentError
from framespool.loaders import _checkpoint
from framespool.options._loader import LoaderOptions
from framespool.transforms import AssumeColor, Resize
from framespool.transforms._compose import listed, split
from framespool.video._sources import VideoSegment


class Cameras:
    """The native loaders of the cameras of `datasets.lerobot()`: one for each, all in the same order.

    Args:
        robots: The cameras and features of the samples.
        options: Those of the loader; each camera draws the same random parameters for a clip.

    Raises:
        ArgumentError: If a clip of one camera could be skipped or replaced alone, or the sizes of frames are not known
            to be equal.
    """

    def __init__(self, robots: RobotFrames, options: LoaderOptions) -> None:
        if len(robots.cameras) > 1 and (action := options.on_error.action) != "raise":
            raise ArgumentError(f'several cameras need on_error="raise", got {action!r}; they fail together')
        for name in filter(robots.is_depth, robots.cameras):
            if options.dtype not in ("uint16", "float32"):
                warnings.warn(
                    f"{name} is a depth camera, whose codes {options.dtype} does not keep; give the loader "
                    'dtype="uint16" or "float32", see docs/howto/robotics.md',
                    stacklevel=user_stacklevel(),
                )
        self._robots = robots
        self._options = options
        #: The transforms of each camera.
        self._transforms = _by_camera(options.transforms, robots.cameras)
        #: For each camera its name, its episodes, the clip sampler of its frames, and (height, width).
        self._sources = [
            (name, robots.view(name), robots.sampler(name), robots.size(name, any_size=bool(self._transforms[name])))
            for name in robots.cameras
        ]
        fixed, stated = set(), set()
        for name, _, _, size in self._sources:
            steps, _ = split(self._transforms[name], options.dtype)
            sized = any(isinstance(step, Resize) and isinstance(step.size, tuple) for step in steps)
            if sized or any(step._has_fixed_size for step in steps):
                fixed.add(name)
            elif not self._transforms[name] or (size is not None and all(step._keeps_one_size for step in steps)):
                stated.add(name)
        one_size = options.collate == "auto" and fixed | stated == set(robots.cameras)
        #: The cameras whose frames must have the size that info.json states: the size of the result follows from it.
        self._stated = {name for name in stated if one_size or not self._transforms[name]}

    def _steps(self, name: str, size: tuple[int, int] | None) -> Sequence[Any] | None:
        # Without transforms the size is known only from the metadata. The resize changes no frame: see values().
        steps = [Resize(size)] if not self._transforms[name] and size is not None else self._transforms[name]
        if not self._robots.is_depth(name):
            return steps
        # Depth is stored as luma of all codes, although most files declare a range of colors.
        given = [step for step in listed(steps) or () if not isinstance(step, AssumeColor)]
        return [AssumeColor("luma", "full"), *given]

    def first(self) -> tuple[Any, LoaderOptions]:
        """The clip sampler of the first camera, and the options of its native loader.

        Returns:
            Both.
        """
        name, _, sampler, size = self._sources[0]
        # Where only the metadata say that all frames have one size, the engine must not decide that.
        by_metadata = any(self._transforms[camera] for camera in self._stated)
        collate = "stack" if by_metadata else self._options.collate
        own = replace(self._options.shared(len(self._sources)), transforms=self._steps(name, size), collate=collate)
        return sampler, own

    def others(self) -> list[tuple[Dataset, Any, list[Any]]]:
        """The other cameras.

        Returns:
            For each its episodes, the arguments of its clip sampler, and its transforms for the engine.

        Raises:
            ArgumentError: If a callable among the transforms would have to apply to all of them.
        """
        found = []
        for name, view, sampler, size in self._sources[1:]:
            steps, functions = split(self._steps(name, size), self._options.dtype)
            if functions:
                raise ArgumentError("a callable among the transforms applies to one camera; apply it to the batch")
            found.append((view, sampler._spec(), steps))
        return found

    def config(self) -> str:
        """What determines the clips of all cameras, for checkpoints.

        Returns:
            Text.
        """
        own: dict[str, Any] = {"transforms": self._transforms} if isinstance(self._options.transforms, Mapping) else {}
        return _checkpoint.text({**self._robots.config(), **own})

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
            if name in self._stated and size is not None:
                for (height, width), episode in zip(batch["sizes"].tolist(), batch["video_ids"].tolist(), strict=True):
                    if (height, width) != size:
                        source = view.samples[episode][0]
                        file = display_repr(source.source if isinstance(source, VideoSegment) else source)
                        raise ArgumentError(
                            f"{name}: frames are {width}x{height}, but info.json says {size[1]}x{size[0]} ({file}); "
                            "correct it, or give transforms=[Resize(...)]"
                        )
            frames = batch["frames"]
            if not self._robots.has_deltas(name):
                frames = self._without_time(frames)
            found[name] = frames
        episodes, frames = made[0]["video_ids"].tolist(), made[0]["view_ids"].tolist()
        return {**found, **self._robots.values(episodes, frames)}

    def _without_time(self, frames: Any) -> Any:
        """Frames of clips of one frame, without the dimension of time."""
        time_is_third = self._options.layout == "NCTHW"
        if isinstance(frames, list):
            return [clip[:, 0] if time_is_third else clip[0] for clip in frames]
        return frames[:, :, 0] if time_is_third else frames[:, 0]


def _by_camera(transforms: Any, cameras: Sequence[str]) -> dict[str, Sequence[Any] | None]:
    """The transforms of each camera, of the argument of a loader."""
    if not isinstance(transforms, Mapping):
        return dict.fromkeys(cameras, transforms)
    for name in transforms:
        if name not in cameras:
            raise ArgumentError(f"transforms: no camera {name!r}; there are {', '.join(map(repr, cameras))}")
    return {name: transforms.get(name) for name in cameras}
