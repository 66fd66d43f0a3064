"""Normalization of the states and actions of robots, as LeRobot's policies do it."""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from framespool import _framespool
from framespool._common.validate_args import display_path
from framespool.errors import ArgumentError, NotFoundError

#: The two statistics of each mode: of what is subtracted, and of what is divided by.
_STATISTICS = {
    "mean_std": ("mean", "std"),
    "min_max": ("min", "max"),
    "quantiles": ("q01", "q99"),
    "quantile10": ("q10", "q90"),
}
MODES = ("identity", *_STATISTICS)
#: Keeps divisors above zero.
_EPSILON = 1e-8


class Normalization:
    """Normalizes features of robots, and reverses it, such as for the actions that a policy predicts.

    It computes what LeRobot's processors compute, in the dtype of the values:

    - `"mean_std"`: `(x - mean) / (std + 1e-8)`
    - `"min_max"`: `2 * (x - min) / (max - min) - 1`, from -1 to 1
    - `"quantiles"`, `"quantile10"`: the same with the quantiles 0.01 and 0.99, or 0.1 and 0.9
    - `"identity"`: `x`

    Args:
        stats: By feature a mapping with the statistics that the modes need: `mean`, `std`, `min`, `max`, `q01`, …,
            each a list in the shape of the feature, as in `meta/stats.json`.
        modes: Mode of each feature to be normalized.

    Attributes:
        stats: The statistics of these features.
        modes: The modes. Both consist of plain lists and strings, which JSON can store.

    Raises:
        ArgumentError: If a mode is unknown, or statistics are missing or no numbers.

    Example:
        >>> import framespool as fsp
        >>> import numpy as np
        >>> stats = {"action": {"mean": [1.0, 2.0], "std": [0.5, 2.0]}}
        >>> normalization = fsp.datasets.Normalization(stats, {"action": "mean_std"})
        >>> action = normalization.normalize("action", np.array([[2.0, 0.0]]))
        >>> action.round(3).tolist(), normalization.unnormalize("action", action).round(3).tolist()
        ([[2.0, -1.0]], [[2.0, 0.0]])
    """

    def __init__(self, stats: Mapping[str, Mapping[str, Any]], modes: Mapping[str, str]) -> None:
        self.modes = dict(modes)
        self.stats: dict[str, dict[str, Any]] = {}
        for name, mode in self.modes.items():
            if mode not in MODES:
                raise ArgumentError(f"normalize: {name!r} must have one of {', '.join(MODES)}, got {mode!r}")
            if mode == "identity":
                continue
            own = stats.get(name)
            lacking = [each for each in _STATISTICS[mode] if own is None or own.get(each) is None]
            if own is None or lacking:
                raise ArgumentError(
                    f"the statistics have no {' and no '.join(lacking)} of {name!r}, which {mode!r} needs; compute "
                    "them with stats=framespool.datasets.lerobot_stats(root)"
                )
            self.stats[name] = {key: _plain(own[key]) for key in own}
            low, high = (_flat(name, self.stats[name][each]) for each in _STATISTICS[mode])
            if not all(math.isfinite(number) for number in (*low, *high)):
                raise ArgumentError(f"the statistics of {name!r} have a number that is not finite")
            if len(low) != len(high):
                raise ArgumentError(f"the statistics of {name!r} have {len(low)} and {len(high)} numbers")

    def normalize(self, name: str, values: Any) -> Any:
        """Normalizes values of a feature.

        Args:
            name: The feature; one without a mode is returned unchanged.
            values: (…, *shape of the feature) float32 or float64: a tensor of PyTorch or framespool, or an array.

        Returns:
            An array of the same kind; for a tensor of framespool one of NumPy.

        Raises:
            ArgumentError: If the values are not float32 or float64, or do not have the shape of the feature.
        """
        return self._apply(name, values, reverse=False)

    def unnormalize(self, name: str, values: Any) -> Any:
        """Reverses `normalize()`.

        Args:
            name: The feature.
            values: Normalized values, as for `normalize()`.

        Returns:
            An array of the same kind.

        Raises:
            ArgumentError: As for `normalize()`.
        """
        return self._apply(name, values, reverse=True)

    def _apply(self, name: str, values: Any, *, reverse: bool) -> Any:
        if isinstance(values, _framespool.Tensor):
            values = values.numpy()
        mode = self.modes.get(name, "identity")
        if mode == "identity":
            return values
        low, high = (_array_like(values, self.stats[name][each]) for each in _STATISTICS[mode])
        # Integers would cut statistics off, and half precision has no epsilon of 1e-8.
        if str(values.dtype).rpartition(".")[2] not in ("float32", "float64"):
            raise ArgumentError(f"{name!r}: values must be float32 or float64, got {values.dtype}; convert them before")
        shape = tuple(low.shape)
        if tuple(values.shape)[max(values.ndim - len(shape), 0) :] != shape and math.prod(shape) != 1:
            raise ArgumentError(
                f"{name!r}: values must be (…, {', '.join(map(str, shape))}), got {tuple(values.shape)}"
            )
        if mode == "mean_std":
            return values * high + low if reverse else (values - low) / (high + _EPSILON)
        span = high - low
        span = span + (span == 0) * _array_like(values, _EPSILON)
        if not reverse:
            return 2 * (values - low) / span - 1
        return (values + 1) / 2 * span + low if mode == "min_max" else (values + 1) * span / 2 + low

    def _rows(self, name: str, rows: bytes, dtype: str) -> bytes:
        """Normalizes the rows of a table, in their dtype."""
        mode = self.modes.get(name, "identity")
        if mode == "identity":
            return rows
        rounded = _single if dtype == "float32" else float
        low, high = ([rounded(v) for v in _flat(name, self.stats[name][each])] for each in _STATISTICS[mode])
        if mode == "mean_std":
            spans = [rounded(std + rounded(_EPSILON)) for std in high]
        else:
            spans = [rounded(top - bottom) or rounded(_EPSILON) for bottom, top in zip(low, high, strict=True)]
        factor, shift = (1.0, 0.0) if mode == "mean_std" else (2.0, 1.0)
        return _framespool.normalized_rows(rows, dtype, list(zip(low, spans, strict=True)), factor, shift)

    def _check_sizes(self, sizes: Mapping[str, int]) -> None:
        for name, own in self.stats.items():
            found = len(_flat(name, own[_STATISTICS[self.modes[name]][0]]))
            if found != sizes[name]:
                raise ArgumentError(f"the statistics of {name!r} have {found} numbers, the feature has {sizes[name]}")

    def _renamed(self, new_names: Mapping[str, str]) -> Normalization:
        stats = {new_names[name]: own for name, own in self.stats.items()}
        return Normalization(stats, {new_names[name]: mode for name, mode in self.modes.items()})

    def __repr__(self) -> str:
        return f"Normalization({self.modes!r})"


def chosen_modes(normalize: Any, numbers: Mapping[str, str]) -> dict[str, str]:
    """Interprets the argument `normalize`.

    Args:
        normalize: `True`, a mode, or modes by feature.
        numbers: Dtypes of the features that are numbers.

    Returns:
        Modes by feature.

    Raises:
        ArgumentError: If a feature is missing or has integers, or the argument has another type.
    """
    if normalize is True:
        normalize = "mean_std"
    if isinstance(normalize, str):
        if normalize not in MODES:
            raise ArgumentError(f"normalize must be one of {', '.join(MODES)}, got {normalize!r}")
        named = [name for name in numbers if name.startswith(("observation", "action"))]
        return {name: normalize for name in named if numbers[name].startswith("float")}
    if not isinstance(normalize, Mapping):
        raise ArgumentError(
            f"normalize must be True, one of {', '.join(MODES)}, or one of these by feature; got {normalize!r}"
        )
    for name in normalize:
        if name not in numbers:
            raise ArgumentError(f"normalize: no feature {name!r} of numbers; there are {', '.join(sorted(numbers))}")
        if not numbers[name].startswith("float"):
            raise ArgumentError(f"normalize: {name!r} has {numbers[name]}; only floating point is normalized")
    return dict(normalize)


def read_stats(root: str, stats: Any) -> Mapping[str, Mapping[str, Any]]:
    """Reads the statistics of a LeRobot dataset.

    Args:
        root: Folder or URL of the dataset.
        stats: The statistics themselves; path or URL of a file like `meta/stats.json`; `None` for those of the dataset:
            `meta/stats.json`, or `meta/episodes_stats.jsonl` of version 2.1, which are aggregated.

    Returns:
        Statistics by feature.

    Raises:
        ArgumentError: If there are none, or the file is damaged.
    """
    if isinstance(stats, Mapping):
        return stats
    if stats is not None:
        return _json_of(os.fspath(stats))
    try:
        return _json_of(os.path.join(root, "meta/stats.json"))
    except NotFoundError:
        pass
    path = os.path.join(root, "meta/episodes_stats.jsonl")
    try:
        lines = _framespool.read_text(path).splitlines()
    except NotFoundError:
        raise ArgumentError(
            f"{display_path(root)} has no statistics: neither meta/stats.json nor meta/episodes_stats.jsonl; compute "
            "them with stats=framespool.datasets.lerobot_stats(root)"
        ) from None
    found: dict[str, list[Mapping[str, Any]]] = {}
    for number, line in enumerate(lines, 1):
        try:
            for name, own in json.loads(line)["stats"].items() if line.strip() else ():
                found.setdefault(name, []).append(own)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ArgumentError(f'{display_path(path)}, line {number}: no JSON object with "stats"') from None
    try:
        return {name: aggregated(parts) for name, parts in found.items()}
    except (ValueError, KeyError, TypeError, IndexError, ZeroDivisionError) as error:
        raise ArgumentError(f"{display_path(path)}: the statistics cannot be aggregated ({error!r})") from None


def _json_of(path: str) -> Mapping[str, Mapping[str, Any]]:
    try:
        found = json.loads(_framespool.read_text(path))
    except ValueError as error:
        raise ArgumentError(f"{display_path(path)} is no JSON: {error}") from None
    if not isinstance(found, dict) or not all(isinstance(own, dict) for own in found.values()):
        raise ArgumentError(f"{display_path(path)} has no statistics by feature")
    return found


def aggregated(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Statistics of the union of parts, of which each has its own.

    Args:
        parts: `min`, `max`, `mean`, `std` and `count` of each part.

    Returns:
        The same of the union; the standard deviation is exact, as if it were computed from all numbers.
    """
    counts = [float(_flat("count", part["count"])[0]) for part in parts]
    total = math.fsum(counts)
    columns: dict[str, list[list[float]]] = {
        name: [list(column) for column in zip(*(_flat(name, part[name]) for part in parts), strict=True)]
        for name in ("min", "max", "mean", "std")
    }
    mean = [math.fsum(m * n for m, n in zip(means, counts, strict=True)) / total for means in columns["mean"]]
    std = [
        math.sqrt(math.fsum((s * s + (m - own) ** 2) * n for s, m, n in zip(stds, means, counts, strict=True)) / total)
        for stds, means, own in zip(columns["std"], columns["mean"], mean, strict=True)
    ]
    flat = {"min": list(map(min, columns["min"])), "max": list(map(max, columns["max"])), "mean": mean, "std": std}
    return {**{name: _shaped_like(parts[0][name], iter(flat[name])) for name in flat}, "count": [int(total)]}


def _plain(value: Any) -> Any:
    """Arrays and tensors as lists."""
    return value.tolist() if hasattr(value, "tolist") else value


def _flat(name: str, value: Any) -> list[float]:
    value = _plain(value)
    if isinstance(value, (list, tuple)):
        return [number for each in value for number in _flat(name, each)]
    if not isinstance(value, (int, float)):  # the minimum of a bool is a bool
        raise ArgumentError(f"the statistics of {name!r} contain {value!r}, which is no number")
    return [float(value)]


def _shaped_like(value: Any, numbers: Any) -> Any:
    value = _plain(value)
    return [_shaped_like(each, numbers) for each in value] if isinstance(value, (list, tuple)) else next(numbers)


def _single(number: float) -> float:
    """Rounds a number to single precision."""
    return float(struct.unpack("f", struct.pack("f", number))[0])


def _array_like(values: Any, numbers: Any) -> Any:
    """Numbers as an array of the kind, dtype and device of other values."""
    if hasattr(values, "new_tensor"):
        return values.new_tensor(numbers)
    import numpy as np

    return np.asarray(numbers, dtype=getattr(values, "dtype", np.float64))
