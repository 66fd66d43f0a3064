"""The order of clips: numbers only, without a video."""

from __future__ import annotations

import functools
import math
import random
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, overload

from framespool import _framespool
from framespool._engine import Engine
from framespool._validate_args import as_sequence, boolean, choice, integer, number, user_stacklevel
from framespool.errors import ArgumentError

_MAX_U64 = 2**64 - 1

#: Limit of DALI's random numbers that are replayed to reach an epoch; takes some minutes.
_MAX_REPLAYED = 2**35


def validate_shuffle(shuffle: Any) -> None:
    """Checks a value of `shuffle`.

    Args:
        shuffle: The value.

    Raises:
        ArgumentError: If it is not `"grouped"`, `"full"`, `"buffer"` or a bool.
    """
    if not isinstance(shuffle, bool) and shuffle not in ("grouped", "full", "buffer"):
        raise ArgumentError(f'shuffle must be "grouped", "full", "buffer" or a bool, got {shuffle!r}')


def resolve_shuffle(shuffle: Any, order: str, *, can_group: bool) -> Any:
    """The shuffle that `True` selects.

    Args:
        shuffle: A valid value of `shuffle`.
        order: As for `BatchSampler`.
        can_group: Whether a grouped shuffle is possible: not with `stick_to_shard`, not for a mixture with
            replacement, and only where the clips of each video are known.

    Returns:
        `"grouped"`, `"full"`, `"buffer"` or `None`.
    """
    if shuffle is True:
        return {"torch": "full", "dali": "buffer"}.get(order, "grouped" if can_group else "full")
    return shuffle or None


class DrawnSeed(int):
    """A seed that `seed=None` has drawn. A loader with one takes the seed of a state that it loads."""

    __slots__ = ()


def resolve_seed(seed: Any, num_shards: int = 1) -> int:
    """Checks a seed, or draws one for `None`.

    It is drawn from PyTorch's default generator if PyTorch is imported, else from Python's `random`. Several ranks use
    the one of rank 0.

    Args:
        seed: The seed, or `None`.
        num_shards: Number of ranks that must have the same seed. If there are several, all of them call this.

    Returns:
        The seed; a `DrawnSeed` if it was drawn, now or before.

    Raises:
        ArgumentError: If it is not an int in its range, or ranks that do not know each other would have to agree.
    """
    if seed is not None:
        return seed if isinstance(seed, DrawnSeed) else integer("seed", seed, most=_MAX_U64)
    torch, distributed = sys.modules.get("torch"), sys.modules.get("torch.distributed")
    known = distributed is not None and distributed.is_available() and distributed.is_initialized()
    ranks = distributed.get_world_size() if distributed is not None and known else 1
    if num_shards not in (1, ranks):
        raise ArgumentError(
            f"seed=None with num_shards={num_shards} needs torch.distributed with {num_shards} ranks, which share the "
            f"drawn seed, but it has {f'{ranks} ranks' if known else 'not been initialized'}; pass a seed, the same on "
            "all ranks"
        )
    drawn = [random.getrandbits(63) if torch is None else int(torch.randint(2**63 - 1, ()))]
    if num_shards > 1 and distributed is not None:
        distributed.broadcast_object_list(drawn, src=0)
    return DrawnSeed(drawn[0])


def worker_settings(worker_id: Any, num_workers: Any, remedy: str) -> dict[str, int]:
    """Checks which worker of a rank makes the batches.

    Args:
        worker_id: The worker, or `None` if the caller did not state it.
        num_workers: Workers of the rank.
        remedy: What to write instead if the worker is missing.

    Returns:
        Both settings by name.

    Raises:
        ArgumentError: If one is not an int in its range, or several workers are stated but not which one this is.
    """
    return _one_of("worker_id", worker_id, "num_workers", num_workers, "one worker makes only 1 of {} batches", remedy)


def shard_settings(shard_id: Any, num_shards: Any) -> dict[str, int]:
    """Checks which rank gets the batches.

    Args:
        shard_id: The rank, or `None` if the caller did not state it.
        num_shards: Number of ranks.

    Returns:
        Both settings by name.

    Raises:
        ArgumentError: If one is not an int in its range, or several ranks are stated but not which one this is.
    """
    remedy = "give shard_id, the rank of this process; **framespool.torch.rank_and_world() gives both"
    return _one_of("shard_id", shard_id, "num_shards", num_shards, "one rank gets only 1 of {} clips", remedy)


def _one_of(name: str, number: Any, count_name: str, count: Any, loss: str, remedy: str) -> dict[str, int]:
    several = integer(count_name, count)
    if number is None and several > 1:
        raise ArgumentError(f"{count_name}={several} is given without {name}: {loss.format(several)}; {remedy}")
    return {name: 0 if number is None else integer(name, number), count_name: several}


def max_epoch(order: str, shuffle: Any, num_clips: int) -> int:
    """The last epoch that can be chosen; shuffles of DALI are replayed from the first one.

    Args:
        order: As for `BatchSampler`.
        shuffle: As for `BatchSampler`.
        num_clips: Clips of the dataset.

    Returns:
        Number of the epoch.
    """
    return 2**63 if order != "dali" or not shuffle else _MAX_REPLAYED // max(num_clips, 1)


def grouped_settings(block_size: Any, num_streams: Any, max_chunk: Any) -> dict[str, Any]:
    """Checks the arguments of a grouped shuffle.

    Args:
        block_size: Value of `shuffle_block_size`.
        num_streams: Value of `num_streams`.
        max_chunk: Value of `max_chunk`.

    Returns:
        The settings by name, as the engine takes them.

    Raises:
        ArgumentError: If one is not an int in its range.
    """
    return {
        "shuffle_block_size": None if block_size is None else integer("shuffle_block_size", block_size, most=_MAX_U64),
        "num_streams": None if num_streams is None else integer("num_streams", num_streams, least=1),
        "max_chunk": integer("max_chunk", max_chunk, least=1),
    }


def warn_if_poorly_mixed(native: Engine, option: str, budget: int) -> None:
    """Warns if the grouped shuffle of a loader mixes videos poorly.

    Args:
        native: The native loader.
        option: The option of `Cache` that limits its clips.
        budget: The value of the option in bytes.
    """
    mixing, is_poor, enough = native.shuffle_mixing() or (1.0, False, None)
    if not is_poor:
        return
    remedy = "" if enough is None else f'cache=Cache({option}="{math.ceil(enough / 2**20)}MiB") gives 90 %; otherwise '
    warnings.warn(
        f"clips of one video come close together: 10 batches have {mixing:.0%} of the different videos that a full "
        f'shuffle gives, with Cache({option}="{budget / 2**20:.3g}MiB"); {remedy}decrease max_chunk, which decodes '
        'more, or use shuffle="full"',
        stacklevel=user_stacklevel(),
    )


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Several datasets, numbered consecutively, from which epochs are drawn by weight.

    Any prefix of an epoch that ends with a block contains each dataset's share to within less than one clip. Blocks
    have 1024 clips or slightly more, and clips are shuffled within a block. With `shuffle="grouped"` this holds for
    each stream, with blocks of 16 clips.

    Attributes:
        sizes: Number of clips of each dataset.
        weights: Share of each dataset in an epoch, in any unit.
        replacement: `False`: each dataset is passed completely in random order before any of its clips repeats, then
            again in another order. `True`: draws are independent.
        epoch_clips: Clips of one epoch over all ranks. `None`: the sum of `sizes`.

    Raises:
        ArgumentError: If a field is invalid.

    Example:
        >>> import framespool as fsp
        >>> mixture = fsp.Mixture(sizes=[100, 10], weights=[0.5, 0.5], epoch_clips=8)
        >>> sampler = fsp.BatchSampler(num_clips=110, mix=mixture, batch_size=8, shuffle="full", seed=0)
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
        object.__setattr__(self, "sizes", tuple(integer("sizes", size, most=_MAX_U64) for size in sizes))
        object.__setattr__(self, "weights", tuple(number("weights", weight) for weight in weights))
        boolean("replacement", self.replacement)
        if self.epoch_clips is not None:
            object.__setattr__(self, "epoch_clips", integer("epoch_clips", self.epoch_clips, most=_MAX_U64))


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
        >>> weights = fsp.VideoWeights(weights=[1, 3], epoch_clips=8)
        >>> sampler = fsp.BatchSampler(num_clips=4, clips_per_video=2, batch_size=8, shuffle="grouped", weights=weights)
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

    `order="framespool"` computes any batch of any epoch in constant time and memory.

    `order="torch"` is bit for bit that of `DistributedSampler(shuffle=..., seed=...)` with `set_epoch` and a
    `DataLoader` over it. `last_batch="partial"` is `drop_last=False` for both, `"drop"` is `True` for both,
    and `"fill"` fills the last batch from the start of the rank's own list. `shuffle="full"` shuffles an epoch when
    its first batch is requested, and keeps 4 bytes per clip.

    `order="dali"` is bit for bit that of DALI's readers with `pad_last_batch=True`: `shuffle="buffer"` is their
    `random_shuffle=True` with `initial_fill`. `"fill"` delivers an epoch unchanged, `"partial"` up to the
    number of clips of the longest shard, `"drop"` the full batches of these. Ranks move to the next shard each epoch
    unless `stick_to_shard=True`. Only the low 32 bits of the seed count, as in DALI.

    `order="dali"` keeps 4 bytes per clip and is replayed forward. Consecutive batches are cheap; an earlier batch
    replays the epoch, an earlier epoch replays from the first one. Epochs beyond 2^35 draws are refused.

    Attributes:
        num_clips: Clips of the dataset.
        batch_size: Clips per batch of one rank.
        shuffle: `"grouped"`: a new permutation of all videos each epoch; the clips of a video are spread over a block
            and stay on one rank, so that a loader decodes each video once. `True`: the same, or `"full"` if videos
            have one clip each, without `clips_per_video` and with `stick_to_shard`. `"full"`: a new permutation
            of all clips each epoch. `"buffer"`: a local shuffle that moves no clip by 1.5 times `initial_fill`
            positions or more, so clips of one video stay close. `False`: no shuffle.
        initial_fill: Size of the shuffle buffer in clips.
        order: `"framespool"`, `"torch"` or `"dali"`.
        shard_id: Rank, from 0.
        num_shards: Number of ranks; all get the same number of batches of the same sizes.
        seed: Seed of the shuffle; `None` draws one, as for `ClipLoader`.
        last_batch: `"partial"` (shorter), `"drop"`, or `"fill"` (filled with the first clips of the epoch, which
            `padding()` marks).
        stick_to_shard: Each rank keeps its own contiguous part of the dataset and shuffles that.
        num_nodes: Number of machines; as for `ClipLoader`. Videos are those of `clips_per_video`.
        worker_id: Worker of this rank, from 0. Required if there are several.
        num_workers: Workers of this rank. Worker `w` gets batches `w`, `w + num_workers` and so on, as in
            PyTorch's `DataLoader`.
        mix: A `Mixture` of `num_clips` clips; needs `shuffle="full"` or `"grouped"`. With `"grouped"`
            each dataset has a grouped shuffle, and in each stream the datasets take turns by weight.
        weights: A `VideoWeights`; needs `shuffle="full"` or `"grouped"`, and no `mix`.
        clips_per_video: For `"grouped"` and `weights`: clips of every video, or of each video in turn.
        shuffle_block_size: For `"grouped"`: positions over which the clips of a video are spread, over all ranks.
            `None`: as many as a clip cache of 2 GiB for clips of 16 frames of 224 x 224 permits. With twice
            `num_clips` or more, the clips of each stream are shuffled fully.
        num_streams: For `"grouped"`: number of streams. If the number of ranks divides it, each video is on one rank.
            `None`: a multiple of `num_shards`.
        max_chunk: For `"grouped"`: longer videos are cut into chunks of at most this many clips.
        repeats: How many times each clip is delivered, one after another in its batch. A batch has `batch_size *
            repeats` slots.

    Raises:
        ArgumentError: If an argument is invalid, or if two contradict each other.

    Example:
        >>> import framespool as fsp
        >>> sampler = fsp.BatchSampler(num_clips=10, batch_size=2, num_shards=2, shard_id=1, seed=7)
        >>> len(sampler), sampler.num_slots
        (3, 5)
        >>> fsp.BatchSampler(num_clips=5, batch_size=2, shuffle=False).epoch(0)[1]
        [2, 3]
    """

    num_clips: int
    batch_size: int
    shuffle: Literal["grouped", "full", "buffer"] | bool = "full"
    initial_fill: int = 1024
    order: Literal["framespool", "dali", "torch"] = "framespool"
    shard_id: int = 0
    num_shards: int = 1
    seed: int | None = 0
    last_batch: Literal["partial", "drop", "fill"] = "partial"
    stick_to_shard: bool = False
    num_nodes: int = 1
    worker_id: int | None = None
    num_workers: int = 1
    mix: Mixture | None = None
    weights: VideoWeights | None = None
    clips_per_video: int | Sequence[int] | None = None
    shuffle_block_size: int | None = None
    num_streams: int | None = None
    max_chunk: int = 64
    repeats: int = 1
    _sampler: _framespool.BatchSampler = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        validate_shuffle(self.shuffle)
        if self.mix is not None and not isinstance(self.mix, Mixture):
            raise ArgumentError(f"mix must be a framespool.Mixture or None, got {self.mix!r}")
        if self.weights is not None and not isinstance(self.weights, VideoWeights):
            raise ArgumentError(f"weights must be a framespool.VideoWeights or None, got {self.weights!r}")
        counts = ("batch_size", "initial_fill", "shard_id", "num_shards")
        settings: dict[str, Any] = {name: integer(name, getattr(self, name)) for name in counts}
        settings |= worker_settings(self.worker_id, self.num_workers, "give worker_id, from 0")
        object.__setattr__(self, "worker_id", settings["worker_id"])
        settings["num_clips"] = integer("num_clips", self.num_clips, most=_MAX_U64)
        settings["seed"] = int(resolve_seed(self.seed, settings["num_shards"]))
        object.__setattr__(self, "seed", settings["seed"])
        settings |= {
            "shuffle": resolve_shuffle(
                self.shuffle,
                self.order,
                can_group=self.clips_per_video is not None
                and not self.stick_to_shard
                and not (self.mix is not None and self.mix.replacement),
            ),
            **grouped_settings(self.shuffle_block_size, self.num_streams, self.max_chunk),
            "repeats": integer("repeats", self.repeats, least=1, most=1024),
            "clips_per_video": None,
            "order": choice("order", self.order, ("framespool", "dali", "torch")),
            "last_batch": choice("last_batch", self.last_batch, ("partial", "drop", "fill")),
            "stick_to_shard": boolean("stick_to_shard", self.stick_to_shard),
            "num_nodes": integer("num_nodes", self.num_nodes),
            "mix": None,
            "weights": None,
        }
        if settings["shuffle"] == "grouped" and self.clips_per_video is None:
            raise ArgumentError(
                "clips_per_video must be given with a grouped shuffle, got None; it states which clips are of one video"
            )
        if self.clips_per_video is not None and (settings["shuffle"] == "grouped" or self.weights is not None):
            lengths = as_sequence(self.clips_per_video)
            settings["clips_per_video"] = (
                integer("clips_per_video", self.clips_per_video, least=1, most=_MAX_U64)
                if lengths is None
                else [integer("clips_per_video", length, most=_MAX_U64) for length in lengths]
            )
        if self.weights is not None:
            given = self.weights
            settings["weights"] = (list(given.weights), given.replacement, given.epoch_clips)
        if self.mix is not None:
            mix = self.mix
            settings["mix"] = (list(mix.sizes), list(mix.weights), mix.replacement, mix.epoch_clips)
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
            >>> sampler = fsp.BatchSampler(num_clips=3200, batch_size=32, shuffle="full", seed=1)
            >>> quality = sampler.quality(clips_per_video=16)
            >>> round(quality["mixing"], 1)
            1.0
        """
        if clips_per_video is None:
            return self._sampler.quality(None, self._epoch(epoch))
        counts = as_sequence(clips_per_video)
        if counts is None:
            each = integer("clips_per_video", clips_per_video, least=1, most=_MAX_U64)
            return self._sampler.quality(each, self._epoch(epoch))
        lengths = [integer("clips_per_video", count, most=_MAX_U64) for count in counts]
        if sum(lengths) != self.num_clips:
            raise ArgumentError(
                f"clips_per_video must add up to num_clips={self.num_clips}, got {sum(lengths)}; give each video"
            )
        return self._sampler.quality(lengths, self._epoch(epoch))

    def _place(self, n: int, epoch: int) -> tuple[int, int]:
        batch = integer("n", n, most=_MAX_U64)
        if batch >= len(self):
            raise ArgumentError(f"n must be below {len(self)}, the number of batches, got {n}; batches count from 0")
        return batch, self._epoch(epoch)

    def _epoch(self, epoch: int) -> int:
        return integer("epoch", epoch, most=max_epoch(self.order, self.shuffle, self.num_clips))


class EpochBatches(Sequence[list[int]]):
    """The batches of one epoch of a `BatchSampler`: lists of clip numbers, computed on request.

    Args:
        order: The batch sampler.
        epoch: Number of the epoch.

    Example:
        >>> import framespool as fsp
        >>> batches = fsp.BatchSampler(num_clips=10, batch_size=4).epoch(0)
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
