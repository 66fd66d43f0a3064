"""Pictures: batches of them, and one at a time."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

from framespool import _checkpoint, _framespool, samplers
from framespool._base_loader import BaseLoader, LoaderOptions, cores
from framespool._framespool import Tensor
from framespool._validate_args import boolean, choice, integer
from framespool.datasets import ArchiveMember, Dataset, ImageSequence, MixtureDataset, TableCell, VideoSegment
from framespool.datasets._dataset import as_dataset
from framespool.datasets._sample_list import SampleList
from framespool.errors import ArgumentError, InternalError
from framespool.transforms import Transform
from framespool.transforms._compose import finish, split, steps

#: As the engine calls them: an image is a clip of one frame.
_LAYOUTS = {"NHWC": "NTHWC", "NCHW": "NTCHW"}
#: Counts of :meth:`ImageLoader.stats` that masks add to.
_SHARED = (
    *("frames_decoded", "frames_delivered", "decode_ranges", "bytes_read"),
    *("remote_requests", "remote_bytes", "remote_retries", "remote_cache_hits"),
)


@dataclass(eq=False)
class ImageBatch:
    """Images with their facts; N of them.

    ``images``: Tensor in the loader's layout and dtype, or a list of N Tensors without the dimension N where the
    transforms do not make all the same size, or what a callable at the end of the transforms made of the Tensor.
    ``labels``: (N,) int64. ``masks``: labels of the images' pixels, (N, H, W) uint8 or a list likewise, where the
    loader was given masks, else ``None``. ``image_ids``: (N,) int64, places in the dataset. ``requested_ids``: (N,)
    int64, the image that the order asked for; differs from ``image_ids`` where another one took its place.
    ``sizes``: (N, 2) int64, height and width of each image's file, as it is shown. ``padding``: (N,) bool, true for
    images that only fill a batch or make ranks equal.
    """

    images: Tensor | list[Tensor]
    labels: Tensor
    image_ids: Tensor
    requested_ids: Tensor
    sizes: Tensor
    padding: Tensor
    masks: Tensor | list[Tensor] | None = None

    def __len__(self) -> int:
        return len(self.labels)


class ImageLoader(BaseLoader[ImageBatch]):
    """Streams batches of images (JPEG and PNG files) in an order that only the arguments decide.

    Keywords mean what they mean for :class:`~framespool.ClipLoader`, and so do order, shards, epochs, states, errors
    and :meth:`stats`, in which an image is a clip of one frame; there is no ``sampling``, ``memory_budget``,
    ``lookahead_clips``, ``index`` or ``nvdec_threads``. ``dataset``: a :class:`~framespool.datasets.Dataset`
    (``framespool.datasets.image_folder`` for class folders), or a list of ``(path, label)`` or of paths; bytes, or a
    :class:`~framespool.datasets.ArchiveMember` of an archive, may stand for a path. EXIF orientation is applied; alpha is
    dropped; gray, CMYK and palette images become RGB.

    ``exact=False``: a JPEG is decoded only as far as the result needs. Where it is made four times smaller or more,
    libjpeg halves it while decoding (never below twice the result's size), and its chroma is resampled together with
    its luma. Resized images then differ a little from "decode, then resize"; docs/howto/images.md has the figures. Rows
    that a crop leaves out are not decoded, so that damage there stays unseen; that a file is cut short never does.
    ``exact=True``: the file is decoded whole into the RGB that libjpeg-turbo, Pillow, OpenCV and torchvision make of
    it, byte for byte, before the transforms see it.

    ``masks``: maps of labels, one for each entry of the dataset, in its order: PNG files of one channel or with a
    palette (whose indices are the labels). They are moved exactly as their images are, each pixel taking the label of
    the nearest one, and come as ``batch.masks``; ``mask_fill`` is the label where there is no picture. An image and
    its mask must have the same size. What covers pixels (``RandomErasing``, ``Cutout``, ``GridMask``) and colors pass
    masks by. Masks need ``on_error="raise"``.

    ``layout``: ``"NHWC"`` or ``"NCHW"``. ``device="cuda:0"``: batches land on that GPU. ``decoder``: ``"auto"`` and
    ``"cpu"`` decode on the CPU, to the same bytes as without a GPU. ``"nvjpeg"`` decodes JPEG files on that GPU, as far
    as NVIDIA's library is there (in the CUDA toolkit and in PyTorch's wheels, not in the driver) and takes them;
    progressive and odd ones, PNG, ``exact=True`` and masks are the CPU's, and :meth:`stats` says why. JPEG leaves its
    inverse transform open: nvJPEG's samples differ from the CPU's by a little. It also notices less damage: a file that
    is cut short is an error on both, one with wrong bits inside may be delivered as it was decoded.
    """

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
        decoder: Literal["auto", "cpu", "nvjpeg"] = "auto",
        shuffle: Literal["full", "buffer", False] = False,
        initial_fill: int = 1024,
        order: Literal["framespool", "dali", "torch"] = "framespool",
        shard_id: int = 0,
        num_shards: int = 1,
        stick_to_shard: bool = False,
        worker_id: int = 0,
        num_workers: int = 1,
        seed: int = 0,
        last_batch: Literal["partial", "drop", "fill"] = "partial",
        on_error: Literal["raise", "skip", "replace"] = "raise",
        num_threads: int | None = None,
        prefetch_batches: int = 2,
        layout: Literal["NHWC", "NCHW"] = "NHWC",
        dtype: Literal["uint8", "uint16", "float16", "bfloat16", "float32"] = "uint8",
    ) -> None:
        choice("layout", layout, tuple(_LAYOUTS))
        choice("decoder", decoder, ("auto", "cpu", "nvjpeg"))
        images = as_dataset(dataset)
        known = isinstance(images.samples, SampleList) and images.samples.table.are_whole
        for place, (source, _) in enumerate([] if known else images.samples):
            if isinstance(source, (VideoSegment, ImageSequence)):
                raise ArgumentError(
                    f"dataset entry {place}: an image is a file, an ArchiveMember or bytes, got {source!r}; see ClipLoader"
                )
        options = LoaderOptions(
            batch_size=batch_size,
            transforms=transforms,
            device=device,
            shuffle=shuffle,
            initial_fill=initial_fill,
            order=order,
            shard_id=shard_id,
            num_shards=num_shards,
            stick_to_shard=stick_to_shard,
            worker_id=worker_id,
            num_workers=num_workers,
            seed=seed,
            last_batch=last_batch,
            on_error=on_error,
            num_threads=num_threads,
            prefetch_batches=prefetch_batches,
            dtype=dtype,
            hdr="warn",
        )
        own = {
            "layout": _LAYOUTS[layout],
            "index": False,
            "decoder": "cpu" if decoder == "auto" else decoder,
            "of_pictures": True,
            "exact": boolean("exact", exact),
            # What is made before its turn is made for pictures that clips share; images share none.
            "memory_budget": 0,
            "lookahead_clips": 0,
        }
        if masks is not None and on_error != "raise":
            raise ArgumentError(f'masks need on_error="raise", got {on_error!r}: an image and its mask fail together')
        rule = samplers.indices([0])._sampler_args()
        super().__init__(images, rule, options, own)
        self._layout = _LAYOUTS[layout]
        self._decoding = {"exact": own["exact"], "nvjpeg": decoder == "nvjpeg"}
        self._masks: Dataset | None = None
        if masks is not None:
            # The dtype is the images': the engine makes uint8 of masks, and leaves out what needs another (Normalize).
            settings = {**self._settings, "label_fill": integer("mask_fill", mask_fill, most=255)}
            self._masks = _beside(images, masks)
            self._decoding |= {"masks": _checkpoint.fingerprint(self._masks), "mask_fill": mask_fill}
            self._companions.append(self._engine(self._masks, rule, self._steps, settings))

    def _extra_config(self) -> dict[str, str]:
        return {"images": _checkpoint.text(self._decoding)}

    def failures(self) -> list[dict[str, Any]]:
        """As :meth:`ClipLoader.failures`; where it was an image's mask that failed, ``mask`` is the mask's path, and
        ``path`` the image's, so that both are left out by :meth:`Dataset.exclude`."""
        found = super().failures()
        for loader in self._companions:
            for image, path, kind, message, clips in loader.failures():
                source = self.dataset.samples[image][0]
                which = {}
                if isinstance(source, (ArchiveMember, TableCell)):
                    which = {"member" if isinstance(source, ArchiveMember) else "cell": source._which}
                    source = source.file
                own = None if isinstance(source, bytes) else os.fspath(source)  # type: ignore[arg-type]
                failure = {"video_id": image, "path": own, "kind": kind, "message": message, "clips": clips}
                found.append({**failure, **which, "mask": path})
        return found

    def stats(self) -> dict[str, Any]:
        """As :meth:`ClipLoader.stats`, of the images; work, bytes, seconds and errors with those of their masks, which
        have as many threads again."""
        stats = super().stats()
        for loader in self._companions:
            for name, value in loader.stats().items():
                if name in _SHARED or name.endswith("_seconds"):
                    stats[name] += value
                elif name == "errors":
                    stats[name] = dict(Counter(stats[name]) + Counter(value))
        return stats

    @property
    def num_images(self) -> int:
        """Images in the whole dataset, over all ranks."""
        return self.num_clips

    def _batch(self, made: list[dict[str, Any]]) -> ImageBatch:
        first = made[0]
        images = _flat(first["frames"], self._layout)
        masks = None
        for other in made[1:]:
            _check_same(first, other)
            masks = _flat(other["frames"], "NTHW")
        return ImageBatch(
            images=finish(self._finish, images),
            labels=first["labels"],
            image_ids=first["clip_ids"],
            requested_ids=first["requested_ids"],
            sizes=first["sizes"],
            padding=first["padding"],
            masks=masks,
        )


def _flat(frames: Any, layout: str) -> Any:
    """Without the dimension of time."""
    if isinstance(frames, list):
        return [frame.drop_time(layout) for frame in frames]
    return frames.drop_time(layout)


def _beside(images: Dataset, masks: Sequence[Any]) -> Dataset:
    if isinstance(images, MixtureDataset):
        raise ArgumentError("masks go with a plain dataset, got a mix; use datasets added up with +")
    if isinstance(masks, (str, bytes, os.PathLike)):
        raise ArgumentError(f"masks must be a list, one for each image, got {masks!r}")
    sources = [source for source, _ in as_dataset(masks).samples]
    for place, source in enumerate(sources):
        if isinstance(source, (VideoSegment, ImageSequence)):
            raise ArgumentError(f"mask {place}: a mask is a file, an ArchiveMember or bytes, got {source!r}")
    if len(sources) != len(images):
        raise ArgumentError(f"masks must be one for each of the {len(images)} images, got {len(sources)}")
    return Dataset([(mask, label) for mask, (_, label) in zip(sources, images.samples, strict=True)])


def _check_same(images: dict[str, Any], masks: dict[str, Any]) -> None:
    """Crops are drawn for a size: another one would have another crop."""
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
    layout: Literal["HWC", "CHW"] = "HWC",
    dtype: Literal["uint8", "uint16", "float16", "bfloat16", "float32"] = "uint8",
    seed: int = 0,
) -> Any:
    """One JPEG or PNG as an RGB Tensor (H, W, 3), turned as EXIF says. ``source``: a path, a
    :class:`framespool.datasets.ArchiveMember`, or the bytes of a file (also a bytearray, memoryview or uint8 array).

    ``exact``: byte for byte what Pillow, OpenCV and torchvision decode with libjpeg-turbo; see
    :class:`~framespool.ImageLoader` for what is done otherwise, which is faster where the image is made smaller.
    ``transforms``: see :mod:`framespool.transforms`; random ones draw by ``seed``.

    Raises :class:`~framespool.InvalidDataError`, :class:`~framespool.DecodeError`,
    :class:`~framespool.UnsupportedError`, … with the file's name and the reason.
    """
    wanted, function = split(transforms)
    [image] = _decode([source], wanted, exact, layout, dtype, seed, 1)
    if isinstance(image, Exception):
        raise image
    return finish(function, image)


@overload
def decode_images(
    sources: Iterable[_Source],
    *,
    transforms: Sequence[Transform] | None = None,
    exact: bool = True,
    layout: Literal["HWC", "CHW"] = "HWC",
    dtype: Literal["uint8", "uint16", "float16", "bfloat16", "float32"] = "uint8",
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
    layout: Literal["HWC", "CHW"] = "HWC",
    dtype: Literal["uint8", "uint16", "float16", "bfloat16", "float32"] = "uint8",
    seed: int = 0,
    num_threads: int | None = None,
    on_error: Literal["return"],
) -> list[Tensor | Exception]: ...
def decode_images(
    sources: Iterable[_Source],
    *,
    transforms: Sequence[Transform] | None = None,
    exact: bool = True,
    layout: Literal["HWC", "CHW"] = "HWC",
    dtype: Literal["uint8", "uint16", "float16", "bfloat16", "float32"] = "uint8",
    seed: int = 0,
    num_threads: int | None = None,
    on_error: Literal["raise", "return"] = "raise",
) -> Any:
    """Several images at once, on ``num_threads`` threads (all cores by default): a list of Tensors in the same order.

    As :func:`decode_image` for each, which it equals for every image alone but for random transforms: image *i* draws
    as clip *i*. ``on_error``: ``"raise"`` the error of the first image that fails, or ``"return"`` errors in the places
    of their images.
    """
    choice("on_error", on_error, ("raise", "return"))
    if isinstance(sources, (str, bytes, os.PathLike)):
        raise ArgumentError(f"sources must be a list, got {sources!r}; use decode_image for one")
    threads = cores() if num_threads is None else integer("num_threads", num_threads, least=1, most=256)
    images = _decode(list(sources), steps(transforms), exact, layout, dtype, seed, threads)
    if on_error == "raise":
        for image in images:
            if isinstance(image, Exception):
                raise image
    return images


def _file(place: int, source: Any) -> Any:
    """A path, a member, or bytes; what is like bytes is copied, since others may write to it meanwhile."""
    if isinstance(source, (str, bytes, os.PathLike, ArchiveMember, TableCell)):
        return source
    try:
        view = memoryview(source)
    except TypeError:
        raise ArgumentError(
            f"source {place} must be a path, an ArchiveMember or bytes, got {type(source).__name__}"
        ) from None
    if view.itemsize != 1:
        raise ArgumentError(f"source {place} must be the bytes of a file, got elements of {view.itemsize} bytes")
    return view.tobytes()


def _decode(
    sources: list[_Source], wanted: list[Any], exact: bool, layout: str, dtype: str, seed: int, threads: int
) -> list[Any]:
    choice("dtype", dtype, ("uint8", "uint16", "float16", "bfloat16", "float32"))
    choice("layout", layout, ("HWC", "CHW"))
    files = [_file(place, source) for place, source in enumerate(sources)]
    engine = _LAYOUTS["N" + layout]
    seed = integer("seed", seed, most=2**64 - 1)
    made = _framespool.decode_images(files, wanted, dtype, engine, boolean("exact", exact), seed, threads)
    return [image if isinstance(image, Exception) else image.drop_time(engine) for image in made]
