"""Other libraries that decode video frames on a GPU, each with its documented fastest method.

A peer's output passes if each frame is close to the correct one (mean absolute difference over RGB at full size at most
TOLERANCE, since libraries choose the color matrix of untagged videos in different ways) and closer to it than to its
neighbors, which detects an index off by one.
"""

from __future__ import annotations

import contextlib
import importlib.util
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import framespool as fsp

TOLERANCE = 6.0
#: Step of the rows and columns that are compared.
STEP = 4

Clip = tuple[str, Sequence[int]]


class Peer:
    """Random clips by frame index in presentation order, on the GPU, resized there."""

    name = ""
    module = ""

    @classmethod
    def missing(cls) -> str | None:
        """Why it cannot be used here."""
        for module in ("torch", cls.module):
            try:
                if importlib.util.find_spec(module) is None:
                    return f"{module} is not installed here"
            except ModuleNotFoundError:
                return f"{module} is not installed here"
        import torch

        return None if torch.cuda.is_available() else "torch finds no GPU"

    def __init__(self, threads: int, size: int) -> None:
        self.threads, self.size = threads, size
        self.local = threading.local()
        self.pool = ThreadPoolExecutor(threads)

    def version(self) -> str:
        from importlib import metadata

        return metadata.version(self.name)

    def open(self, path: str) -> Any:
        raise NotImplementedError

    def read(self, reader: Any, indices: Sequence[int]) -> Any:
        """A tensor (T, 3, H, W), uint8, on the GPU."""
        raise NotImplementedError

    def reader(self, path: str) -> Any:
        """Each thread keeps one reader per file open: reopening would cost more."""
        kept = self.local.__dict__.setdefault("readers", {})
        if path not in kept:
            kept[path] = self.open(path)
        return kept[path]

    def clip(self, clip: Clip) -> Any:
        import torch

        stream = self.local.__dict__.setdefault("stream", None) or torch.cuda.Stream()
        self.local.stream = stream
        with torch.cuda.stream(stream):
            frames = self.read(self.reader(clip[0]), clip[1])
            small = torch.nn.functional.interpolate(
                frames.float(), (self.size, self.size), mode="bilinear", antialias=True
            )
            return small.round_().clamp_(0, 255).to(torch.uint8)

    def run(self, clips: Sequence[Clip]) -> Iterator[Any]:
        """All clips in order, with bounded lookahead."""
        waiting = []
        for clip in clips:
            waiting.append(self.pool.submit(self.clip, clip))
            if len(waiting) > 2 * self.threads:
                yield waiting.pop(0).result()
        for future in waiting:
            yield future.result()

    def wrong(self, clip: Clip) -> str:
        """Whether a clip at full size has the correct frames."""
        import torch

        path, indices = clip
        video = fsp.Video(path, index=False, layout="THWC")
        wanted = sorted({i for index in indices for i in (index - 1, index, index + 1) if 0 <= i < len(video)})
        right = {i: torch.from_dlpack(video[i]).float()[::STEP, ::STEP] for i in wanted}
        frames = self.read(self.open(path), indices).permute(0, 2, 3, 1).float().cpu()[:, ::STEP, ::STEP]
        for index, frame in zip(indices, frames, strict=True):
            if frame.shape != right[index].shape:
                return f"frame {index} is {tuple(frame.shape)} and not {tuple(right[index].shape)} (each {STEP}th)"
            off = {i: float((frame - right[i]).abs().mean()) for i in (index - 1, index, index + 1) if i in right}
            if off[index] > TOLERANCE:
                return f"frame {index} differs by {off[index]:.2f} in the mean; {TOLERANCE} would pass"
            # Without motion, neighbors look the same.
            if off[index] > min(off.values()) + 0.5:
                return f"frame {index} looks like frame {min(off, key=off.__getitem__)}"
        return ""


class TorchCodec(Peer):
    """VideoDecoder on "cuda", exact seeking; with its newer NVDEC backend if it has one."""

    name = module = "torchcodec"

    def open(self, path: str) -> Any:
        from torchcodec import decoders

        # "beta" is the NVDEC backend of every version that has this function; since 0.17 it is named "nvdec" too.
        select = getattr(decoders, "set_cuda_backend", lambda _: contextlib.nullcontext())
        with select("beta"):
            reader = decoders.VideoDecoder(path, device="cuda", num_ffmpeg_threads=1)
        # It falls back to the CPU without a message. The state may be known only after the first frame.
        reader[0]
        if getattr(reader, "cpu_fallback", None):
            raise RuntimeError(f"torchcodec decodes on the CPU: {reader.cpu_fallback}")
        return reader

    def read(self, reader: Any, indices: Sequence[int]) -> Any:
        return reader.get_frames_at(list(indices)).data


class PyNvVideoCodec(Peer):
    """SimpleDecoder with RGB output in device memory, on the stream of the thread."""

    name = module = "PyNvVideoCodec"

    def open(self, path: str) -> Any:
        import PyNvVideoCodec as nvc
        import torch

        # Its default is the legacy default stream, which all threads would share. torch's streams do not wait for
        # that one, so the next call could write to surfaces that are still read.
        return nvc.SimpleDecoder(
            path,
            gpu_id=0,
            cuda_stream=torch.cuda.current_stream().cuda_stream,
            use_device_memory=True,
            output_color_type=nvc.OutputColorType.RGBP,
        )

    def read(self, reader: Any, indices: Sequence[int]) -> Any:
        import torch

        frames = reader.get_batch_frames_by_index(list(indices))
        # The next call reuses its surfaces.
        return torch.stack([torch.from_dlpack(frame) for frame in frames])


PEERS = (TorchCodec, PyNvVideoCodec)
