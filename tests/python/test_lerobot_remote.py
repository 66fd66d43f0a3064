"""LeRobot datasets by URL: equal to the folder, read in ranges, and what is missing is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import framespool as fsp
import pytest
from lerobot_writer import FPS, LENGTHS, TOP, WRIST, write
from servers import S3, Nginx

DELTAS = {TOP: [-1 / FPS, 0.0], "action": [0.0, 1 / FPS], "observation.map": [0.0]}
REPOSITORY = "datasets/me/arm/resolve/main"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Nginx]:
    """A server of an empty folder with the path of a repository on the Hub."""
    root = (tmp_path / "served").resolve()
    (root / REPOSITORY).mkdir(parents=True)
    server = Nginx(root, tmp_path)
    server.start()
    yield server
    server.stop()


def address(server: Nginx, folder: Path) -> str:
    """A URL of a folder that was not used before: files that the process knows are not requested again for seconds."""
    number = len(list(server.root.glob("link-*")))
    (server.root / f"link-{number}").symlink_to(folder)
    return f"http://127.0.0.1:{server.port}/link-{number}"


def everything(dataset, **settings) -> list[dict[str, object]]:
    """All batches of an epoch, as bytes."""
    loader = fsp.ClipLoader(dataset, batch_size=8, shuffle=True, seed=2, index=False, **settings)
    names = [TOP, WRIST, "action", "action_is_pad", "observation.map", "next.done", "index", "timestamp"]
    return [{**{name: batch[name].tobytes() for name in names}, "task": batch["task"]} for batch in loader]


@pytest.mark.parametrize("version", ["v3.0", "v2.1"])
@pytest.mark.parametrize("kind", ["http", "hf"])
def test_a_url_is_equal_to_the_folder(served, videos, monkeypatch, version, kind):
    folder = served.root / REPOSITORY.replace("arm", version)
    write(folder, videos, version, split=18)
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{served.port}")
    monkeypatch.setenv("HF_HOME", str(served.place))
    root = f"hf://datasets/me/{version}" if kind == "hf" else served.url(folder) + "/"
    local, remote = (fsp.datasets.lerobot(place, delta_timestamps=DELTAS) for place in (folder, root))
    assert remote.columns == local.columns and local.classes == remote.classes
    if version == "v3.0":
        assert len(everything(remote)) == 6 and everything(remote) == everything(local)
    else:  # the files have more frames than the episodes
        first = [next(iter(fsp.ClipLoader(each, batch_size=17, index=False))) for each in (remote, local)]
        assert first[0][TOP].tobytes() == first[1][TOP].tobytes()
        assert first[0]["action"].tobytes() == first[1]["action"].tobytes()
    one = fsp.datasets.lerobot(root, camera=TOP)
    assert [label for _, label in one] == [0, 1, 0]


def test_a_bucket(s3: S3, videos, tmp_path, monkeypatch):
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "arm"
    write(folder, videos, split=18)
    s3.put("robots")
    for path in folder.rglob("*"):
        if path.is_file():
            s3.put(f"robots/sets/arm/{path.relative_to(folder)}", path.read_bytes())
    remote = fsp.datasets.lerobot("s3://robots/sets/arm", delta_timestamps=DELTAS)
    assert everything(remote) == everything(fsp.datasets.lerobot(folder, delta_timestamps=DELTAS))


def test_only_what_is_needed_is_read(served, videos):
    folder = served.root / REPOSITORY
    write(folder, videos, split=18)
    remote = fsp.datasets.lerobot(served.url(folder), camera=[WRIST], episodes=[2], delta_timestamps={"action": [0.0]})
    assert {Path(path).name for *_, path, _ in served.requests()} == {"info.json", "tasks.parquet", "file-000.parquet"}
    before = len(served.requests())
    loader = fsp.ClipLoader(remote, batch_size=24, index=False)
    (batch,) = loader
    assert batch["index"].tolist() == list(range(18, 42)) and batch["action"].shape == (24, 1, 3)
    requests = served.requests()[before:]
    tables = {path for *_, path, _ in requests if "/data/" in path}
    assert {Path(path).name for path in tables} == {"file-001.parquet"}
    assert {path for *_, path, _ in requests if "/videos/" in path} == {
        f"/{REPOSITORY}/videos/{WRIST}/chunk-000/file-000.mp4"
    }
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert 0 < sum(sent for _, sent, *_ in served.requests()) < size / 2


def test_tables_of_episodes_are_found_without_a_listing(served, videos):
    """Files of a chunk, and the next chunk; the metadata states how many episodes there are."""
    import pyarrow.parquet as pq

    folder = served.root / REPOSITORY
    write(folder, videos, split=18, chunks_size=2)
    meta = folder / "meta/episodes"
    rows = pq.read_table(meta / "chunk-000/file-000.parquet")
    (meta / "chunk-001").mkdir()
    for number, name in enumerate(("chunk-000/file-000", "chunk-000/file-001", "chunk-001/file-000")):
        pq.write_table(rows.slice(number, 1), meta / f"{name}.parquet")
    assert len(fsp.datasets.lerobot(address(served, folder), camera=TOP)) == 3
    (meta / "chunk-001/file-000.parquet").unlink()
    with pytest.raises(fsp.errors.NotFoundError, match=r"meta/episodes/chunk-001/file-000\.parquet"):
        fsp.datasets.lerobot(address(served, folder), camera=TOP)
    with pytest.raises(fsp.errors.ArgumentError, match='"total_episodes" is 3, but the metadata lists 2'):
        fsp.datasets.lerobot(folder, camera=TOP)
    pq.write_table(rows.slice(0, 0), meta / "chunk-001/file-000.parquet")
    with pytest.raises(fsp.errors.ArgumentError, match="has no rows, but info.json states 3 episodes and 2 were found"):
        fsp.datasets.lerobot(address(served, folder), camera=TOP)


def read_first(root: str) -> None:
    next(iter(fsp.ClipLoader(fsp.datasets.lerobot(root, delta_timestamps=DELTAS), batch_size=42, index=False)))


@pytest.mark.parametrize("version", ["v3.0", "v2.1"])
def test_missing_and_truncated_files_are_named(served, videos, tmp_path, version):
    intact = tmp_path / "intact"
    write(intact, videos, version, split=18)
    names = {
        "v3.0": ("tasks.parquet", "episodes/chunk-000/file-000.parquet", "chunk-000/file-001.parquet"),
        "v2.1": ("tasks.jsonl", "episodes.jsonl", "chunk-000/episode_000001.parquet"),
    }[version]
    files = ["meta/info.json", f"meta/{names[0]}", f"meta/{names[1]}", f"data/{names[2]}"]
    assert all((intact / file).is_file() for file in files)
    for number, file in enumerate(files):
        for how in ("missing", "truncated"):
            folder = served.root / f"{number}-{how}"
            shutil.copytree(intact, folder, symlinks=True)
            if how == "missing":
                (folder / file).unlink()
            else:
                content = (folder / file).read_bytes()
                (folder / file).write_bytes(content[: len(content) // 2])
            expected = fsp.errors.NotFoundError if how == "missing" else (ValueError, fsp.Error)
            with pytest.raises(expected, match=Path(file).name.replace(".", r"\.")):
                read_first(address(served, folder))


def test_a_table_that_lacks_rows_is_named(served, videos):
    import pyarrow.parquet as pq

    folder = served.root / REPOSITORY
    write(folder, videos, split=18)
    path = folder / "data/chunk-000/file-001.parquet"
    rows = pq.read_table(path)
    pq.write_table(rows.slice(0, 10), path)
    with pytest.raises(fsp.errors.ArgumentError, match=r"file-001\.parquet has the rows 18 to 28, .* have 18 to 42"):
        read_first(address(served, folder))
    with pytest.raises(fsp.errors.ArgumentError, match="not all of rows 18 to 42 of episode 2"):
        read_first(str(folder))
    pq.write_table(rows.take([0, 2, *range(2, 24)]), path)
    with pytest.raises(fsp.errors.ArgumentError, match=r"file-001\.parquet, row 1: index is 20, expected 19"):
        read_first(address(served, folder))


def test_metadata_must_state_the_files(served, videos):
    folder = served.root / REPOSITORY
    write(folder, videos, split=18)
    path = folder / "meta/info.json"
    intact = json.loads(path.read_text())
    for key, read in (
        ("total_episodes", lambda root: fsp.datasets.lerobot(root, camera=TOP)),
        ("data_path", read_first),
    ):
        path.write_text(json.dumps({name: value for name, value in intact.items() if name != key}))
        with pytest.raises(fsp.errors.ArgumentError, match=rf"info\.json: \"{key}\" must be"):
            read(address(served, folder))
        read(str(folder)), "a folder on a disk is listed"
    path.write_text(json.dumps(intact | {"data_path": "../{file_index}.parquet"}))
    with pytest.raises(fsp.errors.ArgumentError, match=r"data_path in .*info\.json .*does not lead to a file below"):
        read_first(address(served, folder))


def test_addresses_that_are_no_folder():
    for url, reason in (
        ("https://huggingface.co/datasets/lerobot/aloha", "pass 'hf://datasets/lerobot/aloha'"),
        ("https://huggingface.co/datasets/lerobot/aloha/tree/main", "pass 'hf://datasets/lerobot/aloha'"),
        ("https://host/aloha?X-Amz-Signature=1", "with a query"),
    ):
        with pytest.raises(fsp.errors.ArgumentError, match=reason.replace("?", r"\?")):
            fsp.datasets.lerobot(url, camera=TOP)
    with pytest.raises(fsp.errors.ArgumentError, match="root must be a path or a URL"):
        fsp.datasets.lerobot(3)
    assert sum(LENGTHS) == 42
