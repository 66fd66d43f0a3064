"""Checks the random clips of framespool against the rules of the original, and their pixels against decord's.

The random numbers of both loaders differ. So each clip that framespool delivers is made again with the functions of the
original: from the same first frame and with the same crop.

python examples/recipes/vjepa2/compare.py VIDEO...
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import original  # noqa: E402
import ported  # noqa: E402
import torch  # noqa: E402
from common import write_list  # noqa: E402
from decord import VideoReader  # noqa: E402

#: Largest mean difference of the pixels of a clip, of 255. Most of it is color conversion: decord's result is 1.2
#: darker than the exact formula, which framespool has.
PIXELS = 1.5
#: Levels of 255 per unit of a normalized value.
LEVELS = 255 * torch.tensor(original.STD)[:, None, None, None]
EPOCHS = 2


def crop_of(geometry: torch.Tensor) -> tuple[tuple[int, int, int, int], bool]:
    """The crop (left, top, right, bottom) of an affine map from the frame to the result, and whether the map flips."""
    (x, _, shift), (_, y, top) = geometry.tolist()
    sides = sorted((-shift / x, (original.SIZE - shift) / x))
    box = (sides[0], -top / y, sides[1], (original.SIZE - top) / y)
    return tuple(round(value) for value in box), x < 0


def check_clips(video: Path, indices: torch.Tensor, geometry: torch.Tensor, frames: torch.Tensor) -> float:
    """Checks the clips of one video.

    Args:
        video: The file.
        indices: (C, T) int64.
        geometry: (C, 2, 3) float64.
        frames: (C, 3, T, H, W) float32, normalized.

    Returns:
        The largest mean difference of the pixels of a clip from the original's, of 255.

    Raises:
        ValueError: If the original could not choose these frames, or if pixels differ too much.
    """
    reader = VideoReader(str(video), num_threads=1)
    part, far = len(reader) // original.CLIPS, 0.0
    for clip, (chosen, where, pixels) in enumerate(zip(indices.tolist(), geometry, frames, strict=True)):
        offset = chosen[0] - clip * part
        in_part = 0 <= offset < original.num_offsets(len(reader))
        if not in_part or chosen != original.clip_indices(len(reader), clip, offset):
            raise ValueError(f"{chosen} is not clip {clip} of {len(reader)} frames")
        again = original.crop(reader.get_batch(chosen).asnumpy(), *crop_of(where))
        far = max(far, float(((again - pixels) * LEVELS).abs().mean()))
    if not far <= PIXELS:
        raise ValueError(f"the pixels of a clip differ by {far:.2f} on average")
    return far


def main() -> None:
    """Checks two epochs, and exits with 1 at the first clip that is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path, help="video files")
    videos = parser.parse_args().videos
    farthest, clips = 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        loader = ported.make_loader(write_list(Path(folder) / "train.csv", videos), 1, batch_size=min(2, len(videos)))
        for _ in range(EPOCHS):
            for batch in loader:
                ours = batch.torch()
                rows = (ours.indices, ours.geometry, ours.frames)
                if ours.labels.tolist() != ours.video_ids.tolist():
                    sys.exit(f"labels {ours.labels.tolist()} of the videos {ours.video_ids.tolist()}")
                for number, *row in zip(ours.video_ids.tolist(), *rows, strict=True):
                    try:
                        farthest = max(farthest, check_clips(videos[number], *row))
                    except ValueError as error:
                        sys.exit(f"{videos[number]}: {error}")
                    clips += original.CLIPS
    print(f"{clips} clips in rows of {original.CLIPS}: frames that the original can choose, labels equal")
    print(f"largest mean difference of the pixels {farthest:.2f} of 255")


if __name__ == "__main__":
    main()
