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
            video.get_clip(start=0, sequence_length=40)
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
            rule = fsp.samplers.random(sequence_length=8, clips_per_video=4)
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
            video.get_clip(start=0, sequence_length=20)
            return video
        kept = make()
        again = make
    """,
    "Video that another thread uses": """
        kept = fsp.Video(path, num_threads=4)
        import threading
        def use():
            while True:
                kept.get_clip(start=0, sequence_length=40)
        threading.Thread(target=use, daemon=True).start()
        time.sleep(0.2)
        def again():
            fsp.Video(path, num_threads=4).get_clip(start=0, sequence_length=40)
    """,
}

PROGRAM = """
import os, signal, sys, time
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
    uses = [("frames", (0,)), ("__next__", ()), ("stats", ()), ("failures", ()), ("state_dict", ())]
    for each in kept if isinstance(kept, tuple) else (kept,):
        for name, arguments in uses:
            try:
                getattr(each, name, lambda *_: None)(*arguments)
            except (fsp.ForkedError, TypeError):
                pass
    again()
    kept = None
    again()

for work in (drop, end, reopen):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        work()
        sys.exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(work.__name__, code)
sys.stdout.flush()
os._exit(0)  # a thread of this process may still decode
"""


@pytest.mark.parametrize("what", MADE)
def test_a_child_drops_ends_and_reopens(
    what: str, short_clips: list[tuple[str, int]], photos: list[tuple[str, int]], nginx: Nginx, tmp_path: Path
) -> None:
    path, image = short_clips[0][0], photos[0][0]
    program = PROGRAM.format(made=textwrap.dedent(MADE[what]))
    arguments = [path, image, nginx.url(Path(path).resolve()), str(tmp_path)]
    command = [sys.executable, "-W", "ignore", "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout.split("\n")[:-1] == ["drop 0", "end 0", "reopen 0"], (done.stdout, done.stderr)
