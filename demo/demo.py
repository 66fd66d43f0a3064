"""Makes the same clips in three ways, compares their frames and their cost, and writes a page.

    python demo/demo.py                      cuts scenes of Big Buck Bunny into videos first
    python demo/demo.py --videos FOLDER      uses your videos: class folders or any other folder

The ways are: clip by clip, a loader, and a loader with a disk cache. The page has the CPU time of each, the checks and
a contact sheet. Exit code 1: frames differ, or no video can be decoded. Exit code 2: there is no video.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import webbrowser
from collections.abc import Sequence
from pathlib import Path

import framespool as fsp
import ways
from choose import choose, list_videos
from film import CHANGES, CREDIT, FilmUnavailableError, cut_film
from make_videos import make_videos
from page import Results, checks, headline, skipped, used, write_page


def parse_arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--videos", type=Path, help="folder of videos (default: scenes of Big Buck Bunny)")
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="output folder (default: demo-out)")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--threads", type=int, default=cores, help="threads (default: all cores)")
    parser.add_argument("--no-open", action="store_true", help="do not open the page in a browser")
    return parser.parse_args(words)


def make_set(out: Path) -> tuple[Path, str]:
    """The demo's own videos.

    Args:
        out: Folder in which they are made.

    Returns:
        Their folder, and whose they are.
    """
    try:
        return cut_film(out / "film"), f"{CREDIT}. {CHANGES}"
    except FilmUnavailableError as error:
        print(f"Big Buck Bunny is not available ({error}); generating videos of a moving disc instead")
        return make_videos(out / "discs"), "The videos are generated."


def main(words: Sequence[str] | None = None) -> int:
    options = parse_arguments(words)
    # The demo names files that fail itself.
    logging.getLogger("framespool").setLevel(logging.ERROR)
    options.out.mkdir(parents=True, exist_ok=True)
    folder, credit = (options.videos, "") if options.videos else make_set(options.out)
    try:
        choice = choose(list_videos(folder))
    except fsp.Error as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    if not len(choice.dataset):
        for text in choice.failures.values():
            print(text, file=sys.stderr)
        print(f"demo: none of the {choice.num_found} videos in {folder} can be decoded", file=sys.stderr)
        return 1
    print(f"{folder}: {used(choice)}")

    epochs = range(ways.DISK_EPOCHS, ways.DISK_EPOCHS + choice.num_epochs)
    first, clips = ways.clip_by_clip(choice.dataset, epochs, options.threads)
    second = ways.loaded(choice.dataset, epochs, options.threads, clips)
    with tempfile.TemporaryDirectory(dir=options.out, prefix="clips-") as disk:
        third = ways.loaded(choice.dataset, epochs, options.threads, clips, Path(disk))
    results = Results(folder, choice, options.threads, [first, second, third], clips, credit)

    print(f"\n{headline(results)}\n")
    print(f"  {'':24}{'CPU ms per clip':>16}{'clips/s':>10}")
    for way in results.ways:
        print(f"  {way.name:24}{way.cpu_ms_per_clip:16.1f}{way.clips_per_second:10.1f}")
    print()
    for kind, text in checks(results):
        print(f"  {kind}: {text}")
    for text in skipped(results):
        print(f"  skipped: {text}")
    page = (options.out / "index.html").resolve()
    write_page(results, page)
    shown = not options.no_open and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    opened = bool(shown) and webbrowser.open(page.as_uri())
    print(f"\n{'Opened' if opened else 'Open'} {page}")
    return 0 if results.equal else 1


if __name__ == "__main__":
    sys.exit(main())
