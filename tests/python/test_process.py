"""Loaders in unusual processes: many at once, Ctrl-C at any time, other start methods, full disks,
files that change while open, unusual locales, file names and clocks."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import framespool as fsp
import pytest
from processes import wait_until_settled

SMALL = [fsp.transforms.Resize((24, 32))]
RULE = fsp.samplers.RandomClips(sequence_length=3, stride=2, clips_per_video=2)

#: Start of the programs below: a loader over the given files, and a digest of its batches.
COMMON = """
import hashlib, json, os, random, resource, signal, sys, threading, time
import framespool as fsp

def loader(paths, **keywords):
    rule = fsp.samplers.RandomClips(sequence_length=3, stride=2, clips_per_video=2)
    settings = {"batch_size": 4, "transforms": [fsp.transforms.Resize((24, 32))], "shuffle": "full", "seed": 3}
    return fsp.ClipLoader(paths, rule, **{**settings, **keywords})

def digest(batch):
    return hashlib.md5(batch.frames.tobytes() + batch.indices.tobytes() + batch.pts_seconds.tobytes()).hexdigest()

def digests(batches):
    return [digest(batch) for batch in batches]
"""


def loader(paths, **keywords):
    settings = {"batch_size": 4, "transforms": SMALL, "shuffle": "full", "seed": 3}
    return fsp.ClipLoader(paths, RULE, **{**settings, **keywords})


def digest(batch):
    return hashlib.md5(batch.frames.tobytes() + batch.indices.tobytes() + batch.pts_seconds.tobytes()).hexdigest()


def digests(batches):
    return [digest(batch) for batch in batches]


def run(program, *arguments, interpreter=(), **keywords):
    """The output of a program in its own process."""
    command = [sys.executable, *interpreter, "-c", COMMON + program, *map(os.fspath, arguments)]
    done = subprocess.run(command, capture_output=True, **keywords)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout.decode(errors="surrogateescape").split()


@pytest.fixture(scope="module")
def paths(short_clips):
    return [path for path, _ in short_clips[:6]]


@pytest.fixture(scope="module")
def expected(paths):
    return digests(loader(paths))


def test_concurrent_loaders_deliver_the_same_batches(paths, expected):
    keywords = [{"num_threads": 1 + n % 3, "prefetch_batches": n % 4, "cache": (n % 2) << 24} for n in range(12)]
    in_turns = [loader(paths, **kw) for kw in keywords]
    epochs = [iter(one) for one in in_turns]
    got = [digests(next(epoch) for epoch in epochs) for _ in expected]
    assert got == [[digest] * len(epochs) for digest in expected]
    found: dict[int, list[str]] = {}

    def consume(number):
        found[number] = digests(loader(paths, **keywords[number]))

    threads = [threading.Thread(target=consume, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: expected for number in range(6)}


def test_no_interrupt_is_lost_while_a_clip_sampler_is_read():
    """The native code reads the arguments of a clip sampler without running handlers of signals."""
    program = """
clip_sampler = fsp.samplers.RandomClips(sequence_length=8, stride=2)
lost = []
sys.unraisablehook = lost.append
signal.signal(signal.SIGINT, signal.default_int_handler)
done = threading.Event()
def fire():
    while not done.wait(0.0005):
        os.kill(os.getpid(), signal.SIGINT)
shots = threading.Thread(target=fire)
interrupts = 0
while True:
    try:
        if not shots.ident:
            shots.start()
        if interrupts >= 400:
            done.set()
            shots.join()
            break
        while True:
            clip_sampler.clips_in(100)
    except KeyboardInterrupt:
        interrupts += 1
print(len(lost))
"""
    assert run(program) == ["0"]


# FRAMESPOOL_INTERRUPTS=500 tries more of them; give it time with --timeout.
def test_loader_resumes_from_state_after_ctrl_c(paths):
    program = """
rounds, *paths = sys.argv[1:]
def loader(paths, loader=loader, **keywords):
    return loader(paths, batch_size=1, **keywords)
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs inherit that it is ignored
draw = random.Random(9)
expected = digests(loader(paths))
resumed = finished = 0
for number in range(int(rounds)):
    one = epoch = None
    begun = threading.Event()
    if number % 2:
        begun.set()  # at any time, also while the loader is created; in the other rounds within an epoch
    def fire(after=draw.random() ** 2 * 0.3):
        begun.wait()
        time.sleep(after)
        os.kill(os.getpid(), signal.SIGINT)
    shot = threading.Thread(target=fire)
    threads = draw.choice([1, 3])
    try:
        try:
            shot.start()
            while True:
                one = epoch = None
                one = loader(paths, num_threads=threads)
                epoch = iter(one)
                begun.set()
                list(epoch)
        finally:
            shot.join()
    except KeyboardInterrupt:
        pass
    if one is not None and epoch is not None:
        state = one.state_dict()
        rest = digests(epoch)
        if state["epoch"] == 0:
            assert rest == expected[state["batch"]:], (state, len(rest))
            again = loader(paths)
            again.load_state_dict(state)
            assert digests(again) == rest
            resumed += 1
        finished += 1
print(*digests(loader(paths)), resumed, finished)
"""
    rounds = os.environ.get("FRAMESPOOL_INTERRUPTS", "24")
    *last, resumed, finished = run(program, rounds, *paths[:2])
    assert last == digests(loader(paths[:2], batch_size=1))
    assert 0 < int(resumed) <= int(finished) <= int(rounds)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_child_processes_can_make_their_own_loaders(paths, expected, tmp_path, method):
    # Three concurrent children of a parent whose own loader is in the middle of an epoch.
    script = tmp_path / "script.py"
    script.write_text(
        COMMON
        + """
import multiprocessing

def work(paths, number, said):
    said.put((number, digests(loader(paths, num_threads=2))))

if __name__ == "__main__":
    method, *paths = sys.argv[1:]
    context = multiprocessing.get_context(method)
    own = iter(loader(paths))
    before = digests([next(own)])
    said = context.SimpleQueue()
    children = [context.Process(target=work, args=(paths, number, said)) for number in range(3)]
    for child in children:
        child.start()
    found = dict(said.get() for _ in children)
    for child in children:
        child.join()
    assert all(child.exitcode == 0 for child in children), [child.exitcode for child in children]
    assert found[0] == found[1] == found[2] == before + digests(own)
    print(*found[0])
"""
    )
    command = [sys.executable, "-W", "ignore", script, method, *paths]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == expected


def mounted(folder: Path) -> bool:
    """Mounts a file system of 64 KiB, if this process may."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]
    return shutil.which("mount") is not None and subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.parametrize("how", ["limit", "tmpfs"])
def test_a_full_disk_costs_the_index_and_nothing_else(paths, expected, tmp_path, how):
    program = """
place, how, *paths = sys.argv[1:]
list(loader(paths[:1], index=place))
fsp._framespool.flush_index()
if how == "limit":
    # No file may become larger than the database: writes fail as on a full disk.
    most = max(os.path.getsize(os.path.join(place, name)) for name in os.listdir(place))
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
else:
    with open(os.path.join(place, os.pardir, "ballast"), "wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(bytes(512))
        except OSError:
            pass
for _ in range(2):
    one = loader(paths, index=place)
    found = digests(one)
    fsp._framespool.flush_index()
cache_error = one.stats()["index_cache_error"]
assert cache_error is not None and place in cache_error, cache_error
print(*found)
"""
    disk = tmp_path / "disk"
    if how == "tmpfs":
        if not mounted(disk):
            pytest.skip("mounting a small file system needs root")
        try:
            assert run(program, disk / "index", how, *paths) == expected
        finally:
            subprocess.run(["umount", "-l", disk], check=True)
    else:
        assert run(program, disk / "index", how, *paths) == expected


@pytest.mark.parametrize("index", [False, True])
def test_truncated_files_fail_only_their_own_clips(paths, tmp_path, index):
    copies = [Path(shutil.copy(path, tmp_path / f"{number}.mkv")) for number, path in enumerate(paths)]
    keywords = {"shuffle": False, "batch_size": 2, "prefetch_batches": 0, "num_threads": 1}
    keywords["cache"] = fsp.Cache(lookahead=0)
    one = loader(copies, index=tmp_path / "index" if index else False, **keywords)
    intact = digests(one)
    assert intact == digests(loader(paths, **keywords))
    epoch = iter(one)
    # A batch is the two clips of one file. The second file keeps its header, the third nothing, the fourth is removed.
    next(epoch)
    os.truncate(copies[1], 1500)
    os.truncate(copies[2], 0)
    copies[3].unlink()
    for copy in copies[1:4]:
        with pytest.raises(fsp.Error) as raised:
            next(epoch)
        assert raised.value.file == str(copy) and not isinstance(raised.value, fsp.errors.InternalError)
    assert len(list(epoch)) == 2
    assert [failure["path"] for failure in one.failures()] == [str(copy) for copy in copies[1:4]]
    # Restored files are read again.
    for copy, path in zip(copies, paths, strict=True):
        shutil.copy(path, copy)
    one.set_epoch(1)
    assert len(list(one)) == 6


def test_video_truncated_while_open_is_a_typed_error(paths, tmp_path):
    copy = tmp_path / "a.mkv"
    shutil.copy(paths[0], copy)
    video = fsp.Video(copy)
    before = video.frames([0, 20], transforms=SMALL).frames.tobytes()
    os.truncate(copy, copy.stat().st_size // 2)
    for _ in range(2):
        with pytest.raises(fsp.Error, match="a.mkv"):
            video.frames([len(video) - 1])
    shutil.copy(paths[0], copy)
    assert fsp.Video(copy).frames([0, 20], transforms=SMALL).frames.tobytes() == before


@pytest.fixture(scope="module")
def locales(tmp_path_factory) -> Path:
    """Turkish and German locales, compiled with localedef if they are not installed."""
    place = tmp_path_factory.mktemp("locales")
    for name in ("tr_TR", "de_DE"):
        command = ["localedef", "-i", name, "-f", "UTF-8", place / f"{name}.UTF-8"]
        if not shutil.which("localedef") or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("no locales here, and none can be made: install the package locales")
    return place


@pytest.mark.parametrize("name", ["tr_TR.UTF-8", "de_DE.UTF-8", "C"])
def test_the_locale_changes_nothing(paths, expected, locales, tmp_path, name):
    # Decimal commas and the dotless i: C libraries must not depend on them.
    program = """
import locale
name, place, *paths = sys.argv[1:]
locale.setlocale(locale.LC_ALL, name)
assert (locale.localeconv()["decimal_point"] == ",") == (name != "C")
found = []
for _ in range(2):
    one = loader(paths, index=place)
    found.append(digests(one))
    fsp._framespool.flush_index()
assert found[0] == found[1] and one.stats()["index_hits"] == len(paths), one.stats()
state = json.loads(json.dumps(one.state_dict()))
one.load_state_dict(state)
info = fsp.Video(paths[0]).info
print(*found[0], repr(info.average_fps).replace(" ", ""), repr(info.duration_seconds), state["epoch"])
"""
    environment = {**os.environ, "LC_ALL": name, "LOCPATH": str(locales)}
    if name == "C":
        environment |= {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    *found, rate, seconds, epoch = run(program, name, tmp_path / "index", *paths, env=environment)
    info = fsp.Video(paths[0]).info
    assert found == expected
    assert (rate, seconds, epoch) == (repr(info.average_fps).replace(" ", ""), repr(info.duration_seconds), "1")


@pytest.mark.parametrize("utf8", ["0", "1"])
def test_non_utf8_file_names_are_read_and_reported(paths, expected, tmp_path, utf8):
    folder = os.fsencode(tmp_path) + b"/f\xf6lder \xff/class \xe9"
    os.makedirs(folder)
    for number, path in enumerate(paths):
        Path(os.fsdecode(folder + b"/%d\xfc\n.mkv" % number)).write_bytes(Path(path).read_bytes())
    broken = Path(os.fsdecode(folder + b"/9\xfe.mkv"))
    broken.write_bytes(b"no video" * 99)
    program = """
folder, *_ = sys.argv[1:]
paths = sorted(os.path.join(folder, name) for name in os.listdir(folder))
one = loader(paths[:-1], index=folder + "/index")
found = digests(one)
json.dumps(one.state_dict())
assert one.stats()["index_cache_error"] is None
listed = fsp.datasets.folder(os.path.dirname(folder))
assert sorted(os.fspath(source) for source, _ in listed.samples) == paths, listed.samples
try:
    fsp.Video(paths[-1])
except fsp.errors.InvalidDataError as error:
    str(error).encode()
    assert "9" in str(error)
else:
    raise SystemExit("was read")
skipping = loader(paths, on_error="skip")
list(skipping)
assert [failure["path"] for failure in skipping.failures()] == [paths[-1]]
print(*found)
"""
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": utf8, "PYTHONCOERCECLOCALE": "0"}
    assert run(program, os.fsdecode(folder), env=environment) == expected


@pytest.mark.parametrize("seconds", [0, -1, 2**31 + 5, 2**33], ids=["epoch", "before", "2038", "2242"])
def test_times_of_files_may_be_anything(paths, tmp_path, seconds):
    copies = [shutil.copy(path, tmp_path / Path(path).name) for path in paths]
    for copy in copies:
        os.utime(copy, (seconds, seconds))
        if os.stat(copy).st_mtime != seconds:
            pytest.skip(f"this file system does not keep the time {seconds}")
    wait_until_settled(*copies)
    program = """
place, *paths = sys.argv[1:]
one = loader(paths, index=place, shuffle=False, num_threads=1)
found = digests(one)
fsp._framespool.flush_index()
print(*found, one.stats()["index_hits"], one.stats()["videos_indexed"])
"""
    number, expected = len(copies), digests(loader(paths, shuffle=False))
    assert run(program, tmp_path / "index", *copies) == [*expected, "0", str(number)]
    assert run(program, tmp_path / "index", *copies) == [*expected, str(number), "0"]
    # Another video under the same name and the same time is another video. The last one: while its index is written,
    # the others need not be found.
    shutil.copy(paths[1], copies[-1])
    os.utime(copies[-1], (seconds, seconds))
    wait_until_settled(copies[-1])
    others = digests(loader([*paths[:-1], paths[1]], shuffle=False))
    assert run(program, tmp_path / "index", *copies) == [*others, str(number - 1), "1"]
