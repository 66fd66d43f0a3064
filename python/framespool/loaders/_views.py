"""Several views of each video in a batch, made in one pass over the video."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from framespool._common.validate_args import display_repr
from framespool.errors import ArgumentError
from framespool.loaders import _checkpoint
from framespool.options import PixelBudget, TokenBudget
from framespool.options._loader import LoaderOptions
from framespool.samplers import ClipSampler, Custom
from framespool.transforms import Transform
from framespool.transforms._compose import split

#: The values of a batch that each view has of its own; the others are about the video.
PER_VIEW = (
    "frames",
    "indices",
    "pts_seconds",
    "mask",
    "clip_ids",
    "requested_ids",
    "occurrences",
    "view_ids",
    "geometry",
    "content_keys",
    "audio",
    "audio_mask",
)


def checked_sampler(clip_sampler: Any) -> ClipSampler:
    """Converts the argument `clip_sampler` of a loader or of a view.

    Args:
        clip_sampler: A clip sampler, or a function that returns the frame indices of a clip.

    Returns:
        The clip sampler.

    Raises:
        ArgumentError: If it is neither.
    """
    if isinstance(clip_sampler, ClipSampler):
        return clip_sampler
    if not callable(clip_sampler):
        raise ArgumentError(
            f"clip_sampler must come from framespool.samplers or be a function, got {clip_sampler!r}; "
            "for example framespool.samplers.RandomClips(sequence_length=16, stride=4)"
        )
    return Custom(clip_sampler)


@dataclass(frozen=True)
class View:
    """Clips that a loader takes from each video, with transforms of their own: see `views` of `ClipLoader`.

    Args:
        clip_sampler: Selects the frames. It must take the same number of clips from each video.
        transforms: As those of a loader. They must give all frames one size; a callable is not allowed.
        within: Name of a view given before. Clip *k* then lies between the first and the last frame of clip *k* modulo
            C of that view, which has C clips: the clip sampler sees only these frames. With the same `clip_sampler` the
            frames are the same, under other transforms. `None`: anywhere in the video.

    Raises:
        ArgumentError: If the clip sampler is not one, while the loader is created.

    Example:
        >>> import framespool as fsp
        >>> clips = fsp.samplers.RandomClips(sequence_length=8, stride=2)
        >>> resized = fsp.transforms.RandomResizedCrop((96, 96))
        >>> two = {"anchor": fsp.View(clips, [resized]), "positive": fsp.View(clips, [resized], within="anchor")}
        >>> loader = fsp.ClipLoader(fsp.datasets.folder("videos/"), views=two, batch_size=2)
        >>> batch = next(iter(loader))
        >>> batch["positive"].frames.shape, batch["anchor"].indices.tolist() == batch["positive"].indices.tolist()
        ((2, 1, 8, 3, 96, 96), True)
    """

    clip_sampler: ClipSampler | Callable[[Any, Any], Iterable[int]]
    transforms: Sequence[Transform] | None = None
    _: KW_ONLY
    within: str | None = None


class Views:
    """The views of a loader.

    Args:
        views: The argument `views` of a loader.
        options: The options of the loader.
        taken: Names that mean something else in a batch.

    Raises:
        ArgumentError: If a view is invalid.
    """

    def __init__(self, views: Any, options: LoaderOptions, taken: Iterable[str]) -> None:
        if not isinstance(views, Mapping) or not views or not all(isinstance(each, View) for each in views.values()):
            raise ArgumentError(f'views must be a dict such as {{"global": fsp.View(…)}}, got {display_repr(views)}')
        if options.transforms is not None:
            raise ArgumentError("each view has transforms of its own; give them to the views and omit transforms=")
        if options.collate not in ("auto", "stack"):
            raise ArgumentError(f"the frames of a view have one size, so omit collate={options.collate!r}")
        if isinstance(options.batch_size, (PixelBudget, TokenBudget)):
            raise ArgumentError("with views= a batch has a number of videos; give a number as batch_size")
        self.names = list(views)
        for name in self.names:
            if not isinstance(name, str) or name in taken:
                raise ArgumentError(f"views[{name!r}]: choose another name, batch[{name!r}] is something else")
        self._views: list[View] = list(views.values())
        self.samplers = [checked_sampler(view.clip_sampler) for view in self._views]
        self._steps = [self._native(name, view, options) for name, view in views.items()]
        self._within = [self._number_of(at) for at in range(len(self.names))]

    @staticmethod
    def _native(name: str, view: View, options: LoaderOptions) -> list[Any]:
        steps, functions = split(view.transforms, options.dtype)
        if functions:
            raise ArgumentError(
                f"views[{name!r}]: a callable among the transforms is not possible with views; apply it to "
                f"batch[{name!r}].frames"
            )
        return steps

    def _number_of(self, at: int) -> int | None:
        """The number of the view within which a view is."""
        other = self._views[at].within
        if other is None:
            return None
        if other not in self.names[:at]:
            before = ", ".join(map(repr, self.names[:at])) or "none"
            raise ArgumentError(
                f"views[{self.names[at]!r}]: within must be the name of a view that is given before it "
                f"(here: {before}), got {other!r}"
            )
        return self.names.index(other)

    def first(self, options: LoaderOptions) -> tuple[ClipSampler, LoaderOptions]:
        """The first view, which the loader makes as it makes the clips of a loader without views.

        Args:
            options: The options of the loader.

        Returns:
            Its clip sampler, and the options with its transforms.
        """
        return self.samplers[0], replace(options, transforms=self._views[0].transforms)

    def others(self) -> list[tuple[Any | None, int | None, list[Any]]]:
        """The other views, as the engine takes them.

        Returns:
            For each the arguments of its clip sampler, the number of the view within which it is, and its transforms.
            Instead of the arguments `None` if it has the clip sampler, and thus the frames, of that view.
        """
        found = []
        for sampler, within, steps in zip(self.samplers[1:], self._within[1:], self._steps[1:], strict=True):
            is_same = within is not None and sampler == self.samplers[within]
            found.append((None if is_same else sampler._spec(), within, steps))
        return found

    def config(self) -> str:
        """What determines the clips of the views, for checkpoints.

        Returns:
            Text.
        """
        specs = [sampler._spec() for sampler in self.samplers]
        return _checkpoint.text(list(zip(self.names, specs, self._within, self._steps, strict=True)))

    def values(self, made: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """The values of a batch that each view has of its own.

        Args:
            made: The result of the native loader.

        Returns:
            By name a dict with the value of each view.
        """
        prefixes = ["", *(f"{number}." for number in range(1, len(self.names)))]
        return {
            field: {name: made[prefix + field] for name, prefix in zip(self.names, prefixes, strict=True)}
            for field in PER_VIEW
            if field in made
        }

    def of_view(self, made: Mapping[str, Any], name: str) -> dict[str, Any]:
        """The result of the native loader with the values of one view.

        Args:
            made: The result of the native loader.
            name: Name of the view.

        Returns:
            The values by name.
        """
        at = self.names.index(name)
        own = {} if at == 0 else {field: made[f"{at}.{field}"] for field in PER_VIEW if field in made}
        return {**made, **own}
