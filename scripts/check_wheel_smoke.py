#!/usr/bin/env python3
"""Tests the wheel with nothing else installed; run in each Python by scripts/check_wheel_pythons.sh.

    check_wheel_smoke.py EXPECTED.json

Decodes the files listed in EXPECTED.json, written by scripts/check_wheel_reference.py, and compares hashes of the
frames. Then generates its own images, decodes them, loads clips of them, stops and resumes, forks, and exports frames
through DLPack.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import struct
import sys
import tempfile
import zlib
from pathlib import Path

import framespool as fsp

SIZE = (16, 12)


def png(value: int) -> bytes:
    """An image whose samples all have the value ``value``."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    width, height = SIZE
    rows = (b"\0" + bytes([value]) * width * 3) * height
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def lay_out(root: Path) -> None:
    """Three videos of nine frames each: frame ``n`` of video ``v`` has the brightness ``50 * v + 5 * n``."""
    for video in range(3):
        folder = root / f"class{video}" / "video"
        folder.mkdir(parents=True)
        for frame in range(9):
            (folder / f"img_{frame + 1:05}.png").write_bytes(png(50 * video + 5 * frame))


def loader(root: Path) -> fsp.ClipLoader:
    """Loader of clips of three frames, shuffled, in batches of two."""
    dataset = fsp.datasets.frame_folder(root)
    clip_sampler = fsp.samplers.Windows(sequence_length=3)
    resize = fsp.transforms.Resize((SIZE[1], SIZE[0]))  # so that a batch is one tensor
    return fsp.ClipLoader(
        dataset, clip_sampler, transforms=[resize], batch_size=2, shuffle="full", seed=1, num_threads=2
    )


def summarize_batches(batches: object) -> list[tuple[list[int], bytes]]:
    """Labels and bytes of batches."""
    return [(batch.labels.tolist(), batch.frames.tobytes()) for batch in batches]  # type: ignore[attr-defined]


def check_media(expected: Path) -> list[str]:
    """Decodes every expected file, all frames in order and the last one alone; returns their codecs."""
    wanted = json.loads(expected.read_text())
    for file in wanted["files"]:
        path = Path(wanted["media"]) / file["path"]
        if file["codec"] == "jpeg":
            frames = [fsp.decode_image(path.read_bytes(), layout="HWC")]
        else:
            video = fsp.Video(path, layout="THWC")
            assert video.info.codec == file["codec"], f"{path}: the codec is {video.info.codec}, not {file['codec']}"
            frames = [*video, video[-1]]
            file["md5"].append(file["md5"][-1])
        md5 = [hashlib.md5(frame.tobytes()).hexdigest() for frame in frames]
        assert len(md5) == len(file["md5"]), f"{path}: {len(md5)} frames, {len(file['md5'])} expected"
        wrong = [n for n, (got, want) in enumerate(zip(md5, file["md5"], strict=True)) if got != want]
        assert not wrong, f"{path}: {len(wrong)} of {len(md5)} frames are wrong, the first one is {wrong[0]}"
    return [file["codec"] for file in wanted["files"]]


def main() -> None:
    """Runs all checks in order; the first error ends it."""
    codecs = check_media(Path(sys.argv[1]))
    assert set(codecs) == {"h264", "hevc", "vp9", "av1", "jpeg"}, f"only {codecs} were decoded"
    picture = fsp.decode_image(png(77), layout="HWC")
    assert picture.shape == (SIZE[1], SIZE[0], 3) and set(picture.tobytes()) == {77}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        lay_out(root)
        video = fsp.Video(fsp.datasets.ImageSequence(root / "class2" / "video"))
        assert len(video) == 9 and set(video[7].tobytes()) == {135}

        whole = summarize_batches(loader(root))
        assert sum(len(labels) for labels, _ in whole) == 9
        for labels, data in whole:
            frame = SIZE[0] * SIZE[1] * 3
            for place, label in enumerate(labels):
                first = data[place * 3 * frame]
                assert first // 50 == label and data[(place * 3 + 2) * frame] == first + 10

        stopped = loader(root)
        batches = iter(stopped)
        begun = summarize_batches([next(batches), next(batches)])
        state = stopped.state_dict()
        resumed = loader(root)
        resumed.load_state_dict(pickle.loads(pickle.dumps(state)))
        assert begun + summarize_batches(resumed) == whole, "resumed at another position"

        child = os.fork()
        if child == 0:
            code = 1
            try:
                next(batches)
            except fsp.errors.ForkedError:
                code = 0 if summarize_batches(loader(root)) == whole else 2  # a loader of the child itself works
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the forked child failed"
        assert begun + summarize_batches(batches) == whole, "the parent did not continue after the fork"

    try:
        fsp.Video(b"nothing that is a video")
    except fsp.Error as error:
        assert "video" in str(error) or "container" in str(error), error
    else:
        raise AssertionError("a file that is not a video was accepted")
    build = "free-threaded, " if not getattr(sys, "_is_gil_enabled", lambda: True)() else ""
    python = f"{sys.implementation.name} {sys.version.split()[0]}"
    print(f"smoke: passed on {python} ({build}framespool {fsp.__version__}; {', '.join(codecs)})")


if __name__ == "__main__":
    main()
