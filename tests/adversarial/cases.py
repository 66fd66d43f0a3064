"""Cases by name: ``<seed>/<number>`` determines the base file, its mutation, and every random draw.

``intact/<base>`` is an unchanged base file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from adversarial import mutations
from adversarial.bases import TIMELESS, Base, bases

BASES = {base.name: base for base in bases()}
#: Number of attempts to draw a mutation that fits.
ATTEMPTS = 50


@dataclass
class Case:
    """One file with everything known about it.

    Attributes:
        name: ``<seed>/<number>``.
        base: the base file that it was created from.
        mutation: name of the mutation.
        note: description of the change.
        rule: see :mod:`mutations`.
        data: the file's bytes.
        others: further bases whose frames it may contain.
        suffix: suffix of the file name.
        same_frames_as: another file with the frames that it must have.
    """

    name: str
    base: Base
    mutation: str
    note: str
    rule: str
    data: bytes
    others: list[str] = field(default_factory=list)
    suffix: str = ""
    same_frames_as: bytes | None = None

    def __post_init__(self) -> None:
        self.suffix = self.suffix or Path(self.base.name).suffix

    @property
    def timed(self) -> bool:
        """Whether the container has presentation timestamps.

        ASF has one timestamp per packet; of a codec with B pictures, it is the decoding time. In program streams, most
        packets have none. Releases of FFmpeg continue a table of durations in different ways if its counts are wrong,
        and the ffmpeg program moves packets whose decoding times go back.
        """
        changed = self.mutation != "intact"
        if self.mutation == "flv_edited" and self.note.endswith("time"):
            return False
        if self.mutation == "table_number" and self.note.startswith("stts"):
            return False
        if self.mutation == "begun_late" and self.base.has_fields:
            return False
        estimated = (self.base.container, self.base.codec) == ("asf", "h264") or self.base.container == "ps" and changed
        return self.base.container not in TIMELESS and not estimated

    def __str__(self) -> str:
        return f"{self.name}: {self.base.name}, {self.mutation} ({self.note})"


def draw(name: str, folder: Path) -> Case:
    """Creates the case of this name.

    Args:
        name: ``<seed>/<number>``, or ``intact/<base>``.
        folder: folder of the bases.
    """
    seed, _, number = name.partition("/")
    if seed == "intact":
        return Case(name, BASES[number], seed, "", "same", (folder / number).read_bytes())
    rng = Random(name)
    for _ in range(ATTEMPTS):
        mutation = rng.choices(mutations.ALL, [mutation.weight for mutation in mutations.ALL])[0]
        base = rng.choice([base for base in BASES.values() if mutation.fits(base)])
        material = mutations.Material(base, (folder / base.name).read_bytes(), rng, folder, BASES)
        try:
            made, note = mutation.apply(material)
        except mutations.NotApplicable:
            continue
        return Case(
            name,
            base,
            mutation.name,
            note,
            material.rule or mutation.rule,
            made,
            material.others,
            material.suffix or "",
            material.same_frames_as,
        )
    raise RuntimeError(f"case {name}: nothing fits")
