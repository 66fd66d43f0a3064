"""Which clip comes when: numbers alone, without a video."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, overload

from framespool import _framespool
from framespool._validate_args import as_sequence, boolean, choice, integer, number
from framespool.errors import ArgumentError

_MAX_U64 = 2**64 - 1

#: Draws of DALI's random numbers that are replayed at most to come to an epoch: some minutes.
_MAX_REPLAYED = 2**35


def validate_shuffle(shuffle: Any) -> None:
    """Refuses what is not a way to shuffle."""
    if shuffle is not False and shuffle not in ("full", "buffer"):
        hint = '; use "full"' if shuffle is True else ""
        raise ArgumentError(f'shuffle must be "full", "buffer" or False, got {shuffle!r}{hint}')


def max_epoch(order: str, shuffle: Any, num_clips: int) -> int:
    """The last epoch that can be asked for: DALI's shuffles are replayed from the first one."""
    return 2**63 if order != "dali" or not shuffle else _MAX_REPLAYED // max(num_clips, 1)


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Several datasets, one after another in the numbering of clips, from which epochs are drawn by weight.

    ``sizes``: number of clips of each dataset. ``weights``: share of each in an epoch, in any unit. Of any stretch
    from the beginning of an epoch that ends with a block, each dataset has its share to within less than one clip;
    blocks have 1024 clips or some more, and within one the datasets are shuffled.

    ``replacement``: without it a dataset is passed from end to end in a random order before any of its clips comes
    again, and then passed anew in another order; with it every draw is on its own. ``epoch_clips``: clips of one
    epoch over all ranks; by default as many as there are in all datasets.
    """

    sizes: Sequence[int]
    weights: Sequence[float]
    replacement: bool = False
    epoch_clips: int | None = None

    def __post_init__(self) -> None:
        sizes, weights = as_sequence(self.sizes), as_sequence(self.weights)
        if sizes is None:
            raise ArgumentError(f"sizes must be whole numbers, one for each dataset, got {self.sizes!r}")
        if weights is None:
            raise ArgumentError(f"weights must be numbers, one for each dataset, got {self.weights!r}")
        object.__setattr__(self, "sizes", tuple(integer("sizes", size, most=_MAX_U64) for size in sizes))
        object.__setattr__(self, "weights", tuple(number("weights", weight) for weight in weights))
        boolean("replacement", self.replacement)
        if self.epoch_clips is not None:
            object.__setattr__(self, "epoch_clips", integer("epoch_clips", self.epoch_clips, most=_MAX_U64))


@dataclass(frozen=True, kw_only=True)
class BatchSampler:
    """The sequence in which one rank delivers clips: the numbers that a loader with the same keywords goes by (all of
    them given; a loader does not shuffle unless it is told to).

    It holds no video, so it also serves as a batch sampler of its own: ``order.epoch(e)`` is the sequence of an
    epoch's batches, each a list of clip numbers, and ``order.batch(n, epoch=e)`` any one of them.

    ``num_clips``: clips of the whole dataset. ``batch_size``: clips per batch of one rank. ``shuffle``: ``"full"``, a
    new permutation of all clips each epoch; ``"buffer"``, a local shuffle that moves no clip by 1.5 times
    ``initial_fill`` places or more, so that clips of one video stay near each other; or ``False``. ``seed``: decides
    the shuffle.

    ``shard_id`` of ``num_shards``: this rank's part; all ranks get the same number of batches of the same sizes.
    ``last_batch``: ``"partial"`` (shorter), ``"drop"`` (left out) or ``"fill"`` (filled up with clips from the head of
    the order, which :meth:`padding` marks). Ranks share each global batch, so that another number of ranks with the
    same ``batch_size * num_shards`` goes on with the same global batches; with ``stick_to_shard=True`` each keeps to
    its own contiguous part of the dataset and shuffles that. ``worker_id`` of ``num_workers``: this worker's part of
    the rank's batches: ``worker_id``, ``worker_id + num_workers`` and so on, which is how PyTorch's ``DataLoader``
    takes turns.

    ``mix``: a :class:`Mixture` of several datasets by weight, ``num_clips`` in all; needs ``shuffle="full"``.

    ``order``: whose rules these are. ``"framespool"``: any batch of any epoch at once, without memory.

    ``"torch"``: that of ``DistributedSampler(shuffle=..., seed=...)`` with ``set_epoch``, and a ``DataLoader`` over
    it, bit for bit: ``last_batch="partial"`` is ``drop_last=False`` for both, ``"drop"`` is ``True`` for both, and
    ``"fill"`` fills the last batch up from the head of the rank's own list. ``shuffle="full"`` shuffles an epoch as a
    whole when its first batch is asked for, and keeps 4 bytes a clip.

    ``"dali"``: that of DALI's readers, bit for bit, with ``random_shuffle=True`` and ``initial_fill`` for
    ``shuffle="buffer"``: epoch ``e`` of a reader with ``pad_last_batch=True``. ``"fill"`` delivers it as it is,
    ``"partial"`` up to the number of clips of the longest shard, ``"drop"`` the full batches of these. Ranks go on to
    the next shard each epoch unless ``stick_to_shard=True``. Of the seed the low 32 bits count, as in DALI. It keeps 4
    bytes a clip and is replayed forward: batches one after another cost little, an earlier batch means beginning the
    epoch again, and an earlier epoch the first one; epochs beyond 2^35 draws are refused.

    Raises :class:`~framespool.errors.ArgumentError` for what cannot be kept together.
    """

    num_clips: int
    batch_size: int
    shuffle: Literal["full", "buffer", False] = "full"
    initial_fill: int = 1024
    order: Literal["framespool", "dali", "torch"] = "framespool"
    shard_id: int = 0
    num_shards: int = 1
    seed: int = 0
    last_batch: Literal["partial", "drop", "fill"] = "partial"
    stick_to_shard: bool = False
    worker_id: int = 0
    num_workers: int = 1
    mix: Mixture | None = None
    _sampler: _framespool.BatchSampler = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        validate_shuffle(self.shuffle)
        if self.mix is not None and not isinstance(self.mix, Mixture):
            raise ArgumentError(f"mix must be a framespool.Mixture or None, got {self.mix!r}")
        counts = ("batch_size", "initial_fill", "shard_id", "num_shards", "worker_id", "num_workers")
        settings: dict[str, Any] = {name: integer(name, getattr(self, name)) for name in counts}
        settings |= {name: integer(name, getattr(self, name), most=_MAX_U64) for name in ("num_clips", "seed")}
        settings |= {
            "shuffle": self.shuffle or None,
            "order": choice("order", self.order, ("framespool", "dali", "torch")),
            "last_batch": choice("last_batch", self.last_batch, ("partial", "drop", "fill")),
            "stick_to_shard": boolean("stick_to_shard", self.stick_to_shard),
            "mix": None,
        }
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
    def num_slots(self) -> int:
        """Clips of all batches of an epoch, padding included; the same on all ranks and in all epochs."""
        return self._sampler.num_slots

    def batch(self, n: int, *, epoch: int = 0) -> list[int]:
        """The clip numbers of batch ``n`` of an epoch, real clips first, then padding."""
        return self._sampler.batch(*self._place(n, epoch))

    def padding(self, n: int, *, epoch: int = 0) -> list[bool]:
        """Which clips of batch ``n`` only fill it or make ranks equal; they are also delivered as real ones."""
        return self._sampler.padding(*self._place(n, epoch))

    def visits(self, n: int, *, epoch: int = 0) -> list[int]:
        """Which time each clip of batch ``n`` comes in this epoch, from 0: more than 0 only with a mix.

        It is the pass over its dataset or, with replacement, the number of the draw; a loader draws other random
        frames and crops for each.
        """
        return self._sampler.visits(*self._place(n, epoch))

    def epoch(self, epoch: int) -> EpochBatches:
        """The batches of an epoch, as a sequence of lists of clip numbers."""
        return EpochBatches(self, self._epoch(epoch))

    def quality(self, clips_per_video: int | Sequence[int] = 1, *, epoch: int = 0) -> dict[str, Any]:
        """How well an epoch is mixed, for this worker; measured on some 100,000 clips where it has more.

        ``clips_per_video``: the clips of every video, or of each video in turn, adding up to ``num_clips``.

        Returns ``mean_clips``, ``median_clips`` and ``max_clips``, how far a clip is from the one that would come
        without shuffling, in clip numbers; the same as shares of the dataset, ``mean_share``, ``median_share`` and
        ``max_share``; ``videos_per_batch``, the mean number of different videos in a batch; and ``full``, a dict of
        the same for a full shuffle. Not for a mix, whose clips have no place without shuffling.
        """
        counts = as_sequence(clips_per_video)
        if counts is None:
            ends, each = [], integer("clips_per_video", clips_per_video, least=1, most=_MAX_U64)
        else:
            each = 1
            ends = list(itertools.accumulate(integer("clips_per_video", count, most=_MAX_U64) for count in counts))
            total = ends[-1] if ends else 0
            if total != self.num_clips:
                raise ArgumentError(
                    f"clips_per_video must add up to num_clips={self.num_clips}, got {total}; give each video's number"
                )
        return self._sampler.quality(ends, each, self._epoch(epoch))

    def _place(self, n: int, epoch: int) -> tuple[int, int]:
        batch = integer("n", n, most=_MAX_U64)
        if batch >= len(self):
            raise ArgumentError(f"n must be below {len(self)}, the number of batches, got {n}; batches count from 0")
        return batch, self._epoch(epoch)

    def _epoch(self, epoch: int) -> int:
        return integer("epoch", epoch, most=max_epoch(self.order, self.shuffle, self.num_clips))


class EpochBatches(Sequence[list[int]]):
    """The batches of one epoch of an :class:`BatchSampler`: lists of clip numbers, computed when they are asked for."""

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
