"""Videos by URL: the frames equal those of the file, with few requests, in any process."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import subprocess
import sys
import tarfile
import textwrap
from pathlib import Path
from typing import Any

import framespool as fsp
import numpy as np
import pytest
from processes import exit_code
from servers import S3, FaultyResponse, FaultyServer, Nginx, hash_of, reading_costs

KIB = 1 << 10

#: One of each container, MP4s with their tables at the start and at the end, with one key packet and with many.
FILES = [
    "action/words",
    "1080p/bunny_25p.mp4",
    "odd/editlist_hevc10_rot90.mp4",
    "derived/fragmented_640x360.mp4",
    "codecs/vp9_10bit.webm",
    "1080p/bunny_30p.mkv",
    "codecs/hevc_single_keyframe.ts",
    "codecs/mjpeg_320x240.avi",
    "odd/resolution_change_vp9.ivf",
    "codecs/wmv2_640x360.wmv",
    "derived/prores_422.mov",
]


def _file(videos: Path, name: str) -> Path:
    path = videos / name
    return sorted(path.iterdir())[0] if path.is_dir() else path


def _some(count: int) -> list[int]:
    """Frames from the complete video, in random order."""
    return sorted({1, count // 3, 2 * count // 3, count - 1}, key=lambda i: (i * 7919) % 101)


def _same(path: Path, url: str) -> None:
    local, remote = fsp.Video(path), fsp.Video(url)
    assert len(local) == len(remote)
    assert remote.pts_seconds == local.pts_seconds
    assert hash_of(remote, _some(len(local))) == hash_of(local, _some(len(local)))


# ---- the same frames -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_frames_by_url_are_those_of_the_file(name: str, videos: Path, nginx: Nginx) -> None:
    path = _file(videos.resolve(), name)
    _same(path, nginx.url(path))


@pytest.mark.parametrize("name", FILES[:6])
def test_frames_out_of_a_bucket_are_those_of_the_file(
    name: str, videos: Path, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _file(videos, name)
    s3.put("videos")
    s3.put(f"videos/some folder/{path.name}", path.read_bytes())
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    _same(path, f"s3://videos/some folder/{path.name}")


def test_public_bucket_needs_no_credentials(
    short_clips: list[tuple[str, int]], s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(short_clips[1][0])
    s3.put("public", acl="public-read")
    s3.put(f"public/{path.name}", path.read_bytes(), acl="public-read")
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    _same(path, f"s3://public/{path.name}")


def test_an_unprotected_endpoint_must_be_allowed(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    with pytest.raises(fsp.errors.ArgumentError, match="AWS_ALLOW_HTTP=true"):
        fsp.Video("s3://bucket/never-asked-for.mp4")


def _batches(entries: Any, **settings: Any) -> tuple[list[str], dict[str, Any]]:
    rule = fsp.samplers.RandomClips(sequence_length=8, stride=2)
    loader = fsp.ClipLoader(
        entries, rule, batch_size=4, num_threads=2, seed=3, transforms=[fsp.transforms.Resize((96, 96))], **settings
    )
    digests = [
        hashlib.sha256(np.asarray(batch.frames).tobytes() + np.asarray(batch.labels).tobytes()).hexdigest()
        for batch in loader
    ]
    return digests, loader.stats()


def test_a_loader_gives_the_same_batches_over_urls(short_clips: list[tuple[str, int]], nginx: Nginx) -> None:
    before = len(nginx.requests())
    urls = [(nginx.url(Path(path).resolve()), label) for path, label in short_clips]
    (over_urls, stats), (over_paths, plain) = _batches(urls), _batches(short_clips)
    assert over_urls == over_paths
    assert plain["remote_requests"] == 0 == plain["remote_bytes"]
    # These videos are smaller than a megabyte: each needs at most two requests, and is not read twice.
    sent = nginx.requests()[before:]
    size = sum(Path(path).stat().st_size for path, _ in short_clips)
    assert 0 < stats["remote_requests"] == len(sent) <= 2 * len(short_clips)
    assert stats["remote_bytes"] == sum(bytes_sent for _, bytes_sent, *_ in sent) <= size
    assert stats["remote_retries"] == 0 < stats["remote_cache_hits"]


def test_datasets_take_urls_and_roots_that_are_urls(
    short_clips: list[tuple[str, int]], nginx: Nginx, tmp_path: Path
) -> None:
    paths = [Path(path).resolve() for path, _ in short_clips[:3]]
    (tmp_path / "names.txt").write_text("".join(f"{path.name} {n}\n" for n, path in enumerate(paths)))
    (tmp_path / "urls.txt").write_text("".join(f"{nginx.url(path)} {n}\n" for n, path in enumerate(paths)))
    urls = [(nginx.url(path), n) for n, path in enumerate(paths)]
    for root in (nginx.url(paths[0].parent), nginx.url(paths[0].parent) + "/"):
        assert [(str(p), n) for p, n in fsp.datasets.annotation_file(tmp_path / "names.txt", root=root).samples] == urls
    dataset = fsp.datasets.annotation_file(tmp_path / "urls.txt")
    assert [(str(path), n) for path, n in dataset.samples] == urls
    left = dataset.exclude([urls[1][0]])
    assert [str(path) for path, _ in left.samples] == [urls[0][0], urls[2][0]]
    with pytest.raises(fsp.errors.ArgumentError, match="cannot be listed"):
        fsp.datasets.folder(nginx.url(paths[0].parent))


def test_shards_are_read_where_they_are(
    short_clips: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("shards").resolve()
    for number in range(2):
        with tarfile.open(root / f"s-{number:03}.tar", "w") as tar:
            for at, (path, label) in enumerate(short_clips[number * 4 : number * 4 + 4]):
                for name, content in ((f"{at}.mp4", Path(path).read_bytes()), (f"{at}.cls", str(label).encode())):
                    header = tarfile.TarInfo(name)
                    header.size = len(content)
                    tar.addfile(header, io.BytesIO(content))
    server = Nginx(root, tmp_path_factory.mktemp("nginx-of-shards"))
    server.start()
    try:
        pattern = str(root / "s-{000..001}.tar")
        by_path = fsp.datasets.webdataset(pattern)
        by_url = fsp.datasets.webdataset(f"http://127.0.0.1:{server.port}/s-{{000..001}}.tar")
        assert [label for _, label in by_url.samples] == [label for _, label in by_path.samples]
        listed = len(server.requests())
        assert listed <= 2 * len(by_url.samples), "about one request for a header"
        assert _batches(by_url)[0] == _batches(by_path)[0]
        # With stored member lists, a shard costs a few requests.
        for number in range(2):
            with tarfile.open(root / f"s-{number:03}.tar") as tar:
                members = [(tar.getmember(name), tar.getmember(name[0] + ".cls")) for name in tar.getnames()[::2]]
            rows = [
                " ".join(f"{m.name.split('.')[1]} {m.offset_data} {m.size} {m.name}" for m in pair) for pair in members
            ]
            (root / f"s-{number:03}.idx").write_text("\n".join([f"v1.2 {len(rows)}", *rows]) + "\n")
        assert fsp.datasets.webdataset(pattern, index=True) == by_path
        assert fsp.datasets.webdataset(pattern, index=[root / "s-000.idx", root / "s-001.idx"]) == by_path
        server.stop()
        server.start()
        before = len(server.requests())
        indexed = fsp.datasets.webdataset(f"http://127.0.0.1:{server.port}/s-{{000..001}}.tar?x=1", index=True)
        assert [label for _, label in indexed.samples] == [label for _, label in by_path.samples]
        assert indexed[0][0].offset_bytes == by_path[0][0].offset_bytes
        asked = len(server.requests()) - before
        print(f"{len(indexed)} samples listed in {listed} requests by headers, {asked} by indices")
        with pytest.raises(fsp.errors.ArgumentError, match="1 indices for 2 shards"):
            fsp.datasets.webdataset(pattern, index=root / "s-000.idx")
        with pytest.raises(fsp.Error, match="create the index again"):
            fsp.datasets.webdataset(root / "s-001.tar", index=root / "s-000.idx")
    finally:
        server.stop()


def test_lists_are_read_where_they_are(
    short_clips: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("lists").resolve()
    (root / "list.txt").write_text("a.mp4 3\nb/c.mp4 4\n")
    (root / "clips.jsonl").write_text(json.dumps({"uri": "a.mp4", "label": 7}) + "\n")
    server = Nginx(root, tmp_path_factory.mktemp("nginx-of-lists"))
    server.start()
    try:
        address = f"http://127.0.0.1:{server.port}"
        listed = [(str(path), label) for path, label in fsp.datasets.annotation_file(f"{address}/list.txt")]
        assert listed == [(f"{address}/a.mp4", 3), (f"{address}/b/c.mp4", 4)]
        assert fsp.datasets.json_lines(f"{address}/clips.jsonl").samples == [(f"{address}/a.mp4", 7)]
        with pytest.raises(fsp.errors.NotFoundError, match=r"gone\.txt"):
            fsp.datasets.annotation_file(f"{address}/gone.txt")
    finally:
        server.stop()


# ---- few requests --------------------------------------------------------------------------------------------------


def test_clip_reads_its_gops_in_one_or_two_requests(content: bytes, tmp_path: Path) -> None:
    wanted = list(range(270, 334, 4))  # of the third group of six
    (tmp_path / "long.mp4").write_bytes(content)
    server = Nginx(tmp_path.resolve(), tmp_path)
    server.start()
    try:
        opened, clip, again = reading_costs(server.url(tmp_path / "long.mp4"), content, wanted, wanted)
        assert opened["requests"] + clip["requests"] == len(server.requests())
        assert 1 <= clip["requests"] <= 2 and 0 < clip["bytes"] < len(content) / 6, clip
        assert again["requests"] == 0, "it is in memory now"
    finally:
        server.stop()


def test_tables_at_the_end_cost_one_more_request(content: bytes) -> None:
    assert content.index(b"moov") > content.index(b"mdat")
    with FaultyServer(content).running() as server:
        opened, _ = reading_costs(server.url(), content, [len(fsp.Video(content)) - 1])
    assert opened["requests"] <= 8 and opened["bytes"] < len(content) / 2, (opened, server.ranges)


def test_stored_index_saves_requests(videos: Path, tmp_path: Path) -> None:
    path = videos / "1080p" / "bunny_25p.mp4"
    program = """
        import sys, framespool as fsp
        video = fsp.Video(sys.argv[1], index=sys.argv[2])
        print(len(video), video.info.path, fsp.tools.remote_stats()["remote_requests"])
    """
    etag = ['"one"']
    with FaultyServer(path.read_bytes(), lambda *_: FaultyResponse(etag=etag[0])).running() as server:

        def run(url: str) -> tuple[int, str, int]:
            command = [sys.executable, "-c", textwrap.dedent(program), url, str(tmp_path)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            count, name, requests = done.stdout.split()
            return int(count), name, int(requests)

        url = f"http://me:hush@127.0.0.1:{server.port}/v.mp4?signature=hush"
        first, second = run(url), run(url)
        assert first[0] == second[0] == len(fsp.Video(path))
        assert first[2] > second[2] == 1, "the head alone"
        etag[0] = '"two"'
        assert run(url)[2] == first[2], "another state of the file"
    assert first[1] == f"http://127.0.0.1:{server.port}/v.mp4?…"
    assert not any(b"hush" in file.read_bytes() for file in tmp_path.iterdir())


# ---- processes -----------------------------------------------------------------------------------------------------


def test_a_forked_child_makes_connections_of_its_own(short_clips: list[tuple[str, int]], nginx: Nginx) -> None:
    path = Path(short_clips[0][0]).resolve()
    video = fsp.Video(nginx.url(path))
    expected = hash_of(fsp.Video(path), [5])
    assert hash_of(video, [5]) == expected
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if hash_of(fsp.Video(nginx.url(path)), [5]) == expected else 2
        finally:
            os._exit(code)
    assert exit_code(child) == 0


def test_fork_during_a_read_does_not_hang(short_clips: list[tuple[str, int]], nginx: Nginx) -> None:
    # Each delay has a process of its own, without connections so far, which forks while another thread reads.
    program = """
        import os, sys, threading, time, framespool as fsp

        def fork(work, *arguments):
            child = os.fork()
            if child == 0:
                try:
                    os._exit(work(*arguments))
                finally:
                    os._exit(1)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

        def read():
            fsp.Video(sys.argv[1])
            return 7

        def read_and_fork(delay):
            thread = threading.Thread(target=read)
            thread.start()
            time.sleep(delay)
            code = fork(read)
            thread.join()
            return code

        print([fork(read_and_fork, 0.001 * delay) for delay in range(10)])
    """
    url = nginx.url(Path(short_clips[0][0]).resolve())
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program), url]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.strip() == str([7] * 10), (done.stdout, done.stderr)


def test_a_video_by_url_is_pickled(short_clips: list[tuple[str, int]], nginx: Nginx) -> None:
    video = fsp.Video(nginx.url(Path(short_clips[0][0]).resolve()))
    assert hash_of(pickle.loads(pickle.dumps(video)), [3]) == hash_of(video, [3])


def test_other_kinds_of_urls_are_refused_by_name() -> None:
    with pytest.raises(fsp.errors.UnsupportedError, match="ftp://"):
        fsp.Video("ftp://host/a.mp4")
    with pytest.raises(fsp.errors.ArgumentError, match="s3://bucket/key"):
        fsp.Video("s3://bucket")


def test_a_cache_of_nothing_reads_all_the_same(videos: Path, nginx: Nginx) -> None:
    path = (videos / "1080p" / "bunny_30p.mkv").resolve()
    program = "import sys, framespool as fsp; v = fsp.Video(sys.argv[1]); print(len(v), len(v.frames([3, 40])))"
    for budget, fails in (("0", False), ("300 KiB", False), ("much", True)):
        done = subprocess.run(
            [sys.executable, "-c", program, nginx.url(path)],
            capture_output=True,
            text=True,
            env={**os.environ, "FRAMESPOOL_REMOTE_CACHE": budget},
        )
        assert ("FRAMESPOOL_REMOTE_CACHE" in done.stderr) == fails, done.stderr
        assert fails or done.stdout.split() == [str(len(fsp.Video(path))), "2"]


# ---- the Hugging Face Hub ------------------------------------------------------------------------------------------


def test_files_on_the_hub(videos, monkeypatch, tmp_path):
    """An address on the Hub is requested there with the user's token; its storage, to which it redirects, without."""
    path = videos / "derived" / "base_640x360.mp4"
    with FaultyServer(path.read_bytes()).running() as storage:
        redirection = FaultyResponse(status=302, headers={"Location": storage.url("blob?signature=1")})
        with FaultyServer(b"", lambda *_: redirection).running() as hub:
            monkeypatch.setenv("HF_ENDPOINT", hub.url("").rstrip("/"))
            monkeypatch.setenv("HF_TOKEN", "hidden-token")
            _same(path, "hf://datasets/me/set@v1/videos/a b.mp4")
            assert set(hub.paths) == {"/datasets/me/set/resolve/v1/videos/a%20b.mp4"}
            assert set(hub.authorizations) == {"Bearer hidden-token"}
            assert set(storage.paths) == {"/blob?signature=1"} and set(storage.authorizations) == {None}
            loader = fsp.ClipLoader(
                ["hf://me/model/clip.mp4"], fsp.samplers.Windows(sequence_length=8), batch_size=4, index=False
            )
            assert sum(len(batch) for batch in loader) == 9
            # A token of another kind: the file that a login writes, and none.
            monkeypatch.delenv("HF_TOKEN")
            (tmp_path / "token").write_text("from-file\n")
            for home, sent in ((tmp_path, "Bearer from-file"), (tmp_path / "none", None)):
                monkeypatch.setenv("HF_HOME", str(home))
                count = len(hub.authorizations)
                fsp.Video(f"hf://datasets/me/set/{home.name}.mp4", index=False).frames([0])
                assert set(hub.authorizations[count:]) == {sent}
        with FaultyServer(b"", lambda *_: FaultyResponse(status=404)).running() as hub:
            monkeypatch.setenv("HF_ENDPOINT", hub.url("").rstrip("/"))
            monkeypatch.setenv("HF_TOKEN", "hidden-token")
            with pytest.raises(fsp.errors.NotFoundError, match="hf://datasets/me/set/missing.mp4") as failed:
                fsp.Video("hf://datasets/me/set/missing.mp4")
            assert "hidden" not in str(failed.value)
    with pytest.raises(fsp.errors.ArgumentError, match="write hf://datasets/owner/name/path"):
        fsp.Video("hf://datasets/me/set")
