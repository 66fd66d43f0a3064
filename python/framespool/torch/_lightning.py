"""Data modules for Lightning, under either of its package names."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from framespool._common.ranks import cores_per_rank
from framespool.errors import ArgumentError, UnsupportedError
from framespool.loaders._base import BaseLoader
from framespool.loaders._clips import ClipLoader
from framespool.loaders._images import ImageLoader
from framespool.torch._distributed import rank_and_world
from framespool.torch._loader import TorchLoader

_PACKAGES = ("lightning.pytorch", "pytorch_lightning")
_PARTS = ("train", "val", "test", "predict")
_made: dict[tuple[str, ...], type] = {}


class _DataModule:
    """Common base of the data modules; Lightning's own class follows it."""

    _loader_class: Callable[..., BaseLoader[Any]]

    def __init__(
        self,
        *,
        train: Mapping[str, Any] | None = None,
        val: Mapping[str, Any] | None = None,
        test: Mapping[str, Any] | None = None,
        predict: Mapping[str, Any] | None = None,
        **common: Any,
    ) -> None:
        super().__init__()
        self._keywords: dict[str, dict[str, Any]] = {}
        for name, given in zip(_PARTS, (train, val, test, predict), strict=True):
            if given is None:
                continue
            if not isinstance(given, Mapping):
                raise ArgumentError(f"{name} must be a dict of the loader's arguments, got {given!r}")
            self._keywords[name] = {**common, **given}
        if not self._keywords:
            raise ArgumentError("a data module needs at least one of train=, val=, test=, predict=")
        self._loaders: dict[str, TorchLoader] = {}
        self._ranks: dict[str, int] = {}

    def loader(self, part: str) -> TorchLoader:
        """Returns the loader of a part, created on first access.

        Args:
            part: `"train"`, `"val"`, `"test"` or `"predict"`.

        Returns:
            The loader.

        Raises:
            ArgumentError: If the data module has no such part.
        """
        if part not in self._keywords:
            raise ArgumentError(f"this data module has no {part!r}, only {', '.join(self._keywords)}")
        ranks = rank_and_world()
        if ranks != self._ranks:
            # Created before the ranks were known, as a progress bar or a sanity check may do.
            self._ranks, self._loaders = ranks, {}
        if part not in self._loaders:
            keywords = dict(self._keywords[part])
            if "shard_id" not in keywords and "num_shards" not in keywords:
                keywords |= ranks
            keywords.setdefault("num_threads", cores_per_rank())
            positional = [keywords.pop(name) for name in ("dataset", "clip_sampler") if name in keywords]
            # Training advances from epoch to epoch; data for comparisons over time stays the same.
            epoch = None if part == "train" else lambda: 0
            self._loaders[part] = TorchLoader(self._loader_class(*positional, **keywords), epoch=epoch)
        return self._loaders[part]

    def train_dataloader(self) -> Any:
        """Returns the training loader, always the same one: each iteration is its next epoch.

        Returns:
            The loader.
        """
        return self.loader("train")

    def val_dataloader(self) -> Any:
        """Returns the validation loader, which uses epoch 0 each time.

        Returns:
            The loader, or an empty list if `val` was not given.
        """
        return self.loader("val") if "val" in self._keywords else []

    def test_dataloader(self) -> Any:
        """Returns the test loader, which uses epoch 0 each time.

        Returns:
            The loader.
        """
        return self.loader("test")

    def predict_dataloader(self) -> Any:
        """Returns the loader of `predict`, which uses epoch 0 each time.

        Returns:
            The loader.
        """
        return self.loader("predict")


_DOC = """Loaders of clips for Lightning's `Trainer`.

    Batches are dicts of tensors, which Lightning moves to its device. Each rank has its own shard
    (`torch.rank_and_world()`; `shard_id` and `num_shards` select another), and Lightning adds no
    `DistributedSampler`, since the loaders are not of class `DataLoader`. Training data is sampled again for each
    epoch, other data always for epoch 0. A checkpoint contains the training loader's position, and a resumed run
    continues with the next batch, also in a new process. With `Trainer(overfit_batches=N)` each epoch trains on the
    first N batches of epoch 0.

    The base class is `LightningDataModule` of `lightning` or of `pytorch_lightning`: of the package that is
    imported, else of the one that is installed.

    Args:
        train: Arguments of the training loader, {kind}.
        val: Arguments of the validation loader.
        test: Arguments of the test loader.
        predict: Arguments of the prediction loader.
        common: Arguments of all these loaders.

    Example:
        >>> data = framespool.torch.ClipDataModule(  # doctest: +SKIP
        ...     train={"dataset": train_set, "shuffle": "full"},
        ...     val={"dataset": val_set},
        ...     clip_sampler=fsp.samplers.RandomClips(sequence_length=16),
        ...     batch_size=8, transforms=[fsp.transforms.Resize((112, 112))], layout="NCTHW", dtype="float32",
        ... )
        >>> trainer.fit(model, data)  # doctest: +SKIP
        >>> trainer.fit(model, data, ckpt_path="last.ckpt")  # continues after the last batch  # doctest: +SKIP
    """


def _base_classes() -> tuple[type, ...]:
    names = [name for name in _PACKAGES if name in sys.modules]
    for name in [] if names else _PACKAGES:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
        names = [name]
        break
    if not names:
        raise UnsupportedError(
            "framespool.torch's data modules need lightning or pytorch-lightning; install one of them"
        )
    return tuple(sys.modules[name].LightningDataModule for name in names)


def module_class(name: str) -> type:
    """Returns `ClipDataModule` or `ImageDataModule` over the imported Lightning.

    Args:
        name: Name of the class.

    Returns:
        The class, created on first access.

    Raises:
        UnsupportedError: If Lightning is not installed.
    """
    bases = _base_classes()
    loader, kind = {
        "ClipDataModule": (ClipLoader, "see `framespool.ClipLoader`"),
        "ImageDataModule": (ImageLoader, "see `framespool.ImageLoader`"),
    }[name]
    key = (name, *(f"{base.__module__}.{base.__qualname__}" for base in bases))
    if key not in _made:
        text = _DOC.replace("{kind}", kind)
        if name == "ImageDataModule":
            text = (
                "Loaders of images for Lightning's `Trainer`; see `ClipDataModule`.\n\n"
                f"    The arguments of each part are those of the loader, {kind}.\n    "
            )
        body = {"__doc__": text, "_loader_class": loader, "__module__": "framespool.torch", "__qualname__": name}
        _made[key] = type(name, (_DataModule, *bases), body)
    return _made[key]
