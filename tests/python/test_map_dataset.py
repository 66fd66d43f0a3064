"""VideoDataset, the map-style dataset, in PyTorch's DataLoader; skipped if PyTorch is not installed."""

from __future__ import annotations

import copy
import os
import pickle
import threading
import warnings

import framespool as fsp
import pytest

torch = pytest.importorskip("torch")
# Warnings about more workers than cores, and torch's deprecations.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")

from framespool.torch import ClipDataset, OccurrenceSampler, VideoDataset  # noqa: E402
from torch.utils.data import (  # noqa: E402
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    WeightedRandomSampler,
    default_collate,
)

T = fsp.transforms
SAMPLING = fsp.samplers.RandomClips(sequence_length=4, stride=2, clips_per_video=3)
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


def test_clips_of_later_epochs_wait_on_disk(short_clips, tmp_path):
    cache = fsp.Cache(disk=tmp_path, disk_size="1GiB", epochs=4)
    dataset = VideoDataset(short_clips, SAMPLING, **KEYWORDS, cache=cache)
    for epoch in range(4):
        dataset.set_epoch(epoch)
        right = clips_of(short_clips, epoch)
        assert all(same(item, right[clip]) for clip, item in enumerate(dataset.__getitems__(range(len(dataset)))))
    assert dataset._here().stats()["disk_clips_read"] > 0


def test_items_are_the_clips_of_a_loader(short_clips):
    dataset = VideoDataset(short_clips, SAMPLING, **KEYWORDS)
    assert len(dataset) == 3 * len(short_clips) and dataset.epoch == 0
    for epoch in (0, 3):
        dataset.set_epoch(epoch)
        right = clips_of(short_clips, epoch)
        assert all(same(dataset[clip], right[clip]) for clip in (7, 0, len(dataset) - 1))
        # In any order; the second occurrence of a clip is another one.
        wanted = [11, 4, 11, 38, 5]
        assert [same(item, right[clip]) for item, clip in zip(dataset.__getitems__(wanted), wanted, strict=True)] == (
            [True, True, False, True, True]
        )
        assert dataset[-1]["clip_ids"].item() == len(dataset) - 1
    assert clips_of(short_clips, 0) != clips_of(short_clips, 3)
    assert dataset.__getitems__([]) == []


def test_clips_of_a_video_share_pictures(videos):
    """Decoded together, eight clips need fewer pictures than one after another."""
    path, starts = str(videos / "derived" / "base_640x360.mp4"), fsp.samplers.Windows(sequence_length=4, step=4)
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
    assert all(map(torch.equal, ours["video"], theirs["video"]))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours if name not in ("columns", "video"))


@pytest.mark.parametrize("workers", [0, 2])
def test_items_have_the_audio_of_a_loader(videos, workers):
    dataset = [str(videos / "odd" / "data_streams.mp4")] * 3
    sampler = fsp.samplers.RandomClips(sequence_length=4, fps=8, clips_per_video=3)
    keywords = {**KEYWORDS, "audio": fsp.Audio(sample_rate=8000, channels=2, shift=0.2, gain=(-6, 6))}
    made = VideoDataset(dataset, sampler, **keywords)
    loader = fsp.ClipLoader(dataset, sampler, batch_size=4, shuffle="full", **keywords)
    for epoch in (0, 2):
        made.set_epoch(epoch)
        loader.set_epoch(epoch)
        right = {}
        for batch in loader:
            rows = zip(batch.clip_ids.tolist(), batch.audio.torch(), batch.audio_mask.torch(), strict=True)
            right |= {clip: (audio.clone(), mask.clone()) for clip, audio, mask in rows}
        assert len({audio.numpy().tobytes() for audio, _ in right.values()}) == len(right) == 9
        seen = 0
        for batch in DataLoader(made, batch_size=4, num_workers=workers):
            assert batch["audio"].shape[1:] == (2, 4000) and batch["audio"].dtype == torch.float32
            rows = zip(batch["clip_ids"].tolist(), batch["audio"], batch["audio_mask"], strict=True)
            for clip, audio, mask in rows:
                assert torch.equal(audio, right[clip][0]) and torch.equal(mask, right[clip][1])
                seen += 1
        assert seen == 9


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


def test_occurrences_are_those_of_a_weighted_dataset(short_clips):
    """Three copies of each clip of one video, in one batch, in several, and in several workers."""
    weights = [float(video == 3) for video in range(len(short_clips))]
    weighted = fsp.datasets.weighted(short_clips, weights, epoch_clips=9)
    wanted = set()
    for batch in fsp.ClipLoader(weighted, SAMPLING, batch_size=9, shuffle="full", **KEYWORDS):
        wanted |= {(clip, batch.frames[place].tobytes()) for place, clip in enumerate(batch.clip_ids.tolist())}
    assert len(wanted) == 9

    def found(batches):
        return {
            (clip, frames.numpy().tobytes())
            for batch in batches
            for clip, frames in zip(batch["clip_ids"].tolist(), batch["frames"], strict=True)
        }

    dataset = VideoDataset(short_clips, SAMPLING, **KEYWORDS)
    draws = [9, 10, 9, 11, 10, 11, 9, 10, 11]
    assert found([default_collate(dataset.__getitems__(draws))]) == wanted
    assert len(found(DataLoader(dataset, batch_size=2, sampler=draws))) < 9
    for workers in (0, 2):
        one = DataLoader(dataset, batch_size=2, sampler=OccurrenceSampler(draws), num_workers=workers)
        assert found(one) == wanted
    lists = OccurrenceSampler(BatchSampler(draws, batch_size=2, drop_last=False))
    assert lists.batch_size == 2 and len(lists) == 5
    for _ in range(2):  # each pass counts from 0
        assert found(DataLoader(dataset, batch_sampler=lists)) == wanted


@pytest.fixture
def said(monkeypatch, capfd):
    """What warnings of this process and of its workers say; clears it."""
    monkeypatch.setattr(
        warnings, "showwarning", lambda message, *_: os.write(2, f"WARNING {message}\n".encode()) and None
    )

    def read() -> list[str]:
        lines = capfd.readouterr().err.splitlines()
        return [line for line in lines if line.startswith("WARNING clip") and "requested again in epoch" in line]

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        yield read


@pytest.mark.parametrize(
    ("workers", "more"), [(0, {}), (2, {}), (2, {"persistent_workers": True})], ids=["0", "2", "persistent"]
)
def test_second_pass_over_an_epoch_warns_once(short_clips, said, workers, more):
    def two_passes(sampling=SAMPLING, choose=False, **keywords) -> list[str]:
        dataset = VideoDataset(short_clips, sampling, **{**KEYWORDS, **keywords})
        dataset[0]
        sampler = DistributedSampler(dataset, num_replicas=3, rank=1)
        loader = DataLoader(dataset, batch_size=4, sampler=sampler, num_workers=workers, **more)
        for epoch in range(2):
            if choose:
                dataset.set_epoch(epoch)
            sampler.set_epoch(0 if workers else epoch)
            assert sum(len(batch["labels"]) for batch in loader) == 13
        return said()

    (line,) = set(two_passes())
    assert "Call set_epoch(epoch)" in line and "OccurrenceSampler" in line and "in epoch 0" in line
    # The epoch is chosen, or nothing is random.
    assert two_passes(choose=True) == []
    fixed = fsp.samplers.UniformClips(sequence_length=2, clips_per_video=3)
    same = {"transforms": [T.Resize((16, 16)), T.RandomHorizontalFlip(0.0)]}
    assert two_passes(fixed, **same) == []
    assert two_passes(fixed, **same, audio=fsp.Audio(sample_rate=100, gain=(-3, -3), missing="zeros")) == []
    assert two_passes(fixed, **same, audio=fsp.Audio(sample_rate=100, shift=0.1, missing="zeros")) != []


def test_sampler_with_replacement_warns(short_clips, said):
    dataset = VideoDataset(short_clips, SAMPLING, **KEYWORDS)
    draws = WeightedRandomSampler([1.0] + [0.0] * 38, num_samples=4)
    assert len(list(DataLoader(dataset, batch_size=2, sampler=OccurrenceSampler(draws)))) == 2 and said() == []
    dataset.set_epoch(0)
    assert len(list(DataLoader(dataset, batch_size=2, sampler=draws))) == 2 and len(said()) == 1
    # Looking at a clip twice is no pass.
    another = VideoDataset(short_clips, SAMPLING, **KEYWORDS)
    assert torch.equal(another[0]["frames"], another[0]["frames"]) and said() == []


def test_description_of_a_clip(short_clips):
    dataset = VideoDataset(short_clips, SAMPLING, **KEYWORDS)
    loader = fsp.ClipLoader(short_clips, SAMPLING, batch_size=4, **KEYWORDS)
    dataset.set_epoch(2)
    described = dataset.describe(5)
    assert described == loader.describe_clip(5, epoch=2) != dataset.describe(5, epoch=0)
    assert described["indices"] == dataset[5]["indices"].tolist() and dataset.describe(-1)["video_id"] == 12
    with pytest.raises(IndexError, match="clip 39 does not exist"):
        dataset.describe(39)


def test_videos_that_are_too_short_are_listed(short_clips):
    lengths = [len(fsp.Video(path)) for path, _ in short_clips]
    sampler = fsp.samplers.RandomClips(sequence_length=max(lengths), padding="drop")
    dataset = VideoDataset(short_clips, sampler, **KEYWORDS)
    short = [video for video, length in enumerate(lengths) if length < max(lengths)]
    assert [(each["video_id"], each["path"]) for each in dataset.dropped()] == [
        (video, short_clips[video][0]) for video in short
    ]
    assert len(dataset) == len(short_clips) - len(short) > 0 < len(short)


def test_sizes_that_differ_need_a_collate_fn(videos):
    files = [str(videos / "derived" / "base_640x360.mp4"), str(videos / "action" / "phone_176x144.mp4")]
    dataset = VideoDataset(files, fsp.samplers.RandomClips(sequence_length=2), transforms=[T.Resize(32)], index=False)
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
        with pytest.raises(fsp.errors.ArgumentError, match=f"no argument '{name}'"):
            VideoDataset(short_clips, SAMPLING, **{name: 1})
    with pytest.raises(fsp.errors.ArgumentError, match='use on_error="replace"'):
        VideoDataset(short_clips, SAMPLING, on_error="skip")
    with pytest.raises(fsp.errors.ArgumentError, match="give this a dataset of paths"):
        VideoDataset(fsp.datasets.Dataset([fsp.datasets.Sources(videos=[short_clips[0][0]])]), SAMPLING)
    with pytest.raises(fsp.errors.ArgumentError, match="apply it in collate_fn"):
        VideoDataset(short_clips, SAMPLING, transforms=[lambda frames: frames])
    with pytest.raises(fsp.errors.ArgumentError, match="layout must be one of"):
        VideoDataset(short_clips, SAMPLING, layout="NTCHW")
    last = VideoDataset(short_clips, SAMPLING, layout="THWC", **KEYWORDS)[3]["frames"]
    assert torch.equal(last, dataset[3]["frames"].permute(0, 2, 3, 1))
    with pytest.raises(fsp.errors.ArgumentError, match="epoch"):
        dataset.set_epoch(-1)
    damaged = [*short_clips[:2], (bad_file, 7)]
    one = fsp.samplers.RandomClips(sequence_length=4)
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


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda dataset: pickle.loads(pickle.dumps(dataset))])
def test_workers_of_a_copy_follow_its_epoch(short_clips, copied):
    dataset = copied(VideoDataset(short_clips, SAMPLING, **KEYWORDS))
    batches = DataLoader(dataset, batch_size=None, num_workers=1, persistent_workers=True)
    for epoch in (0, 3):
        dataset.set_epoch(epoch)
        right = clips_of(short_clips, epoch)
        assert all(same(item, right[clip]) for clip, item in enumerate(batches))


def test_threads_request_items_one_after_another(short_clips, monkeypatch):
    dataset, right = VideoDataset(short_clips, SAMPLING, **KEYWORDS), clips_of(short_clips, 0)
    len(dataset)
    make, found, is_locked = fsp.ClipLoader._clips, {}, []

    def request(clip):
        found[clip] = dataset[clip]

    def make_later(self, epoch, clips):
        """While the first request is made, another thread has a request of its own."""
        if not is_locked:
            other.start()
        is_locked.append(dataset._loader[1].locked())
        return make(self, epoch, clips)

    other = threading.Thread(target=request, args=(1,))
    monkeypatch.setattr(fsp.ClipLoader, "_clips", make_later)
    request(0)
    other.join()
    assert is_locked == [True, True] and all(same(found[clip], right[clip]) for clip in (0, 1))


def test_video_metadata(videos):
    path = videos / "derived" / "base_640x360.mp4"
    video = fsp.Video(path, index=False)
    loader = fsp.ClipLoader(
        [path, videos / "action" / "phone_176x144.mp4"],
        fsp.samplers.presets.qwen_vl(fps=2.0),
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
    part = next(iter(fsp.ClipLoader([segment], fsp.samplers.Windows(sequence_length=8, step=8), batch_size=3)))
    assert [each["frames_indices"] for each in part.video_metadata()] == [
        list(range(start, start + 8)) for start in (0, 8, 16)
    ]
    assert part.indices.tolist()[0][0] == 24 and part.video_metadata()[0]["total_num_frames"] == 24
    assert part.video_metadata()[0]["duration"] == pytest.approx(24 / first["fps"], abs=1e-3)
    assert batch.torch().video_metadata() == batch.video_metadata()
    assert [(each["height"], each["width"]) for each in batch.video_metadata()] == [(360, 640), (144, 176)]
