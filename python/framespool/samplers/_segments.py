"""Clips of snippets from all parts of a video, and several clips close together."""

from __future__ import annotations

from dataclasses import dataclass

from framespool.samplers._base import ClipSampler
from framespool.samplers._common import Padding, SegmentMode, hinted, positive_integers


@hinted
@dataclass(frozen=True, kw_only=True)
class Segments(ClipSampler):
    """One snippet from each of several equal parts of a video (Temporal Segment Networks).

    A snippet is `frames_per_segment` frames, `stride` apart. A clip has `num_segments * frames_per_segment`
    frames. *F* is the number of frames from which a complete snippet fits into the video. The snippet of segment *s* of
    *S* starts with a frame from `s * F // S` up to `(s + 1) * F // S - 1`, or with the former if the part is empty.

    `mode="random"` draws the start: one int per segment in order, below the number of frames to choose from, for each
    clip independently; nothing if no snippet fits. `mode="middle"` uses `(s * (C + 1) + c + 1) * F // (S * (C + 1))`
    for clip *c* of *C* = `clips_per_video`. For one clip this is `(2 * s + 1) * F // (2 * S)`; for several, positions
    that are evenly spread within the segment.

    Args:
        num_segments: Number of parts.
        frames_per_segment: Frames of a snippet.
        stride: Distance between the frames of a snippet.
        mode: `"random"` or `"middle"`.
        clips_per_video: Clips of each video.
        padding: What replaces frames if no snippet fits; all snippets then start with frame 0, and each is padded
            separately. Videos with fewer frames than segments only repeat some frames.

    Raises:
        ArgumentError: If a number is not above 0.
        ClipSamplingError: While loading, with `padding="error"`, if no snippet fits.

    Example:
        >>> import framespool as fsp
        >>> fsp.samplers.Segments(num_segments=4, mode="middle").indices(40).indices
        [5, 15, 25, 35]
    """

    _kind = "segments"
    num_segments: int
    frames_per_segment: int = 1
    stride: int = 1
    mode: SegmentMode = "random"
    clips_per_video: int = 1
    padding: Padding = "repeat"

    def __post_init__(self) -> None:
        positive_integers(self, "num_segments", "frames_per_segment", "stride", "clips_per_video")
        self.clips_in(0)  # the engine checks the rest

    @property
    def sequence_length(self) -> int:
        """Frames of a clip: `num_segments * frames_per_segment`."""
        return self.num_segments * self.frames_per_segment


@hinted
@dataclass(frozen=True, kw_only=True)
class Dense(ClipSampler):
    """Several clips that start close together.

    The starts are evenly spread over a range of `sample_range` frames that starts with frame *p* and continues at the
    start of the video if necessary: clip *c* of *C* starts with frame `(p + c * sample_range // C) % num_frames`.

    `num_positions=None` draws *p* uniformly from 0 to `num_frames - sample_range`, one int for all clips of a video
    together. *p* is 0, and nothing is drawn, if the video has no more frames than the range.

    `num_positions=P`, for testing, has `P * clips_per_video` clips and draws nothing. With `L = num_frames -
    sample_range` (0 if that is less), position *q* is `(2 * q * L + P - 1) // (2 * (P - 1))`, or `L // 2` for a single
    one. Clip number `q * C + c` is clip *c* at position *q*.

    Args:
        sequence_length: Frames of a clip.
        stride: Distance between the frames of a clip.
        clips_per_video: Clips of each video, or of each position.
        sample_range: Range of the starts in frames.
        num_positions: Number of positions of the range. `None`: one random position.
        padding: What replaces frames past the end of the video, which can happen to long videos too. `"drop"`: videos
            shorter than a clip have none, the others behave as with `"loop"`.

    Raises:
        ArgumentError: If a number is not above 0.
        ClipSamplingError: While loading, with `padding="error"`.

    Example:
        >>> import framespool as fsp
        >>> clip_sampler = fsp.samplers.Dense(sequence_length=2, clips_per_video=2, sample_range=8, num_positions=1)
        >>> [clip_sampler.indices(20, clip=n).indices for n in range(2)]
        [[6, 7], [10, 11]]
    """

    _kind = "dense"
    sequence_length: int
    stride: int = 1
    clips_per_video: int = 8
    sample_range: int = 64
    num_positions: int | None = None
    padding: Padding = "loop"

    def __post_init__(self) -> None:
        positive_integers(self, "sequence_length", "stride", "clips_per_video", "sample_range")
        if self.num_positions is not None:
            positive_integers(self, "num_positions")
        self.clips_in(0)
