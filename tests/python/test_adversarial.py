"""The generator of malformed files (tests/adversarial): cases are reproducible, and the comparison finds errors."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from adversarial import bases, cases, compare, mutations, oracle, run  # noqa: E402

FRAMES = [(512 * n, f"frame{n}") for n in range(6)]


def case(rule: str, base: str = "h264.mp4") -> cases.Case:
    return cases.Case("0/0", cases.BASES[base], "none", "", rule, b"")


def result(frames: dict[int, str | None], **keywords: Any) -> dict[str, Any]:
    """A reader's result for a video whose frames are equal for every way of reading."""
    ways = ("alone, 1 threads", "alone, 2 threads", "sequential, 1 threads", "decord, 4 threads")
    return {
        "error": None,
        "length": len(frames),
        "pts": [512 * n for n in range(len(frames))],
        "answers": {way: {str(n): answer for n, answer in frames.items()} for way in ways},
        "errors": {},
        "unfair": [],
        "seconds": {"open": 0.1},
        "peak": 60.0,
        **keywords,
    }


def right() -> dict[int, str | None]:
    return {n: answer for n, (_, answer) in enumerate(FRAMES)}


def judged(
    rule: str, expected: oracle.OracleResult, *results: dict[str, Any], base: str = "h264.mp4"
) -> compare.Outcome:
    return compare.check(case(rule, base), [expected], [oracle.OracleResult(FRAMES)], list(results))


@pytest.mark.parametrize("rule", ["same", "changed", "lost", "streams"])
def test_the_oracles_frames_are_exact(rule):
    outcome = judged(rule, oracle.OracleResult(FRAMES), result(right()), result(right()))
    assert (outcome.kind, outcome.findings) == ("exact", [])


GOOD = oracle.OracleResult(FRAMES)
ENDED = oracle.OracleResult(FRAMES[:2], "damage")


@pytest.mark.parametrize(
    ("rule", "expected", "changes", "kind"),
    [
        ("same", GOOD, {3: "other"}, "pixels"),
        ("same", GOOD, {3: "frame4", 4: "frame3"}, "order"),
        ("same", GOOD, {3: None}, "refused"),
        ("changed", GOOD, {3: "other"}, "pixels"),
        ("changed", ENDED, {1: "other"}, "damaged"),
        ("lost", GOOD, {5: "other"}, "damaged"),
        ("lost", ENDED, {5: "other"}, "damaged"),
        ("streams", GOOD, {0: "other"}, "pixels"),
        ("harmless", GOOD, {3: "other"}, "pixels"),
        ("harmless", GOOD, {3: None}, "refused"),
        ("overwritten", GOOD, {2: None, 3: "frame4", 4: "frame5", 5: "frame5"}, "overwritten"),
        ("overwritten", GOOD, {}, "overwritten"),
        ("refused", GOOD, {}, "read"),
    ],
)
def test_a_wrong_frame_is_found(rule, expected, changes, kind):
    outcome = judged(rule, expected, result({**right(), **changes}))
    assert outcome.kind == "finding"
    assert any(text.startswith(f"{kind}:") for text in outcome.findings), outcome.findings


def test_frames_after_corruption_are_exact_or_errors():
    assert judged("changed", ENDED, result({**right(), 2: None, 3: None})).kind == "partly"
    assert judged("lost", ENDED, result(right())).kind == "exact"
    other_release = oracle.OracleResult([*FRAMES[:3], (1536, "odd"), *FRAMES[4:]])
    assert judged("changed", other_release, result({**right(), 3: "other"}), base="wmv1.wmv").kind == "unjudged"


def test_frames_keep_their_places_around_an_overwritten_packet():
    assert judged("overwritten", GOOD, result({**right(), 2: None, 3: None})).kind == "partly"
    shorter = judged("overwritten", GOOD, result({n: answer for n, answer in right().items() if n < 5}))
    assert [text.partition(":")[0] for text in shorter.findings] == ["length"]


def test_a_container_that_is_not_read_is_unsupported():
    refused = {"length": 0, "pts": [], "answers": {}}
    assert judged("refused", GOOD, result({}, error="UnsupportedError: NUT", **refused)).kind == "refused"
    assert judged("refused", GOOD, result({}, error="MalformedError: no container", **refused)).kind == "finding"


def test_more_intact_frames_than_the_oracle_are_fair():
    fewer = oracle.OracleResult(FRAMES[:3] + FRAMES[4:])
    assert judged("same", fewer, result(right())).kind == "exact"
    assert judged("same", fewer, result({**right(), 3: "other"})).kind == "finding"
    assert judged("same", GOOD, result(dict(list(right().items())[:5]), length=5)).kind == "finding"


def test_times_of_packets_outweigh_the_oracles_guesses():
    guessed = oracle.OracleResult([(pts - 1, answer) if pts > 1024 else (pts, answer) for pts, answer in FRAMES])
    assert judged("same", guessed, result(right())).kind == "finding"
    guessed.packet_times = [pts for pts, _ in FRAMES]
    assert judged("same", guessed, result(right())).kind == "exact"
    assert judged("same", guessed, result(right(), pts=[0, 512, 1024, 1537, 2049, 2561])).kind == "finding"


@pytest.mark.parametrize(
    ("keywords", "kind"),
    [
        ({"pts": [0, 512, 1024, 1537, 2048, 2560]}, "times"),
        ({"length": 5}, "length"),
        ({"error": "InvalidDataError: x.mp4"}, "refused"),
        ({"seconds": {"alone": 11.0}}, "slow"),
        ({"peak": 1500.0}, "memory"),
        ({"unfair": ["died at 'open'"]}, "unfair"),
    ],
)
def test_other_faults_are_found(keywords, kind):
    outcome = judged("same", GOOD, result(right(), **keywords))
    assert any(text.startswith(f"{kind}:") for text in outcome.findings), outcome.findings


def test_ways_that_differ_are_found():
    for way, answer in (("sequential, 1 threads", "other"), ("decord, 4 threads", None), ("alone, 2 threads", None)):
        odd = result(right())
        odd["answers"][way] = {**odd["answers"][way], "3": answer}
        assert any(text.startswith("access:") for text in judged("changed", ENDED, odd).findings), way
    other = result({**right(), 4: None})
    assert any(text.startswith("unstable:") for text in judged("changed", ENDED, result(right()), other).findings)


@pytest.mark.parametrize("mutation", mutations.ALL, ids=lambda mutation: mutation.name)
def test_mutations_change_the_file_deterministically(mutation):
    folder = bases.folder()

    def made(name: str, seed: int) -> bytes:
        base = cases.BASES[name]
        data = (folder / name).read_bytes()
        return mutation.apply(mutations.Material(base, data, random.Random(seed), folder, cases.BASES))[0]

    fitting = [name for name, base in cases.BASES.items() if mutation.fits(base)]
    for seed, name in enumerate(fitting * 10):
        try:
            first = made(name, seed)
        except mutations.NotApplicable:
            continue
        assert made(name, seed) == first
        if mutation.name == "intact" or first != (folder / name).read_bytes():
            return
    pytest.fail("it fits no base")


def test_a_case_is_judged_by_reading_it(monkeypatch):
    started = run.Run(bases.folder())
    try:
        case, outcome = started.case("intact/h264.mp4")
        assert (outcome.kind, outcome.findings) == ("exact", [])
        assert case.data == (bases.folder() / "h264.mp4").read_bytes()
        monkeypatch.setattr(oracle, "decode", lambda *_, **__: oracle.OracleResult(FRAMES * 5))
        _, outcome = started.case("intact/h264.mp4")
        assert outcome.kind == "finding"
    finally:
        started.close()
