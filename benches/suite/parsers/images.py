"""images/run.py and pixels/run.py."""

from __future__ import annotations

from typing import Any

from suite.record import Result, Row, Spread, Table, paired, paired_rows

OWN = "framespool"
# Descriptions of the image sets, for readers of a plot.
SETS = {"imagenet": "of ImageNet's mean size", "photos": "photographs of 0.6 megapixels"}


def images(raw: dict[str, Any]) -> Result:
    tables = []
    for part in raw["tables"]:
        table, lines = part["table"], part["lines"]
        if not lines:
            continue
        task, shards = table["task"], table["shards"]
        name = f"{task} {table['pictures']}" + (f", {table['threads']} x {shards}" if task == "square" else "")
        words = raw.get("tasks", {}).get(task, task)
        threads = f"{table['threads']} thread{'s' * (table['threads'] > 1)}"
        where = threads + (f" in each of {shards} processes" if shards > 1 else "")
        by_label = {line["label"]: line for line in lines}
        own = next((label for label in by_label if label == OWN), None)

        def describe(label: str, task: str = task, by_label: dict[str, Any] = by_label) -> dict[str, Any]:
            # A line of a DataLoader includes its number of workers; its verification is stored under the entry's name.
            plain = by_label[label].get("entry") or label
            checks = raw["answers"].get(f"{task} {plain}", {})
            return {
                "own": label.startswith(OWN),
                "right": not any(each["wrong"] for each in checks.values()) if checks else None,
                "answers": "; ".join(each["text"] for each in checks.values()),
                "note": by_label[label].get("note", ""),
            }

        for kind, what, unit, better in (
            ("cpu", "cpu_ms", "CPU ms per image", "lower"),
            ("rate", "images_per_s", "images/s", "higher"),
        ):
            values = {
                label: {n: turn[what] for n, turn in enumerate(line["turns"])} for label, line in by_label.items()
            }
            tables.append(
                Table(
                    f"{name} {kind}",
                    f"JPEG, {SETS.get(table['pictures'], table['pictures'])}: {words}; {where}",
                    unit,
                    paired_rows(values, own or "", describe),
                    better=better,
                    baseline=own,
                    ratio="CPU time, by round" if kind == "cpu" else "images/s, by round",
                )
            )
    data = "; ".join(f"{name}: {properties}" for name, properties in raw.get("pictures", {}).items())
    # Each states its own name: "torchvision 0.29.2, torch 2.15.0".
    parts = [part.partition(" ") for versions in raw["versions"].values() for part in versions.split(", ")]
    return Result(tables, {name: version for name, _, version in parts}, data, raw["left_out"])


def pixels(raw: dict[str, Any]) -> Result:
    tables = []
    for group, results in raw["groups"].items():
        values: dict[str, dict[Any, float]] = {label: {} for label in results["lines"]}
        for sample in raw["samples"]:
            if sample["group"] == group and sample["label"] in values:
                values[sample["label"]][sample["round"]] = sample["cpu_ms"]
        entries = raw.get("entries", {}).get(group, {})
        first = next(iter(entries or values))
        base = values.get(first, {})
        rows = []
        for label, of in values.items():
            entry = entries.get(label, {})
            check = raw["checks"].get(entry.get("key", ""), {})
            rows.append(
                Row(
                    label,
                    Spread.of(of.values()),
                    own=label.startswith(OWN),
                    ratio=paired(of, base),
                    right=not check["wrong"] if "wrong" in check else None,
                    answers=f"off by {check['mean']:.2f} (max {check['max']:.0f})" if "mean" in check else "",
                    note=entry.get("note", ""),
                )
            )
        tables.append(
            Table(
                group,
                f"{results['title']}; one thread",
                "CPU ms per frame",
                rows,
                baseline=first if base else None,
                ratio="CPU time, by round",
            )
        )
    wrong = {key: f"WRONG: off by {check['mean']:.2f}" for key, check in raw["checks"].items() if check.get("wrong")}
    failed = {key: check["failure"] for key, check in raw["checks"].items() if check.get("failure")}
    data = f"16 frames of {raw['video']}, {raw['rounds']} rounds, seed {raw['seed']}"
    return Result(tables, raw["versions"], data, raw.get("left_out", {}) | wrong | failed)
