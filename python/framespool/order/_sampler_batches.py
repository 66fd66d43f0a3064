"""Batches of the clips that an object of the user yields, such as a sampler of PyTorch."""

from __future__ import annotations

import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from framespool import _framespool
from framespool._common.validate_args import integer
from framespool.errors import ArgumentError
from framespool.order._batch_budget import Slot


class SamplerBatches:
    """Cuts the clips that a sampler yields for an epoch into batches of one rank.

    A sampler with `set_epoch()` gets the number of the epoch first. It is iterated once for an epoch; its clips are
    kept for the two latest epochs, 8 bytes for each.

    Args:
        sampler: Yields the ids of the clips of this rank, each time it is iterated.
        order: The settings of the order.

    Raises:
        ArgumentError: If the sampler can be iterated only once.
    """

    def __init__(self, sampler: Iterable[int], order: Mapping[str, Any]) -> None:
        if iter(sampler) is sampler:
            raise ArgumentError(
                f"shuffle={sampler!r} can be iterated only once, but each epoch needs its clips; give a list or a "
                "sampler instead of an iterator"
            )
        self._sampler = sampler
        self._order = order
        self._epochs: dict[int, array[int]] = {}

    def config(self) -> dict[str, Any]:
        """What identifies the order, for checkpoints.

        Returns:
            The settings by name.
        """
        return {"sampler": type(self._sampler).__qualname__}

    def set_seed(self, seed: int) -> None:
        """Does nothing: the sampler has a seed of its own.

        Args:
            seed: The seed.
        """

    def state(self, native: _framespool.Loader, epoch: int) -> dict[str, int]:
        """What a state within an epoch has.

        Args:
            native: The native loader.
            epoch: The epoch.

        Returns:
            A checksum of the clips of this rank.
        """
        return {"sampled": zlib.crc32(self._clips(native, epoch).tobytes())}

    def check_state(self, state: Mapping[str, Any], native: _framespool.Loader, epoch: int) -> None:
        """Checks that the sampler yields the clips that it yielded when a state was written.

        Args:
            state: The state.
            native: The native loader.
            epoch: The epoch.

        Raises:
            ArgumentError: If it yields others.
        """
        if (sampled := state.get("sampled")) is None:  # at the start of an epoch
            return
        if integer("sampled", sampled) != self.state(native, epoch)["sampled"]:
            raise ArgumentError(
                f"the sampler yields other clips for epoch {epoch} than when the state was written; give it a seed and "
                "a set_epoch() that determine its order, as DistributedSampler has. A sampler yields the clips of one "
                "rank, so each rank must save its own state, and load that"
            )

    def num_batches(self, native: _framespool.Loader, epoch: int) -> int:
        """The number of batches of this rank and worker in an epoch.

        Args:
            native: The native loader.
            epoch: The epoch.

        Returns:
            The number.
        """
        return len(self._firsts(native, epoch))

    def batches(self, native: _framespool.Loader, epoch: int) -> list[list[Slot]]:
        """The batches of this rank and worker in an epoch.

        Args:
            native: The native loader.
            epoch: The epoch.

        Returns:
            The slots of each batch.
        """
        clips, size, repeats = self._clips(native, epoch), self._order["batch_size"], range(self._order["repeats"])
        seen: Counter[int] = Counter()
        occurrences = array("Q")
        for clip in clips:
            occurrences.append(seen[clip])
            seen[clip] += 1
        del seen
        found: list[list[Slot]] = []
        for first in self._firsts(native, epoch):
            places = range(first, min(first + size, len(clips)))
            batch = [(clips[at], occurrences[at], repeat, False) for at in places for repeat in repeats]
            if self._order["last_batch"] == "fill":
                others = [at % len(clips) for at in range(size - len(places))]
                batch += [(clips[at], occurrences[at], repeat, True) for at in others for repeat in repeats]
            found.append(batch)
        return found

    def omitted(self, native: _framespool.Loader, epoch: int) -> int:
        """The number of clips of this rank that are in no batch.

        Args:
            native: The native loader.
            epoch: The epoch.

        Returns:
            The number; above 0 only with `last_batch="drop"`.
        """
        drops = self._order["last_batch"] == "drop"
        return len(self._clips(native, epoch)) % self._order["batch_size"] if drops else 0

    def _firsts(self, native: _framespool.Loader, epoch: int) -> range:
        """The places of the first clips of the batches."""
        size, clips = self._order["batch_size"], len(self._clips(native, epoch))
        if self._order["last_batch"] == "drop":
            clips -= clips % size
        return range(self._order["worker_id"] * size, clips, self._order["num_workers"] * size)

    def _clips(self, native: _framespool.Loader, epoch: int) -> array[int]:
        if epoch not in self._epochs:
            while len(self._epochs) > 1:
                self._epochs.pop(next(iter(self._epochs)))
            if hasattr(self._sampler, "set_epoch"):
                self._sampler.set_epoch(epoch)
            most = native.num_clips - 1
            clips = array("Q")
            for place, clip in enumerate(self._sampler):
                if isinstance(clip, (list, tuple)):
                    raise ArgumentError(
                        f"shuffle yields batches, such as {clip!r}, but must yield ids of clips; give the sampler that "
                        "the batches are made of, and batch_size="
                    )
                clips.append(integer(f"clip {place} of the sampler", clip, most=most))
            self._epochs[epoch] = clips
        return self._epochs[epoch]
