"""Checks both ports against the original: the draws, the frames and the pixels of each clip.

With the other import, the random numbers are the same, and so are the clips. The dataset of framespool has random
numbers of its own: each of its clips is made again with decord, from the same first frame and with the same crop.

python examples/recipes/map_style/compare.py VIDEO...
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import decord  # noqa: E402
import original  # noqa: E402
import ported  # noqa: E402
import torch  # noqa: E402
from common import write_list  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

#: Largest mean difference of the pixels of a clip, of 255. Most of it is color conversion: decord's result is 1.2
#: darker than the exact formula, which framespool has.
PIXELS = 1.5
#: Draws of an epoch for each video.
DRAWS = 3


def load(loader: DataLoader) -> list[dict[str, Any]]:
    """The samples of an epoch, with the random numbers of seed 0."""
    random.seed(0)
    torch.manual_seed(0)
    samples = []
    for batch in loader:
        rows = {name: values for name, values in batch.items() if name != "video"}
        samples += [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]
    return samples


def check_pixels(ours: dict[str, Any], frames: torch.Tensor) -> float:
    """The mean difference of the pixels of a clip, of 255.

    Raises:
        ValueError: If it is too large.
    """
    far = float((ours["frames"].float() - frames.float()).abs().mean())
    if not far <= PIXELS:
        raise ValueError(f"pixels differ by {far:.2f} on average")
    return far


def check_compat(theirs: dict[str, Any], ours: dict[str, Any]) -> float:
    """Compares a clip with the original's: its video, label, frames and pixels.

    Raises:
        ValueError: If they differ.
    """
    for name in ("video_ids", "labels", "indices"):
        if not torch.equal(theirs[name], ours[name]):
            raise ValueError(f"{name} differ: {theirs[name].tolist()} and {ours[name].tolist()}")
    return check_pixels(ours, theirs["frames"])


def check_dataset(video: Path, theirs: dict[str, Any], ours: dict[str, Any]) -> float:
    """Compares a clip of `VideoDataset` with the draw of the original, and makes it again with decord.

    Raises:
        ValueError: If they differ, or if the original could not choose these frames.
    """
    for name in ("video_ids", "labels"):
        if not torch.equal(theirs[name], ours[name]):
            raise ValueError(f"{name} differ: {theirs[name].tolist()} and {ours[name].tolist()}")
    reader = decord.VideoReader(str(video), num_threads=1)
    indices = ours["indices"].tolist()
    allowed = 0 <= indices[0] < original.num_starts(len(reader))
    if not allowed or indices != original.clip_indices(len(reader), indices[0]):
        raise ValueError(f"{indices} is no clip of {len(reader)} frames")
    (x, _, shift), (_, y, top) = ours["geometry"].tolist()
    left, right = sorted((-shift / x, (original.SIZE - shift) / x))
    box = [round(value) for value in (-top / y, left, original.SIZE / y, right - left)]
    frames = torch.from_numpy(reader.get_batch(indices).asnumpy()).permute(0, 3, 1, 2)
    frames = v2.functional.resized_crop(frames, *box, [original.SIZE] * 2, antialias=True)
    return check_pixels(ours, frames.flip(-1) if x < 0 else frames)


def check_draws(samples: list[dict[str, Any]]) -> None:
    """Checks that the draws of a video are different clips.

    Raises:
        ValueError: If two have the same frames and crop.
    """
    drawn = Counter((int(s["video_ids"]), str(s["indices"].tolist()), str(s["geometry"].tolist())) for s in samples)
    (video, *_), times = drawn.most_common(1)[0]
    if times > 1:
        raise ValueError(f"video {video}: {times} draws are the same clip")


def main() -> None:
    """Compares an epoch of each loader, and exits with 1 at the first clip that is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path, help="video files")
    videos = parser.parse_args().videos
    with tempfile.TemporaryDirectory() as folder:
        path = write_list(Path(folder) / "train.csv", videos)
        count = DRAWS * len(videos)
        theirs = load(original.make_loader(path, 0, count))
        compat = load(original.make_loader(path, 0, count, dataset=ported.CompatClips))
        epochs = []
        for epoch in (0, 1, 0):  # each with the draws of a new sampler with the same seed
            loader = ported.make_loader(path, 0, count)
            loader.dataset.set_epoch(epoch)
            epochs.append(load(loader))
    farthest = [0.0, 0.0]
    for their, other, *ours in zip(theirs, compat, *epochs, strict=True):
        video = videos[int(their["video_ids"])]
        try:
            farthest[0] = max(farthest[0], check_compat(their, other))
            for each in ours:
                farthest[1] = max(farthest[1], check_dataset(video, their, each))
        except ValueError as error:
            sys.exit(f"{video}: {error}")
        if any(not torch.equal(ours[0][name], ours[2][name]) for name in ours[0]):
            sys.exit(f"{video}: the clip differs in the second pass over epoch 0")
    try:
        check_draws([*epochs[0], *epochs[1]])
    except ValueError as error:
        sys.exit(str(error))
    print(f"{count} draws of {len(videos)} videos: the same videos and labels in all loaders")
    print("compat.decord: the same frames and crops; VideoDataset: a clip that the original can choose at each draw,")
    print("all different, and the same in a second pass over the epoch")
    print(f"largest mean difference of the pixels {farthest[0]:.2f} and {farthest[1]:.2f} of 255")


if __name__ == "__main__":
    main()
