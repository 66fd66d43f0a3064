"""The grouped shuffle and the memory of a loader: repeats, parts of files, videos of more than 8 bits, counters."""

from __future__ import annotations

import subprocess
import warnings

import framespool as fsp
import pytest
from processes import wait_until

WINDOWS = fsp.samplers.Windows(sequence_length=2, step=4)
# Clips so small that no budget for some of them has room for a suspended decoder: only clips are cached.
SMALL = [fsp.transforms.Resize((4, 4))]
CLIP_BYTES = 2 * 4 * 4 * 3
pytestmark = pytest.mark.filterwarnings("ignore:clips of one video")


def loader(dataset, sampler=WINDOWS, **keywords):
    options = {"batch_size": 4, "transforms": SMALL, "shuffle": "grouped", "seed": 3, "num_threads": 1, **keywords}
    return fsp.ClipLoader(dataset, sampler, **options)


def deliver(run):
    clips = [clip for batch in run for clip in batch.clip_ids.tolist()]
    return clips, run.stats()


def test_repeats_of_a_clip_fit_into_the_clip_cache(tiny_clips):
    videos, budget = tiny_clips * 4, 300 * CLIP_BYTES
    crops = {"transforms": [fsp.transforms.RandomResizedCrop((4, 4))]}
    tight = loader(videos, repeats=3, cache=budget, **crops)
    ample = loader(videos, repeats=3, cache="1GiB", **crops)
    assert tight._native.grouped[1] == loader(videos, cache=budget // 3)._native.grouped[1]
    (found, stats), (expected, most) = deliver(tight), deliver(ample)
    assert sorted(found) == sorted(expected) and len(found) == 3 * tight.num_clips
    # What is evicted depends on how far the worker is ahead of the consumer.
    assert stats["frames_decoded"] <= 1.2 * most["frames_decoded"], (stats, most)
    # The block of a loader without repeats, in which only a third of the clips fits.
    block = loader(videos, cache=budget)._native.grouped[1]
    wide = deliver(loader(videos, repeats=3, cache=budget, shuffle=fsp.GroupedShuffle(block_size=block), **crops))[1]
    assert wide["frames_decoded"] > 1.2 * most["frames_decoded"]
    assert stats["clip_cache_peak_bytes"] <= budget
    # The cost is estimated per clip, for any number of repeats.
    packets = tight._estimate_cost()["packets_per_clip"]
    measured = (stats["frames_decoded"] + stats["packets_skipped"]) / tight.num_clips
    assert packets["grouped"] == pytest.approx(measured, rel=0.2)


def test_warning_names_the_memory_of_all_repeats(tiny_clips):
    named, larger = [], [fsp.transforms.Resize((16, 16))]
    for repeats in (1, 3):
        budget = 78 * 2 * 16 * 16 * 3 * repeats
        with pytest.warns(UserWarning, match="gives 90 %") as caught:
            loader(tiny_clips * 30, repeats=repeats, cache=budget, batch_size=8, transforms=larger)
        named.append(int(str(caught[0].message).split('memory="')[2].split("MiB")[0]))
    assert 2 * named[0] <= named[1] <= 3 * named[0] + 1, named


def test_parts_of_a_file_are_one_video(tiny_clips):
    parts = [
        fsp.datasets.VideoSegment(path, start_frame=start, end_frame=start + 8)
        for path, _ in tiny_clips
        for start in range(0, 40, 4)
    ]
    one = fsp.samplers.RandomClips(sequence_length=2)
    grouped, full = (loader(parts, one, shuffle=shuffle, cache=20 * CLIP_BYTES) for shuffle in (True, "full"))
    assert grouped._native.grouped is not None, "each part has one clip, each file ten"
    (found, stats), (_, alone) = deliver(grouped), deliver(full)
    assert sorted(found) == list(range(len(parts)))
    ample = deliver(loader(parts, one, cache="1GiB"))[1]["frames_decoded"]
    # What is evicted from so small a cache depends on how far the worker is ahead of the consumer.
    assert stats["frames_decoded"] <= 1.25 * ample and alone["frames_decoded"] > 1.5 * ample
    estimate = grouped._estimate_cost()
    assert estimate["packets_per_clip"]["grouped"] < 0.7 * estimate["packets_per_clip"]["full"]


def test_parts_of_one_file_in_two_datasets_of_a_mix_are_apart(tiny_clips):
    path = tiny_clips[0][0]
    parts = [fsp.datasets.VideoSegment(path, start_frame=start, end_frame=start + 8) for start in range(0, 32, 8)]
    mixed = fsp.datasets.mix((parts[:2], 1), (parts[2:], 1))
    run = loader(mixed, fsp.samplers.RandomClips(sequence_length=2))
    assert run._native.grouped is not None and len(deliver(run)[0]) == 4


@pytest.fixture(scope="module")
def deep(encoder, tmp_path_factory):
    """A video of 60 frames with 10 bits, 24 times."""
    path = tmp_path_factory.mktemp("deep") / "deep.mkv"
    source = ["-f", "lavfi", "-i", "testsrc2=size=64x48:rate=25", "-frames:v", "60", "-pix_fmt", "yuv420p10le"]
    subprocess.run([encoder, "-v", "error", *source, "-c:v", "libx264", "-threads", "1", path], check=True)
    return [str(path)] * 24


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_more_than_8_bits_is_a_warning_that_names_the_block(deep, dtype):
    options = {"dtype": dtype, "cache": 320 * CLIP_BYTES, "num_threads": 1}
    run = loader(deep, **options)
    with pytest.warns(UserWarning, match=r"more than 8 bits.*block_size=\d+\) on all ranks") as caught:
        deliver(run)
    text = [str(w.message) for w in caught if "8 bits" in str(w.message)]
    assert len(text) == 1 and run.stats()["clips_cached_over_8_bits"] > 0
    size = 4 if dtype == "float32" else 2
    assert f"{CLIP_BYTES * size} bytes in the clip cache instead of {CLIP_BYTES}" in text[0]
    block = int(text[0].split("block_size=")[1].split(")")[0])
    codes = loader(deep, cache=320 // size * CLIP_BYTES)
    assert block == codes._native.grouped[1] < run._native.grouped[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="clips of one video")
        fits = deliver(loader(deep, shuffle=fsp.GroupedShuffle(block_size=block), **options))[1]
        deliver(loader(deep, **{**options, "dtype": "uint8"}))
    ample = deliver(loader(deep, **{**options, "cache": "1GiB"}))[1]
    # Which clips are ready when their memory is needed depends on the load of the machine.
    assert fits["frames_decoded"] <= 1.25 * ample["frames_decoded"]


def test_evicted_clips_are_counted_when_they_are_made_again(tiny_clips):
    # A block for 8 times the memory: siblings are due far apart, and nearer ones evict them.
    block = loader(tiny_clips * 2, cache=80 * CLIP_BYTES)._native.grouped[1]
    run = loader(tiny_clips * 2, cache=10 * CLIP_BYTES, shuffle=fsp.GroupedShuffle(block_size=block))
    stats = deliver(run)[1]
    assert 0 < stats["clips_decoded_again"] <= stats["clips_evicted"]
    ample = deliver(loader(tiny_clips * 2, cache="1GiB"))[1]
    assert ample["clips_decoded_again"] == ample["clips_evicted"] == 0


def test_lookahead_window_covers_the_block(tiny_clips):
    """A shorter lookahead does not hide the clips of a block, also from idle workers; 0 switches the lookahead off.

    With ample memory: which clips are evicted depends on when the consumer takes batches.
    """
    videos = tiny_clips[:6] * 6
    streams, block, _ = loader(videos, cache=40 * CLIP_BYTES)._native.grouped
    shuffle = fsp.GroupedShuffle(block_size=block, num_streams=streams)
    short, usual, none = (
        deliver(loader(videos, shuffle=shuffle, cache=fsp.Cache("1GiB", lookahead=n)))[1]["frames_decoded"]
        for n in (1, 65536, 0)
    )
    assert short <= 1.05 * usual and none > 2 * usual


def test_idle_workers_make_clips_ahead_of_their_turn(tiny_clips):
    """While the consumer keeps its batches, the clips of later videos are made too."""
    run = loader(tiny_clips * 12, cache=200 * CLIP_BYTES, prefetch_batches=0, num_threads=2)
    batches = iter(run)
    next(batches)
    wait_until(lambda: run.stats()["clip_cache_peak_bytes"] >= 100 * CLIP_BYTES)
    before = run.stats()["clip_cache_hits"]
    for _ in range(6):
        next(batches)
    assert run.stats()["clip_cache_hits"] - before >= 12, "of 24 clips"


def test_true_without_known_videos_or_with_own_shards_is_full(tiny_clips):
    assert fsp.order.BatchSampler(num_clips=30, batch_size=4, shuffle=True).grouped is None
    assert list(fsp.order.BatchSampler(num_clips=30, batch_size=4, shuffle=True).epoch(1)) == list(
        fsp.order.BatchSampler(num_clips=30, batch_size=4, shuffle="full").epoch(1)
    )
    shards = {"num_shards": fsp.options.Shards(2, stick_to_shard=True), "shard_id": 1}
    one, full = (loader(tiny_clips, shuffle=shuffle, **shards) for shuffle in (True, "full"))
    assert one._native.grouped is None and deliver(one)[0] == deliver(full)[0]
    one.load_state_dict(full.state_dict())
    sampler = fsp.order.BatchSampler(num_clips=30, batch_size=4, clips_per_video=5, shuffle=True, **shards)
    assert sampler.grouped is None
    with pytest.raises(fsp.errors.ArgumentError, match="clips_per_video"):
        fsp.order.BatchSampler(num_clips=30, batch_size=4, shuffle="grouped")
    with pytest.raises(fsp.errors.ArgumentError, match="stick_to_shard"):
        loader(tiny_clips, **shards)


def test_budget_below_a_chunk_shortens_chunks(tiny_clips):
    """64 clips of a video do not fit: chunks are shortened so that what is made together can be held."""
    sampler = fsp.samplers.RandomClips(sequence_length=2, clips_per_video=64)
    one = loader(tiny_clips[:1] * 40, sampler, cache=13 * CLIP_BYTES)
    streams, _, chunk = one._native.grouped
    assert (streams, chunk) == (1, 16 * 13 // 10)
    assert loader(tiny_clips, cache=0)._native.grouped[2] == 2, "it is still a grouped shuffle"


@pytest.mark.parametrize(("threads", "ranks"), [(1, 1), (2, 1), (2, 4)])
def test_suspended_decoders_evict_no_clip(tiny_clips, threads, ranks):
    """All clips of a rank fit into the cache; a decoder takes the memory of 20 of them while its task is suspended."""
    sampler = fsp.samplers.RandomClips(sequence_length=8, stride=2, clips_per_video=16)
    options = {"transforms": [fsp.transforms.Resize((16, 16))], "num_threads": threads, "num_shards": ranks}
    videos, clip_bytes = [path for path, _ in tiny_clips], 8 * 16 * 16 * 3
    for rank in range(ranks):
        budget = 16 * len(videos) // ranks * clip_bytes
        tight = loader(videos, sampler, cache=budget, shard_id=rank, **options)
        grouped = tight._native.grouped
        keywords = {
            "shuffle": fsp.GroupedShuffle(block_size=grouped[1], max_chunk=grouped[2], num_streams=grouped[0]),
        }
        ample = loader(videos, sampler, cache="1GiB", shard_id=rank, **keywords, **options)
        (found, stats), (expected, most) = deliver(tight), deliver(ample)
        assert found == expected and stats["clip_cache_peak_bytes"] <= budget
        assert stats["clips_evicted"] == stats["clips_decoded_again"] == 0, stats
        assert stats["frames_decoded"] == most["frames_decoded"], (stats, most)
