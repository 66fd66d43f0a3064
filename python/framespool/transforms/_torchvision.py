"""Converts torchvision's transforms to framespool's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from enum import Enum
from typing import Any

from framespool.errors import ArgumentError
from framespool.transforms import _augment, _choices, _color, _erasing, _geometry, _mixing, _resize
from framespool.transforms._args import Transform
from framespool.transforms._functions import FunctionTransform, is_module

#: These only change the type of the object that holds the frame.
_NO_OPERATION = {"Identity", "PILToTensor", "ToImage", "ToPureTensor"}
#: These convert to float and divide by 255.
_TO_UNIT_RANGE = {"ToTensor"}
_TO_DTYPE = {"ConvertImageDtype", "ToDtype"}


def is_torchvision(entry: Any) -> bool:
    """Whether an object is a transform or a function of torchvision, or a module that contains one.

    torchvision is not imported for it.

    Args:
        entry: The object.

    Returns:
        The answer.
    """
    if not callable(entry) or isinstance(entry, type):
        return False
    # Of a torch.nn.Module: itself and its children.
    modules = getattr(entry, "modules", None)
    members = modules() if is_module(entry) and callable(modules) else [entry]
    return any(f"{getattr(member, '__module__', None)}.".startswith("torchvision.transforms.") for member in members)


def translate(entries: Iterable[Any], dtype: str) -> list[Any]:
    """Replaces torchvision's transforms in a list; others stay.

    Args:
        entries: The list, also with nested `Compose`.
        dtype: The dtype of the result that the caller requests.

    Returns:
        The list with framespool's transforms.

    Raises:
        ArgumentError: If a transform of torchvision has no equivalent, or converts to another dtype.
    """
    flat = list(_flat(entries))
    if not any(is_torchvision(entry) for entry in flat):
        return flat
    out: list[Any] = []
    values = _Values(dtype)
    for entry in flat:
        out += values.convert(entry) if is_torchvision(entry) else [entry]
    functions = next((place for place, entry in enumerate(out) if not isinstance(entry, Transform)), len(out))
    return [*out[:functions], *values.end(), *out[functions:]]


def _flat(entries: Iterable[Any]) -> Iterable[Any]:
    for entry in entries:
        kind = type(entry).__name__
        if is_torchvision(entry) and kind in ("Compose", "Sequential"):
            yield from _flat(entry.transforms if kind == "Compose" else entry)
        else:
            yield entry


class _Values:
    """The range of the values at one place of the list, on which fills and `Normalize` depend."""

    def __init__(self, dtype: str) -> None:
        self._dtype = dtype
        #: What the value 255 of a frame is at this place: 255 or 1; `None` after `Normalize`.
        self._white: float | None = 255
        self._is_float = False

    def convert(self, entry: Any) -> list[Any]:
        """Returns framespool's transforms for one of torchvision's."""
        name = type(entry).__name__
        function = _function(entry)
        if function is not None:
            return [function]
        if name in _NO_OPERATION:
            return []
        if name in _TO_UNIT_RANGE:
            return self._to_dtype(entry, "float32", True)
        if name in _TO_DTYPE:
            scale = getattr(entry, "scale", True)  # ConvertImageDtype always scales
            return self._to_dtype(entry, str(entry.dtype).removeprefix("torch."), scale)
        if name == "Normalize":
            return self._normalize(entry)
        if name in ("RandomApply", "RandomChoice"):
            return self._lists(entry)
        if name not in _CONVERSIONS:
            raise unsupported(entry, "framespool has no equivalent")
        if self._white is None and name not in ("RandomErasing", *_MOVES_PIXELS):
            raise unsupported(entry, "it would change normalized values; put it before Normalize")
        return [_CONVERSIONS[name](entry, self._white)]

    def _lists(self, entry: Any) -> list[Transform]:
        """`RandomApply` and `RandomChoice`; what is in their lists must not change the range of the values."""
        if type(entry).__name__ == "RandomApply":
            inner = self._inner(entry, entry.transforms)
            return [_choices.RandomApply(inner, entry.p)] if inner else []
        return [_choices.RandomChoice([self._inner(entry, [choice]) for choice in entry.transforms], entry.p)]

    def _inner(self, entry: Any, transforms: Iterable[Any]) -> list[Transform]:
        out: list[Transform] = []
        before = (self._white, self._is_float)
        for inner in _flat(transforms):
            if not is_torchvision(inner):
                raise unsupported(entry, f"{inner!r} in it is not a transform of torchvision")
            out += self.convert(inner)
            if (self._white, self._is_float) != before:
                raise unsupported(entry, f"{inner!r} in it must apply to all clips; put it into the list itself")
        return out

    def _to_dtype(self, entry: Any, dtype: str, scale: bool) -> list[Transform]:
        if dtype == "uint8" and not self._is_float:
            return []
        if dtype not in ("float16", "bfloat16", "float32"):
            raise unsupported(entry, 'the dtype of the result is chosen by dtype="uint8", "float32", ... of the caller')
        if dtype != self._dtype:
            raise ArgumentError(
                f'transforms: {entry!r} makes {dtype}, but dtype is "{self._dtype}"; give dtype="{dtype}" as well, the '
                "dtype in which frames are delivered"
            )
        if scale and not self._is_float:
            self._white = 1
        self._is_float = True
        return []

    def _normalize(self, entry: Any) -> list[Transform]:
        if not self._is_float or self._white is None:
            reason = (
                "it comes twice" if self._white is None else "it needs ToDtype(torch.float32, scale=True) before it"
            )
            raise unsupported(entry, reason)
        mean, std = ([float(value) / self._white for value in values] for values in (entry.mean, entry.std))
        self._white = None
        return [_color.Normalize(mean, std)]

    def end(self) -> list[Transform]:
        """Returns the transform at the end of the list: floats are 0 to 1 unless torchvision's would not be."""
        return [_color.Normalize(0, 1 / 255)] if self._is_float and self._white == 255 else []


def _function(entry: Any) -> FunctionTransform | None:
    """The function at the end of a list for one of torchvision's transforms; `None` if it is none."""
    name = type(entry).__name__
    if isinstance(entry, FunctionTransform):
        return entry
    if name in ("MixUp", "CutMix"):
        if getattr(entry._labels_getter, "__name__", None) != "_find_labels_default_heuristic":
            raise unsupported(entry, "the labels of the batch are mixed; omit labels_getter")
        return getattr(_mixing, name)(entry.num_classes, entry.alpha)  # type: ignore[no-any-return]
    if name == "RandomChoice" and is_torchvision(entry):
        chosen = [_function(each) for each in entry.transforms]
        if all(chosen):
            return _mixing.OneOf(chosen, entry.p)
    return None


def unsupported(entry: Any, reason: str) -> ArgumentError:
    """The error for a transform of torchvision that cannot be converted.

    Args:
        entry: The transform.
        reason: Why not.

    Returns:
        The error, which names the alternatives.
    """
    return ArgumentError(
        f"transforms: torchvision's {entry!r} cannot be used here: {reason}; wrap it, at the end of the list, in "
        "framespool.transforms.PerClip(...), which passes each clip as a (T, C, H, W) tensor, or in PerBatch(...)"
    )


def _interpolation(entry: Any, *, resizes: bool) -> str:
    how = entry.interpolation
    name = str(how.value if isinstance(how, Enum) else how).lower().replace("_", "-")
    if resizes and name == "nearest":
        raise unsupported(entry, "NEAREST takes other pixels than NEAREST_EXACT, which is supported")
    supported = ("bilinear", "bicubic", "nearest-exact") if resizes else ("bilinear", "nearest", "nearest-exact")
    if name not in supported:
        names = ", ".join(word.upper().replace("-", "_") for word in supported)
        raise unsupported(entry, f"interpolation {name!r} is not supported; these are: {names}")
    return name


def _antialias(entry: Any) -> bool:
    antialias = getattr(entry, "antialias", True)
    if not isinstance(antialias, bool):
        raise unsupported(entry, f"antialias must be True or False, got {antialias!r}")
    return antialias


def _in_codes(value: float | Sequence[float], white: float) -> list[float]:
    """A number or a list of numbers, scaled to 0..255."""
    return [number * 255 / white for number in ([value] if isinstance(value, (int, float)) else value)]


def _fill(entry: Any, white: float | None) -> float | Sequence[float]:
    fill = entry.fill
    if fill is None:
        return 0
    if isinstance(fill, dict) or white is None:
        raise unsupported(entry, "fill must be a number or three numbers, before Normalize")
    return _in_codes(fill, white)


def _resized(entry: Any, _: float | None) -> Transform:
    how = _interpolation(entry, resizes=True)
    return _resize.Resize(entry.size, how, entry.max_size, _antialias(entry))


def _random_crop(entry: Any, white: float | None) -> Transform:
    pads = entry.padding is not None or entry.pad_if_needed
    if white is None and pads:
        raise unsupported(entry, "it would pad normalized values; put it before Normalize")
    fill = _fill(entry, white) if pads else 0
    return _geometry.RandomCrop(entry.size, entry.padding, entry.pad_if_needed, fill, entry.padding_mode)


def _random_resized_crop(entry: Any, _: float | None) -> Transform:
    how = _interpolation(entry, resizes=True)
    return _geometry.RandomResizedCrop(entry.size, entry.scale, entry.ratio, how, _antialias(entry))


def _random_shortest_size(entry: Any, _: float | None) -> Transform:
    how = _interpolation(entry, resizes=True)
    return _resize.RandomShortestSize(entry.min_size, entry.max_size, how, _antialias(entry))


def _grayscale(entry: Any, _: float | None) -> Transform:
    if entry.num_output_channels != 3:
        raise unsupported(entry, "framespool's frames have three channels; use num_output_channels=3")
    return _color.Grayscale()


def _erasing_value(entry: Any, white: float | None) -> Any:
    value = entry.value
    if value is None or value == "random":
        return "random"
    return value if white is None else _in_codes(value, white)


def _rotation(entry: Any, white: float | None) -> Transform:
    how = _interpolation(entry, resizes=False)
    return _geometry.RandomRotation(entry.degrees, how, entry.expand, entry.center, _fill(entry, white))


def _affine(entry: Any, white: float | None) -> Transform:
    how, fill = _interpolation(entry, resizes=False), _fill(entry, white)
    shear = entry.shear
    return _geometry.RandomAffine(entry.degrees, entry.translate, entry.scale, shear, how, fill, entry.center)


def _solarize(entry: Any, white: float | None) -> Transform:
    return _augment.RandomSolarize(entry.threshold * 255 / (white or 1), entry.p)


def _policy_fill(entry: Any, white: float | None) -> float | Sequence[float]:
    # v2 keeps a fill for each type of input.
    fill = entry.fill
    if isinstance(fill, dict):
        fills = list(fill.values())
        if any(other != fills[0] for other in fills):
            raise unsupported(entry, "it has different fills for different types of input")
        fill = fills[0] if fills else None
    return _in_codes(fill or 0, white or 1)


def _rand_augment(entry: Any, white: float | None) -> Transform:
    how, fill = _interpolation(entry, resizes=False), _policy_fill(entry, white)
    return _augment.RandAugment(entry.num_ops, entry.magnitude, entry.num_magnitude_bins, how, fill)


def _trivial_augment(entry: Any, white: float | None) -> Transform:
    how, fill = _interpolation(entry, resizes=False), _policy_fill(entry, white)
    return _augment.TrivialAugmentWide(entry.num_magnitude_bins, how, fill)


def _same(kind: type[Transform]) -> Callable[[Any, float | None], Transform]:
    """The conversion of a class whose attributes have the names of our fields."""
    names = [field.name for field in fields(kind) if field.name != "per_frame"]
    return lambda entry, _: kind(**{name: getattr(entry, name) for name in names})


#: The conversion of each class, from the object and the value of white at its place.
_CONVERSIONS: dict[str, Callable[[Any, float | None], Transform]] = {
    "CenterCrop": _same(_geometry.CenterCrop),
    "ColorJitter": _same(_color.ColorJitter),
    "GaussianBlur": lambda entry, _: _augment.GaussianBlur(tuple(entry.kernel_size), tuple(entry.sigma)),
    "Grayscale": _grayscale,
    "Pad": lambda entry, white: _geometry.Pad(entry.padding, _fill(entry, white), entry.padding_mode),
    "RandAugment": _rand_augment,
    "RandomAdjustSharpness": _same(_augment.RandomAdjustSharpness),
    "RandomAffine": _affine,
    "RandomAutocontrast": _same(_augment.RandomAutocontrast),
    "RandomCrop": _random_crop,
    "RandomEqualize": _same(_augment.RandomEqualize),
    "RandomErasing": lambda entry, white: _erasing.RandomErasing(
        entry.p, entry.scale, entry.ratio, _erasing_value(entry, white)
    ),
    "RandomGrayscale": _same(_color.RandomGrayscale),
    "RandomHorizontalFlip": _same(_geometry.RandomHorizontalFlip),
    "RandomInvert": _same(_augment.RandomInvert),
    "RandomPhotometricDistort": _same(_color.RandomPhotometricDistort),
    "RandomPosterize": _same(_augment.RandomPosterize),
    "RandomResizedCrop": _random_resized_crop,
    "RandomRotation": _rotation,
    "RandomShortestSize": _random_shortest_size,
    "RandomSolarize": _solarize,
    "RandomVerticalFlip": _same(_geometry.RandomVerticalFlip),
    "Resize": _resized,
    "TrivialAugmentWide": _trivial_augment,
}
#: These give the same result before and after `Normalize`.
_MOVES_PIXELS = (
    "CenterCrop",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomShortestSize",
    "RandomVerticalFlip",
    "Resize",
)
