"""Annotation lists of other codebases as datasets: sources, labels, classes, and columns for the rest."""

from __future__ import annotations

import json
import pickle
import re

import framespool as fsp
import numpy as np
import pytest
from framespool.datasets import Dataset, ImageSequence, VideoSegment, mix
from framespool.loaders import _checkpoint


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# --- columns


@pytest.fixture
def table() -> Dataset:
    return Dataset([("a", 0), ("b", 1), ("c", 1)], ["x", "y"], {"id": ["1", "2", "3"], "labels": [[0], [1, 2], []]})


def test_columns_go_along_with_their_entries(table):
    assert table[1:].columns == {"id": ["2", "3"], "labels": [[1, 2], []]} and table[1:].classes == ["x", "y"]
    assert table[::-2].columns["id"] == ["3", "1"]
    assert table.exclude(["b"]).columns["id"] == ["1", "3"]
    assert table.subset([2, 0, 2]).samples == [("c", 1), ("a", 0), ("c", 1)]
    assert table.subset(np.array([-1, 0])).columns["id"] == ["3", "1"]
    assert table.subset([]).columns == {"id": [], "labels": []}
    assert "columns id, labels" in repr(table)
    again = pickle.loads(pickle.dumps(table))
    assert again == table and again.columns == table.columns
    assert table != Dataset(table.samples, table.classes)


def test_a_union_has_all_columns(table):
    other = Dataset([("d", 0)], ["x", "y"], {"id": ["4"], "seconds": [1.5]})
    both = table + other
    assert both.columns == {
        "id": ["1", "2", "3", "4"],
        "labels": [[0], [1, 2], [], None],
        "seconds": [None, None, None, 1.5],
    }
    assert both.classes == ["x", "y"] and len((both + Dataset([])).columns["id"]) == 4


def test_entries_are_chosen_by_what_the_list_says(table):
    seen = []
    kept = table.filter(lambda source, label, row: seen.append((source, label, row)) or label == 1 and row["labels"])
    assert kept.samples == [("b", 1)] and kept.columns == {"id": ["2"], "labels": [[1, 2]]}
    assert seen[0] == ("a", 0, {"id": "1", "labels": [0]}) and len(seen) == 3
    plain = Dataset([("a", 0), ("b", 1)])
    assert plain.filter(lambda source, label, row: source == "b" and row == {}).samples == [("b", 1)]


def test_a_mix_keeps_its_weights_and_its_columns(table):
    mixed = mix((table, 3), (Dataset([("d", 0), ("e", 1)], ["x", "y"]), 1))
    assert mixed.columns["id"] == ["1", "2", "3", None, None]
    assert pickle.loads(pickle.dumps(mixed)) == mixed
    kept = mixed.filter(lambda source, label, row: label == 1)
    assert (kept.lengths, kept.weights) == ([2, 1], [3, 1]) and kept.columns["id"] == ["2", "3", None]
    assert mixed.exclude(["e", "a"]).lengths == [2, 1] and mixed.exclude(["a"]).columns["id"] == ["2", "3", None, None]
    assert type(mixed[1:4]) is Dataset and mixed[1:4].columns["id"] == ["2", "3", None]


def test_columns_change_no_state(table):
    assert _checkpoint.fingerprint(table) == _checkpoint.fingerprint(Dataset(table.samples))
    assert _checkpoint.fingerprint(table) != _checkpoint.fingerprint(table.subset([0, 2, 1]))


def test_wrong_columns_and_choices_are_repeated_back(table):
    with pytest.raises(fsp.errors.ArgumentError, match="column 'id' must have one value per sample, got 1 for 2"):
        Dataset([("a", 0), ("b", 1)], columns={"id": ["1"]})
    for wrong, text in ((3, "index 3 is out of range: the dataset has 3"), (-4, "-4"), (True, "True"), ("a", "'a'")):
        with pytest.raises(fsp.errors.ArgumentError, match=text):
            table.subset([wrong])
    with pytest.raises(
        fsp.errors.ArgumentError, match=r"predicate must be a function of \(source, label, row\), got 3"
    ):
        table.filter(3)


# --- lists of paths


def test_lists_with_several_labels(tmp_path):
    path = write(tmp_path / "train.csv", "a.mp4,3,5\nsub/b.mp4,0\nc.mp4\n")
    dataset = fsp.datasets.annotation_file(path, delimiter=",", columns=("labels",))
    assert dataset.samples == [(f"{tmp_path}/{name}", -1) for name in ("a.mp4", "sub/b.mp4", "c.mp4")]
    assert dataset.columns == {"labels": [[3, 5], [0], []]}
    spaced = fsp.datasets.annotation_file(write(tmp_path / "train.txt", "my a.mp4 3\nb.mp4 4\n"), root="/data")
    assert spaced.samples == [("/data/my a.mp4", 3), ("/data/b.mp4", 4)] and spaced.columns == {}


def test_non_utf8_list_is_reported(tmp_path):
    for text, message in (
        (
            "ok.mp4 1\ncafé.mp4 2\n".encode("cp1252"),
            "line 2: is not UTF-8 text: byte 4 of the line is 0xE9, which is 'é'",
        ),
        ("a.mp4 1\n".encode("utf-16"), "line 1: is UTF-16"),
        (b"a.mp4 1\rb.mp4 2\r", "line 1: has a carriage return inside"),
    ):
        with pytest.raises(fsp.errors.ArgumentError, match=message):
            fsp.datasets.annotation_file(write(tmp_path / "list.txt", text))
    assert len(fsp.datasets.annotation_file(write(tmp_path / "list.txt", "\ufeffa.mp4 1\r\n\r\n"))) == 1


# --- frames of videos


def test_lists_of_folders_of_frames(tmp_path):
    path = write(tmp_path / "train.txt", "a/v 58 3\nmy clip 29 0\n")
    dataset = fsp.datasets.annotation_file(path, root="/data", columns=("total", "label"), fps=29.97)
    assert dataset.samples == [
        (ImageSequence("/data/a/v", pattern="img_{:05}.jpg", first=1, count=58, fps=(30000, 1001)), 3),
        (ImageSequence("/data/my clip", pattern="img_{:05}.jpg", first=1, count=29, fps=(30000, 1001)), 0),
    ]
    mixed = write(tmp_path / "pretrain.txt", "v.mp4 0 -1\nframes/v 9601 300\n")
    dataset = fsp.datasets.annotation_file(mixed, root="/data", pattern="%06d.png", columns=("start", "total"))
    folder = ImageSequence("/data/frames/v", pattern="%06d.png", first=9601, count=300)
    assert dataset.samples == [("/data/v.mp4", -1), (folder, -1)]
    labels = fsp.datasets.annotation_file(write(tmp_path / "l.txt", "v 10 1 2\n"), columns=["total", "labels"])
    assert labels.columns == {"labels": [[1, 2]]} and labels[0][1] == -1
    for wrong, text in (
        ({"columns": ("length",)}, "got 'length'"),
        ({"columns": "total"}, "columns must be a list"),
        ({"columns": ("start", "label")}, "columns must be different"),
        ({"fps": 0}, "fps"),
        ({"first": -1}, "first"),
        ({"pattern": None}, "pattern"),
    ):
        with pytest.raises(fsp.errors.ArgumentError, match=text):
            fsp.datasets.annotation_file(path, **{"columns": ("total", "label"), **wrong})
    with pytest.raises(fsp.errors.ArgumentError, match="line 2: 0 frames from number 1 on"):
        fsp.datasets.annotation_file(write(tmp_path / "bad.txt", "a 1 1\nb 0 1\n"), columns=("total", "label"))


def test_folders_of_frames_from_a_list_are_played(tmp_path):
    from PIL import Image

    for number in range(3, 9):
        file = tmp_path / "v" / f"{number:06}.png"
        file.parent.mkdir(exist_ok=True)
        Image.new("RGB", (16, 12), (10 * number,) * 3).save(file)
    dataset = fsp.datasets.annotation_file(
        write(tmp_path / "list.txt", "v 4 3\n"), pattern="{:06}.png", columns=("start", "total")
    )
    video = fsp.Video(dataset[0][0])
    assert [int(frame.flat[0]) for frame in video[0 : len(video)].numpy()] == [40, 50, 60]


def test_lists_with_durations(tmp_path):
    path = write(tmp_path / "train.csv", "k400/v1 300 2\nk400/my v.avi 250 7\n")
    dataset = fsp.datasets.annotation_file(path, root="/data", columns=("duration", "label"), extension="mp4")
    assert dataset.samples == [("/data/k400/v1.mp4", 2), ("/data/k400/my v.avi", 7)]
    assert dataset.columns == {"duration": [300, 250]}
    with pytest.raises(fsp.errors.ArgumentError, match="train.csv, line 1: duration 'v1' is not a number"):
        fsp.datasets.annotation_file(write(path, "k400/v v1 2\n"), columns=("duration", "label"))


# --- DALI


def test_dali_lists_in_seconds(tmp_path):
    path = write(tmp_path / "list.txt", "a.mp4 3\nb.mp4 4 0.51\nb.mp4 5 0.51 1.01\n")
    dataset = fsp.datasets.dali_file_list(path, root="/v")
    assert dataset.samples == [
        ("/v/a.mp4", 3),
        (VideoSegment("/v/b.mp4", start_seconds=0.51), 4),
        (VideoSegment("/v/b.mp4", start_seconds=0.51, end_seconds=1.01), 5),
    ]
    for rounding, start, end in (
        ("start_down_end_up", 12, 26),
        ("start_up_end_down", 13, 25),
        ("all_up", 13, 26),
        ("all_down", 12, 25),
    ):
        dataset = fsp.datasets.dali_file_list(path, root="/v", rounding=rounding, fps=25)
        assert dataset[2] == (VideoSegment("/v/b.mp4", start_frame=start, end_frame=end), 5)
        assert dataset[1] == (VideoSegment("/v/b.mp4", start_frame=start), 4)
    for wrong, text in (
        ({"rounding": "down"}, "down"),
        ({"rounding": "all_up"}, "needs a frame rate"),
        ({"fps": 30}, "takes none"),
        ({"rounding": "all_up", "fps": 0}, "fps"),
        ({"frames": True, "fps": 30, "rounding": "all_up"}, "frames=True"),
        ({"frames": True}, "line 2: frame '0.51'"),
    ):
        with pytest.raises(fsp.errors.ArgumentError, match=text):
            fsp.datasets.dali_file_list(path, **wrong)
    with pytest.warns(UserWarning, match="1 lines are skipped, as in DALI.*line 2"):
        assert len(fsp.datasets.dali_file_list(write(tmp_path / "l.txt", "a 0\na 1 2 2\n"))) == 1


def test_dali_lists_in_frames_count_from_either_end(tmp_path, short_clips):
    video = short_clips[0][0]
    length = len(fsp.Video(video))
    lines = [f"{video} 0 5 9", f"{video} 1 -6", f"{video} 2 -6 -2", f"{video} 3 4 -4", "gone.mp4 4 7 8"]
    dataset = fsp.datasets.dali_file_list(write(tmp_path / "list.txt", "\n".join(lines)), frames=True)
    assert dataset.samples == [
        (VideoSegment(video, start_frame=5, end_frame=9), 0),
        (VideoSegment(video, start_frame=length - 6), 1),
        (VideoSegment(video, start_frame=length - 6, end_frame=length - 2), 2),
        (VideoSegment(video, start_frame=4, end_frame=length - 4), 3),
        (VideoSegment(f"{tmp_path}/gone.mp4", start_frame=7, end_frame=8), 4),
    ]
    for unit in ({"frames": True}, {}):
        kept = write(tmp_path / "named.txt", f"{video} 1\n{video} 0\n")
        assert fsp.datasets.dali_file_list(kept, classes=["run", "walk"], **unit).classes == ["run", "walk"]
        with pytest.raises(fsp.errors.ArgumentError, match="the label 1 is not one of the 1 classes"):
            fsp.datasets.dali_file_list(kept, classes=["run"], **unit)
    nothing = write(tmp_path / "nothing.txt", f"{video} 0\n{video} 1 {length - 2} -2\n")
    with pytest.warns(UserWarning, match="1 segments have no frames and are skipped"):
        assert len(fsp.datasets.dali_file_list(nothing, frames=True)) == 1
    with pytest.raises(fsp.errors.ArgumentError, match=f"has {length} frames, the segment from -{length + 1} to None"):
        fsp.datasets.dali_file_list(write(tmp_path / "l.txt", f"{video} 0 -{length + 1}\n"), frames=True)


# --- datasets by their own annotations


def test_kinetics(tmp_path):
    rows = ['"yoga",-ab,2,12,train', "air drumming,c,1003,1013,train", "yoga,d,0,10,val"]
    table = write(tmp_path / "train.csv", "\n".join(["label,youtube_id,time_start,time_end,split", *rows]))
    first = write(tmp_path / "v" / "-ab_000002_000012.mp4", "")
    second = write(tmp_path / "v" / "air_drumming" / "c_001003_001013.mp4", "")
    with pytest.raises(
        fsp.errors.ArgumentError, match=r"train.csv, line 4: no file d_000000_000010.mp4 .*missing=\"skip\""
    ):
        fsp.datasets.kinetics(table, tmp_path / "v")
    with pytest.warns(UserWarning, match="1 of 3 samples are skipped") as caught:
        dataset = fsp.datasets.kinetics(table, tmp_path / "v", missing="skip")
    assert caught[0].filename == __file__
    assert dataset.samples == [(str(first), 1), (str(second), 0)] and dataset.classes == ["air drumming", "yoga"]
    assert dataset.columns == {
        "youtube_id": ["-ab", "c"],
        "time_start": [2, 1003],
        "time_end": [12, 1013],
        "split": ["train", "train"],
    }
    train = fsp.datasets.kinetics(table, tmp_path / "v", split="train", classes=["yoga", "air drumming"])
    assert [label for _, label in train] == [0, 1]
    test = write(tmp_path / "test.csv", "youtube_id,time_start,time_end,split\n-ab,2,12,test\n")
    assert fsp.datasets.kinetics(test, tmp_path / "v").samples == [(str(first), -1)]
    for wrong, text in (({"missing": "ignore"}, "ignore"), ({"classes": "yoga"}, "classes"), ({"split": "x"}, "'x'")):
        with pytest.raises(fsp.errors.ArgumentError, match=text):
            fsp.datasets.kinetics(table, tmp_path / "v", **wrong)
    with pytest.raises(FileNotFoundError):
        fsp.datasets.kinetics(tmp_path / "none.csv", tmp_path)


def test_ucf101(tmp_path):
    write(tmp_path / "classInd.txt", "1 ApplyEyeMakeup\r\n2 Archery\r\n")
    write(tmp_path / "trainlist01.txt", "Archery/a.avi 2\r\nApplyEyeMakeup/b.avi 1\r\n")
    write(tmp_path / "testlist01.txt", "Archery/c.avi\r\n")
    train = fsp.datasets.ucf101(tmp_path, "/v")
    assert train.samples == [("/v/Archery/a.avi", 1), ("/v/ApplyEyeMakeup/b.avi", 0)]
    assert train.classes == ["ApplyEyeMakeup", "Archery"]
    assert fsp.datasets.ucf101(tmp_path, "/v", train=False).samples == [("/v/Archery/c.avi", 1)]
    names = ["Archery", "Biking", "ApplyEyeMakeup"]
    assert [label for _, label in fsp.datasets.ucf101(tmp_path, "/v", classes=names)] == [0, 2]
    with pytest.raises(
        fsp.errors.ArgumentError, match=r"sample 1 \('/v/ApplyEyeMakeup/b.avi'\): the label 'ApplyEyeMakeup'"
    ):
        fsp.datasets.ucf101(tmp_path, "/v", classes=names[:2])
    write(tmp_path / "trainlist02.txt", "Archery/a.avi 1\n")
    with pytest.raises(
        fsp.errors.ArgumentError, match=r"trainlist02.txt, line 1, column 'number': class Archery is number 2"
    ):
        fsp.datasets.ucf101(tmp_path, "/v", split=2)
    for wrong, text in (({"split": 0}, "split"), ({"train": "test"}, "train must be True or False")):
        with pytest.raises(fsp.errors.ArgumentError, match=text):
            fsp.datasets.ucf101(tmp_path, "/v", **wrong)


def test_hmdb51(tmp_path):
    write(tmp_path / "wave_test_split1.txt", "a.avi 1 \nb.avi 2 \nc.avi 0 \n")
    write(tmp_path / "brush_hair_test_split1.txt", "d.avi 2 \n")
    train, test = (fsp.datasets.hmdb51(tmp_path, "/v", train=train) for train in (True, False))
    assert train.samples == [("/v/wave/a.avi", 1)] and train.classes == ["brush_hair", "wave"]
    assert test.samples == [("/v/brush_hair/d.avi", 0), ("/v/wave/b.avi", 1)]
    assert fsp.datasets.hmdb51(tmp_path, "/v", classes=["wave", "brush_hair"]).samples == [("/v/wave/a.avi", 0)]
    with pytest.raises(fsp.errors.ArgumentError, match="the label 'wave' is not one of the 1 classes"):
        fsp.datasets.hmdb51(tmp_path, "/v", classes=["brush_hair"])
    with pytest.raises(fsp.errors.ArgumentError, match="_test_split2.txt"):
        fsp.datasets.hmdb51(tmp_path, "/v", split=2)


def test_something_something(tmp_path):
    videos = [
        {"id": "78687", "label": "closing a box", "template": "Closing [something]", "placeholders": ["a box"]},
        {"id": "7"},
    ]
    train = write(tmp_path / "train.json", json.dumps(videos))
    labels = write(tmp_path / "labels.json", '{"Opening something": "1", "Closing something": "0"}')
    dataset = fsp.datasets.something_something(train, labels, "/v")
    assert dataset.samples == [("/v/78687.webm", 0), ("/v/7.webm", -1)]
    assert dataset.classes == ["Closing something", "Opening something"]
    assert dataset.columns == {
        "id": ["78687", "7"],
        "label": ["closing a box", None],
        "template": ["Closing [something]", None],
        "placeholders": [["a box"], None],
    }
    names = ["Throwing something", *dataset.classes]
    named = fsp.datasets.something_something(train, labels, "/v", classes=names)
    assert [label for _, label in named] == [1, -1] and named.classes == names
    folders = fsp.datasets.something_something(train, labels, "/v", pattern="{:06}.jpg", fps=24)
    assert folders[1] == (ImageSequence("/v/7", pattern="{:06}.jpg", fps=24), -1)
    with pytest.raises(
        fsp.errors.ArgumentError,
        match=r"train.json, video 0 \(id 78687\), column 'template': 'Closing something' is not one of the 1 classes",
    ):
        fsp.datasets.something_something(train, write(labels, '{"Opening something": "0"}'), "/v")


def test_jester(tmp_path):
    train = write(tmp_path / "train.csv", "34870;Drumming Fingers\n9;Swiping Left\n10\n")
    labels = write(tmp_path / "labels.csv", "Swiping Left\nDrumming Fingers\n")
    dataset = fsp.datasets.jester(train, labels, "/v")
    assert [label for _, label in dataset] == [1, 0, -1] and dataset.classes == ["Swiping Left", "Drumming Fingers"]
    assert dataset[0][0] == ImageSequence("/v/34870", pattern="{:05}.jpg", fps=12)
    assert fsp.datasets.jester(train, labels, "/v", extension=".mp4")[1] == ("/v/9.mp4", 0)
    named = fsp.datasets.jester(train, labels, "/v", classes=["Drumming Fingers", "Swiping Left", "Waving"])
    assert [label for _, label in named] == [0, 1, -1]
    with pytest.raises(
        fsp.errors.ArgumentError, match="sample 1 .*: the label 'Swiping Left' is not one of the 1 classes"
    ):
        fsp.datasets.jester(train, labels, "/v", classes=["Drumming Fingers"])
    with pytest.raises(
        fsp.errors.ArgumentError, match="train.csv, line 2, column 'label': 'Waving' is not one of the 2 classes"
    ):
        fsp.datasets.jester(write(train, "7\n8;Waving\n"), labels, "/v")
    with pytest.raises(fsp.errors.ArgumentError, match="extension must be a string, got 3"):
        fsp.datasets.jester(train, labels, "/v", extension=3)


# --- JSON lines


def test_json_lines(tmp_path):
    rows = [
        {"uri": "a.mp4", "label": "run", "caption": "é", "id": 2**63},
        {"uri": "file:///b%20c.mp4", "label": "jump", "start": 1.5, "end": 4, "tags": ["x", {"y": None, "z": True}]},
        {"uri": "/d.mp4", "end": 2.5, "caption": None},
    ]
    path = write(tmp_path / "list.jsonl", "\n".join(json.dumps(row) for row in rows))
    dataset = fsp.datasets.json_lines(path)
    assert dataset.samples == [
        (f"{tmp_path}/a.mp4", 1),
        (VideoSegment("/b c.mp4", start_seconds=1.5, end_seconds=4.0), 0),
        (VideoSegment("/d.mp4", end_seconds=2.5), -1),
    ]
    assert dataset.classes == ["jump", "run"]
    assert dataset.columns == {
        "caption": ["é", None, None],
        "id": [2**63, None, None],
        "tags": [None, ["x", {"y": None, "z": True}], None],
    }
    other = write(tmp_path / "other.jsonl", '{"video": "v.mp4", "from": 3, "to": 9, "label": [1, 2]}\n')
    frames = fsp.datasets.json_lines(other, root="/r", source="video", start="from", end="to", in_frames=True)
    assert frames.samples == [(VideoSegment("/r/v.mp4", start_frame=3, end_frame=9), -1)]
    assert frames.columns == {"label": [[1, 2]]}
    for wrong, text in (
        ({}, 'line 1: "uri" is missing'),
        ({"source": "video", "start": "to", "end": "to"}, '"to" twice'),
        ({"source": None}, "source must be a key"),
        ({"source": "video", "in_frames": 1}, "in_frames"),
    ):
        with pytest.raises(fsp.errors.ArgumentError, match=text):
            fsp.datasets.json_lines(other, **wrong)


def test_json_lines_of_some_rows_and_given_classes(tmp_path):
    rows = [{"video": "a.mp4", "label": "run", "split": "train"}, {"video": "b.mp4", "label": "jump", "split": "val"}]
    path = write(tmp_path / "list.jsonl", "\n\n".join(json.dumps(row) for row in rows))
    parts = [fsp.datasets.json_lines(path, source="video", where={"split": part}) for part in ("train", "val")]
    assert [part.samples for part in parts] == [[(f"{tmp_path}/a.mp4", 1)], [(f"{tmp_path}/b.mp4", 0)]]
    assert parts[0].classes == parts[1].classes == ["jump", "run"] and parts[1].columns == {"split": ["val"]}
    names = ["walk", "run", "jump"]
    chosen = fsp.datasets.json_lines(path, source="video", where={"label": ["jump"]}, classes=names)
    assert (chosen.samples, chosen.classes) == ([(f"{tmp_path}/b.mp4", 2)], names)
    for wrong, text in (
        (
            {},
            r'list.jsonl, line 1: "uri" is missing or null; the line has the keys "video", "label", "split": .*source=',
        ),
        ({"source": "video", "classes": ["run"]}, r"list.jsonl, line 3: 'jump' is not one of the 1 classes"),
        ({"source": "video", "classes": ["run", "run"]}, r"'run' twice"),
        (
            {"source": "video", "where": {"split": "test"}},
            r"no row with 'test' in the column 'split'; it has 'train', ",
        ),
        ({"source": "video", "where": {"fold": 1}}, "no column 'fold'; it has 'split', 'label'"),
        ({"source": "video", "where": "train"}, "where must be a dict"),
    ):
        with pytest.raises(fsp.errors.ArgumentError, match=text):
            fsp.datasets.json_lines(path, **wrong)


def test_a_selection_looks_values_up(tmp_path):
    class Counted(int):
        count = 0
        __hash__ = int.__hash__

        def __eq__(self, other):
            Counted.count += 1
            return int(self) == other

    lines = [f'{{"uri": "{n}.mp4", "n": {n}, "tags": [{n}]}}' for n in range(100)]
    path = write(tmp_path / "a.jsonl", "\n".join(lines))
    chosen = fsp.datasets.json_lines(path, where={"n": [Counted(n) for n in range(50, 1000)]})
    assert chosen.columns["n"] == [*range(50, 100)] and Counted.count < 500
    assert fsp.datasets.json_lines(path, where={"tags": [[3], [7]]}).columns["n"] == [3, 7]
    with pytest.raises(fsp.errors.ArgumentError, match="no row with 'x' in the column 'tags'"):
        fsp.datasets.json_lines(path, where={"tags": "x"})


def test_values_of_a_selection_may_be_an_array(tmp_path):
    numpy = pytest.importorskip("numpy")
    table = write(tmp_path / "a.csv", "path,n\na.mp4,3\nb.mp4,4\nc.mp4,5\n")
    lines = write(tmp_path / "a.jsonl", "".join(f'{{"uri": "{n}.mp4", "n": {n}}}\n' for n in (3, 4, 5)))
    for wanted in (numpy.array([3, 5]), [numpy.int64(3), numpy.float32(5)]):
        assert fsp.datasets.csv(table, where={"n": wanted}).columns["n"] == [3, 5]
        assert fsp.datasets.json_lines(lines, where={"n": wanted}).columns["n"] == [3, 5]


def test_labels_of_lines_have_one_kind(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"uri": "a", "label": 3}\n{"uri": "b"}\n{"uri": "c", "label": [1]}\n')
    with pytest.raises(fsp.errors.ArgumentError, match=r"a\.jsonl, line 3: .* line 1 has another kind"):
        fsp.datasets.json_lines(path)
    path = write(tmp_path / "b.jsonl", '{"uri": "a", "label": 3.0}\n')
    with pytest.raises(fsp.errors.ArgumentError, match=r'"label" is 3\.0, expected an integer'):
        fsp.datasets.json_lines(path)


def test_numbers_are_those_of_the_text(tmp_path):
    numbers = [92008.64349327219, 914444639.4025773, 9126598705.692831, 0.1, 1e-7, 5e-324]
    path = write(tmp_path / "a.jsonl", "".join(f'{{"uri": "a.mp4", "x": {number!r}}}\n' for number in numbers))
    assert fsp.datasets.json_lines(path).columns["x"] == numbers


# --- CSV


def test_csv(tmp_path):
    rows = [
        "video, action,split,fold,user_id,start,text",
        '"a, b.mp4","open, close",train,1,1,,"two\nlines ""quoted"""',
        "",
        "c.mp4,walk,val,2,2,1.5,",
        "s3://bucket/d.mp4,run,train,,3,,x",
    ]
    path = write(tmp_path / "all.csv", "\ufeff" + "\r\n".join(rows))
    named = {"source": "video", "label": "action"}
    dataset = fsp.datasets.csv(path, **named)
    assert dataset.samples == [
        (f"{tmp_path}/a, b.mp4", 0),
        (VideoSegment(f"{tmp_path}/c.mp4", start_seconds=1.5), 2),
        ("s3://bucket/d.mp4", 1),
    ]
    assert dataset.classes == ["open, close", "run", "walk"]
    assert dataset.columns == {
        "split": ["train", "val", "train"],
        "fold": [1, 2, None],
        "user_id": ["1", "2", "3"],
        "text": ['two\nlines "quoted"', None, "x"],
    }
    # A part of the rows numbers the classes as all rows do.
    val = fsp.datasets.csv(path, **named, where={"split": ["val", "test"], "fold": 2}, root="/r", columns=["fold"])
    assert val.samples == [(VideoSegment("/r/c.mp4", start_seconds=1.5), 2)] and val.columns == {"fold": [2]}
    assert val.classes == dataset.classes
    names = ["walk", "run", "open, close", "jump"]
    assert [label for _, label in fsp.datasets.csv(path, **named, classes=names)] == [2, 0, 1]
    digits = write(tmp_path / "digits.tsv", "path\tlabel\na b.mp4\t7\nc.mp4\t1\n")
    assert [label for _, label in fsp.datasets.csv(digits)] == [7, 1]
    assert [label for _, label in fsp.datasets.csv(digits, classes=["1", "7"])] == [1, 0]
    scores = write(tmp_path / "scores.csv", "path;label\na.mp4;0.5\nb.mp4;2\n")
    assert fsp.datasets.csv(scores, delimiter=";", root="").samples == [("a.mp4", 0.5), ("b.mp4", 2.0)]
    ids = write(tmp_path / "ids.csv", "path,class_id\na.mp4,0\nb.mp4,10\nc.mp4,2\n")
    assert [label for _, label in fsp.datasets.csv(ids, label="class_id")] == [0, 10, 2]
    # Data frames write a column of integers with a missing value like this.
    frame = write(tmp_path / "frame.csv", "path,label\na.mp4,1.0\nb.mp4,\nc.mp4,10.0\n")
    for columns in (None, ["label"]):
        found = [label for _, label in fsp.datasets.csv(frame, columns=columns)]
        assert found == [1, -1, 10] and all(isinstance(label, int) for label in found)
    # Integers are compared as integers: a float has not all digits of these.
    large = write(tmp_path / "large.csv", f"path,n\na.mp4,{2**53}\nb.mp4,{2**53 + 1}\nc.mp4,3\n")
    assert fsp.datasets.csv(large, where={"n": [2**53 + 1, 3.0]}).columns["n"] == [2**53 + 1, 3]
    mixed = write(tmp_path / "mixed.csv", f"path,n\na.mp4,{2**53 + 1}\nb.mp4,0.5\n")
    assert fsp.datasets.csv(mixed).columns["n"] == [str(2**53 + 1), "0.5"]
    for wrong, text in (
        ({}, "source: .*all.csv has no column 'path'; it has 'video', 'action'"),
        ({**named, "label": "class"}, "label: .*all.csv has no column 'class'"),
        ({**named, "classes": ["walk", "run"]}, "all.csv, line 2, column 'action': 'open, close' is not one of the 2"),
        ({**named, "where": {"split": "tran"}}, "no row with 'tran' in the column 'split'; it has 'train', 'val'"),
        ({**named, "where": {"part": 1}}, "where: .*all.csv has no column 'part'"),
        (
            {**named, "start": "fold", "end": "start"},
            "all.csv, line 5, column 'start': 1.5 is not after 'fold', which is 2",
        ),
        ({**named, "in_frames": True}, "all.csv, line 5, column 'start': '1.5' is not the number of a frame"),
        ({"delimiter": ";;"}, "delimiter must be one ASCII character"),
    ):
        with pytest.raises(fsp.errors.ArgumentError, match=text):
            fsp.datasets.csv(path, **wrong)
    for text, said in (
        ("path,label\na.mp4\n", "bad.csv, line 2: has 1 fields where the header has 2"),
        ('path,label\n\n"a.mp4,1\n', "bad.csv, line 3: "),
        ('path,label\na.mp4,"x\nb.mp4,y"z"\nc.mp4,w\n', "bad.csv, line 2: has text behind a quotation mark"),
        ("path;label\na.mp4;1\n", "pass delimiter=';'"),
        ("path,path\na,b\n", "two columns are named 'path'"),
        ("path\na.mp4,\n", "bad.csv, line 2: has 2 fields"),
        ("path,label\n,walk\n", "bad.csv, line 2, column 'path': is empty"),
        ("path,label\n", "has no rows"),
        ("", "has no rows"),
        (b"path\ncaf\xe9.mp4\n", "bad.csv, line 2: is not UTF-8 text: byte 4"),
    ):
        with pytest.raises(fsp.errors.ArgumentError, match=said):
            fsp.datasets.csv(write(tmp_path / "bad.csv", text))
    with pytest.raises(fsp.errors.NotFoundError, match="none.csv"):
        fsp.datasets.csv(tmp_path / "none.csv")
    with pytest.raises(fsp.errors.ReadError, match=re.escape(str(tmp_path))):
        fsp.datasets.csv(tmp_path)


def test_a_table_is_not_taken_for_a_list(tmp_path):
    for header in ("path,label name,split", "path;label;split"):
        table = write(tmp_path / "train.csv", f"{header}\na.mp4,run,train\n")
        with pytest.raises(fsp.errors.ArgumentError, match=r"train.csv, line 1: .*datasets.csv"):
            fsp.datasets.annotation_file(table)
    with pytest.raises(fsp.errors.ArgumentError, match=r"line 1: label 'split' is not an integer; .*datasets.csv"):
        fsp.datasets.annotation_file(write(table, "path,label,split\na.mp4,run,train\n"), delimiter=",")
    with pytest.raises(fsp.errors.ArgumentError, match=r"train.csv has no column 'youtube_id'; .*datasets.csv"):
        fsp.datasets.kinetics(table, tmp_path)
    with pytest.raises(
        fsp.errors.ArgumentError, match=r"line 2: .*'b.mp4,1' has several fields and is no file; pass delimiter="
    ):
        fsp.datasets.annotation_file(write(table, "a.mp4 0\nb.mp4,1\n"))
    # Names with commas are valid.
    write(tmp_path / "x,y", "")
    names = ["a,b.mp4 0", "c, d.jpg 1", "x,y 2", "https://host/a?b=1,2 3"]
    listed = fsp.datasets.annotation_file(write(table, "\n".join(names)))
    assert [label for _, label in listed] == [0, 1, 2, 3]


# --- segments


def test_epic_kitchens(tmp_path):
    header = (
        "narration_id,participant_id,video_id,start_timestamp,stop_timestamp,start_frame,stop_frame,verb,verb_class"
    )
    rows = [
        'P01_01_0,P01,P01_01,00:00:00.14,00:01:03.37,8,202,"turn-on, off",3',
        "e,P01,P01_01,00:00:05.00,00:00:05.00,9,8,x,1",
    ]
    table = write(
        tmp_path / "train.csv", "\n".join([header + ",all_noun_classes", rows[0] + ',"[3, 4]"', rows[1] + ",[1]"])
    )
    with pytest.warns(UserWarning, match="1 segments whose end is not after their start"):
        dataset = fsp.datasets.epic_kitchens(table, "/v")
    assert dataset.samples == [(VideoSegment("/v/P01/videos/P01_01.MP4", start_seconds=0.14, end_seconds=63.37), 3)]
    assert dataset.columns["verb"] == ["turn-on, off"] and dataset.columns["all_noun_classes"] == [[3, 4]]
    assert dataset.columns["start_frame"] == [8] and dataset.columns["narration_id"] == ["P01_01_0"]
    with pytest.warns(UserWarning):
        frames = fsp.datasets.epic_kitchens(table, "/v", label=None, pattern="frame_{:010}.jpg", fps=50)
    folder = ImageSequence("/v/P01/rgb_frames/P01_01", pattern="frame_{:010}.jpg", fps=50)
    assert frames.samples == [(VideoSegment(folder, start_frame=7, end_frame=202), -1)]
    classes = write(tmp_path / "verbs.csv", "id,key\n0,take\n1,put\n2,wash\n3,open\n")
    with pytest.warns(UserWarning):
        named = fsp.datasets.epic_kitchens(table, "/v", classes=classes, file="{video_id}.mp4", in_frames=True)
    assert named.classes == ["take", "put", "wash", "open"]
    assert named.samples == [(VideoSegment("/v/P01_01.mp4", start_frame=7, end_frame=202), 3)]
    for wrong, text in (
        ({"label": "action"}, "label must be one of"),
        ({"file": "{name}.mp4"}, r"has the unknown field \{name\}"),
        ({"file": "{video_id}.*"}, r"train.csv, line 2: no file P01_01.\* in /v"),
    ):
        with pytest.raises(fsp.errors.ArgumentError, match=text):
            fsp.datasets.epic_kitchens(table, "/v", **wrong)


def test_activitynet(tmp_path):
    surfing, archery = ({"segment": [6.19, 17.37], "label": "Surfing"}, {"segment": [20, 30.5], "label": "Archery"})
    database = {
        "zz": {"duration": 82.5, "subset": "training", "annotations": [surfing, archery]},
        "aa": {"duration": 11, "subset": "testing", "annotations": []},
    }
    path = write(tmp_path / "activity_net.v1-3.json", json.dumps({"database": database}))
    dataset = fsp.datasets.activitynet(path, "/v", file="v_{id}.mp4")
    assert dataset.samples == [
        (VideoSegment("/v/v_zz.mp4", start_seconds=6.19, end_seconds=17.37), 1),
        (VideoSegment("/v/v_zz.mp4", start_seconds=20, end_seconds=30.5), 0),
        ("/v/v_aa.mp4", -1),
    ]
    assert dataset.classes == ["Archery", "Surfing"]
    assert dataset.columns == {
        "id": ["zz", "zz", "aa"],
        "duration": [82.5, 82.5, 11],
        "subset": ["training", "training", "testing"],
    }
    test = write(tmp_path / "test.json", json.dumps({"database": {"bb": {"subset": "testing", "fps": 25}}}))
    both = fsp.datasets.activitynet([path, test], "/v", file="v_{id}.mp4")
    assert both.samples == [*dataset, ("/v/v_bb.mp4", -1)] and both.classes == dataset.classes
    assert both.columns["duration"] == [82.5, 82.5, 11, None] and both.columns["fps"] == [None, None, None, 25]
    for segment in ([1, "x", 2], [None, 1, 2], [1], [1, 2, 3], 1):
        wrong = {"database": {"zz": {"annotations": [{"segment": segment, "label": "Surfing"}]}}}
        with pytest.raises(fsp.errors.ArgumentError, match=r"is not \[start, end\] in seconds"):
            fsp.datasets.activitynet(write(tmp_path / "wrong.json", json.dumps(wrong)), "/v", file="v_{id}.mp4")
    video = write(tmp_path / "v" / "v_zz.mkv", "")
    training = fsp.datasets.activitynet(path, tmp_path / "v", subset="training", classes=["Surfing", "Archery"])
    assert [(part.source, label) for part, label in training] == [(str(video), 0), (str(video), 1)]
    with pytest.raises(fsp.errors.ArgumentError, match=r"video 1 \(id aa\): no file v_aa.\* in .*; skip such samples"):
        fsp.datasets.activitynet(path, tmp_path / "v")
    with pytest.warns(UserWarning, match="1 of 3 samples are skipped"):
        assert len(fsp.datasets.activitynet(path, tmp_path / "v", missing="skip")) == 2


def test_ava(tmp_path):
    rows = "-5K,0902,0.077,0.151,0.283,0.811,80,1\n-5K,0902,0.5,0.151,0.283,0.811,9,2\n-5K,0903,,,,,\n"
    path = write(tmp_path / "ava_train_v2.2.csv", rows)
    dataset = fsp.datasets.ava(path, "/v", file="{video_id}.mp4", begin_seconds=900)
    assert dataset.samples == [
        (VideoSegment("/v/-5K.mp4", start_seconds=0.5, end_seconds=3.5), -1),
        (VideoSegment("/v/-5K.mp4", start_seconds=1.5, end_seconds=4.5), -1),
    ]
    assert dataset.columns == {
        "video_id": ["-5K", "-5K"],
        "second": [902.0, 903.0],
        "boxes": [[[0.077, 0.151, 0.283, 0.811], [0.5, 0.151, 0.283, 0.811]], []],
        "actions": [[80, 9], []],
        "persons": [[1, 2], []],
    }
    for wrong, text in (({"span_seconds": 0}, "span_seconds"), ({}, "ava_train_v2.2.csv, line 1: no file")):
        with pytest.raises(fsp.errors.ArgumentError, match=text):
            fsp.datasets.ava(path, tmp_path, **wrong)


UCF = {"classInd.txt": "1 A\n2 B\n", "trainlist01.txt": "A/ok.avi 1\n"}
SOMETHING = {"train.json": '[{"id": "7"}]', "labels.json": '{"Closing something": "0", "Opening something": "1"}'}
EPIC = "participant_id,video_id,start_timestamp,stop_timestamp,verb_class\nP1,v,00:00:01,00:00:02,1\n"
CLIPS = "label,youtube_id,time_start,time_end\n"


@pytest.mark.parametrize(
    ("name", "files", "message"),
    [
        ("ucf101", {**UCF, "trainlist01.txt": "\nA/v.avi 1\nC/v.avi 3"}, "trainlist01.txt, line 3, column 'path': 'C'"),
        ("ucf101", {**UCF, "trainlist01.txt": "v.avi 1"}, "line 1, column 'path': 'v.avi' has no class folder"),
        (
            "ucf101",
            {**UCF, "classInd.txt": "1 A\n3 B"},
            "classInd.txt, line 2, column 'number': found class 3, expected",
        ),
        ("ucf101", {**UCF, "classInd.txt": "A 1"}, "classInd.txt, line 1, column 'number': 'A' is not the number"),
        ("ucf101", {**UCF, "classInd.txt": "1 A\n2 A"}, "classInd.txt: classes must be distinct, got 'A' twice"),
        ("ucf101", {"classInd.txt": "1 A\n"}, "trainlist01.txt"),
        ("hmdb51", {"wave_test_split1.txt": "a b.avi 1\nc.avi 3"}, "line 2, column 'kind': '3' is not 0 or 1 or 2"),
        ("hmdb51", {"wave_test_split1.txt": "a.avi"}, "wave_test_split1.txt, line 1: has 1 fields; write: name kind"),
        ("hmdb51", {"wave_test_split1.txt": "a.avi 2"}, "train: .*no row with '1' in the column 'kind'; it has '2'"),
        ("kinetics", {"t.csv": CLIPS + "x,a,zero,10"}, "t.csv, line 2, column 'time_start': 'zero' is not an integer"),
        ("kinetics", {"t.csv": CLIPS + "x,../a,0,10"}, "t.csv, line 2, column 'youtube_id': '../a' cannot be part"),
        ("kinetics", {"t.csv": CLIPS + "x,a,0,10,1"}, "t.csv, line 2: has 5 fields where the header has 4"),
        ("jester", {"t.csv": "7\n;A", "labels.csv": "A"}, "t.csv, line 2, column 'id': '' cannot be part"),
        ("jester", {"t.csv": "7", "labels.csv": "A\nA"}, "labels.csv: classes must be distinct, got 'A' twice"),
        (
            "something_something",
            {**SOMETHING, "train.json": '[{"id": "7"}, 3]'},
            "train.json, video 1: is 3, not an object",
        ),
        ("something_something", {**SOMETHING, "train.json": '[{"id": "7"},\n]'}, "train.json, line 2: is not JSON"),
        ("something_something", {**SOMETHING, "train.json": "{}"}, "train.json is an object of 0 keys, not a list"),
        ("something_something", {**SOMETHING, "labels.json": '["a"]'}, "labels.json is a list of 1, not an object"),
        (
            "something_something",
            {**SOMETHING, "labels.json": '{"a": "0", "b": "2"}'},
            r"labels.json, class 1 \(id b\), column 'number': found class 2, expected class 1",
        ),
        (
            "epic_kitchens",
            {"t.csv": EPIC + "P1,v,5,00:00:06,1"},
            "t.csv, line 3, column 'start_timestamp': '5' is not a time",
        ),
        ("epic_kitchens", {"t.csv": EPIC, "verbs.csv": "id,key\n0,take"}, "column 'verb_class': 1 is not .*verbs.csv"),
        ("ava", {"t.csv": "ok,902\na,902,0.1,0.2,left,0.4,80"}, "t.csv, line 2, column 'x2': 'left' is not a number"),
        ("ava", {"t.csv": "a,902"}, "t.csv, line 1, column 'second': second 902 is before the start of the file"),
    ],
)
def test_errors_of_published_datasets_name_file_line_and_column(tmp_path, name, files, message):
    paths = [write(tmp_path / file, text) for file, text in files.items()]
    in_folder = name in ("ucf101", "hmdb51")
    read = getattr(fsp.datasets, name)
    with pytest.raises((fsp.errors.ArgumentError, fsp.errors.NotFoundError), match=message):
        if name == "ava":
            read(paths[0], "/v", file="{video_id}.mp4", begin_seconds=0 if len(files["t.csv"]) > 10 else 904)
        elif name == "epic_kitchens":
            read(paths[0], "/v", classes=paths[1] if len(paths) > 1 else None)
        else:
            read(tmp_path if in_folder else paths[0], *([] if in_folder else paths[1:]), "/v")


def test_segments_of_a_list_are_what_a_loader_delivers(tmp_path, short_clips):
    path, _ = short_clips[0]
    rows = [{"uri": path, "start": s, "end": s + 8, "name": f"clip {s}", "label": s} for s in (5, 20)]
    listing = write(tmp_path / "list.jsonl", "\n".join(map(json.dumps, rows)))
    dataset = fsp.datasets.json_lines(listing, in_frames=True)
    loader = fsp.ClipLoader(dataset, fsp.samplers.Windows(sequence_length=8), batch_size=2)
    (batch,) = loader
    assert batch.indices.numpy().tolist() == [list(range(5, 13)), list(range(20, 28))]
    assert [dataset.columns["name"][video] for video in batch.video_ids.numpy()] == ["clip 5", "clip 20"]
    state = loader.state_dict()
    bare = Dataset(dataset.samples, dataset.classes)
    fsp.ClipLoader(bare, fsp.samplers.Windows(sequence_length=8), batch_size=2).load_state_dict(state)
