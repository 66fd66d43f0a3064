"""What must hold for every training run: see training_runs.py."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("hypothesis")

import drawn_runs
import training_runs

#: The same each time. The nightly run checks more, and others each time.
RUNS = 200


@pytest.fixture(scope="module")
def folder(encoder, tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    drawn_runs.make_videos(place, encoder)
    return place


@pytest.fixture(scope="module")
def other(folder):
    process = training_runs.Other(folder)
    yield process
    process.close()


@pytest.mark.filterwarnings("ignore")
def test_runs_deliver_what_is_promised(folder, other):
    outcomes = training_runs.search(RUNS, folder, other, repeatable=True)
    print(f"training runs: {dict(outcomes)}", file=sys.__stderr__)
    assert outcomes["run"] >= 0.8 * RUNS  # settings that do not fit each other are few
