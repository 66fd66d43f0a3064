"""The presets: what each reproduces, and its options with their defaults, a section per codebase."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class Required:
    """Marks an option of a preset that has no default."""


@dataclass(frozen=True)
class PresetSpec:
    """A preset.

    Attributes:
        doc: What it reproduces, for people.
        options: Options with their defaults.
    """

    doc: str
    options: Mapping[str, Any] = field(default_factory=dict)


PRESETS: dict[str, PresetSpec] = {}


# Cosmos-Curate (nvidia-cosmos/cosmos-curate, `cosmos_curate/pipelines/video/utils/decoder_utils.py`).

PRESETS["cosmos_curate"] = PresetSpec(
    """Cosmos-Curate's `decode_video_cpu` (`sample_closest`): one clip per video, the frames nearest to the
    times `start`, `start + 1 / sample_rate_fps`, … up to `stop` (in the video's seconds; by default the
    presentation times of the first and the last frame), in float32 as with NumPy 2. Clips differ in length; frames
    repeat at a rate above the video's. `endpoint=False` omits a last time that equals `stop`.""",
    {"sample_rate_fps": Required, "start": None, "stop": None, "endpoint": True},
)


# DALI's video readers (NVIDIA/DALI, `dali/operators/video`).

PRESETS["dali"] = PresetSpec(
    """The sequences of DALI's `readers.video` and `experimental.readers.video`, in their order:
    `sequence_length` frames `stride` apart, starting every `step` frames (-1: `sequence_length * stride`).
    `pad_mode`: `"none"`, `"constant"`, `"edge"` (`"repeat"`), `"reflect_1001"` (`"symmetric"`),
    `"reflect_101"` (`"reflect"`); `pad_sequences=True` is the old name of `"constant"`. `version`:
    `"2.4"` counts as `experimental.readers.video` of DALI 2.4 did: a sequence needs `stride - 1` frames more
    than it spans, and padding adds one sequence; `"main"` counts as later versions do, and as `readers.video`
    always did.""",
    {
        "sequence_length": Required,
        "step": -1,
        "stride": 1,
        "pad_mode": None,
        "pad_sequences": None,
        "version": "main",
    },
)
PRESETS["dali_uniform_sample"] = PresetSpec(
    """DALI's `experimental.readers.video(uniform_sample=True)`: one sequence per video, from its first frame to
    its last, with halves rounded away from zero. Frames repeat in a video that has fewer.""",
    {"sequence_length": Required},
)


# FFmpeg (`libavfilter/vf_fps.c`).

PRESETS["ffmpeg_fps"] = PresetSpec(
    """The frames that FFmpeg's filter `fps` outputs, as `ffmpeg -i a.mp4 -vf fps=1` does: one clip per video. Times,
    counted from the first frame, are rounded to periods of the output (`round`: `"near"`, `"down"`, `"up"`, or
    `"zero"` and `"inf"`, which are the same here), and each period shows the last frame that is not later: at 30
    frames per second and `fps=1` the frames 14, 44, 74, … Frames repeat at a rate above the video's. `eof_action`:
    `"round"` or `"pass"`, how the end is rounded. A video that ends before its first period has no clip.""",
    {"fps": Required, "round": "near", "eof_action": "round"},
)


# Hugging Face Transformers (huggingface/transformers, `video_processing_utils.py` and `video_utils.py`).

PRESETS["hf"] = PresetSpec(
    """Transformers' sampling of frames: one clip per video, frames evenly spread. Either `num_frames` frames, or
    those at `fps` frames per second, where clips differ in length, or all frames. `version`:

    - `"5.23"`, and later: frame `i * total // num_frames`, and at least one frame at `fps`.
    - `"4.57"`: depends on `function`. `"sample_frames"` is `BaseVideoProcessor.sample_frames`, which needs one of the
      numbers. Sometimes the original requests one frame past the end (17 frames, `num_frames=7`). It is omitted, as by
      readers that decode a file sequentially. `"default_sample_indices_fn"` is the function of `load_video`. NumPy
      truncates the distance to an int, so the end of the video is not reached, and there may be one frame more.

    Requesting more frames than the video has is an error, as in the original.""",
    {"num_frames": None, "fps": None, "function": "sample_frames", "version": "5.23"},
)


# InternVideo2 (OpenGVLab/InternVideo, `InternVideo2/multi_modality/dataset/video_utils.py`).

_INTERNVIDEO2 = """InternVideo2's `read_frames_decord`: one clip over the complete video, or its first 30 seconds
(`trimmed30`). `sample` "rand": a random frame of each of `num_frames` intervals; "middle": the middle one, or
the one `fix_start` after the first; "fps0.5" and the like: so many frames per second, at most `max_num_frames`
(-1: all), and `num_frames` is ignored. A video of fewer than `num_frames` frames repeats its last one.

Draws of "rand": an int for each interval, below its length minus 1. If any interval is a single frame, instead an int
below i for each i from the number of frames down to 2 (the first entries of NumPy's `permutation`)."""

PRESETS["internvideo2"] = PresetSpec(
    _INTERNVIDEO2,
    {
        "num_frames": Required,
        "sample": "rand",
        "fix_start": None,
        "max_num_frames": -1,
        "trimmed30": False,
    },
)


# LeRobot's datasets (huggingface/lerobot, `lerobot/datasets`).

PRESETS["lerobot"] = PresetSpec(
    """LeRobot's `delta_timestamps` for one camera: one clip per frame of a video (an episode), made of the
    frames at these distances in seconds. The distances must be multiples of `1 / fps` (by default the video's
    average rate) to within `tolerance_s` seconds. Past either end the first or the last frame is used, with
    `mask` false (LeRobot's `is_pad`, inverted). A frame further than `tolerance_s` from its time is an error,
    as in the original. Seconds count from the first frame of the video, or of its segment.""",
    {"delta_timestamps": Required, "fps": None, "tolerance_s": 1e-4},
)


# mmaction2 (open-mmlab/mmaction2, `mmaction/datasets/transforms/loading.py`).

_MMACTION2 = """mmaction2's `SampleFrames`: `num_clips` clips (in test with `twice_sample` twice as many),
which the original returns as one item.

`clip_len` frames, `frame_interval` apart; `out_of_bound_opt` "loop" or "repeat_last" past the end;
`target_fps`: the clip spans `clip_len * frame_interval` frames of that rate. Ten- and thirty-view tests are these
clips times the crops of a transform (ThreeCrop).

Draws, for all clips of a video together. In training: a start for each clip (ints below the length of a part; where
parts would be empty, below the number of starts, then sorted; with `keep_tail_frames` floats; none for a short
video). Then, also in test, with `temporal_jitter`: an int below `frame_interval` for each frame of each clip (with
`target_fps`: for each clip)."""

_MMACTION2_DENSE = """\
mmaction2's `DenseSampleFrames`: clips start at even distances within a range of `sample_range`
frames. In training `num_clips` clips of one range; in test `num_sample_positions` times as many, range by range.
The original returns them as one item; its crops are a transform (ThreeCrop).

Draws, for all clips of a video together: in training, if the video is longer than the range, its start, below
`frames - sample_range`; with `temporal_jitter` an int below `frame_interval` for each frame of each clip."""

_MMACTION2_UNIFORM = """\
mmaction2's `UniformSample`: one frame from each of `clip_len` equal parts; in test `num_clips`
clips.

Draws in training: an int for each frame, below the length of its part (both ends included)."""

_MMACTION2_UNTRIMMED = """\
mmaction2's `UntrimmedSampleFrames`: clips around centers that are `clip_interval` frames apart,
as many as fit into the video; frames outside repeat the first or the last one. A video without a center has no
clips."""

PRESETS["mmaction2"] = PresetSpec(
    _MMACTION2,
    {
        "clip_len": Required,
        "frame_interval": 1,
        "num_clips": 1,
        "temporal_jitter": False,
        "twice_sample": False,
        "out_of_bound_opt": "loop",
        "test_mode": False,
        "keep_tail_frames": False,
        "target_fps": None,
    },
)
PRESETS["mmaction2_dense"] = PresetSpec(
    _MMACTION2_DENSE,
    {
        "clip_len": Required,
        "frame_interval": 1,
        "num_clips": 1,
        "sample_range": 64,
        "num_sample_positions": 10,
        "temporal_jitter": False,
        "out_of_bound_opt": "loop",
        "test_mode": False,
    },
)
PRESETS["mmaction2_uniform"] = PresetSpec(
    _MMACTION2_UNIFORM, {"clip_len": Required, "num_clips": 1, "test_mode": False}
)
PRESETS["mmaction2_untrimmed"] = PresetSpec(
    _MMACTION2_UNTRIMMED, {"clip_len": 1, "clip_interval": 16, "frame_interval": 1}
)


# PyTorchVideo's clip samplers (facebookresearch/pytorchvideo, `pytorchvideo/data/clip_sampling.py`).

PRESETS["pytorchvideo"] = PresetSpec(
    """PyTorchVideo's `make_clip_sampler` (its main branch). A clip is the frames with presentation times within
    `clip_duration` seconds, the end excluded: `num_samples` evenly spread ones of these
    (`UniformTemporalSubsample`), or all (`None`; clips then differ in length). `sampling_type`:

    - `"random"`: one clip at a random time. Draws a float.
    - `"random_multi"`: `num_clips` of these, which the original returns as one item. Draws for all clips
      together: a float each.
    - `"uniform"`: a clip every `stride` seconds (by default every `clip_duration`); `backpad_last=True`
      adds one that ends with the video.
    - `"constant_clips_per_video"`: `clips_per_video` evenly spread clips, each `augs_per_clip` times (1).

    `clip_duration` and `stride` may be `fractions.Fraction`, as in the original; with a float stride
    starts are computed in floats. Seconds count from the first frame; the duration is the video stream's (the
    original takes the audio's where that is longer). If a clip contains no frame, the original continues with
    another video; here it is an error.""",
    {
        "sampling_type": "random",
        "clip_duration": Required,
        "num_samples": None,
        "num_clips": None,
        "stride": None,
        "backpad_last": None,
        "clips_per_video": None,
        "augs_per_clip": None,
    },
)


# qwen-vl-utils (QwenLM/Qwen3-VL, `qwen_vl_utils/vision_process.py`).

PRESETS["qwen_vl"] = PresetSpec(
    """qwen-vl-utils' reading of videos, with its torchcodec and decord readers: one clip per video, frames evenly
    spread. Either `nframes` frames, rounded to an even number, or those at `fps` frames per second (2.0), at
    least `min_frames` (4) and at most `max_frames` (768), an even number; clips then differ in length.
    `video_start` and `video_end` (seconds) select a segment. A video with fewer frames than requested, or an
    empty segment, is an error, as in the original.""",
    {
        "fps": None,
        "nframes": None,
        "min_frames": None,
        "max_frames": None,
        "video_start": None,
        "video_end": None,
    },
)


# PySlowFast (facebookresearch/SlowFast, `slowfast/datasets`).

_SLOWFAST = """PySlowFast's `Kinetics`, for its mode of decoding complete videos: `mode` "train" and "val" give one
random clip, "test" gives `num_ensemble_views` evenly spread views, which the original combines with
`NUM_SPATIAL_CROPS` crops (a transform: ThreeCrop).

A clip spans `sampling_rate * num_frames / target_fps` seconds; its frames are `torch.linspace` over it in float32
(as PyTorch computes it on x86 with AVX2, and on Arm), truncated, with the last frame of the video past its end. With
`use_offset_sampling` views start at frame boundaries and extend to the end. Options have PySlowFast's names in
lower case.

Draws of a random clip: with `train_jitter_fps` (mode "train") a float for the rate; a float for the start."""

_SLOWFAST_SSV2 = """\
PySlowFast's `Ssv2`: one frame from each of `num_frames` equal parts, a random one in `mode` "train",
the middle one in "val" and "test". Its test views differ only in their crops (a transform: ThreeCrop), so there is
one clip here.

Draws in training: an int for each frame, below the length of its part (both ends included)."""

PRESETS["slowfast"] = PresetSpec(
    _SLOWFAST,
    {
        "mode": "train",
        "num_frames": 8,
        "sampling_rate": 8,
        "target_fps": 30,
        "train_jitter_fps": 0.0,
        "use_offset_sampling": False,
        "num_ensemble_views": 10,
    },
)
PRESETS["slowfast_ssv2"] = PresetSpec(_SLOWFAST_SSV2, {"mode": "train", "num_frames": 8})


# torchcodec's four samplers (pytorch/torchcodec, `torchcodec/samplers`).

_TORCHCODEC_POLICY = """\
`policy` selects what replaces frames past the end: the clip's last frame ("repeat_last"), its start
("wrap"), or an error ("error"). `mask` is false for replacements."""

_TORCHCODEC_INDICES = f"""\
`num_clips` clips of `num_frames_per_clip` frames, `num_indices_between_frames` apart (1:
consecutive). They start at or after frame `sampling_range_start` and before `sampling_range_end`; negative values
count from the end. Without an end, they start where they still fit. {_TORCHCODEC_POLICY} An empty range is an error."""

_TORCHCODEC_TIMES = f"""\
the frames shown at `num_frames_per_clip` times, `seconds_between_frames` apart (by default one
frame at the average rate). Clips start at or after second `sampling_range_start` (by default that of the first frame)
and before `sampling_range_end`; without an end, where they still fit. {_TORCHCODEC_POLICY}"""

_TORCHCODEC_INDEX_OPTIONS = {
    "num_clips": 1,
    "num_frames_per_clip": 1,
    "num_indices_between_frames": 1,
    "sampling_range_start": 0,
    "sampling_range_end": None,
    "policy": "repeat_last",
}

_TORCHCODEC_TIME_OPTIONS = {
    "num_frames_per_clip": 1,
    "seconds_between_frames": None,
    "sampling_range_start": None,
    "sampling_range_end": None,
    "policy": "repeat_last",
}

PRESETS["torchcodec_random_indices"] = PresetSpec(
    f"""torchcodec's `clips_at_random_indices`. {_TORCHCODEC_INDICES}

Draws for all clips together: `num_clips` ints below the length of the range.""",
    _TORCHCODEC_INDEX_OPTIONS,
)
PRESETS["torchcodec_regular_indices"] = PresetSpec(
    f"""torchcodec's `clips_at_regular_indices`: evenly spread starts. {_TORCHCODEC_INDICES}""",
    _TORCHCODEC_INDEX_OPTIONS,
)
PRESETS["torchcodec_random_timestamps"] = PresetSpec(
    f"""torchcodec's `clips_at_random_timestamps`: `num_clips` clips of {_TORCHCODEC_TIMES} An empty range is an
error.

Draws for all clips together: `num_clips` floats.""",
    {"num_clips": 1, **_TORCHCODEC_TIME_OPTIONS},
)
PRESETS["torchcodec_regular_timestamps"] = PresetSpec(
    f"""torchcodec's `clips_at_regular_timestamps`: a clip every `seconds_between_clip_starts`, of \
{_TORCHCODEC_TIMES}
A video whose range is empty has no clips.""",
    {"seconds_between_clip_starts": Required, **_TORCHCODEC_TIME_OPTIONS},
)


# torchvision's `VideoClips` (pytorch/vision, `torchvision/datasets/video_utils.py`).

PRESETS["torchvision"] = PresetSpec(
    """torchvision's `VideoClips` and its clip samplers (as in torchvision 0.29). All windows of
    `clip_length_in_frames` frames, `frames_between_clips` apart, of the video resampled to `frame_rate`
    frames per second (by default its own). `sampler`: all of them (`None`); `"uniform"`:
    `num_clips_per_video` of them, evenly spread; `"random"`: at most `max_clips_per_video`, each once. A
    video that is too short has no clips. torchvision spreads uniform clips over the window numbers of the complete
    dataset, in float32; here each video is treated as the first one.

    `"random"` draws for all clips together, as the first entries of `torch.randperm(windows)`: one int for
    each clip, below `windows`, `windows - 1`, and so on (none for the last window). The order of clips, which
    torchvision also shuffles, is the loader's `shuffle`.""",
    {
        "clip_length_in_frames": 16,
        "frames_between_clips": 1,
        "frame_rate": None,
        "sampler": None,
        "num_clips_per_video": None,
        "max_clips_per_video": None,
    },
)


# TSN (yjxiong/tsn-pytorch, `dataset.py`).

_TSN = """TSN's and TSM's `TSNDataSet`: one clip of `num_segments * new_length` frames, `new_length` consecutive
frames from each of `num_segments` parts: at a random position in training (`random_shift`), around the middle
otherwise. For RGB differences the original increases `new_length` by one.

Short videos: segments start at frame 0, and the last frame repeats.

Draws in training: for each segment an int below the length of a part; where parts would be empty, below the
number of starts, then sorted; none for a short video."""

PRESETS["tsn"] = PresetSpec(_TSN, {"num_segments": 3, "new_length": 1, "random_shift": True, "test_mode": False})


# VideoMAE (MCG-NJU/VideoMAE, and OpenGVLab/VideoMAEv2 where `version=2`).

_VIDEOMAE = """VideoMAE's `VideoClsDataset`. `mode` "train" and "validation": a random window of each of
`num_segment` parts (in `version` 2 validation takes the middle one), one clip each, which the original returns as
one item. "test": `test_num_segment` views, of every `frame_sample_rate`-th frame from first to last, or with
`sparse_sample` (VideoMAEv2) of `num_segment` frames spread over the video. Test crops are a transform
(ThreeCrop).

A window is `linspace` over `clip_len * frame_sample_rate` frames, both ends included. A part that is not longer
than that is spread likewise and its last frame repeats.

Draws in training, for all clips of a video together: an int for each part, below the number of starts; none if parts
are short."""

_VIDEOMAE_SSV2 = """\
VideoMAE's `SSVideoClsDataset` (`version` 1) and VideoMAEv2's `RawFrameClsDataset` (2): one frame
from each of `num_segment` parts; in `mode` "test" `test_num_segment` views (2 in VideoMAE's scripts; version 1
gives views of different lengths for more). Test crops are a transform (ThreeCrop).

Draws in training, and in version 1 in validation: an int for each part, below its length; none for a video with fewer
frames than parts, which repeats its first frame."""

_VIDEOMAE_PRETRAIN = """\
VideoMAE's pre-training dataset `VideoMAE`: `new_length` frames, `new_step` apart, from a random
position in each of `num_segments` parts; one clip each, which the original returns as one item.

Draws, for all clips of a video together: an int for each part, below the number of starts in it; where parts would be
empty, below the number of starts in the video, then sorted; none for a short video. Then with
`temporal_jitter` an int below `new_step` for each frame, the same for all clips."""

PRESETS["videomae"] = PresetSpec(
    _VIDEOMAE,
    {
        "mode": "train",
        "version": 1,
        "clip_len": 8,
        "frame_sample_rate": 2,
        "num_segment": 1,
        "test_num_segment": 10,
        "sparse_sample": False,
    },
)
PRESETS["videomae_ssv2"] = PresetSpec(
    _VIDEOMAE_SSV2, {"mode": "train", "version": 1, "num_segment": 1, "test_num_segment": 10}
)
PRESETS["videomae_pretrain"] = PresetSpec(
    _VIDEOMAE_PRETRAIN, {"num_segments": 1, "new_length": 1, "new_step": 1, "temporal_jitter": False}
)


# V-JEPA 2 (facebookresearch/vjepa2, `src/datasets/video_dataset.py`).

_VJEPA2 = """V-JEPA 2's `VideoDataset`: a window of each of `num_clips` parts of the video, one clip each,
which the original returns as a list. Exactly one of `fps` (an int), `duration` (seconds) and `frame_step` is
given; since `frame_step` is 4 by default, the others also need `frame_step=None`.

A window is `linspace` over `frames_per_clip` steps, both ends included: a random one, or the first without
`random_clip_sampling`. If parts are not longer than that, they are spread likewise and their last frame repeats;
with `allow_clip_overlap` the clips overlap instead. `filter_short_videos`: a video shorter than a clip has
none. A video whose rate is below `fps` is an error.

Draws with `random_clip_sampling`, for all clips of a video together: an int for each part, below the number of
starts; none if parts are short."""

PRESETS["vjepa2"] = PresetSpec(
    _VJEPA2,
    {
        "frames_per_clip": 16,
        "fps": None,
        "duration": None,
        "frame_step": 4,
        "num_clips": 1,
        "random_clip_sampling": True,
        "allow_clip_overlap": False,
        "filter_short_videos": False,
    },
)
