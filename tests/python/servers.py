"""Servers for the tests of URLs: nginx, an S3 (moto), and one with programmable faults."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import importlib.util
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import urllib.parse
import urllib.request
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest
from processes import wait_until


def reserved_port() -> socket.socket:
    """A bound port that refuses connections; while this socket is open, nothing else gets the port by chance.

    A server may listen on it, because ``SO_REUSEADDR`` lets two sockets share a port of which at most one listens.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved


def needed(found: bool, what: str) -> None:
    """Skips the test if a server is not installed; in CI that is an error."""
    if not found:
        if os.environ.get("CI"):
            raise RuntimeError(f"CI must have {what}")
        pytest.skip(f"{what} is not installed")


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    def listens() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} does not listen: {log.read_text(errors='replace')[-2000:]}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return True
        return False

    wait_until(listens)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()


@dataclass
class Nginx:
    """An nginx that serves a folder."""

    root: Path
    place: Path
    process: subprocess.Popen[bytes] | None = None
    marks: int = 0

    def __post_init__(self) -> None:
        reserved = reserved_port()  # while this object lives: a server that restarts finds its port free
        weakref.finalize(self, reserved.close)
        self.port = reserved.getsockname()[1]

    def start(self) -> None:
        program = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
        needed(program is not None, "nginx")
        assert program is not None
        temp = "".join(
            f"{name}_temp_path {self.place}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        user = "user root;" if os.geteuid() == 0 else ""
        (self.place / "nginx.conf").write_text(f"""
            daemon off; master_process off; {user} pid {self.place}/pid; error_log {self.place}/error.log;
            events {{}}
            http {{
                log_format short '$status $body_bytes_sent $request_uri $http_range';
                access_log {self.place}/access.log short;
                {temp}
                server {{ listen 127.0.0.1:{self.port}; root {self.root}; etag on; }}
            }}
        """)
        command = [program, "-c", str(self.place / "nginx.conf"), "-e", str(self.place / "error.log")]
        with (self.place / "output").open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output)
        _wait_for(self.port, self.process, self.place / "output")

    def stop(self) -> None:
        if self.process is not None:
            _stop(self.process)
            self.process = None

    def url(self, path: Path | str) -> str:
        """The URL of a file below the root."""
        return f"http://127.0.0.1:{self.port}/{Path(path).resolve().relative_to(self.root)}"

    def requests(self) -> list[tuple[int, int, str, str]]:
        """Status, bytes sent, path and range of each request so far."""
        # nginx has one thread, and logs a request when it has sent its last byte: once this one is logged, so are all
        # complete ones.
        self.marks += 1
        mark = f"/mark-{self.marks}"
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port)) as connection:
            connection.request("GET", mark)
            connection.getresponse().read()
        log = self.place / "access.log"
        wait_until(lambda: f" {mark} " in log.read_text())
        found = []
        for line in log.read_text().splitlines():
            status, sent, path, asked = line.split(" ", 3)
            if not path.startswith("/mark-"):
                found.append((int(status), int(sent), path, asked))
        return found


@dataclass
class S3:
    """A moto server."""

    place: Path
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        reserved = reserved_port()  # while this object lives: a server that restarts finds its port free
        weakref.finalize(self, reserved.close)
        self.port = reserved.getsockname()[1]

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        needed(
            all(importlib.util.find_spec(name) is not None for name in ("moto", "flask", "flask_cors")), "moto[server]"
        )
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        with (self.place / "output").open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output)
        _wait_for(self.port, self.process, self.place / "output")

    def stop(self) -> None:
        if self.process is not None:
            _stop(self.process)

    def put(self, path: str, content: bytes = b"", *, acl: str = "private") -> None:
        """Makes a bucket, or an object in one."""
        url = f"{self.endpoint}/{urllib.parse.quote(path)}"
        headers = {"Content-Type": "application/octet-stream", "x-amz-acl": acl}
        request = urllib.request.Request(url, data=content, headers=headers, method="PUT")
        urllib.request.urlopen(request).close()

    def environment(self, **more: str) -> dict[str, str]:
        """Environment variables for AWS tools."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_REGION": "us-east-1",
            **more,
        }


@dataclass
class FaultyResponse:
    """The faults of a response; by default none."""

    status: int | None = None
    #: Body of a response with a status.
    body: bytes = b""
    #: Sends nothing until the event ``released`` is set.
    held: bool = False
    #: Closes the connection after this many bytes of the body.
    cut_after: int | None = None
    #: After this many bytes sends one byte a second, until the event ``released`` is set.
    stall_after: int | None = None
    #: Sends the complete file for every requested range.
    ignores_range: bool = False
    #: Added to the true Content-Length.
    content_length_error: int = 0
    #: Sends the body in chunks without Content-Length, with this many bytes more (or fewer) than Content-Range states.
    chunked: int | None = None
    etag: str | None = '"one"'
    headers: dict[str, str] = field(default_factory=dict)
    #: A wrong total length of the file.
    total: int | None = None
    #: Offset added to the start of the requested range.
    shifted: int = 0


@dataclass
class FaultyServer:
    """A server for one content; ``plan`` returns the faults for a request number and its range."""

    content: bytes
    plan: Callable[[int, str], FaultyResponse] = lambda number, asked: FaultyResponse()
    ranges: list[str] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)
    #: All headers of each request, names in lower case.
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def running(self) -> Iterator[FaultyServer]:
        faulty, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                with lock:
                    asked = self.headers.get("Range", "")
                    number = len(faulty.ranges)
                    faulty.ranges.append(asked)
                    faulty.authorizations.append(self.headers.get("Authorization"))
                    faulty.headers.append({name.lower(): value for name, value in self.headers.items()})
                    faulty.paths.append(self.path)
                with contextlib.suppress(OSError):
                    faulty._answer(self, faulty.plan(number, asked), asked)

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            server.daemon_threads = True
            server.block_on_close = False
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
            thread.start()
            self.port = server.server_address[1]
            try:
                yield self
            finally:
                self.released.set()
                server.shutdown()
                thread.join()

    def url(self, path: str = "video.mp4") -> str:
        return f"http://127.0.0.1:{self.port}/{path}"

    def _answer(self, handler: BaseHTTPRequestHandler, answer: FaultyResponse, asked: str) -> None:
        if answer.held:
            self.released.wait()
        if answer.status is not None:
            handler.send_response(answer.status)
            for name, value in answer.headers.items():
                handler.send_header(name, value)
            handler.send_header("Content-Length", str(len(answer.body)))
            handler.end_headers()
            handler.wfile.write(answer.body)
            return
        start, end = 0, len(self.content)
        if asked and not answer.ignores_range:
            first, last = asked.removeprefix("bytes=").split("-")
            start, end = int(first) + answer.shifted, min(int(last) + 1, len(self.content))
        body = self.content[start:end]
        handler.send_response(206 if asked and not answer.ignores_range else 200)
        if asked and not answer.ignores_range:
            handler.send_header("Content-Range", f"bytes {start}-{end - 1}/{answer.total or len(self.content)}")
        if answer.etag is not None:
            handler.send_header("ETag", answer.etag)
        for name, value in answer.headers.items():
            handler.send_header(name, value)
        if answer.chunked is None:
            handler.send_header("Content-Length", str(len(body) + answer.content_length_error))
        else:
            handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        if answer.chunked is not None:
            body = body + b"x" * answer.chunked if answer.chunked >= 0 else body[: answer.chunked]
            for at in range(0, len(body), 50_000):
                piece = body[at : at + 50_000]
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            handler.wfile.write(b"0\r\n\r\n")
        elif answer.cut_after is not None or answer.content_length_error:
            handler.wfile.write(body[: answer.cut_after])
            handler.wfile.flush()
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
        elif answer.stall_after is not None:
            handler.wfile.write(body[: answer.stall_after])
            handler.wfile.flush()
            for at in range(answer.stall_after, len(body)):
                if self.released.wait(1):
                    break
                handler.wfile.write(body[at : at + 1])
            handler.close_connection = True
        else:
            handler.wfile.write(body)


def hash_of(video: fsp.Video, indices: list[int]) -> str:
    """A hash of frames."""
    digest = hashlib.sha256()
    for index in indices:
        digest.update(np.asarray(video[index]).tobytes())
    return digest.hexdigest()


#: Opens a video and reads lists of frames; prints a hash of each list, and what opening and each list cost.
READING = """
import hashlib, json, sys
import framespool as fsp
import numpy as np

url, lists = sys.argv[1], json.loads(sys.argv[2])
hashes, counts = [], [fsp.tools.remote_stats()]
video = fsp.Video(url)
counts.append(fsp.tools.remote_stats())
for indices in lists:
    hashes.append(hashlib.sha256(np.asarray(video.frames(indices).frames).tobytes()).hexdigest())
    counts.append(fsp.tools.remote_stats())
print(json.dumps([hashes, counts]))
"""


def reading_costs(url: str, content: bytes, *lists: list[int]) -> list[dict[str, int]]:
    """Requests, bytes, … of opening a video and of reading each list of frames, which are those of ``content``.

    In a process of its own: the counters of this one include requests that outlive their test.
    """
    command = [sys.executable, "-c", READING, url, json.dumps(lists)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    hashes, counts = json.loads(done.stdout)
    local = fsp.Video(content)
    expected = [np.asarray(local.frames(indices).frames).tobytes() for indices in lists]
    assert hashes == [hashlib.sha256(frames).hexdigest() for frames in expected]
    return [
        {name.removeprefix("remote_"): after[name] - before[name] for name in after}
        for before, after in itertools.pairwise(counts)
    ]


def reads(server: FaultyServer, content: bytes) -> None:
    """A server's file has the frames of ``content``."""
    video, local = fsp.Video(server.url()), fsp.Video(content)
    assert hash_of(video, [0, len(local) - 1]) == hash_of(local, [0, len(local) - 1])
