"""Compares the clips of both: those for validation one by one, and those for training with the rules of the original.

The random numbers of both differ. So each training clip of framespool is made again with the functions of the original:
from the same first frame, with the same crop and flip.

python examples/recipes/trainers/compare.py VIDEO...
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import original  # noqa: E402
import ported  # noqa: E402
import torch  # noqa: E402
from accelerate import Accelerator  # noqa: E402
from common import link_class_folders  # noqa: E402
from torchcodec.decoders import VideoDecoder  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

#: Largest mean difference of the pixels of a clip, of 255: framespool resizes the planes, before it converts colors.
PIXELS = 1.5
#: Levels of 255 per unit of a normalized value.
LEVELS = 255 * 0.225
EPOCHS = 2


def crop_again(video: Path, indices: list[int], geometry: list[list[float]]) -> torch.Tensor:
    """Decodes, crops and flips frames as an affine map from the frame to the result does: (C, T, H, W) float32."""
    (x, _, left), (_, y, top) = geometry
    width, height = original.SIZE / abs(x), original.SIZE / y
    begin = (left - original.SIZE if x < 0 else -left) / abs(x)
    frames = VideoDecoder(video).get_frames_at(indices).data
    box = [round(value) for value in (-top / y, begin, height, width)]
    frames = v2.functional.resized_crop(frames, *box, [original.SIZE, original.SIZE])
    return v2.Compose(original.NORMALIZE)(frames.flip(3) if x < 0 else frames).permute(1, 0, 2, 3)


def check_pixels(video: Path, theirs: torch.Tensor, ours: torch.Tensor) -> float:
    """Returns the mean difference of the pixels, of 255; exits with 1 if it is large."""
    far = float((theirs - ours).abs().mean() * LEVELS)
    if not far <= PIXELS:
        sys.exit(f"{video}: pixels differ by {far:.2f} on average")
    return far


def check_forms(root: Path, clips: list[dict[str, Any]]) -> None:
    """Checks that all frameworks get the same clips for validation; exits with 1 if not."""
    module = ported.for_lightning(root, 1, 1)["datamodule"]
    _, loader = ported.for_accelerate(root, 1, 1, Accelerator(cpu=True))
    for batches in (module.val_dataloader(), loader):
        for clip, batch in zip(clips, batches, strict=True):
            if not all(torch.equal(clip[name], batch[name][0]) for name in ("frames", "labels", "indices")):
                sys.exit(f"the frameworks get different clips: {clip['indices']} and {batch['indices']}")


def main() -> None:
    """Compares, and exits with 1 at the first clip that is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path, help="video files")
    videos, farthest = parser.parse_args().videos, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for split in ("train", "val"):
            link_class_folders(Path(folder) / split, videos)
        training, validation = (original.Clips(Path(folder), split) for split in ("train", "val"))
        datasets = ported.for_transformers(Path(folder))
        val = [datasets["eval_dataset"][number] for number in range(len(datasets["eval_dataset"]))]
        for number, (video, _) in enumerate(validation.videos):
            theirs, ours = validation[number], val[number]
            if theirs["indices"].tolist() != ours["indices"].tolist() or theirs["labels"] != ours["labels"]:
                sys.exit(f"{video}: clips differ: {theirs['indices']} and {ours['indices']}")
            farthest = max(farthest, check_pixels(video, theirs["frames"], ours["frames"]))
        check_forms(Path(folder), val)
        print(f"{len(val)} clips for validation: the same frames and labels, also in Lightning and Accelerate")
        for epoch in range(EPOCHS):
            datasets["train_dataset"].set_epoch(epoch)
            for number, (video, label) in enumerate(training.videos):
                ours = datasets["train_dataset"][number]
                indices, length = ours["indices"].tolist(), len(VideoDecoder(video))
                last = max(length - (original.LENGTH - 1) * original.STRIDE - 1, 0)
                rule = [min(indices[0] + k * original.STRIDE, length - 1) for k in range(original.LENGTH)]
                if not 0 <= indices[0] <= last or indices != rule or label != ours["labels"]:
                    sys.exit(f"{video}: {indices} is no clip of {length} frames, or the label differs")
                theirs = crop_again(video, indices, ours["geometry"].tolist())
                farthest = max(farthest, check_pixels(video, theirs, ours["frames"]))
        print(f"{EPOCHS * len(training)} clips for training: frames that the original can choose, labels equal")
    print(f"largest mean difference of the pixels {farthest:.2f} of 255")


if __name__ == "__main__":
    main()
