"""Damaged files: NVDEC conceals damage, so framespool must report the same errors as the CPU decoder."""

from __future__ import annotations

from collections.abc import Iterator

import framespool as fsp
from common import Clip, clips
from equality import Comparison, Outcome, batches, differ
from items import FAILED, IMPOSSIBLE, OK, Context, Row, item

from checks.decoding import loaders, out_of_time


@item("damage", seconds=240)
def damage(context: Context) -> Iterator[Row]:
    for clip in clips("damaged", context.match):
        yield out_of_time(clip.name, "each frame") if context.left() < 0 else compare_frames(clip)


def compare_frames(clip: Clip) -> Row:
    """Frame by frame: the same bytes, or the same error at the same position."""
    asked = "each frame or its error == CPU's"
    sampling = fsp.samplers.Windows(sequence_length=1)
    made = []

    def make() -> list[object]:
        made.extend(loaders(clip, sampling, batch_size=1))
        return []

    compared = Comparison()
    opened = Outcome.of(make)
    if opened.error is not None:
        # A file that cannot be indexed fails the same way on both backends.
        cpu = Outcome.of(lambda: [*fsp.ClipLoader([str(clip.path)], sampling, batch_size=1, index=False)][:0])
        differ("opening", opened, cpu, compared)
        return row(clip, asked, compared, {"refused": str(opened.error)[-80:]})
    ours, theirs = made
    if len(ours) != len(theirs):
        return Row(clip.name, asked, FAILED, f"{len(ours)} frames against {len(theirs)}")
    for number, ((left, _), (right, _)) in enumerate(zip(batches(ours), batches(theirs), strict=True)):
        differ(f"frame {number}", left, right, compared)
    stats = ours.stats()
    figures = {
        "frames": compared.frames,
        "errors": compared.errors,
        "by_gpu": stats["frames_decoded_by_gpu"],
        "cpu_fallbacks": sum(stats["cpu_fallbacks"].values()),
    }
    return row(clip, asked, compared, figures)


def row(clip: Clip, asked: str, compared: Comparison, figures: dict[str, object]) -> Row:
    if compared.same:
        return Row(clip.name, asked, OK, figures=figures)
    if clip.properties.get("codec") in ("vp8", "vp9", "av1") and not compared.errors:
        # Their entropy coders accept any bits, so neither side can notice the damage.
        why = "damage that no decoder reports: the standard does not define these pictures"
        return Row(clip.name, asked, IMPOSSIBLE, why, figures)
    why = f"{compared.differing} of {compared.cases} differ; {compared.first}"
    return Row(clip.name, asked, FAILED, why, figures)
