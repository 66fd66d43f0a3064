"""Clip samplers in a loader: frames, times, masks and numbers of clips of real videos."""

from __future__ import annotations

import math
import warnings

import framespool as fsp
import numpy as np
import pytest
from samplers_model import Spacing, VideoTiming, on_screen, padded_indices, steady

TINY = [fsp.transforms.Resize((16, 24))]


def timing_of(path):
    video = fsp.Video(path)
    ticks, per_second = video.info.time_base
    return VideoTiming(video.pts_seconds, video.info.end_seconds, {}, min(ticks / per_second, 1e-3))


@pytest.mark.parametrize("name", ["vfr_60_15_30_640x360.mp4", "vfr_jitter_640x360.mkv", "base_640x360.mp4"])
def test_loader_samples_seconds_by_file_timestamps(videos, name):
    path = str(videos / "derived" / name)
    timing = timing_of(path)
    rule = fsp.samplers.RandomClips(sequence_length=5, fps=8, clips_per_video=6)
    (batch,) = fsp.ClipLoader([path], rule, batch_size=6, transforms=TINY, seed=5)
    starts = Spacing(5, fps=8.0).starts(timing)
    for row, times in zip(batch.indices.tolist(), batch.pts_seconds.tolist(), strict=True):
        assert row[0] < starts
        assert row == [on_screen(timing, timing.times[row[0]] + i / 8) for i in range(5)]
        assert times == [timing.times[i] for i in row]
    assert all(all(mask) for mask in batch.mask.tolist())
    assert len({row[0] for row in batch.indices.tolist()}) > 1


def test_native_fps_gives_every_frame_despite_rounding(short_clips, videos):
    # Matroska has millisecond timestamps: 0, 0.033, 0.067. A frame is missing in the last video.
    lacking = str(videos / "derived" / "lost_frame_320x180.mkv")
    for path in [*(path for path, _ in short_clips), lacking]:
        frames = len(fsp.Video(path))
        rule = fsp.samplers.Windows(sequence_length=frames - 1, fps=30000 / 1001)
        (batch,) = fsp.ClipLoader([path], rule, batch_size=1, transforms=TINY)
        assert (batch.indices.tolist() == [list(range(frames - 1))]) == (path != lacking), path
    # The previous frame stays on screen.
    assert batch.indices.tolist() == [[*range(33), 32, *range(33, 58)]]


def test_views_are_numbered_and_reach_the_end(videos):
    path = str(videos / "derived" / "vfr_60_15_30_640x360.mp4")
    timing, spacing = timing_of(path), Spacing(4, fps=4.0)
    rule = fsp.samplers.UniformClips(sequence_length=4, duration_seconds=1, clips_per_video=5)
    crops = [fsp.transforms.Resize(16), fsp.transforms.ThreeCrop(16)]
    loader = fsp.ClipLoader([path], rule, batch_size=5, transforms=crops)
    (batch,) = loader
    assert batch.view_ids.tolist() == list(range(5))
    last = spacing.starts(timing) - 1
    assert [row[0] for row in batch.indices.tolist()] == [math.floor(c * last / 4 + 0.5) for c in range(5)]
    assert batch.frames.shape[0] == 5 and 3 in batch.frames.shape  # five clips, three crops of each


def test_windows_by_the_second_cover_a_video(videos):
    path = str(videos / "derived" / "vfr_60_15_30_640x360.mp4")
    timing = timing_of(path)
    rule = fsp.samplers.Windows(sequence_length=3, fps=2, step_seconds=1.25)
    rows = [row for b in fsp.ClipLoader([path], rule, batch_size=4, transforms=TINY) for row in b.indices.tolist()]
    span = timing.end - timing.times[0]
    begins = [timing.times[0] + w * 1.25 for w in range(100) if w * 1.25 + 1 + timing.slack < span]
    assert rows == [[on_screen(timing, t), on_screen(timing, t + 0.5), on_screen(timing, t + 1)] for t in begins]


def test_blank_frames_are_black_and_masked(short_clips):
    rule = fsp.samplers.RandomClips(sequence_length=80, padding="blank")
    for batch in fsp.ClipLoader(short_clips, rule, batch_size=5, transforms=TINY, num_threads=2):
        frames, mask = batch.frames.numpy(), batch.mask.numpy()
        assert not frames[~mask].any() and all(frame.any() for frame in frames[mask])
        lengths = np.array([len(fsp.Video(short_clips[v][0])) for v in batch.video_ids.tolist()])
        assert (mask.sum(1) == np.minimum(lengths, 80)).all()


def test_replacement_clips_match_their_metadata(short_clips):
    n = [len(fsp.Video(path)) for path, _ in short_clips]
    for short in ("repeat", "loop", "wrap", "edge"):
        rule = fsp.samplers.RandomClips(sequence_length=60, stride=2, padding=short)
        for batch in fsp.ClipLoader(short_clips, rule, batch_size=13, transforms=TINY):
            for v, row, mask in zip(batch.video_ids.tolist(), batch.indices.tolist(), batch.mask.tolist(), strict=True):
                assert (row, mask) == padded_indices(steady(n[v], 30.0), [("frame", 2 * i) for i in range(60)], short)


def test_dropped_videos_yield_no_clip(short_clips):
    n = [len(fsp.Video(path)) for path, _ in short_clips]
    need = sorted(n)[6]
    sampling = fsp.samplers.RandomClips(sequence_length=need, clips_per_video=2, padding="drop")
    with pytest.warns(UserWarning, match="omits"):
        loader = fsp.ClipLoader(short_clips, sampling, batch_size=4, transforms=TINY)
    came = [v for batch in loader for v in batch.video_ids.tolist()]
    assert came == [v for v in range(13) for _ in range(2) if n[v] >= need]
    assert 0 < len(came) < 26
    with pytest.raises(fsp.errors.ArgumentError, match="no video yields a clip"):
        fsp.ClipLoader(short_clips, fsp.samplers.UniformClips(sequence_length=9999, padding="drop"), batch_size=4)


def test_a_short_video_is_an_error_that_names_it(short_clips):
    rule = fsp.samplers.RandomClips(sequence_length=4, duration_seconds=100, padding="error")
    with pytest.raises(fsp.errors.ClipSamplingError, match="needs more than 75 seconds") as raised:
        list(fsp.ClipLoader(short_clips[:1], rule, batch_size=1))
    assert raised.value.file == short_clips[0][0]


def test_clips_of_different_length_come_as_a_list(short_clips):
    rule = fsp.samplers.Indices([[0, 5, -1], [7]])
    (batch,) = fsp.ClipLoader(short_clips[:2], rule, batch_size=4, transforms=TINY)
    assert [tuple(t.shape) for t in batch.frames] == [(3, 3, 16, 24), (1, 3, 16, 24)] * 2
    n = [len(fsp.Video(path)) for path, _ in short_clips[:2]]
    assert batch.indices.tolist() == [[0, 5, n[0] - 1], [7, -1, -1], [0, 5, n[1] - 1], [7, -1, -1]]
    assert batch.mask.tolist() == [[True] * 3, [True, False, False]] * 2
    assert np.isnan(batch.pts_seconds.numpy()[1, 1:]).all()
    for row in range(4):
        video = fsp.Video(short_clips[batch.video_ids.tolist()[row]][0])
        kept = [i for i in batch.indices.tolist()[row] if i >= 0]
        assert np.array_equal(batch.frames[row].numpy(), video.frames(kept, transforms=TINY).frames.numpy())


@pytest.mark.parametrize("layout", ["NTHWC", "NTCHW", "NCTHW"])
def test_clips_of_unequal_length_share_frames(short_clips, layout):
    # In one batch they are decoded together; a frame that two of them need is transformed once and copied.
    for lists in ([[0, 1], [0]], [[3], [1, 3], [3, 4, 3]]):
        loader = fsp.ClipLoader(
            short_clips[:3], fsp.samplers.Indices(lists), batch_size=2 * len(lists), transforms=TINY, layout=layout
        )
        seen = 0
        for batch in loader:
            for row, clip in enumerate(batch.frames):
                video = fsp.Video(short_clips[batch.video_ids.tolist()[row]][0], layout=layout[1:])
                wanted = lists[batch.view_ids.tolist()[row]]
                expected = video.frames(wanted, transforms=TINY).frames
                assert clip.shape == expected.shape and np.array_equal(clip.numpy(), expected.numpy())
                seen += 1
        assert seen == 3 * len(lists)


def test_times_and_deltas_meet_the_files_frames(videos):
    path = str(videos / "derived" / "base_640x360.mp4")
    timing = timing_of(path)
    (batch,) = fsp.ClipLoader([path], fsp.samplers.Seconds([0.0, 0.5, 1.01]), batch_size=1, transforms=TINY)
    assert batch.indices.tolist() == [[on_screen(timing, timing.times[0] + t) for t in (0.0, 0.5, 1.01)]]
    frame = timing.times[1] - timing.times[0]
    rule = fsp.samplers.Delta(deltas_seconds=[-2 * frame, 0.0, frame], step=10)
    rows = [
        (row, mask)
        for b in fsp.ClipLoader([path], rule, batch_size=4, transforms=TINY)
        for row, mask in zip(b.indices.tolist(), b.mask.tolist(), strict=True)
    ]
    assert len(rows) == -(-timing.n // 10)
    for c, (row, mask) in enumerate(rows):
        wanted = [10 * c - 2, 10 * c, 10 * c + 1]
        assert row == [min(max(i, 0), timing.n - 1) for i in wanted]
        assert mask == [0 <= i < timing.n for i in wanted]
    with pytest.raises(fsp.errors.ClipSamplingError, match="base_640x360.mp4.*nearest frame is"):
        list(fsp.ClipLoader([path], fsp.samplers.Delta(deltas_seconds=[frame / 2]), batch_size=1))


def test_clips_drawn_together_share_their_position(short_clips):
    rule = fsp.samplers.Dense(sequence_length=2, clips_per_video=4, sample_range=16, padding="repeat")
    loader = fsp.ClipLoader(short_clips, rule, batch_size=13 * 4, seed=3, transforms=[fsp.transforms.Resize((16, 16))])
    (batch,) = loader
    starts = np.array(batch.indices.tolist())[:, 0].reshape(13, 4)
    lengths = np.array([[len(fsp.Video(path))] for path, _ in short_clips])
    assert (starts == (starts[:, :1] + np.array([0, 4, 8, 12])) % lengths).all()
    assert len({int(first) for first in starts[:, 0]}) > 4


def test_dropped_clips_are_listed_with_the_reason(short_clips, bad_file):
    files = [path for path, _ in short_clips]
    lengths = [len(fsp.Video(path)) for path in files]
    limit = sorted(lengths)[6]  # six videos are shorter, or fewer if some are equal
    short = [video for video, length in enumerate(lengths) if length < limit]
    assert 0 < len(short) < 12

    def listed(*arguments, **keywords):
        dropped = fsp.ClipLoader(*arguments, **{"batch_size": 2, "index": False, **keywords}).dropped()
        return [(each["video_id"], each["path"], each["reason"][:9], each["clips"]) for each in dropped]

    expected = [(video, files[video], "too short", 0) for video in short]
    drops = fsp.samplers.RandomClips(sequence_length=limit, clips_per_video=2, padding="drop")
    with pytest.warns(UserWarning, match=rf'padding="drop" omits {len(short)} of 13 videos.*; dropped\(\) lists'):
        assert listed(short_clips, drops) == expected
    assert listed(short_clips, fsp.samplers.Windows(sequence_length=limit, step=3)) == expected
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert listed(short_clips, drops, shard_id=1, num_shards=2) == expected  # rank 0 has reported it
        enough = fsp.samplers.RandomClips(sequence_length=min(lengths), padding="drop")
        assert listed(short_clips, enough) == listed(short_clips, fsp.samplers.RandomClips(sequence_length=2)) == []
    # The list excludes these videos from a dataset; its entry of last_batch="drop" has no video.
    with pytest.warns(UserWarning, match="omits"):
        loader = fsp.ClipLoader(short_clips, drops, batch_size=4, last_batch="drop", index=False)
    assert loader.num_clips % 4 and loader.dropped()[-1]["path"] is None
    rest = loader.dataset.exclude(loader.dropped())
    assert [path for path, _ in rest] == [file for video, file in enumerate(files) if video not in short]
    # Incomplete batches, over both ranks; clips of a damaged file.
    one = fsp.samplers.RandomClips(sequence_length=2)
    for more, clips in (
        ({"shard_id": 0, "num_shards": 2}, 1),
        ({"shard_id": 0, "num_shards": 2, "group_clips": True}, 1),
        ({"num_shards": fsp.options.Shards(2, worker_id=1, num_workers=2), "shard_id": 1}, 1),
        ({}, 1),
        ({"batch_size": fsp.PixelBudget(600), "shard_id": 0, "num_shards": 5}, None),
    ):
        keywords = {"transforms": [fsp.transforms.Resize((16, 16))], "last_batch": "drop", **more}
        ((video, path, reason, count),) = listed(short_clips, one, **keywords)
        assert (video, path, reason) == (None, None, "last_batc") and count == (13 % 5 if clips is None else clips)
    few = {"batch_size": fsp.PixelBudget(600), "transforms": [fsp.transforms.Resize((16, 16))], "last_batch": "drop"}
    limited = fsp.ClipLoader(files[:3], one, index=False, **few)
    assert len(limited) > 0 and limited.dropped() == []
    loader = fsp.ClipLoader([*files[:3], bad_file], one, batch_size=2, on_error="skip", index=False)
    assert sum(map(len, loader)) == 3
    ((dropped),) = loader.dropped()
    assert (dropped["video_id"], dropped["path"], dropped["clips"]) == (3, bad_file, 1) and dropped["reason"]
    assert fsp.ClipLoader([*files[:3], bad_file], one, batch_size=2, on_error="replace", index=False).dropped() == []


def test_names_of_other_libraries_are_refused_with_ours(short_clips, photos):
    rule = fsp.samplers.RandomClips(sequence_length=2)
    for call, said in [
        (
            lambda: fsp.samplers.RandomClips(num_frames=16),
            r"RandomClips\(\) has no argument 'num_frames': use sequence_length=",
        ),
        (lambda: fsp.samplers.Windows(clip_len=16), r"Windows\(\) has no argument 'clip_len': use sequence_length="),
        (lambda: fsp.samplers.UniformClips(sequence_length=4, frame_interval=2), "use stride="),
        (lambda: fsp.samplers.Dense(sequence_length=4, num_clips=2), "use clips_per_video="),
        (
            lambda: fsp.ClipLoader(short_clips, rule, batch_size=1, drop_last=True),
            r"ClipLoader\(\).*last_batch=\"drop\"",
        ),
        (lambda: fsp.ClipLoader(short_clips, batch_size=1, num_frames=8), "use clip_sampler=, with sequence_length="),
        (
            lambda: fsp.ImageLoader(photos, batch_size=1, rank=1),
            r"ImageLoader\(\) has no argument 'rank': use shard_id=",
        ),
        (lambda: fsp.ClipLoader(short_clips, rule, batch_size=1, memory_budget="1GiB"), "use cache=, a size"),
        (lambda: fsp.ClipLoader(short_clips, rule, batch_size=1, lookahead_clips=0), r"use .*Cache\(lookahead="),
        (lambda: fsp.samplers.RandomClips(sequence_length=4, short="drop"), "use padding="),
        (lambda: fsp.samplers.Windows(sequence_length=4, pad_mode="edge"), "use padding="),
        (lambda: fsp.ClipLoader(short_clips, rule, batch_size=1, strict=True), r"use device=.*on_fallback=\"raise\""),
        (lambda: fsp.ClipLoader(short_clips, rule, batch_size=1, order="torch"), "use shuffle=.*DistributedSampler"),
        (lambda: fsp.ClipLoader(short_clips, rule, batch_size=1, num_workers=4), "use num_threads=, since a loader"),
        (lambda: fsp.ClipLoader(short_clips, rule, batch_size=1, stick_to_shard=True), r"use num_shards=.*Shards\("),
        (lambda: fsp.ImageLoader(photos, batch_size=1, decoder="nvjpeg"), r"use device=.*Gpu\(0, decoder="),
        (lambda: fsp.samplers.RandomClips(sequence_length=4, nonsense=1), "unexpected keyword argument 'nonsense'"),
    ]:
        with pytest.raises(TypeError, match=said):
            call()
    for name, now in (("random", "RandomClips"), ("windows", "Windows"), ("Uniform", "UniformClips")):
        with pytest.raises(AttributeError, match=rf"has no attribute '{name}'; it is framespool.samplers.{now}\("):
            getattr(fsp.samplers, name)
