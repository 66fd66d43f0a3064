"""framespool.compat.qwen_vl_utils: frames, sizes and metadata of qwen-vl-utils itself."""

from __future__ import annotations

import shutil
import sys
from types import SimpleNamespace

import framespool as fsp
import numpy as np
import pytest
from compat_helpers import torch_or_skip

CASES = [
    {},
    {"fps": 4.0},
    {"fps": 1.0, "max_frames": 6},
    {"nframes": 8},
    {"nframes": 7, "video_start": 0.4, "video_end": 1.9},
    {"fps": 8.0, "min_pixels": 16 * 28 * 28, "total_pixels": 500 * 28 * 28},
    {"nframes": 4, "max_pixels": 40 * 28 * 28, "min_pixels": 4 * 28 * 28},
    {"nframes": 4, "resized_height": 200, "resized_width": 333},
]
FILES = ["derived/base_640x360.mp4", "action/street_426x240.mp4", "action/phone_176x144.mp4"]


@pytest.fixture
def original():
    torch_or_skip()
    pytest.importorskip("torchvision")
    vision_process = pytest.importorskip("qwen_vl_utils.vision_process")
    before = dict(vars(vision_process))
    yield vision_process
    vars(vision_process).update(before)
    vision_process.VIDEO_READER_BACKENDS.pop("framespool", None)
    vision_process.VIDEO_READER_BACKENDS.pop("plain", None)
    vision_process.get_video_reader_backend.cache_clear()


def reader(vision_process):
    """A reader of qwen-vl-utils that does its own arithmetic on frames of `fsp.Video`."""

    def read(ele):
        import torch

        video = fsp.Video(ele["video"])
        fps, total = float(video.info.average_fps), len(video)
        first, last, total = vision_process.calculate_video_frame_range(ele, total, fps)
        count = vision_process.smart_nframes(ele, total_frames=total, video_fps=fps)
        indices = torch.linspace(first, last, count).round().long().tolist()
        frames = video.frames(indices).frames.torch()
        metadata = {"fps": fps, "frames_indices": indices, "total_num_frames": total, "video_backend": "plain"}
        return frames, metadata, count / max(total, 1e-6) * fps

    return read


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_videos_are_those_of_qwen_vl_utils(original, videos, name, case):
    from framespool.compat import qwen_vl_utils as ours

    original.VIDEO_READER_BACKENDS["plain"] = reader(original)
    original.FORCE_QWENVL_VIDEO_READER = "plain"
    original.get_video_reader_backend.cache_clear()
    for patch in (14, 16):
        ele = {"video": str(videos / name), **case}
        (want, expected), rate = original.fetch_video(ele, patch, True, True)
        (got, metadata), our_rate = ours.fetch_video(ele, patch, True, True)
        assert got.shape == want.shape and got.dtype == want.dtype and our_rate == rate
        assert {**metadata, "video_backend": ""} == {**expected, "video_backend": ""}
        assert (got - want).abs().mean() < 1
        frames, read, _ = ours.read_video(ele)
        assert (frames == original.VIDEO_READER_BACKENDS["plain"](ele)[0]).all() and read == metadata


def test_install_makes_process_vision_info_use_framespool(original, videos):
    import torch
    from framespool.compat import qwen_vl_utils as ours
    from PIL import Image

    ours.install()
    ours.install()
    images = [Image.new("RGB", (64, 64), (n, 0, 0)) for n in range(3)]
    content = [
        {"type": "video", "video": f"file://{videos / FILES[0]}", "nframes": 4},
        {"type": "video", "video": images},
        {"type": "text", "text": "What happens?"},
    ]
    _, [video, listed], kwargs = original.process_vision_info(
        [{"role": "user", "content": content}], return_video_kwargs=True
    )
    assert torch.equal(video, ours.fetch_video({"video": str(videos / FILES[0]), "nframes": 4}))
    assert listed.shape[0] == 4 and kwargs["fps"][0] == pytest.approx(4 / 72 * 23.976, rel=0.1)
    assert original.get_video_reader_backend() == "framespool"
    with pytest.raises(fsp.errors.NotFoundError, match="none.mp4"):
        original.fetch_video({"video": "none.mp4"})


def test_frames_and_metadata_without_qwen_vl_utils(videos, monkeypatch):
    from framespool.compat import qwen_vl_utils as ours

    tensors = SimpleNamespace(float32="float32")
    monkeypatch.setattr(ours, "needed", lambda _: tensors)
    for module in ("qwen_vl_utils", "qwen_vl_utils.vision_process"):
        monkeypatch.setitem(sys.modules, module, None)
    video, indices, metadata, rate = ours._sampled({"video": str(videos / FILES[0]), "nframes": 8, "fps": None})
    assert len(indices) == 8 and indices[0] == 0 and indices[-1] == len(video) - 1
    assert metadata["total_num_frames"] == len(video)
    assert rate == pytest.approx(8 / len(video) * metadata["fps"])
    assert np.all(np.diff(indices) > 0)
    with pytest.raises(ImportError):
        ours.install()
    with pytest.raises(fsp.errors.ArgumentError, match="video_start must be before video_end"):
        ours._sampled({"video": str(videos / FILES[0]), "nframes": 4, "video_start": 1.0, "video_end": 1.0})
    with pytest.raises(fsp.errors.ArgumentError, match="must be from 2 to 1"):
        ours._sampled({"video": str(videos / "odd" / "single_frame.mp4")})


@pytest.mark.parametrize("name", ["a#b.mp4", "a?b=c.mp4", "a%20b.mp4", "a b.mp4"])
def test_what_follows_file_is_a_path(videos, tmp_path, monkeypatch, name):
    from framespool.compat import qwen_vl_utils as ours

    shutil.copy(videos / FILES[2], tmp_path / name)
    monkeypatch.chdir(tmp_path)
    for address in (f"file://{tmp_path / name}", f"file://{name}", str(tmp_path / name)):
        video, *_ = ours._sampled({"video": address, "nframes": 4})
        assert len(video) > 4
