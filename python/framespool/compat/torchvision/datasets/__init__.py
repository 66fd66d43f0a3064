"""Clips of videos and their samplers."""

from framespool.compat.torchvision.datasets import samplers, video_utils

__all__ = ["samplers", "video_utils"]
