"""A loader that decodes only clips whose result is not in a `FeatureCache`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from framespool import _framespool
from framespool._common.pytorch import tensors
from framespool.errors import ArgumentError, ReadError
from framespool.loaders._base import BaseLoader
from framespool.torch._feature_cache import FeatureCache
from framespool.torch._loader import TorchLoader, _moved


class FeatureLoader(TorchLoader):
    """A `TorchLoader` whose batches have `features` in place of `frames`, and which decodes only what it must.

    `features` are what `cache.get_or_compute()` returns for the frames of the clips. A clip whose result is stored when
    an epoch starts is not decoded: if clip sampler and transforms are not random, every epoch after the first one
    decodes nothing. Batches are those of the loader, in every order, on every rank, and after a resumption: the same
    labels, ids, `indices`, `pts_seconds` and columns. `stats()["frames_decoded"]` counts what is decoded.

    The key of a result does not depend on epoch and seed if nothing is random. With a random clip sampler that chooses
    among few clips, those of earlier epochs are found. Random transforms make a new key for each epoch and clip, whose
    result is found only in another run with the same seed: apply random changes to the features instead.

    With `on_error="skip"` and `"replace"` a file that fails is tried again in each epoch, as a loader does, and the
    clip that replaces another one is decoded.

    Args:
        loader: A `framespool.ClipLoader` or `framespool.ImageLoader`; available as attribute `loader`. Iterated by
            itself it delivers frames as before.
        cache: The results.
        function: See `FeatureCache.get_or_compute()`; it gets the clips of a batch that have no result.
        device: Device that the tensors of a batch are moved to (`non_blocking`), also the frames that the function
            gets. By default they stay on the loader's device.
        epoch: As for `TorchLoader`.

    Raises:
        ArgumentError: If `loader` has no key for the frames of each clip: with functions such as `MixUp` among the
            transforms, `group_clips`, `collate="pad"`, several cameras, masks, or workers on Ray.
        UnsupportedError: If PyTorch is not installed.

    Example:
        >>> import framespool as fsp
        >>> import framespool.torch
        >>> loader = fsp.ClipLoader(
        ...     fsp.datasets.folder("videos/"),
        ...     fsp.samplers.UniformClips(sequence_length=4),
        ...     batch_size=3,
        ...     transforms=[fsp.transforms.Resize((32, 32))],
        ...     dtype="float32",
        ...     shuffle="full",
        ... )
        >>> cache = framespool.torch.FeatureCache("features", name="mean color", version=2, size="1GiB")
        >>> batches = framespool.torch.FeatureLoader(loader, cache, lambda frames: frames.mean(dim=(1, 3, 4)))
        >>> for epoch in range(3):
        ...     for batch in batches:
        ...         features, labels = batch["features"], batch["labels"]
        ...     print(features.shape, batches.stats()["frames_decoded"] > 0, cache.stats()["computed"])
        torch.Size([3, 3]) True 3
        torch.Size([3, 3]) True 3
        torch.Size([3, 3]) True 3
    """

    def __init__(
        self,
        loader: BaseLoader[Any],
        cache: FeatureCache,
        function: Callable[[Any], Any],
        *,
        device: Any = None,
        epoch: Callable[[], int] | None = None,
    ) -> None:
        super().__init__(loader, device=device, epoch=epoch)
        if not isinstance(cache, FeatureCache):
            raise ArgumentError(f"cache must be a framespool.torch.FeatureCache, got {cache!r}")
        if not callable(function):
            raise ArgumentError(f"function must be callable, got {function!r}")
        options = loader._settings["options"]
        reasons = {
            "a function among its transforms changes the frames": loader._changes_frames,
            "it has group_clips=True or views=": options["group_clips"],
            'it has collate="pad", and the padding of a clip depends on the other clips of the batch': isinstance(
                options["collate"], dict
            ),
            "its samples have several sources": loader._samples is not None,
            "its batches have cameras or masks": bool(loader._companions or getattr(loader, "_cameras", None)),
            "it has workers on Ray": not isinstance(loader._native, _framespool.Loader),
        }
        for reason, holds in reasons.items():
            if holds:
                raise ArgumentError(
                    f"loader cannot omit the frames of clips that have a result: {reason}. Change that, or call "
                    "cache.get_or_compute(batch, function) for its batches, with which all clips are decoded"
                )
        self._cache, self._function = cache, function

    def _start(self) -> Iterator[Any]:
        return self.loader._iterate(self._cache._store.hashes)

    def _placed(self, batch: Any) -> dict[str, Any]:
        epoch, made = batch._of_pass
        has_frames = made["has_frames"].tolist()
        values = super()._placed(batch)
        frames = values.pop("images" if "images" in values else "frames")
        rows = [bytes(row) for row in made["content_keys"].tolist()]

        def make(missing: list[int]) -> Any:
            """The frames of clips whose result was there when the epoch started, and is not any more."""
            # The engine's number of an occurrence has its repeat in the upper half.
            numbers = zip(made["clip_ids"].tolist(), made["occurrences"].tolist(), strict=True)
            slots = [(clip, number & 0xFFFFFFFF, number >> 32, False) for clip, number in numbers]
            again = self.loader._alone(
                epoch, lambda native, _: native.start_batches(epoch, 0, [[slots[row] for row in missing]])
            )
            found = tensors(again)
            if [bytes(row) for row in again.content_keys.tolist()] != [rows[row] for row in missing]:
                videos = made["video_ids"].tolist()
                paths = sorted({str(self.loader.dataset.samples[videos[row]][0]) for row in missing})
                raise ReadError(
                    f"{', '.join(paths)}: a file has changed or fails since its clip was delivered without frames, and "
                    f"the result of the clip has been deleted from {self._cache!r}; do not change both at once"
                )
            frames = found["images" if "images" in found else "frames"]
            return frames if self._device is None else _moved(frames, self._device)

        keys = [self._cache._key(row, b"") for row in rows]
        device = values["labels"].device
        values["features"] = self._cache._results(keys, self._function, frames, device, has_frames, make)
        return values
