"""Latents of clips: a small VAE, and batches of latents that decode only clips without one."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import framespool as fsp
import ported
import torch
from framespool.torch import FeatureCache, FeatureLoader
from torch import nn


class Autoencoder(nn.Module):
    """A VAE of clips (N, 3, T, H, W) with values from 0 to 1; a latent is (4, T/7, H/8, W/8)."""

    def __init__(self) -> None:
        super().__init__()
        patch = (7, 8, 8)
        self.encoder = nn.Sequential(nn.Conv3d(3, 32, patch, patch), nn.SiLU(), nn.Conv3d(32, 8, 1))
        self.decoder = nn.Sequential(nn.Conv3d(4, 32, 1), nn.SiLU(), nn.ConvTranspose3d(32, 3, patch, patch))

    def encode(self, frames: torch.Tensor) -> dict[str, torch.Tensor]:
        """The mean and the standard deviation of the latents."""
        # One clip at a time: the last bits of a latent may depend on the other clips of a batch.
        parts = torch.cat([self.encoder(clip[None] * 2 - 1) for clip in frames]).chunk(2, dim=1)
        return {"mean": parts[0], "deviation": torch.exp(parts[1].clamp(-20, 4) / 2)}

    def fit(self, path: Path, sizes: Any, steps: int, num_threads: int | None) -> None:
        """Trains on random parts of the clips."""
        part = fsp.transforms.RandomCrop(min(min(size) for size in sizes) // 8 * 8)
        loader = ported.make_loader(path, num_threads, True, sizes=sizes, transforms=[part], dtype="float32")
        batches = (batch for _ in iter(int, 1) for batch in loader)
        optimizer = torch.optim.AdamW(self.parameters(), 3e-3)
        for _, batch in zip(range(steps), batches, strict=False):
            frames = batch.torch().frames
            mean, deviation = self.encode(frames).values()
            again = self.decoder(mean + deviation * torch.randn_like(mean)) / 2 + 0.5
            divergence = (mean.square() + deviation.square() - 1).mean() / 2 - deviation.log().mean()
            loss = (again - frames).square().mean() + 1e-4 * divergence
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def version(self) -> str:
        """A digest of the weights: latents of others are computed again."""
        return hashlib.sha256(b"".join(value.numpy().tobytes() for value in self.state_dict().values())).hexdigest()


def make_loader(
    path: Path, cache: FeatureCache, encode: Any, sizes: Any, batch_size: int, num_threads: int | None
) -> FeatureLoader:
    """Batches with `features`, each of one size, in a random order."""
    loader = ported.make_loader(path, num_threads, False, batch_size, sizes, shuffle=True, dtype="float32")
    return FeatureLoader(loader, cache, encode)
