"""Counts the frames of many files with one library (index_cost.py).

Adapters open a reader of every file; "framespool_video" is the adapter of that name. "framespool" builds a loader of
all windows, which indexes every file first, on all cores or on `threads`; "dali" builds its reader, which does so too.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import oneshot


def by_adapter(name: str, files: list[str]) -> dict:
    import adapters

    adapter = adapters.load(name)
    with oneshot.UsageMeter() as meter:
        counts = [adapter.num_frames(adapter.open(path, None)) for path in files]
    return {"version": adapter.version(), "usage": meter.usage, "counts": counts, "total": sum(counts)}


def by_loader(files: list[str], threads: int | None, index: str | None) -> dict:
    import framespool
    import loading

    wanted = {"batch_size": 1, "num_threads": threads, "index": index}
    with oneshot.UsageMeter() as meter:
        # Windows of one frame: there are as many clips as frames.
        loader = loading.make(files, {"rule": "windows", "sequence_length": 1}, None, wanted)
    answer = {"version": framespool.__version__, "usage": meter.usage, "total": loader.num_clips}
    return {**answer, "stats": loader.stats(), "unknown": loading.unknown(wanted)}


def by_command(files: list[str], index: str) -> dict:
    import framespool

    program = Path(sys.executable).with_name("framespool")
    if not program.exists():
        raise FileNotFoundError("this build has no command line")
    with tempfile.TemporaryDirectory() as scratch:
        listed = Path(scratch) / "files.txt"
        listed.write_text("".join(f"{path} 0\n" for path in files))
        with oneshot.UsageMeter() as meter:
            # Its output is not part of the answer.
            subprocess.run([program, "index", listed, "--index", index], check=True, stdout=sys.stderr)
    # The stored index must be all that a loader needs.
    after = by_loader(files, None, index)
    return {"version": framespool.__version__, "usage": meter.usage, "total": after["total"], "stats": after["stats"]}


def by_dali(files: list[str]) -> dict:
    from nvidia import dali

    @dali.pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def pipeline():
        return dali.fn.experimental.readers.video(device="cpu", filenames=files, sequence_length=1, name="reader")

    with oneshot.UsageMeter() as meter:
        built = pipeline()
        built.build()
        total = built.epoch_size("reader")
    return {"version": dali.__version__, "usage": meter.usage, "total": total}


def answer(request: dict) -> dict:
    side, files, index = request["side"], request["files"], request["index"]
    if side == "dali":
        return by_dali(files)
    if side == "framespool_index":
        return by_command(files, index)
    if side in ("framespool", "framespool_warm"):
        return by_loader(files, request["threads"], index)
    return by_adapter(side.removesuffix("_video"), files)


if __name__ == "__main__":
    oneshot.serve(answer)
