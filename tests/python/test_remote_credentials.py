"""Credentials of remote files: where they come from, and which servers receive them."""

from __future__ import annotations

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
