"""Other libraries' names for framespool's videos: existing code runs with one line changed.

``from framespool.compat import decord`` in place of ``import decord``; ``from framespool.compat.torchcodec.decoders
import VideoDecoder`` in place of ``from torchcodec.decoders import VideoDecoder``. Each module says what differs.
``framespool.compat.lerobot`` has LeRobot's function that decodes frames by their times.

These are for one video at a time; for training, :class:`framespool.ClipLoader` decodes each group of pictures once for
all clips that need it, which no code that asks for one clip after the other can have.
"""
