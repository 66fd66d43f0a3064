"""OpenCV: seek by frame number, grab() frames in between, retrieve() and resize requested ones.

grab() decodes without converting. INTER_AREA because INTER_LINEAR does not antialias, so its output would differ from
that of all others. BGR is converted to RGB after the resize, which is cheaper.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from .base import Peer


@dataclass
class Reader:
    capture: cv2.VideoCapture
    size: int | None


class Adapter(Peer):
    name = "opencv"

    def __init__(self) -> None:
        super().__init__()
        cv2.setNumThreads(1)

    def version(self) -> str:
        return cv2.__version__

    def open(self, path: str, size: int | None) -> Reader:
        capture = cv2.VideoCapture(path, cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
        if not capture.isOpened():
            raise OSError(f"OpenCV cannot open {path}")
        return Reader(capture, size)

    def read(self, reader: Reader, indices: list[int]) -> np.ndarray:
        frames = []
        reader.capture.set(cv2.CAP_PROP_POS_FRAMES, indices[0])
        position = indices[0]
        for index in indices:
            while position <= index:
                reader.capture.grab()
                position += 1
            _, frame = reader.capture.retrieve()
            if reader.size is not None:
                frame = cv2.resize(frame, (reader.size, reader.size), interpolation=cv2.INTER_AREA)
            frames.append(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
        return np.stack(frames)
