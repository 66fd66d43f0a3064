"""Arrow files and streams: rows are the videos that they name or contain, and damage is an error."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

import framespool as fsp
import pytest
from framespool.datasets import VideoSegment
from small_loaders import KEYWORDS, clips, damaged, digest
from test_tables import content, jpeg, table

pa = pytest.importorskip("pyarrow", reason="pyarrow writes the files; see requirements-dev.txt")


def written(path: Path, made, *, stream: bool = False, rows: int | None = None, **how) -> Path:
    """A table as a file or a stream, with a number of rows per batch."""
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as sink, new(sink, made.schema, **how) as writer:
        writer.write_table(made, max_chunksize=rows)
    return path


@pytest.mark.parametrize("stream", [False, True], ids=["file", "stream"])
@pytest.mark.parametrize("kind", ["binary", "large_binary", "binary_view"])
def test_bytes_give_the_batches_of_the_plain_files(tmp_path, photos, short_clips, stream, kind):
    for number, (entries, loader) in enumerate(
        ((photos, lambda d: fsp.ImageLoader(d, **KEYWORDS)), (short_clips, clips))
    ):
        for half in (0, 1):
            part = entries[half * 7 :][: 7 if half == 0 else None]
            made = table(part)
            values = made["image"].combine_chunks().field("bytes").cast(getattr(pa, kind)())
            made = made.set_column(0, "image", pa.StructArray.from_arrays([values], ["bytes"]))
            written(tmp_path / f"{number}-{half}.arrow", made, stream=stream, rows=3)
        dataset = fsp.datasets.arrow(str(tmp_path / f"{number}-*.arrow"), source="image")
        assert [label for _, label in dataset] == [label for _, label in entries]
        assert content(dataset) == [Path(path).read_bytes() for path, _ in entries]
        assert digest(loader(dataset)) == digest(loader(entries))
    assert "!image.bytes[0]" in fsp.Video(dataset[0][0]).info.path


def test_missing_values_and_array_slices(tmp_path):
    pictures = [jpeg(number) for number in range(9)] + [b"tiny", None, b""]
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        column = pa.array(pictures, kind)
        made = pa.table({"jpg": column, "label": range(12)}).slice(2)
        path = written(tmp_path / "a.arrow", made, rows=4)
        with pytest.raises(fsp.errors.ArgumentError, match=r"a\.arrow, row 8: column 'jpg' has no value"):
            fsp.datasets.arrow(path, source="jpg")
        with pytest.warns(UserWarning, match="1 skipped"):
            dataset = fsp.datasets.arrow(path, source="jpg", on_error="skip")
        assert content(dataset) == [value for value in pictures[2:] if value is not None]
        assert [label for _, label in dataset] == [*range(2, 10), 11]
    # A null struct hides the values of its fields.
    fields = [pa.array(pictures[:4]), pa.array(["a", "b", "c", "d"])]
    mask = pa.array([False, True, False, False])
    made = pa.table({"image": pa.StructArray.from_arrays(fields, ["bytes", "path"], mask=mask), "n": range(4)})
    path = written(tmp_path / "b.arrow", made)
    with pytest.warns(UserWarning, match="1 skipped"):
        dataset = fsp.datasets.arrow(path, source="image", columns=["image.path", "n"], on_error="skip")
    assert content(dataset) == [pictures[n] for n in (0, 2, 3)]
    assert dataset.columns == {"image.path": ["a", "c", "d"], "n": [0, 2, 3]}


@pytest.mark.parametrize("stream", [False, True], ids=["file", "stream"])
def test_rows_may_name_videos_and_parts_of_them(tmp_path, short_clips, stream):
    rows = {
        "uri": pa.array([short_clips[0][0], Path(short_clips[1][0]).as_uri(), "x.mp4"], pa.large_string()),
        "label": pa.array(["run", "jump", None]).dictionary_encode(),
        "start": pa.array([0.25, None, 1.0], pa.float32()),
        "end": [1.5, None, None],
        "caption": pa.array(["a", None, "c"], pa.string_view()),
        "score": pa.array([1, 2, 2**64 - 1], pa.uint64()),
        "small": pa.array([-1, None, 3], pa.int8()),
        "half": pa.array([0.5, 1.5, None], pa.float16()),
        "good": [True, False, None],
        "none": pa.nulls(3),
        "codes": pa.array([7, 9, 7], pa.int32()).dictionary_encode(),
        "tags": [["x"], [], None],
        "pair": pa.array([[1, 2], [3, 4], None], pa.list_(pa.int16(), 2)),
        "meta": [{"deep": {"er": "p"}}, None, {"deep": None}],
        "when": pa.array([0, 1, 2], pa.timestamp("ms")),
        "map": pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int64())),
        "union": pa.UnionArray.from_sparse(pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), pa.array("abc")]),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([5, 6])),
        "last": ["behind", "all", "of it"],
    }
    made = pa.table(rows)
    path = written(tmp_path / "a.arrow", made, stream=stream, rows=2)
    dataset = fsp.datasets.arrow(path)
    assert dataset.samples == [
        (VideoSegment(short_clips[0][0], start_seconds=0.25, end_seconds=1.5), 1),
        (str(short_clips[1][0]), 0),
        (VideoSegment(str(tmp_path / "x.mp4"), start_seconds=1.0), -1),
    ]
    assert dataset.classes == ["jump", "run"]
    given = fsp.datasets.arrow(path, classes=["run", "walk", "jump"])
    assert given.classes == ["run", "walk", "jump"] and [label for _, label in given][:2] == [0, 2]
    with pytest.raises(fsp.errors.ArgumentError, match="row 1: 'jump' is not one of the 1 classes"):
        fsp.datasets.arrow(path, classes=["run"])
    plain = ("caption", "score", "small", "half", "good", "none", "codes", "last")
    assert dataset.columns == {name: made[name].to_pylist() for name in plain}
    named = fsp.datasets.arrow(path, columns=["tags", "pair", "meta.deep.er", "last"], label="small")
    assert named.columns == {
        "tags": [["x"], [], None],
        "pair": [[1, 2], [3, 4], None],
        "meta.deep.er": ["p", None, None],
        "last": ["behind", "all", "of it"],
    }
    assert [label for _, label in named] == [-1, -1, 3]
    for column in ("when", "map", "union", "runs"):
        with pytest.raises(fsp.errors.UnsupportedError, match=rf"a\.arrow, byte \d+: column '{column}' of type"):
            fsp.datasets.arrow(path, columns=column)


def test_class_label_names_are_read_from_metadata(tmp_path, photos):
    features = {"info": {"features": {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}}
    made = table([(photos[0][0], 1), (photos[1][0], 0)]).replace_schema_metadata({"huggingface": json.dumps(features)})
    written(tmp_path / "c.arrow", made, stream=True)
    dataset = fsp.datasets.arrow(tmp_path, source="image")
    assert dataset.classes == ["cat", "dog"] and [label for _, label in dataset] == [1, 0]
    given = fsp.datasets.arrow(tmp_path, source="image", classes=["dog", "bird", "cat"])
    assert given.classes == ["dog", "bird", "cat"] and [label for _, label in given] == [0, 2]
    with pytest.raises(fsp.errors.ArgumentError, match="the label 'dog' is not one of the 1 classes"):
        fsp.datasets.arrow(tmp_path, source="image", classes=["cat"])


def test_unsupported_columns_are_named(tmp_path):
    made = pa.table({"jpg": [jpeg(1)], "n": [1.5]})
    path = tmp_path / "a.arrow"
    for codec in ("lz4", "zstd"):
        written(path, made, options=pa.ipc.IpcWriteOptions(compression=codec))
        with pytest.raises(fsp.errors.UnsupportedError, match="compressed Arrow file"):
            fsp.datasets.arrow(path, source="jpg")
    written(path, made)
    for keywords, reason in [
        ({"source": "video"}, r"no column 'video' to use as the source; it has jpg, n"),
        ({"source": "n"}, "column 'n' contains neither text nor bytes"),
        ({"source": "jpg", "label": "n"}, r"row 0: \"n\" is 1.5, expected an integer"),
    ]:
        with pytest.raises(fsp.errors.ArgumentError, match=reason):
            fsp.datasets.arrow(path, **keywords)
    intact = path.read_bytes()
    for bytes_, error, reason in [
        (b"", fsp.errors.TruncatedError, "byte 0"),
        (b"PAR1" + bytes(60), fsp.errors.InvalidDataError, "does not start like an Arrow file or stream"),
        (intact[:-3], fsp.errors.InvalidDataError, "it is truncated"),
        (intact[:8] + intact[-60:], fsp.errors.InvalidDataError, "truncated"),
    ]:
        path.write_bytes(bytes_)
        with pytest.raises(error, match=reason):
            fsp.datasets.arrow(path, source="jpg")
    with pytest.raises(fsp.errors.ArgumentError, match=r"no files \*\.arrow"):
        (tmp_path / "empty").mkdir()
        fsp.datasets.arrow(tmp_path / "empty")
    parts = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.OSFile(str(path), "wb") as sink:
        names = [pa.array(names).dictionary_encode() for names in (["a"], ["a", "b"])]
        tables = [pa.table({"uri": ["x.mp4"] * len(name), "label": name}) for name in names]
        with pa.ipc.new_stream(sink, tables[0].schema, options=parts) as writer:
            for one in tables:
                writer.write_table(one)
    with pytest.raises(fsp.errors.UnsupportedError, match="column 'label' with a delta dictionary"):
        fsp.datasets.arrow(path)


@pytest.mark.parametrize("stream", [False, True], ids=["file", "stream"])
@pytest.mark.filterwarnings("ignore:.*skipped")
def test_damage_is_an_error_or_bytes_of_the_file(tmp_path, stream):
    rng = random.Random(4)
    values = [jpeg(number) for number in range(40)] + [None]
    made = {
        "bin": pa.array(values, pa.binary()),
        "label": list(range(41)),
        "name": pa.array([f"n{n % 7}" for n in range(41)]).dictionary_encode(),
        "tags": [[n] * (n % 3) for n in range(41)],
    }
    path = written(tmp_path / "d.arrow", pa.table(made), stream=stream, rows=15)
    intact = path.read_bytes()
    # Outside of pixels: message headers, offsets and labels.
    other = [
        at for at in range(len(intact)) if not any(intact.find(v) <= at < intact.find(v) + len(v) for v in values if v)
    ]

    def place() -> int:
        return rng.choice(other) if rng.random() < 0.8 else rng.randrange(len(intact))

    def read(on_error: str):
        return fsp.datasets.arrow(path, source="bin", columns=["name", "tags"], on_error=on_error)

    outcomes = damaged(path, rng, 600, place, read, 9)
    print(f"{'stream' if stream else 'file'}: {outcomes}")
    assert min(outcomes.values()) > 0 and outcomes["opened"] > 100 < outcomes["refused"]


def test_a_stream_from_memory_is_read_whole_or_refused(tmp_path):
    """Cut anywhere: the batches before the cut, or an error; never more rows than whole batches hold."""
    buffer = io.BytesIO()
    made = pa.table({"jpg": [jpeg(n) for n in range(6)], "label": range(6)})
    with pa.ipc.new_stream(buffer, made.schema) as writer:
        writer.write_table(made, max_chunksize=2)
    intact, path, lengths = buffer.getvalue(), tmp_path / "s.arrow", set()
    for cut in range(len(intact) + 1):
        path.write_bytes(intact[:cut])
        try:
            lengths.add(len(fsp.datasets.arrow(path, source="jpg")))
        except fsp.Error as error:
            assert str(path) in str(error)
    assert lengths == {2, 4, 6}
