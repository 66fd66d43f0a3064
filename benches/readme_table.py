"""The tables of measured figures in README.md and docs/benchmarks.md, made from the newest records.

    benches/readme_table.py             writes them, between `<!-- measured:begin -->` and `<!-- measured:end -->`
    benches/readme_table.py --check     ends with 1 if one of them is not what the records say

A figure stands there only if a record in benches/record has it, with that record's date and machine. Only the standard
library is needed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from suite import machine
from suite.benches import BENCHES
from suite.published_tables import FACTS, HEADLINES, PLOTS
from suite.record import Found, Records

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- measured:begin -->", "<!-- measured:end -->"
#: Each file, whether it has only the headlines marked for README, and what its links to records begin with.
FILES = {"README.md": (True, ""), "docs/benchmarks.md": (False, "../")}

#: Longer ones stand in the record alone.
LONGEST_NOTE = 25

HEADER = """\
| measured | framespool | nearest peer that is right | times as much | all such peers | measured on |
| --- | --- | --- | --- | --- | --- |"""


def number(value: float) -> str:
    """Three digits: what a figure taken from a few repeats is good for."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 10 or value < 0.001 else f"{value:.2f}" if value >= 1 else f"{value:.2g}"


def ratio_words(ratio: dict[str, Any]) -> str:
    """The median, and in brackets between what the middle half, or all, of the ratios lie."""
    middle = times(ratio["median"])
    return middle if ratio["low"] is None else f"{middle} ({times(ratio['low'])} to {times(ratio['high'])})"


def times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


class Notes:
    """Where figures come from: the machines are named once, below the table."""

    def __init__(self, links: str) -> None:
        self.links = links
        self.machines: list[str] = []

    def place(self, found: Found) -> str:
        words = machine.in_words({**found.record["machine"], "python": None, "kernel": None})
        if words not in self.machines:
            self.machines.append(words)
        letter = chr(ord("A") + self.machines.index(words))
        quiet = {True: "", False: ", not quiet", None: ", load not noted"}[found.record["load"]["quiet"]]
        shown = f"[{found.record['date']}]({self.links}benches/record/{found.path.name})"
        return f"{shown}, machine {letter}{quiet}"

    def machines_in_words(self) -> str:
        return "; ".join(f"{chr(ord('A') + n)}: {words}" for n, words in enumerate(self.machines))


def line(words: str, found: Found, notes: Notes) -> str | None:
    """A row: framespool's figure, and those peers whose answers were right, the nearest first."""
    base = found.baseline
    peers = [row for row in found.table["rows"] if not row["own"] and row["right"] and row["ratio"]]
    if base is None or not peers:
        return None
    lower = found.table["better"] == "lower"
    peers.sort(key=lambda row: row["ratio"]["median"], reverse=not lower)
    nearest, last = peers[0], peers[-1]
    note = nearest["note"].partition(":")[0]
    note = f" ({note})" if 0 < len(note) <= LONGEST_NOTE else ""
    ratios = f"{times(nearest['ratio']['median'])} to {times(last['ratio']['median'])}, {len(peers)}"
    cells = [
        f"{words}, {found.table['unit']}",
        number(base["value"]["median"]),
        f"{nearest['label']}{note}: {number(nearest['value']['median'])}",
        ratio_words(nearest["ratio"]),
        ratios if len(peers) > 1 else "",
        notes.place(found),
    ]
    return f"| {' | '.join(cells)} |"


def fact(words: str, label: str, found: Found, notes: Notes) -> str | None:
    row = next((row for row in found.table["rows"] if row["label"] == label), None)
    if row is None:
        return None
    ratio = ratio_words(row["ratio"]) if row["ratio"] else ""
    sentence = words.format(value=number(row["value"]["median"]), ratio=ratio)
    return f"- {sentence[0].upper()}{sentence[1:]} ({notes.place(found)})."


def block(records: Records, short: bool, links: str) -> str:
    """What stands between the two lines."""
    notes = Notes(links)
    rows = []
    for headline in HEADLINES:
        found = records.newest(headline.bench, headline.table)
        if found and (headline.readme or not short):
            rows += [row] if (row := line(headline.words, found, notes)) else []
    facts = []
    for each in FACTS:
        found = records.newest(each.bench, each.table)
        if found and (each.readme or not short):
            facts += [row] if (row := fact(each.words, each.label, found, notes)) else []
    told = (
        "CPU time of the whole process, medians; answers are checked before times count, sides take turns. "
        "“Times as much”: the peer's figure divided by framespool's, the median over pairs measured side by side (in "
        "brackets the middle half or the range, where the record has them); below 1 the peer is ahead. Peers that gave "
        f"wrong answers are left out. Machines: {notes.machines_in_words()}."
    )
    return "\n".join(["", HEADER, *rows, "", *facts, "", told, "", *([] if short else shown(records))])


def shown(records: Records) -> list[str]:
    """The pictures of plots.py, with what is to be known of them."""
    lines = [
        "Lines at the bars are the middle half of the values, or all of them where there are few; some older records",
        "have medians alone. Blue is framespool, gray a peer, hatched a peer that gave wrong answers or none.",
        "",
    ]
    for bench, tables in PLOTS.items():
        if any(records.newest(bench, table) for table in tables):
            lines += [f"![{BENCHES[bench].title}](benchmarks/{bench.replace('_', '-')}.svg)", ""]
    return lines


def between(text: str, name: str) -> tuple[int, int]:
    """Where the block of a file begins and ends. Raises ValueError if it has none, or more than one."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"{name}: needs the line {BEGIN} once, and {END} once after it")
    return text.index(BEGIN) + len(BEGIN), text.index(END)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; say which file differs")
    parser.add_argument("--print", action="store_true", help="print README's block instead")
    parser.add_argument("--records", type=Path, help="another folder of records")
    parser.add_argument("files", nargs="*", help=f"of {', '.join(FILES)} (default: all)")
    arguments = parser.parse_args()
    records = Records(arguments.records) if arguments.records else Records()
    if arguments.print:
        print(block(records, *FILES["README.md"]))
        return 0
    differ = 0
    for name in arguments.files or FILES:
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        try:
            begin, end = between(text, name)
        except ValueError as error:
            print(error, file=sys.stderr)
            differ += 1
            continue
        wanted = text[:begin] + block(records, *FILES[name]) + text[end:]
        if wanted == text:
            continue
        if arguments.check:
            differ += 1
            print(f"{name} is not what the records say: run benches/readme_table.py", file=sys.stderr)
        else:
            path.write_text(wanted, encoding="utf-8")
            print(f"written: {name}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
