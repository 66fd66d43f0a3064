"""Writes seeds in formats that Python libraries can write: tars, TFRecord, RecordIO, LMDB, WebP, AVIF.

python tests/fuzz/seeds.py FOLDER
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
import tempfile
from pathlib import Path

import lmdb
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))
from archive_writers import example, packed_picture, recordio, tfrecord  # noqa: E402
from avif_writer import avif, config  # noqa: E402

PICTURE = b"\xff\xd8\xff\xe0" + bytes(range(200))


def tars() -> list[bytes]:
    """Returns a tar of each format, with long names, links, and labels of both kinds."""
    found = []
    for kind in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=kind) as tar:
            for number in range(3):
                name = f"folder/{number:06d}" if number < 2 or kind == tarfile.USTAR_FORMAT else "n" * 180
                label = json.dumps({"label": number, "meta": {"class": number}}).encode()
                for extension, data in [("mp4", PICTURE), ("cls", b"%d" % number), ("json", label)]:
                    member = tarfile.TarInfo(f"{name}.{extension}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
            link = tarfile.TarInfo("link.mp4")
            link.type, link.linkname = tarfile.SYMTYPE, "folder/000000.mp4"
            tar.addfile(link)
        found.append(out.getvalue())
    return found


def tfrecords() -> list[bytes]:
    """Returns TFRecord files of one and of several records."""
    records = [
        example(image__encoded=PICTURE, image__class__label=3, image__format="jpeg"),
        example(image__encoded=PICTURE[:20], image__class__label=[1, 2], image__size=0.5),
        example(image__class__label=1),
    ]
    return [tfrecord(records[:1]), tfrecord(records), tfrecord([])]


def recordios() -> list[bytes]:
    """Returns RecordIO files, each preceded by the length of its list and the list."""
    data, begins = recordio(
        [packed_picture(1.0, PICTURE), packed_picture([2.0, 3.0], PICTURE + b"\x0a\x23\xd7\xce" * 9, 7)]
    )
    listed = "".join(f"{key}\t{begin}\n" for key, begin in enumerate(begins)).encode()
    return [data, len(listed).to_bytes(2, "big") + listed + data]


def databases() -> list[bytes]:
    """Returns LMDB databases with short and long values, labels, a nested database, and numeric keys."""
    found = []
    for kind in range(4):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/data.mdb"
            with lmdb.open(path, subdir=False, map_size=1 << 20, max_dbs=2, lock=False) as env:
                inner = env.open_db(b"inner", integerkey=kind == 3) if kind >= 2 else None
                with env.begin(write=True) as transaction:
                    for number in range(6):
                        key = number.to_bytes(8, "little") if kind == 3 else f"image-{number:09d}".encode()
                        transaction.put(key, PICTURE * (1 + 20 * (number % 2) * (kind != 1)), db=inner)
                        if kind != 3:
                            label = json.dumps({"label": number}).encode() if kind == 1 else b"%d" % number
                            transaction.put(f"label-{number:09d}".encode(), label, db=inner)
            found.append(Path(path).read_bytes().rstrip(b"\0").ljust(4096, b"\0"))
    return [data + bytes(-len(data) % 4096) for data in found]


def stills() -> list[bytes]:
    """Returns WebP and AVIF images of each kind, each preceded by two bytes of options."""
    picture = Image.linear_gradient("L").resize((40, 27)).convert("RGB")
    alpha = picture.copy()
    alpha.putalpha(Image.radial_gradient("L").resize(alpha.size))
    exif = Image.Exif()
    exif[0x0112] = 5
    options = [
        {"format": "WEBP", "quality": 40, "exif": exif},
        {"format": "WEBP", "lossless": True},
        {"format": "WEBP", "save_all": True, "append_images": [picture.transpose(Image.Transpose.ROTATE_180)]},
        {"format": "AVIF", "subsampling": "4:2:0", "exif": exif},
        {"format": "AVIF", "subsampling": "4:4:4"},
        {"format": "AVIF", "subsampling": "4:0:0"},
    ]
    found = []
    for image in (picture, alpha):
        for one in options:
            out = io.BytesIO()
            image.save(out, **one)
            found.append(b"\0\x31" + out.getvalue())
    tile = found[3][2:]
    av1 = tile[tile.index(b"mdat") + 4 :]
    found.append(b"\0\x31" + avif([(40, 27, config(), av1)] * 2, grid=(1, 2, 70, 26)))
    return found


def main() -> None:
    """Writes the seeds."""
    root = Path(sys.argv[1])
    written = {"tar": tars(), "tfrecord": tfrecords(), "lmdb": databases(), "still": stills()}
    for name, found in written.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        for number, data in enumerate(found):
            (root / name / f"{number}").write_bytes(data)
    # The first bytes of a seed are its options.
    (root / "recordio").mkdir(exist_ok=True)
    with_list, without = recordios()[1], bytes(2) + recordios()[0]
    for number, data in enumerate([with_list, without]):
        (root / "recordio" / f"{number}").write_bytes(data)


if __name__ == "__main__":
    main()
