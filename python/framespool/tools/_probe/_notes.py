"""What will be slow in training, derived from a summary's numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from framespool import gpu
from framespool.errors import Error
from framespool.loaders._disk_cache import OPTION
from framespool.tools._probe._read_files import ImageRecord, VideoRecord, clip_span

#: Packets for a clip, in lengths of the clip, from which on a note is made; pixels of a large frame.
_EXPENSIVE, _LARGE = 2.0, 1280 * 720
#: Ratio of the highest to the lowest frame rate from which on a note is made.
_RATES_DIFFER = 1.2
#: Stored forms that NVDEC decodes on every GPU.
_ALWAYS = ("yuv420p", "yuvj420p")
#: Transfer functions of high dynamic range.
_HDR = {"smpte2084": "PQ", "arib-std-b67": "HLG"}


def video_notes(videos: Sequence[VideoRecord], sequence_length: int, stride: int) -> list[str]:
    """Notes on videos.

    Args:
        videos: The videos that were read.
        sequence_length: Frames of a clip.
        stride: Distance between its frames.

    Returns:
        Sentences, the most useful first.
    """
    notes = [_gops(videos, sequence_length, stride), _large(videos), _nvdec(videos), _formats(videos)]
    count = len(videos)
    if indirect := [video for video in videos if not video.direct]:
        containers = ", ".join(sorted({video.container for video in indirect}))
        notes.append(
            f"{len(indirect)} of {count} videos ({containers}) are read through the demuxer, since their packets are "
            "not contiguous in the file: random clips are slower. Remux them to MP4 or MKV."
        )
    span = clip_span(sequence_length, stride)
    if short := sum(video.num_frames < span for video in videos):
        notes.append(
            f"{short} of {count} videos are shorter than a clip ({clip_text(sequence_length, stride)}): choose "
            "another length or stride, or a padding."
        )
    rates = [video.fps for video in videos if video.fps > 0]
    if rates and max(rates) > _RATES_DIFFER * min(rates):
        notes.append(
            f"Frame rates differ ({min(rates):.3g} to {max(rates):.3g}), so a stride in frames covers different times: "
            "give the clip sampler fps= instead."
        )
    if interlaced := sum(video.field_order not in (None, "progressive") for video in videos):
        notes.append(
            f"{interlaced} of {count} videos are interlaced: each frame has the lines of two fields, which show moving "
            'objects at two times. Begin the transforms with Deinterlace("linear"), or deinterlace the files first, '
            "for example with FFmpeg's filter bwdif."
        )
    hdr = Counter(_HDR[video.color[1]] for video in videos if video.color[1] in _HDR)
    if hdr:
        notes.append(
            f"{hdr.total()} of {count} videos have high dynamic range ({', '.join(hdr)}), which looks pale unless "
            "transforms.ToneMap converts it."
        )
    if several := sum(bool(video.streams) for video in videos):
        notes.append(
            f"{several} of {count} files have several video streams: FFmpeg's choice is read unless "
            "Dataset.with_stream() selects one."
        )
    if damaged := sum(video.damaged_units > 0 for video in videos):
        notes.append(
            f"The containers of {damaged} of {count} videos have damaged or incomplete units: frames may be missing. "
            "`framespool validate` decodes every frame and lists what fails."
        )
    return [note for note in notes if note]


def image_notes(images: Sequence[ImageRecord]) -> list[str]:
    """Notes on images.

    Args:
        images: The images that were read.

    Returns:
        Sentences.
    """
    large = [image for image in images if image.size[0] * image.size[1] > _LARGE]
    pngs = sum(image.format == "png" for image in large)
    if not pngs:
        return []
    return [
        f"{pngs} of {len(images)} images are PNG files of more than 1280x720 pixels, which are decoded completely. A "
        "JPEG is decoded only as far as the transforms need it."
    ]


def clip_text(sequence_length: int, stride: int) -> str:
    """Describes a clip.

    Args:
        sequence_length: Its frames.
        stride: Distance between them.

    Returns:
        The text.
    """
    return f"{sequence_length} frames" + (f", {stride} apart" if stride > 1 else "")


def _gops(videos: Sequence[VideoRecord], sequence_length: int, stride: int) -> str | None:
    costs = [video.packets_per_clip for video in videos if video.packets_per_clip is not None]
    mean = sum(costs) / max(1, len(costs))
    # The frames between those of a clip are decoded with GOPs of any length.
    if mean < _EXPENSIVE * clip_span(sequence_length, stride):
        return None
    longest = max(max(video.gops, default=0) for video in videos)
    return (
        f"A random clip ({clip_text(sequence_length, stride)}) needs {mean:.0f} packets on average, which are "
        "decoded, or read and skipped: decoding starts at a keyframe, and keyframes are up to "
        f"{longest} frames apart. Take several clips per video (clips_per_video) with shuffle=True, which decodes a "
        f"GOP once for all its clips, keep clips of later epochs on disk ({OPTION}), or write copies with shorter GOPs "
        "(`framespool transcode`)."
    )


def _large(videos: Sequence[VideoRecord]) -> str | None:
    large = sum(video.size[0] * video.size[1] > _LARGE for video in videos)
    if not large:
        return None
    return (
        f"{large} of {len(videos)} videos are larger than 1280x720, and decoding takes time in proportion to the "
        "pixels. If clips are resized to much less, write smaller copies (`framespool transcode --size`)."
    )


def _nvdec(videos: Sequence[VideoRecord]) -> str | None:
    codecs: dict[str, Counter[str]] = {}
    for video in videos:
        if (reason := video.nvdec[1]) is not None:
            codecs.setdefault(reason.removeprefix(f"{video.codec}: "), Counter())[video.codec] += 1
    if not codecs:
        return None
    reasons = [
        f"{', '.join(f'{codec} ({count})' for codec, count in counts.most_common())}: {reason}"
        for reason, counts in codecs.items()
    ]
    count = sum(counts.total() for counts in codecs.values())
    return f"Also with a GPU, the CPU decodes {count} of {len(videos)} videos. {'; '.join(reasons)}."


def _formats(videos: Sequence[VideoRecord]) -> str | None:
    """Chroma formats and depths that only some GPUs decode; with a GPU, those that it does not."""
    forms = Counter(
        (video.nvdec[0], video.pixel_format, video.bit_depth)
        for video in videos
        if video.nvdec[0] is not None and video.pixel_format not in (None, *_ALWAYS)
    )
    try:
        known = {
            (codec.codec, codec.chroma.replace(":", ""), codec.depth_bits)
            for device in ([] if gpu.unavailable_reason() else gpu.devices()[:1])
            for codec in device.decodes
        }
    except Error:
        known = set()  # which of them this GPU decodes cannot be determined
    names = []
    for (codec, form, depth), count in forms.most_common():
        if not any((codec, chroma, depth) in known for chroma in ("420", "422", "444") if chroma in str(form)):
            names.append(f"{codec} {form} ({count})")
    if not names:
        return None
    which = "the GPU of this machine does not decode" if known else "only some GPUs decode"
    return f"With a GPU, the CPU may decode {', '.join(names)}: {which} these formats (`framespool doctor` lists them)."
