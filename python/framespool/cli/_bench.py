"""`framespool bench`: the speed of loading on this machine, where the time goes, and what would help."""

from __future__ import annotations

import argparse
import json
import textwrap
from typing import Any

from framespool.cli import _dataset_options
from framespool.cli._parser import add_json, check_writable, command, count
from framespool.options import Gpu
from framespool.tools._bench import BenchReport, bench, check_seconds, expected_cost, expected_text

_DESCRIPTION = """\
Print what each shuffle is expected to decode in an epoch of your dataset, and what a disk
cache would change over many epochs. Then load batches for some seconds as fast as
possible, and report the clips per second, how the worker threads spent their time, and
what would make it faster. With --device cuda:0 --decoder nvdec, also report how many
pictures NVDEC decodes, and why the CPU decodes the others. With --disk, a whole epoch
fills the disk cache first.
"""

_EXAMPLES = """\
  framespool bench videos/ --frames 16 --stride 4 --random-resized-crop 224 --flip
  framespool bench videos/ --clips-per-video 8 --cache 4GiB --num-shards 8
  framespool bench videos/ --disk /local/clips --disk-size 20GiB  what a disk cache changes
  framespool bench videos/ --device cuda:0 --decoder nvdec        does NVDEC decode them?
  framespool bench videos/ --preset videomae --preset-option clip_len=16 --plot bench.png
"""


def add(subparsers: Any) -> None:
    """Adds the subcommand."""
    parser = command(
        subparsers,
        "bench",
        run,
        help="measure the speed of loading and give advice",
        description=_DESCRIPTION,
        examples=_EXAMPLES,
    )
    _dataset_options.add_options(parser)
    _dataset_options.add_epoch_options(parser)
    parser.add_argument("--threads", type=count, metavar="N", help="worker threads (default: all cores)")
    parser.add_argument("--device", metavar="DEVICE", default="cpu", help="where batches are placed (default: cpu)")
    parser.add_argument(
        "--decoder",
        choices=("auto", "cpu", "nvdec", "nvjpeg"),
        default="auto",
        help="with a GPU, nvdec: no CPU threads in addition (default: auto)",
    )
    parser.add_argument("--seconds", type=float, metavar="S", default=10.0, help="duration in seconds (default: 10)")
    parser.add_argument("--plot", metavar="FILE", help="draw the shares of time as a PNG")
    add_json(parser, "the measurement")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    if arguments.plot:
        check_writable("--plot", arguments.plot)
    check_seconds(arguments.seconds)
    device = arguments.device
    if arguments.decoder != "auto" and (device != "cpu" or arguments.decoder != "cpu"):
        if device == "cpu":
            device = Gpu(0, decoder=arguments.decoder, output="cpu")
        else:
            device = Gpu(device, decoder=arguments.decoder)
    loader = _dataset_options.epoch_loader(arguments, num_threads=arguments.threads, device=device)
    if not arguments.json:
        print(f"{loader.num_clips} clips of {len(loader.dataset)} samples", flush=True)
        if (expected := expected_cost(loader)) is not None:
            print("\n".join(expected_text(expected)), flush=True)
    report = bench(loader, seconds=arguments.seconds)
    if arguments.json:
        print(json.dumps({"command": "bench", **report.as_dict()}))
    else:
        _print(report)
    if arguments.plot:
        report.plot(arguments.plot)
    return 0


def _print(report: BenchReport) -> None:
    print(
        f"{report.clips_per_second:.1f} clips/s, {report.frames_per_second:.0f} frames/s "
        f"({report.clips} clips in {report.seconds:.1f} s; the first batch took {report.first_batch_seconds:.2f} s)"
    )
    if report.first_epoch_seconds is not None:
        print(f"before, an epoch of {report.first_epoch_seconds:.1f} s filled the disk cache")
    print(
        f"{report.frames_decoded_per_frame_delivered:.2f} frames decoded per frame delivered, "
        f"{report.bytes_read / max(1, report.clips) / 1e3:.0f} KB read per clip"
    )
    stats = report.stats
    if stats["frames_decoded_by_gpu"] or stats["cpu_fallbacks"]:
        print(f"NVDEC decoded {stats['frames_decoded_by_gpu']} of {stats['frames_decoded']} pictures")
    print("workers: " + ", ".join(f"{name} {share:.0%}" for name, share in report.shares.items()))
    for sentence in report.advice:
        print(textwrap.fill(sentence, 100, initial_indent="- ", subsequent_indent="  "))
