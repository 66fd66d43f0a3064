"""Checks the batches of framespool against the original's: in evaluation one by one, in training by its rules.

The random numbers of both loaders differ in training. So it is checked that the original could choose the frames and
the crops, and that labels are mixed with the parts that the batch reports.

python examples/recipes/kinetics_csv/compare.py VIDEO...
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import framespool as fsp  # noqa: E402
import original  # noqa: E402
import pandas as pd  # noqa: E402
import ported  # noqa: E402
import torch  # noqa: E402
from common import write_table  # noqa: E402
from torchcodec.decoders import VideoDecoder  # noqa: E402

#: Largest mean difference of the pixels of the views of a video, of 255. Most of it is color conversion: torchcodec's
#: result is darker than the exact formula, which framespool has.
PIXELS = 1.5
#: Levels of 255 per unit of a normalized value.
LEVELS = 255 * torch.tensor(original.STD)[:, None, None, None]
EPOCHS = 2


def check_classes(table: Path) -> list[str]:
    """Checks that both number the classes of both splits equally, also if a split has a file of its own.

    Returns:
        The classes that no video of the split `val` has.
    """
    rows = pd.read_csv(table)
    datasets = {split: ported.make_loader(table, split, 1).dataset for split in ("train", "val")}
    own = table.with_name("val.csv")
    rows[rows["split"] == "val"].to_csv(own, index=False)
    datasets["a file of its own"] = fsp.datasets.csv(own, label="label name", classes=datasets["train"].classes)
    for name, dataset in datasets.items():
        theirs = original.Clips(table, "train" if name == "train" else "val")
        expected, found = (theirs.classes, theirs.labels), (dataset.classes, [label for _, label in dataset])
        if expected != found:
            sys.exit(f"{name}: classes or labels differ: {expected} and {found}")
    return [name for number, name in enumerate(theirs.classes) if number not in theirs.labels]


def check_clip(path: str, indices: list[int], geometry: torch.Tensor) -> None:
    """Checks that the original could choose the frames and the crop of a clip.

    Args:
        path: The video.
        indices: The frames.
        geometry: (2, 3) float64, the map from the video's frame to the crop.

    Raises:
        ValueError: If it could not.
    """
    decoder = VideoDecoder(path, num_ffmpeg_threads=1)
    last = original.last_start(len(decoder))
    if not 0 <= indices[0] <= last or indices != original.clip_indices(len(decoder), indices[0]):
        raise ValueError(f"{indices} is no clip of {len(decoder)} frames")
    width, height = decoder.metadata.width, decoder.metadata.height
    corners = geometry @ torch.tensor([[0, width], [0, height], [1, 1]], dtype=torch.float64)
    (left, right), (top, bottom) = sorted(corners[0].tolist()), corners[1].tolist()
    if round(min(right - left, bottom - top)) not in original.SHORT_SIDES:
        raise ValueError(f"the frame is resized to {right - left:.1f} x {bottom - top:.1f}")
    if max(left, top) > 0.01 or min(right, bottom) < original.CROP - 0.01:
        raise ValueError(f"the crop is not within the frame, whose corners are at {corners.tolist()}")


def check_training(table: Path, batch_size: int) -> int:
    """Checks the clips and the labels of some epochs, and exits with 1 at the first that is wrong.

    Returns:
        The number of clips.
    """
    theirs, loader, clips = original.Clips(table, "train"), ported.make_loader(table, "train", batch_size), 0
    for epoch in range(EPOCHS):
        seen: list[int] = []
        for batch in loader:
            if batch.frames.shape[1:] != (3, original.FRAMES, original.CROP, original.CROP):
                sys.exit(f"epoch {epoch}: the frames have the shape {batch.frames.shape}")
            for number, *clip in zip(batch.video_ids.tolist(), batch.indices.tolist(), batch.geometry, strict=True):
                try:
                    check_clip(theirs.paths[number], *clip)
                except ValueError as error:
                    sys.exit(f"{theirs.paths[number]}: {error}")
            hard = torch.eye(len(theirs.classes))[[theirs.labels[number] for number in batch.video_ids]]
            part = batch.mix_weights[:, None]
            mixed = part * hard + (1 - part) * hard[batch.mixed_with]
            soft = mixed * (1 - original.SMOOTHING) + original.SMOOTHING / len(theirs.classes)
            if not torch.allclose(batch.labels, soft) or (batch.mixed_with == torch.arange(len(soft))).any():
                sys.exit(f"epoch {epoch}: labels are {batch.labels.tolist()} and not {soft.tolist()}")
            seen += batch.clip_ids.tolist()
        if len(set(seen)) != len(seen) or len(seen) != len(loader) * batch_size:
            sys.exit(f"epoch {epoch}: a clip is missing, or comes twice: {sorted(seen)}")
        clips += len(seen)
    return clips


def check_evaluation(table: Path) -> tuple[int, float]:
    """Compares the views of each video, and exits with 1 at the first video that differs.

    Returns:
        The number of videos, and the largest mean difference of the pixels of a video.
    """
    videos, farthest = 0, 0.0
    both = zip(original.make_loader(table, "val", 0, 2), ported.make_loader(table, "val", 2), strict=True)
    for theirs, ours in both:
        own = ~ours.padding
        for name in ("labels", "indices"):
            if theirs[name].tolist() != ours[name][own].tolist():
                sys.exit(f"video {videos}: {name} differ: {theirs[name].tolist()} and {ours[name][own].tolist()}")
        frames = ours.frames[own]
        if theirs["frames"].shape != frames.shape:
            sys.exit(f"video {videos}: sizes differ: {theirs['frames'].shape} and {frames.shape}")
        far = float(((theirs["frames"] - frames) * LEVELS).abs().flatten(1).mean(1).max())
        if not far <= PIXELS:
            sys.exit(f"video {videos}: the pixels differ by {far:.2f} on average")
        videos, farthest = videos + len(frames), max(farthest, far)
    return videos, farthest


def main() -> None:
    """Compares, and exits with 1 at the first difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path, help="video files, at least two")
    with tempfile.TemporaryDirectory() as folder:
        table = write_table(Path(folder) / "videos.csv", parser.parse_args().videos)
        print(f"equal classes in both splits; {check_classes(table)} are not in val")
        print(f"{check_training(table, 2)} training clips: frames and crops that the original can choose, labels equal")
        videos, farthest = check_evaluation(table)
    print(f"{videos} videos of val, each once: the same frames, sizes and labels")
    print(f"largest mean difference of the pixels {farthest:.2f} of 255")


if __name__ == "__main__":
    main()
