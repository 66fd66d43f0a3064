"""What a mutation of a base file is, its input, and the register of all mutations."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import make
import streams

from adversarial.bases import Base

#: The bitstream filter to start codes.
ANNEXB = {"h264": "-bsf:v h264_mp4toannexb", "hevc": "-bsf:v hevc_mp4toannexb"}


class NotApplicable(Exception):
    """The mutation does not fit this file; another one is drawn."""


@dataclass
class Material:
    """The input of a mutation.

    Attributes:
        base: the base file's description.
        data: its bytes.
        draw: the generator of all random draws.
        folder: folder of the bases.
        every: all bases by name.
    """

    base: Base
    data: bytes
    draw: Random
    folder: Path
    every: dict[str, Base]
    #: Further bases whose frames the result may contain.
    others: list[str] = field(default_factory=list)
    #: Rule of this result, if it is not that of the mutation.
    rule: str | None = None
    #: Suffix of the result's name, if it is not that of the base.
    suffix: str | None = None
    #: A file with the frames that the result must have.
    same_frames_as: bytes | None = None

    @property
    def payload(self) -> range:
        """A range of the file after its header."""
        return range(min(len(self.data) // 8, 2048), len(self.data))

    def partner(self, fits: Callable[[Base], bool]) -> tuple[Base, bytes]:
        """Another base, drawn among those that fit."""
        names = [name for name, base in self.every.items() if name != self.base.name and fits(base)]
        if not names:
            raise NotApplicable
        name = self.draw.choice(names)
        self.others.append(name)
        return self.every[name], (self.folder / name).read_bytes()

    def remuxed(
        self, arguments: str, suffix: str, *inputs: tuple[str, bytes], before: str = "", joined: bool = False
    ) -> bytes:
        """Output of the ffmpeg program.

        Args:
            arguments: of the output.
            suffix: of the output's name, which determines the container.
            inputs: suffix and bytes of each input; by default it reads the base.
            before: arguments in front of the first input.
            joined: whether the inputs are concatenated.
        """
        with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
            command = [*make.QUIET, "-v", "error", *before.split()]
            given = []
            for number, (end, data) in enumerate(inputs or [(Path(self.base.name).suffix, self.data)]):
                given.append(Path(folder) / f"{number}{end}")
                given[-1].write_bytes(data)
            if joined:
                listed = Path(folder) / "list"
                listed.write_text("".join(f"file '{path}'\n" for path in given))
                command += ["-f", "concat", "-safe", "0"]
                given = [listed]
            for path in given:
                command += ["-i", str(path)]
            out = Path(folder) / f"out{suffix}"
            try:
                make.run([*command, *arguments.split(), *make.EXACT, str(out)])
                made = out.read_bytes()
            except (RuntimeError, OSError) as error:
                raise NotApplicable from error
        # The oracle crashes in the text of service descriptions.
        return streams.without_service_descriptions(made) if suffix == ".ts" else made


@dataclass(frozen=True)
class Mutation:
    """A mutation with its rule and the containers and codecs that it supports (empty: all)."""

    name: str
    apply: Callable[[Material], tuple[bytes, str]]
    rule: str
    containers: frozenset[str]
    codecs: frozenset[str]
    #: Its weight when drawn.
    weight: float

    def fits(self, base: Base) -> bool:
        """Whether it can be drawn for this base."""
        return (not self.containers or base.container in self.containers) and (
            not self.codecs or base.codec in self.codecs
        )


#: In the order in which their modules are imported.
REGISTER: list[Mutation] = []


def mutation(rule: str, *containers: str, codecs: tuple[str, ...] = (), weight: float = 1.0):
    """Registers a function in `REGISTER`."""

    def put(function: Callable[[Material], tuple[bytes, str]]):
        REGISTER.append(Mutation(function.__name__, function, rule, frozenset(containers), frozenset(codecs), weight))
        return function

    return put
