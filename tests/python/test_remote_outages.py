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
from processes import wait_until
from servers import FaultyResponse, FaultyServer, Nginx, reads

#: A time to wait, in seconds, that no test run reaches.
NEVER = "1e9"


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
    sampler = fsp.samplers.RandomClips(sequence_length=4, stride=3)
    return fsp.ClipLoader([(url, number) for number, url in enumerate(urls)], sampler, **settings)


def clips(batches: Iterator[fsp.Batch]) -> list[tuple[int, bytes]]:
    return [
        (clip, np.asarray(frames).tobytes())
        for batch in batches
        for clip, frames in zip(batch.clip_ids.tolist(), batch.frames, strict=True)
    ]


@pytest.mark.parametrize("on_error", ["skip", "replace", "raise"])
def test_a_restarted_server_loses_no_clip(
    on_error: str, folder: list[Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = clips(iter(loader_of([str(path) for path in folder], shuffle="full")))
    server = Nginx(folder[0].parent, tmp_path)
    server.start()
    # Without a clip cache, the loader can be at most two batches ahead: it needs the server again.
    loader = loader_of([server.url(path) for path in folder], shuffle="full", on_error=on_error, cache=0)
    batches = iter(loader)
    received = clips(iter([next(batches)]))
    server.stop()

    def is_unavailable() -> bool:
        return any(record.getMessage().startswith(outage) for record in list(caplog.records))

    def restart() -> None:
        wait_until(is_unavailable)
        server.start()

    outage = f"127.0.0.1:{server.port} is unavailable (no response"
    restarting = threading.Thread(target=restart, daemon=True)
    with caplog.at_level(logging.INFO, "framespool"):
        restarting.start()
        received += clips(batches)
        restarting.join()
    server.stop()
    assert received == expected
    stats = loader.stats()
    assert stats["clips_skipped"] == stats["clips_replaced"] == 0 and not loader.failures()
    assert stats["remote_outages"] >= 1
    assert any("is available again after" in record.getMessage() for record in caplog.records)
    assert {record.name for record in caplog.records} == {"framespool.remote"}


@pytest.mark.parametrize("status", [500, 503])
def test_server_errors_are_waited_for_with_one_request_at_a_time(status: int, content: bytes) -> None:
    lock, active, answered, settled, probes, together = threading.Lock(), 0, 0, False, 0, 0

    def plan(*_: object) -> FaultyResponse:
        nonlocal active, answered, settled, probes, together
        if not loader.stats()["remote_outages"]:
            with lock:
                answered += 1
            return FaultyResponse(status=status)
        with lock:
            if probes == 2:
                return FaultyResponse()
            active += 1
            if settled:
                probes, together = probes + 1, max(together, active)
        time.sleep(0.7)  # time for other requests, of which there must be none
        with lock:
            active, answered = active - 1, answered + 1
            # Requests that were on their way when the outage was noticed have ended.
            settled = settled or loader.stats()["remote_requests"] == answered
        return FaultyResponse(status=status)

    with FaultyServer(content, plan).running() as server:
        urls = [server.url(f"{number}.mp4") for number in range(8)]
        loader = loader_of(urls, num_threads=8, on_error="skip")
        delivered = clips(iter(loader))
    assert len(delivered) == 8 and loader.stats()["clips_skipped"] == 0
    assert (probes, together) == (2, 1)


def test_an_outage_is_raised_at_once_if_requested(refusing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMESPOOL_REMOTE_TIMEOUT", NEVER)
    urls = [f"http://{refusing}/{number}.mp4" for number in range(12)]
    loader = loader_of(urls, on_error=fsp.options.OnError("skip", outage="raise"), batch_size=1)
    batches, raised = iter(loader), 0
    while True:
        try:
            next(batches)
        except StopIteration:
            break
        except fsp.errors.UnavailableError as error:
            raised += 1
            assert f"{refusing} has been unavailable for" in str(error) and "OnError(outage=)" in str(error)
            assert isinstance(error, fsp.errors.ReadError) and error.file is not None
    assert raised == len(urls)
    assert not loader.failures()


@pytest.mark.parametrize(
    ("on_error", "timeout"),
    [(fsp.options.OnError("replace", outage=2), NEVER), ("replace", "2")],
    ids=["loader", "environment"],
)
def test_an_outage_is_raised_after_the_time_to_wait(
    on_error: Any, timeout: str, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRAMESPOOL_REMOTE_TIMEOUT", timeout)
    begun = time.monotonic()
    with FaultyServer(content, lambda *_: FaultyResponse(status=503)).running() as server:
        urls = [server.url(f"{number}.mp4") for number in range(12)]
        batches = iter(loader_of(urls, on_error=on_error, num_threads=1))
        with pytest.raises(fsp.errors.UnavailableError):
            next(batches)
        assert time.monotonic() - begun >= 2
        # Five attempts for the first file, then pauses of up to four seconds. In the two minutes that are the default,
        # there would be at least 30 of them.
        requests = len(server.ranges)
        assert 5 <= requests < 30
        for _ in range(len(urls) // 2 - 1):
            with pytest.raises(fsp.errors.UnavailableError):
                next(batches)
        # The outage is known: no file is requested five times again.
        assert len(server.ranges) - requests <= len(urls)


def test_a_file_that_always_fails_is_not_an_outage(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMESPOOL_REMOTE_TIMEOUT", NEVER)
    server = FaultyServer(content)
    server.plan = lambda number, _: FaultyResponse(status=500 if server.paths[number] == "/3.mp4" else None)
    with server.running():
        urls = [server.url(f"{number}.mp4") for number in range(8)]
        loader = loader_of(urls, on_error="skip", num_threads=1)
        delivered = [clip for clip, _ in clips(iter(loader))]
    assert sorted(delivered) == [0, 1, 2, 4, 5, 6, 7]
    (failure,) = loader.failures()
    assert "status 500" in str(failure) and "the server answers other requests" in str(failure)
    assert loader.stats()["remote_outages"] == 0


def test_lists_are_not_shortened_by_an_outage(refusing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMESPOOL_REMOTE_TIMEOUT", "0")
    with pytest.raises(fsp.errors.UnavailableError):
        fsp.datasets.webdataset(f"http://{refusing}/shard.tar", on_error="skip")


def test_invalid_times_are_rejected(refusing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(fsp.errors.ArgumentError, match="outage must be"):
        loader_of(["a.mp4"], on_error=fsp.options.OnError("raise", outage="skip"))
    with pytest.raises(fsp.errors.ArgumentError, match="outage must be"):
        loader_of(["a.mp4"], on_error=fsp.options.OnError("raise", outage=-1))
    for text in ("soon", "-1", "1e30"):
        monkeypatch.setenv("FRAMESPOOL_REMOTE_TIMEOUT", text)
        with pytest.raises(fsp.errors.ArgumentError, match="FRAMESPOOL_REMOTE_TIMEOUT"):
            fsp.Video(f"http://{refusing}/a.mp4")


def test_silent_host_does_not_block_another(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMESPOOL_REMOTE_TIMEOUT", "0")

    def ask(number: int) -> None:
        with contextlib.suppress(fsp.Error):
            fsp.Video(silent.url(f"{number}.mp4"))

    with FaultyServer(content).running() as good:
        with FaultyServer(content, lambda *_: FaultyResponse(stall_after=0)).running() as silent:
            threads = [threading.Thread(target=ask, args=(number,)) for number in range(30)]
            for thread in threads:
                thread.start()
            wait_until(lambda: len(silent.ranges) >= 24)
            reads(good, content)
            # Each request ends only when its response of 128 KiB has taken 32 seconds, and makes room for another one.
            assert len(silent.ranges) == 24, "the number of concurrent requests"
        for thread in threads:
            thread.join()
