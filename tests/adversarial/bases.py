"""Intact base files: the matrix of containers and codecs, small enough to decode thousands of variants.

Each is a few dozen frames of a moving test pattern with noise, so that no two frames are equal, in several groups of
pictures. They are created once by the ffmpeg program of the test media (``tests/media/make.py``) and stored in
framespool's cache folder, under a name that is the hash of this file.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import make
import streams

from adversarial import packets

#: Containers without presentation timestamps in their packets: timestamps are estimates, and not compared.
TIMELESS = frozenset({"avi", "raw", "obu"})

X264 = "-c:v libx264 -preset veryfast -crf 26 -g 10 -bf 2 -sc_threshold 0"
X265 = (
    "-c:v libx265 -preset ultrafast -crf 28 -x265-params log-level=error:pools=none:frame-threads=1:keyint=10:bframes=2"
)
VPX = "-deadline realtime -cpu-used 8 -g 10"
AOM = "-c:v libaom-av1 -usage realtime -cpu-used 8 -b:v 0 -crf 40 -g 10"


@dataclass(frozen=True)
class Base:
    """One base file.

    Attributes:
        name: file name; its suffix is that of the container.
        container: kind of container, which selects the mutations.
        codec: kind of codec, which selects the mutations.
        encode: arguments of the encoder, or of the muxer if `source` is another base.
        size: width and height in pixels.
        frames: number of encoded frames.
        source: name of another base whose packets are copied.
        write: makes the file from the bytes of `source`, or from nothing, in place of the ffmpeg program.
    """

    name: str
    container: str
    codec: str
    encode: str
    size: str = "96x64"
    frames: int = 30
    source: str | None = None
    write: Callable[[bytes], bytes] | None = None

    @property
    def has_fields(self) -> bool:
        """Whether its pictures are MPEG-2 fields."""
        return self.name.startswith("mpeg2fields")


def bases() -> list[Base]:
    """All bases; sources come before the ones that copy their packets."""
    found: list[Base] = []

    def add(name: str, container: str, codec: str, encode: str, **keywords) -> None:
        found.append(Base(name, container, codec, encode, **keywords))

    def copies(source: str, codec: str, *names: str, bsf: str = "") -> None:
        for name in names:
            container, _, rest = name.partition(":")
            suffix, _, extra = rest.partition(" ")
            stem = source.partition(".")[0]
            add(f"{stem}_{suffix}", container, codec, f"-c copy {bsf} {extra}".strip(), source=source)

    # H.264: copies into every container that supports it.
    add("h264.mp4", "mp4", "h264", X264)
    annexb = "-bsf:v h264_mp4toannexb"
    copies("h264.mp4", "h264", "mp4:front.mp4 -movflags +faststart", "mp4:plain.mov", "mkv:plain.mkv", "flv:plain.flv")
    copies("h264.mp4", "h264", "asf:plain.wmv")
    copies("h264.mp4", "h264", "fragments:fragments.mp4 -movflags frag_keyframe+empty_moov+default_base_moof")
    copies("h264.mp4", "h264", "fragments:fragment_each.mp4 -movflags frag_every_frame+empty_moov")
    copies("h264.mp4", "h264", "ts:plain.ts", "raw:plain.h264", "avi:plain.avi", "ps:plain.mpg -f vob", bsf=annexb)
    add("h264open.mp4", "mp4", "h264", f"{X264} -x264-params open-gop=1:bframes=3:b-pyramid=normal:keyint=10")
    copies("h264open.mp4", "h264", "ts:plain.ts", "raw:plain.h264", bsf=annexb)
    # Composition offsets below 0, with an edit list and without one.
    copies("h264open.mp4", "h264", "mp4:negative.mp4 -movflags negative_cts_offsets")
    copies("h264open.mp4", "h264", "mp4:unedited.mp4 -movflags negative_cts_offsets -use_editlist 0")
    copies("h264open.mp4", "h264", "fragments:cmaf.mp4 -movflags cmaf+frag_keyframe")
    add("h264slices.mp4", "mp4", "h264", f"{X264} -x264-params slices=4:repeat-headers=1")
    copies("h264slices.mp4", "h264", "ts:plain.ts", "raw:plain.h264", bsf=annexb)
    add("h264refresh.mkv", "mkv", "h264", f"{X264} -bf 0 -x264-params intra-refresh=1:keyint=10")
    add("h264interlaced.mp4", "mp4", "h264", f"{X264} -x264-params interlaced=1:tff=1")
    copies("h264interlaced.mp4", "h264", "ts:plain.ts", bsf=annexb)
    add("h264intra.mp4", "mp4", "h264", f"{X264} -g 1 -bf 0")
    add("h264high10.mkv", "mkv", "h264", f"-pix_fmt yuv422p10le {X264}")
    add("h264paff.h264", "raw", "h264", "", write=lambda _: streams.paff())
    copies("h264paff.h264", "h264", "ts:plain.ts", "mkv:plain.mkv", "mp4:plain.mp4")
    # HEVC
    add("hevc.mp4", "mp4", "hevc", f"{X265}:repeat-headers=0 -tag:v hvc1")
    annexb = "-bsf:v hevc_mp4toannexb"
    copies(
        "hevc.mp4", "hevc", "mkv:plain.mkv", "fragments:fragments.mp4 -movflags frag_keyframe+empty_moov -tag:v hvc1"
    )
    copies("hevc.mp4", "hevc", "flv:plain.flv")
    copies("hevc.mp4", "hevc", "ts:plain.ts", "raw:plain.h265", bsf=annexb)
    add("hevcopen.mp4", "mp4", "hevc", f"{X265}:open-gop=1:bframes=3 -tag:v hev1")
    copies("hevcopen.mp4", "hevc", "ts:plain.ts", bsf=annexb)
    add("hevcfields.mp4", "mp4", "hevc", f"{X265}:interlace=tff -tag:v hvc1")
    copies("hevcfields.mp4", "hevc", "ts:plain.ts", bsf=annexb)
    add("hevc10.mkv", "mkv", "hevc", f"-pix_fmt yuv420p10le {X265}")
    # VP8, VP9, AV1
    add("vp8.webm", "mkv", "vp8", f"-c:v libvpx -b:v 300k {VPX}")
    copies("vp8.webm", "vp8", "ivf:plain.ivf", "avi:plain.avi", "ogg:plain.ogv")
    add("vp9.webm", "mkv", "vp9", f"-c:v libvpx-vp9 -b:v 0 -crf 36 {VPX}")
    copies("vp9.webm", "vp9", "ivf:plain.ivf", "mp4:plain.mp4", "flv:plain.flv")
    hidden = "-c:v libvpx-vp9 -b:v 0 -crf 40 -deadline good -cpu-used 5 -lag-in-frames 16 -auto-alt-ref 1 -g 16"
    add("vp9hidden.webm", "mkv", "vp9", hidden, frames=40)
    copies("vp9hidden.webm", "vp9", "mp4:plain.mp4")
    add("av1.mp4", "mp4", "av1", AOM)
    copies("av1.mp4", "av1", "mkv:plain.mkv", "ivf:plain.ivf", "obu:plain.obu", "flv:plain.flv")
    add("av1good.mp4", "mp4", "av1", "-c:v libaom-av1 -cpu-used 8 -crf 50 -g 10 -enable-cdef 0")
    add("av1annexb.obu", "obu", "av1", "", source="av1_plain.obu", write=packets.obu_annexb)
    # MPEG-4 part 2 and its relatives
    add("mpeg4.mp4", "mp4", "mpeg4", "-c:v mpeg4 -qscale:v 5 -g 10 -bf 2")
    copies("mpeg4.mp4", "mpeg4", "mkv:plain.mkv", "avi:plain.avi")
    copies("mpeg4.mp4", "mpeg4", "ts:plain.ts", "raw:plain.m4v -f m4v", bsf="-bsf:v dump_extra=freq=keyframe")
    add("mpeg4quant.m4v", "raw", "mpeg4", "-c:v mpeg4 -mpeg_quant 1 -qscale:v 5 -g 10 -bf 2 -f m4v")
    add("mpeg4simple.avi", "avi", "mpeg4", "-c:v mpeg4 -qscale:v 5 -g 10")
    copies("mpeg4simple.avi", "mpeg4", "mp4:plain.3gp")
    add("h263.3gp", "mp4", "h263", "-c:v h263 -qscale:v 5 -g 10", size="128x96")
    copies("h263.3gp", "h263", "avi:plain.avi", "mkv:plain.mkv")
    add("flv1.flv", "flv", "flv1", "-c:v flv1 -qscale:v 5 -g 10")
    add("msmpeg4v2.avi", "avi", "msmpeg4", "-c:v msmpeg4v2 -qscale:v 5 -g 10")
    add("msmpeg4v3.avi", "avi", "msmpeg4", "-c:v msmpeg4 -qscale:v 5 -g 10")
    copies("msmpeg4v3.avi", "msmpeg4", "asf:plain.wmv", "mkv:plain.mkv")
    add("wmv1.wmv", "asf", "wmv", "-c:v wmv1 -qscale:v 5 -g 10")
    add("wmv2.wmv", "asf", "wmv", "-c:v wmv2 -qscale:v 5 -g 10")
    copies("wmv2.wmv", "wmv", "avi:plain.avi", "mkv:plain.mkv")
    # MPEG-1 and MPEG-2
    add("mpeg1.mpg", "ps", "mpeg12", "-c:v mpeg1video -qscale:v 5 -g 10 -bf 2 -f mpeg")
    copies("mpeg1.mpg", "mpeg12", "raw:plain.m1v -f mpeg1video", "ts:plain.ts")
    add("mpeg2.mpg", "ps", "mpeg12", "-c:v mpeg2video -qscale:v 5 -g 10 -bf 2 -f vob")
    copies("mpeg2.mpg", "mpeg12", "raw:plain.m2v -f mpeg2video", "ts:plain.ts", "mkv:plain.mkv")
    matrix = ",".join(["8"] + ["40"] * 63)
    add("mpeg2matrix.m2v", "raw", "mpeg12", f"-c:v mpeg2video -qscale:v 4 -g 10 -bf 2 -intra_matrix {matrix}")
    closed = "-c:v mpeg2video -qscale:v 5 -g 10 -bf 2 -flags +cgop -sc_threshold 1000000000"
    add("mpeg2closed.ts", "ts", "mpeg12", closed)
    interlaced = "-c:v mpeg2video -qscale:v 5 -g 10 -bf 2 -flags +ildct+ilme -top 1"
    add("mpeg2interlaced.ts", "ts", "mpeg12", interlaced)
    # Each picture of half the height becomes a field, in packets of its own where a demuxer does not join them.
    add("mpeg2half.mpv", "raw", "intra", "-c:v mpeg2video -qscale:v 5 -g 1 -f mpeg2video", size="96x32", frames=40)
    copies("mpeg2half.mpv", "intra", "mkv:plain.mkv", "avi:plain.avi")
    for container, half, suffix in (("raw", ".mpv", "m2v"), ("mkv", "_plain.mkv", "mkv"), ("avi", "_plain.avi", "avi")):
        name, source = f"mpeg2fields.{suffix}", f"mpeg2half{half}"
        add(name, container, "mpeg12", "", source=source, write=streams.mpeg2_fields)
    copies("mpeg2fields.m2v", "mpeg12", "ts:plain.ts", "ps:plain.mpg -f vob")
    # Codecs with intra pictures only, and others
    add("mjpeg.avi", "avi", "intra", "-pix_fmt yuvj420p -c:v mjpeg -qscale:v 5")
    copies("mjpeg.avi", "intra", "raw:plain.mjpeg", "mkv:plain.mkv", "mp4:plain.mov")
    add("prores.mov", "mp4", "intra", "-c:v prores_ks -profile:v 0", frames=8)
    copies("prores.mov", "intra", "mkv:plain.mkv")
    add("ffv1.mkv", "mkv", "intra", "-c:v ffv1 -level 3 -g 1", frames=12)
    add("ffv1inter.mkv", "mkv", "ffv1", "-c:v ffv1 -level 3 -g 5 -slices 4 -context 1", frames=16)
    add("ffv1.avi", "avi", "intra", "-c:v ffv1 -g 1", frames=8)
    add("png.mov", "mp4", "intra", "-pix_fmt rgb24 -c:v png", frames=8)
    add("png.avi", "avi", "intra", "-pix_fmt rgb24 -c:v png", frames=8)
    add("raw.avi", "avi", "intra", "-pix_fmt yuv420p -c:v rawvideo", frames=8)
    copies("raw.avi", "intra", "mkv:plain.mkv -allow_raw_vfw 1")
    add("theora.ogv", "ogg", "theora", "-c:v libtheora -q:v 6 -g 10")
    copies("theora.ogv", "theora", "mkv:plain.mkv")
    add("cinepak.avi", "avi", "cinepak", "-c:v cinepak -g 5", frames=12)
    copies("cinepak.avi", "cinepak", "mp4:plain.mov")
    add("gif.gif", "gif", "gif", "-c:v gif", frames=16)
    delays = "-vf setpts=PTS+floor(N/3)*0.2/TB -fps_mode vfr"
    add("gifdelays.gif", "gif", "gif", f"{delays} -c:v gif -gifflags -offsetting-transdiff", frames=12)
    return found


def _make(base: Base, folder: Path) -> None:
    """Writes one base into `folder`, which contains its source."""
    out = folder / base.name
    if base.write is not None:
        out.write_bytes(base.write((folder / base.source).read_bytes() if base.source else b""))
        return
    if base.source:
        given = [str(folder / base.source)]
        begin = ["-fflags", "+genpts", "-i", *given]
    else:
        picture = f"testsrc2=size={base.size}:rate=25,noise=alls=10:allf=t+u,format=yuv420p"
        begin = ["-f", "lavfi", "-i", picture, "-frames:v", str(base.frames)]
        if "pix_fmt" not in base.encode and base.codec != "gif":
            begin += ["-pix_fmt", "yuv420p"]
    make.run([*make.QUIET, "-v", "error", *begin, *base.encode.split(), *make.EXACT, str(out)])
    if base.container == "ts":  # the oracle crashes in their text
        out.write_bytes(streams.without_service_descriptions(out.read_bytes()))


def folder() -> Path:
    """The folder of all bases, created if it does not exist."""
    content = b"".join(Path(module.__file__).read_bytes() for module in (sys.modules[__name__], streams))
    found = make.cache() / f"adversarial-{hashlib.sha256(content).hexdigest()[:12]}"
    if (found / "DONE").is_file():
        return found
    found.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=found.parent, prefix="adversarial-making-") as temporary:
        work = Path(temporary) / "bases"
        work.mkdir()
        every = bases()
        with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
            sources = {base.source for base in every}
            first = [base for base in every if not base.source]
            second = [base for base in every if base.source and base.name in sources]
            for group in (first, second, [base for base in every if base.source and base.name not in sources]):
                for done in [pool.submit(_make, base, work) for base in group]:
                    done.result()
        (work / "DONE").write_text("")
        try:
            work.rename(found)
        except OSError:
            if not (found / "DONE").is_file():  # unless another process has created it meanwhile
                raise
    return found
