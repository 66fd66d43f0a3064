"""Outages of servers: waited for, raised, never skipped or replaced, and visible in the log while they last."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import framespool as fsp
import numpy as np
import pytest
from servers import FaultyResponse, FaultyServer, Nginx, free_port, reads


@pytest.fixture
def content(videos: Path) -> bytes:
    return (videos / "derived" / "rotate_cw90_640x360.mp4").read_bytes()


@pytest.fixture
def folder(content: bytes, tmp_path: Path) -> list[Path]:
    root = (tmp_path / "root").resolve()
    root.mkdir()
    paths = [root / f"{number}.mp4" for number in range(12)]
    for path in paths:
        path.write_bytes(content)
    return paths


def loader_of(urls: list[str], **settings: Any) -> fsp.ClipLoader:
    settings = {"batch_size": 2, "num_threads": 2, "prefetch_batches": 1, "index": False, "seed": 5, **settings}
    sampler = fsp.samplers.random(sequence_length=4, stride=3)
    return fsp.ClipLoader([(url, number) for number, url in enumerate(urls)], sampler, **settings)


def clips(batches: Iterator[fsp.Batch]) -> list[tuple[int, bytes]]:
    return [
        (clip, np.asarray(frames).tobytes())
        for batch in batches
        for clip, frames in zip(batch.clip_ids.tolist(), batch.frames, strict=True)
    ]


@pytest.mark.parametrize("on_error", ["skip", "replace", "raise"])
def test_a_restarted_server_loses_no_clip(
    on_error: str, folder: list[Path], tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRAMESPOOL_REMOTE_CACHE", "0")
    expected = clips(iter(loader_of([str(path) for path in folder], shuffle="full")))
    server = Nginx(folder[0].parent, tmp_path)
    server.start()
    loader = loader_of([server.url(path) for path in folder], shuffle="full", on_error=on_error)
    batches = iter(loader)
    received = clips(iter([next(batches)]))
    server.stop()
    down = time.monotonic()
    during: list[str] = []

    def restart() -> None:
        time.sleep(4)
        during.extend(record.getMessage() for record in caplog.records)
        server.start()

    restarting = threading.Thread(target=restart)
    with caplog.at_level(logging.INFO, "framespool"):
        restarting.start()
        received += clips(batches)
        restarting.join()
    server.stop()
    assert time.monotonic() - down > 4
    assert received == expected
    stats = loader.stats()
    assert stats["clips_skipped"] == stats["clips_replaced"] == 0 and not loader.failures()
    assert stats["remote_outages"] >= 1
    assert any(f"127.0.0.1:{server.port} is unavailable (no response" in text for text in during), during
    assert any("is available again after" in record.getMessage() for record in caplog.records)
    assert {record.name for record in caplog.records} == {"framespool.remote"}


@pytest.mark.parametrize("status", [500, 503])
def test_server_errors_are_waited_for_with_one_request_at_a_time(status: int, content: bytes) -> None:
    times: list[float] = []
    begun = time.monotonic()

    def plan(_: int, asked: str) -> FaultyResponse:
        times.append(time.monotonic() - begun)
        return FaultyResponse(status=status) if times[-1] < 6 else FaultyResponse()

    with FaultyServer(content, plan).running() as server:
        urls = [server.url(f"{number}.mp4") for number in range(8)]
        loader = loader_of(urls, num_threads=8, on_error="skip")
        delivered = clips(iter(loader))
    assert len(delivered) == 8 and loader.stats()["clips_skipped"] == 0
    # Eight requests are repeated for about a second; then one at a time, with pauses of up to four seconds.
    assert len([at for at in times if 3 < at < 6]) < 12, times


def test_an_outage_is_raised_at_once_if_requested(folder: list[Path], tmp_path: Path) -> None:
    server = Nginx(folder[0].parent, tmp_path)
    server.start()
    urls = [server.url(path) for path in folder]
    server.stop()
    begun = time.monotonic()
    loader = loader_of(urls, on_error="skip", on_outage="raise", batch_size=1)
    batches, raised = iter(loader), 0
    while True:
        try:
            next(batches)
        except StopIteration:
            break
        except fsp.UnavailableError as error:
            raised += 1
            assert f"127.0.0.1:{server.port} has been unavailable for" in str(error) and "on_outage" in str(error)
            assert isinstance(error, fsp.ReadError) and error.file is not None
    assert raised == len(folder)
    assert time.monotonic() - begun < 15
    assert not loader.failures()


def test_an_outage_is_raised_after_the_time_to_wait(folder: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    urls = [f"http://127.0.0.1:{free_port()}/{path.name}" for path in folder]
    for settings, timeout in (({"on_outage": 3}, "60"), ({}, "3")):
        monkeypatch.setenv("FRAMESPOOL_REMOTE_TIMEOUT", timeout)
        port = free_port()
        urls = [f"http://127.0.0.1:{port}/{path.name}" for path in folder]
        begun, waits = time.monotonic(), []
        batches = iter(loader_of(urls, on_error="replace", **settings))
        for _ in range(len(folder) // 2):
            with pytest.raises(fsp.UnavailableError):
                next(batches)
            waits.append(time.monotonic() - begun)
        assert 3 <= waits[0] < 10
        assert waits[-1] < waits[0] + 10, waits  # the outage is known


def test_a_file_that_always_fails_is_not_an_outage(content: bytes) -> None:
    server = FaultyServer(content)
    server.plan = lambda number, _: FaultyResponse(status=500 if server.paths[number] == "/3.mp4" else None)
    with server.running():
        urls = [server.url(f"{number}.mp4") for number in range(8)]
        loader = loader_of(urls, on_error="skip", num_threads=1)
        begun = time.monotonic()
        delivered = [clip for clip, _ in clips(iter(loader))]
    assert sorted(delivered) == [0, 1, 2, 4, 5, 6, 7]
    assert time.monotonic() - begun < 20
    (failure,) = loader.failures()
    assert "status 500" in str(failure) and "the server answers other requests" in str(failure)
    assert loader.stats()["remote_outages"] == 0


def test_lists_are_not_shortened_by_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMESPOOL_REMOTE_TIMEOUT", "1")
    with pytest.raises(fsp.UnavailableError):
        fsp.datasets.webdataset(f"http://127.0.0.1:{free_port()}/shard.tar", on_error="skip")


def test_invalid_times_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(fsp.ArgumentError, match="on_outage"):
        loader_of(["a.mp4"], on_outage="skip")
    with pytest.raises(fsp.ArgumentError, match="on_outage"):
        loader_of(["a.mp4"], on_outage=-1)
    for text in ("soon", "-1", "1e30"):
        monkeypatch.setenv("FRAMESPOOL_REMOTE_TIMEOUT", text)
        with pytest.raises(fsp.ArgumentError, match="FRAMESPOOL_REMOTE_TIMEOUT"):
            fsp.Video(f"http://127.0.0.1:{free_port()}/a.mp4")


def test_silent_host_does_not_block_another(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMESPOOL_REMOTE_TIMEOUT", "3")

    def ask(number: int) -> None:
        with contextlib.suppress(fsp.Error):
            fsp.Video(silent.url(f"{number}.mp4"))

    with FaultyServer(content).running() as good:
        with FaultyServer(content, lambda *_: FaultyResponse(stall_after=0)).running() as silent:
            threads = [threading.Thread(target=ask, args=(number,)) for number in range(30)]
            for thread in threads:
                thread.start()
            deadline = time.monotonic() + 20
            while len(silent.ranges) < 24 and time.monotonic() < deadline:
                time.sleep(0.02)
            begun = time.monotonic()
            reads(good, content)
            assert time.monotonic() - begun < 5
            assert len(silent.ranges) == 24, "the number of concurrent requests"
        for thread in threads:
            thread.join()
