"""Tables of pandas, Polars, PyArrow and `datasets` as datasets, and back."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import framespool as fsp
import pytest
from framespool.datasets import VideoSegment, from_dataframe, from_huggingface

ROWS = {
    "path": ["a.mp4", "b.mp4", "https://host/c.mp4"],
    "label": ["walk", "run", "walk"],
    "caption": ["one", None, "three"],
    "score": [0.5, float("nan"), 2.0],
    "boxes": [[1, 2], [3], []],
}


#: Makes the rows of each library.
TABLES = {
    "pandas": lambda pandas: pandas.DataFrame(ROWS),
    "polars": lambda polars: polars.DataFrame(ROWS),
    "pyarrow": lambda pyarrow: pyarrow.table(ROWS),
}


@pytest.mark.parametrize("module", TABLES)
def test_rows_become_samples(module):
    table = TABLES[module](pytest.importorskip(module))
    dataset = from_dataframe(table)
    assert [source for source, _ in dataset] == ROWS["path"]
    assert dataset.classes == ["run", "walk"] and [label for _, label in dataset] == [1, 0, 1]
    assert dataset.columns == {"caption": ["one", None, "three"], "score": [0.5, None, 2.0]}
    rooted = from_dataframe(table, root="/data", columns="boxes")
    assert [source for source, _ in rooted] == ["/data/a.mp4", "/data/b.mp4", "https://host/c.mp4"]
    assert [list(boxes) for boxes in rooted.columns["boxes"]] == ROWS["boxes"]
    with pytest.raises(fsp.errors.ArgumentError, match="no column 'video'; it has 'path', 'label'"):
        from_dataframe(table, source="video")
    with pytest.raises(fsp.errors.ArgumentError, match="row 1 has no path and no bytes"):
        from_dataframe(table, source="caption")
    named = from_dataframe(table, classes=["jump", "walk", "run"])
    assert [label for _, label in named] == [1, 2, 1] and named.classes == ["jump", "walk", "run"]
    with pytest.raises(fsp.errors.ArgumentError, match="row 1: the label 'run' is not one of the 1 classes"):
        from_dataframe(table, classes=["walk"])
    for role in ("label", "start", "end"):
        with pytest.raises(fsp.errors.ArgumentError, match=f"{role}: the table has no column 'action'"):
            from_dataframe(table, **{role: "action"})
    for make_dataset in (fsp.datasets.Dataset, lambda table: fsp.ImageLoader(table, batch_size=1)):
        with pytest.raises(fsp.errors.ArgumentError, match="from_dataframe"):
            make_dataset(table)


def test_integer_labels_of_pandas_may_be_missing():
    pandas = pytest.importorskip("pandas")
    paths = ["a.mp4", "b.mp4", "c.mp4"]
    for labels, expected in (([3, None, 10], [3, -1, 10]), ([3.0, 0.0, 10.0], [3.0, 0.0, 10.0])):
        dataset = fsp.datasets.from_dataframe(pandas.DataFrame({"path": paths, "label": labels}))
        found = [label for _, label in dataset]
        assert found == expected and [type(label) for label in found] == [type(label) for label in expected]


def test_numbers_must_be_those_of_the_given_classes():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"path": ["a.mp4", "b.mp4", "c.mp4"], "label": [1, 0, None]})
    dataset = fsp.datasets.from_dataframe(frame, classes=["run", "walk"])
    assert [label for _, label in dataset] == [1, 0, -1] and dataset.classes == ["run", "walk"]
    with pytest.raises(fsp.errors.ArgumentError, match="sample 0 .* the label 1 is not one of the 1 classes"):
        fsp.datasets.from_dataframe(frame, classes=["run"])


def test_segments_and_bytes():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(
        {"path": ["a.mp4"] * 3, "start": [None, 1, 2.0], "end": [3, None, None], "label": [1, None, 0]}
    )
    dataset = from_dataframe(table)
    assert [source for source, _ in dataset] == [
        VideoSegment("a.mp4", end_seconds=3),
        VideoSegment("a.mp4", start_seconds=1),
        VideoSegment("a.mp4", start_seconds=2),
    ]
    frames = from_dataframe(table, in_frames=True)
    assert frames[1][0] == VideoSegment("a.mp4", start_frame=1)
    with pytest.raises(fsp.errors.ArgumentError, match="row 2: "):
        from_dataframe(table.assign(end=[3, None, 1]))
    with pytest.raises(fsp.errors.ArgumentError, match="two columns have the name 'path'"):
        from_dataframe(pandas.concat([table, table], axis=1))
    assert from_dataframe(pandas.DataFrame({"path": [b"bytes of a file"]})).samples == [(b"bytes of a file", -1)]


def test_a_dataset_becomes_a_table():
    pandas = pytest.importorskip("pandas")
    member = fsp.datasets.ArchiveMember("shard.tar", 512, 9, "x/a.mp4")
    samples = [
        ("s3://key:secret@bucket/a.mp4", "walk"),
        (VideoSegment("b.mp4", start_seconds=1.5), "run"),
        (VideoSegment(member, end_frame=7), "walk"),
        (fsp.datasets.TableCell("t.parquet", "video.bytes", 3), "run"),
        (fsp.datasets.ImageSequence("frames"), "run"),
        (b"the bytes of a file", "walk"),
    ]
    columns = {"fold": [1, 2, 3, 4, 5, 6], "label": list("abcdef")}
    table = fsp.datasets.Dataset(samples, columns=columns).to_pandas()
    assert table.astype(object).where(table.notna(), None).to_dict("list") == {
        "path": ["s3://key:secret@bucket/a.mp4", "b.mp4", "shard.tar", "t.parquet", "frames", None],
        "member": [None, None, "x/a.mp4", "video.bytes, row 3", None, None],
        "label": [1, 0, 1, 0, 0, 1],
        "class": ["walk", "run", "walk", "run", "run", "walk"],
        "start": [None, 1.5, None, None, None, None],
        "end_frame": [None, None, 7, None, None, None],
        "fold": [1, 2, 3, 4, 5, 6],
        "columns.label": list("abcdef"),
    }
    plain = fsp.datasets.Dataset([("a.mp4", 0), (VideoSegment("b.mp4", start_seconds=1, end_seconds=2), 3)])
    assert isinstance(plain.to_pandas(), pandas.DataFrame) and from_dataframe(plain.to_pandas()) == plain
    assert list(fsp.datasets.Dataset([]).to_pandas().columns) == ["path", "label"]


def test_a_table_needs_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(fsp.errors.UnsupportedError, match="pip install pandas"):
        fsp.datasets.Dataset(["a.mp4"]).to_pandas()


@pytest.mark.parametrize("wrong", [[("a.mp4", 0)], {"path": ["a.mp4"]}, "a.csv", None])
def test_other_objects_are_refused(wrong):
    with pytest.raises(fsp.errors.ArgumentError, match=r"pandas\.DataFrame"):
        from_dataframe(wrong)
    with pytest.raises(fsp.errors.ArgumentError, match=r"datasets\.Dataset"):
        from_huggingface(wrong)


class Decoded:
    """Stands for the feature `Video` of `datasets`."""

    def __init__(self, decode=True):
        self.decode = decode


class HuggingFaceDataset:
    """Stands for `datasets.Dataset`: refuses to decode."""

    def __init__(self, features, rows):
        self.features, self.rows = features, rows

    def __len__(self):
        return len(self.rows["video"])

    def cast_column(self, name, feature):
        return HuggingFaceDataset({**self.features, name: feature}, self.rows)

    def select_columns(self, names):
        return HuggingFaceDataset(
            {name: self.features[name] for name in names}, {name: self.rows[name] for name in names}
        )

    def __getitem__(self, rows):
        assert rows == slice(None) and not any(getattr(feature, "decode", False) for feature in self.features.values())
        return self.rows


def test_a_dataset_of_hugging_face():
    text, number = SimpleNamespace(dtype="string"), SimpleNamespace(dtype="int64", names=["walk", "run"])
    dataset = HuggingFaceDataset(
        {"video": Decoded(), "label": number, "caption": text, "other": Decoded()},
        {
            "video": [
                {"path": "a.mp4", "bytes": None},
                {"path": "b.mp4", "bytes": b"b"},
                {"path": None, "bytes": b"c"},
            ],
            "label": [1, 0, None],
            "caption": ["one", "two", None],
            "other": [{"path": "x.png"}] * 3,
        },
    )
    found = from_huggingface(dataset)
    assert found.samples == [("a.mp4", 1), (b"b", 0), (b"c", -1)] and found.classes == ["walk", "run"]
    assert found.columns == {"caption": ["one", "two", None]}
    named = from_huggingface(dataset, classes=["run", "jump", "walk"])
    assert [label for _, label in named] == [0, 2, -1] and named.classes == ["run", "jump", "walk"]
    with pytest.raises(fsp.errors.ArgumentError, match="row 0: the label 'run' is not one of the 1 classes"):
        from_huggingface(dataset, classes=["walk"])
    with pytest.raises(fsp.errors.ArgumentError, match="no column 'clip'; it has 'video', 'label', 'caption', 'other'"):
        from_huggingface(dataset, source="clip")
    with pytest.raises(fsp.errors.ArgumentError, match="no column 'title'"):
        from_huggingface(dataset, columns=["title"])
    for make in (fsp.datasets.Dataset, lambda table: fsp.ImageLoader(table, batch_size=1)):
        with pytest.raises(fsp.errors.ArgumentError, match="from_huggingface"):
            make(dataset)


def test_the_real_library(videos):
    datasets = pytest.importorskip("datasets")
    if not hasattr(datasets, "Dataset"):
        pytest.skip("the folder datasets/ of this project is found instead of the library")
    names = [str(videos / "derived" / "base_640x360.mp4"), str(videos / "action" / "phone_176x144.mp4")]
    rows = datasets.Dataset.from_dict({"video": names, "label": [1, 0], "caption": ["one", "two"]})
    typed = rows.cast_column("video", datasets.Video()).cast_column("label", datasets.ClassLabel(names=["a", "b"]))
    for dataset, classes in ((rows, []), (typed, ["a", "b"]), (typed.shuffle(seed=1).select([0, 1]), ["a", "b"])):
        found = from_huggingface(dataset)
        assert sorted(found.samples) == sorted(zip(names, [1, 0], strict=True)) and found.classes == classes
        assert sorted(found.columns["caption"]) == ["one", "two"]
        batch = next(iter(fsp.ClipLoader(found, fsp.samplers.UniformClips(sequence_length=2), batch_size=2)))
        assert len(batch.frames) == 2
    with pytest.raises(fsp.errors.ArgumentError, match="not streamed"):
        from_huggingface(rows.to_iterable_dataset())
    with pytest.raises(fsp.errors.ArgumentError, match="from_huggingface"):
        fsp.datasets.Dataset(rows)
