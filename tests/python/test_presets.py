"""The presets select the frames that were recorded from the codebases and their published formulas.

`data/presets.jsonl` has a case per line; its first line says how they came to be, and `tests/record_presets.py` records
them. test_installed_peers.py compares the presets with the libraries themselves where they are installed.
"""

from __future__ import annotations

import inspect
import json
import math
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import framespool as fsp
import numpy as np
import pytest

presets = fsp.samplers.presets
CASES = [json.loads(line) for line in (Path(__file__).parent / "data" / "presets.jsonl").read_text().splitlines()[1:]]


def made(name: str, options: dict[str, Any]) -> fsp.samplers.Preset:
    return getattr(presets, name)(**options)


def exact(value: Any) -> Any:
    """A fraction from its text."""
    return Fraction(value) if isinstance(value, str) and "/" in value else value


@pytest.mark.parametrize("name", presets.__all__)
def test_presets_select_the_recorded_frames(name: str) -> None:
    cases = [case for case in CASES if case["preset"] == name]
    assert cases, f"no recorded case of {name}"
    for case in cases:
        timing = dict(zip(("num_frames", "fps"), case["video"], strict=False))
        try:
            rule = made(name, {option: exact(value) for option, value in case["options"].items()})
        except fsp.errors.ArgumentError:  # options that the original refuses for every video
            assert not any(case["clips"]), case
            continue
        assert rule.clips_in(**timing) == len(case["clips"]), case
        masks = case.get("masks", [None] * len(case["clips"]))
        for clip, (indices, mask) in enumerate(zip(case["clips"], masks, strict=True)):
            if indices is None:  # the original fails
                with pytest.raises(fsp.errors.ArgumentError):
                    rule.indices(**timing, clip=clip, draws=case.get("draws"))
                continue
            sample = rule.indices(**timing, clip=clip, draws=case.get("draws"))
            assert sample.indices == indices, (case, clip)
            assert sample.mask == ([True] * len(indices) if mask is None else [real == "1" for real in mask]), case


def test_recorded_cases_are_of_known_presets_and_give_each_option() -> None:
    assert {case["preset"] for case in CASES} == set(presets.__all__)
    for name in presets.__all__:
        given = set().union(*(case["options"] for case in CASES if case["preset"] == name))
        assert given == set(inspect.signature(getattr(presets, name)).parameters), name


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mmaction2", {"clip_len": 4, "frame_interval": 2, "num_clips": 3, "temporal_jitter": True}),
        ("mmaction2_untrimmed", {"clip_len": 3, "clip_interval": 20}),
        ("slowfast", {"mode": "test", "num_ensemble_views": 3}),
        ("videomae", {"num_segment": 2, "clip_len": 4}),
        ("vjepa2", {"fps": 6, "frame_step": None, "frames_per_clip": 3, "num_clips": 4}),
    ],
)
def test_loader_delivers_the_frames_of_the_preset(
    short_clips: list[tuple[str, int]], name: str, options: dict[str, Any]
) -> None:
    path = short_clips[0][0]
    rule = made(name, options)
    info = fsp.Video(path).info
    loader = fsp.ClipLoader([path], rule, batch_size=1, shuffle=False, seed=7)
    indices = [batch.indices[0].tolist() for batch in loader]
    fps = info.average_fps
    expected = [
        rule.indices(info.num_frames, fps=fps, clip=clip, seed=7).indices
        for clip in range(rule.clips_in(info.num_frames, fps=fps))
    ]
    assert indices == expected and len(expected) >= 2


def test_times_of_a_file_are_exact(videos: Path) -> None:
    # Matroska counts milliseconds: these frames appear 33 or 34 of them apart, the first after 33.
    path = str(videos / "derived" / "start_33ms_640x480.mkv")
    shown = fsp.Video(path).frames(list(range(len(fsp.Video(path))))).pts_seconds
    begins = [Fraction(round(t * 1000), 1000) for t in shown]
    assert begins[0] == Fraction(33, 1000)
    for length in (Fraction(1, 10), 0.1, Fraction(1, 3)):
        rule = presets.pytorchvideo(sampling_type="uniform", clip_duration=length)
        loader = fsp.ClipLoader(
            [path], rule, batch_size=4, transforms=[fsp.transforms.Resize((8, 8))], shuffle=False, seed=0
        )
        rows = [row for batch in loader for row in np.from_dlpack(batch.indices).tolist()]
        for clip, row in enumerate(rows):
            start = begins[0] + clip * Fraction(length)
            expected = [i for i, t in enumerate(begins) if start <= t < start + Fraction(length)]
            assert [at for at in row if at >= 0] == expected
        assert len(rows) > 5


def test_the_swaps_of_a_permutation_are_those_of_numpy() -> None:
    """With the draws of NumPy's generator, InternVideo2's frames are those that NumPy permutes to the front."""

    def masked(state: np.random.RandomState, most: int) -> int:
        """NumPy's legacy draw from 0 to ``most``: masked bits of a word, repeated until small enough."""
        while (value := int.from_bytes(state.bytes(4), "little") & ((1 << most.bit_length()) - 1)) > most:
            pass
        return value

    for seed in range(50):
        expected = sorted(np.random.RandomState(seed).permutation(9)[:5].tolist())
        state = np.random.RandomState(seed)
        drawn = [masked(state, i) for i in range(8, 0, -1)]
        assert presets.internvideo2(num_frames=5).indices(9, draws=drawn).indices == expected


NEEDED: dict[str, dict[str, Any]] = {
    "cosmos_curate": {"sample_rate_fps": 2.0},
    "dali": {"sequence_length": 4},
    "dali_uniform_sample": {"sequence_length": 4},
    "ffmpeg_fps": {"fps": 1.0},
    "internvideo2": {"num_frames": 4},
    "lerobot": {"delta_timestamps": [0.0]},
    "mmaction2": {"clip_len": 4},
    "mmaction2_dense": {"clip_len": 4},
    "mmaction2_uniform": {"clip_len": 4},
    "pytorchvideo": {"clip_duration": 1.0},
    "torchcodec_regular_timestamps": {"seconds_between_clip_starts": 1.0},
}
#: Options that may be 0, negative or large.
FREE = {
    "step",
    "max_num_frames",
    "train_jitter_fps",
    "tolerance_s",
    "sampling_range_start",
    "delta_timestamps",
    "skip_secs",
}


@pytest.mark.parametrize("name", presets.__all__)
def test_values_of_a_wrong_type_or_size_are_rejected_by_name(name: str) -> None:
    needed = NEEDED.get(name, {})
    defaults = {o: p.default for o, p in inspect.signature(getattr(presets, name)).parameters.items()}
    for option, value in {**defaults, **needed}.items():
        wrong: list[Any] = ["yes", math.nan, [True], 2**70, object()]
        if isinstance(value, str):
            wrong = ["", "fps-1", "fpsnan", 3]
        elif type(value) is int and option not in FREE:
            wrong += [0, -1, 2**20 + 1 if option != "target_fps" else 1e10, 2**32 - 1, "8", True]
        elif isinstance(value, float) and option not in FREE:
            wrong += [0.0, -1.0, 1e300]
        for bad in wrong:
            with pytest.raises(fsp.errors.ArgumentError, match=rf"{option} must be .*, got "):
                made(name, {**needed, option: bad})


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "cosmos_curate",
            {"sample_rate_fps": 0},
            "sample_rate_fps must be a number from 0.000001 to 1000000000",
        ),
        ("dali", {"sequence_length": None}, "sequence_length must be given, got None"),
        ("dali", {"sequence_length": 4, "step": 2**40}, "step must be at most 4294967295"),
        ("dali", {"sequence_length": 4, "pad_mode": "zeros"}, 'pad_mode must be one of "none", "constant", .*"zeros"'),
        ("dali", {"sequence_length": 4, "pad_mode": "edge", "pad_sequences": True}, "pad_mode must be omitted"),
        ("dali", {"sequence_length": 4, "version": "3"}, 'version must be "2.4" or "main", got "3"'),
        ("hf", {"version": "4.57"}, "num_frames or fps must be given"),
        ("hf", {"num_frames": 8, "fps": 2.0}, "fps must be omitted"),
        ("hf", {"num_frames": 8.0}, "num_frames must be an int from 1 to 1048576, got 8.0"),
        ("hf_internvl", {}, "num_frames or fps must be given"),
        ("hf_internvl", {"num_frames": 4, "initial_shift": -1}, "initial_shift must be a bool or a number from 0"),
        ("hf_qwen2_vl", {"num_frames": 8, "fps": 2.0}, "fps must be omitted"),
        ("hf_qwen3_vl", {"num_frames": 8, "fps": 2.0}, "fps must be omitted"),
        ("hf_smolvlm", {"skip_secs": -1.0}, "skip_secs must be a number from 0 to 1000000000, got -1"),
        ("internvideo2", {"num_frames": 4, "sample": "fps"}, 'sample must be "rand", "middle" or "fps" and a number'),
        ("lerobot", {"delta_timestamps": []}, "delta_timestamps must have from 1 to 4096 entries, got 0"),
        ("lerobot", {"delta_timestamps": [0.0] * 5000}, "from 1 to 4096 entries, got 5000"),
        ("lerobot", {"delta_timestamps": [0.0, math.nan]}, "delta_timestamps must be a finite number, got nan"),
        ("lerobot", {"delta_timestamps": [1e7]}, "delta_timestamps must be from -1000000 to 1000000"),
        ("lerobot", {"delta_timestamps": [0.011], "fps": 10}, "delta_timestamps must be multiples of 1/10 second"),
        ("lerobot", {"delta_timestamps": [0.0], "tolerance_s": -1.0}, "tolerance_s must be at least 0, got -1"),
        ("mmaction2", {"clip_len": 2**15, "num_clips": 2**15}, "clip_len \\* num_clips must be at most 16777216"),
        ("mmaction2", {"clip_len": 2, "test_mode": True, "twice_sample": True}, "num_clips must be at least 2"),
        (
            *("mmaction2", {"clip_len": 4, "num_clips": 2, "temporal_jitter": True, "target_fps": 8}),
            "num_clips must be 1 or clip_len=4",
        ),
        ("mmaction2_uniform", {"clip_len": 4, "num_clips": 2}, "num_clips must be 1 in training, got 2"),
        ("pytorchvideo", {"clip_duration": Fraction(-1, 2)}, "clip_duration must be from 0.001 .*, got -1/2"),
        ("pytorchvideo", {"clip_duration": "1"}, "clip_duration must be a float, an int or a fractions.Fraction"),
        ("pytorchvideo", {"clip_duration": 1.0, "stride": 0.5}, "stride must be omitted"),
        ("pytorchvideo", {"clip_duration": 1.0, "sampling_type": "random_multi"}, "num_clips must be given"),
        ("pytorchvideo", {"clip_duration": 1.0, "sampling_type": "uniform", "stride": 1e-9}, "stride must be from"),
        (
            *("pytorchvideo", {"clip_duration": 1.0, "sampling_type": "constant_clips_per_video"}),
            "clips_per_video must be given",
        ),
        ("qwen_vl", {"nframes": 8, "fps": 2.0}, "fps must be omitted"),
        ("qwen_vl", {"version": "sglang", "video_start": 1.0}, 'video_start must be omitted.*"qwen_vl_utils"'),
        ("qwen_vl", {"version": "vllm"}, 'version must be "qwen_vl_utils" or "sglang", got "vllm"'),
        ("qwen_vl", {"nframes": 1}, "a clip must have from 1 to"),
        ("slowfast", {"mode": "validation"}, 'mode must be one of "train", "val", "test", got "validation"'),
        ("slowfast", {"train_jitter_fps": -1}, "train_jitter_fps must be from 0"),
        ("torchcodec_random_indices", {"num_clips": -1}, "num_clips must be an int from 1 to 1048576, got -1"),
        ("torchcodec_random_indices", {"policy": "loop"}, 'policy must be one of "repeat_last", "wrap", "error"'),
        ("torchcodec_regular_timestamps", {"seconds_between_clip_starts": None}, "must be given"),
        ("torchvision", {"sampler": "uniform"}, "num_clips_per_video must be given"),
        ("torchvision", {"max_clips_per_video": 3}, "max_clips_per_video must be omitted"),
        ("videomae", {"mode": "test", "test_num_segment": 1}, "test_num_segment must be at least 2, got 1"),
        ("videomae", {"version": 3}, "version must be 1 for VideoMAE or 2 for VideoMAEv2, got 3"),
        ("vjepa2", {"fps": 4}, "exactly one of fps, duration and frame_step must be given, got 2"),
        ("vjepa2", {"frame_step": None}, "exactly one of fps, duration and frame_step must be given, got 0"),
    ],
)
def test_options_that_the_original_rejects_fail(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(fsp.errors.ArgumentError, match=message):
        made(name, options)


@pytest.mark.parametrize(
    ("name", "options", "video", "message"),
    [
        ("cosmos_curate", {"sample_rate_fps": 1e8}, (3000, 30.0), "choose another rate"),
        ("internvideo2", {"num_frames": 4, "sample": "middle", "fix_start": 3}, (12, 30.0), "fix_start must leave"),
        ("internvideo2", {"num_frames": 4, "sample": "fps1e9"}, (100, 30.0), "use a lower rate"),
        ("vjepa2", {"fps": 16, "frame_step": None}, (100, 15.0), "at least one frame between.*fps=16"),
        ("vjepa2", {"duration": 1.0, "frame_step": None}, (100, 12.0), "at least one frame between.*duration=1"),
        ("hf", {"num_frames": 9}, (8, 30.0), "num_frames must be at most the 8 frames of the video, got 9"),
        ("hf_internvl", {"num_frames": 9}, (8, 30.0), "num_frames must be at most the 8 frames of the video, got 9"),
        ("hf_internvl", {"fps": 0.1}, (60, 30.0), "a clip must have from 1 to"),
        ("hf_qwen2_vl", {}, (1, 30.0), "a clip must have from 1 to"),
        ("llava_video", {"video_fps": 60.0}, (60, 30.0), "video_fps must be less than twice the 30 frames"),
        ("qwen_vl", {"video_start": 5.0}, (60, 30.0), "video_start must be before video_end"),
    ],
)
def test_videos_that_the_original_rejects_fail(
    name: str, options: dict[str, Any], video: tuple[int, float], message: str
) -> None:
    with pytest.raises(fsp.errors.ArgumentError, match=message):
        made(name, options).indices(video[0], fps=video[1])


def test_presets_compare_by_value_and_take_numpy() -> None:
    rule = presets.tsn(num_segments=np.int64(4), test_mode=np.bool_(True))
    assert rule == presets.tsn(num_segments=4, test_mode=True) and hash(rule)
    deltas = presets.lerobot(delta_timestamps=[np.float32(0.5), 0], fps=np.float64(10))
    assert pickle.loads(pickle.dumps(deltas)) == deltas == presets.lerobot(delta_timestamps=(0.5, 0), fps=10)
    assert presets.pytorchvideo(clip_duration=Fraction(1, 3)).options[1] == ("clip_duration", (1, 3))


def test_the_former_spelling_names_the_new_one() -> None:
    with pytest.raises(TypeError, match=r"use samplers.presets.qwen_vl\(...\)"):
        fsp.samplers.preset("qwen_vl", fps=2.0)
