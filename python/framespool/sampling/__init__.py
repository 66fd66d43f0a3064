"""Rules that make clips out of videos.

A rule is a small immutable object that compares by value and can be pickled. Frames are counted from 0, in
presentation order; ``stride`` is the distance between two frames of a clip.
"""

from __future__ import annotations

from framespool.sampling._base import Sample, Sampling
from framespool.sampling._presets import Preset, preset, presets
from framespool.sampling._rules import Random, Windows, random, windows

__all__ = ["Preset", "Random", "Sample", "Sampling", "Windows", "preset", "presets", "random", "windows"]
