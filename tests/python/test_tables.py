"""Parquet tables: rows are the videos that they name or contain, and damage is an error."""

from __future__ import annotations

import io
import json
import pickle
import random
from pathlib import Path

import framespool as fsp
import pytest
from framespool.datasets import ArchiveMember, TableCell, VideoSegment
from PIL import Image
from servers import Nginx
from small_loaders import KEYWORDS, clips, damaged, digest

pa = pytest.importorskip("pyarrow", reason="pyarrow writes the tables; see requirements-dev.txt")
pq = pytest.importorskip("pyarrow.parquet")

#: Encodings of byte columns: compression, dictionaries, page version.
WAYS = [
    ("none", False, "1.0"),
    ("none", False, "2.0"),
    ("none", True, "1.0"),
    ("snappy", True, "1.0"),
    ("snappy", False, "2.0"),
    ("zstd", False, "1.0"),
    ("gzip", True, "2.0"),
    ("lz4", False, "1.0"),
]


def table(entries, **columns):
    """A table of images or videos in the format of the library ``datasets``."""
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    values = [{"bytes": Path(path).read_bytes(), "path": Path(path).name} for path, _ in entries]
    labels = pa.array([label for _, label in entries], pa.int64())
    return pa.table({"image": pa.array(values, kind), "label": labels, **columns})


def content(dataset) -> list[bytes]:
    """The contents of a dataset's members."""
    found = []
    for source, _ in dataset:
        with open(source.file, "rb") as file:
            file.seek(source.offset_bytes)
            found.append(file.read(source.num_bytes))
    return found


@pytest.mark.parametrize(("compression", "dictionary", "version"), WAYS)
def test_bytes_give_the_batches_of_the_plain_files(tmp_path, photos, short_clips, compression, dictionary, version):
    how = {"compression": compression, "use_dictionary": dictionary, "data_page_version": version}
    for number, (entries, loader) in enumerate(
        ((photos, lambda d: fsp.ImageLoader(d, **KEYWORDS)), (short_clips, clips))
    ):
        files = []
        for half in (0, 1):
            files.append(tmp_path / f"{number}-{half}.parquet")
            part = entries[half * 7 :][: 7 if half == 0 else None]
            pq.write_table(table(part), files[-1], row_group_size=5, data_page_size=1 << 16, **how)
        dataset = fsp.datasets.parquet(str(tmp_path / f"{number}-*.parquet"), source="image")
        assert [label for _, label in dataset] == [label for _, label in entries]
        kinds = {type(source) for source, _ in dataset}
        assert kinds == ({ArchiveMember} if compression == "none" and not dictionary else {TableCell})
        if kinds == {ArchiveMember}:
            assert content(dataset) == [Path(path).read_bytes() for path, _ in entries]
        assert digest(loader(dataset)) == digest(loader(entries))
    first = dataset[0][0]
    assert fsp.Video(first)[3].tobytes() == fsp.Video(short_clips[0][0])[3].tobytes()
    assert pickle.loads(pickle.dumps(first)) == first
    assert "!image.bytes[0]" in fsp.Video(first).info.path


def test_a_row_without_bytes_is_named(tmp_path, photos):
    for compression in ("none", "snappy"):
        values = [Path(photos[0][0]).read_bytes(), None, Path(photos[1][0]).read_bytes()]
        path = tmp_path / f"{compression}.parquet"
        pq.write_table(
            pa.table({"jpg": pa.array(values, pa.binary())}), path, compression=compression, use_dictionary=False
        )
        if compression == "snappy":
            # Only its page has it, which is not decompressed for the list.
            dataset = fsp.datasets.parquet(path, source="jpg")
            loader = fsp.ImageLoader(dataset, batch_size=1, on_error="skip", shuffle=False)
            assert sum(len(batch.labels) for batch in loader) >= 2
            (failure,) = loader.failures()
            assert failure["path"] == str(path) and failure["cell"] == {"column": "jpg", "row": 1}
            assert "row 1 has no value in column 'jpg'" in failure["message"]
            assert dataset.exclude([failure]).samples == [dataset.samples[0], dataset.samples[2]]
            continue
        with pytest.raises(fsp.errors.ArgumentError, match=r"none\.parquet, row 1: column 'jpg' has no value"):
            fsp.datasets.parquet(path, source="jpg")
        with pytest.warns(UserWarning, match="1 skipped"):
            assert len(fsp.datasets.parquet(path, source="jpg", on_error="skip")) == 2


def test_rows_may_name_videos_and_parts_of_them(tmp_path, short_clips):
    path = tmp_path / "t" / "a.parquet"
    path.parent.mkdir()
    uris = [short_clips[0][0], Path(short_clips[1][0]).as_uri(), "x.mp4", "y.mp4"]
    rows = {
        "uri": uris,
        "label": ["run", "jump", "run", None],
        "start": [0.25, None, 1.0, None],
        "end": [1.5, None, None, 2.0],
        "caption": ["a", "b", None, "d"],
        "score": [1, 2, 3, 4],
        "good": [True, False, None, True],
        "tags": [["x"], [], None, ["y", "z"]],
        "when": pa.array([0, 1, 2, 3], pa.timestamp("ms")),
    }
    pq.write_table(pa.table(rows), path)
    dataset = fsp.datasets.parquet(path)
    folder = path.parent
    assert dataset.samples == [
        (VideoSegment(short_clips[0][0], start_seconds=0.25, end_seconds=1.5), 1),
        (str(short_clips[1][0]), 0),
        (VideoSegment(str(folder / "x.mp4"), start_seconds=1.0), 1),
        (VideoSegment(str(folder / "y.mp4"), end_seconds=2.0), -1),
    ]
    assert dataset.classes == ["jump", "run"]
    given = fsp.datasets.parquet(path, classes=["run", "walk", "jump"])
    assert given.classes == ["run", "walk", "jump"] and [label for _, label in given][:2] == [0, 2]
    with pytest.raises(fsp.errors.ArgumentError, match="row 1: 'jump' is not one of the 1 classes"):
        fsp.datasets.parquet(path, classes=["run"])
    assert dataset.columns == {name: rows[name] for name in ("caption", "score", "good")}
    chosen = fsp.datasets.parquet(path, columns=["tags", "when"], label="score", root="/r")
    assert chosen.columns["tags"] == rows["tags"] and chosen.columns["when"][1].startswith("1970-01-01")
    assert [label for _, label in chosen] == [1, 2, 3, 4] and chosen[2][0].source == "/r/x.mp4"
    assert fsp.datasets.parquet(path, columns=()).columns == {}
    # The same as lines of JSON.
    lines = tmp_path / "t" / "a.jsonl"
    names = ("uri", "label", "start", "end", "caption", "score", "good")
    lines.write_text("".join(json.dumps({n: rows[n][i] for n in names}) + "\n" for i in range(4)))
    assert fsp.datasets.json_lines(lines) == dataset
    frames = tmp_path / "f.parquet"
    pq.write_table(pa.table({"clip": [{"path": "a.mp4"}], "from": [3], "to": [9]}), frames)
    read = fsp.datasets.parquet(frames, source="clip.path", start="from", end="to", in_frames=True)
    assert read.samples == [(VideoSegment(str(tmp_path / "a.mp4"), start_frame=3, end_frame=9), -1)]


def test_class_label_names_are_read_from_metadata(tmp_path, photos):
    features = {"info": {"features": {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}}
    made = table([(photos[0][0], 1), (photos[1][0], 0)])
    path = tmp_path / "c.parquet"
    pq.write_table(made.replace_schema_metadata({"huggingface": json.dumps(features)}), path)
    dataset = fsp.datasets.parquet(tmp_path, source="image")
    assert dataset.classes == ["cat", "dog"] and [label for _, label in dataset] == [1, 0]
    given = fsp.datasets.parquet(tmp_path, source="image", classes=["dog", "bird", "cat"])
    assert given.classes == ["dog", "bird", "cat"] and [label for _, label in given] == [0, 2]
    with pytest.raises(fsp.errors.ArgumentError, match="the label 'dog' is not one of the 1 classes"):
        fsp.datasets.parquet(tmp_path, source="image", classes=["cat"])


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_columns_of_types_without_labels_are_refused(tmp_path, kind):
    rows = {
        "uri": ["a.mp4", "b.mp4"],
        "binary": [b"1", b"2"],
        "fixed": pa.array([b"11", b"22"], pa.binary(2)),
        "decimal": pa.array([1, 2], pa.decimal128(4, 2)),
        "small_decimal": pa.array([1, 2], pa.decimal32(4, 2)),
        "date": pa.array([0, 1], pa.date32()),
        "time": pa.array([0, 1], pa.time64("us")),
        "moment": pa.array([0, 1], pa.timestamp("us")),
        "struct": [{"a": 1, "bytes": b"1"}] * 2,
        "numbers": [[1], [2, 3]],
        "parts": [[{"a": 1}], []],
        "images": [[b"1"], []],
        "half": pa.array([0.5, 1.5], pa.float16()),
        "unsigned": pa.array([0, 1], pa.uint8()),
        "categories": pa.array(["walk", "run"]).dictionary_encode(),
    }
    path = tmp_path / f"t.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table(rows), path, store_schema=False)
        read = fsp.datasets.parquet
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, pa.table(rows).schema) as writer:
            writer.write_table(pa.table(rows))
        read = fsp.datasets.arrow
    refused = {"binary": "bytes", "fixed": "bytes", "struct": "struct", "small_decimal": "decimal"}
    for name in (*refused, "decimal", "date", "time", "moment"):
        reason = rf"t\.{kind}: column '{name}' of type {refused.get(name, 'time' if name == 'moment' else name)}"
        with pytest.raises(fsp.errors.ArgumentError, match=f"(?i){reason}.* convert it to integers or text"):
            read(path, label=name, on_error="skip")
    for name in ("binary", "fixed", "struct", "struct.bytes"):
        with pytest.raises(fsp.errors.ArgumentError, match=rf"t\.{kind}: column '{name}' contains bytes"):
            read(path, columns=["uri", name])
    assert read(path, columns=["struct.a", "half"]).columns == {"struct.a": [1, 1], "half": [0.5, 1.5]}
    assert [label for _, label in read(path, label="unsigned")] == [0, 1]
    assert read(path, label="numbers").columns["numbers"] == [[1], [2, 3]]
    assert read(path, label="categories").classes == ["run", "walk"]
    if kind == "parquet":
        with pytest.raises(fsp.errors.ArgumentError, match="column 'images' contains bytes"):
            read(path, columns="images")
        with pytest.raises(fsp.errors.ArgumentError, match="'parts.list.element.a' is in a list.*column 'parts'"):
            read(path, columns="parts.list.element.a")


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_files_must_have_the_same_class_names(tmp_path, kind):
    def write(file: str, names: list[str] | None, labels: list[int | None]) -> None:
        rows = pa.table({"uri": ["a.mp4"] * len(labels), "label": pa.array(labels, pa.int64())})
        if names is not None:
            features = {"info": {"features": {"label": {"names": names, "_type": "ClassLabel"}}}}
            rows = rows.replace_schema_metadata({"huggingface": json.dumps(features)})
        if kind == "parquet":
            pq.write_table(rows, tmp_path / file)
        else:
            with pa.OSFile(str(tmp_path / file), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
                writer.write_table(rows)

    read = getattr(fsp.datasets, kind)
    write(f"0.{kind}", None, [None])
    write(f"1.{kind}", ["cat", "dog"], [1])
    write(f"2.{kind}", ["cat", "dog"], [0])
    dataset = read(tmp_path)
    assert dataset.classes == ["cat", "dog"] and [label for _, label in dataset] == [-1, 1, 0]
    write(f"3.{kind}", ["dog", "cat"], [0])
    reason = rf"'label' are cat, dog in .*1\.{kind} and dog, cat in .*3\.{kind}: .*join the datasets with \+"
    with pytest.raises(fsp.errors.ArgumentError, match=reason):
        read(tmp_path)
    renumbered = read(tmp_path, classes=["bird", "cat", "dog"])
    assert renumbered.classes == ["bird", "cat", "dog"] and [label for _, label in renumbered] == [-1, 2, 1, 2]
    with pytest.raises(fsp.errors.ArgumentError, match=rf"1\.{kind}: 'dog' is not one of the 1 classes"):
        read(tmp_path, classes=["cat"])
    write(f"4.{kind}", None, [1])
    with pytest.raises(fsp.errors.ArgumentError, match=rf"4\.{kind}: the file states no name of label 1"):
        read(tmp_path, classes=["cat", "dog"])
    joined = read(tmp_path / f"1.{kind}") + read(tmp_path / f"3.{kind}")
    assert [joined.classes[label] for _, label in joined] == ["dog", "dog"]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_table_without_labels_may_have_a_column_of_that_name(tmp_path, kind):
    masks = pa.array([{"a": 1}, {"a": 2}], pa.struct({"a": pa.int64()}))
    for name, values in (("struct", masks), ("bytes", [b"1", b"2"]), ("text", ["x", "y"])):
        rows, path = pa.table({"uri": ["a.mp4", "b.mp4"], "label": values}), tmp_path / f"{name}.{kind}"
        if kind == "parquet":
            pq.write_table(rows, path)
        else:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
                writer.write_table(rows)
        read = getattr(fsp.datasets, kind)
        dataset = read(path, label=None)
        assert [label for _, label in dataset] == [-1, -1] and dataset.classes == []
        assert dataset.columns == ({"label": ["x", "y"]} if name == "text" else {})
        if name != "text":
            with pytest.raises(fsp.errors.ArgumentError, match=f"of type {name} has no labels.*label=None if there"):
                read(path)


def test_invalid_arguments_are_rejected(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"uri": ["ftp://b/a.mp4"], "n": [1.5], "list": [[b"x"]], "bin": [b"x"]}), path)
    for keywords, reason in [
        ({"source": "video"}, r"no column 'video' to use as the source; it has uri, n, list, bin"),
        ({"source": "n"}, "column 'n' contains neither text nor bytes"),
        ({"source": "list"}, "column 'list' contains neither"),
        ({"source": "bin", "label": "nope"}, "no column 'nope' to use as the label"),
        ({"source": "bin", "columns": "nope"}, "no column 'nope'"),
        ({"source": "bin", "columns": "bin"}, "omit it from columns="),
        ({"source": "bin", "label": "n"}, r"row 0: \"n\" is 1.5, expected an integer"),
        ({}, r"row 0: 'ftp://b/a.mp4' is not on a disk"),
        ({"source": ""}, "source must be"),
        ({"start": "end"}, "must differ"),
        ({"on_error": "replace"}, "on_error"),
        ({"columns": [3]}, "columns must be"),
    ]:
        with pytest.raises(fsp.errors.ArgumentError, match=reason):
            fsp.datasets.parquet(path, **keywords)
    with pytest.raises(fsp.errors.ArgumentError, match="no files"):
        fsp.datasets.parquet(_folder(tmp_path))
    with pytest.raises(fsp.errors.ArgumentError, match="no file matches"):
        fsp.datasets.parquet(tmp_path / "*.pq")
    with pytest.raises(fsp.errors.NotFoundError):
        fsp.datasets.parquet(tmp_path / "none.parquet")
    pq.write_table(pa.table({"bin": [b"x"]}), path, compression="brotli")
    with pytest.raises(fsp.errors.UnsupportedError, match="compressed with BROTLI"):
        fsp.datasets.parquet(path, source="bin")
    for row in (-1, 0.5, None):
        with pytest.raises(fsp.errors.ArgumentError, match="row must be"):
            TableCell("a.parquet", "b", row)
    gone = TableCell(path, "bin", 7)
    with pytest.raises(fsp.errors.UnsupportedError):
        fsp.Video(TableCell(path, "bin", 0))
    pq.write_table(pa.table({"bin": [b"x"]}), path)
    with pytest.raises(fsp.errors.InvalidDataError, match="row 7 no longer exists"):
        fsp.Video(gone)
    with pytest.raises(fsp.errors.InvalidDataError, match="column 'x' no longer exists"):
        fsp.Video(TableCell(path, "x", 0))


def _folder(path: Path) -> Path:
    (path / "empty").mkdir()
    return path / "empty"


def jpeg(number: int) -> bytes:
    """A small image of one gray level."""
    buffer = io.BytesIO()
    Image.new("L", (16, 16), number).save(buffer, "jpeg")
    return buffer.getvalue()


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.filterwarnings("ignore:.*skipped")
def test_damage_is_an_error_or_bytes_of_the_file(tmp_path, compression):
    rng = random.Random(9)
    values = [jpeg(number) for number in range(60)] + [None]
    names = [f"n{number % 7}" for number in range(61)]
    made = {"bin": pa.array(values, pa.binary()), "label": list(range(61)), "name": names}
    buffer = io.BytesIO()
    pq.write_table(pa.table(made), buffer, compression=compression, row_group_size=25, use_dictionary=["name"])
    intact, path = buffer.getvalue(), tmp_path / "d.parquet"
    path.write_bytes(intact)
    footer = len(intact) - 8 - int.from_bytes(intact[-8:-4], "little")

    def place() -> int:
        return rng.randrange(footer if rng.random() < 0.5 else 0, len(intact))

    def read(on_error: str):
        return fsp.datasets.parquet(path, source="bin", on_error=on_error)

    outcomes = damaged(path, rng, 400, place, read, 12)
    print(f"{compression}: {outcomes}")
    assert min(outcomes.values()) > 0 and outcomes["opened"] > 100 < outcomes["refused"]


def test_tables_are_read_where_they_are(tmp_path_factory, videos):
    root = tmp_path_factory.mktemp("tables").resolve()
    names = ("phone_176x144.mp4", "bikes_640x272.mp4", "long_384x164_90s.mp4", "vp8_426x240.webm", "cars_768x432.mp4")
    entries = [(str(videos / "action" / name), label) for label, name in enumerate(names)]
    made = table(entries)
    for compression in ("none", "zstd"):
        # Pages of one video each, so that a cell is only a part of its row group.
        pq.write_table(
            made, root / f"{compression}.parquet", compression=compression, use_dictionary=False, data_page_size=1
        )
    with pa.OSFile(str(root / "a.arrow"), "wb") as sink, pa.ipc.new_stream(sink, made.schema) as writer:
        writer.write_table(made, max_chunksize=2)
    pq.write_table(pa.table({"uri": ["b/c.mp4"], "label": [1]}), root / "names.parquet")
    server = Nginx(root, tmp_path_factory.mktemp("nginx-of-tables"))
    server.start()
    try:
        address = f"http://127.0.0.1:{server.port}"
        for name, kind in (("none.parquet", ArchiveMember), ("zstd.parquet", TableCell), ("a.arrow", ArchiveMember)):
            read = fsp.datasets.arrow if name.endswith("arrow") else fsp.datasets.parquet
            by_path = read(root / name, source="image")
            before = len(server.requests())
            by_url = read(f"{address}/{name}?token=hush", source="image")
            asked = server.requests()[before:]
            assert sum(sent for _, sent, _, _ in asked) < (root / name).stat().st_size, "listing does not read videos"
            assert {type(source) for source, _ in by_url} == {kind}
            assert by_url[0][0].file == f"{address}/{name}?token=hush"
            assert digest(clips(by_url)) == digest(clips(by_path)) == digest(clips(entries))
            assert "hush" not in fsp.Video(by_url[0][0]).info.path
        dataset = fsp.datasets.parquet(f"{address}/names.parquet")
        assert dataset.samples == [(f"{address}/b/c.mp4", 1)]
        with pytest.raises(fsp.errors.NotFoundError, match=r"none-such\.parquet"):
            fsp.datasets.parquet(f"{address}/none-such.parquet")
    finally:
        server.stop()
