"""NVIDIA DALI's CPU operators, without a GPU: the clip's 16 frames of RGB as one batch, one thread.

`aug-flip`: resize of the random crop (fn.random_resized_crop does the same with its own draws; here all libraries have
the same crops), flip, normalize. `aug-grid`: with color_twist, rotate and grid_mask. color_twist keeps the gray 127.5
for contrast, not the mean of the image, and rotates hue in the opposite direction. No other steps are supported.
"""

from __future__ import annotations

import math

import numpy as np
import nvidia.dali as dali
from inputs import CHECKED_FRAMES, CLIP, MEAN, SIDE, STD, Inputs
from nvidia.dali import fn, pipeline_def, types

from .base import BaseAdapter


@pipeline_def
def resize_flip(whole_chain: bool):
    def per_frame(name: str):
        return fn.external_source(name=name, device="cpu")

    frames = fn.external_source(name="frames", device="cpu", layout="HWC", no_copy=True)
    pictures = fn.resize(
        frames,
        size=(SIDE, SIDE),
        roi_start=per_frame("start"),
        roi_end=per_frame("end"),
        interp_type=types.INTERP_LINEAR,
        antialias=True,
    )
    if whole_chain:
        # A separate flip if later steps are not mirrored the same way; otherwise normalization flips too.
        pictures = fn.flip(pictures, horizontal=per_frame("flip"))
        pictures = fn.color_twist(
            pictures,
            brightness=per_frame("brightness"),
            contrast=per_frame("contrast"),
            saturation=per_frame("saturation"),
            hue=per_frame("hue"),
        )
        pictures = fn.rotate(
            pictures, angle=per_frame("angle"), keep_size=True, interp_type=types.INTERP_LINEAR, fill_value=0
        )
        pictures = fn.grid_mask(
            pictures, tile=per_frame("tile"), ratio=per_frame("ratio"), angle=per_frame("grid_angle")
        )
    return fn.crop_mirror_normalize(
        pictures,
        mean=(255 * MEAN).tolist(),
        std=(255 * STD).tolist(),
        mirror=0 if whole_chain else per_frame("flip"),
        output_layout="CHW",
        dtype=types.FLOAT,
    )


class Adapter(BaseAdapter):
    def __init__(self, inputs: Inputs) -> None:
        super().__init__(inputs)
        self.rgb = inputs.rgb()
        self.pipelines: dict[str, dali.Pipeline] = {}

    def version(self) -> str:
        return f"DALI {dali.__version__}"

    def prepare(self, case: str) -> None:
        self.case = case
        if case not in self.pipelines:
            self.pipelines[case] = resize_flip(
                whole_chain={"aug-flip": False, "aug-grid": True}[case],
                batch_size=CLIP,
                num_threads=1,
                device_id=None,
                exec_async=False,
                exec_pipelined=False,
                prefetch_queue_depth=1,
            )
            self.pipelines[case].build()

    def clip(self, frames: np.ndarray, number: int):
        draw = self.inputs.clips[number % len(self.inputs.clips)]
        left, top, width, height = draw.crop
        arguments = {
            "start": np.float32([top, left]),
            "end": np.float32([top + height, left + width]),
            "flip": np.int32(draw.flip),
        }
        if self.case == "aug-grid":
            arguments |= {
                "brightness": np.float32(draw.brightness),
                "contrast": np.float32(draw.contrast),
                "saturation": np.float32(draw.saturation),
                "hue": np.float32(-draw.hue),
                "angle": np.float32(draw.angle),
                "tile": np.int32(draw.grid_tile),
                "ratio": np.float32(draw.grid_ratio),
                "grid_angle": np.float32(math.radians(draw.grid_angle)),
            }
        pipeline = self.pipelines[self.case]
        pipeline.feed_input("frames", list(frames))
        for name, value in arguments.items():
            pipeline.feed_input(name, np.stack([value] * len(frames)))
        (out,) = pipeline.run()
        return out

    def run(self, ring: int, frames: int, first_clip: int) -> None:
        for n in range(0, frames, CLIP):
            self.clip(self.rgb[:CLIP], first_clip + n // CLIP)

    def check(self) -> np.ndarray:
        results = []
        for clip, index in enumerate(CHECKED_FRAMES):
            # A copy, since the next run overwrites it.
            results.append(np.array(self.clip(self.rgb[index : index + 1], clip).at(0)))
        return np.stack(results)
