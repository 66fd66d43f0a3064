"""``fsp.tools.preview`` and ``framespool preview``: contact sheets of the clips that a loader delivers."""

from __future__ import annotations

import json

import framespool as fsp
import numpy as np
import pytest
from framespool.cli import main
from PIL import Image

TRANSFORMS = [
    fsp.transforms.RandomResizedCrop(64),
    fsp.transforms.RandomHorizontalFlip(),
    fsp.transforms.ColorJitter(0.4),
]


def loader(short_clips, **more):
    names = [path.rpartition("/")[2] for path, _ in short_clips]
    keywords = {"batch_size": 3, "transforms": TRANSFORMS, "shuffle": "full", "seed": 4, "layout": "NTHWC", **more}
    dataset = fsp.datasets.Dataset(short_clips, names)
    return fsp.ClipLoader(dataset, fsp.samplers.RandomClips(sequence_length=6, stride=2), **keywords)


def opened(path):
    with Image.open(path) as sheet:
        return np.asarray(sheet.convert("RGB"))


def first(made, count):
    clips = []
    for batch in made:
        ids, indices = batch.clip_ids.tolist(), batch.indices.tolist()
        clips += zip(ids, indices, batch.frames.numpy(), batch.labels.tolist(), strict=True)
        if len(clips) >= count:
            return clips[:count]
    return clips


@pytest.mark.parametrize("epoch", [0, 2])
def test_a_sheet_shows_what_the_loader_delivers(short_clips, tmp_path, epoch):
    made = loader(short_clips)
    metadata = fsp.tools.preview(made, tmp_path / "a.png", clips=4, frames=3, epoch=epoch)
    made.set_epoch(epoch)
    clips = first(made, 4)
    assert [(f["indices"], f["label"], f["class"]) for f in metadata] == [
        (indices, label, short_clips[label][0].rpartition("/")[2]) for _, indices, _, label in clips
    ]
    sheet = opened(tmp_path / "a.png")
    rows = [top for top in range(len(sheet) - 63) if (sheet[top : top + 64, 4:68] == clips[0][2][0]).all()]
    # The first frame of the first clip, pixel by pixel, and its last one three positions later.
    assert len(rows) == 1 and (sheet[rows[0] : rows[0] + 64, 140:204] == clips[0][2][5]).all()
    assert sheet.shape[1] == 3 * 64 + 2 * 4 + 2 * 4


@pytest.mark.parametrize("clips_per_video", [1, 2])
def test_clips_of_a_group_are_rows_of_the_sheet(short_clips, tmp_path, clips_per_video):
    sampling = fsp.samplers.RandomClips(sequence_length=6, clips_per_video=clips_per_video)
    made = fsp.ClipLoader(short_clips, sampling, batch_size=2, transforms=TRANSFORMS, group_clips=True, shuffle=True)
    metadata = fsp.tools.preview(made, tmp_path / "a.png", clips=5)
    delivered = [indices for batch in made for row in batch.indices.tolist() for indices in row]
    assert [each["indices"] for each in metadata] == delivered[:5]
    assert all(len(each["pts_seconds"]) == 6 for each in metadata)


def test_preview_leaves_the_loader_position_unchanged(short_clips, tmp_path):
    normal = [*TRANSFORMS, fsp.transforms.Normalize([0.4] * 3, [0.2] * 3), lambda frames: frames]
    made = loader(short_clips, transforms=normal, dtype="float32", layout="NCTHW")
    batches = iter(made)
    one = next(batches).clip_ids.tolist()
    fsp.tools.preview(made, tmp_path / "float.png", clips=2, frames=3)
    fsp.tools.preview(loader(short_clips), tmp_path / "plain.png", clips=2, frames=3)
    assert (tmp_path / "float.png").read_bytes() == (tmp_path / "plain.png").read_bytes()
    rest = [batch.clip_ids.tolist() for batch in batches]
    assert [one, *rest] == [batch.clip_ids.tolist() for batch in loader(short_clips)]


def test_page_lists_the_draws(short_clips, tmp_path):
    metadata = fsp.tools.preview(loader(short_clips), tmp_path / "clips.html", clips=2)
    page = (tmp_path / "clips.html").read_text()
    assert page.count("<img") == 2 and page.count("data:image/png;base64,") == 2
    assert "RandomResizedCrop" in page and str(metadata[0]["indices"]) in page
    assert metadata[1]["path"].replace("&", "&amp;") in page
    crop = next(step for step in metadata[0]["transforms"] if step["name"] == "RandomResizedCrop")
    assert f"height {int(crop['height'])}, width {int(crop['width'])}<" in page


def test_page_lists_what_a_list_inside_drew(short_clips, tmp_path):
    inside = fsp.transforms.RandomChoice([fsp.transforms.RandomApply([fsp.transforms.RandomResizedCrop(64)], 1.0)])
    [metadata] = fsp.tools.preview(loader(short_clips, transforms=[inside]), tmp_path / "clips.html", clips=1)
    page = (tmp_path / "clips.html").read_text()
    [crop] = metadata["transforms"][0]["transforms"][0]["transforms"]
    assert "<td>RandomChoice<td>choice 0<tr><td>RandomChoice: RandomApply<td>applied 1<tr>" in page
    assert f"<td>RandomChoice: RandomApply: RandomResizedCrop<td>top {int(crop['top'])}, left" in page


def test_sheets_of_images_ragged_clips_and_views(photos, short_clips, tmp_path):
    pictures = fsp.ImageLoader(photos, batch_size=4, transforms=[fsp.transforms.Resize(48)])  # ragged
    assert len(fsp.tools.preview(pictures, tmp_path / "p.png", clips=5)) == 5
    crops = loader(short_clips, transforms=[fsp.transforms.Resize(64), fsp.transforms.ThreeCrop(32)])
    fsp.tools.preview(crops, tmp_path / "c.png", clips=2, frames=2)
    height = len(opened(tmp_path / "c.png"))
    assert height == 2 * (3 * 36 - 4 + 16 + 8) + 4
    assert len(fsp.tools.preview(loader(short_clips[:2]), tmp_path / "few.png", clips=50)) == 2


def test_the_command_writes_sheets(videos, media, tmp_path, capsys):
    out = tmp_path / "clips.png"
    short_clips = videos / "action" / "words"
    arguments = [
        "--clips",
        "2",
        "--show",
        "4",
        "--frames",
        "8",
        "--stride",
        "2",
        "--random-resized-crop",
        "48",
        "--flip",
    ]
    assert main(["preview", str(short_clips), "--out", str(out), "--json", *arguments]) == 0
    metadata = json.loads(capsys.readouterr().out)["clips"]
    assert len(metadata) == 2 and len(metadata[0]["indices"]) == 8 and opened(out).shape[1] == 4 * 52 + 4
    page = tmp_path / "photos.html"
    assert main(["preview", str(media / "images" / "classes"), "--out", str(page), "--center-crop", "40"]) == 0
    assert "8 clips" in capsys.readouterr().out and "CenterCrop" in page.read_text()
    assert main(["preview", str(short_clips), str(media / "images" / "classes"), "--out", str(out)]) == 2
    assert "one kind" in capsys.readouterr().err
    assert main(["preview", str(short_clips), "--preset", "mmaction2", "--out", str(out)]) == 2
    assert "argument: 'clip_len'" in capsys.readouterr().err
    with_option = ["--preset", "mmaction2", "--preset-option", "clip_len=5", "--preset-option", "test_mode=true"]
    assert main(["preview", str(short_clips), "--out", str(out), "--json", "--clips", "1", *with_option]) == 0
    assert len(json.loads(capsys.readouterr().out)["clips"][0]["indices"]) == 5
    assert main(["preview", str(short_clips), "--out", str(out), "--preset-option", "clip_len=5"]) == 2
    assert "needs --preset" in capsys.readouterr().err


def test_wrong_arguments_are_rejected(short_clips, tmp_path):
    with pytest.raises(fsp.errors.ArgumentError, match=r"\.png or \.html"):
        fsp.tools.preview(loader(short_clips), tmp_path / "a.jpg")
    with pytest.raises(fsp.errors.ArgumentError, match="clips"):
        fsp.tools.preview(loader(short_clips), tmp_path / "a.png", clips=0)
    with pytest.warns(UserWarning, match="this loader has no batches: batch_size .* 14 \\* 1 .*13 clips"):
        none = loader(short_clips, batch_size=len(short_clips) + 1, last_batch="drop")
    with pytest.raises(fsp.errors.ArgumentError, match="no batch"):
        fsp.tools.preview(none, tmp_path / "a.png")
