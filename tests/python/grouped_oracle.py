"""The grouped shuffle by its definition, in NumPy: whole streams are sorted by their keys, without windows.

The random numbers are those of the engine (src/rng.rs): ChaCha with 8 rounds, whose 256-bit key holds
seed, epoch, clip, purpose and a format mark, and whose stream number is the occurrence.
"""

from __future__ import annotations

import struct

import numpy as np

_MASK = 0xFFFFFFFF
_CHUNKS, _SPREAD, _WEIGHTS = 11, 12, 13
_ONE = 1 << 20


def _quarter(s: list[int], a: int, b: int, c: int, d: int) -> None:
    for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        s[x] = (s[x] + s[y]) & _MASK
        mixed = s[z] ^ s[x]
        s[z] = (mixed << turn | mixed >> (32 - turn)) & _MASK


def random_u64(seed: int, epoch: int, purpose: int, count: int) -> list[int]:
    """Returns the first numbers of a random stream of the engine with clip 0 and occurrence 0.

    Source: D. J. Bernstein, "ChaCha, a variant of Salsa20" (2008), with a 64-bit block counter.
    """
    key = struct.unpack("<8I", struct.pack("<QQQI4s", seed, epoch, 0, purpose, b"fsp1"))
    words: list[int] = []
    for block in range(-(-count // 8)):
        start = [*struct.unpack("<4I", b"expand 32-byte k"), *key, block & _MASK, block >> 32, 0, 0]
        state = list(start)
        for _ in range(4):
            for column in range(4):
                _quarter(state, column, column + 4, column + 8, column + 12)
            for n in range(4):
                _quarter(state, n, (n + 1) % 4 + 4, (n + 2) % 4 + 8, (n + 3) % 4 + 12)
        words += [(a + b) & _MASK for a, b in zip(state, start, strict=True)]
    return [words[2 * n] | words[2 * n + 1] << 32 for n in range(count)]


def mix(value: np.ndarray, key: int) -> np.ndarray:
    """The finalizer of SplitMix64 of value plus key."""
    z = value.astype(np.uint64) + np.uint64(key)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def permutation(seed: int, epoch: int, count: int) -> np.ndarray:
    """The order of the chunks: a Feistel network of 12 rounds with cycle walking."""
    keys = random_u64(seed, epoch, _CHUNKS, 12)
    bits = max(max(count - 1, 0).bit_length(), 8)
    low = np.uint64(bits // 2)
    low_mask, high_mask = np.uint64((1 << bits // 2) - 1), np.uint64((1 << bits - bits // 2) - 1)

    def network(value: np.ndarray) -> np.ndarray:
        upper, lower = value >> low, value & low_mask
        for a, b in zip(keys[::2], keys[1::2], strict=True):
            lower = lower ^ (mix(upper, a) & low_mask)
            upper = upper ^ (mix(lower, b) & high_mask)
        return upper << low | lower

    value = network(np.arange(count, dtype=np.uint64))
    while (outside := value >= count).any():
        value[outside] = network(value[outside])
    return value.astype(np.int64)


def copies(
    clips_per_video: list[int], weights: list[float], epoch_clips: int, replacement: bool, single: bool, key: tuple
) -> list[tuple[int, int, int]]:
    """The weighted copies of an epoch: first clip, number of clips, and earlier copies of the same in the epoch.

    Points at equal distances on a line, on which each video (or with ``single`` each clip) is as long as its weight.
    """
    units = [clips if single else min(clips, 1) for clips in clips_per_video]
    scale = 2.0**62 / sum(w * u for w, u in zip(weights, units, strict=True))
    line = []  # of each unit: first clip, number of clips, length
    first, on_line = 0, 0
    for clips, weight, count in zip(clips_per_video, weights, units, strict=True):
        each = max(int(weight * scale), 1) if weight > 0 else 0
        on_line += each * clips
        parts = [(first + n, 1) for n in range(clips)] if single else [(first, clips)] * count
        line += [(start, length, each) for start, length in parts if each]
        first += clips
    step, ends = on_line // epoch_clips, np.cumsum([each for *_, each in line], dtype=object)
    numbers = random_u64(*key, _WEIGHTS, 64)
    start = 0
    while numbers:
        product = numbers.pop(0) * ends[-1]
        if product & (2**64 - 1) >= 2**64 % ends[-1]:
            start = product >> 64
            break
    draw_key = numbers[0]
    found: list[tuple[int, int, int]] = []
    seen: dict[int, int] = {}
    while sum(length for _, length, _ in found) < epoch_clips:
        n = len(found)
        drawn = int(mix(np.array([n]), draw_key)[0]) * ends[-1] >> 64
        at = drawn if replacement else (start + n * step) % ends[-1]
        clip, length, _ = line[next(i for i, end in enumerate(ends) if end > at)]
        found.append((clip, length, n if replacement else seen.get(clip, 0)))
        seen[clip] = seen.get(clip, 0) + 1
    return found


def order(
    clips_per_video: list[int],
    num_streams: int,
    block_size: int,
    max_chunk: int,
    seed: int,
    epoch: int,
    *,
    drawn: list[tuple[int, int, int]] | None = None,
    epoch_clips: int | None = None,
) -> np.ndarray:
    """Returns the clips of an epoch in the order of all ranks together.

    Args:
        drawn: Of weighted videos: the result of :func:`copies`. Then the result has a second row with occurrences.
        epoch_clips: Clips of an epoch.
    """
    if drawn is None:
        starts = np.cumsum([0, *clips_per_video])
        drawn, plain = [(int(s), c, 0) for s, c in zip(starts, clips_per_video, strict=False)], True
    else:
        plain = False
    chunks, visits = [], []
    for first, clips, occurrence in drawn:
        parts = -(-clips // max_chunk)
        bounds = [first + clips * part // max(parts, 1) for part in range(parts + 1)]
        chunks += [np.arange(a, b) for a, b in zip(bounds, bounds[1:], strict=False)]
        visits += [occurrence] * parts
    listed_clips = sum(map(len, chunks))
    total = listed_clips if epoch_clips is None else epoch_clips
    clip_key, spread_key, rotation_key = random_u64(seed, epoch, _SPREAD, 3)
    permuted = permutation(seed, epoch, len(chunks))
    listed = [chunks[n] for n in permuted]
    visit_of = np.array([visits[n] for n in permuted], np.int64)
    starts = np.cumsum([0, *map(len, listed)])
    clip_at, chunk_at = np.zeros(listed_clips, np.int64), np.zeros(listed_clips, np.int64)
    for number, (start, clips) in enumerate(zip(starts, listed, strict=False)):
        places = np.arange(start, start + len(clips))
        clip_at[places[np.argsort(mix(places, clip_key), kind="stable")]] = clips
        chunk_at[places] = number
    spread = min(block_size, total) // num_streams
    uniform = mix(np.arange(total), spread_key)
    random = (uniform >> np.uint64(44)).astype(np.int64)
    found = np.zeros((2, total), np.int64)
    longest = max((-(-clips // -(-clips // max_chunk)) for clips in clips_per_video if clips), default=0)
    low = 0
    for stream in range(num_streams):
        high = low + total // num_streams + (stream < total % num_streams)
        rotation = int(mix(np.array([stream]), rotation_key)[0]) % max(min(longest, high - low), 1)
        if spread >= longest**2 or block_size >= 2 * total:
            rotation = 0
        places, keys = np.zeros(0, np.int64), np.zeros(0, np.int64)
        for first, last in ((low + rotation, high), (low, low + rotation)):
            own = np.arange(first, last)
            start = np.maximum(starts[chunk_at[own]], first)
            end = np.minimum(starts[chunk_at[own] + 1], last)
            within = spread * ((own - start) * _ONE + random[own]) // np.maximum(end - start, 1)
            keys = np.concatenate([keys, (len(places) + start - first) * _ONE + within])
            places = np.concatenate([places, own])
        if block_size >= 2 * total:
            keys = uniform[places]
        ordered = places[np.lexsort((np.arange(len(places)), keys))]
        found[:, stream::num_streams] = clip_at[ordered], visit_of[chunk_at[ordered]]
        low = high
    return found[0] if plain else found


if __name__ == "__main__":
    for lengths in ([3] * 6, [1, 9, 0, 4, 2]):
        print(lengths, order(lengths, 2, 8, 4, 5, 1).tolist())
