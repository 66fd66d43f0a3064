"""Transforms of torchvision in a list, PerClip and PerBatch; skipped if torch or torchvision is not installed."""

from __future__ import annotations

import itertools
import threading

import framespool as fsp
import numpy as np
import pytest
from framespool import transforms as t
from framespool.transforms import _compose
from framespool.transforms._functions import mixing_partners, seeded

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
    (v2.MixUp(alpha=0.8, num_classes=3), t.MixUp(3, 0.8)),
    (v2.CutMix(num_classes=3), t.CutMix(3)),
    (v2.RandomChoice([v2.MixUp(), v2.CutMix()], p=[1, 3]), t.OneOf([t.MixUp(), t.CutMix()], [0.25, 0.75])),
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
    (v2.CutMix(labels_getter=len), "omit labels_getter"),
    (v2.RandomChoice([v2.CutMix(), v2.AugMix()]), "no equivalent"),
    (v2.Lambda(len), "no equivalent"),
    (v2.functional.horizontal_flip, "no equivalent.*PerClip"),
    (v2.Normalize(MEAN, STD), "needs ToDtype"),
    (v2.ToDtype(torch.float32, scale=True), 'dtype is "uint8"; give dtype="float32" as well'),
    (v2.ToDtype(torch.float64, scale=True), "chosen by dtype="),
    (v2.Pad(4, padding_mode="reflect"), "padding_mode 'reflect'"),
], ids=lambda value: type(value).__name__)  # fmt: skip
def test_what_has_no_equivalent_is_refused(transform, message, clip):
    with pytest.raises(fsp.errors.ArgumentError, match=message):
        of_framespool([transform], clip)
    with pytest.raises(fsp.errors.ArgumentError, match=message):
        of_framespool([v2.Compose([v2.Resize(8), transform])], clip)


def test_lists_inside_do_not_change_the_range_of_values(clip):
    convert = v2.ToDtype(torch.float32, scale=True)
    for transform in (v2.RandomApply([convert]), v2.RandomChoice([v2.RandomInvert(), v2.Compose([convert])])):
        with pytest.raises(fsp.errors.ArgumentError, match="ToDtype.* in it must apply to all clips"):
            of_framespool([transform], clip, "float32")
    with pytest.raises(fsp.errors.ArgumentError, match="it would change normalized values"):
        normalize = [convert, v2.Normalize(MEAN, STD)]
        of_framespool([*normalize, v2.RandomApply([v2.RandomInvert()])], clip, "float32")


def test_color_after_normalize_is_refused(clip):
    normalized = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD), v2.ColorJitter(0.4)]
    with pytest.raises(fsp.errors.ArgumentError, match="put it before Normalize"):
        of_framespool([v2.Compose(normalized)], clip, "float32")


def test_list_of_both_libraries_in_a_loader(short_clips):
    rule = fsp.samplers.RandomClips(sequence_length=2)
    both = [t.Resize((24, 32)), v2.RandomHorizontalFlip(1.0)]
    ours = [t.Resize((24, 32)), t.RandomHorizontalFlip(1.0)]
    for layout in ("NTHWC", "NTCHW", "NCTHW"):
        pair = [
            next(iter(fsp.ClipLoader(short_clips[:3], rule, batch_size=3, transforms=transforms, layout=layout)))
            for transforms in (both, ours)
        ]
        np.testing.assert_array_equal(*(batch.frames.numpy() for batch in pair))


def test_one_transform_in_place_of_a_list(short_clips):
    rule, recipe = fsp.samplers.RandomClips(sequence_length=2), [v2.Resize((24, 32)), v2.RandomHorizontalFlip(1.0)]
    [expected] = fsp.ClipLoader(short_clips[:2], rule, batch_size=2, transforms=recipe)
    for transforms in (v2.Compose(recipe), torch.nn.Sequential(*recipe), v2.Compose([v2.Compose(recipe)])):
        [batch] = fsp.ClipLoader(short_clips[:2], rule, batch_size=2, transforms=transforms)
        np.testing.assert_array_equal(batch.frames.numpy(), expected.frames.numpy())
    assert fsp.Video(short_clips[0][0]).frames([0], transforms=v2.Resize((24, 32))).frames.shape == (1, 3, 24, 32)
    with pytest.raises(fsp.errors.ArgumentError, match="TokenBudget needs transforms.SmartResize"):
        fsp.ClipLoader(short_clips[:2], rule, batch_size=fsp.TokenBudget(100), transforms=v2.Compose(recipe))
    with pytest.raises(fsp.errors.ArgumentError, match="transforms must be a list"):
        fsp.ClipLoader(short_clips[:2], rule, batch_size=2, transforms=len)


def test_floats_to_255_are_mixed():
    """What brings floats to the range of torchvision stands before the functions."""
    entries = [v2.ToDtype(torch.float32), v2.MixUp(num_classes=3)]
    assert _compose.split(entries, "float32") == _compose.split([t.Normalize(0, 1 / 255), t.MixUp(3)], "float32")


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
    rule = fsp.samplers.RandomClips(sequence_length=2)
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
            fsp.samplers.UniformClips(sequence_length=2, clips_per_video=1),
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


@pytest.mark.parametrize("on", ["consumer", "workers"])
def test_functions_of_one_list_draw_different_numbers(on, short_clips):
    drawn = []

    def noise(clip):
        drawn.append(float(torch.rand(())))
        return clip

    transforms = [t.Resize((8, 8)), t.PerClip(noise, on=on), t.PerClip(noise, on=on), t.MixUp(num_classes=99)]
    sampler = fsp.samplers.UniformClips(sequence_length=2)
    keywords = {"batch_size": 4, "transforms": transforms, "dtype": "float32"}
    [batch] = fsp.ClipLoader(short_clips[:4], sampler, **keywords)
    assert len(set(drawn)) == 8
    # The Beta distribution of parameter 1 is uniform: its share would be a function of the first number of a clip.
    weights = batch.mix_weights.tolist()
    again = fsp.ClipLoader(short_clips[:4], sampler, **{**keywords, "transforms": [transforms[0], transforms[-1]]})
    assert not set(weights) & set(next(iter(again)).mix_weights.tolist())


def test_occurrences_of_a_clip_have_their_own_random_numbers(short_clips):
    drawn = fsp.transforms.PerClip(lambda clip: torch.rand(3))
    weighted = fsp.datasets.weighted(short_clips[:2], [1, 9], epoch_clips=8)

    def numbers(**keywords):
        found = {}
        for rank in range(keywords.get("num_shards", 1)):
            loader = fsp.ClipLoader(
                weighted,
                fsp.samplers.UniformClips(sequence_length=2),
                transforms=[t.Resize((8, 8)), drawn],
                shuffle="full",
                shard_id=rank,
                repeats=2,
                **keywords,
            )
            for number, batch in enumerate(loader):
                for clip, value in zip(batch.clip_ids.tolist(), batch.frames.tolist(), strict=True):
                    found.setdefault((number, clip), []).append(tuple(value))
        return {key: sorted(values) for key, values in found.items()}

    two, one = numbers(batch_size=2, num_shards=2), numbers(batch_size=4)
    assert two == one
    values = [value for found in one.values() for value in found]
    assert len(values) == 16 and len(set(values)) == 16


def test_per_clip_takes_frames_of_different_sizes(short_clips, videos):
    dataset = [short_clips[0], (str(videos / "derived" / "tiny_34x26_h264.mp4"), 0)]
    rule = fsp.samplers.RandomClips(sequence_length=2)
    [batch] = fsp.ClipLoader(dataset, rule, batch_size=2, transforms=[t.PerClip(v2.CenterCrop(20))])
    assert tuple(batch.frames.shape) == (2, 2, 3, 20, 20)
    [batch] = fsp.ClipLoader(dataset, rule, batch_size=2, transforms=[t.PerClip(v2.Identity())])
    assert [tuple(frames.shape)[1:] for frames in batch.frames] == [(3, 480, 640), (3, 26, 34)]
    [batch] = fsp.ClipLoader(dataset, rule, batch_size=2, transforms=[t.PerClip(lambda clip: clip.float().mean())])
    assert tuple(batch.frames.shape) == (2,)


def test_functions_follow_each_other(short_clips, videos):
    rule = fsp.samplers.RandomClips(sequence_length=2)
    functions = [t.PerClip(v2.GaussianBlur(3)), t.PerBatch(lambda frames: frames.float() / 255), torch.nn.Flatten()]
    [batch] = fsp.ClipLoader(short_clips[:2], rule, batch_size=2, transforms=[t.Resize((8, 9)), *functions])
    assert batch.frames.shape == (2, 2 * 3 * 8 * 9) and batch.frames.max() <= 1
    with pytest.raises(fsp.errors.ArgumentError, match="must come last, got PerClip.*before Resize"):
        fsp.ClipLoader(short_clips[:2], rule, batch_size=2, transforms=[functions[0], t.Resize(8)])
    with pytest.raises(fsp.errors.ArgumentError, match="one size"):
        next(iter(fsp.ClipLoader(short_clips[:2], rule, batch_size=2, transforms=[t.PerBatch(len)])))
    with pytest.raises(fsp.errors.ArgumentError, match="PerClip: function must be callable, got 3"):
        t.PerClip(3)
    video = fsp.Video(videos / "derived" / "tiny_34x26_h264.mp4", layout="CTHW")
    clip = video.frames([0, 1], transforms=[t.PerClip(lambda clip: clip.flip(-1))]).frames
    np.testing.assert_array_equal(clip.numpy(), video.frames([0, 1]).frames.numpy()[..., ::-1])


def test_per_clip_of_images(media):
    files = [str(path) for path in sorted((media / "images").rglob("*.jpg"))[:2]]
    shapes = []

    def record(image):
        shapes.append(tuple(image.shape))
        return image

    transforms = [t.Resize((8, 9)), t.PerClip(record)]
    [batch] = fsp.ImageLoader(files, batch_size=2, transforms=transforms)
    assert shapes == [(3, 8, 9)] * 2 and tuple(batch.images.shape) == (2, 3, 8, 9)
    assert tuple(fsp.decode_image(files[0], transforms=transforms).shape) == (3, 8, 9)


def test_state_knows_the_function(short_clips):
    def loader(function):
        rule = fsp.samplers.RandomClips(sequence_length=2)
        return fsp.ClipLoader(short_clips[:2], rule, batch_size=1, transforms=[t.Resize((8, 9)), t.PerClip(function)])

    state = loader(torch.abs).state_dict()
    loader(torch.abs).load_state_dict(state)
    with pytest.raises(fsp.errors.ArgumentError, match="transforms"):
        loader(torch.neg).load_state_dict(state)


@pytest.mark.parametrize("name", ["MixUp", "CutMix"])
@pytest.mark.parametrize("layout", ["NTCHW", "NCTHW", "NTHWC"])
def test_each_clip_is_mixed_as_torchvision_would(name, layout, short_clips):
    rule, classes = fsp.samplers.RandomClips(sequence_length=2), 40
    options = {"batch_size": 3, "seed": 5, "dtype": "float32", "layout": layout, "shuffle": "full"}
    mixing = [t.Resize((16, 20)), getattr(t, name)(classes, alpha=0.8)]
    plain = fsp.ClipLoader(short_clips[:8], rule, transforms=mixing[:1], **options)
    mixed = fsp.ClipLoader(short_clips[:8], rule, transforms=mixing, **options)
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
    rule = fsp.samplers.RandomClips(sequence_length=2)

    def first(mixing, dataset=short_clips[:2], **more):
        return next(iter(fsp.ClipLoader(dataset, rule, batch_size=2, transforms=[t.Resize((8, 8)), mixing], **more)))

    with pytest.raises(
        fsp.errors.ArgumentError, match='MixUp needs float frames, got torch.uint8; give the loader dtype="float32"'
    ):
        first(t.MixUp(5))
    with pytest.raises(fsp.errors.ArgumentError, match="CutMix.*needs num_classes, since labels are class numbers"):
        first(t.CutMix())
    with pytest.raises(fsp.errors.ArgumentError, match="label 1 is not a class from 0 to 0"):
        first(t.CutMix(1))
    vectors = [(path, [n, 1.0 - n]) for n, (path, _) in enumerate(short_clips[:2])]
    assert first(t.CutMix(), vectors).labels.sum(1).tolist() == [1, 1]
    with pytest.raises(fsp.errors.ArgumentError, match="labels are vectors of 2 numbers; remove num_classes"):
        first(t.CutMix(3), vectors)
    with pytest.raises(fsp.errors.ArgumentError, match="use it in the transforms of a loader"):
        fsp.Video(short_clips[0][0]).frames([0], transforms=[t.CutMix(3)])
    for wrong in ({"alpha": 0}, {"num_classes": 0}, {"num_classes": 1.5}):
        with pytest.raises(fsp.errors.ArgumentError, match="MixUp: (alpha|num_classes)"):
            t.MixUp(**wrong)
    [batch] = fsp.ImageLoader(
        [(str(path), 1) for path in sorted((videos.parent / "images").rglob("*.jpg"))[:2]],
        batch_size=2,
        transforms=[t.Resize((8, 8)), t.CutMix(3)],
    )
    assert batch.labels.tolist() == [[0, 1, 0]] * 2 and batch.images.shape == (2, 3, 8, 8)


@pytest.mark.parametrize(("clips", "repeats", "others"), [
    ([4, 7, 9], 1, [2, 0, 1]),
    ([4, 4, 7, 7], 2, [2, 3, 0, 1]),
    ([4, 4, 4, 7, 7, 7, 9, 9, 9], 3, [6, 7, 8, 0, 1, 2, 3, 4, 5]),
    ([4, 7, 7, 4], 1, [2, 0, 0, 2]),  # a clip twice, as with replacement
    ([4, 7, 9, 4], 1, [2, 0, 1, 2]),  # last_batch="fill" delivers the first clips again
    ([4, 4, 7, 7, 4, 4], 2, [3, 3, 0, 1, 2, 3]),
    ([4, 7, 7], 2, [1, 0, 0]),  # a repeat that was skipped
    ([4, 4, 4], 2, [0, 1, 2]),
    ([4], 1, [0]),
])  # fmt: skip
def test_partner_of_a_clip_is_another_clip(clips, repeats, others):
    assert mixing_partners(clips, repeats) == others


@pytest.mark.parametrize("name", ["MixUp", "CutMix"])
def test_repeats_are_mixed_with_other_clips(name, short_clips):
    options = {"batch_size": 2, "repeats": 2, "dtype": "float32", "last_batch": "fill"}
    rule, resize = fsp.samplers.RandomClips(sequence_length=2), t.Resize((16, 20))
    plain = fsp.ClipLoader(short_clips[:3], rule, transforms=[resize], **options)
    mixed = fsp.ClipLoader(short_clips[:3], rule, transforms=[resize, getattr(t, name)(40, alpha=1)], **options)
    for given, made in zip(plain, mixed, strict=True):
        clips, others, own = made.clip_ids.torch(), made.mixed_with, made.mix_weights
        assert others.tolist() == [2, 3, 0, 1] and (clips[others] != clips).all()
        one_hot = torch.nn.functional.one_hot(given.labels.torch(), 40)
        assert torch.allclose(made.labels, own[:, None] * one_hot + (1 - own[:, None]) * one_hot[others])
        frames = given.frames.torch()
        share, own = (made.frames == frames).float().mean((1, 2, 3, 4)), own[:, None, None, None, None]
        if name == "MixUp":
            assert torch.allclose(made.frames, own * frames + (1 - own) * frames[others], atol=1e-6)
        else:
            assert ((made.frames == frames) | (made.frames == frames[others])).all() and (share >= own.flatten()).all()


def test_a_batch_of_one_clip_warns_once_that_nothing_is_mixed(short_clips):
    rule, transforms = fsp.samplers.RandomClips(sequence_length=2), [t.Resize((8, 8)), t.CutMix(40)]
    plain = fsp.ClipLoader(short_clips[:3], rule, batch_size=1, repeats=2, transforms=transforms[:1])
    loader = fsp.ClipLoader(short_clips[:3], rule, batch_size=1, repeats=2, transforms=transforms)
    with pytest.warns(UserWarning, match=r"CutMix.*all of its 2 rows hold clip 0. Use a larger batch_size") as warned:
        batches = [*loader, *loader]
    assert len(warned) == 1 and warned[0].filename == __file__
    for given, made in zip(plain, batches, strict=False):
        assert torch.equal(made.frames, given.frames.torch()) and made.mix_weights.tolist() == [1, 1]
        assert made.labels.argmax(1).tolist() == given.labels.tolist() and made.labels.max(1).values.tolist() == [1, 1]


def noise_of_both_generators(frames, context):
    """Noise of the default generator, of the generator of the context, and what else the context has."""
    given = torch.rand(len(frames), generator=context.generator)
    context.columns["numbers"] = torch.stack([torch.rand(len(frames)), given], 1)
    context.columns["seen"] = torch.stack([context.labels, context.clip_ids, context.video_ids], 1)
    context.labels = context.labels + 100 * (1 + context.epoch)
    return frames.float() + torch.rand(frames.shape)


def test_random_numbers_of_per_batch_depend_on_seed_epoch_batch_and_rank(short_clips):
    def loader(seed=1, **keywords):
        rule, resize = fsp.samplers.UniformClips(sequence_length=2, clips_per_video=1), t.Resize((8, 9))
        transforms = [resize, t.PerBatch(noise_of_both_generators), t.PerBatch(torch.nn.Dropout(0.5))]
        return fsp.ClipLoader(
            short_clips[:8], rule, batch_size=2, transforms=transforms, shuffle="full", seed=seed, **keywords
        )

    def drawn(batches):
        return [(batch["numbers"], batch.frames) for batch in batches]

    def same(a, b):
        return [
            all(torch.equal(x, y) for x, y in zip(one, other, strict=True)) for one, other in zip(a, b, strict=True)
        ]

    state = torch.random.get_rng_state()
    first = drawn(loader())
    assert torch.equal(state, torch.random.get_rng_state()), "the generator of the program is left alone"
    torch.rand(3)
    assert len(first) == 4 and same(first, drawn(loader(num_threads=1, prefetch_batches=1))) == [True] * 4
    begun, resumed = loader(), loader()
    next(iter(begun))
    resumed.load_state_dict(begun.state_dict())
    assert same(first[1:], drawn(resumed)) == [True] * 3
    for worker in range(2):
        assert (
            same(first[worker::2], drawn(loader(num_shards=fsp.options.Shards(1, worker_id=worker, num_workers=2))))
            == [True] * 2
        )
    ranks = [drawn(loader(num_shards=2, shard_id=rank)) for rank in range(2)]
    twice = loader()
    list(twice)
    others = [number for made in (first, *ranks, drawn(loader(seed=2)), drawn(twice)) for number, _ in made]
    assert len({tuple(numbers.flatten().tolist()) for numbers in others}) == len(others) - 2, (
        "rank 0 of 2 draws the same"
    )


def test_per_batch_changes_labels_and_adds_columns(short_clips):
    rule, transforms = (
        fsp.samplers.RandomClips(sequence_length=2),
        [t.Resize((8, 9)), t.PerBatch(noise_of_both_generators)],
    )
    loader = fsp.ClipLoader(short_clips[:3], rule, batch_size=3, transforms=transforms, shuffle="full")
    for epoch in range(2):
        [batch] = loader
        clips = batch.clip_ids.tolist()
        assert batch.labels.tolist() == [100 * (1 + epoch) + clip for clip in clips]
        assert batch["seen"].tolist() == [[clip] * 3 for clip in clips]
    with pytest.raises(
        fsp.errors.ArgumentError, match="works on the clips of a batch; use it in the transforms of a loader"
    ):
        fsp.Video(short_clips[0][0]).frames([0], transforms=transforms)


class WithContext(torch.nn.Module):
    def forward(self, frames, context):
        return context.clip_ids


def test_functions_without_a_parameter_context_get_frames_only(short_clips):
    def result(function):
        transforms = [t.Resize((8, 9)), t.PerBatch(function)]
        rule = fsp.samplers.RandomClips(sequence_length=2)
        return next(iter(fsp.ClipLoader(short_clips[:2], rule, batch_size=2, transforms=transforms))).frames

    assert result(torch.numel) == 2 * 2 * 3 * 8 * 9  # a function of C, which has no signature
    assert result(torch.nn.Flatten()).shape == (2, 2 * 3 * 8 * 9)
    assert result(lambda frames, other=None: other) is None
    assert result(WithContext()).tolist() == [0, 1]


def identity(frames):
    return frames


def test_one_of_chooses_a_function_for_each_batch(short_clips):
    rule, resize = fsp.samplers.RandomClips(sequence_length=2), t.Resize((8, 8))
    options = {"batch_size": 2, "dtype": "float32", "last_batch": "drop"}

    def loader(mixing, **more):
        return fsp.ClipLoader(short_clips[:13], rule, transforms=[resize, mixing], **options, **more)

    def batches(mixing, **more):
        made = loader(mixing, **more)
        return [(batch.frames, batch.labels) for _ in range(3) for batch in made]

    def same(one, other):
        return all(map(torch.equal, one, other))

    functions = [t.MixUp(40), t.CutMix(40), t.PerBatch(identity)]
    chosen, each = batches(t.OneOf(functions)), [batches(function) for function in functions]
    counts = [0, 0, 0]
    for number, (frames, labels) in enumerate(chosen):
        [found] = [place for place in range(3) if torch.equal(frames, each[place][number][0])]
        counts[found] += 1
        if found < 2:
            assert torch.equal(labels, each[found][number][1])
        else:  # labels have one form in all batches
            assert torch.equal(labels, torch.nn.functional.one_hot(each[2][number][1].torch(), 40).float())
    assert len(chosen) == 18 and min(counts) > 1
    assert all(map(same, batches(t.OneOf(functions, weights=[0, 1, 0])), each[1]))

    begun, resumed = loader(t.OneOf(functions)), loader(t.OneOf(functions))
    iterator = iter(begun)
    for _ in range(3):
        next(iterator)
    resumed.load_state_dict(begun.state_dict())
    assert all(map(same, [(batch.frames, batch.labels) for batch in resumed], chosen[3:6]))
    with pytest.raises(fsp.errors.ArgumentError, match="transforms was"):
        loader(t.OneOf(functions[:2])).load_state_dict(begun.state_dict())


def test_one_of_refuses_what_it_cannot_choose_from():
    for wrong, message in [
        ([], "transforms must be a list of functions"),
        ([t.MixUp(3), t.Resize(8)], r"Resize\(.*is no function of clips or batches; use MixUp, CutMix"),
        ([t.MixUp(3), t.CutMix(4)], "num_classes must be the same"),
    ]:
        with pytest.raises(fsp.errors.ArgumentError, match=message):
            t.OneOf(wrong)
    for weights in ([1], [0, 0], [1, -1], 3):
        with pytest.raises(fsp.errors.ArgumentError, match="OneOf: "):
            t.OneOf([t.MixUp(3), t.CutMix(3)], weights)
    both = [t.OneOf([t.MixUp(3), t.PerBatch(identity)]), t.CutMix(3)]
    with pytest.raises(
        fsp.errors.ArgumentError, match=r"CutMix.*would mix clips again that OneOf.*for one of them.* OneOf\("
    ):
        _compose.split(both, "float32")


def test_label_smoothing_is_that_of_pytorch(short_clips):
    """The loss is that of labels without smoothing and `CrossEntropyLoss(label_smoothing=...)`."""
    rule, smoothing = fsp.samplers.RandomClips(sequence_length=2), t.LabelSmoothing(13, 0.2)
    logits = torch.randn((4, 13), generator=torch.Generator().manual_seed(1))

    def loss(transforms, label_smoothing=0.0):
        options = {"batch_size": 4, "transforms": [t.Resize((8, 8)), *transforms]}
        labels = next(iter(fsp.ClipLoader(short_clips, rule, **options))).torch().labels
        return torch.nn.functional.cross_entropy(logits, labels, label_smoothing=label_smoothing)

    assert torch.allclose(loss([smoothing]), loss([], 0.2))
    assert torch.allclose(loss([t.CutMix(13), smoothing]), loss([t.CutMix(13)], 0.2))
    same_place = [t.PerBatch(lambda frames: frames), t.CutMix(13)]  # random numbers depend on the place in the list
    assert torch.allclose(loss([smoothing, t.CutMix(13)]), loss(same_place, 0.2))
    for wrong in ({"smoothing": 1.5}, {"num_classes": 0}):
        with pytest.raises(fsp.errors.ArgumentError, match="LabelSmoothing: "):
            t.LabelSmoothing(**wrong)


# --- TubeMask and BlockMask


def test_masks_depend_on_seed_epoch_and_clip(short_clips):
    def masks(names=("bool_masked_pos", "a", "b"), epoch=0, **keywords):
        rule = fsp.samplers.UniformClips(sequence_length=4, clips_per_video=1)
        blocks = [t.BlockMask(patch=(2, 8, 8), name="a"), t.BlockMask(2, 0.7, patch=(2, 8, 8), name="b")]
        transforms = [t.Resize((48, 64)), t.TubeMask(0.75, (2, 8, 8)), *blocks]
        options = {"batch_size": 2, "transforms": transforms, "shuffle": "full", "seed": 3, **keywords}
        loader = fsp.ClipLoader(short_clips[:4], rule, **options)
        loader.set_epoch(epoch)
        rows = [zip(batch.clip_ids.tolist(), *(batch[name] for name in names), strict=True) for batch in loader]
        return {clip: list(row) for clip, *row in (row for batch in rows for row in batch)}

    first = masks()
    assert len(first) == 4
    for tubes, *blocks in first.values():
        for mask in (tubes, *blocks):
            assert mask.shape == (2 * 6 * 8,) and mask.dtype == torch.bool
            assert torch.equal(*mask.reshape(2, 6, 8)), "the same in all frames"
        assert tubes.sum() == 2 * 36
        assert not torch.equal(*blocks) and all(0 < mask.sum() < 2 * 48 for mask in blocks)
    for same in (masks(batch_size=4), masks(shard_id=1, num_shards=2), masks(layout="NTHWC", dtype="float32")):
        assert all(torch.equal(one, other) for clip in same for one, other in zip(same[clip], first[clip], strict=True))
    for other in (masks(seed=4), masks(epoch=1)):
        assert not any(torch.equal(one[0], two[0]) for one in first.values() for two in other.values())


def test_blocks_leave_a_patch_and_have_the_stated_size():
    for scale, number in [(1, 5), (0.7, 2), (0.15, 8), (0.001, 1)]:
        mask = t.BlockMask(number, scale)
        for seed in range(40):
            generator = torch.Generator().manual_seed(seed)
            for rows, columns in ((14, 14), (1, 2), (2, 1), (3, 30)):
                made = mask._of_frame(torch, rows, columns, generator)
                assert made.shape == (rows, columns) and 0 < made.sum() < rows * columns
    one = t.BlockMask(1, 0.15, aspect_ratio=(0.75, 1.5))
    places = set()
    for seed in range(40):
        block = one._of_frame(torch, 14, 14, torch.Generator().manual_seed(seed))
        height, width = int(block.any(1).sum()), int(block.any(0).sum())
        assert block.sum() == height * width and abs(height * width - 0.15 * 196) < 5 and 0.6 < height / width < 1.8
        places.add(tuple(block.nonzero()[0].tolist()))
    assert len(places) > 15


def test_masks_say_what_they_need(short_clips, media):
    rule = fsp.samplers.RandomClips(sequence_length=3)

    def first(*transforms):
        return next(
            iter(fsp.ClipLoader(short_clips[:2], rule, batch_size=2, transforms=[t.Resize((16, 16)), *transforms]))
        )

    with pytest.raises(fsp.errors.ArgumentError, match=r"TubeMask.*3 along T is no multiple of 2"):
        first(t.TubeMask())
    with pytest.raises(fsp.errors.ArgumentError, match=r"needs frames N, T, C, H, W, got \(2, 2304\); put it before"):
        first(t.PerBatch(torch.nn.Flatten()), t.TubeMask())
    with pytest.raises(fsp.errors.ArgumentError, match=r"column 'bool_masked_pos' already; give another name="):
        first(t.TubeMask(patch=(1, 8, 8)), t.TubeMask(patch=(1, 8, 8)))
    with pytest.raises(fsp.errors.ArgumentError, match="one patch only"):
        first(t.BlockMask(patch=(1, 16, 16)))
    for wrong in ({"patch": 16}, {"patch": (2, 0, 16)}, {"ratio": 2}, {"name": ""}):
        with pytest.raises(fsp.errors.ArgumentError, match="TubeMask: (patch|ratio|name)"):
            t.TubeMask(**wrong)
    files = [str(path) for path in sorted((media / "images").rglob("*.jpg"))[:2]]
    images = fsp.ImageLoader(files, batch_size=2, transforms=[t.Resize((32, 32)), t.TubeMask(0.5, (1, 8, 8))])
    assert next(iter(images))["bool_masked_pos"].sum(1).tolist() == [8, 8]


# --- PerClip on workers


def on_both_threads(short_clips, *functions, count=6, **options):
    """A loader with the functions on the thread that takes batches, and one with them on workers."""
    rule, resize = fsp.samplers.UniformClips(sequence_length=2, clips_per_video=1), t.Resize((16, 20))
    options = {"batch_size": 2, "shuffle": "full", "seed": 3, "num_threads": 2, "dtype": "float32", **options}
    return [
        fsp.ClipLoader(
            short_clips[:count], rule, transforms=[resize, *(t.PerClip(each, on) for each in functions)], **options
        )
        for on in ("consumer", "workers")
    ]


class ManyRandomOperators:
    """Draws from the default generator in many ways; the result has all numbers."""

    def __call__(self, clip):
        small = torch.full((4,), 0.5)
        drawn = [torch.rand(4), torch.randn(4), torch.randint(9, (4,)), torch.randint(2, 9, (4,)), torch.randperm(4)]
        drawn += [torch.rand_like(small), torch.randn_like(small), torch.empty(4).uniform_(2, 3), small.bernoulli()]
        drawn += [torch.normal(small, 1.0), torch.multinomial(small, 4, True), torch.empty(4).exponential_()]
        drawn += [torch.randint_like(small, 9), torch.distributions.Beta(small, small).sample()]
        generator = torch.Generator().manual_seed(1)
        drawn += [torch.rand(4, generator=generator), torch.rand(4)]
        return torch.stack([each.float() for each in drawn]) + clip.mean()


@pytest.mark.parametrize("functions", [
    (ManyRandomOperators(),), (torch.nn.Dropout(0.5),), (Noise(), v2.ElasticTransform(20.0, 1.0)),
    (v2.RandomPhotometricDistort(p=1.0),),
], ids=["operators", "dropout", "two", "torchvision"])  # fmt: skip
@pytest.mark.parametrize("layout", ["NTCHW", "NCTHW"])
def test_result_on_workers_is_that_of_the_consumer(functions, layout, short_clips):
    first, second = on_both_threads(short_clips, *functions, layout=layout, repeats=2)
    state = torch.random.get_rng_state()
    for consumer, workers in zip([*first, *first], [*second, *second], strict=True):
        assert consumer.clip_ids.tolist() == workers.clip_ids.tolist()
        assert torch.equal(consumer.frames, workers.frames)
    assert torch.equal(state, torch.random.get_rng_state())


def test_single_batch_runs_the_functions_of_an_iteration(short_clips):
    """On workers, on the consumer, and for the batch, with the random numbers of that batch."""
    functions = [
        t.PerClip(lambda clip: torch.rand(()) + clip, on="workers"),
        t.PerClip(lambda clip: torch.rand(()) + clip),
        t.PerBatch(lambda frames: frames + torch.rand(())),
    ]
    loader = fsp.ClipLoader(
        short_clips[:6],
        fsp.samplers.RandomClips(sequence_length=2),
        batch_size=2,
        transforms=[t.Resize((8, 8)), *functions],
        shuffle="full",
    )
    whole = [batch.frames for batch in [*loader, *loader]]
    iterator = iter(loader)
    next(iterator)
    for place, frames in enumerate(whole):
        assert torch.equal(loader.batch(epoch=place // 3, index=place % 3).frames, frames)
    assert len(list(iterator)) == 2


def test_functions_on_workers_run_ahead_and_in_parallel(short_clips):
    names, done, meeting = set(), threading.Semaphore(0), threading.Barrier(2)

    def meet(clip):
        meeting.wait()  # ends only if another clip is in the function
        names.add(threading.current_thread().name.rpartition("_")[0])
        done.release()
        return clip

    _, loader = on_both_threads(short_clips, meet, count=8, prefetch_batches=2)
    iterator = iter(loader)
    next(iterator)
    for _ in range(3 * 2):
        done.acquire()  # of the first batch, and of the two batches after it, which are not requested yet
    assert loader.state_dict()["batch"] == 1
    assert len(list(iterator)) == 3 and names == {"fsp-per-clip"}


def test_position_counts_delivered_batches_only(short_clips):
    expected, loader = on_both_threads(short_clips, Noise(), count=10)
    clips = [batch.clip_ids.tolist() for batch in expected]
    positions = [(batch.clip_ids.tolist(), loader.state_dict()["batch"]) for batch in itertools.islice(loader, 2)]
    state = loader.state_dict()  # the iterator is gone, and has taken batches that it has not delivered
    assert positions == [(clips[0], 1), (clips[1], 2)] and state["batch"] == 2
    for again in on_both_threads(short_clips, Noise(), count=10):  # where functions run may change
        again.load_state_dict(state)
        assert [batch.clip_ids.tolist() for batch in again] == clips[2:]
        assert (again.state_dict()["epoch"], again.state_dict()["batch"]) == (1, 0)
    iterator = iter(loader)
    assert loader.state_dict()["epoch"] == 1 and loader.state_dict()["batch"] == 0
    next(iterator)
    loader.load_state_dict(state)
    assert list(iterator) == [], "the iteration in progress ends"
    assert [batch.clip_ids.tolist() for batch in loader] == clips[2:]
    unused = iter(loader)
    del unused
    loader.set_epoch(0)
    assert [batch.clip_ids.tolist() for batch in loader] == clips


def test_an_older_iterator_with_functions_on_workers_is_an_error(short_clips):
    """It names the first batch that it has not delivered, also if that is with the functions already."""
    _, loader = on_both_threads(short_clips, Noise(), count=10)
    older = iter(loader)
    next(older)
    newer = iter(loader)
    with pytest.raises(fsp.errors.CancelledError, match="batch 1 and the later ones"):
        next(older)
    assert len(list(newer)) == len(loader)
    older = iter(loader)
    for _ in range(len(loader)):
        next(older)
    iter(loader)
    assert next(older, None) is None


def test_errors_on_workers_are_in_place_of_their_batch(short_clips, tmp_path):
    damaged = tmp_path / "damaged.mkv"
    damaged.write_bytes(b"no video")
    dataset = [*short_clips[:3], (str(damaged), 0), *short_clips[4:8]]

    def fail(clip):
        if float(clip.flatten()[0]) == marks[4]:
            raise ValueError("as the test wants")
        return clip

    options = {"batch_size": 1, "transforms": [t.Resize((16, 20)), t.PerClip(fail, on="workers")]}
    rule = fsp.samplers.UniformClips(sequence_length=2, clips_per_video=1)
    plain = fsp.ClipLoader(short_clips[:8], rule, batch_size=1, transforms=options["transforms"][:1], dtype="float32")
    marks = [float(batch.frames.torch().flatten()[0]) for batch in plain]
    assert marks.count(marks[4]) == 1
    loader = fsp.ClipLoader(dataset, rule, dtype="float32", **options)
    iterator, found = iter(loader), []
    for number in range(8):
        try:
            found.append(next(iterator).clip_ids.tolist()[0])
        except (fsp.Error, ValueError) as error:
            found.append(type(error).__name__)
        assert loader.state_dict()["batch"] == (number + 1) % 8
    assert found == [0, 1, 2, "InvalidDataError", "ValueError", 5, 6, 7] and list(iterator) == []


def test_what_cannot_run_on_workers_is_refused(short_clips):
    _, loader = on_both_threads(short_clips, lambda clip: torch.native_dropout(clip, 0.5, True)[0])
    with pytest.raises(fsp.errors.ArgumentError, match=r'native_dropout.* takes no generator.*use on="consumer"'):
        next(iter(loader))
    clip = t.PerClip(torch.neg, on="workers")
    for transforms, message in [
        ([t.PerBatch(torch.neg), clip], r"PerClip.*must come before PerBatch"),
        ([clip, t.PerClip(torch.neg), clip], r"must come before PerClip\(.*'consumer'\)"),
    ]:
        with pytest.raises(fsp.errors.ArgumentError, match=message):
            _compose.split(transforms, "uint8")
    with pytest.raises(fsp.errors.ArgumentError, match="OneOf: PerClip.*use on="):
        t.OneOf([clip, t.PerBatch(torch.neg)])
    with pytest.raises(fsp.errors.ArgumentError, match="PerClip: on"):
        t.PerClip(torch.neg, on="threads")


def test_images_on_workers(media):
    files = [str(path) for path in sorted((media / "images").rglob("*.jpg"))[:3]]
    batches = [
        next(iter(fsp.ImageLoader(files, batch_size=3, transforms=[t.Resize((8, 9)), t.PerClip(Noise(), on)])))
        for on in ("consumer", "workers")
    ]
    assert batches[0].images.shape == (3, 3, 8, 9) and torch.equal(batches[0].images, batches[1].images)
