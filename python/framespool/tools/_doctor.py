"""Checks what works on this machine, what does not, and how to fix it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import resource
import struct
import sys
import zlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from framespool import _framespool, gpu
from framespool._common.format import bytes_text
from framespool._framespool import __version__
from framespool.errors import Error
from framespool.loaders._images import decode_image

#: Optional packages that framespool works with.
_OTHERS = ("numpy", "torch", "torchdata", "lightning", "jax", "cupy", "ray", "Pillow")
#: Loaders open a file or two per thread; training scripts open the rest.
_FEW_FILES = 1024
#: PyTorch's workers pass batches through shared memory: 8 clips of 16 frames at 224 are 19 MB.
_SMALL_SHM = 512 << 20


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        name: What was checked.
        state: `"ok"`, `"note"` (works, with a remark) or `"bad"`.
        text: What was found.
        remedy: How to fix it, or `None`.

    Example:
        >>> import framespool as fsp
        >>> findings = fsp.tools.doctor()
        >>> {finding.state for finding in findings} <= {"ok", "note", "bad"}
        True
    """

    name: str
    state: Literal["ok", "note", "bad"]
    text: str
    remedy: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The finding for JSON.

        Returns:
            The values by name.
        """
        return asdict(self)


def doctor(index: str | os.PathLike[str] | None = None) -> list[Finding]:
    """Checks this machine: the library, cores, limits, the index cache, GPUs with their NVDEC engines, other packages.

    It changes nothing, except that it creates the index cache if there is none.

    Args:
        index: Folder of the index cache. `None`: the default one.

    Returns:
        One finding per check.

    Example:
        >>> import framespool as fsp
        >>> for finding in fsp.tools.doctor():
        ...     if finding.state == "bad":
        ...         print(finding.name, finding.text, finding.remedy)
    """
    found = [_library(), _contents(), _decodes(), _cores(), *_limits(), _index(index), *_gpus(), _packages()]
    return [_without_home(finding) for finding in found]


def _without_home(finding: Finding) -> Finding:
    """Abbreviates the home folder to `~`: reports are published, and its path has the name of the user."""
    home = os.path.expanduser("~").rstrip("/")
    return replace(finding, text=finding.text.replace(f"{home}/", "~/")) if home.startswith("/") else finding


def _library() -> Finding:
    version = _framespool.ffmpeg_version
    python = f"Python {platform.python_version()}, {platform.machine()} {platform.system()}"
    assembly = "" if _framespool.ffmpeg_uses_assembly else " without assembly"
    text = f"{__version__}, FFmpeg {version} included{assembly}, SIMD: {_framespool.simd_backend}; {python}"
    if (build := _build_id(Path(_framespool.__file__))) is not None:
        text += f"; build {build}"
    if assembly:
        return Finding(
            "framespool", "note", f"{text}; videos are decoded slowly", "install the wheel, or nasm and build again"
        )
    # scripts/build_ffmpeg.sh appends it to the version if it could fetch none of the pinned releases.
    if version.endswith("-unpinned"):
        remedy = "for a tested version, set FRAMESPOOL_FFMPEG_TARBALL to its release tarball and build again"
        return Finding("framespool", "note", f"{text}; FFmpeg or dav1d is unpinned: not a tested version", remedy)
    return Finding("framespool", "ok", text)


def _build_id(library: Path) -> str | None:
    """The identifier that the linker writes into a library, which finds its debug information.

    Its place is defined by the ELF format: a note named "GNU" of type 3 (`NT_GNU_BUILD_ID`) in a segment of type 4.
    """
    with library.open("rb") as file:
        head = file.read(64)
        if head[:6] != b"\x7fELF\x02\x01":  # 64 bits, little endian
            return None
        first, size, count = struct.unpack("<32xQ14xHH6x", head[:64])
        for number in range(count):
            file.seek(first + number * size)
            kind, offset, length = struct.unpack("<I4xQ16xQ", file.read(40))
            file.seek(offset)
            notes = file.read(length) if kind == 4 else b""
            while len(notes) >= 16:
                name_size, data_size, note = struct.unpack("<III", notes[:12])
                begin = 12 + (name_size + 3) // 4 * 4
                if notes[12:16] == b"GNU\0" and note == 3:
                    return notes[begin : begin + data_size].hex()
                notes = notes[begin + (data_size + 3) // 4 * 4 :]
    return None


def _contents() -> Finding:
    """Checks the list of bundled components (CycloneDX), which is installed with the metadata of the package."""
    try:
        files = importlib.metadata.files("framespool") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.parts[-2:] == ("sboms", "framespool.cdx.json"):
            path = Path(os.fspath(file.locate()))
            try:
                inside = json.loads(path.read_text(encoding="utf-8"))["components"]
            except (OSError, ValueError, KeyError) as error:
                return Finding("contents", "note", f"{path} cannot be read: {error}", "reinstall framespool")
            crates = sum(entry["purl"].startswith("pkg:cargo/") for entry in inside)
            others = [f"{entry['name']} {entry['version']}" for entry in inside if "pkg:generic/" in entry["purl"]]
            return Finding("contents", "ok", f"{crates} crates, {', '.join(others)}: {path}")
    return Finding(
        "contents",
        "note",
        "no list of bundled components: this was not built by 'make wheel'",
        "Cargo.lock lists the crates",
    )


def _decodes() -> Finding:
    """Decodes a generated image and compares the result."""
    wanted = [[[0, 20, 40], [60, 80, 100]], [[120, 140, 160], [180, 200, 220]]]
    rows = b"".join(b"\0" + bytes(sum(row, [])) for row in wanted)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    try:
        same = decode_image(b"\x89PNG\r\n\x1a\n" + parts, layout="HWC").tolist() == wanted
    except Error as error:
        return Finding("decoding", "bad", str(error), "reinstall framespool; if the problem persists, report it")
    if not same:
        return Finding("decoding", "bad", "a test image was decoded incorrectly", "report the model of the CPU")
    return Finding("decoding", "ok", "a test image was decoded correctly")


def _cores() -> Finding:
    usable, all_cores = _framespool.cores(), os.cpu_count() or 1
    text = f"{usable} of {all_cores} cores are available; loaders start that many threads"
    if usable * 2 <= all_cores:
        return Finding(
            "cores", "note", text, "if this is not intended, raise the CPU limit of the container or the job"
        )
    return Finding("cores", "ok", text)


def _limits() -> list[Finding]:
    found = []
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    text = f"{'no limit' if files == resource.RLIM_INFINITY else files} open files allowed"
    few = files != resource.RLIM_INFINITY and files < _FEW_FILES
    found.append(Finding("files", "note" if few else "ok", text, "ulimit -n 65536" if few else None))
    try:
        about = os.statvfs("/dev/shm")
    except OSError:
        return found
    free = about.f_bavail * about.f_frsize
    small = free < _SMALL_SHM
    remedy = "only PyTorch's DataLoader workers need it; docker run --shm-size=8g" if small else None
    found.append(Finding("shared memory", "note" if small else "ok", f"{bytes_text(free)} free in /dev/shm", remedy))
    return found


def _index(place: str | os.PathLike[str] | None) -> Finding:
    setting = os.environ.get("FRAMESPOOL_INDEX")
    if place is None and setting == "off":
        return Finding(
            "index",
            "note",
            "FRAMESPOOL_INDEX=off: every process indexes videos again",
            "unset FRAMESPOOL_INDEX, or set it to a folder, if loaders start slowly",
        )
    try:
        index = _framespool.Index(None if place is None else os.fspath(place))
        failure = index.last_error
    except Error as error:
        return Finding("index", "bad", str(error), "set FRAMESPOOL_INDEX to a writable folder, or to off")
    if failure is not None:
        remedy = "set FRAMESPOOL_INDEX to a writable folder, or to off"
        return Finding("index", "bad", f"{index.file}: {failure}", remedy)
    size = os.path.getsize(index.file) if os.path.exists(index.file) else 0
    return Finding("index", "ok", f"{index.file}, {bytes_text(size)}")


def _gpus() -> list[Finding]:
    why = gpu.unavailable_reason()
    if why is not None:
        return [Finding("GPU", "note", f"none can be used: {why}", "use the CPU: device='cpu'")]
    try:
        devices = gpu.devices()
    except Error as error:
        return [Finding("GPU", "bad", str(error), "check whether nvidia-smi works and GPU memory is free")]
    return [_gpu(device) for device in devices]


def _gpu(device: gpu.Device) -> Finding:
    major, minor = device.cuda_version
    memory = f"{bytes_text(device.free_bytes)} of {bytes_text(device.total_bytes)} free"
    text = f"{device.name}, driver for CUDA {major}.{minor}, {memory}"
    name = f"cuda:{device.ordinal}"
    if not device.engines:
        remedy = (
            "in a container, set NVIDIA_DRIVER_CAPABILITIES=compute,utility,video; until then the CPU decodes videos"
        )
        return Finding(name, "note", f"{text}; no NVDEC: {device.video_reason}", remedy)
    kinds: dict[str, set[str]] = {}
    for codec in device.decodes:
        kinds.setdefault(codec.codec, set()).add(f"{codec.chroma} {codec.depth_bits} bit")
    decodes = "; ".join(f"{codec} ({', '.join(sorted(forms))})" for codec, forms in kinds.items())
    return Finding(name, "ok", f"{text}; {device.engines} NVDEC engines: {decodes}")


def _packages() -> Finding:
    found = []
    for name in _OTHERS:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    text = ", ".join(found) or "none of the optional packages"
    if sys.flags.optimize:
        text += "; Python runs with -O"
    return Finding("packages", "ok", text)
