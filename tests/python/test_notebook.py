"""What notebooks show for batches, tensors, loaders, videos and datasets, and the notebook of the quickstart."""

from __future__ import annotations

import ast
import base64
import contextlib
import importlib.util
import io
import json
import os
import re
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest
from PIL import Image

QUICKSTART = Path(__file__).resolve().parents[2] / "examples" / "quickstart.ipynb"
SAMPLER = fsp.samplers.RandomClips(sequence_length=6, stride=2)


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
        frames = (
            fsp.Video(short_clips[video][0], layout="THWC")
            .frames(indices, transforms=options["transforms"])
            .frames.numpy()
        )
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


def test_tensors_frames_and_loaders_are_shown(short_clips, photos):
    resize = [fsp.transforms.Resize((40, 60)), fsp.transforms.RandomHorizontalFlip()]
    loader = fsp.ClipLoader(short_clips[:5], SAMPLER, batch_size=3, transforms=resize, shuffle="full", seed=6)
    shown = loader._repr_html_()
    for words in (
        "5, with 5 clips",
        "2 of 3",
        "full, seed 6",
        "Resize, RandomHorizontalFlip",
        "epoch 0, batch 0",
        "uint8",
    ):
        assert words in shown, words
    batches = iter(loader)
    batch = next(batches)
    assert "epoch 0, batch 1" in loader._repr_html_() and len(list(batches)) == 1
    assert "epoch 1, batch 0" in loader._repr_html_() and "sequence_length=6" in shown
    assert "ImageLoader" in fsp.ImageLoader(photos, batch_size=2)._repr_html_()

    shown = batch.frames._repr_html_()
    assert "(3, 6, 3, 40, 60)" in shown and [each.shape for each in pictures(shown)] == [(40, 6 * 62 - 2, 3)] * 3
    assert np.array_equal(pictures(shown)[0], pictures(batch._repr_html_())[0])
    for tensor, count in ((batch.frames[0], 1), (batch.frames[0][0], 1), (batch.geometry, 0), (batch.labels, 0)):
        assert str(tensor.shape) in tensor._repr_html_() and len(pictures(tensor._repr_html_())) == count
    assert pictures(batch.frames[0:0]._repr_html_()) == []

    video = fsp.Video(short_clips[0][0])
    frames = video.frames([0, 3, 5], transforms=resize)
    assert "0 to 5" in frames._repr_html_() and pictures(frames._repr_html_())[0].shape == (40, 3 * 62 - 2, 3)


def test_operations_of_a_tensor_are_those_of_other_libraries(short_clips):
    frame = fsp.Video(short_clips[0][0])[0]
    for name in ("mean", "flatten", "float", "to", "T"):
        with pytest.raises(
            AttributeError, match=rf"framespool.video.Tensor has no attribute '{name}'.*\.torch\(\) or \.numpy"
        ):
            getattr(frame, name)
    assert not hasattr(frame, "pin_memory") and hasattr(frame, "torch")
    # What other libraries look for is answered as before, also by properties.
    with pytest.raises(AttributeError, match="a CPU tensor has no CUDA array interface"):
        frame.__cuda_array_interface__  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute '__array_interface__'"):
        frame.__array_interface__  # noqa: B018


def outputs(source, namespace):
    """Runs a cell as Jupyter does, and returns its outputs: what it printed, and the value of its last line."""
    code = ast.parse(source)
    last = ast.Expression(code.body.pop().value) if isinstance(code.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(code, QUICKSTART.name, "exec"), namespace)
        if last is not None:
            value = eval(compile(last, QUICKSTART.name, "eval"), namespace)
    shown = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        shown.append({"name": "stdout", "output_type": "stream", "text": text})
    if isinstance(value, Image.Image):
        png = base64.b64encode(value._repr_png_()).decode()
        data = {"image/png": png, "text/plain": [f"<image of {value.width}x{value.height}>"]}
        shown.append({"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
    else:
        assert value is None, f"a cell ends with {value!r}"
    return shown


def test_the_quickstart_does_what_it_shows(encoder, tmp_path, monkeypatch):
    """With FRAMESPOOL_RECORD=1 the outputs are written to the notebook instead."""
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(QUICKSTART.read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"]) and len(cells) > 5
    namespace = {}
    for number, cell in enumerate(cells, 1):
        if "torch" in cell["metadata"].get("tags", ()) and importlib.util.find_spec("torch") is None:
            continue  # scripts/test_frameworks.sh runs it
        shown = outputs("".join(cell["source"]), namespace)
        for output in shown:
            if "execution_count" in output:
                output["execution_count"] = number
        if os.environ.get("FRAMESPOOL_RECORD"):
            cell["outputs"], cell["execution_count"] = shown, number
            continue
        assert cell["execution_count"] == number
        # Another release of Pillow may draw the text in another way.
        recorded = json.loads(json.dumps(cell["outputs"]))
        for output in (*shown, *recorded):
            output.get("data", {}).pop("image/png", None)
        assert recorded == shown, cell["id"]
    if os.environ.get("FRAMESPOOL_RECORD"):
        QUICKSTART.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
