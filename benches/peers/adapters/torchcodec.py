"""torchcodec: `VideoDecoder.get_frames_at` with the decoder's own Resize.

seek_mode="exact" is the default and the only one that guarantees the requested frame. NHWC avoids a permuted copy.
Resize is the documented way to get small frames: bilinear, antialiased, before the tensor is created.
"""

from __future__ import annotations

import numpy as np
import torch
import torchcodec
from torchcodec.decoders import VideoDecoder
from torchcodec.transforms import Resize

from .base import Peer


class Adapter(Peer):
    name = "torchcodec"

    def __init__(self) -> None:
        super().__init__()
        # Its color conversion and copies may run on torch's pool.
        torch.set_num_threads(1)

    def version(self) -> str:
        ffmpeg = torchcodec.ffmpeg_major_version
        return f"{torchcodec.__version__} (torch {torch.__version__}, FFmpeg {ffmpeg})"

    def open(self, path: str, size: int | None) -> VideoDecoder:
        transforms = None if size is None else [Resize((size, size))]
        return VideoDecoder(
            path, dimension_order="NHWC", num_ffmpeg_threads=1, seek_mode="exact", transforms=transforms
        )

    def num_frames(self, reader: VideoDecoder) -> int:
        return len(reader)

    def read(self, reader: VideoDecoder, indices: list[int]) -> np.ndarray:
        return reader.get_frames_at(indices).data.numpy()
