"""remote.py, ray_throughput.py, start_up.py: framespool compared with itself and with the limits of its platform."""

from __future__ import annotations

from typing import Any

from suite.record import Result, Row, Spread, Table, paired_rows


def remote(raw: dict[str, Any]) -> Result:
    tables = []
    for row in raw["rows"]:
        sides = {
            "from this disk": row["local_clip_samples"],
            "by URL, read before": row["warm_clip_samples"],
            "by URL, tables alone read": row["cold_clip_samples"],
        }
        values = {side: {n: seconds * 1e3 for n, seconds in enumerate(of)} for side, of in sides.items()}
        asked = f"{row['clip_requests']:.1f} requests and {row['clip_bytes'] / 1e6:.2f} MB a clip"
        notes = {
            "by URL, tables alone read": f"{asked}; {row['index_requests']} requests and "
            f"{row['index_bytes'] / 1e6:.2f} MB for the index, of {row['size'] / 1e6:.1f} MB"
        }
        tables.append(
            Table(
                f"{row['file']}, {row['latency_ms']:g} ms",
                f"A random clip of 16 frames, stride 4, of {row['file']}, {row['latency_ms']:g} ms before each answer",
                "ms per clip",
                paired_rows(
                    values,
                    "from this disk",
                    lambda side, notes=notes: {
                        "own": True,
                        "right": True,
                        "answers": "the file's frames",
                        "note": notes.get(side, ""),
                    },
                ),
                baseline="from this disk",
                ratio="time, by clip",
            )
        )
    data = f"{len({row['file'] for row in raw['rows']})} files, by a server of range requests on the same machine"
    return Result(tables, raw["versions"], data)


def ray(raw: dict[str, Any]) -> Result:
    tables = []
    for cores in dict.fromkeys(row["cores"] for row in raw["rows"]):
        rows = {row["side"]: row for row in raw["rows"] if row["cores"] == cores}
        labels = {"local": "framespool, local", "ray": "framespool.ray", "store alone": "the object store alone"}
        values = {
            labels[side]: {n: 1e3 * seconds / row["clips"] for n, seconds in enumerate(row["seconds"])}
            for side, row in rows.items()
        }
        right = {"own": True, "right": True, "answers": "the same batches, by hash"}
        store = {"own": True, "note": "batches that are there already: what Ray could carry"}
        tables.append(
            Table(
                f"{cores} cores",
                f"Batches from framespool.ray on one machine, {cores} decoding worker{'s' * (cores > 1)} of one core",
                "ms per clip",
                paired_rows(values, labels["local"], lambda label: store if "store" in label else right),  # noqa: B023
                baseline=labels["local"],
                ratio="time, by repeat",
            )
        )
    return Result(tables, raw["versions"], raw["data"])


def start_up(raw: dict[str, Any]) -> Result:
    entries = raw["entries"]
    right = {"own": True, "right": True, "answers": "entries drawn from the table are those of the list"}
    seconds = [Row(what, Spread.of([took]), **right) for what, took in raw["seconds"].items()]
    sizes = [Row(what, Spread.of([size]), **right) for what, size in raw["bytes_per_entry"].items()]
    tables = [
        Table("seconds", f"A dataset of {entries:,} entries before its first clip: time", "s", seconds),
        Table("bytes", f"A dataset of {entries:,} entries: memory", "bytes per entry", sizes),
    ]
    return Result(tables, raw["versions"], f"{entries:,} entries, a list of {raw['list_bytes'] / 1e6:,.0f} MB")
