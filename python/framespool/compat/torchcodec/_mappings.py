"""Lists of frames that users bring along."""

from __future__ import annotations

import bisect
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mapped:
    """Frames of a video, in presentation order: ``places`` in the video, times in seconds, when the last one leaves."""

    places: list[int]
    pts: list[float]
    durations: list[float]
    end: float


def mapped_frames(mappings: Any, pts: list[float], time_base: tuple[int, int]) -> Mapped:
    """The frames that a mapping lists, found among those of the video, whose times are ``pts``.

    Raises ValueError for what is no such mapping, and where it lists a frame that the video does not have: it is of
    another video or of another stream.
    """
    try:
        found = json.load(mappings) if hasattr(mappings, "read") else json.loads(mappings)
    except ValueError as reason:
        raise ValueError(f"Invalid custom frame mappings: no JSON, as text or in a file object: {reason}") from reason
    rows = found.get("frames") if isinstance(found, dict) else None
    if not rows:
        raise ValueError(
            "Invalid custom frame mappings: The input is empty or missing the required 'frames' key; give what "
            "ffprobe -show_frames -of json writes"
        )
    first = rows[0]
    time = next((key for key in ("pts", "pkt_pts") if key in first), None)
    stay = next((key for key in ("duration", "pkt_duration") if key in first), None)
    if time is None or stay is None or "key_frame" not in first:
        raise ValueError(
            "Invalid custom frame mappings: 'pts' (or 'pkt_pts'), 'duration' (or 'pkt_duration') and 'key_frame' "
            f"keys are required in the frame metadata. The first frame has {sorted(first)}"
        )
    try:
        ticks = sorted((int(row[time]), int(row[stay])) for row in rows)
    except (KeyError, TypeError, ValueError) as reason:
        raise ValueError(
            f"Invalid custom frame mappings: a frame without whole numbers of ticks as {time!r} and {stay!r}: "
            f"{reason!r}"
        ) from reason
    num, den = time_base
    places = []
    for tick, _ in ticks:
        # Times in seconds are rounded; ticks lie further apart than that.
        place = bisect.bisect_left(pts, (tick - 0.5) * num / den)
        if place == len(pts) or pts[place] > (tick + 0.5) * num / den:
            raise ValueError(
                f"Invalid custom frame mappings: the video has no frame at {tick} ticks of {num}/{den} s; were they "
                "made from another file or stream?"
            )
        places.append(place)
    return Mapped(
        places=places,
        pts=[pts[place] for place in places],
        durations=[stay * num / den for _, stay in ticks],
        end=(ticks[-1][0] + ticks[-1][1]) * num / den,
    )
