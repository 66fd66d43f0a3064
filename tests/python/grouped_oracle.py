"""The grouped shuffle by its definition, in NumPy: whole streams are sorted by their keys, without windows.

The random numbers are those of the engine (src/batch_sampler/rng.rs): ChaCha with 8 rounds, whose 256-bit key holds
seed, epoch, clip, purpose and a format mark, and whose stream number is the occurrence.
"""

from __future__ import annotations

import struct

import numpy as np

_MASK = 0xFFFFFFFF
_CHUNKS, _SPREAD = 11, 12
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


def order(
    clips_per_video: list[int], num_streams: int, block_size: int, max_chunk: int, seed: int, epoch: int
) -> np.ndarray:
    """Returns the clips of an epoch in the order of all ranks together."""
    chunks, first = [], 0
    for clips in clips_per_video:
        parts = -(-clips // max_chunk)
        bounds = [first + clips * part // max(parts, 1) for part in range(parts + 1)]
        chunks += [np.arange(a, b) for a, b in zip(bounds, bounds[1:], strict=False)]
        first += clips
    total = first
    clip_key, spread_key = random_u64(seed, epoch, _SPREAD, 2)
    listed = [chunks[n] for n in permutation(seed, epoch, len(chunks))]
    starts = np.cumsum([0, *map(len, listed)])
    clip_at, chunk_at = np.zeros(total, np.int64), np.zeros(total, np.int64)
    for number, (start, clips) in enumerate(zip(starts, listed, strict=False)):
        places = np.arange(start, start + len(clips))
        clip_at[places[np.argsort(mix(places, clip_key), kind="stable")]] = clips
        chunk_at[places] = number
    spread = min(block_size, total) // num_streams
    uniform = mix(np.arange(total), spread_key)
    random = (uniform >> np.uint64(44)).astype(np.int64)
    found = np.zeros(total, np.int64)
    low = 0
    for stream in range(num_streams):
        high = low + total // num_streams + (stream < total % num_streams)
        places = np.arange(low, high)
        start = np.maximum(starts[chunk_at[places]], low)
        end = np.minimum(starts[chunk_at[places] + 1], high)
        keys = (start - low) * _ONE + spread * ((places - start) * _ONE + random[places]) // np.maximum(end - start, 1)
        if block_size >= 2 * total:
            keys = uniform[places]
        found[stream::num_streams] = clip_at[places[np.lexsort((places, keys))]]
        low = high
    return found


if __name__ == "__main__":
    for lengths in ([3] * 6, [1, 9, 0, 4, 2]):
        print(lengths, order(lengths, 2, 8, 4, 5, 1).tolist())
