"""Checks that framespool's frames reach torch and NumPy without a copy and with the same values.

Run by hand, on a given video or one of the corpus, with the interpreter of benches/peers/.venv.
"""

from __future__ import annotations

import sys

import numpy as np

try:
    import framespool as fsp
    import torch
except ImportError as error:
    print(f"check_torch.py: skipped ({error})")
    sys.exit()

from random_clips import corpus


def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else str(corpus() / "video" / "1080p" / "drone_city_24p.mp4")
    indices = [3, 7, 11, 40]
    video = fsp.Video(path)
    data = video.frames(indices).data

    as_numpy = np.from_dlpack(data)
    as_torch = torch.from_dlpack(data)
    assert as_torch.dtype == torch.uint8 and as_torch.ndim == 4, (as_torch.dtype, as_torch.shape)
    assert tuple(as_torch.shape) == as_numpy.shape, (as_torch.shape, as_numpy.shape)
    address = as_numpy.__array_interface__["data"][0]
    assert as_torch.data_ptr() == address, f"torch reads {as_torch.data_ptr():#x}, NumPy {address:#x}"
    assert as_torch.data_ptr() == torch.from_dlpack(data).data_ptr(), "each conversion returns another buffer"
    assert np.array_equal(as_torch.numpy(), as_numpy)

    # The tensors must outlive their source.
    kept = as_torch.clone()
    del data, as_numpy, video
    assert torch.equal(as_torch, kept)

    again = fsp.Video(path)
    for place, index in enumerate(indices):
        single = torch.from_dlpack(again.frames([index]).data)[0]
        assert torch.equal(single, kept[place]), f"frame {index} alone differs from the same frame in a clip"
    print(f"check_torch.py: passed, {tuple(kept.shape)} exported without a copy (torch {torch.__version__})")


if __name__ == "__main__":
    main()
