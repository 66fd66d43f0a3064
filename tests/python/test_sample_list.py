"""Samples stored in the engine behave like a list of the same pairs."""

from __future__ import annotations

import pickle

import framespool as fsp
import pytest
from framespool import _framespool
from framespool.datasets import ArchiveMember, Dataset, ImageSequence, VideoSegment
from framespool.datasets._sample_list import SampleList, joined
from framespool.loaders import _checkpoint


@pytest.fixture
def listed(tmp_path):
    """A dataset of a list, and one of a table, with the same samples."""
    lines = tmp_path / "list.txt"
    lines.write_text(
        "".join(f"{name} {label}\n" for label, name in enumerate(["b/ü.mp4", "a/1.mp4", "a/2.mp4", "c.mp4"]))
    )
    table = fsp.datasets.annotation_file(lines, root="/data//videos/")
    return Dataset(list(table.samples)), table


def test_a_table_is_what_the_list_of_its_entries_is(listed):
    plain, table = listed
    assert isinstance(table.samples, SampleList) and isinstance(plain.samples, list)
    assert table == plain and plain == table and table != plain[:3]
    assert table.samples == plain.samples and table.samples[1:] == plain.samples[1:]
    assert table.samples[::-2] == plain.samples[::-2] and table.samples[-1] == plain.samples[-1]
    assert len(table) == 4 and list(table) == plain.samples and plain.samples[2] in table.samples
    assert table.samples.index(plain.samples[2]) == 2
    assert table.samples[:1] + [("x", 1)] == [*plain.samples[:1], ("x", 1)]
    assert [("x", 1)] + table.samples[:1] == [("x", 1), *plain.samples[:1]]
    for place in (4, -5):
        with pytest.raises(IndexError, match=f"sample {place} is out of range"):
            table.samples[place]
    assert repr(table.samples) == repr(list(table.samples[:3]))[:-1] + ", … 4 samples]"
    assert repr(table.samples[:1]) == repr(plain.samples[:1])


def test_datasets_of_tables_stay_tables(listed):
    plain, table = listed
    both = table + table[1:3]
    assert isinstance(both.samples, SampleList) and both == plain + plain[1:3]
    kept = both.filter(lambda source, label, row: label in (1, 2))
    assert isinstance(kept.samples, SampleList) and kept.samples == [plain[1], plain[2], plain[1], plain[2]]
    assert table.exclude([table[1][0]]) == plain.exclude([table[1][0]])
    mixed = table + plain
    assert isinstance(mixed.samples, list) and mixed == plain + plain
    mix = fsp.datasets.mix((table, 1), (table[:2], 2))
    assert isinstance(mix.samples, SampleList) and mix.lengths == [4, 2]
    assert joined([]) == []
    union = table + table[:2]
    assert mix != union and union != mix and list(mix) == list(union)
    for sides in ((table, mix), (mix, table)):
        with pytest.raises(fsp.errors.ArgumentError, match="mix"):
            sides[0] + sides[1]


def test_tables_go_to_other_processes(listed, tmp_path):
    lines = tmp_path / "parts.jsonl"
    lines.write_text('{"video": "/v/a.mp4", "start": 1.5, "end": 2, "label": 3}\n{"video": "/v/b.mp4"}\n')
    parts = fsp.datasets.json_lines(lines, source="video")
    assert parts.samples == [(VideoSegment("/v/a.mp4", start_seconds=1.5, end_seconds=2.0), 3), ("/v/b.mp4", -1)]
    frames = tmp_path / "frames.txt"
    frames.write_text("f 30 1\ng 20 2\n")
    folders = fsp.datasets.annotation_file(frames, root="/r", columns=("total", "label"), fps=25)
    assert isinstance(folders[0][0], ImageSequence)
    for dataset in (listed[1], parts, folders, listed[1][:0]):
        back = pickle.loads(pickle.dumps(dataset))
        assert back == dataset and isinstance(back.samples, SampleList)
        assert list(back) == list(dataset)
    function, pieces = folders.samples.table.__reduce__()
    with pytest.raises(ValueError, match="do not match"):
        function(pieces[0], pieces[1], pieces[2], [])


@pytest.mark.parametrize(
    "names",
    [
        ["/data/videos/a/1.mp4", "/data/videos/b/2.mp4"],
        ["/data/videos/a.mp4"],
        ["/a.mp4", "/b.mp4"],
        ["a.mp4", "b/c.mp4"],
        ["//x//a.mp4", "//x/b.mp4"],
        ["/data/é.mp4", "/data/è.mp4"],
        ["/data/a", "/data/a/b.mp4"],
    ],
)
def test_a_table_has_the_fingerprint_of_its_list(tmp_path, names):
    """Otherwise a loader's state would not match a hand-written list of the same videos."""
    lines = tmp_path / "list.txt"
    lines.write_text("".join(f"{name} {label}\n" for label, name in enumerate(names)))
    table = fsp.datasets.annotation_file(lines, root="")
    assert isinstance(table.samples, SampleList)
    assert _checkpoint.fingerprint(table) == _checkpoint.fingerprint(Dataset(list(table.samples)))
    assert _checkpoint.fingerprint(table) != _checkpoint.fingerprint(Dataset([(name, 9) for name, _ in table.samples]))


def test_batches_do_not_depend_on_how_entries_are_kept(short_clips, tmp_path):
    lines = tmp_path / "list.txt"
    lines.write_text("".join(f"{path} {label}\n" for path, label in short_clips))
    table = fsp.datasets.annotation_file(lines)
    sampling = fsp.samplers.RandomClips(sequence_length=2)

    def digest(dataset):
        loader = fsp.ClipLoader(
            dataset, sampling, batch_size=4, transforms=[fsp.transforms.Resize((16, 24))], shuffle="full", num_threads=2
        )
        return [(batch.labels.tolist(), batch.frames.numpy().tobytes()) for batch in loader], loader.state_dict()

    assert digest(table) == digest(Dataset(short_clips))


def test_members_know_their_archive_and_name(tmp_path, short_clips):
    import tarfile

    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for path, label in short_clips[:3]:
            tar.add(path, f"{label:03}.mkv")
    dataset = fsp.datasets.webdataset(tmp_path / "a.tar", label=None)
    member = dataset[2][0]
    assert isinstance(member, ArchiveMember) and member.name == "002.mkv" and member.file == str(tmp_path / "a.tar")
    back = pickle.loads(pickle.dumps(dataset))[2][0]
    assert back == member and back.name == member.name


def test_what_is_kept_is_small(tmp_path):
    """The same as ``benches/start_up.py`` measures for ten million."""
    lines = tmp_path / "list.txt"
    name = "/data/kinetics700/train/class number {:03}/vid{:08}_000010_000020.mp4 {}\n"
    lines.write_text("".join(name.format(n // 100, n, n // 100) for n in range(20_000)))
    table = fsp.datasets.annotation_file(lines).samples.table
    assert isinstance(table, _framespool.SampleTable) and table.memory_bytes < 100 * len(table)
