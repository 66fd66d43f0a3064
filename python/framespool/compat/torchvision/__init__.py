"""torchvision's video API (version 0.21) for framespool: ``io``, ``datasets.video_utils`` and ``datasets.samplers``.

torchvision 0.28 and later have no ``VideoReader``, ``read_video`` and ``read_video_timestamps``. Write ``from
framespool.compat.torchvision.io import read_video`` instead of ``from torchvision.io import read_video``; nothing else
changes. Results are torch tensors. It needs PyTorch, but neither torchvision nor PyAV.

Differences from torchvision with its default backend, PyAV:

- Frames are those of :class:`framespool.Video`, also after ``seek`` and from any start. torchvision's
  ``VideoReader.seek`` stops at the keyframe before the time, and ``read_video_timestamps`` counts packets, including
  those of frames that are never shown. In MPEG-TS files torchvision's ``read_video`` can return only a part of the
  frames of a range, and its ``get_clip`` can fail. There is no warning that ``pts_unit="pts"`` gives wrong results.
- Colors: framespool converts colors by the exact formula with the stream's own matrix and range; PyAV has swscale's
  tables and defaults, which differ by a few levels.
- Frames are rotated and mirrored as the file states; torchvision ignores it.
- Audio is not decoded: audio tensors are empty, (1, 0), and ``info`` has no ``audio_fps``. The first video with audio
  gives a UserWarning, once per process. Streams of audio cannot be selected.
- Timestamps are PyAV's, in the time base of the stream, but in AVI files with B-frames and in raw streams, where PyAV
  has times of packets or none, the first frame has time 0.
- ``video_fps`` is computed from the frames. If the container rounds times to milliseconds, it is the rate that the file
  states, provided that it is within 2 %. FFmpeg's rate differs if the header is wrong, if frames are hidden, or if the
  duration of the last frame is not stated.
- A file that cannot be opened and a damaged frame are a RuntimeError, where torchvision returns no frames or fewer.
  Only ``read_video_timestamps`` warns and returns no times, so that ``VideoClips`` skips the video, as in torchvision.
- ``VideoClips`` decodes only the frames of a clip, not those that resampling drops. ``get_clip`` refuses negative
  numbers. The private arguments for sizes of frames and for audio must be 0. There is no progress bar, and
  ``num_workers`` are threads.
- There is no ``write_video``, no ``set_video_backend``, and no datasets; those of torchvision use its own modules.
"""

from framespool.compat.torchvision import datasets, io

__all__ = ["datasets", "io"]
