"""The order of samples that have any number of clips each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from framespool import _framespool
from framespool.order._batch_budget import Shape, Slot

#: Samples that a batch has while the order of an epoch is listed.
_LISTED = 4096


class SampleOrder:
    """Answers for samples what plans of batches ask an engine about clips.

    Args:
        settings: The settings of the order, with weights.
        num_samples: Number of samples.
        mixture: The mixture of datasets, as the engine's batch sampler takes it; `None` without one.
        shapes: Returns the shapes of all clips of each of some samples in an epoch.
    """

    #: Samples are not grouped: all clips of one are delivered together.
    grouped = None

    def __init__(
        self,
        settings: Mapping[str, Any],
        num_samples: int,
        mixture: Mapping[str, Any] | None,
        shapes: Callable[[int, list[Slot]], list[list[Shape]]],
    ) -> None:
        self.num_clips = num_samples
        self.shapes = shapes
        self._settings = {**settings, "num_clips": num_samples, "mix": mixture}
        self.sampler = _framespool.BatchSampler(self._settings)

    def set_seed(self, seed: int) -> None:
        """Changes the seed.

        Args:
            seed: The seed.
        """
        self._settings["seed"] = seed
        self.sampler = _framespool.BatchSampler(self._settings)

    @property
    def num_omitted(self) -> int:
        """Samples of an epoch that do not fill the last batch, over all ranks."""
        settings = self._settings
        if settings["last_batch"] != "drop":
            return 0
        chosen = settings["mix"] or settings["weights"] or {}
        samples = chosen.get("epoch_clips") or self.num_clips
        return int(samples % (settings["batch_size"] * settings["num_shards"]))

    def clips_in_order(self, epoch: int) -> list[tuple[int, int]]:
        """The samples of an epoch in the order of all ranks, without those that only fill batches.

        Args:
            epoch: The epoch.

        Returns:
            Each with its occurrence.
        """
        alone = {"shard_id": 0, "num_shards": 1, "worker_id": 0, "num_workers": 1}
        listed = {**self._settings, **alone, "batch_size": _LISTED, "last_batch": "partial"}
        sampler = _framespool.BatchSampler(listed)
        return [
            pair
            for number in range(len(sampler))
            for pair in zip(sampler.batch(number, epoch), sampler.visits(number, epoch), strict=True)
        ]

    def samples_of(self, clips: Sequence[int]) -> Sequence[int]:
        """The sample of each of the units of this order, which are samples.

        Args:
            clips: The units.

        Returns:
            The same numbers.
        """
        return clips


class OrderBatches:
    """The batches that have a number of samples each, in an order of framespool."""

    def config(self) -> dict[str, Any]:
        """What identifies the order, for checkpoints, beyond its settings.

        Returns:
            Nothing.
        """
        return {}

    def set_seed(self, seed: int) -> None:
        """Does nothing: the order has the seed.

        Args:
            seed: The seed.
        """

    def state(self, order: SampleOrder, epoch: int) -> dict[str, int]:
        """What a state within an epoch has.

        Args:
            order: The order.
            epoch: The epoch.

        Returns:
            Nothing: the order follows from the configuration.
        """
        return {}

    def check_state(self, state: Mapping[str, Any], order: SampleOrder, epoch: int) -> None:
        """Accepts each state.

        Args:
            state: The state.
            order: The order.
            epoch: The epoch.
        """

    def num_batches(self, order: SampleOrder, epoch: int) -> int:
        """The number of batches of this rank and worker, the same in each epoch.

        Args:
            order: The order.
            epoch: The epoch.

        Returns:
            The number.
        """
        return len(order.sampler)

    def batches(self, order: SampleOrder, epoch: int) -> list[list[Slot]]:
        """The batches of this rank and worker in an epoch.

        Args:
            order: The order.
            epoch: The epoch.

        Returns:
            The slots of each batch.
        """
        sampler = order.sampler
        return [
            [
                (sample, occurrence, 0, padding)
                for sample, occurrence, padding in zip(
                    sampler.batch(number, epoch),
                    sampler.visits(number, epoch),
                    sampler.padding(number, epoch),
                    strict=True,
                )
            ]
            for number in range(len(sampler))
        ]

    def omitted(self, order: SampleOrder, epoch: int) -> int:
        """The number of samples of an epoch that are in no batch of any rank.

        Args:
            order: The order.
            epoch: The epoch.

        Returns:
            The number; above 0 only with `last_batch="drop"`.
        """
        return order.num_omitted
