"""Clips of evenly spaced frames: all of them, random ones, evenly spread ones."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from framespool._validate_args import boolean, integer, number
from framespool.errors import ArgumentError
from framespool.samplers._base import ClipSampler, arguments
from framespool.samplers._common import Group, PadMode, Short, positive_integers, set_fields, validate_spacing

if TYPE_CHECKING:
    from framespool._framespool import SamplerArgs


@dataclass(frozen=True, kw_only=True)
class Windows(ClipSampler):
    """Every window of a video; made by :func:`windows`."""

    sequence_length: int
    stride: int | None = None
    step: int | None = None
    pad_mode: PadMode = "none"
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

    def _sampler_args(self) -> SamplerArgs:
        return ("windows", arguments(**asdict(self)))


@dataclass(frozen=True, kw_only=True)
class Random(ClipSampler):
    """Clips at random places; made by :func:`random`."""

    sequence_length: int
    stride: int | None = None
    clips_per_video: int = 1
    short: Short = "repeat"
    fps: float | None = None
    duration_seconds: float | None = None
    group: Group = "independent"
    frame_jitter: bool = False

    def __post_init__(self) -> None:
        positive_integers(self, "sequence_length", "clips_per_video")
        validate_spacing(self)
        boolean("frame_jitter", self.frame_jitter)
        self.clips_in(0)

    def _sampler_args(self) -> SamplerArgs:
        return ("random", arguments(**asdict(self)))


@dataclass(frozen=True, kw_only=True)
class Uniform(ClipSampler):
    """Clips at evenly spread places; made by :func:`uniform`."""

    sequence_length: int
    stride: int | None = None
    clips_per_video: int = 1
    short: Short = "repeat"
    fps: float | None = None
    duration_seconds: float | None = None

    def __post_init__(self) -> None:
        positive_integers(self, "sequence_length", "clips_per_video")
        validate_spacing(self)
        self.clips_in(0)

    def _sampler_args(self) -> SamplerArgs:
        return ("uniform", arguments(**asdict(self)))


def windows(
    *,
    sequence_length: int,
    stride: int | None = None,
    step: int | None = None,
    pad_mode: PadMode = "none",
    fps: float | None = None,
    duration_seconds: float | None = None,
    step_seconds: float | None = None,
) -> Windows:
    """All windows of each video: frames ``s, s + stride, …`` for starts ``s = 0, step, 2 * step, …``.

    ``sequence_length``: frames of a window. ``stride``, ``fps``, ``duration_seconds``: how far they are apart (see
    :mod:`framespool.samplers`). ``step``: frames between the starts of windows, by default ``sequence_length *
    stride``, as in DALI. ``step_seconds``: with ``fps`` or ``duration_seconds``, seconds between the starts, by default
    ``sequence_length / fps``; window *w* then starts ``w * step_seconds`` after the first frame's appearance, between
    two frames if need be.

    ``pad_mode``: what happens to windows that run past the end. ``"none"`` leaves them out: a window needs
    ``(sequence_length - 1) * stride + 1`` frames, or a frame on screen at its last moment. With the others every start
    inside the video yields a window: ``"constant"`` fills with zeros of the result; ``"edge"`` repeats the last frame;
    ``"reflect_101"`` mirrors without and ``"reflect_1001"`` with repeating it (with seconds, time turns back when the
    last frame appears, or when it ends). Padded frames have ``mask`` false. Nothing is drawn.

    Errors: :class:`~framespool.errors.ArgumentError` for more than one spacing, for a step in the wrong unit, and
    for numbers that are not above 0.
    """
    return Windows(
        sequence_length=sequence_length,
        stride=stride,
        step=step,
        pad_mode=pad_mode,
        fps=fps,
        duration_seconds=duration_seconds,
        step_seconds=step_seconds,
    )


def random(
    *,
    sequence_length: int,
    stride: int | None = None,
    clips_per_video: int = 1,
    short: Short = "repeat",
    fps: float | None = None,
    duration_seconds: float | None = None,
    group: Group = "independent",
    frame_jitter: bool = False,
) -> Random:
    """``clips_per_video`` clips of each video, each starting with a random frame, drawn anew every epoch.

    ``sequence_length``: frames of a clip. ``stride``, ``fps``, ``duration_seconds``: how far they are apart (see
    :mod:`framespool.samplers`). A clip starts with one of the *F* frames, 0 to *F* − 1, from which all of it fits into
    the video: ``F = num_frames - (sequence_length - 1) * stride``; with seconds, all frames after whose appearance
    something is still on screen ``(sequence_length - 1) / fps`` later.

    ``group``: ``"independent"`` draws each start from all *F*. ``"partitioned"`` draws the start of clip *c* of *C*
    from its own part: at or after ``c * F // C`` and before ``(c + 1) * F // C``, or at the former if that leaves none.
    ``frame_jitter``: each frame moves by a random 0 to ``stride - 1`` frames (with seconds, 0 up to ``1 / fps``), and a
    clip needs ``sequence_length * stride`` frames (``sequence_length / fps`` seconds) to fit.

    ``short``: what a video does in which no clip fits; its clips start with frame 0. Drawn are, for each clip by
    itself, the start (one whole number below the number of starts to choose from; none if no clip fits), then with
    jitter one number for each frame (below ``stride``; with seconds a float in [0, 1), in units of ``1 / fps``).

    Errors: :class:`~framespool.errors.ArgumentError` for more than one spacing, and for numbers that are not above 0;
    :class:`~framespool.errors.ClipSamplingError` with ``short="error"``.
    """
    return Random(
        sequence_length=sequence_length,
        stride=stride,
        clips_per_video=clips_per_video,
        short=short,
        fps=fps,
        duration_seconds=duration_seconds,
        group=group,
        frame_jitter=frame_jitter,
    )


def uniform(
    *,
    sequence_length: int,
    stride: int | None = None,
    clips_per_video: int = 1,
    short: Short = "repeat",
    fps: float | None = None,
    duration_seconds: float | None = None,
) -> Uniform:
    """``clips_per_video`` clips of each video that start evenly spread over it, for testing; nothing is drawn.

    ``sequence_length``: frames of a clip. ``stride``, ``fps``, ``duration_seconds``: how far they are apart (see
    :mod:`framespool.samplers`). With *L* the last frame from which a whole clip fits, clip *c* of *C* starts with frame
    ``(2 * c * L + C - 1) // (2 * (C - 1))``: *c·L / (C − 1)* rounded to the nearest, halves up, so the first clip
    starts with the video and the last one ends with it. A single clip starts in the middle, with frame ``L // 2``.
    ``batch.view_ids`` tells *c*.

    ``short``: what a video does in which no clip fits; its clips start with frame 0.

    Errors: :class:`~framespool.errors.ArgumentError` for more than one spacing, and for numbers that are not above 0;
    :class:`~framespool.errors.ClipSamplingError` with ``short="error"``.
    """
    return Uniform(
        sequence_length=sequence_length,
        stride=stride,
        clips_per_video=clips_per_video,
        short=short,
        fps=fps,
        duration_seconds=duration_seconds,
    )
