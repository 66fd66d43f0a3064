"""Compares frames from NVDEC with the CPU's, through framespool: every frame, any frame, strided clips."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from typing import Any

import framespool as fsp
from common import Clip, clips
from equality import Comparison, Outcome, batches, differ
from items import FAILED, IMPOSSIBLE, OK, Context, Row, item

#: Accepted reasons for a fallback to the CPU of an undamaged stream. Any other reason means an error of NVDEC or of its
#: use here.
ACCEPTED_FALLBACKS = re.compile(
    r"is not decoded by this GPU|this GPU decodes .* (from|up to) |but cannot output it as"
    r"|NVDEC does not decode it|its standard does not define bit-exact output"
    r"|film grain|bit luma and .* bit chroma|chroma format"
)
#: NVIDIA's parser makes no callback for a packet that only shows a VP9 frame again (docs/gpu-verification.md).
SHOWN_AGAIN = re.compile(r"a picture that access unit \d+ or a later one displays was not reported")


def loaders(clip: Clip, sampling: Any, **keywords: Any) -> tuple[fsp.ClipLoader, fsp.ClipLoader]:
    """The same loader on NVDEC and on the CPU."""
    common: dict[str, Any] = {"batch_size": 8, "index": False, **keywords}
    ours = fsp.ClipLoader([str(clip.path)], sampling, device=fsp.Gpu("cuda:0", decoder="nvdec"), **common)
    return ours, fsp.ClipLoader([str(clip.path)], sampling, **common)


def compared_row(name: str, asked: str, compared: Comparison, stats: dict[str, Any], **more: Any) -> Row:
    """Compares the bytes first; then checks that NVDEC decoded them."""
    by_gpu, decoded = stats["frames_decoded_by_gpu"], stats["frames_decoded"]
    reasons: dict[str, int] = stats["cpu_fallbacks"]
    summary = "; ".join(f"{count}x {reason}" for reason, count in reasons.items())
    figures = {
        "frames": compared.frames,
        "decoded": decoded,
        "by_gpu": by_gpu,
        "skipped": stats["packets_skipped"],
        "repeated": stats["decode_ranges_repeated"],
        **more,
    }
    if compared.errors:
        figures["errors"] = compared.errors
    if not compared.same:
        why = f"{compared.differing} of {compared.cases} answers differ; {compared.first}"
        return Row(name, asked, FAILED, f"{why}. {summary}".strip(), {**figures, "worst": compared.worst})
    accepted = [ACCEPTED_FALLBACKS, *([SHOWN_AGAIN] if "vp9_show_existing_frame" in name else [])]
    unfair = {reason: count for reason, count in reasons.items() if not any(a.search(reason) for a in accepted)}
    if unfair:
        return Row(name, asked, FAILED, f"the same bytes, but NVDEC did not decode all of them: {summary}", figures)
    if by_gpu == 0 and compared.frames:
        return Row(name, asked, IMPOSSIBLE, summary or "NVDEC decoded nothing, without a reason", figures)
    return Row(name, asked, OK, summary, figures)


def every_frame(clip: Clip, dtype: str) -> Row:
    """The complete file. A clip is one frame, so that files whose frames change in size can be compared."""
    asked = f"every frame, {dtype}: NVDEC == CPU"
    ours, theirs = loaders(clip, fsp.samplers.Windows(sequence_length=1), dtype=dtype)
    compared = Comparison()
    for (left, _), (right, batch) in itertools.zip_longest(batches(ours), batches(theirs), fillvalue=(Outcome(), None)):
        at = batch.indices.tolist()[0][0] if batch is not None else compared.frames
        differ(f"the batch at frame {at}", left, right, compared)
    row = compared_row(clip.name, asked, compared, ours.stats())
    if clip.frames is not None and row.result == OK and not compared.errors and compared.frames != clip.frames:
        row.result, row.why = FAILED, f"{compared.frames} frames, {clip.frames} in the manifest"
    return row


def whole_files(context: Context, codecs: set[str]) -> Iterator[Row]:
    for clip in clips("exact", context.match):
        if clip.properties.get("codec") not in codecs:
            continue
        deep = "10" in str(clip.properties.get("pix_fmt")) or "12" in str(clip.properties.get("pix_fmt"))
        # Converting to eight bits would hide errors in the lower bits.
        for dtype in ("uint8", "float32") if deep else ("uint8",):
            if context.left() < 0:
                yield out_of_time(clip.name, f"every frame, {dtype}")
                continue
            yield guarded(clip.name, lambda clip=clip, dtype=dtype: every_frame(clip, dtype))


def out_of_time(name: str, asked: str) -> Row:
    return Row(name, asked, IMPOSSIBLE, "out of time; raise --budget")


def guarded(name: str, work: Any) -> Row:
    """A row, even if the decoder could not be opened."""
    try:
        return work()
    except fsp.Error as error:
        return Row(name, "the comparison completes", FAILED, f"{type(error).__name__}: {error}")


@item("decode-h264", seconds=300, checklist="1")
def decode_h264(context: Context) -> Iterator[Row]:
    yield from whole_files(context, {"h264"})


@item("decode-hevc", seconds=240, checklist="1")
def decode_hevc(context: Context) -> Iterator[Row]:
    yield from whole_files(context, {"hevc"})


@item("decode-vp8-vp9-av1", seconds=240, checklist="1, 7")
def decode_web(context: Context) -> Iterator[Row]:
    yield from whole_files(context, {"vp8", "vp9", "av1"})


@item("decode-others", seconds=60, checklist="1")
def decode_others(context: Context) -> Iterator[Row]:
    """MPEG-2, MPEG-4: their inverse transforms are not bit-exact, so NVDEC must not be used."""
    yield from whole_files(context, {"mpeg4", "mpeg2video"})


def demands(frames: int, draw: random.Random) -> Iterator[tuple[str, list[int]]]:
    """Typical requests for frame numbers."""
    yield "first", [0]
    yield "last", [-1]
    yield "one in the middle", [frames // 2]
    for _ in range(4):
        yield "one", [draw.randrange(frames)]
    for stride in (1, 2, 4, 8):
        length = min(16, (frames - 1) // stride + 1)
        start = draw.randrange(max(frames - (length - 1) * stride, 1))
        yield f"{length} at stride {stride}", list(range(start, start + length * stride, stride))
    yield "backwards", list(range(min(frames, 24) - 1, -1, -5))
    yield "repeats", [k for f in draw.sample(range(frames), min(frames, 4)) for k in (f, f)]
    yield "scattered", [draw.randrange(frames) for _ in range(12)]


@item("random-access", seconds=240, checklist="1, 5, 6, 7")
def random_access(context: Context) -> Iterator[Row]:
    """Repeated requests to one Video object, so that decoders pass from one request to the next."""
    for clip in clips("random", context.match):
        if context.left() < 0:
            yield out_of_time(clip.name, "any frames in any order")
        else:
            yield guarded(clip.name, lambda clip=clip: any_frame(clip, context))


def any_frame(clip: Clip, context: Context) -> Row:
    ours = fsp.Video(clip.path, device="cuda:0", decoder="nvdec", index=False)
    theirs = fsp.Video(clip.path, index=False)
    compared = Comparison()
    draw = random.Random(clip.name)
    small = [fsp.transforms.Resize((96, 128))]
    # Random access points of all kinds (IDR, CRA, recovery points): the frame at each, and its neighbors.
    around = [
        (f"start {k}", [i for i in range(k - 2, k + 4) if 0 <= i < len(theirs)]) for k in theirs.info.keyframes[:12]
    ]
    for name, indices in [*demands(len(theirs), draw), *around]:
        if context.left() < 0:
            break
        for transforms in ([], small):
            left = Outcome.of(lambda i=indices, t=transforms: ours.frames(i, transforms=t).frames)
            right = Outcome.of(lambda i=indices, t=transforms: theirs.frames(i, transforms=t).frames)
            differ(f"{name}, frames {indices[:4]}…", left, right, compared)
    figures = {"demands": compared.cases, "frames": compared.frames}
    asked = "any frames in any order: NVDEC == CPU"
    if compared.same:
        return Row(clip.name, asked, OK, figures=figures)
    return Row(clip.name, asked, FAILED, f"{compared.differing} demands differ; {compared.first}", figures)


@item("strided", seconds=240, checklist="4, 6")
def strided(context: Context) -> Iterator[Row]:
    """Random strided clips: most pictures between the requested ones need not be decoded."""
    for clip in clips("random", context.match):
        for stride in (2, 4, 8):
            if context.left() < 0:
                yield out_of_time(clip.name, f"random clips, stride {stride}")
            else:
                yield guarded(clip.name, lambda clip=clip, stride=stride: random_clips(clip, stride))


def random_clips(clip: Clip, stride: int) -> Row:
    # Four frames per clip: longer clips would overlap, and few pictures could be skipped.
    sampling = fsp.samplers.RandomClips(sequence_length=4, stride=stride, clips_per_video=12, padding="loop")
    ours, theirs = loaders(clip, sampling, batch_size=4, seed=stride, cache=fsp.Cache(lookahead=0))
    compared = Comparison()
    for epoch in range(2):
        ours.set_epoch(epoch)
        theirs.set_epoch(epoch)
        for number, ((left, _), (right, _)) in enumerate(zip(batches(ours), batches(theirs), strict=True)):
            differ(f"epoch {epoch}, batch {number}", left, right, compared)
    cpu = theirs.stats()
    more = {"cpu_decoded": cpu["frames_decoded"], "cpu_skipped": cpu["packets_skipped"]}
    return compared_row(clip.name, f"random clips, stride {stride}: NVDEC == CPU", compared, ours.stats(), **more)
