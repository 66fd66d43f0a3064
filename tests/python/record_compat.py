"""Records the results of decord and torchcodec in ``compat_golden.json``, which test_compat_*.py compares with ours.

Run it where these are installed (benches/peers/setup.sh), with LD_LIBRARY_PATH as benches/harness/processes.py says:
``python tests/python/record_compat.py``. Both libraries evaluate the expressions of compat_cases.py; the videos are
the test media (``tests/media/make.py``), in target/media or where FRAMESPOOL_MEDIA says.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import sys
from collections.abc import Callable
from copy import copy
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from compat_cases import (
    AUDIO_OUTCOMES,
    AUDIO_READER_OUTCOMES,
    AUDIO_VIDEO,
    DECODER_OUTCOMES,
    DECODER_VIDEO,
    DEEP_VIDEO,
    LOADER_GRID,
    LOADER_VIDEOS,
    LOADERS,
    MAPPING,
    METADATA_VIDEOS,
    RANGES,
    READER_OUTCOMES,
    READER_VIDEO,
    READER_WALK,
    SAMPLERS,
    TORCHVISION_WORDS,
    VIDEOS,
    WORDS,
    wav_file,
)

GOLDEN = Path(__file__).with_name("compat_golden.json")


def outcome(ask: Callable[[], Any]) -> Any:
    """An error's class, or the result in JSON form: a shape, else the value."""
    try:
        found = ask()
    except Exception as reason:
        return type(reason).__name__
    shape = getattr(getattr(found, "data", None), "shape", None) or getattr(found, "shape", None)
    if shape is not None and not isinstance(found, (int, float, str, bool)):
        return list(shape)
    if isinstance(found, tuple):
        return list(found)
    return found if isinstance(found, (int, float, str, bool)) else None


def says(ask: Callable[[], Any], words: str) -> list[Any]:
    """An error's class, and whether its message has these words."""
    try:
        ask()
    except Exception as reason:
        return [type(reason).__name__, words in str(reason)]
    return ["no error", False]


def ask_torchvision(torchcodec: Any, path: str) -> dict[str, Any]:
    """Results of torchvision's transforms in a decoder; nothing without torchvision."""
    try:
        from torchvision.transforms import v2
    except ImportError:
        return {}

    def decode(ask: str) -> Any:
        return torchcodec.decoders.VideoDecoder(path, transforms=[eval(ask, {"v2": v2})])

    return {ask: says(lambda ask=ask: decode(ask), words) for ask, words in TORCHVISION_WORDS}


def plain(value: Any) -> Any:
    """The value in JSON form."""
    if isinstance(value, float):
        return round(value, 6)
    return str(value) if isinstance(value, Fraction) else value


def without(decoder: Any, field: str) -> Any:
    """A decoder without one field of its metadata."""
    other = copy(decoder)
    other.metadata = copy(decoder.metadata)
    setattr(other.metadata, field, None)
    return other


class Plain:
    """A file object with the two required methods."""

    def __init__(self, data: bytes):
        self._file = io.BytesIO(data)

    def read(self, size: int) -> bytes:
        return self._file.read(size)

    def seek(self, offset: int, whence: int) -> int:
        return self._file.seek(offset, whence)


def nearest(frames: Any, frame: Any) -> int:
    """Which of ``frames`` this one is."""
    return int(np.argmin([np.abs(other.astype(np.int16) - frame).mean() for other in frames]))


def ask_reader(decord: Any, videos: Path) -> dict[str, Any]:
    """Evaluates decord's expressions with a module that has its names."""
    found: dict[str, Any] = {"videos": {}}
    for name in VIDEOS:
        reader = decord.VideoReader(str(videos / name))
        times = reader.get_frame_timestamp([0, 1, 2, -2])
        found["videos"][name] = {
            "frames": len(reader),
            "shape": list(reader[0].shape),
            "keys": reader.get_key_indices(),
            "fps": reader.get_avg_fps(),
            "times": [[round(float(x), 5) for x in pair] for pair in times],
        }
    path, broken = str(videos / READER_VIDEO), str(videos / "corrupt" / "broken.mp4")
    frames = decord.VideoReader(path, width=192, height=108)[:].asnumpy()
    reader = decord.VideoReader(path, width=192, height=108)
    found["walk"] = []
    for step in READER_WALK:
        try:
            given = eval(f"r{step if step[0] == '[' else '.' + step}", {"r": reader})
        except StopIteration:
            found["walk"].append("StopIteration")
            continue
        picture = None if given is None else given.asnumpy()
        found["walk"].append(None if picture is None or picture.ndim == 4 else nearest(frames, picture))
    reader = decord.VideoReader(path)
    names = {"decord": decord, "np": np, "r": reader, "n": len(reader), "path": path, "broken": broken}
    names |= {"io": io, "data": Path(path).read_bytes()}
    found["outcomes"] = {ask: outcome(lambda ask=ask: eval(ask, names)) for ask in READER_OUTCOMES}
    found["loaders"] = []
    for size, interval, skip in LOADERS:
        uris = [str(videos / name) for name in LOADER_VIDEOS]
        loader = decord.VideoLoader(uris, [decord.cpu(0)], (size, 48, 64, 3), interval, skip, 0)
        rows = [batch[1].asnumpy().tolist() for batch in loader]
        found["loaders"].append([[row[0], row[-1]] for row in rows])
    found["loader_lengths"] = [
        len(decord.VideoLoader([str(videos / LOADER_VIDEOS[0])], [decord.cpu(0)], (size, 48, 64, 3), interval, skip, 0))
        for size, interval, skip in LOADER_GRID
    ]
    return found


def ask_audio_reader(decord: Any, videos: Path) -> dict[str, Any]:
    """Evaluates decord's expressions of audio with a module that has its names."""
    names = {"decord": decord, "np": np, "file": lambda: io.BytesIO(wav_file()), "A": decord.AudioReader}
    names |= {"AV": decord.AVReader, "r": decord.AudioReader(io.BytesIO(wav_file()), sample_rate=8000, mono=False)}
    names |= {"audio": str(videos / AUDIO_VIDEO), "silent": str(videos / READER_VIDEO)}
    names |= {"video": lambda: io.BytesIO((videos / AUDIO_VIDEO).read_bytes())}
    return {ask: outcome(lambda ask=ask: eval(ask, names)) for ask in AUDIO_READER_OUTCOMES}


def ask_audio_decoder(torchcodec: Any, videos: Path) -> dict[str, Any]:
    """Evaluates torchcodec's expressions of audio with a package that has its modules."""
    import torch

    decoders = torchcodec.decoders
    names = {"torchcodec": torchcodec, "decoders": decoders, "torch": torch, "io": io, "Plain": Plain}
    names |= {"D": decoders.AudioDecoder, "a": decoders.AudioDecoder(wav_file()), "wav": wav_file()}
    names |= {"audio": str(videos / AUDIO_VIDEO), "silent": str(videos / READER_VIDEO)}
    return {ask: outcome(lambda ask=ask: eval(ask, names)) for ask in AUDIO_OUTCOMES}


def ask_decoder(torchcodec: Any, videos: Path) -> dict[str, Any]:
    """Evaluates torchcodec's expressions with a package that has its modules."""
    import torch

    found: dict[str, Any] = {"videos": {}}
    decoders = torchcodec.decoders
    for name in VIDEOS:
        decoder = decoders.VideoDecoder(str(videos / name))
        times = decoder.get_frames_at([0, 1, 2, -1])
        found["videos"][name] = {
            "frames": len(decoder),
            "shape": list(decoder[0].shape),
            "pts": [round(float(x), 9) for x in times.pts_seconds],
        }
    found["metadata"] = {}
    for name in METADATA_VIDEOS:
        metadata = decoders.VideoDecoder(str(videos / name)).metadata
        found["metadata"][name] = {
            field.name: plain(getattr(metadata, field.name)) for field in dataclasses.fields(metadata)
        }
    found["repr"] = repr(decoders.VideoDecoder(str(videos / VIDEOS[0])).metadata)
    path, broken = str(videos / DECODER_VIDEO), str(videos / "corrupt" / "broken.mp4")
    decoder = decoders.VideoDecoder(path)
    begin, end = decoder.metadata.begin_stream_seconds, decoder.metadata.end_stream_seconds
    modules = {name: getattr(torchcodec, name) for name in ("decoders", "samplers", "transforms")}
    names = {"torchcodec": torchcodec, **modules, "torch": torch, "np": np, "d": decoder, "n": len(decoder)}
    names |= {"path": path, "broken": broken, "B": begin, "E": end, "mapping": MAPPING, "Plain": Plain}
    names |= {"deep": str(videos / DEEP_VIDEO), "audio": str(videos / AUDIO_VIDEO), "without": without}
    names |= {"io": io, "data": Path(path).read_bytes()}
    with open(path, encoding="latin-1") as text, open(path, "rb") as file, open(path, "rb", buffering=0) as raw:
        names |= {"text": text, "file": file, "raw": raw}
        found["outcomes"] = {ask: outcome(lambda ask=ask: eval(ask, names)) for ask in DECODER_OUTCOMES}
        found["words"] = {ask: says(lambda ask=ask: eval(ask, names), words) for ask, words in WORDS}
    found["torchvision"] = ask_torchvision(torchcodec, path)
    small = decoders.VideoDecoder(path, transforms=[torchcodec.transforms.Resize((24, 32))])
    pictures = small[:].float()

    def numbers(data: Any) -> list[int]:
        apart = (data.float()[:, None] - pictures[None]).abs().mean(dim=(2, 3, 4))
        return [int(place) for place in apart.argmin(dim=1)]

    found["ranges"] = []
    for start, stop, fps in RANGES:
        batch = small.get_frames_played_in_range(start, stop, fps=fps)
        row = [numbers(batch.data) if len(batch) else [], [round(float(x), 6) for x in batch.pts_seconds]]
        found["ranges"].append(row)
    found["samplers"] = []
    for seed, name, options in SAMPLERS:
        torch.manual_seed(seed)
        try:
            clips = getattr(torchcodec.samplers, name)(small, **options)
            rows = [numbers(clip.data) for clip in clips]
        except ValueError:
            rows = "ValueError"
        found["samplers"].append(rows)
    torch.manual_seed(3)
    crop = decoders.VideoDecoder(path, transforms=[torchcodec.transforms.RandomCrop((50, 60))])
    whole, part = decoder[0].float(), crop[0].float()
    windows = whole.unfold(1, 50, 1).unfold(2, 60, 1)[:, ::1, ::1]
    apart = (windows[:, :, :, ::7, ::7] - part[:, None, None, ::7, ::7]).abs().mean(dim=(0, 3, 4))
    place = int(apart.argmin())
    found["crop"] = [place // apart.shape[1], place % apart.shape[1]]
    return found


def main() -> None:
    import decord
    import torchcodec
    import torchcodec.decoders
    import torchcodec.samplers
    import torchcodec.transforms

    root = Path(__file__).resolve().parents[2]
    videos = Path(os.environ.get("FRAMESPOOL_MEDIA") or root / "target" / "media") / "video"
    golden = {
        "versions": {"eva_decord": "0.6.1", "torchcodec": torchcodec.__version__},
        "decord": ask_reader(decord, videos) | {"audio": ask_audio_reader(decord, videos)},
        "torchcodec": ask_decoder(torchcodec, videos) | {"audio": ask_audio_decoder(torchcodec, videos)},
    }
    rows = json.dumps(golden, separators=(",", ":"))
    # One entry per line, so that a new recording gives a readable diff.
    for mark in (
        '"videos":',
        '"walk":',
        '"outcomes":',
        '"loaders":',
        '"loader_lengths":',
        '"ranges":',
        '"samplers":',
        '"crop":',
        '"audio":',
        '"metadata":',
        '"repr":',
        '"words":',
        '"torchvision":',
        '"derived/',
        '"codecs/',
        '"odd/',
        '"action/',
    ):
        rows = rows.replace(mark, f"\n{mark}")
    GOLDEN.write_text(rows + "\n")
    print(GOLDEN, len(rows), "bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
