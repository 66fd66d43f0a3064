"""`collate=` of the loaders: how frames of different sizes become a batch."""

from __future__ import annotations

import io

import framespool as fsp
import numpy as np
import pytest
from PIL import Image

SHAPES = {"NTCHW": (0, 2, 3), "NCTHW": (1, 2, 3), "NTHWC": (0, 1, 2)}


@pytest.fixture
def dataset(videos):
    """Three videos of two sizes."""
    names = ("derived/base_640x360.mp4", "derived/tiny_34x26_h264.mp4", "derived/rotate_cw90_640x360.mp4")
    return [(str(videos / name), label) for label, name in enumerate(names)]


def batch_of(dataset, clip_sampler=None, **keywords):
    clip_sampler = clip_sampler or fsp.samplers.Indices([0, 3])
    (batch,) = fsp.ClipLoader(dataset, clip_sampler, batch_size=len(dataset), **keywords)
    return batch


@pytest.mark.parametrize("layout", SHAPES)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_pad_fills_each_clip_with_zeros_at_the_end(dataset, layout, dtype):
    def lengths(info, rng):
        return range(2 if info.num_frames == 60 else 3)

    keywords = {"clip_sampler": fsp.samplers.Custom(lengths), "layout": layout, "dtype": dtype}
    apart = batch_of(dataset, **keywords).frames
    batch = batch_of(dataset, **keywords, collate="pad")
    padded = batch.frames.numpy()
    t, h, w = SHAPES[layout]
    assert [padded.shape[1 + axis] for axis in (t, h, w)] == [3, 640, 640]
    for own, clip, size, indices in zip(
        apart, padded, batch.unpadded_sizes.tolist(), batch.indices.tolist(), strict=True
    ):
        assert size == [own.shape[h], own.shape[w]]
        assert sum(index >= 0 for index in indices) == own.shape[t]
        inside = tuple(slice(length) for length in own.shape)
        assert np.array_equal(clip[inside], own.numpy())
        clip = clip.copy()
        clip[inside] = 0
        assert not clip.any()


def test_views_are_padded_too(dataset):
    views = [fsp.transforms.Resize(20), fsp.transforms.ThreeCrop(16)]
    lengths = fsp.samplers.Custom(lambda info, rng: range(1 if info.num_frames == 60 else 2))
    apart = batch_of(dataset, lengths, transforms=views).frames
    padded = batch_of(dataset, lengths, transforms=views, collate="pad").frames.numpy()
    assert padded.shape == (3, 3, 2, 3, 16, 16)
    for own, clip in zip(apart, padded, strict=True):
        assert np.array_equal(clip[:, : own.shape[1]], own.numpy()) and not clip[:, own.shape[1] :].any()


def test_stack_takes_clips_of_one_size_and_names_two_that_differ(dataset):
    same = [dataset[0], dataset[0]]
    batch = batch_of(same, collate="stack")
    assert batch.frames.shape == (2, 2, 3, 360, 640) and batch.unpadded_sizes is None
    assert np.array_equal(batch.frames.numpy(), np.stack([clip.numpy() for clip in batch_of(same).frames]))
    loader = fsp.ClipLoader(
        [*dataset[:2], *same], fsp.samplers.Indices([0, 3]), batch_size=2, collate="stack", num_threads=1
    )
    batches = iter(loader)
    with pytest.raises(fsp.errors.ArgumentError) as raised:
        next(batches)
    for word in ("base_640x360.mp4: 2 frames of 640x360", "tiny_34x26_h264.mp4: 2 frames of 34x26"):
        assert word in str(raised.value)
    for way in ("Resize", 'collate="pad"', 'collate="list"'):
        assert way in str(raised.value)
    assert loader.state_dict()["batch"] == 1
    assert next(batches).frames.shape == (2, 2, 3, 360, 640), "the next batch is delivered"


def test_auto_depends_on_the_transforms_and_not_on_the_batch(dataset):
    same = [dataset[0], dataset[0]]
    assert isinstance(batch_of(same).frames, list)
    fixed = [fsp.transforms.Resize((8, 8))]
    batch = batch_of(same, transforms=fixed)
    assert batch.frames.shape == (2, 2, 3, 8, 8)
    apart = batch_of(same, transforms=fixed, collate="list").frames
    assert isinstance(apart, list) and [clip.shape for clip in apart] == [(2, 3, 8, 8)] * 2
    assert np.array_equal(np.stack([clip.numpy() for clip in apart]), batch.frames.numpy())
    padded = batch_of(same, transforms=fixed, collate="pad")
    assert np.array_equal(padded.frames.numpy(), batch.frames.numpy())
    assert padded.unpadded_sizes.tolist() == [[8, 8], [8, 8]]
    with pytest.raises(fsp.errors.ArgumentError, match='collate must be one of "auto", "stack", "pad", "list"'):
        batch_of(same, collate="mix")
    with pytest.raises(TypeError, match="collate=, which is"):
        batch_of(same, collate_fn=list)


def test_a_skipped_batch_is_collated_too(dataset, videos):
    bad = str(videos / "corrupt" / "derived" / "zero_hole_h264.mp4")
    loader = fsp.ClipLoader(
        [*dataset, bad], fsp.samplers.Indices([0, 40]), batch_size=2, on_error="skip", collate="pad"
    )
    assert [batch.unpadded_sizes.tolist() for batch in loader] == [[[360, 640], [26, 34]], [[640, 360]]]
    alone = fsp.ClipLoader(
        [bad, dataset[1]], fsp.samplers.Indices([0, 40]), batch_size=1, on_error="skip", collate="pad", seed=1
    )
    batches = list(alone)
    assert [batch.frames.shape for batch in batches] == [(1, 2, 3, 26, 34)] * 2
    assert [batch.padding.tolist() for batch in batches] == [[True], [False]]


def test_grouped_clips_are_listed_by_video(dataset):
    sampler = fsp.samplers.UniformClips(sequence_length=2, clips_per_video=3)
    fixed = [fsp.transforms.Resize((8, 8))]
    apart = batch_of(dataset, sampler, transforms=fixed, group_clips=True, collate="list")
    assert [video.shape for video in apart.frames] == [(3, 2, 3, 8, 8)] * 3
    padded = batch_of(dataset, sampler, transforms=fixed, group_clips=True, collate="pad")
    assert padded.unpadded_sizes.shape == (3, 3, 2)


def png(size, mode="RGB", color=200):
    held = io.BytesIO()
    Image.new(mode, size, color if mode == "L" else (color,) * 3).save(held, "png")
    return held.getvalue()


def test_images_and_their_masks_are_padded():
    images = [(png((6, 4)), 0), (png((3, 5)), 1)]
    (batch,) = fsp.ImageLoader(
        images, masks=[png((6, 4), "L", 7), png((3, 5), "L", 8)], mask_fill=255, batch_size=2, collate="pad"
    )
    assert batch.images.shape == (2, 3, 5, 6) and batch.unpadded_sizes.tolist() == [[4, 6], [5, 3]]
    pixels, labels = batch.images.numpy(), batch.masks.numpy()
    assert (pixels[0, :, :4] == 200).all() and not pixels[0, :, 4:].any()
    assert (labels[0, :4] == 7).all() and (labels[0, 4:] == 255).all()
    assert (labels[1, :, :3] == 8).all() and (labels[1, :, 3:] == 255).all()
    with pytest.raises(fsp.errors.ArgumentError, match=r"dataset\[0\]: 6x4; dataset\[1\]: 3x5"):
        next(iter(fsp.ImageLoader(images, batch_size=2, collate="stack")))
    (batch,) = fsp.ImageLoader(images[:1] * 2, batch_size=2, collate="stack")
    assert batch.images.shape == (2, 3, 4, 6)
    (batch,) = fsp.ImageLoader(images[:1] * 2, batch_size=2, collate="list", transforms=[fsp.transforms.Resize((2, 2))])
    assert [image.shape for image in batch.images] == [(3, 2, 2)] * 2


def test_batches_of_each_kind_become_torch_tensors(dataset):
    torch = pytest.importorskip("torch")
    padded = batch_of(dataset, collate="pad").torch()
    assert padded.frames.shape == (3, 2, 3, 640, 640) and padded.unpadded_sizes.dtype == torch.int64
    apart = batch_of(dataset, collate="list").torch()
    assert [tuple(clip.shape) for clip in apart.frames] == [(2, 3, 360, 640), (2, 3, 26, 34), (2, 3, 640, 360)]
    assert batch_of(dataset[:1], collate="stack").to("cpu").frames.shape == (1, 2, 3, 360, 640)
    doubled = torch.utils._pytree.tree_map(lambda value: value, padded)
    assert torch.equal(doubled.unpadded_sizes, padded.unpadded_sizes)


def test_functions_take_padded_batches(dataset):
    torch = pytest.importorskip("torch")
    transforms = [fsp.transforms.PerBatch(torch.neg)]
    assert batch_of(dataset, transforms=transforms, collate="pad").frames.shape == (3, 2, 3, 640, 640)
    with pytest.raises(fsp.errors.ArgumentError, match='or use collate="pad"'):
        batch_of(dataset, transforms=transforms)
