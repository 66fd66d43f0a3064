"""Runs the codebases that presets are named after, and records the frames that they select as cases of the tests.

    python tests/record_presets.py FOLDER [--random 200] [--keep 6] [--only PRESET ...] [--write]

`FOLDER` has git checkouts under the names of their repositories (SlowFast, VideoMAE, VideoMAEv2, vjepa2, mmaction2,
pytorchvideo, InternVideo, LLaVA-NeXT, tsn-pytorch, cosmos-curate) and in `site`, unpacked from wheels,
`vllm/multimodal`, `sglang/srt/environ.py`, `sglang/srt/multimodal/processors/qwen_vl.py` and the `.dist-info` of both.
The other originals are installed packages. The presets of an original that is not there are skipped. The sampling code
runs unchanged. Decoders are replaced by one that reports a number of frames, a rate and timestamps, and whose frames
show their number. Modules that an original imports and that are not there are replaced by empty ones.

Every case of `python/data/presets.jsonl` is run again with its random numbers. `--random` cases per preset are made of
the values of their options and new videos, with numbers that the original draws from seeded generators; with `--write`,
the cases on which the original and the preset agree get the original's name and version as their `origin`, and `--keep`
new ones of each original are added. Masks are the preset's: originals have none.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import copy
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import inspect
import io
import json
import logging
import random
import subprocess
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import framespool as fsp
import numpy as np
import torch

DATA = Path(__file__).parent / "python" / "data" / "presets.jsonl"
ABOUT = (
    "A case per line: a preset and its options, a video (number of frames and rate, or presentation times in seconds), "
    "the numbers drawn, and the frames of each clip; null where the original fails, masks where frames repeat past the "
    "end. The frames of cases with an origin are those that the code of that release or commit selected, run by "
    "tests/record_presets.py; masks are framespool's. Cases without an origin come from NumPy implementations of the "
    "published formulas. docs/decisions/017-clip-samplers.md lists the originals."
)
Clips = list[Any]  #: the frames of each clip, or `None` for one that fails
Options = dict[str, Any]


# --- Random numbers


class Draws(random.Random):
    """Random numbers for an original: the given ones, or new ones, as ints from 0 and floats in [0, 1)."""

    current: Draws | None = None

    def __init__(self, given: list[Any] | None, seed: int) -> None:
        super().__init__(seed)
        self.given = None if given is None else list(given)
        self.left = None if given is None else list(given)
        self.numpy = np.random.RandomState(seed)
        self.drawn: list[Any] = []

    def take(self, new: Callable[[], Any]) -> Any:
        value = new() if self.left is None else self.left.pop(0)
        self.drawn.append(value)
        return value

    def below(self, n: int) -> int:
        return int(self.take(lambda: int(self.numpy.randint(n))))

    def unit(self) -> float:
        return self.take(lambda: float(self.numpy.random_sample()))

    # The functions of `random` call these two.
    random = unit
    _randbelow = below

    def permuted(self, n: int) -> list[int]:
        """NumPy's permutation, with its swaps. Discards what was drawn before it, for an attempt that failed."""
        self.drawn, self.left = [], copy.copy(self.given)
        order = list(range(n))
        for i in range(n - 1, 0, -1):
            other = self.below(i + 1)
            order[i], order[other] = order[other], order[i]
        return order


def install_draws() -> None:
    """Lets Python, NumPy and PyTorch draw from `Draws.current`."""

    def active() -> Draws:
        assert Draws.current is not None, "an original draws outside of a case"
        return Draws.current

    for name in ("uniform", "randint", "choice"):
        setattr(random, name, lambda *a, name=name: getattr(active(), name)(*a))

    def array(new: Callable[[], Any], size: Any) -> Any:
        if size is None:
            return new()
        return np.array([new() for _ in range(int(np.prod(size)))]).reshape(size)

    def numpy_randint(low: Any, high: Any = None, size: Any = None) -> Any:
        low, high = (0, low) if high is None else (low, high)
        np.random.RandomState(0).randint(low, high)  # fails as NumPy does
        return array(lambda: int(low) + active().below(int(high) - int(low)), size)

    def numpy_uniform(low: float, high: float, size: Any = None) -> Any:
        return array(lambda: low + (high - low) * active().unit(), size)

    np.random.randint = numpy_randint
    np.random.uniform = numpy_uniform
    np.random.permutation = lambda n: np.array(active().permuted(n))

    def torch_randint(low: int, high: int, size: tuple[int, ...]) -> torch.Tensor:
        return torch.tensor([low + active().below(high - low) for _ in range(size[0])])

    def torch_randperm(n: int) -> torch.Tensor:
        order = list(range(n))
        for i in range(n - 1):
            if active().left == []:
                break  # the case gives the numbers that matter
            other = i + active().below(n - i)
            order[i], order[other] = order[other], order[i]
        return torch.tensor(order)

    torch.randint = torch_randint
    torch.rand = lambda n, dtype: torch.tensor([active().unit() for _ in range(n)], dtype=dtype)
    torch.randperm = torch_randperm


# --- Modules that are not there


class _Missing(type):
    """Classes of missing modules, which may be bases, decorators and anything else at import."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing()


class Missing(metaclass=_Missing):
    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing()

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return arguments[0] if len(arguments) == 1 and isinstance(arguments[0], type) else self

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def __float__(self) -> float:
        return 0.0

    __int__ = __float__


class MissingModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        caller = sys._getframe(1)
        while caller.f_back and "importlib" in caller.f_code.co_filename:
            caller = caller.f_back
        # Packages that originals import decide for themselves what they do without a module.
        is_originals = caller.f_code.co_filename.startswith(str(FOLDER))
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if is_originals else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = types.ModuleType(spec.name)

        def attribute(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return _Missing(name, (Missing,), {})

        module.__getattr__ = attribute  # type: ignore[method-assign]
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def load(package: str, folder: Path, name: str) -> Any:
    """Imports module `name` of `package`, whose folder is `folder`, without the packages' own imports."""
    levels = package.split(".")
    for i in range(1, len(levels) + 1):
        module = types.ModuleType(".".join(levels[:i]))
        module.__path__ = [str(folder.joinpath(*[".."] * (len(levels) - i)).resolve())]
        sys.modules.setdefault(module.__name__, module)
    if not (folder / f"{name.replace('.', '/')}.py").exists():
        raise ImportError(f"{folder} has no {name}")
    finder = MissingModules()
    sys.meta_path.append(finder)
    before = set(sys.modules)
    try:
        return importlib.import_module(f"{package}.{name}")
    finally:
        sys.meta_path.remove(finder)
        for new in set(sys.modules) - before:
            if isinstance(getattr(sys.modules[new], "__loader__", None), MissingModules):
                del sys.modules[new]


# --- Videos


class Video:
    """A video, and the decoders of it that originals open."""

    def __init__(self, described: list[Any]) -> None:
        self.described = described
        if isinstance(described[0], list):
            self.times = described[0]
            last = (self.times[-1] - self.times[0]) / (len(self.times) - 1) if len(self.times) > 1 else 0.0
            self.end = self.times[-1] + last
            self.frames = len(self.times)
            self.fps = self.frames / (self.end - self.times[0]) if self.end > self.times[0] else 0.0
        else:
            self.frames, self.fps = described
            self.times = [i / self.fps for i in range(self.frames)]
            self.end = self.frames / self.fps
        self.duration = self.end - self.times[0]

    def images(self, indices: Any) -> np.ndarray:
        """Images of one value, their frame's number."""
        at = np.asarray(indices)
        at = np.where(at < 0, at + self.frames, at)
        if at.size and not (at.min() >= 0 and at.max() < self.frames):
            raise IndexError(f"frames {indices} of {self.frames}")
        return at.astype(np.int64).reshape(-1, 1, 1, 1)

    # decord's VideoReader
    def __len__(self) -> int:
        return self.frames

    def get_avg_fps(self) -> float:
        return self.fps

    def seek(self, at: int) -> None:
        pass

    def get_batch(self, indices: Any) -> Any:
        images = torch.from_numpy(self.images(indices))
        images.asnumpy = images.numpy
        return images

    # SGLang's VideoDecoderWrapper
    avg_fps = property(get_avg_fps)

    def get_frames_as_tensor(self, indices: list[int]) -> None:
        raise Selected(self.images(indices).ravel().tolist())

    # torchcodec's VideoDecoder
    @property
    def metadata(self) -> SimpleNamespace:
        average = self.frames / self.duration if self.duration > 0 else None
        return SimpleNamespace(
            begin_stream_seconds=self.times[0], end_stream_seconds=self.end, average_fps=average, num_frames=self.frames
        )

    def get_frames_at(self, indices: list[int]) -> Any:
        from torchcodec import FrameBatch

        images = torch.from_numpy(self.images([int(at) for at in indices]))
        times = torch.tensor([self.times[at] for at in images.ravel()], dtype=torch.float64)
        return FrameBatch(data=images, pts_seconds=times, duration_seconds=torch.zeros(len(times), dtype=torch.float64))

    def get_frames_played_at(self, seconds: list[float]) -> Any:
        if any(not self.times[0] <= at < self.end for at in seconds):
            raise IndexError(seconds)
        return self.get_frames_at([int(np.searchsorted(self.times, float(at), side="right")) - 1 for at in seconds])


class Selected(Exception):
    """Leaves an original as soon as it has selected its frames."""

    def __init__(self, indices: list[int]) -> None:
        super().__init__()
        self.indices = indices


class NoOriginal(Exception):
    """The original has no such option."""


def numbers(images: Any) -> list[int]:
    return [int(value) for value in np.asarray(images).reshape(len(images), -1)[:, 0]] if len(images) else []


def parts(indices: list[int], count: int) -> Clips:
    length = len(indices) // count
    return [indices[i * length : (i + 1) * length] for i in range(count)]


class Config(SimpleNamespace):
    """Settings that are 0 unless given."""

    def __getattr__(self, name: str) -> Any:
        return 0


# --- Originals


class Original(NamedTuple):
    """Code that selects frames: its name, where its version is, and how to run it."""

    name: str
    source: str
    select: Callable[[Options, Video], Clips]
    covers: Callable[[Options], bool]


ORIGINALS: dict[str, list[Original]] = {}
FOLDER = Path()


def original(preset: str, name: str, source: str = "", covers: Callable[[Options], bool] = lambda _: True) -> Any:
    """Registers a function that selects frames with an original's code."""

    def register(select: Callable[[Options, Video], Clips]) -> Any:
        ORIGINALS.setdefault(preset, []).append(Original(name, source, select, covers))
        return select

    return register


def version(entry: Original) -> str:
    """The checkout's commit or the package's version."""
    if entry.source.startswith("FFmpeg"):
        return f"{entry.name} {importlib.import_module('av').ffmpeg_version_info}"
    if not entry.source:
        folder = FOLDER / entry.name.split("/")[1]
        command = ["git", "-C", str(folder), "rev-parse", "--short=10", "HEAD"]
        return f"{entry.name} {subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()}"
    found = list(importlib.metadata.distributions(name=entry.source, path=[str(FOLDER / "site"), *sys.path]))
    if not found:
        raise ImportError(entry.source)
    return f"{entry.name} {found[0].version}"


@functools.cache
def module(repository: str, package: str, within: str, name: str) -> Any:
    return load(package, FOLDER / repository / within, name)


def with_defaults(preset: str, options: Options) -> Options:
    """All options, with the preset's defaults."""
    parameters = inspect.signature(getattr(fsp.samplers.presets, preset)).parameters
    return {name: parameter.default for name, parameter in parameters.items()} | options


@original("slowfast", "facebookresearch/SlowFast")
def slowfast(options: Options, video: Video) -> Clips:
    code = module("SlowFast", "slowfast.datasets", "slowfast/datasets", "kinetics")
    mode, views = options.get("mode", "train"), options.get("num_ensemble_views", 10)
    dataset = code.Kinetics.__new__(code.Kinetics)
    settings = {"TRAIN_JITTER_SCALES": [1, 1], "TRAIN_CROP_SIZE": 1, "TEST_CROP_SIZE": 1, "TRAIN_CROP_NUM_TEMPORAL": 1}
    renamed = {
        "num_frames": "NUM_FRAMES",
        "sampling_rate": "SAMPLING_RATE",
        "target_fps": "TARGET_FPS",
        "train_jitter_fps": "TRAIN_JITTER_FPS",
        "use_offset_sampling": "USE_OFFSET_SAMPLING",
    }
    settings |= {"NUM_FRAMES": 8, "SAMPLING_RATE": 8, "TARGET_FPS": 30, "DECODING_BACKEND": "torchvision"}
    settings |= {renamed[option]: value for option, value in options.items() if option in renamed}
    dataset.cfg = Config(
        DATA=Config(**settings),
        TEST=Config(NUM_ENSEMBLE_VIEWS=views, NUM_SPATIAL_CROPS=1),
        MULTIGRID=Config(),
        DATA_LOADER=Config(),
        CONTRASTIVE=Config(),
        AUG=Config(),
    )
    count = views if mode == "test" else 1
    dataset.mode, dataset._num_retries, dataset.dummy_output = mode, 1, None
    dataset.p_convert_gray = dataset.p_convert_dt = 0
    dataset._path_to_videos, dataset._spatial_temporal_idx = [""] * count, list(range(count))
    # A duration of 0 means that the whole video is decoded.
    found = Config(video_timebase=Fraction(1, 90000), has_video=True, video_fps=video.fps, audio_timebase=Fraction(1))
    images = torch.from_numpy(video.images(range(video.frames)))
    decoder = code.decoder
    decoder.io = SimpleNamespace(
        _probe_video_from_memory=lambda _: found, _read_video_from_memory=lambda *a, **k: (images, None)
    )
    code.container = SimpleNamespace(get_video_container=lambda *_: b"\0")

    def decode(*arguments: Any, **keywords: Any) -> None:
        frames = decoder.decode(*arguments, **keywords)[0]
        raise Selected(numbers(frames[0]))

    code.decoder = SimpleNamespace(decode=decode)
    clips = []
    try:
        for clip in range(count):
            dataset._video_meta = {clip: {}}
            try:
                dataset[clip]
            except Selected as selected:
                clips.append(selected.indices)
    finally:
        code.decoder = decoder
    return clips


@original("slowfast_ssv2", "facebookresearch/SlowFast")
def slowfast_ssv2(options: Options, video: Video) -> Clips:
    code = module("SlowFast", "slowfast.datasets", "slowfast/datasets", "ssv2")
    dataset = code.Ssv2.__new__(code.Ssv2)
    dataset.mode = options.get("mode", "train")
    dataset.cfg = Config(DATA=Config(NUM_FRAMES=options.get("num_frames", 8)))
    dataset._path_to_videos = [list(range(video.frames))]
    return [[dataset._path_to_videos[0][at] for at in dataset.get_seq_frames(0)]]


@functools.cache
def file_of_a_kilobyte() -> str:
    """A file that datasets accept as a video, and next to it a list with its name."""
    path = Path(tempfile.mkdtemp()) / "video.mp4"
    path.write_bytes(bytes(2048))
    path.with_name("list.csv").write_text(f"{path} 0\n")
    return str(path)


def dataset_of_clips(make: Callable[..., Any], options: Options, frames: int = 0) -> tuple[Any, list[int]]:
    """Creates a dataset of VideoMAE, and the numbers of its items with different frames."""
    mode, test_segments = options["mode"], options["test_num_segment"]
    listed = Path(file_of_a_kilobyte()).with_name("list.csv" if not frames else f"frames{frames}.csv")
    if frames:
        listed.write_text(f"folder {frames} 0\n")
    keywords = {name: value for name, value in options.items() if name not in ("mode", "version", "test_num_segment")}
    dataset = make(
        str(listed), "", mode, short_side_size=1, test_num_segment=test_segments, test_num_crop=2,
        args=SimpleNamespace(reprob=0, num_sample=1), **keywords,
    )  # fmt: skip
    dataset.data_transform = dataset.data_resize = lambda images: images
    dataset._aug_frame = lambda images, _: images
    items = [2 * view for view in range(test_segments)] if mode == "test" else [0]
    return dataset, items


def read(dataset: Any, items: list[int], count: int, mode: str) -> Clips:
    found = [numbers(dataset[item][0]) for item in items]
    return found if mode == "test" else parts(found[0], count)


@original("videomae", "MCG-NJU/VideoMAE", covers=lambda options: options.get("version", 1) == 1)
@original("videomae", "OpenGVLab/VideoMAEv2", covers=lambda options: options.get("version", 1) == 2)
def videomae(options: Options, video: Video) -> Clips:
    options = with_defaults("videomae", options)
    if options["version"] == 2:
        code = module("VideoMAEv2", "videomae_v2", "dataset", "datasets")
    else:
        code = module("VideoMAE", "videomae_v1", ".", "kinetics")
        if options.pop("sparse_sample"):
            raise NoOriginal
        code.VideoReader = lambda *a, **k: video
    dataset, items = dataset_of_clips(code.VideoClsDataset, options)
    dataset.video_loader = lambda _: video
    return read(dataset, items, options["num_segment"], options["mode"])


@original("videomae_ssv2", "MCG-NJU/VideoMAE", covers=lambda options: options.get("version", 1) == 1)
@original("videomae_ssv2", "OpenGVLab/VideoMAEv2", covers=lambda options: options.get("version", 1) == 2)
def videomae_ssv2(options: Options, video: Video) -> Clips:
    options = with_defaults("videomae_ssv2", options)
    if options["version"] == 2:
        code = module("VideoMAEv2", "videomae_v2", "dataset", "datasets")
        dataset, items = dataset_of_clips(code.RawFrameClsDataset, options, video.frames)
        dataset.image_loader = lambda name: video.images([int(name.split("_")[-1].split(".")[0]) - 1])[0]
    else:
        code = module("VideoMAE", "videomae_v1", ".", "ssv2")
        code.VideoReader = lambda *a, **k: video
        dataset, items = dataset_of_clips(code.SSVideoClsDataset, options)
    return read(dataset, items, 1, options["mode"])


@original("videomae_pretrain", "MCG-NJU/VideoMAE")
def videomae_pretrain(options: Options, video: Video) -> Clips:
    code = module("VideoMAE", "videomae_v1", ".", "kinetics")
    code.Image = SimpleNamespace(fromarray=lambda image: SimpleNamespace(convert=lambda _: image))
    options = with_defaults("videomae_pretrain", options)
    dataset = code.VideoMAE("", "", lazy_init=True, video_loader=True, use_decord=True, **options)
    segments, skips = dataset._sample_train_indices(video.frames)
    images = dataset._video_TSN_decord_batch_loader("", video, video.frames, segments, skips)
    return parts(numbers(images), options["num_segments"])


@original("vjepa2", "facebookresearch/vjepa2")
def vjepa2(options: Options, video: Video) -> Clips:
    code = module("vjepa2", "src.datasets", "src/datasets", "video_dataset")
    code.VideoReader = lambda *a, **k: video
    listed = str(Path(file_of_a_kilobyte()).with_name("list.csv"))
    item = code.VideoDataset([listed], **with_defaults("vjepa2", options)).get_item_video(0)
    return [] if item is None else [numbers(clip) for clip in item[0]]


def mmaction(name: str, options: Options, video: Video, length: int) -> Clips:
    code = module("mmaction2", "mmaction.datasets.transforms", "mmaction/datasets/transforms", "loading")
    found = getattr(code, name)(**options).transform(
        {"total_frames": video.frames, "start_index": 0, "avg_fps": video.fps}
    )
    indices = video.images(found["frame_inds"]).ravel().tolist()
    return parts(indices, len(indices) // length)


@original("mmaction2", "open-mmlab/mmaction2")
def mmaction2(options: Options, video: Video) -> Clips:
    return mmaction("SampleFrames", options, video, options["clip_len"])


@original("mmaction2_dense", "open-mmlab/mmaction2")
def mmaction2_dense(options: Options, video: Video) -> Clips:
    return mmaction("DenseSampleFrames", options, video, options["clip_len"])


@original("mmaction2_uniform", "open-mmlab/mmaction2")
def mmaction2_uniform(options: Options, video: Video) -> Clips:
    if not options.get("test_mode") and options.get("num_clips", 1) > 1:
        raise NoOriginal  # the frames of one clip are not enough for the next transforms
    return mmaction("UniformSample", options, video, options["clip_len"])


@original("mmaction2_untrimmed", "open-mmlab/mmaction2")
def mmaction2_untrimmed(options: Options, video: Video) -> Clips:
    return mmaction("UntrimmedSampleFrames", options, video, options.get("clip_len", 1))


def seconds(value: Any) -> Any:
    return Fraction(value) if isinstance(value, str) else value


@original("pytorchvideo", "facebookresearch/pytorchvideo")
def pytorchvideo(options: Options, video: Video) -> Clips:
    folder = ("pytorchvideo", "pytorchvideo.data", "pytorchvideo/data")
    sampling, encoded = module(*folder, "clip_sampling"), module(*folder, "encoded_video_pyav")
    subsample = module("pytorchvideo", "pytorchvideo.transforms", "pytorchvideo/transforms", "functional")
    kind = options.get("sampling_type", "random")
    arguments = {
        "uniform": ("stride", "backpad_last"),
        "random_multi": ("num_clips",),
        "constant_clips_per_video": ("clips_per_video", "augs_per_clip"),
    }.get(kind, ())
    classes = {
        "uniform": "UniformClipSampler",
        "random": "RandomClipSampler",
        "random_multi": "RandomMultiClipSampler",
        "constant_clips_per_video": "ConstantClipsPerVideoSampler",
    }
    given = {name: seconds(options[name]) for name in arguments if options.get(name) is not None}
    sampler = getattr(sampling, classes[kind])(seconds(options["clip_duration"]), **given)
    # A time base in which all times are integers.
    exact = [Fraction(time) for time in [*video.times, video.end]]
    if not isinstance(video.described[0], list):
        exact = [i / Fraction(video.fps) for i in range(video.frames + 1)]
    base = Fraction(1, int(np.lcm.reduce([time.denominator for time in exact], dtype=object)))
    pts = [int(time / base) for time in exact]

    def shown(i: int) -> Any:
        image = video.images([i])[0]
        return SimpleNamespace(pts=pts[i], to_rgb=lambda: SimpleNamespace(to_ndarray=lambda: image))

    # The class takes the end of the stream for its duration after the start; both are the same from 0.
    stream = SimpleNamespace(time_base=base, start_time=pts[0], duration=pts[-1])
    container = SimpleNamespace(
        streams=SimpleNamespace(video=[stream], audio=[]),
        seek=lambda *a, **k: None,
        decode=lambda **_: (shown(i) for i in range(video.frames)),
    )
    encoded.av = SimpleNamespace(open=lambda _: container)
    file = encoded.EncodedVideoPyAV(None, decode_audio=False)
    file._duration = (pts[-1] - pts[0]) * base
    clips: Clips = []
    last: Any = None
    while True:
        info = sampler(last, file.duration, {})
        several = isinstance(info.clip_start_sec, list)
        spans = zip(*((info[:2]) if several else ([info[0]], [info[1]])), strict=True)
        for begin, end in spans:
            found = file.get_clip(begin, end)["video"]
            if found is None:
                raise ValueError("no frames")
            if options.get("num_samples") is not None:
                found = subsample.uniform_temporal_subsample(found, options["num_samples"])
            clips.append(numbers(found[0]))
        last = info.clip_end_sec
        if info.is_last_clip[-1] if several else info.is_last_clip:
            return clips


@original("internvideo2", "OpenGVLab/InternVideo")
def internvideo2(options: Options, video: Video) -> Clips:
    within = "InternVideo2/multi_modality/dataset"
    code = module("InternVideo", "internvideo2", within, "video_utils")
    code.VideoReader = lambda *a, **k: video
    found = numbers(code.read_frames_decord("video.mp4", **options)[0])
    return [found] if found else []


@original("llava_video", "LLaVA-VL/LLaVA-NeXT")
def llava_video(options: Options, video: Video) -> Clips:
    code = module("LLaVA-NeXT", "llava", "llava", "utils")
    code.VideoReader, code.cpu = lambda *a, **k: video, lambda _: None
    settings = {"video_fps": 1, "frames_upbound": 0, "force_sample": False, **options}
    settings["frames_upbound"] = settings["frames_upbound"] or 0
    return [numbers(code.process_video_with_decord("", SimpleNamespace(**settings))[0])]


@original("tsn", "yjxiong/tsn-pytorch")
def tsn(options: Options, video: Video) -> Clips:
    code = module("tsn-pytorch", "tsn_pytorch", ".", "dataset")
    listed = Path(file_of_a_kilobyte()).with_name("tsn.txt")
    listed.write_text(f"video {video.frames} 0\n")
    dataset = code.TSNDataSet("", str(listed), transform=lambda images: images, **options)

    def image(_: str, at: int) -> list[int]:
        if not 1 <= at <= video.frames:
            raise FileNotFoundError(at)
        return [at - 1]

    dataset._load_image = image
    return [dataset[0][0]]


@original("cosmos_curate", "nvidia-cosmos/cosmos-curate")
def cosmos_curate(options: Options, video: Video) -> Clips:
    code = module(
        "cosmos-curate", "cosmos_curate.pipelines.video.utils", "cosmos_curate/pipelines/video/utils",
        "decoder_utils",
    )  # fmt: skip
    code._make_video_stream = lambda data: io.BytesIO()

    def decoded(_: Any, frame_ids: Any, counts: Any, *a: Any, **k: Any) -> np.ndarray:
        return np.repeat(video.images(frame_ids), counts, axis=0)

    code.decode_video_cpu_frame_ids = decoded
    rest = dict(options)
    rate = rest.pop("sample_rate_fps")
    images = code.decode_video_cpu(b"", rate, timestamps=np.array(video.times, np.float32), **rest)
    if not len(images):
        raise ValueError("no frames")
    return [numbers(images)]


@original("vllm", "vLLM", "vllm")
def vllm(options: Options, video: Video) -> Clips:
    code = module("site", "vllm.multimodal", "vllm/multimodal", "video")
    most, fps = options.get("num_frames", 32), options.get("fps")
    source = code.VideoSourceMetadata(video.frames, video.fps, video.frames / video.fps)
    target = code.VideoTargetMetadata(-1 if most is None else most, -1 if fps is None else fps, 300)
    indices = code.VideoBackend.compute_frames_index_to_sample(source, target)
    return [numbers(video.images(indices))]


def for_qwen(options: Options) -> Options:
    return {name: value for name, value in options.items() if value is not None and name != "version"}


@original("qwen_vl", "SGLang", "sglang", lambda options: options.get("version") == "sglang")
def qwen_vl_sglang(options: Options, video: Video) -> Clips:
    if video.frames == 1 or options.get("video_start") or options.get("video_end"):
        raise NoOriginal  # an image, or options that it ignores
    code = module("site", "sglang.srt.multimodal.processors", "sglang/srt/multimodal/processors", "qwen_vl")
    code.VideoDecoderWrapper = Video
    try:
        asyncio.run(code.preprocess_video(video, video_config=for_qwen(options)))
    except Selected as selected:
        return [selected.indices]
    raise AssertionError("no frames requested")


@original("qwen_vl", "qwen-vl-utils", "qwen-vl-utils", lambda options: options.get("version") != "sglang")
def qwen_vl(options: Options, video: Video) -> Clips:
    if video.frames == 1:
        raise NoOriginal  # an image
    from qwen_vl_utils import vision_process

    with patch.dict(sys.modules, {"decord": SimpleNamespace(VideoReader=lambda _: video)}):  # type: ignore[dict-item]
        return [numbers(vision_process._read_video_decord({"video": "", **for_qwen(options)})[0])]


def transformers_release() -> str:
    return "5.23" if importlib.metadata.version("transformers").startswith("5") else "4.57"


@original("hf", "transformers", "transformers", lambda o: o.get("version", "5.23") == transformers_release())
def hf(options: Options, video: Video) -> Clips:
    from transformers.video_processing_utils import BaseVideoProcessor
    from transformers.video_utils import VideoMetadata, default_sample_indices_fn

    metadata = VideoMetadata(total_num_frames=video.frames, fps=video.fps, duration=video.duration)
    given = {"num_frames": options.get("num_frames"), "fps": options.get("fps")}
    if options.get("function", "sample_frames") == "sample_frames":
        processor = BaseVideoProcessor.__new__(BaseVideoProcessor)
        processor.num_frames = processor.fps = None
        indices = processor.sample_frames(metadata, **given)
    else:
        indices = default_sample_indices_fn(metadata, **given)
    # Readers that decode a file in order skip a frame past the end.
    indices = [int(at) for at in indices if at < video.frames]
    if not indices:
        raise ValueError("no frames")
    return [numbers(video.images(indices))]


def hf_processor(package: str, name: str) -> Callable[[Options, Video], Clips]:
    def select(options: Options, video: Video) -> Clips:
        from transformers.video_utils import VideoMetadata

        code = importlib.import_module(f"transformers.models.{package}.video_processing_{package}")
        processor = getattr(code, name).__new__(getattr(code, name))
        for setting in ("num_frames", "fps", "min_frames", "max_frames", "temporal_patch_size", "initial_shift"):
            setattr(processor, setting, options.get(setting, getattr(getattr(code, name), setting, None)))
        metadata = VideoMetadata(total_num_frames=video.frames, fps=video.fps, duration=video.duration)
        indices = processor.sample_frames(metadata, **options)
        if package == "qwen2_vl":  # vLLM shows the last frame in place of one past the end
            indices = np.minimum(indices, video.frames - 1)
        if not len(indices):
            raise ValueError("no frames")
        return [numbers(video.images(indices))]

    return select


for _preset, _package, _name in [
    ("hf_internvl", "internvl", "InternVLVideoProcessor"),
    ("hf_qwen2_vl", "qwen2_vl", "Qwen2VLVideoProcessor"),
    ("hf_qwen3_vl", "qwen3_vl", "Qwen3VLVideoProcessor"),
    ("hf_smolvlm", "smolvlm", "SmolVLMVideoProcessor"),
]:
    original(_preset, "transformers", "transformers")(hf_processor(_package, _name))


def torchcodec_sampler(kind: str) -> Callable[[Options, Video], Clips]:
    def select(options: Options, video: Video) -> Clips:
        samplers = importlib.import_module("torchcodec.samplers")
        return [numbers(clip) for clip in getattr(samplers, f"clips_at_{kind}")(video, **options).data]

    return select


for _kind in ("random_indices", "regular_indices", "random_timestamps", "regular_timestamps"):
    original(f"torchcodec_{_kind}", "torchcodec", "torchcodec")(torchcodec_sampler(_kind))


@original("torchvision", "torchvision", "torchvision")
def torchvision(options: Options, video: Video) -> Clips:
    from torchvision.datasets.samplers import RandomClipSampler, UniformClipSampler
    from torchvision.datasets.video_utils import VideoClips

    metadata = {"video_paths": [""], "video_pts": [torch.arange(video.frames)], "video_fps": [video.fps or None]}
    clips = VideoClips(
        [""],
        options.get("clip_length_in_frames", 16),
        options.get("frames_between_clips", 1),
        options.get("frame_rate"),
        metadata,
    )
    kind = options.get("sampler")
    if clips.num_clips() == 0:
        return []
    order: Any = range(clips.num_clips())
    if kind == "uniform":
        order = list(UniformClipSampler(clips, options["num_clips_per_video"]))
    elif kind == "random":
        # The batch sampler shuffles the clips; only which ones is compared.
        shuffled, perms = torch.randperm, []

        def first(n: int) -> torch.Tensor:
            if perms:
                return torch.arange(n)
            perms.append(n)
            return shuffled(n)

        torch.randperm = first
        try:
            order = list(RandomClipSampler(clips, options["max_clips_per_video"]))
        finally:
            torch.randperm = shuffled
        assert Draws.current is not None
        kept = min(clips.num_clips() - 1, options["max_clips_per_video"])
        Draws.current.drawn = Draws.current.drawn[:kept]
    return [numbers(video.images(clips.clips[0][at])) for at in order]


@original("lerobot", "LeRobot", "lerobot")
def lerobot(options: Options, video: Video) -> Clips:
    from lerobot.datasets import video_utils
    from lerobot.datasets.lerobot_dataset import LeRobotDataset
    from lerobot.datasets.utils import check_delta_timestamps, get_delta_indices

    fps, tolerance = options.get("fps") or video.fps, options.get("tolerance_s", 1e-4)
    deltas = {"v": options["delta_timestamps"]}
    check_delta_timestamps(deltas, fps, tolerance)
    dataset = LeRobotDataset.__new__(LeRobotDataset)
    episode = {"dataset_from_index": 0, "dataset_to_index": video.frames, "videos/v/from_timestamp": video.times[0]}
    dataset.meta = SimpleNamespace(episodes=[episode], video_keys=["v"], get_video_file_path=lambda *_: "video")
    dataset.delta_indices = get_delta_indices(deltas, fps)
    dataset.root, dataset.tolerance_s, dataset.video_backend = Path(), tolerance, "torchcodec"
    dataset._absolute_to_relative_idx = None

    class Timestamps:
        def __getitem__(self, at: list[int]) -> dict[str, list[torch.Tensor]]:
            return {"timestamp": [torch.tensor(i / fps, dtype=torch.float32) for i in at]}

    dataset.hf_dataset = Timestamps()

    # The file begins with other episodes.
    first = round(video.times[0] * video.fps)

    def frames(indices: list[int]) -> Any:
        if min(indices) < first:
            raise IndexError(indices)
        batch = video.get_frames_at([at - first for at in indices])
        return SimpleNamespace(data=batch.data * 255.0, pts_seconds=batch.pts_seconds)

    decoder = SimpleNamespace(metadata=video.metadata, get_frames_at=frames)
    cache, video_utils._default_decoder_cache = (
        video_utils._default_decoder_cache,
        SimpleNamespace(get_decoder=lambda _: decoder),
    )
    clips = []
    try:
        for at in range(video.frames):
            queries, _ = dataset._get_query_indices(at, 0)
            try:
                found = dataset._query_videos(dataset._get_query_timestamps(0.0, queries), 0)["v"]
            except (IndexError, video_utils.FrameTimestampError):
                clips.append(None)
            else:
                clips.append(numbers(found.reshape(len(deltas["v"]), 1).round()))
    finally:
        video_utils._default_decoder_cache = cache
    return clips


@original("ffmpeg_fps", "FFmpeg", "FFmpeg")
def ffmpeg_fps(options: Options, video: Video) -> Clips:
    import av
    from av.filter import Graph

    if isinstance(video.described[0], list):
        base = Fraction(1, 64 * 3)
        # The program moves the first frame to 0 before it filters.
        pts = [(Fraction(time) - Fraction(video.times[0])) / base for time in [*video.times, video.end]]
    else:
        base = 1 / Fraction(video.fps)
        pts = [Fraction(i) for i in range(video.frames + 1)]
    if any(at.denominator > 1 for at in pts) or base.denominator > 1000:
        raise NoOriginal  # times that no file has
    graph = Graph()
    source = graph.add_buffer(width=16, height=16, format="rgb24", time_base=base)
    rate = Fraction(options["fps"]).limit_denominator(1 << 20)
    settings = f"fps={rate.numerator}/{rate.denominator}:round={options.get('round', 'near')}"
    settings += f":eof_action={options.get('eof_action', 'round')}"
    node, sink = graph.add("fps", settings), graph.add("buffersink")
    source.link_to(node)
    node.link_to(sink)
    graph.configure()
    found: list[int] = []

    def pull() -> None:
        with contextlib.suppress(BlockingIOError, EOFError):
            while True:
                image = sink.pull().to_ndarray()
                found.append(int(image[0, 0, 0]) * 256 + int(image[0, 0, 1]))

    for i in range(video.frames):
        image = np.zeros((16, 16, 3), np.uint8)
        image[..., 0], image[..., 1] = i // 256, i % 256
        frame = av.VideoFrame.from_ndarray(image, format="rgb24")
        frame.pts, frame.time_base, frame.duration = int(pts[i]), base, int(pts[i + 1] - pts[i])
        graph.push(frame)
        pull()
    graph.push(None)
    pull()
    return [found] if found else []


@functools.cache
def vp8(frames: int, fps: float) -> str:
    """A file of this many frames, in a codec that DALI decodes on the CPU."""
    import av

    path = Path(tempfile.mkdtemp()) / f"{frames}.webm"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libvpx", rate=Fraction(fps).limit_denominator(100000))
        stream.width = stream.height = 16
        for i in range(frames):
            image = av.VideoFrame.from_ndarray(np.full((16, 16, 3), i % 256, np.uint8), format="rgb24")
            container.mux(stream.encode(image))
        container.mux(stream.encode(None))
    return str(path)


def dali_reader(options: Options, video: Video) -> Clips:
    from nvidia.dali import Pipeline, fn

    path = vp8(video.frames, video.fps)
    pipeline = Pipeline(batch_size=1, num_threads=1, device_id=None)
    with pipeline:
        outputs = fn.experimental.readers.video(
            device="cpu", filenames=[path], enable_frame_num="sequence", name="reader", **options
        )
        pipeline.set_outputs(*outputs)
    pipeline.build()
    count = pipeline.epoch_size("reader")
    return [pipeline.run()[1].at(0).ravel().tolist() for _ in range(count)]


DALI_OPTIONS = ("sequence_length", "step", "stride", "pad_mode")


@original("dali", "DALI", "nvidia-dali-cuda120", lambda options: options.get("version", "2.4") == "2.4")
def dali(options: Options, video: Video) -> Clips:
    if options.get("pad_sequences"):
        raise NoOriginal  # the GPU's `readers.video` has it
    given = {name: value for name, value in options.items() if value is not None and name in DALI_OPTIONS}
    # A blank frame is -1; framespool has the last frame there, masked.
    return [[video.frames - 1 if at < 0 else at for at in clip] for clip in dali_reader(given, video)]


@original("dali_uniform_sample", "DALI", "nvidia-dali-cuda120")
def dali_uniform_sample(options: Options, video: Video) -> Clips:
    return dali_reader({**options, "uniform_sample": True}, video)


# --- Comparison


def run(entry: Original, options: Options, video: list[Any], draws: Draws) -> Clips | None:
    """The clips that the original selects; `None` if it fails."""
    Draws.current = draws
    try:
        return entry.select({name: copy.deepcopy(value) for name, value in options.items()}, Video(video))
    except (NoOriginal, ImportError, AssertionError) as error:
        if isinstance(error, AssertionError) and not str(error).startswith("an original"):
            return None
        raise
    except Exception as error:
        logging.debug("%s %s %s: %r", entry.name, options, video, error)
        return None
    finally:
        Draws.current = None


def of_framespool(
    name: str, options: Options, video: list[Any], draws: list[Any] | None
) -> tuple[list[Any], list[Any]]:
    """The clips of the preset, `None` for those that fail, and their masks."""
    timing = dict(zip(("num_frames", "fps"), video, strict=False))
    exact = {o: Fraction(v) if isinstance(v, str) and "/" in v else v for o, v in options.items()}
    try:
        rule = getattr(fsp.samplers.presets, name)(**exact)
    except fsp.errors.ArgumentError:
        return [None], ["refused"]
    clips, masks = [], []
    for clip in range(rule.clips_in(**timing)):
        try:
            sample = rule.indices(**timing, clip=clip, draws=draws)
        except fsp.errors.ArgumentError:
            clips.append(None)
            masks.append(None)
        else:
            clips.append(sample.indices)
            masks.append("".join("01"[real] for real in sample.mask))
    return clips, masks


def outcome(theirs: Clips | None, ours: list[Any]) -> str:
    """How the clips of an original and of framespool compare."""
    if theirs is None:
        if all(clip is None for clip in ours):
            return "equal"
        return "fails as a whole" if None in ours else "only the original fails"
    return "equal" if theirs == ours else "differ"


def entry_of(case: dict[str, Any]) -> Original | None:
    for entry in ORIGINALS.get(case["preset"], []):
        if entry.covers(case["options"]):
            return entry
    return None


def new_cases(cases: list[dict[str, Any]], count: int) -> Iterator[dict[str, Any]]:
    """Cases with the values of options and the times of ``cases``, and other numbers of frames and rates."""
    name = cases[0]["preset"]
    draw = np.random.RandomState(len(name) + sum(map(ord, name)))
    pick = lambda values: values[draw.randint(len(values))]  # noqa: E731
    for _ in range(count):
        options = copy.deepcopy(pick(cases)["options"])
        for option, value in copy.deepcopy(pick(cases)["options"]).items():
            if draw.randint(3) == 0 and (value is None) == (options.get(option) is None):
                options[option] = value
        frames = pick([draw.randint(1, 20), draw.randint(1, 100), draw.randint(100, 400), draw.randint(1, 2000)])
        frames = min(frames, 40) if name == "lerobot" else frames  # it has a clip per frame
        video = [frames, pick([10.0, 12.5, 23.976, 24.0, 25.0, 29.97, 30000 / 1001, 30.0, 50.0, 60.0])]
        timed = [case["video"] for case in cases if isinstance(case["video"][0], list)]
        if timed and draw.randint(4) == 0 or len(timed) == len(cases):
            times = pick(timed)[0]
            video = [times[: draw.randint(1, len(times) + 1)]]
        yield {"preset": name, "options": options, "video": video}


def line(case: dict[str, Any]) -> str:
    order = ("preset", "options", "video", "draws", "clips", "masks", "origin")
    return json.dumps({key: case[key] for key in order if case.get(key) is not None}, separators=(",", ":"))


def main() -> None:
    global FOLDER
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--random", type=int, default=200, help="random cases per original")
    parser.add_argument("--keep", type=int, default=6, help="random cases per original that are added")
    parser.add_argument("--only", nargs="+", default=fsp.samplers.presets.__all__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    FOLDER = arguments.folder.resolve()
    logging.basicConfig(level=logging.DEBUG if arguments.verbose else logging.ERROR, format="%(message)s")
    logging.disable(logging.NOTSET if arguments.verbose else logging.CRITICAL)
    warnings.simplefilter("ignore")
    install_draws()

    cases = [json.loads(text) for text in DATA.read_text().splitlines()[1:]]
    print(f"{'preset':32}{'origin':46}{'recorded':>9}{'random':>8}  comparison")
    for name in arguments.only:
        of_preset = [case for case in cases if case["preset"] == name]
        for entry in ORIGINALS.get(name, []):
            compare(name, entry, of_preset, cases, arguments)
    for name in arguments.only:
        if name not in ORIGINALS:
            print(f"{name:32}no original here")
    if arguments.write:
        cases.sort(key=lambda case: case["preset"])
        lines = dict.fromkeys([json.dumps({"about": ABOUT}, separators=(",", ":")), *map(line, cases)])
        DATA.write_text("\n".join(lines) + "\n")


def compare(name: str, entry: Original, recorded: list[Any], cases: list[Any], arguments: Any) -> None:
    """Runs the cases of one original, adds to ``cases``, and prints a row of the table."""
    try:
        origin = version(entry)
    except (ImportError, subprocess.CalledProcessError) as error:
        print(f"{name:32}{entry.name:46}not here: {error}")
        return
    counts = {"recorded": 0, "random": 0}
    outcomes: dict[str, int] = {}
    added = 0
    fresh = [case for case in new_cases(recorded, arguments.random) if entry.covers(case["options"])]
    seen = {line({**case, "clips": None, "origin": None, "draws": None}) for case in recorded}
    for number, case in enumerate([*(case for case in recorded if entry_of(case) is entry), *fresh]):
        is_new = "clips" not in case
        draws = Draws(None if is_new else case.get("draws", []), number)
        try:
            theirs = run(entry, case["options"], case["video"], draws)
        except NoOriginal:
            outcomes["no such option"] = outcomes.get("no such option", 0) + 1
            continue
        except ImportError as error:
            print(f"{name:32}{entry.name:46}not here: {error}")
            return
        ours, masks = of_framespool(name, case["options"], case["video"], draws.drawn if is_new else case.get("draws"))
        result = outcome(theirs, ours if is_new else case["clips"])
        if is_new and masks == ["refused"] and theirs is not None:
            result = "options refused"
        elif result == "equal" and theirs is None:
            result = "both fail"
        counts["random" if is_new else "recorded"] += 1
        outcomes[result] = outcomes.get(result, 0) + 1
        if result == "differ" and not is_new and outcome(theirs, ours) == "equal":
            case["clips"], result = ours, "recorded again"
            case["masks"] = masks if any("0" in (mask or "") for mask in masks) else None
        if result in ("equal", "both fail", "recorded again") and not is_new:
            case["origin"] = origin
        elif result == "equal" and ours and added < arguments.keep:
            case |= {"draws": draws.drawn or None, "clips": ours}
            if any("0" in (mask or "") for mask in masks):
                case["masks"] = masks
            text = line({**case, "clips": None, "origin": None, "draws": None, "masks": None})
            if text not in seen and len(line(case)) < 400:
                cases.append({**case, "origin": origin})
                added += 1
        elif result in ("differ", "only the original fails") and arguments.verbose:
            print(
                f"  {result}: {case['options']} {str(case['video'])[:80]} {draws.drawn[:9]}\n    {theirs}\n    {ours}"
            )
    print(f"{name:32}{origin:46}{counts['recorded']:>9}{counts['random']:>8}  {outcomes}")


if __name__ == "__main__":
    main()
