"""Clips that are requested several times in an epoch: their own random numbers, or a warning."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from framespool._common.pytorch import SamplerBase, SharedTensors, get_worker_info, needed, torch


class Occurrence(int):
    """Index of a clip, with the number of times that the sampler has drawn it before in this pass."""

    occurrence: int

    def __new__(cls, index: int, occurrence: int) -> Occurrence:
        made = super().__new__(cls, index)
        made.occurrence = occurrence
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Occurrence, (int(self), self.occurrence)


class OccurrenceSampler(SamplerBase):
    """Wraps a sampler that draws an index several times, so that each occurrence is another clip of the video.

    The *k*-th occurrence of an index in a pass has the frames and the random transforms that a `framespool.ClipLoader`
    with `datasets.weighted` gives to the *k*-th copy of that clip. They do not depend on the number of workers, since
    the process that iterates over the sampler counts. Each pass and each rank counts from 0.

    Args:
        sampler: A sampler or a batch sampler, such as `torch.utils.data.WeightedRandomSampler`. Its attributes and
            `set_epoch()` are available on the wrapper, too.

    Raises:
        UnsupportedError: If PyTorch is not installed.

    Example:
        >>> import framespool as fsp
        >>> from framespool.torch import OccurrenceSampler, VideoDataset
        >>> from torch.utils.data import DataLoader, WeightedRandomSampler
        >>> clips = VideoDataset(
        ...     fsp.datasets.folder("videos/"),
        ...     fsp.samplers.RandomClips(sequence_length=4),
        ...     transforms=[fsp.transforms.Resize((64, 64))],
        ... )
        >>> draws = WeightedRandomSampler([1.0] + [0.0] * (len(clips) - 1), num_samples=4)
        >>> batch = next(iter(DataLoader(clips, batch_size=4, sampler=OccurrenceSampler(draws))))
        >>> batch["clip_ids"].tolist(), len(set(batch["indices"][:, 0].tolist())) > 1
        ([0, 0, 0, 0], True)
    """

    def __init__(self, sampler: Any) -> None:
        needed()
        self.sampler = sampler

    def __iter__(self) -> Iterator[Any]:
        drawn: Counter[int] = Counter()

        def counted(index: Any) -> Occurrence:
            number = int(index)
            drawn[number] += 1
            return Occurrence(number, drawn[number] - 1)

        for each in self.sampler:
            yield [counted(index) for index in each] if isinstance(each, (list, tuple)) else counted(each)

    def __len__(self) -> int:
        return len(self.sampler)

    def __getattr__(self, name: str) -> Any:
        # A state of the wrapped sampler lacks the counts: without one, a stateful DataLoader iterates over the sampler.
        if name in ("sampler", "state_dict", "load_state_dict") or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.sampler, name)


class RepeatedRequests(SharedTensors):
    """Finds clips that are requested again in an epoch, in this process or in an earlier pass with worker processes."""

    #: Bits of a process id.
    _PID_BITS = 22

    def __init__(self) -> None:
        #: Shared with the workers: number of calls of `set_epoch()`; the first pass of workers since then (hash of its
        #: seed, and id of its training process); whether a warning was given.
        self._shared = torch.zeros(3, dtype=torch.int64).share_memory_()
        self._made_for: tuple[int, int] | None = None
        self._is_second_pass = False
        #: One bit per clip.
        self._requested = bytearray()

    def epoch_chosen(self) -> None:
        """Requests from now on are not compared with earlier ones."""
        self._shared[1] = 0
        self._shared[0] += 1

    @property
    def warned(self) -> bool:
        """Whether a warning was given, in any process."""
        return bool(self._shared[2])

    @warned.setter
    def warned(self, value: bool) -> None:
        self._shared[2] = int(value)

    def add(self, clips: Sequence[int], num_clips: int) -> list[int]:
        """Notes requests.

        Args:
            clips: The requested clips, each at its first occurrence.
            num_clips: Clips of the dataset.

        Returns:
            Those that were requested before. In a second pass with worker processes: all of them.
        """
        place = (os.getpid(), int(self._shared[0]))
        if self._made_for != place:
            self._made_for, self._requested = place, bytearray((num_clips + 7) // 8)
            self._is_second_pass = self._second_pass()
        again = []
        for clip in clips:
            byte, bit = clip >> 3, 1 << (clip & 7)
            if self._is_second_pass or self._requested[byte] & bit:
                again.append(clip)
            self._requested[byte] |= bit
        return again

    def _second_pass(self) -> bool:
        """Whether other workers than those of this pass were started for the same training process and epoch.

        A `DataLoader` draws a seed for each start of its workers. Workers that stay alive for several passes find the
        second pass by the clips.
        """
        info = get_worker_info()
        # A worker has imported it already.
        trainer = sys.modules["multiprocessing"].parent_process() if info is not None else None
        if info is None or trainer is None:
            return False
        mask = (1 << self._PID_BITS) - 1
        process = (trainer.pid or 0) & mask
        this = (1 + hash(info.seed - info.id) % (1 << 40)) << self._PID_BITS | process
        first = int(self._shared[1])
        if first == 0 or first & mask != process:
            self._shared[1] = this
            return False
        return first != this

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made_for": None, "_requested": bytearray()}
