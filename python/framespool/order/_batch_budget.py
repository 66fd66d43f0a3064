"""Batches limited by the pixels or tokens of their clips, not by the number of clips."""

from __future__ import annotations

import random
import warnings
from collections.abc import Mapping
from typing import Any

from framespool import _framespool
from framespool.errors import ArgumentError
from framespool.options._batch_size import PixelBudget, TokenBudget
from framespool.options._order import shuffle_name
from framespool.transforms import SmartResize
from framespool.transforms._compose import listed

#: Frames that models of the Qwen family merge into one token.
FRAMES_PER_TOKEN = 2

#: Clips that are sorted by shape together if the order keeps neighbors close.
WINDOW_CLIPS = 4096

#: Clip, occurrence, repeat, whether it is padding.
Slot = tuple[int, int, int, bool]


class BatchBudget:
    """Cuts the clips of an epoch into batches that cost at most a number of pixels or tokens.

    All ranks compute the batches of all ranks, from the order of the epoch and the shapes of its clips, and take theirs
    in turn: batch *b* is step *b* // `num_shards` of rank *b* % `num_shards`. So each clip occurs once, and all ranks
    have the same number of batches.

    Clips of like shape share a batch. If the order is a permutation of all clips, all clips are sorted by shape, else
    those within windows of the order; the batches are then shuffled, within the window. Unshuffled clips stay in their
    order.

    Args:
        budget: The limit of a batch.
        transforms: The transforms of the loader; a token is a square of the factor of its `SmartResize`.
        order: The settings of the order.

    Raises:
        ArgumentError: If the ranks have orders of their own, or tokens have no size.
    """

    def __init__(self, budget: PixelBudget | TokenBudget, transforms: Any, order: Mapping[str, Any]) -> None:
        name = type(budget).__name__
        if order["stick_to_shard"] or order["num_nodes"] > 1:
            raise ArgumentError(
                f"batch_size={name}(...) needs the order of all ranks: omit stick_to_shard and num_nodes"
            )
        self._most = budget.max_clips
        self._side, self._frames = 1, 1
        if isinstance(budget, PixelBudget):
            self._text, self.limit, self._state_key = f"pixels={budget.pixels}", budget.pixels, "batch_pixels"
        else:
            self._text, self.limit, self._state_key = f"tokens={budget.tokens}", budget.tokens, "batch_tokens"
            factors = [each.factor for each in listed(transforms) or () if isinstance(each, SmartResize)]
            if not factors:
                raise ArgumentError(
                    "TokenBudget needs transforms.SmartResize, whose factor is the side of a token; use PixelBudget"
                )
            self._side, self._frames = factors[-1], FRAMES_PER_TOKEN
        self._order = order
        #: Settled by the loader, which knows the clips of each video.
        self.shuffle = shuffle_name(order)
        #: The batches of all ranks, by epoch and parameters of the grouped shuffle; of the two latest ones.
        self._plans: dict[Any, list[list[Slot]]] = {}
        self._warned = False

    def cost(self, shape: tuple[int, int, int]) -> int:
        """Pixels or tokens of a clip.

        Args:
            shape: Frames, height and width.

        Returns:
            The number; a token is an area of two frames, a last frame alone counts like two.
        """
        frames, height, width = shape
        side = self._side
        return -(-frames // self._frames) * -(-height // side) * -(-width // side)

    def config(self) -> dict[str, Any]:
        """What determines the batches, for checkpoints.

        Returns:
            The settings by name.
        """
        return {self._state_key: self.limit, "most": self._most, "num_shards": self._order["num_shards"]}

    def set_seed(self, seed: int) -> None:
        """Changes the seed of the order; the batches are computed again.

        Args:
            seed: The seed.
        """
        self._order = {**self._order, "seed": seed}
        self._plans.clear()

    def batches(self, native: _framespool.Loader, epoch: int) -> list[list[Slot]]:
        """The batches of this rank and worker in an epoch.

        The first call for an epoch opens the index of each video, unless the transforms give one size.

        Args:
            native: The native loader.
            epoch: The epoch.

        Returns:
            The slots of each batch.
        """
        key = (epoch, native.grouped)
        if key not in self._plans:
            while len(self._plans) > 1:
                self._plans.pop(next(iter(self._plans)))
            self._plans[key] = self._plan(native, epoch)
        ranks, workers = self._order["num_shards"], self._order["num_workers"]
        of_rank = self._plans[key][self._order["shard_id"] :: ranks]
        return of_rank[self._order["worker_id"] :: workers]

    def num_batches(self, native: _framespool.Loader, epoch: int) -> int:
        """The number of batches of this rank and worker in an epoch.

        Args:
            native: The native loader.
            epoch: The epoch.

        Returns:
            The number.
        """
        return len(self.batches(native, epoch))

    def omitted(self, native: _framespool.Loader, epoch: int) -> int:
        """The number of clips of an epoch that are in no batch of any rank.

        Args:
            native: The native loader.
            epoch: The epoch.

        Returns:
            The number; above 0 only with `last_batch="drop"`.
        """
        self.batches(native, epoch)
        delivered = sum(not padding for batch in self._plans[epoch, native.grouped] for *_, padding in batch)
        return len(native.clips_in_order(epoch)) - delivered // int(self._order["repeats"])

    def _plan(self, native: _framespool.Loader, epoch: int) -> list[list[Slot]]:
        """The batches of all ranks."""
        repeats = range(self._order["repeats"])
        # Random clip samplers and transforms may give each occurrence and each repeat a shape of its own.
        clips = [[(*clip, repeat, False) for repeat in repeats] for clip in native.clips_in_order(epoch)]
        found = native.clip_shapes(epoch, [slot for each in clips for slot in each])
        shapes = [found[first : first + len(repeats)] for first in range(0, len(found), len(repeats))]
        ranks = self._order["num_shards"]
        window = len(clips) if self.shuffle == "full" else WINDOW_CLIPS
        batches: list[list[Slot]] = []
        for first in range(0, len(clips), max(window, 1)):
            places = list(range(first, min(first + window, len(clips))))
            if self.shuffle:
                places.sort(key=shapes.__getitem__)  # stable: the order decides among equal shapes
            made = self._packed(places, clips, shapes)
            if self.shuffle:
                random.Random(f"{self._order['seed']}, {epoch}, {first}").shuffle(made)
            batches += made
        excess = len(batches) % ranks
        if excess and self._order["last_batch"] == "drop":
            del batches[-excess:]
        elif excess:
            # One clip each: the ranks that have them wait for the others anyway.
            batches += [[(*batches[at][0][:3], True)] for at in range(ranks - excess)]
        return batches

    def _packed(
        self, places: list[int], clips: list[list[Slot]], shapes: list[list[tuple[int, int, int]]]
    ) -> list[list[Slot]]:
        """Neighbors of a list of positions, as many in a batch as the limit permits."""
        batches: list[list[Slot]] = []
        used, count = self.limit + 1, 0
        for place in places:
            cost = sum(map(self.cost, shapes[place]))
            if cost > self.limit and not self._warned:
                self._warned = True
                frames, height, width = shapes[place][0]
                repeats = f" in {len(shapes[place])} repeats" if len(shapes[place]) > 1 else ""
                warnings.warn(
                    f"clip {clips[place][0][0]} has {frames} frames of {width}x{height}, which{repeats} exceed "
                    f"{self._text} alone ({cost}); such a clip is a batch of its own: limit its size with "
                    "SmartResize, or its frames with the clip sampler",
                    stacklevel=6,
                )
            if used + cost > self.limit or count == self._most:
                batches.append([])
                used, count = 0, 0
            batches[-1] += clips[place]
            used, count = used + cost, count + 1
        return batches
