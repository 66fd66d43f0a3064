"""WebP and AVIF images: WebP to the byte of Pillow's, AVIF close to it and equal to the same AV1 data as a video."""

from __future__ import annotations

import functools
import io
import struct
import subprocess
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest
from avif_writer import avif, config, full
from PIL import Image, ImageOps, features

pytestmark = pytest.mark.skipif(not features.check("avif"), reason="this Pillow does not write AVIF")


# As Pillow's images, with which they are compared.
decode_image = functools.partial(fsp.decode_image, layout="HWC")
decode_images = functools.partial(fsp.decode_images, layout="HWC")


@pytest.fixture(scope="module")
def photo(pictures: Path) -> Image.Image:
    with Image.open(sorted((pictures / "classes").rglob("*_640x426.jpg"))[0]) as image:
        return image.convert("RGB")


def encoded(image: Image.Image, name: str, **options) -> bytes:
    out = io.BytesIO()
    image.save(out, format=name, **options)
    return out.getvalue()


def pillow(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))


def with_alpha(image: Image.Image) -> Image.Image:
    image = image.convert("RGBA")
    image.putalpha(image.convert("L"))
    return image


SIZES = [(320, 214), (97, 61), (16, 16), (2, 3), (1, 1)]


@pytest.mark.parametrize("size", SIZES)
def test_webp_is_pillows_to_the_byte(photo, size):
    image = photo.resize(size)
    lossy = [{"quality": quality, "method": method} for quality, method in ((90, 4), (30, 0), (5, 6))]
    for options in (*lossy, {"lossless": True}, {"lossless": True, "exact": True}):
        for picture in (image, with_alpha(image)):
            data = encoded(picture, "WEBP", **options)
            assert np.array_equal(decode_image(data).numpy(), pillow(data)), options
            # Planes as stored: the kernels repeat chroma, which libwebp interpolates.
            far = np.abs(decode_image(data, exact=False).numpy().astype(int) - pillow(data))
            assert far.mean() < (1.5 if "quality" in options else 1e-9), (options, far.mean())


def test_the_first_frame_of_an_animated_webp(photo):
    frames = [photo.resize((64, 48)), photo.resize((64, 48)).transpose(Image.Transpose.ROTATE_180)]
    for options in ({"quality": 80}, {"lossless": True}):
        data = encoded(frames[0], "WEBP", save_all=True, append_images=frames[1:], duration=40, **options)
        assert np.array_equal(decode_image(data).numpy(), pillow(data))


def animated(webp: bytes, width: int, height: int) -> bytes:
    """An animation of the picture of a WebP with alpha, which is to be blended with what is below it."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return kind + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)

    size = struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]
    # Behind RIFF, and the header of an extended file.
    picture = webp[30:] if webp[12:16] == b"VP8X" else webp[12:]
    frame = chunk(b"ANMF", bytes(6) + size + b"\x28\0\0" + b"\0" + picture)
    flags = bytes((0x12, 0, 0, 0))  # alpha and animation
    background = chunk(b"ANIM", bytes((90, 200, 9, 255, 0, 0)))
    return b"RIFF" + struct.pack("<I", 0) + b"WEBP" + chunk(b"VP8X", flags + size) + background + frame + frame


def test_the_first_frame_of_an_animation_is_not_blended(photo):
    # Colors below alpha 0 remain, and the file's background color is not used.
    frame = photo.resize((64, 48)).convert("RGBA")
    frame.putalpha(frame.convert("L").point([0] * 128 + [*range(128, 256)]))
    clear = np.asarray(frame)[..., 3] == 0
    for options in ({"quality": 80, "exact": True}, {"lossless": True, "exact": True}):
        data = bytearray(animated(encoded(frame, "WEBP", **options), 64, 48))
        data[4:8] = struct.pack("<I", len(data) - 8)
        assert pillow(bytes(data))[clear].any()
        assert np.array_equal(decode_image(bytes(data)).numpy(), pillow(bytes(data))), options


#: Mean and largest difference from Pillow, of 255: libavif converts with another precision.
CLOSE, FARTHEST = 0.3, 6


@pytest.mark.parametrize("size", SIZES)
def test_avif_is_close_to_pillow(photo, size):
    image = photo.resize(size)
    every = [{"subsampling": kind} for kind in ("4:2:0", "4:2:2", "4:4:4", "4:0:0")]
    for options in (*every, {"range": "limited"}, {"quality": 100}):
        for picture in (image, with_alpha(image)):
            data = encoded(picture, "AVIF", **options)
            ours, theirs = decode_image(data).numpy().astype(int), pillow(data)
            assert ours.shape == theirs.shape
            far = np.abs(ours - theirs)
            # Four pixels have no mean.
            assert far.max() <= FARTHEST and (far.mean() <= CLOSE or far.size < 100), (options, far.mean(), far.max())


@pytest.mark.parametrize("name", ["WEBP", "AVIF"])
def test_orientations_are_pillows(photo, name):
    image = photo.resize((64, 48))
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        data = encoded(image, name, exif=exif, **({"subsampling": "4:4:4"} if name == "AVIF" else {}))
        ours, theirs = decode_image(data).numpy().astype(int), pillow(data)
        assert ours.shape == theirs.shape, orientation
        assert np.abs(ours - theirs).max() <= (1 if name == "AVIF" else 0), orientation


def children(data: bytes) -> dict[str, bytes]:
    """The boxes of a container, by type; the first of each type."""
    found: dict[str, bytes] = {}
    while data:
        size, kind = struct.unpack_from(">I4s", data)
        found.setdefault(kind.decode(), data[:size])
        data = data[size:]
    return found


def av1_data(avif: bytes) -> bytes:
    """The data of the only item of an AVIF that Pillow wrote."""
    return children(avif)["mdat"][8:]


@pytest.mark.parametrize(
    ("name", "deep"), [("derived/av1_640x360.mp4", False), ("codecs/av1_10bit_426x240.webm", True)]
)
def test_avif_equals_the_same_data_as_a_video(videos, encoder, name, deep):
    command = [encoder, "-v", "error", "-i", videos / name, "-frames:v", "1", "-c", "copy", "-f", "obu", "-"]
    keyframe = subprocess.run(command, check=True, capture_output=True).stdout
    video = fsp.Video(videos / name, layout="THWC")
    data = avif([(video.info.width, video.info.height, config(deep=deep), keyframe)])
    for options in ({}, {"transforms": [fsp.transforms.Resize(90)], "dtype": "float32"}):
        want = video.frames([0], **options).frames.numpy()[0]
        assert np.array_equal(decode_image(data, **options).numpy(), want)


@pytest.mark.parametrize("subsampling", ["4:2:0", "4:4:4", "4:0:0"])
def test_grids_are_joined(photo, subsampling):
    # 3 columns and 2 rows of 64 x 64, of which the last are truncated.
    width, height = 170, 100
    av1c = config(gray=subsampling == "4:0:0")
    tiles = []
    for y in (0, 64):
        for x in (0, 64, 128):
            tile = encoded(photo.crop((x, y, x + 64, y + 64)), "AVIF", subsampling=subsampling)
            tiles.append((64, 64, av1c, av1_data(tile)))
    data = avif(tiles, grid=(2, 3, width, height))
    ours = decode_image(data).numpy()
    assert ours.shape == (height, width, 3)
    for n, (_, _, _, item) in enumerate(tiles):
        x, y = n % 3 * 64, n // 3 * 64
        alone = decode_image(avif([(64, 64, av1c, item)])).numpy()
        part = ours[y : y + 64, x : x + 64]
        assert np.array_equal(part, alone[: part.shape[0], : part.shape[1]])
    with pytest.raises(fsp.errors.UnsupportedError, match=r"grid of tiles; read an AVIF with decode_image"):
        fsp.Video(data, layout="THWC")
    theirs = pillow(data).astype(int)
    assert np.abs(ours - theirs).mean() < CLOSE and np.abs(ours - theirs).max() <= FARTHEST


def test_box_without_a_size_extends_to_the_end_of_the_file(photo):
    item = (64, 48, config(), av1_data(encoded(photo.resize((64, 48)), "AVIF")))
    usual, endless = (decode_image(avif([item], endless=endless)).numpy() for endless in (False, True))
    assert np.array_equal(usual, endless)


def test_wrong_avifs_are_errors_that_say_why(photo):
    item = av1_data(encoded(photo.resize((64, 48)), "AVIF"))
    good = avif([(64, 48, config(), item)])
    assert decode_image(good).shape == (48, 64, 3)
    wrong = {
        "essential property 'clap'": avif([(64, 48, config(), item)], essential=full("clap", bytes(28))),
        "states 64x50": avif([(64, 50, config(), item)]),
        "with 3 tiles in a grid of 2 rows and 2 columns": avif([(64, 48, config(), item)] * 3, grid=(2, 2, 128, 96)),
        "a tile outside its grid": avif([(64, 48, config(), item)] * 2, grid=(1, 2, 60, 48)),
        "an item of type 'hvc1'": good.replace(b"infe\2\0\0\0\0\1\0\0av01", b"infe\2\0\0\0\0\1\0\0hvc1"),
        "without the box 'pitm'": good.replace(b"pitm", b"free"),
        "extents without offset and length": good.replace(b"iloc\1\0\0\0\x44", b"iloc\1\0\0\0\0"),
        "has no 'ispe'": good.replace(b"ispe", b"pasp"),
    }
    for reason, data in wrong.items():
        with pytest.raises(fsp.Error, match=reason):
            decode_image(data)


@pytest.mark.parametrize("options", [{}, {"lossless": True}, None])
def test_damage_is_an_error_or_always_the_same_image(photo, options):
    name = "WEBP" if options is not None else "AVIF"
    image = photo.resize((120, 90))
    data = encoded(image, name, **(options or {}))
    for cut in (*range(0, len(data) - 2, max(1, len(data) // 60)), len(data) - 2):
        for exact in (True, False):
            with pytest.raises(fsp.Error):
                decode_image(data[:cut], exact=exact)
    rng = np.random.default_rng(5)
    outcomes = []
    for round_ in range(150):
        changed = bytearray(data)
        reach = min(len(data), 500) if round_ % 2 else len(data)
        for at in rng.integers(0, reach, 1 + round_ % 4):
            changed[at] ^= 1 << int(rng.integers(8))
        both = []
        for _ in range(2):
            try:
                both.append(decode_image(bytes(changed), exact=round_ % 3 > 0).numpy().tobytes())
            except fsp.Error as error:
                both.append(str(error))
        assert both[0] == both[1]
        outcomes.append(type(both[0]))
    assert str in outcomes and bytes in outcomes


def test_loaders_mix_formats(photo, tmp_path):
    folder = tmp_path / "images" / "cat"
    folder.mkdir(parents=True)
    for n, name in enumerate(("JPEG", "PNG", "WEBP", "AVIF")):
        photo.resize((120 + n, 90)).save(folder / f"{n}.{name.lower()}")
    found = fsp.datasets.image_folder(tmp_path / "images")
    assert [Path(path).suffix for path, _ in found] == [".jpeg", ".png", ".webp", ".avif"]
    t = fsp.transforms
    loader = fsp.ImageLoader(found, batch_size=4, transforms=[t.Resize((48, 64)), t.Normalize(0, 255)], dtype="float32")
    images = next(iter(loader)).images.numpy()
    # The same photograph by four encoders.
    assert np.abs(images - images[1]).mean() < 0.02
    assert fsp.tools.validate(found).failures == []
    assert fsp.tools.validate([(folder / "3.avif").read_bytes()]).failures == []
    video = fsp.Video(fsp.datasets.ImageSequence(folder, pattern="{}.avif", first=3), layout="THWC")
    assert video.info.codec == "avif" and video[0].shape == (90, 123, 3)
    with pytest.raises(fsp.errors.UnsupportedError, match="a mask that is not a PNG"):
        next(iter(fsp.ImageLoader(found, batch_size=4, masks=[path for path, _ in found])))


def test_an_avif_sequence_is_a_video(photo, tmp_path):
    frames = [photo.resize((64, 48)), photo.resize((64, 48)).transpose(Image.Transpose.ROTATE_180)]
    data = encoded(frames[0], "AVIF", save_all=True, append_images=frames[1:], duration=40)
    with pytest.raises(fsp.errors.UnsupportedError, match="an AVIF image sequence"):
        decode_image(data)
    (tmp_path / "two.avif").write_bytes(data)
    video = fsp.Video(tmp_path / "two.avif", layout="THWC")
    assert len(video) == 2
    assert np.abs(video[0].numpy().astype(int) - np.asarray(frames[0])).mean() < 6
