"""The engine, compiled. Use the public names of ``framespool`` instead of this module, ``Tensor`` excepted."""

import os
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, final

__all__ = [
    "Clip",
    "SampleTable",
    "FrameIterator",
    "Index",
    "ClipInfo",
    "BatchSampler",
    "Loader",
    "Tensor",
    "Video",
    "__version__",
    "apply",
    "decode_images",
    "num_clips_of",
    "cores",
    "sample_transform_params",
    "ffmpeg_version",
    "find_videos",
    "flush_index",
    "gpu_decode_throughput",
    "gpu_clear_decoder_cache",
    "gpu_devices",
    "gpu_startup_seconds",
    "gpu_decoder_cache_stats",
    "gpu_unavailable_reason",
    "image_extensions",
    "simd_backend",
    "read_activitynet",
    "read_ava",
    "read_dali_file_list",
    "read_dali_frames",
    "read_epic_kitchens",
    "read_file_list",
    "read_folder",
    "read_gluon_list",
    "read_hmdb51",
    "read_jester",
    "read_json_lines",
    "read_kinetics",
    "read_lerobot",
    "read_lmdb",
    "read_rawframes",
    "read_recordio",
    "read_something_something",
    "read_annotation_file",
    "read_tables",
    "read_tfrecord",
    "read_ucf101",
    "read_webdataset",
    "remote_stats",
    "sample",
    "tensor_of",
    "video_extensions",
]

__version__: str
#: Version of the FFmpeg inside.
ffmpeg_version: str
#: What is taken for a picture, and for a video, by the ends of files' names, without the dot.
image_extensions: list[str]
video_extensions: list[str]
#: SIMD path of the pixel pass on this machine.
simd_backend: str

_Path = str | os.PathLike[str]
_Source = str | os.PathLike[str] | bytes | Any
#: Where indices are kept: at the default place, nowhere, or in a folder.
_Index = None | Literal[False] | _Path

#: A transform: its name, its arguments, and whether its numbers are drawn anew for each frame.
Step = tuple[str, dict[str, float | list[float] | str], bool]
#: A sampling rule: its name, and its arguments by name.
SamplerArgs = tuple[str, dict[str, bool | int | float | Fraction | str | list[int] | list[float] | Callable[..., Any]]]
#: What is known of a video: so many frames at so many a second, or the times of its frames and its end in seconds.
VideoDescription = tuple[int, float] | tuple[list[float], float]

@final
class Tensor:
    """Numbers in memory, with a shape: what framespool hands over.

    Leaves by DLPack, without a copy: ``torch.from_dlpack(t)``, ``numpy.from_dlpack(t)``, ``jax.dlpack.from_dlpack(t)``.
    The memory lives as long as any of its takers. ``t[i]`` is a view of entry ``i`` of the first dimension. It can be
    pickled where it lies on the host; its numbers are copied.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
    @property
    def dtype(self) -> str:
        """ "uint8", "uint16", "float16", "bfloat16", "float32", "float64", "int64" or "bool"."""
    @property
    def device(self) -> str:
        """Where the memory is: "cpu" or "cuda:0"."""
    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
    @property
    def ndim(self) -> int:
        """Number of dimensions."""
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Tensor: ...
    def drop_time(self, layout: str) -> Tensor:
        """The same without the dimension of time, which holds one entry; ``layout`` names the last dimensions."""
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __dlpack__(
        self,
        *,
        stream: Any | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __array__(self, dtype: Any | None = None, *, copy: bool | None = None) -> Any: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA array interface, version 3; AttributeError where the tensor is not on a GPU, and for bfloat16, which
        the interface does not have."""
    def cpu(self) -> Tensor:
        """The same on the host: itself where it lies there already, else a copy."""
    def numpy(self) -> Any:
        """The same memory as a NumPy array; TypeError for a tensor on a GPU (use ``.cpu()`` first) and for bfloat16,
        which NumPy does not have; ImportError without NumPy."""
    def torch(self) -> Any:
        """The same memory as a PyTorch tensor; ImportError without PyTorch."""
    def tobytes(self) -> bytes:
        """A copy of the memory, row-major."""
    def __reduce__(self) -> tuple[Any, tuple[bytes, list[int], str]]: ...
    def tolist(self) -> Any:
        """Nested lists of Python numbers."""

def tensor_of(data: bytes, shape: Sequence[int], dtype: str) -> Tensor:
    """The tensor that was pickled as these three; ValueError where they do not belong together."""

@final
class Clip:
    """Frames of one video, painted."""

    @property
    def data(self) -> Tensor: ...
    @property
    def indices(self) -> list[int]: ...
    @property
    def pts_seconds(self) -> list[float]: ...
    @property
    def duration_seconds(self) -> list[float]: ...

@final
class Video:
    """One opened video; messages call it ``name`` if ``source`` is bytes; ``threads`` decode one call's frames."""

    def __new__(
        cls,
        source: _Source | Any,
        name: str,
        threads: int,
        index: _Index,
        device: int | None,
        decoder: str,
        stream: int | None = None,
        ignores_hdr: bool = False,
    ) -> Video: ...
    def __len__(self) -> int: ...
    def facts(self) -> dict[str, Any]:
        """Facts of the video by name."""
    def color(self) -> tuple[int, int, int, bool | None]:
        """Primaries, transfer and matrix as numbered by ITU-T H.273 (2: not said), and whether the range is full; the
        first frame is decoded for it."""
    def color_names(self) -> tuple[str | None, str | None, str | None, str | None, str | None]:
        """FFmpeg's names of primaries, transfer and matrix, "limited" or "full", "PQ" or "HLG"; the first frame is
        decoded for it."""
    def header(self) -> dict[str, Any]:
        """What the container's headers state of the stream, by name."""
    def cpu_fallback(self) -> str | None:
        """Why the GPU's decoder left frames of the last call to the CPU."""
    def analyze_access(self, frames: int, stride: int) -> dict[str, Any]:
        """What is found by looking through the packets; costs are those of a clip of so many frames, so far apart."""
    def all_pts_seconds(self) -> list[float]:
        """Presentation time of every frame in seconds."""
    def frames(self, indices: list[int], steps: list[Step], dtype: str, layout: str, seed: int) -> Clip: ...
    def get_frames_played_at(
        self, seconds: list[float], steps: list[Step], dtype: str, layout: str, seed: int
    ) -> Clip: ...
    def __iter__(self) -> FrameIterator: ...

@final
class FrameIterator:
    """All frames of a video, in order."""

    def __iter__(self) -> FrameIterator: ...
    def __next__(self) -> Tensor: ...

@final
class BatchSampler:
    """Clip numbers, batch by batch; ``framespool.BatchSampler`` wraps it."""

    def __new__(cls, settings: dict[str, Any]) -> BatchSampler: ...
    def __len__(self) -> int: ...
    @property
    def num_slots(self) -> int:
        """Clips of all batches of an epoch, padding included."""
    def batch(self, batch: int, epoch: int) -> list[int]: ...
    def padding(self, batch: int, epoch: int) -> list[bool]: ...
    def visits(self, batch: int, epoch: int) -> list[int]: ...
    def quality(self, ends: list[int], each: int, epoch: int) -> dict[str, Any]: ...

@final
class Loader:
    """The running machine behind a loader."""

    def __new__(
        cls,
        dataset: SampleTable | Sequence[tuple[_Source | Any, int]],
        rule: SamplerArgs,
        steps: list[Step],
        settings: dict[str, Any],
    ) -> Loader: ...
    def __len__(self) -> int: ...
    @property
    def num_clips(self) -> int: ...
    def start_epoch(self, epoch: int, first_batch: int) -> int: ...
    def next_batch_index(self, pass_: int, /) -> int | None: ...
    def failures(self) -> list[tuple[int, str | None, str, str, int]]: ...
    def next_batch(self, pass_: int, /) -> dict[str, Any] | None: ...
    def cancel(self) -> None: ...
    def describe_clip(self, epoch: int, clip: int, t: int) -> dict[str, Any]: ...
    def stats(self) -> dict[str, Any]: ...

@final
class ClipInfo:
    """What a sampling function may know of a clip and its video, or of the part of it that is the dataset's entry."""

    @property
    def num_frames(self) -> int:
        """Number of frames; the last one is ``num_frames - 1``."""
    @property
    def fps(self) -> float:
        """Frames per second over the whole video; 0 where that is unknown."""
    @property
    def duration_seconds(self) -> float:
        """From the first frame's appearance to the last one's end."""
    @property
    def clip(self) -> int:
        """Which clip of the video it is, from 0."""
    @property
    def pts_seconds(self) -> list[float]:
        """When each frame appears, in the video's own time; made anew each time."""

@final
class Index:
    """Indices of videos, kept in a folder; ``None`` stands for the default place."""

    def __new__(cls, place: _Path | None) -> Index: ...
    @property
    def file(self) -> Path:
        """The database's file."""
    @property
    def trouble(self) -> str | None:
        """What went wrong since it was opened."""
    @property
    def lost(self) -> int:
        """Indices that could not be kept."""
    def flush(self) -> None:
        """Waits until everything is written."""
    def fill(
        self,
        paths: list[str],
        stream: int | None,
        threads: int,
        check: bool,
        progress: Callable[[int, int, int], object],
    ) -> dict[str, Any]:
        """Builds what is not there, or with ``check`` all; now and then calls ``progress(done, failed, total)``."""
    def export(
        self, file: _Path, root: _Path, paths: list[str], stream: int | None
    ) -> tuple[int, list[tuple[Path, str]]]:
        """Writes entries as lines of JSON; returns how many, and what was left out and why."""
    def import_(self, file: _Path, root: _Path) -> tuple[int, list[tuple[Path, str]]]:
        """Takes them in again; returns how many, and what was left out and why."""
    def prune(self, root: _Path) -> int:
        """Takes out entries of files below ``root`` that do not exist any more."""

def cores() -> int:
    """Cores that this process may use: its affinity, and the quota of its control group."""

def remote_stats() -> dict[str, int]:
    """What reading by URL took this process so far, whoever did it.

    ``remote_requests`` (repeated ones included, redirections not), ``remote_bytes`` of files that came,
    ``remote_retries`` (requests that repeated one that failed), ``remote_cache_hits`` (reads answered from memory).
    """

def num_clips_of(rule: SamplerArgs, video: VideoDescription) -> int:
    """Number of clips that a video yields."""

def sample(
    rule: SamplerArgs, video: VideoDescription, clip: int, draws: list[float] | None, key: tuple[int, int]
) -> tuple[list[int], list[bool]]:
    """Frames and mask of one clip of a video, with the given draws or with those of (seed, epoch)."""

def find_videos(place: _Path) -> tuple[list[Path], Path]:
    """Videos of a folder, of a list file, or the one video, and the folder that they start from."""

def flush_index() -> None:
    """Waits until indices that were built are written, a few seconds at most."""

#: Frames of a folder: pattern, first, count, fps.
_Frames = tuple[str, int, int | None, tuple[int, int]]

@final
class SampleTable:
    """Videos with labels and parts, as the engine keeps them."""

    def __len__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def row(
        self, number: int
    ) -> tuple[
        str | bytes,
        int,
        tuple[str, Any, Any] | None,
        tuple[str | None, int, int | None, tuple[int, int]] | None,
        tuple[int, int, str | None] | None,
    ]:
        """An entry: path or bytes; label; a part, (unit, start, end), in "frames" or in "seconds"; frames of a folder;
        a member's first byte, length and name. Raises ``IndexError``."""
    def take(self, numbers: Sequence[int]) -> SampleTable:
        """The entries with these numbers, in this order. Raises ``IndexError``."""
    @staticmethod
    def joined(tables: list[SampleTable]) -> SampleTable:
        """Those of several tables, one after another."""
    def labels(self) -> bytes:
        """All labels, as 64-bit numbers in this machine's order of bytes."""
    def names(self) -> bytes | None:
        """All paths, a line each, below the folder that all have in common; ``None`` where an entry is no whole
        file."""
    @property
    def are_whole(self) -> bool:
        """Whether no entry is a part or a folder of frames."""
    @property
    def memory_bytes(self) -> int:
        """Bytes that the table takes."""
    def __reduce__(self) -> tuple[Any, ...]: ...
    @staticmethod
    def rebuilt(
        numbers: tuple[bytes, bytes, bytes],
        texts: tuple[bytes, bytes, bytes, bytes],
        parts: tuple[bytes, bytes],
        others: list[tuple[Any, Any]],
    ) -> SampleTable:
        """What ``__reduce__`` took apart. Raises ``ValueError`` for anything else."""

def read_folder(root: _Path, extensions: list[str] | None) -> tuple[SampleTable, list[str]]:
    """Entries and class names of a folder."""

def read_file_list(path: _Path, root: _Path | None, delimiter: str | None) -> tuple[SampleTable, list[str]]:
    """Entries and class names of a list file."""

#: SampleTable, class names, columns, and notes of what was left out.
_Found = tuple[SampleTable, list[str], dict[str, list[Any]], list[str]]

def read_annotation_file(path: _Path, root: _Path | None, delimiter: str | None, multi_label: bool) -> _Found:
    """What a list of paths with labels says."""

def read_rawframes(path: _Path, root: _Path | None, frames: _Frames, columns: list[str]) -> _Found:
    """What a list of folders of frames says."""

def read_gluon_list(path: _Path, root: _Path | None, extension: str | None) -> _Found:
    """What a list of paths with durations and labels says."""

def read_dali_file_list(path: _Path, root: _Path | None, rounding: tuple[bool, bool, tuple[int, int]] | None) -> _Found:
    """What a list of DALI's video readers says; ``rounding``: start up, end up, fps, for seconds made into frames."""

def read_lerobot(root: _Path, camera: str | None, episodes: list[int] | None) -> _Found:
    """Episodes of a LeRobot dataset, each a part of a file."""

def read_dali_frames(
    path: _Path, root: _Path | None
) -> tuple[list[tuple[str, int, tuple[int, int | None] | None]], list[str], list[str]]:
    """The same in frames, of which negative ones count from the video's end: entries, class names, notes."""

def read_epic_kitchens(
    annotations: _Path,
    root: _Path,
    file: str,
    label: str | None,
    classes: _Path | None,
    in_frames: bool,
    frames: _Frames | None,
) -> _Found:
    """What an annotation table of EPIC-KITCHENS says."""

def read_activitynet(
    annotations: _Path, root: _Path, subset: str | None, file: str, classes: list[str] | None, missing: str
) -> _Found:
    """What annotations in ActivityNet's format say."""

def read_ava(
    annotations: _Path, root: _Path, file: str, span_seconds: float, begin_seconds: float, missing: str
) -> _Found:
    """What a table of AVA says."""

def read_json_lines(path: _Path, root: _Path | None, keys: tuple[str, str, str, str], in_frames: bool) -> _Found:
    """What a file of JSON objects says; ``keys``: of the source, the label, the start and the end."""

def read_kinetics(
    annotations: _Path, root: _Path, extension: str, split: str | None, classes: list[str] | None, missing: str
) -> _Found:
    """What an annotation table of Kinetics says."""

def read_ucf101(annotations: _Path, root: _Path, split: int, train: bool) -> _Found:
    """What UCF101's lists say."""

def read_hmdb51(annotations: _Path, root: _Path, split: int, train: bool) -> _Found:
    """What HMDB51's lists say."""

def read_something_something(
    annotations: _Path, labels: _Path, root: _Path, extension: str | None, frames: _Frames | None
) -> _Found:
    """What annotations of Something-Something V2 say; videos are files, or folders of ``frames``."""

def read_jester(list: _Path, labels: _Path, root: _Path, extension: str | None, frames: _Frames | None) -> _Found:
    """What a list of Jester or Something-Something V1 says; videos are files, or folders of ``frames``."""

#: Entries of archives; their columns; how many were left out; why, of the first ones.
_Listing = tuple[SampleTable, dict[str, list[Any]], int, list[str]]

def read_webdataset(
    shards: list[str],
    indices: list[str] | None,
    video: list[str],
    label: tuple[str, list[str]] | None,
    columns: list[str],
    on_error: str,
    threads: int,
) -> _Listing:
    """Entries of tars; ``label`` is an extension, and names inside its JSON, if it is one; ``columns`` are extensions
    whose members are kept."""

def read_tfrecord(
    files: list[str], source: str, label: str | None, check: bool, on_error: str, threads: int
) -> _Listing:
    """Entries of TFRecord files, by the names of two features; ``check``: data is held against its checksums."""

def read_lmdb(
    files: list[str],
    database: str | None,
    key: str | None,
    label: tuple[str, list[str]] | None,
    check: bool,
    on_error: str,
    threads: int,
) -> _Listing:
    """Where the values of LMDB databases lie, as :func:`read_webdataset`."""

def read_tables(
    kind: str,
    files: list[str],
    keys: tuple[str, str, str, str],
    in_frames: bool,
    columns: list[str] | None,
    root: _Path | None,
    on_error: str,
    threads: int,
) -> tuple[
    SampleTable | None,
    list[tuple[Any, int, tuple[str, Any, Any] | None]],
    list[str],
    dict[str, list[Any]],
    int,
    list[str],
]:
    """A table of entries, or, where there are cells, sources, labels and parts of rows; names of labels,
    columns, how many were left out, and why."""

def read_recordio(file: str, index: str | None, on_error: str) -> _Listing:
    """Entries of a RecordIO file, in the order of the list ``index`` if there is one."""

def apply(
    pixels: Any,
    shape: tuple[int, int, int, int],
    steps: list[Step],
    owner: tuple[int, int, int],
    dtype: str,
    layout: str,
    label_fill: int | None,
) -> Tensor:
    """Pictures of (frames, height, width, channels), transformed; with ``label_fill`` they are maps of labels."""

def decode_images(
    sources: list[_Source],
    steps: list[Step],
    dtype: str,
    layout: str,
    exact: bool,
    seed: int,
    threads: int,
) -> list[Tensor | Exception]:
    """Pictures' files, each a Tensor of one frame or the error that it raises."""

def sample_transform_params(
    size: tuple[int, int], steps: list[Step], owner: tuple[int, int, int], t: int
) -> list[dict[str, Any]]:
    """What the transforms draw for frame ``t`` of a clip of pictures of this (width, height)."""

def gpu_unavailable_reason() -> str | None:
    """Why no GPU can be used."""

def gpu_devices() -> list[dict[str, Any]]:
    """Facts of each GPU."""

def gpu_startup_seconds(ordinal: int) -> tuple[float, float]:
    """Seconds for opening a GPU, and for its kernels."""

def gpu_decoder_cache_stats(ordinal: int) -> dict[str, int]:
    """What became of the decoders of this process."""

def gpu_clear_decoder_cache(ordinal: int) -> int:
    """Destroys the decoders that nobody uses; how many there were."""

def gpu_decode_throughput(
    ordinal: int, path: _Path, sessions: int, seconds: float, map_every: int, max_packets: int
) -> dict[str, Any]:
    """Decodes a clip over and over and keeps nothing."""
