"""Videos by URL from servers that fail, stall, send wrong data, require credentials or stop: errors, never wrong bytes,
never an endless wait."""

from __future__ import annotations

import gc
import hashlib
import io
import os
import signal
import subprocess
import sys
import tarfile
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import framespool as fsp
import numpy as np
import pytest
from processes import child_process, engine_threads, wait_until
from servers import FaultyResponse, FaultyServer, Nginx, hash_of, reading_costs, reads

KIB = 1 << 10
#: A time to wait, in seconds, that no test run reaches.
NEVER = "1e9"


@pytest.fixture(autouse=True)
def outage_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that never answer again are an error after the first five attempts."""
    monkeypatch.setenv("FRAMESPOOL_REMOTE_TIMEOUT", "0")


@pytest.mark.parametrize(
    "fault",
    [
        FaultyResponse(status=500),
        FaultyResponse(status=503, headers={"Retry-After": "1"}),
        FaultyResponse(status=429),
        FaultyResponse(cut_after=1000),
        FaultyResponse(cut_after=0),
    ],
    ids=["500", "503", "429", "reset", "reset-at-once"],
)
def test_transient_failures_are_retried(fault: FaultyResponse, content: bytes) -> None:
    every = 1000 if "Retry-After" in fault.headers else 3  # the client waits a second each time
    with FaultyServer(
        content, lambda number, _: fault if number % every == 0 else FaultyResponse()
    ).running() as server:
        costs = reading_costs(server.url(), content, [0, len(fsp.Video(content)) - 1])
    assert sum(cost["retries"] for cost in costs) >= 1
    assert sum(cost["requests"] for cost in costs) == len(server.ranges)


def test_wrong_content_length_of_full_range_is_ignored(content: bytes) -> None:
    with FaultyServer(content, lambda *_: FaultyResponse(content_length_error=1000)).running() as server:
        reads(server, content)


def test_retry_after_reset_keeps_received_bytes(content: bytes) -> None:
    with FaultyServer(
        content, lambda number, _: FaultyResponse(cut_after=1000) if number == 0 else FaultyResponse()
    ).running() as server:
        reads(server, content)
    assert server.ranges[1].startswith("bytes=1000-")


def test_partial_responses_are_joined(content: bytes) -> None:
    with FaultyServer(content, lambda *_: FaultyResponse(cut_after=80 * KIB)).running() as server:
        reads(server, content)
    assert len(server.ranges) > 6


def test_chunked_responses_are_read(content: bytes) -> None:
    with FaultyServer(content, lambda *_: FaultyResponse(chunked=0)).running() as server:
        costs = reading_costs(server.url(), content, [0, len(fsp.Video(content)) - 1])
    assert sum(cost["retries"] for cost in costs) == 0


def test_chunked_responses_that_are_too_short_are_continued(content: bytes) -> None:
    with FaultyServer(
        content, lambda number, _: FaultyResponse(chunked=-50_000 if number % 2 == 0 else 0)
    ).running() as server:
        reads(server, content)
    # The next request begins where the response ended: after two blocks of 64 KiB less the missing bytes.
    assert server.ranges[1].startswith(f"bytes={128 * KIB - 50_000}-")


def test_chunked_responses_without_a_byte_are_an_error(content: bytes) -> None:
    with (
        FaultyServer(content, lambda *_: FaultyResponse(chunked=-len(content))).running() as server,
        pytest.raises(fsp.errors.ReadError, match="unavailable for .* the response ended too early"),
    ):
        fsp.Video(server.url())


def test_chunked_responses_that_are_too_long_are_an_error(content: bytes) -> None:
    with (
        FaultyServer(content, lambda *_: FaultyResponse(chunked=10)).running() as server,
        pytest.raises(fsp.errors.ReadError, match="more bytes than it announces"),
    ):
        fsp.Video(server.url())
    assert len(server.ranges) == 1


def test_a_length_that_no_file_has_is_an_error(content: bytes) -> None:
    lie = FaultyServer(content, lambda *_: FaultyResponse(total=1 << 63))
    with lie.running() as server, pytest.raises(fsp.errors.ReadError, match="impossible file size"):
        fsp.Video(server.url())


@pytest.mark.parametrize(("said", "error"), [("bytes */1234", "does not support ranges"), ("bytes */0", "video.mp4")])
def test_file_without_stated_length_is_empty(said: str, error: str) -> None:
    plan = lambda *_: FaultyResponse(status=416, headers={"Content-Range": said})  # noqa: E731
    with FaultyServer(b"", plan).running() as server, pytest.raises(fsp.Error, match=error) as caught:
        fsp.Video(server.url())
    assert ("does not support ranges" in str(caught.value)) == (said != "bytes */0")


@pytest.mark.parametrize("key", ["a//b.mp4", "a.mp4/", "/a.mp4", "a/../b.mp4"])
def test_ambiguous_object_keys_are_refused(key: str) -> None:
    with pytest.raises(fsp.errors.UnsupportedError, match="copy the object") as caught:
        fsp.Video(f"s3://bucket/{key}")
    assert f"s3://bucket/{key}" in str(caught.value)


@pytest.mark.parametrize("what", ["gzip", "empty", "two-videos", "missing"])
def test_messages_of_shards_hold_no_secrets(what: str) -> None:
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w:gz" if what == "gzip" else "w") as made:
        for name in [] if what == "empty" else ["a.mp4", "a.mp4"]:
            header = tarfile.TarInfo(name)
            header.size = 3
            made.addfile(header, io.BytesIO(b"abc"))
    plan = lambda *_: FaultyResponse(status=404) if what == "missing" else FaultyResponse()  # noqa: E731
    with FaultyServer(tar.getvalue(), plan).running() as server:
        for policy in ("raise", "skip"):
            with pytest.raises(fsp.Error) as caught:
                fsp.datasets.webdataset(f"http://me:hush@127.0.0.1:{server.port}/s.tar?sig=hush", on_error=policy)
            text = str(caught.value)
            assert f"http://127.0.0.1:{server.port}/s.tar?…" in text
            assert "hush" not in text and "me:" not in text, text


def test_two_users_of_one_url_see_each_their_own_file(videos: Path) -> None:
    """Data read with one password is not served for another."""
    mine, yours = (sorted((videos / "action" / "words").iterdir())[at].read_bytes() for at in (0, 1))
    server = FaultyServer(mine)
    with server.running():
        before = fsp.Video(f"http://me:1@127.0.0.1:{server.port}/v.mp4")
        server.content = yours
        after = fsp.Video(f"http://you:2@127.0.0.1:{server.port}/v.mp4")
        assert server.authorizations[-1] == "Basic eW91OjI="
        assert hash_of(after, [0, 9]) == hash_of(fsp.Video(yours), [0, 9])
        assert len(before) == len(fsp.Video(mine))
        server.plan = lambda *_: FaultyResponse(status=401)
        with pytest.raises(fsp.errors.ReadError, match="status 401"):
            fsp.Video(f"http://127.0.0.1:{server.port}/v.mp4")


@pytest.fixture(scope="module")
def opened_before(videos: Path, content: bytes) -> Iterator[tuple[FaultyServer, FaultyServer, bytes]]:
    """Two servers with a file that was opened so long ago that their answers are not trusted any more (`METADATA_TTL`),
    the first by the credentials "id-of-before", and another file."""
    one, other = (sorted((videos / "action" / "words").iterdir())[at].read_bytes() for at in (0, 1))
    with FaultyServer(content).running() as bucket, FaultyServer(one).running() as server:
        with pytest.MonkeyPatch.context() as environment:
            for name, value in credentials(bucket, "id-of-before").items():
                environment.setenv(name, value)
            fsp.Video("s3://keys/video.mp4")
        assert len(fsp.Video(server.url())) == len(fsp.Video(one))
        time.sleep(5.5)
        yield bucket, server, other


def credentials(server: FaultyServer, name: str) -> dict[str, str]:
    """Environment variables for a bucket."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_ACCESS_KEY_ID": name,
    }


def test_reopened_file_uses_current_credentials(
    opened_before: tuple[FaultyServer, FaultyServer, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = opened_before[0]
    for name, value in credentials(server, "id-of-now").items():
        monkeypatch.setenv(name, value)
    asked = len(server.authorizations)
    video = fsp.Video("s3://keys/video.mp4")
    video[len(video) // 2]
    later = server.authorizations[asked:]
    assert len(later) > 1 and all("id-of-now" in str(said) for said in later), later


def test_permanent_server_error_names_url_and_status(content: bytes) -> None:
    with FaultyServer(content, lambda *_: FaultyResponse(status=500)).running() as server:
        url = f"http://me:hush@127.0.0.1:{server.port}/a.mp4?X-Amz-Signature=hush"
        with pytest.raises(fsp.errors.ReadError) as caught:
            fsp.Video(url)
    text = str(caught.value)
    for part in (f"http://127.0.0.1:{server.port}/a.mp4?…", "status 500", "has been unavailable for", "try again"):
        assert part in text, text
    assert "hush" not in text and "me:" not in text, text
    assert len(server.ranges) >= 5
    assert server.authorizations[0] == "Basic bWU6aHVzaA==" and server.paths[0] == "/a.mp4?X-Amz-Signature=hush"


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (FaultyResponse(status=404), fsp.errors.NotFoundError, "check the path"),
        (FaultyResponse(status=403), fsp.errors.ReadError, "name and password"),
        (FaultyResponse(ignores_range=True), fsp.errors.ReadError, "does not support ranges"),
        (FaultyResponse(shifted=5), fsp.errors.ReadError, "different range"),
        (FaultyResponse(status=418), fsp.errors.ReadError, "status 418"),
    ],
    ids=["404", "403", "no-ranges", "other-range", "418"],
)
def test_permanent_failures_are_not_retried(
    answer: FaultyResponse, error: type[fsp.Error], said: str, content: bytes
) -> None:
    with FaultyServer(content, lambda *_: answer).running() as server, pytest.raises(error, match=said) as caught:
        fsp.Video(server.url())
    assert len(server.ranges) == 1 and server.url() in str(caught.value)


def test_access_denied_names_credential_variables(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultyServer(content, lambda *_: FaultyResponse(status=403)).running() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.port}")
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id-that-is-known")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
        with pytest.raises(fsp.errors.ReadError, match="AWS_SECRET_ACCESS_KEY") as caught:
            fsp.Video("s3://refused/key.mp4")
    assert "s3://refused/key.mp4" in str(caught.value) and "hush" not in str(caught.value)
    assert "Credential=id-that-is-known" in str(server.authorizations[0])


def test_empty_and_missing_servers(refusing: str) -> None:
    with (
        FaultyServer(b"", lambda *_: FaultyResponse(status=416)).running() as server,
        pytest.raises(fsp.Error, match="video.mp4"),
    ):
        fsp.Video(server.url())
    with pytest.raises(fsp.errors.ReadError, match="no response"):
        fsp.Video(f"http://{refusing}/gone.mp4")


def test_changed_remote_file_raises_instead_of_mixing(content: bytes) -> None:
    etag = ['"one"']
    with FaultyServer(content, lambda *_: FaultyResponse(etag=etag[0])).running() as server:
        video = fsp.Video(server.url())
        etag[0] = '"two"'
        with pytest.raises(fsp.errors.ReadError, match="replaced after it was opened"):
            for index in range(0, len(video), 10):
                video[index]
        fresh = fsp.Video(server.url())
        assert hash_of(fresh, [len(fresh) - 1]) == hash_of(fsp.Video(content), [len(fresh) - 1])


def test_replaced_remote_file_is_reopened(opened_before: tuple[FaultyServer, FaultyServer, bytes]) -> None:
    _, server, second = opened_before
    server.content, server.plan = second, lambda *_: FaultyResponse(etag='"two"')
    reads(server, second)


def _dead(entries: list[tuple[str, int]], server: Nginx, **settings: Any) -> tuple[fsp.ClipLoader, Iterator[fsp.Batch]]:
    loader = fsp.ClipLoader(
        [(server.url(Path(path).resolve()), label) for path, label in entries],
        fsp.samplers.RandomClips(sequence_length=8),
        batch_size=2,
        num_threads=2,
        prefetch_batches=1,
        **settings,
    )
    return loader, iter(loader)


def test_a_killed_server_is_an_error(content: bytes, tmp_path: Path) -> None:
    root = (tmp_path / "root").resolve()
    root.mkdir()
    entries = [(str(root / f"{number}.mp4"), 0) for number in range(12)]
    for path, _ in entries:
        Path(path).write_bytes(content)
    server = Nginx(root, tmp_path)
    server.start()
    loader, batches = _dead(entries, server)
    next(batches)
    server.stop()
    with pytest.raises(fsp.errors.ReadError, match="no response"):
        for _ in range(2):
            for _ in batches:
                pass
            batches = iter(loader)


def test_files_that_a_server_does_not_have_are_skipped(short_clips: list[tuple[str, int]], nginx: Nginx) -> None:
    urls = [(nginx.url(Path(path).resolve()), label) for path, label in short_clips]
    missing = [(url + ".gone", label) for url, label in urls[:2]]
    loader = fsp.ClipLoader(
        urls[2:6] + missing, fsp.samplers.RandomClips(sequence_length=4), batch_size=1, shuffle=False, on_error="skip"
    )
    labels = [int(np.asarray(batch.labels)[0]) for batch in loader if not np.asarray(batch.padding)[0]]
    assert labels == [2, 3, 4, 5]
    stats = loader.stats()
    assert stats["clips_skipped"] == 2 and stats["errors"]["not_found"] >= 2


# ---- stopping ------------------------------------------------------------------------------------------------------


def test_dropped_loader_does_not_wait_for_network(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMESPOOL_REMOTE_TIMEOUT", NEVER)
    delivered = threading.Event()

    def only_the_first(number: int, _: str) -> FaultyResponse:
        first = server.paths[number] == "/0.mp4" and not delivered.is_set()
        return FaultyResponse() if first else FaultyResponse(held=True)

    server = FaultyServer(content, only_the_first)
    others = engine_threads()
    with server.running():
        loader = fsp.ClipLoader(
            [(server.url(f"{number}.mp4"), 0) for number in range(6)],
            fsp.samplers.RandomClips(sequence_length=8),
            batch_size=1,
            shuffle=False,
        )
        batches = iter(loader)
        next(batches)
        delivered.set()
        wait_until(lambda: "/1.mp4" in server.paths)  # a worker waits, and nothing will come
        del loader, batches
        gc.collect()
        wait_until(lambda: not engine_threads() - others)


@pytest.mark.parametrize(
    "work",
    [
        "fsp.Video(url)",
        "list(video)",
        "video.frames([40])",
        "fsp.decode_images([url], num_threads=2)",
        "fsp.decode_images([url, bytes(2), bytes(2)], num_threads=2)",
        "fsp.datasets.webdataset(url)",
        "fsp.datasets.webdataset([url + str(n) for n in range(4)], on_error='skip')",
    ],
)
def test_ctrl_c_ends_waiting_for_a_server(work: str, content: bytes) -> None:
    program = f"""
        import sys, framespool as fsp
        url = sys.argv[1]
        video = fsp.Video(url) if "video" in {work!r} else None
        url += "?other"
        print("go", flush=True)
        input()
        {work}
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    environment = {**os.environ, "FRAMESPOOL_REMOTE_CACHE": "0", "FRAMESPOOL_REMOTE_TIMEOUT": NEVER}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with (
        FaultyServer(content).running() as server,
        child_process([*command, server.url()], **pipes, env=environment) as process,
    ):
        assert process.stdout is not None and process.stdout.readline() == "go\n"
        assert process.stdin is not None
        asked, server.plan = len(server.ranges), lambda *_: FaultyResponse(held=True)
        process.stdin.write("\n")
        process.stdin.flush()
        wait_until(lambda: len(server.ranges) > asked or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert "KeyboardInterrupt" in errors, errors


def test_dropped_iterator_does_not_wait_for_network(content: bytes) -> None:
    program = """
        import sys, framespool as fsp
        video = fsp.Video(sys.argv[1])
        print("open", flush=True)
        input()
        frames = iter(video)
        input()
        del frames
        print("dropped", flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    environment = {**os.environ, "FRAMESPOOL_REMOTE_CACHE": "0", "FRAMESPOOL_REMOTE_TIMEOUT": NEVER}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with (
        FaultyServer(content).running() as server,
        child_process([*command, server.url()], **pipes, env=environment) as process,
    ):
        assert process.stdout is not None and process.stdout.readline() == "open\n"
        assert process.stdin is not None
        asked, server.plan = len(server.ranges), lambda *_: FaultyResponse(held=True)
        process.stdin.write("\n")
        process.stdin.flush()
        wait_until(lambda: len(server.ranges) > asked)  # the iterator's thread reads ahead, and waits
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "dropped\n"


def test_an_iteration_that_was_interrupted_goes_on(content: bytes) -> None:
    program = """
        import contextlib, hashlib, signal, sys, framespool as fsp

        def alarm(*_):
            raise TimeoutError

        signal.signal(signal.SIGALRM, alarm)
        video = fsp.Video(sys.argv[1])
        print("open", flush=True)
        input()
        iterator, frames, digest = iter(video), [], hashlib.sha256()
        for _ in range(3):
            with contextlib.suppress(TimeoutError):
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                # No instruction of Python runs between two frames, at which an alarm would lose one.
                frames.extend(iterator)
        print("interrupted", flush=True)
        frames.extend(iterator)
        for frame in frames:
            digest.update(frame.tobytes())
        print(digest.hexdigest())
    """
    answered, expected = threading.Event(), hashlib.sha256()
    for frame in fsp.Video(content):
        expected.update(frame.tobytes())
    with (
        FaultyServer(content).running() as server,
        child_process(
            [sys.executable, "-c", textwrap.dedent(program), server.url()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "FRAMESPOOL_REMOTE_CACHE": "0"},
        ) as process,
    ):
        assert process.stdout is not None and process.stdout.readline() == "open\n"
        # The third request waits until the iteration has been interrupted three times.
        first = len(server.ranges)

        def plan(number: int, _: str) -> FaultyResponse:
            if number >= first + 2:
                answered.wait()
            return FaultyResponse()

        server.plan = plan
        try:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "interrupted\n"
            answered.set()
            assert process.stdout.read().strip() == expected.hexdigest()
        finally:
            answered.set()
