"""Files that framespool does not read are refused by name when they are opened; tests/engine has the other cases."""

from __future__ import annotations

import subprocess

import framespool as fsp
import pytest

CONTAINERS = {
    "NUT": ("nut", "mjpeg"),
    "MXF": ("mxf", "mpeg2video"),
    "GXF": ("gxf", "mpeg2video -s 720x480 -r 30000/1001"),
    "RealMedia": ("rm", "rv10"),
    "WTV": ("wtv", "mpeg2video"),
    "Y4M": ("y4m", "rawvideo -pix_fmt yuv420p"),
    "raw DV": ("dv", "dvvideo -s 720x480 -r 30000/1001 -pix_fmt yuv411p"),
    "SWF": ("swf", "flv1"),
    "multipart JPEG": ("mpjpeg", "mjpeg"),
}
SOURCE = "-f lavfi -i testsrc2=size=64x64:rate=25 -frames:v 5"


@pytest.mark.parametrize("name", CONTAINERS)
def test_container_that_is_not_read_is_named(name, encoder, tmp_path):
    extension, codec = CONTAINERS[name]
    path = tmp_path / f"video.{extension}"
    wrapped = f"-f {extension}" if extension == "mpjpeg" else ""
    command = f"{SOURCE} -c:v {codec} -strict unofficial {wrapped}"
    subprocess.run([encoder, "-v", "error", *command.split(), path], check=True)
    with pytest.raises(fsp.errors.UnsupportedError, match=name) as caught:
        fsp.Video(path)
    assert path.name in str(caught.value)


@pytest.mark.parametrize(("extension", "codec"), [("mov", "rawvideo -pix_fmt rgb24"), ("mp4", "libx264")])
@pytest.mark.parametrize("tail", [b"", b"\0\0\0\x08moov"], ids=["plain", "tables-not-read"])
def test_encrypted_video_is_refused(extension, codec, tail, encoder, tmp_path):
    path = tmp_path / f"encrypted.{extension}"
    key = "-encryption_key 76a6c65c5ea762046bd749a2e632ccbb -encryption_kid a7e61c373e219033c21091fa607bf3b8"
    command = f"{SOURCE} -c:v {codec} -encryption_scheme cenc-aes-ctr {key}"
    subprocess.run([encoder, "-v", "error", *command.split(), path], check=True)
    path.write_bytes(path.read_bytes() + tail)  # libavformat ignores a second moov box
    with pytest.raises(fsp.errors.UnsupportedError, match=r"encrypted video \(scheme cenc\)"):
        fsp.Video(path)
