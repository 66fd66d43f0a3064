"""Images: exactly Pillow's bytes with exact=True, close to them otherwise, and batches of images."""

from __future__ import annotations

import functools
import io
import resource
import struct
import zlib
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest
from framespool import transforms as t
from framespool.loaders import _epoch_iterator
from PIL import Image, ImageOps

pytestmark = pytest.mark.filterwarnings("ignore:Corrupt EXIF data")


# As Pillow's images, with which they are compared.
decode_image = functools.partial(fsp.decode_image, layout="HWC")
decode_images = functools.partial(fsp.decode_images, layout="HWC")


@pytest.fixture(scope="session")
def photos(pictures: Path) -> fsp.datasets.Dataset:
    return fsp.datasets.image_folder(pictures / "classes")


def pillow(source: Path | bytes) -> np.ndarray:
    """Pillow's result for a file: upright, RGB."""
    with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
        return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))


def encoded(image: Image.Image, **options) -> bytes:
    out = io.BytesIO()
    image.save(out, **{"format": "PNG", **options})
    return out.getvalue()


#: Files that neither this library nor Pillow reads.
UNREAD = {"lossless_12bit_gray.jpg", "extended_12bit_gray.jpg", "hierarchical_gray.jpg"}


def test_exact_pixels_are_pillows_to_the_byte(pictures):
    same, refused = 0, set()
    for path in sorted([*(pictures / "classes").rglob("*.jpg"), *(pictures / "odd").rglob("*.*")]):
        if path.name in UNREAD:
            with pytest.raises(fsp.errors.UnsupportedError, match=path.name):
                decode_image(path)
            refused.add(path.name)
            continue
        if "16bit.png" in path.name:  # Pillow clips 16 bits to 8; test_png_of_every_kind has them
            continue
        ours, theirs = decode_image(path).numpy(), pillow(path)
        assert ours.shape == theirs.shape, path
        assert np.array_equal(ours, theirs), (path, np.abs(ours.astype(int) - theirs).max())
        same += 1
    assert same >= 100 and refused == UNREAD


def test_all_orientations_are_upright_from_planes(pictures):
    turned = sorted((pictures / "odd").glob("exif_*.jpg"))
    orientations = set()
    for path in turned:
        with Image.open(path) as image:
            orientations.add(image.getexif().get(0x0112))
        ours, theirs = decode_image(path, exact=False).numpy().astype(int), pillow(path)
        assert ours.shape == theirs.shape
        # Chroma is repeated, while Pillow interpolates it: close, but far off with a wrong orientation.
        assert np.abs(ours - theirs).mean() < 1.5, path
        small = decode_image(path, exact=False, transforms=[t.Resize((20, 20))]).numpy().astype(int)
        pixels = decode_image(path, exact=True, transforms=[t.Resize((20, 20))]).numpy()
        assert np.abs(small - pixels).mean() < 1, path
    assert orientations == {None, *range(1, 9)}


def resized(path, size, *, exact):
    return decode_image(path, transforms=[t.Resize((size, size))], exact=exact).numpy().astype(int)


def test_planes_resized_are_near_pixels_resized(photos):
    """Chroma is made larger by libjpeg and clipped where RGB is requested; here it is resampled and clipped once,
    which shows in the most saturated pictures."""
    apart, means = [], []
    for path, _ in photos:
        difference = np.abs(resized(path, 160, exact=False) - resized(path, 160, exact=True))
        apart.append((difference > 2).mean())
        means.append(difference.mean())
    print(f"mean difference {np.mean(means):.3f}, worst file {np.max(means):.3f}; beyond 2: {np.mean(apart):.4f}")
    assert np.mean(means) < 0.3 and np.max(means) < 0.4 and np.mean(apart) < 0.002


def test_dct_scaling_is_used_only_if_barely_visible(photos):
    for path, _ in photos.samples[::5]:
        for size in (32, 64):
            difference = np.abs(resized(path, size, exact=False) - resized(path, size, exact=True))
            assert difference.mean() < 0.5, (path, size)


def test_png_of_every_kind():
    rng = np.random.default_rng(1)
    rgb = Image.fromarray(rng.integers(0, 256, (21, 34, 3), dtype=np.uint8))
    gray = rgb.convert("L")
    kinds = {
        "rgb": rgb,
        "gray": gray,
        "rgba": rgb.convert("RGBA"),
        "gray and alpha": gray.convert("LA"),
        "palette": rgb.quantize(16),
        "small palette": rgb.quantize(3),
        "bits": gray.convert("1"),
    }
    for name, image in kinds.items():
        data = encoded(image)
        assert np.array_equal(decode_image(data).numpy(), pillow(data)), name
        assert np.array_equal(decode_image(data, exact=False).numpy(), pillow(data)), name
    deep = rng.integers(0, 65536, (9, 12), dtype=np.uint16)
    ours = decode_image(encoded(Image.fromarray(deep))).numpy()
    assert np.abs(ours[..., 0] - deep / 257.0).max() <= 0.5 + 1e-6  # 16 bits are rounded to 8


def png_chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (b"cICP", bytes([1, 13, 1, 1])),  # a matrix other than RGB's
        (b"cICP", bytes([1, 13, 0, 7])),
        (b"cICP", bytes([1, 13, 0, 1, 0])),
        (b"mDCV", bytes(25)),
        (b"cLLI", bytes(9)),
    ],
)
def test_invalid_ancillary_chunk_of_png_is_ignored(name, data):
    plain = encoded(Image.fromarray(np.arange(72, dtype=np.uint8).reshape(4, 6, 3)))
    changed = plain[:33] + png_chunk(name, data) + plain[33:]  # after IHDR
    assert np.array_equal(decode_image(changed).numpy(), pillow(plain))


def test_exif_of_png_applies_only_before_the_picture():
    """The third edition of the standard allows eXIf before IDAT only."""
    plain = encoded(Image.fromarray(np.arange(72, dtype=np.uint8).reshape(4, 6, 3)))
    quarter_turn = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    exif = png_chunk(b"eXIf", quarter_turn)
    assert decode_image(plain[:33] + exif + plain[33:]).shape == (6, 4, 3)
    assert decode_image(plain[:-12] + exif + plain[-12:]).shape == (4, 6, 3)


def test_png_larger_than_its_data_can_be_is_rejected_before_allocation():
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", 16000, 16000, 16, 6, 0, 0, 0))
    data = b"\x89PNG\r\n\x1a\n" + header + png_chunk(b"IDAT", b"x\x9c" + bytes(10)) + png_chunk(b"IEND", b"")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(fsp.errors.InvalidDataError, match=r"16000x16000 pixels, .* 1032 each"):
        decode_image(data)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB
    # One color: as small as deflate makes it.
    solid = encoded(Image.new("RGBA", (3000, 3000), (1, 2, 3, 4)))
    assert np.array_equal(decode_image(solid).numpy(), pillow(solid))


def test_damage_is_an_error_that_names_the_file(pictures):
    outcomes = decode_images(sorted((pictures / "corrupt").rglob("*.jpg")), on_error="return")
    names = [path.name for path in sorted((pictures / "corrupt").rglob("*.jpg"))]
    for name, outcome in zip(names, outcomes, strict=True):
        if isinstance(outcome, Exception):
            assert isinstance(outcome, fsp.Error) and name in str(outcome), (name, outcome)
    failed = {name for name, outcome in zip(names, outcomes, strict=True) if isinstance(outcome, Exception)}
    assert {"truncated_50.jpg", "header_only.jpg", "text_named.jpg", "zero_bytes.jpg", "truncated_99.jpg"} <= failed
    with pytest.raises(fsp.Error, match="truncated_50"):
        decode_images([pictures / "corrupt" / "derived" / "truncated_50.jpg"])


def test_many_at_once_are_as_one_by_one(photos):
    paths = [path for path, _ in photos][:12]
    one_by_one = [decode_image(path).numpy() for path in paths]
    for threads in (1, 2, 5):
        for alone, together in zip(one_by_one, decode_images(paths, num_threads=threads), strict=True):
            assert np.array_equal(alone, together.numpy())
    data = Path(paths[0]).read_bytes()
    assert np.array_equal(decode_image(data).numpy(), one_by_one[0])
    # Unchanged RGB is copied; an identity transform takes it through the transform pipeline.
    height, width = one_by_one[0].shape[:2]
    passed = decode_image(data, transforms=[t.Resize((height, width))]).numpy()
    assert np.array_equal(passed, one_by_one[0])
    chw = decode_image(data, layout="CHW", dtype="float32").numpy()
    assert chw.shape == one_by_one[0].transpose(2, 0, 1).shape
    assert np.array_equal((chw * 255).round().astype(np.uint8), one_by_one[0].transpose(2, 0, 1))


def loader(photos, **keywords):
    train = [t.RandomResizedCrop(64), t.RandomHorizontalFlip()]
    return fsp.ImageLoader(photos, **{"batch_size": 8, "transforms": train, "shuffle": "full", "seed": 3, **keywords})


def test_class_folders_are_read_as_torchvision_does(pictures, photos):
    names = sorted(path.name for path in (pictures / "classes").iterdir())
    assert photos.classes == names and photos.class_to_idx == {name: i for i, name in enumerate(names)}
    assert len(photos) == len(list((pictures / "classes").rglob("*.jpg")))
    assert all(Path(path).parent.name == names[label] for path, label in photos)


def test_batches_do_not_depend_on_threads(photos):
    def epoch(threads):
        return [
            (b.images.numpy().copy(), b.labels.numpy().tolist(), b.image_ids.numpy().tolist(), b.sizes.numpy().tolist())
            for b in loader(photos, num_threads=threads)
        ]

    one, three = epoch(1), epoch(3)
    assert len(one) == len(three) == -(-len(photos) // 8)
    for a, b in zip(one, three, strict=True):
        assert np.array_equal(a[0], b[0]) and a[1:] == b[1:]
        assert a[0].dtype == np.uint8 and a[0].shape[1:] == (3, 64, 64)
    ids = [i for batch in one for i in batch[2]]
    assert sorted(ids) == list(range(len(photos)))
    assert [label for batch in one for label in batch[1]] == [photos[i][1] for i in ids]
    sizes = dict(zip(ids, (s for batch in one for s in batch[3]), strict=True))
    assert sizes[0] == list(pillow(Path(photos[0][0])).shape[:2])


def test_batch_equals_single_images(photos):
    evaluation = [t.Resize(96), t.CenterCrop(80), t.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
    for exact in (True, False):
        made = fsp.ImageLoader(photos, batch_size=5, transforms=evaluation, dtype="float32", exact=exact, num_threads=2)
        batch = next(iter(made))
        assert batch.images.shape == (5, 3, 80, 80) and len(batch) == 5 and batch.masks is None
        for image, (path, _) in zip(batch.images.numpy(), photos, strict=False):
            alone = decode_image(path, transforms=evaluation, dtype="float32", layout="CHW", exact=exact)
            assert np.array_equal(image, alone.numpy())


def test_without_a_common_size_images_are_a_list(photos):
    batch = next(iter(fsp.ImageLoader(photos, batch_size=3, exact=True)))
    for image, (path, _) in zip(batch.images, photos, strict=False):
        assert np.array_equal(image.numpy(), pillow(Path(path)).transpose(2, 0, 1))


def test_an_epoch_goes_on_where_it_was_left(photos):
    whole = [b.images.numpy().copy() for b in loader(photos)]
    first = loader(photos)
    batches = iter(first)
    for _ in range(2):
        next(batches)
    state = first.state_dict()
    later = loader(photos, num_threads=1)
    later.load_state_dict(state)
    rest = [b.images.numpy().copy() for b in later]
    assert len(rest) == len(whole) - 2
    assert all(np.array_equal(a, b) for a, b in zip(rest, whole[2:], strict=True))
    with pytest.raises(fsp.errors.ArgumentError, match="transforms"):
        loader(photos, transforms=[t.Resize((9, 9))]).load_state_dict(state)


def test_bad_files_follow_the_policy(pictures, photos):
    bad = pictures / "corrupt" / "derived" / "truncated_50.jpg"
    entries = [*photos.samples[:3], (bad, 7), *photos.samples[3:6]]
    keywords = {"batch_size": 7, "shuffle": False}
    with pytest.raises(fsp.Error, match="truncated_50"):
        next(iter(loader(entries, **keywords)))
    skipping = loader(entries, **keywords, on_error="skip")
    assert next(iter(skipping)).image_ids.numpy().tolist() == [0, 1, 2, 4, 5, 6]
    [failure] = skipping.failures()
    assert failure["path"] == str(bad) and skipping.stats()["clips_skipped"] == 1
    replaced = next(iter(loader(entries, **keywords, on_error="replace")))
    assert replaced.requested_ids.numpy().tolist() == list(range(7))
    assert replaced.image_ids.numpy()[3] != 3


def test_masks_move_with_their_images():
    rng = np.random.default_rng(2)
    images, masks = [], []
    for number in range(6):
        height, width = 60 + number, 90 - number
        labels = (np.add.outer(np.arange(height), np.arange(width)) // 7 % 21).astype(np.uint8)
        # The red channel of the image has the same values as the labels of the mask.
        image = np.dstack([labels * 10, rng.integers(0, 256, (height, width, 2), dtype=np.uint8)])
        images.append(encoded(Image.fromarray(image)))
        palette = Image.fromarray(labels, mode="P") if number % 2 else Image.fromarray(labels)
        if number % 2:
            palette.putpalette(rng.integers(0, 256, 768, dtype=np.uint8).tobytes())
        masks.append(encoded(palette))
    moved = [
        t.RandomResizedCrop(48, interpolation="nearest", antialias=False),
        t.RandomHorizontalFlip(),
        t.RandomRotation(20, fill=255),
    ]
    made = fsp.ImageLoader(
        [(image, 0) for image in images], masks=masks, mask_fill=255, batch_size=3, transforms=moved, shuffle="full"
    )
    seen = 0
    for batch in made:
        assert batch.masks.shape == (3, 48, 48)
        red, labels = batch.images.numpy()[:, 0].astype(int), batch.masks.numpy().astype(int)
        assert np.array_equal(red == 255, labels == 255)
        inside = labels != 255
        assert np.array_equal(red[inside], labels[inside] * 10)
        seen += inside.sum()
    assert seen > 6 * 48 * 48 / 2
    with pytest.raises(fsp.errors.ArgumentError, match="make them the same size"):
        next(iter(fsp.ImageLoader([(images[0], 0)], masks=[masks[1]], batch_size=1, transforms=moved)))
    with pytest.raises(fsp.errors.ArgumentError, match="one for each of the 2"):
        fsp.ImageLoader(images[:2], masks=masks[:1], batch_size=1)
    with pytest.raises(fsp.errors.ArgumentError, match="on_error"):
        fsp.ImageLoader(images, masks=masks, batch_size=1, on_error="skip")


def squares(count: int, side: int = 24) -> tuple[list[bytes], list[bytes]]:
    """Images of one color each, and masks whose label identifies their image."""
    images = [encoded(Image.new("RGB", (side, side), (number, 0, 0))) for number in range(count)]
    return images, [encoded(Image.new("L", (side, side), number)) for number in range(count)]


def test_what_colors_mean_changes_no_label():
    images, masks = squares(30)
    steps = [t.AssumeColor("bt709", "limited"), t.CenterCrop(24)]
    made = fsp.ImageLoader([(image, 0) for image in images], masks=masks, batch_size=30, transforms=steps)
    assert next(iter(made)).masks.numpy()[:, 5, 5].tolist() == list(range(30))


def test_image_and_mask_stay_paired_after_errors(tmp_path):
    images, masks = squares(6)
    lost = tmp_path / "lost.png"
    masks[2] = lost
    whole = [t.CenterCrop(24)]
    made = fsp.ImageLoader([(image, 0) for image in images], masks=masks, batch_size=1, transforms=whole)
    seen, errors = [], []
    batches = iter(made)
    for _ in range(6):
        try:
            batch = next(batches)
        except fsp.errors.NotFoundError as error:
            errors.append(str(error))
        else:
            assert batch.images.numpy()[0, 0, 0, 0] == batch.masks.numpy()[0, 0, 0] == batch.image_ids.numpy()[0]
            seen += batch.image_ids.tolist()
    assert seen == [0, 1, 3, 4, 5] and len(errors) == 1 and "lost.png" in errors[0]
    [failure] = made.failures()
    assert failure["mask"] == str(lost) and failure["video_id"] == 2 and made.stats()["errors"] == {"not_found": 1}
    with pytest.raises(StopIteration):
        next(batches)


class Stubborn:
    """A loader that fails at intervals, before or after taking its batch."""

    def __init__(self, numbers, fails):
        self.at, self.numbers, self.fails = 0, numbers, list(fails)

    def next_batch_index(self, _pass):
        return self.at

    def next_batch(self, _pass):
        if self.fails and self.fails[0][0] == self.at:
            _, kind, takes = self.fails.pop(0)
            self.at += takes
            raise kind
        if self.at == self.numbers:
            return None
        self.at += 1
        return {"batch": self.at - 1}


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
def test_aligned_loaders_stay_in_step(kind):
    first = Stubborn(6, [(2, kind, 0), (4, kind, 1)])
    second = Stubborn(6, [(1, kind, 0), (1, kind, 0), (3, RuntimeError, 1)])
    epoch = _epoch_iterator.EpochIterator([(first, 1), (second, 2)], lambda made: [m["batch"] for m in made])
    got = []
    while True:
        try:
            got.append(next(epoch))
        except StopIteration:
            break
        except BaseException as error:
            assert not isinstance(error, AssertionError)
            # Batches count as delivered once the last loader has returned them.
            assert min(first.at, second.at) >= len(got)
    assert all(a == b for a, b in got)
    assert [a for a, _ in got] == [n for n in range(6) if n not in (3, 4)]


def test_a_state_knows_how_images_are_decoded():
    images, masks = squares(5)
    entries = [(image, 0) for image in images]

    def make(**more):
        return fsp.ImageLoader(entries, batch_size=1, **more)

    made = make()
    next(iter(made))
    state = made.state_dict()
    make(num_threads=1, layout="NHWC").load_state_dict(state)
    for more in ({"exact": True}, {"masks": masks}):
        with pytest.raises(fsp.errors.ArgumentError, match="how images are decoded"):
            make(**more).load_state_dict(state)
    both = make(masks=masks)
    next(iter(both))
    make(masks=masks).load_state_dict(both.state_dict())
    for more in ({"masks": masks[::-1]}, {"masks": masks, "mask_fill": 9}):
        with pytest.raises(fsp.errors.ArgumentError, match="how images are decoded"):
            make(**more).load_state_dict(both.state_dict())
    clips = fsp.ClipLoader(entries, fsp.samplers.Indices([0]), batch_size=1)
    with pytest.raises(fsp.errors.ArgumentError, match="another kind of loader"):
        clips.load_state_dict(state)


def test_masks_are_pngs_of_labels(pictures, tmp_path):
    images, _ = squares(1)
    gray = encoded(Image.new("L", (24, 24)), format="JPEG")
    color = encoded(Image.new("RGB", (24, 24)))
    for mask in (gray, color):
        with pytest.raises(fsp.errors.UnsupportedError, match="a mask that is not a PNG with one channel or a palette"):
            next(iter(fsp.ImageLoader([(images[0], 0)], masks=[mask], batch_size=1)))


def test_other_formats_are_called_by_their_names():
    picture = Image.new("RGB", (9, 9))
    for name in ("GIF", "BMP", "TIFF"):
        with pytest.raises(
            fsp.errors.UnsupportedError, match=f"(?i)an image in {name} \\(only JPEG, PNG, WebP and AVIF are read"
        ):
            decode_image(encoded(picture, format=name))


def test_bytes_of_any_kind_are_read():
    data = encoded(Image.new("RGB", (5, 4), (1, 2, 3)))
    for source in (bytearray(data), memoryview(data), np.frombuffer(data, dtype=np.uint8)):
        assert decode_image(source).numpy().tolist() == [[[1, 2, 3]] * 5] * 4
    with pytest.raises(fsp.errors.ArgumentError, match="elements of 8 bytes"):
        decode_image(np.zeros(3))


def test_a_header_that_never_comes_is_an_error_soon():
    with pytest.raises(fsp.errors.InvalidDataError, match="an invalid segment"):
        decode_image(b"\xff\xd8\xff\xe0\0\x04\0\0" + bytes(1 << 22))


def test_a_folder_of_frames_is_a_video(videos, tmp_path):
    source = fsp.Video(videos / "derived" / "base_640x360.mp4", layout="THWC")
    frames = source[0:20].numpy()
    folder = tmp_path / "jump" / "v1"
    folder.mkdir(parents=True)
    for number, frame in enumerate(frames, 1):
        Image.fromarray(frame).save(folder / f"img_{number:05}.png")
    entry = fsp.datasets.ImageSequence(folder, pattern="img_{:05}.png", fps=(30000, 1001))
    video = fsp.Video(entry, layout="THWC")
    assert len(video) == 20 and video.info.codec == "png" and video.info.average_fps == pytest.approx(29.97, abs=0.01)
    assert np.array_equal(video[0:20].numpy(), frames)
    assert np.array_equal(video.frames([7, 7, -1]).frames.numpy(), frames[[7, 7, -1]])
    assert video.frames_at([0.1]).indices == [2]
    clips = fsp.ClipLoader([(entry, 4)], fsp.samplers.Windows(sequence_length=4, stride=2), batch_size=2)
    for batch in clips:
        for clip, indices in zip(batch.frames, batch.indices.numpy(), strict=True):
            assert np.array_equal(clip.numpy(), frames[indices].transpose(0, 3, 1, 2))
        assert set(batch.labels.numpy()) == {4}
    part = fsp.datasets.VideoSegment(entry, start_frame=5, end_frame=9)
    one = next(iter(fsp.ClipLoader([(part, 0)], fsp.samplers.Windows(sequence_length=4), batch_size=1)))
    assert one.indices.numpy().tolist() == [[5, 6, 7, 8]]
    found = fsp.datasets.frame_folder(tmp_path)
    assert found.classes == ["jump"] and [label for _, label in found] == [0]
    assert len(fsp.Video(found[0][0])) == 20
    # A frame that is missing in the middle is the end, unless the number of frames was given.
    (folder / "img_00011.png").unlink()
    assert len(fsp.Video(entry)) == 10
    with pytest.raises(fsp.errors.NotFoundError, match="img_00011"):
        fsp.Video(fsp.datasets.ImageSequence(folder, pattern="img_{:05}.png", count=20))
    (folder / "img_00003.png").write_bytes(b"\x89PNG\r\n\x1a\n and nothing else")
    with pytest.raises(fsp.Error, match="img_00003"):
        fsp.Video(entry)[2]


def test_wrong_arguments_are_repeated_back(photos):
    with pytest.raises(fsp.errors.ArgumentError, match="NTHWC"):
        fsp.ImageLoader(photos, batch_size=1, layout="NTHWC")
    with pytest.raises(fsp.errors.ArgumentError, match="exact"):
        fsp.ImageLoader(photos, batch_size=1, exact="yes")
    with pytest.raises(fsp.errors.ArgumentError, match="VideoSegment"):
        fsp.ImageLoader([fsp.datasets.VideoSegment("a.jpg")], batch_size=1)
    with pytest.raises(fsp.errors.ArgumentError, match="a list"):
        decode_images("a.jpg")
    with pytest.raises(fsp.errors.NotFoundError, match="none.jpg"):
        decode_image("none.jpg")
    with pytest.raises(fsp.errors.ArgumentError, match="pattern"):
        fsp.Video(fsp.datasets.ImageSequence(".", pattern="frame.jpg"))
    for wrong in ({"fps": 0}, {"count": 0}, {"pattern": 7}, {"fps": (1, 2, 3)}):
        with pytest.raises(fsp.errors.ArgumentError):
            fsp.datasets.ImageSequence(".", **wrong)
