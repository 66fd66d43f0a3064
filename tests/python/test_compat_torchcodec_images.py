"""framespool.compat.torchcodec: the image decoders."""

from __future__ import annotations

import io

import framespool as fsp
import pytest
from compat_helpers import torch_or_skip
from PIL import Image
from servers import FaultyServer


@pytest.mark.parametrize("mode", ["RGB", "gray", "RGB_ALPHA", "GRAY_ALPHA", "UNCHANGED"])
def test_an_image_has_the_channels_that_were_asked_for(media, mode):
    torch = torch_or_skip()
    from framespool.compat.torchcodec import decoders

    path = min((media / "images" / "classes").rglob("*.jpg"))
    rgb = fsp.decode_image(path, layout="CHW").torch()
    for source in (
        path,
        str(path),
        path.read_bytes(),
        torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8),
    ):
        image = decoders.decode_image(source, mode=mode)
        upper = mode.upper()
        assert image.shape == ({"GRAY": 1, "GRAY_ALPHA": 2, "RGB_ALPHA": 4}.get(upper, 3), *rgb.shape[1:])
        if upper in ("RGB", "RGB_ALPHA", "UNCHANGED"):
            assert torch.equal(image[:3], rgb)
        if upper.endswith("ALPHA"):
            assert (image[-1] == 255).all()
    wide = decoders.decode_jpeg([path], mode=decoders.ImageReadMode.RGB, output_dtype=torch.uint16)
    assert torch.equal(wide[0].int(), rgb.int() * 257)


@pytest.mark.parametrize("name", ["webp", "avif"])
def test_webp_and_avif_with_and_without_alpha(name):
    torch = torch_or_skip()
    from framespool.compat.torchcodec import decoders

    decode = getattr(decoders, f"decode_{name}")
    plain = Image.linear_gradient("L").resize((40, 26)).convert("RGB")
    alpha = plain.copy()
    alpha.putalpha(Image.radial_gradient("L").resize(alpha.size))
    for picture in (plain, alpha):
        for options in ({}, {"lossless": True}) if name == "webp" else ({}, {"subsampling": "4:4:4"}):
            out = io.BytesIO()
            picture.save(out, name, **options)
            data = out.getvalue()
            rgb = fsp.decode_image(data, layout="CHW").torch()
            for ask in (decode, decoders.decode_image):
                assert torch.equal(ask(data), rgb) and ask(data, mode="GRAY").shape == (1, 26, 40)
                if picture is plain:
                    assert torch.equal(ask(data, mode="UNCHANGED"), rgb)
                    assert ask(data, mode="RGB_ALPHA").shape == (4, 26, 40)
                else:
                    for mode in ("UNCHANGED", "RGB_ALPHA", "GRAY_ALPHA"):
                        with pytest.raises(RuntimeError, match="does not decode alpha"):
                            ask(data, mode=mode)
    gray = io.BytesIO()
    plain.save(gray, "avif", subsampling="4:0:0")
    assert decoders.decode_image(gray.getvalue(), mode="UNCHANGED").shape == (1, 26, 40)


def test_unsupported_images_are_rejected_by_name():
    torch_or_skip()
    from framespool.compat.torchcodec import decoders

    heads = {
        decoders.decode_gif: b"GIF89a",
        decoders.decode_heic: b"\0\0\0\x1cftypheic",
    }
    for decode, head in heads.items():
        name = decode.__name__.removeprefix("decode_").upper()
        for ask in (decode, decoders.decode_image):
            with pytest.raises(RuntimeError, match=f"does not decode {name} images, as it does not contain .*lib"):
                ask(head + bytes(80))
    for wrong, kind in ((b"abc", ValueError), (3, TypeError)):
        with pytest.raises(kind):
            decoders.decode_image(wrong)
    with pytest.raises(RuntimeError, match="Not a PNG file"):
        decoders.decode_png(b"\xff\xd8\xff" + bytes(80))
    with pytest.raises(ValueError, match="Invalid mode"):
        decoders.decode_jpeg(b"\xff\xd8\xff", mode="CMYK")
    with pytest.raises(ValueError, match="Invalid output_dtype"):
        decoders.decode_jpeg(b"\xff\xd8\xff", output_dtype="float32")


#: Files of the test media with what framespool refuses: (file, options, words of the error).
REFUSED_IMAGES = [
    ("png_alpha.png", {"mode": "UNCHANGED"}, "does not decode alpha"),
    ("png_alpha.png", {"mode": "RGB_ALPHA"}, "does not decode alpha"),
    ("png_grey_alpha.png", {"mode": "GRAY_ALPHA"}, "does not decode alpha"),
    ("png_grey_16bit.png", {"output_dtype": "auto"}, "16 bits to 8"),
    ("cmyk_pil.jpg", {"mode": "UNCHANGED"}, "converts CMYK to RGB"),
]


@pytest.mark.parametrize(("name", "options", "words"), REFUSED_IMAGES)
def test_image_options_that_framespool_lacks_are_refused(media, name, options, words):
    torch = torch_or_skip()
    from framespool.compat.torchcodec import decoders

    path = media / "images" / "odd" / name
    with pytest.raises(RuntimeError, match=words):
        decoders.decode_image(path, **options)
    # The same file in the modes that need none of it.
    rgb = fsp.decode_image(path, layout="CHW").torch()
    assert torch.equal(decoders.decode_image(path), rgb)
    assert decoders.decode_image(path, mode="GRAY").shape == (1, *rgb.shape[1:])


@pytest.mark.parametrize("decode", ["decode_jpeg", "decode_png", "decode_image"])
def test_a_tensor_of_a_file_has_one_dimension_of_bytes(decode):
    torch = torch_or_skip()
    from framespool.compat.torchcodec import decoders

    file = torch.zeros(100, dtype=torch.uint8)
    for wrong, words in ((file[None], "1-dimensional"), (file[:0], "non-empty"), (file.float(), "uint8")):
        with pytest.raises(RuntimeError, match=words):
            getattr(decoders, decode)(wrong)


@pytest.mark.parametrize("name", ["webp", "avif", "png"])
def test_animations_are_refused_instead_of_their_first_frame(tmp_path, name):
    """torchcodec returns all frames of a WebP, an AVIF, and a PNG as a video."""
    torch = torch_or_skip()
    from framespool.compat.torchcodec import decoders

    path = tmp_path / f"a.{name}"
    first, second = (Image.new("RGB", (32, 16), color) for color in ("red", "blue"))
    first.save(path, save_all=True, append_images=[second], duration=100)
    if name != "png":  # torchcodec returns the first frame, too
        for decode in (decoders.decode_image, getattr(decoders, f"decode_{name}")):
            with pytest.raises(RuntimeError, match="animated WebP|AVIF image sequence"):
                decode(path)
    if name != "avif":
        data = path.read_bytes()
        archive = tmp_path / "archive"
        archive.write_bytes(b"before" + data + b"after")
        member = fsp.datasets.ArchiveMember(archive, len(b"before"), len(data), f"a.{name}")
        first_only = "framespool reads the first frame only of an animated"
        for source in (path, str(path), member):
            with pytest.raises(RuntimeError, match=rf"a\.{name}: {first_only}.*convert it to MP4"):
                decoders.VideoDecoder(source)
        for source in (data, torch.frombuffer(bytearray(data), dtype=torch.uint8), io.BytesIO(data)):
            with pytest.raises(RuntimeError, match=rf"(bytes|file object): {first_only}.*convert it to MP4"):
                decoders.VideoDecoder(source)
        with FaultyServer(data).running() as server:
            at_url = fsp.datasets.ArchiveMember(server.url("archive"), 0, len(data), f"a.{name}")
            for source in (server.url(f"a.{name}"), at_url):
                with pytest.raises(RuntimeError, match=rf"a\.{name}.*: {first_only}.*a URL.*download it"):
                    decoders.VideoDecoder(source)
        first.save(path)
        with pytest.raises(RuntimeError, match=rf"bytes: .*a file name that ends in \.{name}; give its path"):
            decoders.VideoDecoder(path.read_bytes())
        with pytest.raises(RuntimeError, match="bytes: no known container"):  # not one of the formats
            decoders.VideoDecoder(b"damaged " * 9)
    assert len(decoders.VideoDecoder(path)) == (2 if name == "avif" else 1)
