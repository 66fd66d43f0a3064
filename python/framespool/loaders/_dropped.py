"""Clips and videos that a loader omits, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from framespool.datasets._failures import failure_record

_TOO_SHORT = "too short: the clip sampler gives it no clip"
_INCOMPLETE = 'last_batch="drop": clips that do not fill a batch of all ranks'


def videos_with_clips(video_of: Callable[[int], int], num_clips: int, clips_per_video: int | None) -> set[int]:
    """Finds the videos that have clips.

    Args:
        video_of: Returns the video of a clip; clips are numbered in the order of the videos.
        num_clips: Number of clips.
        clips_per_video: Clips of each video that has any, if they are equally many.

    Returns:
        Indices of the videos.
    """
    if num_clips == 0:
        return set()
    first, last = (0, video_of(0)), (num_clips - 1, video_of(num_clips - 1))
    found, ranges = {first[1], last[1]}, [(first, last)]
    while ranges:
        low, high = ranges.pop()
        between = high[1] - low[1]
        if clips_per_video is not None and high[0] // clips_per_video - low[0] // clips_per_video == between:
            found.update(range(low[1], high[1]))
        elif between > 1 and high[0] - low[0] > 1:
            at = (low[0] + high[0]) // 2
            middle = (at, video_of(at))
            found.add(middle[1])
            ranges += [(low, middle), (middle, high)]
    return found


def dropped(loader: Any) -> list[dict[str, Any]]:
    """Lists the videos and clips that a loader omits.

    Args:
        loader: The loader.

    Returns:
        The result of `ClipLoader.dropped()`.
    """
    found, failures, dataset = [], loader.failures(), loader.dataset
    for failure in failures:
        if loader._settings["options"]["on_error"] == "skip" or failure["clips"] == 0:
            named = {name: value for name, value in failure.items() if name not in ("kind", "message", "clips")}
            found.append({**named, "reason": failure["message"], "clips": failure["clips"]})
    each = loader._clips_per_video()
    if loader.num_clips != len(dataset) * (each or 0):
        present = videos_with_clips(
            lambda clip: int(loader._native.describe_clip(0, clip, 0, 0, 0)["video_id"]), loader.num_clips, each
        )
        present |= {failure["video_id"] for failure in failures}
        for video in range(len(dataset)):
            if video not in present:
                named = failure_record(dataset.samples[video][0], "clip_sampling")
                found.append({"video_id": video, **named, "reason": _TOO_SHORT, "clips": 0})
    found.sort(key=lambda entry: entry["video_id"])
    clips = loader._incomplete_clips() if loader._settings["order"]["last_batch"] == "drop" else 0
    if clips:
        found.append({"video_id": None, "path": None, "reason": _INCOMPLETE, "clips": clips})
    return found
