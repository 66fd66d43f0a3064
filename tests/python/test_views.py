"""Several views of each video in a batch: clips of several samplers with transforms of their own."""

from __future__ import annotations

import json
import pickle

import framespool as fsp
import numpy as np
import pytest

S, T, View = fsp.samplers, fsp.transforms, fsp.View

RANDOM = {
    "global": View(S.RandomClips(sequence_length=6, stride=3, clips_per_video=2), [T.RandomResizedCrop(32)]),
    "local": View(
        S.RandomClips(sequence_length=4, stride=2, clips_per_video=3),
        [T.RandomResizedCrop((16, 24), scale=(0.05, 0.4)), T.RandomHorizontalFlip()],
        within="global",
    ),
}
FIXED = {
    "wide": View(S.UniformClips(sequence_length=6, stride=2, clips_per_video=2), [T.Resize((24, 40))]),
    "small": View(S.RandomClips(sequence_length=4, clips_per_video=3), [T.Resize((8, 8))], within="wide"),
    "first": View(S.Indices([0, 2]), [T.Resize(20), T.CenterCrop(20)]),
}


def digest(batch: fsp.Batch) -> dict[str, bytes]:
    """What a batch holds, by name of the view and of the attribute."""
    found = {name: getattr(batch, name).tobytes() for name in ("labels", "video_ids", "padding")}
    for name in ("frames", "indices", "pts_seconds", "mask", "clip_ids", "view_ids", "geometry", "content_keys"):
        found |= {f"{view}.{name}": value.tobytes() for view, value in getattr(batch, name).items()}
    return found


def loader_of(dataset, views=RANDOM, **more) -> fsp.ClipLoader:
    return fsp.ClipLoader(dataset, views=views, **{"batch_size": 2, "seed": 4, "index": False, **more})


@pytest.mark.parametrize("layout", ["NTCHW", "NCTHW", "NTHWC"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_each_view_has_the_pixels_of_its_frames(tiny_clips, layout, dtype):
    paths = [path for path, _ in tiny_clips]
    seen = []
    for batch in loader_of(tiny_clips, FIXED, layout=layout, dtype=dtype, shuffle=True, batch_size=3):
        for name, view in FIXED.items():
            part = batch[name]
            for row, video in enumerate(batch.video_ids.tolist()):
                for clip, indices in enumerate(part.indices.tolist()[row]):
                    right = fsp.Video(paths[video], layout=layout[1:]).frames(
                        indices, transforms=view.transforms, dtype=dtype
                    )
                    assert part.frames[row][clip].tobytes() == right.frames.tobytes(), (name, video, clip)
        seen += batch.video_ids.tolist()
    assert sorted(seen) == list(range(len(tiny_clips)))


def test_a_batch_by_view_and_as_a_whole(tiny_clips):
    rows = fsp.datasets.Dataset(tiny_clips, columns={"name": [f"video {n}" for n in range(13)]})
    batch = next(iter(loader_of(rows, batch_size=4)))
    frames, labels = batch
    assert frames is batch.frames and list(frames) == ["global", "local"] and labels.shape == (4,)
    assert "local" in batch and "frames" in batch and "name" in batch and "other" not in batch
    one, other = batch["global"], batch["local"]
    assert one.frames.shape == (4, 2, 6, 3, 32, 32) and other.frames.shape == (4, 3, 4, 3, 16, 24)
    assert other.indices.shape == (4, 3, 4) and other.geometry.shape == (4, 3, 2, 3)
    assert one.labels is other.labels is batch.labels and one["name"] == batch["name"] == batch.columns["name"]
    numbers = 5 * batch.video_ids.numpy()[:, None]
    assert (one.clip_ids.numpy() == numbers + np.arange(2)).all()
    assert (other.clip_ids.numpy() == numbers + np.arange(2, 5)).all()
    assert [each["frames_indices"] for each in other.video_metadata()] == other.indices.tolist()
    assert "local: Tensor((4, 3, 4, 3, 16, 24), uint8)" in repr(batch)
    with pytest.raises(fsp.errors.ArgumentError, match=r"batch\['global'\]"):
        batch.video_metadata()
    with pytest.raises(fsp.errors.ArgumentError, match="no 'locals'; it has .*local"):
        batch["locals"]
    copied = pickle.loads(pickle.dumps(batch))
    assert digest(copied) == digest(batch)


def test_clips_lie_within_those_of_the_other_view(tiny_clips):
    spans = set()
    for epoch in range(3):
        loader = loader_of(tiny_clips)
        loader.set_epoch(epoch)
        for batch in loader:
            outer, inner = batch["global"].indices.numpy(), batch["local"].indices.numpy()
            for clip in range(3):
                low, high = outer[:, clip % 2].min(1), outer[:, clip % 2].max(1)
                assert (inner[:, clip].min(1) >= low).all() and (inner[:, clip].max(1) <= high).all()
                spans.update((inner[:, clip, 0] - low).tolist())
    assert len(spans) > 4


def test_two_views_of_the_same_frames_draw_their_own_transforms(tiny_clips):
    clips = S.RandomClips(sequence_length=4, stride=2)
    crop = [T.RandomResizedCrop(16)]
    loader = loader_of(tiny_clips, {"anchor": View(clips, crop), "positive": View(clips, crop, within="anchor")})
    differ = 0
    for batch in loader:
        assert batch.indices["anchor"].tolist() == batch.indices["positive"].tolist()
        differ += batch.frames["anchor"].tobytes() != batch.frames["positive"].tobytes()
    assert differ == len(loader)


@pytest.mark.parametrize("more", [{"frame_jitter": True}, {"reverse": 0.5}, {"speed": (0.5, 2.0)}])
def test_a_view_with_the_same_clip_sampler_has_the_same_frames(tiny_clips, more):
    """Also if the frames of a clip would not be those of a clip of its span."""
    clips = S.RandomClips(sequence_length=4, stride=3, clips_per_video=2, **more)
    both = {"anchor": View(clips, [T.Resize((8, 8))]), "positive": View(clips, [T.Resize((8, 8))], within="anchor")}
    for batch in loader_of(tiny_clips, both):
        assert batch.indices["anchor"].tolist() == batch.indices["positive"].tolist()
        assert batch.mask["anchor"].tolist() == batch.mask["positive"].tolist()
        assert batch.frames["anchor"].tobytes() == batch.frames["positive"].tobytes()


def test_all_views_are_decoded_in_one_pass(tiny_clips):
    """Clips within those of another view need no picture of their own, for any transforms."""

    def decoded(views) -> int:
        loader = loader_of(tiny_clips, views, num_threads=1, prefetch_batches=0)
        assert sum(len(batch) for batch in loader) == len(tiny_clips)
        stats = loader.stats()
        assert stats["clips"] == len(tiny_clips) * sum(v.clip_sampler.clips_in(100) for v in views.values())
        return stats["frames_decoded"]

    wide, small = FIXED["wide"], FIXED["small"]
    whole = View(S.UniformClips(sequence_length=11, clips_per_video=2), [T.Resize((24, 40))])  # the same span
    assert decoded({"whole": whole, "small": View(small.clip_sampler, small.transforms, within="whole")}) == decoded(
        {"whole": whole}
    )
    assert decoded({"a": wide, "b": wide, "c": wide}) == decoded({"a": wide})


@pytest.mark.parametrize("shuffle", [True, "full", "buffer", False])
def test_order_ranks_threads_and_memory(tiny_clips, shuffle):
    whole = [digest(batch) for batch in loader_of(tiny_clips, shuffle=shuffle)]
    for more in (
        {"num_threads": 1, "prefetch_batches": 0},
        {"num_threads": 4, "cache": 0},
        {"cache": "200KB", "prefetch_batches": 1},
    ):
        assert [digest(batch) for batch in loader_of(tiny_clips, shuffle=shuffle, **more)] == whole
    by_rank = [list(loader_of(tiny_clips, shuffle=shuffle, shard_id=rank, num_shards=2)) for rank in range(2)]
    assert len(by_rank[0]) == len(by_rank[1]) == 4
    # Each row is the same wherever it is delivered.
    rows = {
        int(video): (batch["global"].frames[row].tobytes(), batch["local"].frames[row].tobytes())
        for batch in loader_of(tiny_clips, shuffle=shuffle)
        for row, video in enumerate(batch.video_ids.tolist())
    }
    for batch in by_rank[0] + by_rank[1]:
        for row, video in enumerate(batch.video_ids.tolist()):
            assert rows[video] == (batch["global"].frames[row].tobytes(), batch["local"].frames[row].tobytes())


def test_resumes_within_an_epoch(tiny_clips):
    loader = loader_of(tiny_clips, shuffle=True)
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    state = loader.state_dict()
    rest = [digest(batch) for batch in iterator]
    other = loader_of(tiny_clips, shuffle=True)
    other.load_state_dict(json.loads(json.dumps(state)))
    assert [digest(batch) for batch in other] == rest
    local = RANDOM["local"]
    for changed in (
        {"global": RANDOM["global"]},
        {**RANDOM, "local": View(local.clip_sampler, local.transforms)},
        {**RANDOM, "local": View(local.clip_sampler, [T.Resize((16, 24))], within="global")},
    ):
        with pytest.raises(fsp.errors.ArgumentError, match="state"):
            loader_of(tiny_clips, changed, shuffle=True).load_state_dict(state)


def test_clips_are_described_like_the_rows(tiny_clips):
    loader = loader_of(tiny_clips, shuffle=True)
    batch = next(iter(loader))
    for name in ("global", "local"):
        part = batch[name]
        for row in range(2):
            for clip, number in enumerate(part.clip_ids.tolist()[row]):
                about = loader.describe_clip(number)
                assert about["indices"] == part.indices.tolist()[row][clip]
                assert about["content_key"] == part.content_keys.numpy()[row, clip].tobytes()
                assert len(about["transforms"]) == len(RANDOM[name].transforms)


def test_a_row_with_a_damaged_file_is_replaced_as_a_whole(tiny_clips, tmp_path):
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no video")
    listed = [*tiny_clips[:4], (str(broken), 7)]
    with pytest.raises(fsp.errors.Error, match="broken"):
        list(loader_of(listed))
    batches = list(loader_of(listed, on_error="replace"))
    rows = [row for batch in batches for row in zip(batch.video_ids.tolist(), batch.labels.tolist(), strict=True)]
    assert len(rows) == 5 and rows[4][0] in range(4) and rows[4][1] == tiny_clips[rows[4][0]][1]
    last = batches[-1]
    assert (last.clip_ids["global"].numpy() // 5 == rows[4][0]).all()
    assert (last.clip_ids["local"].numpy() // 5 == rows[4][0]).all()
    assert (last.requested_ids["local"].numpy() // 5 == 4).all()
    fixed = list(loader_of(listed, FIXED, on_error="replace"))[-1]
    video = fsp.Video(tiny_clips[int(fixed.video_ids.numpy()[0])][0])
    indices = fixed["wide"].indices.tolist()[0][1]
    right = video.frames(indices, transforms=FIXED["wide"].transforms).frames
    assert fixed["wide"].frames[0][1].tobytes() == right.tobytes()
    with pytest.raises(fsp.errors.ArgumentError, match="cannot skip a clip of a video"):
        loader_of(listed, on_error="skip")


def test_clips_of_later_epochs_come_from_disk(tiny_clips, tmp_path):
    cache = fsp.Cache(disk=tmp_path / "clips", disk_size="1GB", epochs=3)
    plain = loader_of(tiny_clips, shuffle=True)
    # With many threads, no task need be completed before its clips are due.
    cached = loader_of(tiny_clips, shuffle=True, cache=cache, num_threads=2)
    # Before the first batch is delivered, videos are decoded for their own epoch only: maybe all of the first epoch.
    for _ in range(6):
        assert [digest(batch) for batch in cached] == [digest(batch) for batch in plain]
    assert cached.stats()["disk_clips_read"] >= 3 * len(tiny_clips)


def test_columns_of_frames_functions_and_repeats(tiny_clips):
    lengths = [len(fsp.Video(path)) for path, _ in tiny_clips]
    numbers = {"y": [[video * 1000 + frame for frame in range(length)] for video, length in enumerate(lengths)]}
    own = S.Custom(lambda info, rng: [0, rng.randrange(info.num_frames)], sequence_length=2)
    views = {"one": View(own, [T.Resize((8, 8))]), **FIXED}
    batch = next(iter(loader_of(tiny_clips, views, frame_columns=numbers, repeats=2)))
    assert batch.video_ids.tolist() == [0, 0, 1, 1]
    for name in views:
        part = batch[name]
        assert (part["y"].numpy() == 1000 * part.video_ids.numpy()[:, None, None] + part.indices.numpy()).all()
        assert batch.columns["y"][name].shape == part.indices.shape


def test_previews_show_every_view(tiny_clips, tmp_path):
    pytest.importorskip("PIL")
    loader = loader_of(tiny_clips)
    shown = fsp.tools.preview(loader, tmp_path / "sheet.png", clips=10)
    assert [each["view"] for each in shown] == ["global"] * 4 + ["local"] * 6
    assert (tmp_path / "sheet.png").stat().st_size > 1000
    assert "global, local" in loader._repr_html_()


@pytest.mark.parametrize(
    ("views", "more", "message"),
    [
        ({}, {}, "views must be a dict"),
        ([RANDOM["global"]], {}, "views must be a dict"),
        ({"frames": RANDOM["global"]}, {}, "choose another name"),
        ({"name": RANDOM["global"]}, {}, "choose another name"),
        ({"a": View(S.RandomClips(sequence_length=4), [T.Resize((8, 8))], within="b")}, {}, "given before it"),
        ({"a": View(3)}, {}, "clip_sampler must come from"),
        ({"a": View(S.RandomClips(sequence_length=4), [lambda frames: frames])}, {}, "callable"),
        ({"a": View(S.RandomClips(sequence_length=4))}, {}, "clips of one size"),
        ({**RANDOM, "b": View(S.Windows(sequence_length=4), [T.Resize((8, 8))])}, {}, "same number of clips"),
        (RANDOM, {"clip_sampler": S.RandomClips(sequence_length=4)}, "omit clip_sampler"),
        (RANDOM, {"transforms": [T.Resize(8)]}, "omit transforms"),
        (RANDOM, {"batch_size": fsp.PixelBudget(1 << 20)}, "number of videos"),
        (RANDOM, {"collate": "pad"}, "omit collate"),
    ],
)
def test_errors(tiny_clips, views, more, message):
    rows = fsp.datasets.Dataset(tiny_clips, columns={"name": [f"video {n}" for n in range(13)]})
    with pytest.raises(fsp.errors.ArgumentError, match=message):
        loader_of(rows, views, **more)
