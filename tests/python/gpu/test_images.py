"""Batches of images on a GPU, real or simulated: the CPU's bytes, or nvJPEG's close to them."""

from __future__ import annotations

import os

import framespool as fsp
import numpy as np
import pytest
from framespool import transforms as t

pytestmark = pytest.mark.usefixtures("gpu")


@pytest.fixture
def photos(pictures) -> fsp.datasets.Dataset:
    return fsp.datasets.Dataset(fsp.datasets.image_folder(pictures / "classes").samples[:14])


def loader(photos, **more) -> fsp.ImageLoader:
    train = [t.RandomResizedCrop(64), t.RandomHorizontalFlip()]
    return fsp.ImageLoader(photos, **{"batch_size": 4, "transforms": train, "shuffle": "full", "seed": 2, **more})


def epoch(made: fsp.ImageLoader) -> tuple[np.ndarray, list[int]]:
    batches = [(b.images.cpu().numpy(), b.image_ids.tolist()) for b in made]
    return np.concatenate([images for images, _ in batches]), [i for _, ids in batches for i in ids]


@pytest.mark.parametrize("more", [{}, {"exact": True}, {"dtype": "float16", "layout": "NHWC"}])
def test_batches_decoded_by_the_cpu_are_the_same(photos, more):
    expected, ids = epoch(loader(photos, **more))
    made = loader(photos, device="cuda:0", **more)
    assert next(iter(made)).images.device == "cuda:0"
    got, same = epoch(made)
    assert same == epoch(loader(photos, **more, num_threads=1))[1] or same != ids  # the next epoch is another order
    made.set_epoch(0)
    got, same = epoch(made)
    assert same == ids and np.array_equal(got, expected)
    assert made.stats()["frames_decoded_by_gpu"] == 0


def nvjpeg(photos, **more) -> fsp.ImageLoader:
    try:
        return loader(photos, device=fsp.Gpu(0, decoder="nvjpeg"), **more)
    except fsp.errors.GpuError as error:
        if os.environ.get("FRAMESPOOL_GPU") == "real":
            pytest.skip(f"no nvJPEG: {error}")
        raise


def test_nvjpeg_is_deterministic_and_close_to_cpu(photos):
    expected, ids = epoch(loader(photos))
    made = nvjpeg(photos, num_threads=2)
    got, same = epoch(made)
    stats = made.stats()
    assert same == ids and stats["frames_decoded_by_gpu"] == len(photos) and not stats["cpu_fallbacks"]
    difference = np.abs(got.astype(int) - expected)
    assert difference.mean() < 0.6 and difference.max() <= 24
    for threads in (1, 3):
        again, _ = epoch(nvjpeg(photos, num_threads=threads))
        assert np.array_equal(again, got)


def test_unsupported_jpeg_falls_back_and_is_counted(pictures, photos):
    odd = pictures / "odd"
    names = ["derived/progressive_photo.jpg", "cmyk_pil.jpg", "exif_rotate_90.jpg", "subsampling_440.jpg"]
    files = [odd / name for name in names]
    size = [t.Resize((40, 40))]
    made = nvjpeg(files, transforms=size, shuffle=False)
    got, _ = epoch(made)
    expected, _ = epoch(loader(files, transforms=size, shuffle=False))
    assert np.abs(got.astype(int) - expected).mean() < 1
    left = made.stats()["cpu_fallbacks"]
    assert left and made.stats()["frames_decoded_by_gpu"] >= 1
    assert sum(left.values()) + made.stats()["frames_decoded_by_gpu"] == len(files)
    # For exact pixels the CPU decodes, silently.
    exact = nvjpeg(files, transforms=size, shuffle=False, exact=True)
    assert np.array_equal(epoch(exact)[0], epoch(loader(files, transforms=size, shuffle=False, exact=True))[0])
    assert exact.stats()["frames_decoded_by_gpu"] == 0


def test_reason_of_a_fallback_names_the_format(tmp_path):
    image = pytest.importorskip("PIL.Image")
    files = [tmp_path / f"image.{name}" for name in ("png", "webp")]
    for file in files:
        image.new("RGB", (64, 48), (200, 30, 90)).save(file)
    made = nvjpeg(files, transforms=[t.Resize((40, 40))], shuffle=False)
    epoch(made)
    assert sorted(made.stats()["cpu_fallbacks"]) == [
        "PNG, which nvJPEG does not decode",
        "WebP, which nvJPEG does not decode",
    ]


def test_damage_is_an_error_with_every_decoder(pictures, photos):
    bad = pictures / "corrupt" / "derived" / "truncated_50.jpg"
    with pytest.raises(fsp.Error, match="truncated_50"):
        next(iter(nvjpeg([bad])))
    skipped = nvjpeg([*photos.samples[:3], (bad, 1)], shuffle=False, on_error="skip")
    assert next(iter(skipped)).image_ids.tolist() == [0, 1, 2]


def test_nvjpeg_needs_a_gpu_to_decode_to(photos):
    with pytest.raises(fsp.errors.ArgumentError, match="cuda:0"):
        loader(photos, device=fsp.Gpu(0, decoder="nvjpeg", output="cpu"))
