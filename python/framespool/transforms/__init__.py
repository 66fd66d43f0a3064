"""Transforms of frames, with torchvision's names. A list of them is compiled to one pass over each frame.

Transforms are small immutable objects that compare by value and can be pickled. Names, arguments and defaults are those
of torchvision v2; `Letterbox`, `MultiScaleCrop`, `ThreeCrop`, `Cutout`, `GridMask`, `ColorTwist`, `ToneMap` and
`AssumeColor` are additions. Examples are in docs/howto/transforms.md.

Random numbers depend on (seed, epoch, clip) and are drawn once per clip, so all its frames are transformed the same
way. `per_frame=True` draws for each frame.

The single pass differs from separate steps as follows (docs/concepts/transforms.md explains why):

- values are rounded and clamped to 0..255 once, at the end, not after every step;
- consecutive resizes become one, from the source frame. So do rotations with the resizes around them: the frame is
  sampled once, with the interpolation of the last step. A bicubic resize after a rotation is done before it if it
  shrinks, and is bilinear if it enlarges. Padding followed by a resize is resized and then moved to its position, which
  may be between pixels: the frame may be a little softer, the border of the padding sharper. Resize first, or use
  `Letterbox`;
- contrast uses the mean gray of each frame after all crops (later ones too, each view its own), without fill; a crop
  after a rotation does not count.

`display_aspect=True` of transforms that resize is for video whose pixels are not square. The transform acts as if the
frame were resized to the display size first, in the same single pass. Its result has square pixels, so crops after it
need no such option. Until such a transform, pixels have the shape that the file states, also after a resize without
the option. Pixels of images and arrays are square: the option has no effect there.

`RandomApply` and `RandomChoice` apply a list of other transforms, or one of several, per clip. What they contain is
compiled into the same pass and draws its own numbers.

Some lists need another pass, over the result of the one before it, which has 8 bits: hue, `GaussianBlur`,
`RandomPosterize` and the others of that kind; two different fills; a color transform between two steps that fill; a
step that enlarges the frame, or rotates it again, after a rotation that removed its corners. docs/howto/transforms.md
says what that costs.

Some lists are refused: geometry or colors after erasing transforms (`RandomErasing`, `Cutout`, `GridMask`), and colors,
padding or rotations after `Normalize`.

The fill of erasing transforms is in code values 0 to 255 before `Normalize`, and in units of the result after it.
`"random"` is noise of standard deviation 1 for float results, and uniform codes for uint8.

`fill` is the value outside the frame: a number or (R, G, B), in code values 0 to 255. `interpolation` is
`"bilinear"` or `"nearest"`, or torchvision's or PIL's constant of that name; resizes have `"bicubic"` too. When
resizing, `"nearest"` takes the pixel that contains the center, which torchvision calls `NEAREST_EXACT`.
`antialias=False` makes bilinear and bicubic resizing read only the nearest pixels at every scale, two or four per axis.
Bicubic overshoot is clamped to the range of the stored samples after each axis, the vertical one first.

A list may also contain transforms of torchvision, also in `Compose` or `torch.nn.Sequential`, which may stand in place
of the list. They are replaced by those of this module if both do the same, and refused otherwise. `MixUp`, `CutMix` and
a `RandomChoice` of them draw for each clip, not for the batch. `Normalize` may stand before crops, flips and resizes.

Functions stand at the end of a list: `PerClip`, `TubeMask` and `BlockMask` for each clip, `PerBatch`, `MixUp`,
`CutMix`, `OneOf` of them and `LabelSmoothing` for the batch, and as the last entry any callable. A callable receives
the finished frames in the requested layout and dtype, as a `torch.Tensor` if it is a `torch.nn.Module`, else as a
`framespool.video.Tensor`. Its result replaces them.
"""

from framespool.transforms._apply import apply, sample_params
from framespool.transforms._args import Transform
from framespool.transforms._augment import (
    GaussianBlur,
    RandAugment,
    RandomAdjustSharpness,
    RandomAutocontrast,
    RandomEqualize,
    RandomInvert,
    RandomPosterize,
    RandomSolarize,
    TrivialAugmentWide,
)
from framespool.transforms._choices import RandomApply, RandomChoice
from framespool.transforms._color import (
    AssumeColor,
    ColorJitter,
    ColorTwist,
    Grayscale,
    Normalize,
    RandomGrayscale,
    RandomPhotometricDistort,
    ToneMap,
)
from framespool.transforms._deinterlace import Deinterlace
from framespool.transforms._erasing import Cutout, GridMask, RandomErasing
from framespool.transforms._functions import BatchContext, PerBatch, PerClip
from framespool.transforms._geometry import (
    CenterCrop,
    FiveCrop,
    MultiScaleCrop,
    Pad,
    RandomAffine,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    ThreeCrop,
)
from framespool.transforms._masks import BlockMask, TubeMask
from framespool.transforms._mixing import CutMix, LabelSmoothing, MixUp, OneOf
from framespool.transforms._points import map_boxes, map_points
from framespool.transforms._resize import Letterbox, RandomShortestSize, Resize, ResizeToNearest, SmartResize

__all__ = [
    "AssumeColor",
    "BatchContext",
    "BlockMask",
    "CenterCrop",
    "ColorJitter",
    "ColorTwist",
    "CutMix",
    "Cutout",
    "Deinterlace",
    "FiveCrop",
    "GaussianBlur",
    "Grayscale",
    "GridMask",
    "LabelSmoothing",
    "Letterbox",
    "MixUp",
    "MultiScaleCrop",
    "Normalize",
    "OneOf",
    "Pad",
    "PerBatch",
    "PerClip",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChoice",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomPhotometricDistort",
    "RandomPosterize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomShortestSize",
    "RandomSolarize",
    "RandomVerticalFlip",
    "Resize",
    "ResizeToNearest",
    "SmartResize",
    "ThreeCrop",
    "ToneMap",
    "Transform",
    "TrivialAugmentWide",
    "TubeMask",
    "apply",
    "map_boxes",
    "map_points",
    "sample_params",
]
