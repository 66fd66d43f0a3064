"""The persistent index cache: shared by processes, unused if disabled, and harmless if it fails."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import framespool as fsp
import pytest
from processes import wait_until_settled

DATABASE = "framespool-index.sqlite3"
RULE = fsp.samplers.Windows(sequence_length=4)


def stats(dataset, **keywords):
    """The counts of a loader that has indexed its videos; the index cache is written when this returns."""
    counts = fsp.ClipLoader(dataset, RULE, batch_size=2, num_threads=2, **keywords).stats()
    fsp._framespool.flush_index()
    return counts


def found_and_built(dataset, **keywords):
    counts = stats(dataset, **keywords)
    assert counts["index_cache_error"] is None
    return counts["index_hits"], counts["videos_indexed"]


def test_second_loader_uses_the_stored_index(short_clips, tmp_path):
    n = len(short_clips)
    assert found_and_built(short_clips, index=tmp_path / "place") == (0, n)
    assert found_and_built(short_clips, index=str(tmp_path / "place")) == (n, 0)
    assert (tmp_path / "place" / DATABASE).is_file()
    assert found_and_built(short_clips, index=False) == (0, n)
    assert found_and_built(short_clips, index=tmp_path / "other") == (0, n)


def test_batches_are_the_same_with_a_stored_index(short_clips, tmp_path):
    def pixels(**keywords):
        resize = fsp.transforms.Resize((32, 32))
        loader = fsp.ClipLoader(short_clips[:3], RULE, batch_size=4, shuffle="full", transforms=[resize], **keywords)
        return [(b.frames.tobytes(), b.pts_seconds.tolist(), b.clip_ids.tolist()) for b in loader]

    fresh = pixels(index=False)
    assert pixels(index=tmp_path) == fresh
    fsp._framespool.flush_index()
    assert pixels(index=tmp_path) == fresh


def test_index_persists_if_process_exits_at_once(short_clips, tmp_path):
    program = "import sys, framespool; framespool.Video(sys.argv[1], index=sys.argv[2])"
    subprocess.run([sys.executable, "-c", program, short_clips[0][0], tmp_path], check=True)
    assert found_and_built(short_clips[:1], index=tmp_path) == (1, 0)


def test_default_path_comes_from_the_environment(short_clips, tmp_path, monkeypatch):
    monkeypatch.setenv("FRAMESPOOL_INDEX", str(tmp_path / "said"))
    assert found_and_built(short_clips[:2]) == (0, 2)
    assert found_and_built(short_clips[:2], index="auto") == (2, 0)
    assert (tmp_path / "said" / DATABASE).is_file()
    monkeypatch.setenv("FRAMESPOOL_INDEX", "off")
    assert found_and_built(short_clips[:2]) == (0, 2)
    monkeypatch.delenv("FRAMESPOOL_INDEX")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert found_and_built(short_clips[:2]) == (0, 2)
    assert (tmp_path / "cache" / "framespool" / "index" / DATABASE).is_file()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert found_and_built(short_clips[:2]) == (0, 2)
    assert (tmp_path / ".cache" / "framespool" / "index" / DATABASE).is_file()


def test_unusable_cache_folder_costs_time_but_no_frame(short_clips, tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("no folder")
    path = short_clips[0][0]
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        for _ in range(2):
            assert len(fsp.Video(path, index=place)) > 0
            counts = stats(short_clips[:1], index=place)
            assert str(place) in counts["index_cache_error"]
            assert (counts["index_hits"], counts["videos_indexed"]) == (0, 1)
        records = [record for record in caplog.records if record.name == "framespool.index"]
        assert [record.levelname for record in records] == ["WARNING"], "once per folder"
        assert str(place) in records[0].getMessage() and "FRAMESPOOL_INDEX" in records[0].getMessage()
        caplog.clear()
    monkeypatch.setenv("FRAMESPOOL_INDEX", str(tmp_path / "file"))
    counts = stats(short_clips[:1])
    assert str(tmp_path / "file") in counts["index_cache_error"]
    assert (counts["index_hits"], counts["videos_indexed"]) == (0, 1)


def test_missing_cache_folder_is_created(short_clips, tmp_path):
    place = tmp_path / "missing" / "folders"
    assert found_and_built(short_clips[:1], index=place) == (0, 1)
    assert (place / DATABASE).is_file()


@pytest.mark.parametrize("begins_full", [True, False])
def test_full_disk_costs_time_but_no_frame(short_clips, tmp_path, begins_full):
    """A limit on the size of files stands for a full disk; it fails the same system calls."""
    program = """
import logging, resource, sys, framespool as fsp
logging.basicConfig(format="%(name)s %(levelname)s %(message)s", stream=sys.stdout)
place, limit, *paths = sys.argv[1:]
rule = fsp.samplers.Windows(sequence_length=4)
if limit != "0":
    fsp.Video(paths[0], index=place)
    fsp._framespool.flush_index()
resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
for _ in range(2):
    loader = fsp.ClipLoader(paths, rule, batch_size=2, index=place)
    fsp._framespool.flush_index()
    clips = sum(len(batch.labels) for batch in loader)
    print("clips", clips == loader.num_clips > 0, loader.stats()["index_cache_error"] is not None)
"""
    limit = "0" if begins_full else "8192"
    paths = [path for path, _ in short_clips[:4]]
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path, limit, *paths], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("clips")] == ["clips True True"] * 2, done.stdout + done.stderr
    assert sum(line.startswith("framespool.index WARNING") for line in lines) == 1, done.stdout


@pytest.mark.parametrize("wrong", [True, 7, "", b"place", ["place"]])
def test_what_is_no_place_is_repeated_back(short_clips, wrong):
    with pytest.raises(fsp.errors.ArgumentError, match="index must be a folder"):
        fsp.Video(short_clips[0][0], index=wrong)


def test_bytes_are_not_kept(short_clips, tmp_path):
    content = Path(short_clips[0][0]).read_bytes()
    assert found_and_built([(content, 0)], index=tmp_path) == (0, 1)
    assert found_and_built([(content, 0)], index=tmp_path) == (0, 1)
    fsp.Video(content, index=tmp_path)


def test_a_file_that_changed_is_indexed_again(short_clips, tmp_path):
    path = tmp_path / "video.mkv"
    shutil.copy(short_clips[0][0], path)
    wait_until_settled(path)
    keywords = {"index": tmp_path / "place"}
    assert [found_and_built([path], **keywords) for _ in range(2)] == [(0, 1), (1, 0)]
    shutil.copy(short_clips[1][0], path)
    wait_until_settled(path)
    assert [found_and_built([path], **keywords) for _ in range(2)] == [(0, 1), (1, 0)]
    assert len(fsp.Video(path, **keywords)) == len(fsp.Video(short_clips[1][0], index=False))


def test_pickled_video_keeps_its_index_path(short_clips, tmp_path):
    again = pickle.loads(pickle.dumps(fsp.Video(short_clips[0][0], index=tmp_path)))
    assert len(again) == len(fsp.Video(short_clips[0][0]))
    assert again._index == str(tmp_path)


def test_repeatedly_removed_folder_is_no_error(short_clips, tmp_path):
    place, path = tmp_path / "index", short_clips[0][0]
    program = "import shutil, sys, time\nwhile True: time.sleep(0.03), shutil.rmtree(sys.argv[1], ignore_errors=True)"
    with subprocess.Popen([sys.executable, "-c", program, place]) as remover:
        try:
            for _ in range(300):
                assert len(fsp.Video(path, index=place)) > 0
        finally:
            remover.kill()


def test_damaged_database_is_emptied_and_reported(short_clips, tmp_path):
    found_and_built(short_clips, index=tmp_path)
    program = (
        "import sys, framespool as fsp; rule = fsp.samplers.Windows(sequence_length=4);"
        "loader = lambda: fsp.ClipLoader(sys.argv[2:], rule, batch_size=2, index=sys.argv[1]);"
        "first = loader().stats(); fsp._framespool.flush_index(); second = loader().stats();"
        "print(first['index_hits'], first['videos_indexed'], 'emptied' in first['index_cache_error'],"
        " second['index_hits'])"
    )
    (tmp_path / DATABASE).write_bytes(b"not a database" * 1000)
    command = [sys.executable, "-c", program, tmp_path, *(path for path, _ in short_clips)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", str(len(short_clips)), "True", str(len(short_clips))]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without write access")
def test_who_may_not_write_may_read(short_clips, tmp_path):
    for folder in [tmp_path, *tmp_path.parents[:-2]]:
        folder.chmod(folder.stat().st_mode | 0o055)
    copies = [shutil.copy(path, tmp_path) for path, _ in short_clips[:4]]
    wait_until_settled(*copies)
    assert found_and_built(copies[:3], index=tmp_path / "place") == (0, 3)
    program = (
        "import os, sys; import framespool as fsp; os.setgid(65534); os.setuid(65534);"
        "rule = fsp.samplers.Windows(sequence_length=4);"
        "s = fsp.ClipLoader(sys.argv[2:], rule, batch_size=2, index=sys.argv[1]).stats();"
        "print(s['index_hits'], s['videos_indexed'], s['index_cache_error'])"
    )
    command = [sys.executable, "-c", program, tmp_path / "place", *copies]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("3 1 ") and "cannot be written" in done.stdout


def test_children_of_a_fork_open_their_own(short_clips, tmp_path):
    """Like workers of a DataLoader whose parent has opened videos."""
    program = """
import os, sys, framespool as fsp
place, *paths = sys.argv[1:]
fsp.Video(paths[0], index=place)
fsp._framespool.flush_index()
for n, path in enumerate(paths):
    child = os.fork()
    if child == 0:
        fsp.Video(path, index=place)
        fsp._framespool.flush_index()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, path
fsp.Video(paths[-1], index=place)
stats = fsp.ClipLoader(paths, fsp.samplers.Windows(sequence_length=4), batch_size=2, index=place).stats()
print(stats["index_hits"], stats["videos_indexed"], stats["index_cache_error"])
"""
    command = [sys.executable, "-W", "ignore", "-c", program, tmp_path, *(path for path, _ in short_clips)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(len(short_clips)), "0", "None"]


def test_forks_while_indices_are_written_do_no_harm(short_clips, tmp_path):
    """Children forked during a write do not use the index; none hangs, and the database stays valid."""
    program = """
import os, sys, threading, framespool as fsp
place, *paths = sys.argv[1:]
stop = threading.Event()
def build():
    while not stop.is_set():
        for path in paths:
            fsp.Video(path, index=place)
            os.utime(path)
threading.Thread(target=build).start()
for n in range(60):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            fsp.Video(paths[n % len(paths)], index=place)
            fsp._framespool.flush_index()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
stop.set()
"""
    copies = [shutil.copy(path, tmp_path) for path, _ in short_clips[:4]]
    place = tmp_path / "place"
    command = [sys.executable, "-W", "ignore", "-c", program, place, *copies]
    subprocess.run(command, capture_output=True, text=True, check=True)
    wait_until_settled(*copies)
    stats(copies, index=place)
    assert found_and_built(copies, index=place) == (4, 0)


def made_by(encoder, *words):
    subprocess.run([encoder, "-v", "error", "-y", *map(str, words)], check=True)


def same_frames(one, other):
    assert len(one) == len(other) > 0
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


def test_field_pairs_in_mp4_are_frames(videos):
    stream, mp4 = fsp.Video(videos / "odd" / "h264_paff.h264"), fsp.Video(videos / "odd" / "h264_paff.mp4")
    # Six frames are frame pictures, the six between are two fields in one sample each.
    assert (len(stream), len(mp4), mp4.info.num_packets) == (12, 12, 18)
    assert same_frames(stream, mp4)
    assert all(mp4[number].tobytes() == stream[number].tobytes() for number in (11, 2, 5)), "alone too"
    assert len({frame.tobytes() for frame in mp4}) == 12


def test_a_long_preface_hides_no_frame(videos, encoder, tmp_path):
    """Messages of 100 KB before the first slice, which is after the bytes usually read of a key packet."""
    message = "086f3693-b7b3-4f2c-9653-21492feee5b8+" + "a" * 100_000
    for name, filters in [("plain.mp4", []), ("long.mp4", ["-bsf:v", f"h264_metadata=sei_user_data={message}"])]:
        source = ["-i", videos / "derived" / "base_640x360.mp4", "-map", "0:v", "-frames:v", 60]
        made_by(encoder, *source, "-c", "copy", *filters, tmp_path / name)
    plain, long = fsp.Video(tmp_path / "plain.mp4"), fsp.Video(tmp_path / "long.mp4")
    assert plain.info.keyframes == long.info.keyframes and same_frames(plain, long)
