"""Folders and list files as labeled videos."""

from __future__ import annotations

import framespool as fsp
import pytest


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
    with pytest.raises(fsp.ArgumentError, match="mp4"):
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
    rule = fsp.samplers.random(sequence_length=2)
    for wrong, said in [
        (dict(short_clips), r"list\(mapping.items\(\)\)"),
        (set(paths), "sorted"),
        (frozenset(paths), "sorted"),
    ]:
        for call in (fsp.datasets.Dataset, lambda d: fsp.ClipLoader(d, rule, batch_size=1), fsp.validate):
            with pytest.raises(fsp.ArgumentError, match=said):
                call(wrong)
    assert len(fsp.datasets.Dataset(dict(short_clips).items())) == len(short_clips)
