"""One video: its frames by index or time, and what is known about it."""

from __future__ import annotations

from framespool._framespool import Tensor
from framespool.video._audio import AudioBatch, AudioFile, AudioInfo
from framespool.video._info import StreamInfo, VideoColumns, VideoInfo
from framespool.video._video import FrameBatch, Video

__all__ = [
    "AudioBatch",
    "AudioFile",
    "AudioInfo",
    "FrameBatch",
    "StreamInfo",
    "Tensor",
    "Video",
    "VideoColumns",
    "VideoInfo",
]
