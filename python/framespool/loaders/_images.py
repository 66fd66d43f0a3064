"""Images: batches of them, and single ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, overload

from framespool import _framespool, samplers
from framespool._common.batch_methods import BatchMethods, placed
from framespool._common.validate_args import Dtype, boolean, check_dtype, choice, display_repr, integer, keyword_hints
from framespool._framespool import Tensor, cores
from framespool.datasets import Dataset, MixtureDataset
from framespool.datasets._dataset import as_dataset
from framespool.datasets._failures import failure_record
from framespool.datasets._sample_list import SampleList
from framespool.errors import ArgumentError, InternalError
from framespool.loaders import _checkpoint
from framespool.loaders._base import BaseLoader
from framespool.options import Cache, Index, OnError, Shards
from framespool.options._loader import KEYWORD_HINTS, LoaderOptions
from framespool.options._order import Shuffle
from framespool.transforms import Transform
from framespool.transforms._compose import split, steps
from framespool.transforms._functions import apply_functions
from framespool.video._sources import ArchiveMember, ImageSequence, TableCell, VideoSegment
from framespool.video._video import is_file_object

#: Layouts of the engine: an image is a clip of one frame.
_LAYOUTS = {"NCHW": "NTCHW", "NHWC": "NTHWC"}


@dataclass(eq=False, repr=False)
class ImageBatch(BatchMethods):
    """N images, with their labels and positions.

    `images, labels = batch`, `batch["labels"]` and `batch.to("cuda")` work as with `Batch`.

    Attributes:
        images: Tensor in the loader's layout and dtype. A list of N Tensors without the dimension N if the transforms
            give images of different sizes, see `collate` of the loader. If the last transform is a callable, its
            result.
        labels: As in `Batch`.
        image_ids: (N,) int64, index of the image in the dataset.
        requested_ids: (N,) int64, the image that the batch sampler requested. Differs from `image_ids` only for a
            replacement.
        sizes: (N, 2) int64, height and width of each image file, after EXIF orientation.
        padding: (N,) bool, true for images that only fill a batch or make ranks equal.
        geometry: (N, 2, 3) float64, as in `Batch`.
        masks: Labels of the pixels, (N, H, W) uint8 or a list of N Tensors, if the loader was given masks, else `None`.
        columns: The values of `dataset.columns` by name, as in `Batch`.
        content_keys: (N, 16) uint8, as in `Batch`; masks do not count.
        unpadded_sizes: (N, 2) int64 with `collate="pad"`: height and width of each image without padding. Otherwise
            `None`.
        mixed_with: As in `Batch`.
        mix_weights: As in `Batch`.

    Example:
        >>> import framespool as fsp
        >>> dataset = fsp.datasets.image_folder("photos/")
        >>> resize = fsp.transforms.Resize((64, 64))
        >>> batch = next(iter(fsp.ImageLoader(dataset, batch_size=4, transforms=[resize])))
        >>> batch.images.shape, batch.labels.tolist()
        ((4, 3, 64, 64), [0, 0, 0, 0])
    """

    images: Tensor | list[Tensor]
    labels: Tensor
    image_ids: Tensor
    requested_ids: Tensor
    sizes: Tensor
    padding: Tensor
    geometry: Tensor
    masks: Tensor | list[Tensor] | None = None
    columns: dict[str, Any] = field(default_factory=dict)
    content_keys: Tensor | None = None
    unpadded_sizes: Tensor | None = None
    mixed_with: Any = None
    mix_weights: Any = None


class ImageLoader(BaseLoader[ImageBatch]):
    """Iterates over batches of images, from JPEG, PNG, WebP and AVIF files.

    The order depends only on the arguments. Order, shards, epochs, checkpoints, errors and `stats()` are those of
    `framespool.ClipLoader`; an image is a clip of one frame. EXIF orientation is applied, alpha is dropped, and
    gray, CMYK and palette images become RGB. See docs/howto/images.md.

    With `exact=False` a JPEG is decoded only as far as the result needs. If it is downscaled by four or more, libjpeg
    halves it while decoding, never below twice the size of the result. Resized images then differ a little from
    "decode, then resize"; docs/howto/images.md has the figures. Rows outside a crop are not decoded, so damage there is
    not detected. A truncated file always is.

    With `Gpu(decoder="nvjpeg")` progressive and unusual JPEG files, other formats, `exact=True` and masks fall back to
    the CPU; `stats()` reports the reasons. The JPEG standard does not fix the inverse transform, so samples of nvJPEG
    differ a little from those of the CPU. nvJPEG also detects less damage: a truncated file is an error on both, a file
    with wrong bits may be delivered as it was decoded.

    Args:
        dataset: A `datasets.Dataset` (`framespool.datasets.image_folder` reads class folders), or a list of paths or of
            `(path, label)`. Bytes or a `datasets.ArchiveMember` may replace a path.
        batch_size: Images per batch of this rank.
        transforms: List of `framespool.transforms`. The last entry may be a callable, which receives the images of
            each batch. `None`: no transforms.
        masks: Label maps, one per sample of the dataset and in its order: PNG files with one channel or with a palette,
            whose indices are the labels. Geometric transforms move them exactly as their images, each pixel taking the
            nearest label; color and erasing transforms skip them. Image and mask must have the same size. Needs
            `on_error="raise"`.
        mask_fill: Label where there is no image, 0 to 255.
        exact: Decode the full file to the RGB bytes of libjpeg-turbo, Pillow, OpenCV and torchvision before the
            transforms, of WebP to those of libwebp. AVIF, which libraries convert differently, is converted as video.
        device: Where batches are placed: `"cpu"`, `"cuda:0"`, or a `Gpu`. The CPU decodes, to the same bytes as without
            a GPU, unless its `decoder` is `"nvjpeg"`.
        shuffle: As for `framespool.ClipLoader`; `True` is `"full"`.
        shard_id: Rank of this process, from 0. Required if there are several.
        num_shards: Number of ranks, or `options.Shards`, as for `framespool.ClipLoader`.
        seed: Seed of the shuffle and of all random transforms, or `None`, as for `framespool.ClipLoader`.
        last_batch: `"partial"`, `"drop"` or `"fill"`, as for `framespool.ClipLoader`.
        on_error: `"raise"`, `"skip"`, `"replace"` or an `options.OnError`, as for `framespool.ClipLoader`.
        num_threads: Worker threads. `None`: one per core of this rank's share, as for `ClipLoader`.
        repeats: How many times each image of a batch is delivered, one after another: the same pixels with other random
            transforms (repeated augmentation). A batch then has `batch_size * repeats` images.
        prefetch_batches: Batches made ahead.
        cache: A `Cache` with a `disk` for the images and masks of later epochs. Results that are the same in every
            epoch are made once; with random transforms it only reads files less often. `None`: none are kept.
        pin_memory: `"auto"`, `True` or `False`, as for `framespool.ClipLoader`.
        layout: `"NCHW"`, the order of torchvision, or `"NHWC"`, the order of NumPy images.
        dtype: As for `framespool.ClipLoader`.
        collate: `"auto"`, `"stack"`, `"pad"` or `"list"`, as for `framespool.ClipLoader`. Masks are padded with
            `mask_fill`.

    Raises:
        ArgumentError: If an argument is invalid.
        GpuError: If the GPU cannot be used.

    Example:
        >>> import framespool as fsp
        >>> dataset = fsp.datasets.image_folder("photos/")
        >>> crop = fsp.transforms.RandomResizedCrop(224)
        >>> loader = fsp.ImageLoader(dataset, batch_size=4, transforms=[crop], shuffle="full", seed=0)
        >>> batch = next(iter(loader))
        >>> batch.images.shape, batch.labels.shape
        ((4, 3, 224, 224), (4,))
    """

    @keyword_hints(KEYWORD_HINTS)
    def __init__(
        self,
        dataset: Dataset | Iterable[Any],
        *,
        batch_size: int,
        transforms: Sequence[Transform | Callable[[Any], Any]] | None = None,
        masks: Sequence[str | os.PathLike[str] | bytes | ArchiveMember] | None = None,
        mask_fill: int = 0,
        exact: bool = False,
        device: Any = "cpu",
        shuffle: Shuffle = False,
        shard_id: int | None = None,
        num_shards: int | Shards = 1,
        seed: int | None = 0,
        last_batch: Literal["partial", "drop", "fill"] = "partial",
        on_error: Literal["raise", "skip", "replace"] | OnError = "raise",
        num_threads: int | None = None,
        repeats: int = 1,
        prefetch_batches: int = 2,
        cache: Cache | None = None,
        pin_memory: Literal["auto"] | bool = "auto",
        layout: Literal["NCHW", "NHWC"] = "NCHW",
        dtype: Dtype = "uint8",
        collate: Literal["auto", "stack", "pad", "list"] = "auto",
    ) -> None:
        choice("layout", layout, tuple(_LAYOUTS))
        images = as_dataset(dataset)
        known = isinstance(images.samples, SampleList) and images.samples.table.are_whole
        for place, (source, _) in enumerate([] if known else images.samples):
            if isinstance(source, (VideoSegment, ImageSequence)):
                raise ArgumentError(
                    f"dataset sample {place}: must be a file, an ArchiveMember or bytes, got {source!r}; "
                    "use ClipLoader for videos"
                )
        integer("batch_size", batch_size)
        if cache is not None and (not isinstance(cache, Cache) or cache.disk is None):
            raise ArgumentError(
                f"cache must be a framespool.Cache with a disk, got {cache!r}; images of one epoch share no decoded "
                "frames, so memory alone saves nothing"
            )
        options = LoaderOptions.of(
            locals(),
            layout=_LAYOUTS[layout],
            index=Index(False, progress=False),
            # Clips wait in memory only because they share decoded frames; images of one epoch share none.
            cache=Cache(0, lookahead=0) if cache is None else replace(cache, lookahead=0),
        )
        if (gpu := options.gpu) is not None:
            if gpu.decoder == "nvdec":
                raise ArgumentError('decoder="nvdec" is for videos; use "auto", "nvjpeg" or "cpu" for images')
            if gpu.decoder == "auto":
                options = replace(options, device=replace(gpu, decoder="cpu"))
        by_nvjpeg = gpu is not None and gpu.decoder == "nvjpeg"
        if masks is not None and (action := options.on_error.action) != "raise":
            raise ArgumentError(f'masks need on_error="raise", got {action!r}; an image and its mask fail together')
        sampler_spec = samplers.Indices([0])._spec()
        super().__init__(images, sampler_spec, options, images=True, exact=boolean("exact", exact))
        self._layout = _LAYOUTS[layout]
        self._decoding: dict[str, Any] = {"exact": exact, "nvjpeg": by_nvjpeg}
        self._masks: Dataset | None = None
        if masks is not None:
            # The dtype is that of the images: the engine makes uint8 masks and skips Normalize.
            fill = integer("mask_fill", mask_fill, most=255)
            frames, own = {**self._settings["frames"], "label_fill": fill}, self._settings["options"]
            own = {**own, "collate": {"pad": fill}} if options.collate == "pad" else own
            settings = {**self._settings, "frames": frames, "options": own}
            self._masks = _paired_with(images, masks)
            self._decoding |= {"masks": _checkpoint.fingerprint(self._masks), "mask_fill": mask_fill}
            self._add_companion(self._masks, sampler_spec, self._steps, settings)

    def _extra_config(self) -> dict[str, str]:
        return {"images": _checkpoint.text(self._decoding)}

    def failures(self) -> list[dict[str, Any]]:
        """Lists the images that failed so far, as `ClipLoader.failures()`.

        Returns:
            One dict per image. If its mask failed, `mask` is the path of the mask and `path` that of the image, so
            that `Dataset.exclude()` excludes both.
        """
        found = super().failures()
        for loader in self._companions:
            for image, path, kind, message, clips in loader.failures():
                own = failure_record(self.dataset.samples[image][0], kind)
                failure = {"video_id": image, "path": None, "kind": kind, "message": message, "clips": clips}
                found.append({**failure, **own, "mask": path})
        return found

    def stats(self, *, flat: bool = False) -> dict[str, Any]:
        """Counts since the loader was created, as `ClipLoader.stats()`.

        Args:
            flat: As for `ClipLoader.stats()`.

        Returns:
            The counters by name. They include those of the masks, which have as many threads again, except for batches
            and clips.
        """
        return super().stats(flat=flat)

    @property
    def num_images(self) -> int:
        """Number of images in the dataset, over all ranks."""
        return self.num_clips

    def _function_input(self, made: dict[str, Any]) -> tuple[Any, str]:
        return _flat(made["frames"], self._layout), self._layout.replace("T", "")

    def _batch(self, epoch: int, made: list[dict[str, Any]]) -> ImageBatch:
        first = made[0]
        images, layout = self._function_input(first)
        masks = None
        for other in made[1:]:
            _check_same(first, other)
            masks = _flat(other["frames"], "NTHW")
        values = self._columns(first, first["clip_ids"])
        values |= {
            "frames": first.get("awaited", images),
            "clip_ids": first["clip_ids"],
            "occurrences": first["occurrences"],
            "batch_index": first.get("batch_index", 0),
            "content_keys": first["content_keys"],
        }
        values |= self._apply_functions({**values, "video_ids": first["clip_ids"]}, layout, epoch)
        named = {
            "images": values["frames"],
            "labels": values["labels"],
            "image_ids": first["clip_ids"],
            "requested_ids": first["requested_ids"],
            "sizes": first["sizes"],
            "padding": first["padding"],
            "geometry": first["geometry"],
            "masks": masks,
            "columns": values["columns"],
            "content_keys": values["content_keys"],
            "unpadded_sizes": first.get("unpadded_sizes"),
            "mixed_with": values.get("mixed_with"),
            "mix_weights": values.get("mix_weights"),
        }
        return ImageBatch(**placed(named, self._settings["options"]["gpu"]["device"]))


def _flat(frames: Any, layout: str) -> Any:
    """Without the dimension of time."""
    if isinstance(frames, list):
        return [frame.drop_time(layout) for frame in frames]
    return frames.drop_time(layout)


def _paired_with(images: Dataset, masks: Sequence[Any]) -> Dataset:
    if isinstance(images, MixtureDataset):
        raise ArgumentError("masks need a plain dataset, got a mixture; combine datasets with + instead")
    if isinstance(masks, (str, bytes, os.PathLike)):
        raise ArgumentError(f"masks must be a list, one for each image, got {display_repr(masks)}")
    sources = [source for source, _ in as_dataset(masks).samples]
    for place, source in enumerate(sources):
        if isinstance(source, (VideoSegment, ImageSequence)):
            raise ArgumentError(f"mask {place}: must be a file, an ArchiveMember or bytes, got {source!r}")
    if len(sources) != len(images):
        raise ArgumentError(f"masks must be one for each of the {len(images)} images, got {len(sources)}")
    return Dataset([(mask, label) for mask, (_, label) in zip(sources, images.samples, strict=True)])


def _check_same(images: dict[str, Any], masks: dict[str, Any]) -> None:
    """Checks that images and masks match in order and size; crops are drawn for one size."""
    ids = images["clip_ids"].numpy()
    if ids.tolist() != masks["clip_ids"].tolist():
        raise InternalError(f"images {ids.tolist()} came with the masks of {masks['clip_ids'].tolist()}; report this")
    for image, size, mask in zip(ids, images["sizes"].numpy(), masks["sizes"].numpy(), strict=True):
        if tuple(size) != tuple(mask):
            raise ArgumentError(
                f"image {image} of the dataset has {size[1]}x{size[0]} pixels, its mask {mask[1]}x{mask[0]}; "
                "make them the same size"
            )


_Source = str | os.PathLike[str] | bytes | Any


def decode_image(
    source: _Source,
    *,
    transforms: Sequence[Transform] | None = None,
    exact: bool = True,
    layout: Literal["CHW", "HWC"] = "CHW",
    dtype: Dtype = "uint8",
    seed: int = 0,
) -> Any:
    """Decodes one JPEG, PNG, WebP or AVIF file to RGB, rotated according to its EXIF orientation.

    Args:
        source: A path or URL, a `datasets.ArchiveMember`, a file object opened for bytes, or the bytes of a file (also
            a bytearray, memoryview or uint8 array).
        transforms: List of `framespool.transforms`. `None`: no transforms.
        exact: Decode to the bytes that Pillow, OpenCV and torchvision get from libjpeg-turbo. `False` is faster if
            the image is downscaled, see `framespool.ImageLoader`.
        layout: `"CHW"`, or `"HWC"` as Pillow and NumPy images.
        dtype: As for `framespool.ClipLoader`.
        seed: Seed of random transforms.

    Returns:
        A Tensor (3, H, W) in `layout` and `dtype`, or the result of a callable at the end of the transforms.

    Raises:
        InvalidDataError: If the file is not a valid image.
        DecodeError: If the image cannot be decoded.
        UnsupportedError: If the file uses an unsupported feature.

    Example:
        >>> import framespool as fsp
        >>> image = fsp.decode_image("photos/dog/1.jpg", transforms=[fsp.transforms.Resize((120, 160))])
        >>> image.shape, image.dtype
        ((3, 120, 160), 'uint8')
    """
    native_steps, functions = split(transforms, dtype)
    [image] = _decode([source], native_steps, exact, layout, dtype, seed, 1)
    if isinstance(image, Exception):
        raise image
    return apply_functions(functions, image, layout, [(seed, 0, 0)])


@overload
def decode_images(
    sources: Iterable[_Source],
    *,
    transforms: Sequence[Transform] | None = None,
    exact: bool = True,
    layout: Literal["CHW", "HWC"] = "CHW",
    dtype: Dtype = "uint8",
    seed: int = 0,
    num_threads: int | None = None,
    on_error: Literal["raise"] = "raise",
) -> list[Tensor]: ...
@overload
def decode_images(
    sources: Iterable[_Source],
    *,
    transforms: Sequence[Transform] | None = None,
    exact: bool = True,
    layout: Literal["CHW", "HWC"] = "CHW",
    dtype: Dtype = "uint8",
    seed: int = 0,
    num_threads: int | None = None,
    on_error: Literal["return"],
) -> list[Tensor | Exception]: ...
def decode_images(
    sources: Iterable[_Source],
    *,
    transforms: Sequence[Transform] | None = None,
    exact: bool = True,
    layout: Literal["CHW", "HWC"] = "CHW",
    dtype: Dtype = "uint8",
    seed: int = 0,
    num_threads: int | None = None,
    on_error: Literal["raise", "return"] = "raise",
) -> Any:
    """Decodes several JPEG, PNG, WebP or AVIF files with several threads.

    Args:
        sources: Paths, archive members, file objects or bytes, as for `decode_image()`.
        transforms: List of `framespool.transforms`. `None`: no transforms.
        exact: As for `decode_image()`.
        layout: `"CHW"`, or `"HWC"` as Pillow and NumPy images.
        dtype: As for `framespool.ClipLoader`.
        seed: Seed of random transforms; image *i* draws as clip *i*.
        num_threads: Threads. `None`: one per available core.
        on_error: `"raise"` the error of the first image that fails, or `"return"` the error in its place.

    Returns:
        One Tensor per source, in the same order, as `decode_image()` returns it.

    Raises:
        Error: With `on_error="raise"`, the error of the first image that fails.

    Example:
        >>> import framespool as fsp
        >>> resize = fsp.transforms.Resize((64, 64))
        >>> images = fsp.decode_images(["photos/dog/1.jpg", "photos/cat/1.jpg"], transforms=[resize])
        >>> [image.shape for image in images]
        [(3, 64, 64), (3, 64, 64)]
    """
    choice("on_error", on_error, ("raise", "return"))
    if isinstance(sources, (str, bytes, os.PathLike)):
        raise ArgumentError(f"sources must be a list, got {display_repr(sources)}; use decode_image for one")
    threads = cores() if num_threads is None else integer("num_threads", num_threads, least=1, most=256)
    images = _decode(list(sources), steps(transforms), exact, layout, dtype, seed, threads)
    if on_error == "raise":
        for image in images:
            if isinstance(image, Exception):
                raise image
    return images


def _file(place: int, source: Any) -> Any:
    """A path, a member, a file object or bytes; buffers are copied, since other code may write to them."""
    if isinstance(source, (str, bytes, os.PathLike, ArchiveMember, TableCell)) or is_file_object(source):
        return source
    try:
        view = memoryview(source)
    except TypeError:
        raise ArgumentError(
            f"source {place} must be a path, an ArchiveMember, a file object or bytes, got {type(source).__name__}"
        ) from None
    if view.itemsize != 1:
        raise ArgumentError(f"source {place} must be the bytes of a file, got elements of {view.itemsize} bytes")
    return view.tobytes()


def _decode(
    sources: list[_Source], native_steps: list[Any], exact: bool, layout: str, dtype: str, seed: int, threads: int
) -> list[Any]:
    check_dtype(dtype)
    choice("layout", layout, ("CHW", "HWC"))
    files = [_file(place, source) for place, source in enumerate(sources)]
    engine = _LAYOUTS["N" + layout]
    seed = integer("seed", seed, most=2**64 - 1)
    made = _framespool.decode_images(files, native_steps, dtype, engine, boolean("exact", exact), seed, threads)
    return [image if isinstance(image, Exception) else image.drop_time(engine) for image in made]
