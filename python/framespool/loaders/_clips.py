"""Batches of clips, in order."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from framespool import _framespool
from framespool._common.ranks import cores_per_rank, is_first_process
from framespool._common.validate_args import (
    BatchLayout,
    Dtype,
    boolean,
    choice,
    integer,
    keyword_hints,
    user_stacklevel,
)
from framespool._framespool import Tensor
from framespool.datasets import Dataset
from framespool.datasets._lerobot import LeRobotFrames
from framespool.errors import ArgumentError
from framespool.loaders._base import BaseLoader
from framespool.loaders._batch import BatchMethods
from framespool.loaders._cameras import Cameras
from framespool.loaders._disk_cache import advise_disk_cache, wants_disk_cache_advice
from framespool.loaders._engine import Engine
from framespool.loaders._frame_columns import FrameColumns
from framespool.options._cache import Cache, as_cache
from framespool.options._loader import KEYWORD_HINTS, LoaderOptions
from framespool.order._batch_budget import BatchBudget
from framespool.samplers import ClipSampler, custom
from framespool.samplers._common import KEYWORD_HINTS as SAMPLER_HINTS
from framespool.samplers._custom import Custom
from framespool.transforms import Transform
from framespool.video._info import VideoColumns

_KEYWORD_HINTS = {
    **{name: f"clip_sampler=, with {hint} of its own" for name, hint in SAMPLER_HINTS.items()},
    **dict.fromkeys(("sequence_length", "stride", "fps"), "clip_sampler=, such as samplers.random(sequence_length=16)"),
    **dict.fromkeys(("sampler", "batch_sampler"), "clip_sampler= for the frames of clips, shuffle= for their order"),
    "audio": "nothing: the audio of videos is not read",
    "memory_budget": 'cache=, a size such as "2GiB"',
    "device_memory_budget": "cache=framespool.Cache(device_memory=...)",
    "disk_cache": "cache=framespool.Cache(disk=..., disk_size=...)",
    "lookahead_clips": "cache=framespool.Cache(lookahead=...)",
    **KEYWORD_HINTS,
}

#: Length of a video that is too short for no clip sampler.
_MANY_FRAMES = 2**31 - 1

#: Clips per batch that the order assumes if batches are limited by pixels or tokens.
_USUAL_BATCH = 8


@dataclass(eq=False, repr=False)
class Batch(BatchMethods):
    """N clips of T frames, with their labels and positions.

    `frames, labels = batch` and `batch["labels"]` work as with a tuple and a dict. `batch.to("cuda")` gives a batch
    of `torch.Tensor`. A tensor leaves by DLPack without a copy: `torch.from_dlpack(batch.frames)`,
    `np.from_dlpack(batch.frames)`, or `.torch()` and `.numpy()` for short. Where clips differ in length, T is the
    length of the longest one; the rows of the others are padded with -1, NaN and false.

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
        content_keys: (N, 16) uint8, digest of everything that determines the frames of the clip: the file and its
            version, frame indices, transforms, the version of the library and, with random transforms, seed, epoch and
            clip. Zeros if a change of the file could not be noticed: bytes in memory, and servers that send neither an
            ETag nor a time. `None` with `MixUp`, `CutMix` and other functions among the transforms that may change
            frames.
        unpadded_sizes: (N, 2) int64 with `collate="pad"`: height and width of the frames of each clip without padding;
            its length is the number of its `indices` that are not -1. Otherwise `None`.
        mixed_with: (N,) int64 with `MixUp` or `CutMix`: row of the clip that was mixed into each clip. Otherwise
            `None`.
        mix_weights: (N,) float32 with `MixUp` or `CutMix`: part of each clip that is its own, from 0 to 1. Otherwise
            `None`.

    Example:
        >>> import framespool as fsp
        >>> loader = fsp.ClipLoader(
        ...     ["a.mp4", "phone.mp4"],
        ...     fsp.samplers.random(sequence_length=8),
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

    def video_metadata(self) -> list[dict[str, Any]]:
        """The metadata of each clip's video, with the names of `transformers.video_utils.VideoMetadata`.

        Processors of video-language models take it as `video_metadata=`, together with `do_sample_frames=False`.

        A sample that is a segment of a file counts as a video of its own, as in qwen-vl-utils.

        Returns:
            A dict for each clip: `total_num_frames`, `fps` (average frames per second of the file), `duration` in
            seconds, `height` and `width` of the frames as displayed, `frames_indices` (the clip's frames, counted from
            the first one of the video or segment, without padding; with `group_clips` a list for each clip) and
            `video_backend`, which is `"framespool"`.

        Example:
            >>> import framespool as fsp
            >>> loader = fsp.ClipLoader(["a.mp4"], fsp.samplers.random(sequence_length=4), batch_size=1)
            >>> sorted(next(iter(loader)).video_metadata()[0])
            ['duration', 'fps', 'frames_indices', 'height', 'total_num_frames', 'video_backend', 'width']
        """
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


def _counted(indices: list[Any], first: int) -> list[Any]:
    """Frame indices counted from a frame, without those that fill a row, also of several clips."""
    if indices and isinstance(indices[0], list):
        return [_counted(each, first) for each in indices]
    return [index - first for index in indices if index >= 0]


class ClipLoader(BaseLoader[Batch]):
    """Iterates over batches of video clips that worker threads decode.

    The order of clips depends only on the arguments, never on timing, thread count or device. Each iteration is one
    epoch: the next one, or the one that `set_epoch()` chose. `state_dict()` and `load_state_dict()` resume
    within an epoch, see docs/howto/resume.md.

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
            `datasets.VideoSegment` may replace a path.
        clip_sampler: A clip sampler of `framespool.samplers`, or a function `fn(info, rng)` that returns the frame
            indices of a clip (see `samplers.custom()`). `None` only for the frames of `datasets.lerobot()`.
        batch_size: Clips per batch of this rank. With `batch_pixels` or `batch_tokens`: their maximum number.
        batch_pixels: Limit of the pixels of a batch: frames x height x width, summed over its clips. Batches then have
            different numbers of clips, and clips of like shape share a batch; see docs/howto/sampling.md.
        batch_tokens: The same in tokens of a video-language model: two frames x a square of the factor of
            `transforms.SmartResize`.
        transforms: List of `framespool.transforms`, applied to each clip. The last entry may be a callable, which
            receives the frames of each batch on the thread that takes batches. `None`: no transforms.
        device: Where batches are placed: `"cpu"`, or a GPU as `"cuda:0"`, as its number or as a `torch.device`.
        decoder: Which decoders a loader with a GPU uses. Videos that NVDEC cannot decode exactly fall back to the CPU,
            with the same result; `stats()` reports the reasons.
            - `"auto"`: its NVDEC engines together with the CPU threads.
            - `"nvdec"`: its NVDEC engines, without further CPU threads.
            - `"cpu"`: the CPU threads.
        strict: `True`: an error (`GpuError`, in place of the next batch) if the CPU decodes pictures because NVDEC
            cannot. `False`: a warning after an epoch in which the CPU decoded more than 10 % of the pictures for such
            reasons. `None`: as the environment variable `FRAMESPOOL_STRICT_GPU` says, which is 1 for `True`.
        nvdec_threads: Decode tasks that NVDEC runs at the same time, 1 to 64. `None`: two per engine, fewer if the
            GPU is short of memory.
        shuffle: Order of the clips in an epoch.
            - `"grouped"`: a new permutation of all videos each epoch. The clips of a video stay on one rank, spread
              over as many batches as the clip cache permits, so each video is decoded once at any dataset size.
            - `True`: the same, or `"full"` if videos have one clip each or with `stick_to_shard`.
            - `"full"`: a new permutation of all clips each epoch.
            - `"buffer"`: each clip moves by less than 1.5 times `initial_fill` positions, so that neighbors in the
              dataset stay close.
            - `False`: the order of the dataset.
        initial_fill: Size of the shuffle buffer in clips.
        shuffle_block_size: For `"grouped"`: positions over which the clips of a video are spread, over all ranks.
            `None`: derived from the memory of `cache`, the size of a clip, the clips per video and `num_shards`.
        num_streams: For `"grouped"`: number of streams. On any number of ranks that divides it, each video is on one
            rank. `None`: `num_shards` times up to 8.
        max_chunk: For `"grouped"`: longer videos are cut into chunks of at most this many clips.
        order: Algorithm of the order: `"framespool"`, `"torch"` (`DistributedSampler` and `DataLoader`) or
            `"dali"` (its readers with `pad_last_batch`). See docs/concepts/batch-sampler.md.
        shard_id: Rank of this process, from 0. Required if there are several.
        num_shards: Number of ranks. All ranks get the same number of batches of the same sizes.
        stick_to_shard: Each rank keeps its own contiguous part of the dataset and shuffles that. `False`: all clips
            are distributed again each epoch.
        num_nodes: Number of machines, if each has a disk cache of its own. It divides `num_shards`, and the ranks of a
            machine are consecutive. The videos are divided among the machines once, at random, and each epoch is
            shuffled within these parts, so that a machine finds the clips of its videos on its disk. A run may continue
            on other machines with the same `num_nodes`. Not with weights, `mix()` and `stick_to_shard`.
        worker_id: Worker of this rank, from 0, for processes that share the batches of a rank; `torch.ClipDataset` sets
            it. Required if there are several.
        num_workers: Workers of this rank. Worker `w` makes only the batches `w`, `w + num_workers`, and so on. The
            number of decoding threads is `num_threads`.
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
        on_outage: What happens while the server of a URL is unavailable. No clip is omitted or replaced because of it.
            - `"wait"`: it is waited for, for `FRAMESPOOL_REMOTE_TIMEOUT` seconds (120), then the error is raised.
            - `"raise"`: the error is raised after about a second.
            - a number: the time in seconds for which it is waited for.
        num_threads: Worker threads, each with a single-threaded decoder. `None`: one per core of this rank's share: the
            CPU affinity and the cgroup's quota, divided by `LOCAL_WORLD_SIZE`, which torchrun sets.
        repeats: How many times each clip of a batch is delivered, one after another: the same frames with other random
            transforms (repeated augmentation). A batch then has `batch_size * repeats` clips.
        group_clips: Whether the clips of a video stay together, for several views of a video with one label. Then
            `batch_size` is a number of videos, `shuffle` an order of videos, and with C clips per video `frames` are
            (N, C, T, …), `indices` (N, C, T), and `clip_ids` (N, C); what is about videos, such as `labels`, is (N,).
            The clip sampler must take the same number of clips from each video. With `on_error="replace"` a row of
            which a clip cannot be made has the clips of one other video.
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
        collate: How the frames of a batch are put together; see docs/howto/sampling.md.
            - `"auto"`: as `"stack"` if the transforms and the clip sampler give all clips one size, else as `"list"`.
              For frames of `datasets.lerobot()` the size that `info.json` states counts, too.
            - `"stack"`: always one Tensor. Clips that differ in size are an error, in place of the batch.
            - `"pad"`: always one Tensor. Smaller clips get zeros at the bottom, at the right and at the end, up to the
              largest height, width and length of the batch; see `Batch.unpadded_sizes`.
            - `"list"`: always a list with a Tensor for each clip.
        index: The index cache, shared by all processes of a machine: a folder, `False` for none, or `None` or `"auto"`
            for the default (`FRAMESPOOL_INDEX`, else a folder in the user's cache). See docs/howto/indexing.md.
        index_progress: How the indexing of videos is reported before training starts.
            - `None`: on stderr if that is a terminal, by the first rank, after a second.
            - `True`: on stderr, by every rank, also if that is no terminal, such as in a notebook.
            - `False`: not at all.
            - a function of (done, total), the numbers of indexed videos and of samples: it is called while the loader
              is created if the clip sampler counts clips by the lengths of the videos, else after each batch of the
              first epoch.
        stream: Index of the video stream among all streams of a file. `None`: the `stream` of the dataset, else the
            best one of each file.
        hdr: `"warn"` or `"ignore"`, as for `framespool.Video`.
        deinterlace: `"weave"`, `"bob"` or `"linear"`, as for `framespool.Video`.
        frame_columns: Further columns with a value for each frame: by name a list with one entry per sample.
            `batch.columns` has the values of the frames of each clip, with the shape of `indices`. An entry is
            - a list or array of numbers, one for each frame of the video, or of the segment that is the sample; or
            - a list of segments (start_seconds, end_seconds, number). A frame has the number of the first segment with
              start <= presentation time < end, -1 without one.

    Raises:
        ArgumentError: If an argument is invalid.
        GpuError: If the GPU cannot be used.
        NoVideoError: While iterating, if `stream` is no video stream of a file.

    Example:
        >>> import framespool as fsp
        >>> dataset = fsp.datasets.folder("videos/")
        >>> clip_sampler = fsp.samplers.random(sequence_length=8, stride=2)
        >>> resize = fsp.transforms.Resize((112, 112))
        >>> loader = fsp.ClipLoader(dataset, clip_sampler, batch_size=2, transforms=[resize], shuffle="full", seed=0)
        >>> len(loader)
        2
        >>> batch = next(iter(loader))
        >>> batch.frames.shape, batch.frames.dtype
        ((2, 8, 3, 112, 112), 'uint8')
    """

    @keyword_hints(_KEYWORD_HINTS)
    def __init__(
        self,
        dataset: Dataset | Iterable[Any],
        clip_sampler: ClipSampler | Callable[[Any, Any], Iterable[int]] | None = None,
        *,
        batch_size: int | None = None,
        batch_pixels: int | None = None,
        batch_tokens: int | None = None,
        transforms: Sequence[Transform | Callable[[Any], Any]] | None = None,
        device: Any = "cpu",
        decoder: Literal["auto", "cpu", "nvdec"] = "auto",
        strict: bool | None = None,
        nvdec_threads: int | None = None,
        shuffle: Literal["grouped", "full", "buffer"] | bool = False,
        initial_fill: int = 1024,
        shuffle_block_size: int | None = None,
        num_streams: int | None = None,
        max_chunk: int = 64,
        order: Literal["framespool", "dali", "torch"] = "framespool",
        shard_id: int | None = None,
        num_shards: int = 1,
        stick_to_shard: bool = False,
        num_nodes: int = 1,
        worker_id: int | None = None,
        num_workers: int = 1,
        seed: int | None = 0,
        last_batch: Literal["partial", "drop", "fill"] = "partial",
        on_error: Literal["raise", "skip", "replace"] = "raise",
        on_outage: Literal["wait", "raise"] | float = "wait",
        num_threads: int | None = None,
        repeats: int = 1,
        group_clips: bool = False,
        prefetch_batches: int = 2,
        pin_memory: Literal["auto"] | bool = "auto",
        cache: Cache | int | str = "2GiB",
        layout: BatchLayout = "NTCHW",
        dtype: Dtype = "uint8",
        collate: Literal["auto", "stack", "pad", "list"] = "auto",
        index: str | os.PathLike[str] | Literal[False] | None = None,
        index_progress: bool | Callable[[int, int], object] | None = None,
        stream: int | None = None,
        hdr: Literal["warn", "ignore"] = "warn",
        deinterlace: Literal["weave", "bob", "linear"] = "weave",
        frame_columns: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        choice("decoder", decoder, ("auto", "cpu", "nvdec"))
        cache = as_cache(cache)
        robot = dataset if isinstance(dataset, LeRobotFrames) else None
        self._cameras: Cameras | None = None
        if robot is not None:
            if clip_sampler is not None:
                raise ArgumentError(
                    "the frames of datasets.lerobot() are chosen by delta_timestamps; omit clip_sampler"
                )
            self._cameras = Cameras(robot, transforms, on_error, dtype, collate)
            clip_sampler, transforms = self._cameras.first()
            collate = self._cameras.collate  # type: ignore[assignment]
            num_threads = self._cameras.share(cores_per_rank() if num_threads is None else num_threads)
            cache = cache._shared(self._cameras.share)
        if clip_sampler is None:
            raise ArgumentError("clip_sampler is missing, such as samplers.random(sequence_length=16)")
        if not isinstance(clip_sampler, ClipSampler):
            if not callable(clip_sampler):
                raise ArgumentError(
                    f"clip_sampler must come from framespool.samplers or be a function, got {clip_sampler!r}; "
                    "for example framespool.samplers.random(sequence_length=16, stride=4)"
                )
            clip_sampler = custom(clip_sampler)
        choice("layout", layout, get_args(BatchLayout))
        self.clip_sampler = clip_sampler
        limited = batch_pixels is not None or batch_tokens is not None
        if batch_size is None and not limited:
            raise ArgumentError("batch_size is missing: the number of clips per batch, or give batch_pixels=")
        options = LoaderOptions(
            # With a limit it matters only for how far a grouped shuffle spreads the clips of a video.
            batch_size=_USUAL_BATCH if batch_size is None else batch_size,
            transforms=transforms,
            device=device,
            shuffle=shuffle,
            repeats=repeats,
            initial_fill=initial_fill,
            order=order,
            shard_id=shard_id,
            num_shards=num_shards,
            stick_to_shard=stick_to_shard,
            num_nodes=num_nodes,
            worker_id=worker_id,
            num_workers=num_workers,
            seed=seed,
            last_batch=last_batch,
            on_error=on_error,
            on_outage=on_outage,
            num_threads=num_threads,
            prefetch_batches=prefetch_batches,
            pin_memory=pin_memory,
            collate=collate,
            dtype=dtype,
            hdr=hdr,
            deinterlace=deinterlace,
            shuffle_block_size=shuffle_block_size,
            num_streams=num_streams,
            max_chunk=max_chunk,
        )
        own = {
            "layout": layout,
            "index": index,
            "index_progress": index_progress,
            "stream": stream,
            "group_clips": boolean("group_clips", group_clips),
            "decoder": decoder,
            "strict": None if strict is None else boolean("strict", strict),
            "nvdec_threads": None
            if nvdec_threads is None
            else integer("nvdec_threads", nvdec_threads, least=1, most=64),
        }
        if frame_columns is not None and robot is not None:
            raise ArgumentError("the frames of datasets.lerobot() have columns of their own; omit frame_columns")
        if group_clips and (limited or robot is not None):
            raise ArgumentError("group_clips=True needs batch_size= and a dataset of videos")
        self._budget: BatchBudget | None = None
        if limited:
            most = None if batch_size is None else integer("batch_size", batch_size)
            settings = options.order_settings(replacement=False)
            self._budget = BatchBudget(batch_pixels, batch_tokens, most, transforms, settings)
        super().__init__(dataset, clip_sampler._spec(), options, cache, own)
        self._frame_columns = None if frame_columns is None else FrameColumns(frame_columns, self.dataset)
        if group_clips:
            self._order |= {"group_clips": True}
            if self._functions:
                raise ArgumentError("group_clips=True excludes a callable among the transforms; apply it to the batch")
        if self._budget is not None:
            if not isinstance(self._native, _framespool.Loader):
                raise ArgumentError("workers on Ray cannot limit batches by pixels or tokens; use batch_size=")
            self._budget.shuffle = self._order["shuffle"]  # a grouped shuffle of videos with one clip is a full one
            self._order |= self._budget.config()
        if self._cameras is not None:
            for view, sampling, steps in self._cameras.others():
                self._add_companion(view, sampling, steps, self._settings)
        self._warn_of_dropped()

    def _clips_per_video(self) -> int | None:
        most = self.clip_sampler.clips_in(_MANY_FRAMES)
        # With short="drop" a video has all clips or none.
        return most if self._drops_short_videos() or self.clip_sampler.clips_in(1) == most else None

    def _drops_short_videos(self) -> bool:
        return getattr(self.clip_sampler, "short", None) == "drop"

    def _warn_of_dropped(self) -> None:
        """Warns on the first rank if `short="drop"` omits videos."""
        each = self._clips_per_video() if self._drops_short_videos() else None
        if not each or not is_first_process(self._settings["order"]):
            return
        dropped = len(self.dataset) - len(self._native.failures()) - self.num_clips // each
        if dropped > 0:
            warnings.warn(
                f'short="drop" omits {dropped} of {len(self.dataset)} videos, which are too short for a clip; '
                "dropped() lists them",
                stacklevel=user_stacklevel(),
            )

    def _incomplete_clips(self) -> int:
        return super()._incomplete_clips() if self._budget is None else self._budget.omitted(self._local(), self.epoch)

    def _num_batches(self, epoch: int) -> int:
        return super()._num_batches(epoch) if self._budget is None else len(self._budget.batches(self._local(), epoch))

    def _begin(self, native: Engine, epoch: int, batch: int) -> int:
        if self._budget is None:
            return super()._begin(native, epoch, batch)
        assert isinstance(native, _framespool.Loader)
        return native.start_batches(epoch, batch, self._budget.batches(self._local(), epoch))

    def _local(self) -> _framespool.Loader:
        """The engine of a loader with limited batches, which `__init__` refuses for other engines."""
        assert isinstance(self._native, _framespool.Loader)
        return self._native

    def _set_seed(self, seed: int) -> None:
        super()._set_seed(seed)
        if self._budget is not None:
            self._budget.set_seed(seed)

    def _extra_config(self) -> dict[str, str]:
        return {} if self._cameras is None else {"clip_sampler": self._cameras.config()}

    def _estimate_cost(self) -> dict[str, Any]:
        """What shuffles and disk caches cost: `DatasetSummary.expected`.

        It plans the decoding of parts of epochs from the indexes of some videos, and takes some seconds at most.

        Raises:
            ArgumentError: With `order` other than `"framespool"`, or `stick_to_shard`.
            Error: If none of the videos can be read.
        """
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
        values: dict[str, Any] = {**made[0], **self._columns(made[0], made[0]["video_ids"])}
        names = (name if name == "sizes" else f"video.{name}" for name in VideoColumns._fields)
        values["video"] = VideoColumns(*(values[name] for name in names))
        if self._cameras is not None:
            values["columns"] |= self._cameras.values(made)
        if self._frame_columns is not None:
            values["columns"] |= self._frame_columns.take(made[0])
        values["frames"] = made[0].get("awaited", values["frames"])
        values |= self._apply_functions(values, self._settings["layout"], epoch)
        named: dict[str, Any] = {field.name: values.get(field.name) for field in fields(Batch)}
        return Batch(**named)
