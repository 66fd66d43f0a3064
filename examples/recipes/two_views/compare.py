"""Checks the random clips of framespool against the rules of the original, and their pixels against torchcodec's.

The random numbers of both loaders differ. So each clip that framespool delivers is made again with the functions of the
original: from the same first frame and with the same crop.

python examples/recipes/two_views/compare.py VIDEO...
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
from torchcodec.decoders import VideoDecoder  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

#: Largest mean difference of the pixels of a clip, of 255: framespool resizes the planes, before it converts colors.
#: In small crops, which are not reduced, it is up to 1.8.
PIXELS = 2.0
EPOCHS = 2


def crop(frames: torch.Tensor, geometry: torch.Tensor, size: int) -> torch.Tensor:
    """Crops, resizes and flips the frames of a clip as an affine map from the frame to the result does."""
    (x, _, shift), (_, y, top) = geometry.tolist()
    left, right = sorted((-shift / x, (size - shift) / x))
    box = [round(value) for value in (-top / y, left, size / y, right - left)]
    frames = v2.functional.resized_crop(frames, *box, [size, size], antialias=True)
    return frames.flip(-1) if x < 0 else frames


def check_clips(
    video: Path, view: original.View, indices: torch.Tensor, geometry: torch.Tensor, frames: torch.Tensor
) -> float:
    """Checks the clips of one view of a video.

    Args:
        video: The file.
        view: The view.
        indices: (C, T) int64.
        geometry: (C, 2, 3) float64.
        frames: (C, T, 3, H, W) uint8.

    Returns:
        The largest mean difference of the pixels of a clip from the original's, of 255.

    Raises:
        ValueError: If the original could not choose these clips, if all are the same, or if pixels differ too much.
    """
    decoder = VideoDecoder(video, num_ffmpeg_threads=1, seek_mode="approximate")
    count, clips = len(decoder), indices.tolist()
    for clip in clips:
        if not 0 <= clip[0] < view.num_starts(count) or clip != view.clip_indices(count, clip[0]):
            raise ValueError(f"{clip} is no clip of {count} frames")
    if len(clips) != view.clips:
        raise ValueError(f"{len(clips)} clips in place of {view.clips}")
    if view.num_starts(count) > 1 and all(clip == clips[0] for clip in clips) and len(geometry.unique(dim=0)) == 1:
        raise ValueError("all clips are the same")
    far = 0.0
    for decoded, where, pixels in zip(original.decode(decoder, clips), geometry, frames, strict=True):
        again = crop(decoded, where, view.size)
        far = max(far, float((again.float() - pixels.float()).abs().mean()))
    if not far <= PIXELS:
        raise ValueError(f"the pixels of a clip differ by {far:.2f} on average")
    return far


def main() -> None:
    """Checks two epochs, and exits with 1 at the first clip that is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path, help="video files")
    videos = parser.parse_args().videos
    farthest, rows = 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        path = write_list(Path(folder) / "train.csv", videos)
        loader = ported.make_loader(path, 2, batch_size=min(2, len(videos)))
        for _ in range(EPOCHS):
            for batch in loader:
                for name in original.VIEWS:
                    ours = batch[name].torch()
                    for number, *row in zip(
                        ours.video_ids.tolist(), ours.indices, ours.geometry, ours.frames, strict=True
                    ):
                        try:
                            farthest = max(farthest, check_clips(videos[number], original.VIEWS[name], *row))
                        except ValueError as error:
                            sys.exit(f"{videos[number]}, {name}: {error}")
                rows += len(batch)
    print(f"{rows} videos with clips of both views that the original can choose")
    print(f"largest mean difference of the pixels {farthest:.2f} of 255")


if __name__ == "__main__":
    main()
