"""The preset after TSN (yjxiong/tsn-pytorch, ``dataset.py``)."""

from __future__ import annotations

from framespool.samplers._preset_spec import PresetSpec

_TSN = """TSN's and TSM's ``TSNDataSet``: one clip of ``num_segments * new_length`` frames, ``new_length`` consecutive
frames from each of ``num_segments`` parts: at a random position in training (``random_shift``), around the middle
otherwise. For RGB differences the original increases ``new_length`` by one.

Short videos: segments start at frame 0, and the last frame repeats.

Draws in training: for each segment an int below the length of a part; where parts would be empty, below the
number of starts, then sorted; none for a short video."""

PRESETS = {
    "tsn": PresetSpec(_TSN, {"num_segments": 3, "new_length": 1, "random_shift": True, "test_mode": False}),
}
