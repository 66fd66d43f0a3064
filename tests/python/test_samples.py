"""Samples of any number of videos and images: lists of records, batches, order, budgets, errors."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import framespool as fsp
import numpy as np
import pytest

t = fsp.transforms
Sources = fsp.datasets.Sources

#: Videos and images of each record.
COUNTS = [(2, 0), (0, 1), (0, 0), (1, 2), (1, 0), (0, 0), (3, 1), (0, 2), (1, 1), (0, 0), (1, 0), (2, 2), (0, 1)]
TEXT_TOKENS = [5, 40, 300, 20, 10, 7, 90, 3, 11, 250, 16, 2, 33]


def records(videos: list[tuple[str, int]], images: list[tuple[str, int]]) -> list[dict[str, Any]]:
    """Records as they are fine-tuned on: null, one path or a list of paths."""
    of_videos, of_images = Names(videos), Names(images)
    found = []
    for number, (num_videos, num_images) in enumerate(COUNTS):
        row: dict[str, Any] = {"conversations": [{"from": "human", "value": f"question {number}"}], "label": number}
        row["num_tokens"] = TEXT_TOKENS[number]
        for key, names, count in (("videos", of_videos, num_videos), ("images", of_images, num_images)):
            if count == 0 and number % 2:
                row[key] = None
            elif count == 1 and number % 3 == 0:
                row[key] = next(names)
            elif count:
                row[key] = [next(names) for _ in range(count)]
        found.append(row)
    return found


class Names(Iterator[str]):
    """The paths of samples, again and again."""

    def __init__(self, samples: list[tuple[str, int]]) -> None:
        self._samples, self._next = samples, 0

    def __next__(self) -> str:
        self._next += 1
        return self._samples[self._next % len(self._samples)][0]


@pytest.fixture(scope="module")
def small(tiny_clips: list[tuple[str, int]], photos: list[tuple[str, int]]) -> list[dict[str, Any]]:
    return records(tiny_clips, photos)


@pytest.fixture
def path(small: list[dict[str, Any]], tmp_path: Path) -> Path:
    return write(tmp_path, small)


def write(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "sft.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return path


def read(path: Path) -> fsp.datasets.Dataset:
    return fsp.datasets.json_lines(path, videos="videos", images="images")


def loader(dataset: Any, clip_sampler: Any = None, **keywords: Any) -> fsp.ClipLoader:
    transforms = [t.SmartResize(28, min_pixels=4 * 28 * 28, max_pixels=16 * 28 * 28)]
    options = {"batch_size": 3, "transforms": transforms, "num_threads": 2, **keywords}
    return fsp.ClipLoader(dataset, clip_sampler or fsp.samplers.presets.qwen_vl(max_frames=8), **options)


def content(batch: fsp.SampleBatch) -> tuple[Any, ...]:
    """Everything of a batch that can be compared."""
    frames = [
        (kind, frames.shape, frames.numpy().tobytes())
        for sample in batch.samples
        for kind in sample
        for frames in sample[kind]
    ]
    rows = [batch.videos.columns["sample"].tolist(), batch.images.columns["sample"].tolist()]
    ids = [batch.sample_ids.tolist(), batch.requested_ids.tolist(), batch.padding.tolist(), batch.labels.tolist()]
    keys = [batch.videos.content_keys.tolist(), batch.images.content_keys.tolist(), batch.videos.indices.tolist()]
    return frames, rows, ids, keys, batch.columns["num_tokens"].tolist()


def ids(batches: Any) -> list[list[int]]:
    return [batch.sample_ids.tolist() for batch in batches]


def test_records_keep_their_videos_images_and_texts(small: list[dict[str, Any]], path: Path) -> None:
    dataset = read(path)
    assert [(len(source.videos), len(source.images)) for source, _ in dataset] == COUNTS
    assert dataset[3][0].images == tuple(small[3]["images"])
    assert [label for _, label in dataset] == list(range(len(COUNTS)))
    assert dataset.columns["conversations"][12] == small[12]["conversations"]
    assert set(dataset.columns) == {"conversations", "num_tokens"}
    assert len(dataset.subset([2, 6]) + dataset[:1]) == 3
    chosen = fsp.datasets.json_lines(path, videos="videos", images="images", where={"num_tokens": [5, 40]})
    assert len(chosen) == 2


def test_paths_are_relative_to_the_list_and_labels_are_names(tmp_path: Path) -> None:
    rows = [
        {"v": "a.mp4", "label": "yes"},
        {"v": ["b/c.mp4", "/d.mp4", "file:///e%20f.mp4", "s3://x/y.mp4"], "label": None},
    ]
    dataset = fsp.datasets.json_lines(write(tmp_path, rows), videos="v")
    assert dataset[0][0].videos == (str(tmp_path / "a.mp4"),)
    assert dataset[1][0].videos == (str(tmp_path / "b/c.mp4"), "/d.mp4", "/e f.mp4", "s3://x/y.mp4")
    assert (dataset.classes, [label for _, label in dataset]) == (["yes"], [0, -1])
    assert fsp.datasets.json_lines(tmp_path / "sft.jsonl", videos="v", root="/r")[0][0].videos == ("/r/a.mp4",)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1]", "line 2: is .*, not an object"),
        ('{"videos": 3}', 'line 2: "videos" is 3, expected a path or a list'),
        ('{"videos": ["a.mp4", null]}', 'line 2: entry 1 of "videos" is None'),
        ('{"videos": [["0.jpg", "1.jpg"]]}', 'line 2: entry 0 of "videos"'),
        ('{"label": 1.5}', "line 2: the label is 1.5"),
        ('{"videos": "file://host/a.mp4"}', "line 2: .* not on a disk"),
        ("{", "line 2: Expecting"),
        ('{"videos": "a.mp4", "x": {"y": 1, "y": 2}}', "line 2: key 'y' appears twice"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "sft.jsonl"
    path.write_text('{"videos": []}\n' + line)
    with pytest.raises(fsp.errors.ArgumentError, match=message):
        read(path)


def test_numbers_must_be_those_of_the_given_classes(tmp_path: Path) -> None:
    path = write(tmp_path, [{"videos": "a.mp4", "label": 1}, {"videos": "b.mp4"}])
    dataset = fsp.datasets.json_lines(path, videos="videos", classes=["run", "walk"])
    assert [label for _, label in dataset] == [1, -1] and dataset.classes == ["run", "walk"]
    with pytest.raises(fsp.errors.ArgumentError, match="the label 1 is not one of the 1 classes"):
        fsp.datasets.json_lines(path, videos="videos", classes=["run"])


def test_lists_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(fsp.errors.NotFoundError, match="no such file"):
        read(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n\n")
    with pytest.raises(fsp.errors.ArgumentError, match="lists no samples"):
        read(tmp_path / "empty.jsonl")
    with pytest.raises(fsp.errors.ArgumentError, match="omit source, start"):
        fsp.datasets.json_lines(tmp_path / "empty.jsonl", videos="videos", source="video")


def test_each_sample_has_the_frames_of_its_files(path: Path) -> None:
    dataset = read(path)
    sampler, resize = (
        fsp.samplers.presets.qwen_vl(max_frames=8),
        t.SmartResize(28, min_pixels=784, max_pixels=9 * 28 * 28),
    )
    for batch in loader(dataset, transforms=[resize], shuffle=True):
        metadata = iter(batch.video_metadata())
        for at, sample in enumerate(batch.sample_ids.tolist()):
            sources, label = dataset[sample]
            assert (int(batch.labels.tolist()[at]), batch.columns["num_tokens"].tolist()[at]) == (
                label,
                TEXT_TOKENS[sample],
            )
            alone = [fsp.ClipLoader([v], sampler, batch_size=1, transforms=[resize]) for v in sources.videos]
            for frames, one in zip(batch.samples[at]["videos"], alone, strict=True):
                expected = next(iter(one))
                assert np.array_equal(frames.numpy(), expected.frames[0].numpy())
                assert next(metadata) == expected.video_metadata()[0]
            for frames, image in zip(batch.samples[at]["images"], sources.images, strict=True):
                expected_image = fsp.ImageLoader([image], batch_size=1, transforms=[resize], exact=True)
                assert np.array_equal(frames.numpy(), next(iter(expected_image)).images[0].numpy())
        labels = batch.labels.tolist()
        for clips in (batch.videos, batch.images):
            assert clips.labels.tolist() == [labels[row] for row in clips.columns["sample"].tolist()]


def test_a_stream_is_that_of_the_videos(path: Path) -> None:
    dataset = read(path)
    chosen = list(loader(dataset.with_stream(0), batch_size=np.int64(4)))
    assert [content(batch)[0] for batch in chosen] == [content(batch)[0] for batch in loader(dataset, batch_size=4)]
    with pytest.raises(fsp.errors.NoVideoError):
        next(iter(loader(dataset.with_stream(1))))


def test_tools_read_all_sources(path: Path) -> None:
    dataset = read(path)
    files = {source for sources, _ in dataset for source in sources}
    assert fsp.tools.validate(dataset).samples == sum(map(sum, COUNTS))
    assert fsp.tools.probe(dataset).num_files == len(files)
    for refused in (fsp.tools.split_shots, lambda given: fsp.tools.transcode(given, path.parent / "out")):
        with pytest.raises(fsp.errors.ArgumentError, match="samples of several sources"):
            refused(dataset)


def test_a_dataset_of_text_only(path: Path) -> None:
    texts = read(path).subset([2, 5, 9])
    batches = list(fsp.ClipLoader(texts, batch_size=2))
    assert [batch.samples for batch in batches] == [[{"videos": [], "images": []}] * count for count in (2, 1)]
    assert [batch.columns["num_tokens"].tolist() for batch in batches] == [[300, 7], [250]]
    assert batches[0].videos.indices.shape == (0, 0)
    assert ids(loader(texts, batch_size=fsp.TokenBudget(300, text="num_tokens"))) == [[0], [1, 2]]


def test_kinds_have_transforms_of_their_own(path: Path) -> None:
    transforms = {"videos": [t.Resize((32, 48))], "images": [t.Resize((16, 16))]}
    shapes = {
        frames.shape[-2:] for batch in loader(read(path), transforms=transforms) for frames in batch.videos.frames
    }
    images = {image.shape for batch in loader(read(path), transforms=transforms) for image in batch.images.images}
    assert (shapes, images) == ({(32, 48)}, {(3, 16, 16)})


@pytest.mark.parametrize("kind", ["videos", "images"])
def test_a_dataset_of_one_kind(path: Path, kind: str) -> None:
    own = fsp.datasets.json_lines(path, **{kind: kind})
    batch = next(iter(fsp.ClipLoader(own, fsp.samplers.presets.qwen_vl(max_frames=4), batch_size=len(COUNTS))))
    videos, images = (batch.videos.columns["sample"].tolist(), batch.images.columns["sample"].tolist())
    wanted = [row for row, counts in enumerate(COUNTS) for _ in range(counts[kind == "images"])]
    assert (videos if kind == "videos" else images) == wanted
    assert (images if kind == "videos" else videos) == []
    assert len(batch.images.images if kind == "videos" else batch.videos.frames) == 0
    assert batch.video_metadata() == [] or kind == "videos"


SHUFFLES = [False, True, "full", fsp.GroupedShuffle(block_size=4), fsp.BufferShuffle(initial_fill=4)]


@pytest.mark.parametrize("shuffle", SHUFFLES, ids=str)
@pytest.mark.parametrize("last_batch", ["partial", "drop", "fill"])
def test_the_order_is_that_of_a_batch_sampler_of_samples(path: Path, shuffle: Any, last_batch: Any) -> None:
    dataset = read(path)
    grouped = isinstance(shuffle, fsp.GroupedShuffle)
    for rank in range(2):
        own = loader(dataset, shuffle=shuffle, seed=3, shard_id=rank, num_shards=2, last_batch=last_batch, batch_size=2)
        sampler = fsp.order.BatchSampler(
            num_clips=len(dataset),
            shuffle="full" if grouped else shuffle,
            seed=3,
            batch_size=2,
            shard_id=rank,
            num_shards=2,
            last_batch=last_batch,
        )
        for epoch in range(2):
            batches = list(own)
            assert ids(batches) == list(sampler.epoch(epoch))
            assert [batch.padding.tolist() for batch in batches] == [
                sampler.padding(number, epoch=epoch) for number in range(len(sampler))
            ]
            assert len(batches) == len(own) == len(sampler)


class Odd:
    """An order of the user, as a sampler of PyTorch."""

    def __iter__(self) -> Iterator[int]:
        return iter([12, 0, 0, 2, 6, 11])


def test_an_order_of_the_user_counts_samples(path: Path) -> None:
    own = loader(read(path), shuffle=Odd(), batch_size=4)
    assert ids(own) == [[12, 0, 0, 2], [6, 11]]
    batch = next(iter(own))
    first, second = batch.samples[1], batch.samples[2]
    assert [np.array_equal(a.numpy(), b.numpy()) for a, b in zip(first["videos"], second["videos"], strict=True)] == [
        True
    ] * 2


def test_mixtures_and_weights_count_samples(path: Path) -> None:
    dataset = read(path)
    texts, rest = dataset.subset([2, 5, 9]), dataset.subset([0, 1, 3, 4])
    mixture = fsp.datasets.mix((texts, 0.5), (rest, 0.5), epoch_clips=16)
    drawn = Counter(sample for batch in ids(loader(mixture, shuffle=True)) for sample in batch)
    assert sum(drawn[sample] for sample in range(3)) == 8 == sum(drawn[sample] for sample in range(3, 7))
    weighted = fsp.datasets.weighted(
        dataset, [1.0 if number == 6 else 0.0 for number in range(len(dataset))], epoch_clips=5
    )
    batches = list(
        loader(weighted, clip_sampler=fsp.samplers.RandomClips(sequence_length=4), shuffle=True, batch_size=5)
    )
    assert ids(batches) == [[6] * 5]
    assert len({tuple(row) for row in batches[0].videos.indices.tolist()}) > 3  # each occurrence draws other frames


BUDGET = fsp.TokenBudget(400, text="num_tokens")


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("shuffle", [False, True, fsp.BufferShuffle(initial_fill=4)], ids=str)
@pytest.mark.parametrize("batch_size", [2, BUDGET], ids=["number", "tokens"])
def test_a_state_resumes_at_every_batch(path: Path, batch_size: Any, shuffle: Any, ranks: int) -> None:
    dataset, sampler = read(path), fsp.samplers.RandomClips(sequence_length=4)
    crop = [t.RandomResizedCrop(28), t.SmartResize(28, min_pixels=4 * 28 * 28, max_pixels=16 * 28 * 28)]

    def create() -> fsp.ClipLoader:
        options = {"shuffle": shuffle, "shard_id": ranks - 1, "num_shards": ranks, "transforms": crop, "seed": 1}
        return loader(dataset, sampler, batch_size=batch_size, on_error="skip", **options)

    whole = create()
    epochs = [[content(batch) for batch in whole] for _ in range(2)]
    assert epochs[0] != epochs[1]
    for epoch, batches in enumerate(epochs):
        for first in range(len(batches)):
            begun = create()
            begun.set_epoch(epoch)
            iterator = iter(begun)
            for _ in range(first):
                next(iterator)
            resumed = create()
            resumed.load_state_dict(begun.state_dict())
            assert [content(batch) for batch in resumed] == batches[first:]
            assert content(whole.batch(epoch=epoch, index=first)) == batches[first]


def test_the_frames_depend_on_no_threads_and_no_other_rank(path: Path) -> None:
    dataset, sampler = read(path), fsp.samplers.RandomClips(sequence_length=4)

    def by_sample(**options: Any) -> dict[int, list[bytes]]:
        found = {}
        for batch in loader(dataset, sampler, shuffle=True, **options):
            for sample, frames in zip(batch.sample_ids.tolist(), batch.samples, strict=True):
                found[sample] = [each.numpy().tobytes() for kind in frames.values() for each in kind]
        return found

    alone = by_sample(num_threads=1)
    parts = [by_sample(shard_id=rank, num_shards=2, batch_size=2, num_threads=3) for rank in range(2)]
    assert {**parts[0], **parts[1]} == alone
    assert sorted(alone) == list(range(len(COUNTS)))


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_token_budget_counts_all_sources_and_the_text(path: Path, shuffle: bool, ranks: int) -> None:
    dataset, delivered, numbers = read(path), Counter[int](), set()
    for rank in range(ranks):
        own = loader(dataset, batch_size=BUDGET, shuffle=shuffle, shard_id=rank, num_shards=ranks)
        batches = list(own)
        numbers.add((len(batches), len(own)))
        for batch in batches:
            cost = sum(batch.columns["num_tokens"].tolist())
            for frames in batch.videos.frames:
                cost += -(-frames.shape[0] // 2) * (frames.shape[2] // 28) * (frames.shape[3] // 28)
            cost += sum((image.shape[1] // 28) * (image.shape[2] // 28) for image in batch.images.images)
            assert cost <= 400 or len(batch) == 1
            delivered.update(
                sample
                for sample, padding in zip(batch.sample_ids.tolist(), batch.padding.tolist(), strict=True)
                if not padding
            )
    assert delivered == Counter(range(len(COUNTS)))
    assert len(numbers) == 1
    assert max(batch for batch, _ in numbers) < len(COUNTS)  # several samples share a batch


def test_a_budget_without_text_needs_another_limit_for_text_only_samples(path: Path) -> None:
    dataset = read(path)
    with pytest.raises(fsp.errors.ArgumentError, match="sample 2 has no videos and images, so it costs nothing"):
        loader(dataset, batch_size=fsp.TokenBudget(400))
    with pytest.raises(fsp.errors.ArgumentError, match="max_clips="):
        loader(dataset, batch_size=fsp.PixelBudget(10**6))
    batches = ids(loader(dataset, batch_size=fsp.PixelBudget(10**9, max_clips=5)))
    assert list(map(len, batches)) == [5, 5, 3]
    with pytest.raises(fsp.errors.ArgumentError, match="same factor"):
        loader(dataset, batch_size=BUDGET, transforms={"videos": [t.SmartResize(28)], "images": [t.SmartResize(32)]})
    with pytest.raises(fsp.errors.ArgumentError, match="no such column"):
        loader(dataset, batch_size=fsp.TokenBudget(10, text="none"))


def test_a_sample_larger_than_the_budget_is_a_batch_of_its_own(path: Path) -> None:
    with pytest.warns(UserWarning, match="sample 2 costs 300, which exceeds tokens=100 alone"):
        batches = ids(loader(read(path), batch_size=fsp.TokenBudget(100, text="num_tokens")))
    assert [2] in batches


@pytest.fixture
def broken(small: list[dict[str, Any]], bad_file: str, tmp_path: Path) -> fsp.datasets.Dataset:
    """Sample 6 has a video that is broken, among others; sample 8 an image that does not exist."""
    rows = json.loads(json.dumps(small))
    rows[6]["videos"][1] = bad_file
    rows[8]["images"] = [str(tmp_path / "none.jpg")]
    return read(write(tmp_path, rows))


def test_an_error_of_one_source_is_raised_in_place_of_the_batch(broken: fsp.datasets.Dataset) -> None:
    iterator, seen, errors = iter(loader(broken)), [], []
    while True:
        try:
            seen.append(next(iterator).sample_ids.tolist())
        except StopIteration:
            break
        except fsp.Error as error:
            errors.append(type(error))
    assert seen == [[0, 1, 2], [3, 4, 5], [9, 10, 11], [12]]
    assert len(errors) == 1


def test_a_sample_with_one_broken_source_is_skipped(broken: fsp.datasets.Dataset, path: Path) -> None:
    own = loader(broken, on_error="skip")
    batches = list(own)
    assert ids(batches) == [[0, 1, 2], [3, 4, 5], [7], [9, 10, 11], [12]]
    for batch in batches:
        whole = list(loader(broken.subset(batch.sample_ids.tolist()), batch_size=9))[0]
        assert content(batch)[0] == content(whole)[0]
        assert batch.videos.columns["sample"].tolist() == whole.videos.columns["sample"].tolist()
        assert batch.videos.indices.tolist() == whole.videos.indices.tolist()
        assert batch.images.geometry.tolist() == whole.images.geometry.tolist()
    assert own.stats()["clips_skipped"] == 2
    failures = own.failures()
    assert sorted(failure["video_id"] for failure in failures) == [6, 8]
    assert {entry["video_id"] for entry in own.dropped()} == {6, 8}
    rest = broken.exclude(failures)
    assert [source for source, _ in rest] == [source for at, (source, _) in enumerate(broken) if at not in (6, 8)]


@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_sample_with_one_broken_source_is_replaced(broken: fsp.datasets.Dataset, batch_size: int) -> None:
    def delivered(**options: Any) -> list[Any]:
        own = loader(broken, on_error="replace", shuffle=True, batch_size=batch_size, seed=2, **options)
        batches = list(own)
        assert own.stats()["clips_replaced"] == 2
        return batches

    batches = delivered(num_threads=1)
    assert [content(batch) for batch in delivered(num_threads=3)] == [content(batch) for batch in batches]
    requested = [sample for batch in batches for sample in batch.requested_ids.tolist()]
    given = [sample for batch in batches for sample in batch.sample_ids.tolist()]
    assert sorted(requested) == list(range(len(COUNTS)))
    changed = {a: b for a, b in zip(requested, given, strict=True) if a != b}
    assert set(changed) == {6, 8}
    assert not set(changed.values()) & {6, 8}
    for batch in batches:
        whole = list(loader(broken.subset(batch.sample_ids.tolist()), batch_size=9))[0]
        assert content(batch)[0] == content(whole)[0]
        assert batch.videos.video_metadata() == whole.videos.video_metadata()
        assert batch.images.sizes.tolist() == whole.images.sizes.tolist()


def test_no_batch_is_empty_and_no_failure_of_all_sources_stops_the_loader(broken: fsp.datasets.Dataset) -> None:
    bad = broken.subset([6, 2, 8])  # all videos of this dataset but two, and both images, fail
    batches = list(loader(bad, on_error="skip", batch_size=1))
    assert ids(batches) == [[1], [1], [1]]
    assert [batch.padding.tolist() for batch in batches] == [[True], [False], [True]]
    assert [batch.requested_ids.tolist() for batch in batches] == [[0], [1], [2]]
    # The only image of these samples fails, which is no error of the other sample.
    assert ids(loader(broken.subset([2, 8]), on_error="skip", batch_size=2)) == [[0]]
    with pytest.raises(fsp.Error, match=r"broken\.mp4"):
        next(iter(loader(broken.subset([6]), on_error="skip")))


def test_an_interrupt_while_a_sample_is_replaced_loses_no_batch(
    broken: fsp.datasets.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = loader(broken, on_error="replace", batch_size=3)
    whole = [content(batch) for batch in own]
    own.set_epoch(0)
    iterator = iter(own)
    got = [content(next(iterator)) for _ in range(2)]
    with monkeypatch.context() as patch:
        patch.setattr(own, "_alone", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            next(iterator)
    assert own.state_dict()["batch"] == 2
    got += [content(batch) for batch in iterator]
    assert got == whole


def test_batches_become_tensors_of_pytorch(path: Path) -> None:
    torch = pytest.importorskip("torch")
    import framespool.torch

    batch = next(iter(loader(read(path))))
    converted = batch.to("cpu")
    assert converted.samples[0]["videos"][1].equal(batch.videos.frames[1].torch())
    assert converted.images.columns["sample"].tolist() == batch.images.columns["sample"].tolist()
    assert isinstance(converted.labels, torch.Tensor)
    assert len(batch._sources) > 20  # those of the clips, too
    named = next(iter(framespool.torch.TorchLoader(loader(read(path)))))
    assert named["videos"].frames[0].equal(converted.videos.frames[0])
    own = framespool.torch.ClipLoader(read(path), fsp.samplers.presets.qwen_vl(max_frames=4), batch_size=3)
    assert isinstance(next(iter(own)).videos.frames[0], torch.Tensor)
    cache = framespool.torch.FeatureCache(path.parent / "cache", name="x", version=1, size="1MiB")
    with pytest.raises(fsp.errors.ArgumentError, match="its samples have several sources"):
        framespool.torch.FeatureLoader(loader(read(path)), cache, lambda frames: frames)


def test_workers_of_a_data_loader_share_the_samples(path: Path) -> None:
    parts = []
    for worker in range(2):
        shards = fsp.options.Shards(1, worker_id=worker, num_workers=2)
        parts.append(ids(loader(read(path), shuffle=True, num_shards=shards)))
    whole = ids(loader(read(path), shuffle=True))
    assert parts == [whole[0::2], whole[1::2]]


def test_workers_on_ray_are_refused(path: Path) -> None:
    pytest.importorskip("ray")
    with pytest.raises(fsp.errors.ArgumentError, match="workers on Ray need samples of one source"):
        fsp.ray.ClipLoader(read(path), fsp.samplers.presets.qwen_vl(), num_workers=1, batch_size=1)
    own = fsp.ray.ClipLoader(
        read(path), fsp.samplers.presets.qwen_vl(max_frames=4), num_workers=1, batch_size=5, distribute_mode=False
    )
    assert list(map(len, ids(own))) == [5, 5, 3]


def test_states_fit_only_the_same_samples(path: Path, small: list[dict[str, Any]], tmp_path: Path) -> None:
    state = loader(read(path)).state_dict()
    loader(read(path), num_threads=1).load_state_dict(state)
    moved = json.loads(json.dumps(small))
    moved[9]["videos"], moved[10]["videos"] = moved[10]["videos"], []  # the same files in the same order
    with pytest.raises(fsp.errors.ArgumentError, match="the dataset"):
        loader(read(write(tmp_path, moved))).load_state_dict(state)
    with pytest.raises(fsp.errors.ArgumentError, match="the clip sampler"):
        other = {"videos": [t.SmartResize(28)], "images": [t.Resize(16)]}
        loader(read(path), transforms=other).load_state_dict(state)


@pytest.mark.parametrize("batch_size", [2, BUDGET], ids=["number", "tokens"])
def test_a_drawn_seed_is_that_of_the_state(path: Path, batch_size: Any) -> None:
    first, second = (loader(read(path), shuffle=True, seed=None, batch_size=batch_size) for _ in range(2))
    assert first.seed != second.seed
    next(iter(second))
    second.load_state_dict(first.state_dict())
    assert [content(batch) for batch in second] == [content(batch) for batch in first]


def test_what_is_not_possible_is_refused(path: Path, tmp_path: Path) -> None:
    dataset = read(path)
    for keywords, message in [
        ({"group_clips": True}, "group_clips=True needs samples of one source"),
        ({"audio": fsp.Audio()}, "audio= needs samples of one source"),
        ({"views": {"a": fsp.View(fsp.samplers.Windows(sequence_length=2))}}, "views= needs|omit clip_sampler"),
        ({"frame_columns": {"x": []}}, "frame_columns= needs"),
        ({"repeats": 2}, "omit repeats=2"),
        ({"collate": "stack"}, "omit collate='stack'"),
        ({"buckets": fsp.Buckets(sizes=[(16, 16)])}, "omit buckets="),
        ({"cache": fsp.Cache(disk=tmp_path / "cache", disk_size="1MiB")}, "omit disk="),
        ({"device": fsp.Gpu(0, decoder="nvjpeg")}, '"nvjpeg" is for images'),
        ({"transforms": [lambda x: x]}, "exclude a callable"),
        ({"transforms": {"video": []}}, "no kind of sources 'video'"),
        ({"clip_sampler": fsp.samplers.Windows(sequence_length=4)}, "one clip of each video"),
        ({"clip_sampler": fsp.samplers.RandomClips(sequence_length=4, padding="drop")}, "one clip of each video"),
    ]:
        with pytest.raises(fsp.errors.ArgumentError, match=message):
            loader(dataset, **keywords)
    with pytest.raises(fsp.errors.ArgumentError, match="clip_sampler is missing"):
        fsp.ClipLoader(dataset, batch_size=1)
    for use in (
        lambda: fsp.ImageLoader(dataset, batch_size=1),
        lambda: loader(dataset).describe_clip(0),
        dataset.to_pandas,
    ):
        with pytest.raises(fsp.errors.ArgumentError, match="several"):
            use()
    with pytest.raises(fsp.errors.ArgumentError, match="sample 1 must be Sources"):
        fsp.datasets.Dataset([Sources(), "a.mp4"])
    with pytest.raises(fsp.errors.ArgumentError, match="videos must be a list"):
        Sources(videos="a.mp4")
    with pytest.raises(fsp.errors.ArgumentError, match=r"images\[0\] must be a path"):
        Sources(images=[fsp.datasets.VideoSegment("a.mp4", start_frame=1)])


def test_a_preset_takes_an_image_as_a_clip_of_one_frame(
    photos: list[tuple[str, int]], tiny_clips: list[tuple[str, int]]
) -> None:
    batch = next(iter(fsp.ClipLoader([photos[0], tiny_clips[0]], fsp.samplers.presets.qwen_vl(), batch_size=2)))
    assert [frames.shape[0] for frames in batch.frames] == [1, 6]
    assert fsp.samplers.presets.qwen_vl().indices(1).indices == [0]
    with pytest.raises(fsp.errors.ArgumentError, match="must be from 2 to 1"):
        fsp.samplers.presets.qwen_vl(nframes=4).indices(1)
