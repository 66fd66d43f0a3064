"""Videos opened from file objects: only the needed ranges are read through the object."""

from __future__ import annotations

import io
import pickle
import threading
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest

#: Sample tables, a scan of another container, and one that needs a demuxer for its packets.
CONTAINERS = ["action/cars_768x432.mp4", "action/street_426x240.mkv", "codecs/hevc_single_keyframe.ts"]


class Reader:
    """A minimal file object: positional ``read`` and ``seek``. Counts its calls."""

    def __init__(self, data: bytes, most: int | None = None):
        self._file = io.BytesIO(data)
        self.most = most
        self.read_bytes = 0
        self.threads: set[int] = set()

    def read(self, size: int) -> bytes:
        self.threads.add(threading.get_ident())
        given = self._file.read(size if self.most is None else min(size, self.most))
        self.read_bytes += len(given)
        return given

    def seek(self, offset: int, whence: int) -> int:
        return self._file.seek(offset, whence)


def every_frame(video: fsp.Video) -> bytes:
    return video.frames(range(len(video))).frames.tobytes()


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("most", [None, 1000, 7])
def test_short_reads_give_the_frames_of_the_file(videos, name, most):
    path = videos / name
    video = fsp.Video(Reader(path.read_bytes(), most))
    own = fsp.Video(path)
    places = [len(own) - 1, 3, 0, len(own) // 2]
    assert video.frames(places).frames.tobytes() == own.frames(places).frames.tobytes()
    assert video.pts_seconds == own.pts_seconds


@pytest.mark.parametrize("name", CONTAINERS)
def test_all_ways_of_reading_agree(videos, name):
    path = videos / name
    expected = every_frame(fsp.Video(path))
    with path.open("rb") as buffered, path.open("rb", buffering=0) as raw:
        for source in (buffered, raw, io.BytesIO(path.read_bytes()), Reader(path.read_bytes())):
            video = fsp.Video(source, num_threads=2)
            assert every_frame(video) == expected
            assert b"".join(frame.tobytes() for frame in video) == expected


def test_only_the_wanted_ranges_are_read(videos):
    data = (videos / "1080p" / "bunny_60p.mp4").read_bytes()
    reader = Reader(data)
    video = fsp.Video(reader)
    video.frames([0])
    assert 0 < reader.read_bytes < len(data) / 2
    # A file that is mostly padding: reading it completely would be detected.
    padded = Reader(data + (64 << 20) * b"\0")
    assert fsp.Video(padded).frames([0]).frames.tobytes() == video.frames([0]).frames.tobytes()
    assert padded.read_bytes < len(data)


def test_a_position_that_was_moved_does_not_matter(videos):
    path = videos / CONTAINERS[0]
    expected = fsp.Video(path)
    with path.open("rb") as file:
        file.seek(1234)
        video = fsp.Video(file)
        for place in (5, 80, 6):
            file.seek(99)
            assert video[place].tobytes() == expected[place].tobytes()


def test_seek_returning_none_falls_back_to_tell(videos):
    class Quiet(Reader):
        def seek(self, offset: int, whence: int) -> None:
            self._file.seek(offset, whence)

        def tell(self) -> int:
            return self._file.tell()

    path = videos / CONTAINERS[0]
    assert fsp.Video(Quiet(path.read_bytes()))[7].tobytes() == fsp.Video(path)[7].tobytes()


@pytest.mark.parametrize("kind", [bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)])
def test_what_read_returns_may_be_any_bytes(videos, kind):
    class Other(Reader):
        def read(self, size: int):
            return kind(super().read(size))

    path = videos / CONTAINERS[0]
    assert fsp.Video(Other(path.read_bytes()))[7].tobytes() == fsp.Video(path)[7].tobytes()


def broken(method, answer):
    def call(self, *_):
        if isinstance(answer, Exception):
            raise answer
        return answer

    return type("Broken", (Reader,), {method: call})


@pytest.mark.parametrize(
    ("method", "answer", "words"),
    [
        ("read", OSError("the tape tore"), "the tape tore"),
        ("read", ValueError("I/O operation on closed file"), "closed file"),
        ("read", "text", "binary reading"),
        ("read", None, "NoneType"),
        ("read", bytes(1 << 20), "more than requested"),
        ("seek", io.UnsupportedOperation("underlying stream is not seekable"), "not seekable"),
        ("seek", "end", "seek"),
    ],
)
def test_error_of_a_file_object_keeps_its_message(videos, method, answer, words):
    with pytest.raises(fsp.Error, match=words) as caught:
        fsp.Video(broken(method, answer)((videos / CONTAINERS[0]).read_bytes()))
    assert "file object" in str(caught.value)


def test_video_is_usable_after_an_error(videos):
    path = videos / CONTAINERS[0]
    reader = Reader(path.read_bytes())
    video, read = fsp.Video(reader), reader.read
    reader.read = lambda size: (_ for _ in ()).throw(OSError("gone"))
    with pytest.raises(fsp.Error, match="gone"):
        video[80]
    reader.read = read
    assert video[80].tobytes() == fsp.Video(path)[80].tobytes()


def test_interrupt_inside_file_object_is_raised(videos):
    reader = Reader((videos / CONTAINERS[0]).read_bytes())
    video = fsp.Video(reader)
    reader.read = lambda size: (_ for _ in ()).throw(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        video[80]


def test_a_truncated_object_is_an_error_that_says_so(videos):
    data = (videos / CONTAINERS[0]).read_bytes()
    with pytest.raises(fsp.Error):
        every_frame(fsp.Video(Reader(data[: len(data) // 2])))
    with pytest.raises(fsp.Error, match="empty"):
        fsp.Video(io.BytesIO(b""))


def test_several_threads_may_read_one_object(videos):
    path = videos / CONTAINERS[0]
    video, own = fsp.Video(Reader(path.read_bytes(), 5000)), fsp.Video(path)
    expected = [own[place].tobytes() for place in range(0, 88, 8)]
    found: list[list[bytes]] = [[] for _ in range(4)]

    def read(into):
        into += [video[place].tobytes() for place in range(0, 88, 8)]

    threads = [threading.Thread(target=read, args=(into,)) for into in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def test_a_video_of_a_file_object_is_not_pickled(videos):
    video = fsp.Video(io.BytesIO((videos / CONTAINERS[0]).read_bytes()))
    with pytest.raises(TypeError, match="file object"):
        pickle.dumps(video)


def test_text_and_unseekable_files_are_rejected(videos):
    with (videos / CONTAINERS[0]).open(encoding="latin-1") as file, pytest.raises(fsp.Error, match="binary reading"):
        fsp.Video(file)
    for source in (3, None, object(), type("OnlyReads", (), {"read": lambda self, size: b""})()):
        with pytest.raises(fsp.errors.ArgumentError, match="file object"):
            fsp.Video(source)


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        ({"full_name": "sftp://me:hush@host/a.mp4", "path": "/a.mp4"}, "sftp://host/a.mp4"),
        ({"path": "bucket/a.mp4", "name": 3}, "bucket/a.mp4"),
        ({"name": "https://host/a.mp4?sig=hush"}, "https://host/a.mp4?…"),
    ],
)
def test_messages_name_the_file_of_an_object(attributes, name):
    reader = Reader(b"not a video")
    vars(reader).update(attributes)
    with pytest.raises(fsp.Error) as caught:
        fsp.Video(reader)
    assert f'file object "{name}"' in str(caught.value) and "hush" not in str(caught.value)


def test_images_are_decoded_from_file_objects(photos):
    content = [Path(photo).read_bytes() for photo, _ in photos]
    expected = [image.tobytes() for image in fsp.decode_images(content)]
    readers = [Reader(data, 1000) for data in content]
    for reader in readers:
        reader.seek(5, 0)
    assert [image.tobytes() for image in fsp.decode_images(readers, num_threads=2)] == expected
    assert fsp.decode_image(io.BytesIO(content[0])).tobytes() == expected[0]
    broken_reader = broken("read", OSError("the tape tore"))(content[0])
    first, second = fsp.decode_images([broken_reader, readers[1]], on_error="return")
    assert isinstance(first, fsp.errors.ReadError) and "the tape tore" in str(first)
    assert second.tobytes() == expected[1]


def test_fsspec_files(videos, photos):
    fsspec = pytest.importorskip("fsspec")
    path = videos / CONTAINERS[0]
    files = fsspec.filesystem("memory")
    files.pipe("/framespool/a.mp4", path.read_bytes())
    photo = Path(photos[0][0])
    files.pipe("/framespool/a.jpg", photo.read_bytes())
    with fsspec.open("memory://framespool/a.mp4") as file:
        assert fsp.Video(file)[7].tobytes() == fsp.Video(path)[7].tobytes()
    with fsspec.open("memory://framespool/a.jpg") as file:
        assert fsp.decode_image(file).tobytes() == fsp.decode_image(photo).tobytes()
    with fsspec.open(f"file://{path}") as file:
        assert fsp.Video(file)[7].tobytes() == fsp.Video(path)[7].tobytes()
    # The object that opens a file is not the file.
    with pytest.raises(fsp.errors.ArgumentError, match="a file object, .* got OpenFile"):
        fsp.Video(fsspec.open("memory://framespool/a.mp4"))
