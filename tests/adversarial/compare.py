"""Compares framespool's results with the oracle and with each other; see :mod:`mutations` for the rules."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from adversarial.cases import Case
from adversarial.oracle import OracleResult

#: Codecs whose inverse transform is not bit-exact. For data that no encoder writes (changed bits, a picture decoded
#: twice) decoder releases differ in pixels: FFmpeg 7.0.2 from 8.1 and 9.0.
INEXACT_CODECS = {"mpeg4", "msmpeg4", "wmv", "h263", "flv1", "mpeg12"}
#: Valid changes that the ffmpeg program does not handle: it appends the data of a repeated transport packet.
ORACLE_MISREADS = {"repeated_ts_packet"}
#: Bases whose decoder accepts data in newer releases that the oracle's refuses: MJPEG with invalid coefficients, FFV1
#: of versions without checksums. Of uncompressed pictures, any bytes are valid.
TOLERANT_BASES = ("mjpeg", "ffv1.avi", "raw")
#: Codecs whose frames depend on previous ones without a way to notice that these are missing; decoder releases then
#: differ in pixels too. Damaged pictures of Cinepak use codebook entries from before the keyframe.
UNNUMBERED_CODECS = {"intra", "vp8", "ffv1", "cinepak"}
#: Codecs in which changed bits may form another valid picture (docs/howto/damaged.md).
UNCHECKED_CODECS = {"vp8", "vp9", "av1", "cinepak", "ffv1"}
#: Limits for one file: processor time of one way of reading it, and resident memory.
SECONDS, MIB = 10.0, 1024.0
#: Size of all frames above which it is no finding that they take much memory: Cinepak is decoded to the stated size.
MAX_STATED_BYTES = 256 << 20
#: Maximum number of findings of one kind per case.
MAX_FINDINGS_PER_KIND = 2


@dataclass
class Outcome:
    """The outcome of a case: ``exact``, ``partly`` (the rest are errors), ``refused``, ``unjudged`` or ``finding``."""

    kind: str
    findings: list[str] = field(default_factory=list)


def check(
    case: Case, streams: list[OracleResult], intact: list[OracleResult], results: list[dict[str, Any]]
) -> Outcome:
    """Compares the results of a case with the oracle.

    Args:
        case: the case.
        streams: the oracle's result for each video stream of the file that may be the selected one.
        intact: the oracle's results for the base files that it was created from.
        results: the output of each reading process (``reader.read``).
    """
    internal = [finding for result in results for finding in _internal_findings(result)]
    if _stated_bytes(case) > MAX_STATED_BYTES:
        internal = [(kind, text) for kind, text in internal if kind != "memory" and "MemoryError" not in text]
    findings = [f"{kind}: {text}" for kind, text in internal]
    findings += [f"unstable: {text}" for text in _differences_between(results)]
    frames = _delivered(results)
    judged = [_by_oracle(case, expected, intact, results[0], frames) for expected in streams]
    kind, wrong = min(judged, key=lambda pair: len(pair[1]))
    findings += wrong
    unique = list(dict.fromkeys(findings))
    counts: Counter[str] = Counter()
    first = [
        text
        for text in unique
        if counts.update([text.partition(":")[0]]) or counts[text.partition(":")[0]] <= MAX_FINDINGS_PER_KIND
    ]
    left = [
        f"{name}: {count - MAX_FINDINGS_PER_KIND} more"
        for name, count in counts.items()
        if count > MAX_FINDINGS_PER_KIND
    ]
    return Outcome("finding" if unique else kind, first + left)


def _stated_bytes(case: Case) -> int:
    """Size of all frames at the size that the mutation has written into the header of the file."""
    stated = re.fullmatch(r"stsd: (\d+)x(\d+)", case.note) if case.base.codec == "cinepak" else None
    return int(stated[1]) * int(stated[2]) * 3 * case.base.frames if stated else 0


def _single_frame_answers(result: dict[str, Any]) -> dict[int, list[str | None]]:
    """The results of requesting each frame alone, one for each number of threads."""
    found: dict[int, list[str | None]] = {}
    for way, answers in result["answers"].items():
        if way.startswith("alone"):
            for index, answer in answers.items():
                found.setdefault(int(index), []).append(answer)
    return found


def _internal_findings(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Errors that no file may cause."""
    found = [("unfair", text) for text in result["unfair"]]
    found += [("slow", f"{way}: {took:.1f} s") for way, took in result["seconds"].items() if took > SECONDS]
    if result["peak"] > MIB:
        found.append(("memory", f"{result['peak']:.0f} MiB"))
    by_frame: dict[int, dict[str, str]] = {}
    for way, answers in result["answers"].items():
        for index, answer in answers.items():
            if answer:
                by_frame.setdefault(int(index), {}).setdefault(answer, way)
    for index, ways in by_frame.items():
        if len(ways) > 1:
            found.append(("access", f"frame {index} is another one {' / '.join(ways.values())}"))
    alone = _single_frame_answers(result)
    for index, answers in alone.items():
        if None in answers and any(answers):
            found.append(("access", f"frame {index} alone fails only with some numbers of threads"))
    good = {index for index, answers in alone.items() if all(answers)}
    for way, answers in result["answers"].items():
        if way.startswith("alone"):
            continue
        refused = [int(index) for index, answer in answers.items() if answer is None]
        length = 3 if "clips of 3" in way else 1
        if way.startswith("loader"):
            clip = {index: set(range(index - index % length, index - index % length + length)) for index in refused}
            refused = [n for n in refused if clip[n] & {int(index) for index in answers} <= good]
            if len(good) * 8 < result["length"]:
                refused = []  # a loader ends with an error where nearly all clips fail
        elif not way.startswith(("sequential", "at a time")) and not set(refused) <= good:
            refused = []  # one request for all of them
        for index in [index for index in refused if index in good][:1]:
            why = result["errors"].get(way, "no error")
            found.append(("access", f"frame {index} can be read alone, but fails {way}: {why}"))
    return found


def _differences_between(results: list[dict[str, Any]]) -> list[str]:
    """Differences between the processes."""
    first, found = results[0], []
    for other in results[1:]:
        for key in ("length", "pts", "damaged_units"):
            if first.get(key) != other.get(key):
                found.append(f"{key}: {_short(first.get(key))} and {_short(other.get(key))}")
        if (first["error"] is None) != (other["error"] is None):
            found.append(f"opening: {first['error']} and {other['error']}")
        for way, answers in first["answers"].items():
            others = other["answers"].get(way, {})
            wrong = [index for index, answer in answers.items() if index in others and others[index] != answer]
            if wrong:
                place = wrong[0]
                found.append(f"{way}, frame {place}: {answers[place]} and {others[place]}")
                break
    return found


def _delivered(results: list[dict[str, Any]]) -> dict[int, set[str]]:
    """Frame index to the digests returned by any way of reading."""
    found: dict[int, set[str]] = {}
    for result in results:
        for answers in result["answers"].values():
            for index, answer in answers.items():
                if answer:
                    found.setdefault(int(index), set()).add(answer)
    return dict(sorted(found.items()))


def _by_oracle(
    case: Case, expected: OracleResult, intact: list[OracleResult], result: dict[str, Any], frames: dict[int, set[str]]
) -> tuple[str, list[str]]:
    """The outcome, and the differences from the oracle."""
    if case.rule == "refused":
        is_named = (result["error"] or "").startswith("UnsupportedError")
        return "refused", [] if is_named else [f"read: {result['length']} frames, {result['error']}"]
    if case.rule == "overwritten":
        return _overwritten(case, intact[0], result, frames)
    refused = {index for index, answers in _single_frame_answers(result).items() if None in answers}
    kind = "refused" if result["error"] else "partly" if refused else "exact"
    # If every frame is hidden, or the program cannot decode the stream, nothing is known.
    unknown = expected.decoder_error is None and not expected.frames
    too_large = _stated_bytes(case) > MAX_STATED_BYTES  # for the oracle, too
    if unknown or too_large or not expected.compared or not all(good.compared for good in intact):
        return "unjudged", []
    if expected.decoder_error is not None or case.rule == "lost":
        wrong = _damaged(case, expected, intact, result, frames)
        # Their decoders read changed bits as other pictures, often without an error.
        inexact = case.base.codec in INEXACT_CODECS or case.base.name.startswith(TOLERANT_BASES)
        # The program's strict mode refuses damaged headers of the container, and says nothing of the pictures.
        unread = (expected.decoder_error or "").startswith("Error opening input")
        inexact |= unread and case.base.codec in UNCHECKED_CODECS
        silent = case.rule == "changed" and inexact
        return ("unjudged", []) if wrong and silent else (kind, wrong)
    found: list[str] = []
    must = case.rule in ("same", "streams", "harmless")
    # The ffmpeg program does not hide AV1 frames outside of the edit list.
    shows_hidden = case.base.codec == "av1" and case.base.container in ("mp4", "fragments")
    if must and result["error"] and not (shows_hidden and case.mutation in ("edit_list", "shifted")):
        found.append(f"refused: {result['error']}")
    # It ends between two fields: the ffmpeg program omits the lone one.
    is_lone = all("the decoder returned no frame for it" in why for why in result["errors"].values())
    if case.mutation in ("begun_late", "edit_list") and case.base.name.startswith("h264paff") and is_lone:
        refused -= {result["length"] - 1}
    if must and refused:
        why = next(iter(result["errors"].values()), "")
        found.append(f"refused: {len(refused)} frames, first {min(refused)}: {why}")
    # Unreadable frames may be missing if the caller is informed: by an error, or by a count.
    strict = must or not (refused or result["error"] or result.get("damaged_units"))
    if result["error"]:
        return kind, found
    stated = [pts for pts, _ in expected.frames if pts is not None]
    if result["length"] != len(expected.frames):
        ours = [next(iter(answers)) for answers in frames.values()]
        theirs = [answer for _, answer in expected.frames]
        # More frames of the intact files than the ffmpeg program outputs, or without those that it should hide; or it
        # drops and duplicates frames because timestamps go back.
        more = result["length"] > len(theirs)
        fair = _is_within(theirs, ours) if more else shows_hidden and _is_within(ours, theirs)
        fair |= stated != sorted(stated)
        # Packets with the times of others: the ffmpeg program drops frames whose times go back.
        originals = {answer for good in intact for _, answer in good.frames}
        fair |= case.mutation == "packets_edited" and more and all(answers <= originals for answers in frames.values())
        if strict and not fair:
            return kind, [*found, f"length: {result['length']}, the oracle's {len(expected.frames)}"]
        return kind, found + _damaged(case, expected, intact, result, frames)
    only_oracle = must and case.mutation not in ORACLE_MISREADS
    originals = set() if only_oracle else {answer for good in intact for _, answer in good.frames}
    unknown_frames = {n: answers - originals for n, answers in frames.items()}
    wrong = _clean(case, expected, intact, result, unknown_frames, strict)
    inexact = case.mutation != "intact" and (
        case.base.codec in INEXACT_CODECS or (not must and case.base.codec in UNNUMBERED_CODECS)
    )
    if inexact and any(text.startswith("pixels") for text in wrong):
        return "unjudged", found
    return kind, found + wrong


def _clean(
    case: Case,
    expected: OracleResult,
    intact: list[OracleResult],
    result: dict[str, Any],
    frames: dict[int, set[str]],
    strict: bool,
) -> list[str]:
    """Differences from the frames of a file that the oracle read without an error, with the same number of frames."""
    theirs, found = expected.frames, []
    known = [answer for _, answer in theirs]
    strange = [n for n, answers in frames.items() if not answers <= set(known)]
    if strange:
        found.append(f"pixels: {len(strange)} of {len(frames)} frames are not among the oracle's, first {strange[0]}")
    stated = [pts for pts, _ in theirs if pts is not None]
    if stated != sorted(stated):
        return found  # timestamps that contradict the decoder's output order: any order is accepted
    # For frames that share a timestamp, there is no single correct result.
    shared = {pts for pts, count in Counter(stated).items() if count > 1}
    pairs = [(n, ours, pts) for n, (ours, (pts, _)) in enumerate(zip(result["pts"], theirs, strict=False))]
    # The same applies to a frame with the timestamp of another: it is shown one tick later, or where it was estimated.
    # If a tick is too long for that, framespool divides it.
    ours = result["pts"]
    shared |= {pts for n, time, pts in pairs if n and time == ours[n - 1] + 1 or time + 1 in ours[n + 1 : n + 2]}
    tick = Fraction(*result["time_base"]) / Fraction(*expected.time_base) if expected.time_base[0] else Fraction(1)
    pairs = [(n, time * tick, pts) for n, time, pts in pairs]
    wrong = [pair for pair in pairs if pair[2] is not None and pair[2] not in shared and pair[1] != pair[2]]
    stored = set(expected.packet_times)
    wrong = [pair for pair in wrong if pair[1] not in stored]
    if len(stored) < len(expected.packet_times) and len({pair[1] for pair in pairs} & stored) >= len(stored) / 2:
        wrong = []  # some packets share a timestamp: it cannot be known which of them has it
    if case.timed and wrong and strict:
        n, ours, pts = wrong[0]
        found.append(f"times: {len(wrong)} of {len(pairs)}, first frame {n}: {ours}, the oracle's {pts}")
    misplaced = [n for n, answers in frames.items() if answers and n not in strange and answers != {known[n]}]
    # Where frames are refused, those of the intact file keep the places that they have there, and damaged ones have
    # none: the ffmpeg program may have output them elsewhere.
    if not strict and len(intact) == 1:
        at = [answer for _, answer in intact[0].frames]
        misplaced = [n for n in misplaced if frames[n] & {*at} and frames[n] != {*at[n : n + 1]}]
    # The ffmpeg program outputs pictures in the order of the decoder, which may contradict the packets' timestamps, or
    # the order of the intact files, if one of them with B pictures follows one without.
    by_packets = sorted(stored) == [pair[1] for pair in pairs] and sorted(stored) != stated
    as_intact = [answer for source in intact for _, answer in source.frames] == [
        min(answers, default="") for answers in frames.values()
    ]
    if misplaced and not by_packets and not (as_intact and len(intact) > 1):
        found.append(f"order: {len(misplaced)} of {len(frames)} frames, first {misplaced[0]}")
    return found


def _damaged(
    case: Case, expected: OracleResult, intact: list[OracleResult], result: dict[str, Any], frames: dict[int, set[str]]
) -> list[str]:
    """Frames of a damaged file that are neither the oracle's from before the damage nor those of the base file."""
    sources = intact if case.rule == "lost" else [expected, *intact]
    allowed = {answer for source in sources for _, answer in source.frames}
    wrong = [n for n, answers in frames.items() if not answers <= allowed]
    if wrong:
        context = f"the oracle: {expected.decoder_error}" if expected.decoder_error else "not noticed by the oracle"
        return [f"damaged: {len(wrong)} of {len(frames)} frames, first {wrong[0]} of {result['length']} ({context})"]
    if not case.timed or case.rule != "lost":
        return []
    known = {pair for source in [expected, *intact] for pair in source.frames}
    times = dict(enumerate(result["pts"]))
    # The times of a file that is appended begin again; framespool continues those of the first one instead.
    timed = len(intact[0].frames) if case.mutation == "concatenated" else result["length"]
    wrong = [n for n in frames if n < timed and n in times and not {(times[n], one) for one in frames[n]} <= known]
    return [f"times: {len(wrong)} of {len(frames)} frames, first {wrong[0]} at {times[wrong[0]]}"] if wrong else []


def _overwritten(
    case: Case, intact: OracleResult, result: dict[str, Any], frames: dict[int, set[str]]
) -> tuple[str, list[str]]:
    """The outcome for a file with overwritten packets, whose frames must keep their places."""
    if result["error"]:
        return "refused", []
    known, found = [answer for _, answer in intact.frames], []
    overwritten = [int(number) for number in re.findall(r"\d+(?=[,\]])", case.note)]
    if case.base.name.startswith("h264paff") and any(n + 1 in overwritten for n in overwritten):
        # Two packets without headers are two frames, or the fields of one: later frames may have moved.
        strange = [n for n, answers in frames.items() if not answers <= set(known)]
        return "unjudged", [f"overwritten: frame {strange[0]} is not of the intact file"] if strange else []
    if result["length"] != len(known):
        found.append(f"length: {result['length']}, the intact file's {len(known)}")
    wrong = [n for n, answers in frames.items() if n >= len(known) or answers != {known[n]}]
    if wrong:
        found.append(f"overwritten: {len(wrong)} of {len(frames)} frames are others, first {wrong[0]}")
    # The beginning of a packet may be headers that repeat what is known.
    is_part = case.note[:1].isdigit()
    if len(frames) == len(known) and not is_part:
        found.append("overwritten: every frame is delivered")
    return "partly", found


def _is_within(part: list[str], whole: list[str]) -> bool:
    """Whether `part` is `whole` with some of its items removed."""
    rest = iter(whole)
    return all(item in rest for item in part)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) < 60 else f"{text[:57]}..."


def tally(outcomes: dict[str, list[Outcome]]) -> list[str]:
    """Lines of a table: mutation, cases, and count of each outcome."""
    kinds = ["exact", "partly", "refused", "unjudged", "finding"]
    lines = [f"{'mutation':24}{'cases':>8}" + "".join(f"{kind:>10}" for kind in kinds)]
    totals: Counter[str] = Counter()
    for name, found in sorted(outcomes.items()):
        counts = Counter(outcome.kind for outcome in found)
        totals += counts
        lines.append(f"{name:24}{len(found):8}" + "".join(f"{counts[kind]:10}" for kind in kinds))
    lines.append(f"{'all':24}{totals.total():8}" + "".join(f"{totals[kind]:10}" for kind in kinds))
    return lines
