"""Batches from a Ray cluster equal the local loader's; skipped if Ray is not installed.

The clusters are real, on one machine. Few files, since a cluster takes seconds to start and ends with its module."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest

ray = pytest.importorskip("ray")
# Ray's deprecations, and sockets that it leaves to the garbage collector.
# Workers take seconds to start on few cores.
pytestmark = pytest.mark.filterwarnings("ignore")

from ray_helpers import (  # noqa: E402, F401
    FIELDS,
    RANDOM,
    SIZED,
    WINDOWS,
    alive,
    cluster,
    digest,
    digests,
    few,
    local,
    nothing_is_left,
    settings,
    spread,
    taken,
    wait_for_workers,
)


@pytest.mark.parametrize(
    "workers, sampling, keywords",
    [
        (1, RANDOM, {}),
        (2, RANDOM, {}),
        (2, RANDOM, {"group_clips": True, "batch_size": 2}),
        (2, RANDOM, {"shuffle": fsp.BufferShuffle(8), "dtype": "float32", "layout": "NCTHW"}),
        (1, WINDOWS, {"shuffle": False, "last_batch": "drop", "dtype": "bfloat16"}),
        (1, WINDOWS, {"shuffle": False, "dtype": "uint16"}),
        (2, WINDOWS, {"last_batch": "fill", "shuffle": False}),
    ],
)
def test_batches_match_the_local_loader(cluster, few, workers, sampling, keywords):
    here = local(few, sampling, **keywords)
    with spread(few, sampling, num_workers=workers, **keywords) as there:
        assert (len(there), there.num_clips) == (len(here), here.num_clips)
        for _ in range(2):
            assert there.state_dict() == here.state_dict()
            assert digests(there) == digests(here)
        assert there.epoch == 2
        there.set_epoch(1)
        here.set_epoch(1)
        assert digests(there) == digests(here)


def test_views_match_the_local_loader(cluster, few):
    T, samplers = fsp.transforms, fsp.samplers
    views = {
        "wide": fsp.View(samplers.RandomClips(sequence_length=4, clips_per_video=2), [T.RandomResizedCrop(24)]),
        "small": fsp.View(samplers.RandomClips(sequence_length=2), [T.Resize((8, 8))], within="wide"),
    }
    keywords = {"views": views, "batch_size": 2, "shuffle": True, "index": False}
    here = fsp.ClipLoader(few, **keywords)
    with fsp.ray.ClipLoader(few, num_workers=2, **keywords) as there:
        assert there.state_dict() == here.state_dict()
        for mine, sent in zip(here, there, strict=True):
            assert np.array_equal(mine.labels.numpy(), sent.labels.numpy())
            for name in views:
                for field in ("frames", "indices", "clip_ids", "geometry", "content_keys"):
                    assert np.array_equal(mine[name][field].numpy(), sent[name][field].numpy()), (name, field)


@pytest.mark.parametrize("sampling", [fsp.samplers.RandomClips(sequence_length=4, fps=8, clips_per_video=3), RANDOM])
def test_audio_matches_the_local_loader(cluster, videos, sampling):
    """With random shifts and gains; by time and by frames."""
    few = [str(videos / "odd" / "data_streams.mp4")] * 3
    keywords = {"audio": fsp.Audio(sample_rate=8000, channels=2, shift=0.2, gain=(-6, 6)), "index": False}
    here = local(few, sampling, **keywords)
    with spread(few, sampling, num_workers=2, **keywords) as there:
        assert there.state_dict() == here.state_dict()
        for mine, sent in zip(here, there, strict=True):
            assert digest(mine) == digest(sent)
            for name in ("audio", "audio_mask"):
                wanted, got = getattr(mine, name), getattr(sent, name)
                assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype) and wanted.numpy().any()
                assert np.array_equal(got.numpy(), wanted.numpy()), name
            assert len({samples.tobytes() for samples in sent.audio.numpy()}) == len(sent)


def test_mixes_and_folders_match_the_local_loader(cluster, few, tmp_path):
    """A mix has weights; a folder keeps its samples in a table of the engine."""
    for number, (path, _) in enumerate(few[:4]):
        (tmp_path / f"class{number % 2}").mkdir(exist_ok=True)
        (tmp_path / f"class{number % 2}" / Path(path).name).symlink_to(path)
    folder = fsp.datasets.folder(tmp_path)
    mix = fsp.datasets.mix(([path for path, _ in few[:2]], 1), (folder, 3), epoch_clips=10)
    for dataset in (mix, folder):
        with spread(dataset) as there:
            here = local(dataset)
            assert len(there) == len(here) and digests(there) == digests(here)
            assert there.state_dict() == here.state_dict()


def test_state_resumes_locally_and_on_ray(cluster, few):
    whole = digests(local(few))
    here = local(few)
    with spread(few, num_workers=2) as there, spread(few, num_workers=1) as other:
        for old, new in [(here, there), (there, here), (there, other)]:
            for stop in (1, 5):
                old.set_epoch(0)
                batches = iter(old)
                got = [digest(next(batches)) for _ in range(stop)]
                state = json.loads(json.dumps(old.state_dict()))
                assert (state["epoch"], state["batch"]) == (0, stop)
                new.load_state_dict(state)
                assert got + digests(new) == whole
    with pytest.raises(fsp.errors.ArgumentError, match="seed"):
        local(few, seed=6).load_state_dict(state)


def test_abandoned_epoch_leaves_nothing_behind(cluster, few):
    whole = digests(local(few))
    with spread(few) as loader:
        for _ in range(3):
            loader.set_epoch(0)
            next(iter(loader))
        older = iter(loader)
        loader.set_epoch(0)
        assert digests(loader) == whole
        with pytest.raises(fsp.errors.CancelledError, match="batch 0 and the later ones.*a newer iterator"):
            next(older)
        loader.set_epoch(0)
        assert len(list(loader.cached_batches(2))) == len(loader)
        assert digests(loader) == whole


@pytest.mark.parametrize("copy, dtypes", [(True, ("uint8", "uint16", "float16", "bfloat16")), (False, ("uint8",))])
def test_tensors_have_the_face_of_local_ones(cluster, few, copy, dtypes):
    for dtype in dtypes:
        expected = next(iter(local(few, dtype=dtype)))
        with spread(few, dtype=dtype, copy=copy, num_workers=1) as loader:
            batch = next(iter(loader))
        assert len(batch) == len(expected) and type(batch) is fsp.Batch
        for name in ("frames", *FIELDS):
            mine, theirs = getattr(batch, name), getattr(expected, name)
            assert (mine.shape, mine.dtype, mine.device) == (theirs.shape, theirs.dtype, theirs.device)
            assert (mine.ndim, mine.nbytes, len(mine)) == (theirs.ndim, theirs.nbytes, len(theirs))
            assert mine.tolist() == theirs.tolist() or name == "pts_seconds"
            assert mine[-1].tolist() == theirs[-1].tolist() and mine[-1].tobytes() == theirs[-1].tobytes()
            assert mine.__dlpack_device__() == theirs.__dlpack_device__() and mine.cpu() is mine
        for index in (slice(1, 3), (1, ..., 0), (slice(None, None, 2), None, 0), (0, 0, 0, 0, 0)):
            mine, theirs = batch.frames[index], expected.frames[index]
            assert mine.shape == theirs.shape and mine.tobytes() == theirs.tobytes(), index
        with pytest.raises(IndexError, match="index 4"):
            batch.frames[4]
        with pytest.raises(TypeError, match="use .numpy"):
            batch.frames[[0, 1]]
        if dtype == "bfloat16":
            with pytest.raises(TypeError, match="bfloat16"):
                batch.frames.numpy()
            continue
        array = batch.frames.numpy()
        assert array.flags.writeable is copy and np.array_equal(array, np.asarray(expected.frames))
        taken = np.from_dlpack(batch.frames)
        assert np.array_equal(taken, array) and np.shares_memory(taken, array) is copy
        assert np.array_equal(np.asarray(batch.frames, dtype="float64"), array.astype("float64"))


def test_torch_takes_batches_as_it_does_locally(cluster, few):
    torch = pytest.importorskip("torch")
    for copy in (True, False):
        for dtype in ("uint8", "bfloat16"):
            expected = next(iter(local(few, dtype=dtype)))
            with spread(few, dtype=dtype, copy=copy) as loader:
                batch = next(iter(loader))
                frames = batch.frames.torch()
                assert torch.equal(frames, expected.frames.torch()) and torch.equal(
                    batch.padding.torch(), expected.padding.torch()
                )
                frames += 1


FORKED = """
import os, sys
import framespool as fsp
import ray
from framespool.ray import _worker_pool

paths = sys.argv[1:]
ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100_000_000)
rule = fsp.samplers.RandomClips(sequence_length=3)
keywords = dict(batch_size=2, transforms=[fsp.transforms.Resize((24, 32))], num_workers=1)
kept = fsp.ray.ClipLoader(paths, rule, **keywords)
batches = iter(kept)
next(batches)


def drop():
    global kept, batches
    del batches
    del kept
    assert _worker_pool._kept, "Ray's handles stay: their destructors may wait for ever"


def close():
    kept.close()


def reopen():
    for use in (lambda: next(batches), lambda: next(iter(kept))):
        try:
            use()
            print("used in", os.getpid())
        except fsp.errors.ForkedError:
            pass
    kept.stats(), kept.failures()  # the last reported ones
    local = fsp.ray.ClipLoader(paths, rule, **{**keywords, "distribute_mode": False, "num_threads": 2})
    assert len(list(local)) == len(kept)


for work in (drop, close, reopen):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        work()
        sys.stdout.flush()
        os._exit(0)  # as multiprocessing ends its children: Ray's own exit handler waits for ever in a child
    print(work.__name__, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(sum(1 for _ in batches) + 1 == len(kept))  # the children ended no worker
kept.close()
"""


def test_a_forked_child_drops_closes_and_replaces_a_loader(few):
    """A child has no connection to the cluster: it raises or does nothing, and leaves the parent's workers alone."""
    command = [sys.executable, "-W", "ignore", "-c", FORKED, *(path for path, _ in few)]
    done = subprocess.run(command, capture_output=True, text=True)
    expected = ["drop 0", "close 0", "reopen 0", "True"]
    assert done.stdout.split("\n")[:-1] == expected, (done.stdout, done.stderr[-3000:])


HDR = """
import sys, warnings
import framespool as fsp
import ray

ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100_000_000)
rule = fsp.samplers.Windows(sequence_length=1)
made = lambda **more: fsp.ray.ClipLoader([sys.argv[1]] * 4, rule, batch_size=2, shuffle=False, num_workers=2, **more)
with made() as loader, warnings.catch_warnings():
    warnings.simplefilter("error", fsp.errors.HdrWarning)
    batches, found = iter(loader), 0
    try:
        next(batches)
    except fsp.errors.HdrWarning as warning:
        print(sys.argv[1] in str(warning) and "ToneMap" in str(warning))
    print(sum(1 for _ in batches) == len(loader))  # the batch with the warning is not lost
"""


def test_warning_about_hdr_video_reaches_the_program_once(videos):
    command = [sys.executable, "-W", "ignore", "-c", HDR, str(videos / "odd/squares_pq_10bit.mp4")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.split("\n")[:-1] == ["True", "True"], (done.stdout, done.stderr[-3000:])


def test_memory_is_reused_only_when_unreferenced(cluster, few):
    large = [fsp.transforms.Resize((120, 160))]
    with spread(few, transforms=large, num_workers=1, batch_size=2) as loader:
        held = [(batch.frames[0], digest(batch)) for batch in loader]
        assert len({id(tensor.numpy().base) for tensor, _ in held}) == len(loader)
        assert [first.tobytes() for first, _ in held] == [
            batch.frames[0].tobytes() for batch in local(few, transforms=large, batch_size=2)
        ]
        del held
        places = {batch.frames.numpy().ctypes.data for batch in loader}
        assert len(places) <= 4


def test_clips_of_different_sizes_come_as_lists(cluster, few, videos):
    dataset = [*few[:3], str(videos / "derived" / "base_640x360.mp4")]
    keywords = {"transforms": [fsp.transforms.Resize(32)], "shuffle": False, "batch_size": 8}
    expected = list(local(dataset, **keywords))
    with spread(dataset, num_workers=1, **keywords) as loader:
        batches = list(loader)
    assert any(isinstance(batch.frames, list) for batch in batches)
    assert [digest(batch) for batch in batches] == [digest(batch) for batch in expected]


def test_last_callable_runs_on_the_consumer(cluster, few):
    here = threading.get_ident()

    def mean(frames):
        assert threading.get_ident() == here
        return frames.numpy().mean()

    expected = [batch.frames for batch in local(few, transforms=[*SIZED, mean])]
    with spread(few, transforms=[*SIZED, mean], num_workers=1) as loader:
        assert [batch.frames for batch in loader] == expected


def test_images_and_masks_use_the_same_workers(cluster, photos, tmp_path):
    from PIL import Image

    masks = []
    for number, (path, _) in enumerate(photos[:6]):
        with Image.open(path) as photo:
            width, height = photo.size
        masks.append(tmp_path / f"{number}.png")
        Image.new("L", (width, height), number + 1).save(masks[-1])
    keywords = {"batch_size": 4, "masks": masks, "transforms": [SIZED[0]], "shuffle": "full", "seed": 2}
    expected = list(fsp.ImageLoader(photos[:6], **keywords))
    with fsp.ray.ImageLoader(photos[:6], num_workers=2, **keywords) as loader:
        for _ in range(2):
            loader.set_epoch(0)
            for batch, other in zip(loader, expected, strict=True):
                for name in ("images", "labels", "image_ids", "sizes", "masks"):
                    assert getattr(batch, name).tobytes() == getattr(other, name).tobytes(), name
        assert alive() == 2 and loader.num_images == 6


@pytest.mark.parametrize("policy", ["raise", "skip", "replace"])
def test_bad_files_are_treated_as_they_are_locally(cluster, few, bad_file, policy, tmp_path):
    dataset = [*few[:3], (bad_file, 9), *few[3:], (str(tmp_path / "nowhere.mp4"), 9)]
    sampling = fsp.samplers.RandomClips(sequence_length=2)
    here = local(dataset, sampling, on_error=policy, batch_size=2)
    expected = taken(here)
    with spread(dataset, sampling, on_error=policy, batch_size=2) as there:
        assert taken(there) == expected
        failures = {failure["path"]: failure for failure in there.failures()}
        assert there.write_failures(tmp_path / "bad.jsonl") == 2
        assert len(fsp.datasets.Dataset(dataset).exclude(tmp_path / "bad.jsonl")) == len(few)
        assert [(f["path"], f["kind"], f["clips"]) for f in there.failures()] == [
            (f["path"], f["kind"], f["clips"]) for f in here.failures()
        ]
        assert "on Ray node" in failures[bad_file]["message"]
        mine, theirs = there.stats(), here.stats()
        for name in ("batches", "clips", "frames", "errors", "clips_skipped", "clips_replaced"):
            assert mine[name] == theirs[name], name
        assert mine["bytes_received"] > 0
        wait_for_workers(there, 2)
        if policy == "raise":
            with pytest.raises(fsp.errors.NotFoundError, match="nowhere.mp4.*on Ray node") as caught:
                there.describe_clip(len(few) + 1)
            assert isinstance(caught.value, FileNotFoundError) and caught.value.file.endswith("nowhere.mp4")


def test_paths_may_be_relative_to_this_process(cluster, few, tmp_path, monkeypatch):
    monkeypatch.chdir(Path(few[0][0]).parent)
    dataset = [(Path(path).name, label) for path, label in few] + ["nowhere.mp4"]
    here = local(dataset, on_error="skip")
    with spread(dataset, on_error="skip") as there:
        assert digests(there) == digests(here) and there.state_dict() == here.state_dict()
        assert [failure["path"] for failure in there.failures()] == ["nowhere.mp4"]
        assert there.describe_clip(3) == here.describe_clip(3)


def test_argument_errors_match_the_local_loader(cluster, few):
    crop = [fsp.transforms.RandomCrop(5000)]
    with (
        spread(few, transforms=crop, num_workers=1) as loader,
        pytest.raises(fsp.errors.ClipSamplingError, match="5000"),
    ):
        next(iter(loader))
    for wrong, match in [
        ({"batch_size": 0}, "batch_size"),
        ({"num_workers": 0}, "num_workers"),
        ({"num_shards": fsp.options.Shards(1, worker_id=1, num_workers=2)}, "worker_id"),
        ({"device": "cuda:0"}, "to\\(device\\)"),
        ({"in_flight": 0}, "in_flight"),
        ({"copy": 1}, "copy"),
        ({"address": 7}, "address"),
        ({"num_shards": 0}, "num_shards"),
    ]:
        with pytest.raises(fsp.errors.ArgumentError, match=match):
            spread(few, **{"num_workers": 1, **wrong})
    with pytest.raises(TypeError, match="nonsense"):
        spread(few, nonsense=1)
    lock = threading.Lock()
    with pytest.raises(fsp.errors.ArgumentError, match="cannot be sent.*lock"):
        spread(few, num_workers=1, sampling=fsp.samplers.Custom(lambda info, rng: [0] if lock else [1]))
