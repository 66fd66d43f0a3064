"""Test videos as people have them: x264 with its defaults, one key frame in 250."""

from __future__ import annotations

from pathlib import Path

import av

OPTIONS = {"preset": "medium", "crf": "23", "g": "250", "bf": "3"}


def encode(source: Path, folder: Path) -> Path:
    """The long-GOP H.264 encode of `source` in `folder`; made if it is not there."""
    target = folder / f"{source.stem}_x264_g250.mp4"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    # Under another name until it is whole, so that an interrupted run leaves nothing that looks finished.
    unfinished = target.with_suffix(".part")
    with av.open(str(source)) as reading, av.open(str(unfinished), "w", format="mp4") as writing:
        pictures = reading.streams.video[0]
        stream = writing.add_stream("libx264", rate=pictures.average_rate, options=OPTIONS)
        stream.width, stream.height, stream.pix_fmt = pictures.width, pictures.height, "yuv420p"
        stream.time_base = stream.codec_context.time_base = pictures.time_base
        for tag in ("color_primaries", "color_trc", "colorspace", "color_range"):
            setattr(stream.codec_context, tag, getattr(pictures.codec_context, tag))
        for frame in reading.decode(pictures):
            # The encoder chooses its picture types; the source's would be taken as orders.
            frame.pict_type = 0
            writing.mux(stream.encode(frame))
        writing.mux(stream.encode())
    unfinished.rename(target)
    return target
