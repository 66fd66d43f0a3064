"""Generates the tables of measured figures in README.md and docs/benchmarks.md from the newest records.

    benches/readme_table.py             writes them, between `<!-- measured:begin -->` and `<!-- measured:end -->`
    benches/readme_table.py --check     exits with code 1 if one of them differs from the records

Each figure comes from a record in benches/record and is shown with the record's date and machine. Only the standard
library is needed.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import plots
from suite import machine
from suite.published_tables import HEADLINES, PLOTS_MARK, README_ROWS, SENTENCES, Headline, Measured, Quoted
from suite.record import FOLDER, Found, Records

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- measured:begin -->", "<!-- measured:end -->"

#: Longer notes are only in the record.
LONGEST_NOTE = 25
COLUMNS = 120

#: The committed plot with a legend. The mark is invisible in the repository, where the other plots are not.
PLOTS_IN_DOCS = [
    f"![{plots.CHART_CAPTION}](benchmarks/{plots.CHART_FILE})",
    "",
    f"*{plots.CHART_CAPTION}.*",
    "",
    PLOTS_MARK,
    "",
]

README_HEADER = """\
| you load | framespool | fastest other loader | times faster | record |
| --- | --- | --- | --- | --- |"""

DOCS_HEADER = """\
| task | data | framespool | fastest peer with correct output | ratio | fastest peer | record |
| --- | --- | --- | --- | --- | --- | --- |"""


def number(value: float) -> str:
    """Three digits: the precision of a figure from a few repeats."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 10 or value < 0.001 else f"{value:.2f}" if value >= 1 else f"{value:.2g}"


def ratio_words(ratio: dict[str, Any]) -> str:
    """The median, and in brackets the bounds of the middle half, or of all, of the ratios."""
    middle = times(ratio["median"])
    return middle if ratio["low"] is None else f"{middle} ({times(ratio['low'])} to {times(ratio['high'])})"


def times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def machine_words(found: Found) -> str:
    return machine.in_words({**found.record["machine"], "python": None, "kernel": None})


class Notes:
    """The origin of the figures; the machines are named once, below the table, and by letters if there are several."""

    def __init__(self, links: str, machines: list[str]) -> None:
        self.links = links
        self.machines = machines

    def place(self, found: Found) -> str:
        words = machine_words(found)
        if words not in self.machines:
            self.machines.append(words)
        letter = f", machine {chr(ord('A') + self.machines.index(words))}" if len(self.machines) > 1 else ""
        quiet = {True: "", False: ", not quiet", None: ", load not noted"}[found.record["load"]["quiet"]]
        shown = f"[{found.record['date']}]({self.links}benches/record/{found.path.name})"
        return f"{shown}{letter}{quiet}"

    def machines_in_words(self) -> str:
        if len(self.machines) == 1:
            return f"Machine: {self.machines[0]}."
        listed = "; ".join(f"{chr(ord('A') + n)}: {words}" for n, words in enumerate(self.machines))
        return f"Machines: {listed}."


def line(headline: Headline, found: Found, notes: Notes) -> str | None:
    """A row: framespool's figure, the fastest peer with correct output, and the fastest of all peers."""
    base = found.baseline
    peers = fastest_first(found)
    correct = [row for row in peers if row["right"]]
    if base is None or not correct:
        return None
    fastest = peers[0]
    ratio = times(fastest["ratio"]["median"])
    wrong = re.sub(r"^no answer for (\d+) files?", r"no output for \1 of the files", fastest["answers"])
    wrong = wrong.replace("WRONG", "wrong output for")
    cells = [
        f"{headline.task}; {found.table['unit']}",
        headline.data,
        number(base["value"]["median"]),
        peer(correct[0]),
        ratio_words(correct[0]["ratio"]),
        "the same" if fastest is correct[0] else f"{peer(fastest)}, ratio {ratio}, {wrong}",
        notes.place(found),
    ]
    return f"| {' | '.join(cells)} |"


def fastest_first(found: Found) -> list[dict[str, Any]]:
    """The peers whose output was checked."""
    return sorted(
        (row for row in found.table["rows"] if not row["own"] and row["right"] is not None and row["ratio"]),
        key=lambda row: row["ratio"]["median"],
        reverse=found.table["better"] != "lower",
    )


def peer(row: dict[str, Any]) -> str:
    """Name and figure of a peer, with its note if that is short."""
    note = row["note"].partition(":")[0]
    note = f" ({note})" if 0 < len(note) <= LONGEST_NOTE else ""
    return f"{row['label']}{note}: {number(row['value']['median'])}"


def sentence(words: str, label: str, found: Found, notes: Notes) -> str | None:
    row = next((row for row in found.table["rows"] if row["label"] == label), None)
    if row is None:
        return None
    ratio = ratio_words(row["ratio"]) if row["ratio"] else ""
    text = words.format(value=number(row["value"]["median"]), ratio=ratio)
    return wrapped(f"- {text[0].upper()}{text[1:]} ({notes.place(found)}).")


def wrapped(text: str) -> str:
    """A paragraph or a list item, wrapped at the columns that the Markdown files keep to."""
    indent = "  " if text.startswith("- ") else ""
    return textwrap.fill(text, COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def readme_block(records: Records) -> str:
    """README.md's text between the two marker lines: few rows, and what they have in common."""
    notes = Notes("", [])
    rows = [
        quoted_row(each) if isinstance(each, Quoted) else measured_row(each, records, notes) for each in README_ROWS
    ]
    legend = wrapped(
        "Figures are medians, on the CPU of a machine with two cores unless the row names a GPU. The other loaders "
        "ran alternately with framespool on the same machine, and their output was checked. "
        'A loader marked "aliases" resizes without antialiasing, which is less work. '
        "[Benchmarks](docs/benchmarks.md) has the data, the method, all results, and "
        "[where framespool is not ahead](docs/benchmarks.md#where-framespool-is-not-ahead)."
    )
    return "\n".join(["", README_HEADER, *rows, "", legend, ""])


def measured_row(each: Measured, records: Records, notes: Notes) -> str:
    found = records.newest(each.bench, each.table)
    if found is None or found.baseline is None:
        raise ValueError(f"README.md: no record of {each.bench} has the table {each.table}")
    peers = fastest_first(found)
    correct = next(row for row in peers if row["right"])
    unit = found.table["unit"]
    own = f"{number(found.baseline['value']['median'])} {unit}"
    shown = f"[{found.record['date']}]({notes.links}benches/record/{found.path.name})"
    return f"| {each.question} | {own} | {peer(correct)} | {times(correct['ratio']['median'])} | {shown} |"


def quoted_row(each: Quoted) -> str:
    own, other, ratio = (float(quote) for quote in each.quotes)
    shown = f"[{Path(each.record).name[:10]}]({(FOLDER / each.record).relative_to(ROOT)})"
    return f"| {each.question} | {number(own)} {each.unit} | {each.peer}: {number(other)} | {times(ratio)} | {shown} |"


def docs_block(records: Records) -> str:
    """The same of docs/benchmarks.md: all tables, sentences and the chart."""
    origins = [found for each in (*HEADLINES, *SENTENCES) if (found := records.newest(each.bench, each.table))]
    notes = Notes("../", list(dict.fromkeys(map(machine_words, origins))))
    rows = []
    for headline in HEADLINES:
        found = records.newest(headline.bench, headline.table)
        rows += [row] if found and (row := line(headline, found, notes)) else []
    sentences = []
    for each in SENTENCES:
        found = records.newest(each.bench, each.table)
        sentences += [row] if found and (row := sentence(each.words, each.label, found, notes)) else []
    legend = wrapped(
        "Figures are medians of the CPU time of the whole process, unless the row has another unit. The ratio is the "
        "peer's figure divided by framespool's; below 1 the peer is faster. In brackets is the middle half of the "
        "ratios of all repeats, or their full range, if the record has it. The fastest peer is the fastest of all "
        "peers, including those with wrong output. `cache=` limits the memory of framespool's clip cache; peers have "
        "no such cache. [Method](#method) describes the measurement. "
        f"{notes.machines_in_words()}"
    )
    return "\n".join(["", DOCS_HEADER, *rows, "", *sentences, "", legend, "", *PLOTS_IN_DOCS])


#: What stands between the marker lines of each file.
FILES = {"README.md": readme_block, "docs/benchmarks.md": docs_block}


def between(text: str, name: str) -> tuple[int, int]:
    """The offsets of the block in a file. Raises ValueError unless the file has exactly one."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"{name}: needs the line {BEGIN} once, and {END} once after it")
    return text.index(BEGIN) + len(BEGIN), text.index(END)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; report the files that differ")
    parser.add_argument("--print", action="store_true", help="print README's block instead")
    parser.add_argument("--records", type=Path, help="another folder of records")
    parser.add_argument("files", nargs="*", help=f"of {', '.join(FILES)} (default: all)")
    arguments = parser.parse_args()
    records = Records(arguments.records) if arguments.records else Records()
    if arguments.print:
        print(readme_block(records))
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
        wanted = text[:begin] + FILES[name](records) + text[end:]
        if wanted == text:
            continue
        if arguments.check:
            differ += 1
            print(f"{name} differs from the records: run benches/readme_table.py", file=sys.stderr)
        else:
            path.write_text(wanted, encoding="utf-8")
            print(f"written: {name}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
