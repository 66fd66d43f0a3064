"""Batches from a Ray cluster equal the local loader's, whatever happens to the workers; skipped if Ray is not
installed. The clusters are real, on one machine. One file, since a cluster takes seconds to start and ends
with its module."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest

ray = pytest.importorskip("ray")
# Ray's deprecations, and sockets that it leaves to the garbage collector.
# Workers take seconds to start on few cores.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(240)]

from framespool.ray._errors import NoWorkersError  # noqa: E402
from framespool.ray._worker_pool import WorkerPool  # noqa: E402
from ray._private.state import actors  # noqa: E402

RANDOM = fsp.samplers.random(sequence_length=3, stride=2, clips_per_video=4)
WINDOWS = fsp.samplers.windows(sequence_length=4, stride=3, step=24)
SIZED = [fsp.transforms.RandomResizedCrop((24, 32)), fsp.transforms.RandomHorizontalFlip()]
FACTS = ("labels", "indices", "pts_seconds", "mask", "video_ids", "clip_ids", "requested_ids", "view_ids", "padding")


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
        assert alive(wait=10) == 0


def came(loader, count):
    """Whether this many workers start, however long they take."""
    until = time.monotonic() + 60
    while sum(loader.stats()["workers_by_node"].values()) != count:
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def alive(wait=0.0):
    """Workers of this cluster that are not dead, once there are none or after some seconds."""
    until = time.monotonic() + wait
    while True:
        count = sum(a["State"] != "DEAD" for a in actors().values() if a["ActorClassName"] == "Worker")
        if not count or time.monotonic() > until:
            return count
        time.sleep(0.1)


def settings(**keywords):
    return {"batch_size": 4, "transforms": SIZED, "shuffle": "full", "seed": 5, **keywords}


def local(dataset, sampling=RANDOM, **keywords):
    return fsp.ClipLoader(dataset, sampling, **settings(**keywords))


def spread(dataset, sampling=RANDOM, **keywords):
    return fsp.ray.ClipLoader(dataset, sampling, **settings(**keywords))


def digest(batch):
    frames = batch.frames if isinstance(batch.frames, list) else [batch.frames]
    md5 = hashlib.md5()
    for tensor in [*frames, *(getattr(batch, name) for name in FACTS)]:
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


@pytest.mark.parametrize(
    "workers, sampling, keywords",
    [
        (1, RANDOM, {}),
        (2, RANDOM, {}),
        (2, RANDOM, {"shuffle": "buffer", "initial_fill": 8, "dtype": "float32", "layout": "NCTHW"}),
        (1, WINDOWS, {"shuffle": False, "last_batch": "drop", "dtype": "bfloat16"}),
        (2, WINDOWS, {"last_batch": "fill", "order": "torch"}),
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


def test_mixes_and_folders_match_the_local_loader(cluster, few, tmp_path):
    """A mix has weights; a folder keeps its samples in a table of the engine."""
    for number, (path, _) in enumerate(few[:4]):
        (tmp_path / f"class{number % 2}").mkdir(exist_ok=True)
        (tmp_path / f"class{number % 2}" / Path(path).name).symlink_to(path)
    folder = fsp.datasets.folder(tmp_path)
    mix = fsp.datasets.mix((few[:2], 1), (folder, 3), epoch_clips=10)
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
    with pytest.raises(fsp.ArgumentError, match="seed"):
        local(few, seed=6).load_state_dict(state)


def test_abandoned_epoch_leaves_nothing_behind(cluster, few):
    whole = digests(local(few))
    with spread(few) as loader:
        for _ in range(3):
            loader.set_epoch(0)
            next(iter(loader))
        iter(loader)
        loader.set_epoch(0)
        assert digests(loader) == whole
        loader.set_epoch(0)
        assert len(list(loader.cached_batches(2))) == len(loader)
        assert digests(loader) == whole


@pytest.mark.parametrize("copy, dtypes", [(True, ("uint8", "float16", "bfloat16")), (False, ("uint8",))])
def test_tensors_have_the_face_of_local_ones(cluster, few, copy, dtypes):
    for dtype in dtypes:
        expected = next(iter(local(few, dtype=dtype)))
        with spread(few, dtype=dtype, copy=copy, num_workers=1) as loader:
            batch = next(iter(loader))
        assert len(batch) == len(expected) and type(batch) is fsp.Batch
        for name in ("frames", *FACTS):
            mine, theirs = getattr(batch, name), getattr(expected, name)
            assert (mine.shape, mine.dtype, mine.device) == (theirs.shape, theirs.dtype, theirs.device)
            assert (mine.ndim, mine.nbytes, len(mine)) == (theirs.ndim, theirs.nbytes, len(theirs))
            assert mine.tolist() == theirs.tolist() or name == "pts_seconds"
            assert mine[-1].tolist() == theirs[-1].tolist() and mine[-1].tobytes() == theirs[-1].tobytes()
            assert mine.__dlpack_device__() == theirs.__dlpack_device__() and mine.cpu() is mine
        with pytest.raises(IndexError, match="index 4"):
            batch.frames[4]
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
    sampling = fsp.samplers.random(sequence_length=2)
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
        assert mine["bytes_received"] > 0 and came(there, 2)
        if policy == "raise":
            with pytest.raises(fsp.NotFoundError, match="nowhere.mp4.*on Ray node") as caught:
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
    with spread(few, transforms=crop, num_workers=1) as loader, pytest.raises(fsp.ClipSamplingError, match="5000"):
        next(iter(loader))
    for wrong, match in [
        ({"batch_size": 0}, "batch_size"),
        ({"num_workers": 0}, "num_workers"),
        ({"worker_id": 1}, "worker_id"),
        ({"device": "cuda:0"}, "to\\(device\\)"),
        ({"in_flight": 0}, "in_flight"),
        ({"copy": 1}, "copy"),
        ({"address": 7}, "address"),
        ({"num_shards": 0}, "num_shards"),
    ]:
        with pytest.raises(fsp.ArgumentError, match=match):
            spread(few, **{"num_workers": 1, **wrong})
    with pytest.raises(TypeError, match="nonsense"):
        spread(few, nonsense=1)
    lock = threading.Lock()
    with pytest.raises(fsp.ArgumentError, match="cannot be sent.*lock"):
        spread(few, num_workers=1, sampling=fsp.samplers.custom(lambda info, rng: [0] if lock else [1]))


def test_no_room_for_workers_is_an_error_that_says_so(cluster, few):
    with pytest.raises(fsp.ray.WorkerError, match="'CPU': 64.*num_cpus_per_worker"):
        spread(few, num_cpus_per_worker=64, start_timeout=1)


def test_an_error_for_want_of_workers_costs_no_batch(cluster, few, monkeypatch):
    expected = digests(local(few))
    with spread(few, num_workers=1) as loader:
        batches = iter(loader)
        got = [digest(next(batches))]
        message = "no workers left"

        def no_worker(*_):
            raise NoWorkersError(message)

        with monkeypatch.context() as patch:
            patch.setattr(WorkerPool, "reconcile", no_worker)
            for _ in range(2):
                with pytest.raises(fsp.ray.WorkerError, match=message):
                    next(batches)
        got += [digest(batch) for batch in batches]
    assert got == expected


def test_fewer_workers_than_asked_for_do_it_all(cluster, few, monkeypatch):
    monkeypatch.setattr("framespool.ray._worker_pool._START_GRACE_SECONDS", 1.0)
    with spread(few, num_workers=3, num_cpus_per_worker=2, num_threads=1) as loader:
        assert digests(loader) == digests(local(few))
        assert came(loader, 2)


@pytest.mark.parametrize("how", ["killed", "ended itself"])
def test_a_worker_that_is_lost_costs_no_batch(cluster, few, how, tmp_path):
    expected = digests(local(few, once(few, tmp_path / "already", there=True), batch_size=2))
    marker = tmp_path / "ended"
    sampling = once(few, marker, there=how == "killed")
    with spread(few, sampling, num_workers=2, batch_size=2) as loader:
        batches, got = iter(loader), []
        for number in range(len(loader)):
            if number == 3 and how == "killed":
                ray.kill(loader._pool.workers[1].actor)
            got.append(digest(next(batches)))
        assert got == expected and next(batches, None) is None
        assert marker.exists() and loader.stats()["workers_lost"] == 1
        assert alive() == 2


def once(dataset, marker, *, there):
    """Clips of three frames; the first process that samples the fifth video exits, unless the marker exists."""
    fatal = frames_of(dataset[4][0])
    if there:
        marker.touch()

    def frames(info, rng):
        if not marker.exists() and info.num_frames == fatal:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))  # only one process
            os._exit(7)
        return sorted(rng.choices(range(info.num_frames), k=3))

    return fsp.samplers.custom(frames, sequence_length=3, clips_per_video=4)


@pytest.mark.filterwarnings("ignore:clips of one video")
def test_grouped_shuffle_gives_workers_their_own_videos(cluster, few):
    many, grouped = few * 6, {"sampling": WINDOWS, "shuffle": True, "batch_size": 2}
    with spread(many, num_workers=2, **grouped) as there:
        state = there.state_dict()
        assert state["grouped"][0] == 4, "one stream for each clip slot of each worker"
        here = local(many, **grouped)
        here.load_state_dict(state)
        assert digests(there) == digests(here)
        decoded = there.stats()["frames_decoded"], here.stats()["frames_decoded"]
        assert decoded[0] <= 1.25 * decoded[1]
    with spread(many, num_workers=2, memory_budget=100_000, **grouped) as there:
        assert there.state_dict()["grouped"][1] < state["grouped"][1]
        there.load_state_dict(state)
        here.set_epoch(0)
        expected, found = digests(here), []
        for number, batch in enumerate(there):
            found.append(digest(batch))
            if number == 3:
                ray.kill(there._pool.workers[1].actor)
        assert found == expected and there.stats()["workers_lost"] == 1


def test_batch_that_kills_workers_fails_alone(cluster, few, tmp_path):
    length = frames_of(few[4][0])

    def frames(info, rng):
        if info.num_frames == length and not os.environ.get("FRAMESPOOL_TEST_SAFE"):
            os._exit(7)
        return [0, 1]

    os.environ["FRAMESPOOL_TEST_SAFE"] = "1"
    try:
        sampling = fsp.samplers.custom(frames, sequence_length=2)
        keywords = {"shuffle": False, "batch_size": 2}
        expected = digests(local(few, sampling, **keywords))
    finally:
        del os.environ["FRAMESPOOL_TEST_SAFE"]
    with spread(few, sampling, num_workers=2, **keywords) as loader:
        got = taken(loader)
    assert got[2] is fsp.ray.WorkerError
    del got[2], expected[2]
    assert got == expected


def frames_of(path):
    return fsp.Video(path).info.num_frames


def test_a_slow_worker_does_not_change_the_order(cluster, few):
    slow = frames_of(few[0][0])

    def frames(info, rng):
        if info.num_frames == slow:
            time.sleep(1.0)
        return [rng.randrange(info.num_frames)]

    sampling = fsp.samplers.custom(frames, sequence_length=1)
    expected = digests(local(few, sampling, shuffle=False, batch_size=2))
    with spread(few, sampling, shuffle=False, batch_size=2, in_flight=3) as loader:
        assert digests(loader) == expected


@pytest.fixture
def ctrl_c():
    """Python's own handler, whatever another library has set in this process."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_while_waiting_loses_no_batch(cluster, few, ctrl_c):
    def frames(info, rng):
        time.sleep(3)
        return [0]

    sampling = fsp.samplers.custom(frames, sequence_length=1)
    with spread(few[:2], sampling, batch_size=2, num_workers=1) as loader:
        batches = iter(loader)
        heard = threading.Event()

        def press():
            # Repeated, since one may come while Python ignores exceptions, e.g. in a destructor.
            while not heard.wait(1.0):
                os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=press).start()
        try:
            next(batches)
        except KeyboardInterrupt:
            heard.set()
        finally:
            was_heard = heard.is_set()
            heard.set()
        assert was_heard
        assert len(next(batches)) == 2 and next(batches, None) is None


def test_workers_end_with_their_loader(cluster, few):
    loader = spread(few)
    batches = iter(loader)
    next(batches)
    assert alive() == 2
    loader.close()
    assert alive(wait=10) == 0
    with pytest.raises(fsp.ray.WorkerError, match="closed"):
        next(batches)
    loader.close()
    loader = spread(few, num_workers=1)
    next(iter(loader))
    del loader
    assert alive(wait=10) == 0
    assert ray.is_initialized()


def test_ranks_deliver_the_dataset_between_them(cluster, few):
    shards = {"num_shards": 2, "num_workers": 1, "last_batch": "drop", "batch_size": 2}
    clips = []
    with spread(few, shard_id=0, **shards) as one, spread(few, shard_id=1, **shards) as other:
        assert len(one) == len(other)
        for rank, loader in enumerate((one, other)):
            shards.pop("num_workers", None)
            assert digests(loader) == digests(local(few, shard_id=rank, **shards))
            loader.set_epoch(0)
            clips += [clip for batch in loader for clip in batch.clip_ids.tolist()]
    assert sorted(clips) == list(range(4 * len(few)))


def test_placement_group_workers_do_not_wait_for_cpus(cluster, few):
    """As in Ray Train, where children of trainers join the trainers' placement group by default."""
    import sys

    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    # The trainer is code of this module, which processes of the cluster cannot import.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])

    @ray.remote
    def train(dataset):
        with spread(dataset, num_workers=1, start_timeout=120) as loader:
            return digests(loader)

    group = placement_group([{"CPU": 1}])
    inside = PlacementGroupSchedulingStrategy(group, placement_group_capture_child_tasks=True)
    try:
        assert ray.get(train.options(num_cpus=1, scheduling_strategy=inside).remote(few)) == digests(local(few))
    finally:
        remove_placement_group(group)
        ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def test_training_sees_the_same_losses(cluster, few):
    def losses(loader):
        """Softmax regression on pooled clips: every loss depends on all previous batches."""
        weights, curve = np.zeros((48, 6)), []
        for _ in range(4):
            for batch in loader:
                n, pixels = len(batch), batch.frames.numpy().astype("float64") / 255 - 0.5
                clips = pixels.mean(axis=1).reshape(n, 4, 6, 4, 8, 3).mean(axis=(2, 4)).reshape(n, 48)
                scores = clips @ weights
                odds = np.exp(scores - scores.max(axis=1, keepdims=True))
                odds /= odds.sum(axis=1, keepdims=True)
                curve.append(float(-np.log(odds[np.arange(n), batch.labels.numpy()]).mean()))
                odds[np.arange(n), batch.labels.numpy()] -= 1
                weights -= 0.2 * clips.T @ odds / n
        return curve

    whole = [fsp.transforms.Resize((24, 32))]
    with spread(few, transforms=whole) as there:
        curve = losses(there)
    assert curve == losses(local(few, transforms=whole)) and np.mean(curve[-6:]) < np.mean(curve[:6])


def clip_rows(loader, dataset):
    rows = set()
    for batch in loader:
        for at, padding in enumerate(batch.padding.tolist()):
            if not padding:
                facts = [getattr(batch, name)[at].tolist() for name in ("clip_ids", "video_ids", "labels", "indices")]
                path = dataset[batch.video_ids.tolist()[at]][0]
                rows.add((hashlib.md5(batch.frames[at].tobytes()).hexdigest(), str(facts), path))
    return rows


def read_rows(data):
    return [
        (
            hashlib.md5(np.ascontiguousarray(row["frames"]).tobytes()).hexdigest(),
            str([row["clip_id"], row["video_id"], row["label"], row["indices"].tolist()]),
            row["path"],
        )
        for row in data.take_all()
    ]


@pytest.mark.parametrize("sampling", [RANDOM, WINDOWS])
def test_rows_of_ray_data_are_the_clips(cluster, few, sampling):
    pytest.importorskip("pyarrow")
    data = fsp.ray.read_clips(few, sampling, transforms=SIZED, seed=5, override_num_blocks=3, batch_size=5)
    rows = read_rows(data)
    expected = clip_rows(local(few, sampling, shuffle=False), few)
    assert len(rows) == len(expected) and set(rows) == expected
    frames = data.schema().base_schema.field("frames").type
    assert tuple(frames.shape) == np.shape(data.take(1)[0]["frames"])


def test_read_tasks_may_be_more_than_clips(cluster, few):
    pytest.importorskip("pyarrow")
    lengths = sorted(len(fsp.Video(path)) for path, _ in few)
    rule = fsp.samplers.random(sequence_length=lengths[-2], short="drop")
    rows = read_rows(fsp.ray.read_clips(few, rule, transforms=SIZED, override_num_blocks=len(few)))
    assert len(rows) == sum(length >= lengths[-2] for length in lengths) < len(few)


def test_rows_of_ray_data_follow_on_error(cluster, few, bad_file):
    pytest.importorskip("pyarrow")
    dataset = [*few[:4], (bad_file, 9)]
    keywords = {"transforms": SIZED, "seed": 5, "override_num_blocks": 2}
    rows = read_rows(fsp.ray.read_clips(dataset, RANDOM, on_error="skip", **keywords))
    assert set(rows) == clip_rows(local(few[:4], shuffle=False), few)
    with pytest.raises(Exception, match="broken.mp4"):
        fsp.ray.read_clips(dataset, RANDOM, **keywords).take_all()
    with pytest.raises(fsp.ArgumentError, match="shuffle, shard_id.*random_shuffle"):
        fsp.ray.read_clips(few, RANDOM, shuffle="full", shard_id=0)


def test_a_node_that_is_lost_costs_no_batch(few):
    """Last in this file: a cluster of two nodes replaces the other tests' cluster."""
    from ray.cluster_utils import Cluster

    ray.shutdown()
    quickly = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000, "health_check_failure_threshold": 5}
    small = {"object_store_memory": 100_000_000, "include_dashboard": False}
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "_system_config": quickly, **small})
    try:
        other = nodes.add_node(num_cpus=1, object_store_memory=100_000_000)
        ray.init(address=nodes.address, log_to_driver=False)
        # Large enough to be in the store of the producing node, not in their owner's memory.
        keywords = {"batch_size": 2, "transforms": [fsp.transforms.Resize((120, 160))]}
        expected = digests(local(few, **keywords))
        with spread(few, num_workers=2, **keywords) as loader:
            batches, got = iter(loader), []
            while len(got) < 5:
                got.append(digest(next(batches)))
            assert len(loader.stats()["workers_by_node"]) == 2
            nodes.remove_node(other, allow_graceful=False)
            until = time.monotonic() + 30
            while sum(node["Alive"] for node in ray.nodes()) == 2 and time.monotonic() < until:
                time.sleep(0.1)
            got += [digest(batch) for batch in batches]
            assert got == expected and loader.stats()["workers_lost"] >= 1
    finally:
        ray.shutdown()
        nodes.shutdown()
