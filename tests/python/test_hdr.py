"""Video of high dynamic range: reported properties, and when a warning is emitted."""

from __future__ import annotations

import dataclasses
import json
import pickle
import subprocess
import sys

import framespool as fsp
import numpy as np
import pytest

PQ = ("bt2020", "smpte2084", "bt2020nc", "limited", "PQ")
HLG = ("bt2020", "arib-std-b67", "bt2020nc", "limited", "HLG")


def colors(info):
    return info.color_primaries, info.color_transfer, info.color_matrix, info.color_range, info.hdr


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("odd/squares_pq_10bit.mp4", PQ),
        ("odd/squares_hlg_10bit.mp4", HLG),
        ("derived/hevc_hdr10_tagged_720p.mp4", PQ),
        ("odd/squares_fcc_pc_8bit.mp4", (None, None, "fcc", "full", None)),
        ("odd/squares_bt2020c.mp4", (None, None, "bt2020c", "limited", None)),
    ],
)
def test_info_reports_color_by_name(videos, path, expected):
    info = fsp.Video(videos / path).info
    found = colors(info)
    # An unspecified range is limited by the standards of these codecs; decoders may report it or not.
    assert found == expected or (expected[3] == "limited" and found == (*expected[:3], None, *expected[4:]))
    assert colors(pickle.loads(pickle.dumps(info))) == found
    summary = fsp.tools.probe([videos / path])
    assert summary.colors == {" ".join(name or "-" for name in expected[:3]): 1}
    assert any(f"high dynamic range ({expected[4]})" in note for note in summary.notes) == (expected[4] is not None)
    with pytest.raises(fsp.errors.ArgumentError, match="copy without the video"):
        _ = dataclasses.replace(info, path="other").hdr


def test_probe_reports_the_color_of_a_damaged_picture(videos, tmp_path):
    damaged = bytearray((videos / "derived/hevc_hdr10_tagged_720p.mp4").read_bytes())
    begin = damaged.find(b"mdat") + 4
    damaged[begin + 3000 : begin + 6000] = b"\xff" * 3000  # of the first picture, behind its headers
    path = tmp_path / "damaged.mp4"
    path.write_bytes(damaged)
    with pytest.raises(fsp.Error):
        _ = fsp.Video(path, index=False).info.hdr
    summary = fsp.tools.probe([path], index=False)
    assert summary.colors == {"bt2020 smpte2084 bt2020nc": 1} and not summary.failures


def run(code, *arguments):
    """The warnings of a separate process: each as (category, message)."""
    prelude = (
        "import json, sys, warnings\n"
        "import framespool as fsp\n"
        "caught = warnings.catch_warnings(record=True)\n"
        "seen = caught.__enter__()\n"
        "warnings.simplefilter('always')\n"
    )
    end = "\nprint(json.dumps([(w.category.__name__, str(w.message)) for w in seen]))"
    done = subprocess.run(
        [sys.executable, "-c", prelude + code + end, *map(str, arguments)], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["pq", "hlg"])
@pytest.mark.parametrize(
    "code",
    [
        "v = fsp.Video(sys.argv[1]); v[0]; v[1]; list(v)",
        "list(fsp.Video(sys.argv[1])); fsp.Video(sys.argv[1])[0]",
        "v = fsp.Video(sys.argv[1]); v.frames([0], dtype='float32'); v.frames_at([0.0]); fsp.Video(sys.argv[1])[0]",
        "rule = fsp.samplers.Windows(sequence_length=1)\n"
        "for _ in range(2):\n    list(fsp.ClipLoader([sys.argv[1]], rule, batch_size=1, index=False))",
    ],
)
def test_conversion_of_hdr_warns_once_in_a_process(videos, name, code):
    ((category, message),) = run(code, videos / f"odd/squares_{name}_10bit.mp4")
    assert category == "HdrWarning"
    assert f"squares_{name}_10bit.mp4" in message and name.upper() in message
    assert "transforms.ToneMap" in message and 'hdr="ignore"' in message


@pytest.mark.parametrize(
    "code",
    [
        "fsp.Video(sys.argv[1], hdr='ignore')[0]; list(fsp.Video(sys.argv[1], hdr='ignore'))",
        "import pickle; pickle.loads(pickle.dumps(fsp.Video(sys.argv[1], hdr='ignore')))[0]",
        "rule = fsp.samplers.Windows(sequence_length=1)\n"
        "warnings.filterwarnings('ignore', category=fsp.errors.HdrWarning); "
        "list(fsp.ClipLoader([sys.argv[1]], rule, batch_size=1, index=False))",
        "fsp.tools.validate([sys.argv[1]]); fsp.Video(sys.argv[1]).info.hdr; fsp.tools.probe([sys.argv[1]])",
    ],
)
def test_no_warning_if_hdr_is_requested_or_unused(videos, code):
    assert run(code, videos / "odd/squares_pq_10bit.mp4") == []


def test_no_warning_for_standard_dynamic_range(videos):
    assert run("fsp.Video(sys.argv[1])[0]", videos / "odd/squares_bt2020nc_tv_10bit.mp4") == []


def test_hdr_is_one_of_two_words(videos):
    path = videos / "odd/squares_pq_10bit.mp4"
    with pytest.raises(fsp.errors.ArgumentError, match='hdr must be one of "warn", "ignore", got "off"'):
        fsp.Video(path, hdr="off", layout="THWC")


# ---- Tone mapping, against a model in float64 that is written from the recommendations ----

M1, M2 = 2610 / 16384, 2523 / 32
C1, C2, C3 = 3424 / 4096, 2413 / 128, 2392 / 128


def pq_to_light(signal):
    """cd/m2 of a PQ signal: SMPTE ST 2084, equation 4.1."""
    root = np.power(signal, 1 / M2)
    return 10000 * np.power(np.maximum(root - C1, 0) / (C2 - C3 * root), 1 / M1)


def light_to_pq(light):
    power = np.power(np.asarray(light) / 10000, M1)
    return np.power((C1 + C2 * power) / (1 + C3 * power), M2)


def hlg_to_light(signal, peak):
    """cd/m2 on a display of this peak: ITU-R BT.2100, table 5."""
    a, b, c = 0.17883277, 0.28466892, 0.55991073
    scene = np.where(signal <= 0.5, signal**2 / 3, (np.exp((signal - c) / a) + b) / 12)
    gamma = 1.2 + 0.42 * np.log10(peak / 1000) if 400 <= peak <= 2000 else 1.2 * 1.111 ** np.log2(peak / 1000)
    luminance = scene @ [0.2627, 0.6780, 0.0593]
    return peak * np.power(np.maximum(luminance, 1e-12), gamma - 1)[..., None] * scene


def eetf(light, source, target):
    """ITU-R BT.2390, section 5.4.1, with both blacks at 0."""
    e1 = np.minimum(light_to_pq(light) / light_to_pq(source), 1)
    most = light_to_pq(target) / light_to_pq(source)
    if most >= 1:
        return np.minimum(light, source)
    ks = max(1.5 * most - 0.5, 0)
    t = (e1 - ks) / (1 - ks)
    bent = (2 * t**3 - 3 * t**2 + 1) * ks + (t**3 - 2 * t**2 + t) * (1 - ks) + (-2 * t**3 + 3 * t**2) * most
    return pq_to_light(np.where(e1 < ks, e1, bent) * light_to_pq(source))


def model(planes, name, target=203.0, source=1000.0):
    """Light in parts of the target's white, BT.709, clipped, of 10-bit limited-range BT.2020 planes (3, H, W)."""
    luma = (planes[0] - 64) / 876
    cb, cr = (planes[1] - 512) / 896, (planes[2] - 512) / 896
    red, blue = luma + 1.4746 * cr, luma + 1.8814 * cb
    green = (luma - 0.2627 * red - 0.0593 * blue) / 0.6780
    signal = np.clip(np.stack([red, green, blue], axis=-1), 0, 1)
    light = pq_to_light(signal) if name == "pq" else hlg_to_light(signal, source)
    luminance = np.maximum(light @ [0.2627, 0.6780, 0.0593], 1e-9)
    mapped = light * (eetf(luminance, source, target) / luminance)[..., None] / target
    # ITU-R BT.2087, to four digits.
    gamut = np.array([[1.6605, -0.5876, -0.0728], [-0.1246, 1.1329, -0.0083], [-0.0182, -0.1006, 1.1187]])
    return np.clip(mapped @ gamut.T, 0, 1)


def squares10():
    y, x = np.mgrid[0:64, 0:128]
    return np.stack([64 + x // 16 * 124, 64 + y // 16 * 296, 960 - (x + y) // 32 * 176]).astype(float)


@pytest.mark.parametrize("name", ["pq", "hlg"])
@pytest.mark.parametrize(("target", "source"), [(203.0, 1000.0), (100.0, 4000.0), (400.0, 1500.0), (1000.0, 500.0)])
def test_tone_mapping_is_that_of_bt_2390(videos, name, target, source):
    video = fsp.Video(videos / f"odd/squares_{name}_10bit.mp4", layout="THWC")
    steps = [fsp.transforms.ToneMap(target, source)]
    exact = model(squares10(), name, target, source)
    wide = video.frames([0], transforms=steps, dtype="uint16").frames[0].numpy() / 65535
    # Compared in linear light: at the border of the gamut, code values can differ by any amount.
    assert np.abs(wide**2.4 - exact).max() <= 0.003
    codes = video.frames([0], transforms=steps).frames[0].numpy()
    assert np.abs(codes - np.round(255 * wide)).max() <= 1
    well = exact > 0.01
    assert well.mean() > 0.3
    assert np.abs(codes - 255 * exact ** (1 / 2.4))[well].max() <= 1
    as_float = video.frames([0], transforms=steps, dtype="float32").frames[0].numpy()
    assert np.abs(as_float - wide).max() < 1e-6
    # Clearly different from the result without it: the mapping is tested.
    plain = fsp.Video(videos / f"odd/squares_{name}_10bit.mp4", hdr="ignore", layout="THWC")[0].numpy().astype(int)
    assert np.abs(plain - codes).mean() > 5


def test_tone_mapping_does_not_change_sdr_or_arrays(videos):
    t = fsp.transforms
    path = videos / "odd/squares_bt2020nc_tv_10bit.mp4"
    for dtype in ("uint8", "uint16", "float32"):
        plain = fsp.Video(path, layout="THWC").frames([0], dtype=dtype).frames.numpy()
        mapped = fsp.Video(path, layout="THWC").frames([0], dtype=dtype, transforms=[t.ToneMap()])
        assert np.array_equal(mapped.frames.numpy(), plain)
    array = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    assert np.array_equal(t.apply(array, [t.ToneMap()]).numpy(), array)


def test_tone_mapping_with_transforms_and_loaders(videos):
    t, path = fsp.transforms, videos / "derived/hevc_hdr10_tagged_720p.mp4"
    steps = [t.Resize((48, 64)), t.ToneMap(), t.RandomRotation(20), t.ColorJitter(0.3, 0.3, 0.3, 0.1)]
    video = fsp.Video(path, index=False, layout="THWC")
    few = video.frames([0, 7, 20], transforms=steps, seed=4).frames.numpy()
    assert np.array_equal(video.frames([20], transforms=steps, seed=4).frames.numpy()[0], few[2])
    fixed = [t.Resize((48, 64)), t.ToneMap(), t.Normalize(0.4, 0.2)]
    loader = fsp.ClipLoader(
        [path],
        fsp.samplers.Windows(sequence_length=4, step=2),
        batch_size=2,
        transforms=fixed,
        shuffle="full",
        dtype="float32",
        num_threads=2,
        index=False,
    )
    for batch in loader:
        for clip, indices in zip(batch.frames.numpy(), batch.indices.tolist(), strict=True):
            expected = fsp.Video(path).frames(indices, transforms=fixed, dtype="float32").frames
            assert np.array_equal(clip, expected.numpy())
    code = "fsp.Video(sys.argv[1]).frames([0], transforms=[fsp.transforms.ToneMap()])"
    assert run(code, path) == []


def test_tone_mapping_refuses_what_it_cannot_do(videos):
    t = fsp.transforms
    for arguments in ({"target_peak": 9}, {"source_peak": 10001}, {"target_peak": float("nan")}, {"source_peak": "x"}):
        with pytest.raises(fsp.errors.ArgumentError, match="ToneMap: (target|source)_peak must be"):
            t.ToneMap(**arguments)
    video = fsp.Video(videos / "odd/squares_pq_10bit.mp4", layout="THWC")
    with pytest.raises(fsp.errors.ArgumentError, match="ToneMap follows ColorJitter"):
        video.frames([0], transforms=[t.ColorJitter(0.2), t.ToneMap()])
    with pytest.raises(fsp.errors.ArgumentError, match="two ToneMap"):
        video.frames([0], transforms=[t.ToneMap(), t.ToneMap()])
    with pytest.raises(fsp.errors.UnsupportedError, match="squares_pq_film.mp4.*film .ColorPrimaries 8"):
        fsp.Video(videos / "odd/squares_pq_film.mp4", layout="THWC").frames([0], transforms=[t.ToneMap()])
