"""Video.chunks: the frames of a long video in chunks, each decoded once."""

from __future__ import annotations

import framespool as fsp
import numpy as np
import pytest
from framespool.loaders import _clips
from PIL import Image
from processes import engine_threads, wait_until

t = fsp.transforms
SELECTIONS = [{}, {"stride": 3}, {"stride": 100}, {"fps": 10}, {"fps": 7.3, "start_seconds": 0.5, "end_seconds": 2.2}]


@pytest.fixture
def loaders(monkeypatch):
    """The loaders that the test makes."""
    made = []
    init = _clips.ClipLoader.__init__

    def recorded(self, *arguments, **keywords):
        made.append(self)
        init(self, *arguments, **keywords)

    monkeypatch.setattr(_clips.ClipLoader, "__init__", recorded)
    return made


def joined(chunks: list, layout: str) -> np.ndarray:
    return np.concatenate([chunk.frames.numpy() for chunk in chunks], 1 if layout == "CTHW" else 0)


@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
@pytest.mark.parametrize(
    "name", ["derived/base_640x360.mp4", "action/street_ucf_320x240.avi", "derived/av1_640x360.mp4"]
)
def test_chunks_are_the_frames_of_the_video(videos, loaders, name, selection):
    for layout, chunk_size in (("THWC", 7), ("TCHW", 64), ("CTHW", 1)):
        video = fsp.Video(videos / name, layout=layout)
        chunks = list(video.chunks(chunk_size=chunk_size, transforms=[t.Resize(64)], **selection))
        indices = [index for chunk in chunks for index in chunk.indices]
        assert [len(chunk) for chunk in chunks[:-1]] == [chunk_size] * (len(chunks) - 1) and chunks[-1].indices
        want = video.frames(indices, transforms=[t.Resize(64)])
        assert np.array_equal(joined(chunks, layout), want.frames.numpy())
        assert [pts for chunk in chunks for pts in chunk.pts_seconds] == want.pts_seconds
        assert [each for chunk in chunks for each in chunk.duration_seconds] == pytest.approx(want.duration_seconds)
    if not selection:
        assert indices == list(range(len(video)))
        assert all(loader.stats()["frames_decoded"] == len(video) for loader in loaders)
    if "fps" in selection:
        start = selection.get("start_seconds")
        first = video.pts_seconds[0] if start is None else next(pts for pts in video.pts_seconds if pts >= start)
        moments = [first + k / selection["fps"] for k in range(len(indices))]
        assert indices == video.frames_at(moments, transforms=[t.Resize(8)]).indices


def test_other_sources_and_types(videos, tmp_path):
    path = videos / "derived" / "base_640x360.mp4"
    whole = fsp.Video(path)
    for video in (fsp.Video(path.read_bytes()), fsp.Video(path, num_threads=1, index=tmp_path / "index")):
        [chunk] = video.chunks(stride=20, dtype="float32", transforms=[t.Resize((4, 6))], num_threads=2)
        want = whole.frames(chunk.indices, dtype="float32", transforms=[t.Resize((4, 6))])
        assert chunk.frames.dtype == "float32" and np.array_equal(chunk.frames.numpy(), want.frames.numpy())
    folder = tmp_path / "frames"
    folder.mkdir()
    for number in range(5):
        Image.new("RGB", (8, 6), (number * 40, 0, 0)).save(folder / f"{number}.png")
    frames = fsp.Video(fsp.datasets.ImageSequence(folder, fps=10))
    chunks = list(frames.chunks(fps=5, chunk_size=2))
    assert [chunk.indices for chunk in chunks] == [[0, 2], [4]]
    assert [int(chunk.frames.numpy()[0, 0, 0, 0]) for chunk in chunks] == [0, 160]


def test_errors_come_at_once_or_at_their_chunk(videos):
    video = fsp.Video(videos / "derived" / "base_640x360.mp4")
    for wrong, named in (
        ({"chunk_size": 0}, "chunk_size"),
        ({"fps": 1, "stride": 2}, "stride"),
        ({"dtype": "int8"}, "dtype"),
        ({"start_seconds": 2, "end_seconds": 1}, "end"),
    ):
        with pytest.raises(fsp.errors.ArgumentError, match=named):
            video.chunks(**wrong)
    with (
        open(videos / "derived" / "base_640x360.mp4", "rb") as file,
        pytest.raises(fsp.errors.ArgumentError, match="file object"),
    ):
        fsp.Video(file).chunks()
    damaged = fsp.Video(videos / "corrupt" / "derived" / "bitflip_h264.mp4")
    seen = 0
    with pytest.raises(fsp.errors.DecodeError, match=r"bitflip_h264\.mp4"):
        for chunk in damaged.chunks(chunk_size=4):
            seen += len(chunk)
    with pytest.raises(fsp.errors.DecodeError):
        damaged.frames(range(seen, min(seen + 4, len(damaged))))
    assert seen < len(damaged)


def test_an_abandoned_iterator_stops_its_threads(videos):
    video = fsp.Video(videos / "derived" / "base_640x360.mp4")
    # Not counts: a loader of an earlier test may be collected at any time, if a traceback refers to it.
    before = engine_threads()
    for _ in range(3):
        chunks = video.chunks(chunk_size=2)
        assert next(chunks).indices == [0, 1]
        wait_until(lambda: engine_threads() - before)
        own = engine_threads() - before
        chunks.close()
        wait_until(lambda: not own & engine_threads())  # noqa: B023
