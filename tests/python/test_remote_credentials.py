"""Credentials of remote files: where they come from, and which servers receive them."""

from __future__ import annotations

import base64
import itertools
import json
import os
import sqlite3
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import framespool as fsp
import pytest
from servers import FaultyResponse, FaultyServer, hash_of

NUMBERS = itertools.count()
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
def test_redirects_to_another_origin_carry_no_credentials(status: int, content: bytes, aws: pytest.MonkeyPatch) -> None:
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
    with (
        FaultyServer(b"", lambda *_: FaultyResponse(status=302, headers=headers)).running() as server,
        pytest.raises(fsp.errors.ReadError, match="status 302: the server redirects") as caught,
    ):
        fsp.Video(server.url("again"))
    assert len(server.paths) == (11 if location == "again" else 1) and server.url("again") in str(caught.value)


# ---- presigned URLs ------------------------------------------------------------------------------------------------


def _signed(address: str, day: int) -> str:
    """A presigned URL; each day has another signature."""
    signature = f"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=2026010{day}T000000Z&X-Amz-Expires=86400"
    return f"{address}{'&' if '?' in address else '?'}{signature}&X-Amz-Signature=hush{day}"


def _rows(index: Path) -> int:
    fsp._framespool.flush_index()
    with sqlite3.connect(index / "framespool-index.sqlite3") as database:
        return database.execute("SELECT count(*) FROM lookup").fetchone()[0]


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
        with pytest.raises(fsp.errors.ReadError, match="status 403") as caught:
            fsp.Video(_signed(server.url("b.mp4"), 2), index=False)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("kind", ["list", "dataset", "members", "segments"])
def test_checkpoints_load_across_signatures(kind: str, content: bytes) -> None:
    def state(address: str, day: int, *, load: dict[str, object] | None = None) -> dict[str, object]:
        urls = [_signed(server.url(f"{name}{address}"), day) for name in ("a.mp4", "b.mp4")]
        if kind == "members":
            sources = [fsp.datasets.ArchiveMember(url, 0, len(content)) for url in urls]
        elif kind == "segments":
            sources = [fsp.datasets.VideoSegment(url, start_frame=0, end_frame=100) for url in urls]
        else:
            sources = urls
        samples = [(source, label) for label, source in enumerate(sources)]
        dataset = fsp.datasets.Dataset(samples) if kind == "dataset" else samples
        loader = fsp.ClipLoader(dataset, fsp.samplers.RandomClips(sequence_length=4), batch_size=1, index=False)
        if load is not None:
            loader.load_state_dict(load)
        return loader.state_dict()

    with FaultyServer(content).running() as server:
        monday = state("", 1)
        assert state("", 2, load=monday) == monday
        version = state("?versionId=1", 1)
        assert state("?versionId=1", 2, load=version) == version
        for address in ("", "?versionId=2"):
            with pytest.raises(fsp.errors.ArgumentError, match="the dataset"):
                state(address, 1, load=version)


# ---- AWS profiles --------------------------------------------------------------------------------------------------


@dataclass
class Profiles:
    """The files of the AWS tools in a home folder, and an S3 that records the requests."""

    home: Path
    server: FaultyServer
    environment: pytest.MonkeyPatch

    def write(self, name: str, text: str) -> None:
        (self.home / ".aws").mkdir(exist_ok=True)
        (self.home / ".aws" / name).write_text(textwrap.dedent(text))

    def read(self, key: str) -> dict[str, str]:
        """Reads an object; returns the headers of the last request."""
        _same_frames(f"s3://profiles/{key}", self.server.content)
        return self.server.headers[-1]


@pytest.fixture
def profiles(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Profiles]:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    with FaultyServer(content).running() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url("").rstrip("/"))
        yield Profiles(tmp_path, server, monkeypatch)


def test_keys_come_from_the_profile(profiles: Profiles) -> None:
    assert "authorization" not in profiles.read("anonymous.mp4")
    profiles.write(
        "credentials",
        """
        [default]
        aws_access_key_id = default-id
        aws_secret_access_key = default-secret

        [team]
        aws_access_key_id = team-id
        aws_secret_access_key = team-secret
        aws_session_token = team-token
        """,
    )
    profiles.write("config", "[default]\nregion = eu-north-1\n[profile team]\nregion = eu-west-3\n")
    profiles.environment.setenv("AWS_PROFILE", "team")
    sent = profiles.read("team.mp4")
    assert "Credential=team-id/" in sent["authorization"] and "/eu-west-3/s3/" in sent["authorization"]
    assert sent["x-amz-security-token"] == "team-token"
    profiles.environment.setenv("AWS_REGION", "us-west-1")
    assert "/us-west-1/s3/" in profiles.read("region.mp4")["authorization"]
    # Keys in the environment win, and the profile's token is not added to them.
    profiles.environment.setenv("AWS_ACCESS_KEY_ID", "environment-id")
    profiles.environment.setenv("AWS_SECRET_ACCESS_KEY", "environment-secret")
    sent = profiles.read("environment.mp4")
    assert "Credential=environment-id/" in sent["authorization"] and "x-amz-security-token" not in sent


def test_keys_come_from_the_default_profile(profiles: Profiles) -> None:
    keys = "aws_access_key_id = {0}-id\naws_secret_access_key = {0}-secret\n"
    profiles.write("credentials", f"[default]\n{keys.format('default')}")
    sent = profiles.read("default.mp4")
    # A token for other keys, from the environment, is not added.
    assert "Credential=default-id/" in sent["authorization"] and "/us-east-1/s3/" in sent["authorization"]
    for name, variable in (("other-keys", "AWS_SHARED_CREDENTIALS_FILE"), ("other-config", "AWS_CONFIG_FILE")):
        (profiles.home / name).write_text(f"[default]\n{keys.format(name)}")
        profiles.environment.setenv(variable, f"~/{name}")
    assert "Credential=other-keys-id/" in profiles.read("other.mp4")["authorization"]
    (profiles.home / "other-keys").unlink()
    profiles.environment.setenv("AWS_SESSION_TOKEN", "token-of-other-keys")
    sent = profiles.read("config.mp4")
    assert "Credential=other-config-id/" in sent["authorization"] and "x-amz-security-token" not in sent


def test_the_endpoint_comes_from_the_profile(profiles: Profiles) -> None:
    profiles.environment.delenv("AWS_ENDPOINT_URL")
    profiles.write("config", f"[default]\nendpoint_url = {profiles.server.url('').rstrip('/')}\n")
    assert profiles.read("endpoint.mp4")["host"] == f"127.0.0.1:{profiles.server.port}"
    profiles.environment.delenv("AWS_ALLOW_HTTP")
    with pytest.raises(fsp.errors.ArgumentError, match="endpoint_url of the AWS profile.*AWS_ALLOW_HTTP=true"):
        fsp.Video("s3://profiles/not-encrypted.mp4")


def test_an_unknown_profile_is_an_error(profiles: Profiles) -> None:
    keys = "aws_access_key_id = id\naws_secret_access_key = hush\n"
    profiles.write("credentials", f"[default]\n{keys}[team]\n{keys}")
    profiles.write("config", "[profile other]\nregion = eu-west-3\n[sso-session office]\n")
    profiles.environment.setenv("AWS_PROFILE", "missing")
    with pytest.raises(fsp.errors.ArgumentError) as caught:
        fsp.Video("s3://profiles/unknown.mp4")
    for part in ("s3://profiles/unknown.mp4", ".aws/credentials", ".aws/config", "(profiles: default, other, team)"):
        assert part in str(caught.value), caught.value
    assert "hush" not in str(caught.value) and not profiles.server.headers
    profiles.write("config", "[profile missing]\nrole_arn = arn:aws:iam::1:role/r\n")
    with pytest.raises(fsp.errors.ArgumentError, match="role_arn, which is not supported.*export-credentials"):
        fsp.Video("s3://profiles/role.mp4")


def test_a_profile_that_cannot_be_read_is_an_error_if_chosen(profiles: Profiles) -> None:
    (profiles.home / ".aws" / "credentials").mkdir(parents=True)
    assert "authorization" not in profiles.read("unreadable.mp4")
    profiles.environment.setenv("AWS_PROFILE", "team")
    with pytest.raises(fsp.errors.ArgumentError, match="credentials: not a regular file; make it readable"):
        fsp.Video("s3://profiles/unreadable-chosen.mp4")


def test_keys_come_from_a_process(profiles: Profiles) -> None:
    """It runs once for all files of a bucket."""
    output = {"Version": 1, "AccessKeyId": "process-id", "SecretAccessKey": "hush", "SessionToken": "process-token"}
    log, printed = profiles.home / "log", profiles.home / "printed.json"
    printed.write_text(json.dumps(output))
    profiles.write("config", f"[default]\ncredential_process = echo x >> '{log}'; cat '{printed}'\n")
    for name in ("a", "b"):
        sent = profiles.read(f"process-{name}.mp4")
        assert "Credential=process-id/" in sent["authorization"]
        assert sent["x-amz-security-token"] == "process-token"
    assert log.read_text() == "x\n"
    profiles.write("config", "[profile p]\ncredential_process = echo hush; exit 3\n")
    profiles.environment.setenv("AWS_PROFILE", "p")
    with pytest.raises(
        fsp.errors.ReadError, match='credential_process of the AWS profile "p" failed .*status: 3'
    ) as caught:
        fsp.Video("s3://profiles/process-failed.mp4")
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "answer", [FaultyResponse(status=403), FaultyResponse(status=400, body=b"<Code>ExpiredToken</Code>")]
)
def test_refused_keys_are_read_again(answer: FaultyResponse, profiles: Profiles) -> None:
    """A store with refused keys is not reused, so that new keys in the file are used at once."""
    url = f"s3://profiles/{answer.status}.mp4"
    text = "[default]\naws_access_key_id = {}\naws_secret_access_key = hush\naws_session_token = token\n"
    profiles.write("credentials", text.format("old-id"))
    profiles.server.plan = lambda *_: answer
    with pytest.raises(fsp.errors.ReadError, match=f"refused with status {answer.status}.*AWS_PROFILE") as caught:
        fsp.Video(url)
    assert "hush" not in str(caught.value)
    profiles.server.plan = lambda *_: FaultyResponse()
    profiles.write("credentials", text.format("new-id"))
    assert "Credential=new-id/" in profiles.read(f"{answer.status}.mp4")["authorization"]


# ---- Google Cloud Storage and Azure --------------------------------------------------------------------------------

#: A storage account's key.
AZURE_KEY = base64.b64encode(b"0123456789abcdef").decode()
MODIFIED = {"Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT"}


@pytest.fixture
def clouds(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyServer]:
    """A server for both clouds, which records the requests."""
    for name in [name for name in os.environ if name.startswith(("GOOGLE_", "AZURE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    with FaultyServer(content, lambda *_: FaultyResponse(headers=MODIFIED)).running() as server:
        endpoint = server.url("").rstrip("/")
        monkeypatch.setenv("GOOGLE_BASE_URL", endpoint)
        monkeypatch.setenv("GOOGLE_ALLOW_HTTP", "true")
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", endpoint)
        monkeypatch.setenv("AZURE_ALLOW_HTTP", "true")
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
        yield server


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"GOOGLE_BEARER_TOKEN": "token-of-google"}, "Bearer token-of-google"),
        ({"GOOGLE_SERVICE_ACCOUNT_KEY": "emulator"}, None),
    ],
    ids=["anonymous", "token", "service-account"],
)
def test_objects_of_google_cloud_storage(
    variables: dict[str, str], expected: str | None, clouds: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = {"private_key": "", "private_key_id": "", "client_email": "", "disable_oauth": True}
    for name, value in variables.items():
        monkeypatch.setenv(name, json.dumps(key) if value == "emulator" else value)
    # Another object than in other tests: what a server answered is trusted for some seconds.
    number = next(NUMBERS)
    _same_frames(f"gs://videos/folder/a {number}.mp4", clouds.content)
    assert set(clouds.paths) == {f"/videos/folder%2Fa%20{number}%2Emp4"}
    assert {headers.get("authorization") for headers in clouds.headers} == {expected} and all(clouds.ranges)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"AZURE_STORAGE_ACCOUNT_KEY": AZURE_KEY}, "SharedKey account:"),
        ({"AZURE_STORAGE_TOKEN": "token-of-azure"}, "Bearer token-of-azure"),
        ({"AZURE_STORAGE_SAS_TOKEN": "sv=2024-11-04&sig=hush"}, None),
    ],
    ids=["anonymous", "key", "token", "sas"],
)
@pytest.mark.parametrize("url", ["az://videos", "abfss://videos@account.dfs.core.windows.net"])
def test_blobs_of_azure(
    url: str, variables: dict[str, str], expected: str | None, clouds: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    number = next(NUMBERS)
    _same_frames(f"{url}/folder/a {number}.mp4", clouds.content)
    is_signed_url = "AZURE_STORAGE_SAS_TOKEN" in variables
    query = "?sv=2024-11-04&sig=hush" if is_signed_url else ""
    assert set(clouds.paths) == {f"/videos/folder/a%20{number}.mp4{query}"}
    for headers in clouds.headers:
        sent = headers.get("authorization")
        assert sent is None if expected is None else sent is not None and sent.startswith(expected)


def test_errors_name_the_variables_of_the_cloud(clouds: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    clouds.plan = lambda *_: FaultyResponse(status=403)
    for url, variable in (("gs://b/refused.mp4", "GOOGLE_APPLICATION"), ("az://c/refused.mp4", "AZURE_STORAGE_ACC")):
        monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=2024-11-04&sig=hush")
        with pytest.raises(fsp.errors.ReadError, match=f"refused with status 403.*{variable}") as caught:
            fsp.Video(url)
        assert url in str(caught.value) and "AWS" not in str(caught.value) and "hush" not in str(caught.value)
    clouds.plan = lambda *_: FaultyResponse(status=404)
    for url in ("gs://b/missing.mp4", "az://c/missing.mp4"):
        with pytest.raises(fsp.errors.NotFoundError, match=url):
            fsp.Video(url)
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME")
    with pytest.raises(fsp.errors.ArgumentError, match="set AZURE_STORAGE_ACCOUNT_NAME"):
        fsp.Video("az://c/account.mp4")
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", '"hush"')
    with pytest.raises(fsp.errors.ArgumentError, match="credentials cannot be used .line 1, column") as caught:
        fsp.Video("gs://b/key.mp4")
    assert "hush" not in str(caught.value)
    for scheme in ("GOOGLE", "AZURE"):
        monkeypatch.delenv(f"{scheme}_ALLOW_HTTP")
    for url in ("gs://b/plain.mp4", "az://c/plain.mp4"):
        with pytest.raises(
            fsp.errors.ArgumentError, match=r"http:// URL, which is not encrypted; set \w+_ALLOW_HTTP=true"
        ):
            fsp.Video(url)


def test_a_failure_list_excludes_a_file_with_another_signature(tmp_path: Path) -> None:
    from framespool.datasets._failures import failure_record

    record = failure_record(_signed("https://host/a.mp4", 1), "decode")
    assert "hush" not in str(record)
    (tmp_path / "bad.jsonl").write_text(json.dumps(record) + "\n")
    names = ("a.mp4", "b.mp4", "a.mp4?versionId=7")
    urls = [_signed(f"https://host/{name}", 2) for name in names]
    rest = fsp.datasets.Dataset([(url, number) for number, url in enumerate(urls)]).exclude(tmp_path / "bad.jsonl")
    assert [label for _, label in rest] == [1, 2]
