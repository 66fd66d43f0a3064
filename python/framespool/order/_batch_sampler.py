"""The order of clips: numbers only, without a video."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from itertools import accumulate
from typing import Any, Literal, overload

from framespool import _framespool
from framespool._common.validate_args import as_sequence, boolean, integer, number
from framespool.errors import ArgumentError
from framespool.options._order import (
    MAX_EPOCH,
    MAX_U64,
    Shards,
    Shuffle,
    as_shards,
    is_sampler,
    order_settings,
    resolve_seed,
    shuffle_name,
)


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Several datasets, numbered consecutively, from which epochs are drawn by weight.

    Any prefix of an epoch that ends with a block contains each dataset's share to within less than one clip. Blocks
    have 1024 clips or slightly more, and clips are shuffled within a block. With `shuffle="grouped"` this holds for
    each stream, with blocks of 16 clips or slightly more, so that the share of all streams together is exact to within
    one clip for each stream.

    Attributes:
        sizes: Number of clips of each dataset.
        weights: Share of each dataset in an epoch, in any unit.
        replacement: `False`: each dataset is passed completely in random order before any of its clips repeats, then
            again in another order. With `shuffle="grouped"`, some streams end this a few clips before others. In an
            epoch, the clips of a dataset then occur equally often to within two instead of one, or to within more if it
            has less than two clips for each stream. `True`: draws are independent.
        epoch_clips: Clips of one epoch over all ranks. `None`: the sum of `sizes`.

    Raises:
        ArgumentError: If a field is invalid.

    Example:
        >>> import framespool as fsp
        >>> mixture = fsp.order.Mixture(sizes=[100, 10], weights=[0.5, 0.5], epoch_clips=8)
        >>> sampler = fsp.order.BatchSampler(num_clips=110, mix=mixture, batch_size=8, shuffle="full", seed=0)
        >>> sum(clip >= 100 for clip in sampler.epoch(0)[0])  # clips of the second dataset
        4
    """

    sizes: Sequence[int]
    weights: Sequence[float]
    replacement: bool = False
    epoch_clips: int | None = None

    def __post_init__(self) -> None:
        sizes, weights = as_sequence(self.sizes), as_sequence(self.weights)
        if sizes is None:
            raise ArgumentError(f"sizes must be ints, one for each dataset, got {self.sizes!r}")
        if weights is None:
            raise ArgumentError(f"weights must be numbers, one for each dataset, got {self.weights!r}")
        object.__setattr__(self, "sizes", tuple(integer("sizes", size, most=MAX_U64) for size in sizes))
        object.__setattr__(self, "weights", tuple(number("weights", weight) for weight in weights))
        boolean("replacement", self.replacement)
        if self.epoch_clips is not None:
            object.__setattr__(self, "epoch_clips", integer("epoch_clips", self.epoch_clips, most=MAX_U64))


@dataclass(frozen=True, kw_only=True)
class VideoWeights:
    """Weights of videos, by which an epoch has several copies of a video or none.

    The copies of an epoch are as many as give `epoch_clips` clips. A video whose weight calls for `w` copies has
    `w` rounded down or up, and `w` on average over epochs. With `shuffle="grouped"` a copy has all clips of the
    video, and each copy draws other random frames and crops. With `"full"` this holds for single clips.

    Attributes:
        weights: Expected number of copies of each video, in any unit; 0 omits it. Without `clips_per_video`,
            one weight per clip.
        replacement: `True`: draws of copies are independent.
        epoch_clips: Clips of one epoch over all ranks. `None`: the number of all clips.

    Raises:
        ArgumentError: If a weight is not a number, or `epoch_clips` is not positive.

    Example:
        >>> import framespool as fsp
        >>> weights = fsp.order.VideoWeights(weights=[1, 3], epoch_clips=8)
        >>> sampler = fsp.order.BatchSampler(
        ...     num_clips=4, clips_per_video=2, batch_size=8, shuffle="grouped", weights=weights
        ... )
        >>> sorted(clip // 2 for clip in sampler.batch(0))
        [0, 0, 1, 1, 1, 1, 1, 1]
    """

    weights: Sequence[float]
    replacement: bool = False
    epoch_clips: int | None = None

    def __post_init__(self) -> None:
        weights = as_sequence(self.weights)
        if weights is None:
            raise ArgumentError(f"weights must be numbers, one for each video, got {self.weights!r}")
        object.__setattr__(self, "weights", tuple(number("weights", weight) for weight in weights))
        boolean("replacement", self.replacement)
        if self.epoch_clips is not None:
            object.__setattr__(self, "epoch_clips", integer("epoch_clips", self.epoch_clips, least=1, most=2**62))


@dataclass(frozen=True, kw_only=True)
class BatchSampler:
    """The order in which one rank delivers clips, as clip numbers.

    A loader with the same arguments delivers the same numbers (only the default of `shuffle` differs). It holds no
    video, so it can also be used as a batch sampler alone: `sampler.epoch(e)` is the sequence of an epoch's batches,
    and `sampler.batch(n, epoch=e)` is any one of them. See docs/concepts/batch-sampler.md.

    Ranks share each global batch. Another number of ranks with the same `batch_size * num_shards` therefore continues
    with the same global batches, unless `stick_to_shard=True`. With `num_nodes`, keep that number and
    `batch_size * num_shards`.

    Any batch of any epoch is computed in constant time and memory.

    Attributes:
        num_clips: Clips of the dataset.
        batch_size: Clips per batch of one rank.
        shuffle: As for `ClipLoader`, but no sampler object. `True` is `"full"` without `clips_per_video`.
            `GroupedShuffle` assumes a clip cache of 2 GiB for clips of 16 frames of 224 x 224.
        shard_id: Rank, from 0.
        num_shards: Number of ranks, or `Shards`; all get the same number of batches of the same sizes. Videos are those
            of `clips_per_video`.
        seed: Seed of the shuffle; `None` draws one, as for `ClipLoader`.
        last_batch: `"partial"` (shorter), `"drop"`, or `"fill"` (filled with the first clips of the epoch, which
            `padding()` marks).
        mix: A `Mixture` of `num_clips` clips; needs `shuffle="full"` or `"grouped"`. With `"grouped"`
            each dataset has a grouped shuffle, and in each stream the datasets take turns by weight.
        weights: A `VideoWeights`; needs `shuffle="full"` or `"grouped"`, and no `mix`.
        clips_per_video: For `"grouped"` and `weights`: clips of every video, or of each video in turn.
        repeats: How many times each clip is delivered, one after another in its batch. A batch has `batch_size *
            repeats` slots.

    Raises:
        ArgumentError: If an argument is invalid, or if two contradict each other.

    Example:
        >>> import framespool as fsp
        >>> sampler = fsp.order.BatchSampler(num_clips=10, batch_size=2, num_shards=2, shard_id=1, seed=7)
        >>> len(sampler), sampler.num_slots
        (3, 5)
        >>> fsp.order.BatchSampler(num_clips=5, batch_size=2, shuffle=False).epoch(0)[1]
        [2, 3]
    """

    num_clips: int
    batch_size: int
    shuffle: Shuffle = "full"
    shard_id: int = 0
    num_shards: int | Shards = 1
    seed: int | None = 0
    last_batch: Literal["partial", "drop", "fill"] = "partial"
    mix: Mixture | None = None
    weights: VideoWeights | None = None
    clips_per_video: int | Sequence[int] | None = None
    repeats: int = 1
    _settings: dict[str, Any] = field(init=False, repr=False, compare=False)
    _sampler: _framespool.BatchSampler = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.mix is not None and not isinstance(self.mix, Mixture):
            raise ArgumentError(f"mix must be a framespool.order.Mixture or None, got {self.mix!r}")
        if self.weights is not None and not isinstance(self.weights, VideoWeights):
            raise ArgumentError(f"weights must be a framespool.order.VideoWeights or None, got {self.weights!r}")
        if is_sampler(self.shuffle):
            raise ArgumentError(f"{self.shuffle!r} makes an order itself; give a BatchSampler another shuffle")
        shards = as_shards(self.num_shards)
        object.__setattr__(self, "seed", int(resolve_seed(self.seed, integer("num_shards", shards.num_shards))))
        draws = self.mix is not None and self.mix.replacement
        settings = order_settings(
            batch_size=self.batch_size,
            shuffle=self.shuffle,
            can_group=self.clips_per_video is not None and not draws,
            shard_id=self.shard_id,
            shards=shards,
            seed=self.seed or 0,
            last_batch=self.last_batch,
            repeats=self.repeats,
        )
        settings["num_clips"] = integer("num_clips", self.num_clips, most=MAX_U64)
        is_grouped = shuffle_name(settings) == "grouped"
        if is_grouped and self.clips_per_video is None:
            raise ArgumentError(
                "clips_per_video must be given with a grouped shuffle, got None; it states which clips are of one video"
            )
        if self.clips_per_video is not None and (is_grouped or self.weights is not None):
            settings["video_clips"] = _video_clips(self.clips_per_video, settings["num_clips"])
        for name in ("weights", "mix"):
            if (given := getattr(self, name)) is not None:
                settings[name] = {each.name: getattr(given, each.name) for each in fields(given)}
        object.__setattr__(self, "_settings", settings)
        object.__setattr__(self, "_sampler", _framespool.BatchSampler(settings))

    def __reduce__(self) -> tuple[Any, ...]:
        keywords = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        return functools.partial(type(self), **keywords), ()

    def __len__(self) -> int:
        """Batches per epoch of this worker, the same on all ranks and in all epochs."""
        return len(self._sampler)

    @property
    def grouped(self) -> tuple[int, int, int] | None:
        """`num_streams`, `shuffle_block_size` and `max_chunk` in use; `None` if the clips are not grouped."""
        return self._sampler.grouped

    @property
    def num_slots(self) -> int:
        """Clips of all batches of an epoch, padding included; the same on all ranks and in all epochs."""
        return self._sampler.num_slots

    def batch(self, n: int, *, epoch: int = 0) -> list[int]:
        """Returns the clip numbers of a batch, padding last.

        Args:
            n: Number of the batch, from 0.
            epoch: Number of the epoch.

        Returns:
            Clip numbers.

        Raises:
            ArgumentError: If `n` or `epoch` is out of range.
        """
        return self._sampler.batch(*self._place(n, epoch))

    def padding(self, n: int, *, epoch: int = 0) -> list[bool]:
        """Returns which clips of a batch only fill it or make ranks equal.

        Args:
            n: Number of the batch, from 0.
            epoch: Number of the epoch.

        Returns:
            One bool per clip. Clips that are padding are also delivered as real ones.

        Raises:
            ArgumentError: If `n` or `epoch` is out of range.
        """
        return self._sampler.padding(*self._place(n, epoch))

    def visits(self, n: int, *, epoch: int = 0) -> list[int]:
        """Returns the earlier occurrences of each clip of a batch in this epoch.

        They are above 0 only with a mixture or weights. In a mixture it is the pass over the dataset, with weights the
        number of the copy and, with replacement, the number of the draw. A loader draws other random frames and crops
        for each.

        Args:
            n: Number of the batch, from 0.
            epoch: Number of the epoch.

        Returns:
            One count per clip.

        Raises:
            ArgumentError: If `n` or `epoch` is out of range.
        """
        return self._sampler.visits(*self._place(n, epoch))

    def epoch(self, epoch: int) -> EpochBatches:
        """Returns the batches of an epoch.

        Args:
            epoch: Number of the epoch.

        Returns:
            A sequence of lists of clip numbers.

        Raises:
            ArgumentError: If `epoch` is out of range.
        """
        return EpochBatches(self, self._epoch(epoch))

    def quality(self, clips_per_video: int | Sequence[int] | None = None, *, epoch: int = 0) -> dict[str, Any]:
        """Measures how well an epoch is shuffled.

        It uses about 100,000 clips if there are more.

        - `mixing`: different videos in 10 consecutive batches of all ranks, divided by the number that a random
          permutation of all clips is expected to have. 1 is as good as a full shuffle.
        - `repeats_per_batch`: clips of a batch of all ranks whose video has another clip before them in the batch.
        - `median_gap_batches`: median number of batches from a clip to the next clip of its video; `None` if most
          are farther apart than the measured batches.
        - `mean_clips`, `median_clips`, `max_clips`: distance of a clip from its unshuffled position, in clips, on
          this rank. `mean_share`, `median_share`, `max_share`: the same as shares of the dataset. `None` for a
          mixture and with weights, where clips have no unshuffled position.
        - `videos_per_batch`: mean number of different videos in a batch of this rank.
        - `full`: a dict of the same values for a full shuffle.

        Args:
            clips_per_video: Clips of every video, or of each video in turn, which must add up to `num_clips`.
                `None`: those of this batch sampler, else 1.
            epoch: Number of the epoch.

        Returns:
            dict: The values by name.

        Raises:
            ArgumentError: If an argument is invalid, or if a dataset of a mixture ends within a video.

        Example:
            >>> import framespool as fsp
            >>> sampler = fsp.order.BatchSampler(num_clips=3200, batch_size=32, shuffle="full", seed=1)
            >>> quality = sampler.quality(clips_per_video=16)
            >>> round(quality["mixing"], 1)
            1.0
        """
        videos = None if clips_per_video is None else _video_clips(clips_per_video, self.num_clips)
        return self._sampler.quality(videos, self._epoch(epoch))

    def _place(self, n: int, epoch: int) -> tuple[int, int]:
        batch = integer("n", n, most=MAX_U64)
        if batch >= len(self):
            raise ArgumentError(f"n must be below {len(self)}, the number of batches, got {n}; batches count from 0")
        return batch, self._epoch(epoch)

    def _epoch(self, epoch: int) -> int:
        return integer("epoch", epoch, most=MAX_EPOCH)


def _video_clips(clips_per_video: Any, num_clips: int) -> dict[str, Any]:
    """The clips of each video, as the engine reads them."""
    lengths = as_sequence(clips_per_video)
    if lengths is not None:
        counts = [integer("clips_per_video", length, most=MAX_U64) for length in lengths]
        if sum(counts) != num_clips:
            raise ArgumentError(
                f"clips_per_video must add up to num_clips={num_clips}, got {sum(counts)}; give each video"
            )
        return {"offsets": [0, *accumulate(counts)]}
    clips = integer("clips_per_video", clips_per_video, least=1, most=MAX_U64)
    if num_clips % clips:
        raise ArgumentError(
            f"num_clips={num_clips} must be a multiple of clips_per_video={clips}; give the number of each video"
        )
    return {"equal": {"videos": num_clips // clips, "clips": clips}}


class EpochBatches(Sequence[list[int]]):
    """The batches of one epoch of a `BatchSampler`: lists of clip numbers, computed on request.

    Args:
        order: The batch sampler.
        epoch: Number of the epoch.

    Example:
        >>> import framespool as fsp
        >>> batches = fsp.order.BatchSampler(num_clips=10, batch_size=4).epoch(0)
        >>> len(batches), batches[2]
        (3, [8, 4])
    """

    def __init__(self, order: BatchSampler, epoch: int) -> None:
        self._sampler = order
        self._epoch = epoch

    def __repr__(self) -> str:
        return f"{self._sampler!r}.epoch({self._epoch})"

    def __len__(self) -> int:
        return len(self._sampler)

    @overload
    def __getitem__(self, n: int) -> list[int]: ...
    @overload
    def __getitem__(self, n: slice) -> list[list[int]]: ...
    def __getitem__(self, n: int | slice) -> list[int] | list[list[int]]:
        if isinstance(n, slice):
            return [self._sampler.batch(at, epoch=self._epoch) for at in range(*n.indices(len(self)))]
        at = n + len(self) if n < 0 else n
        if not 0 <= at < len(self):
            raise IndexError(f"batch {n} of {len(self)}")
        return self._sampler.batch(at, epoch=self._epoch)
