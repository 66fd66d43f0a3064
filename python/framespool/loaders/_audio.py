"""Batches of windows of audio, in order."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Literal

from framespool import samplers
from framespool._common.validate_args import choice, integer, keyword_hints, number
from framespool.datasets import Dataset
from framespool.datasets._dataset import as_dataset
from framespool.datasets._sample_list import SampleList
from framespool.errors import ArgumentError
from framespool.loaders import _checkpoint
from framespool.loaders._base import BaseLoader
from framespool.options import Audio, Cache, GroupedShuffle, Index, OnError, Shards
from framespool.options._loader import KEYWORD_HINTS, LoaderOptions
from framespool.options._order import Shuffle
from framespool.video import AudioBatch
from framespool.video._sources import VideoSegment

_KEYWORD_HINTS = {
    **KEYWORD_HINTS,
    **dict.fromkeys(("seconds", "duration", "chunk_size", "segment_length"), "audio=Audio(seconds=...)"),
    **dict.fromkeys(("sample_rate", "channels", "shift", "gain"), "audio=, with an option of that name"),
    **dict.fromkeys(("hop", "hop_length", "hop_seconds", "stride"), "step_seconds="),
    **dict.fromkeys(("clips_per_video", "num_windows"), "windows_per_file="),
    "transforms": "nothing: apply a function to batch.audio",
    "clip_sampler": "windows=",
}


class AudioLoader(BaseLoader[AudioBatch]):
    """Iterates over batches of windows of audio, from audio files or from the audio of videos.

    Each window has the same length, or is a whole file. Samples are exact, as with `video.AudioFile`: a window is bit
    for bit the cut of the whole audio, also resampled. No picture of a video is decoded. Order, shards, epochs,
    checkpoints, errors and `stats()` are those of `framespool.ClipLoader`; a window counts as a clip. See
    docs/howto/audio.md.

    Args:
        dataset: A `datasets.Dataset` (`framespool.datasets.audio_folder` reads class folders), or a list of paths or of
            `(path, label)`. Bytes, a `datasets.ArchiveMember` or a `datasets.VideoSegment` in seconds may replace a
            path.
        audio: Sample rate, channels and length of the windows: see `Audio`. Without `seconds`, a window is a whole
            file, or the whole segment of one, and shorter ones of a batch are padded with zeros.
        batch_size: Windows per batch of this rank.
        windows: Where windows begin.
            - `"random"`: `windows_per_file` windows of each file, drawn from (seed, epoch, window). Each sample from
              which a whole window fits is equally likely.
            - `"uniform"`: `windows_per_file` windows of each file, from its begin to its end at equal distances; a
              single one is in the middle.
            - `"consecutive"`: one every `step_seconds`, from the begin of the file on. All files are indexed first.
        windows_per_file: Number of windows of each file, with `"random"` and `"uniform"`.
        step_seconds: Seconds from begin to begin of `"consecutive"` windows; rounded to a sample for each window.
            `None`: the length of a window.
        padding: What replaces samples after the end of the file; `batch.audio_mask` is false for them.
            - `"zeros"`: zeros. Consecutive windows begin at every step inside the file.
            - `"loop"`: the audio again, from its begin on.
            - `"drop"`: windows that pass the end are omitted, and files that are too short. All files are indexed
              first.
        shuffle: Order of the windows in an epoch, as for `framespool.ClipLoader`; `True` is `"full"`. Windows share no
            decoding, so there is no `"grouped"`.
        shard_id: Rank of this process, from 0. Required if there are several.
        num_shards: Number of ranks, or `options.Shards`, as for `framespool.ClipLoader`.
        seed: Seed of the shuffle and of random windows, shifts and gains, or `None`, as for `framespool.ClipLoader`.
        last_batch: `"partial"`, `"drop"` or `"fill"`, as for `framespool.ClipLoader`.
        on_error: `"raise"`, `"skip"`, `"replace"` or an `options.OnError`, as for `framespool.ClipLoader`.
        num_threads: Worker threads. `None`: as for `framespool.ClipLoader`.
        prefetch_batches: Batches made ahead.
        index: The index cache, as for `framespool.ClipLoader`; it keeps the table of packets of each file.

    Raises:
        ArgumentError: If an argument is invalid.
        NoAudioError: While iterating, or while files are indexed, if a file has no audio, unless `audio` has
            `missing="zeros"`.

    Example:
        >>> import framespool as fsp
        >>> dataset = fsp.datasets.audio_folder("sounds/")
        >>> audio = fsp.Audio(sample_rate=16000, channels=1, seconds=0.5)
        >>> loader = fsp.AudioLoader(dataset, audio, batch_size=4, windows_per_file=2, shuffle="full", seed=0)
        >>> len(loader)
        2
        >>> batch = next(iter(loader))
        >>> batch.audio.shape, batch.audio_mask.shape, batch.labels.shape
        ((4, 1, 8000), (4, 8000), (4,))
    """

    @keyword_hints(_KEYWORD_HINTS)
    def __init__(
        self,
        dataset: Dataset | Iterable[Any],
        audio: Audio,
        *,
        batch_size: int,
        windows: Literal["random", "uniform", "consecutive"] = "random",
        windows_per_file: int = 1,
        step_seconds: float | None = None,
        padding: Literal["zeros", "loop", "drop"] = "zeros",
        shuffle: Shuffle = False,
        shard_id: int | None = None,
        num_shards: int | Shards = 1,
        seed: int | None = 0,
        last_batch: Literal["partial", "drop", "fill"] = "partial",
        on_error: Literal["raise", "skip", "replace"] | OnError = "raise",
        num_threads: int | None = None,
        prefetch_batches: int = 2,
        index: str | os.PathLike[str] | Literal[False] | Index | None = None,
    ) -> None:
        if not isinstance(audio, Audio):
            raise ArgumentError(f"audio must be Audio(...), got {audio!r}")
        if audio.align != "start":
            raise ArgumentError(f"align={audio.align!r} is for the audio of clips; windows begin where windows= says")
        files = as_dataset(dataset)
        if files._has_sources:
            raise ArgumentError("AudioLoader takes samples of one file each; use ClipLoader for Sources")
        known = isinstance(files.samples, SampleList) and files.samples.table.are_whole
        for place, (source, _) in enumerate([] if known else files.samples):
            if isinstance(source, VideoSegment) and source.start_seconds is None and source.end_seconds is None:
                raise ArgumentError(f"dataset sample {place}: a segment of audio needs seconds, got {source!r}")
        integer("batch_size", batch_size)
        if isinstance(shuffle, GroupedShuffle) or (isinstance(shuffle, str) and shuffle == "grouped"):
            raise ArgumentError('windows of audio share no decoding; use shuffle="full" in place of a grouped shuffle')
        starts = _starts(audio, windows, windows_per_file, step_seconds)
        settings = {"starts": starts, "padding": choice("padding", padding, ("zeros", "loop", "drop"))}
        options = LoaderOptions.of(
            locals(),
            shuffle="full" if shuffle is True else shuffle,
            audio={**audio._for_engine(None), "windows": settings},
            transforms=None,
            device="cpu",
            cache=Cache(0, lookahead=0),  # windows share no decoded samples, so none wait in memory
            layout="NTCHW",
            dtype="uint8",
            collate="auto",
            repeats=1,
            pin_memory=False,
            index=index if isinstance(index, Index) else Index(index),
        )
        self._sample_rate = int(audio.sample_rate)
        self._windows_per_file = None if "consecutive" in starts else int(windows_per_file)
        # The clip sampler of the engine selects frames, of which windows have none.
        super().__init__(files, samplers.Indices([0])._spec(), options)

    def _extra_config(self) -> dict[str, str]:
        return {"audio": _checkpoint.text(self._settings["options"]["audio"])}

    @property
    def num_windows(self) -> int:
        """Number of windows in the dataset, over all ranks."""
        return self.num_clips

    def _clips_per_video(self) -> int | None:
        return self._windows_per_file

    def _batch(self, epoch: int, made: list[dict[str, Any]]) -> AudioBatch:
        [first] = made
        return AudioBatch(
            audio=first["audio"],
            audio_mask=first["audio_mask"],
            file_ids=first["video_ids"],
            window_ids=first["clip_ids"],
            requested_ids=first["requested_ids"],
            start_seconds=first["audio_begins"],
            padding=first["padding"],
            sample_rate=self._sample_rate,
            **self._columns(first, first["video_ids"]),
        )

    def describe_clip(
        self, clip_id: int, *, epoch: int | None = None, occurrence: int = 0, **more: int
    ) -> dict[str, Any]:
        """Reports what is determined about a window before it is decoded.

        Args:
            clip_id: Window of the dataset, as in `batch.window_ids`.
            epoch: As for `ClipLoader.describe_clip()`.
            occurrence: As for `ClipLoader.describe_clip()`.

        Returns:
            dict: `path`, `file_id`, `label` and `start_seconds`.

        Raises:
            ArgumentError: If an argument is not an int in its range.
            Error: If the file cannot be opened.
        """
        found = super().describe_clip(clip_id, epoch=epoch, occurrence=occurrence, **more)
        return {
            "path": found["path"],
            "file_id": found["video_id"],
            "label": found["label"],
            "start_seconds": found["start_seconds"],
        }


def _starts(audio: Audio, windows: str, windows_per_file: int, step_seconds: float | None) -> Any:
    """Where windows begin, as the engine takes it."""
    choice("windows", windows, ("random", "uniform", "consecutive"))
    count = integer("windows_per_file", windows_per_file, least=1)
    if step_seconds is not None and windows != "consecutive":
        raise ArgumentError(f'step_seconds needs windows="consecutive", got windows={windows!r}')
    if count > 1 and windows == "consecutive":
        raise ArgumentError('windows_per_file is for windows="random" and "uniform"; the others follow from the length')
    if audio.seconds is None:
        if count > 1 or windows == "consecutive":
            raise ArgumentError(
                "audio without seconds means whole files; give Audio(seconds=...), the length of a window"
            )
        return "whole"
    least = 1 / audio.sample_rate
    number("seconds", audio.seconds, least=least)
    if windows == "consecutive":
        step = audio.seconds if step_seconds is None else number("step_seconds", step_seconds, least=least, most=1e6)
        return {"consecutive": float(step)}
    return {windows: count}
