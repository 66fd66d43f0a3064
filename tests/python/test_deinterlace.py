"""The option deinterlace: frames of interlaced video equal a computation on the stored fields."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest

WIDTH, HEIGHT, FRAMES = 34, 38, 6


@pytest.fixture(scope="session", params=["tt", "bb"])
def interlaced(request, encoder, tmp_path_factory) -> Path:
    """A lossless gray video, whose RGB is one of its codes, interlaced."""
    path = tmp_path_factory.mktemp("interlaced") / f"{request.param}.mkv"
    source = f"testsrc2=size={WIDTH}x{HEIGHT}:rate=25,trim=end_frame={FRAMES},format=gray"
    command = [encoder, "-v", "error", "-f", "lavfi", "-i", source, "-vf", "setrange=full", "-c:v", "ffv1"]
    subprocess.run([*command, "-color_range", "pc", "-field_order", request.param, path], check=True)
    return path


def deinterlaced(woven: np.ndarray, method: str, order: str) -> np.ndarray:
    """The frames (T, H, W, C) after deinterlacing, line by line."""
    result = woven.copy()
    last = woven.shape[1] - 1
    for line in range(1 if order == "tt" else 0, last + 1, 2):
        above, below = (line - 1 if line > 0 else line + 1), (line + 1 if line < last else line - 1)
        if method == "bob":
            result[:, line] = woven[:, above if order == "tt" else below]
        else:
            result[:, line] = (woven[:, above].astype(int) + woven[:, below] + 1) >> 1
    return result


@pytest.mark.parametrize("method", ["bob", "linear"])
def test_frames_are_made_of_the_field_shown_first(interlaced, method):
    woven = fsp.Video(interlaced, index=False, layout="THWC")
    assert woven.info.field_order == interlaced.stem and len(woven) == FRAMES
    stored = woven[:].numpy()
    expected = deinterlaced(stored, method, interlaced.stem)
    assert (expected != stored).any()
    video = fsp.Video(interlaced, index=False, deinterlace=method, layout="THWC")
    assert len(video) == FRAMES and (video[:].numpy() == expected).all()
    assert all((frame.numpy() == line).all() for frame, line in zip(video, expected, strict=True))
    assert (pickle.loads(pickle.dumps(video))[3].numpy() == expected[3]).all()
    (chunk,) = video.chunks(chunk_size=FRAMES)
    assert (chunk.frames.numpy() == expected).all()
    rule = fsp.samplers.Windows(sequence_length=3, step=2)
    keywords = {"layout": "NTHWC", "collate": "stack", "index": False}
    (batch,) = fsp.ClipLoader(
        [interlaced], rule, batch_size=8, transforms=[fsp.transforms.Deinterlace(method)], **keywords
    )
    clips = zip(batch.frames.numpy(), batch.indices.tolist(), strict=True)
    assert all((clip == expected[indices]).all() for clip, indices in clips)
    # Resizing reads the deinterlaced lines.
    resize = [fsp.transforms.Resize((HEIGHT // 2, WIDTH), interpolation="nearest")]
    small = video.frames([2], transforms=resize).frames.numpy()
    assert small.shape[1:3] == (HEIGHT // 2, WIDTH)
    assert all(any((line == row).all() for row in expected[2]) for line in small[0])


@pytest.mark.parametrize("method", ["bob", "linear"])
def test_chroma_and_deep_samples_have_fields_too(encoder, tmp_path, method):
    """4:2:0 of 10 bits equals the same planes deinterlaced before they were encoded as progressive video."""
    height = HEIGHT - 4  # 17 lines of chroma
    source = f"testsrc2=size={WIDTH}x{height}:rate=25,trim=end_frame=2,format=yuv420p10le"
    raw = [encoder, "-v", "error", "-f", "lavfi", "-i", source, "-f", "rawvideo", "-"]
    words = np.frombuffer(subprocess.run(raw, check=True, capture_output=True).stdout, "<u2").reshape(2, -1)
    planes, at = [], 0
    for width, lines in [(WIDTH, height), (WIDTH // 2, height // 2), (WIDTH // 2, height // 2)]:
        plane = words[:, at : at + width * lines].reshape(2, lines, width)
        planes.append(deinterlaced(plane, method, "tt").reshape(2, -1))
        at += width * lines
    given = np.concatenate(planes, axis=1).astype("<u2").tobytes()
    size = ["-f", "rawvideo", "-pix_fmt", "yuv420p10le", "-s", f"{WIDTH}x{height}", "-r", "25", "-i", "-"]
    for name, data, order in [("a", words.tobytes(), "tt"), ("b", given, "progressive")]:
        command = [encoder, "-v", "error", *size, "-c:v", "ffv1", "-field_order", order, tmp_path / f"{name}.mkv"]
        subprocess.run(command, input=data, check=True)
    result, expected = (
        fsp.Video(tmp_path / f"{name}.mkv", index=False, deinterlace=method, layout="THWC") for name in "ab"
    )
    assert (result.info.field_order, expected.info.field_order) == ("tt", "progressive")
    for dtype in ("uint8", "uint16"):
        assert (
            result.frames([0, 1], dtype=dtype).frames.numpy() == expected.frames([0, 1], dtype=dtype).frames.numpy()
        ).all()


def test_progressive_video_is_not_changed(videos):
    path = videos / "derived" / "tiny_34x26_h264.mp4"
    plain, video = (
        fsp.Video(path, index=False, layout="THWC"),
        fsp.Video(path, index=False, deinterlace="linear", layout="THWC"),
    )
    assert video[:].tobytes() == plain[:].tobytes()


def test_unknown_methods_are_errors(videos):
    path = str(videos / "derived" / "tiny_34x26_h264.mp4")
    rule = fsp.samplers.Windows(sequence_length=1)
    with pytest.raises(fsp.errors.ArgumentError, match='deinterlace must be one of .*"linear".* got .?yadif'):
        fsp.Video(path, deinterlace="yadif", layout="THWC")
    with pytest.raises(fsp.errors.ArgumentError, match="Deinterlace: method must be one of"):
        fsp.transforms.Deinterlace("weave")
    late = [fsp.transforms.Resize(32), fsp.transforms.Deinterlace("bob")]
    with pytest.raises(fsp.errors.ArgumentError, match="must be the first transform of a ClipLoader"):
        fsp.ClipLoader([path], rule, batch_size=1, transforms=late)


def test_a_state_fits_only_loaders_that_deinterlace_in_the_same_way(videos):
    path = str(videos / "derived" / "tiny_34x26_h264.mp4")

    def made(method: str) -> fsp.ClipLoader:
        rule = fsp.samplers.Windows(sequence_length=1)
        first = [] if method == "weave" else [fsp.transforms.Deinterlace(method)]
        return fsp.ClipLoader([path], rule, batch_size=1, index=False, transforms=first)

    state = made("bob").state_dict()
    made("bob").load_state_dict(state)
    for other in ("weave", "linear"):
        with pytest.raises(fsp.errors.ArgumentError, match="deinterlace.*bob"):
            made(other).load_state_dict(state)


def test_the_warning_names_the_option_and_is_absent_with_it(videos):
    program = """
        import logging, sys
        import framespool as fsp

        logging.basicConfig(format="%(name)s %(message)s", stream=sys.stdout)
        video = fsp.Video(sys.argv[1], index=False, deinterlace=sys.argv[2], layout="THWC")
        video[0], video.info.color_range
        first = [] if sys.argv[2] == "weave" else [fsp.transforms.Deinterlace(sys.argv[2])]
        one = fsp.samplers.Indices([0])
        list(fsp.ClipLoader([sys.argv[1]], one, batch_size=1, index=False, transforms=first))
    """
    path = videos / "derived" / "h264_mbaff_720x576.mp4"
    for method, count in [("weave", 1), ("linear", 0)]:
        command = [sys.executable, "-c", textwrap.dedent(program), str(path), method]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        assert len(lines) == count
        assert all('Deinterlace("linear")' in line for line in lines)
