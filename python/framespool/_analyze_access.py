"""What random access to a video costs, and why."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any

from framespool._validate_args import integer
from framespool._video import Video, VideoInfo
from framespool.datasets import ArchiveMember, ImageSequence
from framespool.errors import Error


@dataclass(frozen=True)
class AccessReport:
    """What :func:`analyze_access` found.

    ``info``: as :attr:`Video.info`. ``num_gops``: groups of pictures, each from a packet at which decoding can start to
    the next; ``mean_gop_packets`` and ``max_gop_packets`` in packets. ``has_b_frames``: pictures are shown in another order than
    they are stored in. ``skippable_share``: of the pictures, how many no other one depends on, so that they are decoded
    only where they are wanted. ``bits_per_second``: of the video stream; 0 where its length is unknown. ``nvdec``:
    NVIDIA's name of the codec where a GPU's engine decodes such videos to the same bytes, and else ``None``, with
    ``nvdec_reason``; whether this machine's GPU does is told by :func:`framespool.gpu.devices`. ``clip_frames``,
    ``clip_stride``: the clip whose cost follows. ``frames_decoded_per_clip``: pictures that are decoded for one alone, in the
    mean over its places in the video; ``clip_bytes``: bytes read for it; both ``None`` where the video is shorter than
    such a clip.
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
        """For JSON; without the list of key frames, which may be long. The first frame is decoded for its color."""
        facts = asdict(self)
        facts["info"]["keyframes"] = len(self.info.keyframes)
        facts["info"]["duration_seconds"] = self.info.duration_seconds
        facts["info"].update(color_metadata(self.info))
        return facts


def color_metadata(info: VideoInfo) -> dict[str, str | None]:
    """What ``info`` tells of the color, by name. Where the first frame cannot be decoded, ``color_error`` says why."""
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
    """Looks through a video's packets, of which none is decoded. ``sequence_length``, ``stride``: the clip whose cost
    is wanted, in frames. ``stream``: as for :class:`Video`. Raises as :class:`Video`.
    """
    frames, apart = integer("sequence_length", sequence_length, least=1), integer("stride", stride, least=1)
    video = Video(source, num_threads=1, stream=stream)
    facts = video._video.analyze_access(frames, apart)
    info, gops = video.info, facts["gop_packets"]
    pictures, read = facts["clip"] or (None, None)
    seconds = info.duration_seconds
    return AccessReport(
        info=info,
        num_gops=len(gops),
        mean_gop_packets=sum(gops) / max(1, len(gops)),
        max_gop_packets=max(gops, default=0),
        has_b_frames=facts["reordered"] > 0,
        skippable_share=facts["skippable"] / max(1, info.num_packets),
        bits_per_second=8 * facts["packet_bytes"] / seconds if seconds > 0 else 0.0,
        nvdec=facts["nvdec"],
        nvdec_reason=facts["nvdec_reason"],
        clip_frames=frames,
        clip_stride=apart,
        frames_decoded_per_clip=pictures,
        clip_bytes=read,
    )
