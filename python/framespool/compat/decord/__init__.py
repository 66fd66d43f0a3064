"""decord's names (version 0.6) for framespool: readers of video and audio, ``VideoLoader``, ``bridge``, devices.

Write ``from framespool.compat import decord`` instead of ``import decord``; nothing else changes. Needs NumPy.

Differences:

- Frame *i* is the *i*-th in presentation order, regardless of the order of access. Where decord is known to be wrong:
  after :meth:`~VideoReader.seek` to a frame that is not a keyframe, ``next()`` and ``reader[i]`` can return other
  frames; in MPEG-TS files it never returns the frames before the second keyframe; open GOPs shift its keyframes; files
  with edit lists have frames that are never shown; times in AVI files with B-frames are minus several billion years.
- Colors: framespool converts colors by the exact formula with the stream's own matrix and range; decord has swscale's
  tables and defaults. ``width`` and ``height`` resize as torchvision does, bilinear with antialiasing; decord has
  swscale's filter. Frames that the file mirrors are mirrored.
- ``get_frame_timestamp``: a frame stays until the next one appears, for variable frame rates too. As in decord, the
  first frame appears at 0. ``get_avg_fps`` is computed from the frames; decord's is the value in the file's header.
- ``fault_tol`` has no effect: a damaged frame is a :class:`DECORDError`, never the frame before it or an approximation.
  Nothing is printed, so ``logging.set_level`` has no effect.
- ``VideoLoader``: ``shuffle=0`` is the same. 1 and 2 have other orders: the same ones in each process, and a new one at
  each ``reset()``. With 1, decord may return one more batch at a video's end.
- ``gpu(i)`` works in every build and returns the same bytes as the CPU.
- ``VideoReader`` and ``VideoLoader`` have ``stream=``, the index of the video stream, which decord does not have.
- Where decord crashes (``get_batch(5)``, batches without frames) there is an error. Arrays can be passed to
  ``numpy.asarray``, and sources may also be bytes, ``pathlib.Path`` or members of archives.
- ``AudioReader`` decodes samples when they are requested, from FFmpeg's best audio stream; decord decodes the complete
  first one. decord loses samples when it resamples. ``AVReader`` has the audio of the time for which a frame is on
  screen; in decord it is shifted if the first frame is not at 0.
- An animated PNG or WebP is refused with a RuntimeError, and so is any PNG or WebP at a URL, which may be one.
- The bridges are "native" and "torch" (``bridge.torchdl``); MXNet, TensorFlow and TVM raise ImportError, and read the
  arrays of "native" by DLPack.
"""

from framespool.compat.decord import base, bridge, logging, ndarray
from framespool.compat.decord.audio_reader import AudioReader
from framespool.compat.decord.av_reader import AVReader
from framespool.compat.decord.base import DECORDError, DECORDLimitReachedError
from framespool.compat.decord.ndarray import cpu, gpu
from framespool.compat.decord.video_loader import VideoLoader
from framespool.compat.decord.video_reader import VideoReader

nd = ndarray

__all__ = [
    "AVReader",
    "AudioReader",
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
