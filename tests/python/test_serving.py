"""The same frames in training and serving: 20 files by the models of docs/howto/serving.md.

A loader, `compat.vllm` and `compat.transformers` must give the same frames and metadata. They are compared with the
video processors of transformers where it is installed, and with rules restated here for vLLM, SGLang and LLaVA-NeXT.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import framespool as fsp
import numpy as np
import pytest
from framespool.compat import vllm

p, t = fsp.samplers.presets, fsp.transforms

FILES = [
    "derived/base_640x360.mp4",
    "derived/rotate_cw90_640x360.mp4",
    "derived/vfr_60_15_30_640x360.mp4",
    "derived/vfr_jitter_640x360.mkv",
    "derived/timescale_90000_vfr_drop_640x360.mp4",
    "derived/odd_333x251_h264_444.mp4",
    "derived/odd_333x251_vp9.webm",
    "derived/tiny_34x26_h264.mp4",
    "derived/tall_240x1200_h264.mp4",
    "derived/delayed_start_640x360.mp4",
    "derived/h264_bt601_tagged_720x480_sar.mp4",
    "derived/h264_422_10bit_720p.mp4",
    "odd/single_frame.mp4",
    "odd/rotate_90_phone.mov",
    "codecs/vp9_10bit.webm",
    "codecs/hevc_main10.mkv",
    "action/street_426x240.mp4",
    "action/phone_176x144.mp4",
    "action/long_160x68_30p.mp4",
    "action/long_384x164_90s.mp4",
]


def loaded(
    path: Path, sampler: fsp.samplers.ClipSampler, transforms: list[Any], layout: Any = "NTCHW"
) -> tuple[Any, dict[str, Any]]:
    """Frames and metadata of a video's clip as a loader delivers them in training."""
    options = {"batch_size": 1, "shuffle": False, "num_threads": 2}
    loader = fsp.ClipLoader([path], sampler, transforms=transforms, layout=layout, **options)
    batch = next(iter(loader))
    return batch.frames[0], batch.video_metadata()[0]


# --- transformers: the processors themselves


@pytest.fixture(scope="module")
def processors() -> dict[str, Any]:
    """Processors with the values of the models' configurations, and what a training needs for the same."""
    # transformers looks for the package `datasets`, and the repository has a folder of that name.
    root = Path(__file__).resolve().parents[2]
    sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != root]
    for package in ("torch", "torchvision", "transformers"):
        pytest.importorskip(package)
    import transformers as hf

    most = 25_165_824  # Qwen3-VL's pixels of all frames
    bicubic = {"interpolation": "bicubic"}
    smolvlm = {"fps": 1, "max_frames": 64, "video_size": {"longest_edge": 512}}
    return {
        "Qwen2.5-VL": (hf.Qwen2VLVideoProcessor(fps=2), p.hf_qwen2_vl(fps=2), [t.SmartResize(28)]),
        "Qwen2.5-VL, limited": (
            hf.Qwen2VLVideoProcessor(fps=2, cap_pixels_per_frame=True, max_video_tokens=2000),
            p.hf_qwen2_vl(fps=2),
            [t.SmartResize(28, total_pixels=int(2000 * 28 * 28 * 0.9))],
        ),
        "Qwen3-VL": (
            hf.Qwen3VLVideoProcessor(size={"shortest_edge": 4096, "longest_edge": most}),
            p.hf_qwen3_vl(fps=2),
            [t.SmartResize(32, min_pixels=32 * 32, max_pixels=most, total_pixels=most // 2)],
        ),
        "Qwen3-VL, limited": (
            hf.Qwen3VLVideoProcessor(
                size={"shortest_edge": 4096, "longest_edge": 2_000_000}, cap_pixels_per_frame=True, max_video_tokens=300
            ),
            p.hf_qwen3_vl(fps=2),
            [t.SmartResize(32, min_pixels=32 * 32, max_pixels=300 * 32 * 32, total_pixels=1_000_000)],
        ),
        "InternVL": (
            hf.InternVLVideoProcessor(size={"height": 448, "width": 448}, num_frames=8),
            p.hf_internvl(num_frames=8),
            [t.Resize((448, 448), **bicubic)],
        ),
        "SmolVLM2": (  # resizes with Lanczos, so the loader leaves the size to it
            hf.SmolVLMVideoProcessor(max_image_size={"longest_edge": 512}, video_sampling=smolvlm),
            p.hf_smolvlm(num_frames=64, fps=1),
            [],
        ),
        "LLaVA-OneVision": (
            hf.LlavaOnevisionVideoProcessor(num_frames=8),
            p.hf(num_frames=8),
            [t.Resize((384, 384), **bicubic)],
        ),
    }


def processed(processor: Any, videos: list[Any], **arguments: Any) -> tuple[Any, Any]:
    """The pixels that a processor makes, as levels of 255 without normalization, and the metadata."""
    made = processor(
        videos=videos, do_rescale=False, do_normalize=False, return_metadata=True, return_tensors="pt", **arguments
    )
    pixels = made["pixel_values_videos"] if "pixel_values_videos" in made else made["pixel_values"]
    return pixels.float(), made["video_metadata"][0]


@pytest.mark.parametrize("name", FILES)
def test_a_loader_gives_the_frames_of_the_processors(processors, videos, name, monkeypatch):
    """Indices and metadata are equal. Full-size frames give the same input, resized ones nearly so."""
    import torch
    from framespool.compat import transformers as compat
    from transformers import video_processing_utils, video_utils

    monkeypatch.setattr(video_utils, "VIDEO_DECODERS", dict(video_utils.VIDEO_DECODERS))
    for attribute in ("load_video", "is_torchcodec_usable", "is_torchcodec_available"):
        if hasattr(video_processing_utils, attribute):
            monkeypatch.setattr(video_processing_utils, attribute, getattr(video_processing_utils, attribute))
    compat.install()
    path, compared = videos / name, 0
    for model, (processor, sampler, transforms) in processors.items():
        try:
            served, theirs = processed(processor, [str(path)], do_sample_frames=True)
        except (ValueError, ZeroDivisionError):
            assert name == "odd/single_frame.mp4", model
            if model.startswith("Qwen3-VL"):  # selects the frame, but resizes no less than two
                assert loaded(path, sampler, [])[1]["frames_indices"] == [0]
            else:
                with pytest.raises(fsp.Error):
                    loaded(path, sampler, [])
            continue
        full, ours = loaded(path, sampler, [])
        assert ours["frames_indices"] == [int(index) for index in theirs.frames_indices], model
        for field in ("total_num_frames", "height", "width"):
            assert ours[field] == getattr(theirs, field), (model, field)
        for field in ("fps", "duration"):
            assert ours[field] == pytest.approx(getattr(theirs, field)), (model, field)
        again, _ = processed(processor, [full.torch()], video_metadata=[ours], do_sample_frames=False)
        assert torch.equal(again, served), model
        if transforms:
            small, metadata = loaded(path, sampler, transforms)
            assert metadata == ours
            resized, _ = processed(
                processor, [small.torch()], video_metadata=[ours], do_sample_frames=False, do_resize=False
            )
            assert resized.shape == served.shape, model
            difference = (resized - served).abs()
            assert difference.mean() < 0.5 and (difference > 1).float().mean() < 0.003, (model, difference.mean())
        compared += 1
    assert compared == (1 if name == "odd/single_frame.mp4" else len(processors))


# --- vLLM, SGLang, LLaVA-NeXT: their rules, restated


def evenly_spread(total: int, count: int) -> list[int]:
    """`numpy.linspace` to integers, which truncates."""
    return np.linspace(0, total - 1, count, dtype=int).tolist()


def vllm_default(total: int, fps: float) -> list[int]:
    """vllm-project/vllm, vllm/multimodal/video.py, VideoBackend: InternVL, LLaVA and others, with 32 frames."""
    return evenly_spread(total, max(1, min(32, total)))


def vllm_at_a_rate(total: int, fps: float) -> list[int]:
    """The same with `--media-io-kwargs '{"video": {"num_frames": 32, "fps": 2}}'`."""
    return evenly_spread(total, max(1, min(32, total, math.floor(total / fps * 2))))


def vllm_qwen2(total: int, fps: float) -> list[int]:
    """The same file, Qwen2VLVideoBackend: `torch.arange(0, total, total / n).int()`, at most the last frame."""
    count = min(max(total / fps * 2, 4), min(768, total) // 2 * 2, total) // 2 * 2
    values = np.arange(math.ceil(total / (total / count))) * (total / count)
    return np.minimum(values.astype(np.float32).astype(int), total - 1).tolist()


def vllm_qwen3(total: int, fps: float) -> list[int]:
    """The same file, Qwen3VLVideoBackend."""
    count = min(max(int(total / fps * 2), 4), 768, total)
    return np.linspace(0, total - 1, count).round().astype(int).tolist()


def sglang_qwen(total: int, fps: float) -> list[int]:
    """sgl-project/sglang, python/sglang/srt/multimodal/processors/qwen_vl.py, preprocess_video."""
    count = math.floor(min(max(total / fps * 2, 4), math.floor(min(768, total) / 2) * 2, total) / 2) * 2
    if not 2 <= count <= total:
        raise ValueError(count)
    return np.unique(evenly_spread(total, count)).tolist()


def llava_next(total: int, fps: float) -> list[int]:
    """LLaVA-VL/LLaVA-NeXT, llava/utils.py, process_video_with_decord: one frame per second, at most 64."""
    indices = list(range(0, total, round(fps)))
    return evenly_spread(total, 64) if len(indices) > 64 else indices


def llava_next_forced(total: int, fps: float) -> list[int]:
    """The same with `force_sample` and 64 frames, as LLaVA-Video is trained and evaluated."""
    return evenly_spread(total, 64)


def smolvlm(total: int, fps: float) -> list[int]:
    """huggingface/transformers, models/smolvlm/video_processing_smolvlm.py: 64 frames, one per second."""
    seconds = total / fps
    start, end = (int(fps), min(int(total - fps), total - 1)) if seconds - 2 > 64 else (0, total - 1)
    return np.unique(np.linspace(start, end, max(1, min(round(seconds), 64)), dtype=int)).tolist()


RULES = {
    vllm_default: p.vllm(),
    vllm_at_a_rate: p.vllm(num_frames=32, fps=2),
    vllm_qwen2: p.hf_qwen2_vl(),
    vllm_qwen3: p.hf_qwen3_vl(),
    sglang_qwen: p.qwen_vl(version="sglang"),
    llava_next: p.llava_video(frames_upbound=64),
    llava_next_forced: p.llava_video(frames_upbound=64, force_sample=True),
    smolvlm: p.hf_smolvlm(),
}


@pytest.mark.parametrize("name", FILES)
def test_a_server_gives_the_frames_of_a_loader(videos, name):
    """`compat.vllm` and a loader: the frames of the rule, the same bytes and the same metadata."""
    path = videos / name
    data, info = path.read_bytes(), fsp.Video(path).info
    total, fps = info.num_frames, float(info.average_fps)
    for rule, sampler in RULES.items():
        try:
            expected = rule(total, fps)
        except (ValueError, ZeroDivisionError):
            assert total == 1
            if rule is sglang_qwen:  # `qwen_vl` takes an image as a video of one frame
                assert vllm.load_bytes(data, clip_sampler=sampler)[1]["frames_indices"] == [0]
                continue
            with pytest.raises(fsp.Error):
                vllm.load_bytes(data, clip_sampler=sampler)
            with pytest.raises(fsp.Error):
                loaded(path, sampler, [])
            continue
        served, theirs = vllm.load_bytes(data, clip_sampler=sampler)
        trained, ours = loaded(path, sampler, [], "NTHWC")
        assert theirs["frames_indices"] == ours["frames_indices"] == expected, rule.__name__
        assert np.array_equal(served, trained.numpy()), rule.__name__
        for field in ("total_num_frames", "fps", "duration"):
            assert theirs[field] == ours[field], (rule.__name__, field)
    assert vllm.load_bytes(data, 32)[1]["frames_indices"] == vllm_default(total, fps)
    assert vllm.load_bytes(data, 32, fps=2)[1]["frames_indices"] == vllm_at_a_rate(total, fps)


def test_the_stacks_differ_where_the_page_says_so():
    """For one video of 115 frames at 29.97 per second, against the rules as restated."""
    assert vllm_qwen2(115, 29.97) == [0, 19, 38, 57, 76, 95]
    assert vllm_qwen3(115, 29.97) == [0, 19, 38, 57, 76, 95, 114]
    assert sglang_qwen(115, 29.97) == [0, 22, 45, 68, 91, 114]
    assert p.qwen_vl().indices(115, fps=29.97).indices == [0, 23, 46, 68, 91, 114]
