"""torchcodec's names (version 0.17) for framespool: ``decoders.VideoDecoder``, ``samplers``, ``transforms``, frames.

``from framespool.compat.torchcodec.decoders import VideoDecoder`` in place of ``from torchcodec.decoders import
VideoDecoder`` is all that changes. Results are torch tensors; needs PyTorch, and neither torchcodec nor an FFmpeg.

What differs:

- Frame *i* is the *i*-th shown, in any order of asking. torchcodec gives the frame before it, or the same one over and
  over, for random access in AVI files with B-frames, some WMV and VP9 files, and MPEG-TS files, whose frames before the
  second key frame it never gives.
- Pixels: framespool converts colors by the exact formula with the stream's own matrix and range; values differ by a
  few levels. ``Resize`` is antialiased in both.
- Durations: frame *i* stays until frame *i* + 1 appears, for variable frame rates too. The ``rotation`` of a mirrored
  video may have the other sign: framespool mirrors first, then turns.
- ``seek_mode="approximate"`` is exact as well: frames, their number, times and ``average_fps`` are those of "exact".
  ``device="cuda"`` decodes with NVDEC to the bytes of the CPU, and :func:`~decoders.set_cuda_backend` changes nothing.
- ``custom_frame_mappings`` choose among the video's frames: one that lists a time at which no frame appears is a
  ValueError. Nothing becomes faster by them; framespool keeps indices of its own (see :class:`framespool.Video`).
- A frame that the file's damage has reached is a RuntimeError, never a frame that looks about right.
- Images: JPEG and PNG, without alpha. There are no decoders for audio, no encoders, and none of the low-level blocks
  (``Demuxer``, ``ColorConverter``, …).
- Requests that make torchcodec fail in other ways get a result or a plain error: ``get_frames_at([])`` is an empty
  batch, as is a range whose start is behind its stop; a backward slice is allowed.
- Errors have torchcodec's classes, and in their messages the words that code looks for.
"""

from framespool.compat.torchcodec import decoders, samplers, transforms
from framespool.compat.torchcodec._frame import Frame, FrameBatch

__all__ = ["Frame", "FrameBatch", "decoders", "samplers", "transforms"]
