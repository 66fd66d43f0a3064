"""shuffled_epochs.py, dataset_size.py, disk_cache.py, scaling.py, shards.py."""

from __future__ import annotations

import statistics
from typing import Any

from suite.record import Result, Row, Spread, Table, paired_rows

OWN = "framespool"
MIB = 1 << 20
TASKS = {
    "windows_1_16": "all windows of 16 frames",
    "windows_4_64": "windows of 16 frames, stride 4",
    "random_8": "eight random clips of each video",
}


def shuffled_epochs(raw: dict[str, Any]) -> Result:
    tables, versions, left_out = [], {}, {}
    for task, results in raw["tasks"].items():
        sides = results["sides"]
        clips = {side: run["clips"] for side, of in sides.items() for run in of["runs"][:1]}
        epoch = clips[OWN]

        def describe(side: str, sides: dict[str, Any] = sides) -> dict[str, Any]:
            of = sides[side]
            workers = "" if of["workers"] is None else f", {of['workers']} worker{'s' * (of['workers'] != 1)}"
            wrong, frames = of["frames_wrong"], of["frames_checked"]
            return {
                "label": side + workers,
                "own": side.startswith(OWN),
                "right": not wrong and not any("WRONG" in note for note in of["notes"]),
                "answers": f"WRONG {wrong} of {frames}" if wrong else f"right ({frames} frames)",
                "note": "; ".join(note for note in of["notes"] if "workers:" not in note),
            }

        for name, what, words, unit in (
            ("cpu", "cpu_s", "CPU time", "CPU s per epoch"),
            ("wall", "wall_s", "time", "s per epoch"),
        ):
            values = {
                side: {n: run["usage"][what] / run["usage"]["clips"] * epoch for n, run in enumerate(of["runs"])}
                for side, of in sides.items()
            }
            tables.append(
                Table(
                    f"{task} {name}",
                    f"A shuffled epoch of 300-frame 1080p videos, {TASKS[task]}, {epoch} clips to 224x224: {words}",
                    unit,
                    paired_rows(values, OWN, describe),
                    baseline=OWN,
                    ratio=f"{words} per clip, by repeat",
                )
            )
        decoded = {side: of["runs"][0].get("pictures_per_picture") for side, of in sides.items()}
        tables.append(
            Table(
                f"{task} decoded",
                f"Pictures decoded for each picture of the dataset, {TASKS[task]}",
                "pictures decoded per picture",
                [
                    Row(**describe(side), value=Spread.of([each or results["peers_pictures_per_picture"]]))
                    for side, each in decoded.items()
                ],
            )
        )
        if results["budgets"]:
            rows = [
                Row(
                    f"{run['budget_mib']} MiB",
                    Spread.of([run["usage"]["cpu_s"]]),
                    own=True,
                    right=run["same"],
                    answers="same bytes" if run["same"] else "WRONG: other bytes",
                    note=f"{run['pictures_per_picture']:.2f} pictures decoded per picture",
                )
                for run in results["budgets"]
            ]
            words = f"framespool's epoch by memory of the clip cache, {TASKS[task]}: CPU time"
            tables.append(Table(f"{task} budgets", words, "CPU s per epoch", rows))
        versions |= {side: of["version"] for side, of in sides.items() if side == OWN or not side.startswith(OWN)}
        left_out |= {f"{side}, {task}": reason for side, reason in results["left_out"].items()}
    data = (
        "videos of 300 frames, a key frame every 250, batches of 8; peers are timed on a part of the epoch and scaled"
    )
    return Result(tables, versions, data, left_out)


def dataset_size(raw: dict[str, Any]) -> Result:
    tables, versions = [], {}
    by_name: dict[str, list[dict[str, Any]]] = {}
    for row in raw["rows"]:
        by_name.setdefault(row["name"], []).append(row)
    for name, rows in by_name.items():
        own = [row for row in rows if row["side"] in ("grouped", "full")]
        peers = [row for row in rows if row["side"] not in ("grouped", "full")]
        # The ratio at which peers were measured; their work does not depend on the size of the dataset.
        at = peers[0]["ratio"] if peers else own[-1]["ratio"]
        baseline = f"grouped, {at:g}"
        versions |= {row["side"] if row in peers else OWN: row["version"] for row in rows}
        base = next(row for row in own if row["side"] == "grouped" and row["ratio"] == at)
        values = {
            (f"{row['side']}, {row['ratio']:g}" if row in own else row["side"]): {
                n: run["cpu_ms_per_clip"] for n, run in enumerate(row["runs"])
            }
            for row in rows
        }
        by_label = dict(zip(values, rows, strict=True))

        def describe(
            label: str, by_label: dict[str, Any] = by_label, own: list[dict[str, Any]] = own
        ) -> dict[str, Any]:
            row = by_label[label]
            notes = [f"{row['peak_memory_bytes'] / MIB:.0f} MiB resident"]
            if row in own:
                notes.append(
                    f"next() {row['next_ms_p50']:.1f} / {row['next_ms_p95']:.1f} / {row['next_ms_p99']:.1f} ms"
                )
            if row["extraction_cpu_s_per_video"]:
                notes.append(
                    f"{row['disk_bytes_per_video'] / MIB:.1f} MiB and {row['extraction_cpu_s_per_video']:.1f} CPU s of "
                    "extraction per video"
                )
            return {
                "own": row in own,
                "right": not row["wrong"],
                "answers": f"WRONG {row['wrong']:.0f} frames" if row["wrong"] else "right",
                "note": "; ".join(notes),
            }

        words = f"{base['width']}x{base['height']}, GOP of {base['gop']}, {_clips_words(base)}"
        tables.append(
            Table(
                f"{name} cpu",
                f"Epochs by clips of the epoch / clips that fit into the clip cache, {words}: CPU time",
                "CPU ms per clip",
                paired_rows(values, baseline, describe),
                baseline=baseline,
                ratio="CPU time per clip, by repeat",
            )
        )
        decoded = []
        for row in own:
            mixing = f"mixing {row['mixing']:.2f}; " if row["side"] == "grouped" else ""
            decoded.append(
                Row(
                    f"{row['side']}, {row['ratio']:g}",
                    Spread.of([row["frames_decoded_per_clip"] / row["needed"]]),
                    own=True,
                    note=f"{mixing}{row['packets_per_clip'] / row['expected_packets_per_clip']:.2f} of the estimate",
                )
            )
        unit = "pictures decoded per picture needed"
        tables.append(Table(f"{name} decoded", f"Epochs by size, {words}: pictures decoded", unit, decoded))
    data = "links to 8 encodes of 300 frames; clips of 8 frames to 112x112, batches of 8, a cache of 256 clips"
    return Result(tables, versions, data)


def _clips_words(row: dict[str, Any]) -> str:
    clips = row["clips_per_video"]
    kind = "random clips of stride 4" if row["stride"] > 1 else "windows"
    ranks = f", rank 0 of {row['num_shards']}" if row["num_shards"] > 1 else ""
    return f"{clips} {kind} per video{ranks}" if clips > 1 else f"one random clip of stride 4 per video{ranks}"


def disk_cache(raw: dict[str, Any]) -> Result:
    tables, versions = [], {}
    for size in ("340x256", "1920x1080"):
        if size in raw:
            tables += _random_clips_by_side(raw[size])
            versions |= {OWN: raw[size]["version"]}
            versions |= {side: of[0]["version"] for side, of in raw[size]["runs"].items() if "version" in of[0]}
    if "validation" in raw:
        found = raw["validation"]
        values = {side: {n: run["cpu_ms"] for n, run in enumerate(own)} for side, own in found["runs"].items()}
        loader = {"own": True, "right": not found["frames_decoded"] and found["clips_read"] == found["clips"]}
        tables.append(
            Table(
                "validation",
                f"Epochs after the first of {found['videos']} clips that are the same in every epoch",
                "CPU ms per clip",
                paired_rows(values, "read and copy", lambda side: loader if side == "loader" else {}),
                baseline="read and copy",
                ratio="CPU time, by epoch",
            )
        )
    if "many" in raw:
        found = raw["many"]
        for name, what, words, unit in (
            ("many clips, seconds", "open_cpu_s", "CPU time to open it", "CPU s"),
            ("many clips, bytes", "memory_bytes", "memory", "bytes per clip"),
        ):
            per = found["clips"] if what == "memory_bytes" else 1
            empty = found["empty"][what]
            value = Spread.of((run[what] - empty) / per for run in found["runs"])
            title = f"A folder with {found['clips']:,} clips of another process: {words}"
            tables.append(Table(name, title, unit, [Row("ClipLoader", value, own=True)]))
    data = "links to 4 encodes of 300 frames, a GOP of 250; clips of 16 frames, stride 4, to 224x224, batches of 8"
    return Result(tables, versions, data)


def _random_clips_by_side(found: dict[str, Any]) -> list[Table]:
    """CPU time and size on disk of each side, and the decoded frames of the loaders."""
    runs = found["runs"]
    loaders = list(found["expected"])
    longest = max(map(int, loaders))

    def label(side: str) -> str:
        if side in loaders:
            return f"{OWN}, disk cache of {side} epochs" if int(side) else OWN
        return "JPEG frames" if side == "jpeg" else side

    def describe(side: str) -> dict[str, Any]:
        if side in loaders:
            frames = statistics.median(run["frames_decoded"] for run in runs[side])
            return {"own": True, "right": True, "answers": "same bytes", "note": f"{frames:.1f} frames decoded"}
        difference = runs[side][0]["difference"]
        return {"right": True, "answers": f"mean difference {difference:.2f}"}

    kept = {side: statistics.median(run.get("disk_bytes_per_video", 0) for run in of) for side, of in runs.items()}
    kept["jpeg"] = found["jpeg_bytes"]
    size = found["size"]
    words = f"One random clip of each of {found['videos']} videos per epoch, {size}"
    values = {label(side): {n: run["cpu_ms"] for n, run in enumerate(of)} for side, of in runs.items()}
    sides = {label(side): side for side in runs}
    baseline = label(str(longest))
    decoded = [
        Row(
            label(side),
            Spread.of(run["frames_decoded"] for run in runs[side]),
            own=True,
            note=f"{found['expected'][side][0]:.1f} expected",
        )
        for side in loaders
    ]
    disk = [Row(label(side), Spread.of([kept[side] / 1e6]), own=side in loaders) for side in runs if kept[side]]
    return [
        Table(
            f"{size} cpu",
            f"{words}: CPU time",
            "CPU ms per clip",
            paired_rows(values, baseline, lambda name: describe(sides[name])),
            baseline=baseline,
            ratio="CPU time per clip, by round",
        ),
        Table(f"{size} decoded", f"{words}: frames decoded", "frames decoded per clip", decoded),
        Table(f"{size} disk", f"{words}: size on disk", "MB per video, in addition to the video", disk),
    ]


def scaling(raw: dict[str, Any]) -> Result:
    tables = []
    if "threads" in raw:
        rows_by_name = raw["threads"]["rows"]
        same = raw["threads"]["same_bytes"]
        first = next(iter(rows_by_name))
        walls = {name: {n: run["wall_s"] for n, run in enumerate(row["runs"])} for name, row in rows_by_name.items()}
        answers = {"own": True, "right": same, "answers": "the same bytes" if same else "WRONG: different bytes"}
        tables.append(
            Table(
                "threads",
                "An epoch of shuffled windows by number of threads, and by processes that share nothing",
                "s per epoch",
                paired_rows(walls, first, lambda _: answers),
                baseline=first,
                ratio="time, by repeat",
            )
        )
    if raw.get("memory"):
        rows = [
            Row(
                "default" if row["budget_mib"] is None else f"{row['budget_mib']} MiB",
                Spread.of([row["peak_bytes"] / MIB]),
                own=True,
                note=f"clip store's peak {(row['store_peak_bytes'] or 0) / MIB:.0f} MiB",
            )
            for row in raw["memory"]
        ]
        tables.append(Table("memory", "Peak resident memory of an epoch by memory of the clip cache", "MiB", rows))
    if "tickets" in raw:
        for name, what, words, unit in (
            ("tickets, seconds", "to_make_s", "seconds to make it", "s"),
            ("tickets, bytes", "bytes_per_ticket", "memory per clip", "bytes per clip"),
        ):
            rows = [
                Row(
                    f"{row['videos']:,} entries, {row['clips'] // row['videos']:,} clips each",
                    Spread.of([row[what]]),
                    own=True,
                )
                for row in raw["tickets"]
            ]
            tables.append(Table(name, f"A loader over a million random clips: {words}", unit, rows))
    return Result(tables, raw.get("versions", {}), "videos of 300 frames at 1080p; windows of 16 frames")


def shards(raw: dict[str, Any]) -> Result:
    tables = []
    walls: dict[int, dict[str, dict[Any, float]]] = {}
    cpus: dict[int, dict[str, dict[Any, float]]] = {}
    versions = {}
    for row in raw["rows"]:
        side, count = row["side"], row["shards"]
        walls.setdefault(count, {})[side] = {n: run["wall_s"] for n, run in enumerate(row["runs"])}
        cpus.setdefault(count, {})[side] = {n: run["cpu_s"] for n, run in enumerate(row["runs"])}
        if side == OWN or not side.startswith(OWN):
            versions[side] = row["runs"][0]["version"]

    def describe(side: str) -> dict[str, Any]:
        label = {"label": "framespool, stick_to_shard"} if side == "framespool_stick" else {}
        if side.startswith(OWN):
            return label | {"own": True, "right": True, "answers": "each clip once, in equal parts"}
        return label | {"note": "timed on a part of the epoch and scaled"}

    for kind, by_count, words, unit in (("wall", walls, "time", "s"), ("cpu", cpus, "CPU time", "CPU s")):
        for count, values in by_count.items():
            tables.append(
                Table(
                    f"{count} shards {kind}",
                    f"An epoch over {count} process{'es' * (count > 1)} that share {raw['cores']} cores: {words}",
                    f"{unit} per epoch",
                    paired_rows(values, OWN, describe),
                    baseline=OWN if values.get(OWN) else None,
                    ratio=f"{words}, by repeat",
                )
            )
    data = f"{raw['videos']} videos of {raw['frames']} frames at 1080p, {raw['clips']} clips, {raw['task']}"
    return Result(tables, versions, data, raw["left_out"])
