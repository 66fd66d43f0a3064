"""The ffmpeg program that encodes: where it is, how it is asked, and how it is stopped.

framespool decodes and never encodes, so it needs one for this alone. Frames go to it as raw RGB through a pipe rather
than that it reads the file: so that they are, by construction, the frames that framespool delivers (hidden by no other
reading of an edit list, none dropped or doubled to even a rate, turned, from members of archives too).
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence

from framespool._transcode._options import Options
from framespool.errors import ArgumentError, ReadError, UnsupportedError

#: Names the program, where no argument does.
VARIABLE = "FRAMESPOOL_FFMPEG_PROGRAM"
_ENCODERS = {"h264": "libx264", "hevc": "libx265"}
_HOW = (
    "install one (apt-get install ffmpeg, conda install ffmpeg, or pip install imageio-ffmpeg), or name one with "
    f"--ffmpeg, ffmpeg= or the variable {VARIABLE}"
)
#: H.273's matrices as the scaler calls them, by what framespool takes them for.
_MATRICES = {1: "bt709", 7: "bt709", 9: "bt2020nc", 10: "bt2020nc", 5: "bt470bg"}
_UNSAID = 2


def find(given: str | os.PathLike[str] | None = None) -> str:
    """The program: the one given, that of the variable, that on the PATH, or imageio-ffmpeg's.

    Raises :class:`~framespool.ArgumentError` for a place that holds none and :class:`~framespool.UnsupportedError`
    where there is none.
    """
    named = os.fspath(given) if given is not None else os.environ.get(VARIABLE)
    if named:
        found = shutil.which(os.path.expanduser(named))
        if found is None:
            raise ArgumentError(f"{named} is no program that can be run as ffmpeg; {_HOW}")
        return found
    found = shutil.which("ffmpeg")
    if found is None:
        # An ImportError where the package is not there, a RuntimeError where it has no program for this machine.
        with contextlib.suppress(ImportError, RuntimeError):
            found = str(importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe())
    if found is None:
        raise UnsupportedError(f"encoding needs an ffmpeg program, and there is none; {_HOW}")
    return found


def check(program: str, options: Options) -> None:
    """Raises :class:`~framespool.UnsupportedError` where the program does not run, or lacks the encoder."""
    encoder = _ENCODERS[options.codec]
    try:
        told = subprocess.run([program, "-hide_banner", "-encoders"], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnsupportedError(f"{program} does not run: {error}; {_HOW}") from error
    if told.returncode or encoder.encode() not in told.stdout.split():
        raise UnsupportedError(f"{program} has no encoder {encoder} for {options.codec}; take another one: {_HOW}")


def command(
    program: str,
    options: Options,
    size: tuple[int, int],
    rate: tuple[int, int],
    color: tuple[int, int, int],
    aspect: tuple[int, int] | None,
    threads: int,
    target: str,
) -> list[str]:
    """The command that encodes RGB of this size from its standard input. ``color``: primaries, transfer and matrix of
    the source, as H.273 numbers them. ``rate``: frames a second, by which the encoder spreads bits."""
    width, height = size
    matrix = _MATRICES.get(color[2], "smpte170m")
    # Chroma of two by two pixels is their mean: what was repeated to make RGB comes out as it was.
    scale = f"scale=flags=area+accurate_rnd+full_chroma_inp:in_range=pc:out_range=tv:out_color_matrix={_scaler(matrix)}"
    tags = f"setparams=range=tv:colorspace={matrix}"
    named = ["-color_range", "tv", "-colorspace", matrix]
    for name, value in zip(("color_primaries", "color_trc"), color[:2], strict=True):
        if value != _UNSAID:
            tags += f":{name}={value}"
            named += [f"-{name}", str(value)]
    filters = [scale, "format=yuv420p", tags]
    if aspect is not None:
        filters.append(f"setsar=r={aspect[0]}/{aspect[1]}:max=65535")
    asked = [program, "-hide_banner", "-nostdin", "-nostats", "-v", "error", "-y"]
    asked += ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-framerate", f"{rate[0]}/{rate[1]}"]
    asked += ["-i", "pipe:0", "-an", "-vf", ",".join(filters), *named]
    asked += ["-c:v", _ENCODERS[options.codec], "-preset", options.preset, "-crf", f"{options.crf:g}"]
    asked += ["-threads", str(threads), *_groups(options, threads), "-f", "mp4", target]
    return asked


def _scaler(matrix: str) -> str:
    """As the scaler calls a matrix that tags call otherwise."""
    return {"bt2020nc": "bt2020", "bt470bg": "bt470"}.get(matrix, matrix)


def _groups(options: Options, threads: int) -> list[str]:
    """Closed groups of equal length; B-frames in a fixed pattern on which none depends, so that they can be skipped."""
    gop, b_frames = options.gop, options.b_frames
    if options.codec == "h264":
        inner = f"open-gop=0:scenecut=0:b-pyramid=0:b-adapt=0:keyint={gop}:min-keyint={min(gop, gop // 2 + 1)}"
        return ["-g", str(gop), "-bf", str(b_frames), "-x264-params", inner]
    inner = (
        f"open-gop=0:scenecut=0:b-pyramid=0:b-adapt=0:keyint={gop}:min-keyint={gop}:bframes={b_frames}:log-level=error"
    )
    return ["-tag:v", "hvc1", "-x265-params", f"{inner}:pools={threads}"]


class TranscodeCancelled(Exception):
    """The work was to be stopped."""


class CancelToken:
    """Ends encoders from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._asked = False

    def cancel(self) -> None:
        """Ends all that run, and all that would begin."""
        with self._lock:
            self._asked = True
            for process in self._running:
                process.kill()

    def check(self) -> None:
        """Raises :class:`Stopped` once it was asked for."""
        if self._asked:
            raise TranscodeCancelled

    def add(self, process: subprocess.Popen[bytes]) -> None:
        """From now on it is ended too."""
        with self._lock:
            self._running.add(process)
            if self._asked:
                process.kill()

    def remove(self, process: subprocess.Popen[bytes]) -> None:
        """It has ended."""
        with self._lock:
            self._running.discard(process)


class EncoderProcess:
    """A running encoder; as a context it is gone at the end, whatever happened."""

    def __init__(self, asked: Sequence[str], name: str, stop: CancelToken) -> None:
        self._asked, self._name, self._stop = asked, name, stop

    def __enter__(self) -> EncoderProcess:
        self._stop.check()
        self._said = tempfile.TemporaryFile()
        try:
            # A group of its own: Ctrl-C is for this process, which ends the other one.
            self._process = subprocess.Popen(
                self._asked, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._said, process_group=0
            )
        except OSError as error:
            self._said.close()
            raise UnsupportedError(f"{self._asked[0]} does not run: {error.strerror}; {_HOW}") from error
        self._stop.add(self._process)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        with contextlib.suppress(OSError):  # what was still to be written
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._process.wait()
        self._stop.remove(self._process)
        self._said.close()

    def write(self, data: memoryview) -> None:
        """Gives it frames. Raises :class:`~framespool.ReadError` with what it said where it ended."""
        self._stop.check()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
        except OSError:
            self._fail()

    def finish(self) -> None:
        """Waits until all is written. Raises as :meth:`write`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except OSError:
            self._fail()
        if self._process.wait():
            self._fail()

    def _fail(self) -> None:
        code = self._process.wait()
        self._stop.check()
        self._said.seek(0)
        said = self._said.read().decode(errors="replace").strip().splitlines()
        why = "; ".join(said[-3:]) or "it said nothing"
        raise ReadError(f"{self._name}: {self._asked[0]} ended with code {code}: {why}; is there space on the disk?")
