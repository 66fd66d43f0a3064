"""framespool.ray.ClipSource: the rows of Ray Data are the clips of a plain loader."""

from __future__ import annotations

import pickle
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest

ray = pytest.importorskip("ray")
pytest.importorskip("pyarrow")
# Ray's deprecations, and sockets that it leaves to the garbage collector.
# Workers take seconds to start on few cores.
pytestmark = pytest.mark.filterwarnings("ignore")

from ray_helpers import RANDOM, SIZED, WINDOWS, cluster, few  # noqa: E402, F401

RESIZED = [fsp.transforms.Resize((24, 32))]
#: Columns of the rows, and the fields of a batch that they come from.
COLUMNS = {
    **{name: name for name in ("frames", "indices", "pts_seconds", "mask")},
    **{"label": "labels", "video_id": "video_ids", "clip_id": "clip_ids", "view_id": "view_ids"},
}


def read(dataset, sampling=RANDOM, parallelism=1, **keywords):
    source = fsp.ray.ClipSource(dataset, sampling, **{"batch_size": 5, "transforms": SIZED, "seed": 5, **keywords})
    return ray.data.read_datasource(source, override_num_blocks=parallelism)


def expected_rows(dataset, sampling=RANDOM, **keywords):
    """The rows of a plain loader, in order."""
    keywords = {"batch_size": 4, "transforms": SIZED, "seed": 5, **keywords}
    loader = fsp.ClipLoader(dataset, sampling, shuffle=False, **keywords)
    rows = []
    for batch in loader:
        values = {name: getattr(batch, field) for name, field in COLUMNS.items()}
        arrays = {
            name: [tensor.numpy() for tensor in value] if isinstance(value, list) else value.numpy()
            for name, value in values.items()
        }
        for at in np.flatnonzero(~batch.padding.numpy()):
            row = {name: array[at] for name, array in arrays.items()}
            rows.append({**row, "path": loader.dataset[int(row["video_id"])][0]})
    return rows


def assert_equal(data, expected):
    """Compares row by row, in the order of the clips."""
    rows = sorted(data.take_all(), key=lambda row: np.ravel(row["clip_id"])[0])
    assert len(rows) == len(expected)
    for row, wanted in zip(rows, expected, strict=True):
        assert row.keys() >= wanted.keys()
        for name, value in wanted.items():
            assert np.array_equal(row[name], value), (name, row[name], value)
            assert np.asarray(row[name]).dtype == np.asarray(value).dtype, name


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize(
    "sampling, keywords",
    [
        (RANDOM, {}),
        (WINDOWS, {"dtype": "float16", "layout": "NTHWC"}),
        (fsp.samplers.UniformClips(sequence_length=3, clips_per_video=2), {"group_clips": True, "transforms": RESIZED}),
        (lambda info, rng: [0, rng.randrange(info.num_frames)], {"dtype": "float32"}),
    ],
)
def test_rows_are_the_clips_of_a_plain_loader(cluster, few, sampling, keywords, parallelism):
    """With random clips and crops, for any number of read tasks."""
    assert_equal(read(few, sampling, parallelism, **keywords), expected_rows(few, sampling, **keywords))


def test_rows_have_the_audio_of_their_clips(cluster, videos):
    dataset = [str(videos / "odd" / "data_streams.mp4")] * 2
    sampler = fsp.samplers.RandomClips(sequence_length=4, fps=8, clips_per_video=3)
    keywords = {"audio": fsp.Audio(sample_rate=8000, shift=0.1), "transforms": RESIZED, "seed": 5}
    loader = fsp.ClipLoader(dataset, sampler, batch_size=6, **keywords)
    batch = next(iter(loader))
    wanted = zip(batch.clip_ids.tolist(), batch.audio.numpy(), batch.audio_mask.numpy(), strict=True)
    wanted = [{"clip_id": clip, "audio": audio, "audio_mask": mask} for clip, audio, mask in wanted]
    assert batch.audio.shape == (6, 1, 4000) and batch.audio.numpy().any()
    assert_equal(read(dataset, sampler, 2, **keywords), wanted)


def test_blocks_are_arrow_tables_with_one_batch_each(cluster, few):
    source = fsp.ray.ClipSource(few, RANDOM, batch_size=5, transforms=SIZED)
    tasks = source.get_read_tasks(2)
    assert [[block.num_rows for block in task()] for task in tasks] == [[5, 5, 2]] * 2
    assert [block.num_rows for block in source.get_read_tasks(1, per_task_row_limit=7)[0]()] == [5, 2]
    assert len(source.get_read_tasks(100)) == len(few)
    schema = read(few).schema()
    assert set(schema.names) == {*COLUMNS, "path"}
    assert tuple(schema.base_schema.field("frames").type.shape) == (3, 3, 24, 32)


def test_columns_of_the_dataset_come_with_the_rows(cluster, few):
    dataset = fsp.datasets.Dataset(few, columns={"fold": range(6), "note": ["a", None, "c", "d", "e", "f"]})
    rows = read(dataset, parallelism=3).take_all()
    assert {(row["video_id"], row["fold"], row["note"]) for row in rows} == {
        (video, video, dataset.columns["note"][video]) for video in range(6)
    }
    with pytest.raises(fsp.errors.ArgumentError, match="columns named label, path"):
        read(fsp.datasets.Dataset(few, columns={"path": range(6), "label": range(6)}))


def test_relative_paths_start_from_this_process(cluster, few, monkeypatch):
    monkeypatch.chdir(Path(few[0][0]).parent)
    dataset = [(Path(path).name, label) for path, label in few]
    assert_equal(read(dataset, parallelism=2), expected_rows(dataset))


def test_bad_files_end_the_read_or_are_skipped(cluster, few, bad_file, tmp_path):
    dataset = [*few[:2], (bad_file, 9), *few[2:4], (str(tmp_path / "nowhere.mp4"), 9)]
    good = [row for row in expected_rows(dataset, on_error="skip") if row["label"] != 9]
    assert len(good) == 16
    for parallelism in (1, 3):
        assert_equal(read(dataset, parallelism=parallelism, on_error="skip"), good)
    assert len(read(dataset, parallelism=3, on_error="replace").take_all()) == 24
    for path, error in [
        (bad_file, fsp.errors.InvalidDataError),
        (str(tmp_path / "nowhere.mp4"), fsp.errors.NotFoundError),
    ]:
        for parallelism in (1, 3):
            with pytest.raises(error, match=Path(path).name):
                read([*few[:2], (path, 9)], parallelism=parallelism).take_all()


def test_threads_are_the_cpus_of_the_task(cluster, few):
    @ray.remote
    def num_threads(task):
        import framespool

        class Recorded(framespool.ClipLoader):
            def __init__(self, *arguments, **keywords):
                counts.append(keywords["num_threads"])
                super().__init__(*arguments, **keywords)

        counts, before, framespool.ClipLoader = [], framespool.ClipLoader, Recorded
        try:
            next(iter(task()))
        finally:
            framespool.ClipLoader = before
        return counts

    for num_cpus, keywords, expected in [(3, {}, 3), (0.5, {}, 1), (1, {"num_threads": 2}, 2)]:
        task = fsp.ray.ClipSource(few, RANDOM, transforms=SIZED, **keywords).get_read_tasks(2)[1]
        assert ray.get(num_threads.options(num_cpus=num_cpus).remote(task)) == [expected]


@pytest.mark.parametrize(
    "keywords, match",
    [
        ({"shuffle": True}, r"shuffle cannot.*random_shuffle\(\)"),
        ({"shard_id": 0, "num_shards": 2}, "shard_id, num_shards cannot.*streaming_split"),
        (
            {"num_shards": fsp.options.Shards(1, worker_id=0, num_workers=2), "shuffle": fsp.BufferShuffle(4)},
            "num_shards, shuffle.*streaming_split.*random_shuffle",
        ),
        ({"device": "cuda:0"}, "device cannot.*map_batches"),
        ({"device": "gpu"}, "device must be"),
        ({"last_batch": "drop"}, "last_batch cannot.*drop_last"),
        ({"batch_size": fsp.PixelBudget(9)}, "batch_size must be an int"),
        ({"repeats": 2}, "repeats cannot.*flat_map"),
        ({"dtype": "bfloat16"}, "float16"),
        ({"dtype": "int8"}, "dtype must be"),
        ({"on_error": "ignore"}, "on_error must be"),
        ({"batch_size": 0}, "batch_size"),
    ],
)
def test_arguments_that_ray_data_replaces_are_refused(few, keywords, match):
    with pytest.raises(fsp.errors.ArgumentError, match=match):
        fsp.ray.ClipSource(few, RANDOM, **keywords)


def test_other_arguments_are_validated_at_once(few):
    for keywords, match in [({"nonsense": 1}, "nonsense"), ({"transform": []}, "transforms=, a list")]:
        with pytest.raises(TypeError, match=match):
            fsp.ray.ClipSource(few, RANDOM, **keywords)
    mixed = fsp.datasets.mix((few[:2], 1), (few[2:], 1), epoch_clips=4)
    for dataset, sampling, match in [
        (few, None, "clip_sampler is missing"),
        ([], RANDOM, "empty"),
        (mixed, RANDOM, "union"),
        ("videos/", RANDOM, "folder"),
    ]:
        with pytest.raises(fsp.errors.ArgumentError, match=match):
            fsp.ray.ClipSource(dataset, sampling)
    fsp.ray.ClipSource(["nowhere.mp4"], WINDOWS, device="cpu")  # opens no file


def test_a_source_can_be_pickled(cluster, few):
    source = fsp.ray.ClipSource(few, RANDOM, batch_size=5, transforms=SIZED, seed=5)
    assert isinstance(source, ray.data.Datasource) and isinstance(source, fsp.ray.ClipSource)
    copied = pickle.loads(pickle.dumps(source))
    assert type(copied) is type(source)
    assert_equal(ray.data.read_datasource(copied), expected_rows(few))


def test_a_pipeline_maps_batches_and_limits_rows(cluster, few, tmp_path):
    def embed(batch):
        means = batch["frames"].mean(axis=(1, 2, 3, 4), dtype="float64")
        return {"video_id": batch["video_id"], "view_id": batch["view_id"], "mean": means}

    means = [row["frames"].mean(dtype="float64") for row in expected_rows(few)]
    data = read(few, parallelism=3).map_batches(embed, batch_size=6)
    data.write_parquet(str(tmp_path / "out"))
    rows = ray.data.read_parquet(str(tmp_path / "out")).take_all()
    rows.sort(key=lambda row: (row["video_id"], row["view_id"]))
    assert [row["mean"] for row in rows] == pytest.approx(means)
    assert len(read(few, parallelism=3).limit(7).take_all()) == 7
