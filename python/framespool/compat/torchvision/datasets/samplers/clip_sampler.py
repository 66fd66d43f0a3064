"""torchvision's samplers: the same clips, and the same random clips for the same state of torch's generator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from framespool.compat.torchcodec._torch import needed, torch

if TYPE_CHECKING or torch is None:
    Sampler: Any = object
else:
    from torch.utils.data import Sampler

__all__ = ["DistributedSampler", "RandomClipSampler", "UniformClipSampler"]


class DistributedSampler(Sampler):  # type: ignore[misc]
    """Divides a dataset, or the clips of a sampler, among ranks in groups of consecutive items.

    All ranks get the same number of items: items from the start are repeated.

    Args:
        dataset: A dataset or a sampler.
        num_replicas: Number of ranks. ``None``: that of ``torch.distributed``.
        rank: This rank. ``None``: that of ``torch.distributed``.
        shuffle: Whether items are shuffled, in an order that depends on the epoch only.
        group_size: Items of a group, which divides the length of the dataset.

    Raises:
        AssertionError: If ``group_size`` does not divide the length of the dataset.
        RuntimeError: If a number is ``None`` and ``torch.distributed`` is not available.

    Example:
        >>> from framespool.compat.torchvision.datasets.samplers import DistributedSampler
        >>> list(DistributedSampler(range(14), num_replicas=4, rank=3, group_size=2))
        [6, 7, 0, 1]
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = False,
        group_size: int = 1,
    ) -> None:
        distributed = needed("torchvision").distributed
        if (num_replicas is None or rank is None) and not distributed.is_available():
            raise RuntimeError("Requires distributed package to be available; give num_replicas and rank")
        if len(dataset) % group_size:
            raise AssertionError(
                f"dataset length must be a multiple of the group size, got dataset length: {len(dataset)}, group size: "
                f"{group_size}"
            )
        self.dataset = dataset
        self.num_replicas: int = distributed.get_world_size() if num_replicas is None else num_replicas
        self.rank: int = distributed.get_rank() if rank is None else rank
        self.shuffle = shuffle
        self.group_size = group_size
        self.epoch = 0
        self.num_group_samples = -(-(len(dataset) // group_size) // self.num_replicas)
        self.num_samples = self.num_group_samples * group_size
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[Any]:
        count = len(self.dataset)
        if self.shuffle:
            generator = needed("torchvision").Generator()
            generator.manual_seed(self.epoch)
            order = needed("torchvision").randperm(count, generator=generator).tolist()
        else:
            order = list(range(count))
        order += order[: self.total_size - count]
        if len(order) != self.total_size:
            raise AssertionError(f"{count} items are too few for {self.num_replicas} ranks")
        stride = self.num_replicas * self.group_size
        starts = range(self.rank * self.group_size, self.total_size, stride)
        chosen = [index for start in starts for index in order[start : start + self.group_size]]
        if isinstance(self.dataset, Sampler):
            items = list(self.dataset)
            chosen = [items[index] for index in chosen]
        return iter(chosen)

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Selects the epoch, on which the shuffle depends.

        Args:
            epoch: The epoch.
        """
        self.epoch = epoch


class UniformClipSampler(Sampler):  # type: ignore[misc]
    """Samples the same number of evenly spaced clips of each video; clips repeat in videos with fewer.

    Args:
        video_clips: A :class:`~framespool.compat.torchvision.datasets.video_utils.VideoClips`, or torchvision's.
        num_clips_per_video: Clips per video. Videos without clips are skipped.

    Raises:
        TypeError: If ``video_clips`` has another type.

    Example:
        >>> from framespool.compat.torchvision.datasets.samplers import UniformClipSampler
        >>> from framespool.compat.torchvision.datasets.video_utils import VideoClips
        >>> clips = VideoClips(["a.mp4", "phone.mp4"], clip_length_in_frames=16, frames_between_clips=8)
        >>> list(UniformClipSampler(clips, num_clips_per_video=3))
        [0, 3, 7, 8, 11, 15]
    """

    def __init__(self, video_clips: Any, num_clips_per_video: int) -> None:
        self.video_clips = _checked(video_clips)
        self.num_clips_per_video = num_clips_per_video

    def __iter__(self) -> Iterator[int]:
        torch = needed("torchvision")
        chosen: list[int] = []
        start = 0
        for count in map(len, self.video_clips.clips):
            if count:
                # In float32, as torchvision: the rounding determines which clip is selected.
                places = torch.linspace(start, start + count - 1, steps=self.num_clips_per_video)
                chosen += places.floor().to(torch.int64).tolist()
            start += count
        return iter(chosen)

    def __len__(self) -> int:
        return self.num_clips_per_video * sum(len(clips) > 0 for clips in self.video_clips.clips)


class RandomClipSampler(Sampler):  # type: ignore[misc]
    """Samples random clips of each video, in random order, with torch's global generator.

    Args:
        video_clips: A :class:`~framespool.compat.torchvision.datasets.video_utils.VideoClips`, or torchvision's.
        max_clips_per_video: Clips per video; all of them for videos with fewer.

    Raises:
        TypeError: If ``video_clips`` has another type.

    Example:
        >>> from framespool.compat.torchvision.datasets.samplers import RandomClipSampler
        >>> from framespool.compat.torchvision.datasets.video_utils import VideoClips
        >>> clips = VideoClips(["a.mp4", "phone.mp4"], clip_length_in_frames=16, frames_between_clips=8)
        >>> sampler = RandomClipSampler(clips, max_clips_per_video=3)
        >>> len(sampler), sum(clip < 8 for clip in sampler)
        (6, 3)
    """

    def __init__(self, video_clips: Any, max_clips_per_video: int) -> None:
        self.video_clips = _checked(video_clips)
        self.max_clips_per_video = max_clips_per_video

    def __iter__(self) -> Iterator[int]:
        torch = needed("torchvision")
        chosen: list[int] = []
        start = 0
        # The draws of torchvision, in its order: one permutation per video, then one of all clips.
        for count in map(len, self.video_clips.clips):
            places = torch.randperm(count)[: self.max_clips_per_video]
            chosen += (places + start).tolist()
            start += count
        return iter([chosen[place] for place in torch.randperm(len(chosen)).tolist()])

    def __len__(self) -> int:
        return sum(min(len(clips), self.max_clips_per_video) for clips in self.video_clips.clips)


def _checked(video_clips: Any) -> Any:
    """Returns the argument; TypeError if it has no clips."""
    if not hasattr(video_clips, "clips"):
        raise TypeError(f"Expected video_clips to be an instance of VideoClips, got {type(video_clips)}")
    return video_clips
