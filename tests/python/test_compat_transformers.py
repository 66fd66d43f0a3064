"""Video reading of Hugging Face's transformers over framespool, against its torchcodec backend."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import framespool as fsp
import pytest

# transformers looks for the package `datasets`, and the repository has a folder of that name.
ROOT = Path(__file__).resolve().parents[2]
sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != ROOT]
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("torchvision")

from compat_helpers import skip_if_ffmpeg_links_dangle  # noqa: E402
from framespool.compat import transformers as compat  # noqa: E402
from transformers import video_processing_utils, video_utils  # noqa: E402

FILES = ["derived/base_640x360.mp4", "derived/rotate_cw90_640x360.mp4", "action/street_426x240.mp4"]


@pytest.fixture
def installed(monkeypatch):
    for name in ("load_video", "is_torchcodec_usable", "is_torchcodec_available"):
        if hasattr(video_processing_utils, name):  # the last two have replaced each other
            monkeypatch.setattr(video_processing_utils, name, getattr(video_processing_utils, name))
    monkeypatch.setattr(video_utils, "VIDEO_DECODERS", dict(video_utils.VIDEO_DECODERS))
    compat.install()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("sampling", [{"num_frames": 7}, {"fps": 2}, {}])
def test_backend_equals_torchcodec(installed, videos, name, sampling):
    pytest.importorskip("torchcodec")
    path = str(videos / name)
    try:
        theirs, right = video_utils.load_video(path, backend="torchcodec", **sampling)
    except RuntimeError as reason:
        skip_if_ffmpeg_links_dangle(reason)
        raise
    ours, metadata = video_utils.load_video(path, backend="framespool", **sampling)
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    assert (ours.float() - theirs.float()).abs().mean() < 1.5
    assert list(metadata.frames_indices) == list(right.frames_indices)
    assert metadata.video_backend == "framespool" and (metadata.height, metadata.width) == (right.height, right.width)
    for field in ("total_num_frames", "fps", "duration"):
        assert getattr(metadata, field) == pytest.approx(getattr(right, field)), field


def test_processor_decodes_with_framespool(installed, videos, monkeypatch):
    """A processor loads its videos with framespool, also where torchcodec is missing."""
    from transformers import Qwen2VLVideoProcessor

    monkeypatch.setattr(video_utils, "is_torchcodec_available", lambda: False)
    processor = Qwen2VLVideoProcessor()
    frames, metadata = processor.fetch_videos(
        [str(videos / name) for name in FILES[:2]], sample_indices_fn=lambda metadata, **_: [0, 5, 9, 12]
    )
    assert [each.video_backend for each in metadata] == ["framespool"] * 2
    right = fsp.Video(videos / FILES[0]).frames([0, 5, 9, 12]).frames.torch()
    assert torch.equal(frames[0], right)
    made = processor(videos=list(frames[:1]), do_sample_frames=False, return_tensors="pt")
    assert made["video_grid_thw"].tolist()[0][0] == 2


def test_only_sampled_frames_are_decoded_also_from_bytes(installed, videos):
    path = videos / FILES[0]
    sample = {"sample_indices_fn": lambda metadata, **_: [metadata.total_num_frames - 1]}
    for source in (path.read_bytes(), io.BytesIO(path.read_bytes()), path):
        frames, metadata = compat.read_video(source, **sample)
        assert frames.shape == (1, 3, 360, 640) and metadata.frames_indices == [len(fsp.Video(path)) - 1]


def test_errors_name_the_file(installed, videos, bad_file, tmp_path):
    with pytest.raises(fsp.Error, match="broken"):
        video_utils.load_video(bad_file, num_frames=4, backend="framespool")
    with pytest.raises(fsp.Error, match=r"none\.mp4"):
        compat.read_video(tmp_path / "none.mp4", lambda metadata, **_: [0])
    with pytest.raises(fsp.Error, match="9999"):
        compat.read_video(videos / FILES[0], lambda metadata, **_: [9999])
