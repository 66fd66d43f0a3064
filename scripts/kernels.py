#!/usr/bin/env python3
"""Compiles the CUDA kernels to PTX and checks them without a GPU.

    scripts/kernels.py generate    compiles kernels/cuda/pixel_pass.cu to kernels/cuda/gen/pixel_pass.ptx.gz
    scripts/kernels.py check       compiles again elsewhere; the result must equal the committed PTX byte for byte
    scripts/kernels.py ptxas       assembles the PTX for GPUs of ptxas 11.8; fails if a kernel spills registers
    scripts/kernels.py ptxas all   the same with ptxas 11.8, 12.9 and 13.5, for all GPUs from sm_70 to sm_121
    scripts/kernels.py count       counts the instructions of each kernel in the PTX, by kind
    scripts/kernels.py nvjpeg      compares nvdec's declarations with nvJPEG's header and library; needs no GPU
    scripts/kernels.py sanitize    runs kernels/tests/device_pass with the kernels under AddressSanitizer and UBSan

NVRTC and ptxas come from PyPI, by name and version, into ${FRAMESPOOL_CACHE:-${XDG_CACHE_HOME:-~/.cache}/framespool}.
They run from there and are not installed. Only the standard library is needed, and a Python that has pip.
"""

import collections
import ctypes
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CUDA = ROOT / "kernels" / "cuda"
PTX = CUDA / "gen" / "pixel_pass.ptx.gz"
SOURCES_HASH = CUDA / "gen" / "sources.sha256"

# Every driver from release 520 on accepts the PTX of 11.8, which is why this version is pinned.
NVRTC = ("nvidia-cuda-nvrtc-cu11", "11.8.89")
NVRTC_OPTIONS = ("--gpu-architecture=compute_70", "--fmad=false", "-default-device", "--std=c++17")

NVJPEG = ("nvidia-nvjpeg-cu12", "12.4.0.76")

# Assemblers, oldest first, each with its GPUs.
PTXAS = (
    (("nvidia-cuda-nvcc-cu11", "11.8.89"), (70, 72, 75, 80, 86, 87, 89, 90)),
    (("nvidia-cuda-nvcc-cu12", "12.9.86"), (70, 75, 80, 86, 89, 90, 100, 103, 120, 121)),
    (("nvidia-cuda-nvcc", "13.5.37"), (75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)),
)


def report(text):
    print(f"kernels: {text}", file=sys.stderr)


def fail(text):
    report(text)
    sys.exit(1)


def fetch_package(name, version):
    """The folder with this package's files, fetched if it does not exist yet."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = Path(os.environ.get("FRAMESPOOL_CACHE") or home / "framespool")
    folder = cache / f"{name}-{version}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=cache))
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", "--target", str(partial), f"{name}=={version}"]
    report(f"fetching {name} {version}")
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        shutil.rmtree(partial, ignore_errors=True)
        last = (done.stderr.strip() or done.stdout.strip() or "pip said nothing").splitlines()[-1]
        fail(
            f"{name} {version} could not be fetched: {last}. "
            f"Put the unpacked wheel at {folder}, or run this where PyPI can be reached"
        )
    partial.chmod(0o755)
    try:
        partial.rename(folder)
    except OSError:  # another process was faster
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def find_one(folder, pattern):
    found = sorted(folder.rglob(pattern))
    return found[0] if found else fail(f"{folder} contains no {pattern}; delete that folder and try again")


class Nvrtc:
    """NVRTC, loaded from its wheel."""

    def __init__(self):
        folder = fetch_package(*NVRTC)
        # Load the builtins first, by path: NVRTC searches for them by name only.
        ctypes.CDLL(str(find_one(folder, "libnvrtc-builtins.so.*")), mode=ctypes.RTLD_GLOBAL)
        self.lib = ctypes.CDLL(str(find_one(folder, "libnvrtc.so.*")))

    def call(self, name, *args):
        code = getattr(self.lib, name)(*args)
        if code != 0:
            self.lib.nvrtcGetErrorString.restype = ctypes.c_char_p
            raise RuntimeError(f"{name}: {self.lib.nvrtcGetErrorString(code).decode()}")

    def text(self, program, what):
        size = ctypes.c_size_t()
        self.call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self.call(f"nvrtcGet{what}", program, buffer)
        return buffer.value.decode()

    def compile(self, source, headers):
        """PTX of `source`; `headers` (name to text) are passed in memory, no path is searched."""

        def strings(texts):
            texts = [text.encode() for text in texts]
            return (ctypes.c_char_p * len(texts))(*texts)

        program = ctypes.c_void_p()
        self.call(
            "nvrtcCreateProgram",
            ctypes.byref(program),
            source.encode(),
            b"pixel_pass.cu",
            len(headers),
            strings(headers.values()),
            strings(headers),
        )
        try:
            self.call("nvrtcCompileProgram", program, len(NVRTC_OPTIONS), strings(NVRTC_OPTIONS))
        except RuntimeError as error:
            fail(f"{error}\n{self.text(program, 'ProgramLog')}")
        log = self.text(program, "ProgramLog").strip()
        if log:
            fail(f"the compiler reports warnings; fix them:\n{log}")
        return self.text(program, "PTX")


def headers():
    """The text of each header by its name."""
    return {header.name: header.read_text() for header in sorted(CUDA.glob("*.h"))}


def compile_ptx():
    return Nvrtc().compile((CUDA / "pixel_pass.cu").read_text(), headers())


def sources_hash():
    """SHA-256 of all that the PTX depends on: the compiler, its options and the sources."""
    parts = [*NVRTC, *NVRTC_OPTIONS, (CUDA / "pixel_pass.cu").read_text()]
    parts += [text for header in headers().items() for text in header]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def committed_ptx():
    return gzip.decompress(PTX.read_bytes()).decode()


def generate():
    ptx = compile_ptx()
    # zlib's releases compress to different bytes: unchanged PTX keeps its file.
    if not PTX.is_file() or committed_ptx() != ptx:
        PTX.parent.mkdir(exist_ok=True)
        PTX.write_bytes(gzip.compress(ptx.encode(), mtime=0))
    SOURCES_HASH.write_text(sources_hash() + "\n")
    print(f"{PTX.relative_to(ROOT)}: {len(ptx)} bytes, compressed {PTX.stat().st_size}")


def check():
    if committed_ptx() != compile_ptx() or SOURCES_HASH.read_text() != sources_hash() + "\n":
        fail(f"{PTX.relative_to(ROOT)} does not match its sources; run scripts/kernels.py generate")
    print(f"{PTX.relative_to(ROOT)} matches its sources, compiled with NVRTC {NVRTC[1]}")


def assemble(which, sm):
    """(kernel, registers, static shared bytes, stack bytes, spilled bytes) of each kernel."""
    ptxas = find_one(fetch_package(*which), "ptxas")
    ptxas.chmod(0o755)
    ptx = committed_ptx()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "pixel_pass.ptx"
        source.write_text(ptx)
        command = [str(ptxas), f"-arch=sm_{sm}", "-v", "-o", f"{folder}/out", str(source)]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        fail(f"ptxas {which[1]} rejects the PTX for sm_{sm}:\n{done.stderr}")
    rows, name, stack, spills = [], None, 0, 0
    for line in done.stderr.splitlines():
        if found := re.search(r"Compiling entry function '(\w+)'", line):
            name = found[1]
        elif found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            stack, spills = int(found[1]), int(found[2]) + int(found[3])
        elif found := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            rows.append((name, int(found[1]), int(shared[1]) if shared else 0, stack, spills))
    if len(rows) != ptx.count(".entry"):
        fail(f"ptxas {which[1]} for sm_{sm} did not report every kernel:\n{done.stderr}")
    return rows


def assemble_all(all_versions):
    print(f"{'ptxas':8}  {'GPU':7} {'kernel':20} registers  shared  stack  spilled")
    spilled = []
    for which, architectures in PTXAS if all_versions else PTXAS[:1]:
        for sm in architectures:
            for kernel, registers, shared, stack, spills in assemble(which, sm):
                print(f"{which[1]:8}  sm_{sm:<4} {kernel:20} {registers:9}  {shared:6}  {stack:5}  {spills:7}")
                if stack or spills:
                    spilled.append(f"{kernel} on sm_{sm}")
    if spilled:
        fail(f"kernels that spill registers: {', '.join(spilled)}")


def count_instructions():
    """Static count of each kind of instruction in each kernel: an instruction in a loop counts once."""
    for kernel in re.split(r"(?=\.visible \.entry )", committed_ptx())[1:]:
        name = re.match(r"\.visible \.entry (\w+)", kernel)[1]
        kinds = collections.Counter()
        for line in kernel.splitlines():
            if found := re.match(r"\s+(?:@!?%p\d+ )?([a-z][\w.]*)\s.*;$", line.expandtabs()):
                kinds[found[1].split(".")[0]] += 1
        for space in ("ld.global", "ld.shared", "st.shared", "st.global", "ld.param"):
            kinds[space] = len(re.findall(rf"\b{space}\b", kernel))
        print(f"{name}: {sum(number for kind, number in kinds.items() if '.' not in kind)} instructions;", end=" ")
        print(", ".join(f"{kind} {number}" for kind, number in sorted(kinds.items(), key=lambda kind: -kind[1])[:18]))


def check_nvjpeg():
    folder = fetch_package(*NVJPEG) / "nvidia" / "nvjpeg"
    environment = dict(
        os.environ,
        FRAMESPOOL_NVJPEG_HEADER=str(folder / "include" / "nvjpeg.h"),
        FRAMESPOOL_NVJPEG_LIBRARY=str(folder / "lib" / "libnvjpeg.so.12"),
    )
    # The features of all tests, so that nothing is recompiled.
    test = ["cargo", "test", "--workspace", "--features", "framespool-kernels/shim"]
    test += ["--test", "nvjpeg_header", "--test", "nvjpeg_header_parser"]
    sys.exit(subprocess.run([*test, "--", "--ignored"], cwd=ROOT, env=environment).returncode)


def sanitize():
    compiler = shutil.which("g++") or shutil.which("c++") or fail("a C++ compiler is needed: g++")
    preload = []
    for library in ("libasan.so", "libubsan.so"):
        path = subprocess.run([compiler, f"-print-file-name={library}"], capture_output=True, text=True).stdout.strip()
        if not os.path.isabs(path):
            fail(f"{compiler} has no {library}; install the sanitizers of that compiler")
        preload.append(os.path.realpath(path))
    environment = dict(os.environ, CXX=compiler)
    # The preloaded library must not be loaded into cargo and the compilers: only the test itself runs with it.
    build = ["cargo", "test", "-p", "framespool-kernels", "--features", "sanitize", "--test", "device_pass"]
    done = subprocess.run([*build, "--no-run"], cwd=ROOT, env=environment, capture_output=True, text=True)
    found = re.search(r"Executable .*\((.*device_pass-\w+)\)", done.stderr)
    if done.returncode != 0 or not found:
        fail(f"{' '.join(build)} failed:\n{done.stderr}")
    environment["LD_PRELOAD"] = ":".join(preload)
    # Rust's test harness leaks a little; the kernels allocate nothing.
    environment["ASAN_OPTIONS"] = "detect_leaks=0:abort_on_error=1"
    environment["UBSAN_OPTIONS"] = "print_stacktrace=1"
    sys.exit(subprocess.run([ROOT / found[1]], cwd=ROOT / "kernels", env=environment).returncode)


def main():
    commands = {
        ("generate",): generate,
        ("check",): check,
        ("ptxas",): lambda: assemble_all(all_versions=False),
        ("ptxas", "all"): lambda: assemble_all(all_versions=True),
        ("count",): count_instructions,
        ("nvjpeg",): check_nvjpeg,
        ("sanitize",): sanitize,
    }
    command = commands.get(tuple(sys.argv[1:]))
    if command is None:
        print(__doc__.strip(), file=sys.stderr)
        sys.exit(2)
    command()


if __name__ == "__main__":
    main()
