"""Samples of any number of videos and images: which clips of the engines belong to which sample."""

from __future__ import annotations

import math
import random
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, islice
from typing import Any

from framespool import _framespool
from framespool.datasets import Dataset, WeightedDataset
from framespool.datasets._columns import Column
from framespool.errors import BY_KIND, ArgumentError
from framespool.loaders import _checkpoint
from framespool.options import Cache, Index, PixelBudget, TokenBudget
from framespool.options._loader import LoaderOptions
from framespool.order._batch_budget import Shape, Slot
from framespool.samplers import ClipSampler, Indices
from framespool.transforms import SmartResize
from framespool.transforms._compose import listed, split
from framespool.video._sources import KINDS, Source

#: What `on_error` handles: errors that a file is at fault for.
FILE_ERRORS = tuple(
    error
    for kind, error in BY_KIND.items()
    if kind not in ("unavailable", "argument", "forked", "gpu", "cancelled", "internal")
)

#: Maximum number of samples that are tried in place of one that cannot be made, as in the engine.
ATTEMPTS = 64

#: Draws for all of them, most of which are of samples with weight 0.
MAX_DRAWS = 1 << 16

#: The values of an engine that belong to its clips: dtype, shape without the clips, and what fills up short rows.
_VALUES: dict[str, tuple[str, tuple[int, ...], float]] = {
    **dict.fromkeys(("video_ids", "clip_ids", "requested_ids", "occurrences", "view_ids"), ("int64", (), 0)),
    "padding": ("bool", (), 0),
    "indices": ("int64", (0,), -1),
    "pts_seconds": ("float64", (0,), math.nan),
    "mask": ("bool", (0,), 0),
    "sizes": ("int64", (2,), 0),
    "geometry": ("float64", (2, 3), math.nan),
    "content_keys": ("uint8", (16,), 0),
    **dict.fromkeys(("video.num_frames", "video.first_frame"), ("int64", (), 0)),
    **dict.fromkeys(("video.average_fps", "video.duration_seconds"), ("float64", (), 0)),
}
_CODES = {"int64": "q", "float64": "d", "bool": "B", "uint8": "B"}

#: The results of the engines by kind, and the rows in them of the clips of a sample.
Made = Mapping[str, Mapping[str, Any]]
Found = tuple[Made, Mapping[str, Sequence[int]]]


class Samples:
    """The videos and the images of the samples of a loader; each kind has an engine of its own.

    The unit of the order is a sample. An engine gets the clips of its kind in the order of the samples, so that each
    batch of the loader is one batch of each engine, which may be empty.

    Args:
        dataset: A dataset of `Sources`.
        clip_sampler: Selects the frames of each video; `None` if there are no videos.
        options: The options of the loader.

    Raises:
        ArgumentError: If an option is not possible with several sources.
    """

    def __init__(self, dataset: Dataset, clip_sampler: ClipSampler | None, options: LoaderOptions) -> None:
        _check(options)
        self._dataset = dataset
        #: Position of the first source of each sample, and the end.
        self._offsets = {
            kind: array("q", accumulate((len(getattr(source, kind)) for source, _ in dataset.samples), initial=0))
            for kind in KINDS
        }
        #: The kinds of which the dataset has any, each with an engine. If all samples are text only, there is one
        #: engine, whose only source is never opened.
        self.kinds = [kind for kind in KINDS if self._offsets[kind][-1]] or ["images"]
        self.datasets = {
            kind: Dataset(
                [(each, -1) for source, _ in dataset.samples for each in getattr(source, kind)] or [(b"", -1)],
                stream=dataset.stream if kind == "videos" else None,
            )
            for kind in self.kinds
        }
        self._samplers: dict[str, ClipSampler] = {"images": Indices([0])}
        if "videos" in self.kinds:
            if clip_sampler is None:
                raise ArgumentError("clip_sampler is missing, such as samplers.presets.qwen_vl()")
            if not clip_sampler.clips_in(1) == clip_sampler.clips_in(2**31 - 1) == 1:
                raise ArgumentError(
                    f"samples of several sources need one clip of each video, also of a short one; {clip_sampler!r} "
                    'may take another number: use clips_per_video=1, and no padding="drop"'
                )
            self._samplers["videos"] = clip_sampler
        self._options = _by_kind(options)
        self._steps = {kind: split(self._options[kind].transforms, options.dtype)[0] for kind in self.kinds}
        self._check_budget(options)
        self._labels: Column | None = None
        self._on_error = options.on_error.action
        #: Samples that were omitted and replaced because of `on_error`.
        self.skipped, self.replaced = 0, 0

    def count_failed(self, samples: int) -> None:
        """Counts samples of which a source failed.

        Args:
            samples: Their number.
        """
        if self.replaces:
            self.replaced += samples
        else:
            self.skipped += samples

    @property
    def replaces(self) -> bool:
        """Whether a sample of which a source fails is replaced by another one, not omitted."""
        return bool(self._on_error == "replace")

    def _check_budget(self, options: LoaderOptions) -> None:
        """Checks that each sample costs something, or that another limit exists."""
        budget = options.batch_size
        if not isinstance(budget, (PixelBudget, TokenBudget)):
            return
        if isinstance(budget, TokenBudget):
            factors = {
                kind: [
                    each.factor
                    for each in listed(self._options[kind].transforms) or ()
                    if isinstance(each, SmartResize)
                ]
                for kind in self.kinds
            }
            if len({tuple(found[-1:]) for found in factors.values()}) > 1:
                raise ArgumentError(
                    "TokenBudget needs a transforms.SmartResize for videos and for images, with the same factor, the "
                    f"side of a token; got {', '.join(f'{kind}: {found}' for kind, found in factors.items())}"
                )
        empty = next((at for at in range(len(self._dataset)) if not any(self._count(kind, at) for kind in KINDS)), None)
        if empty is not None and budget.max_clips is None and getattr(budget, "text", None) is None:
            raise ArgumentError(
                f"sample {empty} has no videos and images, so it costs nothing: give {type(budget).__name__} max_clips="
                + (", or text= with the column of the text tokens" if isinstance(budget, TokenBudget) else "")
            )

    def _count(self, kind: str, sample: int) -> int:
        """How many sources of a kind a sample has."""
        return self._offsets[kind][sample + 1] - self._offsets[kind][sample]

    def sampler_spec(self, kind: str) -> Any:
        """The arguments of the clip sampler of a kind, for the engine.

        Args:
            kind: The kind.

        Returns:
            The arguments.
        """
        return self._samplers[kind]._spec()

    def options(self, kind: str) -> LoaderOptions:
        """The options of the engine of a kind.

        Args:
            kind: The kind.

        Returns:
            The options, with those of the order of the samples.
        """
        return self._options[kind]

    def steps(self, kind: str) -> list[Any]:
        """The transforms of a kind, for the engine.

        Args:
            kind: The kind.

        Returns:
            The transforms.
        """
        return self._steps[kind]

    def config(self) -> str:
        """What determines the clips of all kinds, for checkpoints.

        Returns:
            Text.
        """
        return _checkpoint.text([(kind, self.sampler_spec(kind), self._steps[kind]) for kind in self.kinds])

    @staticmethod
    def engine_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of an engine, which makes only batches that it is given, without clips that fail.

        Args:
            settings: The settings of the loader.

        Returns:
            The settings.
        """
        options = settings["options"]
        if options["on_error"] != "raise":
            options = {**options, "on_error": "omit"}  # the loader omits or replaces the sample
        alone = {"shard_id": 0, "num_shards": 1, "worker_id": 0, "num_workers": 1, "num_nodes": 1}
        plain = {"shuffle": "off", "stick_to_shard": False, "weights": None, "last_batch": "partial", "batch_size": 1}
        return {**settings, "order": {**settings["order"], **alone, **plain}, "options": options, "mixture": None}

    def clips(self, kind: str, slots: Sequence[Slot]) -> list[Slot]:
        """The clips of samples.

        Args:
            kind: The kind of clips.
            slots: The samples.

        Returns:
            The slots of the clips.
        """
        offsets = self._offsets[kind]
        return [
            (clip, occurrence, repeat, padding)
            for sample, occurrence, repeat, padding in slots
            for clip in range(offsets[sample], offsets[sample + 1])
        ]

    def source(self, kind: str, clip: int) -> tuple[int, Source]:
        """The sample and the source of a clip.

        Args:
            kind: The kind of the clip.
            clip: Its number among the clips of the kind.

        Returns:
            The index of the sample, and the source.
        """
        return bisect_right(self._offsets[kind], clip) - 1, self.datasets[kind].samples[clip][0]

    def shapes(self, natives: Sequence[Any], epoch: int, slots: list[Slot]) -> list[list[Shape]]:
        """The shapes of all clips of samples.

        Args:
            natives: The engine of each kind.
            epoch: The epoch.
            slots: The samples.

        Returns:
            The shapes of the clips of each sample.
        """
        found: list[list[Shape]] = [[] for _ in slots]
        for kind, native in zip(self.kinds, natives, strict=True):
            shapes = iter(native.clip_shapes(epoch, self.clips(kind, slots)))
            for own, (sample, *_) in zip(found, slots, strict=True):
                own += islice(shapes, self._count(kind, sample))
        return found

    def found(self, slots: Sequence[Slot], made: Sequence[Mapping[str, Any]]) -> list[Found | None]:
        """Finds the clips of each sample in the results of the engines.

        Args:
            slots: The samples that were requested.
            made: The result of each engine.

        Returns:
            For each sample the rows of its clips; `None` if one of them could not be made.
        """
        results = dict(zip(self.kinds, made, strict=True))
        rows: list[dict[str, list[int]] | None] = [{} for _ in slots]
        for kind, result in results.items():
            delivered = zip(result["clip_ids"].tolist(), result["occurrences"].tolist(), strict=True)
            numbered = enumerate(delivered)
            following = next(numbered, None)
            for at, slot in enumerate(slots):
                own = []
                clips = self.clips(kind, [slot])
                for clip, occurrence, *_ in clips:
                    # The engine keeps the order, so a clip that is not the next one failed.
                    if following is not None and following[1] == (clip, occurrence):
                        own.append(following[0])
                        following = next(numbered, None)
                of_sample = rows[at]
                if len(own) < len(clips):
                    rows[at] = None
                elif of_sample is not None:
                    of_sample[kind] = own
        return [None if own is None else (results, own) for own in rows]

    def others(self, seed: int, epoch: int, slot: Slot) -> Iterator[int]:
        """The samples that may replace one that failed, in the order in which they are tried.

        Args:
            seed: The seed.
            epoch: The epoch.
            slot: The sample that failed.

        Yields:
            Indices of samples.
        """
        draws = random.Random(f"replacement, {seed}, {epoch}, {slot[0]}, {slot[1]}")
        weights = self._dataset.weights if isinstance(self._dataset, WeightedDataset) else None
        found = (draws.randrange(len(self._dataset)) for _ in range(MAX_DRAWS))
        yield from islice((one for one in found if weights is None or weights[one] > 0), ATTEMPTS)

    def labels(self, samples: Sequence[int]) -> Any:
        """The labels of samples.

        Args:
            samples: Indices of samples.

        Returns:
            The tensor.
        """
        if self._labels is None:
            self._labels = Column([label for _, label in self._dataset.samples], "float32")
        return self._labels.take(samples)

    def values(self, kind: str, found: Sequence[Found]) -> dict[str, Any]:
        """Collects the clips of one kind of samples.

        Args:
            kind: The kind.
            found: Where the clips of each sample are.

        Returns:
            The values of a result of an engine, and `sample`, the row of the sample of each clip.
        """
        picks = [(made[kind], row) for made, rows in found if kind in made for row in rows.get(kind, ())]
        first: Mapping[str, Any] = picks[0][0] if picks else {}
        if (
            picks
            and all(made is first for made, _ in picks)
            and [row for _, row in picks] == [*range(len(first["frames"]))]
        ):
            values = dict(first)
        else:
            values = {name: _taken(name, picks) for name in _VALUES}
            values["frames"] = [made["frames"][row] for made, row in picks]
        rows = [at for at, (_, own) in enumerate(found) for _ in own.get(kind, ())]
        values["sample"] = int64s(rows)
        return values


def _check(options: LoaderOptions) -> None:
    """Refuses options that are not possible with several sources."""
    name = "samples of several sources"
    if options.repeats > 1:
        raise ArgumentError(f"{name} are delivered once: omit repeats={options.repeats}")
    if options.buckets is not None:
        raise ArgumentError(f"{name} have clips of several sizes: omit buckets=")
    if options.collate not in ("auto", "list"):
        raise ArgumentError(f"{name} have a tensor for each source: omit collate={options.collate!r}")
    if options.cache.disk is not None:
        raise ArgumentError(f"{name} cannot be kept for later epochs: omit disk= of the cache")


def _by_kind(options: LoaderOptions) -> dict[str, LoaderOptions]:
    """The options of the engine of each kind."""
    given = options.transforms
    if isinstance(given, Mapping):
        for kind in given:
            if kind not in KINDS:
                raise ArgumentError(f"transforms: no kind of sources {kind!r}; there are {', '.join(map(repr, KINDS))}")
    found = {}
    for kind in KINDS:
        transforms = given.get(kind) if isinstance(given, Mapping) else given
        if split(transforms, options.dtype)[1]:
            raise ArgumentError(
                "samples of several sources exclude a callable among the transforms; apply it to the batch"
            )
        found[kind] = replace(options, transforms=transforms, collate="list")
    gpu = options.gpu
    found["images"] = replace(
        found["images"],
        deinterlace="weave",
        index=Index(False, progress=False),
        cache=Cache(0, lookahead=0),  # images share no decoded frames
        device="cpu" if gpu is None else replace(gpu, decoder="cpu"),
    )
    return found


def _taken(name: str, picks: Sequence[tuple[Mapping[str, Any], int]]) -> Any:
    """A value of some rows of results of engines."""
    dtype, tail, fill = _VALUES[name]
    rows = [made[name][row].tolist() for made, row in picks]
    if tail == (0,):  # of frames: clips differ in length
        tail = (max(map(len, rows), default=0),)
        rows = [row + [fill] * (tail[0] - len(row)) for row in rows]
    elif picks:
        tail = tuple(picks[0][0][name].shape[1:])
    return _tensor(list(_flattened(rows)), (len(rows), *tail), dtype)


def _flattened(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list):
            yield from _flattened(value)
        else:
            yield value


def int64s(values: Sequence[int]) -> Any:
    """A tensor of integers.

    Args:
        values: The integers.

    Returns:
        (N,) int64.
    """
    return _tensor(list(values), (len(values),), "int64")


def bools(values: Sequence[bool]) -> Any:
    """A tensor of booleans.

    Args:
        values: The booleans.

    Returns:
        (N,) bool.
    """
    return _tensor(list(values), (len(values),), "bool")


def _tensor(values: list[Any], shape: tuple[int, ...], dtype: str) -> Any:
    return _framespool.tensor_of(array(_CODES[dtype], values).tobytes(), shape, dtype)
