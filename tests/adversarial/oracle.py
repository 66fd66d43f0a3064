"""The expected frames of a file, from the ffmpeg program of another release, which stops at the first error."""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import make

from adversarial import pixels

#: Limit of one run in seconds of processor time, which the load of the machine does not change; the kernel ends a run
#: that takes longer, and its file has no oracle.
LIMITED = ["sh", "-c", 'ulimit -t 20; exec "$@"', "sh"]
#: Bytes of raw frames above which nothing is compared: a header that declares a huge frame size.
MAX_BYTES = 256 << 20

FRAME = re.compile(r"showinfo.*? n: *\d+ pts: *(\S+) .*?fmt:(\S+) .*? s:(\d+)x(\d+) ")
TIME_BASE = re.compile(r"showinfo.*? config in time_base: (\d+)/(\d+)")
COLOR = re.compile(r"showinfo.*? color_range:(\S+) color_space:(\S+) ")
DECODER_ERROR = re.compile(r"\[(?:error|fatal)\] ?(.*)")


def digest(rgb) -> str:
    """Digest of one frame's RGB bytes and size."""
    return hashlib.blake2b(rgb.tobytes(), digest_size=8, key=repr(rgb.shape).encode()).hexdigest()


@dataclass
class OracleResult:
    """The ffmpeg program's result for one file.

    Attributes:
        frames: (pts in ticks or None, digest of the RGB bytes) of each frame, in the decoder's output order, up to the
            first error.
        decoder_error: the first error message; None for a file that decodes to its end without one.
        time_base: seconds of a tick, as numerator and denominator.
        compared: False if the frames could not be converted or were too many; then `frames` is empty.
        packet_times: presentation timestamps of the packets, if :func:`packet_times` has read them.
    """

    frames: list[tuple[int | None, str]] = field(default_factory=list)
    decoder_error: str | None = None
    time_base: tuple[int, int] = (0, 1)
    compared: bool = True
    packet_times: list[int] = field(default_factory=list)


def decode(path: Path, stream: str = "0:v:0", stop: bool = True, has_fields: bool = False) -> OracleResult:
    """Decodes a file strictly: stops at demuxer and decoder errors, and at packets or frames marked as corrupt.

    Args:
        path: the file.
        stream: stream specifier of the ffmpeg program.
        stop: if False, decoding continues after an error, without the packet that caused it.
        has_fields: if True, a picture that the decoder completes without a message is no error: that of MPEG-2 counts
            half of each field as missing.
    """
    # Without bitexact the ffmpeg program chooses vector code that rounds differently on some processors.
    strict = [*["-xerror"][: int(stop)], "-err_detect", "crccheck" if has_fields else "crccheck+explode"]
    strict += ["-flags", "bitexact", "-noautorotate", "-copyts", "-threads", "1"]
    passed = [
        "-fps_mode",
        "passthrough",
        "-enc_time_base",
        "demux",
        "-noautoscale",
        "-c:v",
        "rawvideo",
        "-f",
        "rawvideo",
    ]
    with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
        raw = Path(folder) / "frames"
        command = [
            *make.QUIET,
            "-v",
            "level+info",
            *strict,
            "-i",
            str(path),
            "-map",
            stream,
            "-vf",
            "showinfo=checksum=0,setpts=N",
        ]
        command += [*passed, "-fs", str(MAX_BYTES), str(raw)]
        done = subprocess.run(
            [*LIMITED, *command], capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL
        )
        if done.returncode < 0:
            return OracleResult(decoder_error=f"ended by signal {-done.returncode}", compared=False)
        decoder_errors = DECODER_ERROR.findall(done.stderr)
        decoder_error = (
            decoder_errors[0] if decoder_errors else f"ended with {done.returncode}" if done.returncode else None
        )
        content = raw.read_bytes() if raw.exists() else b""
    stated = TIME_BASE.search(done.stderr)
    time_base = (int(stated[1]), int(stated[2])) if stated else (0, 1)
    frames = list(zip(FRAME.findall(done.stderr), COLOR.findall(done.stderr), strict=False))
    found, at = [], 0
    try:
        for (pts, pix_fmt, width, height), (color_range, matrix) in frames:
            size = pixels.frame_bytes(pix_fmt, int(width), int(height))
            if at + size > len(content):
                break  # filtered, and not written before the program ended
            full = color_range == "pc" or pix_fmt.startswith("yuvj")
            rgb = pixels.rgb(content[at : at + size], pix_fmt, int(width), int(height), matrix, full)
            found.append((None if pts == "NOPTS" else int(pts), digest(rgb)))
            at += size
    except pixels.UnknownFormat:
        return OracleResult(decoder_error=decoder_error, compared=False)
    if decoder_error is None and at != len(content):
        return OracleResult(compared=False)
    return OracleResult(found, decoder_error, time_base)


def packet_times(path: Path, stream: str = "0:v:0") -> list[int]:
    """Presentation timestamps of the packets, in ticks of the stream.

    After a timestamp that repeats or goes back, the ffmpeg program guesses the timestamps of frames from decoding
    times, although the packets have others.
    """
    passed = ["-c", "copy", "-copyinkf", "-f", "framecrc", "-"]
    command = [*make.QUIET, "-v", "error", "-copyts", "-i", str(path), "-map", stream, *passed]
    done = subprocess.run([*LIMITED, *command], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode < 0:
        return []
    fields = [line.split(",") for line in done.stdout.splitlines() if not line.startswith("#")]
    return [int(line[2]) for line in fields if len(line) > 2 and line[2].strip() != "NOPTS"]
