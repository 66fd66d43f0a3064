"""LMDB: databases of py-lmdb are read with the same values, and damage is an error."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path

import framespool as fsp
import pytest
from framespool.datasets import ArchiveMember
from small_loaders import KEYWORDS, clips, digest

lmdb = pytest.importorskip("lmdb", reason="py-lmdb writes the databases; see requirements-dev.txt")

MIB = 1 << 20


def written(path: Path, items, *, database: bytes | None = None, subdir: bool = True, **flags) -> Path:
    """A database with these items; existing keys stay."""
    with lmdb.open(str(path), subdir=subdir, map_size=512 * MIB, max_dbs=8) as env:
        named = env.open_db(database, **flags) if database is not None else None
        with env.begin(write=True, db=named) as transaction:
            for key, value in items:
                assert transaction.put(key, value)
    return path


def values_of(dataset) -> dict[str, bytes]:
    """The bytes at the offsets of the samples, by key."""
    files = {file: Path(file).read_bytes() for file in {source.file for source, _ in dataset}}
    return {
        key: files[source.file][source.offset_bytes : source.offset_bytes + source.num_bytes]
        for (source, _), key in zip(dataset, dataset.columns["key"], strict=True)
    }


def varint(number: int) -> bytes:
    out = b""
    while number >= 0x80:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def datum(data: bytes | None, label: int | None, encoded: bool = True) -> bytes:
    """Caffe's message, as protobuf writes it: channels, height, width, data, label, encoded."""
    out = b"\x08\x03\x10\x20\x18\x20"
    if data is not None:
        out += b"\x22" + varint(len(data)) + data
    if label is not None:
        out += b"\x28" + varint(label % 2**64)
    return out + (b"\x38\x01" if encoded else b"")


def test_lmdb_gives_the_batches_of_plain_files(tmp_path, short_clips, photos):
    for entries, loader in ((short_clips, clips), (photos, lambda data: fsp.ImageLoader(data, **KEYWORDS))):
        items = []
        for number, (path, label) in enumerate(entries):
            items += [(b"image-%09d" % number, Path(path).read_bytes()), (b"label-%09d" % number, b"%d\n" % label)]
        items.append((b"num-samples", b"%d" % len(entries)))
        path = written(tmp_path / f"{len(entries)}", items)
        dataset = fsp.datasets.lmdb(path, key="image-{}", label="label-{}")
        assert [label for _, label in dataset] == [label for _, label in entries]
        assert digest(loader(dataset)) == digest(loader(entries))
        assert dataset.columns["key"][3] == "image-000000003" == dataset[3][0].name
    member = dataset[0][0]
    assert isinstance(member, ArchiveMember) and member.file == str(path / "data.mdb")


def test_mp4s_are_read_where_they_lie(tmp_path, videos):
    found = (path for path in videos.rglob("*.mp4") if path.parent.name in ("action", "1080p"))
    files = sorted(found, key=lambda path: (path.stat().st_size, path.name))[:12]
    path = written(tmp_path / "v", [(file.name.encode(), file.read_bytes()) for file in files])
    inside = {source.name: source for source, _ in fsp.datasets.lmdb(path, check=True)}
    for file in files:
        ours, theirs = fsp.Video(inside[file.name]), fsp.Video(file)
        for frame in {0, len(theirs) // 2, len(theirs) - 1}:
            assert ours[frame].tobytes() == theirs[frame].tobytes(), (file, frame)
    assert len(inside) == len(files) >= 8


def test_ten_thousand_keys_match_py_lmdb(tmp_path):
    rng = random.Random(3)
    sizes = (0, 1, 7, 300, 1990, 2020, 2048, 4080, 4081, 8176, 8177, 20000)
    items = [(b"%x" % rng.getrandbits(96), rng.randbytes(rng.choice(sizes))) for _ in range(10_000)]
    path = written(tmp_path / "many", items)
    # Holes: pages that are free, or reused by later values.
    with lmdb.open(str(path), map_size=512 * MIB) as env:
        for begin in (0, 1):
            with env.begin(write=True) as transaction:
                for key, _ in items[begin::3]:
                    assert transaction.delete(key)
        with env.begin(write=True) as transaction:
            for key, value in items[::6]:
                transaction.put(key, value[::-1] + b"again")
        with env.begin() as transaction:
            expected = {key.decode(): bytes(value) for key, value in transaction.cursor()}
            depth = transaction.stat()["depth"]
    dataset = fsp.datasets.lmdb(path, check=True)
    assert dataset.columns["key"] == list(expected) and depth >= 3 and len(expected) > 4000
    assert values_of(dataset) == expected


def test_databases_have_names_and_keys_of_every_kind(tmp_path):
    path = tmp_path / "named.lmdb"
    written(path, [(b"b", b"1"), (b"a", b"2" * 5000)], database=b"train", subdir=False)
    written(path, [(b"x", b"3")], database=b"val", subdir=False)
    integers = [3, 2**40, 255, 256]
    items = [(struct.pack("<Q", key), b"v%d" % key) for key in integers]
    written(path, items, database=b"numbers", subdir=False, integerkey=True)
    backwards = [(bytes(text, "ascii"), b"v") for text in ("ab", "ba", "c", "bca")]
    written(path, backwards, database=b"backwards", subdir=False, reverse_key=True)
    written(path, [(b"\xff\x00", b"v"), (b"a", b"w")], database=b"bytes", subdir=False)
    written(path, [(b"a", b"v")], database=b"dup", subdir=False, dupsort=True)

    def read(database):
        return fsp.datasets.lmdb(path, database=database)

    assert values_of(read("train")) == {"a": b"2" * 5000, "b": b"1"} and values_of(read("val")) == {"x": b"3"}
    assert read("numbers").columns["key"] == sorted(integers) and read("numbers")[1][0].name == "255"
    assert [key[::-1] for key in read("backwards").columns["key"]] == sorted(key.decode()[::-1] for key, _ in backwards)
    assert values_of(read("bytes")) == {"61": b"w", "ff00": b"v"}
    with pytest.raises(fsp.errors.UnsupportedError, match=r"named\.lmdb.*several values each"):
        read("dup")
    with pytest.raises(fsp.errors.ArgumentError, match=r"only named databases.*database=: 'backwards', 'bytes', 'dup'"):
        fsp.datasets.lmdb(path)
    with pytest.raises(fsp.errors.ArgumentError, match=r"no database 'test'; it has 'backwards', .*'val'"):
        read("test")
    plain = written(tmp_path / "plain", [(b"a", b"v"), (b"__len__", b"\x80\x04K\x01."), (b"__keys__", b"\x80\x04]")])
    assert values_of(fsp.datasets.lmdb(plain)) == {"a": b"v"}
    for name, reason in (("b", "it has no named database"), ("a", "is a key with a value")):
        with pytest.raises(fsp.errors.ArgumentError, match=reason):
            fsp.datasets.lmdb(plain, database=name)


def test_labels_from_keys_or_arguments(tmp_path):
    items = [(b"%d.jpg" % n, b"x" * n) for n in (1, 2, 3)] + [
        (b"%d.json" % n, b'{"a": {"b": %d}}' % n) for n in (1, 2, 3)
    ]
    path = written(tmp_path / "l", items)
    paired = fsp.datasets.lmdb(path, key="{}.jpg", label=("{}.json", "a", "b"))
    mapped = fsp.datasets.lmdb(path, key="{}.jpg", label={"1.jpg": 1, "2.jpg": 2, "3.jpg": 3})
    called = fsp.datasets.lmdb(path, key="{}.jpg", label=lambda key: int(key[0]))
    assert [label for _, label in paired] == [1, 2, 3] and paired == mapped == called
    for keywords, reason in [
        ({"label": {"1.jpg": 1}}, r"key '2\.jpg': has no label; on_error"),
        ({"label": lambda key: "dog"}, r"key '1\.jpg': label must be an int, got 'dog'"),
        ({"label": "{}.cls"}, r"key '1\.jpg': there is no label under a key like '\{\}\.cls'; give label=None"),
        ({"label": "{}.json"}, r"1\.json must be an integer"),
        ({"label": ("{}.json", "c")}, r"1\.json has no c"),
        ({"label": "cls"}, r"label must contain \{\} once"),
        ({"label": "{}.jpg"}, "must differ"),
        ({"label": 3}, "label must be a string or a list"),
        ({"key": "{}{}"}, "key must contain"),
        ({"key": 3}, "key must be a string"),
        ({"key": "{}.png"}, r"looked for keys like '\{\}\.png'"),
        ({"layout": "caffe"}, "remove key and label"),
        ({"layout": "pickle"}, "layout"),
        ({"database": ""}, "database"),
    ]:
        with pytest.raises(fsp.errors.ArgumentError, match=reason):
            fsp.datasets.lmdb(path, **{"key": "{}.jpg", **keywords})
    # Exceptions of the user's function propagate.
    with pytest.raises(KeyError, match="nothing like this"):
        fsp.datasets.lmdb(path, key="{}.jpg", label=lambda key: {}["nothing like this"], on_error="skip")
    with pytest.warns(UserWarning, match=r"^2 skipped: .*'2\.jpg'.*'3\.jpg'"):
        assert len(fsp.datasets.lmdb(path, key="{}.jpg", label={"1.jpg": 1}, on_error="skip")) == 1
    with (
        pytest.raises(fsp.errors.ArgumentError, match="label has no value for any of the 3 keys"),
        pytest.warns(UserWarning),
    ):
        fsp.datasets.lmdb(path, key="{}.jpg", label={}, on_error="skip")


def test_datums_of_caffe_are_read_and_raw_ones_named(tmp_path, photos):
    items = [(b"%08d" % n, datum(Path(path).read_bytes(), label)) for n, (path, label) in enumerate(photos)]
    path = written(tmp_path / "c", items)
    dataset = fsp.datasets.lmdb(path, layout="caffe")
    assert digest(fsp.ImageLoader(dataset, **KEYWORDS)) == digest(fsp.ImageLoader(photos, **KEYWORDS))
    odd = [
        (datum(b"x" * 50, -7), None),
        (datum(b"x", None), None),
        (datum(b"x" * 3072, 1, encoded=False), r"raw pixels .*convert_imageset --encoded"),
        (datum(None, 1) + b"\x35\x00\x00\x80\x3f", "floats"),
        (datum(None, 1), 'layout="plain"'),
    ]
    for number, (value, reason) in enumerate(odd):
        path = written(tmp_path / f"odd{number}", [(b"k", value)])
        if reason is None:
            assert fsp.datasets.lmdb(path, layout="caffe")[0][1] == (-7 if number == 0 else -1)
            continue
        with pytest.raises(fsp.errors.ArgumentError, match=rf"key 'k': is a Datum.*{reason}"):
            fsp.datasets.lmdb(path, layout="caffe")
    with pytest.raises(fsp.errors.InvalidDataError, match="data.mdb, byte"):
        fsp.datasets.lmdb(written(tmp_path / "none", [(b"k", b"\xff" * 40)]), layout="caffe")


def small(tmp_path: Path) -> tuple[bytes, dict[str, bytes]]:
    """A database of two levels, with values of all kinds and holes, and what is in it."""
    rng = random.Random(5)
    items = [(b"key-%04d" % n, rng.randbytes(rng.choice((0, 40, 700, 3000, 9000)))) for n in range(120)]
    path = written(tmp_path / "small.mdb", items, subdir=False)
    with lmdb.open(str(path), subdir=False, map_size=512 * MIB) as env, env.begin(write=True) as transaction:
        for key, _ in items[::4]:
            transaction.delete(key)
    del items[::4]
    return path.read_bytes(), {key.decode(): value for key, value in items}


def test_truncation_is_an_error_or_harmless(tmp_path):
    intact, expected = small(tmp_path)
    path, refused, whole = tmp_path / "cut.mdb", 0, 0
    cuts = [*range(0, 9000, 97), *range(9000, len(intact), 1021), *(len(intact) - n for n in range(1, 40))]
    for cut in cuts:
        path.write_bytes(intact[:cut])
        try:
            dataset = fsp.datasets.lmdb(path)
        except (fsp.errors.TruncatedError, fsp.errors.InvalidDataError) as error:
            assert "cut.mdb, byte " in str(error)
            refused += 1
        else:
            assert values_of(dataset) == expected
            whole += 1
        # The remaining values are correct.
        try:
            with pytest.warns(UserWarning):
                left = fsp.datasets.lmdb(path, on_error="skip")
        except (fsp.errors.ArgumentError, pytest.fail.Exception):
            continue
        assert values_of(left).items() <= expected.items()
    assert refused > len(cuts) * 0.9
    print(f"{len(cuts)} cuts: {refused} refused, {whole} of what is free")


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.filterwarnings("ignore:.*skipped")
def test_damage_is_an_error_or_values_of_the_file(tmp_path, on_error):
    intact, expected = small(tmp_path)
    rng, path, outcomes = random.Random(11), tmp_path / "damaged.mdb", {"same": 0, "other": 0, "error": 0}
    # Meta pages, branches and leaves: damage inside values is not detectable.
    pages = [at for at in range(0, len(intact), 4096) if at < 8192 or intact[at + 10] in (1, 2)]
    for _ in range(1000):
        damaged = bytearray(intact)
        page = rng.choice(pages)
        for _ in range(rng.choice((1, 1, 1, 4))):
            # Mostly in metadata structures.
            at = page + (rng.randrange(160) if rng.random() < 0.7 else rng.randrange(4096))
            damaged[at] = (damaged[at] + rng.randrange(1, 256)) % 256
        path.write_bytes(damaged)
        try:
            dataset = fsp.datasets.lmdb(path, on_error=on_error, check=rng.random() < 0.5)
        except fsp.Error as error:
            assert str(path) in str(error) and "panic" not in str(error)
            outcomes["error"] += 1
        else:
            assert all(source.offset_bytes + source.num_bytes <= len(intact) for source, _ in dataset)
            outcomes["same" if values_of(dataset) == expected else "other"] += 1
    assert outcomes["error"] > (100 if on_error == "raise" else 5)
    print(f"{on_error}: {outcomes}")


def test_other_kinds_of_files_are_named(tmp_path):
    path = written(tmp_path / "a.mdb", [(b"a", b"v")], subdir=False)
    intact = path.read_bytes()
    magic = struct.pack("<I", 0xBEEFC0DE)
    for content, error, reason in [
        (intact[:16] + magic[::-1] + intact[20:], fsp.errors.UnsupportedError, "big-endian machine"),
        (intact[:12] + magic + intact[16:], None, ""),
        (
            intact[:8] + b"\x08\0\0\0" + magic + b"\x01\0\0\0" + intact[20:],
            fsp.errors.UnsupportedError,
            "32-bit machine",
        ),
        (intact[:20] + b"\x02\0\0\0" + intact[24:], fsp.errors.UnsupportedError, "version 2 of LMDB's format"),
        (b"SQLite format 3\0" + bytes(1000), fsp.errors.InvalidDataError, "byte 0: is not a meta page of LMDB"),
        (b"", fsp.errors.TruncatedError, "byte 0"),
    ]:
        path.write_bytes(content)
        if error is None:
            assert values_of(fsp.datasets.lmdb(path)) == {"a": b"v"}
            continue
        with pytest.raises(error, match=reason):
            fsp.datasets.lmdb(path)
    with pytest.raises(fsp.errors.NotFoundError, match="none"):
        fsp.datasets.lmdb(tmp_path / "none")
    with pytest.raises(fsp.errors.ArgumentError, match="nothing to load"):
        fsp.datasets.lmdb(written(tmp_path / "empty", []))
    # Several, one of them damaged.
    both = [written(tmp_path / "one", [(b"a", b"1")]), path, written(tmp_path / "two", [(b"b", b"2")])]
    with pytest.warns(UserWarning, match=r"^1 skipped: .*a\.mdb"):
        assert fsp.datasets.lmdb(both, on_error="skip").columns["key"] == ["a", "b"]


def test_uncommitted_transaction_is_not_visible(tmp_path):
    path = written(tmp_path / "w", [(b"a", b"1")])
    with lmdb.open(str(path), map_size=512 * MIB) as env:
        with env.begin(write=True) as transaction:
            transaction.put(b"b", b"2" * 9000)
            assert values_of(fsp.datasets.lmdb(path)) == {"a": b"1"}
        assert json.dumps(fsp.datasets.lmdb(path).columns["key"]) == '["a", "b"]'
