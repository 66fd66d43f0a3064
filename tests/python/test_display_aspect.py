"""display_aspect: for pixels that are not square, the frames of an explicit resize to the display size."""

from __future__ import annotations

import pickle
import subprocess
from pathlib import Path
from typing import Any

import framespool as fsp
import numpy as np
import pytest

t = fsp.transforms

#: Stored size and sample aspect ratio, and the display size.
STORED, ASPECT, DISPLAY = (96, 64), "64/45", (137, 64)
#: Each without the option, and the rest of its list.
CASES: dict[str, tuple[Any, ...]] = {
    "shorter side": (t.Resize(48),),
    "shorter side, nearest": (t.Resize(48, "nearest"),),
    "bounded longer side": (t.Resize(48, max_size=60),),
    "longer side": (t.Resize(80, side="longer", interpolation="bicubic"),),
    "larger": (t.Resize(100),),
    "multiples": (t.SmartResize(factor=4, min_pixels=1, max_pixels=4000),),
    "letterbox": (t.Letterbox((70, 64), fill=30),),
    "wide letterbox": (t.Letterbox((40, 120)),),
    "random part": (t.RandomResizedCrop(40, scale=(0.2, 0.6)),),
    "random part, flip": (t.RandomResizedCrop((40, 56), interpolation="bicubic"), t.RandomHorizontalFlip(1.0)),
    "random length": (t.RandomShortestSize(range(44, 60), max_size=100), t.RandomCrop(40)),
    "part of a scale": (t.MultiScaleCrop((40, 50), fix_crop=False),),
    "cover": (t.Resize((50, 40), fit="cover"), t.CenterCrop((50, 40))),
    "center": (t.Resize(48), t.CenterCrop(40)),
    "random position": (t.Resize(48), t.RandomCrop(40)),
    "three views": (t.Resize(48), t.ThreeCrop(40)),
    "five views": (t.Resize(48), t.FiveCrop(40)),
    "rotation": (t.Resize(48), t.RandomRotation(20, "bilinear", expand=True), t.CenterCrop(60)),
}


def with_option(transform: Any) -> Any:
    """The same transform with display_aspect=True."""
    changed = pickle.loads(pickle.dumps(transform))
    object.__setattr__(changed, "display_aspect", True)
    return changed


def encode(encoder: str, path: Path, aspect: str = ASPECT, *, seconds: int = 1, rotation: int | None = None) -> str:
    """A video of STORED pixels of this shape."""
    source = f"testsrc2=size={STORED[0]}x{STORED[1]}:rate=8:duration={seconds},setsar={aspect}"
    command = [encoder, "-v", "error", "-y"]
    upright = path if rotation is None else path.with_name(f"upright_{path.name}")
    made = ["-f", "lavfi", "-i", source, "-c:v", "libx264", "-g", "4", "-pix_fmt", "yuv420p", str(upright)]
    subprocess.run([*command, *made], check=True)
    if rotation is not None:
        turned = ["-display_rotation", str(rotation), "-i", str(upright), "-c", "copy", str(path)]
        subprocess.run([*command, *turned], check=True)
    return str(path)


@pytest.fixture(scope="module")
def stretched(encoder, tmp_path_factory) -> dict[str, str]:
    """Videos by what is special about them."""
    folder = tmp_path_factory.mktemp("aspect")
    return {
        "upright": encode(encoder, folder / "upright.mp4"),
        "rotated": encode(encoder, folder / "rotated.mp4", rotation=90),
        "upside down": encode(encoder, folder / "upside_down.mp4", rotation=180),
        "narrow": encode(encoder, folder / "narrow.mkv", "8/9"),
        "square": encode(encoder, folder / "square.mp4", "1"),
    }


def display_resize(video: fsp.Video, interpolation: str = "bilinear") -> Any:
    return t.Resize((video.info.display_height, video.info.display_width), interpolation)


@pytest.mark.parametrize("kind", ["upright", "rotated", "upside down", "narrow"])
@pytest.mark.parametrize("case", CASES)
def test_result_is_that_of_an_explicit_resize_to_the_display_size(stretched, kind, case):
    video = fsp.Video(stretched[kind], layout="THWC")
    first, *others = CASES[case]
    # Random numbers depend on the position in the list, so something stands where the explicit resize does.
    nothing = t.RandomHorizontalFlip(0.0)
    for seed in range(3):

        def made(*transforms: Any, seed: int = seed) -> np.ndarray:
            return np.asarray(video.frames([0, 5], transforms=[*transforms, *others], seed=seed).frames)

        expected = made(display_resize(video, first.interpolation), first)
        assert np.array_equal(made(nothing, with_option(first)), expected)
        assert not np.array_equal(made(nothing, first), expected)


def test_sizes_follow_from_the_display_size(stretched):
    width, height = DISPLAY
    square = t.Resize(48, display_aspect=True)
    upright, rotated = (fsp.Video(stretched[kind], layout="THWC") for kind in ("upright", "rotated"))
    assert (upright.info.width, upright.info.height, upright.info.sample_aspect) == (*STORED, (64, 45))
    assert (upright.info.display_width, upright.info.display_height) == (width, height)
    assert upright.frames([0], transforms=[square]).frames.shape == (1, 48, 48 * width // height, 3)
    # 64:45 is the shape of stored pixels: after a rotation by 90 degrees the displayed height changes.
    assert (rotated.info.rotation, rotated.info.width, rotated.info.height) == (270, *STORED[::-1])
    assert (rotated.info.display_width, rotated.info.display_height) == (height, width)
    assert rotated.frames([0], transforms=[square]).frames.shape == (1, 48 * width // height, 48, 3)
    assert fsp.Video(stretched["narrow"]).info.display_width == 85  # 85.33
    letterbox = t.Letterbox((64, 137), display_aspect=True)
    assert np.array_equal(
        upright.frames([0], transforms=[letterbox]).frames, upright.frames([0], transforms=[t.Resize((64, 137))]).frames
    )


@pytest.mark.parametrize(
    ("name", "display"),
    [
        ("odd/sar_2x1.mp4", (640, 360)),
        ("derived/h264_bt601_tagged_720x480_sar.mp4", (853, 480)),  # 32:27, 853.33
        ("derived/h264_mbaff_720x576.mp4", (1024, 576)),
        ("derived/mpeg2_interlaced_720x576.ts", (1024, 576)),
    ],
)
def test_other_codecs_and_containers(videos, name, display):
    video = fsp.Video(videos / name, layout="THWC")
    width, height = video.info.display_width, video.info.display_height
    assert (width, height) == display
    got = video.frames([1], transforms=[t.Resize(90, display_aspect=True)]).frames
    assert np.array_equal(got, video.frames([1], transforms=[t.Resize((90, 90 * width // height))]).frames)


def test_pixels_are_square_after_the_first_transform_with_the_option(stretched):
    video = fsp.Video(stretched["upright"], layout="THWC")

    def made(*transforms: Any) -> np.ndarray:
        return np.asarray(video.frames([0], transforms=list(transforms)).frames)

    box, plain_box = t.Letterbox(50, display_aspect=True), t.Letterbox(50)
    twice = made(t.Resize(48, display_aspect=True), box)
    assert np.array_equal(twice, made(t.Resize(48, display_aspect=True), plain_box))
    # A size given as (height, width) is in square pixels with the option; without it, pixels keep their shape.
    sized = t.Resize((40, 60), display_aspect=True)
    assert np.array_equal(made(sized), made(t.Resize((40, 60))))
    assert np.array_equal(made(sized, box), made(t.Resize((40, 60)), plain_box))
    assert np.array_equal(made(t.Resize((45, 60)), box), made(t.Resize((45, 85)), plain_box))  # 60 * 64 / 45 = 85.33
    assert not np.array_equal(made(t.Resize((45, 60)), box), made(t.Resize((45, 60)), plain_box))


def test_square_pixels_images_and_arrays_are_not_changed(stretched, media):
    video = fsp.Video(stretched["square"], layout="THWC")
    array = np.random.default_rng(1).integers(0, 256, (2, 30, 40, 3), np.uint8)
    image = next(iter(sorted((media / "images").rglob("*.jpg"))))
    for first, *others in CASES.values():
        plain, square = [first, *others], [with_option(first), *others]
        assert np.array_equal(video.frames([0], transforms=square).frames, video.frames([0], transforms=plain).frames)
        if not any(isinstance(each, (t.CenterCrop, t.RandomCrop)) for each in others):
            assert np.array_equal(t.apply(array, square), t.apply(array, plain))
    [one], [other] = (fsp.decode_images([image], transforms=[t.Resize(20, display_aspect=on)]) for on in (True, False))
    assert np.array_equal(one, other)


@pytest.mark.parametrize("shuffle", [False, "full"])
def test_loaders_deliver_the_frames_of_video(stretched, shuffle):
    paths = list(stretched.values())
    resize = t.Resize(48, display_aspect=True)
    sampler = fsp.samplers.Windows(sequence_length=3)
    loader = fsp.ClipLoader(
        paths, sampler, batch_size=2, transforms=[resize], collate="list", shuffle=shuffle, seed=3, layout="NTHWC"
    )
    seen = set()
    for batch in loader:
        for n, frames in enumerate(batch.frames):
            path = paths[batch.video_ids.tolist()[n]]
            video = fsp.Video(path, layout="THWC")
            expected = video.frames(batch.indices.tolist()[n], transforms=[display_resize(video), t.Resize(48)])
            assert np.array_equal(frames, expected.frames), path
            width, height = frames.shape[2], frames.shape[1]
            corner = t.map_points([[video.info.width, video.info.height]], batch.geometry[n])
            assert np.allclose(corner, [[width, height]])
            seen.add((path, width, height))
    sizes = {(height, width) for _, width, height in seen}
    assert len({path for path, *_ in seen}) == len(paths)
    assert sizes == {(48, 102), (102, 48), (48, 63), (48, 72)}


def test_random_parts_of_loaders_are_those_of_the_display_size(stretched):
    crop = t.RandomResizedCrop(32, scale=(0.1, 0.5), display_aspect=True)
    paths = [stretched["upright"], stretched["rotated"]]
    loader = fsp.ClipLoader(
        paths, fsp.samplers.Windows(sequence_length=2), batch_size=4, transforms=[crop], seed=5, last_batch="partial"
    )
    for batch in loader:
        for n, (clip, number) in enumerate(zip(batch.clip_ids.tolist(), batch.video_ids.tolist(), strict=True)):
            info = fsp.Video(paths[number]).info
            shape = (info.display_height, info.display_width)
            [drawn] = t.sample_params(shape, [crop], seed=5, clip=clip)
            assert loader.describe_clip(clip)["transforms"] == [drawn]
            # A square of the part is a square of the result, if the part is one.
            corners = [[drawn["left"], drawn["top"]], [drawn["left"] + drawn["width"], drawn["top"] + drawn["height"]]]
            stored = np.array(corners) * [info.width / info.display_width, info.height / info.display_height]
            assert np.allclose(t.map_points(stored, batch.geometry[n]), [[0, 0], [32, 32]])


def test_budget_counts_the_pixels_of_the_result(stretched):
    resize = t.Resize(48, display_aspect=True)
    loader = fsp.ClipLoader(
        [stretched["upright"]] * 4,
        fsp.samplers.Windows(sequence_length=2),
        batch_size=fsp.PixelBudget(2 * 2 * 48 * 102),
        transforms=[resize],
    )
    assert {len(batch.clip_ids) for batch in loader} == {2}


def test_chunks_and_clips_are_transformed_as_single_frames(stretched):
    video = fsp.Video(stretched["rotated"], layout="THWC")
    letterbox = t.Letterbox(40, display_aspect=True)
    every = video.frames(range(len(video)), transforms=[letterbox]).frames
    chunks = [np.asarray(chunk.frames) for chunk in video.chunks(chunk_size=3, transforms=[letterbox])]
    assert np.array_equal(np.concatenate(chunks), every)
    assert np.array_equal(video.clip(start=0, sequence_length=2, transforms=[letterbox]).frames, every[:2])


def test_option_is_validated_and_part_of_a_transform(stretched):
    for kind, *arguments in ((t.Resize, 32), (t.SmartResize,), (t.Letterbox, 32), (t.RandomResizedCrop, 32)):
        name = kind.__name__
        with pytest.raises(fsp.errors.ArgumentError, match=f"{name}: display_aspect must be True or False, got 1"):
            kind(*arguments, display_aspect=1)
        transform = kind(*arguments, display_aspect=True)
        assert transform == pickle.loads(pickle.dumps(transform)) != kind(*arguments)
        assert "display_aspect=True" in repr(transform) and "display_aspect=False" in repr(kind(*arguments))
        [values] = transform._step()["transform"].values()
        assert values["display_aspect"] is True

    def loader(display_aspect: bool) -> fsp.ClipLoader:
        resize = t.Resize(32, display_aspect=display_aspect)
        return fsp.ClipLoader(
            [stretched["upright"]], fsp.samplers.Windows(sequence_length=2), batch_size=1, transforms=[resize]
        )

    state = loader(True).state_dict()
    loader(True).load_state_dict(state)
    with pytest.raises(fsp.errors.ArgumentError, match="transforms"):
        loader(False).load_state_dict(state)


def test_display_size_that_is_too_large_is_an_error_of_the_file(stretched, tmp_path):
    data = Path(stretched["upright"]).read_bytes()
    at = data.index(b"pasp") + 4
    assert data[at : at + 8] == (64).to_bytes(4, "big") + (45).to_bytes(4, "big")
    wide = tmp_path / "wide.mp4"
    wide.write_bytes(data[:at] + (2**32 - 1).to_bytes(4, "big") + (1).to_bytes(4, "big") + data[at + 8 :])
    info = fsp.Video(wide).info
    assert (info.display_width, info.display_height) == (96 * (2**32 - 1), 64)
    square = [t.Letterbox(32, display_aspect=True)]
    with pytest.raises(fsp.Error, match=r"wide\.mp4.*412316860320x64 of a frame of 96x64.*4294967295:1.*display_asp"):
        fsp.Video(wide, layout="THWC").frames([0], transforms=square)
    assert fsp.Video(wide, layout="THWC").frames([0], transforms=[t.Letterbox(32)]).frames.shape == (1, 32, 32, 3)
    flat = tmp_path / "flat.mp4"
    flat.write_bytes(data[:at] + (1).to_bytes(4, "big") + (2**32 - 1).to_bytes(4, "big") + data[at + 8 :])
    assert fsp.Video(flat).info.display_width == 1
    assert fsp.Video(flat, layout="THWC").frames([0], transforms=square).frames.shape == (1, 32, 32, 3)
    loader = fsp.ClipLoader(
        [str(wide), stretched["upright"]],
        fsp.samplers.Windows(sequence_length=8),
        batch_size=1,
        transforms=square,
        on_error="skip",
    )
    assert {number for batch in loader for number in batch.video_ids.tolist()} == {1}
