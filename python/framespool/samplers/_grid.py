"""Clips of evenly spaced frames: all windows, random clips, evenly spread clips."""

from __future__ import annotations

from dataclasses import dataclass

from framespool._common.validate_args import boolean, integer, number, span
from framespool.errors import ArgumentError
from framespool.samplers._base import ClipSampler
from framespool.samplers._common import (
    Group,
    Padding,
    WindowPadding,
    hinted,
    positive_integers,
    set_fields,
    validate_spacing,
)


@hinted
@dataclass(frozen=True, kw_only=True)
class Windows(ClipSampler):
    """All windows of each video: frames `s, s + stride, …` for starts `s = 0, step, 2 * step, …`.

    With `fps` or `duration_seconds`, window *w* starts `w * step_seconds` after the presentation time of the
    first frame, between two frames if necessary.

    No random numbers are drawn.

    Args:
        sequence_length: Frames of a window.
        stride: Spacing in frames (see `framespool.samplers`).
        step: Frames between the starts of windows. `None`: `sequence_length * stride`, as in DALI.
        padding: What happens to windows that run past the end. `"drop"` omits them: a window needs
            `(sequence_length - 1) * stride + 1` frames, or a frame shown at its last time. With the other values
            every start inside the video is a window. `"blank"` pads with zeros, `"edge"` repeats the last frame,
            `"reflect_101"` mirrors without and `"reflect_1001"` with repeating it (with seconds, time reverses at
            the presentation time of the last frame, or at its end). `mask` is false for padding.
        fps: Spacing in frames per second.
        duration_seconds: Spacing as the duration of a window.
        step_seconds: Seconds between the starts of windows, with `fps` or `duration_seconds`. `None`:
            `sequence_length / fps`.

    Raises:
        ArgumentError: If more than one spacing is given, the step has the wrong unit, or a number is not above 0.

    Example:
        >>> import framespool as fsp
        >>> clip_sampler = fsp.samplers.Windows(sequence_length=4, stride=2, step=3)
        >>> [clip_sampler.indices(13, clip=n).indices for n in range(clip_sampler.clips_in(13))]
        [[0, 2, 4, 6], [3, 5, 7, 9], [6, 8, 10, 12]]
    """

    _kind = "windows"
    sequence_length: int
    stride: int | None = None
    step: int | None = None
    padding: WindowPadding = "drop"
    fps: float | None = None
    duration_seconds: float | None = None
    step_seconds: float | None = None

    def __post_init__(self) -> None:
        positive_integers(self, "sequence_length")
        validate_spacing(self)
        by_frame = self.stride is not None
        if by_frame and self.step_seconds is not None:
            raise ArgumentError("step_seconds goes with fps or duration_seconds; with stride= use step, in frames")
        if not by_frame and self.step is not None:
            raise ArgumentError("step, in frames, goes with stride; with fps or duration_seconds use step_seconds")
        if self.step is not None:
            set_fields(self, step=integer("step", self.step, least=1))
        if self.step_seconds is not None:
            set_fields(self, step_seconds=number("step_seconds", self.step_seconds, above=0))
        self.clips_in(0)  # the engine checks the rest


@hinted
@dataclass(frozen=True, kw_only=True)
class RandomClips(ClipSampler):
    """Clips that start with a random frame, drawn again every epoch.

    A clip starts with one of the *F* frames, 0 to *F* − 1, from which all of it fits into the video: `F = num_frames -
    (sequence_length - 1) * stride`. With seconds, *F* counts the frames after whose presentation time a frame is still
    shown `(sequence_length - 1) / fps` later.

    Each clip draws independently: with `speed` a float in [0, 1) for it, then its start (one int below the number of
    possible starts; none if no clip fits), then with `frame_jitter` one number per frame (below `stride`; with seconds
    a float in [0, 1), in units of `1 / fps`), and with `reverse` above 0 a float for it.

    Args:
        sequence_length: Frames of a clip.
        stride: Spacing in frames (see `framespool.samplers`).
        clips_per_video: Clips of each video.
        padding: What replaces frames if no clip fits; such clips start with frame 0.
        fps: Spacing in frames per second.
        duration_seconds: Spacing as the duration of a clip.
        group: `"independent"` draws each start from all *F*. `"partitioned"` draws the start of clip *c* of *C* from
            its own part: at or after `c * F // C` and before `(c + 1) * F // C`, or the former if the part is empty.
        frame_jitter: Move each frame by a random 0 to `stride - 1` frames (with seconds, 0 up to `1 / fps`). A clip
            then needs `sequence_length * stride` frames (`sequence_length / fps` seconds) to fit.
        speed: (low, high) of a factor, drawn for each clip: the spacing is multiplied by it, so 2 shows a clip twice as
            fast. A stride is rounded to whole frames, at least 1. 0.01 to 100.
        reverse: Probability that the frames of a clip are in reverse order.

    Raises:
        ArgumentError: If more than one spacing is given, or a number is out of range.
        ClipSamplingError: While loading, with `padding="error"`, if no clip fits.

    Example:
        >>> import framespool as fsp
        >>> clip_sampler = fsp.samplers.RandomClips(sequence_length=4, stride=2)
        >>> clip_sampler.indices(20, draws=[5]).indices
        [5, 7, 9, 11]
    """

    _kind = "random"
    sequence_length: int
    stride: int | None = None
    clips_per_video: int = 1
    padding: Padding = "repeat"
    fps: float | None = None
    duration_seconds: float | None = None
    group: Group = "independent"
    frame_jitter: bool = False
    speed: tuple[float, float] | None = None
    reverse: float = 0.0

    def __post_init__(self) -> None:
        positive_integers(self, "sequence_length", "clips_per_video")
        validate_spacing(self)
        boolean("frame_jitter", self.frame_jitter)
        if self.speed is not None:
            object.__setattr__(self, "speed", span("speed", self.speed, least=0.01, most=100))
        object.__setattr__(self, "reverse", number("reverse", self.reverse, least=0, most=1))
        self.clips_in(0)


@hinted
@dataclass(frozen=True, kw_only=True)
class UniformClips(ClipSampler):
    """Clips whose starts are evenly spread over the video, for testing.

    With *L* the last frame from which a complete clip fits, clip *c* of *C* starts with frame `(2 * c * L + C - 1) //
    (2 * (C - 1))`: *c·L / (C − 1)* rounded to the nearest, halves up. The first clip starts with the video and the last
    one ends with it. A single clip starts in the middle, with frame `L // 2`. `batch.view_ids` is *c*.

    No random numbers are drawn.

    Args:
        sequence_length: Frames of a clip.
        stride: Spacing in frames (see `framespool.samplers`).
        clips_per_video: Clips of each video.
        padding: What replaces frames if no clip fits; such clips start with frame 0.
        fps: Spacing in frames per second.
        duration_seconds: Spacing as the duration of a clip.

    Raises:
        ArgumentError: If more than one spacing is given, or a number is not above 0.
        ClipSamplingError: While loading, with `padding="error"`, if no clip fits.

    Example:
        >>> import framespool as fsp
        >>> clip_sampler = fsp.samplers.UniformClips(sequence_length=2, clips_per_video=3)
        >>> [clip_sampler.indices(10, clip=n).indices for n in range(3)]
        [[0, 1], [4, 5], [8, 9]]
    """

    _kind = "uniform"
    sequence_length: int
    stride: int | None = None
    clips_per_video: int = 1
    padding: Padding = "repeat"
    fps: float | None = None
    duration_seconds: float | None = None

    def __post_init__(self) -> None:
        positive_integers(self, "sequence_length", "clips_per_video")
        validate_spacing(self)
        self.clips_in(0)
