"""What must hold for training with DataLoader, Lightning, Accelerate and Trainer: see framework_runs.py."""

from __future__ import annotations

import sys

import pytest

for name in ("torch", "hypothesis", "torchdata", "lightning.pytorch", "accelerate", "transformers"):
    pytest.importorskip(name)

import drawn_runs  # noqa: E402
import framework_runs  # noqa: E402

#: The same each time. The nightly run checks more, and others each time.
RUNS = 60


@pytest.fixture(scope="module")
def folder(encoder, tmp_path_factory):
    place = tmp_path_factory.mktemp("framework_runs")
    drawn_runs.make_videos(place, encoder)
    return place


@pytest.mark.filterwarnings("ignore")
def test_frameworks_train_on_what_is_promised(folder):
    outcomes = framework_runs.search(RUNS, folder, repeatable=True)
    print(f"framework runs: {dict(outcomes)}", file=sys.__stderr__)
    assert outcomes["refused"] <= 0.2 * RUNS  # settings that do not fit each other are few
