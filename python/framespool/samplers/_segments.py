"""Clips made of snippets from all over the video, and several clips close together."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from framespool.samplers._base import ClipSampler, arguments
from framespool.samplers._common import SegmentMode, Short, positive_integers

if TYPE_CHECKING:
    from framespool._framespool import SamplerArgs


@dataclass(frozen=True, kw_only=True)
class Segments(ClipSampler):
    """Snippets from equal parts of a video; made by :func:`segments`."""

    num_segments: int
    frames_per_segment: int = 1
    stride: int = 1
    mode: SegmentMode = "random"
    clips_per_video: int = 1
    short: Short = "repeat"

    def __post_init__(self) -> None:
        positive_integers(self, "num_segments", "frames_per_segment", "stride", "clips_per_video")
        self.clips_in(0)  # the engine checks the rest

    @property
    def sequence_length(self) -> int:
        """Frames of a clip: ``num_segments * frames_per_segment``."""
        return self.num_segments * self.frames_per_segment

    def _sampler_args(self) -> SamplerArgs:
        return ("segments", arguments(**asdict(self)))


@dataclass(frozen=True, kw_only=True)
class Dense(ClipSampler):
    """Several clips close together; made by :func:`dense`."""

    sequence_length: int
    stride: int = 1
    clips_per_video: int = 8
    sample_range: int = 64
    num_positions: int | None = None
    short: Short = "loop"

    def __post_init__(self) -> None:
        positive_integers(self, "sequence_length", "stride", "clips_per_video", "sample_range")
        if self.num_positions is not None:
            positive_integers(self, "num_positions")
        self.clips_in(0)

    def _sampler_args(self) -> SamplerArgs:
        return ("dense", arguments(**asdict(self)))


def segments(
    *,
    num_segments: int,
    frames_per_segment: int = 1,
    stride: int = 1,
    mode: SegmentMode = "random",
    clips_per_video: int = 1,
    short: Short = "repeat",
) -> Segments:
    """Clips of ``num_segments`` snippets, one from each of so many equal parts of the video (Temporal Segment
    Networks).

    A snippet is ``frames_per_segment`` frames, ``stride`` frames apart; a clip has ``num_segments *
    frames_per_segment`` frames. With *F* the number of frames from which a whole snippet fits into the video, that of
    segment *s* of *S* starts with a frame from ``s * F // S`` up to ``(s + 1) * F // S - 1``, or with the former if
    that leaves none: ``mode="random"`` draws it, ``"middle"`` takes ``(s * (C + 1) + c + 1) * F // (S * (C + 1))`` for
    clip *c* of *C* = ``clips_per_video``: for one clip ``(2 * s + 1) * F // (2 * S)``, for more of them places that are
    spread evenly within the segment.

    ``short``: what a video does in which no snippet fits (videos with fewer frames than segments merely show some
    twice); its snippets all start with frame 0, and each has stand-ins of its own. Drawn is one whole number for each
    segment in order, below the number of frames to choose from, for each clip by itself; nothing if no snippet fits.

    Errors: :class:`~framespool.errors.ArgumentError` for numbers that are not above 0;
    :class:`~framespool.errors.ClipSamplingError` with ``short="error"``.
    """
    return Segments(
        num_segments=num_segments,
        frames_per_segment=frames_per_segment,
        stride=stride,
        mode=mode,
        clips_per_video=clips_per_video,
        short=short,
    )


def dense(
    *,
    sequence_length: int,
    stride: int = 1,
    clips_per_video: int = 8,
    sample_range: int = 64,
    num_positions: int | None = None,
    short: Short = "loop",
) -> Dense:
    """``clips_per_video`` clips of ``sequence_length`` frames, ``stride`` apart, that start close together.

    Their starts are spread evenly over a range of ``sample_range`` frames that begins with frame *p*, around the end of
    the video if need be: clip *c* of *C* starts with frame ``(p + c * sample_range // C) % num_frames``.

    ``num_positions=None`` draws *p* uniformly from 0 to ``num_frames - sample_range``, one whole number for all clips
    of a video together; it is 0, and nothing is drawn, if the video has no more frames than the range.
    ``num_positions=P``, for testing, yields ``P * clips_per_video`` clips and draws nothing: with ``L = num_frames -
    sample_range`` (0 if that is less), position *q* is ``(2 * q * L + P - 1) // (2 * (P - 1))``, or ``L // 2`` for a
    single one, and clip number ``q * C + c`` is clip *c* at position *q*.

    ``short``: what a clip shows past the end of the video, which here happens to long ones too. ``"drop"``: videos
    shorter than a clip yield none, the others behave as with ``"loop"``.

    Errors: :class:`~framespool.errors.ArgumentError` for numbers that are not above 0;
    :class:`~framespool.errors.ClipSamplingError` with ``short="error"``.
    """
    return Dense(
        sequence_length=sequence_length,
        stride=stride,
        clips_per_video=clips_per_video,
        sample_range=sample_range,
        num_positions=num_positions,
        short=short,
    )
