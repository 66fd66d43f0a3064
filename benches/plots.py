"""Plots the newest records: docs/benchmarks/NAME.svg.

    benches/peers/.venv/bin/python benches/plots.py                 plots whose record has changed
    benches/peers/.venv/bin/python benches/plots.py --only images --png target/plots
    benches/plots.py --check                                        exits with 1 if one is missing or out of date

matplotlib is in benches/peers/requirements.txt. A plot contains a checksum of its figures.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite import machine
from suite.benches import BENCHES
from suite.environments import ROOT
from suite.published_tables import PLOTS
from suite.record import FOLDER, Found, Records

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOCS = ROOT / "docs" / "benchmarks"
# Readable on white and on dark pages: a contrast of 4 : 1 with either.
TEXT = "#7c7c7c"
# Colors of Okabe and Ito, distinguishable for color-blind readers; wrong output is also hatched.
OWN, PEER, WRONG = "#0a7fc2", "#b4b4b4", "#d55e00"
WIDTH_INCHES = 8.0
ROW_INCHES = 0.24
# Of a panel's title and axis.
PANEL_INCHES = 0.95
LONGEST_TITLE = 78


@dataclass(frozen=True)
class Picture:
    """A bench's tables in one plot, each from the newest record that has it."""

    bench: str
    panels: list[Found]

    @property
    def target(self) -> Path:
        """The plot's file in the documentation."""
        return DOCS / f"{self.bench.replace('_', '-')}.svg"

    @property
    def checksum(self) -> str:
        shown = [[each.path.name, each.table, each.record["machine"], each.record["load"]] for each in self.panels]
        return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()

    def is_drawn(self) -> bool:
        return self.target.exists() and self.checksum in self.target.read_text(encoding="utf-8")


def pictures(records: Records) -> list[Picture]:
    made = []
    for bench, tables in PLOTS.items():
        panels = [found for table in tables if (found := records.newest(bench, table))]
        made += [Picture(bench, panels)] if panels else []
    return made


def folded(text: str, width: int = LONGEST_TITLE) -> str:
    """Wraps at this number of characters."""
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + len(word) < width:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return "\n".join(lines)


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
    return words + (f"  (x {ratio['median']:.3g})" if ratio else "")


def in_order(found: Found) -> list[dict[str, Any]]:
    """framespool's rows in their order, then the peers', the best first, then wrong ones."""
    sign = 1 if found.table["better"] == "lower" else -1

    def place(row: dict[str, Any]) -> tuple[bool, bool, float]:
        return row["right"] is False, not row["own"], 0.0 if row["own"] else sign * row["value"]["median"]

    return sorted(found.table["rows"], key=place)


def slim(svg: str) -> str:
    """Reduces the size to a third: common attributes are written once, with two decimals."""
    styles: dict[str, str] = {}

    def classed(match: re.Match[str]) -> str:
        return f'class="{styles.setdefault(match[1], f"s{len(styles)}")}"'

    svg = re.sub(r' style="([^"]*)"', lambda match: " " + classed(match), svg)
    # Only in tags: the text between them contains figures.
    svg = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\d+\.\d\d)\d+", r"\1", tag[0]), svg)
    svg = re.sub(r"\n\s*", "\n", svg)
    rules = "".join(f".{name}{{{style}}}" for style, name in styles.items())
    return svg.replace("</style>", f"{rules}</style>", 1)


def draw_panel(axes: Axes, found: Found) -> None:
    rows = in_order(found)
    places = range(len(rows))
    for place, row in zip(places, rows, strict=True):
        wrong = row["right"] is False
        color = WRONG if wrong else OWN if row["own"] else PEER
        value = row["value"]
        axes.barh(place, value["median"], 0.72, color=color, hatch="////" if wrong else None, edgecolor="none")
        most = value["median"]
        if value["low"] is not None:
            apart = [[value["median"] - value["low"]], [value["high"] - value["median"]]]
            axes.errorbar(value["median"], place, xerr=apart, color=TEXT, capsize=2.5, linewidth=1.4)
            most = value["high"]
        axes.annotate(
            value_words(row), (most, place), (5, 0), textcoords="offset points", va="center", color=TEXT, fontsize=8
        )
    highest = max(row["value"]["high"] or row["value"]["median"] for row in rows)
    axes.set_xlim(0, highest * 1.32)
    axes.set_yticks(list(places), [row["label"] for row in rows], fontsize=8)
    axes.invert_yaxis()
    better = {"lower": "lower is better", "higher": "higher is better"}[found.table["better"]]
    spreads = {row["value"]["spread"] for row in rows} - {None}
    lines = {"quartiles": "lines: the middle half", "range": "lines: minimum to maximum"}
    drawn = "".join(f"; {lines[spread]}" for spread in sorted(spreads))
    drawn += "; hatched: wrong output, or none" if any(row["right"] is False for row in rows) else ""
    axes.set_xlabel(f"{found.table['unit']}, {better}{drawn}", fontsize=8, color=TEXT)
    title = found.table["title"][0].upper() + found.table["title"][1:]
    axes.set_title(f"{folded(title)}\n{caption(found)}", fontsize=9, color=TEXT, loc="left", x=0.0)
    axes.tick_params(colors=TEXT, labelsize=8, length=2)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "left")
        spine.set_color(TEXT)


def draw(picture: Picture, png: Path | None) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    # The same bytes for the same figures; text stays text.
    matplotlib.rcParams.update({"svg.hashsalt": picture.bench, "svg.fonttype": "none", "font.family": "sans-serif"})
    heights = [PANEL_INCHES + ROW_INCHES * len(found.table["rows"]) for found in picture.panels]
    figure, panels = pyplot.subplots(
        len(heights),
        1,
        figsize=(WIDTH_INCHES, sum(heights)),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    for axes, found in zip(panels[:, 0], picture.panels, strict=True):
        axes.patch.set_alpha(0)
        draw_panel(axes, found)
    picture.target.parent.mkdir(parents=True, exist_ok=True)
    described = {"Date": None, "Title": BENCHES[picture.bench].title, "Description": f"figures: {picture.checksum}"}
    written = io.StringIO()
    figure.savefig(written, format="svg", transparent=True, metadata=described)
    picture.target.write_text(slim(written.getvalue()), encoding="utf-8")
    if png:
        png.mkdir(parents=True, exist_ok=True)
        for name, color in (("light", "white"), ("dark", "#0d1117")):
            figure.savefig(png / f"{picture.bench}-{name}.png", dpi=90, facecolor=color)
    pyplot.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="draw nothing; report missing or outdated plots")
    parser.add_argument("--only", choices=PLOTS, help="this bench's alone")
    parser.add_argument("--records", type=Path, default=FOLDER, help="another folder of records")
    parser.add_argument("--again", action="store_true", help="also plots that are up to date")
    parser.add_argument("--png", type=Path, help="also write PNGs, on light and on dark, to this folder")
    arguments = parser.parse_args()
    wanted = [each for each in pictures(Records(arguments.records)) if arguments.only in (None, each.bench)]
    stale = [picture for picture in wanted if not picture.is_drawn()]
    if arguments.check:
        for picture in stale:
            print(f"{picture.target.name} does not show the newest figures: run benches/plots.py", file=sys.stderr)
        return 1 if stale else 0
    for picture in wanted if arguments.again or arguments.png else stale:
        draw(picture, arguments.png)
        print(f"drawn: {picture.target.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
