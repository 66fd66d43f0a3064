"""Weighted videos and class balance: counts, order, ranks, checkpoints, and decode-once."""

from __future__ import annotations

from collections import Counter

import framespool as fsp
import grouped_oracle
import pytest

WINDOWS = fsp.samplers.Windows(sequence_length=2, step=8)
SMALL = [fsp.transforms.Resize((16, 16))]
CLIP_BYTES = 2 * 16 * 16 * 3
pytestmark = pytest.mark.filterwarnings("ignore:clips of one video")


def sampler(weights, replacement=False, epoch_clips=None, **keywords):
    given = fsp.order.VideoWeights(weights=weights, replacement=replacement, epoch_clips=epoch_clips)
    return fsp.order.BatchSampler(**{"batch_size": 4, "shuffle": "grouped", "seed": 5, "weights": given, **keywords})


def epoch(one, number=0):
    return [
        (clip, visit)
        for n in range(len(one))
        for clip, visit in zip(one.batch(n, epoch=number), one.visits(n, epoch=number), strict=True)
    ]


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize(
    ("lengths", "weights", "epoch_clips"),
    [
        ([4] * 30, [n % 3 for n in range(30)], 100),
        ([1, 9, 0, 4, 20, 3], [1, 2.5, 7, 0, 0.25, 1.25], 61),
        ([5], [2], 23),
    ],
)
def test_order_is_that_of_the_oracle(lengths, weights, epoch_clips, replacement):
    options = {
        "num_clips": sum(lengths),
        "clips_per_video": lengths,
        "shuffle": fsp.GroupedShuffle(block_size=24, max_chunk=8, num_streams=3),
    }
    for number in (0, 2):
        one = sampler(weights, replacement, epoch_clips, **options)
        drawn = grouped_oracle.copies(lengths, weights, epoch_clips, replacement, False, (5, number))
        expected = grouped_oracle.order(lengths, 3, 24, 8, 5, number, drawn=drawn, epoch_clips=epoch_clips)
        assert epoch(one, number) == list(zip(*expected.tolist(), strict=True))
        full = sampler(
            weights, replacement, epoch_clips, shuffle="full", num_clips=sum(lengths), clips_per_video=lengths
        )
        drawn = grouped_oracle.copies(lengths, weights, epoch_clips, replacement, True, (5, number))
        expected = grouped_oracle.order([1] * sum(lengths), 1, 0, 1, 5, number, drawn=drawn, epoch_clips=epoch_clips)
        assert epoch(full, number) == list(zip(*expected.tolist(), strict=True))


@pytest.mark.parametrize("shuffle", ["grouped", "full"])
def test_counts_follow_the_weights_and_copies_are_complete(shuffle):
    videos, each = 40, 6
    weights = [1 + video % 4 for video in range(videos)]
    one = sampler(weights, num_clips=videos * each, clips_per_video=each, shuffle=shuffle, epoch_clips=1200)
    totals = Counter()
    for number in range(30):
        found = epoch(one, number)
        assert len(found) == len(set(found)) == 1200, "a copy of a clip comes once"
        counts = Counter(clip for clip, _ in found)
        expected = {clip: weights[clip // each] * 1200 / sum(w * each for w in weights) for clip in range(240)}
        assert all(abs(counts[clip] - expected[clip]) < 1 for clip in expected)
        assert all({visit for clip, visit in found if clip == c} == set(range(counts[c])) for c in (0, 77, 239))
        if shuffle == "grouped":
            assert all(len({counts[video * each + n] for n in range(each)}) == 1 for video in range(videos))
        totals += counts
    for clip, count in expected.items():
        assert totals[clip] / 30 == pytest.approx(count, abs=0.3)
    assert epoch(one, 0) != epoch(one, 1) and epoch(one, 3) == epoch(one, 3)


@pytest.mark.parametrize("shuffle", [fsp.GroupedShuffle(num_streams=6), "full"])
@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_and_workers_share_an_epoch(shuffle, ranks):
    options = {"num_clips": 120, "clips_per_video": 6, "shuffle": shuffle, "epoch_clips": 91}
    weights, each = [1, 2] * 10, 12 // ranks
    whole = Counter(epoch(sampler(weights, batch_size=12, **options)))
    found = Counter()
    for rank in range(ranks):
        for worker in range(2):
            one = sampler(
                weights,
                batch_size=each,
                num_shards=fsp.options.Shards(ranks, worker_id=worker, num_workers=2),
                shard_id=rank,
                **options,
            )
            for n in range(len(one)):
                slots = zip(one.batch(n), one.visits(n), one.padding(n), strict=True)
                found.update((clip, visit) for clip, visit, padding in slots if not padding)
    assert found == whole and found.total() == 91


def test_quality_compares_with_a_full_shuffle_of_the_same_weights():
    weights = [1.0] * 90 + [40.0] * 10
    grouped = sampler(weights, num_clips=1600, clips_per_video=16, shuffle=fsp.GroupedShuffle(block_size=100)).quality()
    assert grouped["full"]["mixing"] == pytest.approx(1, abs=0.06) and grouped["mixing"] < 0.9
    assert grouped["mean_clips"] is None


def loader(dataset, sampling=WINDOWS, **keywords):
    options = {"batch_size": 4, "transforms": SMALL, "shuffle": "grouped", "seed": 3, "num_threads": 1, **keywords}
    return fsp.ClipLoader(dataset, sampling, **options)


def test_balanced_classes_come_equally_often(tiny_clips):
    samples = [(path, int(number < 10)) for number, (path, _) in enumerate(tiny_clips)]
    dataset = fsp.datasets.balanced(samples, epoch_clips=240)
    sampling = fsp.samplers.RandomClips(sequence_length=2, clips_per_video=4)
    for shuffle in (True, "full"):
        run = loader(dataset, sampling, shuffle=shuffle)
        labels = Counter(label for batch in run for label in batch.labels.tolist())
        assert len(run) == 60 and labels.total() == 240 and abs(labels[0] - 120) <= 4, labels
    # Another visit of a clip draws other frames.
    frames = {}
    for batch in loader(dataset, sampling):
        for clip, indices in zip(batch.clip_ids.tolist(), batch.indices.tolist(), strict=True):
            frames.setdefault(clip, []).append(tuple(indices))
    assert max(len(set(seen)) for seen in frames.values()) > 5


def test_copies_of_a_video_are_decoded_once_each(tiny_clips):
    weights = [3, 1, 0] * 12 + [1, 1, 1]
    weighted = fsp.datasets.weighted(tiny_clips * 3, weights)
    runs = [loader(weighted, shuffle=shuffle, cache=40 * CLIP_BYTES) for shuffle in ("grouped", "full")]
    # Without weights as many videos are decoded, each once.
    runs.append(loader(tiny_clips * 3, cache="1GiB"))
    for run in runs:
        clips = [clip for batch in run for clip in batch.clip_ids.tolist()]
        assert len(clips) == run.num_clips
    decoded = [run.stats()["frames_decoded"] for run in runs]
    assert decoded[0] <= 1.2 * decoded[2] and decoded[1] > 1.5 * decoded[0], decoded
    estimate = runs[0]._estimate_cost()["packets_per_clip"]
    assert estimate["grouped"] < estimate["full"] < estimate["single"]


def test_checkpoint_resumes_a_weighted_epoch(tiny_clips):
    weighted = fsp.datasets.weighted(tiny_clips, [1 + n % 3 for n in range(13)], epoch_clips=90)
    whole = [batch.frames.tobytes() for batch in loader(weighted)]
    run = loader(weighted)
    batches = iter(run)
    first = [next(batches).frames.tobytes() for _ in range(7)]
    again = loader(weighted)
    again.load_state_dict(run.state_dict())
    assert first + [batch.frames.tobytes() for batch in again] == whole
    for other in (
        tiny_clips,
        fsp.datasets.weighted(tiny_clips, [1] * 13, epoch_clips=90),
        fsp.datasets.weighted(tiny_clips, [1 + n % 3 for n in range(13)], epoch_clips=91),
    ):
        with pytest.raises(fsp.errors.ArgumentError, match="does not match"):
            loader(other).load_state_dict(run.state_dict())


def test_parts_of_a_file_have_weights_of_their_own(tiny_clips):
    path = tiny_clips[0][0]
    parts = [fsp.datasets.VideoSegment(path, start_frame=start, end_frame=start + 10) for start in (0, 10, 20)]
    run = loader(fsp.datasets.weighted(parts, [1, 0, 3], epoch_clips=40), fsp.samplers.RandomClips(sequence_length=2))
    counts = Counter(clip for batch in run for clip in batch.clip_ids.tolist())
    assert counts == {0: 10, 2: 30}


@pytest.mark.parametrize("shuffle", ["full", "grouped"])
def test_replacements_have_a_weight(tiny_clips, bad_file, shuffle):
    """A video that is omitted does not replace one that fails."""
    videos = [*tiny_clips[:4], (bad_file, 0)]
    weighted = fsp.datasets.weighted(videos, [1, 0, 0, 0, 9])
    run = loader(weighted, fsp.samplers.RandomClips(sequence_length=2), shuffle=shuffle, on_error="replace")
    found = {video for epoch in range(4) for batch in run for video in batch.video_ids.tolist()}
    assert found == {0} and run.stats()["clips_replaced"] > 4


def test_images_are_weighted(photos):
    dataset = fsp.datasets.weighted(photos[:4], [1, 0, 2, 1], epoch_clips=16)
    run = fsp.ImageLoader(dataset, batch_size=4, transforms=[fsp.transforms.Resize((8, 8))], shuffle=True)
    assert Counter(number for batch in run for number in batch.image_ids.tolist()) == {0: 4, 2: 8, 3: 4}


def test_weighted_datasets_keep_their_weights(tiny_clips):
    dataset = fsp.datasets.weighted(tiny_clips, range(13), epoch_clips=20)
    assert dataset == fsp.datasets.weighted(tiny_clips, range(13), epoch_clips=20) != fsp.datasets.Dataset(tiny_clips)
    kept = dataset.filter(lambda _, label, __: label % 2)
    assert kept.weights == [1.0, 3.0, 5.0, 7.0, 9.0, 11.0] and kept.columns == {} and kept.epoch_clips == 20
    assert not dataset[:2]._weighted and dataset.with_stream(0).weights == dataset.weights
    for wrong in (lambda: dataset + dataset, lambda: fsp.datasets.Dataset(tiny_clips) + dataset):
        with pytest.raises(fsp.errors.ArgumentError):
            wrong()


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"weights": [1, 2]}, "got 2 for 5 videos"),
        ({"weights": [1, 2, 3, 4, -1]}, "got -1 for video 4"),
        ({"weights": [0] * 5}, "finite sum above 0"),
        ({"shuffle": False}, 'shuffle must be "full" or "grouped" with weights'),
        ({"shuffle": "full", "num_shards": fsp.options.Shards(1, stick_to_shard=True)}, "stick_to_shard"),
        ({"mix": fsp.order.Mixture(sizes=[20], weights=[1])}, "cannot be combined with a mix"),
    ],
)
def test_wrong_arguments_are_named(keywords, message):
    keywords = {"weights": [1] * 5, "num_clips": 20, "clips_per_video": 4, **keywords}
    with pytest.raises(fsp.errors.ArgumentError, match=message):
        sampler(**keywords)


def test_wrong_weights_of_a_dataset_are_named(tiny_clips):
    with pytest.raises(fsp.errors.ArgumentError, match="one for each of 13 samples, got 2"):
        fsp.datasets.weighted(tiny_clips, [1, 2])
    with pytest.raises(fsp.errors.ArgumentError, match="weight must be at least 0"):
        fsp.datasets.weighted(tiny_clips, [-1] * 13)
    with pytest.raises(fsp.errors.ArgumentError, match="none for sample 0"):
        fsp.datasets.balanced([path for path, _ in tiny_clips])
    with pytest.raises(fsp.errors.ArgumentError, match="mixture"):
        fsp.datasets.weighted(fsp.datasets.mix((tiny_clips, 1)), [1] * 13)
