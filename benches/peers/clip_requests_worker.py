"""Time and memory to create a loader over a million clip requests, up to its first batch (scaling.py).

`videos` entries name the request's files in turn, with `clips_per_video` random clips each.
"""

from __future__ import annotations

import loading
import oneshot


def answer(request: dict) -> dict:
    files, videos = request["files"], request["videos"]
    before = oneshot.memory_bytes()
    dataset = [(files[number % len(files)], number % 1000) for number in range(videos)]
    listed = oneshot.memory_bytes()
    sampling = {
        "rule": "random",
        "sequence_length": 16,
        "stride": 1,
        "clips_per_video": request["clips_per_video"],
    }
    wanted = {
        "batch_size": 8,
        "shuffle": "full",
        "seed": 0,
        "index": request["index"],
    }
    with oneshot.UsageMeter() as building:
        loader = loading.make(dataset, sampling, 224, wanted)
    built = oneshot.memory_bytes()
    with oneshot.UsageMeter() as first:
        batch = next(iter(loader))
    return {
        "clips": loader.num_clips,
        "delivered": len(batch),
        "list_bytes": listed - before,
        "loader_bytes": built - listed,
        "first_batch_bytes": oneshot.memory_bytes() - built,
        "building": building.usage,
        "first_batch": first.usage,
        "stats": loader.stats(),
    }


if __name__ == "__main__":
    oneshot.serve(answer)
