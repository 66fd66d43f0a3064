"""Compares the presets that use times and windows with torchcodec, torchvision and torch.

    benches/peers/.venv/bin/python benches/peers/check_sampling_times.py [--rounds 60] [files…]

- torchcodec: its samplers decode real files; returned frames are identified by their times. torch's draws are
  recorded and passed to framespool. Regular clips are also compared with those of a loader over the file.
- torchvision: its ``VideoClips`` and its clip samplers, with the draws of ``torch.randperm`` recorded.
- PyTorchVideo, Transformers and Qwen-VL are not installed here: the parts of their formulas that use torch run live,
  with fractions of the times that PyAV reads.
- torch's arithmetic against its reimplementation in tests/python/reference_formulas.py.

Run by hand, with the interpreter of benches/peers/.venv.
"""

# ruff: noqa: E402 - the environment must be set before the imports

from __future__ import annotations

import argparse
import math
import os
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from oneshot import worker_environment

if str(Path(sys.prefix) / "lib" / "ffmpeg") not in os.environ.get("LD_LIBRARY_PATH", ""):
    # torchcodec finds FFmpeg by a path that must be set when the process starts.
    os.execve(sys.executable, [sys.executable, *sys.argv], worker_environment())

try:
    import av
    import framespool as fsp
    import torch
    import torchvision
    from framespool import _framespool
    from torchcodec import __version__ as torchcodec_version
    from torchcodec import samplers
    from torchcodec.decoders import VideoDecoder
    from torchvision.datasets.samplers import RandomClipSampler, UniformClipSampler
    from torchvision.datasets.video_utils import VideoClips
except ImportError as error:
    print(f"check_sampling_times.py: skipped ({error})")
    sys.exit()

from random_clips import corpus

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "python"))
import reference_formulas

#: Small videos with many kinds of times: Matroska's milliseconds, rates of 1001, uneven frames, a first frame at 10 s.
FILES = [
    "action/asl/again.mkv",
    "action/basketball_426x240.mp4",
    "action/toys_windowsill_vp8_426x240.webm",
    "codecs/h263_phone_176x144.3gp",
    "odd/non_zero_start.mp4",
    "odd/first_pts_10s.mp4",
    "odd/rotate_portrait_phone.mov",
]

compared: Counter[str] = Counter()


class File:
    """A video opened with torchcodec."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.decoder = VideoDecoder(self.path, num_ffmpeg_threads=1)
        metadata = self.decoder.metadata
        self.begin, self.end, self.fps = (
            metadata.begin_stream_seconds,
            metadata.end_stream_seconds,
            metadata.average_fps,
        )
        self.times = self.decoder.get_frames_in_range(0, len(self.decoder)).pts_seconds.tolist()
        self.frame_at = {time: frame for frame, time in enumerate(self.times)}

    def __len__(self) -> int:
        return len(self.times)

    def clips(self, batch: Any) -> list[list[int]]:
        """Frame numbers of a batch of clips."""
        return [[self.frame_at[time] for time in clip] for clip in batch.pts_seconds.tolist()]

    def sample(self, rule: fsp.samplers.Preset, clip: int, draws: list[Any] | None = None) -> list[int]:
        """framespool's result for these draws."""
        return _framespool.sample(rule._sampler_args(), (self.times, self.end), clip, draws, (0, 0))[0]

    def count(self, rule: fsp.samplers.Preset) -> int:
        return _framespool.num_clips_of(rule._sampler_args(), (self.times, self.end))

    def loaded(self, rule: fsp.samplers.Preset) -> list[list[int]]:
        """The result of a loader."""
        small = [fsp.transforms.Resize((16, 16))]
        batches = fsp.ClipLoader([self.path], rule, batch_size=16, transforms=small, shuffle=False, seed=0)
        rows = [row for batch in batches for row in np.from_dlpack(batch.indices).tolist()]
        return [[frame for frame in row if frame >= 0] for row in rows]


@contextmanager
def recorded(name: str) -> Iterator[list[torch.Tensor]]:
    """Replaces the return value of a function of torch."""
    real, values = getattr(torch, name), []

    def wrapped(*arguments: Any, **keywords: Any) -> torch.Tensor:
        values.append(real(*arguments, **keywords))
        return values[-1]

    with patch.object(torch, name, wrapped):
        yield values


def compare(what: str, place: Any, mine: Any, theirs: Any) -> None:
    if mine != theirs:
        raise SystemExit(f"check_sampling_times.py: FAILED\n{what}: {place}\nframespool {mine}\noriginal   {theirs}")
    compared[what] += 1


def refused(call: Callable[[], Any], *kinds: type[BaseException]) -> Any:
    """The result of a call, or None if it fails with one of these exceptions."""
    try:
        return call()
    except kinds:
        return None


def check_torchcodec(file: File, rng: random.Random) -> None:
    length = file.end - file.begin
    within = lambda: file.begin + rng.uniform(-0.05, 1.05) * length  # noqa: E731
    shared = {"num_frames_per_clip": rng.choice([1, 2, 4, 8]), "policy": rng.choice(["repeat_last", "wrap", "error"])}
    by_index = {
        **shared,
        "num_clips": rng.choice([1, 2, 4, 7]),
        "num_indices_between_frames": rng.choice([1, 1, 2, 5]),
        "sampling_range_start": rng.choice([0, 0, 3, -4, len(file) // 2]),
        "sampling_range_end": rng.choice([None, None, len(file), -1, len(file) // 2 + 1]),
    }
    by_time = {
        **shared,
        "seconds_between_frames": rng.choice([None, None, 0.04, 1 / 30, 0.1, 0.5]),
        "sampling_range_start": rng.choice([None, None, file.begin, within()]),
        "sampling_range_end": rng.choice([None, None, file.end, within()]),
    }
    apart = rng.choice([0.1, 0.04, 1 / 3, rng.uniform(0.05, 1.0)])
    regular = {**by_time, "seconds_between_clip_starts": max(apart, length / 20)}
    for name, options, drawn_by in [
        ("random_indices", by_index, "randint"),
        ("regular_indices", by_index, None),
        ("random_timestamps", {**by_time, "num_clips": by_index["num_clips"]}, "rand"),
        ("regular_timestamps", regular, None),
    ]:
        rule = fsp.samplers.preset(f"torchcodec_{name}", **options)
        with recorded(drawn_by or "zeros") as drawn:
            sampler = getattr(samplers, f"clips_at_{name}")
            batch = refused(lambda: sampler(file.decoder, **options), ValueError)  # noqa: B023
        place, draws = (file.path, options), None
        if drawn and drawn_by == "rand":
            draws = drawn[0].tolist()
        elif drawn and drawn_by == "randint":
            start = options["sampling_range_start"]
            draws = [value - (len(file) + start if start < 0 else start) for value in drawn[0].tolist()]
        if batch is None:
            # One failing clip is enough for the original; without a range, each one fails; regular ones do not exist.
            clips = range(file.count(rule))
            refusals = [refused(lambda: file.sample(rule, i, draws), fsp.ArgumentError) is None for i in clips]  # noqa: B023
            compare(f"torchcodec {name}, refused", place, any(refusals) or not refusals, True)
            continue
        theirs = file.clips(batch)
        compare(f"torchcodec {name}, clips", place, file.count(rule), len(theirs))
        mine = [file.sample(rule, clip, draws) for clip in range(len(theirs))]
        compare(f"torchcodec {name}", place, mine, theirs)
        if drawn_by is None and rng.random() < 0.2:
            compare(f"torchcodec {name}, loaded", place, file.loaded(rule), theirs)


def check_torchvision(file: File, rng: random.Random) -> None:
    options = {
        "clip_length_in_frames": rng.choice([1, 2, 8, 16]),
        "frames_between_clips": rng.choice([1, 3, 16]),
        "frame_rate": rng.choice([None, 5, 10.0, 15, 24, 29.97]),
    }
    frames = torch.arange(len(file))
    metadata = {"video_paths": [file.path], "video_pts": [frames], "video_fps": [file.fps]}
    clips = VideoClips([file.path], *options.values(), _precomputed_metadata=metadata)
    theirs = clips.clips[0].tolist()
    rule = fsp.samplers.preset("torchvision", **options)
    compare("torchvision clips", (file.path, options), file.count(rule), len(theirs))
    mine = [file.sample(rule, clip) for clip in range(len(theirs))]
    compare("torchvision", (file.path, options), mine, theirs)
    if not theirs:
        return
    if rng.random() < 0.2:
        compare("torchvision, loaded", (file.path, options), file.loaded(rule), theirs)
    number = rng.choice([1, 2, 5, 10, 40])
    uniform = fsp.samplers.preset("torchvision", **options, sampler="uniform", num_clips_per_video=number)
    chosen = [theirs[i] for i in UniformClipSampler(clips, number)]
    mine = [file.sample(uniform, clip) for clip in range(file.count(uniform))]
    compare("torchvision uniform", (file.path, options, number), mine, chosen)
    most = fsp.samplers.preset("torchvision", **options, sampler="random", max_clips_per_video=number)
    seed = rng.randrange(2**31)
    torch.manual_seed(seed)
    with recorded("randperm") as drawn:
        flat = list(RandomClipSampler(clips, number))
    order = drawn[1].tolist()  # the last step shuffles the selection
    chosen = [0] * len(flat)
    for place, clip in zip(order, flat, strict=True):
        chosen[place] = clip
    torch.manual_seed(seed)
    draws = [int(torch.randint(0, len(theirs) - i, ())) for i in range(min(number, len(theirs) - 1))]
    mine = [file.sample(most, clip, draws) for clip in range(file.count(most))]
    compare("torchvision random", (file.path, options, number), mine, [theirs[i] for i in chosen])


def ticks(path: str) -> tuple[list[Fraction], Fraction]:
    """Start times of frames and the end of the last one, read by PyAV, as fractions of a second."""
    with av.open(path) as container:
        stream = container.streams.video[0]
        packets = [packet for packet in container.demux(stream) if packet.pts is not None]
    pts = sorted(packet.pts for packet in packets)
    last = max(packets, key=lambda packet: packet.pts)
    return [t * stream.time_base for t in pts], (last.pts + (last.duration or 0)) * stream.time_base


def check_pytorchvideo(file: File, rng: random.Random) -> None:
    begins, end = ticks(file.path)
    if len(begins) != len(file) or float(end) != file.end:
        return  # PyAV's packets do not match torchcodec's frames: use another video
    length = rng.choice([Fraction(1, 2), Fraction(16, 30), 0.5, 16 / 30, Fraction(8, 25), 0.3])
    clips, samples = rng.choice([1, 2, 3, 10]), rng.choice([None, 4, 8, 16])
    rule = fsp.samplers.preset(
        "pytorchvideo",
        sampling_type="constant_clips_per_video",
        clip_duration=length,
        clips_per_video=clips,
        num_samples=samples,
    )
    longest = max(end - begins[0] - Fraction(length), Fraction(0))
    theirs = []
    for clip in range(clips):
        start = longest / max(clips - 1, 1) * clip
        shown = [i for i, t in enumerate(begins) if start <= t - begins[0] < start + Fraction(length)]
        if not shown:
            return
        if samples is not None:
            picks = torch.clamp(torch.linspace(0, len(shown) - 1, samples), 0, len(shown) - 1).long()
            shown = [shown[i] for i in picks.tolist()]
        theirs.append(shown)
    compare("pytorchvideo, loaded", (file.path, length, clips, samples), file.loaded(rule), theirs)


def check_formulas(rng: random.Random) -> None:
    frames = rng.choice([rng.randint(1, 400), rng.randint(1, 20_000)])
    number = rng.randint(1, min(frames, 300))
    values = torch.arange(0, frames, frames / number).int().tolist()
    shown = fsp.samplers.preset("hf", num_frames=number).frames(frames).indices
    compare("Transformers' torch.arange", (frames, number), shown, [v for v in values if v < frames])
    if number >= 2:
        even = round(number / 2) * 2
        if 2 <= even <= frames:
            values = torch.linspace(0, frames - 1, even).round().long().tolist()
            shown = fsp.samplers.preset("qwen_vl", nframes=number).frames(frames).indices
            compare("Qwen-VL's torch.linspace", (frames, number), shown, values)
    begin, end, n = rng.randint(0, 3000), rng.randint(0, 4000), rng.choice([1, 2, 3, 8, 16, rng.randint(1, 300)])
    compare(
        "torch.linspace",
        (begin, end, n),
        reference_formulas.torch_linspace(begin, end, n).tolist(),
        torch.linspace(begin, end, n).tolist(),
    )
    ints = torch.linspace(begin, end, n, dtype=torch.int).tolist()
    compare("torch.linspace of int", (begin, end, n), reference_formulas.torch_linspace_int(begin, end, n), ints)
    first, step = rng.choice([0.0, rng.uniform(0, 20)]), rng.choice([0.04, 1 / 30, rng.uniform(0.01, 2)])
    stop = first + rng.uniform(0.001, 60)
    for mine, theirs in ((np.float64, torch.float64), (np.float32, torch.float32)):
        values = reference_formulas.torch_arange(first, stop, step, mine).tolist()
        compare(
            f"torch.arange of {theirs}",
            (first, stop, step),
            values,
            torch.arange(first, stop, step, dtype=theirs).tolist(),
        )
    n, seed = rng.randint(1, 200), rng.randrange(2**31)
    torch.manual_seed(seed)
    drawn = torch.randperm(n).tolist()
    torch.manual_seed(seed)
    order = list(range(n))
    for i in range(n - 1):
        other = i + int(torch.randint(0, n - i, ()))
        order[i], order[other] = order[other], order[i]
    compare("torch.randperm", n, order, drawn)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, help="videos (default: seven of the corpus)")
    parser.add_argument("--rounds", type=int, default=60, help="rounds of each kind and file")
    arguments = parser.parse_args()
    capability = torch.backends.cpu.get_cpu_capability()
    print(
        f"torch {torch.__version__} ({capability}), torchcodec {torchcodec_version}, "
        f"torchvision {torchvision.__version__}"
    )
    if capability == "DEFAULT":
        print("torch runs without AVX2 and rounds its ranges differently; some comparisons may fail")
    warnings.filterwarnings("ignore", message="There aren't enough frames")
    paths = arguments.files or [corpus() / "video" / name for name in FILES]
    for path in paths:
        file, rng = File(path), random.Random(str(path.name))
        for _ in range(arguments.rounds):
            check_torchcodec(file, rng)
            check_torchvision(file, rng)
        for _ in range(math.ceil(arguments.rounds / 3)):
            check_pytorchvideo(file, rng)
        print(f"{path.name}: {len(file)} frames from {file.begin:g} to {file.end:g} s, as the originals", flush=True)
    rng = random.Random(0)
    for _ in range(arguments.rounds * 50):
        check_formulas(rng)
    width = max(len(what) for what in compared)
    print("\n".join(f"{what:{width}} {number:7}" for what, number in sorted(compared.items())))
    print(f"check_sampling_times.py: passed, {compared.total()} comparisons")


if __name__ == "__main__":
    main()
