"""Batches whose clips have one size and one length: `Buckets`, `ResizeToNearest` and text tokens of a budget."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math

import framespool as fsp
import numpy as np
import pytest

S, T = fsp.samplers, fsp.transforms
SIZES = ((24, 40), (28, 36), (32, 32), (40, 24))
LENGTHS = (25, 13, 5)


@pytest.fixture(scope="module")
def shapes(videos):
    """Videos of several shapes, rates and lengths."""
    folder = videos / "action"
    names = ("bikes_640x272.mp4", "cars_768x432.mp4", "phone_176x144.mp4", "street_ucf_320x240.avi", "vp9_512x288.webm")
    return [(str(folder / name), number) for number, name in enumerate(names)]


def loader_of(dataset, buckets=None, sampler=None, **more) -> fsp.ClipLoader:
    buckets = fsp.Buckets(sizes=SIZES, frames=LENGTHS) if buckets is None else buckets
    sampler = S.RandomClips(sequence_length=8, stride=4) if sampler is None else sampler
    return fsp.ClipLoader(dataset, sampler, buckets=buckets, **{"batch_size": 2, "seed": 3, "index": False, **more})


def clips_of(batches) -> list[int]:
    """The clips of batches, without padding, after a check that each batch has one shape."""
    found = []
    for batch in batches:
        assert isinstance(batch.frames, fsp.video.Tensor) and batch.frames.shape[0] == len(batch)
        assert (batch.indices.numpy() >= 0).all()
        found += batch.clip_ids.numpy()[~batch.padding.numpy()].tolist()
    return found


def test_sizes_follow_from_the_area():
    buckets = fsp.Buckets(area=480 * 832, multiple=32)
    assert buckets.sizes[0] == (480, 832) and buckets.sizes[-1] == (832, 480)
    for height, width in buckets.sizes:
        assert height % 32 == width % 32 == 0 and 0.9 < height * width / (480 * 832) < 1.1
    square = fsp.Buckets(area=64 * 64, multiple=8, aspects=[1, "4:1", 0.25, 1.0])
    assert square.sizes == ((64, 64), (32, 128), (128, 32))
    assert fsp.Buckets(sizes=[(8, 16), [8, 16], (16, 8)], frames=[5, 9, 9]).frames == (9, 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either area or sizes"),
        ({"area": 100, "sizes": SIZES}, "either area or sizes"),
        ({"area": 100, "aspects": ["wide"]}, "ratio of width and height"),
        ({"area": 100, "aspects": ["1:0"]}, "ratio of width and height"),
        ({"sizes": [24]}, "must be \\(height, width\\)"),
        ({"sizes": []}, "list of \\(height, width\\)"),
        ({"sizes": SIZES, "frames": []}, "list of lengths"),
        (
            {"sizes": SIZES, "frames": (16, 33), "frame_rule": "4n+1"},
            "not 4n\\+1; the nearest are 13 and 17",
        ),
        ({"sizes": SIZES, "frames": (0,), "frame_rule": "8n+1"}, "frames must be"),
        ({"sizes": SIZES, "frame_rule": "4n+1"}, "frame_rule is about frames"),
        ({"sizes": SIZES, "frames": (9,), "frame_rule": "odd"}, 'such as "4n\\+1"'),
        ({"sizes": SIZES, "fit": "crop"}, "fit must be"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(fsp.errors.ArgumentError, match=message):
        fsp.Buckets(**arguments)


def test_a_field_is_replaced():
    buckets = fsp.Buckets(area=96 * 160, multiple=16, frames=(9, 17))
    assert dataclasses.replace(buckets, frames=(33,)).frames == (33,)
    assert dataclasses.replace(buckets, frames=(33,)).sizes == buckets.sizes
    smaller = dataclasses.replace(buckets, area=48 * 80, sizes=None)
    assert smaller == fsp.Buckets(area=48 * 80, multiple=16, frames=(9, 17))
    with pytest.raises(fsp.errors.ArgumentError, match="sizes=None"):
        dataclasses.replace(buckets, area=48 * 80)


@pytest.mark.parametrize("fit", ["cover", "letterbox", "stretch"])
def test_each_video_has_the_nearest_size_and_the_longest_clip(shapes, fit):
    clips = []
    for batch in loader_of(shapes, fsp.Buckets(sizes=SIZES, frames=LENGTHS, fit=fit), shuffle=True):
        for row, number in enumerate(batch.video_ids.tolist()):
            video = fsp.Video(shapes[number][0])
            fits = [n for n in LENGTHS if (n - 1) * 4 + 1 <= len(video)]
            ratio = video.info.display_width / video.info.display_height
            size = min(SIZES, key=lambda size: abs(math.log(size[1] / size[0] / ratio)))
            assert batch.frames.shape[1:] == (max(fits), 3, *size), shapes[number]
            apart = np.diff(batch.indices.numpy()[row])
            assert (apart == 4).all()
            by_hand = {
                "cover": [T.Resize(size, fit="cover", display_aspect=True), T.CenterCrop(size)],
                "letterbox": [T.Letterbox(size, display_aspect=True)],
                "stretch": [T.Resize(size)],
            }
            right = video.frames(batch.indices.tolist()[row], transforms=by_hand[fit]).frames
            assert batch.frames[row].tobytes() == right.tobytes()
        clips += clips_of([batch])
    assert sorted(clips) == list(range(len(shapes)))


def test_random_parts_are_drawn_per_clip(shapes):
    nearest = T.ResizeToNearest([(32, 32)], fit="random_cover")
    drawn = [T.sample_params((90, 160), [nearest], seed=seed)[0] for seed in range(20)]
    assert all(each["size"] == [32.0, 32.0] and each["top"] == 0 for each in drawn)
    assert len({each["left"] for each in drawn}) > 8 and max(each["left"] for each in drawn) <= 57 - 32
    plain = T.sample_params((90, 160), [T.ResizeToNearest([(8, 8), (9, 16)])])[0]
    assert plain["size"] == [9.0, 16.0]
    # Among sizes of one ratio, the first.
    assert T.sample_params((90, 160), [T.ResizeToNearest([(18, 32), (9, 16)])])[0]["size"] == [18.0, 32.0]
    batch = next(iter(loader_of(shapes[:1], fsp.Buckets(sizes=[(32, 32)], frames=(5,)))))
    points = T.map_points(np.array([[[320.0, 136.0]]]), batch.geometry.numpy())
    assert np.allclose(points, 16, atol=0.5)


@pytest.mark.parametrize("shuffle", [False, True, "full", "buffer"])
@pytest.mark.parametrize("last_batch", ["partial", "drop", "fill"])
def test_ranks_have_as_many_batches_of_like_shapes(shapes, shuffle, last_batch):
    many = shapes * 5
    whole = clips_of(loader_of(many, shuffle=shuffle, last_batch=last_batch))
    if last_batch != "drop":
        assert sorted(whole) == list(range(len(many)))
    for ranks in (2, 3):
        loaders = [
            loader_of(many, shuffle=shuffle, last_batch=last_batch, shard_id=rank, num_shards=ranks)
            for rank in range(ranks)
        ]
        batches = [list(loader) for loader in loaders]
        assert {len(each) for each in batches} == {len(loader) for loader in loaders} and len(batches[0]) > 2
        clips = list(itertools.chain.from_iterable(map(clips_of, batches)))
        assert len(set(clips)) == len(clips)
        if last_batch != "drop":
            assert len(clips) == len(many)
        else:
            assert loaders[0].dropped()[-1]["clips"] == len(many) - len(clips)
        sizes = {len(batch) for each in batches for batch in each}
        assert sizes <= ({1, 2} if last_batch == "partial" else {2})
        steps = [{batch.frames.shape[1:] for batch in step} for step in zip(*batches, strict=True)]
        assert sum(len(step) > 1 for step in steps) <= 3, "one for each border of buckets at most"


def test_no_bucket_is_omitted_in_every_epoch(shapes):
    """With more ranks than batches of a bucket, `"drop"` omits others in each epoch."""
    many = [*[shapes[0]] * 8, *[shapes[2]] * 3]
    loaders = [
        loader_of(many, batch_size=1, last_batch="drop", shuffle="full", shard_id=rank, num_shards=4)
        for rank in range(4)
    ]
    seen = set()
    for _ in range(8):
        epoch = [clip for loader in loaders for clip in clips_of(loader)]
        assert len(epoch) == 8
        seen |= set(epoch)
    assert seen >= {8, 9, 10}


def test_a_loader_without_batches_warns(shapes):
    with pytest.warns(UserWarning, match='no batches in epoch 0: last_batch="drop" omits all of its 5 clips'):
        assert len(loader_of(shapes, batch_size=8, last_batch="drop")) == 0


def test_epochs_and_states(shapes):
    many = shapes * 4
    loader = loader_of(many, shuffle=True)
    first, second = ([batch.clip_ids.tolist() for batch in loader] for _ in range(2))
    assert first != second and sorted(sum(first, [])) == sorted(sum(second, []))
    iterator = iter(loader)
    next(iterator), next(iterator)
    state = json.loads(json.dumps(loader.state_dict()))
    rest = [batch.frames.tobytes() for batch in iterator]
    other = loader_of(many, shuffle=True)
    other.load_state_dict(state)
    assert [batch.frames.tobytes() for batch in other] == rest
    with pytest.raises(fsp.errors.ArgumentError, match="state"):
        loader_of(many, fsp.Buckets(sizes=SIZES, frames=(5, 13)), shuffle=True).load_state_dict(state)


def test_short_videos_and_images(shapes, tiny_clips, photos):
    drop = S.RandomClips(sequence_length=8, stride=4, padding="drop")
    rows = [*shapes, *tiny_clips[:3]]
    short = [number for number, (path, _) in enumerate(rows) if len(fsp.Video(path)) < 20 * 4 + 1]
    assert short and len(short) < 4
    long = fsp.Buckets(sizes=SIZES, frames=(25, 21))
    with pytest.warns(UserWarning, match=f"omits {len(short)} of 8 videos"):
        loader = loader_of(rows, long, drop)
    assert len(clips_of(loader)) == 8 - len(short)
    assert [each["video_id"] for each in loader.dropped()] == short
    assert all(str(rows[each["video_id"]][0]) == str(each["path"]) for each in loader.dropped())
    # With another padding, a short video gives the shortest clip.
    assert len(clips_of(loader_of(rows))) == 8
    image = str(photos[0][0])
    by_time = S.RandomClips(sequence_length=1, fps=16, padding="drop")
    mixed = loader_of([*shapes[:2], (image, 9)], fsp.Buckets(sizes=SIZES, frames=(1, 13)), by_time)
    found = {int(batch.labels.numpy()[0]): batch.frames.shape[1] for batch in mixed}
    assert found[9] == 1 and {found[label] for label in found if label != 9} == {13}


def test_a_file_that_fails_is_left_out(shapes, tmp_path):
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no video")
    rows = [*shapes, (str(broken), 7)]
    with pytest.raises(fsp.errors.Error, match="broken"):
        list(loader_of(rows))
    loader = loader_of(rows, on_error="skip")
    assert sorted(clips_of(loader)) == list(range(5))
    assert [each["video_id"] for each in loader.failures()] == [5]
    assert fsp.tools.probe(loader).buckets["none: the file cannot be read"] == 1


def test_probe_counts_the_buckets(shapes):
    loader = loader_of(shapes)
    found = fsp.tools.probe(loader)
    counted: dict[str, int] = {}
    for batch in loader:
        frames, _, height, width = batch.frames.shape[1:]
        name = f"{frames} frames of {width}x{height}"
        counted[name] = counted.get(name, 0) + len(batch)
    assert found.buckets == counted and len(counted) == 3
    assert next(iter(counted)) in str(found)
    assert fsp.tools.probe(shapes).buckets == {}


def test_pixels_limit_the_clips_of_a_bucket(shapes):
    limit = 24 * 40 * 25 * 2
    loader = loader_of(shapes * 4, batch_size=fsp.PixelBudget(limit), shuffle=True)
    clips = []
    for batch in loader:
        assert math.prod(batch.frames.shape) // 3 <= limit
        clips += clips_of([batch])
    assert sorted(clips) == list(range(20))
    # Two clips of 25 frames, but more of the shorter ones.
    assert max(len(batch) for batch in loader) > 2


def test_transforms_follow_the_resize(shapes):
    steps = [T.RandomHorizontalFlip(), T.Normalize([0.5] * 3, [0.5] * 3)]
    batch = next(iter(loader_of(shapes, transforms=steps, dtype="float32", layout="NCTHW")))
    assert batch.frames.dtype == "float32" and batch.frames.shape[1] == 3
    assert -1.01 < batch.frames.numpy().min() < 0 < batch.frames.numpy().max() < 1.01


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"buckets": 3}, "must be Buckets"),
        ({"on_error": "replace"}, "another bucket"),
        ({"collate": "list"}, "one size"),
        ({"batch_size": fsp.TokenBudget(64)}, "a number or a PixelBudget"),
        ({"group_clips": True}, "no buckets"),
        ({"sampler": S.Segments(num_segments=3)}, "needs RandomClips"),
        ({"sampler": S.RandomClips(sequence_length=4, duration_seconds=1)}, "stride or fps"),
        ({"shuffle": [0, 1]}, "if shuffle is a sampler"),
        ({"transforms": T.RandomHorizontalFlip()}, "must be a list"),
    ],
)
def test_what_does_not_go_together_is_refused(shapes, more, message):
    with pytest.raises(fsp.errors.ArgumentError, match=message):
        loader_of(shapes, **more)


def test_text_tokens_count(shapes):
    rows = fsp.datasets.Dataset(shapes, columns={"tokens": [10, 500, 20, 400, 30], "text": list("abcde")})

    def loader(**more) -> fsp.ClipLoader:
        return fsp.ClipLoader(
            rows,
            S.UniformClips(sequence_length=4),
            batch_size=fsp.TokenBudget(900, **more),
            transforms=[T.SmartResize(factor=28, min_pixels=28 * 28, max_pixels=64 * 28 * 28)],
            index=False,
        )

    alone = {
        int(batch.video_ids.numpy()[0]): batch.frames[0]
        for batch in fsp.ClipLoader(
            rows, S.UniformClips(sequence_length=4), batch_size=1, transforms=loader()._steps, index=False
        )
    }
    frames = [2 * (alone[n].shape[-2] // 28) * (alone[n].shape[-1] // 28) for n in range(5)]
    numbers = []
    for more, text in (({}, [0] * 5), ({"text": "tokens"}, rows.columns["tokens"])):
        found = [batch.video_ids.tolist() for batch in loader(**more)]
        assert [n for batch in found for n in batch] == list(range(5))
        for batch, following in itertools.pairwise(found):
            cost = sum(frames[n] + text[n] for n in batch)
            assert cost <= 900 < cost + frames[following[0]] + text[following[0]]
        numbers.append(len(found))
    assert numbers[0] < numbers[1]
    with pytest.raises(fsp.errors.ArgumentError, match="no such column; it has tokens, text"):
        loader(text="words")
    with pytest.raises(fsp.errors.ArgumentError, match="sample 0"):
        loader(text="text")
