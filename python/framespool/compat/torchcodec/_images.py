"""torchcodec's image decoders, for the formats that framespool decodes: JPEG, PNG, WebP and AVIF."""

from __future__ import annotations

import os
from enum import Enum
from typing import Any, Literal

from framespool.compat._image_files import image_format, is_animation
from framespool.compat.torchcodec._torch import needed
from framespool.errors import Error
from framespool.loaders._images import decode_image as decode

#: Formats that are refused, with the library that torchcodec names in its error if it lacks it.
MISSING = {"gif": "giflib", "heic": "libheif"}

Mode = Literal["UNCHANGED", "GRAY", "GRAY_ALPHA", "RGB", "RGB_ALPHA"]


class ImageReadMode(Enum):
    """Channels of a decoded image; its name can also be passed as a string."""

    UNCHANGED = 0
    GRAY = 1
    GRAY_ALPHA = 2
    RGB = 3
    RGB_ALPHA = 4
    RGBA = 4


def decode_image(source: Any, *, mode: Mode | ImageReadMode = "RGB", output_dtype: Any = None) -> Any:
    """Decodes a JPEG, PNG, WebP or AVIF; the first bytes determine the format.

    Args:
        source: A path, bytes, or a 1-D uint8 tensor of a file.
        mode: "RGB", "GRAY" (luma of ITU-R 601), "RGB_ALPHA" or "GRAY_ALPHA" (with an opaque alpha channel, for images
            without alpha), or "UNCHANGED" for images that are RGB or gray. "RGB" and "GRAY" drop an alpha channel and
            convert CMYK.
        output_dtype: ``torch.uint8``, ``torch.uint16`` (values times 257) or ``"auto"``. By default ``torch.uint8``.

    Returns:
        torch.Tensor (C, H, W).

    Raises:
        ValueError: If torchcodec does not have an option or the format.
        RuntimeError: If the image cannot be decoded, or framespool refuses it: alpha in a mode with alpha or
            "UNCHANGED", more than 8 bits with another ``output_dtype`` than uint8, CMYK with "UNCHANGED", animated WebP
            and AVIF, and GIF and HEIC.

    Example:
        >>> from framespool.compat.torchcodec import decoders
        >>> decoders.decode_image("frames/img_00001.png").shape  # doctest: +SKIP
        torch.Size([3, 16, 32])
    """
    data = _bytes(source)
    kind = image_format(data)
    if kind is None:
        raise ValueError(
            "Unsupported or unrecognized image format: framespool decodes JPEG, PNG, WebP and AVIF; convert the image"
        )
    return _decode(data, kind, mode, output_dtype)


def decode_jpeg(
    source: Any, *, mode: Mode | ImageReadMode = "RGB", output_dtype: Any = None, device: Any = "cpu"
) -> Any:
    """Decodes a JPEG, or a list of them, as :func:`decode_image` does.

    Args:
        source: As for :func:`decode_image`, or a list of sources.
        mode: As for :func:`decode_image`.
        output_dtype: As for :func:`decode_image`.
        device: Device of the tensors; the CPU decodes (:class:`framespool.ImageLoader` has nvJPEG).

    Returns:
        torch.Tensor (C, H, W), or a list of them for a list of sources.

    Raises:
        RuntimeError: If the image cannot be decoded, or is not a JPEG.
    """
    several = isinstance(source, (list, tuple))
    made = [_decode(_bytes(one), "jpeg", mode, output_dtype).to(device) for one in (source if several else [source])]
    return made if several else made[0]


def decode_png(source: Any, *, mode: Mode | ImageReadMode = "RGB", output_dtype: Any = None) -> Any:
    """Decodes a PNG, as :func:`decode_image` does.

    Args:
        source: A path, bytes, or a 1-D uint8 tensor of a file.
        mode: As for :func:`decode_image`.
        output_dtype: As for :func:`decode_image`.

    Returns:
        torch.Tensor (C, H, W).

    Raises:
        RuntimeError: If the image cannot be decoded, or is not a PNG.
    """
    return _decode(_bytes(source), "png", mode, output_dtype)


def decode_webp(source: Any, *, mode: Mode | ImageReadMode = "RGB", output_dtype: Any = None) -> Any:
    """Decodes a WebP, as :func:`decode_image` does.

    Args:
        source: A path, bytes, or a 1-D uint8 tensor of a file.
        mode: As for :func:`decode_image`.
        output_dtype: As for :func:`decode_image`.

    Returns:
        torch.Tensor (C, H, W).

    Raises:
        RuntimeError: If the image cannot be decoded, or is not a WebP.
    """
    return _decode(_bytes(source), "webp", mode, output_dtype)


def decode_gif(source: Any, *, mode: Mode | ImageReadMode = "RGB", output_dtype: Any = None) -> Any:
    """Raises RuntimeError: framespool does not decode GIF as an image, only as a video with :class:`framespool.Video`.

    Args:
        source: A path, bytes, or a 1-D uint8 tensor of a file.
        mode: As for :func:`decode_image`.
        output_dtype: As for :func:`decode_image`.

    Returns:
        Never.

    Raises:
        RuntimeError: Always.
    """
    return _decode(_bytes(source), "gif", mode, output_dtype)


def decode_avif(
    source: Any, *, mode: Mode | ImageReadMode = "RGB", output_dtype: Any = None, num_threads: int = 1
) -> Any:
    """Decodes an AVIF, as :func:`decode_image` does. Values differ from torchcodec's by a few levels.

    Args:
        source: A path, bytes, or a 1-D uint8 tensor of a file.
        mode: As for :func:`decode_image`.
        output_dtype: As for :func:`decode_image`.
        num_threads: No effect.

    Returns:
        torch.Tensor (C, H, W).

    Raises:
        RuntimeError: If the image cannot be decoded, or is not an AVIF.
    """
    return _decode(_bytes(source), "avif", mode, output_dtype)


def decode_heic(source: Any, *, mode: Mode | ImageReadMode = "RGB", output_dtype: Any = None) -> Any:
    """Raises RuntimeError: framespool does not decode HEIC.

    Args:
        source: A path, bytes, or a 1-D uint8 tensor of a file.
        mode: As for :func:`decode_image`.
        output_dtype: As for :func:`decode_image`.

    Returns:
        Never.

    Raises:
        RuntimeError: Always.
    """
    return _decode(_bytes(source), "heic", mode, output_dtype)


def _bytes(source: Any) -> bytes:
    torch = needed()
    if isinstance(source, torch.Tensor):
        if source.dtype != torch.uint8:
            raise RuntimeError(f"Input tensor must have uint8 data type, got {source.dtype}")
        if source.ndim != 1 or not source.numel():
            raise RuntimeError(f"Input tensor must be 1-dimensional and non-empty, got shape {tuple(source.shape)}")
        return bytes(source.contiguous().numpy().tobytes())
    if isinstance(source, (str, os.PathLike)):
        with open(source, "rb") as file:
            return file.read()
    if isinstance(source, (bytes, bytearray)):
        return bytes(source)
    raise TypeError(f"Unknown source type {type(source).__name__}: give a path, bytes or a uint8 tensor")


def _decode(data: bytes, kind: str, mode: Mode | ImageReadMode, output_dtype: Any) -> Any:
    torch = needed()
    if output_dtype not in (None, torch.uint8, torch.uint16, "auto"):
        raise ValueError(f"Invalid output_dtype ({output_dtype!r}): give torch.uint8, torch.uint16 or 'auto'")
    wanted = _mode(mode)
    if kind in MISSING:
        raise RuntimeError(
            f"framespool does not decode {kind.upper()} images, as it does not contain {MISSING[kind]}; convert "
            "them to JPEG, PNG, WebP or AVIF"
        )
    if image_format(data) != kind:
        raise RuntimeError(f"Not a {kind.upper()} file: starts with {data[:8]!r}")
    if kind == "webp" and is_animation(data):
        raise RuntimeError(
            "framespool decodes the first frame only of an animated WebP, of which torchcodec returns all frames; "
            "convert it to GIF or MP4 for VideoDecoder"
        )
    channels, bits = _stored(data, kind)
    if bits > 8 and output_dtype not in (None, torch.uint8):
        raise RuntimeError(f"framespool decodes {bits} bits to 8; give output_dtype=torch.uint8")
    if kind == "jpeg" and channels == 4 and wanted is ImageReadMode.UNCHANGED:
        raise RuntimeError("framespool converts CMYK to RGB; give mode='RGB' or 'GRAY' instead of 'UNCHANGED'")
    if wanted is ImageReadMode.UNCHANGED:
        wanted = {1: ImageReadMode.GRAY, 2: ImageReadMode.GRAY_ALPHA, 3: ImageReadMode.RGB}.get(
            channels, ImageReadMode.RGB_ALPHA
        )
    has_alpha = kind != "jpeg" and channels in (2, 4)
    if has_alpha and wanted in (ImageReadMode.GRAY_ALPHA, ImageReadMode.RGB_ALPHA):
        raise RuntimeError(f"framespool does not decode alpha, which mode={mode!r} requests; give mode='RGB' or 'GRAY'")
    try:
        image = decode(data, layout="CHW").torch()
    except Error as reason:
        raise RuntimeError(str(reason)) from reason
    if wanted in (ImageReadMode.GRAY, ImageReadMode.GRAY_ALPHA):
        # The three channels of a gray file are equal.
        image = image[:1].clone() if channels < 3 else _luma(image)
    if wanted in (ImageReadMode.GRAY_ALPHA, ImageReadMode.RGB_ALPHA):
        image = torch.cat([image, torch.full_like(image[:1], 255)])
    if output_dtype == torch.uint16:
        image = (image.to(torch.int32) * 257).to(torch.uint16)
    return image


def _mode(mode: Any) -> ImageReadMode:
    if isinstance(mode, ImageReadMode):
        return mode
    if not isinstance(mode, str):
        raise TypeError(f"mode must be a str or an ImageReadMode, got {type(mode).__name__}")
    if mode.upper() not in ImageReadMode.__members__:
        raise ValueError(f"Invalid mode {mode!r}: give one of {', '.join(repr(known.name) for known in ImageReadMode)}")
    return ImageReadMode[mode.upper()]


def _stored(data: bytes, kind: str) -> tuple[int, int]:
    """Returns the channels of the file, alpha and the black of CMYK included, and the bits per channel."""
    if kind == "png":
        if len(data) < 26:
            return 3, 8  # decoding reports the error
        bits, color = data[24], data[25]
        if color == 3:
            return (4 if b"tRNS" in data[: data.find(b"IDAT")] else 3), 8
        return {0: 1, 2: 3, 4: 2, 6: 4}.get(color, 3), bits
    if kind == "webp":
        # The flags of a VP8X chunk, or of the header of a VP8L chunk.
        place = {b"VP8X": 20, b"VP8L": 24}.get(data[12:16], len(data))
        return (4 if place < len(data) and data[place] & 0x10 else 3), 8
    if kind == "avif":
        config = data.find(b"av1C") + 6  # the byte with high_bitdepth, twelve_bit and monochrome
        flags = data[config] if 6 <= config < len(data) else 0
        has_alpha = b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha" in data[: data.find(b"mdat")]
        return (1 if flags & 0x10 else 3) + has_alpha, (12 if flags & 0x20 else 10) if flags & 0x40 else 8
    place = 2
    while place + 9 < len(data) and data[place] == 0xFF:
        marker = data[place + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return data[place + 9], 8
        if marker == 0xFF:
            place += 1
            continue
        place += 2 + int.from_bytes(data[place + 2 : place + 4], "big")
    return 3, 8


def _luma(image: Any) -> Any:
    """Returns the luma of ITU-R 601, with the weights to which torchvision and torchcodec round it."""
    torch = needed()
    weights = torch.tensor([0.2989, 0.587, 0.114])[:, None, None]
    return (image.to(torch.float32) * weights).sum(dim=0, keepdim=True).round().clamp(0, 255).to(torch.uint8)
