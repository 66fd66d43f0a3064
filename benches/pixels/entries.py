"""The lines of the tables: libraries with their cases, and the output that is expected of each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from inputs import CHECKED_FRAMES, NUM_FRAMES, STEPS
from reference import Expected

# swscale's default conversion rounds down, by one code value; its default resize at even widths by two.
ROUNDED_DOWN = 1.25
ROUNDED_DOWN_TWICE = 2.5
# Each of torchvision's and DALI's steps rounds to 8 bits.
ROUNDED_EACH_STEP = 1.25


@dataclass(frozen=True)
class Entry:
    """A line of a table: a library with one of its cases."""

    label: str
    side: str
    case: str
    # Nothing is expected of entries that output no pixels.
    expected: Expected | None = Expected()
    # Checked clips whose output is compared: torchvision rotates hues in another color space.
    checked: int = len(CHECKED_FRAMES)
    # The compared case, unless the library has another name for it.
    same_as: str | None = None
    note: str = ""

    @property
    def asked(self) -> str:
        return self.same_as or self.case.partition("-")[0]


@dataclass(frozen=True)
class Difference:
    """A line that is another line's time minus a third's, round by round."""

    label: str
    of: str
    less: str
    note: str = ""


@dataclass(frozen=True)
class Group:
    """A table. The ratios are relative to its first entry."""

    title: str
    frames: int
    entries: list[Entry]
    differences: list[Difference] = field(default_factory=list)
    # Different frames, used in turn.
    ring: int = NUM_FRAMES


def resize_entries(case: str) -> list[Entry]:
    def with_(side: str, flags: str = "") -> tuple[str, str]:
        return side, f"{case}-{flags}" if flags else case

    # The odd width of `crop` makes swscale use other paths.
    swscale, dark = (ROUNDED_DOWN_TWICE, "; 2 too dark, half the chroma") if case == "direct" else (0.75, "")
    entries = [
        Entry("framespool", "framespool", case),
        Entry("fast_image_resize planes, yuv", *with_("fir_planes")),
    ]
    if case == "crop":
        entries.append(
            Entry(
                "fast_image_resize planes' box, yuv",
                "fir_planes",
                "box",
                same_as="crop",
                note="resizes only the region of the crop; its edge pixels differ",
            )
        )
    entries += [
        Entry("yuv, fast_image_resize RGB", *with_("yuv_fir")),
        Entry("swscale bilinear, NumPy", *with_("swscale"), Expected(tolerance=swscale), note="PyAV's default" + dark),
        Entry(
            "swscale area, NumPy",
            *with_("swscale", "area"),
            Expected(kernel="area", tolerance=swscale),
            note=dark.removeprefix("; "),
        ),
        Entry("swscale accurate, NumPy", *with_("swscale", "accurate"), note="exact rounding, all chroma"),
        Entry("OpenCV area, NumPy", *with_("opencv"), Expected(kernel="area", matrix="bt601"), note="BT.601 only"),
        Entry("torchvision, RGB given", *with_("torchvision"), note="starts from RGB"),
        Entry("swscale RGB, torchvision", *with_("torchvision", "yuv"), Expected(tolerance=ROUNDED_DOWN)),
    ]
    return entries


def aliasing_entries() -> list[Entry]:
    two_taps = Expected(kernel="bilinear")
    two_taps_601 = Expected(kernel="bilinear", matrix="bt601")
    return [
        Entry("framespool, two taps", "framespool", "direct2", two_taps, same_as="direct", note="aliases"),
        Entry("swscale fast_bilinear, NumPy", "swscale", "direct-fast", two_taps, note="aliases; columns drift"),
        Entry("OpenCV linear, NumPy", "opencv", "direct-linear", two_taps_601, note="aliases; BT.601 only"),
    ]


def torchcodec_entries(case: str, label: str) -> tuple[list[Entry], list[Difference]]:
    read = Entry("reading that video", "decode", "raw", None, note="PyAV")
    entry = Entry(f"{label}, with reading", "torchcodec", case, Expected(tolerance=ROUNDED_DOWN), note="raw video")
    return [entry, read], [Difference(label, entry.label, read.label, "the first minus the second")]


def full_entries() -> list[Entry]:
    return [
        Entry("framespool", "framespool", "full"),
        Entry("swscale (PyAV's rgb24)", "swscale", "full", Expected(tolerance=ROUNDED_DOWN), note="1 too dark"),
        Entry("yuv", "yuv", "full"),
        Entry("OpenCV cvtColor", "opencv", "full", Expected(matrix="bt601"), note="BT.601 only"),
    ]


def augment_entries() -> list[Entry]:
    by_steps = Expected(tolerance=ROUNDED_EACH_STEP)
    entries = [Entry("framespool, plain resize", "framespool", "direct")]
    for n, step in enumerate(STEPS):
        words = "random resized crop" if n == 0 else f" + {step}"
        entries.append(Entry(f"framespool, {words}".replace(",  ", ", "), "framespool", f"aug-{step}"))
    entries += [
        Entry("framespool, all, compiled before", "framespool", "aug-kept", same_as="aug-grid"),
        Entry("torchvision, + flip", "torchvision", "aug-flip", note="starts from RGB"),
        Entry("torchvision, all", "torchvision", "aug-grid", by_steps, checked=3, note="starts from RGB"),
        Entry("DALI, + flip", "dali", "aug-flip", note="starts from RGB"),
        Entry("DALI, all", "dali", "aug-grid", replace(by_steps, contrast_center=127.5), note="starts from RGB"),
    ]
    return entries


def decode_entries(videos: list[Path]) -> list[Entry]:
    return [
        Entry("framespool, 224x224", "framespool", "direct"),
        Entry("framespool, 256 and crop", "framespool", "crop"),
        Entry("reading the planes once", "read", "planes", None, note="exclusive or, in Rust"),
        *(Entry(f"decoding {video.name}", "decode", str(video), None) for video in videos),
    ]


def all_groups(videos: list[Path]) -> dict[str, Group]:
    resized, less_reading = torchcodec_entries("direct", "torchcodec Resize")
    full, full_less_reading = torchcodec_entries("full", "torchcodec, no Resize")
    many = f"{NUM_FRAMES} frames by turns"
    warm = "the same frame repeatedly"
    return {
        "direct": Group(
            f"1080p to 224x224, normalized float32, channels first; {many}",
            32,
            resize_entries("direct") + resized + aliasing_entries(),
            less_reading,
        ),
        "crop": Group(f"1080p, shorter side to 256, center crop 224, same output; {many}", 32, resize_entries("crop")),
        "warm": Group(f"1080p to 224x224 as above; {warm}", 32, resize_entries("direct"), ring=1),
        "full": Group(f"1080p to RGB, 8 bits, channels last; {many}", 16, full_entries() + full, full_less_reading),
        "full_warm": Group(f"1080p to RGB as above; {warm}", 16, full_entries(), ring=1),
        "decode": Group(f"decoding before it; {many}", 32, decode_entries(videos)),
        "augment": Group(
            "augmentation, each step with those before it; a new one every 16 frames", 32, augment_entries()
        ),
    }
