"""decord's names (version 0.6) for framespool: ``VideoReader``, ``VideoLoader``, ``bridge``, ``cpu``, ``gpu``.

``from framespool.compat import decord`` in place of ``import decord`` is all that changes. Needs NumPy.

What differs:

- Frame *i* is the *i*-th shown, whatever was asked for before it. Where decord is known to be wrong: after
  :meth:`~VideoReader.seek` to anything but a key frame, ``next()`` and ``reader[i]`` can give frames of other numbers;
  in MPEG-TS files it never gives the frames before the second key frame; open GOPs shift its key frames; files with
  edit lists have frames that are never shown; times in AVI files with B-frames are minus some billion years.
- Pixels: framespool converts colors by the exact formula with the stream's own matrix and range, where decord has
  swscale's tables and defaults. ``width`` and ``height`` resize as torchvision does, bilinear with antialiasing, where
  decord has swscale's filter. Pictures that the file mirrors are mirrored.
- ``get_frame_timestamp``: a frame stays until the next one appears, for variable frame rates too. As in decord the
  first frame appears at 0. ``get_avg_fps`` is counted from the frames; decord's is what the file's header says.
- ``fault_tol`` changes nothing: a frame that the file's damage has reached is a :class:`DECORDError`, never the frame
  before it or one that looks about right. Nothing is printed, so ``logging.set_level`` does nothing.
- ``VideoLoader``: ``shuffle=0`` is the same. 1 and 2 draw other orders, the same ones in each process, and a new one at
  each ``reset()``; with 1 decord may give one more batch at a video's end.
- ``gpu(i)`` works in every build, and gives the bytes of the CPU.
- Where decord crashes (``get_batch(5)``, batches of no frames) there is an error. Arrays may be given to
  ``numpy.asarray``, and sources may also be bytes, ``pathlib.Path`` or members of archives.
- There are no ``AudioReader`` and ``AVReader``, and of the bridges only "native" and "torch" (``bridge.torchdl``);
  MXNet, TensorFlow and TVM are an ImportError, and take the arrays of "native" by DLPack.
"""

from framespool.compat.decord import base, bridge, logging, ndarray
from framespool.compat.decord.base import DECORDError, DECORDLimitReachedError
from framespool.compat.decord.ndarray import cpu, gpu
from framespool.compat.decord.video_loader import VideoLoader
from framespool.compat.decord.video_reader import VideoReader

nd = ndarray

__all__ = [
    "DECORDError",
    "DECORDLimitReachedError",
    "VideoLoader",
    "VideoReader",
    "base",
    "bridge",
    "cpu",
    "gpu",
    "logging",
    "nd",
    "ndarray",
]
