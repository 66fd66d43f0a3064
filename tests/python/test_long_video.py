"""A video of two hours with 10,000 clips in a loader: order, chunks, memory, and decode-once."""

from __future__ import annotations

import framespool as fsp
import pytest
from long_video import repeat_mp4

CLIP_BYTES = 2 * 8 * 8 * 3
WINDOWS = fsp.samplers.Windows(sequence_length=2, step=3)


@pytest.fixture(scope="module")
def two_hours(videos, tmp_path_factory):
    path = tmp_path_factory.mktemp("long") / "two_hours.mp4"
    repeat_mp4(videos / "derived" / "tiny_34x26_h264.mp4", path, 600, slower=5)
    return str(path)


def test_long_video_shows_the_short_one_again_and_again(two_hours, videos):
    short, video = fsp.Video(str(videos / "derived" / "tiny_34x26_h264.mp4")), fsp.Video(two_hours)
    count = short.info.num_frames
    assert video.info.num_frames == 600 * count == 36_000
    assert video.info.duration_seconds >= 7200
    expected = short.frames([0, 7, count - 1]).frames.tobytes()
    for copy in (0, 1, 599):
        assert video.frames([copy * count, copy * count + 7, copy * count + count - 1]).frames.tobytes() == expected


@pytest.mark.filterwarnings("ignore:clips of one video")
def test_ten_thousand_clips_of_one_video_are_decoded_once(two_hours, videos):
    """Of four videos, of which three are short, one has nearly all clips; it is cut into chunks of 64 neighbors."""
    others = [str(videos / "derived" / "tiny_34x26_h264.mp4")] * 3
    options = {"transforms": [fsp.transforms.Resize((8, 8))], "batch_size": 8, "seed": 2, "num_threads": 1}
    run = fsp.ClipLoader([others[0], two_hours, *others[1:]], WINDOWS, shuffle=True, cache=400 * CLIP_BYTES, **options)
    batches = iter(run)
    first = next(batches)
    assert run._native.grouped[2] == 64 and run.num_clips > 10_000
    clips = first.clip_ids.tolist() + [clip for batch in batches for clip in batch.clip_ids.tolist()]
    assert sorted(clips) == list(range(run.num_clips))
    stats = run.stats()
    assert stats["clip_cache_peak_bytes"] <= 400 * CLIP_BYTES
    # A chunk spans 192 frames. What precedes its first frame in the GOP is decoded for the previous chunk too.
    assert stats["frames_decoded"] <= 1.1 * 36_180
    assert stats["clips_decoded_again"] <= 0.05 * run.num_clips
