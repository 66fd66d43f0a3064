"""Compares random windows of audio, and clips with audio, with torchcodec, PyAV and decord: answers, CPU and wall time.

    FRAMESPOOL_FFMPEG_PROGRAM=... python benches/audio.py --files FOLDER --json out.json

A window is 2 s at 16 kHz mono, at a random time of a random file. The files have 10 to 600 s of audio: AAC in MP4 and
Opus in WebM, both with a small video, MP3, FLAC and WAV. They are made in the folder if missing.

"opened": a file is opened for each window, as a data set that keeps no decoders does; framespool without its index
cache, and with it. "kept": the decoders of all files are open, and only the window is timed. decord decodes the
complete audio when it opens a file, so it has no figure there. Sides take turns; ratios are medians over pairs of one
window.

"clips": 16 frames at 8 frames per second, 224x224, with 2 s of audio, from the MP4 files: `ClipLoader(audio=...)` and
torchcodec's two decoders in as many threads, opened for each clip, and kept open by each thread.

Before anything is timed, windows at the rate and with the channels of the file are compared with the complete audio as
PyAV decodes it. Sides that are not installed are omitted. torchaudio is not measured: since version 2.9 it decodes with
torchcodec.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import framespool as fsp
import numpy as np

RATE, SECONDS = 16_000, 2.0
VIDEO = "testsrc2=size={}:rate={}"
X264 = ["-c:v", "libx264", "-preset", "ultrafast", "-g", "50", "-pix_fmt", "yuv420p"]
VP8 = ["-c:v", "libvpx", "-deadline", "realtime", "-cpu-used", "8", "-b:v", "60k"]
#: Container, encoder of the audio, its rate; and size, rate and encoder of the video. AAC has no noise substitution:
#: the decoder invents that noise.
KINDS: dict[str, tuple[str, list[str], int, tuple[str, int, list[str]] | None]] = {
    "aac": ("mp4", ["-c:a", "aac", "-aac_pns", "0", "-b:a", "128k"], 44_100, ("320x240", 25, X264)),
    "mp3": ("mp3", ["-c:a", "libmp3lame", "-compression_level", "9", "-b:a", "128k"], 44_100, None),
    "opus": ("webm", ["-c:a", "libopus", "-compression_level", "2", "-b:a", "96k"], 48_000, ("160x90", 5, VP8)),
    "flac": ("flac", ["-c:a", "flac"], 44_100, None),
    "wav": ("wav", ["-c:a", "pcm_s16le"], 44_100, None),
}
#: Largest difference from the complete decode.
TOLERANCE = 1e-4


def make_files(folder: Path, count: int) -> dict[str, list[tuple[Path, float]]]:
    """Encodes the files that the folder lacks, `count` of each kind; returns them with their durations."""
    from framespool.tools._transcode import _ffmpeg

    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, list[tuple[Path, float]]] = {kind: [] for kind in KINDS}
    commands = []
    for number, (kind, (suffix, encoder, rate, video)) in itertools.product(range(count), KINDS.items()):
        # 10 to 600 s, the same for each kind.
        seconds = round(10 * 60 ** (number / max(1, count - 1)), 2)
        path = folder / f"{kind}_{number:02}.{suffix}"
        files[kind].append((path, seconds))
        if path.exists():
            continue
        # Noise on the left and a tone on the right, so that a window is not like another.
        command = [_ffmpeg.find(), "-y", "-v", "error"]
        command += ["-f", "lavfi", "-i", f"anoisesrc=color=pink:amplitude=0.4:sample_rate={rate}:seed={number}"]
        command += ["-f", "lavfi", "-i", f"sine=frequency={200 + 37 * number}:beep_factor=4:sample_rate={rate}"]
        graph = "[0][1]amerge=inputs=2[audio]"
        if video is not None:
            command += ["-f", "lavfi", "-i", VIDEO.format(*video[:2])]
            encoder = ["-map", "2:v", *video[2], *encoder]
        half = folder / f"half-{path.name}"
        command += ["-filter_complex", graph, "-map", "[audio]", *encoder, "-t", str(seconds), str(half)]
        commands.append((command, half, path))

    def encode(job: tuple[list[str], Path, Path]) -> None:
        subprocess.run(job[0], check=True)
        job[1].rename(job[2])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(encode, commands))
    return files


class Side:
    """A library. `open` opens a file, `window` reads a window of it."""

    name = ""

    def open(self, path: str) -> Any:
        raise NotImplementedError

    def window(self, opened: Any, start: float) -> Any:
        raise NotImplementedError


class Framespool(Side):
    name = "framespool"

    def __init__(self, index: str | None) -> None:
        self.index: Any = False if index is None else index

    def open(self, path: str) -> Any:
        return fsp.video.AudioFile(path, index=self.index)

    def window(self, opened: Any, start: float) -> Any:
        return opened.samples(start, SECONDS, sample_rate=RATE, channels=1)


class Torchcodec(Side):
    name = "torchcodec"

    def __init__(self) -> None:
        from torchcodec.decoders import AudioDecoder  # type: ignore[import-not-found]

        self.decoder = AudioDecoder

    def open(self, path: str) -> Any:
        return self.decoder(path, sample_rate=RATE, num_channels=1)

    def window(self, opened: Any, start: float) -> Any:
        return opened.get_samples_played_in_range(start, start + SECONDS).data


class PyAV(Side):
    name = "PyAV"

    def __init__(self) -> None:
        import av  # type: ignore[import-not-found]

        self.av = av

    def open(self, path: str) -> Any:
        return self.av.open(path)

    def window(self, opened: Any, start: float) -> Any:
        """Seeks, decodes from 0.15 s before the window, so that decoder and filter have settled, and resamples."""
        stream = opened.streams.audio[0]
        opened.seek(max(0, int((start - 0.15) / stream.time_base)), stream=stream)
        resampler = self.av.AudioResampler("fltp", "mono", RATE)
        parts: list[Any] = []
        begin = None
        for frame in opened.decode(stream):
            begin = frame.time if begin is None else begin
            parts += resampler.resample(frame)
            if frame.time > start + SECONDS:
                break
        parts += resampler.resample(None)
        samples = np.concatenate([part.to_ndarray() for part in parts], axis=1)
        first = round((start - (begin or 0.0)) * RATE)
        return samples[:, first : first + round(SECONDS * RATE)]


class Decord(Side):
    name = "decord"

    def __init__(self) -> None:
        import decord  # type: ignore[import-not-found]

        self.decord = decord

    def open(self, path: str) -> Any:
        return self.decord.AudioReader(path, sample_rate=RATE, mono=True)

    def window(self, opened: Any, start: float) -> Any:
        first = round(start * RATE)
        return opened[first : first + round(SECONDS * RATE)].asnumpy()


def check(files: dict[str, list[tuple[Path, float]]], rng: random.Random) -> dict[str, float]:
    """Largest difference from PyAV's complete decode, by kind; SystemExit if it is too large."""
    import av

    found: dict[str, float] = {}
    for kind, paths in files.items():
        for path, _ in paths[: len(paths) // 2]:
            with av.open(str(path)) as container:
                frames = list(container.decode(audio=0))
                converter = av.AudioResampler("fltp", frames[0].layout.name, frames[0].sample_rate)
                parts = [part.to_ndarray() for frame in frames for part in converter.resample(frame)]
            complete = np.concatenate(parts, axis=1)
            audio = fsp.video.AudioFile(str(path), index=False)
            info = audio.info
            for _ in range(4):
                first = rng.randrange(complete.shape[1] - 2 * info.sample_rate)
                window = audio.samples(info.begin_seconds + first / info.sample_rate, SECONDS).numpy()
                apart = float(np.abs(window - complete[:, first : first + window.shape[1]]).max())
                found[kind] = max(found.get(kind, 0.0), apart)
    print("largest difference from PyAV's complete decode:", {kind: f"{apart:.1e}" for kind, apart in found.items()})
    wrong = [kind for kind, apart in found.items() if apart > TOLERANCE]
    if wrong:
        sys.exit(f"wrong samples: {', '.join(wrong)}")
    return found


def timed(run: Callable[[], Any]) -> tuple[float, float, Any]:
    """CPU and wall milliseconds, and the result."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = run()
    return 1e3 * (time.process_time() - cpu), 1e3 * (time.perf_counter() - wall), result


def open_and_read(side: Side, path: str, start: float) -> Any:
    return side.window(side.open(path), start)


def correlation(mine: Any, theirs: Any) -> float:
    """Largest correlation of two windows that are at most 30 ms apart.

    They are mixed with different gains and resampled with different filters. In WebM the other libraries round times to
    milliseconds, and in MP3 they may count the encoder's delay.
    """
    mine, theirs = (np.asarray(samples, np.float64).ravel() for samples in (mine, theirs))
    lag = RATE * 3 // 100
    if min(len(mine), len(theirs)) < RATE:
        return 0.0
    middle = mine[lag : min(len(mine), len(theirs)) - lag]
    middle = middle / np.linalg.norm(middle)
    shifted = np.lib.stride_tricks.sliding_window_view(theirs, len(middle))[: 2 * lag]
    norms = np.sqrt(np.convolve(theirs**2, np.ones(len(middle)), "valid"))[: 2 * lag]
    return float(np.max(shifted @ middle / np.maximum(norms, 1e-9)))


def windows(
    files: dict[str, list[tuple[Path, float]]], count: int, rng: random.Random
) -> Iterator[tuple[str, str, float]]:
    """Random windows: kind, path and start; `count` of each kind, in random order."""
    drawn = [(kind, *rng.choice(paths)) for kind, paths in files.items() for _ in range(count)]
    rng.shuffle(drawn)
    for kind, path, seconds in drawn:
        yield kind, str(path), rng.uniform(0.5, seconds - SECONDS - 0.5)


def compare(mode: str, sides: dict[str, Side], files: Any, count: int, seed: int) -> list[dict[str, Any]]:
    """Times the windows with each side in turn. Returns a row per kind and side."""
    kept = mode == "kept"
    opened: dict[tuple[str, str], Any] = {}
    if kept:
        for paths in files.values():
            for path, _ in paths:
                opened |= {(name, str(path)): side.open(str(path)) for name, side in sides.items()}
    times: dict[tuple[str, str], list[tuple[float, float]]] = {}
    correlations: dict[tuple[str, str], list[float]] = {}
    first_side = next(iter(sides))
    for number, (kind, path, start) in enumerate(windows(files, count, random.Random(seed))):
        answers = {}
        for name in sorted(sides, reverse=number % 2 == 1):
            side = sides[name]
            if kept:
                run = functools.partial(side.window, opened[name, path], start)
            else:
                run = functools.partial(open_and_read, side, path, start)
            cpu, wall, answers[name] = timed(run)
            times.setdefault((kind, name), []).append((cpu, wall))
        for name, answer in answers.items():
            correlations.setdefault((kind, name), []).append(correlation(answers[first_side], answer))
    rows = []
    for kind in [*files, "all"]:
        of = {
            name: [pair for (k, n), pairs in times.items() for pair in pairs if n == name and kind in (k, "all")]
            for name in sides
        }
        for name, pairs in of.items():
            mine = of[first_side]
            ratios = [statistics.median(b[i] / a[i] for a, b in zip(mine, pairs, strict=True)) for i in (0, 1)]
            same = [x for (k, n), xs in correlations.items() for x in xs if n == name and kind in (k, "all")]
            cpu, wall = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
            row = {"mode": mode, "kind": kind, "side": name, "cpu_ms": cpu, "wall_ms": wall}
            rows.append(
                {**row, "cpu_ratio": ratios[0], "wall_ratio": ratios[1], "correlation": statistics.median(same)}
            )
            print(
                f"{mode:8} {kind:5} {name:16} {cpu:9.2f} {wall:9.2f} {ratios[0]:8.2f} {ratios[1]:8.2f} "
                f"{rows[-1]['correlation']:8.3f}",
                flush=True,
            )
    return rows


def clips(files: list[tuple[Path, float]], index: str, rounds: int, threads: int) -> dict[str, Any]:
    """Clips with audio: samples per second and CPU milliseconds per sample of both sides, in turn."""
    import torch  # type: ignore[import-not-found]
    from torchcodec.decoders import AudioDecoder, VideoDecoder
    from torchcodec.transforms import Resize  # type: ignore[import-not-found]

    paths = [str(path) for path, _ in files]
    loader = fsp.ClipLoader(
        paths,
        fsp.samplers.RandomClips(sequence_length=16, fps=8, clips_per_video=4),
        batch_size=8,
        transforms=[fsp.transforms.Resize((224, 224))],
        shuffle="full",
        num_threads=threads,
        index=index,
        audio=fsp.Audio(sample_rate=RATE),
    )

    def ours(epoch: int) -> tuple[list[tuple[str, list[float]]], Any]:
        loader.set_epoch(epoch)
        drawn, last = [], None
        for batch in loader:
            times = batch.pts_seconds.tolist()
            drawn += [(paths[video], row) for video, row in zip(batch.video_ids.tolist(), times, strict=True)]
            last = (batch.frames.torch()[-1], batch.audio.torch()[-1])
        return drawn, last

    def open_both(path: str) -> tuple[Any, Any]:
        frames = VideoDecoder(path, transforms=[Resize((224, 224))], seek_mode="approximate")
        return frames, AudioDecoder(path, sample_rate=RATE, num_channels=1)

    decoders = threading.local()

    def one(clip: tuple[str, list[float]], keeps: bool) -> tuple[Any, Any]:
        path, times = clip
        if not keeps:
            frames, audio = open_both(path)
        else:
            kept = vars(decoders).setdefault("kept", {})
            frames, audio = kept[path] if path in kept else kept.setdefault(path, open_both(path))
        pictures = frames.get_frames_played_at([moment + 1e-4 for moment in times]).data
        samples = audio.get_samples_played_in_range(times[0], times[0] + SECONDS).data
        return pictures, torch.nn.functional.pad(samples, (0, round(SECONDS * RATE) - samples.shape[1]))

    def theirs(pool: ThreadPoolExecutor, drawn: list[tuple[str, list[float]]], keeps: bool) -> Any:
        last = None
        for first in range(0, len(drawn), 8):
            pairs = list(pool.map(one, drawn[first : first + 8], itertools.repeat(keeps)))
            last = torch.stack([pictures for pictures, _ in pairs])[-1], torch.stack([s for _, s in pairs])[-1]
        return last

    results: dict[str, list[dict[str, float]]] = {"opened": [], "kept": []}
    with ThreadPoolExecutor(threads) as pool:
        theirs(pool, ours(0)[0], True)  # builds the indices, opens decoders
        for epoch in range(1, rounds + 1):
            cpu, wall, (drawn, mine) = timed(lambda epoch=epoch: ours(epoch))
            for mode, rows in results.items():
                ask = functools.partial(theirs, pool, drawn, mode == "kept")
                peer_cpu, peer_wall, other = timed(ask)
                apart = (mine[0].float() - other[0].float()).abs().mean().item()
                same = correlation(mine[1], other[1])
                if apart > 6 or same < 0.95:
                    sys.exit(f"other frames or samples: {apart:.1f} levels apart, correlation {same:.3f}")
                count = len(drawn)
                row = {"cpu_ms": cpu / count, "peer_cpu_ms": peer_cpu / count, "per_second": 1e3 * count / wall}
                row |= {"peer_per_second": 1e3 * count / peer_wall}
                rows.append(row | {"cpu_ratio": peer_cpu / cpu, "wall_ratio": peer_wall / wall})
    found = {}
    for mode, rows in results.items():
        row = found[mode] = {key: statistics.median(each[key] for each in rows) for key in rows[0]}
        print(
            f"clips, {mode}: framespool {row['per_second']:.1f} samples/s, {row['cpu_ms']:.1f} CPU ms; torchcodec "
            f"{row['peer_per_second']:.1f} samples/s, {row['peer_cpu_ms']:.1f} CPU ms; ratio: CPU "
            f"{row['cpu_ratio']:.2f}, wall {row['wall_ratio']:.2f}"
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=Path, default=Path(tempfile.gettempdir()) / "framespool-audio")
    parser.add_argument("--count", type=int, default=20, help="files of each kind")
    parser.add_argument("--windows", type=int, default=60, help="windows of each kind and mode")
    parser.add_argument("--rounds", type=int, default=5, help="epochs of clips")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    files = make_files(options.files, options.count)
    result: dict[str, Any] = {"check": check(files, random.Random(5)), "rows": []}
    peers: dict[str, Side] = {}
    for kind in (Torchcodec, PyAV, Decord):
        try:
            peers[kind.name] = kind()
        except ImportError as reason:
            print(f"without {kind.name}: {reason}")
    with tempfile.TemporaryDirectory() as folder:
        warm = Framespool(folder)
        for paths in files.values():
            for path, _ in paths:
                warm.window(warm.open(str(path)), 1.0)
        print(f"{'mode':8} {'kind':5} {'side':16} {'CPU ms':>9} {'wall ms':>9} {'CPU x':>8} {'wall x':>8} {'corr.':>8}")
        opened = {"framespool": warm, "framespool, cold": Framespool(None), **peers}
        result["rows"] += compare("opened", opened, files, options.windows, 1)
        kept = {"framespool": warm, **{name: side for name, side in peers.items() if name != "decord"}}
        result["rows"] += compare("kept", kept, files, options.windows, 2)
        if "torchcodec" in peers:
            result["clips"] = clips(files["aac"], folder, options.rounds, options.threads)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
