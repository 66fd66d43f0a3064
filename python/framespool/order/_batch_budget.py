"""Batches whose clips follow from their shapes: limited by pixels or tokens, or of one shape."""

from __future__ import annotations

import math
import random
import warnings
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from framespool import _framespool
from framespool._common.validate_args import integer, user_stacklevel
from framespool.errors import ArgumentError
from framespool.options._batch_size import PixelBudget, TokenBudget
from framespool.options._loader import LoaderOptions
from framespool.options._order import shuffle_name
from framespool.transforms import SmartResize
from framespool.transforms._compose import listed

#: Frames that models of the Qwen family merge into one token.
FRAMES_PER_TOKEN = 2

#: Clips that are sorted by shape together if the order keeps neighbors close.
WINDOW_CLIPS = 4096

#: Clip, occurrence, repeat, whether it is padding.
Slot = tuple[int, int, int, bool]

#: Frames, height and width.
Shape = tuple[int, int, int]


class BatchBudget:
    """Cuts the clips of an epoch into batches that cost at most a number of pixels or tokens.

    All ranks compute the batches of all ranks, from the order of the epoch and the shapes of its clips, and take theirs
    in turn: batch *b* is step *b* // `num_shards` of rank *b* % `num_shards`. So each clip occurs once, and all ranks
    have the same number of batches.

    Clips of like shape share a batch. If the order is a permutation of all clips, all clips are sorted by shape, else
    those within windows of the order; the batches are then shuffled, within the window. Unshuffled clips stay in their
    order, except that buckets sort them in any case.

    With buckets all clips of a batch have one shape. The batches of a step, one for each rank, are shuffled together,
    so that the ranks have one shape at a time where the numbers of clips permit it.

    With samples of several sources the units of the order are samples: each costs what its clips and its text cost,
    and those of like cost share a batch.

    Args:
        options: The options of the loader: the limit of a batch, the buckets, and the transforms; a token is a square
            of the factor of `SmartResize`.
        order: The settings of the order.
        columns: The columns of the dataset.
        of_samples: Whether the units of the order are samples of several sources.

    Raises:
        ArgumentError: If the ranks have orders of their own, or tokens have no size.
    """

    def __init__(
        self,
        options: LoaderOptions,
        order: Mapping[str, Any],
        columns: Mapping[str, Any],
        *,
        of_samples: bool = False,
    ) -> None:
        budget = options.batch_size
        self._of_samples = of_samples
        self._replaces = options.on_error.action == "replace"
        #: Whether all clips of a batch have one shape.
        self.in_buckets = options.buckets is not None
        if order["stick_to_shard"] or order["num_nodes"] > 1:
            name = "buckets=" if self.in_buckets else f"batch_size={type(budget).__name__}(...)"
            raise ArgumentError(f"{name} needs the order of all ranks: omit stick_to_shard and num_nodes")
        self._side, self._frames = 1, 1
        self.limit: float = math.inf
        self._most: int | None
        self._state_key: str | None
        self._text_column: Sequence[int] | None = None
        if isinstance(budget, PixelBudget):
            self._text, self.limit, self._state_key = f"pixels={budget.pixels}", budget.pixels, "batch_pixels"
            self._most = budget.max_clips
        elif isinstance(budget, TokenBudget):
            self._text, self.limit, self._state_key = f"tokens={budget.tokens}", budget.tokens, "batch_tokens"
            self._most = budget.max_clips
            factors = [each.factor for each in listed(options.transforms) or () if isinstance(each, SmartResize)]
            if not factors:
                raise ArgumentError(
                    "TokenBudget needs transforms.SmartResize, whose factor is the side of a token; use PixelBudget"
                )
            self._side, self._frames = factors[-1], FRAMES_PER_TOKEN
            self._text_column = None if budget.text is None else _counts(budget.text, columns)
        else:
            self._text, self._state_key, self._most = "", None, order["batch_size"]
        self._order = order
        #: Settled by the loader, which knows the clips of each video.
        self.shuffle = shuffle_name(order)
        #: The batches of all ranks, by epoch and parameters of the grouped shuffle; of the two latest ones.
        self._plans: dict[Any, list[list[Slot]]] = {}
        self._digests: dict[Any, int] = {}
        self._warned = False

    def cost(self, shape: Shape) -> int:
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
        found: dict[str, Any] = {"most": self._most, "num_shards": self._order["num_shards"]}
        if self._state_key is not None:
            found = {self._state_key: self.limit, **found}
        if self.in_buckets:
            found["buckets"] = True  # which ones, the transforms and the clip sampler say
        if self._text_column is not None:
            found["text"] = zlib.crc32(repr(list(self._text_column)).encode())
        return found

    def set_seed(self, seed: int) -> None:
        """Changes the seed of the order; the batches are computed again.

        Args:
            seed: The seed.
        """
        self._order = {**self._order, "seed": seed}
        self._plans.clear()
        self._digests.clear()

    def batches(self, native: Any, epoch: int) -> list[list[Slot]]:
        """The batches of this rank and worker in an epoch.

        The first call for an epoch opens the index of each video, unless the transforms give one size.

        Args:
            native: The native loader, or a `SampleOrder`.
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

    def num_batches(self, native: Any, epoch: int) -> int:
        """The number of batches of this rank and worker in an epoch.

        Args:
            native: The native loader.
            epoch: The epoch.

        Returns:
            The number.
        """
        return len(self.batches(native, epoch))

    def state(self, native: Any, epoch: int) -> dict[str, int]:
        """What a state within an epoch has.

        Args:
            native: The native loader, or a `SampleOrder`.
            epoch: The epoch.

        Returns:
            A checksum of the batches of all ranks. It changes with the shape of a clip, and if a file cannot be read.
        """
        self.batches(native, epoch)
        key = (epoch, native.grouped)
        if key not in self._digests:
            self._digests = {key: zlib.crc32(repr(self._plans[key]).encode())}
        return {"planned": self._digests[key]}

    def check_state(self, state: Mapping[str, Any], native: Any, epoch: int) -> None:
        """Checks that an epoch has the batches that it had when a state was written.

        Args:
            state: The state.
            native: The native loader, or a `SampleOrder`.
            epoch: The epoch.

        Raises:
            ArgumentError: If it has others.
        """
        if (planned := state.get("planned")) is None:  # at the start of an epoch, or of an earlier release
            return
        if integer("planned", planned) != self.state(native, epoch)["planned"]:
            raise ArgumentError(
                f"the batches of epoch {epoch} are not those of the run that wrote the state, because the shape of a "
                "clip has changed: a file was replaced, or cannot be read any more (failures() lists these). Restore "
                "the files, or start the epoch again with set_epoch()"
            )

    def omitted(self, native: Any, epoch: int) -> int:
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

    def _plan(self, native: Any, epoch: int) -> list[list[Slot]]:
        """The batches of all ranks."""
        repeats = range(self._order["repeats"])
        # Random clip samplers and transforms may give each occurrence and each repeat a shape of its own.
        clips = [[(*clip, repeat, False) for repeat in repeats] for clip in native.clips_in_order(epoch)]
        slots = [slot for each in clips for slot in each]
        if self._of_samples:
            shapes = native.shapes(epoch, slots)
        else:
            found = native.clip_shapes(epoch, slots)
            shapes = [found[first : first + len(repeats)] for first in range(0, len(found), len(repeats))]
        if self._replaces:
            # Any other clip or sample may replace one whose file cannot be read.
            costliest: list[Shape] = max(shapes, key=lambda each: sum(map(self.cost, each)), default=[])
            shapes = [each if all(map(any, each)) else costliest for each in shapes]
        ranks = self._order["num_shards"]
        window = len(clips) if self.shuffle == "full" else WINDOW_CLIPS
        more = self._text_costs(native, clips)
        batches: list[list[Slot]] = []
        rest: list[list[Slot]] = []
        for first in range(0, len(clips), max(window, 1)):
            places = list(range(first, min(first + window, len(clips))))
            if self.shuffle and self._of_samples:
                # Samples share no tensor, so only what they cost counts.
                places.sort(key=lambda place: self._total(place, shapes, more))
            elif self.shuffle or self.in_buckets:
                places.sort(key=shapes.__getitem__)  # stable: the order decides among equal shapes
            made = self._packed(places, clips, shapes, more)
            # Steps of all ranks; without buckets the ranks differ in shape anyway.
            together = ranks if self.in_buckets else 1
            draws = random.Random(f"{self._order['seed']}, {epoch}, {first}")
            if excess := len(made) % together:
                # Of any bucket: `last_batch="drop"` must not omit the same one in each epoch.
                at = draws.randrange(len(made) - excess + 1) if self.shuffle else len(made) - excess
                rest += made[at : at + excess]
                del made[at : at + excess]
            steps = [made[at : at + together] for at in range(0, len(made), together)]
            if self.shuffle:
                draws.shuffle(steps)
            batches += [batch for step in steps for batch in step]
        batches += rest
        excess = len(batches) % ranks
        if excess and self._order["last_batch"] == "drop":
            del batches[-excess:]
        elif excess and self.in_buckets and self._order["last_batch"] == "fill":
            # Full, and of the bucket that the other ranks have in this step.
            batches += [[(*slot[:3], True) for slot in batches[-1]]] * (ranks - excess)
        elif excess:
            # One clip each: the ranks that have them wait for the others anyway.
            source = batches[-1:] if self.in_buckets else batches
            one = len(repeats)
            batches += [[(*slot[:3], True) for slot in source[at % len(source)][:one]] for at in range(ranks - excess)]
        if clips and not batches:
            warnings.warn(
                f'no batches in epoch {epoch}: last_batch="drop" omits all of its {len(clips)} clips, since no batch '
                'is complete on all ranks; use last_batch="fill", or a smaller batch_size',
                stacklevel=user_stacklevel(),
            )
        return batches

    def table(self, native: _framespool.Loader, epoch: int) -> dict[tuple[int, int, int], int]:
        """How many clips of an epoch have each shape.

        Args:
            native: The native loader.
            epoch: The epoch.

        Returns:
            The number of clips by (frames, height, width); zeros where a file cannot be read.
        """
        clips = [(*clip, 0, False) for clip in native.clips_in_order(epoch)]
        return dict(sorted(Counter(native.clip_shapes(epoch, clips)).items()))

    def _text_costs(self, native: _framespool.Loader, clips: list[list[Slot]]) -> list[int] | None:
        """The text tokens of each clip, with all of its repeats."""
        if self._text_column is None:
            return None
        samples = native.samples_of([slots[0][0] for slots in clips])
        return [self._text_column[sample] * len(slots) for sample, slots in zip(samples, clips, strict=True)]

    def _total(self, place: int, shapes: list[list[Shape]], more: list[int] | None) -> int:
        """What the clips and the text at a position of the order cost."""
        return sum(map(self.cost, shapes[place])) + (more[place] if more is not None else 0)

    def _packed(
        self,
        places: list[int],
        clips: list[list[Slot]],
        shapes: list[list[Shape]],
        more: list[int] | None,
    ) -> list[list[Slot]]:
        """Neighbors of a list of positions, as many in a batch as the limit permits."""
        batches: list[list[Slot]] = []
        used, count = math.inf, 0
        before: list[Shape] | None = None
        firsts: list[int] = []
        for place in places:
            cost = self._total(place, shapes, more)
            if cost > self.limit and not self._warned:
                self._warned = True
                warnings.warn(self._too_large(clips[place][0][0], shapes[place], cost), stacklevel=6)
            other = self.in_buckets and shapes[place] != before
            if other:
                self._end_bucket(batches, firsts, clips)
                firsts, before = [], shapes[place]
            if other or not batches or used + cost > self.limit or count == self._most:
                batches.append([])
                used, count = 0, 0
            batches[-1] += clips[place]
            firsts.append(place)
            used, count = used + cost, count + 1
        if self.in_buckets:
            self._end_bucket(batches, firsts, clips)
        return batches

    def _too_large(self, unit: int, shapes: list[Shape], cost: int) -> str:
        """Says that a clip or a sample is larger than the limit."""
        if self._of_samples:
            return (
                f"sample {unit} costs {cost}, which exceeds {self._text} alone; such a sample is a batch of its own: "
                "limit the size of its frames with SmartResize, or their number with the clip sampler"
            )
        frames, height, width = shapes[0]
        repeats = f" in {len(shapes)} repeats" if len(shapes) > 1 else ""
        return (
            f"clip {unit} has {frames} frames of {width}x{height}, which{repeats} exceed {self._text} alone ({cost}); "
            "such a clip is a batch of its own: limit its size with SmartResize, or its frames with the clip sampler"
        )

    def _end_bucket(self, batches: list[list[Slot]], places: list[int], clips: list[list[Slot]]) -> None:
        """Applies `last_batch` to the last batch of a bucket, whose clips have these positions."""
        if not places or self._most is None or self.limit != math.inf:
            return
        missing = -len(places) % self._most
        if missing and self._order["last_batch"] == "drop":
            batches.pop()
        elif missing and self._order["last_batch"] == "fill":
            for at in range(missing):
                batches[-1] += [(*slot[:3], True) for slot in clips[places[at % len(places)]]]


def _counts(name: str, columns: Mapping[str, Any]) -> Sequence[int]:
    """A column of numbers of tokens."""
    if name not in columns:
        raise ArgumentError(f"TokenBudget(text={name!r}): the dataset has no such column; it has {', '.join(columns)}")
    values: Sequence[Any] = columns[name]
    return [integer(f"TokenBudget(text={name!r}): sample {at}", value) for at, value in enumerate(values)]
