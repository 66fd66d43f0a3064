"""Memory accesses of the kernels and of nvJPEG, under NVIDIA's compute-sanitizer."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

from common import clips, missing
from items import FAILED, IMPOSSIBLE, OK, Context, Row, item

HEAD = "import framespool as fsp\nT = fsp.transforms\n"
#: NVDEC's surfaces through a resize, an operation on codes and a change of colors, in two layouts.
FRAMES = """
for path in {paths!r}:
    for layout, dtype in (("THWC", "uint8"), ("CTHW", "float32")):
        video = fsp.Video(path, device="cuda:0", decoder="nvdec", index=False, layout=layout)
        for transforms in ([], [T.RandomResizedCrop(112), T.ColorJitter(0.4, 0.4, 0.4, 0.1)],
                           [T.Resize((97, 131), interpolation="bicubic"), T.RandomEqualize(1.0), T.Pad(3)]):
            video.frames([0, 3], transforms=transforms, dtype=dtype, seed=1).frames.tobytes()
"""
IMAGES = """
gpu, resize = fsp.Gpu(0, decoder="nvjpeg"), [T.Resize((224, 224))]
loader = fsp.ImageLoader({paths!r}, batch_size=4, device=gpu, transforms=resize)
for batch in loader:
    batch.images.tobytes()
assert loader.stats()["frames_decoded_by_gpu"], loader.stats()["cpu_fallbacks"]
"""


@item("sanitizer", seconds=150)
def sanitizer(context: Context) -> Iterator[Row]:
    asked = "compute-sanitizer memcheck reports no error"
    tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    programs = {
        "H.264, HEVC, VP9": (FRAMES, [str(clip.path) for clip in clips("pixels")[:4]]),
        "nvJPEG": (IMAGES, [str(clip.path) for clip in clips("photo")[:8]]),
    }
    for name, (program, paths) in programs.items():
        if tool is None:
            yield Row(name, asked, IMPOSSIBLE, "compute-sanitizer is not installed here")
            continue
        if name == "nvJPEG" and (why := missing("nvidia.nvjpeg") and missing("torch")):
            yield Row(name, asked, IMPOSSIBLE, why)
            continue
        command = [tool, "--tool", "memcheck", "--error-exitcode", "9", "--require-cuda-init", "no"]
        command += [sys.executable, "-c", HEAD + program.format(paths=paths)]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=max(context.left(), 20))
        except subprocess.TimeoutExpired:
            yield Row(name, asked, IMPOSSIBLE, "out of time")
            continue
        text = run.stdout + run.stderr
        found = re.search(r"ERROR SUMMARY: ([0-9]+) error", text)
        if found is None:
            yield Row(name, asked, IMPOSSIBLE, f"no summary; code {run.returncode}: {text.strip()[-400:]}")
        elif run.returncode or found[1] != "0":
            lines = [line for line in text.splitlines() if line.startswith("=========")]
            yield Row(name, asked, FAILED, f"{found[1]} errors: {' '.join(lines[1:12])}"[:600])
        else:
            yield Row(name, asked, OK, figures={"files": len(paths)})
