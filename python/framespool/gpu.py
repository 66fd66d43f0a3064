"""What this machine's GPUs can do, for people who want to know before they start. Loaders need none of it.

:func:`devices` lists the GPUs with what their video engines decode; :func:`unavailable_reason` says why there is none;
:func:`decoder_cache_stats` tells what became of the decoders of this process; :func:`decode_throughput` loads the engines with one clip and
keeps nothing, which is as fast as any loader can be.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from framespool import _framespool
from framespool._validate_args import device_number, integer, number
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
    """A kind of stream that a GPU decodes: ``codec`` ("H.264"), ``chroma`` ("4:2:0"), ``depth_bits``; on how many
    ``engines``; sizes as (width, height); ``layouts``: how it can hand pictures out.
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
    """A GPU. ``ordinal`` is the number in ``"cuda:0"``. ``cuda_version``: of the driver. ``engines``: NVDEC engines, 0
    where they cannot be used; then ``video_reason`` says why. ``decodes``: what they decode.
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
    """What the engines did: ``frames`` decoded and ``mapped`` by ``sessions`` threads in ``seconds``; ``packets`` of
    the clip were in memory, with ``packet_bytes`` together.
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
    """Why no GPU can be used; ``None`` where one can."""
    return _framespool.gpu_unavailable_reason()


def devices() -> list[Device]:
    """The GPUs; an empty list where there is none (see :func:`unavailable_reason`). Opens each, which takes some of its memory."""
    found = []
    for facts in _framespool.gpu_devices():
        decodes = tuple(Codec(**{**row, "layouts": tuple(row["layouts"])}) for row in facts.pop("decodes"))
        found.append(Device(**facts, decodes=decodes))
    return found


def startup_seconds(device: Any = "cuda:0") -> tuple[float, float]:
    """Opens a GPU: seconds for the driver with its context, and for the kernels, which the driver compiles once per
    machine. No time at all where this process has opened it before.
    """
    return _framespool.gpu_startup_seconds(_ordinal(device))


def decoder_cache_stats(device: Any = "cuda:0") -> dict[str, int]:
    """What became of the decoders of this process: ``created``, ``reused``, ``reconfigured``, ``evicted``, ``idle``
    ones now, and ``bytes_estimated`` of all.
    """
    return _framespool.gpu_decoder_cache_stats(_ordinal(device))


def clear_decoder_cache(device: Any = "cuda:0") -> int:
    """Destroys the decoders that nobody uses, because their memory is needed elsewhere; how many there were."""
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
    """Decodes a clip over and over in ``sessions`` threads for about so many seconds. Nothing is done with the
    pictures: every ``map_every``-th is mapped (0: none). ``max_packets``: takes only so many units from the clip's begin.

    Cannot be interrupted meanwhile.
    """
    facts = _framespool.gpu_decode_throughput(
        _ordinal(device),
        path,
        integer("sessions", sessions, least=1, most=256),
        number("seconds", seconds, above=0.0, most=3600.0),
        integer("map_every", map_every),
        integer("max_packets", max_packets, least=1),
    )
    return DecodeThroughput(**facts)


def _ordinal(device: Any) -> int:
    ordinal = device_number(device)
    if ordinal is None:
        raise ArgumentError(f'device must be a GPU, "cuda" or "cuda:N", got {device!r}')
    return ordinal
