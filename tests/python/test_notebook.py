"""What notebooks show for batches, videos and datasets."""

from __future__ import annotations

import base64
import io
import re

import framespool as fsp
import numpy as np
import pytest
from PIL import Image

SAMPLER = fsp.samplers.random(sequence_length=6, stride=2)


def pictures(shown):
    found = re.findall(r'<img src="data:image/png;base64,([^"]+)">', shown)
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(data)))) for data in found]


@pytest.mark.parametrize("layout", ["NTCHW", "NTHWC", "NCTHW"])
def test_a_batch_shows_its_frames_in_every_layout(short_clips, layout):
    options = {"batch_size": 5, "transforms": [fsp.transforms.Resize((40, 60))], "layout": layout}
    [batch] = fsp.ClipLoader(short_clips[:5], SAMPLER, **options)
    shown = batch._repr_html_()
    assert f"<td style='text-align:left'>Tensor({batch.frames.shape}, uint8)</td>" in shown
    strips = pictures(shown)
    assert len(strips) == 4
    for strip, video, indices in zip(strips, batch.video_ids.tolist(), batch.indices.tolist(), strict=False):
        frames = fsp.Video(short_clips[video][0]).frames(indices, transforms=options["transforms"]).data.numpy()
        assert strip.shape == (40, 6 * 62 - 2, 3)
        assert all(np.array_equal(strip[:, 62 * n : 62 * n + 60], frame) for n, frame in enumerate(frames))


def test_other_types_and_sizes_are_shown(short_clips, photos):
    for dtype in ("uint16", "float16", "float32", "bfloat16"):
        transforms = [fsp.transforms.Resize((40, 60))]
        transforms += [fsp.transforms.Normalize(0.4, 0.2)] if dtype == "float32" else []
        [batch] = fsp.ClipLoader(short_clips[:2], SAMPLER, batch_size=2, transforms=transforms, dtype=dtype)
        strips = pictures(batch._repr_html_())
        assert len(strips) == (0 if dtype == "bfloat16" else 2)
        assert all(strip.max() - strip.min() > 100 for strip in strips)
    [images] = fsp.ImageLoader(photos[:3], batch_size=3)  # a list, of different sizes
    assert [max(strip.shape) for strip in pictures(images._repr_html_())] == [128] * 3
    views = [fsp.transforms.Resize(40), fsp.transforms.ThreeCrop(32)]
    [batch] = fsp.ClipLoader(short_clips[:1], SAMPLER, batch_size=1, transforms=views)
    assert [strip.shape for strip in pictures(batch._repr_html_())] == [(32, 6 * 34 - 2, 3)]
    [odd] = fsp.ClipLoader(short_clips[:1], SAMPLER, batch_size=1, transforms=[*views, lambda frames: 3])
    assert "<td style='text-align:left'>int</td>" in odd._repr_html_()


def test_a_video_and_a_dataset_show_what_they_are(short_clips):
    path = short_clips[0][0]
    video = fsp.Video(path)
    shown = video._repr_html_()
    assert f"{video.info.codec} in " in shown and f"{video.info.width}x{video.info.height}" in shown
    assert len(pictures(shown)) == 1 and pictures(shown)[0].shape == (96, 8 * 130 - 2, 3)
    columns = {"caption": ["<b>a</b>", "b", "c"]}
    named = fsp.datasets.Dataset([(path, n % 2) for n, (path, _) in enumerate(short_clips[:3])], ["x", "y"], columns)
    shown = named._repr_html_()
    assert "2 classes" in shown and "x 2, y 1" in shown and "&lt;b&gt;a" in shown and "<b>" not in shown
    assert "sample 2" in shown and "sample 3" not in shown
