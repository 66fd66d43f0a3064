"""Trains a small rectified flow on latents of a small VAE: each clip is decoded and encoded once.

python examples/recipes/video_generation/train.py captions.jsonl --cache latents --checkpoint run.pt --stop-after 3
python examples/recipes/video_generation/train.py captions.jsonl --cache latents --checkpoint run.pt --resume
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import sys
from pathlib import Path

import ported
import torch
from framespool.torch import FeatureCache
from latents import Autoencoder, make_loader
from torch import nn

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
    parser.add_argument("--autoencoder-steps", type=int, default=40, help="steps of the training of the VAE before")
    parser.add_argument("--workers", type=int, help="threads that decode")
    parser.add_argument("--divisor", type=int, default=1, help="divides the sizes of the buckets")
    return parser.parse_args()


def main() -> None:
    """Trains, and prints the clips and the loss of each step."""
    options = arguments()
    sizes = [(height // options.divisor, width // options.divisor) for height, width in ported.SIZES]
    state = torch.load(options.checkpoint) if options.resume else None
    torch.manual_seed(0)
    autoencoder = Autoencoder()
    if state is not None:
        autoencoder.load_state_dict(state["autoencoder"])
    else:
        autoencoder.fit(options.path, sizes, options.autoencoder_steps, options.workers)
    # The version names what determines a latent apart from its clip.
    cache = FeatureCache(options.cache, name="VAE", version=autoencoder.version(), size="100GiB")
    loader = make_loader(options.path, cache, autoencoder.encode, sizes, BATCH_SIZE, options.workers)
    per_epoch = len(loader)
    print(f"{per_epoch} steps per epoch; too short: {[Path(video['path']).name for video in loader.loader.dropped()]}")

    torch.manual_seed(0)
    model = Flow()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs * per_epoch)
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    noise, step = torch.Generator().manual_seed(0), 0
    if state is not None:
        step = state["step"]
        noise.set_state(state["noise"])
        for name, part in parts.items():
            part.load_state_dict(state[name])
        loader.load_state_dict(state["loader"])

    last = min(options.epochs * per_epoch, options.stop_after)
    while step < last:
        epoch = step // per_epoch
        decoded = loader.stats()["frames_decoded"]
        for batch in itertools.islice(loader, last - step):
            mean, deviation = batch["features"].values()
            latents = mean + deviation * torch.randn(mean.shape, generator=noise)  # others in each epoch
            start, times = torch.randn(latents.shape, generator=noise), torch.rand(len(latents), generator=noise)
            mixed = torch.lerp(start, latents, times[:, None, None, None, None])
            loss = (model(mixed, times, batch["columns"]["caption"]) - (latents - start)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
            keys = [bytes(key).hex()[:16] for key in batch["content_keys"].tolist()]
            print(f"step {step} clips {keys} loss {loss.item():.9g}")
        counts, decoded = cache.stats(), loader.stats()["frames_decoded"] - decoded
        print(
            f"epoch {epoch}: {decoded} frames decoded; so far {counts['computed']} latents computed, "
            f"{counts['found']} found"
        )
    state = {name: part.state_dict() for name, part in {**parts, "autoencoder": autoencoder}.items()}
    state |= {"noise": noise.get_state(), "step": step, "loader": loader.state_dict()}
    torch.save(state, options.checkpoint)
    parameters = b"".join(value.detach().numpy().tobytes() for value in model.parameters())
    print(f"parameters {hashlib.sha256(parameters).hexdigest()}")


if __name__ == "__main__":
    main()
