"""torchcodec's names (version 0.17) for framespool: ``decoders``, ``samplers``, ``transforms``, frames and samples.

Write ``from framespool.compat.torchcodec.decoders import VideoDecoder`` instead of ``from torchcodec.decoders import
VideoDecoder``; nothing else changes. Results are torch tensors. It needs PyTorch, but neither torchcodec nor an FFmpeg.

Differences:

- Frame *i* is the *i*-th in presentation order, in any order of access. With random access in AVI files with B-frames,
  and in some WMV, VP9 and MPEG-TS files, torchcodec returns the frame before it, or the same frame repeatedly; of
  MPEG-TS files it never returns the frames before the second keyframe.
- Colors: framespool converts colors by the exact formula with the stream's own matrix and range; values differ by a few
  levels. ``Resize`` is antialiased in both.
- Durations: frame *i* stays until frame *i* + 1 appears, for variable frame rates too. The ``rotation`` of a mirrored
  video may have the opposite sign: framespool mirrors first, then rotates.
- ``seek_mode="approximate"`` is exact as well: frames, their number, times and ``average_fps`` are those of "exact".
  ``device="cuda"`` decodes with NVDEC to the same bytes as the CPU, and :func:`~decoders.set_cuda_backend` has no
  effect.
- ``custom_frame_mappings`` select among the video's frames: a mapping with a time at which no frame appears is a
  ValueError. They do not make decoding faster; framespool caches its own indices (see :class:`framespool.Video`).
- A damaged frame is a RuntimeError, never an approximation.
- Images: JPEG, PNG, WebP and AVIF; AVIF is converted to RGB as video. Refused with a RuntimeError: GIF, HEIC;
  animated WebP and AVIF; alpha channels, and CMYK with ``mode="UNCHANGED"``; more than 8 bits with an ``output_dtype``
  other than ``torch.uint8``.
- ``VideoDecoder`` refuses an animated PNG or WebP, of which framespool reads the first frame only; and any PNG or WebP
  at a URL, which may be animated, or given as bytes.
- Audio: sample *n* is the same after any other access. Gaps are silence; torchcodec omits them. Padding at the end is
  removed in MP4 as well. In Matroska and WebM, whose times are in milliseconds, torchcodec's ranges are up to 0.5 ms
  off. A new ``sample_rate`` is computed by framespool's own filter. ``num_channels`` is 1, 2 or that of the stream;
  more than two channels are mixed without exceeding -1 to 1. A range to ``inf`` ends with the audio.
- There are no encoders, no ``WavDecoder`` (``AudioDecoder`` reads WAV) and none of the low-level classes (``Demuxer``,
  ``ColorConverter``, …).
- A forked process opens its own decoders: those of its parent raise RuntimeError, or return frames that were decoded
  before. PyTorch's ``Resize`` in a forked process needs ``torch.set_num_threads(1)`` there, as in DataLoader workers.
- Requests with which torchcodec fails in other ways return a result or a clear error: ``get_frames_at([])`` is an empty
  batch, as is a range whose start is after its stop; a backward slice is allowed.
- Errors have torchcodec's classes, and their messages contain the phrases that code searches for.
"""

from framespool.compat.torchcodec import decoders, samplers, transforms
from framespool.compat.torchcodec._frame import AudioSamples, Frame, FrameBatch

__all__ = ["AudioSamples", "Frame", "FrameBatch", "decoders", "samplers", "transforms"]
