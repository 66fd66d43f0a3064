"""Data modules for Lightning, under either of the names by which it is installed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from framespool._base_loader import BaseLoader
from framespool._clip_loader import ClipLoader
from framespool._images import ImageLoader
from framespool.errors import ArgumentError, UnsupportedError
from framespool.torch._distributed import cores_per_rank, rank_and_world
from framespool.torch._loader import TorchLoader

_PACKAGES = ("lightning.pytorch", "pytorch_lightning")
_PARTS = ("train", "val", "test", "predict")
_made: dict[tuple[str, ...], type] = {}


class _DataModule:
    """What the data modules share; Lightning's own class comes behind it."""

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
        """The loader of ``"train"``, ``"val"``, ``"test"`` or ``"predict"``, made when it is first asked for."""
        if part not in self._keywords:
            raise ArgumentError(f"this data module has no {part!r}, only {', '.join(self._keywords)}")
        ranks = rank_and_world()
        if ranks != self._ranks:
            # Made before the ranks were known, as a progress bar or a sanity check may do.
            self._ranks, self._loaders = ranks, {}
        if part not in self._loaders:
            keywords = dict(self._keywords[part])
            if "shard_id" not in keywords and "num_shards" not in keywords:
                keywords |= ranks
            keywords.setdefault("num_threads", cores_per_rank())
            positional = [keywords.pop(name) for name in ("dataset", "clip_sampler") if name in keywords]
            # Training goes from epoch to epoch; whatever is compared over time is the same each time.
            epoch = None if part == "train" else lambda: 0
            self._loaders[part] = TorchLoader(self._loader_class(*positional, **keywords), epoch=epoch)
        return self._loaders[part]

    def setup(self, stage: str) -> None:
        """Begins at the trainer's epoch, which is not 0 where one ``fit`` follows another. Lightning calls it before it
        restores a checkpoint, whose place in the epoch then counts."""
        trainer = getattr(self, "trainer", None)
        if stage == "fit" and trainer is not None and "train" in self._keywords:
            self.loader("train").set_epoch(int(trainer.current_epoch))

    def train_dataloader(self) -> Any:
        """The training loader, always the same one: each iteration is its next epoch."""
        return self.loader("train")

    def val_dataloader(self) -> Any:
        """The validation loader, which is at the same epoch each time; none where ``val`` was not given."""
        return self.loader("val") if "val" in self._keywords else []

    def test_dataloader(self) -> Any:
        """The test loader, at the same epoch each time."""
        return self.loader("test")

    def predict_dataloader(self) -> Any:
        """The loader of ``predict``, at the same epoch each time."""
        return self.loader("predict")


_DOC = """Loaders of clips for Lightning's ``Trainer``.

    ::

        data = framespool.torch.ClipDataModule(
            train={"dataset": train_set, "clip_sampler": fsp.samplers.random(sequence_length=16), "shuffle": "full"},
            val={"dataset": val_set, "clip_sampler": fsp.samplers.uniform(sequence_length=16)},
            batch_size=8, transforms=[fsp.transforms.Resize((112, 112))], layout="NCTHW", dtype="float32",
        )
        trainer.fit(model, data)
        trainer.fit(model, data, ckpt_path="last.ckpt")     # goes on behind the last batch, wherever that was

    ``train``, ``val``, ``test``, ``predict``: dicts of the loader's arguments, {kind}; other keywords are for all of
    them. Batches are dicts of tensors, which Lightning moves to its device. Each rank has its own part of the data
    (:func:`~framespool.torch.rank_and_world`; ``shard_id`` and ``num_shards`` choose otherwise), and Lightning adds no
    ``DistributedSampler``: these are no ``DataLoader``. Training data is drawn anew for each epoch, other data always
    for epoch 0. A checkpoint holds the training loader's place, also in the middle of an epoch.

    Its base is ``LightningDataModule`` of ``lightning`` or of ``pytorch_lightning``, whichever is imported, or else is
    installed.
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
    """``ClipDataModule`` or ``ImageDataModule`` over the Lightning that is imported."""
    bases = _base_classes()
    loader, kind = {
        "ClipDataModule": (ClipLoader, "see :class:`~framespool.ClipLoader`"),
        "ImageDataModule": (ImageLoader, "see :class:`~framespool.ImageLoader`"),
    }[name]
    key = (name, *(f"{base.__module__}.{base.__qualname__}" for base in bases))
    if key not in _made:
        words = _DOC.replace("{kind}", kind)
        if name == "ImageDataModule":
            words = f"As :class:`ClipDataModule`, of images.\n\n    Parts are dicts of the loader's arguments, {kind}."
        body = {"__doc__": words, "_loader_class": loader, "__module__": "framespool.torch", "__qualname__": name}
        _made[key] = type(name, (_DataModule, *bases), body)
    return _made[key]
