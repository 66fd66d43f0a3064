"""Finds the ffmpeg program that encodes, starts it and stops it.

framespool decodes only, so transcoding needs an ffmpeg program. It receives raw RGB frames through a pipe and does not
read the source. The result therefore has the frames that framespool delivers: edit lists are applied, no frame is
dropped or duplicated for a constant rate, orientation is applied, and archive members work too.
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

from framespool.errors import ArgumentError, ReadError, UnsupportedError
from framespool.tools._transcode._options import Options

#: Environment variable with the program.
VARIABLE = "FRAMESPOOL_FFMPEG_PROGRAM"
_ENCODERS = {"h264": "libx264", "hevc": "libx265"}
_HOW = (
    "install ffmpeg (apt-get install ffmpeg, conda install ffmpeg, or pip install imageio-ffmpeg), or set its path "
    f"with --ffmpeg, ffmpeg= or the variable {VARIABLE}"
)
#: The scaler's names of H.273 matrices, as framespool interprets them.
_MATRICES = {1: "bt709", 7: "bt709", 9: "bt2020nc", 10: "bt2020nc", 5: "bt470bg"}
_UNSAID = 2


def find(given: str | os.PathLike[str] | None = None) -> str:
    """Finds the ffmpeg program: the given one, that of the variable, of the PATH, or of imageio-ffmpeg.

    Args:
        given: Path or name of the program.

    Returns:
        Path of the program.

    Raises:
        ArgumentError: If the given program does not exist.
        UnsupportedError: If there is no program.
    """
    named = os.fspath(given) if given is not None else os.environ.get(VARIABLE)
    if named:
        found = shutil.which(os.path.expanduser(named))
        if found is None:
            raise ArgumentError(f"{named} is not an executable ffmpeg program; {_HOW}")
        return found
    found = shutil.which("ffmpeg")
    if found is None:
        # ImportError: not installed. RuntimeError: it has no program for this machine.
        with contextlib.suppress(ImportError, RuntimeError):
            found = str(importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe())
    if found is None:
        raise UnsupportedError(f"encoding needs an ffmpeg program, and none was found; {_HOW}")
    return found


def check(program: str, options: Options) -> None:
    """Checks that the program runs and has the encoder.

    Args:
        program: The ffmpeg program.
        options: Options of the encoder.

    Raises:
        UnsupportedError: If the program does not run, or lacks the encoder.
    """
    encoder = _ENCODERS[options.codec]
    try:
        listing = subprocess.run([program, "-hide_banner", "-encoders"], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnsupportedError(f"{program} does not run: {error}; {_HOW}") from error
    if listing.returncode or encoder.encode() not in listing.stdout.split():
        raise UnsupportedError(f"{program} has no encoder {encoder} for {options.codec}; use another ffmpeg: {_HOW}")


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
    """The command that encodes RGB frames from its standard input.

    Args:
        program: The ffmpeg program.
        options: Options of the encoder.
        size: (width, height) in pixels.
        rate: Frames per second as (num, den), for the rate control of the encoder.
        color: Primaries, transfer and matrix of the source, as numbered by H.273.
        aspect: (num, den) of a pixel's width / height.
        threads: Threads of the encoder.
        target: The file to write.

    Returns:
        The command.
    """
    width, height = size
    matrix = _MATRICES.get(color[2], "smpte170m")
    # Chroma is the mean of 2x2 pixels, so chroma that was upsampled by repetition is restored.
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
    """The scaler's name of a matrix, where it differs from the name in tags."""
    return {"bt2020nc": "bt2020", "bt470bg": "bt470"}.get(matrix, matrix)


def _groups(options: Options, threads: int) -> list[str]:
    """Options for closed GOPs of equal length with a fixed pattern of disposable B-frames."""
    gop, b_frames = options.gop, options.b_frames
    if options.codec == "h264":
        inner = f"open-gop=0:scenecut=0:b-pyramid=0:b-adapt=0:keyint={gop}:min-keyint={min(gop, gop // 2 + 1)}"
        return ["-g", str(gop), "-bf", str(b_frames), "-x264-params", inner]
    inner = (
        f"open-gop=0:scenecut=0:b-pyramid=0:b-adapt=0:keyint={gop}:min-keyint={gop}:bframes={b_frames}:log-level=error"
    )
    return ["-tag:v", "hvc1", "-x265-params", f"{inner}:pools={threads}"]


class TranscodeCancelled(Exception):
    """The work was canceled."""


class CancelToken:
    """Stops encoders from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._asked = False

    def cancel(self) -> None:
        """Kills all running encoders, and those that start later."""
        with self._lock:
            self._asked = True
            for process in self._running:
                process.kill()

    def check(self) -> None:
        """Checks whether the work was canceled.

        Raises:
            TranscodeCancelled: If `cancel()` was called.
        """
        if self._asked:
            raise TranscodeCancelled

    def add(self, process: subprocess.Popen[bytes]) -> None:
        """Registers a process.

        Args:
            process: The process that `cancel()` kills.
        """
        with self._lock:
            self._running.add(process)
            if self._asked:
                process.kill()

    def remove(self, process: subprocess.Popen[bytes]) -> None:
        """Removes a process that has ended.

        Args:
            process: The process.
        """
        with self._lock:
            self._running.discard(process)


class EncoderProcess:
    """A running encoder, used as a context manager; it has ended when the context is left.

    Args:
        asked: The command.
        name: Name of the source for messages.
        stop: Cancels the encoder.
    """

    def __init__(self, asked: Sequence[str], name: str, stop: CancelToken) -> None:
        self._asked, self._name, self._stop = asked, name, stop

    def __enter__(self) -> EncoderProcess:
        self._stop.check()
        self._said = tempfile.TemporaryFile()
        try:
            # A separate process group: Ctrl-C reaches only this process, which then stops the encoder.
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
        with contextlib.suppress(OSError):  # buffered data
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._process.wait()
        self._stop.remove(self._process)
        self._said.close()

    def write(self, data: memoryview) -> None:
        """Writes frames to the encoder.

        Args:
            data: RGB data.

        Raises:
            ReadError: If the encoder ended, with its last messages.
            TranscodeCancelled: If the work was canceled.
        """
        self._stop.check()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
        except OSError:
            self._fail()

    def finish(self) -> None:
        """Waits until the encoder has written everything.

        Raises:
            ReadError: If the encoder failed, with its last messages.
            TranscodeCancelled: If the work was canceled.
        """
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
        why = "; ".join(said[-3:]) or "no error message"
        raise ReadError(f"{self._name}: {self._asked[0]} exited with code {code}: {why}; check the free disk space")
