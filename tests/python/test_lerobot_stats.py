"""Statistics of LeRobot datasets, and normalization with them."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest
from lerobot_writer import FPS, LENGTHS, TOP, WRIST, write

QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}


def stats_of(values: np.ndarray) -> dict[str, object]:
    """What LeRobot stores for a feature."""
    found = {
        "min": values.min(0),
        "max": values.max(0),
        "mean": values.mean(0, dtype=np.float64),
        "std": values.std(0, dtype=np.float64),
    }
    found |= {name: np.quantile(values.astype(np.float64), part, axis=0) for name, part in QUANTILES.items()}
    return {name: np.atleast_1d(value).tolist() for name, value in found.items()} | {"count": [len(values)]}


def store(root: Path, tables: dict[str, np.ndarray]) -> dict[str, dict[str, object]]:
    stats = {name: stats_of(values) for name, values in tables.items()}
    (root / "meta/stats.json").write_text(json.dumps(stats))
    return stats


def expected(mode: str, stats: dict[str, object], x: np.ndarray) -> np.ndarray:
    """LeRobot's formulas, in the dtype of the values."""
    own = {name: np.asarray(value, x.dtype) for name, value in stats.items()}
    tiny = x.dtype.type(1e-8)
    if mode == "mean_std":
        return (x - own["mean"]) / (own["std"] + tiny)
    low, high = {"min_max": ("min", "max"), "quantiles": ("q01", "q99"), "quantile10": ("q10", "q90")}[mode]
    span = own[high] - own[low]
    span = np.where(span == 0, tiny, span)
    return 2 * (x - own[low]) / span - 1


def only_batch(root: Path, **more) -> fsp.Batch:
    dataset = fsp.datasets.lerobot(root, camera=[WRIST], **more)
    (batch,) = fsp.ClipLoader(dataset, batch_size=sum(LENGTHS), index=False)
    assert batch["index"].tolist() == list(range(sum(LENGTHS)))
    return batch


@pytest.mark.parametrize("mode", ["mean_std", "min_max", "quantiles", "quantile10"])
def test_batches_are_normalized_as_by_the_policies_of_lerobot(tmp_path, videos, mode):
    tables = write(tmp_path, videos)
    stats = store(tmp_path, tables)
    batch = only_batch(tmp_path, normalize=mode, delta_timestamps={"action": [0.0, 1 / FPS]})
    for name in ("observation.state", "observation.map"):
        assert np.array_equal(batch[name].numpy(), expected(mode, stats[name], tables[name])), name
    first = batch["action"].numpy()[:, 0]
    assert first.dtype == np.float32 and np.array_equal(first, expected(mode, stats["action"], tables["action"]))
    assert np.array_equal(batch["timestamp"].numpy(), tables["timestamp"]), "neither a state nor an action"


def test_modes_by_feature_and_the_way_back(tmp_path, videos):
    tables = write(tmp_path, videos)
    stats = store(tmp_path, tables)
    modes = {"action": "min_max", "observation.state": "mean_std", "observation.map": "identity"}
    dataset = fsp.datasets.lerobot(tmp_path, camera=[WRIST], normalize=modes)
    (batch,) = fsp.ClipLoader(dataset, batch_size=42, index=False)
    assert np.array_equal(batch["action"].numpy(), expected("min_max", stats["action"], tables["action"]))
    assert np.array_equal(batch["observation.map"].numpy(), tables["observation.map"])
    normalization = pickle.loads(pickle.dumps(dataset.normalization))
    again = fsp.datasets.Normalization(json.loads(json.dumps(normalization.stats)), normalization.modes)
    for each in (normalization, again):
        for name in modes:
            assert np.array_equal(each.normalize(name, tables[name]), batch[name].numpy()), name
            assert np.allclose(each.unnormalize(name, batch[name]), tables[name], atol=1e-5), name
    assert normalization.normalize("timestamp", 3.0) == 3.0, "a feature without a mode"
    renamed = fsp.datasets.lerobot(tmp_path, rename={"action": "command"}, normalize="min_max")
    (batch,) = fsp.ClipLoader(renamed, batch_size=42, index=False)
    assert np.array_equal(batch["command"].numpy(), expected("min_max", stats["action"], tables["action"]))
    assert "command" in renamed.normalization.modes and "action" not in batch


def test_equal_numbers_are_normalized_without_a_division_by_zero(tmp_path, videos):
    tables = write(tmp_path, videos)
    stats = store(tmp_path, tables)
    for mode in ("mean_std", "min_max", "quantiles"):
        own = {key: [0.25] * 3 for key in stats["action"]} | {"std": [0.0] * 3}
        normalization = fsp.datasets.Normalization({"action": own}, {"action": mode})
        found = normalization.normalize("action", np.full((2, 3), 0.25, np.float32))
        assert np.array_equal(found, np.full((2, 3), 0.0 if mode == "mean_std" else -1.0))


def test_statistics_of_version_2_are_aggregated(tmp_path, videos):
    tables = write(tmp_path, videos, "v2.1")
    episode = tables["episode_index"]
    lines = [
        {"episode_index": n, "stats": {name: stats_of(each[episode == n]) for name, each in tables.items()}}
        for n in range(len(LENGTHS))
    ]
    path = tmp_path / "meta/episodes_stats.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = fsp.datasets.lerobot(tmp_path, camera=[WRIST], normalize="mean_std").normalization.stats
    for name in ("action", "observation.state", "observation.map"):
        exact = stats_of(tables[name])
        for key in ("min", "max", "mean", "std", "count"):
            assert np.allclose(found[name][key], exact[key], rtol=1e-12, atol=1e-12), (name, key)
    path.write_text(path.read_text() + '{"episode_index": 3}\n')
    with pytest.raises(fsp.errors.ArgumentError, match=r"episodes_stats\.jsonl, line 4"):
        fsp.datasets.lerobot(tmp_path, camera=[WRIST], normalize=True)


@pytest.mark.parametrize("version", ["v3.0", "v2.1"])
def test_statistics_are_computed_exactly(tmp_path, videos, version):
    tables = write(tmp_path, videos, version)
    with pytest.raises(fsp.errors.ArgumentError, match=r"has no statistics: .*lerobot_stats\(root\)"):
        fsp.datasets.lerobot(tmp_path, camera=[WRIST], normalize=True)
    found = fsp.datasets.lerobot_stats(tmp_path)
    assert set(found) == set(tables)
    for name, own in stats_of_all(tables).items():
        for key, value in own.items():
            assert np.shape(found[name][key]) == np.shape(value), (name, key)
            assert np.allclose(found[name][key], value, rtol=1e-12, atol=1e-14), (name, key)
    some = fsp.datasets.lerobot_stats(tmp_path, episodes=[2, 0])
    chosen = np.isin(tables["episode_index"], [0, 2])
    assert np.allclose(some["action"]["mean"], tables["action"][chosen].mean(0, dtype=np.float64))
    assert some["action"]["count"] == [int(chosen.sum())]
    path = tmp_path / "stats.json"
    path.write_text(json.dumps(found))
    if version == "v2.1":
        return  # the files have more frames than the episodes
    for stats in (found, path, str(path)):
        batch = only_batch(tmp_path, normalize="min_max", stats=stats)
        assert np.array_equal(batch["action"].numpy(), expected("min_max", found["action"], tables["action"]))


def stats_of_all(tables: dict[str, np.ndarray]) -> dict[str, dict[str, object]]:
    return {name: stats_of(values) for name, values in tables.items()}


def test_errors(tmp_path, videos):
    tables = write(tmp_path, videos)
    stats = store(tmp_path, tables)
    for more, reason in (
        ({"normalize": "z"}, "must be one of identity, mean_std"),
        ({"normalize": 3}, "normalize must be True"),
        ({"normalize": {"speed": "mean_std"}}, "no feature 'speed' of numbers; there are action"),
        ({"normalize": {TOP: "mean_std"}}, f"no feature '{TOP}'"),
        ({"normalize": {"index": "mean_std"}}, "'index' has int64"),
        ({"normalize": {"action": "max"}}, "'action' must have one of identity"),
        ({"normalize": {"action": "mean_std"}, "stats": {"action": {"mean": [0, 0, 0]}}}, "no std of 'action'"),
        ({"normalize": {"action": "mean_std"}, "stats": {}}, "no mean and no std of 'action'.*lerobot_stats"),
        ({"normalize": {"action": "min_max"}, "stats": {"action": {"min": [0], "max": [1]}}}, "1 numbers, .* has 3"),
        ({"normalize": {"action": "min_max"}, "stats": {"action": {"min": ["a"], "max": [1]}}}, "'a', which is no"),
        ({"normalize": {"action": "min_max"}, "stats": {"action": {"min": [0], "max": [1, 2]}}}, "1 and 2 numbers"),
        ({"stats": stats}, "stats= is for normalize="),
    ):
        with pytest.raises(fsp.errors.ArgumentError, match=reason):
            fsp.datasets.lerobot(tmp_path, camera=[WRIST], delta_timestamps={}, **more)
    (tmp_path / "meta/stats.json").write_text("[1")
    with pytest.raises(fsp.errors.ArgumentError, match=r"stats\.json is no JSON"):
        fsp.datasets.lerobot(tmp_path, camera=[WRIST], normalize=True)
    tables["action"][5, 1] = np.nan
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = pa.table({name: pa.array(each.tolist()) for name, each in tables.items()})
    pq.write_table(arrays.slice(0, 20), tmp_path / "data/chunk-000/file-000.parquet")
    with pytest.raises(fsp.errors.ArgumentError, match="action: value 1 of row 5 is NaN"):
        fsp.datasets.lerobot_stats(tmp_path)


def test_normalization_and_aggregation_are_those_of_lerobot(tmp_path, videos):
    torch = pytest.importorskip("torch")
    steps = pytest.importorskip("lerobot.processor.normalize_processor")
    types = pytest.importorskip("lerobot.configs.types")
    compute = pytest.importorskip("lerobot.datasets.compute_stats")
    tables = write(tmp_path, videos)
    episode, names = tables["episode_index"], ("action", "observation.state")
    parts = [
        {name: {key: np.asarray(v) for key, v in stats_of(tables[name][episode == n]).items()} for name in names}
        for n in range(len(LENGTHS))
    ]
    theirs = compute.aggregate_stats(parts)
    lines = [{"stats": {name: {k: v.tolist() for k, v in own.items()} for name, own in part.items()}} for part in parts]
    (tmp_path / "meta/episodes_stats.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    kinds = {"action": types.FeatureType.ACTION, "observation.state": types.FeatureType.STATE}
    for mode in ("mean_std", "min_max"):
        dataset = fsp.datasets.lerobot(tmp_path, camera=[WRIST], normalize={name: mode for name in names})
        own = dataset.normalization
        for name in names:
            for key in ("min", "max", "mean", "std"):
                assert np.allclose(own.stats[name][key], theirs[name][key], rtol=1e-12), (name, key)
        features = {name: types.PolicyFeature(kinds[name], tables[name].shape[1:]) for name in names}
        norm_map = dict.fromkeys(kinds.values(), types.NormalizationMode[mode.upper()])
        both = [
            step(features=features, norm_map=norm_map, stats=own.stats)
            for step in (steps.NormalizerProcessorStep, steps.UnnormalizerProcessorStep)
        ]
        (batch,) = fsp.ClipLoader(dataset, batch_size=42, index=False)
        for name in names:
            given = torch.from_numpy(tables[name])
            normalized = both[0]._apply_transform(given, name, kinds[name])
            assert torch.equal(batch[name].torch(), normalized), (mode, name)
            assert torch.equal(own.normalize(name, given), normalized)
            back = both[1]._apply_transform(normalized, name, kinds[name], inverse=True)
            assert torch.equal(own.unnormalize(name, normalized), back)
