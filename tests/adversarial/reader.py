"""A child process that reads files with framespool in every way and reports the results.

Each line of JSON on standard input is one file. The answer is lines ``{"step": ...}`` while it works and one line with
the result. System limits end the process before it exhausts the machine's memory; the parent detects that.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import random
import re
import resource
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ["FRAMESPOOL_INDEX"] = "off"

import framespool as fsp  # noqa: E402
import numpy as np  # noqa: E402
from framespool.compat import decord  # noqa: E402

#: Limit of private writable memory of this process in bytes.
MEMORY = 3 << 29
#: Frames of one video that are requested one by one; a table may declare millions.
FRAMES = 64
#: Frames shorter than this have no timestamp at which to request them.
SHORTEST = 1e-6
#: Output of Rust's derived Debug, which must not appear in messages to users.
DEBUG_OUTPUT = re.compile(r"\w+ \{ ?\w+: |\bSome\(|\bNone\b")


def digest(rgb: np.ndarray) -> str:
    """Digest of one frame's RGB bytes and size, as in the oracle."""
    return hashlib.blake2b(rgb.tobytes(), digest_size=8, key=repr(rgb.shape).encode()).hexdigest()


def peak_mib() -> float:
    """Most resident memory since :func:`forget_peak`, in MiB."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def forget_peak() -> None:
    """Resets the peak of resident memory."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def describe(error: BaseException) -> str:
    """Class and message of an error."""
    return f"{type(error).__name__}: {error}"


class Report:
    """The results for one file."""

    def __init__(self, path: str) -> None:
        self.path = path
        #: For each way of reading, frame index to its digest, or to None if the request failed.
        self.answers: dict[str, dict[int, str | None]] = {}
        #: For each way of reading, its first error.
        self.errors: dict[str, str] = {}
        #: Errors that no file may cause.
        self.unfair: list[str] = []
        self.seconds: dict[str, float] = {}

    def saw(self, way: str, index: int, rgb: np.ndarray) -> None:
        """Records a frame."""
        found = digest(rgb)
        if self.answers.setdefault(way, {}).setdefault(index, found) != found:
            self.unfair.append(f"{way}: frame {index} was returned twice, with different bytes")

    def failed(self, way: str, wanted: list[int], error: BaseException) -> None:
        """Records an error; errors that no file may cause are recorded separately."""
        text = describe(error)
        fair = isinstance(error, fsp.Error) or isinstance(error.__cause__, fsp.Error)
        if not fair or isinstance(error, (fsp.errors.InternalError, fsp.errors.ArgumentError)):
            self.unfair.append(f"{way}: {text}")
        elif self.path not in text:
            self.unfair.append(f"{way}: an error that does not name the file: {text}")
        elif DEBUG_OUTPUT.search(text):
            self.unfair.append(f"{way}: an error with Debug output: {text}")
        self.errors.setdefault(way, text)
        for index in wanted:
            self.answers.setdefault(way, {}).setdefault(index, None)


def step(name: str) -> None:
    """Reports the next step, so that the parent knows where a hang is."""
    print(json.dumps({"step": name}), flush=True)


def chosen(count: int, rng: random.Random) -> list[int]:
    """Frames to request alone, in random order: all, or some of many, including the first and the last."""
    if count <= FRAMES:
        found = list(range(count))
    else:
        found = sorted({0, 1, count // 2, count - 2, count - 1, *(rng.randrange(count) for _ in range(FRAMES))})
    rng.shuffle(found)
    return found


#: Digests of the frames of intact files, each read alone by this process.
INTACT: dict[str, list[str]] = {}


def intact_frames(path: str) -> list[str]:
    """Digests of all frames of an intact file."""
    if path not in INTACT:
        INTACT[path] = [digest(frame.numpy()) for frame in fsp.Video(path, num_threads=1, index=False, layout="THWC")]
    return INTACT[path]


def ways(
    report: Report, intact: str | None, threads: int, rng: random.Random
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Each way of reading with this number of threads, by name; `intact` is the file that was mutated."""
    path = report.path
    video = fsp.Video(path, num_threads=threads, index=False, layout="THWC")
    count = len(video)
    several = min(count, 4 * FRAMES)

    def alone() -> None:
        for index in chosen(count, rng):
            try:
                report.saw(f"alone, {threads} threads", index, video[index].numpy())
            except Exception as error:
                report.failed(f"alone, {threads} threads", [index], error)

    def sequential() -> None:
        index = -1
        try:
            for index, frame in enumerate(video):
                report.saw(f"sequential, {threads} threads", index, frame.numpy())
                if index >= several:
                    return
        except Exception as error:
            report.failed(f"sequential, {threads} threads", [index + 1], error)

    def together(way: str, wanted: list[int]) -> None:
        try:
            frames = video.frames(wanted)
        except Exception as error:
            report.failed(f"{way}, {threads} threads", wanted, error)
            return
        for index, frame in zip(wanted, frames.frames.numpy(), strict=True):
            report.saw(f"{way}, {threads} threads", index, frame)

    def strided() -> None:
        stride = rng.choice([2, 3, 5])
        together(f"every {stride}th", list(range(rng.randrange(min(count, stride)), several, stride)))

    def at_times() -> None:
        times = video.pts_seconds[:several]
        ends = [*times[1:], video.info.end_seconds]
        middle = [(n, (a + b) / 2) for n, (a, b) in enumerate(zip(times, ends, strict=False)) if b - a > SHORTEST]
        for index, moment in rng.sample(middle, min(len(middle), 5)):
            try:
                frames = video.frames_at([moment])
            except Exception as error:
                report.failed(f"at a time, {threads} threads", [index], error)
                continue
            if frames.indices != [index]:
                report.unfair.append(f"frames_at({moment}) is frame {frames.indices}, expected {index}")
            report.saw(f"at a time, {threads} threads", index, frames.frames.numpy()[0])

    def loader() -> None:
        length = rng.choice([1, 3])
        if not length <= count <= several:
            return  # no clip, or a table that declares millions of frames
        way = f"loader, clips of {length}, {threads} threads"
        rule = fsp.samplers.Windows(sequence_length=length, step=length)
        try:
            made = fsp.ClipLoader(
                [(path, 0)],
                rule,
                batch_size=3,
                shuffle="full",
                on_error="skip",
                num_threads=threads,
                index=False,
                layout="NTHWC",
            )
            for batch in made:
                clips = batch.frames if isinstance(batch.frames, list) else list(batch.frames.numpy())
                for clip, indices, mask in zip(clips, batch.indices.tolist(), batch.mask.tolist(), strict=True):
                    for frame, index, real in zip(np.asarray(clip), indices, mask, strict=True):
                        if real and index >= 0:
                            report.saw(way, index, frame)
        except fsp.errors.ClipSamplingError:
            pass  # shorter than a clip
        except Exception as error:
            report.failed(way, [], error)
        for index in range(several - several % length):
            report.answers.setdefault(way, {}).setdefault(index, None)

    def in_turns() -> None:
        """Clips of this file and of the intact one in random order: no file may change another."""
        if intact is None or count > several:
            return
        way, expected = f"in turns, {threads} threads", intact_frames(intact)
        clips = [(path, 0), (intact, 1)]
        rule = fsp.samplers.Windows(sequence_length=1, step=1)
        try:
            made = fsp.ClipLoader(
                clips,
                rule,
                batch_size=1,
                shuffle="full",
                seed=rng.randrange(1 << 30),
                on_error="skip",
                num_threads=threads,
                index=False,
                layout="NTHWC",
            )
            for batch in made:
                frame = np.asarray(batch.frames[0] if isinstance(batch.frames, list) else batch.frames.numpy()[0])[0]
                index = int(batch.indices.tolist()[0][0])
                if batch.labels.tolist()[0] == 0:
                    report.saw(way, index, frame)
                elif digest(frame) != expected[index]:
                    report.unfair.append(f"{way}: frame {index} of the intact file is another one")
        except Exception as error:
            report.failed(way, [], error)

    def compat() -> None:
        way = f"decord, {threads} threads"
        wanted = list(range(0, several, rng.choice([1, 2])))
        try:
            reader = decord.VideoReader(path, num_threads=threads)
            frames = reader.get_batch(wanted).asnumpy()
        except Exception as error:
            report.failed(way, wanted, error)
            return
        for index, frame in zip(wanted, frames, strict=True):
            report.saw(way, index, frame)

    yield "alone", alone
    yield "sequential", sequential
    yield "all", lambda: together("all", list(range(several)))
    yield "strided", strided
    yield "at times", at_times
    yield "loader", loader
    yield "in turns", in_turns
    yield "compat", compat


def read(path: str, intact: str | None, threads: list[int], seed: int) -> dict[str, Any]:
    """Reads one file in every way; see :class:`Report` and :func:`ways`."""
    report = Report(path)
    result: dict[str, Any] = {"error": None, "length": 0, "pts": []}
    forget_peak()
    step("open")
    began = time.process_time()
    try:
        video = fsp.Video(path, num_threads=1, index=False, layout="THWC")
        info = video.info
        result["length"] = len(video)
        result["damaged_units"] = info.damaged_units
        num, den = info.time_base
        result["time_base"] = info.time_base
        result["pts"] = [round(seconds * den / num) for seconds in video.pts_seconds[: 4 * FRAMES]]
    except Exception as error:
        report.failed("open", [], error)
        result["error"] = describe(error)
    report.seconds["open"] = time.process_time() - began
    if result["error"] is None:
        for count in threads:
            rng = random.Random(seed + count)
            step(f"open with {count} threads")
            try:
                for name, way in ways(report, intact, count, rng):
                    step(f"{name}, {count} threads")
                    began = time.process_time()
                    way()
                    report.seconds[name] = max(report.seconds.get(name, 0), time.process_time() - began)
            except Exception as error:
                report.unfair.append(f"a second open with {count} threads: {describe(error)}")
    gc.collect()
    result["peak"] = peak_mib()
    keys = ("answers", "errors", "unfair", "seconds")
    return {**result, **{key: getattr(report, key) for key in keys}}


def main() -> None:
    """Answers until standard input ends."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print(json.dumps({"ready": fsp.__version__, "ffmpeg": fsp._framespool.ffmpeg_version}), flush=True)
    for line in sys.stdin:
        print(json.dumps(read(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
