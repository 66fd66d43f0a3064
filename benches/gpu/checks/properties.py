"""Properties of the GPU, and whether framespool can use it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from common import nvidia_smi
from items import FAILED, IMPOSSIBLE, OK, Context, Row, item


@item("properties", seconds=30, checklist="gpu_probe.sh")
def properties(context: Context) -> Iterator[Row]:
    device = context.device
    shown = {
        "name": device.name,
        "capability": ".".join(map(str, device.compute_capability)),
        "cuda": ".".join(map(str, device.cuda_version)),
        "GiB": device.total_bytes / 2**30,
        "free_GiB": device.free_bytes / 2**30,
        "engines": device.engines,
    }
    yield Row("the device", "driver, memory and engines are reported", OK, figures=shown)
    if device.video_reason:
        yield Row("the engines", "libnvcuvid opens and answers", FAILED, device.video_reason)
        return
    kinds = [f"{c.codec} {c.chroma} {c.depth_bits}" for c in device.decodes]
    yield Row("the codecs", "what NVDEC decodes", OK, ", ".join(kinds), {"kinds": len(kinds)})
    # In the record only: one row per kind would make the table too long.
    yield Row("the limits", "sizes and layouts of each", OK, figures={"decodes": [asdict(c) for c in device.decodes]})
    smi = nvidia_smi("driver_version", "clocks.video", "mig.mode.current", "ecc.mode.current")
    if smi:
        yield Row("nvidia-smi", "driver and clocks", OK, figures=smi)
    else:
        yield Row("nvidia-smi", "driver and clocks", IMPOSSIBLE, "nvidia-smi is not on the PATH")
