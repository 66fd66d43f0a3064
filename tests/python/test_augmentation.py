"""Transforms of frames and images, and the keys of their random numbers."""

from __future__ import annotations

import itertools
import struct

import framespool as fsp
import numpy as np
import pytest
from PIL import Image

t = fsp.transforms

TRAINING = [
    t.RandomResizedCrop(48, scale=(0.2, 1.0)),
    t.RandomHorizontalFlip(),
    t.ColorJitter(0.4, 0.4, 0.4, 0.1),
    t.RandomRotation(20, interpolation="bilinear", fill=50),
    t.GridMask(tile=(10, 20), degrees=(0, 90), shift_x=(0, 1), shift_y=(0, 1), p=0.7),
    t.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    t.RandomErasing(p=0.5, value="random"),
]


@pytest.fixture(scope="module")
def picture() -> np.ndarray:
    """Waves in three colors with a little noise, 90 by 120."""
    y, x, c = np.mgrid[0:90, 0:120, 0:3]
    waves = 120 + 90 * np.sin(x / (7.0 + 4 * c)) * np.cos(y / (11.0 - 2 * c))
    return (waves + np.random.default_rng(1).integers(-9, 10, waves.shape)).clip(0, 255).astype(np.uint8)


def loader(dataset, **keywords):
    sampling = fsp.samplers.RandomClips(sequence_length=3, stride=2)
    settings = {"batch_size": 5, "transforms": TRAINING, "dtype": "float32", "shuffle": "full", "seed": 3, **keywords}
    return fsp.ClipLoader(dataset, sampling, **settings)


def clips(batches) -> dict[int, bytes]:
    return {clip: batch.frames[i].tobytes() for batch in batches for i, clip in enumerate(batch.clip_ids.tolist())}


def test_augmentation_does_not_depend_on_workers(short_clips):
    expected = clips(loader(short_clips))
    assert len(set(expected.values())) == len(short_clips)
    for keywords in [
        {"num_threads": 1},
        {"num_threads": 5, "prefetch_batches": 4},
        {"batch_size": 1},
        {"shuffle": False},
    ]:
        assert clips(loader(short_clips, **keywords)) == expected
    assert clips(loader(short_clips, seed=4)) != expected
    again = loader(short_clips)
    again.set_epoch(1)
    assert clips(again) != expected


def test_describe_clip_reports_the_applied_draws(short_clips):
    """Applying the reported draws to the original frames gives the delivered clip."""
    transforms = [t.RandomCrop(200), t.RandomHorizontalFlip(), t.RandomVerticalFlip()]
    made = loader(short_clips, transforms=transforms, dtype="uint8")
    seen = set()
    for batch in made:
        for i, clip in enumerate(batch.clip_ids.tolist()):
            described = made.describe_clip(clip)
            assert (
                described["video_id"] == batch.video_ids.tolist()[i] and described["label"] == batch.labels.tolist()[i]
            )
            assert (
                described["indices"] == batch.indices.tolist()[i]
                and described["path"] == short_clips[described["video_id"]][0]
            )
            crop, horizontal, vertical = described["transforms"]
            assert [crop["name"], horizontal["name"]] == ["RandomCrop", "RandomHorizontalFlip"]
            top, left = int(crop["top"]), int(crop["left"])
            frames = fsp.Video(described["path"], layout="THWC").frames(described["indices"]).frames.numpy()
            expected = frames[:, top : top + 200, left : left + 200]
            if horizontal["applied"]:
                expected = expected[:, :, ::-1]
            if vertical["applied"]:
                expected = expected[:, ::-1]
            assert np.array_equal(batch.frames[i].numpy(), expected.transpose(0, 3, 1, 2))
            seen.add((horizontal["applied"], vertical["applied"], top))
    assert len(seen) > len(short_clips) / 2
    with pytest.raises(fsp.errors.ArgumentError, match="clip 99"):
        made.describe_clip(99)
    with pytest.raises(fsp.errors.ArgumentError, match="frame 3"):
        made.describe_clip(0, frame=3)
    made.set_epoch(5)
    assert made.describe_clip(0) == made.describe_clip(0, epoch=0)  # of the epoch started last
    fresh = loader(short_clips, transforms=transforms, dtype="uint8")
    fresh.set_epoch(5)
    assert fresh.describe_clip(0) == made.describe_clip(0, epoch=5) != made.describe_clip(0)


def test_describe_clip_reports_what_a_list_inside_drew(short_clips):
    """Applying the reported choices to the frames, one after another, gives the delivered clips."""
    views = [[t.Resize((60, 60))], [t.RandomShortestSize(range(62, 70)), t.RandomCrop(60)]]
    transforms = [t.RandomChoice(views, p=[1, 2]), t.RandomApply([t.RandomInvert(0.5), t.RandomPosterize(2, 1)], 0.4)]
    made = loader(short_clips, transforms=transforms, dtype="uint8", layout="NTHWC")
    seen = set()
    for batch in itertools.chain.from_iterable(made for _ in range(4)):
        assert batch.frames.shape[2:] == (60, 60, 3), "lists that end in one size give one batch"
        for i, clip in enumerate(batch.clip_ids.tolist()):
            described = made.describe_clip(clip)
            choice, apply = described["transforms"]
            number, names = int(choice["choice"]), [inner["name"] for inner in choice["transforms"]]
            assert names == [type(entry).__name__ for entry in views[number]]
            steps = [t.Resize((60, 60))]
            if number == 1:
                size, crop = choice["transforms"]
                top, left = int(crop["top"]), int(crop["left"])
                steps = [t.Resize(int(size["size"]))]
            assert len(apply["transforms"]) == 2 * apply["applied"]
            video = fsp.Video(described["path"], layout="THWC")
            frames = video.frames(described["indices"], transforms=steps).frames.numpy()
            expected = frames if number == 0 else frames[:, top : top + 60, left : left + 60]
            inverted = apply["applied"] and apply["transforms"][0]["applied"]
            expected = 255 - expected if inverted else expected
            expected = expected & 0b11000000 if apply["applied"] else expected
            assert np.array_equal(batch.frames[i].numpy(), expected)
            seen.add((number, apply["applied"], inverted))
    assert len(seen) == 6, "each list, and each change with and without"


def test_lists_that_end_in_different_sizes_give_lists_of_clips(short_clips):
    for transforms in (
        [t.RandomShortestSize(range(40, 60))],
        [t.Resize((60, 60)), t.RandomApply([t.CenterCrop(50)])],
        [t.RandomChoice([t.Resize((60, 60)), t.Resize((50, 50))])],
    ):
        sizes = {clip.shape for batch in loader(short_clips, transforms=transforms) for clip in batch.frames}
        assert len(sizes) > 1
        with pytest.raises(fsp.errors.ArgumentError, match="cannot be stacked|one size"):
            list(loader(short_clips, transforms=transforms, collate="stack"))


def test_frames_of_a_clip_share_random_parameters(picture):
    clip = np.stack([picture] * 4)
    same = t.apply(clip, [t.RandomCrop(40)], seed=1).numpy()
    assert all(np.array_equal(frame, same[0]) for frame in same)
    each = t.apply(clip, [t.RandomCrop(40, per_frame=True)], seed=1).numpy()
    assert np.array_equal(each[0], same[0]) and len({frame.tobytes() for frame in each}) == 4
    tops = [
        t.sample_params(clip.shape, [t.RandomCrop(40, per_frame=True)], seed=1, frame=k)[0]["top"] for k in range(4)
    ]
    lefts = [
        t.sample_params(clip.shape, [t.RandomCrop(40, per_frame=True)], seed=1, frame=k)[0]["left"] for k in range(4)
    ]
    for frame, top, left in zip(each, tops, lefts, strict=True):
        assert np.array_equal(frame, picture[int(top) : int(top) + 40, int(left) : int(left) + 40])


def test_the_same_key_moves_a_video_and_an_array_equally(videos):
    path = videos / "derived" / "base_640x360.mp4"
    video = fsp.Video(path, layout="THWC")
    batch = next(
        iter(
            fsp.ClipLoader(
                [path], fsp.samplers.RandomClips(sequence_length=2), batch_size=1, transforms=TRAINING[:1], seed=9
            )
        )
    )
    array = video.frames(batch.indices.tolist()[0]).frames
    by_hand = t.apply(array, TRAINING[:1], seed=9, epoch=0, clip=0).numpy().astype(int)
    difference = np.abs(by_hand.transpose(0, 3, 1, 2) - batch.frames[0].numpy())
    assert difference.mean() < 0.5 and (difference <= 2).mean() > 0.99  # RGB is resized there, YUV here


def test_labels_move_as_the_picture_does(picture):
    """A label map that says which quarter of its range the red is in still does after all geometry."""
    labels = picture[..., 0] // 64
    geometry = [
        t.Pad(3, fill=255),
        t.RandomAffine(180, translate=(0.2, 0.2), scale=(0.7, 1.3), shear=10, fill=255),
        t.RandomHorizontalFlip(),
    ]
    for seed in range(8):
        moved, moved_labels = t.apply(picture, geometry, masks=labels, mask_fill=9, seed=seed)
        red, label = moved.numpy()[..., 0], moved_labels.numpy()
        assert moved_labels.shape == (96, 126)
        outside = label == 9
        assert np.array_equal(label[~outside], red[~outside] // 64) and (red[outside] == 255).all()
    # Color, masks and Normalize do not apply to labels; two maps are returned as two.
    _, (first, second) = t.apply(picture, TRAINING, masks=[labels, 3 - labels], mask_fill=200, dtype="float32", seed=2)
    first, second = first.numpy(), second.numpy()
    assert first.dtype == np.uint8 and set(np.unique(first)) <= {0, 1, 2, 3, 200}
    assert np.array_equal(first == 200, second == 200) and ((first + second == 3) | (first == 200)).all()


def test_a_mask_of_another_size_is_refused(picture):
    with pytest.raises(fsp.errors.ArgumentError, match=r"90, 120.*90, 119"):
        t.apply(picture, [], masks=picture[:, 1:, 0].copy())


@pytest.mark.parametrize("layout", ["THWC", "TCHW", "CTHW"])
def test_dtypes_and_layouts_hold_the_same_numbers(picture, layout):
    clip = np.stack([picture, picture[::-1].copy()])
    axes = {"THWC": (0, 1, 2, 3), "TCHW": (0, 3, 1, 2), "CTHW": (3, 0, 1, 2)}[layout]
    steps = [t.Resize((30, 40)), t.Normalize(0.5, 0.25)]
    exact = t.apply(clip, steps, dtype="float32").numpy()
    codes = t.apply(clip, steps[:1]).numpy().astype(np.float64)
    assert np.abs(exact - (codes / 255 - 0.5) / 0.25).max() < 1e-6
    assert np.array_equal(t.apply(clip, steps, dtype="float32", layout=layout).numpy(), exact.transpose(axes))
    half = t.apply(clip, steps, dtype="float16", layout=layout).numpy()
    assert half.dtype == np.float16 and np.array_equal(half, exact.transpose(axes).astype(np.float16))
    brain = t.apply(clip, steps, dtype="bfloat16", layout=layout)
    words = np.frombuffer(brain.tobytes(), np.uint16).astype(np.uint32).reshape(brain.shape)
    upper = exact.transpose(axes).copy().view(np.uint32)
    assert np.array_equal(words, (upper + 0x7FFF + (upper >> 16 & 1)) >> 16)  # to nearest, ties to even
    assert brain.tolist()[0][0][0][0] == struct.unpack("<f", struct.pack("<I", int(words.flat[0]) << 16))[0]
    with pytest.raises(TypeError, match="bfloat16"):
        brain.numpy()


def test_views_come_in_a_dimension_of_their_own(picture, short_clips):
    wide = t.apply(picture, [t.ThreeCrop(90)]).numpy()
    assert wide.shape == (3, 90, 90, 3)
    for view, left in zip(wide, [0, 15, 30], strict=True):
        assert np.array_equal(view, picture[:, left : left + 90])
    five = t.apply(np.stack([picture] * 2), [t.FiveCrop((40, 50))], layout="TCHW").numpy()
    assert five.shape == (5, 2, 3, 40, 50)
    for view, (top, left) in zip(five, [(0, 0), (0, 70), (50, 0), (50, 70), (25, 35)], strict=True):
        assert np.array_equal(view[1].transpose(1, 2, 0), picture[top : top + 40, left : left + 50])
    batch = next(iter(loader(short_clips, transforms=[t.Resize(64), t.ThreeCrop(64)], layout="NCTHW", dtype="uint8")))
    assert batch.frames.shape == (5, 3, 3, 3, 64, 64)


def test_one_channel_is_gray(picture):
    gray = picture[..., :1].copy()
    out = t.apply(gray, [t.ColorJitter(brightness=(0.5, 0.5))]).numpy()
    assert out.shape == (90, 120, 3) and np.array_equal(out, (gray / 2 + 0.5).astype(np.uint8).repeat(3, 2))


def test_an_array_need_not_be_numpy_nor_contiguous(picture):
    expected = t.apply(picture, [t.Resize(40)]).tobytes()
    assert t.apply(memoryview(picture), [t.Resize(40)]).tobytes() == expected
    assert t.apply(t.apply(picture, []), [t.Resize(40)]).tobytes() == expected
    swapped = np.ascontiguousarray(picture[..., ::-1])[..., ::-1]
    assert t.apply(swapped, [t.Resize(40)]).tobytes() == expected
    for wrong, reason in [
        (picture.astype(np.float32), "uint8"),
        (picture[..., :2].copy(), "channels"),
        (picture[0], "H, W, C"),
        ([[1, 2], [3, 4]], "list"),
        (picture[:0], "no pixels"),
    ]:
        with pytest.raises(fsp.errors.ArgumentError, match=reason):
            t.apply(wrong, [])


def test_source_colors_can_be_overridden(videos):
    video = fsp.Video(videos / "derived" / "base_640x360.mp4", layout="THWC")
    as_is = video[0].numpy().astype(int)
    matrices = {
        matrix: video.frames([0], transforms=[t.AssumeColor(matrix=matrix)]).frames[0].numpy().astype(int)
        for matrix in ["bt601", "bt709", "bt2020"]
    }
    assert sum(np.array_equal(as_is, other) for other in matrices.values()) == 1
    full = video.frames([0], transforms=[t.AssumeColor(range="full")]).frames[0].numpy()
    # Limited range stretches 16..235 to 0..255.
    gray = as_is.mean(axis=2), full.astype(int).mean(axis=2)
    inside = (gray[0] > 5) & (gray[0] < 250)
    assert np.abs(gray[1] - (gray[0] * 219 / 255 + 16))[inside].mean() < 1.5


SIZES = [(40, 50), (33, 170), (200, 90), (180, 240), (90, 60)]


@pytest.mark.parametrize("size", SIZES)
def test_bicubic_resize_of_an_array_is_pillows(size):
    """Noise whose overshoot stays within 0..255. Pillow clamps it after its horizontal pass, framespool after both."""
    noise = np.random.default_rng(2).integers(60, 196, (90, 120, 3)).astype(np.uint8)
    expected = np.asarray(Image.fromarray(noise).resize(size[::-1], Image.Resampling.BICUBIC)).astype(int)
    for constant in ("bicubic", Image.Resampling.BICUBIC):
        got = t.apply(noise, [t.Resize(size, constant)]).numpy()
        assert np.abs(got - expected).max() <= 1
    assert np.abs(t.apply(noise, [t.Resize(size)]).numpy() - expected).max() > 5, "bilinear is another result"
    part = t.apply(noise, [t.CenterCrop((50, 70)), t.Resize(size, "bicubic")]).numpy()
    expected = Image.fromarray(noise[20:70, 25:95]).resize(size[::-1], Image.Resampling.BICUBIC)
    assert np.abs(part - np.asarray(expected).astype(int)).max() <= 1


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("size", SIZES)
def test_bicubic_overshoot_is_clamped_as_pillow_does(size, axis):
    """Black and white stripes along one axis, where the order of the axes has no effect."""
    line = np.random.default_rng(3).integers(0, 2, (90, 120)[axis]).astype(np.uint8) * 255
    stripes = np.broadcast_to(line[:, None] if axis == 0 else line, (90, 120))
    rgb = np.stack([stripes, 255 - stripes, stripes], 2)
    expected = np.asarray(Image.fromarray(rgb).resize(size[::-1], Image.Resampling.BICUBIC))
    got = t.apply(rgb, [t.Resize(size, "bicubic")]).numpy()
    assert np.abs(got.astype(int) - expected).max() <= 1


def test_bicubic_resize_of_video_is_near_pillows(short_clips):
    """Chroma is resized before the conversion: at half the size or less that is near the resized RGB."""
    video = fsp.Video(short_clips[0][0], layout="THWC")
    whole = Image.fromarray(video[20].numpy())
    for size in [(120, 160), (200, 300)]:
        expected = np.asarray(whole.resize(size[::-1], Image.Resampling.BICUBIC)).astype(int)
        got = video.frames([20], transforms=[t.Resize(size, "bicubic")]).frames.numpy()[0]
        distance = np.abs(got - expected)
        assert (distance <= 2).mean() >= 0.99 and distance.mean() < 0.5


def test_bicubic_resize_leaves_label_maps_and_follows_maps(picture):
    labels = (picture[..., 0] // 50).astype(np.uint8)
    _, resized = t.apply(picture, [t.Resize((40, 50), "bicubic")], masks=labels)
    _, expected = t.apply(picture, [t.Resize((40, 50), "nearest")], masks=labels)
    assert np.array_equal(resized, expected)
    # The frame is resized before it is padded or rotated.
    letterbox = t.apply(picture, [t.Letterbox((60, 60), interpolation="bicubic")]).numpy()
    assert np.array_equal(letterbox[7:52], t.apply(picture, [t.Resize((45, 60), "bicubic")]).numpy())
    chains = [[t.Pad(30), t.Resize((50, 60), how)] for how in ("bicubic", "bilinear")]
    both = [t.apply(picture, chain).numpy().astype(int) for chain in chains]
    whole = Image.fromarray(padded(picture, 30, 30, 30, 30, 0))
    expected = np.asarray(whole.resize((60, 50), Image.Resampling.BICUBIC))
    inside = slice(13, 37), slice(13, 47)
    errors = [np.abs(one - expected)[inside].mean() for one in both]
    assert errors[0] < errors[1]


def padded(picture: np.ndarray, left: int, top: int, right: int, bottom: int, fill: int) -> np.ndarray:
    return np.pad(picture, ((top, bottom), (left, right), (0, 0)), constant_values=fill)


def test_crop_pad_flip_chains_equal_single_steps(picture):
    """Random chains against slices of NumPy; crops may be larger than the picture, pads larger than both."""
    random = np.random.default_rng(5)
    small = picture[:9, :12].copy()
    for _ in range(3000):
        chain, expected = [], small
        for _ in range(random.integers(1, 6)):
            height, width = expected.shape[:2]
            match random.integers(0, 4):
                case 0:
                    size = (int(random.integers(1, 16)), int(random.integers(1, 16)))
                    chain.append(t.CenterCrop(size))
                    grow = [max(wanted - have, 0) for wanted, have in zip(size, (height, width), strict=True)]
                    expected = padded(expected, grow[1] // 2, grow[0] // 2, (grow[1] + 1) // 2, (grow[0] + 1) // 2, 0)
                    top, left = (round((have - wanted) / 2) for have, wanted in zip(expected.shape, size, strict=False))
                    expected = expected[top : top + size[0], left : left + size[1]]
                case 1:
                    sides = [int(side) for side in random.integers(0, 20, 4)]
                    chain.append(t.Pad(sides))
                    expected = padded(expected, *sides, 0)
                case 2:
                    chain.append(t.RandomHorizontalFlip(1))
                    expected = expected[:, ::-1]
                case 3:
                    chain.append(t.RandomVerticalFlip(1))
                    expected = expected[::-1]
        got = t.apply(small, chain).numpy()
        assert np.array_equal(got, expected), chain


@pytest.mark.parametrize("first", [
    [t.Letterbox(200, fill=114)],
    [t.RandomRotation((5, 5))],
    [t.RandomGrayscale(1.0), t.Pad(9, fill=3), t.ColorJitter((1.3, 1.3))],
])  # fmt: skip
@pytest.mark.parametrize("then", [
    [t.RandomRotation((8, 8), fill=20)],
    [t.Pad(5)],
    [t.CenterCrop(300)],
    [t.RandomAffine((9, 9), scale=(0.6, 0.6), fill=(1, 2, 3)), t.Pad(4, fill=90)],
])  # fmt: skip
def test_lists_of_several_passes_equal_their_parts(picture, first, then):
    between = t.apply(picture, first).numpy()
    assert np.array_equal(t.apply(picture, [*first, *then]).numpy(), t.apply(between, then).numpy())


def test_unsupported_combination_is_rejected(picture):
    for transforms, reason in [
        ([t.Cutout(4, fill=300)], "Cutout.*300.*0 to 255"),
        ([t.RandomRotation(9, expand=True, per_frame=True)], "expand.*Resize"),
        ([t.Cutout(8), t.RandomHorizontalFlip()], "RandomHorizontalFlip follows Cutout"),
        ([t.Normalize(0.5, 0.5), t.Pad(8)], "Pad follows Normalize"),
        ([t.ThreeCrop(8), t.FiveCrop(8)], "FiveCrop follows another multi-crop"),
        ([t.RandomCrop(100)], r"RandomCrop\(\(100, 100\)\).*90 rows.*120 columns"),
        ([t.ThreeCrop(100)], "ThreeCrop.*Resize before"),
        ([t.Pad(65000)], "65535"),
    ]:
        with pytest.raises(fsp.errors.ArgumentError, match=reason):
            t.apply(picture, transforms, dtype="float32")
    with pytest.raises(fsp.errors.ArgumentError, match="float dtype"):
        t.apply(picture, [t.Normalize(0.5, 0.5)])


def test_geometry_moves_points_as_label_maps_move(tmp_path):
    """The center of a disc in each label map is where the geometry moves it."""
    rng, files, masks, centers = np.random.default_rng(8), [], [], []
    for number in range(6):
        height, width = (int(side) for side in rng.integers(200, 320, 2))
        center = rng.uniform(70, [width - 70, height - 70])
        rows, columns = np.mgrid[:height, :width] + 0.5
        disc = (np.hypot(columns - center[0], rows - center[1]) < 20).astype(np.uint8)
        for folder, pixels in (("image", np.zeros((height, width, 3), np.uint8)), ("mask", disc)):
            (tmp_path / folder).mkdir(exist_ok=True)
            Image.fromarray(pixels).save(tmp_path / folder / f"{number}.png")
        files.append(tmp_path / "image" / f"{number}.png")
        masks.append(tmp_path / "mask" / f"{number}.png")
        centers.append([center])
    seen = 0
    for steps in (
        [t.Resize((120, 180))],
        [t.RandomResizedCrop(150, scale=(0.4, 1))],
        [t.RandomAffine(40, (0.1, 0.1), (0.7, 1.3), 20), t.RandomHorizontalFlip(), t.Resize((140, 150))],
        [t.Resize(170), t.RandomRotation(30, expand=True), t.RandomVerticalFlip(), t.Letterbox((160, 200))],
        [t.Pad(9), t.RandomCrop(150), t.RandomHorizontalFlip(1.0), t.Resize((200, 190)), t.CenterCrop((170, 180))],
        [t.RandomShortestSize(range(150, 200), max_size=220), t.RandomCrop(140)],
        [
            t.MultiScaleCrop((150, 170), fix_crop=False),
            t.RandomApply([t.RandomHorizontalFlip(1), t.RandomRotation(20)]),
        ],
        [t.RandomChoice([t.Resize((130, 160)), [t.Resize((130, 160), fit="cover"), t.RandomCrop((130, 160))]])],
    ):
        loader = fsp.ImageLoader(files, masks=masks, batch_size=3, transforms=steps, seed=2, shuffle="full")
        for batch in loader:
            ids = batch.image_ids.tolist()
            geometry = batch.geometry
            assert geometry.shape == (3, 2, 3) and geometry.dtype == "float64"
            moved = t.map_points([centers[n] for n in ids], geometry)[:, 0]
            boxes = t.map_boxes([[*(centers[n][0] - 20), *(centers[n][0] + 20)] for n in ids], geometry)
            for mask, place, box in zip(batch.masks.numpy(), moved, boxes, strict=True):
                rows, columns = np.nonzero(mask)
                inside = (box > 1).all() and box[2] < mask.shape[1] - 1 and box[3] < mask.shape[0] - 1
                if inside:
                    found = [columns.mean() + 0.5, rows.mean() + 0.5]
                    assert np.abs(found - place).max() < 0.6, (steps, found, place)
                    # The disc is in the box around its corners.
                    assert box[0] - 1 < columns.min() and columns.max() < box[2] and box[1] - 1 < rows.min()
                    seen += 1
    assert seen > 24


def test_geometry_of_clips_and_views(short_clips):
    rule = fsp.samplers.RandomClips(sequence_length=2)
    made = fsp.ClipLoader(short_clips[:3], rule, batch_size=3, transforms=[t.RandomCrop(100)], seed=4, shuffle=False)
    [batch] = made
    for clip, geometry in enumerate(batch.geometry.tolist()):
        drawn = made.describe_clip(clip)["transforms"][0]
        assert geometry == [[1, 0, -drawn["left"]], [0, 1, -drawn["top"]]]
    [batch] = fsp.ClipLoader(short_clips[:2], rule, batch_size=2, transforms=[t.Resize((60, 90)), t.ThreeCrop(60)])
    assert batch.geometry.shape == (2, 3, 2, 3)
    assert [[view[0][2] for view in clip] for clip in batch.geometry.tolist()] == [[0, -15, -30]] * 2
    [batch] = fsp.ClipLoader(short_clips[:2], rule, batch_size=2, transforms=None)
    assert batch.geometry.tolist() == [[[1, 0, 0], [0, 1, 0]]] * 2


@pytest.mark.parametrize("library", ["lists", "numpy", "torch"])
def test_clips_may_have_different_numbers_of_boxes(short_clips, library):
    loader = fsp.ClipLoader(
        short_clips[:3],
        fsp.samplers.RandomClips(sequence_length=2),
        batch_size=3,
        transforms=[t.RandomResizedCrop(64), t.RandomHorizontalFlip()],
        seed=1,
    )
    [batch] = loader
    given = [[[0, 0, 0.5, 1.0], [0.25, 0.5, 1, 0.75]], [], [[0.5, 0, 1, 0.5]]]
    make = {"lists": list, "numpy": np.array, "torch": lambda rows: pytest.importorskip("torch").tensor(rows)}[library]
    sizes = batch.video.sizes
    scale = sizes.numpy()[:, [1, 0, 1, 0]]
    for size in (None, (64, 64)):
        for relative in (sizes, sizes.numpy(), sizes.numpy().tolist()):
            moved = t.map_boxes([make(rows) for rows in given], batch.geometry, size, relative_to=relative)
            assert isinstance(moved, list) and [each.shape for each in moved] == [(2, 4), (0, 4), (1, 4)]
            assert all(hasattr(each, "detach") == (library == "torch") for each in moved)
            for clip in (0, 2):
                pixels = np.array(given[clip]) * scale[clip]
                expected = t.map_boxes(pixels, batch.geometry.numpy()[clip], size)
                assert np.array_equal(np.asarray(moved[clip]), expected)
    # Equal numbers of boxes in nested lists are one array, also relative ones; a clip alone has its own geometry.
    pairs = [given[0]] * 3
    together = t.map_boxes(pairs, batch.geometry, relative_to=sizes)
    assert together.shape == (3, 2, 4)
    arrays = t.map_boxes([np.array(rows) for rows in pairs], batch.geometry, relative_to=sizes)
    assert isinstance(arrays, list) and np.array_equal(np.stack(arrays), together)
    one = t.map_boxes(given[0], batch.geometry.numpy()[1], relative_to=sizes.numpy()[1])
    assert np.array_equal(one, together[1])
    assert t.map_boxes([], batch.geometry.numpy()[1]).shape == (0, 4)
    assert [each.shape for each in t.map_boxes([None, [], []], batch.geometry)] == [(0, 4)] * 3
    points = t.map_points([[[1, 2]], [[1, 2], [3, 4]], []], batch.geometry)
    assert [each.shape for each in points] == [(1, 2), (2, 2), (0, 2)]
    for wrong, more, said in (
        (given[:2], {}, "boxes are those of 2 clips, and geometry is of 3"),
        (given, {"relative_to": sizes.numpy()[:2]}, "relative_to must be .* got 2 sizes"),
        (pairs, {"relative_to": sizes.numpy()[:2]}, "relative_to must be"),
        (pairs, {"relative_to": (1, 2, 3)}, "relative_to must be"),
        ([[[[1, 2, 3, 4]], []]] * 3, {}, r"boxes must be numbers of the shape \(..., 4\), or a list with \(K, 4\)"),
        ([[[1, 2, 3]], [], []], {}, "boxes must be"),
        ([["a"], [], []], {}, "boxes must be"),
        ("boxes", {}, "boxes must be"),
    ):
        with pytest.raises(fsp.errors.ArgumentError, match=said):
            t.map_boxes(wrong, batch.geometry, **more)
    # Also where a clip has as many boxes as views, which would otherwise get one each.
    views = np.stack([batch.geometry.numpy()] * 3, 1)
    for boxes in ([np.zeros((3, 4))] * 3, [[[0, 0, 1, 1]] * 3, [], []], np.zeros((3, 3, 4))):
        with pytest.raises(fsp.errors.ArgumentError, match=r"several views or clips per row, \(3, 3, 2, 3\): map"):
            t.map_boxes(boxes, views)
        assert len(t.map_boxes(boxes, views[:, 0])) == 3


def test_points_and_boxes_keep_their_shape_and_library():
    turn = [[0, -1, 90], [1, 0, 0]]  # a quarter turn clockwise of a frame with 90 rows
    assert t.map_points([10, 20], turn).tolist() == [70, 10]
    assert t.map_points(np.zeros((4, 5, 2)), turn).tolist() == [[[90, 0]] * 5] * 4
    assert t.map_points(np.zeros((2, 4, 5, 2)), [turn, turn]).shape == (2, 4, 5, 2)
    assert t.map_boxes([10, 20, 30, 60], turn).tolist() == [30, 10, 70, 30]
    assert t.map_boxes([[10, 20, 30, 60]] * 2, [turn, turn], size=(25, 40)).tolist() == [[30, 10, 40, 25]] * 2
    torch = pytest.importorskip("torch")
    found = t.map_boxes(torch.tensor([[10, 20, 30, 60]]), np.array(turn), size=(25, 40))
    assert torch.equal(found, torch.tensor([[30.0, 10, 40, 25]], dtype=torch.float64))
    assert torch.equal(t.map_points(torch.tensor([10, 20]), turn), torch.tensor([70.0, 10], dtype=torch.float64))
    for call in (
        lambda: t.map_points([1, 2, 3], turn),
        lambda: t.map_points([[1, 2]] * 3, [turn] * 2),
        lambda: t.map_boxes([1, 2], turn),
        lambda: t.map_points([1, 2], [1, 2, 3]),
    ):
        with pytest.raises(fsp.errors.ArgumentError, match="must be"):
            call()
