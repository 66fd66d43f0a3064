"""Credentials of remote files: where they come from, and which servers receive them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from servers import FaultyResponse, FaultyServer, hash_of

import framespool as fsp

#: Headers that hold credentials, or that are derived from them.
CREDENTIAL_PREFIXES = ("authorization", "cookie", "proxy-auth", "x-amz-", "x-goog-", "x-ms-")


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Credentials of a role and a customer's encryption key, for an endpoint that a test sets."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "role-key-id",
        "AWS_SECRET_ACCESS_KEY": "role-secret",
        "AWS_SESSION_TOKEN": "role-session-token",
        "AWS_SERVER_SIDE_ENCRYPTION": "sse-c",
        "AWS_SSE_CUSTOMER_KEY_BASE64": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def _same_frames(url: str, content: bytes) -> None:
    local = fsp.Video(content)
    assert hash_of(fsp.Video(url, index=False), [0, len(local) - 1]) == hash_of(local, [0, len(local) - 1])


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_to_another_origin_carry_no_credentials(
    status: int, content: bytes, aws: pytest.MonkeyPatch
) -> None:
    with FaultyServer(content).running() as storage:
        redirection = FaultyResponse(status=status, headers={"Location": storage.url("blob.mp4")})
        with FaultyServer(b"", lambda *_: redirection).running() as endpoint:
            aws.setenv("AWS_ENDPOINT_URL", endpoint.url("").rstrip("/"))
            _same_frames(f"s3://redirected/{status}.mp4", content)
    assert endpoint.headers and all(
        headers["x-amz-security-token"] == "role-session-token" and "role-key-id" in headers["authorization"]
        for headers in endpoint.headers
    )
    arrived = {name for headers in storage.headers for name in headers}
    assert {"range", "user-agent", "host"} <= arrived
    assert not [name for name in arrived if name.startswith(CREDENTIAL_PREFIXES)], arrived
    assert {headers["host"] for headers in storage.headers} == {f"127.0.0.1:{storage.port}"}


def test_credentials_stay_removed_after_a_redirect_back(content: bytes) -> None:
    """The first server is asked with credentials; when another one redirects to it, without."""
    home, other = FaultyServer(content), FaultyServer(b"")
    with home.running(), other.running():
        away = FaultyResponse(status=307, headers={"Location": other.url("away")})
        other.plan = lambda *_: FaultyResponse(status=307, headers={"Location": home.url("back")})
        home.plan = lambda *_: FaultyResponse() if home.paths[-1] == "/back" else away
        _same_frames(f"http://me:hush@127.0.0.1:{home.port}/start", content)
    sent = set(zip(home.paths, home.authorizations, strict=True))
    assert sent == {("/start", "Basic bWU6aHVzaA=="), ("/back", None)}
    assert set(other.authorizations) == {None}


def test_redirects_within_an_origin_keep_credentials(content: bytes) -> None:
    server = FaultyServer(content)
    server.plan = lambda *_: (
        FaultyResponse(status=302, headers={"Location": "moved.mp4"})
        if server.paths[-1] == "/old.mp4"
        else FaultyResponse()
    )
    with server.running():
        _same_frames(f"http://me:hush@127.0.0.1:{server.port}/old.mp4", content)
    assert set(server.paths) == {"/old.mp4", "/moved.mp4"} and set(server.authorizations) == {"Basic bWU6aHVzaA=="}


@pytest.mark.parametrize("location", ["again", "file:///etc/passwd", None])
def test_redirects_without_end_are_an_error(location: str | None) -> None:
    headers = {} if location is None else {"Location": location}
    with FaultyServer(b"", lambda *_: FaultyResponse(status=302, headers=headers)).running() as server:
        with pytest.raises(fsp.ReadError, match="status 302: the server redirects") as caught:
            fsp.Video(server.url("again"))
    assert len(server.paths) == (11 if location == "again" else 1) and server.url("again") in str(caught.value)


# ---- presigned URLs ------------------------------------------------------------------------------------------------


def _signed(address: str, day: int) -> str:
    """A presigned URL; each day has another signature."""
    signature = f"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=2026010{day}T000000Z&X-Amz-Expires=86400"
    return f"{address}{'&' if '?' in address else '?'}{signature}&X-Amz-Signature=hush{day}"


def _rows(index: Path) -> int:
    fsp.flush_index()
    with sqlite3.connect(index / "framespool-index.sqlite3") as database:
        return database.execute("SELECT count(*) FROM entry").fetchone()[0]


def test_signatures_of_one_file_share_its_cached_index(content: bytes, tmp_path: Path) -> None:
    with FaultyServer(content).running() as server:
        for day in (1, 2, 3):
            fsp.Video(_signed(server.url("a.mp4"), day), index=tmp_path)
            assert f"X-Amz-Signature=hush{day}" in server.paths[-1]
        assert _rows(tmp_path) == 1
        fsp.Video(server.url("a.mp4"), index=tmp_path)
        assert _rows(tmp_path) == 1
        for version in (1, 2):
            fsp.Video(_signed(server.url(f"a.mp4?versionId={version}"), 1), index=tmp_path)
        assert _rows(tmp_path) == 3
    assert not any(b"hush" in file.read_bytes() for file in tmp_path.iterdir())


def test_each_signature_is_checked_by_the_server(content: bytes) -> None:
    """Cached bytes of a valid signature are not returned for an invalid one."""
    with FaultyServer(content).running() as server:
        fsp.Video(_signed(server.url("b.mp4"), 1), index=False)
        server.plan = lambda *_: FaultyResponse(status=403)
        with pytest.raises(fsp.ReadError, match="status 403") as caught:
            fsp.Video(_signed(server.url("b.mp4"), 2), index=False)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("kind", ["list", "dataset", "members", "segments"])
def test_checkpoints_load_across_signatures(kind: str, content: bytes) -> None:
    def state(address: str, day: int, *, load: dict[str, object] | None = None) -> dict[str, object]:
        urls = [_signed(server.url(f"{name}{address}"), day) for name in ("a.mp4", "b.mp4")]
        if kind == "members":
            sources = [fsp.datasets.ArchiveMember(url, 0, len(content)) for url in urls]
        elif kind == "segments":
            sources = [fsp.VideoSegment(url, start_frame=0, end_frame=100) for url in urls]
        else:
            sources = urls
        samples = [(source, label) for label, source in enumerate(sources)]
        dataset = fsp.datasets.Dataset(samples) if kind == "dataset" else samples
        loader = fsp.ClipLoader(dataset, fsp.samplers.random(sequence_length=4), batch_size=1, index=False)
        if load is not None:
            loader.load_state_dict(load)
        return loader.state_dict()

    with FaultyServer(content).running() as server:
        monday = state("", 1)
        assert state("", 2, load=monday) == monday
        version = state("?versionId=1", 1)
        assert state("?versionId=1", 2, load=version) == version
        for address in ("", "?versionId=2"):
            with pytest.raises(fsp.ArgumentError, match="the dataset"):
                state(address, 1, load=version)
