"""Folders of images as videos: selection of frames, errors for other files, and frame rates."""

from __future__ import annotations

import json
import os
import time
from fractions import Fraction
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest
from framespool.datasets import Dataset, ImageSequence, VideoSegment
from PIL import Image


def write_png(path: Path, value: int, size: tuple[int, int] = (16, 12)) -> None:
    """Writes an image whose samples all have the value ``value``."""
    Image.new("RGB", size, (value, value, value)).save(path)


def write_frames(folder: Path) -> Path:
    """Frames 1 to 6, each with a brightness of ten times its number."""
    folder.mkdir()
    for number in range(1, 7):
        write_png(folder / f"img_{number:05}.png", 10 * number)
    return folder


@pytest.fixture
def frames(tmp_path: Path) -> Path:
    return write_frames(tmp_path / "frames")


@pytest.fixture(scope="module")
def rested(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two folders of frames whose times are trusted, so that they are listed once (`MIN_STABLE_AGE`)."""
    folders = tmp_path_factory.mktemp("rested")
    found = write_frames(folders / "one"), write_frames(folders / "two")
    time.sleep(4.1)
    return found


def values(video: fsp.Video) -> list[int]:
    return [int(frame.flat[0]) for frame in video[0 : len(video)].numpy()]


PATTERN = "img_{:05}.png"


@pytest.mark.parametrize(
    ("fps", "rate"),
    [
        (30, (30, 1)),
        (25.0, (25, 1)),
        (29.97, (30000, 1001)),
        (23.976, (24000, 1001)),
        (59.94, (60000, 1001)),
        (119.88, (120000, 1001)),
        (30000 / 1001, (30000, 1001)),
        (np.float32(29.97), (30000, 1001)),
        (12.5, (25, 2)),
        (1 / 3, (1, 3)),
        (0.1, (1, 10)),
        (1 / 60, (1, 60)),
        (0.0001, (1, 10000)),
        (1 / 86400, (1, 86400)),
        ((30000, 1001), (30000, 1001)),
        (Fraction(2997, 125), (24000, 1001)),
        (1e6, (1000000, 1)),
    ],
)
def test_a_rate_is_the_fraction_that_is_meant(fps, rate):
    assert ImageSequence("x", fps=fps)._fps == rate


def test_every_rate_is_near_what_was_asked_for():
    random = np.random.default_rng(7)
    for fps in 10 ** random.uniform(-9, 6, 2000):
        num, den = ImageSequence("x", fps=fps)._fps
        assert 0 < num < 2**32 and 0 < den < 2**32
        assert num / den == pytest.approx(fps, rel=1e-4)
    for fps in (1e-10, 1e-300, 5e-324):
        with pytest.raises(fsp.errors.ArgumentError, match="fps"):
            ImageSequence("x", fps=fps)


def test_times_follow_the_rate(frames):
    video = fsp.Video(ImageSequence(frames, fps=0.1))
    assert video.frames(range(6)).pts_seconds == pytest.approx([0, 10, 20, 30, 40, 50])


def test_a_folder_is_a_path():
    for wrong in (123, None, b"frames", ["frames"]):
        with pytest.raises(fsp.errors.ArgumentError, match="folder must be a path"):
            ImageSequence(wrong)


def test_other_files_are_skipped_without_a_pattern(frames):
    write_png(frames / ".hidden.png", 200)
    (frames / "._img_00001.png").write_bytes(b"what another system leaves behind")
    (frames / "img_00000.png").mkdir()
    (frames / "notes.txt").write_text("no picture")
    assert values(fsp.Video(ImageSequence(frames))) == [10, 20, 30, 40, 50, 60]
    assert values(fsp.Video(ImageSequence(frames, first=2, count=3))) == [30, 40, 50]
    with pytest.raises(fsp.Error, match=r"img_00000\.png: is a directory"):
        fsp.Video(ImageSequence(frames, pattern=PATTERN, first=0))


@pytest.mark.parametrize("pattern", [None, PATTERN])
def test_a_link_that_leads_nowhere_is_not_the_end(frames, pattern):
    (frames / "img_00004.png").unlink()
    (frames / "img_00004.png").symlink_to("gone.png")
    with pytest.raises(fsp.errors.NotFoundError, match="img_00004"):
        fsp.Video(ImageSequence(frames, pattern=pattern))
    (frames / "img_00004.png").unlink()
    (frames / "img_00004.png").symlink_to("img_00001.png")
    assert values(fsp.Video(ImageSequence(frames, pattern=pattern))) == [10, 20, 30, 10, 50, 60]


@pytest.mark.parametrize("pattern", [None, PATTERN])
def test_an_empty_frame_is_called_by_its_name(frames, pattern):
    (frames / "img_00003.png").write_bytes(b"")
    video = fsp.Video(ImageSequence(frames, pattern=pattern))
    assert int(video[3].numpy().flat[0]) == 40
    with pytest.raises(fsp.Error, match="img_00003"):
        video[2]
    # The last one starts beyond the end of the file.
    (frames / "img_00006.png").write_bytes(b"")
    with pytest.raises(fsp.Error, match="img_00006"):
        fsp.Video(ImageSequence(frames, pattern=pattern))[5]


def test_patterns_and_numbers_that_cannot_be_meant(frames):
    for pattern in ("img_{:5}.png", "img_%5d.png"):
        with pytest.raises(fsp.errors.ArgumentError, match=r"write \{:05\}"):
            fsp.Video(ImageSequence(frames, pattern=pattern))
    for pattern in ("img_{:+05}.png", "img_{:05dd}.png", "img_%+5d.png", "img.png", "{}{}"):
        with pytest.raises(fsp.errors.ArgumentError, match="must contain one number"):
            fsp.Video(ImageSequence(frames, pattern=pattern))
    for first, count in ((1, 2**32 - 1), (1, 1_000_001), (2**32 - 1, 2)):
        with pytest.raises(fsp.errors.ArgumentError, match="frames"):
            fsp.Video(ImageSequence(frames, pattern=PATTERN, first=first, count=count))
    with pytest.raises(fsp.errors.NotFoundError, match="img_00007"):
        fsp.Video(ImageSequence(frames, pattern=PATTERN, count=1_000_000))


def test_files_and_folders_that_were_mixed_up(frames, tmp_path):
    with pytest.raises(fsp.Error, match="is a file; give the folder that holds the frames"):
        fsp.Video(ImageSequence(frames / "img_00001.png"))
    with pytest.raises(fsp.Error, match="ImageSequence for a folder of frames"):
        fsp.Video(frames)
    pipe = tmp_path / "pipe.png"
    os.mkfifo(pipe)
    with pytest.raises(fsp.Error, match="not a regular file"):
        fsp.Video(pipe)
    with pytest.raises(fsp.Error, match="not a regular file"):
        fsp.decode_image(pipe)


def delivered(loader: fsp.ClipLoader) -> list[int]:
    return [int(value) for batch in loader for value in (clip.numpy().flat[0] for clip in batch.frames)]


@pytest.mark.parametrize("is_rested", [False, True])
def test_a_loader_sees_that_the_folder_changed(request, is_rested):
    frames = request.getfixturevalue("rested")[0] if is_rested else request.getfixturevalue("frames")
    windows = fsp.samplers.Windows(sequence_length=1)
    loader = fsp.ClipLoader([ImageSequence(frames)], windows, batch_size=2, shuffle=False)
    assert delivered(loader) == [10, 20, 30, 40, 50, 60]
    assert delivered(loader) == [10, 20, 30, 40, 50, 60]
    assert loader.stats()["videos_indexed"] == 1
    write_png(frames / "new.png", 70)
    os.replace(frames / "new.png", frames / "img_00002.png")
    loader.set_epoch(0)
    assert delivered(loader) == [10, 70, 30, 40, 50, 60]
    (frames / "img_00006.png").unlink()
    loader.set_epoch(0)
    with pytest.raises(fsp.Error, match="frames"):
        delivered(loader)


def test_changed_file_is_reported_then_relisted(rested):
    frames = rested[1]
    video = fsp.Video(ImageSequence(frames))
    windows = fsp.samplers.Windows(sequence_length=1)
    loader = fsp.ClipLoader(
        [ImageSequence(frames)], windows, batch_size=1, shuffle=False, on_error="skip", num_threads=1
    )
    whole = [10, 20, 30, 40, 50, 60]
    assert delivered(loader) == whole
    write_png(frames / "img_00004.png", 40, (200, 100))
    with pytest.raises(fsp.Error, match=r"img_00004\.png.*since the folder was listed"):
        video[3]
    assert int(video[4].numpy().flat[0]) == 50
    # A prefetched clip that failed is tried again when it is delivered, with the new list.
    first = delivered(loader)
    assert first == whole or (
        "since the folder was listed" in loader.failures()[0]["message"] and first == [10, 20, 30, 50, 60]
    )
    assert delivered(loader) == whole
    assert loader.stats()["videos_indexed"] == 2
    (frames / "img_00004.png").write_bytes(b"")
    with pytest.raises(fsp.errors.TruncatedError, match="img_00004"):
        video[3]


def test_failures_distinguish_videos_of_one_folder(frames, tmp_path):
    (frames / "img_00005.png").write_bytes(b"\x89PNG\r\n\x1a\n and nothing else")
    intact = ImageSequence(frames, pattern=PATTERN, count=4)
    broken = ImageSequence(frames, pattern=PATTERN, first=4, count=3)
    dataset = Dataset([(intact, 0), (broken, 1), (VideoSegment(broken, start_frame=0, end_frame=1), 2)])
    windows = fsp.samplers.Windows(sequence_length=1)
    loader = fsp.ClipLoader(dataset, windows, batch_size=1, shuffle=False, on_error="skip")
    list(loader)
    (failure,) = loader.failures()
    assert failure["video_id"] == 1 and failure["path"] == str(frames) and "img_00005" in failure["message"]
    assert failure["frames"] == {"pattern": PATTERN, "first": 4, "count": 3}
    listed = tmp_path / "bad.jsonl"
    assert loader.write_failures(listed) == 1
    for failures_file in (listed, [failure], [broken]):
        assert dataset.exclude(failures_file).samples == dataset.samples[:1]
    # Without a named frame, the path is the folder.
    assert len(dataset.exclude([frames])) == len(dataset.exclude([{"path": str(frames)}])) == 0
    assert dataset.exclude([intact]).samples == dataset.samples[1:]
    listed.write_text(json.dumps({"path": "a", "frames": 3}) + "\n")
    with pytest.raises(fsp.errors.ArgumentError, match="line 1"):
        dataset.exclude(listed)
