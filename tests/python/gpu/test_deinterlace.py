"""Deinterlaced frames on a GPU, real or simulated: the same bytes as on the CPU."""

from __future__ import annotations

import subprocess

import framespool as fsp
import pytest

pytestmark = pytest.mark.usefixtures("gpu")


@pytest.mark.parametrize("top_first", [1, 0])
@pytest.mark.parametrize("method", ["bob", "linear"])
def test_deinterlaced_frames_are_the_same(encoder, tmp_path, decoders_are_missing, method, top_first):
    path = tmp_path / "a.mp4"
    source = "testsrc2=size=94x72:rate=25,trim=end_frame=12,format=yuv420p"
    parameters = f"interlaced=1:{'tff' if top_first else 'bff'}=1:scenecut=0"
    command = [encoder, "-v", "error", "-f", "lavfi", "-i", source, "-c:v", "libx264", "-g", "6"]
    subprocess.run([*command, "-x264-params", parameters, path], check=True)
    keywords = {"index": False, "deinterlace": method}
    expected, woven = fsp.Video(path, **keywords, layout="THWC"), fsp.Video(path, index=False, layout="THWC")
    assert expected.info.field_order == ("tt" if top_first else "bb")
    assert expected[5].tobytes() != woven[5].tobytes()
    for output, device in (("gpu", "cuda:0"), ("cpu", "cpu")):
        decoded = fsp.Video(path, device="cuda:0", decoder="nvdec", **keywords, layout="THWC")
        assert [frame.tobytes() for frame in decoded] == [frame.tobytes() for frame in expected]
        rule = fsp.samplers.Windows(sequence_length=4, step=4)
        transforms = [fsp.transforms.Deinterlace(method), fsp.transforms.Resize((40, 56))]
        clips = {"batch_size": 3, "transforms": transforms, "index": False}
        (on_cpu,) = fsp.ClipLoader([path], rule, **clips)
        loader = fsp.ClipLoader([path], rule, device=fsp.Gpu(0, decoder="nvdec", output=output), **clips)
        (on_gpu,) = loader
        assert on_gpu.frames.device == device and on_gpu.frames.cpu().tobytes() == on_cpu.frames.tobytes()
        assert decoders_are_missing or (loader.stats()["frames_decoded_by_gpu"] and not loader.stats()["cpu_fallbacks"])
