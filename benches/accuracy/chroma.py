"""Compares chroma repetition with interpolation, from half to full size, with a known reference.

    python benches/accuracy/chroma.py [--json out.json] [--clip-first]

The reference is 4:4:4: frames of the corpus whose luma is averaged over 2x2 pixels, so that their chroma has full
resolution, and one synthetic image of saturated edges. Its chroma is subsampled to 4:2:0 in two ways, stored lossless
and resized:
    center  each sample is the mean of 2x2 pixels, sited between them (MPEG-1, JPEG)
    left    (1 2 1)/4 horizontally at every second pixel, vertically the mean of two (default of MPEG-2, H.264, HEVC)

The reference is the antialiased float64 resize of the 4:4:4 RGB. Compared with it, in 8 bits:

    framespool       Resize of the 4:2:0 file
    repeat           float64: chroma repeated, then resized
    repeat left      float64: chroma repeated over the two pixels around its left site (half a pixel to the left of
                     `repeat`), then resized
    linear center    float64: linear interpolation of chroma that is assumed to be sited at the center; then resized
    linear left      the same, assumed to be sited left
    swscale          bilinear with accurate_rnd, full_chroma_int, full_chroma_inp

All except `--clip-first`, and the reference too, clip to 0..255 after the resize, so that only chroma differs.
Exits with 1 if framespool differs by more than 1 from `repeat`.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import framespool as fsp
import numpy as np
import PIL
from common import (
    CAREFUL,
    Picture,
    Tally,
    corpus,
    encode,
    exact_rgb,
    interpolated_rgb,
    lossless,
    out_of_gamut,
    read_picture,
    repeated_left_rgb,
    resize,
    swscale,
    to_8_bit,
    versions,
    write_json,
)
from PIL import Image, ImageDraw

FRAMES = {
    "jellyfish": "video/1080p/jellyfish_30p.mkv@24",
    "park": "video/1080p/park_street_30p.mp4@24",
    "city": "video/1080p/drone_city_24p.mp4@24",
    "street": "video/codecs/hevc_street_1376x1840.mp4@24",
    "football": "video/action/juggle_ball_720p.mp4@24",
    "cartoon": "video/codecs/h264_bbb_b_pyramid.mp4@24",
}
DRAWN = "drawn"
SITINGS = ("center", "left")
FACTORS = [Fraction(n) for n in ("1/2", "3/5", "7/10", "4/5", "9/10", "1")]
METHODS = ("framespool", "repeat", "repeat left", "linear center", "linear left", "swscale")
GUARANTEED = 1


@dataclass(frozen=True)
class Error:
    """Differences of 8-bit values from the float64 reference."""

    psnr: float
    mean: float
    worst: float
    within_2: float

    @classmethod
    def between(cls, values: np.ndarray, reference: np.ndarray) -> Error:
        away = np.abs(values - reference)
        psnr = 10 * np.log10(255**2 / np.mean(away**2))
        return cls(float(psnr), float(away.mean()), float(away.max()), float((away <= 2).mean()))

    @classmethod
    def over(cls, errors: list[Error]) -> Error:
        """Means over images; the worst of all maxima."""
        mean = (float(np.mean([getattr(e, name) for e in errors])) for name in ("psnr", "mean", "within_2"))
        psnr, off, within = mean
        return cls(psnr, off, max(e.worst for e in errors), within)


def full_chroma(name: str) -> Picture:
    """A 4:2:0 frame at half its size: luma averaged, chroma unchanged."""
    path, _, index = name.partition("@")
    picture = read_picture(corpus() / path, int(index))
    if picture.chroma != "4:2:0" or picture.depth != 8:
        raise ValueError(f"{name} is {picture.pix_fmt}; 8-bit 4:2:0 is wanted")
    y, cb, cr = picture.planes
    height, width = (side // 4 * 4 for side in y.shape)
    luma = y[:height, :width].reshape(height // 2, 2, width // 2, 2).mean(axis=(1, 3))
    planes = (np.floor(luma + 0.5).astype(np.uint8), *(c[: height // 2, : width // 2] for c in (cb, cr)))
    return Picture(planes, "4:4:4", 8, picture.matrix, picture.full_range)


def drawn() -> Picture:
    """Saturated rectangles, thin lines and letters on gray: edges as on screens, not as in camera video."""
    rng = np.random.default_rng(0)
    image = Image.new("RGB", (960, 540), (128, 128, 128))
    pen = ImageDraw.Draw(image)
    colors = [
        (255, 0, 0),
        (0, 255, 0),
        (0, 0, 255),
        (255, 255, 0),
        (0, 255, 255),
        (255, 0, 255),
        (0, 0, 0),
        (255,) * 3,
    ]
    for _ in range(150):
        x, y = int(rng.integers(960)), int(rng.integers(540))
        color = colors[rng.integers(len(colors))]
        match rng.integers(4):
            case 0:
                pen.rectangle((x, y, x + int(rng.integers(4, 90)), y + int(rng.integers(4, 90))), fill=color)
            case 1:
                pen.line((x, y, int(rng.integers(960)), int(rng.integers(540))), color, int(rng.integers(1, 4)))
            case 2:
                pen.ellipse((x, y, x + int(rng.integers(6, 80)), y + int(rng.integers(6, 80))), outline=color, width=2)
            case _:
                pen.text((x, y), "saturated edges", fill=color)
    return encode(np.asarray(image, np.float64), "4:4:4", 8, "BT.709", False)


def subsample(picture: Picture, siting: str) -> Picture:
    planes = [picture.planes[0]]
    for samples in picture.planes[1:]:
        rows = samples.reshape(samples.shape[0] // 2, 2, -1).mean(axis=1)
        if siting == "center":
            few = (rows[:, 0::2] + rows[:, 1::2]) / 2
        else:
            edged = np.pad(rows, ((0, 0), (1, 1)), mode="edge")
            few = ((edged[:, :-2] + 2 * rows + edged[:, 2:]) / 4)[:, ::2]
        planes.append(np.floor(few + 0.5).astype(np.uint8))
    return Picture(tuple(planes), "4:2:0", 8, picture.matrix, picture.full_range)


def measure(picture: Picture, clip_first: bool) -> tuple[dict[tuple[str, str, str], Error], int]:
    """Errors by siting, factor and method; and the largest difference of framespool from `repeat`."""
    errors = {}
    from_repeat = 0

    def limit(rgb: np.ndarray) -> np.ndarray:
        return np.clip(rgb, 0, 255) if clip_first else rgb

    truth = limit(exact_rgb(picture))
    for siting in SITINGS:
        few = subsample(picture, siting)
        video = fsp.Video(lossless([few]), layout="THWC")
        rgb = {"repeat": exact_rgb(few), "repeat left": repeated_left_rgb(few)}
        rgb |= {f"linear {s}": interpolated_rgb(few, s) for s in SITINGS}
        for factor in FACTORS:
            size = tuple(round(side * factor) for side in picture.size)
            reference = np.clip(resize(truth, size), 0, 255)
            values = {way: to_8_bit(resize(limit(full), size)) for way, full in rgb.items()}
            values["framespool"] = video.frames([0], transforms=[fsp.transforms.Resize(size)]).frames.numpy()[0]
            values["swscale"] = swscale(few, CAREFUL, size)
            if not clip_first:
                from_repeat = max(from_repeat, Tally((values["framespool"], values["repeat"])).worst)
            for way in METHODS:
                errors[siting, str(factor), way] = Error.between(values[way], reference)
    return errors, from_repeat


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument(
        "--clip-first", action="store_true", help="clip the full-size RGB, as torchvision gets it, then resize"
    )
    arguments = parser.parse_args()
    using = versions(PIL=PIL.__version__)
    print(", ".join(f"{name} {version}" for name, version in using.items()))
    pictures = {name: full_chroma(source) for name, source in FRAMES.items()} | {DRAWN: drawn()}
    errors, from_repeat = {}, 0
    for name, picture in pictures.items():
        errors[name], distance = measure(picture, arguments.clip_first)
        from_repeat = max(from_repeat, distance)
        height, width = picture.size
        print(f"{name}: {width}x{height}, outside RGB {100 * out_of_gamut(exact_rgb(picture)):.2f} %", flush=True)

    for title, names in (("camera and cartoon, mean over frames", list(FRAMES)), ("synthetic image", [DRAWN])):
        print(f"\n{title}; PSNR in dB, then the difference to framespool's (dB)")
        print(f"{'siting':<7} {'factor':<6} {'way':<14} {'PSNR':>6} {'nearer':>7} {'mean':>6} {'max':>6} {'% <=2':>6}")
        for siting in SITINGS:
            for factor in map(str, FACTORS):
                rows = {way: Error.over([errors[n][siting, factor, way] for n in names]) for way in METHODS}
                for way, e in rows.items():
                    nearer = "" if way == "framespool" else f"{e.psnr - rows['framespool'].psnr:+.2f}"
                    print(
                        f"{siting:<7} {factor:<6} {way:<14} {e.psnr:>6.2f} {nearer:>7} {e.mean:>6.3f} {e.worst:>6.1f}"
                        f" {100 * e.within_2:>6.2f}"
                    )

    print("\nPSNR minus framespool's, by image (dB): above 0, the method is closer to the reference")
    for way in METHODS[2:]:
        print(f"{way:<14} {'siting':<7} {'factor':<6} " + " ".join(f"{name:>9}" for name in pictures))
        for siting in SITINGS:
            for factor in map(str, FACTORS):
                gains = [by[siting, factor, way].psnr - by[siting, factor, "framespool"].psnr for by in errors.values()]
                print(f"{'':<14} {siting:<7} {factor:<6} " + " ".join(f"{gain:>+9.2f}" for gain in gains))

    rows = [
        {"picture": name, "siting": siting, "factor": factor, "way": way, **vars(error)}
        for name, by in errors.items()
        for (siting, factor, way), error in by.items()
    ]
    write_json(arguments.json, "chroma", using, clip_first=arguments.clip_first, rows=rows)
    if arguments.clip_first:
        return 0
    print(f"\nframespool's largest difference from `repeat`: {from_repeat}")
    return int(from_repeat > GUARANTEED)


if __name__ == "__main__":
    sys.exit(main())
