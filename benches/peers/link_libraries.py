"""Provides the shared libraries that the wheels of torch, torchcodec and SPDL expect on the system.

torch: the wheel on PyPI links some fourteen GPU libraries, gigabytes of wheels, and cannot be imported without them.
    Nothing here uses a GPU, so one small library replaces them; its functions all return "no device", as a code or
    as a message.
torchcodec, SPDL: both load the FFmpeg with the plain file name. PyAV's wheel contains a recent one under
    mangled names; links add the plain ones. So the three use the same decoder, and no system package is needed.

Run by setup.sh with the interpreter of the virtual environment. Needs gcc and binutils.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

SITE_PACKAGES = Path(sysconfig.get_paths()["platlib"])
FFMPEG_LINKS = Path(sys.prefix) / "lib" / "ffmpeg"

GPU_LIBRARY = re.compile(r"lib(cu|nccl|nvrtc|nvshmem|nvToolsExt)")
GPU_FUNCTION = re.compile(r"(__cuda|cu|nccl|nvrtc|nvshmem|nvtx)")
CUDA_ERROR_NO_DEVICE = 100
#: Functions that return a message. PyTorch reads it for the exception of a failed call.
GPU_MESSAGE = re.compile(r"(cuda|cudnn|cusparse|nccl|nvrtc)GetError(String|Name)")


def output_of(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def missing_gpu_symbols(folder: Path) -> tuple[set[str], dict[str, set[str]]]:
    """The GPU libraries that the libraries in `folder` need, and the functions used, by symbol version."""
    libraries: set[str] = set()
    wanted: dict[str, set[str]] = {}
    defined: set[str] = set()
    for path in folder.glob("*.so*"):
        if path.is_symlink():
            continue
        needed = re.findall(r"\(NEEDED\).*\[(.+)\]", output_of("readelf", "--dynamic", "--wide", path))
        libraries.update(name for name in needed if GPU_LIBRARY.match(name))
        for line in output_of("nm", "--dynamic", path).splitlines():
            *_, kind, symbol = line.split()
            name, _, version = symbol.partition("@")
            if kind not in "Uw":
                defined.add(name)
            elif GPU_FUNCTION.match(name):
                wanted.setdefault(version.lstrip("@"), set()).add(name)
    return libraries, {version: names - defined for version, names in wanted.items()}


def placeholder_function(name: str) -> str:
    if GPU_MESSAGE.fullmatch(name):
        return f'const char *{name}(void) {{ return "no device"; }}\n'
    return f"int {name}(void) {{ return {CUDA_ERROR_NO_DEVICE}; }}\n"


def replace_gpu_libraries(folder: Path) -> None:
    placeholder = folder / "libno_gpu.so"
    # Recreated each time, since another torch uses other functions.
    placeholder.unlink(missing_ok=True)
    libraries, wanted = missing_gpu_symbols(folder)
    names = sorted(set().union(*wanted.values()))
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "no_gpu.c"
        source.write_text("".join(map(placeholder_function, names)))
        # The loader rejects a versioned reference to a library of that name that defines no versions.
        versions = Path(scratch) / "no_gpu.map"
        versions.write_text(
            "".join(
                f"{version} {{ global: {' '.join(name + ';' for name in sorted(functions))} }};\n"
                for version, functions in wanted.items()
                if version and functions
            )
        )
        # -w: gcc knows some of the names as builtins of another type.
        subprocess.run(
            ["gcc", "-w", "-shared", "-fPIC", f"-Wl,--version-script={versions}", "-o", placeholder, source], check=True
        )
    for library in libraries:
        link = folder / library
        if link.is_file() and not link.is_symlink():
            continue  # older wheels contain some of them
        link.unlink(missing_ok=True)
        link.symlink_to(placeholder.name)


def link_ffmpeg(bundled: Path, links: Path) -> None:
    links.mkdir(exist_ok=True)
    for path in bundled.glob("lib*.so.*"):
        # libavcodec-5e6b81c2.so.62.28.102 is loaded as libavcodec.so.62
        match = re.fullmatch(r"(lib(?:av|sw)\w+)-[0-9a-f]+(\.so\.\d+)[.\d]*", path.name)
        if match:
            link = links / "".join(match.groups())
            link.unlink(missing_ok=True)
            link.symlink_to(path)


def main() -> None:
    replace_gpu_libraries(SITE_PACKAGES / "torch" / "lib")
    link_ffmpeg(SITE_PACKAGES / "av.libs", FFMPEG_LINKS)


if __name__ == "__main__":
    main()
