"""The grouped shuffle of 100,000 videos: what a rank or worker decodes, and how many clips it holds, without any video.

The accounting is that of a loader which makes the clips of a video together where their packets touch, and keeps as
many finished clips as its clip cache holds; the one due last gives way.
"""

from __future__ import annotations

import heapq

import framespool as fsp
import numpy as np
import pytest

VIDEOS = 100_000
GOP, SPAN, LENGTH = 250, 61, 300  # pictures: of a GOP, of a clip, of a video
CACHED = 891  # clips of 16 RGB frames of 224 x 224 in 2 GiB, as BatchSampler assumes
LOOKAHEAD = 65536


def first_pictures(clips: np.ndarray, per_video: int, step: int) -> np.ndarray:
    """The first picture of each clip: every ``step`` pictures, or random but always the same."""
    if step:
        return clips % per_video * step
    mixed = clips.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return ((mixed >> np.uint64(32)) % np.uint64(LENGTH - SPAN)).astype(np.int64)


def decoded(first: list[int]) -> int:
    """Pictures that are decoded for clips of one video that are made together, each picture once."""
    pictures, end = 0, -1
    for start in sorted(first):
        pictures += max(0, start + SPAN - max(start // GOP * GOP, end))
        end = max(end, start + SPAN)
    return pictures


def account(clips: np.ndarray, per_video: int, cached: int, step: int = 0) -> tuple[float, int]:
    """Pictures decoded per picture needed in the middle half of a range of an epoch, and the most clips held."""
    videos, first = (clips // per_video).tolist(), first_pictures(clips, per_video, step).tolist()
    order = np.lexsort((np.arange(len(clips)), clips // per_video))
    same = (clips[order] // per_video)[1:] == (clips[order] // per_video)[:-1]
    following = np.full(len(clips), -1)
    following[order[:-1][same]] = order[1:][same]
    following = following.tolist()
    held: set[int] = set()
    latest: list[int] = []
    paid, most = np.zeros(len(clips)), 0
    for at in range(len(clips)):
        if at in held:
            held.discard(at)
            continue
        made, later, sibling = [at], [], following[at]
        while sibling >= 0 and sibling - at <= LOOKAHEAD:
            later += [] if sibling in held else [sibling]
            sibling = following[sibling]
        low, high = first[at] // GOP * GOP, first[at] + SPAN
        near: list[int] = []
        while touching := [s for s in later if first[s] // GOP * GOP <= high and first[s] + SPAN >= low]:
            near += touching
            later = [s for s in later if s not in touching]
            low = min(low, *(first[s] // GOP * GOP for s in touching))
            high = max(high, *(first[s] + SPAN for s in touching))
        for sibling in sorted(near):
            while latest and -latest[0] not in held:
                heapq.heappop(latest)
            if len(held) >= cached:
                if not latest or -latest[0] <= sibling:
                    break
                held.discard(-heapq.heappop(latest))
            held.add(sibling)
            heapq.heappush(latest, -sibling)
            made.append(sibling)
        most = max(most, len(held))
        paid[made] += decoded([first[n] for n in made]) / len(made)
    middle = slice(len(clips) // 4, len(clips) * 3 // 4)
    alone: dict[int, float] = {}
    for video in set(videos[middle]):
        own = np.arange(video * per_video, (video + 1) * per_video)
        alone[video] = decoded(first_pictures(own, per_video, step).tolist()) / per_video
    return paid[middle].sum() / sum(alone[video] for video in videos[middle]), most


def stretch(per_video: int, batch_size: int, num_workers: int, shuffle: str = "grouped") -> np.ndarray:
    """The clips of one worker of rank 3 of 8, in a range of an epoch that is 20 times as long as its clip cache."""
    sampler = fsp.order.BatchSampler(
        num_clips=VIDEOS * per_video,
        batch_size=batch_size,
        shuffle=shuffle,
        clips_per_video=per_video,
        num_shards=fsp.options.Shards(8, worker_id=num_workers - 1, num_workers=num_workers),
        shard_id=3,
        seed=1,
    )
    batches = min(len(sampler), 20 * CACHED // batch_size)
    begin = (len(sampler) - batches) // 2
    return np.concatenate([sampler.batch(n, epoch=2) for n in range(begin, begin + batches)])


@pytest.mark.parametrize(
    ("per_video", "batch_size", "num_workers"), [(16, 8, 1), (4, 8, 1), (64, 8, 1), (64, 8, 2), (16, 32, 2)]
)
def test_each_picture_is_decoded_once_and_clips_fit(per_video, batch_size, num_workers):
    amount, most = account(stretch(per_video, batch_size, num_workers), per_video, CACHED)
    assert amount <= 1.03 and most <= CACHED, (amount, most)


def test_chunks_that_would_not_fit_are_shortened():
    """32 streams of a worker would begin 32 chunks of 64 clips, more than twice what it holds."""
    clips = stretch(64, 32, 4)
    amount, most = account(clips, 64, CACHED, step=32)
    assert amount <= 1.1 and most <= CACHED, (amount, most)


def test_a_full_shuffle_decodes_each_clip_alone():
    amount, _ = account(stretch(16, 8, 1, "full"), 16, CACHED)
    assert amount > 8


def test_clips_are_held_without_a_limit_as_the_block_allows():
    """The clips that would be held in unlimited memory fit too: nothing depends on eviction."""
    for per_video, num_workers in ((16, 1), (64, 2)):
        _, most = account(stretch(per_video, 8, num_workers), per_video, 10**9)
        assert 0.6 * CACHED < most <= 1.01 * CACHED, (per_video, most)
