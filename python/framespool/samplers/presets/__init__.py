"""The sampling of other codebases, index for index: a function for each, with the option names of the codebase.

Deterministic (test-time) sampling is reproduced exactly; random sampling exactly for the same draws. All functions
raise an `ArgumentError` if an option is invalid.
"""

from __future__ import annotations

from framespool.samplers.presets._cosmos_curate import cosmos_curate
from framespool.samplers.presets._dali import dali, dali_uniform_sample
from framespool.samplers.presets._ffmpeg import ffmpeg_fps
from framespool.samplers.presets._hf import hf, hf_internvl, hf_qwen2_vl, hf_qwen3_vl, hf_smolvlm
from framespool.samplers.presets._internvideo2 import internvideo2
from framespool.samplers.presets._lerobot import lerobot
from framespool.samplers.presets._llava_video import llava_video
from framespool.samplers.presets._mmaction2 import mmaction2, mmaction2_dense, mmaction2_uniform, mmaction2_untrimmed
from framespool.samplers.presets._pytorchvideo import pytorchvideo
from framespool.samplers.presets._qwen_vl import qwen_vl
from framespool.samplers.presets._slowfast import slowfast, slowfast_ssv2
from framespool.samplers.presets._torchcodec import (
    torchcodec_random_indices,
    torchcodec_random_timestamps,
    torchcodec_regular_indices,
    torchcodec_regular_timestamps,
)
from framespool.samplers.presets._torchvision import torchvision
from framespool.samplers.presets._tsn import tsn
from framespool.samplers.presets._videomae import videomae, videomae_pretrain, videomae_ssv2
from framespool.samplers.presets._vjepa2 import vjepa2
from framespool.samplers.presets._vllm import vllm

__all__ = [
    "cosmos_curate",
    "dali",
    "dali_uniform_sample",
    "ffmpeg_fps",
    "hf",
    "hf_internvl",
    "hf_qwen2_vl",
    "hf_qwen3_vl",
    "hf_smolvlm",
    "internvideo2",
    "lerobot",
    "llava_video",
    "mmaction2",
    "mmaction2_dense",
    "mmaction2_uniform",
    "mmaction2_untrimmed",
    "pytorchvideo",
    "qwen_vl",
    "slowfast",
    "slowfast_ssv2",
    "torchcodec_random_indices",
    "torchcodec_random_timestamps",
    "torchcodec_regular_indices",
    "torchcodec_regular_timestamps",
    "torchvision",
    "tsn",
    "videomae",
    "videomae_pretrain",
    "videomae_ssv2",
    "vjepa2",
    "vllm",
]
