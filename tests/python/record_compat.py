"""Records the results of decord and torchcodec in ``compat_golden.json``, which test_compat.py compares with ours.

Run it where these are installed (benches/peers/setup.sh), with LD_LIBRARY_PATH as benches/peers/environment.py says:
``python tests/python/record_compat.py``. Both libraries evaluate the expressions below; the videos are
the test media (``tests/media/make.py``), in target/media or where FRAMESPOOL_MEDIA says.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import sys
from collections.abc import Callable
from copy import copy
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).with_name("compat_golden.json")

VIDEOS = [
    "action/bikes_640x272.mp4",
    "action/phone_176x144.mp4",
    "action/words/again.mkv",
    "action/street_ucf_320x240.avi",
    "action/cars_768x432.mp4",
    "action/vp9_512x288.webm",
    "derived/base_640x360.mp4",
    "derived/delayed_start_640x360.mp4",
    "derived/h264_gop12_360p_kinetics_like.mp4",
    "derived/rotate_cw90_640x360.mp4",
    "derived/start_33ms_640x480.mkv",
    "derived/vp8_640x360.webm",
]
#: 88 frames at 12.5 a second, key frames 0 and 60.
READER_VIDEO = "action/cars_768x432.mp4"
#: 77 frames of 1001/30000 s, in milliseconds, from 0.033 s on.
DECODER_VIDEO = "derived/start_33ms_640x480.mkv"
#: More than 8 bits per component.
DEEP_VIDEO = "codecs/hevc_main10.mkv"
#: A video stream, then an audio stream.
SOUND_VIDEO = "odd/data_streams.mp4"
#: As ffprobe lists the frames of DECODER_VIDEO.
MAPPING = json.dumps(
    {"frames": [{"pts": int(1001 / 30 * n + 0.5) + 33, "duration": 33, "key_frame": int(n == 0)} for n in range(77)]}
)

#: Files with complete torchcodec metadata: colors, rates, aspects, missing or wrong header fields.
METADATA_VIDEOS = [
    # Hidden frames, which torchcodec counts, differ between encoders.
    *(name for name in VIDEOS if name != "derived/vp8_640x360.webm"),
    "action/vp8_426x240.webm",
    "codecs/av1_10bit_426x240.webm",
    "codecs/h264_480x360.flv",
    "codecs/hevc_main10.mkv",
    "codecs/mpeg4_176x144.3gp",
    "derived/ffv1_320x180.mkv",
    "derived/fragmented_640x360.mp4",
    "derived/h264_422_10bit_720p.mp4",
    "derived/h264_bt601_tagged_720x480_sar.mp4",
    "derived/h264_bt709_tagged_640x360.mp4",
    "derived/h264_full_range_640x360.mp4",
    "derived/h264_gray_640x360.mp4",
    "derived/hevc_hdr10_tagged_720p.mp4",
    "derived/negative_cts_640x360.mp4",
    "derived/no_editlist_640x360.mp4",
    "derived/odd_333x251_vp9.webm",
    "derived/prores_422.mov",
    "derived/rotate_180_640x360.mp4",
    "derived/rotate_ccw90_640x360.mp4",
    "derived/two_video_tracks.mp4",
    "derived/vfr_60_15_30_640x360.mp4",
    "odd/first_pts_10s.mp4",
]

#: Expressions evaluated with a reader ``r`` of READER_VIDEO, in this order; ``next`` frames are recorded as numbers.
READER_WALK = [
    "next()",
    "next()",
    "seek(4)",
    "next()",
    "[5]",
    "next()",
    "get_batch([1, 8])",
    "next()",
    "seek_accurate(4)",
    "next()",
    "skip_frames()",
    "next()",
    "seek_accurate(70)",
    "next()",
    "skip_frames(3)",
    "next()",
    "seek(70)",
    "next()",
    "[-1]",
    "next()",
    "next()",
]

#: Expressions of which only the kind of result counts; ``n`` is the number of frames.
READER_OUTCOMES = [
    "r[n - 1]",
    "r[n]",
    "r[-n]",
    "r[-n - 1]",
    "r[1.5]",
    "r['a']",
    "r[None]",
    "r[5:5]",
    "r[::-7]",
    "r[0:10000:20]",
    "r.get_batch([])",
    "r.get_batch([-1])",
    "r.get_batch([n])",
    "r.get_batch([-n - 1])",
    "r.get_batch((1, 2))",
    "r.get_batch(np.array([3, 4]))",
    "r.get_batch(range(3))",
    "r.get_batch(None)",
    "r.get_batch('a')",
    "r.get_frame_timestamp(n)",
    "r.get_frame_timestamp(-1)",
    "r.get_frame_timestamp([n])",
    "r.seek(n)",
    "r.seek(-1)",
    "r.seek(1.5)",
    "r.seek_accurate(n)",
    "r.seek_accurate(-1)",
    "r.skip_frames(0)",
    "r.skip_frames(-1)",
    "decord.VideoReader('/nope.mp4')",
    "decord.VideoReader(broken)",
    "decord.VideoReader(3)",
    "decord.VideoReader(None)",
    "decord.VideoReader(path, ctx='cpu')",
    "decord.VideoReader(path, ctx=None)",
    "decord.VideoReader(path, width=1.5)",
    "decord.VideoReader(path, width=100)[0].shape",
    "decord.VideoReader(path, width=100, height=50)[0].shape",
    "decord.VideoReader(path, width=0, height=0)[0].shape",
    "decord.VideoReader(io.BytesIO(data))[0].shape",
    "decord.VideoLoader([], [decord.cpu(0)], (8, 48, 64, 3), 0, 0, 0)",
    "decord.VideoLoader(path, [decord.cpu(0)], (8, 48, 64, 3), 0, 0, 0)",
    "decord.VideoLoader([path], [], (8, 48, 64, 3), 0, 0, 0)",
    "decord.VideoLoader([path], [decord.cpu(0)], (8, 48, 64), 0, 0, 0)",
    "decord.VideoLoader([path], [decord.cpu(0)], (8, 48, 64, 3), 0, 0, 3)",
    "decord.VideoLoader([path], [decord.cpu(0)], (8, 48, 64, 3), 0, 0, -1)",
    "decord.VideoLoader(['/nope.mp4'], [decord.cpu(0)], (8, 48, 64, 3), 0, 0, 0)",
    "decord.VideoLoader([path], [decord.cpu(0)], (400, 48, 64, 3), 0, 0, 0).next()",
    "decord.bridge.set_bridge('numpy')",
    "decord.bridge.set_bridge(None)",
    "decord.cpu() == decord.cpu(0)",
    "repr(decord.gpu(1))",
]

#: (batch size, interval, skip) of loaders of two videos, 77 and 63 frames, that do not shuffle.
LOADER_VIDEOS = ["action/words/again.mkv", "action/words/bird.mkv"]
LOADERS = [(8, 0, 0), (8, 1, 0), (8, 0, 3), (8, 2, 5), (7, 0, 0), (40, 0, 0), (2, 5, 9)]

DECODER_OUTCOMES = [
    "d[n]",
    "d[-1]",
    "d[-n - 1]",
    "d[1.0]",
    "d['a']",
    "d[np.int64(1)]",
    "d[torch.tensor(1)]",
    "d[[1, 2]]",
    "d[5:5]",
    "d[0:1000:7]",
    "d[n + 5 : n + 9]",
    "d.get_frame_at(n)",
    "d.get_frame_at(-1)",
    "d.get_frame_at(-n - 1)",
    "d.get_frame_at(1.5)",
    "d.get_frame_at('a')",
    "d.get_frame_at(None)",
    "d.get_frames_at([n])",
    "d.get_frames_at([-1])",
    "d.get_frames_at([-n - 1])",
    "d.get_frames_at(torch.tensor([1, 2]))",
    "d.get_frames_at(np.array([1, 2]))",
    "d.get_frames_at((1, 2))",
    "d.get_frames_at(range(3))",
    "d.get_frames_at(5)",
    "d.get_frames_at(['a'])",
    "d.get_frames_at([0.9])",
    "d.get_frames_at(torch.tensor([0.9]))",
    "d.get_frames_at(torch.tensor([-1, 0], dtype=torch.int32))",
    "d.get_frames_at(torch.tensor([n]))",
    "d.get_frame_at(np.uint32(9))",
    "d.get_frame_at(np.uint64(9))",
    "d[np.uint64(9)]",
    "d._get_key_frame_indices()",
    "d._num_frames",
    "str(d.cpu_fallback)",
    "bool(d.cpu_fallback)",
    "d.cpu_fallback.status_known",
    "d.stream_index",
    "d.get_frames_in_range(-3, None)",
    "d.get_frames_in_range(np.int64(0), np.int64(10), np.int64(2))",
    "d.get_all_frames(fps=10)",
    "next(iter(d.get_frames_at([0, 1])))",
    "len(d.get_frames_at([0, 1]))",
    "len(tuple(d.get_frame_at(0)))",
    "d.get_frames_at([0, 1]).pts_seconds.dtype == torch.float64",
    "d.get_frames_at([0, 1]).data.is_contiguous(memory_format=torch.channels_last)",
    "d.get_frames_in_range(0, 5, 2)",
    "d.get_frames_in_range(5, 5)",
    "d.get_frames_in_range(0, n + 1)",
    "d.get_frames_in_range(-5, -1)",
    "d.get_frames_in_range(n + 2, n + 3)",
    "d.get_frames_in_range(-n - 1, 3)",
    "d.get_frames_in_range(0, n, 0)",
    "d.get_frames_in_range(0, n, -1)",
    "d.get_frame_played_at(B)",
    "d.get_frame_played_at(E)",
    "d.get_frame_played_at(E - 1e-6)",
    "d.get_frame_played_at(B - 1e-6)",
    "d.get_frame_played_at('a')",
    "d.get_frame_played_at(None)",
    "d.get_frame_played_at(float('nan'))",
    "d.get_frames_played_at([])",
    "d.get_frames_played_at([E])",
    "d.get_frames_played_at([-1.0])",
    "d.get_frames_played_at(torch.tensor([0.5, 0.7]))",
    "d.get_frames_played_at(0.5)",
    "d.get_frames_played_at(['a'])",
    "d.get_frames_played_at([float('nan')])",
    "d.get_frames_played_in_range(0.6, 0.5)",
    "d.get_frames_played_in_range(B - 1, E)",
    "d.get_frames_played_in_range(B, E + 1)",
    "d.get_frames_played_in_range(E, E)",
    "d.get_frames_played_in_range(0.1, 0.5, fps=0)",
    "d.get_frames_played_in_range(0.1, 0.5, fps=-1)",
    "d.get_frames_played_in_range(0.1, 0.5, fps=float('nan'))",
    "decoders.VideoDecoder(path, dimension_order='X')",
    "decoders.VideoDecoder(path, seek_mode='x')",
    "decoders.VideoDecoder(path, num_ffmpeg_threads=0)",
    "decoders.VideoDecoder(path, num_ffmpeg_threads=None)",
    "decoders.VideoDecoder(path, stream_index=7)",
    "decoders.VideoDecoder(path, stream_index=0)[0]",
    "decoders.VideoDecoder(path, output_dtype='auto')[0].dtype == torch.uint8",
    "decoders.VideoDecoder(deep, output_dtype='auto')[0].dtype == torch.float32",
    "decoders.VideoDecoder(deep)[0].dtype == torch.uint8",
    "decoders.VideoDecoder(path, output_dtype=torch.float32)[0].dtype == torch.float32",
    "decoders.VideoDecoder(path, output_dtype='float32')",
    "decoders.VideoDecoder(path, seek_mode='approximate').metadata.num_frames_from_content is None",
    "decoders.VideoDecoder(path, seek_mode='approximate').metadata.begin_stream_seconds_from_content is None",
    "decoders.VideoDecoder(path, seek_mode='approximate').metadata.end_stream_seconds_from_content is None",
    "decoders.VideoDecoder(path, seek_mode='custom_frame_mappings')",
    "decoders.VideoDecoder(path, custom_frame_mappings=mapping, seek_mode='approximate')",
    "decoders.VideoDecoder(path, custom_frame_mappings='')",
    "decoders.VideoDecoder(path, custom_frame_mappings='{}')",
    'decoders.VideoDecoder(path, custom_frame_mappings=\'{"frames": [{"pts": 0}]}\')',
    "decoders.VideoDecoder(path, custom_frame_mappings=mapping)[7]",
    "len(decoders.VideoDecoder(path, custom_frame_mappings=mapping))",
    "len(decoders.VideoDecoder(path, custom_frame_mappings=io.StringIO(mapping)))",
    "len(decoders.VideoDecoder(path, custom_frame_mappings=mapping.encode()))",
    "decoders.VideoDecoder(path, device=torch.device('cpu'))[0]",
    "isinstance(d.metadata, decoders.VideoStreamMetadata)",
    "decoders.SimpleVideoDecoder(path)[0]",
    "decoders.VideoDecoder(text)",
    "decoders.VideoDecoder(file)[0]",
    "decoders.VideoDecoder(raw)[0]",
    "decoders.VideoDecoder(Plain(data))[0]",
    "decoders.VideoDecoder(path, transforms=[transforms.Resize((600, 700)), transforms.RandomCrop((500, 650))])[0]",
    "decoders.VideoDecoder(path, transforms=[transforms.RandomCrop((481, 640))])",
    "decoders.VideoDecoder(path, transforms=[transforms.Resize((100, 100))], output_dtype=torch.float32)[0]",
    "decoders.VideoDecoder(path, output_dtype=torch.int8)",
    "decoders.VideoDecoder(path, output_dtype=torch.float32)[0]",
    "decoders.VideoDecoder(path, transforms=[3])",
    "decoders.VideoDecoder(path, transforms=[transforms.Resize((100, 120))])[0:2]",
    "decoders.VideoDecoder(path, transforms=[transforms.CenterCrop((1000, 120))])",
    "decoders.VideoDecoder(path, dimension_order='NHWC')[0]",
    "decoders.VideoDecoder(path, device='xx')",
    "decoders.VideoDecoder('/nope.mp4')",
    "decoders.VideoDecoder(broken)",
    "decoders.VideoDecoder(b'abc')",
    "decoders.VideoDecoder(3)",
    "decoders.VideoDecoder(None)",
    "decoders.VideoDecoder(data)[0]",
    "decoders.VideoDecoder(io.BytesIO(data))[0]",
    "decoders.VideoDecoder(torch.frombuffer(bytearray(data), dtype=torch.uint8))[0]",
    "transforms.Resize((100,))",
    "transforms.Resize((100, 100, 100))",
    "transforms.CenterCrop((100,))",
    "transforms.RandomCrop((100,))",
    "torchcodec.Frame(torch.zeros(3, 3), 1.0, 1.0)",
    "torchcodec.FrameBatch(torch.zeros(2, 3, 4, 4), torch.zeros(3), torch.zeros(2))",
    "torchcodec.FrameBatch(torch.zeros(3, 3), torch.zeros(3), torch.zeros(3))",
    "d.get_frames_at([0, 1])[5]",
    "d.get_frames_at([0, 1])[-1]",
    "d.get_frames_at([0, 1])[0:2]",
]

#: Parts of torchcodec's messages, on which code and tests may depend.
WORDS: list[tuple[str, str]] = [
    ("decoders.VideoDecoder(123)", "Unknown source type"),
    ("decoders.VideoDecoder(text)", "binary reading?"),
    ("decoders.VideoDecoder(path, stream_index=40)", "40 is not a valid stream"),
    ("decoders.VideoDecoder(sounds, stream_index=1)", "is not a video stream"),
    ("decoders.VideoDecoder(path, seek_mode='blah')", "Invalid seek mode"),
    ("decoders.VideoDecoder(path, dimension_order='NCDHW')", "Invalid dimension order"),
    ("decoders.VideoDecoder(path, num_ffmpeg_threads=None)", "should be an int"),
    ("decoders.VideoDecoder(path, output_dtype=torch.int8)", "Invalid output_dtype"),
    ("d[1000]", "Invalid frame index"),
    ("d[-1000]", "Invalid frame index"),
    ("d['0']", "Unsupported key type"),
    ("d[2.3]", "Unsupported key type"),
    ("d.get_frame_at(-10000)", "negative indices must have an absolute value less than the number of frames"),
    ("d.get_frame_at(10000)", "must be less than"),
    ("d.get_frames_at([n])", "Invalid frame index=77"),
    ("d.get_frames_at([0.3])", "Long but found Float"),
    ("d.get_frame_played_at(-1.0)", "Invalid pts in seconds"),
    ("d.get_frame_played_at(100.0)", "Invalid pts in seconds"),
    ("d.get_frames_played_at([-1])", "must be greater than or equal to"),
    ("d.get_frames_played_at([14])", "must be less than"),
    ("d.get_frames_played_at(['bad'])", "Couldn't convert timestamps input to a tensor"),
    ("d.get_frames_played_in_range(100.0, 1.0)", "Invalid start seconds"),
    ("d.get_frames_played_in_range(20, 23)", "Invalid start seconds"),
    ("d.get_frames_played_in_range(1, 23)", "Invalid stop seconds"),
    ("d.get_frames_played_in_range(1, 2, fps=0)", "fps must be positive"),
    ("decoders.VideoDecoder(path, custom_frame_mappings=mapping, seek_mode='approximate')", "seek_mode"),
    ("decoders.VideoDecoder(path, custom_frame_mappings='x')", "Invalid custom frame mappings"),
    ("decoders.VideoDecoder(path, custom_frame_mappings='{}')", "missing the required 'frames' key"),
    ('decoders.VideoDecoder(path, custom_frame_mappings=\'{"frames": [{"a": 1}]}\')', "keys are required"),
    ("decoders.VideoDecoder(path, transforms=[3])", ""),
    ("decoders.VideoDecoder(path, transforms=[transforms.RandomCrop((481, 640))])", "are smaller than the crop"),
    ("transforms.Resize((100, 100, 100))", "must have a (height, width) pair for the size"),
    ("samplers.clips_at_random_indices(d, num_clips=0)", "num_clips (0) must be > 0"),
    (
        "samplers.clips_at_regular_indices(d, num_frames_per_clip=0)",
        "num_frames_per_clip (0) must be strictly positive",
    ),
    ("samplers.clips_at_random_timestamps(d, num_frames_per_clip=0)", "must be strictly positive"),
    ("samplers.clips_at_random_indices(d, policy='BAD')", "Invalid policy"),
    ("samplers.clips_at_random_indices(d, num_indices_between_frames=0)", "(0) must be strictly positive"),
    (
        "samplers.clips_at_random_indices(d, sampling_range_start=1000)",
        "sampling_range_start (1000) must be smaller than",
    ),
    (
        "samplers.clips_at_random_timestamps(d, sampling_range_start=1000)",
        "sampling_range_start (1000) must be smaller than",
    ),
    (
        "samplers.clips_at_random_indices(d, sampling_range_start=4, sampling_range_end=4)",
        "sampling_range_start (4) must be smaller than sampling_range_end",
    ),
    (
        "samplers.clips_at_regular_indices(d, num_frames_per_clip=10, sampling_range_start=76)",
        "We determined that sampling_range_end should",
    ),
    (
        "samplers.clips_at_random_timestamps(d, sampling_range_start=-1)",
        "sampling_range_start (-1) must be at least 0.03",
    ),
    ("samplers.clips_at_random_timestamps(d, sampling_range_end=-1)", "sampling_range_end (-1) must be at least 0.03"),
    (
        "samplers.clips_at_regular_timestamps(d, seconds_between_clip_starts=-1)",
        "seconds_between_clip_starts (-1) must be > 0",
    ),
    (
        "samplers.clips_at_regular_indices(d, num_frames_per_clip=9, sampling_range_start=-1, sampling_range_end=999,"
        " policy='error')",
        "beyond the number of frames",
    ),
    ("samplers.clips_at_random_timestamps(without(d, 'average_fps'))", "Could not infer average fps"),
    ("samplers.clips_at_random_timestamps(without(d, 'end_stream_seconds'))", "Could not infer stream end"),
]
#: The same of torchvision's transforms, ``v2``.
TORCHVISION_WORDS: list[tuple[str, str]] = [
    ("v2.Resize((90, 90), interpolation=v2.InterpolationMode.BICUBIC)", "must use bilinear interpolation"),
    ("v2.Resize((90, 90), interpolation=v2.InterpolationMode.NEAREST)", "must use bilinear interpolation"),
    ("v2.Resize((90, 90), antialias=False)", "must have antialias enabled"),
    ("v2.Resize(size=None, max_size=100)", "must have a size specified"),
    ("v2.Resize(100)", "must have a (height, width) pair for the size"),
    ("v2.RandomCrop((90, 90), padding=255)", "must not specify padding"),
    ("v2.RandomCrop((90, 90), pad_if_needed=True)", "must not specify pad_if_needed"),
    ("v2.RandomCrop((90, 90), fill=255)", "fill must be 0"),
    ("v2.RandomCrop((90, 90), padding_mode='edge')", "padding_mode must be constant"),
    ("v2.RandomHorizontalFlip(p=1.0)", "Unsupported transform"),
]

#: Seconds from, to, and frames a second, within DECODER_VIDEO.
RANGES: list[tuple[float, float, float | None]] = [
    (0.033, 2.6, None),
    (0.05, 0.1, None),
    (0.065, 0.066, None),
    (0.066, 0.0660001, None),
    (0.5, 0.5, None),
    (0.1, 0.95, 10),
    (0.1, 0.92, 10),
    (0.112, 0.4, 60),
    (0.1, 0.13, 5),
    (0.12, 0.75, 13.7),
    (1.033, 2.6, 15),
    (0.033, 2.6, 30),
    (0.05, 1.0, 29.97),
]

_FEW = {"num_clips": 3, "num_frames_per_clip": 4}
_LONG = {"num_clips": 2, "num_frames_per_clip": 4, "num_indices_between_frames": 40}
_TIMES = {"num_frames_per_clip": 4, "seconds_between_frames": 0.1}
_LATE = {**_TIMES, "seconds_between_frames": 0.25, "sampling_range_start": 2.0, "sampling_range_end": 2.5}
_RANDOM, _REGULAR = "clips_at_random_indices", "clips_at_regular_indices"
_RANDOM_TIMES, _REGULAR_TIMES = "clips_at_random_timestamps", "clips_at_regular_timestamps"

#: Samplers and their options, by the state of torch's generator.
SAMPLERS: list[tuple[int, str, dict[str, Any]]] = [
    (seed, name, options)
    for name, choices in {
        **dict.fromkeys(
            (_RANDOM, _REGULAR),
            [
                {},
                _FEW,
                {**_FEW, "num_indices_between_frames": 2},
                _LONG,
                {**_LONG, "policy": "wrap"},
                {**_LONG, "policy": "error"},
                {"policy": "x"},
                {"num_clips": 0},
                {"num_frames_per_clip": 0},
                {"num_indices_between_frames": 0},
                {"sampling_range_start": 77},
                {"sampling_range_start": -82},
                {"sampling_range_start": -5, "num_clips": 9},
                {"sampling_range_end": 3, "num_clips": 4},
                {"sampling_range_end": -70, "num_clips": 10},
                {"sampling_range_end": 1000, "num_clips": 3},
                {"sampling_range_start": 5, "sampling_range_end": 5},
                {"sampling_range_start": 70, "num_frames_per_clip": 20},
            ],
        ),
        _RANDOM_TIMES: [{"num_clips": 3, **options} for options in ({}, _TIMES, _LATE, {**_LATE, "policy": "wrap"})]
        + [
            {"num_clips": 0},
            {"policy": "x"},
            {"num_frames_per_clip": 0},
            {"seconds_between_frames": 0},
            {"sampling_range_start": -1},
            {"sampling_range_start": 2.602},
            {"sampling_range_end": 0.033},
            {"sampling_range_end": 30},
            {"sampling_range_start": 1.0, "sampling_range_end": 1.0},
            {"num_frames_per_clip": 4, "seconds_between_frames": 1.0},
            {**_LATE, "policy": "error"},
        ],
        _REGULAR_TIMES: [
            {"seconds_between_clip_starts": apart, **options}
            for apart in (0.7, 0.1, 0, -1)
            for options in ({}, _TIMES, _LATE, {**_LATE, "policy": "wrap"}, {**_LATE, "policy": "error"})
        ],
    }.items()
    for options in choices
    for seed in ((7, 8) if "random" in name and "policy" not in options else (7,))
]


def outcome(ask: Callable[[], Any]) -> Any:
    """An error's class, or the result in JSON form: a shape, else the value."""
    try:
        found = ask()
    except Exception as reason:
        return type(reason).__name__
    shape = getattr(getattr(found, "data", None), "shape", None) or getattr(found, "shape", None)
    if shape is not None and not isinstance(found, (int, float, str, bool)):
        return list(shape)
    if isinstance(found, tuple):
        return list(found)
    return found if isinstance(found, (int, float, str, bool)) else None


def says(ask: Callable[[], Any], words: str) -> list[Any]:
    """An error's class, and whether its message has these words."""
    try:
        ask()
    except Exception as reason:
        return [type(reason).__name__, words in str(reason)]
    return ["no error", False]


def ask_torchvision(torchcodec: Any, path: str) -> dict[str, Any]:
    """Results of torchvision's transforms in a decoder; nothing without torchvision."""
    try:
        from torchvision.transforms import v2
    except ImportError:
        return {}

    def decode(ask: str) -> Any:
        return torchcodec.decoders.VideoDecoder(path, transforms=[eval(ask, {"v2": v2})])

    return {ask: says(lambda ask=ask: decode(ask), words) for ask, words in TORCHVISION_WORDS}


def plain(value: Any) -> Any:
    """The value in JSON form."""
    if isinstance(value, float):
        return round(value, 6)
    return str(value) if isinstance(value, Fraction) else value


def without(decoder: Any, fact: str) -> Any:
    """A decoder without one field of its metadata."""
    other = copy(decoder)
    other.metadata = copy(decoder.metadata)
    setattr(other.metadata, fact, None)
    return other


class Plain:
    """A file object with the two required methods."""

    def __init__(self, data: bytes):
        self._file = io.BytesIO(data)

    def read(self, size: int) -> bytes:
        return self._file.read(size)

    def seek(self, offset: int, whence: int) -> int:
        return self._file.seek(offset, whence)


def nearest(frames: Any, frame: Any) -> int:
    """Which of ``frames`` this one is."""
    return int(np.argmin([np.abs(other.astype(np.int16) - frame).mean() for other in frames]))


def ask_reader(decord: Any, videos: Path) -> dict[str, Any]:
    """Evaluates decord's expressions with a module that has its names."""
    found: dict[str, Any] = {"videos": {}}
    for name in VIDEOS:
        reader = decord.VideoReader(str(videos / name))
        times = reader.get_frame_timestamp([0, 1, 2, -2])
        found["videos"][name] = {
            "frames": len(reader),
            "shape": list(reader[0].shape),
            "keys": reader.get_key_indices(),
            "fps": reader.get_avg_fps(),
            "times": [[round(float(x), 5) for x in pair] for pair in times],
        }
    path, broken = str(videos / READER_VIDEO), str(videos / "corrupt" / "broken.mp4")
    frames = decord.VideoReader(path, width=192, height=108)[:].asnumpy()
    reader = decord.VideoReader(path, width=192, height=108)
    found["walk"] = []
    for step in READER_WALK:
        try:
            given = eval(f"r{step if step[0] == '[' else '.' + step}", {"r": reader})
        except StopIteration:
            found["walk"].append("StopIteration")
            continue
        picture = None if given is None else given.asnumpy()
        found["walk"].append(None if picture is None or picture.ndim == 4 else nearest(frames, picture))
    reader = decord.VideoReader(path)
    names = {"decord": decord, "np": np, "r": reader, "n": len(reader), "path": path, "broken": broken}
    names |= {"io": io, "data": Path(path).read_bytes()}
    found["outcomes"] = {ask: outcome(lambda ask=ask: eval(ask, names)) for ask in READER_OUTCOMES}
    found["loaders"] = []
    for size, interval, skip in LOADERS:
        uris = [str(videos / name) for name in LOADER_VIDEOS]
        loader = decord.VideoLoader(uris, [decord.cpu(0)], (size, 48, 64, 3), interval, skip, 0)
        rows = [batch[1].asnumpy().tolist() for batch in loader]
        found["loaders"].append([[row[0], row[-1]] for row in rows])
    return found


def ask_decoder(torchcodec: Any, videos: Path) -> dict[str, Any]:
    """Evaluates torchcodec's expressions with a package that has its modules."""
    import torch

    found: dict[str, Any] = {"videos": {}}
    decoders = torchcodec.decoders
    for name in VIDEOS:
        decoder = decoders.VideoDecoder(str(videos / name))
        times = decoder.get_frames_at([0, 1, 2, -1])
        found["videos"][name] = {
            "frames": len(decoder),
            "shape": list(decoder[0].shape),
            "pts": [round(float(x), 9) for x in times.pts_seconds],
        }
    found["metadata"] = {}
    for name in METADATA_VIDEOS:
        facts = decoders.VideoDecoder(str(videos / name)).metadata
        found["metadata"][name] = {field.name: plain(getattr(facts, field.name)) for field in dataclasses.fields(facts)}
    found["repr"] = repr(decoders.VideoDecoder(str(videos / VIDEOS[0])).metadata)
    path, broken = str(videos / DECODER_VIDEO), str(videos / "corrupt" / "broken.mp4")
    decoder = decoders.VideoDecoder(path)
    begin, end = decoder.metadata.begin_stream_seconds, decoder.metadata.end_stream_seconds
    modules = {name: getattr(torchcodec, name) for name in ("decoders", "samplers", "transforms")}
    names = {"torchcodec": torchcodec, **modules, "torch": torch, "np": np, "d": decoder, "n": len(decoder)}
    names |= {"path": path, "broken": broken, "B": begin, "E": end, "mapping": MAPPING, "Plain": Plain}
    names |= {"deep": str(videos / DEEP_VIDEO), "sounds": str(videos / SOUND_VIDEO), "without": without}
    names |= {"io": io, "data": Path(path).read_bytes()}
    with open(path, encoding="latin-1") as text, open(path, "rb") as file, open(path, "rb", buffering=0) as raw:
        names |= {"text": text, "file": file, "raw": raw}
        found["outcomes"] = {ask: outcome(lambda ask=ask: eval(ask, names)) for ask in DECODER_OUTCOMES}
        found["words"] = {ask: says(lambda ask=ask: eval(ask, names), words) for ask, words in WORDS}
    found["torchvision"] = ask_torchvision(torchcodec, path)
    small = decoders.VideoDecoder(path, transforms=[torchcodec.transforms.Resize((24, 32))])
    pictures = small[:].float()

    def numbers(data: Any) -> list[int]:
        apart = (data.float()[:, None] - pictures[None]).abs().mean(dim=(2, 3, 4))
        return [int(place) for place in apart.argmin(dim=1)]

    found["ranges"] = []
    for start, stop, fps in RANGES:
        batch = small.get_frames_played_in_range(start, stop, fps=fps)
        row = [numbers(batch.data) if len(batch) else [], [round(float(x), 6) for x in batch.pts_seconds]]
        found["ranges"].append(row)
    found["samplers"] = []
    for seed, name, options in SAMPLERS:
        torch.manual_seed(seed)
        try:
            clips = getattr(torchcodec.samplers, name)(small, **options)
            rows = [numbers(clip.data) for clip in clips]
        except ValueError:
            rows = "ValueError"
        found["samplers"].append(rows)
    torch.manual_seed(3)
    crop = decoders.VideoDecoder(path, transforms=[torchcodec.transforms.RandomCrop((50, 60))])
    whole, part = decoder[0].float(), crop[0].float()
    windows = whole.unfold(1, 50, 1).unfold(2, 60, 1)[:, ::1, ::1]
    apart = (windows[:, :, :, ::7, ::7] - part[:, None, None, ::7, ::7]).abs().mean(dim=(0, 3, 4))
    place = int(apart.argmin())
    found["crop"] = [place // apart.shape[1], place % apart.shape[1]]
    return found


def main() -> None:
    import decord
    import torchcodec
    import torchcodec.decoders
    import torchcodec.samplers
    import torchcodec.transforms

    root = Path(__file__).resolve().parents[2]
    videos = Path(os.environ.get("FRAMESPOOL_MEDIA") or root / "target" / "media") / "video"
    golden = {
        "versions": {"eva_decord": "0.6.1", "torchcodec": torchcodec.__version__},
        "decord": ask_reader(decord, videos),
        "torchcodec": ask_decoder(torchcodec, videos),
    }
    rows = json.dumps(golden, separators=(",", ":"))
    # One entry per line, so that a new recording gives a readable diff.
    for mark in (
        '"videos":',
        '"walk":',
        '"outcomes":',
        '"loaders":',
        '"ranges":',
        '"samplers":',
        '"crop":',
        '"metadata":',
        '"repr":',
        '"words":',
        '"torchvision":',
        '"derived/',
        '"codecs/',
        '"odd/',
        '"action/',
    ):
        rows = rows.replace(mark, f"\n{mark}")
    GOLDEN.write_text(rows + "\n")
    print(GOLDEN, len(rows), "bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
