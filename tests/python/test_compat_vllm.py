"""The loader for vLLM: frames, metadata, limits, and its registration with a registry like vLLM's."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

import framespool as fsp
import numpy as np
import pytest
from framespool.compat import vllm


class Registry:
    """A registry with the interface of vLLM's, up to the release that chooses loaders by the video processor."""

    def __init__(self, found):
        self.found = found

    def register(self, name):
        return lambda loader: self.found.setdefault(name, loader)


class RegistryByProcessor(Registry):
    """A registry with the interface of newer releases."""

    def __init__(self, found):
        super().__init__(found)
        self.processor2backend = {"Qwen2VLVideoProcessor": "qwen2_vl", "Glm4vVideoProcessor": "opencv_dynamic"}
        self.processor2backend |= dict.fromkeys(("Qwen3VLVideoProcessor", "Other"), "qwen3_vl")

    def register(self, name, *, video_processor=()):
        self.processor2backend |= dict.fromkeys(video_processor, name)
        return super().register(name)


@pytest.fixture(params=[Registry, RegistryByProcessor])
def registry(monkeypatch, request):
    """The loaders that are registered, by name, and their registry under the name ``None``."""
    found: dict = {}
    found[None] = request.param(found)

    video = ModuleType("vllm.multimodal.video")
    video.VIDEO_LOADER_REGISTRY, video.VideoLoader = found[None], type("VideoLoader", (), {})
    for name, module in (("vllm", ModuleType("vllm")), ("vllm.multimodal", ModuleType("vllm.multimodal"))):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "vllm.multimodal.video", video)
    return found


@pytest.mark.parametrize("name", ["derived/base_640x360.mp4", "action/street_426x240.mkv", "codecs/vp9_10bit.webm"])
def test_frames_are_evenly_spread(videos, name):
    data, video = (videos / name).read_bytes(), fsp.Video(videos / name, layout="THWC")
    seconds = video.info.end_seconds - video.info.begin_seconds
    for num_frames, fps in ((-1, -1), (1, -1), (7, -1), (32, 2), (-1, 1), (10_000, 0), (-1, 0.01)):
        frames, metadata = vllm.load_bytes(data, num_frames, fps=fps, max_duration=300)
        count = len(video) if num_frames < 1 else min(num_frames, len(video))
        count = max(min(count, int(seconds * fps)) if fps > 0 else count, 1)
        indices = np.linspace(0, len(video) - 1, count, dtype=int).tolist()
        assert metadata["frames_indices"] == indices and len(frames) == count
        assert metadata["do_sample_frames"] == (count == len(video))
        assert frames.dtype == np.uint8 and np.array_equal(frames, video.frames(indices).frames.numpy())
        assert metadata["total_num_frames"] == len(video) and metadata["video_backend"] == "framespool"
        assert metadata["duration"] == pytest.approx(seconds) and metadata["fps"] == video.info.average_fps


def test_registered_loader(registry, videos):
    vllm.register()
    loader = registry["framespool"]()
    frames, metadata = loader.load_bytes((videos / "derived/base_640x360.mp4").read_bytes(), num_frames=4, fps=-1)
    assert frames.shape == (4, 360, 640, 3) and metadata["frames_indices"] == [0, 23, 47, 71]
    (point,) = entry_points(group="vllm.general_plugins", name="framespool")
    assert point.load() is vllm.register


def test_models_with_a_loader_of_their_own(registry, videos, monkeypatch):
    """vLLM ignores the environment for these models: the loaders of the processors are replaced, if selected."""
    by_processor = getattr(registry[None], "processor2backend", {})
    before = dict(by_processor)
    vllm.register()
    assert by_processor == before, "a plugin that is not selected changes nothing"
    monkeypatch.setenv("VLLM_VIDEO_LOADER_BACKEND", "framespool")
    vllm.register()
    if by_processor:
        qwen3 = "framespool_qwen3_vl"
        changed = {"Qwen2VLVideoProcessor": "framespool_qwen2_vl", "Qwen3VLVideoProcessor": qwen3, "Other": qwen3}
        assert by_processor == {**before, **changed}
    data = (videos / "action/street_426x240.mp4").read_bytes()
    video = fsp.Video(data)
    for name, preset, options in (
        ("framespool_qwen2_vl", "hf_qwen2_vl", {}),
        ("framespool_qwen2_vl", "hf_qwen2_vl", {"fps": 4, "max_frames": 9, "temporal_patch_size": 3}),
        ("framespool_qwen3_vl", "hf_qwen3_vl", {}),
        ("framespool_qwen3_vl", "hf_qwen3_vl", {"fps": 1.0, "min_frames": 5}),
        ("framespool", "qwen_vl", {"fps": 4.0, "max_frames": 10}),
    ):
        given = {"clip_sampler": {"preset": preset, **options}} if name == "framespool" else options
        frames, metadata = registry[name]().load_bytes(data, num_frames=32, max_duration=300, **given)
        sampler = getattr(fsp.samplers.presets, preset)(**options)
        indices = sampler.indices(len(video), fps=float(video.info.average_fps)).indices
        assert metadata["frames_indices"] == indices and len(frames) == len(indices)
        assert metadata["do_sample_frames"] is False
        again = vllm.load_bytes(data, clip_sampler=sampler)
        assert np.array_equal(again[0], frames) and again[1] == metadata


def test_clip_samplers_that_do_not_exist_are_errors(videos):
    data = (videos / "derived/base_640x360.mp4").read_bytes()
    for wrong, message in (
        ({}, r"clip_sampler must name a preset, such as .*, got \{\}"),
        ({"preset": "nothing"}, "must name a preset"),
        ({"preset": "Preset"}, "must name a preset"),
        ({"preset": "qwen_vl", "frames": 3}, "unexpected keyword argument 'frames'; see samplers.presets.qwen_vl"),
        ({"preset": "qwen_vl", "fps": "fast"}, "fps must be a number"),
    ):
        with pytest.raises(fsp.errors.ArgumentError, match=message):
            vllm.load_bytes(data, clip_sampler=wrong)


def test_uploads_are_limited_and_named(bad_file, videos):
    data = (videos / "derived/base_640x360.mp4").read_bytes()
    with pytest.raises(
        fsp.errors.ArgumentError, match="72 frames of 640x360 take 49766400 bytes, more than max_bytes=1000000"
    ):
        vllm.load_bytes(data, max_bytes=1_000_000)
    for wrong in (b"", b"no video", data[:2000], Path(bad_file).read_bytes()):
        with pytest.raises(fsp.Error):
            vllm.load_bytes(wrong, num_frames=8)


def test_threads(videos):
    data = (videos / "action/street_426x240.mp4").read_bytes()
    right = vllm.load_bytes(data, 5)[0]
    with ThreadPoolExecutor(8) as pool:
        assert all(
            np.array_equal(frames, right) for frames, _ in pool.map(lambda _: vllm.load_bytes(data, 5), range(24))
        )


def test_concurrent_requests_share_the_cores(videos, monkeypatch):
    data, asked = (videos / "derived/base_640x360.mp4").read_bytes(), []
    opened, go_on = threading.Semaphore(0), threading.Event()

    def video(data, num_threads, **options):
        asked.append(num_threads)
        opened.release()
        go_on.wait()
        return fsp.Video(data, num_threads=num_threads, **options)

    monkeypatch.setattr(vllm, "Video", video)
    monkeypatch.setattr(vllm._framespool, "cores", lambda: 4)
    with ThreadPoolExecutor(8) as pool:
        requests = []
        for _ in range(6):  # one after the other, so that each finds the earlier ones running
            requests.append(pool.submit(vllm.load_bytes, data, 2))
            opened.acquire()
        go_on.set()
        assert len({request.result()[0].tobytes() for request in requests}) == 1
    with pytest.raises(fsp.Error):
        vllm.load_bytes(b"no video")
    vllm.load_bytes(data, 2)
    assert asked == [4, 2, 1, 1, 1, 1, 4, 4]
