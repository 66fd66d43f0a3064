"""Batches from a Ray cluster whose workers are lost, few or slow, and Ray Data; skipped if Ray is not installed.

The clusters are real, on one machine. Few files, since a cluster takes seconds to start and ends with its module."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import sys
import threading
import time

import framespool as fsp
import numpy as np
import pytest
from processes import wait_until

ray = pytest.importorskip("ray")
# Ray's deprecations, and sockets that it leaves to the garbage collector.
# Workers take seconds to start on few cores.
pytestmark = pytest.mark.filterwarnings("ignore")

from framespool.ray._errors import NoWorkersError  # noqa: E402
from framespool.ray._worker_pool import WorkerPool  # noqa: E402
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
        wait_for_workers(loader, 2)


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
            with contextlib.suppress(FileExistsError):  # only one process
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
                os._exit(7)
        return sorted(rng.choices(range(info.num_frames), k=3))

    return fsp.samplers.Custom(frames, sequence_length=3, clips_per_video=4)


@pytest.mark.filterwarnings("ignore:clips of one video")
def test_grouped_shuffle_gives_workers_their_own_videos(cluster, few):
    many, grouped = few * 6, {"sampling": WINDOWS, "shuffle": True, "batch_size": 2}
    with spread(many, num_workers=2, **grouped) as there:
        wait_for_workers(there, 2)
        state = there.state_dict()
        assert state["grouped"][0] == 4, "one stream for each clip slot of each worker"
        here = local(many, **grouped)
        here.load_state_dict(state)
        assert digests(there) == digests(here)
        decoded = there.stats()["frames_decoded"], here.stats()["frames_decoded"]
        assert decoded[0] <= 1.25 * decoded[1]
    with spread(many, num_workers=2, cache=100_000, **grouped) as there:
        assert there.state_dict()["grouped"][1] < state["grouped"][1]
        there.load_state_dict(state)
        here.set_epoch(0)
        expected, found = digests(here), []
        for number, batch in enumerate(there):
            found.append(digest(batch))
            if number == 3:
                ray.kill(there._pool.workers[1].actor)
        assert found == expected and there.stats()["workers_lost"] == 1


def test_bench_reports_the_expected_cost_of_a_distributed_loader(cluster, few):
    with spread(few, num_workers=2, sampling=WINDOWS, shuffle="full", batch_size=2) as there:
        packets = fsp.tools.bench(there, seconds=0.1).expected["packets_per_clip"]
        assert max(packets["grouped"], packets["full"]) < packets["single"]
        assert there._estimate_cost()["packets_per_clip"] == packets


def test_batch_that_kills_workers_fails_alone(cluster, few, tmp_path):
    length = frames_of(few[4][0])

    def frames(info, rng):
        if info.num_frames == length and not os.environ.get("FRAMESPOOL_TEST_SAFE"):
            os._exit(7)
        return [0, 1]

    os.environ["FRAMESPOOL_TEST_SAFE"] = "1"
    try:
        sampling = fsp.samplers.Custom(frames, sequence_length=2)
        keywords = {"shuffle": False, "batch_size": 2}
        expected = digests(local(few, sampling, **keywords))
    finally:
        del os.environ["FRAMESPOOL_TEST_SAFE"]
    with spread(few, sampling, num_workers=3, **keywords) as loader:  # one for each batch
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

    sampling = fsp.samplers.Custom(frames, sequence_length=1)
    expected = digests(local(few, sampling, shuffle=False, batch_size=2))
    with spread(few, sampling, shuffle=False, batch_size=2, in_flight=3) as loader:
        assert digests(loader) == expected


@pytest.fixture
def ctrl_c():
    """Restores the handler, which the test sets."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_while_waiting_loses_no_batch(cluster, few, ctrl_c):
    def frames(info, rng):
        time.sleep(3)
        return [0]

    sampling = fsp.samplers.Custom(frames, sequence_length=1)
    with spread(few[:2], sampling, batch_size=2, num_workers=1) as loader:
        batches = iter(loader)
        done, was_heard, this_frame = threading.Event(), False, sys._getframe()

        def press():
            # Repeated, since one may come while Python ignores exceptions, e.g. in a destructor.
            while not done.wait(1.0):
                os.kill(os.getpid(), signal.SIGINT)

        def interrupt(_, frame):
            # Only below `next`: a second exception while the first one is handled here would end the test run.
            if not was_heard and frame is not this_frame:
                raise KeyboardInterrupt

        signal.signal(signal.SIGINT, interrupt)
        pressing = threading.Thread(target=press)
        pressing.start()
        try:
            next(batches)
        except KeyboardInterrupt:
            was_heard = True
        finally:
            done.set()
            pressing.join()
        assert was_heard
        assert len(next(batches)) == 2 and next(batches, None) is None


def test_workers_end_with_their_loader(cluster, few):
    loader = spread(few)
    batches = iter(loader)
    next(batches)
    assert alive() == 2
    loader.close()
    wait_until(lambda: alive() == 0)
    with pytest.raises(fsp.ray.WorkerError, match="closed"):
        next(batches)
    loader.close()
    loader = spread(few, num_workers=1)
    next(iter(loader))
    del loader
    wait_until(lambda: alive() == 0)
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

    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    # The trainer is code of this module, which processes of the cluster cannot import.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])

    @ray.remote
    def train(dataset):
        with spread(dataset, num_workers=1) as loader:
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
                clips = pixels.mean(axis=1).reshape(n, 3, 4, 6, 4, 8).mean(axis=(3, 5)).reshape(n, 48)
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
                fields = [getattr(batch, name)[at].tolist() for name in ("clip_ids", "video_ids", "labels", "indices")]
                path = dataset[batch.video_ids.tolist()[at]][0]
                rows.add((hashlib.md5(batch.frames[at].tobytes()).hexdigest(), str(fields), path))
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
    rule = fsp.samplers.RandomClips(sequence_length=lengths[-2], padding="drop")
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
    with pytest.raises(fsp.errors.ArgumentError, match="shuffle, shard_id.*random_shuffle"):
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
            wait_for_workers(loader, 2)
            batches, got = iter(loader), []
            while len(got) < 5:
                got.append(digest(next(batches)))
            assert len(loader.stats()["workers_by_node"]) == 2
            nodes.remove_node(other, allow_graceful=False)
            wait_until(lambda: sum(node["Alive"] for node in ray.nodes()) != 2)
            got += [digest(batch) for batch in batches]
            assert got == expected and loader.stats()["workers_lost"] >= 1
    finally:
        ray.shutdown()
        nodes.shutdown()
