"""Writes records of conversations with any number of videos and images, and makes the processor of Qwen2.5-VL."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import framespool as fsp
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2_5_VLProcessor, Qwen2VLImageProcessor, Qwen2VLVideoProcessor

#: Videos and images of the records, in turn; a record without any is text only.
COUNTS = ((1, 0), (0, 1), (2, 0), (0, 0), (1, 2), (0, 3))

#: Limits of the frames' sizes and the rate, as in the scripts of Qwen2.5-VL.
VIDEO = {"fps": 2.0, "max_frames": 32, "min_pixels": 16 * 28 * 28, "total_pixels": 2048 * 28 * 28}
IMAGE = {"min_pixels": 16 * 28 * 28, "max_pixels": 512 * 28 * 28}

_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>")


def write_records(folder: Path, videos: Sequence[Path], count: int) -> Path:
    """Writes a JSON-lines file with the keys `conversations`, `videos` and `images`, and the images.

    Args:
        folder: Where they are written.
        videos: The videos; the images are frames of them.
        count: Number of records.

    Returns:
        The file.
    """
    images = []
    for number, video in enumerate(videos):
        images.append(folder / f"{number}.jpg")
        Image.fromarray(fsp.Video(video, layout="THWC")[0].numpy()).save(images[-1], quality=90)
    files = {"videos": [str(video.resolve(strict=True)) for video in videos], "images": list(map(str, images))}
    taken, rows = {"videos": 0, "images": 0}, []
    for number in range(count):
        row: dict[str, Any] = {}
        for key, wanted in zip(files, COUNTS[number % len(COUNTS)], strict=True):
            row[key] = [files[key][(taken[key] + at) % len(videos)] for at in range(wanted)]
            taken[key] += wanted
        marks = "<image>" * len(row["images"]) + "<video>" * len(row["videos"])
        question = {"from": "human", "value": f"{marks}\nWhat is in record {number}?"}
        row["conversations"] = [question, {"from": "gpt", "value": f"The answer {number}."}]
        rows.append(row)
    path = folder / "sft.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def make_processor() -> Qwen2_5_VLProcessor:
    """The processor of Qwen2.5-VL as transformers has it; its tokens are the bytes of a text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({byte: number for number, byte in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=_SPECIAL[0], eos_token=_SPECIAL[2])
    fast.add_special_tokens({"additional_special_tokens": [*_SPECIAL, "<|image_pad|>", "<|video_pad|>"]})
    return Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(do_resize=False),
        tokenizer=fast,
        video_processor=Qwen2VLVideoProcessor(do_resize=False, do_sample_frames=False),
    )


def prompt(conversation: list[dict[str, str]]) -> str:
    """A conversation as the chat template of Qwen2.5-VL writes it."""
    turns = []
    for turn in conversation:
        text = turn["value"]
        for kind in ("image", "video"):
            text = text.replace(f"<{kind}>", f"<|vision_start|><|{kind}_pad|><|vision_end|>")
        role = "user" if turn["from"] == "human" else "assistant"
        turns.append(f"<|im_start|>{role}\n{text}<|im_end|>\n")
    return "".join(turns)
