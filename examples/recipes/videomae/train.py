"""Pre-trains a small VideoMAE with random weights on the batches of `ported.py`, and resumes after any batch.

python examples/recipes/videomae/train.py --stop-after 3 train.csv
python examples/recipes/videomae/train.py --resume train.csv
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

import ported
import torch
from transformers import VideoMAEConfig, VideoMAEForPreTraining


def make_model() -> VideoMAEForPreTraining:
    """A VideoMAE of one layer, for the frames and patches that are the defaults of its configuration."""
    return VideoMAEForPreTraining(
        VideoMAEConfig(
            hidden_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            decoder_hidden_size=16,
            decoder_num_hidden_layers=1,
            decoder_num_attention_heads=1,
            decoder_intermediate_size=16,
            hidden_dropout_prob=0.1,
        )
    )


def digest(*tensors: torch.Tensor) -> str:
    """Eight bytes of the SHA-256 of tensors, to compare runs bit for bit."""
    return hashlib.sha256(b"".join(tensor.detach().numpy().tobytes() for tensor in tensors)).hexdigest()[:16]


def main() -> None:
    """Trains, and prints a line for each batch and a digest of the parameters."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list", type=Path, help="text file with a path and a label on each line")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=2, help="clips of a batch, each with two views")
    parser.add_argument("--checkpoint", type=Path, default="checkpoint.pt")
    parser.add_argument("--stop-after", type=int, help="steps of the whole training after which to save and stop")
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoint")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    loader = ported.make_loader(arguments.list, num_workers=2, batch_size=arguments.batch_size)
    model = make_model().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=arguments.epochs * len(loader))
    stateful = {"model": model, "optimizer": optimizer, "schedule": schedule, "loader": loader}
    steps = 0
    if arguments.resume:
        checkpoint = torch.load(arguments.checkpoint)
        for name, each in stateful.items():
            each.load_state_dict(checkpoint[name])
        torch.set_rng_state(checkpoint["random"])
        steps = checkpoint["steps"]

    while loader.epoch < arguments.epochs:
        for batch in loader:
            batch = batch.torch()
            mask = batch["bool_masked_pos"]
            # The model takes (N, T, C, H, W).
            loss = model(batch.frames.transpose(1, 2), bool_masked_pos=mask).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            steps += 1
            chosen = digest(batch.indices, batch.geometry, mask)
            print(f"step {steps}: clips {batch.clip_ids.tolist()}, frames, crops and masks {chosen}, loss {loss:.6f}")
            if steps == arguments.stop_after:
                checkpoint = {name: each.state_dict() for name, each in stateful.items()}
                torch.save({**checkpoint, "random": torch.get_rng_state(), "steps": steps}, arguments.checkpoint)
                return
    print(f"parameters {digest(*model.parameters())}")


if __name__ == "__main__":
    main()
