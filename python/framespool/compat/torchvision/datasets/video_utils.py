"""torchvision's clips of several videos."""

from __future__ import annotations

import bisect
import math
import operator
import warnings
from collections.abc import Sequence
from typing import Any

from framespool._common.worker_threads import completed
from framespool.compat.torchcodec._torch import needed
from framespool.compat.torchvision._open import open_video, ticks
from framespool.compat.torchvision.io.video import format_of, no_audio, read_video_timestamps
from framespool.errors import Error

__all__ = ["VideoClips", "unfold"]


def unfold(tensor: Any, size: int, step: int, dilation: int = 1) -> Any:
    """Returns the windows of a one-dimensional tensor.

    Args:
        tensor: torch.Tensor (N,).
        size: Elements of a window.
        step: Distance between the starts of windows.
        dilation: Distance between the elements of a window.

    Returns:
        torch.Tensor (windows, size), which shares the memory of ``tensor``. Only complete windows count.

    Raises:
        AssertionError: If the tensor has another number of dimensions.
    """
    if tensor.dim() != 1:
        raise AssertionError(f"tensor must have one dimension, got {tensor.dim()}")
    span = dilation * (size - 1) + 1
    if len(tensor) < span:
        return tensor.new_empty((0, size))
    return tensor.unfold(0, span, step)[:, ::dilation]


class VideoClips:
    """All clips of consecutive frames of a list of videos.

    Clips are selected among the frames of each video, or with ``frame_rate`` among the frames of the video resampled to
    this rate. A video with fewer frames than a clip has no clips. For training, :class:`framespool.ClipLoader` with
    ``samplers.presets.torchvision()`` selects the same frames, and decodes each GOP once.

    A ``VideoClips`` can be pickled; clips are computed again, without reading the videos.

    Args:
        video_paths: Paths of the videos. One that cannot be opened gives a RuntimeWarning, and has no clips.
        clip_length_in_frames: Frames of a clip.
        frames_between_clips: Distance between the starts of clips, in frames.
        frame_rate: Frames per second of the clips. ``None``: those of each video.
        _precomputed_metadata: :attr:`metadata` of another ``VideoClips``, also of torchvision's, instead of reading the
            videos.
        num_workers: Threads that read the timestamps; 0 for the calling thread.
        _video_width: Must be 0, as all arguments that start with ``_video``.
        _video_height: Must be 0.
        _video_min_dimension: Must be 0.
        _video_max_dimension: Must be 0.
        _audio_samples: Must be 0.
        _audio_channels: No effect.
        output_format: ``"THWC"`` or ``"TCHW"``.

    Attributes:
        video_paths: Paths of the videos.
        video_pts: When each frame of each video appears: a list of torch.Tensor (frames,) int64, in ticks.
        video_fps: Frames per second of each video, ``None`` if it cannot be opened.
        clips: Times of the frames of each clip: for each video a torch.Tensor (clips, frames) int64, in ticks.
        resampling_idxs: Frames of each clip: for each video a torch.Tensor (clips, frames) int64 of frame indices, or a
            list of slices if the frame rate is divided by an integer.
        cumulative_sizes: Number of clips of the videos up to each one.

    Raises:
        ValueError: If an argument is invalid.
        ImportError: If PyTorch is not installed.

    Example:
        >>> from framespool.compat.torchvision.datasets.video_utils import VideoClips
        >>> clips = VideoClips(["a.mp4", "phone.mp4"], clip_length_in_frames=16, frames_between_clips=8, frame_rate=12)
        >>> clips.num_clips(), clips.get_clip_location(4)
        (6, (1, 1))
        >>> video, audio, info, video_idx = clips.get_clip(4)
        >>> video.shape, info, video_idx
        (torch.Size([16, 640, 360, 3]), {'video_fps': 12}, 1)
    """

    def __init__(
        self,
        video_paths: Sequence[Any],
        clip_length_in_frames: int = 16,
        frames_between_clips: int = 1,
        frame_rate: float | None = None,
        _precomputed_metadata: dict[str, Any] | None = None,
        num_workers: int = 0,
        _video_width: int = 0,
        _video_height: int = 0,
        _video_min_dimension: int = 0,
        _video_max_dimension: int = 0,
        _audio_samples: int = 0,
        _audio_channels: int = 0,
        output_format: str = "THWC",
    ) -> None:
        needed("torchvision")
        unsupported = {
            "_video_width": _video_width,
            "_video_height": _video_height,
            "_video_min_dimension": _video_min_dimension,
            "_video_max_dimension": _video_max_dimension,
            "_audio_samples": _audio_samples,
        }
        for name, value in unsupported.items():
            if value != 0:
                raise ValueError(f"framespool.compat.torchvision doesn't support {name} != 0, got {value!r}")
        self.output_format = format_of(output_format)
        self.num_workers = num_workers
        self.video_paths = video_paths
        if _precomputed_metadata is None:
            self._read_times()
        else:
            self._take(_precomputed_metadata)
        self.compute_clips(clip_length_in_frames, frames_between_clips, frame_rate)

    def _read_times(self) -> None:
        torch = needed("torchvision")
        if self.num_workers > 0:
            paths = self.video_paths
            places = completed(lambda place: read_video_timestamps(paths[place]), range(len(paths)), self.num_workers)
            times_of = {place: future.result() for place, future in places}
            found = [times_of[place] for place in range(len(paths))]
        else:
            found = [read_video_timestamps(path) for path in self.video_paths]
        self.video_pts: list[Any] = [torch.tensor(times, dtype=torch.int64) for times, _ in found]
        self.video_fps: list[float | None] = [fps for _, fps in found]

    def _take(self, metadata: dict[str, Any]) -> None:
        paths, times, rates = metadata["video_paths"], metadata["video_pts"], metadata["video_fps"]
        if not len(paths) == len(times) == len(rates):
            raise AssertionError(
                f"metadata must have one entry per video, got {len(paths)} video_paths, {len(times)} video_pts and "
                f"{len(rates)} video_fps"
            )
        self.video_paths, self.video_pts, self.video_fps = paths, times, rates

    @property
    def metadata(self) -> dict[str, Any]:
        """``video_paths``, ``video_pts`` and ``video_fps``: what is read from the videos, to be stored."""
        return {"video_paths": self.video_paths, "video_pts": self.video_pts, "video_fps": self.video_fps}

    def subset(self, indices: Sequence[int]) -> VideoClips:
        """Returns the clips of some videos.

        Args:
            indices: Videos, in the new order.

        Returns:
            The clips of these videos.
        """
        chosen = {name: [values[index] for index in indices] for name, values in self.metadata.items()}
        return type(self)(
            chosen["video_paths"],
            clip_length_in_frames=self.num_frames,
            frames_between_clips=self.step,
            frame_rate=self.frame_rate,
            _precomputed_metadata=chosen,
            num_workers=self.num_workers,
            output_format=self.output_format,
        )

    @staticmethod
    def compute_clips_for_video(
        video_pts: Any, num_frames: int, step: int, fps: float | None, frame_rate: float | None = None
    ) -> tuple[Any, Any]:
        """Computes the clips of one video. A video with fewer frames than a clip gives a UserWarning.

        Args:
            video_pts: When each frame appears, torch.Tensor (frames,).
            num_frames: Frames of a clip.
            step: Distance between the starts of clips, in frames.
            fps: Frames per second of the video.
            frame_rate: Frames per second of the clips.

        Returns:
            An entry of ``clips`` and one of ``resampling_idxs``.
        """
        # A video that cannot be opened has no frame rate and no frames.
        fps = 1 if fps is None else fps
        rate = fps if frame_rate is None else frame_rate
        resampled = VideoClips._resample_video_idx(math.floor(len(video_pts) * rate / fps), fps, rate)
        clips = unfold(video_pts[resampled], num_frames, step)
        if not len(clips):
            warnings.warn(
                "There aren't enough frames in the current video to get a clip for the given clip length and frames "
                f"between clips: {len(video_pts)} frames at {fps} fps, for clips of {num_frames} at {rate} fps. The "
                "video (and potentially others) will be skipped.",
                stacklevel=3,
            )
        if isinstance(resampled, slice):
            return clips, [resampled] * len(clips)
        return clips, unfold(resampled, num_frames, step)

    @staticmethod
    def _resample_video_idx(num_frames: int, original_fps: float, new_fps: float) -> Any:
        """Returns a slice of the frames, or their indices, with torchvision's rounding in float32."""
        torch = needed("torchvision")
        stride = float(original_fps / new_fps)
        if stride.is_integer():
            return slice(None, None, int(stride))
        return (torch.arange(num_frames, dtype=torch.float32) * stride).floor().to(torch.int64)

    def compute_clips(self, num_frames: int, step: int, frame_rate: float | None = None) -> None:
        """Replaces the clips by others, without reading the videos.

        Args:
            num_frames: Frames of a clip.
            step: Distance between the starts of clips, in frames.
            frame_rate: Frames per second of the clips. ``None``: those of each video.
        """
        self.num_frames, self.step, self.frame_rate = num_frames, step, frame_rate
        self.clips: list[Any] = []
        self.resampling_idxs: list[Any] = []
        self.cumulative_sizes: list[int] = []
        total = 0
        for times, fps in zip(self.video_pts, self.video_fps, strict=True):
            clips, frames = self.compute_clips_for_video(times, num_frames, step, fps, frame_rate)
            self.clips.append(clips)
            self.resampling_idxs.append(frames)
            total += len(clips)
            self.cumulative_sizes.append(total)

    def __len__(self) -> int:
        return self.num_clips()

    def num_videos(self) -> int:
        """Returns the number of videos.

        Returns:
            The number, with videos that have no clips.
        """
        return len(self.video_paths)

    def num_clips(self) -> int:
        """Returns the number of clips.

        Returns:
            The number of clips of all videos.
        """
        return self.cumulative_sizes[-1] if self.cumulative_sizes else 0

    def get_clip_location(self, idx: int) -> tuple[int, int]:
        """Finds the video of a clip.

        Args:
            idx: Number of the clip.

        Returns:
            Index of the video, and number of the clip within it.
        """
        video_idx = bisect.bisect_right(self.cumulative_sizes, idx)
        return video_idx, idx - (self.cumulative_sizes[video_idx - 1] if video_idx else 0)

    def get_clip(self, idx: int) -> tuple[Any, Any, dict[str, Any], int]:
        """Decodes a clip.

        Args:
            idx: Number of the clip, from 0.

        Returns:
            The frames, torch.Tensor (T, H, W, 3) or (T, 3, H, W) uint8; the audio, an empty torch.Tensor (1, 0); a dict
            with ``video_fps``; and the index of the video.

        Raises:
            IndexError: If there is no such clip.
            RuntimeError: If the video cannot be opened or decoded, or does not have the frames of the metadata.
        """
        idx = operator.index(idx)
        if not 0 <= idx < self.num_clips():
            raise IndexError(f"Index {idx} out of range ({self.num_clips()} number of clips)")
        video_idx, clip_idx = self.get_clip_location(idx)
        wanted: list[int] = self.clips[video_idx][clip_idx].tolist()
        try:
            video = open_video(self.video_paths[video_idx])
            times = ticks(video)
            places = [bisect.bisect_left(times, tick) for tick in wanted]
            for place, tick in zip(places, wanted, strict=True):
                if place == len(times) or times[place] != tick:
                    raise RuntimeError(
                        f"{video.info.path}: no frame appears at {tick} ticks, as the metadata states; compute the "
                        "metadata again"
                    )
            frames = video.frames(places).frames.torch()
        except Error as reason:
            raise RuntimeError(str(reason)) from reason
        info = {"video_fps": self.video_fps[video_idx] if self.frame_rate is None else self.frame_rate}
        return (frames.permute(0, 3, 1, 2) if self.output_format == "TCHW" else frames), no_audio(), info, video_idx

    def __getstate__(self) -> dict[str, Any]:
        torch = needed("torchvision")
        state = {name: value for name, value in self.__dict__.items() if name not in _COMPUTED}
        # One array instead of a tensor per video, each of which would be shared memory in a DataLoader worker.
        state["video_pts"] = torch.cat([torch.zeros(0, dtype=torch.int64), *self.video_pts]).numpy()
        state["video_pts_sizes"] = [len(times) for times in self.video_pts]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        times = needed("torchvision").as_tensor(state.pop("video_pts"))
        state["video_pts"] = list(times.split(state.pop("video_pts_sizes")))
        self.__dict__.update(state)
        with warnings.catch_warnings():
            # Reported when the clips were computed for the first time.
            warnings.simplefilter("ignore", UserWarning)
            self.compute_clips(self.num_frames, self.step, self.frame_rate)


#: Attributes that `compute_clips` derives from the others.
_COMPUTED = ("clips", "resampling_idxs", "cumulative_sizes")
