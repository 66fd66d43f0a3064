"""Writes the annotations of both loaders: segments of untrimmed videos, and boxes in AVA's format."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import torch
from torchcodec.decoders import VideoDecoder
from torchcodec.encoders import VideoEncoder

ACTIONS = ("jump", "run", "throw")
#: Distance between the annotated seconds of a video, and the most that it has.
SECONDS_APART, MOST_SECONDS = 2, 4


def write_segments(path: Path, videos: Sequence[Path]) -> Path:
    """Writes a JSON object per video: its path, and segments of start, end (in seconds) and action; some overlap."""
    rows = []
    for number, video in enumerate(videos):
        end = VideoDecoder(video).metadata.end_stream_seconds
        shares = [(0.1 * k, 0.1 * k + 0.05 * (1 + (number + k) % 3), ACTIONS[(number + k) % 3]) for k in range(1, 9, 2)]
        segments = [[round(start * end, 2), round(stop * end, 2), action] for start, stop, action in shares]
        rows.append({"video": str(video.resolve()), "segments": segments if number % 4 != 3 else []})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_boxes(folder: Path, videos: Sequence[Path]) -> Path:
    """Writes `ava.csv`: a row of video, second, box (0 to 1), action and person; one to three boxes per second.

    Args:
        folder: Where the file is written, and links to the videos, whose names are AVA's ids.
        videos: The videos.

    Returns:
        The file.
    """
    random = torch.Generator().manual_seed(0)
    with (folder / "ava.csv").open("w", newline="") as file:
        for number, video in enumerate(videos):
            name = f"{number:03}_{video.stem}"
            (folder / f"{name}{video.suffix}").symlink_to(video.resolve(strict=True))
            end = VideoDecoder(video).metadata.end_stream_seconds
            for second in [*range(1, int(end), SECONDS_APART)][:MOST_SECONDS]:
                for person in range(1 + (number + second) % 3):
                    left, top, width, height = torch.rand(4, generator=random).tolist()
                    box = [0.6 * left, 0.6 * top, 0.6 * left + 0.1 + 0.3 * width, 0.6 * top + 0.1 + 0.3 * height]
                    row = [name, f"{second:04}", *(f"{side:.3f}" for side in box), 1 + person, person]
                    csv.writer(file).writerow(row)
    return folder / "ava.csv"


def write_square(folder: Path) -> Path:
    """Writes a video of two seconds with a white square on black, and its `ava.csv`."""
    frames = torch.zeros((50, 3, 240, 320), dtype=torch.uint8)
    frames[:, :, 96:168, 112:200] = 255
    VideoEncoder(frames, frame_rate=25).to_file(folder / "square.mp4")
    (folder / "ava.csv").write_text(f"square,0001,{112 / 320},{96 / 240},{200 / 320},{168 / 240},1,0\n")
    return folder / "ava.csv"
