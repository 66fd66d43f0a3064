"""TFRecord and RecordIO files: the same batches as from plain files, and errors that name file, record and byte."""

from __future__ import annotations

import io
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest
from archive_writers import example, packed_picture, recordio, tfrecord
from framespool.datasets import ArchiveMember
from PIL import Image
from small_loaders import KEYWORDS, clips, digest


def test_tfrecords_give_the_batches_of_plain_files(tmp_path, photos, short_clips):
    records = [
        example(image__filename=path, image__encoded=Path(path).read_bytes(), image__class__label=label, x=1.5)
        for path, label in photos
    ]
    for number in range(2):
        (tmp_path / f"train-{number}-of-2").write_bytes(tfrecord(records[number * 8 : number * 8 + 8]))
    pattern = f"{tmp_path}/train-{{0..1}}-of-2"
    for check in (False, True):
        dataset = fsp.datasets.tfrecord(pattern, check=check)
        assert digest(fsp.ImageLoader(dataset, **KEYWORDS)) == digest(fsp.ImageLoader(photos[:16], **KEYWORDS))
    assert dataset[9][0].name == "record 1" and dataset[9][0].file == f"{tmp_path}/train-1-of-2"
    videos = [example(video=Path(path).read_bytes(), label=[label]) for path, label in short_clips[:4]]
    (tmp_path / "videos").write_bytes(tfrecord(videos))
    dataset = fsp.datasets.tfrecord(tmp_path / "videos", source="video", label="label")
    assert digest(clips(dataset)) == digest(clips(short_clips[:4]))
    unlabeled = fsp.datasets.tfrecord([tmp_path / "videos"], source="video", label=None)
    assert [label for _, label in unlabeled] == [-1] * 4


def test_damaged_tfrecord_error_has_byte_offset(tmp_path, photos):
    path = tmp_path / "r"
    pictures = [Path(path).read_bytes() for path, _ in photos[:3]]
    records = [tfrecord([example(image__encoded=data, image__class__label=5)]) for data in pictures]
    begin, second = len(records[0]), len(records[1])
    intact = b"".join(records)
    for at, reason in [
        (begin, "length is wrong"),
        (begin + 8, "length is wrong"),
        (begin + second // 2, "data is wrong"),
        (begin + second - 1, "data is wrong"),
    ]:
        path.write_bytes(intact[:at] + bytes([intact[at] ^ 1]) + intact[at + 1 :])
        with pytest.raises(
            fsp.errors.InvalidDataError, match=rf"r, byte {begin}: the checksum of the record's {reason}"
        ):
            fsp.datasets.tfrecord(path, check=True)
        with pytest.warns(UserWarning, match=f"1 skipped: .*byte {begin}"):
            left = fsp.datasets.tfrecord(path, check=True, on_error="skip")
        # After a damaged length no record is found; after damaged data it is.
        assert len(left) == (1 if "length" in reason else 2)
    # Without checksums, only the damaged image fails.
    picture = begin + records[1].index(pictures[1]) + len(pictures[1]) // 2
    path.write_bytes(intact[:picture] + b"\xff\xd9" * 50 + intact[picture + 100 :])  # a JPEG's end, too early
    dataset = fsp.datasets.tfrecord(path)
    assert len(dataset) == 3
    outcomes = fsp.decode_images([source for source, _ in dataset], on_error="return")
    assert isinstance(outcomes[1], fsp.Error) and f"{path}!record 1" in str(outcomes[1])
    assert outcomes[0].tobytes() == fsp.decode_image(photos[0][0]).tobytes()
    for length in (begin + 3, begin + 100, len(intact) - 1):
        path.write_bytes(intact[:length])
        with pytest.raises(fsp.errors.TruncatedError, match=r"r, byte \d+: needs bytes"):
            fsp.datasets.tfrecord(path)


def test_tfrecords_without_the_feature_are_named(tmp_path, photos):
    path, picture = tmp_path / "r", Path(photos[0][0]).read_bytes()
    good = example(image__encoded=picture, image__class__label=5)
    for odd, reason in [
        (example(image__encoded=picture), "feature 'image/class/label' is missing"),
        (example(image__class__label=1), "feature 'image/encoded' is missing"),
        (example(image__encoded=picture, image__class__label=[1, 2]), "holds 2 integers"),
        (example(image__encoded=picture, image__class__label=1.0), "holds floats"),
        (b"", "is missing"),
    ]:
        path.write_bytes(tfrecord([good, odd, good]))
        with pytest.raises(fsp.errors.ArgumentError, match=f"r, record 1 at byte .*{reason}"):
            fsp.datasets.tfrecord(path)
        with pytest.warns(UserWarning, match="1 skipped"):
            assert len(fsp.datasets.tfrecord(path, on_error="skip")) == 2
    for keywords in ({"source": ""}, {"source": 3}, {"label": ""}, {"check": 1}):
        with pytest.raises(fsp.errors.ArgumentError, match=next(iter(keywords))):
            fsp.datasets.tfrecord(path, **keywords)


def test_recordio_batches_equal_plain_files(tmp_path, photos):
    records = [
        packed_picture(float(label) if number % 2 else [float(label), 0.25], Path(path).read_bytes(), number)
        for number, (path, label) in enumerate(photos)
    ]
    data, begins = recordio(records)
    rec, idx = tmp_path / "a.rec", tmp_path / "a.idx"
    rec.write_bytes(data)
    dataset = fsp.datasets.recordio(rec)
    assert digest(fsp.ImageLoader(dataset, **KEYWORDS)) == digest(fsp.ImageLoader(photos, **KEYWORDS))
    chosen = [5, 0, 9]
    idx.write_text("".join(f"{number}\t{begins[number]}\n" for number in chosen))
    dataset = fsp.datasets.recordio(rec, idx=idx)
    some = [photos[number] for number in chosen]
    assert digest(fsp.ImageLoader(dataset, **KEYWORDS)) == digest(fsp.ImageLoader(some, **KEYWORDS))
    assert [source.name for source, _ in dataset] == ["key 5", "key 0", "key 9"]
    labels = [None if n % 2 else [float(photos[n][1]), 0.25] for n in chosen]
    assert dataset.columns == {"id": chosen, "labels": labels}


def test_recordio_image_with_magic_number_is_joined(tmp_path):
    magic = (0xCED7230A).to_bytes(4, "little")
    picture = Image.fromarray(np.random.default_rng(3).integers(0, 256, (9, 14, 3), dtype=np.uint8))
    plain = b""
    for shift in range(4):
        out = io.BytesIO()
        picture.save(out, "JPEG", quality=90, comment=b"-" * shift + magic * 12)
        if any(out.getvalue()[at : at + 4] == magic for at in range(0, len(out.getvalue()), 4)):
            plain = out.getvalue()
    assert plain
    data, _ = recordio([packed_picture(1.0, b"x" * 9), packed_picture(7.0, plain), packed_picture(2.0, b"y")])
    (tmp_path / "a.rec").write_bytes(data)
    dataset = fsp.datasets.recordio(tmp_path / "a.rec")
    assert dataset[1] == (plain, 7) and isinstance(dataset[0][0], ArchiveMember)
    assert fsp.decode_image(dataset[1][0]).tobytes() == fsp.decode_image(plain).tobytes()


def test_damaged_recordio_error_has_byte_offset(tmp_path, photos):
    records = [packed_picture(float(n), Path(path).read_bytes()) for n, (path, _) in enumerate(photos[:3])]
    intact, begins = recordio(records)
    rec, idx = tmp_path / "a.rec", tmp_path / "a.idx"
    idx.write_text("".join(f"{number}\t{begin}\n" for number, begin in enumerate(begins)))
    at = begins[1]
    for damaged, reason in [
        (intact[:at] + b"?" + intact[at + 1 :], "no record starts here"),
        (intact[: at + 7] + b"\xff" + intact[at + 8 :], "unknown kind 7"),
        (intact[: at + 7] + b"\x1f" + intact[at + 8 :], "needs bytes"),
        (intact[: at + 7] + b"\x40" + intact[at + 8 :], "without the start"),
    ]:
        rec.write_bytes(damaged)
        for keywords, remain in (({}, 1), ({"idx": idx}, 2)):
            with pytest.raises(fsp.errors.InvalidDataError, match=rf"a\.rec, byte ({at}|{at + 8}): .*{reason}"):
                fsp.datasets.recordio(rec, **keywords)
            with pytest.warns(UserWarning, match=f"1 skipped: .*{reason}"):
                assert len(fsp.datasets.recordio(rec, on_error="skip", **keywords)) == remain
    rec.write_bytes(intact)
    idx.write_text("0\t0\n1\tone\n")
    with pytest.raises(fsp.errors.ArgumentError, match=r"a\.idx, line 2: expected two integers, a key and a byte"):
        fsp.datasets.recordio(rec, idx=idx, on_error="skip")
    with pytest.raises(fsp.errors.NotFoundError, match=r"none\.idx"):
        fsp.datasets.recordio(rec, idx=tmp_path / "none.idx")
    with pytest.raises(fsp.errors.NotFoundError, match=r"none\.rec"):
        fsp.datasets.recordio(tmp_path / "none.rec")
    with pytest.raises(fsp.errors.ArgumentError, match="rec must be a path"):
        fsp.datasets.recordio([rec])
    half = recordio([packed_picture(0.5, b"x")])[0]
    rec.write_bytes(half)
    with pytest.raises(fsp.errors.ArgumentError, match=r"record 0 at byte 0: label 0\.5 is not an integer"):
        fsp.datasets.recordio(rec)
