"""What the GPUs of this machine can do. Loaders do not need this module.

`devices()` lists the GPUs with the codecs that their NVDEC engines decode. `unavailable_reason()` reports why
there is none. `decoder_cache_stats()` counts the decoders of this process. `decode_throughput()` decodes one
video repeatedly and discards the frames: an upper limit for the speed of any loader.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from framespool import _framespool
from framespool._common.validate_args import device_number, integer, number
from framespool.errors import ArgumentError

__all__ = [
    "DecodeThroughput",
    "Codec",
    "Device",
    "decode_throughput",
    "clear_decoder_cache",
    "devices",
    "startup_seconds",
    "decoder_cache_stats",
    "unavailable_reason",
]


@dataclass(frozen=True)
class Codec:
    """A kind of video stream that a GPU decodes.

    Attributes:
        codec: For example `"H.264"`.
        chroma: For example `"4:2:0"`.
        depth_bits: Bits per sample.
        engines: Number of NVDEC engines that decode it.
        min_size: (width, height) in pixels.
        max_size: (width, height) in pixels.
        max_macroblocks: Largest number of macroblocks per frame.
        layouts: Surface formats that the decoder can output.

    Example:
        >>> import framespool as fsp
        >>> device = fsp.gpu.devices()[0]  # doctest: +SKIP
        >>> [(codec.codec, codec.max_size) for codec in device.decodes]  # doctest: +SKIP
    """

    codec: str
    chroma: str
    depth_bits: int
    engines: int
    min_size: tuple[int, int]
    max_size: tuple[int, int]
    max_macroblocks: int
    layouts: tuple[str, ...]


@dataclass(frozen=True)
class Device:
    """A GPU.

    Attributes:
        ordinal: The number in `"cuda:0"`.
        name: Name of the model.
        uuid: UUID of the GPU or, in MIG mode, of its instance, as nvidia-smi writes it.
        pci_bus_id: PCI bus id.
        compute_capability: (major, minor).
        cuda_version: (major, minor) that the driver supports.
        free_bytes: Free memory.
        total_bytes: Total memory.
        engines: Number of NVDEC engines, 0 if they cannot be used.
        video_reason: Why the engines cannot be used, else `None`.
        decodes: What the engines decode.

    Example:
        >>> import framespool as fsp
        >>> device = fsp.gpu.devices()[0]  # doctest: +SKIP
        >>> device.name, device.compute_capability, device.engines  # doctest: +SKIP
    """

    ordinal: int
    name: str
    uuid: str
    pci_bus_id: str
    compute_capability: tuple[int, int]
    cuda_version: tuple[int, int]
    free_bytes: int
    total_bytes: int
    engines: int
    video_reason: str | None
    decodes: tuple[Codec, ...]


@dataclass(frozen=True)
class DecodeThroughput:
    """The result of `decode_throughput()`.

    Attributes:
        codec: Name of the codec.
        packets: Packets of the video that were kept in memory.
        packet_bytes: Their size together.
        sessions: Number of threads, each with a decoder.
        frames: Frames decoded.
        mapped: Frames mapped.
        seconds: Duration of the measurement.
        frames_per_second: `frames / seconds`.

    Example:
        >>> import framespool as fsp
        >>> result = fsp.gpu.decode_throughput("a.mp4", sessions=4, seconds=2)  # doctest: +SKIP
        >>> result.frames_per_second, result.sessions  # doctest: +SKIP
    """

    codec: str
    packets: int
    packet_bytes: int
    sessions: int
    frames: int
    mapped: int
    seconds: float
    frames_per_second: float


def unavailable_reason() -> str | None:
    """Returns why no GPU can be used.

    Returns:
        The reason, or `None` if a GPU can be used.

    Example:
        >>> import framespool as fsp
        >>> reason = fsp.gpu.unavailable_reason()
        >>> device = "cpu" if reason else "cuda:0"
    """
    return _framespool.gpu_unavailable_reason()


def devices() -> list[Device]:
    """Lists the GPUs. It opens each, which takes some of its memory.

    Returns:
        The GPUs; an empty list if there is none (see `unavailable_reason()`).

    Raises:
        GpuError: If a GPU cannot be opened.

    Example:
        >>> import framespool as fsp
        >>> for device in fsp.gpu.devices():
        ...     print(device.name, device.engines, "NVDEC engines")
    """
    found = []
    for properties in _framespool.gpu_devices():
        decodes = tuple(Codec(**{**row, "layouts": tuple(row["layouts"])}) for row in properties.pop("decodes"))
        found.append(Device(**properties, decodes=decodes))
    return found


def startup_seconds(device: Any = "cuda:0") -> tuple[float, float]:
    """Opens a GPU and measures the time.

    The driver compiles the kernels once per machine. Both times are 0 if this process has opened the GPU before.

    Args:
        device: The GPU, such as `"cuda:0"`.

    Returns:
        Seconds for the driver and its context, and seconds for the kernels.

    Raises:
        GpuError: If the GPU cannot be opened.

    Example:
        >>> import framespool as fsp
        >>> driver_seconds, kernel_seconds = fsp.gpu.startup_seconds("cuda:0")  # doctest: +SKIP
    """
    return _framespool.gpu_startup_seconds(_ordinal(device))


def decoder_cache_stats(device: Any = "cuda:0") -> dict[str, int]:
    """Counts the NVDEC decoders of this process.

    Args:
        device: The GPU, such as `"cuda:0"`.

    Returns:
        `created`, `reused`, `reconfigured` and `evicted` decoders, the number that is `idle` now, and
        `bytes_estimated` of all.

    Raises:
        GpuError: If the GPU cannot be opened.

    Example:
        >>> import framespool as fsp
        >>> fsp.gpu.decoder_cache_stats("cuda:0")["idle"]  # doctest: +SKIP
    """
    return _framespool.gpu_decoder_cache_stats(_ordinal(device))


def clear_decoder_cache(device: Any = "cuda:0") -> int:
    """Destroys the idle decoders, to free their memory.

    Args:
        device: The GPU, such as `"cuda:0"`.

    Returns:
        Number of decoders destroyed.

    Raises:
        GpuError: If the GPU cannot be opened.

    Example:
        >>> import framespool as fsp
        >>> fsp.gpu.clear_decoder_cache("cuda:0")  # doctest: +SKIP
    """
    return _framespool.gpu_clear_decoder_cache(_ordinal(device))


def decode_throughput(
    path: str | os.PathLike[str],
    *,
    device: Any = "cuda:0",
    sessions: int = 1,
    seconds: float = 5.0,
    map_every: int = 1,
    max_packets: int = 2**31,
) -> DecodeThroughput:
    """Decodes a video repeatedly with several decoders and discards the frames.

    It cannot be interrupted.

    Args:
        path: The video.
        device: The GPU, such as `"cuda:0"`.
        sessions: Number of threads, each with a decoder, 1 to 256.
        seconds: Approximate duration of the measurement.
        map_every: Maps every `map_every`-th frame; 0 maps none.
        max_packets: Uses only this many packets from the start of the video.

    Returns:
        The measurement.

    Raises:
        GpuError: If the GPU cannot be used, or does not decode the video.
        ArgumentError: If an argument is invalid.

    Example:
        >>> import framespool as fsp
        >>> fsp.gpu.decode_throughput("a.mp4", sessions=4, seconds=2).frames_per_second  # doctest: +SKIP
    """
    result = _framespool.gpu_decode_throughput(
        _ordinal(device),
        path,
        integer("sessions", sessions, least=1, most=256),
        number("seconds", seconds, above=0.0, most=3600.0),
        integer("map_every", map_every),
        integer("max_packets", max_packets, least=1),
    )
    return DecodeThroughput(**result)


def _ordinal(device: Any) -> int:
    ordinal = device_number(device)
    if ordinal is None:
        raise ArgumentError(f'device must be a GPU, "cuda" or "cuda:N", got {device!r}')
    return ordinal
