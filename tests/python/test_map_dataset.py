"""VideoDataset, the map-style dataset, in PyTorch's DataLoader; skipped if PyTorch is not installed."""

from __future__ import annotations

import os
import pickle

import framespool as fsp
import pytest

torch = pytest.importorskip("torch")
# Warnings about more workers than cores, and torch's deprecations.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")

from framespool.torch import ClipDataset, VideoDataset  # noqa: E402
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, default_collate  # noqa: E402

T = fsp.transforms
SAMPLING = fsp.samplers.random(sequence_length=4, stride=2, clips_per_video=3)
KEYWORDS = {
    "transforms": [T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.ColorJitter(0.3)],
    "seed": 5,
    "index": False,
}


def clips_of(short_clips, epoch: int) -> dict[int, tuple]:
    """The clips of a loader, which are the reference."""
    loader = fsp.ClipLoader(short_clips, SAMPLING, batch_size=4, **KEYWORDS)
    loader.set_epoch(epoch)
    found = {}
    for batch in loader:
        for place, clip in enumerate(batch.clip_ids.tolist()):
            found[clip] = (batch.frames[place].tobytes(), batch.labels.tolist()[place], batch.indices.tolist()[place])
    return found


def same(item, clip) -> bool:
    return (item["frames"].numpy().tobytes(), item["labels"].item(), item["indices"].tolist()) == clip


def test_items_are_the_clips_of_a_loader(short_clips):
    dataset = VideoDataset(short_clips, SAMPLING, **KEYWORDS)
    assert len(dataset) == 3 * len(short_clips) and dataset.epoch == 0
    for epoch in (0, 3):
        dataset.set_epoch(epoch)
        right = clips_of(short_clips, epoch)
        assert all(same(dataset[clip], right[clip]) for clip in (7, 0, len(dataset) - 1))
        # Repeated clips, in any order.
        wanted = [11, 4, 11, 38, 5]
        assert [same(item, right[clip]) for item, clip in zip(dataset.__getitems__(wanted), wanted, strict=True)] == (
            [True] * 5
        )
        assert dataset[-1]["clip_ids"].item() == len(dataset) - 1
    assert clips_of(short_clips, 0) != clips_of(short_clips, 3)
    assert dataset.__getitems__([]) == []


def test_clips_of_a_video_share_pictures(videos):
    """Decoded together, eight clips need fewer pictures than one after another."""
    path, starts = str(videos / "derived" / "base_640x360.mp4"), fsp.samplers.windows(sequence_length=4, step=4)
    counts = []
    for together in (True, False):
        dataset = VideoDataset([path], starts, transforms=[T.Resize(32)], index=False)
        if together:
            dataset.__getitems__(range(8))
        else:
            [dataset[clip] for clip in range(8)]
        counts.append(dataset._here().stats()["frames_decoded"])
    assert counts[0] * 2 < counts[1]


@pytest.mark.parametrize(("workers", "method"), [(0, None), (2, "fork"), (2, "spawn")])
def test_data_loader(short_clips, workers, method):
    dataset = VideoDataset(short_clips, SAMPLING, **KEYWORDS)
    dataset[0]  # what the parent opened is not used by the workers
    loader = DataLoader(
        dataset,
        batch_size=5,
        shuffle=True,
        num_workers=workers,
        multiprocessing_context=method,
        persistent_workers=workers > 0,
    )
    for epoch in (0, 2):
        dataset.set_epoch(epoch)  # reaches workers that are alive
        right = clips_of(short_clips, epoch)
        seen = []
        for batch in loader:
            for place, clip in enumerate(batch["clip_ids"].tolist()):
                seen.append(clip)
                assert same({name: value[place] for name, value in batch.items()}, right[clip])
        assert sorted(seen) == list(range(len(dataset))) and seen != sorted(seen)


def test_collated_items_are_a_batch_of_clip_dataset(short_clips):
    rows = fsp.datasets.Dataset(
        short_clips, columns={"caption": [f"clip {n}" for n in range(13)], "weight": [0.5] * 13}
    )
    theirs = next(iter(DataLoader(ClipDataset(rows, SAMPLING, batch_size=3, **KEYWORDS), batch_size=None)))
    ours = default_collate(VideoDataset(rows, SAMPLING, **KEYWORDS).__getitems__([0, 1, 2]))
    # Of no use outside of a loader's order.
    assert set(ours) == set(theirs)
    assert ours["columns"]["caption"] == theirs["columns"]["caption"] == ["clip 0"] * 3
    assert ours["columns"]["weight"].tolist() == [0.5] * 3
    assert all(torch.equal(ours[name], theirs[name]) for name in ours if name != "columns")


def test_ranks_and_random_sampler(short_clips):
    dataset = VideoDataset(short_clips, SAMPLING, **KEYWORDS)
    seen = []
    for rank in range(2):
        sampler = DistributedSampler(dataset, num_replicas=2, rank=rank, drop_last=False)
        for batch in DataLoader(dataset, batch_size=4, sampler=sampler):
            seen += batch["clip_ids"].tolist()
    assert set(seen) == set(range(len(dataset))) and len(seen) == len(dataset) + 1
    drawn = RandomSampler(dataset, replacement=True, num_samples=60)
    assert sum(len(batch["clip_ids"]) for batch in DataLoader(dataset, batch_size=30, sampler=drawn)) == 60


def test_sizes_that_differ_need_a_collate_fn(videos):
    files = [str(videos / "derived" / "base_640x360.mp4"), str(videos / "action" / "phone_176x144.mp4")]
    dataset = VideoDataset(files, fsp.samplers.random(sequence_length=2), transforms=[T.Resize(32)], index=False)
    (batch,) = DataLoader(dataset, batch_size=2, collate_fn=list)
    shapes = [tuple(item["frames"].shape) for item in batch]
    assert shapes[0] != shapes[1] and all(shape[:2] == (2, 3) for shape in shapes)


def test_errors(short_clips, bad_file):
    dataset = VideoDataset(short_clips, SAMPLING, **KEYWORDS)
    with pytest.raises(IndexError, match="clip 39 does not exist: the dataset has 39 clips"):
        dataset[39]
    with pytest.raises(IndexError):
        dataset[-40]
    assert len(list(iter_items(dataset))) == 39
    for name in ("batch_size", "shuffle", "num_shards", "repeats", "transform"):
        with pytest.raises(fsp.ArgumentError, match=f"no argument '{name}'"):
            VideoDataset(short_clips, SAMPLING, **{name: 1})
    with pytest.raises(fsp.ArgumentError, match='use on_error="replace"'):
        VideoDataset(short_clips, SAMPLING, on_error="skip")
    with pytest.raises(fsp.ArgumentError, match="apply it in collate_fn"):
        VideoDataset(short_clips, SAMPLING, transforms=[lambda frames: frames])
    with pytest.raises(fsp.ArgumentError, match="layout must be one of"):
        VideoDataset(short_clips, SAMPLING, layout="NTCHW")
    last = VideoDataset(short_clips, SAMPLING, layout="THWC", **KEYWORDS)[3]["frames"]
    assert torch.equal(last, dataset[3]["frames"].permute(0, 2, 3, 1))
    with pytest.raises(fsp.ArgumentError, match="epoch"):
        dataset.set_epoch(-1)
    damaged = [*short_clips[:2], (bad_file, 7)]
    one = fsp.samplers.random(sequence_length=4)
    with pytest.raises(fsp.Error, match=os.path.basename(bad_file)):
        VideoDataset(damaged, one, index=False).__getitems__([0, 2])
    replaced = VideoDataset(damaged, one, index=False, on_error="replace")[2]
    assert replaced["clip_ids"].item() in (0, 1)
    # A failed request does not affect the next one.
    dataset = VideoDataset(damaged, one, index=False)
    for _ in range(2):
        with pytest.raises(fsp.Error):
            dataset[2]
        assert dataset[1]["labels"].item() == 1


def iter_items(dataset):
    """As `for item in dataset` iterates over a map-style dataset: until IndexError."""
    at = 0
    while True:
        try:
            item = dataset[at]
        except IndexError:
            return
        yield item
        at += 1


def test_pickled_dataset_has_no_loader(short_clips):
    dataset = VideoDataset(short_clips, SAMPLING, **KEYWORDS)
    dataset[0]
    copied = pickle.loads(pickle.dumps(dataset))
    assert copied._loader is None and same(copied[1], clips_of(short_clips, 0)[1])


def test_video_metadata(videos):
    path = videos / "derived" / "base_640x360.mp4"
    video = fsp.Video(path, index=False)
    loader = fsp.ClipLoader(
        [path, videos / "action" / "phone_176x144.mp4"],
        fsp.samplers.preset("qwen_vl", fps=2.0),
        batch_size=2,
        transforms=[T.SmartResize(28)],
        index=False,
    )
    (batch,) = loader
    first = batch.video_metadata()[0]
    assert first == {
        "total_num_frames": len(video),
        "fps": video.info.average_fps,
        "duration": pytest.approx(video.info.end_seconds - video.info.begin_seconds),
        "height": 360,
        "width": 640,
        "frames_indices": [index for index in batch.indices.tolist()[0] if index >= 0],
        "video_backend": "framespool",
    }
    segment = fsp.datasets.VideoSegment(path, start_frame=24, end_frame=48)
    part = next(iter(fsp.ClipLoader([segment], fsp.samplers.windows(sequence_length=8, step=8), batch_size=3)))
    assert [each["frames_indices"] for each in part.video_metadata()] == [
        list(range(start, start + 8)) for start in (0, 8, 16)
    ]
    assert part.indices.tolist()[0][0] == 24 and part.video_metadata()[0]["total_num_frames"] == 24
    assert part.video_metadata()[0]["duration"] == pytest.approx(24 / first["fps"], abs=1e-3)
    assert batch.torch().video_metadata() == batch.video_metadata()
    assert [(each["height"], each["width"]) for each in batch.video_metadata()] == [(360, 640), (144, 176)]
