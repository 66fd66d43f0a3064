"""Passes hostile values to Python-only APIs: states, DLPack's arguments, pickled samples, clip samplers, transforms.

    python tests/fuzz/python_api.py --runs 20000 --seed 1

A call may succeed, or raise one of the library's own errors (or what Python itself raises for a wrong type). Anything
else ends the run with the call that did it. Prints how many calls there were of each kind.
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import inspect
import math
import os
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import framespool as fsp
import numpy as np

#: Exceptions that a call may raise: the library's errors, and Python's own for arguments of a wrong type.
ALLOWED_ERRORS = (fsp.Error, TypeError)
#: Further exceptions of the DLPack protocol.
ALLOWED_DLPACK_ERRORS = (*ALLOWED_ERRORS, BufferError, MemoryError, OverflowError, ValueError)
#: Time limit of a call in seconds, independent of the machine's load.
MAX_SECONDS = 30

EDGE_VALUES: list[Any] = [
    *(
        0,
        1,
        2,
        3,
        16,
        -1,
        -2,
        255,
        2**16,
        2**24,
        2**24 + 1,
        2**31 - 1,
        2**31,
        2**32 - 1,
        2**32,
        2**63 - 1,
        2**63,
        2**64,
        -(2**63),
    ),
    *(0.0, 0.5, 1.0, -0.0, -1.5, 1e-9, 1e300, 5e-324, 29.97, math.nan, math.inf, -math.inf),
    *(True, False, None, "", "random", "repeat", "\ud800", "a" * 5000, b"", b"\xff\x00", object(), 1j),
    *((), [], {}, [0], (1, 2), (0.5, 1.0), [[0, 1], [2]], [math.nan], {"a": 1}, (4, 4), (2**32, 1), {1, 2}),
    *(np.int8(3), np.uint64(2**64 - 1), np.float32(0.25), np.array(7), range(3)),
]


class PythonApiFuzzer:
    """A dataset of one video, the objects created from it, and the calls to test."""

    def __init__(self, video: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.video = fsp.Video(video)
        self.dataset = fsp.datasets.Dataset([(str(video), 0)] * 12) if hasattr(fsp.datasets, "Dataset") else None
        with tempfile.TemporaryDirectory() as folder:
            listed = Path(folder) / "list.txt"
            listed.write_text("".join(f"{video} {label}\n" for label in range(12)))
            self.dataset = fsp.datasets.annotation_file(listed)
        self.loader = self.made([fsp.transforms.Resize((16, 16))])
        self.state = self.loader.state_dict()
        self.tensor = self.video.frames([0]).frames
        self.table = self.dataset.samples.table.__reduce__()
        self.calls: list[Callable[[], str]] = [self.load_state, self.dlpack, self.entries, self.rule, self.transform]
        #: Constructors by name.
        self.rules = [
            *(
                getattr(fsp.samplers, n)
                for n in ("RandomClips", "UniformClips", "Windows", "Segments", "Dense", "Delta", "Indices", "Seconds")
            ),
            *(
                f
                for n in dir(fsp.samplers.presets)
                if not n.startswith("_") and callable(f := getattr(fsp.samplers.presets, n))
            ),
        ]
        self.transforms = [t for n in fsp.transforms.__all__ if inspect.isclass(t := getattr(fsp.transforms, n))]

    def made(self, transforms: list[Any], rule: Any = None) -> fsp.ClipLoader:
        """Returns a loader that has not started."""
        rule = rule if rule is not None else fsp.samplers.RandomClips(sequence_length=2)
        return fsp.ClipLoader(self.dataset, rule, batch_size=3, transforms=transforms, num_threads=1, cache=1 << 24)

    def value(self) -> Any:
        """Returns any value."""
        return copy.copy(self.rng.choice(EDGE_VALUES))

    def arguments(self, function: Callable[..., Any]) -> dict[str, Any]:
        """Returns arguments of a function: usually the required ones, and sometimes a few more."""
        found = {}
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            needed = parameter.default is parameter.empty
            if self.rng.random() < (0.97 if needed else 0.3):
                small = self.rng.choice([1, 2, 4, 8, 0.5, 1.0, (8, 8), "repeat"])
                found[name] = small if needed and self.rng.random() < 0.5 else self.value()
        return found

    def load_state(self) -> str:
        """Loads a state with random changes."""
        state = dict(self.state)
        for _ in range(self.rng.randrange(1, 4)):
            key = self.rng.choice([*state, "more", "epoch", "batch", "format"])
            if self.rng.random() < 0.2:
                state.pop(key, None)
            else:
                state[key] = self.rng.choice([self.value(), self.rng.randrange(10), np.array([1, 2])])
        given = state if self.rng.random() < 0.95 else self.value()
        self.loader.load_state_dict(given)
        now = self.loader.state_dict()
        assert (now["epoch"], now["batch"]) == (int(given["epoch"]), int(given["batch"])), (given, now)
        return "accepted"

    def dlpack(self) -> str:
        """Exports a tensor, whose capsule is dropped or consumed."""
        names = ["stream", "max_version", "dl_device", "copy"]
        allowed = {
            "stream": [None, -1],
            "max_version": [(1, 0), (0, 8)],
            "dl_device": [(1, 0)],
            "copy": [None, True, False],
        }
        given = {}
        for name in names:
            if self.rng.random() < 0.5:
                given[name] = self.value() if self.rng.random() < 0.5 else self.rng.choice(allowed[name])
        capsule = self.tensor.__dlpack__(**given)
        assert "dltensor" in repr(capsule), capsule
        name = ctypes.pythonapi.PyCapsule_GetName
        name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
        wanted = b"dltensor_versioned" if (given.get("max_version") or (0,))[0] >= 1 else b"dltensor"
        assert name(capsule) == wanted, (given, name(capsule))
        return "accepted"

    def entries(self) -> str:
        """Unpickles damaged samples."""
        build, pieces = self.table
        changed = [[bytearray(p) if isinstance(p, bytes) else p for p in piece] for piece in pieces]
        for _ in range(self.rng.randrange(1, 3)):
            piece = self.rng.choice([p for p in changed if p])
            at = self.rng.randrange(len(piece))
            if isinstance(piece[at], bytearray) and piece[at] and self.rng.random() < 0.9:
                match self.rng.randrange(3):
                    case 0:
                        piece[at][self.rng.randrange(len(piece[at]))] = self.rng.randrange(256)
                    case 1:
                        del piece[at][self.rng.randrange(len(piece[at])) :]
                    case _:
                        piece[at] += bytes(self.rng.randrange(20))
            else:
                piece[at] = self.value()
        back = [
            type(p)(bytes(q) if isinstance(q, bytearray) else q for q in c)
            for p, c in zip(pieces, changed, strict=True)
        ]
        try:
            table = build(*back)
        except (ValueError, OverflowError):
            return "refused"
        for number in range(len(table)):
            table.row(number)
        return "accepted"

    def rule(self) -> str:
        """Creates a clip sampler, and a loader that uses it."""
        function = self.rng.choice(self.rules)
        rule = function(**self.arguments(function))
        if (getattr(rule, "sequence_length", None) or 1) < 1000:
            self.made([fsp.transforms.Resize((8, 8))], rule)
        return "accepted"

    def transform(self) -> str:
        """Creates transforms, and applies them to a frame if the result is small."""
        chosen = [self.rng.choice(self.transforms) for _ in range(self.rng.randrange(1, 4))]
        transforms = [kind(**self.arguments(kind)) for kind in chosen]
        self.made(transforms)
        if self.rng.random() < 0.2:
            self.video.clip(start=0, sequence_length=1, transforms=[*transforms, fsp.transforms.Resize((8, 8))])
        return "accepted"


def main() -> int:
    """Runs the calls."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    media = Path(os.environ.get("FRAMESPOOL_MEDIA") or Path(__file__).resolve().parents[2] / "target" / "media")
    video = media / "video" / "codecs" / "h264_b_pyramid.mp4"
    if not video.is_file():
        print(f"no {video}: run scripts/setup.sh tests, which makes the test media", file=sys.stderr)
        return 1
    fuzzer = PythonApiFuzzer(video, chosen.seed)
    counts: Counter[tuple[str, str]] = Counter()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for run in range(chosen.runs):
        call = fuzzer.rng.choice(fuzzer.calls)
        begun = time.process_time()
        allowed = ALLOWED_DLPACK_ERRORS if call == fuzzer.dlpack else ALLOWED_ERRORS
        try:
            outcome = call()
        except allowed as error:
            assert not isinstance(error, (fsp.errors.InternalError, fsp.errors.ForkedError)), error
            outcome = "refused"
        except BaseException:
            print(f"run {run} of seed {chosen.seed}: {call.__name__}", file=sys.stderr)
            raise
        took = time.process_time() - begun  # of the processor: a busy machine does not matter
        assert took < MAX_SECONDS, f"run {run}: {call.__name__} took {took:.1f} s"
        counts[call.__name__, outcome] += 1
    for (name, outcome), count in sorted(counts.items()):
        print(f"{name:<12} {outcome:<9} {count:>9}")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    print(f"{'all':<22} {sum(counts.values()):>9}   {grown} MiB peak growth")
    assert grown < 1024, f"{grown} MiB of growth"
    return 0


if __name__ == "__main__":
    sys.exit(main())
