"""Batches of windows of audio: each is the cut of its file's audio, in an order that only the arguments determine."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import textwrap
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest
from processes import wait_until_settled
from servers import FaultyServer
from test_audio import AAC, MP3, OPUS, SIGNAL, VORBIS, run

#: Name, sample rate, seconds, encoder arguments. The last two are videos.
FILES = {
    "sounds/bell/tone.wav": (44100, 2.5, ["-c:a", "pcm_s16le"]),
    "sounds/bell/tone.flac": (44100, 2.0, ["-c:a", "flac"]),
    "sounds/bell/tone.mp3": (44100, 2.2, MP3),
    "sounds/rain/tone.m4a": (44100, 3.0, AAC),
    "sounds/rain/tone.ogg": (48000, 2.0, VORBIS),
    "sounds/rain/tone.opus": (48000, 3.1, OPUS),
    "video/aac.mp4": (48000, 2.0, AAC),
    "video/opus.mkv": (48000, 3.0, OPUS),
}
RATE, SECONDS = 16000, 0.4
LENGTH = round(RATE * SECONDS)


@pytest.fixture(scope="module")
def files(encoder, tmp_path_factory) -> Path:
    """The folder of the files."""
    root = tmp_path_factory.mktemp("files")
    for name, (rate, seconds, options) in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        inputs = ["-f", "lavfi", "-i", SIGNAL.format(rate=rate, seconds=seconds)]
        if name.startswith("video"):
            picture = ["-f", "lavfi", "-i", f"testsrc2=s=64x48:r=25:d={seconds}"]
            inputs = [*picture, *inputs, "-c:v", "libx264", "-preset", "ultrafast"]
        run([encoder, "-v", "error", *inputs, *options, str(root / name)])
    return root


@pytest.fixture(scope="module")
def paths(files) -> list[str]:
    return [str(files / name) for name in FILES]


def whole(source, rate: int = RATE) -> tuple[float, np.ndarray]:
    """Begin of the audio of a file, and all of it, mono."""
    file = fsp.video.AudioFile(source, index=False)
    return file.info.begin_seconds, file.samples(sample_rate=rate, channels=1).numpy()[0]


@pytest.fixture(scope="module")
def all_audio(paths) -> dict[int, list[tuple[float, np.ndarray]]]:
    """By rate, the begin and the samples of each file."""
    return {rate: [whole(path, rate) for path in paths] for rate in (RATE, 44100)}


def loader_of(dataset, audio: fsp.Audio | None = None, **more) -> fsp.AudioLoader:
    audio = fsp.Audio(RATE, seconds=SECONDS) if audio is None else audio
    return fsp.AudioLoader(dataset, audio, **({"batch_size": 5, "index": False, "seed": 5} | more))


def check(batch, audio: list[tuple[float, np.ndarray]]) -> list[tuple[int, int]]:
    """Compares each window with the cut of its file; returns the file and the first sample of each."""
    found = []
    length, rate = batch.audio.shape[-1], batch.sample_rate
    rows = zip(batch.file_ids.tolist(), batch.start_seconds.tolist(), batch.audio, batch.audio_mask, strict=True)
    for file, start, window, mask in rows:
        begin, samples = audio[file]
        first = round((start - begin) * rate)
        assert abs((start - begin) * rate - first) < 1e-6
        padded = np.concatenate([np.zeros(length, "f4"), samples, np.zeros(length, "f4")])
        at = first + length
        assert at >= 0 and np.array_equal(window.numpy()[0], padded[at : at + length])
        inside = np.arange(first, first + length)
        assert np.array_equal(mask.numpy(), (inside >= 0) & (inside < len(samples)))
        found.append((file, first))
    return found


def content(batch) -> tuple:
    """Everything that a batch has, for comparisons."""
    arrays = (batch.audio, batch.audio_mask, batch.start_seconds, batch.labels, batch.padding)
    return batch.window_ids.tolist(), batch.file_ids.tolist(), *(array.numpy().tobytes() for array in arrays)


RULES = {
    "random": {"windows_per_file": 3},
    "uniform": {"windows": "uniform", "windows_per_file": 4},
    "consecutive": {"windows": "consecutive"},
    "overlapping": {"windows": "consecutive", "step_seconds": 0.15, "padding": "drop"},
}


@pytest.mark.parametrize("rate", [RATE, 44100])
@pytest.mark.parametrize("rule", RULES)
def test_windows_equal_the_cut_of_the_whole_file(rule, rate, paths, all_audio):
    loader = loader_of([(path, n) for n, path in enumerate(paths)], fsp.Audio(rate, seconds=SECONDS), **RULES[rule])
    found = []
    for batch in loader:
        assert batch.audio.shape[1:] == (1, round(rate * SECONDS)) and batch.audio.dtype == "float32"
        assert batch.sample_rate == rate and batch.labels.tolist() == batch.file_ids.tolist()
        found += check(batch, all_audio[rate])
        assert np.abs(batch.audio.numpy()).max() > 0.1
    length, expected = round(rate * SECONDS), []
    for file, (_, samples) in enumerate(all_audio[rate]):
        last = len(samples) - length
        step = round(0.15 * rate)
        expected += {
            "random": [(file, None)] * 3,
            "uniform": [(file, (2 * n * last + 3) // 6) for n in range(4)],
            "consecutive": [(file, first) for first in range(0, len(samples), length)],
            "overlapping": [(file, first) for first in range(0, last + 1, step)],
        }[rule]
    if rule == "random":
        assert len(set(found)) == len(found) == loader.num_windows
        assert all(first + length <= len(all_audio[rate][file][1]) for file, first in found)
        found = [(file, None) for file, _ in found]
    assert found == expected and loader.num_windows == len(expected)


@pytest.mark.parametrize(
    "order", [{}, {"shuffle": True}, {"shuffle": fsp.BufferShuffle(5)}, {"last_batch": "fill"}], ids=str
)
def test_batches_do_not_depend_on_threads(order, paths):
    def batches(**more):
        loader = loader_of(paths, windows_per_file=3, **order, **more)
        return [content(batch) for _ in range(2) for batch in loader]

    expected = batches(num_threads=1)
    assert len(expected) == 10
    for more in ({"num_threads": 2, "prefetch_batches": 0}, {"num_threads": 7, "prefetch_batches": 4}):
        assert batches(**more) == expected
    assert batches(num_threads=1, seed=6) != expected


def test_epochs_have_other_random_windows_of_the_same_files(paths, all_audio):
    loader = loader_of(paths, windows_per_file=2, shuffle="full")
    epochs = [[place for batch in loader for place in check(batch, all_audio[RATE])] for _ in range(3)]
    assert all(sorted(file for file, _ in each) == sorted([*range(8)] * 2) for each in epochs)
    assert len({place for each in epochs for place in each}) == 48
    again = loader_of(paths, windows_per_file=2, shuffle="full")
    again.set_epoch(1)
    assert [place for batch in again for place in check(batch, all_audio[RATE])] == epochs[1]
    assert content(again.batch(epoch=2, index=1)) == content(loader.batch(epoch=2, index=1))


@pytest.mark.parametrize("more", [{"shuffle": "full"}, {"windows": "consecutive", "shuffle": "buffer"}], ids=str)
def test_resume_after_every_batch(more, paths):
    whole_epoch = [content(batch) for batch in loader_of(paths, **more)]
    for after in range(len(whole_epoch) + 1):
        first = loader_of(paths, **more)
        iterator = iter(first)
        for _ in range(after):
            next(iterator)
        resumed = loader_of(paths, num_threads=2, **more)
        resumed.load_state_dict(first.state_dict())
        if after == len(whole_epoch):
            assert resumed.epoch == 1
        else:
            assert [content(batch) for batch in resumed] == whole_epoch[after:]


def test_states_of_other_windows_are_refused(paths):
    state = loader_of(paths).state_dict()
    others = [
        ({"padding": "loop"}, "loader: the audio of a window was"),
        ({"windows": "uniform"}, "loader: the audio of a window was"),
        ({"audio": fsp.Audio(8000, seconds=SECONDS)}, "loader: the audio of a window was"),
        ({"seed": 1}, "seed was 5"),
    ]
    for more, message in others:
        with pytest.raises(fsp.errors.ArgumentError, match=message):
            loader_of(paths, **more).load_state_dict(state)
    clips = fsp.ClipLoader(paths, fsp.samplers.Indices([0]), batch_size=5, index=False)
    with pytest.raises(fsp.errors.ArgumentError, match="another kind of loader: it has the audio of a window"):
        clips.load_state_dict(state)
    with pytest.raises(fsp.errors.ArgumentError, match="lacks audio"):
        loader_of(paths).load_state_dict(clips.state_dict())


def test_ranks_share_the_windows(paths, all_audio):
    ranks = [loader_of(paths, windows_per_file=3, shuffle=True, num_shards=2, shard_id=rank) for rank in (0, 1)]
    lengths = [len(loader) for loader in ranks]
    windows = [window for loader in ranks for batch in loader for window in batch.window_ids.tolist()]
    assert lengths == [3, 3] and sorted(windows) == [*range(24)]
    # Another number of ranks with the same global batch continues.
    alone = loader_of(paths, windows_per_file=3, shuffle=True, batch_size=10)
    iterator = iter(alone)
    next(iterator)
    rest = [set(batch.window_ids.tolist()) for batch in iterator]
    resumed = [loader_of(paths, windows_per_file=3, shuffle=True, num_shards=2, shard_id=rank) for rank in (0, 1)]
    again = iter(alone2 := loader_of(paths, windows_per_file=3, shuffle=True, batch_size=10))
    next(again)
    for loader in resumed:
        loader.load_state_dict(alone2.state_dict())
    both = zip(*resumed, strict=True)
    assert [set(a.window_ids.tolist()) | set(b.window_ids.tolist()) for a, b in both] == rest


@pytest.fixture(scope="module")
def short(encoder, paths, tmp_path_factory) -> list[str]:
    """A file of 2.5 s, and one of 0.3 s."""
    path = tmp_path_factory.mktemp("short") / "short.flac"
    run([encoder, "-v", "error", "-i", paths[0], "-t", "0.3", "-c:a", "flac", str(path)])
    return [paths[0], str(path)]


@pytest.mark.parametrize("windows", ["random", "uniform", "consecutive"])
def test_padding_of_short_files(windows, short):
    audio = [whole(path) for path in short]
    wanted = fsp.Audio(RATE, seconds=1.0)
    [zeros] = loader_of(short, wanted, windows=windows)
    places = check(zeros, audio)
    assert places[-1] == (1, 0) and len(places) == (4 if windows == "consecutive" else 2)
    [looped] = loader_of(short, wanted, windows=windows, padding="loop")
    assert looped.audio_mask.numpy().tobytes() == zeros.audio_mask.numpy().tobytes(), "only its own samples count"
    for (file, first), window in zip(places, looped.audio.numpy()[:, 0], strict=True):
        samples = audio[file][1]
        assert np.array_equal(window, np.take(samples, np.arange(first, first + RATE), mode="wrap"))
    dropping = loader_of(short, wanted, windows=windows, padding="drop")
    [dropped] = dropping
    assert check(dropped, audio) == [place for place in places if place[0] == 0 and place[1] + RATE <= len(audio[0][1])]
    [omitted] = dropping.dropped()
    assert omitted["path"] == short[1] and "too short" in omitted["reason"]
    with pytest.raises(fsp.errors.ArgumentError, match=r"no file yields a window.*longest has 0\.300 s, a window 1 s"):
        loader_of(short[1:], wanted, windows=windows, padding="drop")


def test_whole_files(paths, all_audio):
    found = []
    for batch in loader_of(paths, fsp.Audio(RATE), shuffle="full"):
        longest = max(len(all_audio[RATE][file][1]) for file in batch.file_ids.tolist())
        assert batch.audio.shape == (len(batch), 1, longest)
        found += check(batch, all_audio[RATE])
    assert sorted(found) == [(file, 0) for file in range(8)]


@pytest.mark.parametrize("padding", ["zeros", "loop", "drop"])
def test_segments_in_seconds(padding, paths):
    parts = [(paths[0], 0.5, 1.75), (paths[0], 1.0, 1.1), (paths[3], None, 2.0), (paths[3], 1.0, None)]
    dataset = [fsp.datasets.VideoSegment(path, start_seconds=a, end_seconds=b) for path, a, b in parts]
    rows: dict[int, list] = {file: [] for file in range(4)}
    for batch in loader_of(dataset, windows="consecutive", padding=padding):
        windows = zip(batch.start_seconds.tolist(), batch.audio.numpy()[:, 0], strict=True)
        for file, window in zip(batch.file_ids.tolist(), windows, strict=True):
            rows[file].append(window)
    for file, (path, a, b) in enumerate(parts):
        offset, samples = whole(path)
        begin, end = ((None if at is None else round((at - offset) * RATE)) for at in (a, b))
        part = samples[begin:end]
        assert len(rows[file]) == (len(part) // LENGTH if padding == "drop" else -(-len(part) // LENGTH))
        for number, (start, window) in enumerate(rows[file]):
            first = number * LENGTH
            assert start == pytest.approx(offset + ((begin or 0) + first) / RATE, abs=1e-9)
            expected = np.take(part, np.arange(first, first + LENGTH), mode="wrap")
            if padding == "zeros":
                expected[max(0, len(part) - first) :] = 0
            assert np.array_equal(window, expected)
    with pytest.raises(fsp.errors.ArgumentError, match="sample 0: a segment of audio needs seconds"):
        loader_of([fsp.datasets.VideoSegment(paths[0], start_frame=3)])
    empty = fsp.datasets.VideoSegment(paths[0], start_seconds=9.0)
    with pytest.raises(fsp.errors.ClipSamplingError, match=r"contains no audio of the file, which ends at 2\.500 s"):
        next(iter(loader_of([empty])))
    for rule in ("random", "uniform", "consecutive"):
        with pytest.raises(fsp.errors.ClipSamplingError, match="contains no audio of the file"):
            next(iter(loader_of([paths[0], empty], batch_size=99, windows=rule, padding=padding)))
        loader = loader_of([paths[0], empty], windows=rule, padding=padding, on_error="skip")
        assert {file for batch in loader for file in batch.file_ids.tolist()} == {0}
        assert [each["kind"] for each in loader.failures()] == ["clip_sampling"]
        assert all("contains no audio of the file" in each["reason"] for each in loader.dropped())


@pytest.fixture(scope="module")
def silent(encoder, paths, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("silent") / "silent.mp4"
    run([encoder, "-v", "error", "-i", paths[6], "-an", "-c:v", "copy", str(path)])
    return str(path)


@pytest.fixture(scope="module")
def damaged(paths, tmp_path_factory) -> str:
    """A FLAC file with wrong bytes in its middle, which its checksums show."""
    data = bytearray(Path(paths[1]).read_bytes())
    at = len(data) // 2
    data[at : at + 64] = bytes(value ^ 0x55 for value in data[at : at + 64])
    path = tmp_path_factory.mktemp("damaged") / "damaged.flac"
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize(
    "windows", [{"windows": "uniform", "windows_per_file": 3}, {"windows": "consecutive"}], ids=str
)
def test_on_error(windows, paths, silent, damaged, all_audio):
    dataset = [paths[0], silent, paths[2], damaged, str(Path(paths[0]).with_name("missing.wav"))]
    audio = {0: all_audio[RATE][0], 2: all_audio[RATE][2], 3: whole(paths[1])}
    counted = windows["windows"] == "consecutive"
    with pytest.raises((fsp.errors.NoAudioError, fsp.errors.NotFoundError)):
        list(loader_of(dataset, **windows))
    batches = {}
    for policy in ("skip", "replace"):
        for threads in (1, 4):
            loader = loader_of(dataset, on_error=policy, num_threads=threads, shuffle="full", **windows)
            batches[policy, threads] = [content(batch) for batch in loader]
            loader.set_epoch(0)
            places = [place for batch in loader for place in check(batch, audio)]
            assert {file for file, _ in places} == {0, 2, 3}
            if policy == "replace":
                assert len(places) == loader.num_windows
                assert loader.stats()["clips_replaced"] > 0
            else:
                assert len(places) == len(set(places)) < loader.num_windows
            failed = {Path(each["path"]).name: each["kind"] for each in loader.failures()}
            kinds = {"silent.mp4": "no_audio", "damaged.flac": "decode", "missing.wav": "not_found"}
            assert failed == kinds
            if counted:
                assert loader.stats()["videos_failed"] == 2
        assert batches[policy, 1] == batches[policy, 4]


def test_files_without_audio_may_be_silent(paths, silent, photos):
    dataset = [paths[0], silent]
    with pytest.raises(fsp.errors.NoAudioError, match=r"silent\.mp4: no audio stream.*h264"):
        list(loader_of(dataset))
    for more in ({}, {"windows": "consecutive"}, {"padding": "drop"}):
        loader = loader_of(dataset, fsp.Audio(RATE, seconds=SECONDS, missing="zeros"), **more)
        rows = [row for batch in loader for row in zip(batch.file_ids.tolist(), batch.audio_mask.numpy(), strict=True)]
        assert [mask.any() for file, mask in rows if file == 1] == [False]
        assert all(mask.any() for file, mask in rows if file == 0)
    [batch] = loader_of(dataset, fsp.Audio(RATE, missing="zeros"))
    assert batch.audio_mask.numpy().sum(axis=1).tolist() == [40000, 0]
    for rule in ("random", "uniform"):
        for padding in ("zeros", "loop", "drop"):
            audio = fsp.Audio(RATE, seconds=SECONDS, missing="zeros")
            loader = loader_of(dataset, audio, windows=rule, windows_per_file=3, padding=padding)
            assert [file for batch in loader for file in batch.file_ids.tolist()] == [0, 0, 0, 1, 1, 1]
    images = fsp.datasets.ImageSequence(Path(photos[0][0]).parent, fps=25)
    with pytest.raises(fsp.errors.NoAudioError, match="images only"):
        next(iter(loader_of([images])))


def test_no_picture_is_decoded(paths, all_audio):
    loader = loader_of(paths[6:], windows="consecutive", num_threads=3)
    for batch in loader:
        check(batch, [*all_audio[RATE][6:]])
    stats = loader.stats()
    assert stats["frames_decoded"] == stats["decoders_opened"] == stats["frames"] == 0
    assert stats["clips"] == loader.num_windows and stats["bytes_read"] > 0


def test_a_file_is_indexed_once(paths, tmp_path):
    """All workers need the index of the same file at the same time."""
    path = tmp_path / "long.mkv"
    shutil.copy(paths[7], path)
    wait_until_settled(path)
    more = {"windows_per_file": 16, "num_threads": 8, "batch_size": 16, "index": tmp_path / "index"}
    loader = loader_of([str(path)], **more)
    expected = [content(batch) for batch in loader]
    assert (loader.stats()["videos_indexed"], loader.stats()["index_hits"]) == (1, 0)
    fsp._framespool.flush_index()
    again = loader_of([str(path)], **more)
    assert [content(batch) for batch in again] == expected
    assert (again.stats()["videos_indexed"], again.stats()["index_hits"]) == (0, 1)


def test_idle_readers_are_closed_if_no_more_files_can_be_opened(encoder, tmp_path):
    """Those of audio in containers that only libavformat reads, each of which holds its file open."""
    names = [tmp_path / f"{number}.ts" for number in range(30)]
    source = ["-f", "lavfi", "-i", SIGNAL.format(rate=48000, seconds=1)]
    run([encoder, "-v", "error", *source, *AAC, str(names[0])])
    for name in names[1:]:
        shutil.copy(names[0], name)
    program = """
        import os, resource, sys
        import framespool as fsp

        audio = fsp.Audio(16000, seconds=0.4)
        loader = fsp.AudioLoader(sys.argv[1:], audio, batch_size=1, num_threads=1, prefetch_batches=1, index=False)
        batches = iter(loader)
        found = [next(batches) for _ in range(8)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        held = []
        try:
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        print(len(found + list(batches)))
    """
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, names)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "30\n", done.stderr[-500:]


def test_datasets(files, paths, all_audio, tmp_path):
    sounds = files / "sounds"
    folder = fsp.datasets.audio_folder(sounds)
    assert folder.class_to_idx == {"bell": 0, "rain": 1}
    assert sorted(path for path, _ in folder) == sorted(paths[:6])
    assert [label for _, label in folder] == [0, 0, 0, 1, 1, 1]
    assert len(fsp.datasets.audio_folder(sounds, extensions=["flac"], classes=["rain", "bell"])) == 1
    with pytest.raises(fsp.errors.ArgumentError):
        fsp.datasets.audio_folder(tmp_path)
    with open(tmp_path / "list.csv", "w") as rows:
        rows.write("path,label,start,end,speaker\n")
        rows.writelines(f"{path},{n % 2},0.25,1.25,{n}\n" for n, path in enumerate(paths))
    listed = fsp.datasets.csv(tmp_path / "list.csv")
    batches = [*loader_of(listed, windows_per_file=2)]
    found = [place for batch in batches for place in check(batch, all_audio[RATE])]
    assert all(0.25 * RATE - 500 <= first <= (1.25 - SECONDS) * RATE + 500 for _, first in found)
    speakers = [value for batch in batches for value in batch.columns["speaker"].tolist()]
    assert speakers == [n for n in range(8) for _ in range(2)]
    with tarfile.open(tmp_path / "shard.tar", "w") as tar:
        for n, path in enumerate(paths[:3]):
            tar.add(path, f"{n}{Path(path).suffix}")
    packed = fsp.datasets.webdataset(str(tmp_path / "shard.tar"), video=["wav", "flac", "mp3"], label=None)
    [batch] = loader_of(packed, windows_per_file=1)
    assert len(check(batch, all_audio[RATE])) == 3
    [batch] = loader_of([Path(paths[0]).read_bytes()])
    check(batch, all_audio[RATE])
    mixture = fsp.datasets.mix((fsp.datasets.Dataset(paths[:2]), 1), (fsp.datasets.Dataset(paths[2:]), 3))
    found = [place for batch in loader_of(mixture, shuffle="full") for place in check(batch, all_audio[RATE])]
    assert len(found) == 8
    weighted = fsp.datasets.weighted(fsp.datasets.Dataset(paths), [0.0] * 7 + [1.0])
    assert {file for batch in loader_of(weighted, shuffle="full") for file in batch.file_ids.tolist()} == {7}


def test_own_order(paths, all_audio):
    order = [3, 1, 15, 0, 3]
    found = [batch.window_ids.tolist() for batch in loader_of(paths, windows_per_file=2, shuffle=order)]
    assert found == [order]


def test_random_shift_and_gain(paths, all_audio):
    samples = all_audio[RATE][0][1]

    def windows(**more):
        loader = loader_of(paths[:1], fsp.Audio(RATE, seconds=SECONDS, **more), windows="consecutive", batch_size=9)
        return [next(iter(loader)) for _ in range(2)]

    (shifted, other), plain = windows(shift=0.01), windows()[0]
    moved = [first - n * LENGTH for n, (_, first) in enumerate(check(shifted, all_audio[RATE]))]
    assert all(abs(each) <= 160 for each in moved) and len(set(moved)) > 3
    assert content(shifted) != content(other) and content(shifted) == content(windows(shift=0.01)[0])
    louder = windows(gain=(6, 6))[0].audio.numpy()
    assert np.array_equal(louder, plain.audio.numpy() * np.float32(10 ** (6 / 20)))
    assert len(samples) == 40000


def test_no_shift_moves_a_window_out_of_its_part(paths):
    """With `padding="drop"`, which promises windows without padding."""
    part = fsp.datasets.VideoSegment(paths[0], start_seconds=0.5, end_seconds=1.0)
    audio = fsp.Audio(RATE, seconds=SECONDS, shift=0.3)
    options = {"windows": "random", "windows_per_file": 20, "batch_size": 40, "padding": "drop"}
    [batch] = loader_of([paths[0], part], audio, **options)
    assert batch.audio_mask.numpy().all()
    begins = batch.start_seconds.numpy()[batch.file_ids.numpy() == 1]
    assert begins.min() >= 0.5 and begins.max() <= 1.0 - SECONDS + 1e-6 and len(set(begins)) > 3


def test_describe_clip(paths):
    loader = loader_of(paths, windows_per_file=2, shuffle="full")
    loader.set_epoch(3)
    for batch in loader:
        for window, file, start in zip(
            *(x.tolist() for x in (batch.window_ids, batch.file_ids, batch.start_seconds)), strict=True
        ):
            found = loader.describe_clip(window)
            assert found == {"path": paths[file], "file_id": file, "label": -1, "start_seconds": start}
    with pytest.raises(fsp.errors.ArgumentError, match="clip 16 does not exist"):
        loader.describe_clip(16)


def test_batches_convert(paths):
    [batch] = loader_of(paths, batch_size=8)
    audio, labels = batch
    assert audio is batch["audio"] and labels is batch.labels and len(batch) == 8
    assert np.shares_memory(np.from_dlpack(batch.audio), batch.audio.numpy())
    assert "AudioBatch(" in repr(batch)
    pytest.importorskip("torch")
    converted = batch.torch()
    assert converted.audio.shape == (8, 1, LENGTH) and converted.sample_rate == RATE
    assert converted.audio.numpy().tobytes() == audio.numpy().tobytes()


def test_channels(paths):
    [batch] = loader_of(paths[:2], fsp.Audio(44100, channels=2, seconds=SECONDS), windows="uniform")
    for row, path in enumerate(paths[:2]):
        samples = fsp.video.AudioFile(path, index=False).samples(batch.start_seconds.tolist()[row], SECONDS).numpy()
        assert np.array_equal(batch.audio.numpy()[row], samples)


def test_other_threads_run_while_batches_are_made(paths):
    """The GIL is not held: a thread of this process sends the files, so it would wait for ever."""
    content = Path(paths[0]).read_bytes()
    with FaultyServer(content).running() as server:
        urls = [server.url(f"{number}.wav") for number in range(6)]
        loader = loader_of(urls, shuffle=False, batch_size=1, num_threads=1, prefetch_batches=0)
        sent = [len(set(server.paths)) for _ in loader]
    assert sent == [1, 2, 3, 4, 5, 6], "a file is read for its batch"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"audio": 16000}, r"audio must be Audio"),
        ({"audio": fsp.Audio(seconds=1, align="center")}, "align='center' is for the audio of clips"),
        ({"audio": fsp.Audio(), "windows": "consecutive"}, "without seconds means whole files"),
        ({"audio": fsp.Audio(), "windows_per_file": 2}, "without seconds means whole files"),
        ({"audio": fsp.Audio(8000, seconds=1e-5)}, "seconds must be at least 0.000125"),
        ({"windows": "all"}, "windows must be"),
        ({"windows_per_file": 0}, "windows_per_file must be at least 1"),
        ({"windows_per_file": 2, "windows": "consecutive"}, "windows_per_file is for"),
        ({"step_seconds": 0.5}, 'step_seconds needs windows="consecutive"'),
        ({"step_seconds": 0, "windows": "consecutive"}, "step_seconds must be at least"),
        ({"padding": "repeat"}, "padding must be"),
        ({"shuffle": "grouped"}, 'shuffle="full" in place'),
        ({"shuffle": fsp.GroupedShuffle()}, 'shuffle="full" in place'),
        ({"batch_size": fsp.TokenBudget(100)}, "batch_size must be"),
    ],
    ids=str,
)
def test_wrong_arguments(more, message, paths):
    with pytest.raises(fsp.errors.ArgumentError, match=message):
        loader_of(paths, **more)


def test_names_of_other_libraries(paths):
    for name, hint in (("seconds", "Audio"), ("hop_length", "step_seconds"), ("transforms", "batch.audio")):
        with pytest.raises(TypeError, match=hint):
            fsp.AudioLoader(paths, fsp.Audio(seconds=1), batch_size=2, **{name: 1})
