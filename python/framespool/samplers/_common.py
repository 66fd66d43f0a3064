"""Arguments that several clip samplers share: the spacing of frames, and what replaces frames past the end."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

from framespool._common.validate_args import integer, keyword_hints, number
from framespool.errors import ArgumentError

T = TypeVar("T")

WindowPadding = Literal["drop", "blank", "edge", "reflect_101", "reflect_1001"]
Padding = Literal["repeat", "loop", "wrap", "edge", "blank", "drop", "error"]
Group = Literal["independent", "partitioned"]
SegmentMode = Literal["random", "middle"]

#: Keywords of other libraries for the arguments of clip samplers.
KEYWORD_HINTS = {
    **dict.fromkeys(("short", "pad_mode"), "padding="),
    **dict.fromkeys(("num_frames", "clip_len", "clip_length", "frames_per_clip"), "sequence_length="),
    **dict.fromkeys(("num_frames_per_clip", "clip_length_in_frames"), "sequence_length="),
    **dict.fromkeys(("frame_interval", "sampling_rate", "frame_step", "interval"), "stride="),
    "num_indices_between_frames": "stride=",
    **dict.fromkeys(("frame_rate", "target_fps", "video_fps"), "fps="),
    **dict.fromkeys(("clip_duration", "seconds_per_clip"), "duration_seconds="),
    **dict.fromkeys(("num_clips", "num_clips_per_video", "max_clips_per_video"), "clips_per_video="),
    **dict.fromkeys(("frames_between_clips", "step_between_clips"), "step= of Windows"),
}


def hinted(sampler: type[T]) -> type[T]:
    """Decorates a class so that keywords of other libraries are refused with what to write instead.

    Args:
        sampler: The class.

    Returns:
        The class.
    """
    sampler.__init__ = keyword_hints(KEYWORD_HINTS)(sampler.__init__)  # type: ignore[method-assign]
    return sampler


def set_fields(rule: Any, **values: Any) -> None:
    """Writes validated values to a frozen dataclass, so that equivalent clip samplers compare equal.

    Args:
        rule: The clip sampler.
        values: Values by field.
    """
    for name, value in values.items():
        object.__setattr__(rule, name, value)


def positive_integers(rule: Any, *names: str) -> None:
    """Checks that fields are ints of at least 1.

    Args:
        rule: The clip sampler.
        names: The fields.

    Raises:
        ArgumentError: If one is not.
    """
    set_fields(rule, **{name: integer(name, getattr(rule, name), least=1) for name in names})


def validate_spacing(rule: Any) -> None:
    """Checks that at most one of `stride`, `fps` and `duration_seconds` is given; without any the stride is 1.

    Args:
        rule: The clip sampler.

    Raises:
        ArgumentError: If more than one is given, or one is invalid.
    """
    values = {name: getattr(rule, name) for name in ("stride", "fps", "duration_seconds")}
    given = {name: value for name, value in values.items() if value is not None}
    if len(given) > 1:
        shown = " and ".join(f"{name}={value!r}" for name, value in given.items())
        raise ArgumentError(f"give one of stride, fps and duration_seconds, got {shown}")
    if rule.fps is not None:
        set_fields(rule, fps=number("fps", rule.fps, above=0))
    elif rule.duration_seconds is not None:
        set_fields(rule, duration_seconds=number("duration_seconds", rule.duration_seconds, above=0))
    else:
        set_fields(rule, stride=integer("stride", 1 if rule.stride is None else rule.stride, least=1))
