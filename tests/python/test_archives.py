"""Videos and images in archives: the same batches as from plain files, and errors that name archive and member."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest
from framespool.datasets import ArchiveMember, Dataset, VideoSegment
from PIL import Image
from small_loaders import KEYWORDS, clips, digest


def packed(archive: Path, files: list[str | Path]) -> list[ArchiveMember]:
    """The files concatenated with padding around each; and their offsets."""
    members, data = [], b"begin"
    for path in map(Path, files):
        content = path.read_bytes()
        members.append(ArchiveMember(archive, len(data), len(content), path.name))
        data += content + b"between"
    archive.write_bytes(data)
    return members


@pytest.fixture
def plain_and_packed(tmp_path: Path, short_clips) -> tuple[list[tuple[str, int]], list[tuple[ArchiveMember, int]]]:
    """Videos, and the same videos as members of an archive."""
    members = packed(tmp_path / "a.bin", [path for path, _ in short_clips])
    return short_clips, [(member, label) for member, (_, label) in zip(members, short_clips, strict=True)]


def test_batches_equal_those_of_plain_files(plain_and_packed):
    plain, members = plain_and_packed
    rules = [None, fsp.samplers.Windows(sequence_length=4, step=2), fsp.samplers.UniformClips(sequence_length=3)]
    for rule in rules:
        assert digest(clips(members, rule)) == digest(clips(plain, rule))


def test_any_container_is_read_where_it_lies(tmp_path, media):
    kinds: dict[str, Path] = {}
    for path in sorted((media / "video").rglob("*.*"), key=lambda path: (path.stat().st_size, path.name)):
        refused = {"corrupt", "audio"} & set(path.parts) or path.name == "squares_bt2020c.mp4"
        if not refused and path.suffix not in (*kinds, ".json", ".txt", ".md", ".m4a"):
            kinds[path.suffix] = path
    members = packed(tmp_path / "a.bin", list(kinds.values()))
    compared = 0
    for path, member in zip(kinds.values(), members, strict=True):
        theirs, ours = fsp.Video(path), fsp.Video(member)
        last = len(theirs) - 1
        assert ours.pts_seconds == theirs.pts_seconds and ours.info.codec == theirs.info.codec
        for frame in sorted({0, last // 2, last}):
            assert ours[frame].tobytes() == theirs[frame].tobytes(), (path, frame)
            compared += 1
        assert ours.info.path == f"{tmp_path / 'a.bin'}!{path.name}"
    assert len(kinds) >= 8 and compared >= 20, kinds
    print(f"{compared} frames of {len(kinds)} containers: {sorted(kinds)}")


def test_images_equal_those_of_plain_files(tmp_path, photos):
    files = [path for path, _ in photos]
    members = packed(tmp_path / "photos.bin", files)
    for exact in (True, False):
        ours, theirs = fsp.decode_images(members, exact=exact), fsp.decode_images(files, exact=exact)
        assert [one.tobytes() for one in ours] == [one.tobytes() for one in theirs]
    assert fsp.decode_image(members[3]).tobytes() == fsp.decode_image(files[3]).tobytes()
    labels = [label for _, label in photos]
    loaders = [fsp.ImageLoader(list(zip(sources, labels, strict=True)), **KEYWORDS) for sources in (members, files)]
    assert digest(loaders[0]) == digest(loaders[1])


def test_masks_in_archives(tmp_path, photos):
    sources, masks = [path for path, _ in photos[:6]], []
    for number, path in enumerate(sources):
        with Image.open(path) as image:
            mask = Image.fromarray(np.full((image.height, image.width), number, np.uint8))
        masks.append(tmp_path / f"{number}.png")
        mask.save(masks[-1])
    inside = packed(tmp_path / "masks.bin", masks)
    pictures = packed(tmp_path / "pictures.bin", sources)
    # Rotated images do not match masks that are not rotated.
    keywords = {**KEYWORDS, "transforms": [fsp.transforms.RandomResizedCrop(24)]}
    assert digest(fsp.ImageLoader(pictures, masks=inside, **keywords)) == digest(
        fsp.ImageLoader(sources, masks=masks, **keywords)
    )
    damaged = packed(tmp_path / "damaged.bin", [*masks[:5], sources[0]])
    loader = fsp.ImageLoader(pictures, masks=damaged, **keywords)
    with pytest.raises(fsp.Error, match=r"damaged\.bin!"):
        list(loader)
    (failure,) = loader.failures()
    assert failure["path"] == str(tmp_path / "pictures.bin") and failure["member"]["name"] == Path(sources[5]).name
    assert len(Dataset(pictures).exclude([failure])) == 5


def test_segments_of_a_member_share_index_and_decoding(plain_and_packed):
    plain, members = plain_and_packed

    def parts(entries):
        return [
            (VideoSegment(source, start_frame=start, end_frame=start + 12), label)
            for source, label in entries[:3]
            for start in (0, 8, 16)
        ]

    windows = fsp.samplers.Windows(sequence_length=4, step=2)
    # One thread: several may index a file concurrently, each for its own segment.
    ours, theirs = (clips(parts(entries), windows, num_threads=1) for entries in (members, plain))
    assert digest(ours) == digest(theirs)
    ours, theirs = ours.stats(), theirs.stats()
    assert ours["videos_indexed"] == 3 and ours["gops_shared"] == theirs["gops_shared"] > 0
    assert ours["frames_decoded"] == theirs["frames_decoded"]


def test_archive_members_are_identified_by_their_bytes(tmp_path, short_clips):
    archive = tmp_path / "a.bin"
    first, second = packed(archive, [short_clips[0][0], short_clips[1][0]])
    nameless = ArchiveMember(archive, first.offset_bytes, first.num_bytes)
    assert nameless == first and hash(nameless) == hash(first) and nameless != second
    part = [(VideoSegment(source, start_frame=0, end_frame=8), 0) for source in (first, nameless, second)]
    loader = clips(part, fsp.samplers.Windows(sequence_length=4), num_threads=1)
    list(loader)
    assert loader.stats()["videos_indexed"] == 2
    video = fsp.Video(nameless)
    assert video.info.path == f"{archive}!{first.offset_bytes}..{first.offset_bytes + first.num_bytes}"
    again = pickle.loads(pickle.dumps(video))
    assert again[3].tobytes() == fsp.Video(short_clips[0][0])[3].tobytes()
    assert pickle.loads(pickle.dumps(first)) == first


def test_member_is_a_path_and_two_integers():
    for wrong in (None, 3, b"a.tar"):
        with pytest.raises(fsp.errors.ArgumentError, match="file must be a path"):
            ArchiveMember(wrong, 0, 1)
    for numbers in ((-1, 1), (0, -1), (0.5, 1), (0, None), (2**63, 1)):
        with pytest.raises(fsp.errors.ArgumentError, match="_bytes must be"):
            ArchiveMember("a.tar", *numbers)
    with pytest.raises(fsp.errors.ArgumentError, match="name must be a string"):
        ArchiveMember("a.tar", 0, 1, b"a.mp4")
    assert ArchiveMember("a.tar", np.int64(5), np.uint8(7)) == ArchiveMember("a.tar", 5, 7)
    with pytest.raises(fsp.errors.ArgumentError, match="an ArchiveMember"):
        Dataset([(3, 0)])
    # A name that is not UTF-8, as Python has it.
    with pytest.raises(fsp.errors.NotFoundError, match="none.tar"):
        fsp.Video(ArchiveMember("none.tar", 0, 1, "a\udcff.mp4"))


def test_failures_name_archive_and_member(tmp_path, short_clips, bad_file):
    archive = tmp_path / "a.bin"
    intact = packed(archive, [short_clips[0][0], bad_file, short_clips[1][0]])
    beyond = ArchiveMember(archive, intact[2].offset_bytes, intact[2].num_bytes + 100, "beyond.mkv")
    gone = ArchiveMember(tmp_path / "gone.tar", 0, 10, "x.mp4")
    odd = ArchiveMember(archive, 1, 0, "a\udcff.mp4")
    dataset = Dataset([(source, 0) for source in (*intact, beyond, gone, VideoSegment(odd, start_frame=0))])
    loader = clips(dataset, on_error="skip", shuffle=False)
    list(loader)
    failures = {failure["video_id"]: failure for failure in loader.failures()}
    assert set(failures) == {1, 3, 4, 5}
    for number, name in ((1, "broken.mp4"), (3, "beyond.mkv"), (5, "a\udcff.mp4")):
        failure, member = failures[number], intact[1] if number == 1 else beyond if number == 3 else odd
        assert failure["path"] == str(archive)
        assert failure["member"] == {
            "name": name,
            "offset_bytes": member.offset_bytes,
            "num_bytes": member.num_bytes,
        }
        assert f"{archive}!{name.replace(chr(0xDCFF), chr(0xFFFD))}" in failure["message"]
    assert failures[3]["kind"] == "truncated" and failures[4]["kind"] == "not_found"
    assert failures[4]["path"] == str(tmp_path / "gone.tar")
    listed = tmp_path / "bad.jsonl"
    assert loader.write_failures(listed) == 4
    for failures_file in (listed, list(failures.values()), [intact[1], beyond, gone, odd]):
        assert dataset.exclude(failures_file).samples == [dataset.samples[0], dataset.samples[2]]
    # A failure of an archive applies to all its members.
    assert dataset.exclude([archive]).samples == [dataset.samples[4]]
    listed.write_text(json.dumps({"path": "a", "member": 3}) + "\n")
    with pytest.raises(fsp.errors.ArgumentError, match="line 1"):
        dataset.exclude(listed)


def test_state_fits_moved_archive_not_other_members(tmp_path, plain_and_packed):
    _, members = plain_and_packed
    loader = clips(members)
    next(iter(loader))
    state = loader.state_dict()
    moved = shutil.copytree(tmp_path, tmp_path.parent / f"{tmp_path.name}-moved")
    there = [(ArchiveMember(moved / "a.bin", m.offset_bytes, m.num_bytes), label) for m, label in members]
    again = clips(there)
    again.load_state_dict(state)
    assert again.state_dict() == state
    shifted = [(ArchiveMember(m.file, m.offset_bytes + 1, m.num_bytes), label) for m, label in members]
    with pytest.raises(fsp.errors.ArgumentError, match="the dataset"):
        clips(shifted).load_state_dict(state)


def test_changed_archive_is_indexed_again(tmp_path, short_clips):
    archive = tmp_path / "a.bin"
    members = packed(archive, [short_clips[0][0], short_clips[1][0]])
    loader = clips(members, fsp.samplers.UniformClips(sequence_length=4))
    first = digest(loader)
    loader.set_epoch(0)
    assert digest(loader) == first and loader.stats()["videos_indexed"] == 2
    copy = tmp_path / "copy.bin"
    shutil.copyfile(archive, copy)
    copy.replace(archive)
    loader.set_epoch(0)
    assert digest(loader) == first and loader.stats()["videos_indexed"] == 4


def add(tar: tarfile.TarFile, name: str, content: bytes | str) -> None:
    """A file of a tar."""
    data = content.encode() if isinstance(content, str) else content
    about = tarfile.TarInfo(name)
    about.size = len(data)
    tar.addfile(about, io.BytesIO(data))


def shard(path: Path, samples: list[dict[str, bytes | str]], form: int = tarfile.PAX_FORMAT) -> Path:
    """A tar of samples: each a name (``__key__``) and contents by extension."""
    with tarfile.open(path, "w", format=form) as tar:
        for sample in samples:
            for extension, content in sample.items():
                if extension != "__key__":
                    add(tar, f"{sample['__key__']}.{extension}", content)
    return path


def samples_of(entries) -> list[dict[str, bytes | str]]:
    return [
        {"__key__": f"{number:06}", "cls": f"{label}\n", "mkv": Path(path).read_bytes(), "txt": "a caption"}
        for number, (path, label) in enumerate(entries)
    ]


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_shards_give_the_batches_of_the_plain_files(tmp_path, short_clips, form):
    samples = samples_of(short_clips)
    for number in range(3):
        shard(tmp_path / f"train-{number:03}.tar", samples[number * 5 : number * 5 + 5], form)
    dataset = fsp.datasets.webdataset(f"{tmp_path}/train-{{000..002}}.tar")
    assert [label for _, label in dataset] == [label for _, label in short_clips] and dataset.classes == []
    labels = [label for _, label in short_clips]
    names = [f"class {number}" for number in range(max(labels) + 1)]
    assert fsp.datasets.webdataset(f"{tmp_path}/train-{{000..002}}.tar", classes=names).classes == names
    with pytest.raises(fsp.errors.ArgumentError, match=f"label {max(labels)} is not one of the {max(labels)} classes"):
        fsp.datasets.webdataset(f"{tmp_path}/train-{{000..002}}.tar", classes=names[:-1])
    assert digest(clips(dataset)) == digest(clips(short_clips))
    member = dataset[7][0]
    assert (
        isinstance(member, ArchiveMember) and member.name == "000007.mkv" and member.file == f"{tmp_path}/train-001.tar"
    )
    content = Path(member.file).read_bytes()[member.offset_bytes :][: member.num_bytes]
    assert content == Path(short_clips[7][0]).read_bytes()


def test_pictures_of_shards_and_their_json(tmp_path, photos):
    samples = []
    for n, (path, label) in enumerate(photos):
        metadata = json.dumps({"info": {"class": label}})
        samples.append({"__key__": f"{'long/' * 40}{n}", "jpg": Path(path).read_bytes(), "json": metadata})
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        path = shard(tmp_path / f"{form}.tar", samples, form)
        dataset = fsp.datasets.webdataset([path], video="jpg", label=("json", "info", "class"))
        assert digest(fsp.ImageLoader(dataset, **KEYWORDS)) == digest(fsp.ImageLoader(photos, **KEYWORDS))
        assert dataset[2][0].name == f"{'long/' * 40}2.jpg"
        assert dataset.columns == {"__key__": [f"{'long/' * 40}{n}" for n in range(len(photos))]}
    unlabeled = fsp.datasets.webdataset(tmp_path / f"{form}.tar", label=None, columns="json")
    assert [label for _, label in unlabeled] == [-1] * len(photos)
    assert unlabeled.columns["info"] == [{"class": label} for _, label in photos]
    with pytest.raises(fsp.errors.ArgumentError, match="columns must be"):
        fsp.datasets.webdataset(tmp_path / f"{form}.tar", columns=[""])
    with pytest.raises(
        fsp.errors.ArgumentError, match=r"extension 'json\.info'; columns='json' gives a column for each"
    ):
        fsp.datasets.webdataset(tmp_path / f"{form}.tar", label=None, columns="json.info")
    with pytest.raises(fsp.errors.ArgumentError, match="no sample has a member with the extension 'txt'$"):
        fsp.datasets.webdataset(tmp_path / f"{form}.tar", label=None, columns=("json", "txt"))
    with pytest.raises(fsp.errors.ArgumentError, match=r"has no label .*label=\('json', 'info', 'class'\)"):
        fsp.datasets.webdataset(tmp_path / f"{form}.tar", label="json.info.class")
    cased = fsp.datasets.webdataset(tmp_path / f"{form}.tar", label=None, columns="JSON")
    assert cased.columns == unlabeled.columns


def test_tars_of_tar_itself_are_read(tmp_path, short_clips):
    """Folders, links, and a name in UTF-8, as the program packs a folder."""
    folder = tmp_path / "f"
    (folder / "ä").mkdir(parents=True)
    for number, (path, label) in enumerate(short_clips[:4]):
        shutil.copyfile(path, folder / "ä" / f"{number}.mkv")
        (folder / "ä" / f"{number}.cls").write_text(str(label))
    (folder / "zzz.txt").symlink_to("nowhere")
    for form in ("v7", "oldgnu", "gnu", "ustar", "pax"):
        archive = tmp_path / f"{form}.tar"
        command = ["tar", f"--format={form}", "--sort=name", "-cf", str(archive), "-C", str(folder), "."]
        subprocess.run(command, check=True)
        dataset = fsp.datasets.webdataset(archive)
        assert [source.name for source, _ in dataset] == [f"./ä/{n}.mkv" for n in range(4)]
        assert digest(clips(dataset)) == digest(clips(short_clips[:4]))


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_incomplete_samples_are_named_by_shard_and_key(tmp_path, short_clips, on_error):
    good = samples_of(short_clips[:2])
    video = good[0]["mkv"]
    for odd, reason in [
        ({"mkv": video}, r"has no label \(\.cls\); give label=None"),
        ({"cls": "3"}, r"has a label but no video or image"),
        ({"mkv": video, "cls": "three"}, r"odd\.cls must be an integer, got 'three'"),
    ]:
        path = shard(tmp_path / "s.tar", [good[0], {"__key__": "odd", **odd}, good[1]])
        if on_error == "raise":
            with pytest.raises(fsp.errors.ArgumentError, match=rf"s\.tar, key 'odd': {reason}"):
                fsp.datasets.webdataset(path)
            continue
        with pytest.warns(UserWarning, match=rf"^1 skipped: .*key 'odd': {reason}"):
            dataset = fsp.datasets.webdataset(path, on_error="skip")
        assert [source.name for source, _ in dataset] == ["000000.mkv", "000001.mkv"]


def test_corrupt_shards_name_offset_and_keep_members(tmp_path, short_clips):
    path = shard(tmp_path / "s.tar", samples_of(short_clips[:4]), tarfile.USTAR_FORMAT)
    intact, whole = path.read_bytes(), fsp.datasets.webdataset(path)
    with tarfile.open(path) as tar:
        headers = [about.offset for about in tar.getmembers()]
    refused = 0
    for number, header in enumerate(headers):
        for damaged in (
            intact[: header + 100],
            intact[:header] + b"?" + intact[header + 1 :],
            intact[: header + 124] + b"77777777777" + intact[header + 135 :],
        ):
            path.write_bytes(damaged)
            with pytest.raises(fsp.errors.InvalidDataError, match=rf"s\.tar, byte {header}: ") as raised:
                fsp.datasets.webdataset(path)
            assert raised.value.file == str(path)
            if number < 2:
                with pytest.raises(fsp.errors.ArgumentError, match=r"nothing to load.*the first reason"):
                    fsp.datasets.webdataset(path, on_error="skip")
            else:
                with pytest.warns(UserWarning, match=rf"skipped: .*byte {header}"):
                    left = fsp.datasets.webdataset(path, on_error="skip")
                # A sample is a label, a video and a caption.
                assert left.samples == whole.samples[: (number + 1) // 3]
            refused += 1
    assert refused == 36
    gzipped = tmp_path / "s.tar.gz"
    gzipped.write_bytes(gzip.compress(intact))
    with pytest.raises(fsp.errors.UnsupportedError, match="unpack it first: gunzip"):
        fsp.datasets.webdataset(gzipped)


def test_shards_are_named_by_patterns_and_lists(tmp_path, short_clips):
    samples = samples_of(short_clips[:1])
    for name in ("a-08", "a-09", "a-10", "b-08", "{c}"):
        shard(tmp_path / f"{name}.tar", samples)

    def files(shards):
        return [Path(source.file).stem for source, _ in fsp.datasets.webdataset(shards)]

    assert files(f"{tmp_path}/a-{{08..10}}.tar") == ["a-08", "a-09", "a-10"]
    assert files(f"{tmp_path}/a-{{10..08}}.tar") == ["a-10", "a-09", "a-08"]
    assert files(f"{tmp_path}/{{b,a}}-{{08..08}}.tar") == ["b-08", "a-08"]
    assert files(f"{tmp_path}/{{a-09,b-08}}.tar") == ["a-09", "b-08"]
    assert files([tmp_path / "b-08.tar", f"{tmp_path}/a-{{09..09}}.tar"]) == ["b-08", "a-09"]
    assert files(tmp_path / "{c}.tar") == ["{c}"]  # a file of that very name
    for wrong, reason in [
        (f"{tmp_path}/a-{{08}}.tar", "must be a range such as"),
        ("a-{0..9999999}.tar", "at most 1000000 files"),
        ([], "at least one file"),
        (3, "must be a path"),
        ([3], "must be a path"),
    ]:
        with pytest.raises(fsp.errors.ArgumentError, match=reason):
            fsp.datasets.webdataset(wrong)
    with pytest.raises(fsp.errors.NotFoundError, match=r"a-11\.tar"):
        fsp.datasets.webdataset(f"{tmp_path}/a-{{10..12}}.tar")
    with pytest.warns(UserWarning, match="2 skipped.*a-11.*a-12"):
        assert len(fsp.datasets.webdataset(f"{tmp_path}/a-{{10..12}}.tar", on_error="skip")) == 1


def test_invalid_arguments_are_rejected(tmp_path, short_clips):
    path = shard(tmp_path / "s.tar", samples_of(short_clips[:1]))
    for keywords, reason in [
        ({"video": []}, "video must be a string or a list"),
        ({"video": [""]}, "none of them empty"),
        ({"video": "."}, "at least one extension"),
        ({"video": "mp4", "label": None}, "looked for members ending in .mp4"),
        ({"label": ("json", 3)}, "label must be a string or a list"),
        ({"label": ()}, "label must be a string or a list"),
        ({"on_error": "replace"}, "on_error"),
    ]:
        with pytest.raises(fsp.errors.ArgumentError, match=re.escape(reason)):
            fsp.datasets.webdataset(path, **keywords)
