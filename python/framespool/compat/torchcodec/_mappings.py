"""Custom frame mappings: lists of frames that the caller provides."""

from __future__ import annotations

import bisect
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mapped:
    """Frames of a video, in presentation order.

    Attributes:
        places: Frame indices in the video.
        pts: Presentation times in seconds.
        durations: Durations in seconds.
        end: Time in seconds at which the last frame ends.
    """

    places: list[int]
    pts: list[float]
    durations: list[float]
    end: float


def mapped_frames(mappings: Any, pts: list[float], time_base: tuple[int, int]) -> Mapped:
    """Finds the frames of a mapping among those of a video.

    Args:
        mappings: JSON, as text, bytes or a file object.
        pts: Presentation times of the video's frames, in seconds.
        time_base: Seconds per tick, (numerator, denominator).

    Returns:
        The frames.

    Raises:
        ValueError: If the mapping is invalid, or lists a frame that the video does not have: it then belongs to another
            video or stream.
    """
    try:
        found = json.load(mappings) if hasattr(mappings, "read") else json.loads(mappings)
    except ValueError as reason:
        raise ValueError(
            f"Invalid custom frame mappings: must be JSON, as text or in a file object: {reason}"
        ) from reason
    rows = found.get("frames") if isinstance(found, dict) else None
    if not rows:
        raise ValueError(
            "Invalid custom frame mappings: The input is empty or missing the required 'frames' key; pass the "
            "output of ffprobe -show_frames -of json"
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
            f"Invalid custom frame mappings: {time!r} and {stay!r} of each frame must be integers (ticks): {reason!r}"
        ) from reason
    num, den = time_base
    places = []
    for tick, _ in ticks:
        # Times in seconds are rounded; the rounding is smaller than a tick.
        place = bisect.bisect_left(pts, (tick - 0.5) * num / den)
        if place == len(pts) or pts[place] > (tick + 0.5) * num / den:
            raise ValueError(
                f"Invalid custom frame mappings: the video has no frame at {tick} ticks of {num}/{den} s; create "
                "them from this file and stream"
            )
        places.append(place)
    return Mapped(
        places=places,
        pts=[pts[place] for place in places],
        durations=[stay * num / den for _, stay in ticks],
        end=(ticks[-1][0] + ticks[-1][1]) * num / den,
    )
