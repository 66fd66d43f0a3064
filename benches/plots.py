"""Plots the newest records as SVG.

    benches/plots.py                   draws README.md's chart, the only committed one, into docs/benchmarks
    benches/plots.py --out FOLDER      draws all plots into a folder, to look at them

The build of the documentation draws the plots (scripts/docs_hooks.py). Only the standard library is needed. The same
records give the same bytes.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite import machine
from suite.benches import BENCHES
from suite.environments import ROOT
from suite.published_tables import PLOTS, README_CHART
from suite.record import Found, Records
from suite.svg import HATCH, Drawing

DOCS = ROOT / "docs" / "benchmarks"
# Readable on white and on dark pages: a contrast of 4 : 1 with either.
TEXT = "#7c7c7c"
# Colors of Okabe and Ito, distinguishable for color-blind readers; wrong output is also hatched.
OWN, PEER, WRONG = "#0a7fc2", "#b4b4b4", "#d55e00"
WIDTH = 768
#: Heights of a row, of a line of text, and between two panels.
ROW, LINE, GAP = 22, 16, 24
#: Width of a letter of the labels, in the widest of the usual fonts.
LETTER = 6.6
LONGEST_TITLE = 110
CHART_FILE = "one-random-clip.svg"
#: Names of the chart for readers who do not know the bench.
CHART_LABELS = {"JPEG frames": "JPEG files of all frames", "spdl": "SPDL"}
CHART_CAPTION = "CPU milliseconds per clip; one random clip of each video per epoch"


@dataclass(frozen=True)
class Picture:
    """A bench's tables in one plot, each from the newest record that has it."""

    bench: str
    panels: list[Found]

    @property
    def file_name(self) -> str:
        return f"{self.bench.replace('_', '-')}.svg"


def pictures(records: Records) -> list[Picture]:
    made = []
    for bench, tables in PLOTS.items():
        panels = [found for table in tables if (found := records.newest(bench, table))]
        made += [Picture(bench, panels)] if panels else []
    return made


def caption(found: Found) -> str:
    record = found.record
    quiet = {True: "", False: ", not quiet", None: ""}[record["load"]["quiet"]]
    return f"{record['date']}, {machine.in_words({**record['machine'], 'python': None, 'kernel': None})}{quiet}"


def value_words(row: dict[str, Any]) -> str:
    value = row["value"]["median"]
    words = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    ratio = row["ratio"]
    if row["right"] is False:
        return f"{words}, {row['answers']}"
    return words + (f" (x {ratio['median']:.3g})" if ratio else "")


def in_order(found: Found) -> list[dict[str, Any]]:
    """framespool's rows in their order, then the peers', the best first, then wrong ones."""
    sign = 1 if found.table["better"] == "lower" else -1

    def place(row: dict[str, Any]) -> tuple[bool, bool, float]:
        return row["right"] is False, not row["own"], 0.0 if row["own"] else sign * row["value"]["median"]

    return sorted(found.table["rows"], key=place)


def draw_chart(records: Records) -> str:
    """README.md's chart: bars with names and values, the longest first."""
    found = records.newest(*README_CHART)
    if found is None:
        raise ValueError(f"no record has the table {README_CHART}")
    rows = sorted(found.table["rows"], key=lambda row: -row["value"]["median"])
    labels = [CHART_LABELS.get(row["label"], row["label"]) for row in rows]
    left, height, size = 8.2 * max(map(len, labels)) + 14, 30, 14
    scale = (WIDTH - left - 60) / rows[0]["value"]["median"]
    drawing = Drawing(WIDTH, height * len(rows), CHART_CAPTION, background=None)
    for number, (label, row) in enumerate(zip(labels, rows, strict=True)):
        top, length = height * number, scale * row["value"]["median"]
        drawing.text(left - 8, top + 20, label, size=size, color=TEXT, at="end")
        drawing.box(left, top + 4, length, height - 8, OWN if row["own"] else PEER)
        drawing.text(left + length + 8, top + 20, f"{row['value']['median']:.3g}", size=size, color=TEXT)
    return str(drawing)


def draw(picture: Picture) -> str:
    """The plot as SVG: a panel for each table, with a bar for each row."""
    rows = [row for found in picture.panels for row in found.table["rows"]]
    left = LETTER * max(len(row["label"]) for row in rows) + 14
    names = [found.table["title"] for found in picture.panels]
    titles = [textwrap.wrap(name[0].upper() + name[1:], LONGEST_TITLE) for name in names]
    heights = [
        LINE * (len(title) + 2) + ROW * len(found.table["rows"]) + GAP
        for title, found in zip(titles, picture.panels, strict=True)
    ]
    drawing = Drawing(WIDTH, sum(heights), BENCHES[picture.bench].title, background=None)
    if any(row["right"] is False for row in rows):
        drawing.hatch(WRONG)
    top = 0.0
    for title, found, height in zip(titles, picture.panels, heights, strict=True):
        for number, line in enumerate([*title, caption(found)]):
            drawing.text(4, top + LINE * (number + 1), line, size=12, color=TEXT)
        draw_bars(drawing, found, left, top + LINE * (len(title) + 1) + 6)
        top += height
    return str(drawing)


def draw_bars(drawing: Drawing, found: Found, left: float, top: float) -> None:
    """A bar for each row with its value, a line for its spread, and the axis."""
    rows = in_order(found)
    # Each bar must fit with its words.
    scale = min(
        (WIDTH - left - LETTER * len(value_words(row)) - 8) / (row["value"]["high"] or row["value"]["median"] or 1)
        for row in rows
    )
    for number, row in enumerate(rows):
        value, y = row["value"], top + ROW * number
        middle = y + ROW / 2
        color = HATCH if row["right"] is False else OWN if row["own"] else PEER
        drawing.text(left - 7, middle + 4, row["label"], size=11, color=TEXT, at="end")
        drawing.box(left, y + 3, scale * value["median"], ROW - 6, color)
        end = left + scale * value["median"]
        if value["low"] is not None:
            drawing.spread(left + scale * value["low"], left + scale * value["high"], middle, TEXT)
            end = left + scale * value["high"]
        drawing.text(end + 6, middle + 4, value_words(row), size=11, color=TEXT)
    bottom = top + ROW * len(rows)
    drawing.line(left, top, left, bottom, TEXT)
    better = {"lower": "lower is better", "higher": "higher is better"}[found.table["better"]]
    lines = {"quartiles": "lines: the middle half", "range": "lines: minimum to maximum"}
    legend = "".join(f"; {lines[spread]}" for spread in sorted({row["value"]["spread"] for row in rows} - {None}))
    legend += "; hatched: wrong output, or none" if any(row["right"] is False for row in rows) else ""
    drawing.text(left, bottom + 15, f"{found.table['unit']}, {better}{legend}", size=11, color=TEXT)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="draw all plots, into this folder")
    arguments = parser.parse_args()
    folder = arguments.out or DOCS
    folder.mkdir(parents=True, exist_ok=True)
    records = Records()
    drawn = {picture.file_name: draw(picture) for picture in pictures(records)} if arguments.out else {}
    for name, text in {CHART_FILE: draw_chart(records), **drawn}.items():
        (folder / name).write_text(text, encoding="utf-8")
        print(f"drawn: {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
