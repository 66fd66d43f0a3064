"""Batches of clips, in order."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args

from framespool._common.batch_methods import BatchMethods, placed
from framespool._common.index_cache import cache_location
from framespool._common.ranks import is_first_process
from framespool._common.validate_args import BatchLayout, Dtype, boolean, choice, keyword_hints, user_stacklevel
from framespool._framespool import Tensor
from framespool.datasets import Dataset
from framespool.datasets._dataset import as_dataset
from framespool.errors import BY_KIND, ArgumentError, Error, InternalError, UnavailableError
from framespool.loaders._base import BaseLoader
from framespool.loaders._buckets import with_buckets
from framespool.loaders._cameras import Cameras
from framespool.loaders._disk_cache import advise_disk_cache, wants_disk_cache_advice
from framespool.loaders._frame_columns import FrameColumns
from framespool.loaders._images import ImageBatch
from framespool.loaders._samples import FILE_ERRORS, Found, Samples, bools, int64s
from framespool.loaders._views import PER_VIEW, View, Views, checked_sampler
from framespool.options import Audio, Buckets, Cache, Index, OnError, PixelBudget, Shards, TokenBudget
from framespool.options._loader import KEYWORD_HINTS, LoaderOptions
from framespool.options._order import Shuffle
from framespool.order._batch_budget import Slot
from framespool.order._sampler_batches import SamplerBatches
from framespool.samplers import ClipSampler, Custom, Indices, Windows
from framespool.samplers._common import KEYWORD_HINTS as SAMPLER_HINTS
from framespool.transforms import Transform
from framespool.transforms._deinterlace import without_deinterlace
from framespool.video._info import VideoColumns
from framespool.video._sources import KINDS

_KEYWORD_HINTS = {
    **{name: f"clip_sampler=, with {hint} of its own" for name, hint in SAMPLER_HINTS.items()},
    **dict.fromkeys(
        ("sequence_length", "stride", "fps"), "clip_sampler=, such as samplers.RandomClips(sequence_length=16)"
    ),
    **dict.fromkeys(("sampler", "batch_sampler"), "clip_sampler= for the frames of clips, shuffle= for their order"),
    **KEYWORD_HINTS,
}

#: The attributes of a batch that are dicts with `views=`.
_BY_VIEW = tuple(name for name in PER_VIEW if name != "occurrences")

#: Length of a video that is too short for no clip sampler.
_MANY_FRAMES = 2**31 - 1


@dataclass(eq=False, repr=False)
class Batch(BatchMethods):
    """N clips of T frames, with their labels and positions.

    `frames, labels = batch` and `batch["labels"]` work as with a tuple and a dict. `batch.to("cuda")` gives a batch
    of `torch.Tensor`. A tensor leaves by DLPack without a copy: `torch.from_dlpack(batch.frames)`,
    `np.from_dlpack(batch.frames)`, or `.torch()` and `.numpy()` for short. If the frames are on a GPU, so is what a
    training step computes with; ids, `content_keys`, `geometry` and `video` are in host memory. Where clips differ in
    length, T is the length of the longest one; the rows of the others are padded with -1, NaN and false.

    With `views=` of the loader, what a view has of its own is a dict by the names of the views: `frames`, `indices`,
    `pts_seconds`, `mask`, `clip_ids`, `requested_ids`, `view_ids`, `geometry`, `content_keys` and the frame columns.
    `batch["global"]` is the batch of one view, with the same labels, and shapes as with `group_clips=True`.

    Attributes:
        frames: Tensor in the loader's layout and dtype; `ThreeCrop` and `FiveCrop` add a dimension of views after
            N. A list of N Tensors if the transforms give frames of different sizes, see `collate` of the loader. If the
            last transform is a callable, its result.
        labels: (N,) int64, or float32 for labels with a fraction; (N, K) for lists of K numbers.
        indices: (N, T) int64, index of each frame in presentation order.
        pts_seconds: (N, T) float64, presentation time of each frame in seconds.
        mask: (N, T) bool, false for frames that replace frames past the end of the video.
        video_ids: (N,) int64, index of the video in the dataset.
        clip_ids: (N,) int64, index of the clip in the dataset.
        requested_ids: (N,) int64, the clip that the batch sampler requested. Differs from `clip_ids` only for a
            replacement.
        view_ids: (N,) int64, number of the clip within its video, from 0.
        padding: (N,) bool, true for clips that only fill a batch or make ranks equal.
        geometry: (N, 2, 3) float64, the affine map from the video's frame, as displayed, to the frames of the result,
            for `transforms.map_points()` and `transforms.map_boxes()`; (N, V, 2, 3) for V views. With
            `per_frame=True` transforms it is that of the first frame.
        video: About the video of each clip, or the segment of one that is its sample; see `VideoColumns` and
            `video_metadata()`.
        columns: The values of `dataset.columns` by name: a Tensor (N,) of int64, float64 or bool if all values of the
            column are numbers, (N, K) if they are lists of K numbers, else a list.
        content_keys: (N, 16) uint8, digest of everything that determines the frames of the clip, but not its audio: the
            file and its version, frame indices, transforms, the version of the library and, with random transforms,
            seed, epoch and clip. Zeros if a change of the file could not be noticed: bytes in memory, and servers that
            send neither an ETag nor a time. `None` with `MixUp`, `CutMix` and other functions among the transforms that
            may change frames.
        unpadded_sizes: (N, 2) int64 with `collate="pad"`: height and width of the frames of each clip without padding;
            its length is the number of its `indices` that are not -1. Otherwise `None`.
        mixed_with: (N,) int64 with `MixUp` or `CutMix`: row of the clip that was mixed into each clip. Otherwise
            `None`.
        mix_weights: (N,) float32 with `MixUp` or `CutMix`: part of each clip that is its own, from 0 to 1. Otherwise
            `None`.
        audio: (N, C, S) float32 with `audio=` of the loader, from -1 to 1: the audio of each clip, zeros after the
            shorter ones; see `Audio`. Otherwise `None`.
        audio_mask: (N, S) bool with `audio=`: the samples that the file has. Otherwise `None`.

    Example:
        >>> import framespool as fsp
        >>> loader = fsp.ClipLoader(
        ...     ["a.mp4", "phone.mp4"],
        ...     fsp.samplers.RandomClips(sequence_length=8),
        ...     batch_size=2,
        ...     transforms=[fsp.transforms.Resize((112, 112))],
        ... )
        >>> batch = next(iter(loader))
        >>> batch.frames.shape, batch.indices.shape, batch.video_ids.tolist()
        ((2, 8, 3, 112, 112), (2, 8), [0, 1])
    """

    frames: Tensor | list[Tensor]
    labels: Tensor
    indices: Tensor
    pts_seconds: Tensor
    mask: Tensor
    video_ids: Tensor
    clip_ids: Tensor
    requested_ids: Tensor
    view_ids: Tensor
    padding: Tensor
    geometry: Tensor
    video: VideoColumns
    columns: dict[str, Any] = field(default_factory=dict)
    content_keys: Tensor | None = None
    unpadded_sizes: Tensor | None = None
    mixed_with: Any = None
    mix_weights: Any = None
    audio: Tensor | None = None
    audio_mask: Tensor | None = None

    def _more(self) -> Mapping[str, Any]:
        if not isinstance(self.frames, dict):
            return self.columns
        names: Iterable[str] = self.frames
        return {**self.columns, **{name: self._view(name) for name in names}}

    def _view(self, name: str) -> Batch:
        """The batch of one of several views."""
        by_name = {each: getattr(self, each) for each in _BY_VIEW}
        own = {each: value[name] for each, value in by_name.items() if value is not None}
        by_view = {column: value[name] for column, value in self.columns.items() if isinstance(value, dict)}
        return replace(self, **own, columns={**self.columns, **by_view})

    def video_metadata(self) -> list[dict[str, Any]]:
        """The metadata of each clip's video, with the names of `transformers.video_utils.VideoMetadata`.

        Processors of video-language models take it as `video_metadata=`, together with `do_sample_frames=False`.

        A sample that is a segment of a file counts as a video of its own, as in qwen-vl-utils.

        Returns:
            A dict for each clip: `total_num_frames`, `fps` (average frames per second of the file), `duration` in
            seconds, `height` and `width` of the frames as displayed, `frames_indices` (the clip's frames, counted from
            the first one of the video or segment, without padding; with `group_clips` a list for each clip) and
            `video_backend`, which is `"framespool"`.

        Raises:
            ArgumentError: If the batch has several views, each with clips of its own.

        Example:
            >>> import framespool as fsp
            >>> loader = fsp.ClipLoader(["a.mp4"], fsp.samplers.RandomClips(sequence_length=4), batch_size=1)
            >>> sorted(next(iter(loader)).video_metadata()[0])
            ['duration', 'fps', 'frames_indices', 'height', 'total_num_frames', 'video_backend', 'width']
        """
        if isinstance(self.indices, dict):
            name = next(iter(self.indices))
            raise ArgumentError(f"video_metadata() is about the clips of one view, such as batch[{name!r}]")
        found = []
        rows = zip(*(column.tolist() for column in self.video), self.indices.tolist(), strict=True)
        for frames, fps, duration, (height, width), first, indices in rows:
            found.append(
                {
                    "total_num_frames": frames,
                    "fps": fps,
                    "duration": duration,
                    "height": height,
                    "width": width,
                    "frames_indices": _counted(indices, first),
                    "video_backend": "framespool",
                }
            )
        return found


@dataclass(eq=False, repr=False)
class SampleBatch(BatchMethods):
    """N samples of `datasets.Sources`: any number of videos and images each, with their labels and columns.

    `batch["labels"]` and `batch.to("cuda")` work as with `Batch`. `videos` and `images` are batches of the clips and of
    the images of all samples, in the order of the samples and, within one, of its record; `samples` has the frames of
    each sample. A sample of text only keeps its row, and has none.

    Attributes:
        videos: The K clips of all videos: a `Batch`, whose `frames` are a list of K Tensors (T, C, H, W).
            `videos.columns["sample"]` is (K,) int64, the row of the sample of each clip, and `videos.video_ids`
            counts through the videos of all samples of the dataset.
        images: The K images of all samples: an `ImageBatch`, whose `images` are a list of K Tensors (C, H, W), with the
            same column.
        labels: As in `Batch`.
        sample_ids: (N,) int64, index of the sample in the dataset.
        requested_ids: (N,) int64, the sample that the batch sampler requested. Differs from `sample_ids` only for a
            replacement.
        padding: (N,) bool, true for samples that only fill a batch or make ranks equal.
        columns: The values of `dataset.columns` by name, as in `Batch`.

    Example:
        >>> import framespool as fsp
        >>> S = fsp.datasets.Sources
        >>> samples = [S(videos=["a.mp4", "phone.mp4"]), S(images=["photos/dog/1.jpg"]), S()]
        >>> dataset = fsp.datasets.Dataset(samples, columns={"text": ["compare", "describe", "hello"]})
        >>> loader = fsp.ClipLoader(dataset, fsp.samplers.UniformClips(sequence_length=4), batch_size=3)
        >>> batch = next(iter(loader))
        >>> [(len(each["videos"]), len(each["images"])) for each in batch.samples], batch.columns["text"]
        ([(2, 0), (0, 1), (0, 0)], ['compare', 'describe', 'hello'])
        >>> batch.videos.frames[1].shape, batch.videos.columns["sample"].tolist()
        ((4, 3, 640, 360), [0, 0])
    """

    videos: Batch
    images: ImageBatch
    labels: Tensor
    sample_ids: Tensor
    requested_ids: Tensor
    padding: Tensor
    columns: dict[str, Any] = field(default_factory=dict)

    @property
    def samples(self) -> list[dict[str, list[Any]]]:
        """The frames of each sample: a dict with the list of its `videos` and that of its `images`."""
        found: list[dict[str, list[Any]]] = [{"videos": [], "images": []} for _ in range(len(self))]
        flat: dict[str, tuple[Any, Batch | ImageBatch]] = {
            "videos": (self.videos.frames, self.videos),
            "images": (self.images.images, self.images),
        }
        for kind, (frames, batch) in flat.items():
            for row, each in zip(batch.columns["sample"].tolist(), frames, strict=True):
                found[row][kind].append(each)
        return found

    def video_metadata(self) -> list[dict[str, Any]]:
        """The metadata of each video of all samples, as `Batch.video_metadata()`.

        Returns:
            A dict for each of `videos`.
        """
        return self.videos.video_metadata()

    @property
    def _sources(self) -> list[Tensor]:
        return [*super()._sources, *self.videos._sources, *self.images._sources]


def _video_columns(made: Mapping[str, Any]) -> VideoColumns:
    """What a result of the native loader has about the videos."""
    names = (name if name == "sizes" else f"video.{name}" for name in VideoColumns._fields)
    return VideoColumns(*(made[name] for name in names))


def _counted(indices: list[Any], first: int) -> list[Any]:
    """Frame indices counted from a frame, without those that fill a row, also of several clips."""
    if indices and isinstance(indices[0], list):
        return [_counted(each, first) for each in indices]
    return [index - first for index in indices if index >= 0]


class ClipLoader(BaseLoader[Batch]):
    """Iterates over batches of video clips that worker threads decode.

    The order of clips depends only on the arguments and the loaded state, never on timing, thread count or device. Each
    iteration is one epoch: the next one, or the one that `set_epoch()` chose. `state_dict()` and `load_state_dict()`
    resume within an epoch, see docs/howto/resume.md.

    The loader does not survive `os.fork()`: create it in the process that uses it. Only one thread may take batches
    at a time; a second one gets a `RuntimeError`.

    All ranks deliver `len(loader)` batches, for every value of `on_error`. Where `"skip"` would leave a batch empty,
    the batch holds one other clip, marked in `batch.padding`. A `GpuError` is always raised in place of the batch. If
    the GPU has no memory for a batch, no batch is lost: `next` requests the same one again.

    A clip sampler that counts clips by the lengths of the videos looks at all videos first. If a file fails there on
    one rank only, that rank has fewer clips: compare `num_clips` over the ranks.

    Memory: besides the clip cache the loader needs `prefetch_batches + 1` batches, and 15 to 50 MiB per thread for
    decoding 1080p, up to 270 MiB for 4K HEVC of 10 bits. See docs/howto/memory.md.

    Args:
        dataset: A `datasets.Dataset`, or a list of paths or of `(path, label)`. Bytes, a `datasets.ArchiveMember` or a
            `datasets.VideoSegment` may replace a path. With `datasets.Sources`, the videos and images of a sample,
            batches are `SampleBatch`, and what is said of clips here, such as `batch_size`, `shuffle` and `on_error`,
            applies to samples; images have as many threads again.
        clip_sampler: A clip sampler of `framespool.samplers`, or a function `fn(info, rng)` that returns the frame
            indices of a clip (see `samplers.Custom`). `None` only for the frames of `datasets.lerobot()`.
        batch_size: Clips per batch of this rank; or a `PixelBudget` or `TokenBudget`, which limits what they cost.
        transforms: List of `framespool.transforms`, applied to each clip. The last entry may be a callable, which
            receives the frames of each batch on the thread that takes batches. For the frames of `datasets.lerobot()`
            also such a list by the name of a camera; all cameras draw the same random numbers. For `datasets.Sources`
            also `{"videos": [...], "images": [...]}`. `None`: no transforms.
        device: Where batches are placed: `"cpu"`, or a GPU as `"cuda:0"`, as its number or as a `torch.device`; or a
            `Gpu`, which also selects the decoders. The result is the same. `"cuda"` is the GPU of this process: see
            `Gpu`.
        shuffle: Order of the clips in an epoch. See docs/concepts/batch-sampler.md.
            - `"grouped"` or a `GroupedShuffle`: a new permutation of all videos each epoch. The clips of a video stay
              on one rank, spread over as many batches as the clip cache permits, so each video is decoded once at any
              dataset size.
            - `True`: the same, or `"full"` if videos have one clip each or with `stick_to_shard`.
            - `"full"`: a new permutation of all clips each epoch.
            - `"buffer"` or a `BufferShuffle`: each clip moves by less than 1.5 times its `initial_fill` positions, so
              that neighbors in the dataset stay close.
            - `False`: the order of the dataset.
            - a sampler of PyTorch, or another iterable that yields the ids of this rank's clips each time it is
              iterated: in its order. `set_epoch()` is called if it has one. A state can be loaded within an epoch if
              the same epoch yields the same ids.
        shard_id: Rank of this process, from 0. Required if there are several.
        num_shards: Number of ranks; or `options.Shards`, which also has the number of machines and of worker processes.
            All ranks get the same number of batches of the same sizes.
        seed: Seed of the shuffle and of all random clips and transforms. A number, also the default 0, is independent
            of `torch.manual_seed()`. `None`: drawn from PyTorch's default generator if PyTorch is imported, else from
            Python's `random`; `loader.seed` is the result. A state has the seed, and `load_state_dict()` takes it over.
            With several ranks rank 0 draws, so all ranks must be in `torch.distributed` and create the loader.
        last_batch: What happens to an incomplete last batch.
            - `"partial"`: it is shorter.
            - `"drop"`: it is not delivered.
            - `"fill"`: it is filled with the first clips of the epoch, which `batch.padding` marks.
        on_error: What happens if the file of a clip fails; `stats()` counts errors, `failures()` lists them.
            - `"raise"`: the error is raised in place of the batch.
            - `"skip"`: the clip is omitted.
            - `"replace"`: another clip replaces it, chosen by (seed, epoch, clip).
            - an `options.OnError`: one of these, and how long an unavailable server is waited for.
        num_threads: Worker threads, each with a single-threaded decoder. `None`: one per core of this rank's share: the
            CPU affinity and the cgroup's quota, divided by `LOCAL_WORLD_SIZE`, which torchrun sets. Next to NVDEC
            (`decoder="auto"` of `Gpu`) two fewer, which feed NVDEC and train.
        repeats: How many times each clip of a batch is delivered, one after another: the same frames with other random
            transforms (repeated augmentation). A batch then has `batch_size * repeats` clips.
        group_clips: Whether the clips of a video stay together, for several views of a video with one label. Then
            `batch_size` is a number of videos, `shuffle` an order of videos, and with C clips per video `frames` are
            (N, C, T, …), `indices` (N, C, T), and `clip_ids` (N, C); what is about videos, such as `labels`, is (N,).
            The clip sampler must take the same number of clips from each video. With `on_error="replace"` a row of
            which a clip cannot be made has the clips of one other video.
        views: Several sorts of clips of each video, by name, each a `View` with its clip sampler and transforms; omit
            `clip_sampler` and `transforms` then. All are made in one pass over the video. `batch["name"]` has those of
            a view; as with `group_clips`, `batch_size` is a number of videos and `frames` are (N, C, T, …).
        buckets: Sizes and lengths of clips, of which each video gets one, so that each batch has one: see `Buckets`.
            With `last_batch="drop"` or `"fill"` all batches of a bucket have `batch_size` clips.
        prefetch_batches: Batches made ahead.
        pin_memory: Whether the host memory of batches is page-locked, so that `batch.to("cuda", non_blocking=True)`
            does not wait for the copy; see docs/howto/pytorch.md.
            - `"auto"`: from the first iteration that starts after PyTorch has initialized CUDA in this process. If the
              driver cannot page-lock the memory, `stats()["upload_fallbacks"]` counts it.
            - `True`: always; a failure is an error.
            - `False`: never.
        cache: Memory for clips that are decoded before their turn because they share frames with another clip, in bytes
            or as `"512MiB"`; or a `Cache`, which has further options and can also keep clips of later epochs on disk.
        layout: `"NTCHW"`, the order of torchvision and torchcodec, `"NCTHW"` for 3D convolutions, or `"NTHWC"`, the
            order of NumPy images.
        dtype: Type of the frames; all but `"uint8"` keep the depth of video of more than 8 bits.
            - `"uint8"`: 0 to 255.
            - `"uint16"`: 0 to 65535 for every depth of the video.
            - `"float16"`, `"bfloat16"`, `"float32"`: 0 to 1 unless normalized.
        collate: How the frames of a batch are put together; see docs/howto/batches.md.
            - `"auto"`: as `"stack"` if the transforms and the clip sampler give all clips one size, else as `"list"`.
              For frames of `datasets.lerobot()` the size that `info.json` states counts, too.
            - `"stack"`: always one Tensor. Clips that differ in size are an error, in place of the batch.
            - `"pad"`: always one Tensor. Smaller clips get zeros at the bottom, at the right and at the end, up to the
              largest height, width and length of the batch; see `Batch.unpadded_sizes`.
            - `"list"`: always a list with a Tensor for each clip.
        index: The index cache, shared by all processes of a machine: a folder, `False` for none, or `None` or `"auto"`
            for the default (`FRAMESPOOL_INDEX`, else a folder in the user's cache); or an `options.Index`, which also
            has how the indexing of videos is reported. See docs/howto/indexing.md.
        audio: The audio of each clip, in `batch.audio`: see `Audio`. `None`: none.
        frame_columns: Further columns with a value for each frame: by name a list with one entry per sample.
            `batch.columns` has the values of the frames of each clip, with the shape of `indices`. An entry is
            - a list or array of numbers, one for each frame of the video, or of the segment that is the sample; or
            - a list of segments (start_seconds, end_seconds, number). A frame has the number of the first segment with
              start <= presentation time < end, -1 without one.

    Raises:
        ArgumentError: If an argument is invalid.
        GpuError: If the GPU cannot be used.
        NoVideoError: While iterating, if the `stream` of the dataset is no video stream of a file.

    Example:
        >>> import framespool as fsp
        >>> dataset = fsp.datasets.folder("videos/")
        >>> clip_sampler = fsp.samplers.RandomClips(sequence_length=8, stride=2)
        >>> resize = fsp.transforms.Resize((112, 112))
        >>> loader = fsp.ClipLoader(dataset, clip_sampler, batch_size=2, transforms=[resize], shuffle="full", seed=0)
        >>> len(loader)
        2
        >>> batch = next(iter(loader))
        >>> batch.frames.shape, batch.frames.dtype
        ((2, 8, 3, 112, 112), 'uint8')
    """

    #: Whether HDR video gives no warning.
    _is_quiet = False

    @keyword_hints(_KEYWORD_HINTS)
    def __init__(
        self,
        dataset: Dataset | Iterable[Any],
        clip_sampler: ClipSampler | Callable[[Any, Any], Iterable[int]] | None = None,
        *,
        batch_size: int | PixelBudget | TokenBudget,
        transforms: Sequence[Transform | Callable[[Any], Any]] | Mapping[str, Sequence[Transform]] | None = None,
        device: Any = "cpu",
        shuffle: Shuffle = False,
        shard_id: int | None = None,
        num_shards: int | Shards = 1,
        seed: int | None = 0,
        last_batch: Literal["partial", "drop", "fill"] = "partial",
        on_error: Literal["raise", "skip", "replace"] | OnError = "raise",
        num_threads: int | None = None,
        repeats: int = 1,
        group_clips: bool = False,
        views: Mapping[str, View] | None = None,
        buckets: Buckets | None = None,
        prefetch_batches: int = 2,
        pin_memory: Literal["auto"] | bool = "auto",
        cache: Cache | int | str = "2GiB",
        layout: BatchLayout = "NTCHW",
        dtype: Dtype = "uint8",
        collate: Literal["auto", "stack", "pad", "list"] = "auto",
        index: str | os.PathLike[str] | Literal[False] | Index | None = None,
        audio: Audio | None = None,
        frame_columns: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        choice("layout", layout, get_args(BatchLayout))
        deinterlace, transforms = without_deinterlace(transforms)
        if not isinstance(audio, Audio | None):
            raise ArgumentError(f"audio must be Audio(...), got {audio!r}")
        options = LoaderOptions.of(locals(), audio=None)
        robots = dataset._robots if isinstance(dataset, Dataset) else None
        self._cameras: Cameras | None = None
        if robots is not None:
            if clip_sampler is not None:
                raise ArgumentError(
                    "the frames of datasets.lerobot() are chosen by delta_timestamps; omit clip_sampler"
                )
            if frame_columns is not None:
                raise ArgumentError("the frames of datasets.lerobot() have columns of their own; omit frame_columns")
            others = ("group_clips=True", group_clips), ("views=", views), ("buckets=", buckets), ("audio=", audio)
            for name, given in others:
                if given:
                    raise ArgumentError(f"{name} needs a dataset of videos, not the frames of datasets.lerobot()")
            if len(robots.cameras) > 1 and isinstance(options.batch_size, (PixelBudget, TokenBudget)):
                raise ArgumentError(
                    f"batch_size={options.batch_size!r} would count the frames of one camera only, and these are of "
                    f"{len(robots.cameras)}; give a number, or one camera="
                )
            self._cameras = Cameras(robots, options)
            clip_sampler, options = self._cameras.first()
        self._views: Views | None = None
        if views is not None:
            if clip_sampler is not None:
                raise ArgumentError("each view has a clip sampler of its own; give it to the view, omit clip_sampler=")
            dataset = as_dataset(dataset)
            taken = {each.name for each in fields(Batch)} | {*dataset.columns, *(frame_columns or ())}
            self._views = Views(views, options, taken)
            clip_sampler, options = self._views.first(options)
        dataset = as_dataset(dataset)
        if options.gpu is not None and options.gpu.decoder == "nvjpeg":
            raise ArgumentError('decoder="nvjpeg" is for images; use "auto", "nvdec" or "cpu" for videos')
        if dataset._has_sources:
            refused: dict[str, Any] = {"group_clips=True": group_clips, "views=": views, "audio=": audio}
            refused["frame_columns="] = frame_columns
            for name in (name for name, given in refused.items() if given):
                raise ArgumentError(f"{name} needs samples of one source, but these have several")
            self._start_samples(dataset, clip_sampler, options)
            return
        if clip_sampler is None:
            raise ArgumentError("clip_sampler is missing, such as samplers.RandomClips(sequence_length=16)")
        self.clip_sampler, options = with_buckets(checked_sampler(clip_sampler), options)
        if audio is not None:
            audio_settings = audio._for_engine(None if views else self.clip_sampler)
            if self._views is not None:
                audio_settings["view_fps"] = [
                    (sampler.clips_in(_MANY_FRAMES), getattr(sampler, "fps", None)) for sampler in self._views.samplers
                ]
            options = replace(options, audio=audio_settings)
        group_clips = boolean("group_clips", group_clips) or self._views is not None
        more_views = [] if self._views is None else self._views.others()
        spec, quiet = self.clip_sampler._spec(), self._is_quiet
        super().__init__(dataset, spec, options, group_clips=group_clips, quiet=quiet, more_views=more_views)
        self._frame_columns = None if frame_columns is None else FrameColumns(frame_columns, self.dataset)
        if group_clips and self._functions:
            raise ArgumentError("group_clips=True excludes a callable among the transforms; apply it to the batch")
        if self._cameras is not None:
            for view, sampling, steps in self._cameras.others():
                self._add_companion(view, sampling, steps, self._settings)
        self._warn_of_dropped()

    def _start_samples(self, dataset: Dataset, clip_sampler: Any, options: LoaderOptions) -> None:
        """Does what `__init__` does, for samples of several sources."""
        self.clip_sampler = Indices([0]) if clip_sampler is None else checked_sampler(clip_sampler)
        samples = Samples(dataset, None if clip_sampler is None else self.clip_sampler, options)
        self._samples = samples
        self._frame_columns = None
        first, *others = samples.kinds
        spec, quiet, images = samples.sampler_spec(first), self._is_quiet, first == "images"
        super().__init__(dataset, spec, samples.options(first), images=images, exact=images, quiet=quiet)
        for kind in others:  # the images
            own = samples.options(kind)
            settings = {
                **self._settings,
                "frames": own.frame_settings(exact=True, ignores_hdr=quiet),
                "options": own.engine_settings(None, images=True),
                "index": cache_location(own.index.folder),
            }
            self._add_companion(samples.datasets[kind], samples.sampler_spec(kind), samples.steps(kind), settings)

    def _clips_per_video(self) -> int | None:
        if self._samples is not None:
            return 1  # the units are samples
        if self._views is not None:
            return sum(sampler.clips_in(_MANY_FRAMES) for sampler in self._views.samplers)
        most = self.clip_sampler.clips_in(_MANY_FRAMES)
        # With padding="drop" a video has all clips or none.
        return most if self._drops_short_videos() or self.clip_sampler.clips_in(1) == most else None

    def _drops_short_videos(self) -> bool:
        drops = getattr(self.clip_sampler, "padding", None) == "drop"
        return drops and not isinstance(self.clip_sampler, Windows)

    def _warn_of_dropped(self) -> None:
        """Warns on the first rank if `padding="drop"` omits videos."""
        each = self._clips_per_video() if self._drops_short_videos() else None
        if not each or not is_first_process(self._settings["order"]):
            return
        dropped = len(self.dataset) - len(self._native.failures()) - self.num_clips // each
        if dropped > 0:
            warnings.warn(
                f'padding="drop" omits {dropped} of {len(self.dataset)} videos, which are too short for a clip; '
                "dropped() lists them",
                stacklevel=user_stacklevel(),
            )

    def _extra_config(self) -> dict[str, str]:
        if self._samples is not None:
            return {"clip_sampler": self._samples.config()}
        if self._views is not None:
            return {"clip_sampler": self._views.config()}
        return {} if self._cameras is None else {"clip_sampler": self._cameras.config()}

    def _estimate_cost(self) -> dict[str, Any]:
        """What shuffles and disk caches cost: `DatasetSummary.expected`.

        It plans the decoding of parts of epochs from the indexes of some videos, and takes some seconds at most.

        Raises:
            ArgumentError: With an order that a sampler makes, or `stick_to_shard`.
            Error: If none of the videos can be read.
        """
        if self._samples is not None:
            raise ArgumentError("the cost of samples of several sources is not known; probe a dataset of their videos")
        if isinstance(self._plan, SamplerBatches):
            raise ArgumentError("the cost of an order that a sampler makes is not known; use an order of framespool")
        (single, full, grouped, mixing), frames, disk_caches = self._native.estimate_cost()
        names = ("epochs", "frames_per_clip", "first_epoch_frames_per_clip", "disk_bytes")
        return {
            "packets_per_clip": {"grouped": grouped, "full": full, "single": single},
            "mixing": mixing,
            "frames_per_clip": frames,
            "disk_caches": [dict(zip(names, values, strict=True)) for values in disk_caches],
        }

    def _end_check(self) -> Callable[[bool], None] | None:
        def check(ended: bool) -> None:
            if ended:
                advise_disk_cache(self._native, isinstance(self.clip_sampler, Custom), self.stats())

        return check if wants_disk_cache_advice(self._settings) else None

    def _clips(self, epoch: int, clips: Sequence[tuple[int, int]]) -> Batch:
        """Makes a batch of these clips of an epoch, each with its occurrence; ends an iteration in progress."""
        natives: list[Any] = [self._native, *self._companions]  # only of `torch.VideoDataset`, which is local
        numbers = [native.start_batches(epoch, 0, [[(*clip, 0, False) for clip in clips]]) for native in natives]
        made = [native.next_batch(number) for native, number in zip(natives, numbers, strict=True)]
        return self._batch(epoch, [one for one in made if one is not None])

    def _batch(self, epoch: int, made: list[dict[str, Any]]) -> Batch:
        if self._samples is not None:
            return self._sample_batch(self._samples, epoch, made[0]["slots"], made)  # type: ignore[return-value]
        values: dict[str, Any] = {**made[0], **self._columns(made[0], made[0]["video_ids"])}
        values["video"] = _video_columns(values)
        if self._cameras is not None:
            values["columns"] |= self._cameras.values(made)
        if self._frame_columns is not None:
            values["columns"] |= self._taken_frame_columns(self._frame_columns, made[0])
        if self._views is not None:
            values |= self._views.values(made[0])
            return Batch(**placed(self._named(values), self._settings["options"]["gpu"]["device"]))
        values["frames"] = made[0].get("awaited", values["frames"])
        values |= self._apply_functions(values, self._settings["frames"]["layout"], epoch)
        return Batch(**placed(self._named(values), self._settings["options"]["gpu"]["device"]))

    def _sample_batch(
        self, samples: Samples, epoch: int, slots: Sequence[Slot], made: Sequence[Mapping[str, Any]]
    ) -> SampleBatch:
        """Builds a batch of samples from the results of the engines; a sample fails as a whole."""
        # The delivered sample, the requested one, and the clips of the delivered one.
        rows: list[tuple[int, Slot, Found]] = []
        found = samples.found(slots, made)
        for slot, clips in zip(slots, found, strict=True):
            if clips is not None:
                rows.append((slot[0], slot, clips))
            elif samples.replaces:
                rows.append(self._other_sample(samples, epoch, slot))
        if not rows:  # no batch is empty, so that all ranks deliver equally many
            rows.append(self._other_sample(samples, epoch, (*slots[0][:3], True)))
        samples.count_failed(found.count(None))
        ids, clips_of = [sample for sample, _, _ in rows], [clips for *_, clips in rows]
        padding = [slot[3] for _, slot, _ in rows]
        gpu = self._settings["options"]["gpu"]["device"]
        own = {
            "sample_ids": int64s(ids),
            "requested_ids": int64s([slot[0] for _, slot, _ in rows]),
            "padding": bools(padding),
            "labels": samples.labels(ids),
        }
        own |= {"columns": self._columns(own, own["sample_ids"])["columns"]}
        of_kind: dict[str, dict[str, Any]] = {}
        for kind in KINDS:
            values = samples.values(kind, clips_of)
            of_clips = values["sample"].tolist()
            values |= {
                "labels": samples.labels([ids[row] for row in of_clips]),
                "padding": bools([padding[row] for row in of_clips]),
            }
            of_kind[kind] = values
        videos, images = of_kind["videos"], of_kind["images"]
        videos["video"] = _video_columns(videos)
        layout = self._settings["frames"]["layout"]
        images |= {"images": [image.drop_time(layout) for image in images["frames"]], "image_ids": images["clip_ids"]}
        named = {each.name: images.get(each.name) for each in fields(ImageBatch)}
        return SampleBatch(
            # The row of a sample is an id, and stays in host memory.
            Batch(**placed(self._named(videos), gpu) | {"columns": {"sample": videos["sample"]}}),
            ImageBatch(**placed(named, gpu) | {"columns": {"sample": images["sample"]}}),
            **placed(own, gpu),
        )

    def _other_sample(self, samples: Samples, epoch: int, slot: Slot) -> tuple[int, Slot, Found]:
        """Makes the sample that replaces one of which a source failed, by engines of its own."""
        error: Error | None = None
        for other in samples.others(self.seed, epoch, slot):
            again: list[Slot] = [(other, slot[1], 0, slot[3])]

            def begin(native: Any, at: int, again: list[Slot] = again) -> int:
                number: int = native.start_batches(epoch, 0, [samples.clips(samples.kinds[at], again)])
                return number

            def found(made: list[dict[str, Any]], again: list[Slot] = again) -> Found | None:
                return samples.found(again, made)[0]

            try:
                clips = self._alone(epoch, begin, found)
            except FILE_ERRORS as failure:
                if isinstance(failure, UnavailableError):
                    raise
                error = failure
                continue
            if clips is not None:
                return other, slot, clips
        failures = [failure for native in self._single for failure in native.failures()]
        if error is None and failures:
            _, _, kind, message, _ = failures[-1]
            error = BY_KIND[kind](message)
        raise error or InternalError("no sample could be made, and no file failed; report this")

    @staticmethod
    def _named(values: Mapping[str, Any]) -> dict[str, Any]:
        return {each.name: values.get(each.name) for each in fields(Batch)}

    def _taken_frame_columns(self, columns: FrameColumns, made: dict[str, Any]) -> dict[str, Any]:
        if self._views is None:
            return columns.take(made)
        of_views = {name: columns.take(self._views.of_view(made, name)) for name in self._views.names}
        return {column: {name: taken[column] for name, taken in of_views.items()} for column in columns.names}


class QuietClipLoader(ClipLoader):
    """A `ClipLoader` that gives no warning of HDR video, for programs that keep its values."""

    _is_quiet = True
