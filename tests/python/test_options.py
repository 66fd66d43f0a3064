"""Objects that stand in place of plain values: each checks its fields, and loaders share their parameters."""

from __future__ import annotations

import inspect
import pickle

import framespool as fsp
import pytest

RANDOM = fsp.samplers.RandomClips(sequence_length=4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fsp.Gpu("cpu"), 'device of a Gpu must be a GPU, got "cpu"'),
        (lambda: fsp.Gpu("tpu"), 'device must be "cpu", "cuda", "cuda:N" or N'),
        (lambda: fsp.Gpu(0, output="host"), 'output must be one of "gpu", "cpu", got "host"'),
        (lambda: fsp.Gpu(0, decoder="cuvid"), "decoder must be one of"),
        (lambda: fsp.Gpu(0, threads=0), "threads must be at least 1, got 0"),
        (lambda: fsp.Gpu(0, on_fallback="ignore"), 'on_fallback must be one of "warn", "raise", got "ignore"'),
        (lambda: fsp.options.OnError("ignore"), 'on_error must be one of "raise", "skip", "replace", got "ignore"'),
        (lambda: fsp.options.OnError(outage="ask"), 'outage must be one of "wait", "raise", got "ask"'),
        (lambda: fsp.options.OnError(outage=-1), "outage must be at least 0, got -1"),
        (lambda: fsp.options.Index(3), 'index must be a folder, None or "auto"'),
        (lambda: fsp.options.Index(progress=3), "progress must be None, True, False or a function"),
        (lambda: fsp.PixelBudget(1.5), "pixels must be an int, got 1.5"),
        (lambda: fsp.TokenBudget(0), "tokens must be at least 1, got 0"),
    ],
)
def test_a_wrong_value_is_refused_where_it_is_written(make, message):
    with pytest.raises(fsp.errors.ArgumentError) as error:
        make()
    assert str(error.value).startswith(message)


def test_decoders_of_the_other_kind_of_file_are_refused(tiny_clips, photos):
    with pytest.raises(fsp.errors.ArgumentError, match='"nvjpeg" is for images'):
        fsp.ClipLoader(tiny_clips, RANDOM, batch_size=1, device=fsp.Gpu(0, decoder="nvjpeg"))
    with pytest.raises(fsp.errors.ArgumentError, match='"nvdec" is for videos'):
        fsp.ImageLoader(photos, batch_size=1, device=fsp.Gpu(0, decoder="nvdec"))


def test_loaders_share_their_parameters():
    clips, images = (inspect.signature(loader.__init__).parameters for loader in (fsp.ClipLoader, fsp.ImageLoader))
    assert len(clips) - 1 == 25
    # They differ in what a clip has and an image does not: its frames, the memory of the clip cache, and the index.
    assert set(clips) - set(images) == {
        "clip_sampler",
        "frame_columns",
        "group_clips",
        "index",
        "views",
        "buckets",
        "audio",
    }
    assert set(images) - set(clips) == {"exact", "mask_fill", "masks"}
    shared = set(clips) & set(images) - {"batch_size", "cache", "layout", "transforms"}
    assert all(clips[name] == images[name] for name in shared), "the same default and annotation"


def test_objects_are_values():
    for one in (
        fsp.Gpu("cuda:1", decoder="nvdec", threads=3),
        fsp.GroupedShuffle(block_size=64),
        fsp.BufferShuffle(8),
        fsp.options.Shards(4, num_nodes=2),
        fsp.options.OnError("skip", outage=1.5),
        fsp.TokenBudget(64, max_clips=2),
    ):
        assert (
            pickle.loads(pickle.dumps(one))
            == one
            == eval(repr(one), {**vars(fsp), **vars(fsp.options), **vars(fsp.order)})
        )
