"""Clips of a video that stay together: (N, C, T, ...) batches with one label per video."""

from __future__ import annotations

from pathlib import Path

import framespool as fsp
import numpy as np
import pytest

T = fsp.transforms
SAMPLING = fsp.samplers.RandomClips(sequence_length=4, stride=2, clips_per_video=3)
KEYWORDS = {"transforms": [T.RandomResizedCrop(24)], "seed": 4, "index": False}


def clips_of(tiny_clips, epoch: int) -> dict[int, bytes]:
    loader = fsp.ClipLoader(tiny_clips, SAMPLING, batch_size=5, **KEYWORDS)
    loader.set_epoch(epoch)
    return {
        clip: batch.frames[place].tobytes() for batch in loader for place, clip in enumerate(batch.clip_ids.tolist())
    }


@pytest.mark.parametrize("shuffle", [True, "full", "buffer", "grouped", False])
@pytest.mark.parametrize("ranks", [1, 2])
def test_clips_of_a_video_are_one_row(tiny_clips, shuffle, ranks):
    for epoch in (0, 1):
        right, seen, order = clips_of(tiny_clips, epoch), [], []
        for rank in range(ranks):
            loader = fsp.ClipLoader(
                tiny_clips,
                SAMPLING,
                batch_size=2,
                shuffle=shuffle,
                group_clips=True,
                shard_id=rank,
                num_shards=ranks,
                **KEYWORDS,
            )
            loader.set_epoch(epoch)
            assert loader.num_clips == 39 and len(loader) == -(-13 // (2 * ranks))
            batches = list(loader)
            assert len(batches) == len(loader)
            for batch in batches:
                n = len(batch)
                assert batch.frames.shape == (n, 3, 4, 3, 24, 24) and batch.indices.shape == (n, 3, 4)
                assert batch.labels.shape == batch.video_ids.shape == batch.padding.shape == (n,)
                assert batch.geometry.shape == (n, 3, 2, 3) and batch.mask.shape == (n, 3, 4)
                assert np.array_equal(batch.clip_ids.numpy(), 3 * batch.video_ids.numpy()[:, None] + np.arange(3))
                assert batch.view_ids.tolist() == [[0, 1, 2]] * n
                assert [label for _, label in np.array(tiny_clips, object)[batch.video_ids.numpy()]] == (
                    batch.labels.tolist()
                )
                assert len(batch.video_metadata()) == n
                for row, clips in enumerate(batch.clip_ids.tolist()):
                    for view, clip in enumerate(clips):
                        assert batch.frames[row][view].tobytes() == right[clip]
                real = ~batch.padding.numpy()
                seen += batch.video_ids.numpy()[real].tolist()
            order += [batch.video_ids.tolist() for batch in batches]
        assert sorted(seen) == list(range(13))
        assert (seen == sorted(seen)) == (not shuffle and ranks == 1) or shuffle == "buffer"


def test_views_times_crops_repeats_and_columns(tiny_clips):
    rows = fsp.datasets.Dataset(tiny_clips, columns={"name": [f"video {n}" for n in range(13)]})
    loader = fsp.ClipLoader(
        rows,
        fsp.samplers.UniformClips(sequence_length=4, clips_per_video=2),
        batch_size=3,
        transforms=[T.Resize((32, 48)), T.ThreeCrop(32)],
        group_clips=True,
        repeats=2,
        layout="NCTHW",
        dtype="float32",
    )
    batch = next(iter(loader))
    assert batch.frames.shape == (6, 2, 3, 3, 4, 32, 32)
    assert batch.columns["name"] == [f"video {n}" for n in (0, 0, 1, 1, 2, 2)]
    assert batch.clip_ids.tolist() == [[0, 1], [0, 1], [2, 3], [2, 3], [4, 5], [4, 5]]


@pytest.mark.parametrize("collate", ["stack", "pad", "list"])
def test_one_clip_of_a_video_is_a_dimension_too(tiny_clips, collate):
    def first(clips: int, **more) -> fsp.Batch:
        sampling = fsp.samplers.UniformClips(sequence_length=4, clips_per_video=clips)
        loader = fsp.ClipLoader(tiny_clips, sampling, batch_size=3, index=False, collate=collate, **more)
        return next(iter(loader))

    transforms = [T.Resize((32, 48)), T.ThreeCrop(32)]
    alone = first(1, transforms=transforms)
    one, two = (first(clips, transforms=transforms, group_clips=True) for clips in (1, 2))
    by_clip = {"indices", "pts_seconds", "mask", "clip_ids", "requested_ids", "view_ids", "geometry", "content_keys"}
    by_clip |= {"unpadded_sizes"}
    for name, value in one.as_dict().items():
        if name not in ("frames", "columns", "video"):
            n, *rest = two[name].shape
            assert value.shape == ((n, 1, *rest[1:]) if name in by_clip else (n, *rest)), name
    assert one.clip_ids.tolist() == [[0], [1], [2]] and one.labels.shape == (3,)
    assert isinstance(one.frames, list) == isinstance(two.frames, list) == (collate == "list")
    for at in range(3):
        assert one.frames[at].shape == (1, 3, 4, 3, 32, 32) and two.frames[at].shape == (2, 3, 4, 3, 32, 32)
        assert one.frames[at][0].tobytes() == alone.frames[at].tobytes()
    assert [each["frames_indices"] for each in one.video_metadata()] == one.indices.tolist()


def test_resumes_within_an_epoch(tiny_clips):
    def make(**more):
        keywords = {"batch_size": 2, "shuffle": True, "group_clips": True, **KEYWORDS, **more}
        return fsp.ClipLoader(tiny_clips, SAMPLING, **keywords)

    loader = make()
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    rest = [batch.clip_ids.tolist() for batch in iterator]
    resumed = make(batch_size=1, num_shards=2, shard_id=0), make(batch_size=1, num_shards=2, shard_id=1)
    for each in resumed:
        each.load_state_dict(state)
    both = [a.clip_ids.tolist() + b.clip_ids.tolist() for a, b in zip(*resumed, strict=True)]
    assert [sorted(each) for each in both[:-1]] == [sorted(each) for each in rest[:-1]]
    with pytest.raises(fsp.errors.ArgumentError, match="does not match"):
        make(group_clips=False).load_state_dict(state)


@pytest.mark.parametrize("shuffle", [True, "full", "grouped", "buffer"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_loaders_with_other_clips_and_transforms_deliver_the_same_videos(tiny_clips, shuffle, ranks):
    few = fsp.samplers.RandomClips(sequence_length=4, stride=2, clips_per_video=2)
    many = fsp.samplers.RandomClips(sequence_length=2, clips_per_video=6)
    # Little memory, in which a grouped shuffle of clips would spread them less.
    views = [(few, {"transforms": [T.RandomResizedCrop(24)]}), (many, {"transforms": [T.Resize(16), T.RandomCrop(8)]})]
    views[1][1].update(cache="1MiB", num_threads=1, dtype="float32")

    def make(rank: int) -> list[fsp.ClipLoader]:
        order = {"batch_size": 2, "shuffle": shuffle, "seed": 4, "shard_id": rank, "num_shards": ranks}
        return [
            fsp.ClipLoader(tiny_clips, clips, group_clips=True, index=False, **order, **own) for clips, own in views
        ]

    for rank in range(ranks):
        both = make(rank)
        rows = []
        for _ in range(2):
            for number, batches in enumerate(zip(*both, strict=True)):
                videos = [batch.video_ids.tolist() for batch in batches]
                assert videos[0] == videos[1]
                rows.append(videos[0])
                if len(rows) == len(both[0]) + 2:
                    assert number == 1
                    states = [loader.state_dict() for loader in both]
        epoch = len(rows) // 2
        assert rows[:epoch] != rows[epoch:]
        resumed = make(rank)
        for loader, state in zip(resumed, states, strict=True):
            loader.load_state_dict(state)
        rest = [[batch.video_ids.tolist() for batch in loader] for loader in resumed]
        assert rest[0] == rest[1] == rows[epoch + 2 :]


def test_last_batch_and_replacement(tiny_clips, bad_file):
    def make(files, **more):
        return fsp.ClipLoader(files, SAMPLING, batch_size=4, group_clips=True, **KEYWORDS, **more)

    filled = list(make(tiny_clips, last_batch="fill"))
    assert [len(batch) for batch in filled] == [4] * 4 and filled[-1].padding.tolist() == [False, True, True, True]
    assert sum(map(len, make(tiny_clips, last_batch="drop"))) == 12
    replaced = list(make([*tiny_clips[:3], (bad_file, 9)], on_error="replace"))
    assert replaced[0].requested_ids.tolist()[3] == [9, 10, 11]
    assert all(clip < 9 for clip in replaced[0].clip_ids.tolist()[3])
    with pytest.raises(fsp.Error, match="broken"):
        list(make([*tiny_clips[:3], (bad_file, 9)]))


def damaged_at_the_end(path: str, folder: Path) -> str:
    """A copy of a video whose first frames can be decoded, and whose last ones cannot."""
    whole, copy = Path(path).read_bytes(), folder / "damaged.mkv"
    for place in range(len(whole) * 6 // 10, len(whole)):
        copy.write_bytes(whole[:place] + b"\xff\xff" + whole[place + 2 :])
        video = fsp.Video(str(copy))
        if len(video) != 109:
            continue  # the container's structure is damaged
        video.frames([0, 1])
        try:
            video.frames([107, 108])
        except fsp.errors.DecodeError:
            return str(copy)
    raise AssertionError("no such place")


@pytest.mark.parametrize("part", ["whole file", "end of the file"])
def test_a_group_is_replaced_by_clips_of_one_other_video(tiny_clips, bad_file, tmp_path, part):
    if part == "end of the file":
        bad_file = damaged_at_the_end(tiny_clips[2][0], tmp_path)
    files = [*tiny_clips[:6], (bad_file, 9)]
    sampling = fsp.samplers.UniformClips(sequence_length=2, clips_per_video=3)
    keywords = {"group_clips": True, "on_error": "replace", "repeats": 2, **KEYWORDS}
    found = []
    for threads in (1, 3):
        batches = list(fsp.ClipLoader(files, sampling, batch_size=3, num_threads=threads, **keywords))
        for batch in batches:
            assert (batch.clip_ids.numpy() // 3 == batch.video_ids.numpy()[:, None]).all()
            assert (batch.view_ids.numpy() == [0, 1, 2]).all()
            assert batch.labels.tolist() == [files[video][1] for video in batch.video_ids.tolist()]
        replaced = batches[-1]
        assert replaced.requested_ids.tolist() == [[18, 19, 20]] * 2 and replaced.video_ids.tolist()[0] < 6
        found.append([(batch.clip_ids.tolist(), batch.frames.tobytes()) for batch in batches])
    assert found[0] == found[1]
    first = int(batches[-1].clip_ids.numpy()[0, 0])
    intact = fsp.ClipLoader(tiny_clips[:6], sampling, batch_size=6, **keywords)
    other = next(batch.frames for batch in intact)
    row = first // 3 * 2
    assert other[row].tobytes() == batches[-1].frames[0].tobytes()


def test_refused(tiny_clips):
    for more, message in (
        ({"on_error": "skip"}, "cannot skip a clip of a video"),
        ({"transforms": [T.Resize(32)]}, "needs clips of one size"),
        ({"clip_sampler": fsp.samplers.Windows(sequence_length=4)}, "the same number of clips from each video"),
        ({"transforms": [T.Resize((8, 8)), lambda frames: frames]}, "excludes a callable"),
        ({"batch_size": fsp.PixelBudget(10_000)}, "need a number as batch_size"),
        (
            {
                "dataset": fsp.datasets.mix(
                    (fsp.datasets.Dataset(tiny_clips), 1.0), (fsp.datasets.Dataset(tiny_clips), 1.0)
                )
            },
            "datasets without weights",
        ),
    ):
        keywords = {"dataset": tiny_clips, "clip_sampler": SAMPLING, "batch_size": 2, **KEYWORDS, **more}
        with pytest.raises(fsp.errors.ArgumentError, match=message):
            fsp.ClipLoader(keywords.pop("dataset"), keywords.pop("clip_sampler"), group_clips=True, **keywords)
