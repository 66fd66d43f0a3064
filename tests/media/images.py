"""Generates the test images: photographs in class folders, one JPEG or PNG file of each variety, and damaged files.

The photographs are cut from real clips; Pillow or `jpeg.py` writes the files. The same packages give the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import struct
import subprocess
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jpeg
import numpy as np
from PIL import Image, ImageOps

#: Sources of the photographs: clip, three frames, and the crop (left, top, right, bottom).
SUBJECTS = {
    "bicycle": ("bikes.mp4", (216, 226, 236), (0.3, 0.0, 1.0, 1.0)),
    "burrow": ("bigbuckbunny.mp4", (2, 70, 110), (0.0, 0.2, 0.5, 0.9)),
    "businessman": ("bikes.mp4", (33, 38, 43), (0.2, 0.0, 0.9, 1.0)),
    "cyclist": ("bikes.mp4", (113, 124, 136), (0.5, 0.0, 1.0, 1.0)),
    "forest": ("bigbuckbunny.mp4", (5, 60, 125), (0.35, 0.0, 0.8, 0.45)),
    "lorry": ("bikes.mp4", (2, 14, 28), (0.1, 0.0, 0.8, 1.0)),
    "meadow": ("bigbuckbunny.mp4", (10, 50, 100), (0.45, 0.5, 1.0, 1.0)),
    "passenger": ("carphone_pristine.mp4", (0, 60, 110), (0.05, 0.0, 1.0, 1.0)),
    "pedestrian": ("bikes.mp4", (194, 200, 208), (0.0, 0.0, 1.0, 1.0)),
    "rabbit": ("bigbuckbunny.mp4", (24, 50, 120), (0.05, 0.0, 0.6, 1.0)),
    "rocks": ("bigbuckbunny.mp4", (15, 45, 90), (0.5, 0.25, 1.0, 0.75)),
    "street": ("bikes.mp4", (146, 165, 184), (0.0, 0.0, 1.0, 1.0)),
    "taxi": ("bikes.mp4", (66, 72, 75), (0.0, 0.0, 1.0, 1.0)),
    "traffic": ("bikes.mp4", (49, 54, 60), (0.0, 0.0, 1.0, 1.0)),
    "van": ("bikes.mp4", (88, 96, 130), (0.0, 0.0, 0.6, 1.0)),
}
CLIPS = {"bigbuckbunny.mp4": (1280, 720), "bikes.mp4": (640, 272), "carphone_pristine.mp4": (176, 144)}
#: Sizes of the photographs, in turn.
SIZES = [(640, 426), (320, 240), (1280, 853), (480, 720), (640, 360), (426, 640), (853, 480), (640, 427)]
ORIENTATIONS = {
    "horizontal": 1,
    "mirror_horizontal": 2,
    "rotate_180": 3,
    "mirror_vertical": 4,
    "mirror_horizontal_rotate_270": 5,
    "rotate_90": 6,
    "mirror_horizontal_rotate_90": 7,
    "rotate_270": 8,
}
#: Transform of an image before it is stored, so that the orientation shows it upright.
STORED = {3: Image.Transpose.ROTATE_180, 6: Image.Transpose.ROTATE_90}
#: Sampling factors of the components, by file.
SAMPLINGS = {
    "444": ((319, 240), [(1, 1), (1, 1), (1, 1)]),
    "440": ((320, 241), [(1, 2), (1, 1), (1, 1)]),
    "422-odd-width": ((227, 152), [(2, 1), (1, 1), (1, 1)]),
    "420-odd-both": ((427, 283), [(2, 2), (1, 1), (1, 1)]),
    "411-non-multiple-4-width": ((319, 239), [(4, 1), (1, 1), (1, 1)]),
    "410": ((320, 213), [(4, 2), (1, 1), (1, 1)]),
    "2x4": ((320, 213), [(2, 4), (1, 1), (1, 1)]),
    "3x1": ((200, 133), [(3, 1), (1, 1), (1, 1)]),
    "mixed": ((203, 135), [(2, 2), (1, 2), (2, 1)]),
}


def _frames(clips: dict[str, Path], ffmpeg: str) -> dict[tuple[str, int], Image.Image]:
    """The source frames of the photographs. Pillow converts them: swscale's pixels depend on the machine."""
    frames = {}
    for clip, (width, height) in CLIPS.items():
        numbers = sorted({number for name, numbers, _ in SUBJECTS.values() for number in numbers if name == clip})
        select = "+".join(f"eq(n,{number})" for number in numbers)
        command = [ffmpeg, "-v", "error", "-i", clips[clip], "-vf", f"select='{select}'", "-fps_mode", "passthrough"]
        raw = subprocess.run([*command, "-f", "rawvideo", "-"], check=True, capture_output=True).stdout
        size = width * height * 3 // 2
        if len(raw) != size * len(numbers):
            raise RuntimeError(
                f"{clips[clip]}: {len(numbers)} frames of {width}x{height} in yuv420p have not {len(raw)} bytes"
            )
        for n, number in enumerate(numbers):
            frame, half = raw[n * size : (n + 1) * size], (width // 2, height // 2)
            luma, chroma = frame[: width * height], frame[width * height :]
            planes = [Image.frombytes("L", (width, height), luma)]
            for part in (chroma[: len(chroma) // 2], chroma[len(chroma) // 2 :]):
                planes.append(Image.frombytes("L", half, part).resize((width, height), Image.Resampling.BILINEAR))
            frames[clip, number] = Image.merge("YCbCr", planes).convert("RGB")
    return frames


class _Photos:
    """Photographs by subject, number and size."""

    def __init__(self, clips: dict[str, Path], ffmpeg: str) -> None:
        self.frames = _frames(clips, ffmpeg)

    def __call__(self, subject: str, size: tuple[int, int], number: int = 0) -> Image.Image:
        clip, numbers, (left, top, right, bottom) = SUBJECTS[subject]
        frame = self.frames[clip, numbers[number]]
        width, height = frame.size
        part = frame.crop((round(left * width), round(top * height), round(right * width), round(bottom * height)))
        image = ImageOps.fit(part, size, Image.Resampling.BICUBIC)
        # Enlarged frames are smooth; camera images have noise. RandomState keeps its sequence in every version.
        noise = np.random.RandomState(number + 1).randint(-4, 5, (size[1], size[0], 1))
        return Image.fromarray((np.asarray(image, np.int16) + noise).clip(0, 255).astype(np.uint8))


def _save(image: Image.Image, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, **{"format": "JPEG", "quality": 80, **options})
    return file.getvalue()


def _ycc(image: Image.Image) -> np.ndarray:
    return np.asarray(image.convert("YCbCr"))


def _classes(photo: _Photos) -> Iterator[tuple[str, bytes]]:
    for n, (subject, number) in enumerate((s, i) for s in SUBJECTS for i in range(3)):
        width, height = SIZES[n % len(SIZES)]
        image = photo(subject, (width, height), number)
        more = {}
        if n % 4 == 0:
            more["exif"] = jpeg.exif(1, _save(image.resize((240, 160)), quality=90))
        yield f"{subject}/{subject}_{number}_{width}x{height}.jpg", _save(image, quality=85, **more)


def _interlaced_png(image: Image.Image) -> bytes:
    """An interlaced PNG file, which Pillow does not write. Not compressed: zlib's output depends on its version."""
    pixels = np.asarray(image)
    passes = (0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)
    rows = (row for x, y, dx, dy in passes for row in pixels[y::dy, x::dx])
    data = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows), 0)

    def chunk(name: bytes, payload: bytes) -> bytes:
        return struct.pack(">I", len(payload)) + name + payload + struct.pack(">I", zlib.crc32(name + payload))

    header = struct.pack(">IIBBBBB", *image.size, 8, 2, 0, 0, 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def _odd(photo: _Photos) -> Iterator[tuple[str, bytes]]:
    for name, (size, factors) in SAMPLINGS.items():
        yield f"subsampling_{name}.jpg", jpeg.encode(_ycc(photo("street", size)), factors)

    gray = photo("passenger", (128, 128)).convert("L")
    yield "grey_128x128.jpg", _save(gray)
    yield "grey_large.jpg", _save(photo("street", (1280, 853)).convert("L"), quality=60)
    # The only component of an image may have any factors: they change nothing.
    progressive = _save(photo("rabbit", (450, 337)).convert("L"), progressive=True)
    at = jpeg.offset(progressive, 0xC2) + 11
    yield "grey_progressive.jpg", progressive[:at] + b"\x22" + progressive[at + 1 :]
    yield "derived/grey_photo.jpg", _save(photo("cyclist", (640, 426)).convert("L"))
    yield "derived/progressive_photo.jpg", _save(photo("bicycle", (640, 512)), progressive=True)
    yield "progressive_422_odd.jpg", _save(photo("taxi", (201, 131)), progressive=True, subsampling="4:2:2")
    yield "progressive_restarts.jpg", _save(photo("van", (200, 152)), progressive=True, restart_marker_rows=1)

    yield (
        "qtables_16bit.jpg",
        jpeg.encode(_ycc(photo("passenger", (128, 128))), SAMPLINGS["420-odd-both"][1], quality=40, deep_tables=True),
    )
    rocks = _ycc(photo("rocks", (255, 161)))
    yield "non_interleaved_444.jpg", jpeg.encode(rocks, [(1, 1)] * 3, interleaved=False)
    yield "non_interleaved_420.jpg", jpeg.encode(rocks, [(2, 2), (1, 1), (1, 1)], interleaved=False, restart_interval=7)
    yield (
        "restarts_420.jpg",
        jpeg.encode(_ycc(photo("street", (359, 221))), [(2, 2), (1, 1), (1, 1)], restart_interval=19),
    )
    data = _save(photo("street", (512, 288)), subsampling="4:2:2", restart_marker_blocks=80)
    yield "mjpeg_no_huffman.jpg", jpeg.without(data, jpeg.DHT)

    # Adobe's transform 0 is CMYK or RGB, 1 YCbCr, 2 YCCK. Values of CMYK are stored inverted.
    ink = 255 - np.asarray(photo("rabbit", (130, 99)))
    black = ink.min(axis=2, keepdims=True) // 2
    inverted = 255 - np.dstack([ink - black, black])
    ycck = np.dstack([_ycc(Image.fromarray(inverted[..., :3])), inverted[..., 3]])
    adobe = [jpeg.segment(jpeg.APP14, b"Adobe\0\x64\0\0\0\0" + bytes((transform,))) for transform in range(3)]
    yield "cmyk_pil.jpg", _save(Image.fromarray(255 - inverted, "CMYK"))
    yield "cmyk_ycck.jpg", jpeg.encode(ycck, [(2, 2), (1, 1), (1, 1), (2, 2)], header=adobe[2])
    yield "cmyk_adobe_444.jpg", jpeg.encode(inverted, [(1, 1)] * 4, header=adobe[0], restart_interval=13)
    yield "cmyk_plain.jpg", jpeg.encode(inverted, [(1, 1)] * 4)
    rgb = np.asarray(photo("meadow", (131, 97)))
    yield "rgb_adobe.jpg", jpeg.encode(rgb, [(1, 1)] * 3, header=adobe[0])
    yield "rgb_named.jpg", jpeg.encode(rgb, [(1, 1)] * 3, header=b"", ids=b"RGB")
    yield "ycc_adobe.jpg", jpeg.encode(_ycc(Image.fromarray(rgb)), [(1, 1)] * 3, header=adobe[1])

    turned = photo("bicycle", (320, 213))
    yield "exif_no_exif.jpg", _save(turned)
    for name, orientation in ORIENTATIONS.items():
        yield f"exif_{name}.jpg", _save(turned, exif=jpeg.exif(orientation))
    landscape = photo("meadow", (600, 400))
    for orientation, method in STORED.items():
        yield f"exif_landscape_{orientation}.jpg", _save(landscape.transpose(method), exif=jpeg.exif(orientation))
    profile = bytes(np.random.RandomState(9).bytes(140_000))
    sideways = photo("pedestrian", (201, 243)).transpose(Image.Transpose.TRANSPOSE)
    yield "exif_sideways_444.jpg", _save(sideways, exif=jpeg.exif(5), subsampling=0, icc_profile=profile[:3144])
    xmp = jpeg.segment(jpeg.APP1, b"http://ns.adobe.com/xap/1.0/\0<x:xmpmeta xmlns:x='adobe:ns:meta/'/>")
    pixel = Image.new("RGB", (1, 1), (200, 30, 90))
    data = _save(pixel, progressive=True, subsampling=0, exif=jpeg.exif(1))
    yield "exif_xmp_1x1.jpg", jpeg.insert(data, 2, xmp)
    thumbnail = _save(landscape.resize((160, 107)), quality=90)
    yield "camera_thumbnail.jpg", _save(landscape, subsampling="4:2:2", exif=jpeg.exif(1, thumbnail))
    # The data continues in the second segment, which contains the orientation.
    both = jpeg.exif(3, thumbnail)
    parts = [jpeg.segment(jpeg.APP1, part) for part in (both[:15], b"Exif\0\0" + both[15:])]
    yield "exif_two_segments.jpg", jpeg.insert(_save(landscape.resize((90, 60))), 20, *parts)
    data = _save(pixel.convert("L"))
    yield "multiple_exif.jpg", jpeg.insert(data, 20, *[jpeg.segment(jpeg.APP1, jpeg.exif(n)) for n in (1, 6)])
    data = _save(photo("forest", (140, 100)))
    yield "exif_broken.jpg", jpeg.insert(data, 20, jpeg.segment(jpeg.APP1, jpeg.exif(6)[:20]))

    yield "icc_big.jpg", _save(photo("forest", (142, 83)), progressive=True, icc_profile=profile)
    data = _save(photo("burrow", (320, 240)))
    yield "junk_between_segments.jpg", jpeg.insert(data, 20, b"\x01\x02junk")
    yield "stuffed_header.jpg", jpeg.insert(data, 20, b"\xff\0\0\xff\xff")
    yield "junk_after.jpg", data + b"\0" * 100 + b"junk"
    second = [photo("van", (80, 45))]
    yield "multi_picture.jpg", _save(photo("lorry", (160, 90)), format="MPO", save_all=True, append_images=second)
    # A frame header is enough for these processes: no decoder here supports them.
    data = _save(gray)
    frame = jpeg.offset(data, 0xC0)
    for name, marker, bits in [("lossless_12bit", 0xC3, 12), ("extended_12bit", 0xC1, 12), ("hierarchical", 0xC5, 8)]:
        header = bytes((0xFF, marker, *data[frame + 2 : frame + 4], bits))
        yield f"{name}_gray.jpg", data[:frame] + header + data[frame + 5 :]

    png = photo("forest", (96, 65))
    yield "misnamed_png.jpeg", _save(png, format="PNG")
    yield "png_alpha.png", _save(png.convert("RGBA"), format="PNG")
    yield "png_palette.png", _save(png.quantize(60), format="PNG")
    yield "png_palette_4bit.png", _save(png.quantize(11), format="PNG")
    yield "png_grey.png", _save(png.convert("L"), format="PNG")
    yield "png_grey_alpha.png", _save(png.convert("LA"), format="PNG")
    yield "png_1bit.png", _save(png.convert("1"), format="PNG")
    deep = np.asarray(png.convert("L"), np.uint16) * 251
    yield "png_grey_16bit.png", _save(Image.fromarray(deep), format="PNG")
    yield "png_turned.png", _save(png, format="PNG", exif=jpeg.exif(6)[6:])
    yield "png_interlaced.png", _interlaced_png(png)


def _corrupt(photo: _Photos) -> Iterator[tuple[str, bytes]]:
    whole = _save(photo("traffic", (1280, 853)), quality=50)
    for share in (5, 50, 90, 99):
        yield f"derived/truncated_{share}.jpg", whole[: len(whole) * share // 100]
    small = _save(photo("taxi", (100, 100)))
    yield "derived/no_end_marker.jpg", small[:-2]
    yield "derived/no_scan.jpg", small[: jpeg.offset(small, jpeg.SOS)] + b"\xff\xd9"
    progressive = _save(photo("taxi", (100, 100)), progressive=True)
    yield "derived/truncated_progressive.jpg", progressive[: len(progressive) * 3 // 4]
    middle = _save(photo("van", (640, 426)))
    flipped, random = bytearray(middle), np.random.RandomState(21)
    for at in range(4096, len(flipped), 4001):
        flipped[at] ^= 1 << random.randint(8)
    yield "derived/bitflip.jpg", bytes(flipped)
    yield "derived/header_only.jpg", small[:200]
    yield "derived/text_named.jpg", b"This is no picture in spite of its name.\n" * 20
    yield "derived/zero_bytes.jpg", b""
    yield "derived/zeros.jpg", small[:2] + bytes(4000)
    png = _save(photo("taxi", (60, 40)), format="PNG")
    yield "derived/truncated.png", png[: len(png) // 2]
    yield "derived/bad_checksum.png", png[:60] + bytes((png[60] ^ 1,)) + png[61:]

    frame = jpeg.offset(small, 0xC0)

    def changed(at: int, *values: int) -> bytes:
        """The small file with other bytes at an offset within its frame header."""
        return small[: frame + at] + bytes(values) + small[frame + at + len(values) :]

    yield "sof_65500x65500.jpg", changed(5, 0xFF, 0xDC, 0xFF, 0xDC)
    yield "sof_zero_width.jpg", changed(7, 0, 0)
    yield "sof_zero_height.jpg", changed(5, 0, 0)
    yield "sof_five_components.jpg", changed(9, 5)
    yield "sof_factor_zero.jpg", changed(11, 0x02)
    yield "sof_factor_seven.jpg", changed(11, 0x72)
    yield "sof_missing.jpg", jpeg.without(small, 0xC0)
    yield "sof_twice.jpg", jpeg.insert(small, frame, small[frame : frame + 19])
    yield "dqt_missing.jpg", jpeg.without(small, jpeg.DQT)
    huffman = jpeg.offset(small, jpeg.DHT) + 5
    yield "dht_too_many_codes.jpg", small[:huffman] + b"\xff" * 16 + small[huffman + 16 :]
    yield "junk_before.jpg", b"junk" + small
    # These decode: the error is not in the image data.
    yield "truncated_app14.jpg", jpeg.insert(small, 20, jpeg.segment(jpeg.APP14, b"Adobe\0\x64\0"))
    yield "icc_after_sof.jpg", jpeg.insert(small, frame + 19, jpeg.segment(jpeg.APP2, b"ICC_PROFILE\0\1\1" + b"?" * 60))
    yield "invalid_exif.jpg", jpeg.insert(small, 20, jpeg.segment(jpeg.APP1, b"Exif\0\0" + b"\x55" * 40))
    yield "bad_mpo_header.jpg", jpeg.insert(small, 20, jpeg.segment(jpeg.APP2, b"MPF\0" + b"\x77" * 30))


#: Files whose EXIF data Pillow and framespool may read differently.
EXIF_BROKEN = {"odd/multiple_exif.jpg", "odd/exif_broken.jpg", "corrupt/invalid_exif.jpg"}


def _describe(name: str, data: bytes) -> dict[str, Any]:
    """A file's manifest entry: data of its segments, and Pillow's result."""
    entry: dict[str, Any] = {"path": f"images/{name}", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    if data.startswith(b"\xff\xd8"):
        for marker, _, payload in jpeg.segments(data):
            if marker in jpeg.FRAMES and len(payload) >= 6:
                entry["process"] = jpeg.FRAMES[marker]
                sizes = struct.unpack_from(">BHHB", payload)
                entry |= zip(("precision", "height", "width", "components"), sizes, strict=True)
                factors = payload[7::3]
                entry["sampling"] = [f"{f >> 4}x{f & 15}" for f in factors]
            elif marker == jpeg.DRI:
                entry["restart_interval"] = int.from_bytes(payload)
    elif data.startswith(b"\x89PNG"):
        entry["width"], entry["height"], entry["precision"] = struct.unpack_from(">IIB", data, 16)
        entry["process"] = "interlaced" if data[28] else "deflate"
    if name in EXIF_BROKEN:
        entry["exif_broken"] = True
    try:
        # Pillow warns of broken EXIF data.
        with warnings.catch_warnings(action="ignore"), Image.open(io.BytesIO(data)) as image:
            entry |= {"pillow_format": image.format, "pillow_mode": image.mode}
            if (orientation := image.getexif().get(0x0112)) is not None:
                entry["exif_orientation"] = orientation
            image.load()
            # Pillow's conversion does not keep 16 bits.
            if entry["precision"] <= 8:
                entry["rgb_md5"] = hashlib.md5(image.convert("RGB").tobytes()).hexdigest()[:16]
            entry["pillow_decodes"] = True
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        entry |= {"pillow_decodes": False, "pillow_error": type(error).__name__}
    return entry


def make(out: Path, clips: dict[str, Path], ffmpeg: str) -> list[dict[str, Any]]:
    """Writes the images.

    Args:
        out: The folder of the test media; the files go to its folder images.
        clips: The clips of `CLIPS` by name.
        ffmpeg: An ffmpeg program.

    Returns:
        The manifest's entries.
    """
    photo = _Photos(clips, ffmpeg)
    entries = []
    for folder, files in {"classes": _classes, "odd": _odd, "corrupt": _corrupt}.items():
        for name, data in files(photo):
            path = out / "images" / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            entries.append(_describe(f"{folder}/{name}", data))
    return entries
