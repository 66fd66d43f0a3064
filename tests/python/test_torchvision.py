"""Transforms of torchvision in a list, PerClip and PerBatch; skipped if torch or torchvision is not installed."""

from __future__ import annotations

import framespool as fsp
import numpy as np
import pytest
from framespool import transforms as t
from framespool.transforms import _compose
from framespool.transforms._functions import seeded

torch = pytest.importorskip("torch")
tv = pytest.importorskip("torchvision.transforms")
v2 = pytest.importorskip("torchvision.transforms.v2")
Nearest, Bicubic = v2.InterpolationMode.NEAREST_EXACT, v2.InterpolationMode.BICUBIC
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


@pytest.fixture(scope="module")
def clip() -> np.ndarray:
    """Two frames of smooth color, (2, 120, 160, 3) uint8."""
    height, width = np.mgrid[0:120, 0:160]
    waves = [np.sin(height / (5 + n) + n) * np.cos(width / (9 - n)) for n in range(3)]
    frame = np.stack(waves, 2) * 127 + 128
    return np.stack([frame, 255 - frame]).astype(np.uint8)


def of_torchvision(transform, clip):
    return transform(torch.from_numpy(clip).permute(0, 3, 1, 2)).numpy()


def of_framespool(transforms, clip, dtype="uint8"):
    return np.asarray(t.apply(clip, transforms, layout="TCHW", dtype=dtype))


@pytest.mark.parametrize("transform", [
    v2.Resize(64),
    v2.Resize((100, 90)),
    v2.Resize((50, 45), antialias=False),
    v2.Resize(200, max_size=210),
    v2.Resize(64, interpolation=Nearest),
    v2.Resize(64, interpolation=Bicubic),
    v2.Resize((50, 170), interpolation=Bicubic),
    v2.Resize(200, interpolation=Bicubic),
    v2.Resize((50, 45), interpolation=Bicubic, antialias=False),
    v2.Resize((150, 230), interpolation=Bicubic, antialias=False),
    v2.CenterCrop(100),
    v2.CenterCrop((130, 170)),
    v2.RandomCrop((120, 160)),
    v2.RandomHorizontalFlip(1.0),
    v2.RandomVerticalFlip(1.0),
    v2.RandomHorizontalFlip(0.0),
    v2.Grayscale(3),
    v2.RandomGrayscale(1.0),
    v2.ColorJitter(brightness=(1.3, 1.3)),
    v2.ColorJitter(contrast=(0.6, 0.6)),
    v2.ColorJitter(saturation=(1.5, 1.5)),
    v2.Pad(5),
    v2.Pad([1, 2, 3, 4], fill=(10, 20, 30)),
    v2.RandomRotation((30, 30)),
    v2.RandomRotation((30, 30), expand=True, fill=7),
    tv.Resize(64),
    tv.CenterCrop(32),
    v2.Compose([v2.ToImage(), v2.Compose([v2.Resize(64), v2.CenterCrop(60)]), v2.ToDtype(torch.uint8, scale=True)]),
    torch.nn.Sequential(v2.Resize(64), v2.RandomVerticalFlip(1.0)),
], ids=lambda transform: type(transform).__name__)  # fmt: skip
def test_result_is_that_of_torchvision(transform, clip):
    ours, theirs = of_framespool([transform], clip), of_torchvision(transform, clip)
    assert ours.shape == theirs.shape
    assert np.abs(ours.astype(int) - theirs).max() <= 1


@pytest.mark.parametrize("before", [True, False], ids=["crop first", "Normalize first"])
def test_float_results_are_those_of_torchvision(before, clip):
    crop, normalize = [v2.CenterCrop(100), v2.RandomHorizontalFlip(1.0)], v2.Normalize(MEAN, STD)
    order = [*crop, normalize] if before else [normalize, *crop]
    transform = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True), *order])
    ours, theirs = of_framespool([transform], clip, "float32"), of_torchvision(transform, clip)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize(("scale", "most"), [(True, 1), (False, 255)])
def test_range_of_floats_is_that_of_torchvision(scale, most, clip):
    transform = v2.Compose([v2.ToDtype(torch.float32, scale=scale), v2.CenterCrop((130, 170))])
    ours = of_framespool([transform], clip, "float32")
    np.testing.assert_allclose(ours, of_torchvision(transform, clip), atol=1e-5 * most)
    assert 0.9 * most < ours.max() <= most * 1.00001


def test_normalize_of_codes(clip):
    transform = v2.Compose([v2.ToDtype(torch.float32), v2.Normalize([127.5] * 3, [127.5] * 3)])
    np.testing.assert_allclose(of_framespool([transform], clip, "float32"), of_torchvision(transform, clip), atol=1e-5)


@pytest.mark.parametrize(("theirs", "ours"), [
    (v2.RandomCrop(32, padding=4, fill=9), t.RandomCrop(32, 4, fill=9)),
    (v2.RandomCrop((20, 30), pad_if_needed=True), t.RandomCrop((20, 30), pad_if_needed=True)),
    (v2.RandomResizedCrop(32, (0.5, 1), (1, 2)), t.RandomResizedCrop(32, (0.5, 1), (1, 2))),
    (v2.RandomResizedCrop(32, interpolation=Nearest), t.RandomResizedCrop(32, interpolation="nearest-exact")),
    (v2.RandomResizedCrop(32, interpolation=Bicubic), t.RandomResizedCrop(32, interpolation="bicubic")),
    (v2.RandomHorizontalFlip(0.3), t.RandomHorizontalFlip(0.3)),
    (v2.RandomGrayscale(0.2), t.RandomGrayscale(0.2)),
    (v2.ColorJitter(0.4, 0.3, 0.2), t.ColorJitter(0.4, 0.3, 0.2)),
    (v2.RandomRotation(15), t.RandomRotation(15, "nearest")),
    (v2.RandomAffine(10, (0.1, 0.2), (0.8, 1.2), 5), t.RandomAffine(10, (0.1, 0.2), (0.8, 1.2), 5, "nearest")),
    (v2.RandomErasing(0.4, (0.1, 0.2), (1, 2), 3), t.RandomErasing(0.4, (0.1, 0.2), (1, 2), 3)),
    (v2.RandomErasing(value="random"), t.RandomErasing(value="random")),
    (v2.RandomShortestSize([30, 40], 60, antialias=True), t.RandomShortestSize([30, 40], 60)),
    (v2.RandomPhotometricDistort((0.9, 1.1), p=0.2), t.RandomPhotometricDistort((0.9, 1.1), p=0.2)),
    (
        v2.RandomApply([v2.Compose([v2.Resize(9), v2.ToImage()]), v2.RandomInvert()], p=0.3),
        t.RandomApply([t.Resize(9), t.RandomInvert()], p=0.3),
    ),
    (
        v2.RandomApply(torch.nn.ModuleList([v2.RandomGrayscale(), v2.RandomApply([v2.RandomInvert()])])),
        t.RandomApply([t.RandomGrayscale(), t.RandomApply([t.RandomInvert()])]),
    ),
    (
        v2.RandomChoice([v2.Identity(), v2.Compose([v2.RandomInvert(), v2.Resize(9)])], p=[0.25, 0.75]),
        t.RandomChoice([[], [t.RandomInvert(), t.Resize(9)]], p=[0.25, 0.75]),
    ),
], ids=lambda transform: type(transform).__name__)  # fmt: skip
def test_random_transforms_keep_their_arguments(theirs, ours):
    """That the drawn parameters are applied as torchvision does is shown in test_torchvision_drawn.py."""
    assert _compose.split([theirs], "uint8") == _compose.split([ours], "uint8")


def test_fill_behind_the_conversion_to_floats_is_in_units_of_the_result(clip):
    transform = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Pad(3, fill=0.5)])
    # framespool's fills are code values: 0.5 is 127.5 of 255.
    ours = of_framespool([transform], clip, "float32")
    np.testing.assert_allclose(ours, of_torchvision(transform, clip), atol=0.5 / 255 + 1e-6)


@pytest.mark.parametrize(("transform", "message"), [
    (v2.Resize(64, interpolation=v2.InterpolationMode.NEAREST), "NEAREST takes other pixels than NEAREST_EXACT"),
    (v2.Resize(64, interpolation=v2.InterpolationMode.LANCZOS), "'lanczos' is not supported.*BICUBIC, NEAREST_EXACT"),
    (v2.RandomRotation(5, interpolation=Bicubic), "'bicubic' is not supported.*BILINEAR, NEAREST"),
    (v2.Grayscale(1), "num_output_channels=3"),
    (v2.AugMix(), "no equivalent.*PerClip"),
    (v2.RandomApply([v2.AugMix()]), "no equivalent"),
    (v2.RandomApply([v2.Normalize(MEAN, STD)]), "needs ToDtype"),
    (v2.RandomChoice([v2.ToDtype(torch.float32, scale=True), v2.RandomInvert()]), 'dtype is "uint8"'),
    (v2.RandomApply([len]), "built-in function len> in it is not a transform of torchvision"),
    (v2.Lambda(len), "no equivalent"),
    (v2.functional.horizontal_flip, "no equivalent.*PerClip"),
    (v2.Normalize(MEAN, STD), "needs ToDtype"),
    (v2.ToDtype(torch.float32, scale=True), 'dtype is "uint8"; give dtype="float32" as well'),
    (v2.ToDtype(torch.float64, scale=True), "chosen by dtype="),
    (v2.Pad(4, padding_mode="reflect"), "padding_mode 'reflect'"),
], ids=lambda value: type(value).__name__)  # fmt: skip
def test_what_has_no_equivalent_is_refused(transform, message, clip):
    with pytest.raises(fsp.ArgumentError, match=message):
        of_framespool([transform], clip)
    with pytest.raises(fsp.ArgumentError, match=message):
        of_framespool([v2.Compose([v2.Resize(8), transform])], clip)


def test_lists_inside_do_not_change_the_range_of_values(clip):
    convert = v2.ToDtype(torch.float32, scale=True)
    for transform in (v2.RandomApply([convert]), v2.RandomChoice([v2.RandomInvert(), v2.Compose([convert])])):
        with pytest.raises(fsp.ArgumentError, match="ToDtype.* in it must apply to all clips"):
            of_framespool([transform], clip, "float32")
    with pytest.raises(fsp.ArgumentError, match="it would change normalized values"):
        normalize = [convert, v2.Normalize(MEAN, STD)]
        of_framespool([*normalize, v2.RandomApply([v2.RandomInvert()])], clip, "float32")


def test_color_after_normalize_is_refused(clip):
    normalized = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD), v2.ColorJitter(0.4)]
    with pytest.raises(fsp.ArgumentError, match="put it before Normalize"):
        of_framespool([v2.Compose(normalized)], clip, "float32")


def test_list_of_both_libraries_in_a_loader(short_clips):
    rule = fsp.samplers.random(sequence_length=2)
    both = [t.Resize((24, 32)), v2.RandomHorizontalFlip(1.0)]
    ours = [t.Resize((24, 32)), t.RandomHorizontalFlip(1.0)]
    for layout in ("NTHWC", "NTCHW", "NCTHW"):
        pair = [
            next(iter(fsp.ClipLoader(short_clips[:3], rule, batch_size=3, transforms=transforms, layout=layout)))
            for transforms in (both, ours)
        ]
        np.testing.assert_array_equal(*(batch.frames.numpy() for batch in pair))


# --- PerClip and PerBatch


class Noise:
    """Adds noise of PyTorch's default generator, and records the shapes."""

    def __init__(self) -> None:
        self.shapes: list[tuple[int, ...]] = []

    def __call__(self, clip):
        self.shapes.append(tuple(clip.shape))
        return clip.float() + torch.rand(clip.shape)


def frames_by_clip(loader, epoch=0):
    loader.set_epoch(epoch)
    return {
        clip: frames
        for batch in loader
        for clip, frames in zip(batch.clip_ids.tolist(), batch.frames.numpy(force=True), strict=True)
    }


@pytest.mark.parametrize(("layout", "shape"), [
    ("NTHWC", (2, 24, 32, 3)), ("NTCHW", (2, 3, 24, 32)), ("NCTHW", (3, 2, 24, 32)),
])  # fmt: skip
def test_per_clip_gets_time_and_channels_first(layout, shape, short_clips):
    noise = Noise()
    rule = fsp.samplers.random(sequence_length=2)
    transforms = [t.Resize((24, 32)), t.PerClip(noise)]
    [batch] = fsp.ClipLoader(short_clips[:3], rule, batch_size=3, transforms=transforms, layout=layout)
    assert noise.shapes == [(2, 3, 24, 32)] * 3
    assert isinstance(batch.frames, torch.Tensor) and tuple(batch.frames.shape) == (3, *shape)
    [plain] = fsp.ClipLoader(short_clips[:3], rule, batch_size=3, transforms=transforms[:1], layout=layout)
    added = batch.frames.numpy() - plain.frames.numpy()
    assert added.min() >= 0 and added.max() <= 1 and added.std() > 0.2


def test_random_numbers_of_per_clip_depend_on_seed_epoch_and_clip(short_clips):
    def loader(seed=1, batch_size=3, **keywords):
        return fsp.ClipLoader(
            short_clips[:6],
            fsp.samplers.uniform(sequence_length=2, clips_per_video=1),
            batch_size=batch_size,
            transforms=[t.Resize((8, 9)), t.PerClip(Noise())],
            shuffle="full",
            seed=seed,
            **keywords,
        )

    state = torch.random.get_rng_state()
    first = frames_by_clip(loader())
    assert torch.equal(state, torch.random.get_rng_state()), "the generator of the program is left alone"
    torch.rand(3)
    for again in (frames_by_clip(loader(batch_size=2)), frames_by_clip(loader(num_threads=1, prefetch_batches=1))):
        assert all(np.array_equal(first[clip], again[clip]) for clip in range(6))
    half = frames_by_clip(loader(num_shards=2, shard_id=1, batch_size=2))
    assert len(half) == 3 and all(np.array_equal(first[clip], half[clip]) for clip in half)
    for other in (frames_by_clip(loader(seed=2)), frames_by_clip(loader(), epoch=1)):
        assert not any(np.array_equal(first[clip], other[clip]) for clip in range(6))
    assert not np.array_equal(first[0] % 1, first[1] % 1)

    begun = loader()
    next(iter(begun))
    resumed = loader()
    resumed.load_state_dict(begun.state_dict())
    left = {clip: frames for batch in resumed for clip, frames in zip(batch.clip_ids.tolist(), batch.frames.numpy())}  # noqa: B905
    assert len(left) == 3 and all(np.array_equal(first[clip], left[clip]) for clip in left)


def test_per_clip_takes_frames_of_different_sizes(short_clips, videos):
    dataset = [short_clips[0], (str(videos / "derived" / "tiny_34x26_h264.mp4"), 0)]
    rule = fsp.samplers.random(sequence_length=2)
    [batch] = fsp.ClipLoader(dataset, rule, batch_size=2, transforms=[t.PerClip(v2.CenterCrop(20))])
    assert tuple(batch.frames.shape) == (2, 2, 3, 20, 20)
    [batch] = fsp.ClipLoader(dataset, rule, batch_size=2, transforms=[t.PerClip(v2.Identity())])
    assert [tuple(frames.shape)[1:] for frames in batch.frames] == [(3, 480, 640), (3, 26, 34)]
    [batch] = fsp.ClipLoader(dataset, rule, batch_size=2, transforms=[t.PerClip(lambda clip: clip.float().mean())])
    assert tuple(batch.frames.shape) == (2,)


def test_functions_follow_each_other(short_clips, videos):
    rule = fsp.samplers.random(sequence_length=2)
    functions = [t.PerClip(v2.GaussianBlur(3)), t.PerBatch(lambda frames: frames.float() / 255), torch.nn.Flatten()]
    [batch] = fsp.ClipLoader(short_clips[:2], rule, batch_size=2, transforms=[t.Resize((8, 9)), *functions])
    assert batch.frames.shape == (2, 2 * 3 * 8 * 9) and batch.frames.max() <= 1
    with pytest.raises(fsp.ArgumentError, match="must come last, got PerClip.*before Resize"):
        fsp.ClipLoader(short_clips[:2], rule, batch_size=2, transforms=[functions[0], t.Resize(8)])
    with pytest.raises(fsp.ArgumentError, match="one size"):
        next(iter(fsp.ClipLoader(short_clips[:2], rule, batch_size=2, transforms=[t.PerBatch(len)])))
    with pytest.raises(fsp.ArgumentError, match="PerClip: function must be callable, got 3"):
        t.PerClip(3)
    video = fsp.Video(videos / "derived" / "tiny_34x26_h264.mp4")
    clip = video.frames([0, 1], transforms=[t.PerClip(lambda clip: clip.flip(-1))], layout="CTHW").data
    np.testing.assert_array_equal(clip.numpy(), video.frames([0, 1], layout="CTHW").data.numpy()[..., ::-1])


def test_per_clip_of_images(media):
    files = [str(path) for path in sorted((media / "images").rglob("*.jpg"))[:2]]
    shapes = []

    def record(image):
        shapes.append(tuple(image.shape))
        return image

    transforms = [t.Resize((8, 9)), t.PerClip(record)]
    [batch] = fsp.ImageLoader(files, batch_size=2, transforms=transforms)
    assert shapes == [(3, 8, 9)] * 2 and tuple(batch.images.shape) == (2, 3, 8, 9)
    assert tuple(fsp.decode_image(files[0], transforms=transforms).shape) == (8, 9, 3)


def test_state_knows_the_function(short_clips):
    def loader(function):
        rule = fsp.samplers.random(sequence_length=2)
        return fsp.ClipLoader(short_clips[:2], rule, batch_size=1, transforms=[t.Resize((8, 9)), t.PerClip(function)])

    state = loader(torch.abs).state_dict()
    loader(torch.abs).load_state_dict(state)
    with pytest.raises(fsp.ArgumentError, match="transforms"):
        loader(torch.neg).load_state_dict(state)


@pytest.mark.parametrize("name", ["MixUp", "CutMix"])
@pytest.mark.parametrize("layout", ["NTCHW", "NCTHW", "NTHWC"])
def test_each_clip_is_mixed_as_torchvision_would(name, layout, short_clips):
    rule, classes = fsp.samplers.random(sequence_length=2), 40
    options = {"batch_size": 3, "seed": 5, "dtype": "float32", "layout": layout, "shuffle": "full"}
    mixing = [t.Resize((16, 20)), getattr(t, name)(classes, alpha=0.8)]
    plain = fsp.ClipLoader(short_clips[:7], rule, transforms=mixing[:1], **options)
    mixed = fsp.ClipLoader(short_clips[:7], rule, transforms=mixing, **options)
    shares = []
    for epoch, (given, made) in enumerate(zip([*plain, *plain], [*mixed, *mixed], strict=True)):
        axes = [layout.index(axis) for axis in "NTCHW"]
        clips, results = (batch.frames.torch() if batch is given else batch.frames for batch in (given, made))
        clips, results = (frames.permute(axes).flatten(1, 2) for frames in (clips, results))
        for row, clip in enumerate(given.clip_ids.tolist()):
            theirs = getattr(v2, name)(alpha=0.8, num_classes=classes)
            with seeded(torch, (5, epoch // 3, clip, 0)):
                frames, labels = theirs(clips, given.labels.torch())
            assert torch.allclose(results[row], frames[row], atol=1e-6)
            assert torch.allclose(made.labels[row], labels[row], atol=1e-6)
            shares.append(float(labels[row].max()))
        assert made.labels.shape == (len(given), classes) and made.labels.dtype == torch.float32
    assert len(set(shares)) > 8, "each clip has its own part"


def test_mixing_says_what_it_needs(short_clips, videos):
    rule = fsp.samplers.random(sequence_length=2)

    def first(mixing, dataset=short_clips[:2], **more):
        return next(iter(fsp.ClipLoader(dataset, rule, batch_size=2, transforms=[t.Resize((8, 8)), mixing], **more)))

    with pytest.raises(
        fsp.ArgumentError, match='MixUp needs float frames, got torch.uint8; give the loader dtype="float32"'
    ):
        first(t.MixUp(5))
    with pytest.raises(fsp.ArgumentError, match="CutMix.*needs num_classes, since labels are class numbers"):
        first(t.CutMix())
    with pytest.raises(fsp.ArgumentError, match="label 1 is not a class from 0 to 0"):
        first(t.CutMix(1))
    vectors = [(path, [n, 1.0 - n]) for n, (path, _) in enumerate(short_clips[:2])]
    assert first(t.CutMix(), vectors).labels.sum(1).tolist() == [1, 1]
    with pytest.raises(fsp.ArgumentError, match="labels are vectors of 2 numbers; remove num_classes"):
        first(t.CutMix(3), vectors)
    with pytest.raises(fsp.ArgumentError, match="use it in the transforms of a loader"):
        fsp.Video(short_clips[0][0]).frames([0], transforms=[t.CutMix(3)])
    for wrong in ({"alpha": 0}, {"num_classes": 0}, {"num_classes": 1.5}):
        with pytest.raises(fsp.ArgumentError, match="MixUp: (alpha|num_classes)"):
            t.MixUp(**wrong)
    [batch] = fsp.ImageLoader(
        [(str(path), 1) for path in sorted((videos.parent / "images").rglob("*.jpg"))[:2]],
        batch_size=2,
        transforms=[t.Resize((8, 8)), t.CutMix(3)],
    )
    assert batch.labels.tolist() == [[0, 1, 0]] * 2 and batch.images.shape == (2, 3, 8, 8)
