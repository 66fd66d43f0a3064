"""Image files as videos: framespool reads the first frame only of an animated PNG or WebP, so they are refused."""

from __future__ import annotations

from typing import Any

from framespool._common.validate_args import is_url
from framespool.errors import InvalidDataError, UnsupportedError
from framespool.video._sources import ArchiveMember
from framespool.video._video import Video, is_file_object

#: Bytes that determine the format.
_HEAD_BYTES = 64
#: Formats of which framespool reads the first frame only, by FFmpeg's name.
_FIRST_FRAME_ONLY = {"png": "PNG", "webp": "WebP"}


def image_format(data: bytes) -> str | None:
    """Returns the format of an image file.

    Args:
        data: The file, or its first 64 bytes.

    Returns:
        "jpeg", "png", "gif", "webp", "avif", "heic", or ``None`` for other files.
    """
    brands = data[8:64] if data[4:8] == b"ftyp" else b""
    signatures = {
        "jpeg": data[:3] == b"\xff\xd8\xff",
        "png": data[:8] == b"\x89PNG\r\n\x1a\n",
        "gif": data[:6] in (b"GIF87a", b"GIF89a"),
        "webp": data[:4] == b"RIFF" and data[8:12] == b"WEBP",
        "avif": b"avif" in brands or b"avis" in brands,
        "heic": any(
            brand in brands for brand in (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
        ),
    }
    return next((name for name, fits in signatures.items() if fits), None)


def is_animation(data: bytes) -> bool:
    """Reports whether a file is an animated WebP or PNG.

    Args:
        data: The file.

    Returns:
        Whether it is one, also of a single frame.
    """
    kind = image_format(data)
    if kind == "webp":
        return data[12:16] == b"VP8X" and len(data) > 20 and bool(data[20] & 2)
    return kind == "png" and b"acTL" in data[: data.find(b"IDAT")]


def open_video(source: Any, **keywords: Any) -> Video:
    """Opens a video, and refuses image files of which only the first frame would be read.

    Args:
        source: A path, bytes, an archive member or a file object.
        keywords: Arguments of :class:`framespool.Video`.

    Returns:
        The video.

    Raises:
        UnsupportedError: For an animated PNG or WebP. For a PNG or WebP at a URL, which may be one. For the contents of
            one without a file name.
        Error: Those of :class:`framespool.Video`.
    """
    try:
        video = Video(source, **keywords)
    except InvalidDataError as reason:
        kind = _FIRST_FRAME_ONLY.get(image_format(_read(source, _HEAD_BYTES)) or "")
        if kind is None:
            raise
        if is_animation(_read(source)):
            raise UnsupportedError(f"{reason.file}: {_only_first(kind)}; convert it to MP4") from reason
        raise UnsupportedError(
            f"{reason.file}: a {kind} is read as a video only if it has a file name that ends in .{kind.lower()}; give "
            "its path, or decode it with framespool.decode_image()"
        ) from reason
    kind = _FIRST_FRAME_ONLY.get(video.info.container)
    if kind is None:
        return video
    path: Any = source.file if isinstance(source, ArchiveMember) else source
    if is_url(path):
        raise UnsupportedError(
            f"{video.info.path}: {_only_first(kind)}, and a file at a URL is not examined for that; download it and "
            "give its path, or convert it to MP4"
        )
    if is_animation(_read(source)):
        raise UnsupportedError(f"{video.info.path}: {_only_first(kind)}; convert it to MP4")
    return video


def _only_first(kind: str) -> str:
    return f"framespool reads the first frame only of an animated {kind}"


def _read(source: Any, size: int = -1) -> bytes:
    """Returns the first bytes of a source, by default all of them; none of a URL."""
    if isinstance(source, bytes):
        return source if size < 0 else source[:size]
    if is_file_object(source):
        source.seek(0, 0)
        return bytes(source.read(size))
    is_member = isinstance(source, ArchiveMember)
    path, offset, length = (source.file, source.offset_bytes, source.num_bytes) if is_member else (source, 0, -1)
    if is_url(path):
        return b""
    if size >= 0:
        length = size if length < 0 else min(length, size)
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(length)
