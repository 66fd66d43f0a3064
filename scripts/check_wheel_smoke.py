#!/usr/bin/env python3
"""What every Python must do with the wheel, with nothing else installed: run by scripts/check_wheel_pythons.sh in each.

    check_wheel_smoke.py EXPECTED.json

It decodes the files named in EXPECTED.json, by scripts/check_wheel_reference.py, whose frames must have the hashes
beside them. Then it makes its own pictures, decodes them, loads clips of them, stops and resumes, forks, and hands
frames on.
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
    """A picture all of whose samples are ``value``."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    width, height = SIZE
    rows = (b"\0" + bytes([value]) * width * 3) * height
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def lay_out(root: Path) -> None:
    """Three videos of nine frames each: frame ``n`` of video ``v`` is as bright as ``50 * v + 5 * n``."""
    for video in range(3):
        folder = root / f"class{video}" / "video"
        folder.mkdir(parents=True)
        for frame in range(9):
            (folder / f"img_{frame + 1:05}.png").write_bytes(png(50 * video + 5 * frame))


def loader(root: Path) -> fsp.ClipLoader:
    """Clips of three frames, shuffled, in batches of two."""
    dataset = fsp.datasets.frame_folder(root)
    clip_sampler = fsp.samplers.windows(sequence_length=3)
    resize = fsp.transforms.Resize((SIZE[1], SIZE[0]))  # so that a batch is one tensor
    return fsp.ClipLoader(
        dataset, clip_sampler, transforms=[resize], batch_size=2, shuffle="full", seed=1, num_threads=2
    )


def summarize_batches(batches: object) -> list[tuple[list[int], bytes]]:
    """Labels and bytes of batches."""
    return [(batch.labels.tolist(), batch.frames.tobytes()) for batch in batches]  # type: ignore[attr-defined]


def check_media(expected: Path) -> list[str]:
    """Decodes every file that is expected, each frame in order and the last one by itself; returns their codecs."""
    wanted = json.loads(expected.read_text())
    for file in wanted["files"]:
        path = Path(wanted["media"]) / file["path"]
        if file["codec"] == "jpeg":
            frames = [fsp.decode_image(path.read_bytes())]
        else:
            video = fsp.Video(path)
            assert video.info.codec == file["codec"], f"{path}: the codec is {video.info.codec}, not {file['codec']}"
            frames = [*video, video[-1]]
            file["md5"].append(file["md5"][-1])
        md5 = [hashlib.md5(frame.tobytes()).hexdigest() for frame in frames]
        assert len(md5) == len(file["md5"]), f"{path}: {len(md5)} frames, {len(file['md5'])} expected"
        wrong = [n for n, (got, want) in enumerate(zip(md5, file["md5"], strict=True)) if got != want]
        assert not wrong, f"{path}: {len(wrong)} of {len(md5)} frames are wrong, the first is number {wrong[0]}"
    return [file["codec"] for file in wanted["files"]]


def main() -> None:
    """Everything, in order; an error ends it."""
    codecs = check_media(Path(sys.argv[1]))
    assert set(codecs) == {"h264", "hevc", "vp9", "av1", "jpeg"}, f"only {codecs} were decoded"
    picture = fsp.decode_image(png(77))
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
        assert begun + summarize_batches(resumed) == whole, "resumed elsewhere than it stopped"

        child = os.fork()
        if child == 0:
            code = 1
            try:
                next(batches)
            except fsp.ForkedError:
                code = 0 if summarize_batches(loader(root)) == whole else 2  # one of its own works
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "a forked child did not do as it should"
        assert begun + summarize_batches(batches) == whole, "the parent goes on as if nothing had been"

    try:
        fsp.Video(b"nothing that is a video")
    except fsp.Error as error:
        assert "video" in str(error) or "container" in str(error), error
    else:
        raise AssertionError("what is no video was taken for one")
    build = "free-threaded, " if not getattr(sys, "_is_gil_enabled", lambda: True)() else ""
    python = f"{sys.implementation.name} {sys.version.split()[0]}"
    print(f"smoke: sound on {python} ({build}framespool {fsp.__version__}; {', '.join(codecs)})")


if __name__ == "__main__":
    main()
