"""The cost of random access to a video, and its causes."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any

from framespool._common.validate_args import integer
from framespool.errors import Error
from framespool.video._info import VideoInfo
from framespool.video._sources import ArchiveMember, ImageSequence
from framespool.video._video import Video


@dataclass(frozen=True)
class AccessReport:
    """The result of `analyze_access()`.

    Attributes:
        info: As `Video.info`.
        num_gops: Number of GOPs, each from one random access point to the next.
        mean_gop_packets: Mean packets per GOP.
        max_gop_packets: Packets of the longest GOP.
        has_b_frames: Whether presentation order differs from decode order.
        skippable_share: Share of disposable pictures, which are decoded only if they are requested.
        bits_per_second: Of the video stream; 0 if the duration is unknown.
        nvdec: NVIDIA's name of the codec if NVDEC decodes such videos to the same bytes, else `None`.
            `gpu.devices()` reports whether the GPU of this machine does.
        nvdec_reason: Why `nvdec` is `None`.
        clip_frames: Frames of the clip that the costs apply to.
        clip_stride: Distance between its frames.
        frames_decoded_per_clip: Mean frames decoded for a clip alone, over all its positions in the video. `None` if
            the video is shorter than the clip.
        clip_bytes: Mean bytes read for a clip, or `None` likewise.

    Example:
        >>> import framespool as fsp
        >>> report = fsp.tools.analyze_access("long_gop.mp4", sequence_length=16)
        >>> report.num_gops, report.frames_decoded_per_clip > 16
        (1, True)
    """

    info: VideoInfo
    num_gops: int
    mean_gop_packets: float
    max_gop_packets: int
    has_b_frames: bool
    skippable_share: float
    bits_per_second: float
    nvdec: str | None
    nvdec_reason: str | None
    clip_frames: int
    clip_stride: int
    frames_decoded_per_clip: float | None
    clip_bytes: float | None

    def as_dict(self) -> dict[str, Any]:
        """The report for JSON, with the number of keyframes instead of their list.

        The first frame is decoded for its color.

        Returns:
            The values by name.
        """
        report = asdict(self)
        report["info"]["keyframes"] = len(self.info.keyframes)
        report["info"]["duration_seconds"] = self.info.duration_seconds
        report["info"].update(color_metadata(self.info))
        return report


def color_metadata(info: VideoInfo) -> dict[str, str | None]:
    """The color metadata of a video, by name.

    Args:
        info: Metadata of the video.

    Returns:
        The names of the color, or `None` for each; `color_error` has the reason if the first frame cannot be decoded.
    """
    names = ("color_primaries", "color_transfer", "color_matrix", "color_range", "hdr")
    try:
        return {name: getattr(info, name) for name in names}
    except Error as error:
        return {**dict.fromkeys(names), "color_error": str(error)}


def analyze_access(
    source: str | os.PathLike[str] | bytes | ImageSequence | ArchiveMember,
    *,
    sequence_length: int = 16,
    stride: int = 4,
    stream: int | None = None,
) -> AccessReport:
    """Reports the GOP structure of a video and the cost of random clips. It reads packets and decodes nothing.

    Args:
        source: As for `Video`.
        sequence_length: Frames of the clip that the costs apply to.
        stride: Distance between its frames.
        stream: As for `Video`.

    Returns:
        The report.

    Raises:
        ArgumentError: If an argument is invalid.
        Error: If the video cannot be opened, as `Video` raises it.

    Example:
        >>> import framespool as fsp
        >>> report = fsp.tools.analyze_access("long_gop.mp4", sequence_length=8, stride=2)
        >>> report.num_gops, report.max_gop_packets
        (1, 250)
    """
    frames, apart = integer("sequence_length", sequence_length, least=1), integer("stride", stride, least=1)
    video = Video(source, num_threads=1, stream=stream)
    counts = video._video.analyze_access(frames, apart)
    info, gops = video.info, counts["gop_packets"]
    frames_decoded, read = counts["clip"] or (None, None)
    seconds = info.duration_seconds
    return AccessReport(
        info=info,
        num_gops=len(gops),
        mean_gop_packets=sum(gops) / max(1, len(gops)),
        max_gop_packets=max(gops, default=0),
        has_b_frames=counts["reordered"] > 0,
        skippable_share=counts["skippable"] / max(1, info.num_packets),
        bits_per_second=8 * counts["packet_bytes"] / seconds if seconds > 0 else 0.0,
        nvdec=counts["nvdec"],
        nvdec_reason=counts["nvdec_reason"],
        clip_frames=frames,
        clip_stride=apart,
        frames_decoded_per_clip=frames_decoded,
        clip_bytes=read,
    )
