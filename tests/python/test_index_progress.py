"""`Index(progress=)`: what a loader reports while it indexes videos, and that nothing else is written."""

from __future__ import annotations

import io
import threading
import time
from types import SimpleNamespace

import framespool as fsp
import pytest
from framespool._common import progress
from framespool.loaders import _index_progress
from processes import wait_until

WINDOWS = fsp.samplers.Windows(sequence_length=8, step=8)
RANDOM = fsp.samplers.RandomClips(sequence_length=4)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A terminal as stderr, and a display without delay."""
    shown = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=shown))
    monkeypatch.setattr(_index_progress, "_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(_index_progress, "_INTERVAL_SECONDS", 0.01)
    return shown


def slow_loader(monkeypatch, dataset, wait, **keywords):
    """A loader whose batches arrive when ``wait`` returns."""
    loader = fsp.ClipLoader(dataset, RANDOM, batch_size=4, **{"index": False, **keywords})
    native = loader._native.next_batch

    class Slow:
        def __getattr__(self, name):
            return getattr(loader_native, name)

        def __len__(self):
            return len(loader_native)

        def next_batch(self, number):
            batch = native(number)
            wait()
            return batch

    loader_native = loader._native
    loader._native = Slow()
    monkeypatch.setattr(_index_progress._framespool, "Loader", Slow)
    return loader


def test_a_function_is_called_while_all_videos_are_indexed(short_clips):
    calls = []
    loader = fsp.ClipLoader(
        short_clips,
        WINDOWS,
        batch_size=4,
        index=fsp.options.Index(False, progress=lambda *counts: calls.append(counts)),
    )
    assert calls[-1] == (13, 13) and calls == sorted(calls) and all(total == 13 for _, total in calls)
    before = len(calls)
    assert sum(len(batch) for batch in loader) == loader.num_clips
    assert len(calls) == before, "they are indexed already"


def test_a_function_is_called_in_the_first_epoch_if_videos_are_indexed_then(short_clips):
    calls = []
    loader = fsp.ClipLoader(
        short_clips, RANDOM, batch_size=2, index=fsp.options.Index(False, progress=lambda *counts: calls.append(counts))
    )
    assert not calls
    batches = len(list(loader))
    assert calls[-1] == (13, 13) and calls == sorted(set(calls)) and 1 <= len(calls) <= batches
    before = len(calls)
    list(loader)
    assert len(calls) == before


def test_an_error_of_the_function_is_raised(short_clips):
    def refuse(done, total):
        raise KeyError("no")

    with pytest.raises(KeyError):
        fsp.ClipLoader(short_clips, WINDOWS, batch_size=4, index=fsp.options.Index(False, progress=refuse))
    loader = fsp.ClipLoader(short_clips, RANDOM, batch_size=4, index=fsp.options.Index(False, progress=refuse))
    batches = iter(loader)
    with pytest.raises(KeyError):
        next(batches)


def test_other_values_are_refused(short_clips):
    with pytest.raises(fsp.errors.ArgumentError, match="progress must be None, True, False or a function"):
        fsp.ClipLoader(short_clips, RANDOM, batch_size=4, index=fsp.options.Index(progress="yes"))


def test_indexing_of_all_videos_is_shown_and_the_line_cleared(short_clips, terminal):
    fsp.ClipLoader(short_clips, WINDOWS, batch_size=4, index=False)
    shown = terminal.getvalue()
    assert "13/13 videos indexed" in shown and shown.endswith("\r\x1b[K") and "\n" not in shown


def test_the_wait_for_the_first_batch_is_shown_and_leaves_no_thread(short_clips, terminal, monkeypatch):
    is_shown = lambda: "waiting for the first batch: " in terminal.getvalue()  # noqa: E731
    loader = slow_loader(monkeypatch, short_clips, lambda: wait_until(is_shown))
    before = set(threading.enumerate())  # not their number: threads of earlier tests may end
    batches = iter(loader)
    next(batches)
    shown = terminal.getvalue()
    assert is_shown() and "videos indexed" in shown and shown.endswith("\r\x1b[K")
    assert not set(threading.enumerate()) - before
    next(batches)
    del batches, loader
    assert terminal.getvalue() == shown, "only the first batch, and nothing after it"


def test_known_indexes_are_not_shown(short_clips, terminal, monkeypatch, tmp_path):
    fsp.tools.probe(fsp.datasets.Dataset(short_clips), index=tmp_path / "index")
    fsp._framespool.flush_index()
    loader = fsp.ClipLoader(short_clips, RANDOM, batch_size=4, index=tmp_path / "index")
    next(iter(loader))
    assert loader.stats()["videos_indexed"] == 0 and terminal.getvalue() == ""


@pytest.mark.parametrize("option", [None, False])
def test_nothing_is_written_where_stderr_is_no_terminal(short_clips, terminal, monkeypatch, option):
    monkeypatch.setattr(terminal, "isatty", lambda: option is False)
    fsp.ClipLoader(short_clips, WINDOWS, batch_size=4, index=fsp.options.Index(False, progress=option))
    wait = lambda: time.sleep(0.1)  # noqa: E731  # ten intervals of a display
    next(iter(slow_loader(monkeypatch, short_clips, wait, index=fsp.options.Index(False, progress=option))))
    assert terminal.getvalue() == ""


def test_true_shows_it_anywhere_and_other_ranks_are_quiet(short_clips, terminal, monkeypatch):
    fsp.ClipLoader(short_clips, WINDOWS, batch_size=1, index=False, num_shards=2, shard_id=1)
    assert terminal.getvalue() == ""
    monkeypatch.setattr(terminal, "isatty", lambda: False)
    fsp.ClipLoader(
        short_clips, WINDOWS, batch_size=1, index=fsp.options.Index(False, progress=True), num_shards=2, shard_id=1
    )
    assert "13/13" in terminal.getvalue()


def test_fast_indexing_is_not_shown(short_clips, monkeypatch):
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=Terminal()))
    monkeypatch.setattr(_index_progress, "_DELAY_SECONDS", threading.TIMEOUT_MAX)
    next(iter(fsp.ClipLoader(short_clips[:2], WINDOWS, batch_size=1, index=False)))
    next(iter(fsp.ClipLoader(short_clips[:2], RANDOM, batch_size=1, index=False)))
    assert progress.sys.stderr.getvalue() == ""


def test_no_stderr_is_no_terminal(short_clips, monkeypatch):
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=None))
    next(iter(fsp.ClipLoader(short_clips[:2], WINDOWS, batch_size=1, index=False)))


def test_other_functions_show_no_second_display(short_clips, terminal):
    fsp.tools.validate(short_clips[:2], index=False)
    assert terminal.getvalue() == ""
