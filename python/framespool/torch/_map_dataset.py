"""Single clips, for a `DataLoader` that chooses and collates them."""

from __future__ import annotations

import importlib
import math
import operator
import os
import threading
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

from framespool._common.pytorch import MapBase, SharedTensors, get_worker_info, needed, tensors, torch
from framespool._common.ranks import cores_per_rank
from framespool._common.validate_args import batch_layout, integer, user_stacklevel
from framespool.datasets._dataset import as_dataset, one_source_each, warn_of_other_numbers
from framespool.errors import ArgumentError, Error, UnsupportedError
from framespool.loaders._clips import ClipLoader
from framespool.loaders._lightning_epoch import epoch_of_fit
from framespool.options import OnError
from framespool.options._files import quiet_index
from framespool.options._order import resolve_seed
from framespool.torch._datasets import _warn_oversubscribed
from framespool.torch._occurrences import Occurrence, RepeatedRequests
from framespool.transforms._compose import split
from framespool.video._info import VideoColumns

#: Arguments of `ClipLoader` that are about single clips.
_KEYWORDS = (
    *("transforms", "device", "seed", "on_error", "num_threads", "cache", "layout", "dtype", "index", "frame_columns"),
    "audio",
)

#: Epochs in which a clip is compared to find whether it is random, and clips after which none is expected to be.
_COMPARED_EPOCHS, _MAX_COMPARED_CLIPS = 8, 16


class VideoDataset(SharedTensors, MapBase):
    """Clips as a map-style `torch.utils.data.Dataset`: `dataset[i]` is clip *i*.

    The `DataLoader`, its sampler and its `collate_fn` choose the order and make the batches, so everything that works
    with another map-style dataset works with it: `DistributedSampler`, Hugging Face's `Trainer`, batches of clips of
    different sizes with a `collate_fn`. The clips of a batch are decoded together by threads, and clips that share
    pictures decode them once. `ClipDataset` and `framespool.ClipLoader` also look ahead over batches, which is
    faster.

    Clip *i* is that of a `framespool.ClipLoader` with the same `seed`, in the same epoch: random clip samplers and
    transforms depend on (seed, epoch, *i*) only, not on the worker. The epoch is that of `set_epoch()`, which also
    reaches workers that are alive; it stays 0 if nothing calls `set_epoch()`. A `DataLoader` does not; for Hugging
    Face's `Trainer` see `trainer_callback()`. If a `DataLoader` requests a clip again in the same epoch and random
    numbers matter to it, a warning says so, once.

    A clip that occurs several times in a batch has other frames and random transforms each time. For a sampler that
    draws a clip several times in an epoch, `OccurrenceSampler` does so over all batches and workers.

    An item is a dict with the names of `Batch`, without the first dimension: `frames` (T, C, H, W) or as `layout`
    says, `labels`, `indices` (T,), `pts_seconds` (T,), `mask` (T,), `video_ids`, `clip_ids`, `view_ids`, `geometry`,
    `video`, a `VideoColumns`, `columns`, a dict, and with `audio=` `audio` (C, S) and `audio_mask` (S,).
    `torch.utils.data.default_collate` makes of them the batch of a `ClipDataset`, if the transforms give one size.

    No file is opened and no thread starts before the first access, so every start method works. Several threads may
    request items, which are made one after another; a function of the clip sampler that requests an item of the same
    dataset therefore waits forever.

    Args:
        dataset: As for `framespool.ClipLoader`.
        clip_sampler: As for `framespool.ClipLoader`.
        keywords: `layout`, which is `"TCHW"`, `"CTHW"` or `"THWC"`, and arguments of `framespool.ClipLoader` that are
            about single clips: `transforms` (no callable), `device`, `seed`, `on_error` (`"raise"` or `"replace"`),
            `num_threads`, `cache`, `dtype`, `index`, `frame_columns` and `audio`. By default the cores of the rank are
            divided among the workers.

    Raises:
        UnsupportedError: If PyTorch is not installed.
        ArgumentError: If an argument is invalid, or is about batches and their order.

    Example:
        >>> import framespool as fsp
        >>> import framespool.torch
        >>> from torch.utils.data import DataLoader
        >>> clips = framespool.torch.VideoDataset(
        ...     fsp.datasets.folder("videos/"),
        ...     fsp.samplers.RandomClips(sequence_length=8),
        ...     transforms=[fsp.transforms.Resize((64, 64))],
        ... )
        >>> clips[0]["frames"].shape
        torch.Size([8, 3, 64, 64])
        >>> batch = next(iter(DataLoader(clips, batch_size=2, shuffle=True)))
        >>> batch["frames"].shape
        torch.Size([2, 8, 3, 64, 64])
    """

    def __init__(self, dataset: Any, clip_sampler: Any = None, **keywords: Any) -> None:
        needed()
        for name in keywords:
            if name not in _KEYWORDS:
                raise ArgumentError(
                    f"VideoDataset has no argument {name!r}: it is about single clips, and the DataLoader makes the "
                    f"batches and their order; there are {', '.join(sorted(_KEYWORDS))}"
                )
        on_error = keywords.get("on_error")
        if (on_error.action if isinstance(on_error, OnError) else on_error) == "skip":
            raise ArgumentError('a map-style dataset cannot skip an item; use on_error="replace" or "raise"')
        _, functions = split(keywords.get("transforms"), keywords.get("dtype", "uint8"))
        if functions:
            raise ArgumentError(f"{functions[0]!r} among the transforms works on batches; apply it in collate_fn")
        self.dataset = one_source_each(as_dataset(dataset))
        warn_of_other_numbers(self.dataset)  # here, since loaders of workers see one dataset each
        self.clip_sampler = clip_sampler
        keywords["seed"] = resolve_seed(keywords.get("seed", 0))
        self.keywords = {**keywords, "layout": batch_layout(keywords.pop("layout", "TCHW"))}
        #: Shared with the workers.
        self._repeated = RepeatedRequests()
        #: Requested again, and found to be the same in other epochs.
        self._not_random = 0
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()
        #: The loader of this process, which makes one batch after another, and its lock.
        self._loader: tuple[ClipLoader, threading.Lock] | None = None
        self._made_for: tuple[int, ...] | None = None
        self._length: int | None = None

    @property
    def seed(self) -> int:
        """The seed in use; with `seed=None` the one that was drawn when the dataset was created."""
        return int(self.keywords["seed"])

    @property
    def epoch(self) -> int:
        """The epoch that `set_epoch()` chose, from 0."""
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch, which random clip samplers and transforms depend on, also in workers that are alive.

        Args:
            epoch: Epoch, from 0.

        Raises:
            ArgumentError: If it is negative.
        """
        self._epoch[0] = integer("epoch", epoch, most=2**63 - 1)
        self._repeated.epoch_chosen()

    def trainer_callback(self) -> Any:
        """A callback for Hugging Face's `Trainer` that chooses the epoch.

        `Trainer` does not call `set_epoch()` of a dataset on several ranks, nor after it has resumed within an epoch:
        without this callback, random transforms would then repeat those of epoch 0. Give the evaluation a dataset of
        its own.

        Returns:
            A `transformers.TrainerCallback`, for `Trainer(callbacks=[...])`.

        Raises:
            UnsupportedError: If transformers is not installed.

        Example:
            >>> trainer = Trainer(  # doctest: +SKIP
            ...     model, options, train_dataset=clips, data_collator=collate, callbacks=[clips.trainer_callback()]
            ... )
        """
        try:
            transformers: Any = importlib.import_module("transformers")
        except ImportError:
            raise UnsupportedError("trainer_callback() needs transformers, which is not installed") from None
        dataset = self

        def on_epoch_begin(self: Any, args: Any, state: Any, control: Any, **more: Any) -> None:
            # Epochs so far, with a fraction after a resumption. It is a quotient, so it may fall short of an integer.
            dataset.set_epoch(math.floor(state.epoch + 1e-6))

        callback: Any = type(
            "VideoDatasetCallback", (transformers.TrainerCallback,), {"on_epoch_begin": on_epoch_begin}
        )
        return callback()

    def __len__(self) -> int:
        """Number of clips. Opens the videos if the clip sampler counts clips by their lengths."""
        started = epoch_of_fit()
        if started is not None and started[0] > 0 and started[0] != self.epoch:
            self.set_epoch(started[0])
        if self._length is None:
            self._length = self._here().num_clips
        return self._length

    def __getitem__(self, index: int) -> dict[str, Any]:
        # Without workers it is the caller who looks at a clip, perhaps twice.
        return self._items([index], check=get_worker_info() is not None)[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Items of several indices, decoded together; `DataLoader` calls it for each batch.

        Args:
            indices: Indices of clips; negative ones count from the end. The occurrences of a clip count from 0, or are
                those of an `OccurrenceSampler`.

        Returns:
            The items, in the order of the indices.

        Raises:
            IndexError: If there is no such clip.
            Error: That of the first clip that cannot be decoded.
        """
        return self._items(indices, check=True)

    def describe(self, index: int, *, epoch: int | None = None) -> dict[str, Any]:
        """Reports what is determined about a clip before it is decoded; see `ClipLoader.describe_clip()`.

        Args:
            index: Index of the clip; a negative one counts from the end.
            epoch: Epoch of the random numbers. `None`: that of `set_epoch()`.

        Returns:
            dict: `path`, `video_id`, `label`, `indices` (in presentation order), `content_key` and `transforms`, of
            the first occurrence of the clip in the epoch.

        Raises:
            IndexError: If there is no such clip.
            ArgumentError: If `epoch` is negative.

        Example:
            >>> import framespool as fsp
            >>> import framespool.torch
            >>> clips = framespool.torch.VideoDataset(["a.mp4"], fsp.samplers.UniformClips(sequence_length=4))
            >>> clips.describe(0)["indices"] == clips[0]["indices"].tolist()
            True
        """
        return self._here().describe_clip(self._clip(index), epoch=self.epoch if epoch is None else epoch)

    def dropped(self) -> list[dict[str, Any]]:
        """Lists the videos that have no clip, and why; see `ClipLoader.dropped()`.

        Returns:
            list: One dict per video with `video_id`, `path`, `reason`, and `clips`, which is 0.

        Example:
            >>> import framespool as fsp
            >>> import framespool.torch
            >>> sampler = fsp.samplers.Windows(sequence_length=100)
            >>> clips = framespool.torch.VideoDataset(["a.mp4", "long_gop.mp4"], sampler)
            >>> [(video["path"], video["reason"]) for video in clips.dropped()]
            [('a.mp4', 'too short: the clip sampler gives it no clip')]
        """
        return self._here().dropped()

    def _clip(self, index: int) -> int:
        length, number = len(self), operator.index(index)
        if not -length <= number < length:
            raise IndexError(f"clip {number} does not exist: the dataset has {length} clips")
        return int(number) % length

    def _items(self, indices: Sequence[int], *, check: bool) -> list[dict[str, Any]]:
        clips: list[tuple[int, int]] = []
        occurrences: Counter[int] = Counter()
        for index in indices:
            clip = self._clip(index)
            clips.append((clip, index.occurrence if isinstance(index, Occurrence) else occurrences[clip]))
            occurrences[clip] += 1
        if not clips:
            return []
        loader, lock = self._own()
        with lock:
            batch = loader._clips(self.epoch, clips)
            if check:
                self._warn_if_repeated([clip for clip, occurrence in clips if occurrence == 0])
        values = tensors(batch)
        columns = values.pop("columns", {})
        video = values.pop("video")
        items = [{name: value[place] for name, value in values.items()} for place in range(len(clips))]
        for place, item in enumerate(items):
            item["video"] = VideoColumns(*(column[place] for column in video))
            if columns:
                item["columns"] = {name: value[place] for name, value in columns.items()}
        return items

    def _warn_if_repeated(self, clips: Sequence[int]) -> None:
        """Warns once if clips are requested again that another epoch would have made in another way."""
        if self._repeated.warned or self._not_random >= _MAX_COMPARED_CLIPS:
            return
        for clip in self._repeated.add(clips, len(self)):
            if self._is_random(clip):
                self._repeated.warned = True
                warnings.warn(
                    f"clip {clip} is requested again in epoch {self.epoch}, and has the same frames and random "
                    "transforms as before. Call set_epoch(epoch) of the VideoDataset before each pass over it. If the "
                    "sampler draws with replacement, wrap it in framespool.torch.OccurrenceSampler, or use a "
                    "ClipLoader with datasets.weighted()",
                    stacklevel=user_stacklevel(),
                )
                return
            self._not_random += 1
            if self._not_random >= _MAX_COMPARED_CLIPS:
                return

    def _is_random(self, clip: int) -> bool:
        """Whether a clip of this epoch differs from the same clip in the next ones."""
        audio = self.keywords.get("audio")
        if audio is not None and (audio.shift or audio.gain[0] != audio.gain[1]):
            return True
        try:
            epochs = [self.describe(clip, epoch=self.epoch + ahead) for ahead in range(_COMPARED_EPOCHS)]
        except Error:
            return False  # its file is damaged, and another clip replaces it
        # With random transforms, keys differ also if the parameters that are drawn do not.
        here, *others = ({**each, "content_key": None} for each in epochs)
        return any(other != here for other in others)

    def _here(self) -> ClipLoader:
        """Returns the loader of this process."""
        return self._own()[0]

    def _own(self) -> tuple[ClipLoader, threading.Lock]:
        """Returns the loader of this process and its lock."""
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        place = (os.getpid(), worker, workers)
        if self._loader is None or self._made_for != place:
            keywords = dict(self.keywords)
            if keywords.get("num_threads") is None:
                keywords["num_threads"] = max(1, cores_per_rank() // workers)
            if info is not None:
                # The workers share the terminal, and what a function does in them is lost.
                keywords["index"] = quiet_index(keywords.get("index"))
                if worker == 0:
                    _warn_oversubscribed(workers, keywords["num_threads"])
            # Nothing is made ahead, since the next request is not known.
            loader = ClipLoader(self.dataset, self.clip_sampler, batch_size=1, prefetch_batches=0, **keywords)
            self._loader, self._made_for = (loader, threading.Lock()), place
        return self._loader

    def __getstate__(self) -> dict[str, Any]:
        """Returns what is sent to a worker: not the loader, whose threads cannot be sent."""
        return {**self.__dict__, "_loader": None, "_made_for": None}
