"""A forked child drops objects of its parent, exits, or creates its own.

None of these may wait for threads that only the parent has.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from servers import Nginx

# Each defines `kept`, which the child inherits, and `again`, which creates the same in the child and decodes with it.
MADE = {
    "Video of several threads": """
        def make():
            video = fsp.Video(path, num_threads=4)
            video.clip(start=0, sequence_length=40)
            return video
        kept = make()
        again = make
    """,
    "iterator over a Video": """
        def make():
            frames = iter(fsp.Video(path, num_threads=4))
            next(frames)
            return frames
        kept = make()
        again = make
    """,
    "ClipLoader in the middle of an epoch": """
        def make():
            rule = fsp.samplers.RandomClips(sequence_length=8, clips_per_video=4)
            resize = [fsp.transforms.Resize((32, 32))]
            loader = fsp.ClipLoader([path] * 4, rule, batch_size=2, num_threads=3, transforms=resize)
            batches = iter(loader)
            next(batches)
            return loader, batches
        kept = make()
        again = make
    """,
    "ImageLoader in the middle of an epoch": """
        def make():
            resize = [fsp.transforms.Resize((32, 32))]
            loader = fsp.ImageLoader([image] * 8, batch_size=2, num_threads=3, transforms=resize)
            batches = iter(loader)
            next(batches)
            return loader, batches
        kept = make()
        again = make
    """,
    "index cache": """
        def make():
            return fsp.Video(path, index=place)[3]
        make()
        fsp._framespool.flush_index()  # a child of a process that is writing one may not use it and gets an error
        kept = fsp.Video(path, index=place)
        again = make
    """,
    "Video by URL": """
        def make():
            video = fsp.Video(url, num_threads=4)
            video.clip(start=0, sequence_length=20)
            return video
        kept = make()
        again = make
    """,
    "decord VideoReader": """
        from framespool.compat import decord
        def make():
            reader = decord.VideoReader(path, num_threads=4)
            for index in (0, 1, 2, 9, 10, 11):
                reader[index]  # from a pass over the video, then from frames decoded ahead
            return reader
        kept = make()
        again = make
    """,
    "decord VideoLoader in the middle of an epoch": """
        from framespool.compat import decord
        def make():
            loader = decord.VideoLoader([path], decord.cpu(0), (4, 32, 32, 3), 0, 0, 2)
            loader.next()
            return loader
        kept = make()
        again = make
    """,
    "decord VideoReader whose lock another thread holds": """
        from framespool.compat import decord
        kept = decord.VideoReader(path, num_threads=4)
        kept[0]
        kept._frames._lock.acquire()
        def again():
            decord.VideoReader(path, num_threads=4)[5]
    """,
    "Video of a file object": """
        def make():
            video = fsp.Video(open(path, "rb"), num_threads=4)
            video.clip(start=0, sequence_length=40)
            return video
        kept = make()
        again = make
    """,
    "iterator over a Video of a file object": """
        def make():
            frames = iter(fsp.Video(open(path, "rb"), num_threads=4))
            next(frames)
            return frames
        kept = make()
        again = make
    """,
    "Video of a file object that another thread reads": """
        import io
        class Slow(io.BytesIO):
            # Another thread is nearly always inside, with the lock of its Video.
            def read(self, size=-1):
                time.sleep(0.005)
                return super().read(size)
        def make(kind):
            return fsp.Video(kind(open(path, "rb").read()), num_threads=4)
        kept = make(Slow)
        def use():
            while True:
                for frame in range(0, 40, 5):
                    kept.frames([frame])
        threading.Thread(target=use, daemon=True).start()
        time.sleep(0.2)
        def again():
            make(io.BytesIO).clip(start=0, sequence_length=40)
    """,
    "decode_images in another thread": """
        kept = fsp.decode_images([image] * 4, num_threads=4)
        def use():
            while True:
                fsp.decode_images([image] * 4, num_threads=4)
        threading.Thread(target=use, daemon=True).start()
        time.sleep(0.2)
        def again():
            assert fsp.decode_images([image] * 4, num_threads=4)[3].tobytes() == kept_bytes
        kept_bytes = kept[3].tobytes()
    """,
    "Video that another thread uses": """
        kept = fsp.Video(path, num_threads=4)
        def use():
            while True:
                kept.clip(start=0, sequence_length=40)
        threading.Thread(target=use, daemon=True).start()
        time.sleep(0.2)
        def again():
            fsp.Video(path, num_threads=4).clip(start=0, sequence_length=40)
    """,
}

#: The same for objects that need PyTorch; test_compat_torchcodec.py has their test.
MADE_WITH_TORCH = {
    "torchcodec VideoDecoder": """
        from framespool.compat.torchcodec.decoders import VideoDecoder
        def make():
            decoder = VideoDecoder(path, num_ffmpeg_threads=4)
            for index in (0, 1, 2, 9, 10, 11):
                decoder[index]
            return decoder
        kept = make()
        again = make
    """,
    "torchcodec VideoDecoder whose lock another thread holds": """
        from framespool.compat.torchcodec.decoders import VideoDecoder
        kept = VideoDecoder(path, num_ffmpeg_threads=4)
        kept[0]
        kept._frames._lock.acquire()
        def again():
            VideoDecoder(path, num_ffmpeg_threads=4)[5]
    """,
    "LeRobot VideoDecoderCache whose lock another thread holds": """
        from framespool.compat.lerobot import VideoDecoderCache
        kept = VideoDecoderCache()
        kept.get_decoder(path)
        kept._lock.acquire()
        def again():
            VideoDecoderCache().get_decoder(path)[5]
    """,
}

PROGRAM = """
import os, signal, sys, threading, time
import framespool as fsp

path, image, url, place = sys.argv[1:]
{made}

def drop():
    global kept
    del kept

def end():
    sys.exit(0)

def reopen():
    global kept
    uses = [("frames", ([0],)), ("__next__", ()), ("stats", ()), ("failures", ()), ("state_dict", ())]
    uses += [("__getitem__", (1,)), ("get_batch", ([1],)), ("get_frames_at", ([1],)), ("next", ()), ("clear", ())]
    for each in kept if isinstance(kept, tuple) else (kept,):
        for name, arguments in uses:
            try:
                getattr(each, name, lambda *_: None)(*arguments)
            except (fsp.errors.ForkedError, TypeError):
                pass
            except Exception as reason:  # decord's or torchcodec's class
                assert isinstance(reason.__cause__, fsp.errors.ForkedError), reason
    again()
    kept = None
    again()

for work in (drop, end, reopen):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        work()
        sys.exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(work.__name__, code)
sys.stdout.flush()
os._exit(0)  # a thread of this process may still decode
"""


def check_child(made: str, arguments: list[str]) -> None:
    """Checks that a forked child drops the object that `made` creates, exits, and creates another one."""
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM.format(made=textwrap.dedent(made)), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.split("\n")[:-1] == ["drop 0", "end 0", "reopen 0"], (done.stdout, done.stderr)


@pytest.mark.parametrize("what", MADE)
def test_a_child_drops_ends_and_reopens(
    what: str, short_clips: list[tuple[str, int]], photos: list[tuple[str, int]], nginx: Nginx, tmp_path: Path
) -> None:
    path, image = short_clips[0][0], photos[0][0]
    check_child(MADE[what], [path, image, nginx.url(Path(path).resolve()), str(tmp_path)])
