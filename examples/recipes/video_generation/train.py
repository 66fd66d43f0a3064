"""Trains a small rectified flow on latents: each clip is decoded and encoded once, later epochs read its latent.

python examples/recipes/video_generation/train.py captions.jsonl --cache latents --checkpoint run.pt --stop-after 3
python examples/recipes/video_generation/train.py captions.jsonl --cache latents --checkpoint run.pt --resume
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

import ported
import torch
from framespool.torch import FeatureCache
from latents import Clips, latent_of
from torch import nn
from torch.utils.data import DataLoader

BATCH_SIZE = 2


class Flow(nn.Module):
    """Predicts the velocity of noisy latents (N, 4, T, H, W) at times (N,); a caption is a bag of its bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv3d(4, 16, 3, padding=1), nn.Conv3d(16, 4, 3, padding=1)
        self.text, self.time = nn.EmbeddingBag(256, 16), nn.Linear(1, 16)

    def forward(self, noisy: torch.Tensor, times: torch.Tensor, captions: list[str]) -> torch.Tensor:
        text = torch.cat([self.text(torch.tensor([list(caption.encode())])) for caption in captions])
        return self.last((self.first(noisy) + (text + self.time(times[:, None]))[..., None, None, None]).relu())


def arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="JSON Lines with the keys video and caption")
    parser.add_argument("--cache", type=Path, required=True, help="folder of the latents")
    parser.add_argument("--checkpoint", type=Path, required=True, help="file that is written at the end")
    parser.add_argument("--stop-after", type=int, default=sys.maxsize, help="number of steps after which to stop")
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoint")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=0, help="worker processes that decode")
    parser.add_argument("--divisor", type=int, default=1, help="divides the sizes of the buckets")
    return parser.parse_args()


def main() -> None:
    """Trains, and prints the clips and the loss of each step."""
    options = arguments()
    # The version names what determines a latent apart from its clip; the encoder below is drawn from this seed.
    cache = FeatureCache(options.cache, name="latents", version="seed 0", size="100GiB")
    clips = Clips(options.path, cache, [(h // options.divisor, w // options.divisor) for h, w in ported.SIZES])
    per_epoch = len(clips.batches(0, BATCH_SIZE))
    print(f"{per_epoch} steps per epoch; too short: {[Path(video['path']).name for video in clips.dropped]}")

    torch.manual_seed(0)
    encoder, model = nn.Conv3d(3, 4, (7, 8, 8), (7, 8, 8)), Flow()  # the encoder stands for that of a VAE
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs * per_epoch)
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    noise, step = torch.Generator().manual_seed(0), 0
    if options.resume:
        state = torch.load(options.checkpoint)
        step = state["step"]
        noise.set_state(state["noise"])
        for name, part in parts.items():
            part.load_state_dict(state[name])

    last = min(options.epochs * per_epoch, options.stop_after)
    while step < last:
        epoch, done = divmod(step, per_epoch)
        batches, decoded = clips.batches(epoch, BATCH_SIZE)[done : done + last - step], 0
        for items in DataLoader(clips, batch_sampler=batches, collate_fn=list, num_workers=options.workers):
            latents = torch.stack([latent_of(item, cache, encoder) for item in items])
            start, times = torch.randn(latents.shape, generator=noise), torch.rand(len(items), generator=noise)
            mixed = torch.lerp(start, latents, times[:, None, None, None, None])
            loss = (model(mixed, times, [item["caption"] for item in items]) - (latents - start)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
            decoded += sum("batch" in item for item in items)
            print(f"step {step} clips {[item['key'].hex()[:16] for item in items]} loss {loss.item():.9g}")
        print(f"epoch {epoch}: {decoded} clips decoded, {sum(map(len, batches)) - decoded} latents from the cache")
    state = {name: part.state_dict() for name, part in parts.items()}
    torch.save({**state, "noise": noise.get_state(), "step": step}, options.checkpoint)
    parameters = b"".join(value.detach().numpy().tobytes() for value in model.parameters())
    print(f"parameters {hashlib.sha256(parameters).hexdigest()}")


if __name__ == "__main__":
    main()
