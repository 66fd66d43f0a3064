"""The videos among the test media: one table of recipes, most of them a command of the ffmpeg program.

A recipe names its inputs in braces: ``{bunny}`` is a real clip, ``{derived/base_640x360.mp4}`` another generated file.
`streams.py` writes what no encoder can. One encoder thread each, so that the bytes do not depend on the number of
cores.
"""

from __future__ import annotations

import videos_codecs
import videos_containers
import videos_headers
from recipe import REAL, Recipe

__all__ = ["REAL", "Recipe", "recipes"]


def recipes() -> list[Recipe]:
    """All videos; inputs come before the files created from them."""
    found: list[Recipe] = []

    def add(path: str, notes: str, command: str = "", **keywords) -> None:
        found.append(Recipe(path, notes, command, **keywords))

    videos_codecs.recipes(add)
    videos_containers.recipes(add)
    videos_headers.recipes(add)
    return found
