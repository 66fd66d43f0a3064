"""Matrix and range come from the stream: squares of known color against ITU-T H.273 and the ffmpeg program's zscale."""

from __future__ import annotations

import subprocess

import framespool as fsp
import numpy as np
import pytest

#: Luma weights of red and blue (ITU-T H.273, table 4); YCgCo has none.
WEIGHTS = {
    "smpte170m": (0.299, 0.114),
    "bt709": (0.2126, 0.0722),
    "bt2020nc": (0.2627, 0.0593),
    "fcc": (0.30, 0.11),
    "smpte240m": (0.212, 0.087),
    "ycgco": None,
}


def squares(bits: int) -> np.ndarray:
    """Y', Cb and Cr of the recipe's 128x64 pixels, float64 of shape (3, 64, 128)."""
    y, x = np.mgrid[0:64, 0:128]
    unit = 1 << (bits - 8)
    luma = (16 + x // 16 * 31) * unit
    return np.stack([luma, (16 + y // 16 * 74) * unit, (240 - (x + y) // 32 * 44) * unit]).astype(float)


def exact_rgb(planes: np.ndarray, matrix: str, full_range: bool, bits: int) -> np.ndarray:
    """8-bit R'G'B' of shape (64, 128, 3), not rounded: ITU-T H.273, equations 20 to 31 and 38 to 52, solved for it."""
    unit, top = 1 << (bits - 8), (1 << bits) - 1
    luma = planes[0] / top if full_range else (planes[0] - 16 * unit) / (219 * unit)
    cb, cr = ((plane - 128 * unit) / (top if full_range else 224 * unit) for plane in planes[1:])
    weights = WEIGHTS[matrix]
    if weights is None:
        # It is computed from R, G, B in their range: differences, too, span 219.
        cg, co = (cb, cr) if full_range else (cb * 224 / 219, cr * 224 / 219)
        r, g, b = luma - cg + co, luma + cg, luma - cg - co
    else:
        red, blue = weights
        r, b = luma + 2 * (1 - red) * cr, luma + 2 * (1 - blue) * cb
        g = (luma - red * r - blue * b) / (1 - red - blue)
    return np.clip(255 * np.stack([r, g, b], axis=-1), 0, 255)


@pytest.mark.parametrize("matrix", WEIGHTS)
@pytest.mark.parametrize(("range_", "bits"), [("tv", 8), ("pc", 8), ("tv", 10)])
def test_colors_follow_the_streams_matrix_and_range(videos, encoder, matrix, range_, bits):
    path = videos / "odd" / f"squares_{matrix}_{range_}_{bits}bit.mp4"
    found = fsp.Video(path, layout="THWC")[0].numpy().astype(float)
    exact = exact_rgb(squares(bits), matrix, range_ == "pc", bits)
    assert np.abs(found - exact).max() <= 1
    # Another matrix or range gives clearly different values: the stream's tags are tested.
    for other in WEIGHTS:
        for full in (False, True):
            if (other, full) != (matrix, range_ == "pc"):
                near = {matrix, other} == {"fcc", "smpte170m"} and full == (range_ == "pc")
                assert np.abs(found - exact_rgb(squares(bits), other, full, bits)).max() > (1 if near else 4)
    command = [encoder, "-v", "error", "-i", path, "-vf", "zscale=matrix=gbr:range=full:dither=none,format=gbrp"]
    said = subprocess.run(
        [*command, "-f", "rawvideo", "-"], check=True, capture_output=True, stdin=subprocess.DEVNULL
    ).stdout
    green, blue, red = np.frombuffer(said, np.uint8).reshape(3, 64, 128).astype(float)
    assert np.abs(found - np.stack([red, green, blue], axis=-1)).max() <= 1


@pytest.mark.parametrize("name", ["squares_bt709_tv_8bit", "squares_smpte170m_pc_8bit", "squares_bt2020nc_tv_10bit"])
def test_luma_alone_is_delivered_with_all_codes(videos, name):
    bits = 10 if name.endswith("10bit") else 8
    video = fsp.Video(videos / "odd" / f"{name}.mp4", layout="THWC")
    as_stored = [fsp.transforms.AssumeColor(matrix="luma", range="full")]
    found = video.frames([0], transforms=as_stored, dtype="uint16").frames.numpy()[0]
    codes = np.rint(found * ((2**bits - 1) / 65535))
    assert np.array_equal(codes, np.repeat(squares(bits)[0][..., None], 3, axis=-1))


def test_unsupported_matrix_is_named_in_the_error(videos):
    path = videos / "odd" / "squares_bt2020c.mp4"
    with pytest.raises(
        fsp.errors.UnsupportedError, match=r"squares_bt2020c.mp4.*bt2020c \(MatrixCoefficients 10 .*AssumeColor"
    ):
        fsp.Video(path, layout="THWC")[0]
    # The remedy that it names: the caller's value overrides the stream's tag.
    assumed = (
        fsp.Video(path, layout="THWC").frames([0], transforms=[fsp.transforms.AssumeColor("fcc")]).frames[0].numpy()
    )
    assert np.abs(assumed - exact_rgb(squares(8), "fcc", False, 8)).max() <= 1


@pytest.mark.parametrize("matrix", WEIGHTS)
@pytest.mark.parametrize(("range_", "bits"), [("tv", 10), ("pc", 8)])
def test_16_bit_and_float_results_keep_the_depth(videos, matrix, range_, bits):
    video = fsp.Video(videos / "odd" / f"squares_{matrix}_{range_}_{bits}bit.mp4", layout="THWC")
    exact = exact_rgb(squares(bits), matrix, range_ == "pc", bits) / 255
    # Coefficients have 13 bits of fraction: a fifth of a step of 10 bits.
    wide = video.frames([0], dtype="uint16").frames[0].numpy()
    assert wide.dtype == np.uint16
    assert np.abs(wide / 65535 - exact).max() <= 12 / 65535
    scale = fsp.transforms.Normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.4))
    for dtype, step in (("float32", 0.0), ("float16", 2.0**-11)):
        found = video.frames([0], dtype=dtype).frames[0].numpy().astype(float)
        if bits == 8:
            assert np.abs(found * 255 - np.round(found * 255)).max() < 0.1  # of 8 bits nothing but codes is known
            continue
        assert np.abs(found - exact).max() <= 12 / 65535 + step
        assert np.abs(found * 255 - np.round(found * 255)).max() > 0.4
        normal = video.frames([0], dtype=dtype, transforms=[scale]).frames[0].numpy().astype(float)
        assert np.abs(normal - (exact - [0.4, 0.5, 0.6]) / [0.2, 0.3, 0.4]).max() <= 12 / 65535 / 0.2 + 4 * step


@pytest.mark.parametrize("dtype", ["uint16", "float16", "float32"])
def test_10_bit_clips_are_equal_from_a_loader(videos, dtype):
    """Also for cached clips, which 8-bit video stores as code values."""
    deep, flat = videos / "codecs/hevc_main10.mkv", videos / "derived/base_640x360.mp4"
    steps = [fsp.transforms.Resize((45, 80)), fsp.transforms.RandomHorizontalFlip(0.0)]
    loader = fsp.ClipLoader(
        [deep, flat],
        fsp.samplers.Windows(sequence_length=4, step=4),
        batch_size=3,
        transforms=steps,
        shuffle="full",
        dtype=dtype,
        num_threads=2,
        index=False,
    )
    seen = 0
    for _ in range(2):
        for batch in loader:
            places = zip(batch.video_ids.tolist(), batch.indices.tolist(), strict=True)
            for clip, (video, indices) in zip(batch.frames.numpy(), places, strict=True):
                source = fsp.Video([deep, flat][video], index=False)
                expected = source.frames(indices, transforms=steps, dtype=dtype)
                assert np.array_equal(clip, expected.frames.numpy())
                seen += 1
    assert seen > 20
    assert loader.stats()["clip_cache_hits"] > 0


def test_codes_of_gray_with_12_bits_are_exact(tmp_path):
    """Depth maps are such codes: docs/howto/robotics.md computes distances from them."""
    ffmpeg = pytest.importorskip("imageio_ffmpeg").get_ffmpeg_exe()
    codes = np.arange(4096, dtype="<u2").reshape(64, 64)
    path = tmp_path / "depth.mkv"
    raw = ["-f", "rawvideo", "-pix_fmt", "gray12le", "-s", "64x64", "-r", "10", "-i", "-"]
    command = [ffmpeg, "-v", "error", *raw, "-c:v", "ffv1", "-pix_fmt", "gray12le", str(path)]
    subprocess.run(command, input=codes.tobytes(), check=True)
    loader = fsp.ClipLoader(
        [str(path)], fsp.samplers.Windows(sequence_length=1), batch_size=1, dtype="uint16", collate="stack", index=False
    )
    (batch,) = loader
    frame = batch.frames.numpy()[0, 0]
    assert np.array_equal(np.rint(frame * (4095 / 65535)), np.broadcast_to(codes, (3, 64, 64)))
