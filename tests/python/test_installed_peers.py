"""Orders and presets that reproduce other libraries, compared with the installed ones; skipped where they are not.

test_presets.py compares presets with recorded results.
"""

from __future__ import annotations

import random
import warnings
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import framespool as fsp
import pytest
from framespool import _framespool
from framespool.order._sampler_batches import SamplerBatches

torch = pytest.importorskip("torch")

from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, IterableDataset, get_worker_info  # noqa: E402

# PyTorch chooses its routines by the processor. With AVX2, AVX-512 and on Arm they round a product and a sum once, as
# the presets do.
rounds_once = pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() == "DEFAULT", reason="PyTorch has no AVX2 here and rounds differently"
)

LENGTHS = [*range(0, 14), 63, 64, 65, 100, 999, 1000, 1023, 1024, 1025, 9973, 100_001]
SEEDS = [0, 1, 42, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 7, 2**63 - 2**34]


def test_batches_are_those_of_distributed_sampler():
    draw = random.Random(0)
    compared = 0
    for _ in range(150):
        n, shards, batch = draw.choice(LENGTHS), draw.choice([1, 1, 2, 3, 7, 16, 100]), draw.choice([1, 2, 3, 8, 1000])
        rank, seed, epoch = draw.randrange(shards), draw.choice(SEEDS), draw.choice([0, 1, 17, 2**31, 2**33])
        shuffle, drop = draw.random() < 0.8, draw.random() < 0.5
        ours, theirs = (
            DistributedSampler(range(n), shards, rank, shuffle=shuffle, seed=seed, drop_last=drop) for _ in range(2)
        )
        settings = {"batch_size": batch, "last_batch": "drop" if drop else "partial", "repeats": 1}
        batches = SamplerBatches(ours, {**settings, "worker_id": 0, "num_workers": 1})
        native: Any = SimpleNamespace(num_clips=n)
        theirs.set_epoch(epoch)
        if n > 200:
            expected = list(BatchSampler(theirs, batch, drop))  # the batches of DataLoader, without fetching
        else:
            expected = list(DataLoader(range(n), batch, sampler=theirs, drop_last=drop, collate_fn=list))
        found = [[clip for clip, *_ in slots] for slots in batches.batches(native, epoch)]
        assert found == expected, (n, shards, batch, rank, seed, epoch)
        compared += len(expected)
    assert compared > 10_000


class Batches(IterableDataset):
    """An order in the workers of a DataLoader, each with its own part."""

    def __init__(self, **keywords: Any) -> None:
        self.keywords = keywords

    def __iter__(self):
        worker = get_worker_info()
        return iter(
            fsp.order.BatchSampler(
                **self.keywords, num_shards=fsp.options.Shards(1, worker_id=worker.id, num_workers=worker.num_workers)
            ).epoch(3)
        )


@pytest.mark.parametrize(("clips", "workers"), [(101, 3), (100, 2), (7, 4)])
def test_workers_of_a_data_loader_give_the_order_of_one_process(clips, workers):
    keywords = {"num_clips": clips, "batch_size": 8, "shuffle": "full", "seed": 5}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This DataLoader will create")  # more workers than cores
        found = list(DataLoader(Batches(**keywords), batch_size=None, num_workers=workers))
    assert found == list(fsp.order.BatchSampler(**keywords).epoch(3))


@rounds_once
def test_frames_at_even_distances_are_those_of_torch():
    draw = random.Random(0)
    for _ in range(300):
        total, n = draw.randint(2, 4000), draw.choice([1, 2, 3, 8, 16, draw.randint(1, 300)])
        clips = fsp.samplers.presets.torchcodec_regular_indices(num_clips=n)
        expected = torch.linspace(0, total - 1, n, dtype=torch.int).tolist()
        assert [clips.indices(total, clip=clip).indices[0] for clip in range(n)] == expected, (total, n)
        n = min(n, total)
        expected = [i for i in torch.arange(0, total, total / n).int().tolist() if i < total]
        assert fsp.samplers.presets.hf(num_frames=n, version="4.57").indices(total).indices == expected, (total, n)
        n = max(n // 2 * 2, 2)
        expected = torch.linspace(0, total - 1, n).round().long().tolist()
        assert fsp.samplers.presets.qwen_vl(nframes=n).indices(total).indices == expected, (total, n)


def test_randperm_swaps_with_what_it_draws():
    """So that the draws of a preset can be numbers below a bound."""
    for seed in range(300):
        n = seed % 200 + 1
        torch.manual_seed(seed)
        expected = torch.randperm(n).tolist()
        torch.manual_seed(seed)
        order = list(range(n))
        for i in range(n - 1):
            other = i + int(torch.randint(0, n - i, ()))
            order[i], order[other] = order[other], order[i]
        assert order == expected, (n, seed)


@rounds_once
def test_slowfast_selects_the_frames_that_torch_computes():
    draw = random.Random(0)
    for _ in range(5000):
        count, rate, fps = (
            draw.choice([1, 4, 8, 16, 32, 64]),
            draw.choice([1, 2, 4, 8]),
            draw.choice([12.5, 23.976, 24, 25, 29.97, 60]),
        )
        length, drawn = draw.randint(1, 2000), draw.random()
        span = max(1.0, rate * count / 30 * fps)
        start = max(length - span, 0) * drawn
        expected = torch.clamp(torch.linspace(start, start + span - 1, count), 0, length - 1).long().tolist()
        rule = fsp.samplers.presets.slowfast(num_frames=count, sampling_rate=rate)
        assert rule.indices(length, fps=fps, draws=[drawn]).indices == expected, (length, fps, count, rate, drawn)


def test_default_version_equals_the_installed_transformers():
    utils = pytest.importorskip("transformers.video_utils")

    draw, raised = random.Random(0), 0
    for _ in range(697):
        total, rate = draw.randint(1, 900), draw.choice([24.0, 25.0, 29.97, 60.0])
        options = draw.choice([{"num_frames": draw.randint(1, 80)}, {"fps": draw.choice([1, 2, 0.5, 30.0])}])
        rule = fsp.samplers.presets.hf(**options)
        try:
            expected = utils.default_sample_indices_fn(
                utils.VideoMetadata(total_num_frames=total, fps=rate), **options
            ).tolist()
        except ValueError:
            raised += 1
            with pytest.raises(fsp.errors.ArgumentError):
                rule.indices(total, fps=rate)
        else:
            assert rule.indices(total, fps=rate).indices == expected, (total, rate, options)
    assert raised < 300


# --- torchcodec, whose samplers decode files


class File:
    """A video opened with torchcodec."""

    def __init__(self, path: str) -> None:
        decoders = pytest.importorskip("torchcodec.decoders")
        self.decoder = decoders.VideoDecoder(path, num_ffmpeg_threads=1)
        metadata = self.decoder.metadata
        self.begin, self.end = metadata.begin_stream_seconds, metadata.end_stream_seconds
        self.times = self.decoder.get_frames_in_range(0, len(self.decoder)).pts_seconds.tolist()

    def sample(self, rule: fsp.samplers.Preset, clip: int, draws: list[Any] | None) -> list[int]:
        """framespool's frames for these draws."""
        return _framespool.sample(rule._spec(), (self.times, self.end), clip, draws, (0, 0))[0]

    def count(self, rule: fsp.samplers.Preset) -> int:
        return _framespool.num_clips_of(rule._spec(), (self.times, self.end))


def draw_options(file: File, draw: random.Random) -> dict[str, dict[str, Any]]:
    """Options of each sampler."""
    frames, length = len(file.times), file.end - file.begin
    within = [file.begin + draw.uniform(-0.05, 1.05) * length for _ in range(2)]
    shared = {"num_frames_per_clip": draw.choice([1, 2, 4, 8]), "policy": draw.choice(["repeat_last", "wrap", "error"])}
    clips = {"num_clips": draw.choice([1, 2, 4, 7])}
    by_index = {
        **shared,
        **clips,
        "num_indices_between_frames": draw.choice([1, 1, 2, 5]),
        "sampling_range_start": draw.choice([0, 0, 3, -4, frames // 2]),
        "sampling_range_end": draw.choice([None, None, frames, -1, frames // 2 + 1]),
    }
    by_time = {
        **shared,
        "seconds_between_frames": draw.choice([None, None, 0.04, 1 / 30, 0.1, 0.5]),
        "sampling_range_start": draw.choice([None, None, file.begin, within[0]]),
        "sampling_range_end": draw.choice([None, None, file.end, within[1]]),
    }
    apart = max(draw.choice([0.1, 0.04, 1 / 3, draw.uniform(0.05, 1.0)]), length / 20)
    return {
        "random_indices": by_index,
        "regular_indices": by_index,
        "random_timestamps": {**by_time, **clips},
        "regular_timestamps": {**by_time, "seconds_between_clip_starts": apart},
    }


#: Rates that vary, milliseconds of Matroska, a first frame at 10 s, and a constant rate.
FILES = ["derived/vfr_60_15_30_640x360.mp4", "action/words/again.mkv", "odd/first_pts_10s.mp4"]


@pytest.mark.parametrize("name", FILES)
def test_clips_are_those_of_torchcodecs_samplers(videos, name):
    samplers = pytest.importorskip("torchcodec.samplers")
    file, draw = File(str(videos / name)), random.Random(name)
    outcomes = {"clips": 0, "refused": 0}
    for _ in range(5):
        for kind, options in draw_options(file, draw).items():
            rule = getattr(fsp.samplers.presets, f"torchcodec_{kind}")(**options)
            function = {"random_indices": "randint", "random_timestamps": "rand"}.get(kind, "zeros")
            original, values = getattr(torch, function), []

            def record(*arguments: Any, original=original, values=values, **keywords: Any) -> torch.Tensor:
                values.append(original(*arguments, **keywords))
                return values[-1]

            try:
                with patch.object(torch, function, record):
                    batch = getattr(samplers, f"clips_at_{kind}")(file.decoder, **options)
            except ValueError:
                batch = None
            draws = None
            if values and function == "rand":
                draws = values[0].tolist()
            elif values and function == "randint":
                start = options["sampling_range_start"]
                draws = [value - start % len(file.times) for value in values[0].tolist()]
            if batch is None:
                # One failing clip is enough for the original. Here each fails on its own; regular ones do not exist.
                refused = []
                for clip in range(file.count(rule)):
                    try:
                        file.sample(rule, clip, draws)
                    except fsp.errors.ArgumentError:
                        refused.append(clip)
                assert refused or not file.count(rule), options
                outcomes["refused"] += 1
                continue
            expected = [[file.times.index(time) for time in clip] for clip in batch.pts_seconds.tolist()]
            assert file.count(rule) == len(expected), options
            assert [file.sample(rule, clip, draws) for clip in range(len(expected))] == expected, options
            outcomes["clips"] += len(expected)
    assert min(outcomes.values()) > 0, outcomes
