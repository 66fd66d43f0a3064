"""VideoDataset in the Trainer of Hugging Face's transformers; skipped if that is not installed."""

from __future__ import annotations

import sys
from pathlib import Path

import framespool as fsp
import pytest

# transformers looks for the package `datasets`, and the repository has a folder of that name.
ROOT = Path(__file__).resolve().parents[2]
sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != ROOT]
sys.modules.pop("datasets", None)
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")

from framespool.torch import VideoDataset  # noqa: E402
from transformers import Trainer, TrainerCallback, TrainingArguments  # noqa: E402

T = fsp.transforms


class Model(torch.nn.Module):
    """Classifies clips; records what it was given while training."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(3, 13)
        self.seen = []

    def forward(self, pixel_values, labels, clip_ids):
        logits = self.linear(pixel_values.float().mean(dim=(1, 3, 4)))
        if self.training:
            self.seen.append((clip_ids.tolist(), round(float(pixel_values.float().mean()), 4)))
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


def collate(items):
    batch = torch.utils.data.default_collate(items)
    return {"pixel_values": batch["frames"], "labels": batch["labels"], "clip_ids": batch["clip_ids"]}


class Interruption(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.global_step == self.step
        return control


def train(short_clips, folder, workers, resume=None, stop=None):
    clips = VideoDataset(
        short_clips,
        fsp.samplers.RandomClips(sequence_length=4),
        transforms=[T.RandomResizedCrop(16)],
        dtype="float32",
        seed=1,
        index=False,
    )
    model = Model()
    options = TrainingArguments(
        str(folder),
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        num_train_epochs=3,
        save_steps=2,
        logging_steps=1000,
        learning_rate=0.05,
        dataloader_num_workers=workers,
        dataloader_persistent_workers=workers > 0,
        remove_unused_columns=False,
        report_to=[],
        use_cpu=True,
        seed=3,
    )
    trainer = Trainer(
        model,
        options,
        data_collator=collate,
        train_dataset=clips,
        eval_dataset=clips,
        callbacks=[clips.trainer_callback(), *([Interruption(stop)] if stop else [])],
    )
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    return model, trainer


@pytest.mark.parametrize("workers", [0, 2])
def test_training_and_resuming_within_an_epoch(short_clips, tmp_path, workers):
    whole, trainer = train(short_clips, tmp_path / "whole", workers)
    epochs = [whole.seen[at : at + 4] for at in range(0, 12, 4)]  # 13 clips in batches of 4
    assert len(whole.seen) == 12
    assert all(sorted(clip for ids, _ in epoch for clip in ids) == list(range(13)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    # Each epoch crops the same clip in another place.
    assert len({clip_mean(epoch) for epoch in epochs}) == 3
    assert trainer.evaluate()["eval_loss"] > 0
    interrupted, _ = train(short_clips, tmp_path / "parts", workers, stop=6)
    resumed, _ = train(short_clips, tmp_path / "parts", workers, resume=tmp_path / "parts" / "checkpoint-6")
    assert interrupted.seen + resumed.seen == whole.seen
    assert torch.equal(resumed.linear.weight, whole.linear.weight)


def clip_mean(epoch):
    return sum(mean for _, mean in epoch)
