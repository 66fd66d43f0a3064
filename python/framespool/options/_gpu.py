"""What a loader does on a GPU."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from framespool._common.validate_args import choice, device_number, integer, is_gpu
from framespool.errors import ArgumentError

#: The settings of the engine without a GPU, by their names there.
NO_GPU = {"device": None, "decode_device": None, "decoder": "auto", "nvdec_threads": None}


@dataclass(frozen=True)
class Gpu:
    """A GPU that holds the batches of a loader, and what it decodes.

    In place of the name of a `device`.

    Args:
        device: The GPU: its number, `"cuda:0"`, or a `torch.device`. `"cuda"` is PyTorch's current GPU if PyTorch uses
            one in this process, otherwise the only one, or that of `LOCAL_RANK`.
        decoder: Which decoders the loader uses. Files that the GPU cannot decode fall back to the CPU; `stats()`
            reports the reasons.
            - `"auto"`: for videos its NVDEC engines together with the CPU threads; for images the CPU threads. Both
              give the same frames of intact files. If NVDEC reports damage in a file, the CPU decodes the clip again
              and the rest of the file. NVDEC reports less damage than the CPU: a clip of a damaged file may be
              delivered or be an error, depending on which of the two makes it.
            - `"nvdec"`: for videos its NVDEC engines, without further CPU threads.
            - `"nvjpeg"`: for JPEG images the GPU. NVIDIA's library comes with the CUDA toolkit and PyTorch, not with
              the driver. Samples differ a little from those of the CPU. Eight or more CPU threads are probably faster
              (extrapolated from four on an H200: docs/gpu-verification.md).
            - `"cpu"`: the CPU threads.
        threads: Decode tasks that NVDEC runs at the same time, 1 to 64. `None`: two per engine, fewer if the GPU is
            short of memory.
        on_fallback: What happens if the CPU decodes pictures because NVDEC cannot.
            - `"warn"`: a warning after an epoch in which these are more than 10 % of the pictures.
            - `"raise"`: an error (`GpuError`, in place of the next batch).
            - `None`: `"raise"` if the environment variable `FRAMESPOOL_STRICT_GPU` is 1, else `"warn"`.
        output: Where batches are placed: `"gpu"`, or `"cpu"` for host memory.

    Raises:
        ArgumentError: If an argument is invalid.

    Example:
        >>> import framespool as fsp
        >>> loader = fsp.ClipLoader(  # doctest: +SKIP
        ...     fsp.datasets.folder("videos/"),
        ...     fsp.samplers.RandomClips(sequence_length=16),
        ...     batch_size=8,
        ...     device=fsp.Gpu(0, decoder="nvdec", on_fallback="raise"),
        ... )
    """

    device: Any = 0
    _: KW_ONLY
    decoder: Literal["auto", "cpu", "nvdec", "nvjpeg"] = "auto"
    threads: int | None = None
    on_fallback: Literal["warn", "raise"] | None = None
    output: Literal["gpu", "cpu"] = "gpu"

    def __post_init__(self) -> None:
        if not is_gpu(self.device):
            raise ArgumentError('device of a Gpu must be a GPU, got "cpu"; for a loader without one omit Gpu')
        choice("decoder", self.decoder, ("auto", "cpu", "nvdec", "nvjpeg"))
        if self.threads is not None:
            integer("threads", self.threads, least=1, most=64)
        if self.on_fallback is not None:
            choice("on_fallback", self.on_fallback, ("warn", "raise"))
        choice("output", self.output, ("gpu", "cpu"))

    @property
    def _is_strict(self) -> bool:
        if self.on_fallback is None:
            return os.environ.get("FRAMESPOOL_STRICT_GPU") == "1"
        return self.on_fallback == "raise"

    def _for_engine(self) -> dict[str, Any]:
        """The settings of the engine, by their names there."""
        number = device_number(self.device)
        place = "device" if self.output == "gpu" else "decode_device"
        return {**NO_GPU, place: number, "decoder": self.decoder, "nvdec_threads": self.threads}


def as_gpu(device: Any) -> Gpu | None:
    """Converts the argument `device` of a loader.

    Args:
        device: A `Gpu`, or the name of a device.

    Returns:
        The `Gpu`; `None` for the CPU.

    Raises:
        ArgumentError: If it is neither.
    """
    if isinstance(device, Gpu):
        return device
    return Gpu(device) if is_gpu(device) else None
