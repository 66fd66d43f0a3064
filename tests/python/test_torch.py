"""Clips inside PyTorch's DataLoader and torchdata's StatefulDataLoader; skipped where these are not installed."""

from __future__ import annotations

import framespool as fsp
import pytest

torch = pytest.importorskip("torch")
# About more workers than cores, and about things that torch itself will change.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")

from framespool.torch import ClipDataset  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

SAMPLING = fsp.sampling.random(sequence_length=2, stride=2, clips_per_video=2)
KEYWORDS = {"batch_size": 4, "transforms": [fsp.transforms.Resize((16, 24))], "shuffle": "full", "seed": 7}


def expected(asl, epoch):
    loader = fsp.ClipLoader(asl, SAMPLING, **KEYWORDS)
    loader.set_epoch(epoch)
    return [batch.clip_ids.tolist() for batch in loader]


def ids(batches):
    return [batch["clip_ids"].tolist() for batch in batches]


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_batches_are_those_of_one_loader_whatever_the_number_of_workers(asl, workers):
    dataset = ClipDataset(asl, SAMPLING, **KEYWORDS)
    batches = DataLoader(dataset, batch_size=None, num_workers=workers, persistent_workers=workers > 1)
    for epoch in (0, 1, 4):
        dataset.set_epoch(epoch)
        assert ids(batches) == expected(asl, epoch)


def test_a_worker_does_not_use_the_loader_of_the_process_that_it_was_forked_from(asl):
    dataset = ClipDataset(asl, SAMPLING, **KEYWORDS)
    assert next(iter(dataset))["frames"].shape == (4, 2, 16, 24, 3)
    assert ids(DataLoader(dataset, batch_size=None, num_workers=1)) == expected(asl, 0)


@pytest.mark.parametrize("workers", [0, 2, 3])
def test_a_stateful_data_loader_goes_on_wherever_it_was_left(asl, workers):
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    whole = expected(asl, 3)
    for taken in range(len(whole) + 1):
        dataset = ClipDataset(asl, SAMPLING, **KEYWORDS)
        dataset.set_epoch(3)
        old = stateful(dataset, batch_size=None, num_workers=workers)
        batches = iter(old)
        got = ids(next(batches) for _ in range(taken))
        dataset = ClipDataset(asl, SAMPLING, **KEYWORDS)
        new = stateful(dataset, batch_size=None, num_workers=workers)
        new.load_state_dict(old.state_dict())
        assert got + ids(new) == whole, taken


def test_a_wrong_epoch_is_refused_at_once(asl):
    for epoch in (-1, 2**63, "1"):
        with pytest.raises(fsp.ArgumentError, match="epoch"):
            ClipDataset(asl, SAMPLING, **KEYWORDS).set_epoch(epoch)
