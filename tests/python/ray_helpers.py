"""The cluster of the tests of framespool.ray, and what they compare."""

from __future__ import annotations

import hashlib
import sys

import framespool as fsp
import pytest
from processes import wait_until

ray = pytest.importorskip("ray")

from ray._private.state import actors  # noqa: E402

# Workers cannot import this module.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])

RANDOM = fsp.samplers.RandomClips(sequence_length=3, stride=2, clips_per_video=4)
WINDOWS = fsp.samplers.Windows(sequence_length=4, stride=3, step=24)
SIZED = [fsp.transforms.RandomResizedCrop((24, 32)), fsp.transforms.RandomHorizontalFlip()]
FIELDS = ("labels", "indices", "pts_seconds", "mask", "video_ids", "clip_ids", "requested_ids", "view_ids", "padding")


@pytest.fixture(scope="module")
def cluster():
    """One node that declares four CPUs."""
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, object_store_memory=200_000_000)
    yield
    ray.shutdown()


@pytest.fixture
def few(short_clips):
    """Some videos: 24 clips."""
    return short_clips[:6]


@pytest.fixture(autouse=True)
def nothing_is_left(request):
    """Stops the workers of every loader that a test left open."""
    yield
    if ray.is_initialized():
        wait_until(lambda: alive() == 0)


def wait_for_workers(loader, count):
    """Returns when a loader has this many workers."""
    wait_until(lambda: sum(loader.stats()["workers_by_node"].values()) == count)


def alive():
    """The number of workers of this cluster that are not dead."""
    return sum(a["State"] != "DEAD" for a in actors().values() if a["ActorClassName"] == "Worker")


def settings(**keywords):
    return {"batch_size": 4, "transforms": SIZED, "shuffle": "full", "seed": 5, **keywords}


def local(dataset, sampling=RANDOM, **keywords):
    return fsp.ClipLoader(dataset, sampling, **settings(**keywords))


def spread(dataset, sampling=RANDOM, **keywords):
    return fsp.ray.ClipLoader(dataset, sampling, **settings(**keywords))


def digest(batch):
    frames = batch.frames if isinstance(batch.frames, list) else [batch.frames]
    md5 = hashlib.md5()
    for tensor in [*frames, *(getattr(batch, name) for name in FIELDS)]:
        md5.update(f"{tensor.shape} {tensor.dtype}".encode() + tensor.tobytes())
    return md5.hexdigest()


def digests(loader):
    return [digest(batch) for batch in loader]


def taken(loader):
    """The results of an epoch: batches, and errors in their positions."""
    batches, result = iter(loader), []
    while True:
        try:
            batch = next(batches, None)
        except fsp.Error as error:
            result.append(type(error))
            continue
        if batch is None:
            return result
        result.append(digest(batch))
