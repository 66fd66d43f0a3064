"""Frames that the CPU decodes for batches on the GPU: page-locked against pageable memory, codes against elements."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator

from bench_videos import full_hd
from common import TRY
from items import FAILED, IMPOSSIBLE, OK, Context, Row, item, python

#: What FRAMESPOOL_GPU_DISABLE turns off, by the name of the row.
WAYS = {
    "page-locked, codes": "",
    "page-locked, elements": "code-upload",
    "pageable, codes": "locked-upload",
    "pageable, elements": "locked-upload,code-upload",
}

#: The frames are repeated, so that the transforms and the copies take most of the time, not the decoder.
EPOCH = """
import hashlib, json, time
import framespool as fsp
def make(device):
    return fsp.ClipLoader([{path!r}] * {clips}, fsp.samplers.Indices([0] * 32), batch_size=4, dtype="float32",
        transforms=[fsp.transforms.Resize({size!r}), fsp.transforms.Normalize([0.5] * 3, [0.25] * 3)],
        device=device if device == "cpu" else fsp.Gpu(device, decoder="cpu"), index=False)
first = [next(iter(make(device))).frames.tobytes() for device in ("cuda:0", "cpu")]
loader = make("cuda:0")
for batch in loader:
    pass
begin, cpu = time.perf_counter(), time.process_time()
for batch in loader:
    pass
batch.frames[0, 0, 0, 0].tobytes()
seconds = time.perf_counter() - begin
print(json.dumps(dict(same=first[0] == first[1], frames_per_s={clips} * 32 / seconds,
    cores=(time.process_time() - cpu) / seconds, fallbacks=loader.stats()["upload_fallbacks"])))
"""


@item("uploads", seconds=90)
def uploads(context: Context) -> Iterator[Row]:
    """Rate of float32 frames from CPU decoding to batches on the GPU, for each way of copying them."""
    video = next(iter(full_hd("h264")), None)
    if video is None:
        yield Row("uploads", "float32 frames of the CPU", IMPOSSIBLE, "no 1080p H.264 here")
        return
    for size, clips in (((224, 224), 64), ((720, 1280), 16)):
        code = EPOCH.format(path=str(video.path), clips=4 if TRY else clips, size=size)
        found: dict[str, list[dict[str, float]]] = {name: [] for name in WAYS}
        # In turns, so that a change of the machine's speed affects all.
        for turn in range(1 if TRY else 3):
            if turn and context.left() < 0:
                break
            for name, disabled in WAYS.items():
                run = python(code, env={"FRAMESPOOL_GPU_DISABLE": disabled})
                if run.returncode:
                    yield Row(name, f"{size[1]}x{size[0]}", FAILED, run.stderr.strip()[-400:])
                    return
                found[name].append(json.loads(run.stdout))
        for name, runs in found.items():
            figures = {key: statistics.median(run[key] for run in runs) for key in ("frames_per_s", "cores")}
            figures["turns"] = len(runs)
            asked = f"float32 frames of {size[1]}x{size[0]}, decoded by the CPU"
            if not all(run["same"] for run in runs):
                yield Row(name, asked, FAILED, "the first batch differs from the CPU's")
            elif any(run["fallbacks"] for run in runs):
                yield Row(name, asked, FAILED, f"fallbacks: {runs[0]['fallbacks']}")
            else:
                yield Row(name, asked, OK, figures=figures)
