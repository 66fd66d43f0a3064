"""Shared by check.py and bench.py: the machine, the clips, tables and records."""

from __future__ import annotations

import contextlib
import datetime
import fnmatch
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

from harness.record_format import record_text  # noqa: E402

#: The repository, or the folder of an unpacked bundle.
ROOT = HERE.parents[1]
NO_GPU = 3
#: Few small clips, to test the benchmarks' logic. The figures are not representative.
TRY = bool(os.environ.get("FRAMESPOOL_TRY"))
SIMULATED = re.compile("simulated", re.IGNORECASE)

# Measurements must neither use an existing index nor leave one behind.
os.environ.setdefault("FRAMESPOOL_INDEX", "off")


#: Prefix of the corpus clips' names in tables; the media have none.
CORPUS = "corpus/"


@dataclass(frozen=True)
class Clip:
    """A file, with the data of its manifest."""

    name: str
    path: Path
    properties: dict[str, Any]
    #: Why it is in the list: "exact", "damaged", "bench", …
    groups: frozenset[str]

    @property
    def frames(self) -> int | None:
        """Number of frames recorded in the manifest."""
        return self.properties.get("frames_decoded") if self.properties.get("frame_hashes") else None


def media() -> Path:
    """The generated test media."""
    place = Path(os.environ.get("FRAMESPOOL_MEDIA") or ROOT / "target" / "media")
    if not (place / "manifest.json").is_file():
        raise SystemExit(f"no test media at {place}: run scripts/setup.sh tests, or run.sh of a bundle, which has them")
    return place


def corpus() -> Path | None:
    """The additional corpus, or the part of it in a bundle."""
    if not (place := os.environ.get("FRAMESPOOL_CORPUS")):
        return None
    if not (Path(place) / "manifest.json").is_file():
        raise SystemExit(f"FRAMESPOOL_CORPUS is {place}, which contains no manifest.json; correct or unset it")
    return Path(place)


def listed(name: str) -> list[tuple[str, frozenset[str]]]:
    """The lines of media.txt or clips.txt: a path or a pattern of paths, and its groups."""
    lines = (line.split("#")[0].split() for line in (HERE / name).read_text().splitlines())
    return [(words[0], frozenset(words[1:])) for words in lines if words]


def tier(root: Path, lines: list[tuple[str, frozenset[str]]], prefix: str) -> list[Clip]:
    """The files of a manifest that a list selects, in the list's order."""
    properties = {entry["path"]: entry for entry in json.loads((root / "manifest.json").read_text())["files"]}
    groups: dict[str, frozenset[str]] = {}
    for pattern, more in lines:
        for path in fnmatch.filter(properties, pattern):
            groups[path] = groups.get(path, frozenset()) | more
    return [Clip(prefix + path, root / path, properties[path], those) for path, those in groups.items()]


def clips(group: str, match: str = "") -> list[Clip]:
    """The clips of a group, of the media and then of the corpus; `match` is a regular expression for names."""
    found = tier(media(), listed("media.txt"), "")
    if (place := corpus()) is not None:
        found += tier(place, listed("clips.txt"), CORPUS)
    return [clip for clip in found if group in clip.groups and re.search(match, clip.name)]


def timed(group: str, match: str = "") -> list[Clip]:
    """Clips to measure: those of the corpus, which are camera videos, or of the media if it has none."""
    found = clips(group, match)
    of_corpus = [clip for clip in found if clip.name.startswith(CORPUS)]
    return of_corpus if of_corpus and not TRY else [clip for clip in found if clip not in of_corpus]


def extra() -> list[Path]:
    """Videos added with --extra, or named by the user: long 1080p encodes for the benchmarks."""
    place = Path(os.environ.get("FRAMESPOOL_EXTRA") or ROOT / "extra")
    return sorted(place.glob("*.mp4")) if place.is_dir() else []


def slug(name: str) -> str:
    """A GPU's name as a folder name: "NVIDIA H100 80GB HBM3" is nvidia-h100-80gb-hbm3."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def devices_or_exit() -> list[Any]:
    """The GPUs; without one the program exits with the reason."""
    try:
        from framespool import gpu
    except ImportError as error:
        print(f"framespool is not installed for {sys.executable}: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    if not (devices := gpu.devices()):
        print(f"no GPU here, nothing was run: {gpu.unavailable_reason()}", file=sys.stderr)
        raise SystemExit(NO_GPU)
    return devices


def is_simulated(device: Any) -> bool:
    """Whether the driver is tests/simulated_gpu, whose figures are not those of any GPU."""
    return bool(SIMULATED.search(device.name))


def nvidia_smi(*fields: str) -> dict[str, str]:
    """Fields of `nvidia-smi --query-gpu` for the first GPU; empty if it is not installed."""
    if not (tool := shutil.which("nvidia-smi")):
        return {}
    command = [tool, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        run = subprocess.run(command, capture_output=True, text=True, timeout=20)
        if run.returncode == 0:
            return dict(zip(fields, (v.strip() for v in run.stdout.splitlines()[0].split(",")), strict=False))
    return {}


def version_of(module: str) -> str | None:
    """The version of an installed package, without importing it."""
    from importlib import metadata

    if importlib.util.find_spec(module.split(".")[0]) is None:
        return None
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(module)
    return "unknown version"


def missing(module: str) -> str | None:
    """Why a library cannot be used."""
    return None if importlib.util.find_spec(module) else f"{module} is not installed here"


def machine(device: Any) -> dict[str, Any]:
    """The hardware and versions of the measurement."""
    import framespool

    cpu = "unknown"
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    smi = nvidia_smi("driver_version", "clocks.video", "clocks.sm", "clocks.max.sm", "mig.mode.current", "power.limit")
    return {
        "gpu": device.name,
        "simulated": is_simulated(device),
        "tried_only": TRY,
        "cuda_version": list(device.cuda_version),
        "driver_version": smi.get("driver_version"),
        "nvidia_smi": smi,
        "compute_capability": list(device.compute_capability),
        "engines": device.engines,
        "total_bytes": device.total_bytes,
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "kernel": platform.release(),
        "python": platform.python_version(),
        "framespool": framespool.__version__,
        "packages": {m: v for m in ("torch", "cupy", "numpy", "torchcodec", "pytest") if (v := version_of(m))},
    }


def record_place(device: Any, kind: str, out: str | None) -> Path:
    """Path of the record. Exits if figures of a simulated GPU would be written among real ones."""
    records = (ROOT / "benches" / "record").resolve()
    if out:
        place = Path(out)
    elif is_simulated(device) or TRY:
        place = Path(os.environ.get("TMPDIR", "/tmp")) / f"framespool-simulated-{kind}.json"
    else:
        place = records / slug(device.name) / f"{datetime.date.today().isoformat()}-{kind}.json"
    if (is_simulated(device) or TRY) and records in [place.resolve(), *place.resolve().parents]:
        why = "the driver is simulated" if is_simulated(device) else "FRAMESPOOL_TRY is set"
        print(f"{device.name}: {why}, so the figures must not be written to {records}", file=sys.stderr)
        raise SystemExit(2)
    return place


def write(place: Path, record: dict[str, Any]) -> None:
    """Writes a record atomically."""
    place.parent.mkdir(parents=True, exist_ok=True)
    unfinished = place.with_name(place.name + ".part")
    unfinished.write_text(record_text(record), encoding="utf-8")
    unfinished.rename(place)


def table(rows: list[list[str]], headers: list[str], most: int = 150) -> str:
    """Rows in columns; the last column is not padded, and long lines are truncated."""
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    lines = []
    for row in [headers, ["-" * width for width in widths], *rows]:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        lines.append(line if len(line) <= most else line[: most - 1] + "…")
    return "\n".join(lines)


def short(value: Any) -> str:
    """A figure in readable form."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {short(each)}" for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return " ".join(map(short, value))
    return str(value)
