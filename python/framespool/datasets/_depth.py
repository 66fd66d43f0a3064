"""Distances that depth cameras of LeRobot datasets store as codes in videos."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from framespool import _framespool
from framespool._common.validate_args import boolean, integer, number
from framespool.errors import ArgumentError

#: Bits of LeRobot's codes, and its default range in meters.
_CODE_BITS, _DEFAULTS = 12, {"depth_min": 0.01, "depth_max": 10.0, "shift": 3.5, "use_log": True}
_METERS = {"m": 1.0, "mm": 0.001}


@dataclass(frozen=True)
class DepthCodes:
    """The meaning of the codes of a depth camera, as `info.json` of a LeRobot dataset states it.

    A code is an integer of `bits` bits. With `use_log`, codes are evenly spaced in `log(distance + shift)` between
    `depth_min` and `depth_max`, otherwise in the distance (`quantize_depth` of LeRobot 0.6).

    Args:
        depth_min: Distance of code 0 in meters.
        depth_max: Distance of the highest code in meters.
        shift: In meters; only for `use_log`.
        use_log: Whether codes are logarithmic.
        bits: Bits of a code.

    Raises:
        ArgumentError: If the range is empty or a logarithm does not exist.

    Example:
        >>> import framespool as fsp
        >>> import numpy as np
        >>> codes = fsp.datasets.DepthCodes(0.0, 10.0, use_log=False)
        >>> frame = np.full((3, 1, 2), 0.5, "float32")  # (C, H, W), 0..1
        >>> codes.meters(frame).round(2).tolist()
        [[[5.0, 5.0]]]
    """

    depth_min: float
    depth_max: float
    shift: float = 0.0
    use_log: bool = True
    bits: int = _CODE_BITS

    def __post_init__(self) -> None:
        for name in ("depth_min", "depth_max", "shift"):
            number(name, getattr(self, name))
        boolean("use_log", self.use_log)
        integer("bits", self.bits, least=1, most=16)
        if self.depth_min >= self.depth_max:
            raise ArgumentError(f"depth_min must be less than depth_max, got {self!r}")
        if self.use_log and self.depth_min + self.shift <= 0:
            raise ArgumentError(f"depth_min + shift must be above 0 for use_log=True, got {self!r}")

    def meters(self, frames: Any, *, channel_dim: int = -3) -> Any:
        """Converts frames to distances.

        Args:
            frames: (…, C, H, W) frames of the depth camera, uint16 or float32, not normalized: a tensor of PyTorch or
                framespool, or an array; or a list of these. Of the channels, which are equal, the first is used.
            channel_dim: Dimension of the channels; -1 for the layout `"NTHWC"`, and -4 for clips of `"NCTHW"`.

        Returns:
            (…, 1, H, W) float32 in meters: an array of the same kind and on the same device; for a tensor of framespool
            one of NumPy, or of PyTorch if it is on a GPU. For a list a list.

        Raises:
            ArgumentError: If the frames have another dtype, or this dimension is not that of channels.
        """
        if isinstance(frames, list):
            return [self.meters(each, channel_dim=channel_dim) for each in frames]
        if isinstance(frames, _framespool.Tensor):
            frames = frames.numpy() if frames.device == "cpu" else frames.torch()
        dtype = str(frames.dtype).rpartition(".")[2]
        if dtype not in ("uint16", "float32", "float64"):
            raise ArgumentError(
                f"frames must be uint16 or float32, got {frames.dtype}, which does not keep the codes; use "
                'dtype="uint16" or dtype="float32" for the loader'
            )
        if not -frames.ndim <= channel_dim < frames.ndim or frames.shape[channel_dim] not in (1, 3):
            raise ArgumentError(
                f"frames of shape {tuple(frames.shape)} have no channels in dimension {channel_dim}; give channel_dim="
            )
        take = [slice(None)] * frames.ndim
        take[channel_dim] = slice(0, 1)
        values = _as_float32(frames[tuple(take)])
        highest = 2**self.bits - 1
        codes = (values * (highest / 65535 if dtype == "uint16" else highest)).round()
        low, high = self.depth_min, self.depth_max
        if self.use_log:
            low, high = math.log(low + self.shift), math.log(high + self.shift)
        found = codes * ((high - low) / highest) + low
        return _exp(found) - self.shift if self.use_log else found


def _is_torch(values: Any) -> bool:
    return type(values).__module__.partition(".")[0] == "torch"


def _as_float32(values: Any) -> Any:
    return values.float() if _is_torch(values) else values.astype("float32")


def _exp(values: Any) -> Any:
    if _is_torch(values):
        return values.exp()
    if hasattr(values, "__array_namespace__"):  # such as arrays of JAX
        return values.__array_namespace__().exp(values)
    import numpy as np

    return np.exp(values)


def depth_codes(feature: Mapping[str, Any]) -> DepthCodes | None:
    """The codes of a camera.

    Args:
        feature: The camera in `info.json`.

    Returns:
        `None` if it is no depth camera, or if the distances of its codes are not stated. Those of `video.depth_min` and
        so on are of 12 bits.

    Raises:
        ArgumentError: If they are stated wrongly.
    """
    if not is_depth(feature):
        return None
    info = _info(feature)
    stated = {name: info[f"video.{name}"] for name in _DEFAULTS if info.get(f"video.{name}") is not None}
    pix_fmt, unit = str(info.get("video.pix_fmt") or ""), str(info.get("depth_unit") or "mm")
    if stated and (not pix_fmt or pix_fmt.endswith(("12le", "12be", "p12"))):
        try:
            values = _DEFAULTS | stated
            return DepthCodes(**values | {"use_log": bool(values["use_log"])})
        except ArgumentError as error:
            raise ArgumentError(
                f"meta/info.json: the range of depth {stated!r} is wrong: {error}; correct it"
            ) from None
    if not stated and pix_fmt in ("gray16le", "gray16be") and unit in _METERS:
        return DepthCodes(0.0, 65535 * _METERS[unit], use_log=False, bits=16)
    return None


def is_depth(feature: Mapping[str, Any]) -> bool:
    """Whether a camera measures depth.

    Args:
        feature: The camera in `info.json`.

    Returns:
        Whether it says so.
    """
    info = _info(feature)
    return bool(info.get("video.is_depth_map") or info.get("is_depth_map"))


def _info(feature: Mapping[str, Any]) -> Mapping[str, Any]:
    info = feature.get("info") or feature.get("video_info")
    return info if isinstance(info, Mapping) else {}
