"""torchvision's functions that read videos."""

from framespool.compat.torchvision.io.video import read_video, read_video_timestamps
from framespool.compat.torchvision.io.video_reader import VideoReader

__all__ = ["VideoReader", "read_video", "read_video_timestamps"]
