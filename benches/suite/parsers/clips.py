"""random_clips.py, short_clips.py, index_cost.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from suite.record import Result, Table, paired_rows

OWN = "framespool"
# Labels of framespool's variants in short_clips.py and index_cost.py.
INDEXING = {
    "framespool_video": "framespool, a Video each",
    "framespool": "framespool, ClipLoader",
    "framespool_warm": "framespool, ClipLoader, index there",
    "framespool_index": "framespool index, the command",
}
SHORT = {"framespool_video": "framespool, a Video each"}


def correctness(frames: int, wrong: int, failed: int = 0) -> dict[str, Any]:
    """A row's `right` and `answers`, with the wording of the text records."""
    words = [f"WRONG {wrong} of {frames} frames"] if wrong else []
    words += [f"no answer for {failed} files"] if failed else []
    return {"right": not words, "answers": ", ".join(words) or f"right ({frames} frames)"}


def random_clips(raw: dict[str, Any]) -> Result:
    samples = raw["samples"]
    counts = {
        name: {what: sum(file[what] for file in check["by_file"].values()) for what in ("frames", "wrong")}
        for name, check in raw["checks"].items()
    }

    def describe(name: str) -> dict[str, Any]:
        return {"own": name == OWN, **correctness(**counts[name])}

    def values(what: str) -> dict[str, dict[Any, float]]:
        by_peer: dict[str, dict[Any, float]] = {}
        for sample in samples:
            by_peer.setdefault(sample["peer"], {})[sample["clip"], sample["repeat"]] = sample[what]
        return by_peer

    files = list(raw["by_file"])
    tables = [
        Table(
            name,
            f"A random clip of 16 frames, stride 4, to 224x224, out of long-GOP 1080p H.264: {words}",
            unit,
            paired_rows(values(what), raw["baseline"], describe),
            baseline=raw["baseline"] if raw["baseline"] in raw["versions"] else None,
            ratio=f"{words}, by clip and repeat",
        )
        for name, what, words, unit in (
            ("cpu", "cpu_ms", "CPU time", "CPU ms per clip"),
            ("wall", "wall_ms", "time", "ms per clip"),
        )
    ]
    data = (
        f"{len(files)} files ({', '.join(files)}), {raw['clips_per_file']} clips each, {raw['repeats']} repeats, "
        f"seed {raw['seed']}; one thread; "
        + ("reader kept open per file" if raw["mode"] == "warm" else "file opened for each clip")
    )
    left_out = {name: check["failure"] for name, check in raw["checks"].items() if check["failure"]}
    missing = [name for name in raw.get("peers", ()) if name not in raw["checks"]]
    return Result(tables, raw["versions"], data, left_out | dict.fromkeys(missing, "did not start"))


def short_clips(raw: dict[str, Any]) -> Result:
    num_clips = {group: len(clips) for group, clips in raw["clips"].items()}
    num_clips["all"] = sum(num_clips.values())
    tables = []
    for group in raw["tables"]:
        for state, warm in (("cold", False), ("warm", True)):
            values = {
                side: {
                    (repeat, entry["number"]): entry["usage"][group]["cpu_s"] / num_clips[group] * 1e3
                    for repeat, run in enumerate(runs)
                    for entry in run
                    if (entry["number"] > 0) == warm
                }
                for side, runs in raw["runs"].items()
            }
            if not values.get(OWN):
                continue

            def describe(side: str, group: str = group) -> dict[str, Any]:
                label = {"label": SHORT[side]} if side in SHORT else {}
                return label | {"own": side.startswith(OWN), **correctness(**raw["checks"][side]["groups"][group])}

            words = {"cold": "a process's first pass", "warm": "later passes"}[state]
            kind = f"{num_clips[group]} short action videos" if group == "all" else f"{num_clips[group]} {group}"
            tables.append(
                Table(
                    f"{group} {state}",
                    f"One random clip of 16 frames, stride 2, to 224x224, of each of {kind}: CPU time, {words}",
                    "CPU ms per clip",
                    paired_rows(values, OWN, describe),
                    baseline=OWN,
                    ratio="CPU time, by process and pass",
                )
            )
    versions = {name: check["version"] for name, check in raw["checks"].items() if name not in SHORT}
    left_out = {
        f"{name}, {Path(path).name}": reason
        for name, check in raw["checks"].items()
        for path, reason in check["failures"].items()
    }
    repeats = max(map(len, raw["runs"].values()))
    data = ", ".join(f"{count} {group}" for group, count in num_clips.items()) + f"; one thread; {repeats} processes"
    return Result(tables, versions, data, left_out)


def index_cost(raw: dict[str, Any]) -> Result:
    tables = []
    for name, what, words, unit, scale in (
        ("wall", "wall_s", "time", "s", 1.0),
        ("cpu", "cpu_s", "CPU time", "CPU s", 1.0),
        ("bytes", "bytes_read", "bytes read", "MB read", 1e-6),
    ):
        values = {
            side: {repeat: run["usage"][what] * scale for repeat, run in enumerate(runs)}
            for side, runs in raw["runs"].items()
        }

        def describe(side: str) -> dict[str, Any]:
            # The program returns no figures for a library whose frame counts are wrong.
            return {
                "label": INDEXING.get(side, side),
                "own": side in INDEXING,
                "right": True,
                "answers": f"right ({raw['frames']} frames)",
            }

        base = "framespool_video"
        tables.append(
            Table(
                name,
                f"Which frames {raw['files']} MP4s have, {raw['bytes'] / 1e6:.0f} MB in the page cache: {words}",
                unit,
                paired_rows(values, base, describe),
                baseline=INDEXING[base] if values.get(base) else None,
                ratio=f"{words}, by repeat",
            )
        )
    versions = {OWN if side in INDEXING else side: runs[0]["version"] for side, runs in raw["runs"].items()}
    data = f"{raw['files']} MP4s cut from 24 encodes, {raw['bytes'] / 1e6:.0f} MB, {raw['frames']} frames"
    return Result(tables, versions, data, raw.get("left_out", {}))
