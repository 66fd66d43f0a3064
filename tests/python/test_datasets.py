"""Folders and list files as labeled videos."""

from __future__ import annotations

import fractions
import importlib
import math

import framespool as fsp
import numpy as np
import pytest
from framespool.datasets import _dataset, _robot_frames


def touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    return str(path)


def test_a_folder_of_class_folders(tmp_path):
    b = touch(tmp_path / "run" / "b.MP4")
    a = touch(tmp_path / "jump" / "deep" / "a.avi")
    touch(tmp_path / "run" / "notes.txt")
    touch(tmp_path / "run" / ".hidden.mp4")
    dataset = fsp.datasets.folder(tmp_path)
    assert dataset.classes == ["jump", "run"]
    assert [(str(path), label) for path, label in dataset] == [(a, 0), (b, 1)]
    assert len(dataset[1:]) == 1 and "2 entries" in repr(dataset)


def test_an_unlabeled_folder(tmp_path):
    a = touch(tmp_path / "a.mkv")
    dataset = fsp.datasets.folder(tmp_path)
    assert [(str(path), label) for path, label in dataset] == [(a, -1)] and dataset.classes == []


def test_folders_that_cannot_be_read_say_so(tmp_path):
    with pytest.raises(FileNotFoundError):
        fsp.datasets.folder(tmp_path / "none")
    with pytest.raises(fsp.errors.ArgumentError, match="mp4"):
        fsp.datasets.folder(tmp_path)
    touch(tmp_path / "c" / "x.bin")
    assert len(fsp.datasets.folder(tmp_path, extensions=["bin"])) == 1


def test_a_list_file(tmp_path):
    listing = tmp_path / "train.txt"
    listing.write_text("# comment\n\nwith space.mp4 3\nclass/b.mp4 -1\nno_label.mp4\n")
    dataset = fsp.datasets.annotation_file(listing)
    names = [(str(path).removeprefix(f"{tmp_path}/"), label) for path, label in dataset]
    assert names == [("with space.mp4", 3), ("class/b.mp4", -1), ("no_label.mp4", -1)]
    rooted = fsp.datasets.annotation_file(listing, root="/data")
    assert str(rooted[0][0]) == "/data/with space.mp4"


def test_unordered_collection_is_not_a_dataset(short_clips):
    paths = [path for path, _ in short_clips]
    rule = fsp.samplers.RandomClips(sequence_length=2)
    for wrong, said in [
        (dict(short_clips), r"list\(mapping.items\(\)\)"),
        (set(paths), "sorted"),
        (frozenset(paths), "sorted"),
    ]:
        for call in (fsp.datasets.Dataset, lambda d: fsp.ClipLoader(d, rule, batch_size=1), fsp.tools.validate):
            with pytest.raises(fsp.errors.ArgumentError, match=said):
                call(wrong)
    assert len(fsp.datasets.Dataset(dict(short_clips).items())) == len(short_clips)


def test_labels_are_integers_numbers_vectors_or_names():
    def made(labels, classes=()):
        dataset = fsp.datasets.Dataset([(f"{n}.mp4", label) for n, label in enumerate(labels)], classes)
        assert dataset.subset(range(len(labels))) == dataset and dataset[:] == dataset
        return [label for _, label in dataset], dataset.classes

    assert made([1, np.int32(2), True, -1]) == ([1, 2, 1, -1], [])
    assert made([1, 0.5, np.float32(0.25), fractions.Fraction(1, 8)]) == ([1.0, 0.5, 0.25, 0.125], [])
    assert made([[0, 1], (1, 1), np.array([1, 0])]) == ([(0, 1), (1, 1), (1, 0)], [])
    assert made([[0, 0.5], np.array([1.5, 0])]) == ([(0, 0.5), (1.5, 0.0)], [])
    assert made(["b", "a", "b"]) == ([1, 0, 1], ["a", "b"])
    assert made(["b", "a"], ["c", "b", "a"]) == ([1, 2], ["c", "b", "a"])
    half = fsp.datasets.Dataset([("a.mp4", 0.5), "b.mp4"])
    assert half[0][1] == 0.5 and math.isnan(half[1][1])
    assert [label for _, label in fsp.datasets.Dataset(["a.mp4", ("b.mp4", "x"), ("c.mp4", None)])] == [-1, 0, -1]
    # The engine has integers only.
    assert fsp.datasets.Dataset([("a.mp4", 0.5)])._for_engine() == [("a.mp4", -1)]


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([[1, 0], [1]], "same length in all samples"),
        ([[1, 0], 1], "same length in all samples"),
        (["a", 1], "sample 1 has a number as label and sample 0 has a name"),
        ([["a", "b"]], "sample 0 must be .*a number, a name or a list of numbers, got"),
        ([[]], "sample 0 must be"),
        ([{}], "sample 0 must be"),
        ([2**63], "64 bits"),
    ],
)
def test_labels_that_do_not_fit_together_are_refused(labels, said):
    with pytest.raises(fsp.errors.ArgumentError, match=said):
        fsp.datasets.Dataset([(f"{n}.mp4", label) for n, label in enumerate(labels)])
    with pytest.raises(fsp.errors.ArgumentError, match="'b' is not one of the classes"):
        fsp.datasets.Dataset([("a.mp4", "b")], ["a"])


def test_joined_datasets_have_one_label_per_class_name(tmp_path):
    for split, names in (("a", ("run", "walk")), ("b", ("jump", "walk")), ("c", ("walk", "run"))):
        for name in names:
            touch(tmp_path / split / name / "1.mp4")
    a, b = (fsp.datasets.folder(tmp_path / split) for split in "ab")
    lists = [fsp.datasets.Dataset(list(dataset), dataset.classes) for dataset in (a, b)]
    unlabeled = fsp.datasets.Dataset(["x.mp4"])
    for first, second in ((a, b), lists, (a, lists[1])):
        for joined in (first + second, fsp.datasets.mix((first, 1), (second, 2))):
            assert joined.classes == ["run", "walk", "jump"]
            assert [label for _, label in joined] == [0, 1, 2, 1]
            assert [source for source, _ in joined] == [source for source, _ in [*a, *b]]
        assert (first + unlabeled + second).classes == ["run", "walk", "jump"]
    assert isinstance((a + b).samples, type(a.samples))  # the engine's table
    assert (unlabeled + b)[:2].samples == [("x.mp4", -1), (b[0][0], 0)]
    kept = fsp.datasets.mix((a, 1), (b, 2)).filter(lambda source, label, row: label != 0)
    assert ([label for _, label in kept], kept.classes) == ([1, 2, 1], ["run", "walk", "jump"])
    assert (a + fsp.datasets.folder(tmp_path / "c")).samples.labels().tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("label", [0, 7, 0.5, (0, 1)])
def test_names_and_numbers_are_not_joined(label):
    named, bare = fsp.datasets.Dataset([("a", "run")]), fsp.datasets.Dataset([("b", -1), ("c", label)][-1:])
    said = r"the one at index 1 has none for the label .* of sample 0 \('c'\); .*Dataset\(samples, classes\)"
    for join in (lambda: named + bare, lambda: fsp.datasets.mix((named, 1), (bare, 1))):
        with pytest.raises(fsp.errors.ArgumentError, match=said):
            join()
    assert len(bare + bare) == 2 and len(named + fsp.datasets.Dataset([("b", -1)])) == 2


def test_readers_number_labels_by_given_classes(tmp_path):
    for name in ("walk", "jump"):
        touch(tmp_path / name / "1.mp4")
        touch(tmp_path / name / "clip" / "1.jpg")
    names = ["run", "walk", "jump"]
    write = (tmp_path / "list.txt").write_text
    write("a.mp4 2\nb.mp4 -1\n")
    d = fsp.datasets
    for read, labels in (
        (lambda classes: d.folder(tmp_path, classes=classes), [2, 1]),
        (lambda classes: d.image_folder(tmp_path, classes=classes), [2, 1]),
        (lambda classes: d.frame_folder(tmp_path, classes=classes), [2, 1]),
        (lambda classes: d.annotation_file(tmp_path / "list.txt", classes=classes), [2, -1]),
    ):
        dataset = read(names)
        assert ([label for _, label in dataset], dataset.classes) == (labels, names)
        assert dataset.subset([0]).classes == dataset[:1].classes == names
        assert dataset.filter(lambda source, label, row: label == 2).classes == names
        with pytest.raises(
            fsp.errors.ArgumentError, match=r"sample 0 \(.*\): the label ('jump'|2) is not one of the 2 classes"
        ):
            read(names[:2])
        for wrong, said in (("run", "list of names"), ([1], "list of names"), (["a", "b", "a"], "'a' twice")):
            with pytest.raises(fsp.errors.ArgumentError, match=said):
                read(wrong)


def test_a_dict_is_not_a_sample():
    for sample in ({"path": "a.mp4", "label": 0}, {"path": "a.mp4", "label": 0, "fold": 1}, {}):
        with pytest.raises(
            fsp.errors.ArgumentError, match=r"sample 1 must be \(path, label\), got a dict .*from_dataframe\(\)"
        ):
            fsp.datasets.Dataset(["x.mp4", sample])


def test_other_numbers_of_equal_names_are_reported_once(short_clips, recwarn):
    paths, rule = [path for path, _ in short_clips], fsp.samplers.RandomClips(sequence_length=2)

    def load(labels, classes=()):
        fsp.ClipLoader(fsp.datasets.Dataset(zip(paths, labels, strict=False), classes), rule, batch_size=1)
        return [str(recwarn.pop().message) for _ in recwarn.list[:]]

    train = fsp.datasets.Dataset([(paths[0], "pour"), (paths[1], "cut")])
    assert load(["pour", "cut"]) == load(["cut", "pour"]) == load([0, 1]) == []
    assert load(["run"]) == []  # other names
    assert load(["cut", "wash"], ["cut", "pour", "wash"]) == load(["pour"], train.classes) == []
    robots = fsp.datasets.Dataset([(paths[0], "pour")])
    robots._robots = _robot_frames.RobotFrames([], [], [], {}, [])
    _dataset.warn_of_other_numbers(robots)
    assert recwarn.list == []
    [said] = load(["pour"])
    assert "'pour' has the label 0" in said and "and 1 in" in said and said.count(paths[0]) == 2
    assert "classes=train.classes" in said
    assert load(["pour"]) == []


@pytest.mark.parametrize("name", ["VideoDataset", "ClipDataset"])
def test_other_numbers_are_reported_before_workers_start(short_clips, name):
    pytest.importorskip("torch")
    made = getattr(importlib.import_module("framespool.torch"), name)

    def make(labels):
        samples = [(path, label) for (path, _), label in zip(short_clips, labels, strict=False)]
        keywords = {} if name == "VideoDataset" else {"batch_size": 1}
        made(fsp.datasets.Dataset(samples), fsp.samplers.RandomClips(sequence_length=2), **keywords)

    make(["pour", "cut"])
    with pytest.warns(UserWarning, match="the class 'pour' has the label 0"):
        make(["pour"])


def test_a_batch_has_the_labels_and_columns_of_its_clips(short_clips):
    clips = short_clips[:5]
    columns = {
        "caption": [f"number {n}" for n in range(5)],
        "score": [n / 4 for n in range(5)],
        "count": [10 * n for n in range(5)],
        "good": [n % 2 == 0 for n in range(5)],
        "action": [[n, n + 0.5, 2 * n] for n in range(5)],
        "missing": [None, 1, 2, 3, 4],
        "ragged": [[1] * n for n in range(5)],
    }
    dtypes = {"score": "float64", "count": "int64", "good": "bool", "action": "float64"}
    for labels, dtype in (
        ([3, 1, 4, 1, 5], "int64"),
        ([n / 8 for n in range(5)], "float32"),
        ([(n, 1) for n in range(5)], "int64"),
    ):
        dataset = fsp.datasets.Dataset([(path, labels[n]) for n, (path, _) in enumerate(clips)], (), columns)
        rule = fsp.samplers.RandomClips(sequence_length=2, clips_per_video=2)
        options = {"batch_size": 3, "transforms": [fsp.transforms.Resize((8, 9))], "shuffle": "full", "seed": 3}
        loader = fsp.ClipLoader(dataset, rule, **options)
        seen, after = [], None
        for batch in loader:
            ids = batch.video_ids.tolist()
            seen.append(ids)
            assert batch.labels.dtype == dtype and batch.labels.tolist() == [
                list(labels[n]) if isinstance(labels[n], tuple) else labels[n] for n in ids
            ]
            assert list(batch.columns) == list(columns) and batch["columns"] is batch.columns
            for name, values in columns.items():
                found = batch.columns[name]
                assert getattr(found, "dtype", None) == dtypes.get(name), name
                assert (found if isinstance(found, list) else found.tolist()) == [values[n] for n in ids]
            after = after or loader.state_dict()
        assert loader.describe_clip(2)["label"] == labels[1]
        resumed = fsp.ClipLoader(dataset, rule, **options)
        resumed.load_state_dict(after)
        assert [[batch.columns["count"].tolist(), batch.video_ids.tolist()] for batch in resumed] == [
            [[10 * n for n in ids], ids] for ids in seen[1:]
        ]
        other = fsp.datasets.Dataset([(path, 2.5) for path, _ in clips])
        with pytest.raises(fsp.errors.ArgumentError, match="dataset"):
            fsp.ClipLoader(other, rule, **options).load_state_dict(after)


def test_images_have_labels_and_columns_too(photos):
    dataset = fsp.datasets.Dataset(
        [(path, n / 2) for n, (path, _) in enumerate(photos[:4])], (), {"name": list("abcd")}
    )
    [batch] = fsp.ImageLoader(dataset, batch_size=4, transforms=[fsp.transforms.Resize((8, 8))], shuffle=False)
    assert batch.labels.tolist() == [0.0, 0.5, 1.0, 1.5] and batch.columns["name"] == list("abcd")


def test_a_batch_is_unpacked_and_read_by_name(short_clips, photos):
    sampler, resize = fsp.samplers.RandomClips(sequence_length=2), [fsp.transforms.Resize((8, 8))]
    (batch, *_) = fsp.ClipLoader(short_clips[:2], sampler, batch_size=2, transforms=resize)
    frames, labels = batch
    assert frames is batch.frames is batch["frames"] and labels.tolist() == [0, 1] and len(batch) == 2
    assert "mask" in batch and "x" not in batch
    absent = {"columns", "unpadded_sizes", "mixed_with", "mix_weights", "audio", "audio_mask"}
    assert set(batch.as_dict()) == set(vars(batch)) - absent
    with pytest.raises(fsp.errors.ArgumentError, match=r"no 'image'; it has frames, labels"):
        batch["image"]
    assert "frames=Tensor((2, 2, 3, 8, 8), uint8)," in repr(batch)
    (images, *_) = fsp.ImageLoader(photos[:2], batch_size=2)
    pixels, labels = images
    assert pixels is images.images and len(labels) == 2 and "masks" not in images.as_dict()
    assert "images=[Tensor(" in repr(images), "photographs of different sizes"


def test_frame_columns_have_the_values_of_the_frames(tiny_clips):
    files = [(path, label) for path, label in tiny_clips[:3]]
    lengths = [len(fsp.Video(path)) for path, _ in files]
    part = fsp.datasets.VideoSegment(files[0][0], start_frame=20, end_frame=60)
    dataset = fsp.datasets.Dataset([*files, (part, 5)])
    columns = {
        "number": [np.arange(length) + 1000 * n for n, length in enumerate(lengths)] + [list(range(40))],
        "share": [[0.5] * length for length in lengths] + [[0.25] * 40],
        "segment": [[(0.0, 1.6, 4), (1.0, 9.0, 9)], [], [(0, 100, 0)], [(1.0, 1.2, 8)]],
    }
    for group in (False, True):
        loader = fsp.ClipLoader(
            dataset,
            fsp.samplers.RandomClips(sequence_length=3, stride=7, clips_per_video=2, padding="blank"),
            batch_size=3,
            transforms=[fsp.transforms.Resize((8, 8))],
            shuffle="full",
            repeats=2,
            group_clips=group,
            frame_columns=columns,
        )
        seen = set()
        for batch in loader:
            assert all(batch.columns[name].shape == batch.indices.shape for name in columns)
            shape = (len(batch), -1, 3)
            arrays = [batch.indices, batch.pts_seconds, *(batch.columns[name] for name in columns)]
            rows = zip(batch.video_ids.tolist(), *(each.numpy().reshape(shape) for each in arrays), strict=True)
            for sample, indices, times, numbers, shares, segments in rows:
                first = 20 if sample == 3 else 0
                assert (numbers == np.where(indices < 0, -1, indices - first + 1000 * (sample % 3))).all()
                assert (shares == (0.25 if sample == 3 else 0.5)).all()
                for time, segment in zip(times.flat, segments.flat, strict=True):
                    known = columns["segment"][sample]
                    assert segment == next((n for start, end, n in known if start <= time < end), -1)
                    seen.add(int(segment))
        assert {-1, 0, 4, 9} <= seen
    short = {"y": [[1] * 5, *columns["number"][1:]]}
    loader = fsp.ClipLoader(dataset, fsp.samplers.Indices([[9]]), batch_size=1, frame_columns=short)
    with pytest.raises(
        fsp.errors.ArgumentError, match=r"\['y'\]: the entry of sample 0 .* has 5 values, but .* frame 9"
    ):
        next(iter(loader))
    for wrong, message in (
        ([[1]], "must be a dict"),
        ({"y": [[1]]}, "one entry per sample, 4, but has 1 entries"),
        ({"y": 3}, "but has no list"),
        ({"y": [[1], ["a"], [1], [1]]}, "entry of sample 1 .* must be a list of numbers"),
        ({"y": [[1], [(0, 1, 2)], [1], [1]]}, "others of segments"),
    ):
        with pytest.raises(fsp.errors.ArgumentError, match=message):
            fsp.ClipLoader(dataset, fsp.samplers.Indices([[9]]), batch_size=1, frame_columns=wrong)
    named = fsp.datasets.Dataset(files, columns={"y": [1, 2, 3]})
    with pytest.raises(fsp.errors.ArgumentError, match="has a column 'y' already"):
        fsp.ClipLoader(named, fsp.samplers.Indices([[9]]), batch_size=1, frame_columns={"y": [[1]] * 3})
