"""Masks of patches for self-supervised training, which are delivered with the batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from framespool._common.validate_args import as_sequence, integer, number, span
from framespool.errors import ArgumentError
from framespool.transforms._functions import BatchContext, FunctionTransform, seed_of, torch_module

__all__ = ["BlockMask", "TubeMask"]


class PatchMask(FunctionTransform):
    """Common base of the masks that are the same in all frames of a clip.

    Raises:
        ArgumentError: If an argument is invalid.
    """

    patch: Sequence[int]
    name: str

    _changes_frames = False

    def __post_init__(self) -> None:
        kind, sides = type(self).__name__, as_sequence(self.patch)
        if sides is None or len(sides) != 3:
            raise ArgumentError(f"{kind}: patch must be (frames, height, width), got {self.patch!r}")
        sides = tuple(integer(f"{kind}: patch", side, least=1) for side in sides)
        object.__setattr__(self, "patch", sides)
        if not isinstance(self.name, str) or not self.name:
            raise ArgumentError(f"{kind}: name must be a string, the name of the mask in the batch, got {self.name!r}")

    def _apply(
        self, frames: Any, layout: str, keys: Sequence[tuple[int, ...]], batch: BatchContext | None, place: int
    ) -> Any:
        """Adds the mask to the columns of the batch; the frames stay."""
        torch, batch = torch_module(self), self._batch(batch)
        if self.name in batch.columns:
            raise ArgumentError(f"{self!r}: the batch has a column {self.name!r} already; give another name=")
        tubes, rows, columns = self._grid(frames, layout)
        masks = []
        for key in keys:
            generator = torch.Generator().manual_seed(seed_of((*key, place, 3)))
            masks.append(self._of_frame(torch, rows, columns, generator).flatten().repeat(tubes))
        batch.columns[self.name] = torch.stack(masks).to(getattr(frames, "device", "cpu"))
        return frames

    def _grid(self, frames: Any, layout: str) -> tuple[int, int, int]:
        """Returns the number of patches in time, height and width."""
        shape = tuple(getattr(frames, "shape", ()))
        if len(shape) != len(layout):
            raise ArgumentError(
                f"{self!r} needs frames {', '.join(layout)}, got {shape or type(frames).__name__}; put it before the "
                "function that changes their shape, and omit views"
            )
        sizes = dict(zip(layout, shape, strict=True))
        grid = []
        for axis, side in zip("THW", self.patch, strict=True):
            patches, rest = divmod(sizes.get(axis, 1), side)  # an image is one frame
            if rest:
                raise ArgumentError(
                    f"{self!r}: {sizes.get(axis, 1)} along {axis} is no multiple of {side}; change the size of the "
                    "frames, the length of the clips, or patch="
                )
            grid.append(patches)
        return grid[0], grid[1], grid[2]

    def _of_frame(self, torch: Any, rows: int, columns: int, generator: Any) -> Any:
        """Returns the mask of one clip's frames, (rows, columns) bool."""
        raise NotImplementedError


@dataclass(frozen=True)
class TubeMask(PatchMask):
    """Add a random mask of patches to the batch, the same in all frames of a clip, as VideoMAE has it.

    `batch[name]` is (N, L) bool, true for masked patches. L counts the patches of a clip: first over width, then over
    height, then over time, as `transformers.VideoMAEForPreTraining` takes it for `bool_masked_pos`. In each frame
    `floor(ratio * patches)` patches are masked, so that all clips have equally many. Frames are not changed. Source:
    "VideoMAE: Masked Autoencoders are Data-Efficient Learners for Self-Supervised Video Pre-Training" (Tong et al.,
    2022), section 3.3.

    The mask depends on (seed, epoch, clip), not on the number of ranks; each of the `repeats` of a clip has its own.

    Args:
        ratio: Part of the patches that is masked, from 0 to 1.
        patch: Size of a patch: frames, height and width in pixels. For images the first one is 1.
        name: Name of the mask in the batch.

    Raises:
        ArgumentError: If an argument is invalid; while iterating, if frames cannot be divided into such patches, or the
            dataset has a column of that name.

    Example:
        >>> import framespool as fsp
        >>> import torch
        >>> dataset, clip_sampler = fsp.datasets.folder("videos/"), fsp.samplers.RandomClips(sequence_length=4)
        >>> transforms = [fsp.transforms.Resize((32, 32)), fsp.transforms.TubeMask(ratio=0.75, patch=(2, 8, 8))]
        >>> batch = next(iter(fsp.ClipLoader(dataset, clip_sampler, batch_size=3, transforms=transforms)))
        >>> batch["bool_masked_pos"].shape, batch["bool_masked_pos"].sum(1)
        (torch.Size([3, 32]), tensor([24, 24, 24]))
    """

    ratio: float = 0.9
    patch: Sequence[int] = (2, 16, 16)
    name: str = "bool_masked_pos"

    def __post_init__(self) -> None:
        super().__post_init__()
        number("TubeMask: ratio", self.ratio, least=0, most=1)

    def _of_frame(self, torch: Any, rows: int, columns: int, generator: Any) -> Any:
        mask = torch.zeros(rows * columns, dtype=torch.bool)
        # 0.29 * 100 is a little less than 29.
        masked = math.floor(self.ratio * len(mask) + 1e-6)
        mask[torch.randperm(len(mask), generator=generator)[:masked]] = True
        return mask.reshape(rows, columns)


@dataclass(frozen=True)
class BlockMask(PatchMask):
    """Add a random mask of blocks of patches to the batch, the same in all frames of a clip, as V-JEPA has it.

    `batch[name]` is (N, L) bool as that of `TubeMask`, true in the union of the blocks, which a model predicts from the
    other patches. Each block covers about `scale` of the frame, has a random aspect ratio, and a uniform position. At
    least one patch of a frame is not masked: a block that covers all of them is one column narrower, and blocks after
    the first that would cover the rest are omitted. Clips have different numbers of masked patches.

    Source: "Revisiting Feature Prediction for Learning Visual Representations from Video" (Bardes et al., 2024), which
    uses two such masks: 8 blocks of 0.15, and 2 blocks of 0.7. Put both in the list, with two names.

    The mask depends on (seed, epoch, clip), as that of `TubeMask`.

    Args:
        num_blocks: Number of blocks.
        scale: Part of the frame that a block covers, above 0, up to 1.
        aspect_ratio: Range of height divided by width of a block, in patches.
        patch: Size of a patch: frames, height and width in pixels. For images the first one is 1.
        name: Name of the mask in the batch.

    Raises:
        ArgumentError: As `TubeMask`.

    Example:
        >>> import framespool as fsp
        >>> import torch
        >>> dataset, clip_sampler = fsp.datasets.folder("videos/"), fsp.samplers.RandomClips(sequence_length=4)
        >>> short = fsp.transforms.BlockMask(num_blocks=8, scale=0.15, patch=(2, 8, 8), name="short_range")
        >>> long = fsp.transforms.BlockMask(num_blocks=2, scale=0.7, patch=(2, 8, 8), name="long_range")
        >>> transforms = [fsp.transforms.Resize((64, 64)), short, long]
        >>> batch = next(iter(fsp.ClipLoader(dataset, clip_sampler, batch_size=3, transforms=transforms)))
        >>> batch["short_range"].shape, batch["long_range"].shape
        (torch.Size([3, 128]), torch.Size([3, 128]))
    """

    num_blocks: int = 8
    scale: float = 0.15
    aspect_ratio: tuple[float, float] = (0.75, 1.5)
    patch: Sequence[int] = (2, 16, 16)
    name: str = "block_mask"

    def __post_init__(self) -> None:
        super().__post_init__()
        integer("BlockMask: num_blocks", self.num_blocks, least=1)
        number("BlockMask: scale", self.scale, above=0, most=1)
        object.__setattr__(self, "aspect_ratio", span("BlockMask: aspect_ratio", self.aspect_ratio, above=0))

    def _of_frame(self, torch: Any, rows: int, columns: int, generator: Any) -> Any:
        if rows * columns < 2:
            raise ArgumentError(f"{self!r}: the frame has one patch only; use smaller patches")
        mask = torch.zeros((rows, columns), dtype=torch.bool)
        low, high = self.aspect_ratio
        for block in range(self.num_blocks):
            aspect, down, across = torch.rand(3, generator=generator).tolist()
            aspect = low + aspect * (high - low)
            area = self.scale * rows * columns
            height = min(max(round(math.sqrt(area * aspect)), 1), rows)
            width = min(max(round(math.sqrt(area / aspect)), 1), columns)
            if (height, width) == (rows, columns):
                height, width = (rows - 1, 1) if columns == 1 else (rows, columns - 1)
            top, left = int(down * (rows - height + 1)), int(across * (columns - width + 1))
            union = mask.clone()
            union[top : top + height, left : left + width] = True
            if block == 0 or not union.all():
                mask = union
        return mask
