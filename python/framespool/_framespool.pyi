"""The compiled engine. Use the public names of `framespool` instead; only `Tensor` is public here."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, final

from framespool.transforms import Transform

__all__ = [
    "AudioFile",
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
    "clip_store_runs",
    "content_differences",
    "decode_images",
    "normalized_rows",
    "num_clips_of",
    "cores",
    "counters",
    "display_name",
    "sample_transform_params",
    "ffmpeg_uses_assembly",
    "ffmpeg_version",
    "flush_index",
    "gpu_count",
    "gpu_decode_throughput",
    "gpu_clear_decoder_cache",
    "gpu_devices",
    "gpu_startup_seconds",
    "gpu_decoder_cache_stats",
    "gpu_unavailable_reason",
    "prune_clip_store",
    "image_extensions",
    "image_signature_bytes",
    "is_image",
    "simd_backend",
    "read_dali_file_list",
    "read_dali_frames",
    "read_folder",
    "read_json_lines",
    "read_lerobot",
    "read_lerobot_tables",
    "read_lmdb",
    "read_recordio",
    "read_annotation_file",
    "read_annotation_table",
    "read_tables",
    "read_text",
    "read_tfrecord",
    "read_webdataset",
    "remote_stats",
    "row_statistics",
    "sample",
    "tensor_of",
    "tensors_on_gpu",
    "video_extensions",
    "without_signature",
]

__version__: str
#: Whether the bundled FFmpeg uses its assembly code on this machine.
ffmpeg_uses_assembly: bool
#: Version of the bundled FFmpeg.
ffmpeg_version: str
#: File extensions of images and of videos, without the dot.
image_extensions: list[str]
video_extensions: list[str]
#: Number of bytes at the beginning of a file that `is_image` needs.
image_signature_bytes: int
#: SIMD implementation of the transforms on this machine.
simd_backend: str

_Path = str | os.PathLike[str]
_Source = str | os.PathLike[str] | bytes | Any
#: The index cache: the default folder, none, or a folder.
_Index = None | Literal[False] | _Path

#: A clip sampler: its name, and its arguments by name.
SamplerSpec = tuple[str, dict[str, Any], Callable[..., Any] | None]
#: A video: number of frames and frames per second, or presentation times and end in seconds.
VideoDescription = tuple[int, float] | tuple[list[float], float]

@final
class Tensor:
    """An array in host or GPU memory: the result type of framespool.

    Exports its memory by DLPack without a copy: `torch.from_dlpack(t)`, `numpy.from_dlpack(t)` and
    `jax.dlpack.from_dlpack(t)`, or `t.torch()` and `t.numpy()`. The memory lives as long as any object that uses it.
    Integers, slices, `None` and `...` as indices give views, as in NumPy: `t[0, ..., ::2]`. A tensor in host memory can
    be pickled; its elements are copied.

    Example:
        >>> import framespool as fsp
        >>> frame = fsp.Video("a.mp4")[0]
        >>> frame.shape, frame.dtype, frame.device
        ((3, 360, 640), 'uint8', 'cpu')
        >>> frame.numpy().shape
        (3, 360, 640)
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
    @property
    def dtype(self) -> str:
        """ "uint8", "uint16", "float16", "bfloat16", "float32", "float64", "int64" or "bool"."""
    @property
    def device(self) -> str:
        """Device of the memory: "cpu" or "cuda:0"."""
    @property
    def nbytes(self) -> int:
        """Size in bytes."""
    @property
    def ndim(self) -> int:
        """Number of dimensions."""
    @property
    def _is_page_locked(self) -> bool: ...
    def _record_copy(self, gpu: int, stream: int) -> None: ...
    def record_stream(self, stream: Any) -> None:
        """Keeps the memory from being used again before a CUDA stream is done with it: see `Batch.record_stream()`.

        Args:
            stream: A `torch.cuda.Stream`, an object with `__cuda_stream__`, or the handle of a stream. In host memory
                that is not page-locked it has no effect.

        Raises:
            ArgumentError: If it is no stream.
        """
    def __len__(self) -> int: ...
    def __getitem__(self, index: Any, /) -> Tensor: ...
    def drop_time(self, layout: str) -> Tensor:
        """Removes the dimension of time, which must have length 1.

        Args:
            layout: The last dimensions, such as `"NTHWC"`.

        Returns:
            A view.
        """
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
        """The CUDA array interface, version 3.

        Raises:
            AttributeError: If the tensor is not on a GPU, or for bfloat16, which the interface does not support.
        """
    def cpu(self) -> Tensor:
        """Copies the tensor to the host.

        Returns:
            A copy on the host, or the tensor itself if it is there already.
        """
    def numpy(self) -> Any:
        """Returns a NumPy array that shares the memory.

        Returns:
            The array.

        Raises:
            TypeError: For a tensor on a GPU (use `.cpu()` first), and for bfloat16, which NumPy does not support.
            ImportError: If NumPy is not installed.
        """
    def torch(self) -> Any:
        """Returns a PyTorch tensor that shares the memory.

        Returns:
            The tensor.

        Raises:
            ImportError: If PyTorch is not installed.
        """
    def tobytes(self) -> bytes:
        """Copies the numbers.

        Returns:
            The bytes in row-major order.
        """
    def __reduce__(self) -> tuple[Any, tuple[bytes, list[int], str]]: ...
    def tolist(self) -> Any:
        """Converts to nested lists.

        Returns:
            Python numbers.
        """

def tensors_on_gpu(tensors: list[Tensor], gpu: int) -> list[Tensor]:
    """Copies tensors in host memory to a GPU, without waiting for the copy."""

def tensor_of(data: bytes, shape: Sequence[int], dtype: str) -> Tensor:
    """Restores a pickled tensor; ValueError if the three do not match."""

def content_differences(frames: Tensor) -> list[int]:
    """For each frame but the first, the sum of absolute differences of hue, saturation and value."""

@final
class Clip:
    """Transformed frames of one video."""

    @property
    def frames(self) -> Tensor: ...
    @property
    def indices(self) -> list[int]: ...
    @property
    def pts_seconds(self) -> list[float]: ...
    @property
    def duration_seconds(self) -> list[float]: ...

@final
class Video:
    """An open video. `name` is used in messages if `source` is bytes; `threads` decode the frames of one call."""

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
        deinterlace: str = "weave",
        decode_device: int = 0,
    ) -> Video: ...
    def __len__(self) -> int: ...
    def info(self) -> dict[str, Any]:
        """Metadata of the video by name."""
    def color(self) -> tuple[int, int, int, bool | None]:
        """Primaries, transfer and matrix as numbered by ITU-T H.273 (2: unspecified), and whether the range is full.

        Decodes the first frame.
        """
    def color_names(self) -> tuple[str | None, str | None, str | None, str | None, str | None]:
        """FFmpeg's names of primaries, transfer and matrix, "limited" or "full", "PQ" or "HLG".

        Decodes the first frame.
        """
    def header(self) -> dict[str, Any]:
        """What the container's headers state about the stream, by name."""
    def cpu_fallback(self) -> str | None:
        """Why NVDEC did not decode frames of the last call."""
    def analyze_access(self, frames: int, stride: int) -> dict[str, Any]:
        """Examines the packets; costs are those of a clip of `frames` frames, `stride` apart."""
    def nvdec(self) -> tuple[str | None, str | None]:
        """NVDEC's name of the codec, or why the CPU decodes the video; reads no packet."""
    def all_pts_seconds(self) -> list[float]:
        """Presentation time of every frame in seconds."""
    def audio(
        self,
        start: float | None,
        seconds: float | None,
        sample_rate: int | None,
        channels: int | None,
        stream: int | None,
    ) -> tuple[Tensor, int, float]:
        """Samples of a time span, (C, S) float32, their rate, and the time of the first."""
    def audio_info(self, stream: int | None) -> tuple[int, str, int, int, float, float]:
        """Stream, codec, sample rate, channels, begin and end in seconds of the audio."""
    def frames(self, indices: list[int], steps: list[Transform], dtype: str, layout: str, seed: int) -> Clip: ...
    def frames_at(self, seconds: list[float], steps: list[Transform], dtype: str, layout: str, seed: int) -> Clip: ...
    def iterate(self, layout: str) -> FrameIterator: ...

@final
class AudioFile:
    """The audio of a file, which may have no video. `name` is used in messages if `source` is bytes."""

    def __new__(cls, source: _Source | Any, name: str, index: _Index, stream: int | None) -> AudioFile: ...
    def audio(
        self, start: float | None, seconds: float | None, sample_rate: int | None, channels: int | None
    ) -> tuple[Tensor, int, float]:
        """Samples of a time span, (C, S) float32, their rate, and the time of the first."""
    def info(self) -> tuple[int, str, int, int, float, float]:
        """Stream, codec, sample rate, channels, begin and end in seconds."""

@final
class FrameIterator:
    """All frames of a video, in order."""

    def __iter__(self) -> FrameIterator: ...
    def __next__(self) -> Tensor: ...

@final
class BatchSampler:
    """Clip numbers of batches; `framespool.order.BatchSampler` wraps it."""

    @property
    def grouped(self) -> tuple[int, int, int] | None:
        """`num_streams`, `shuffle_block_size` and `max_chunk`; `None` if the clips are not grouped."""

    def __new__(cls, settings: dict[str, Any]) -> BatchSampler: ...
    def __len__(self) -> int: ...
    @property
    def num_slots(self) -> int:
        """Clips of all batches of an epoch, padding included."""
    def batch(self, batch: int, epoch: int) -> list[int]: ...
    def padding(self, batch: int, epoch: int) -> list[bool]: ...
    def visits(self, batch: int, epoch: int) -> list[int]: ...
    def quality(self, video_clips: dict[str, Any] | None, epoch: int) -> dict[str, Any]: ...

@final
class Loader:
    """The engine of a loader. `progress` is called with (done, failed, total) if it first indexes all videos."""

    def __new__(
        cls,
        dataset: SampleTable | Sequence[tuple[_Source | Any, int]],
        clip_sampler: SamplerSpec,
        steps: list[Transform],
        settings: dict[str, Any],
        progress: Callable[[int, int, int], object] | None = None,
    ) -> Loader: ...
    def __len__(self) -> int: ...
    @property
    def num_clips(self) -> int: ...
    @property
    def grouped(self) -> tuple[int, int, int] | None: ...
    def shuffle_mixing(self) -> tuple[float, bool, int | None] | None: ...
    def estimate_cost(self) -> _CostEstimate: ...
    def gop_without_disk_cache(self, is_random: bool) -> float | None: ...
    def set_grouped(self, num_streams: int, block_size: int, max_chunk: int) -> None: ...
    def page_lock(self, gpu: int, required: bool) -> None: ...
    def set_known_clips(self, halves: bytes) -> None: ...
    def start_epoch(self, epoch: int, first_batch: int) -> int: ...
    def next_batch_index(self, pass_: int, /) -> int | None: ...
    def failures(self) -> list[tuple[int, str | None, str, str, int]]: ...
    def next_batch(self, pass_: int, /) -> dict[str, Any] | None: ...
    def cancel(self) -> None: ...
    def start_batches(
        self, epoch: int, first_batch: int, batches: Sequence[Sequence[tuple[int, int, int, bool]]]
    ) -> int: ...
    def clips_in_order(self, epoch: int) -> list[tuple[int, int]]: ...
    def clip_shapes(self, epoch: int, clips: Sequence[tuple[int, int, int, bool]]) -> list[tuple[int, int, int]]: ...
    def samples_of(self, clips: Sequence[int]) -> list[int]: ...
    def describe_clip(self, epoch: int, clip: int, t: int, repeat: int, occurrence: int) -> dict[str, Any]: ...
    def stats(self) -> dict[str, Any]: ...

@final
class ClipInfo:
    """A clip and its video, or the segment of it that is the sample; the argument of a sampling function.

    Example:
        >>> import framespool as fsp
        >>> def last_frames(info, rng):
        ...     return range(info.num_frames - 4, info.num_frames)
        >>> fsp.samplers.Custom(last_frames, sequence_length=4).indices(72).indices
        [68, 69, 70, 71]
    """

    @property
    def num_frames(self) -> int:
        """Number of frames; the last one is `num_frames - 1`."""
    @property
    def fps(self) -> float:
        """Frames per second over the duration; 0 if unknown."""
    @property
    def duration_seconds(self) -> float:
        """Seconds from the start of the first frame to the end of the last one."""
    @property
    def clip(self) -> int:
        """Number of the clip within the video, from 0."""
    @property
    def pts_seconds(self) -> list[float]:
        """Presentation time of each frame in the video's own timestamps; a new list on each access."""

@final
class Index:
    """The index cache in a folder; `None` is the default one."""

    def __new__(cls, place: _Path | None) -> Index: ...
    @property
    def file(self) -> Path:
        """File of the database."""
    @property
    def last_error(self) -> str | None:
        """The first error since it was opened."""
    @property
    def lost(self) -> int:
        """Number of indexes that could not be stored."""
    def flush(self) -> None:
        """Waits until all indexes are written."""
    def fill(
        self,
        paths: list[str],
        stream: tuple[int | None, bool],
        threads: int,
        check: bool,
        progress: Callable[[int, int, int], object],
    ) -> dict[str, Any]:
        """Builds missing indexes, or with `check` all; calls `progress(done, failed, total)` regularly.

        `stream`: its index or `None` for the best one, and whether it is one of audio.
        """
    def export(
        self, file: _Path, root: _Path, paths: list[str], stream: int | None
    ) -> tuple[int, list[tuple[str, str]]]:
        """Writes indexes as lines of JSON; returns how many, and the skipped ones with reasons."""
    def import_(self, file: _Path, root: _Path) -> tuple[int, list[tuple[str, str]]]:
        """Reads such lines; returns how many, and the skipped ones with reasons."""
    def prune(self, root: _Path | None) -> int:
        """Removes indexes of missing files, below `root` or whose folder exists; returns how many."""
    def shrink(self, max_bytes: int | None) -> int:
        """Removes the least recently used indexes above the limit, and shrinks the file; returns how many."""
    def paths(self, root: _Path) -> list[str]:
        """The local files below `root` that have an index."""
    def summary(self) -> dict[str, Any]:
        """`entries`, `bytes`, `max_bytes`, and `oldest_day`: earliest day of a last use, since 1970."""

def is_image(head: bytes) -> bool:
    """Whether a file that begins with these bytes is an image, rather than a video."""

def cores() -> int:
    """Number of cores that this process may use, by its CPU affinity and the quota of its control group."""

def counters() -> list[tuple[str, str, str, Literal["sum", "max", "first"]]]:
    """The counters of a loader: group, name, meaning, and how the values of several engines merge."""

def remote_stats() -> dict[str, int]:
    """Counts what this process read by URL.

    Returns:
        `remote_requests` (with retries, without redirects), `remote_bytes` (bytes of files received),
        `remote_retries` (requests that repeat a failed one), `remote_cache_hits` (reads served from memory),
        `remote_outages` (times in which a server answered no request).

    Example:
        >>> import framespool as fsp
        >>> sorted(fsp.tools.remote_stats())
        ['remote_bytes', 'remote_cache_hits', 'remote_outages', 'remote_requests', 'remote_retries']
    """

def without_signature(url: str) -> str:
    """A URL without the parameters of its signature; other text unchanged."""

def num_clips_of(clip_sampler: SamplerSpec, video: VideoDescription) -> int:
    """Number of clips of a video."""

def sample(
    clip_sampler: SamplerSpec, video: VideoDescription, clip: int, draws: list[float] | None, key: tuple[int, int]
) -> tuple[list[int], list[bool]]:
    """Frames and mask of one clip of a video, with given draws or with those of (seed, epoch)."""

def display_name(path: _Path) -> str:
    """Name of a path in messages and files: the path itself; of a URL, what is no secret."""

#: Packets per clip, each by itself, with a full and with a grouped shuffle, and the mixing of the latter; frames
#: decoded per clip; for each disk cache its epochs, frames per clip later and in the first epoch, and bytes on disk.
_CostEstimate = tuple[tuple[float, float, float, float], float, list[tuple[int, float, float, int]]]

#: Name, bytes, clips, first and last epoch of clips, whether it has clips of every epoch, seconds since the last use.
_StoredRun = tuple[str, int, int, tuple[int, int] | None, bool, float | None]

def clip_store_runs(folder: _Path) -> list[_StoredRun]:
    """The runs in the folder of a disk cache."""

def prune_clip_store(folder: _Path, unused_seconds: int) -> list[tuple[_StoredRun, str | None]]:
    """Deletes runs that no process has used for some seconds. Returns them, each with what prevented it."""

def flush_index(seconds: int | None = None) -> None:
    """Waits until new indexes are written, a few seconds at most."""

#: Frames of a folder: pattern, first, count, fps.
_Frames = tuple[str, int, int | None, tuple[int, int]]

@final
class SampleTable:
    """Videos with labels and segments, as the engine stores them."""

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
        """A sample: path or bytes; label; a segment, (unit, start, end), in "frames" or in "seconds"; frames of a
        folder; offset, length and name of a member. Raises `IndexError`."""
    def take(self, numbers: Sequence[int]) -> SampleTable:
        """The samples with these numbers, in this order. Raises `IndexError`."""
    @staticmethod
    def joined(tables: list[SampleTable]) -> SampleTable:
        """Concatenates tables."""
    def relabeled(self, numbers: Sequence[int]) -> SampleTable:
        """The same samples with label `l` replaced by `numbers[l]`; labels that are no index of it are kept."""
    def labels(self) -> bytes:
        """All labels, as 64-bit ints in the byte order of this machine."""
    def names(self) -> bytes | None:
        """All paths, one per line, relative to the folder that they share; `None` if a sample is not a complete
        file."""
    @property
    def are_whole(self) -> bool:
        """Whether no sample is a segment or a folder of frames."""
    @property
    def memory_bytes(self) -> int:
        """Size of the table in bytes."""
    def __reduce__(self) -> tuple[Any, ...]: ...
    @staticmethod
    def rebuilt(
        numbers: tuple[bytes, bytes, bytes],
        texts: tuple[bytes, bytes, bytes, bytes],
        parts: tuple[bytes, bytes],
        others: list[tuple[Any, Any]],
    ) -> SampleTable:
        """Restores a result of `__reduce__`. Raises `ValueError` for anything else."""

def read_folder(root: _Path, extensions: list[str] | None) -> tuple[SampleTable, list[str]]:
    """Samples and class names of a folder."""

#: SampleTable, class names, columns, and notes about skipped samples.
_Found = tuple[SampleTable, list[str], dict[str, list[Any]], list[str]]

def read_annotation_file(
    path: _Path,
    root: _Path | None,
    columns: list[str],
    delimiter: str | None,
    extension: str | None,
    frames: _Frames,
) -> _Found:
    """Reads a list of paths with labels, durations or numbers of frames."""

def read_annotation_table(files: list[_Path], root: _Path | None, description: dict[str, Any]) -> _Found:
    """Reads annotation files by a description."""

def read_dali_file_list(path: _Path, root: _Path | None, rounding: tuple[bool, bool, tuple[int, int]] | None) -> _Found:
    """Reads a list of DALI's video readers; `rounding`: start up, end up, fps, to convert seconds to frames."""

def read_lerobot_tables(
    root: _Path, features: list[tuple[str, str, int]], episodes: list[int] | None
) -> tuple[list[bytes], list[tuple[int, int]]]: ...
def read_text(path: _Path) -> str: ...
def row_statistics(
    data: bytes, dtype: str, width: int, quantiles: list[float]
) -> list[tuple[float, float, float, float, list[float]]]: ...
def normalized_rows(
    data: bytes, dtype: str, scales: list[tuple[float, float]], factor: float, shift: float
) -> bytes: ...
def read_lerobot(root: _Path, camera: str | None, episodes: list[int] | None) -> _Found:
    """Episodes of a LeRobot dataset, each a segment of a file."""

def read_dali_frames(
    path: _Path, root: _Path | None
) -> tuple[list[tuple[str, int, tuple[int, int | None] | None]], list[str], list[str]]:
    """The same in frames, where negative ones count from the end of the video: samples, class names, notes."""

def read_json_lines(
    path: _Path,
    root: _Path | None,
    keys: tuple[str, str, str, str],
    in_frames: bool,
    classes: list[str] | None,
) -> _Found:
    """Reads a file of JSON objects; `keys`: of the source, the label, the start and the end."""

#: Samples of archives; their columns; number of skipped ones; reasons for the first ones.
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
    """Samples of tars; `label` is an extension, with keys inside its JSON; `columns` are extensions whose members
    are kept."""

def read_tfrecord(
    files: list[str], source: str, label: str | None, check: bool, on_error: str, threads: int
) -> _Listing:
    """Samples of TFRecord files, by the names of two features; `check`: verify the checksums of data."""

def read_lmdb(
    files: list[str],
    database: str | None,
    key: str | None,
    label: tuple[str, list[str]] | None,
    check: bool,
    on_error: str,
    threads: int,
) -> _Listing:
    """Positions of the values of LMDB databases, as `read_webdataset()`."""

def read_tables(
    kind: str,
    files: list[str],
    keys: tuple[str, str | None, str, str],
    in_frames: bool,
    classes: list[str] | None,
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
    """A table of samples, or, with cells, sources, labels and segments of rows; names of labels, columns, number of
    skipped rows, and reasons."""

def read_recordio(file: str, index: str | None, on_error: str) -> _Listing:
    """Samples of a RecordIO file, in the order of the list `index` if there is one."""

def apply(
    pixels: Any,
    shape: tuple[int, int, int, int],
    steps: list[Transform],
    owner: tuple[int, int, int],
    dtype: str,
    layout: str,
    label_fill: int | None,
) -> Tensor:
    """Transforms frames of (frames, height, width, channels); with `label_fill` they are label maps."""

def decode_images(
    sources: list[_Source],
    steps: list[Transform],
    dtype: str,
    layout: str,
    exact: bool,
    seed: int,
    threads: int,
) -> list[Tensor | Exception]:
    """Decodes image files, each to a Tensor of one frame or the error."""

def sample_transform_params(
    size: tuple[int, int], steps: list[Transform], owner: tuple[int, int, int], frame: tuple[int, int]
) -> list[dict[str, Any]]:
    """The numbers that transforms draw for a frame (index, number of frames) of a clip with this (width, height)."""

def gpu_count() -> int:
    """Number of GPUs; 0 without a driver."""

def gpu_unavailable_reason() -> str | None:
    """Why no GPU can be used."""

def gpu_devices() -> list[dict[str, Any]]:
    """Properties of each GPU."""

def gpu_startup_seconds(ordinal: int) -> tuple[float, float]:
    """Opens a GPU: seconds for the driver, and for the kernels."""

def gpu_decoder_cache_stats(ordinal: int) -> dict[str, int]:
    """Counts the decoders of this process."""

def gpu_clear_decoder_cache(ordinal: int) -> int:
    """Destroys idle decoders; returns how many."""

def gpu_decode_throughput(
    ordinal: int, path: _Path, sessions: int, seconds: float, map_every: int, max_packets: int
) -> dict[str, Any]:
    """Decodes a video repeatedly and discards the frames."""
