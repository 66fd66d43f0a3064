"""What to make of each frame. A list of these, in torchvision's words, becomes one pass over the picture.

Transforms are small immutable objects that compare by value and can be pickled. Names, arguments and defaults are
torchvision v2's; ``Letterbox``, ``ThreeCrop``, ``Cutout``, ``GridMask``, ``ColorTwist``, ``ToneMap`` and
``AssumeColor`` are added.

Random numbers are drawn from (seed, epoch, clip), once for each clip, so that all its frames are treated alike;
``per_frame=True`` draws anew for each frame.

One pass differs from one step after another in this:

- values are rounded and clamped to 0..255 once, at the end, not after every step;
- resizes that follow each other become one, from the source picture. So do rotations with the resizes around them:
  the picture is read once, with the last one's interpolation. What is padded and then resized is resized by
  itself and moved to its place, between pixels where it falls there: the picture may come out a little softer, the
  padding's border sharper. Resize first, or use ``Letterbox``;
- contrast turns about the mean gray of what is left of each frame after all crops (later ones too, each view its own),
  without fill; a crop after a rotation does not count;
- a change of hue is linear in R, G, B (see :class:`ColorJitter`).

Some lists need more than one pass and are refused: two different fills; a change of colors between two steps that
fill; a step that makes the picture larger, or turns it again, after a rotation that cut its corners off; anything but
``Normalize`` behind what covers pixels (``RandomErasing``, ``Cutout``, ``GridMask``); and anything but these behind
``Normalize``. What is painted over covered pixels is in code values 0 to 255 before ``Normalize``, in units of the
result after it; ``"random"`` always gives noise of deviation 1 in float results, uniform codes in uint8.

``fill`` is what appears where there is no picture: a number or (R, G, B), in code values 0 to 255. ``interpolation`` is
``"bilinear"`` or ``"nearest"``, or torchvision's or PIL's constant of that name; when resizing, ``"nearest"`` takes
the pixel that holds the centre, which torchvision calls ``NEAREST_EXACT``. ``antialias=False`` makes bilinear resizing
look at the nearest pixels only, whatever the scale.

The last of a list may be a callable of your own. It is given the finished frames, in the layout and dtype asked for, as
a ``torch.Tensor`` if it is a ``torch.nn.Module``, else as a :class:`framespool.Tensor`; what it returns replaces them.
"""

from framespool.transforms._apply import apply, sample_params
from framespool.transforms._args import Transform
from framespool.transforms._color import (
    AssumeColor,
    ColorJitter,
    ColorTwist,
    Grayscale,
    Normalize,
    RandomGrayscale,
    ToneMap,
)
from framespool.transforms._erasing import Cutout, GridMask, RandomErasing
from framespool.transforms._geometry import (
    CenterCrop,
    FiveCrop,
    Letterbox,
    Pad,
    RandomAffine,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
    ThreeCrop,
)

__all__ = [
    "AssumeColor",
    "CenterCrop",
    "ColorJitter",
    "ColorTwist",
    "Cutout",
    "FiveCrop",
    "Grayscale",
    "GridMask",
    "Letterbox",
    "Normalize",
    "Pad",
    "RandomAffine",
    "RandomCrop",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomVerticalFlip",
    "Resize",
    "ThreeCrop",
    "ToneMap",
    "Transform",
    "apply",
    "sample_params",
]
