"""The virtual environments of the programs, created by their own setup scripts if they are missing or outdated."""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Missing(RuntimeError):
    """An environment is not available; the others continue."""


@dataclass(frozen=True)
class Environment:
    name: str
    folder: Path
    setup: list[str]
    #: Files that determine what is installed, in addition to the wheel.
    sources: list[str]
    #: Other environments that the setup fills too.
    extra_folders: list[Path]
    gigabytes: float

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def stamp(self) -> Path:
        """Checksum of what was installed last. Several setups may fill one folder."""
        return self.folder / f"bench-{self.name}.sha256"

    def key(self) -> str:
        """Checksum of everything installed, including framespool's wheel (`built`, written by scripts/setup.sh)."""
        digest = hashlib.sha256()
        for path in (*(ROOT / source for source in self.sources), ROOT / "target" / "wheels" / "built"):
            digest.update(path.read_bytes() if path.exists() else b"-")
        return digest.hexdigest()

    def ready(self) -> bool:
        there = all((folder / "bin" / "python").exists() for folder in (self.folder, *self.extra_folders))
        return there and self.stamp.exists() and self.stamp.read_text() == self.key()

    def make(self, log: Path) -> None:
        """Runs the setup if needed. Raises Missing with the log's last line."""
        if self.ready():
            return
        key = self.key()
        with log.open("w") as out:
            code = subprocess.run(self.setup, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out).returncode
        output = log.read_text(errors="replace").strip().splitlines()
        if code or not self.python.exists():
            raise Missing(f"{' '.join(self.setup)} ended with code {code}: {output[-1] if output else 'no output'}")
        self.stamp.write_text(key)


def _folder(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable) or ROOT / default)


def environments() -> dict[str, Environment]:
    """By the name that benches.py uses. PEERS_VENV and IMAGES_VENV are those of the setup scripts."""
    peers = _folder("PEERS_VENV", "benches/peers/.venv")
    of_peers = ["benches/peers/setup.sh", "benches/peers/requirements.txt", "benches/peers/link_libraries.py"]
    of_images = ["benches/images/setup.sh", "benches/images/requirements.txt", "benches/images/requirements-dali.txt"]
    of_pixels = [
        *of_peers,
        "benches/pixels/setup.sh",
        "benches/pixels/requirements-dali.txt",
        "benches/pixels/Cargo.lock",
    ]
    made = (
        Environment("peers", peers, ["benches/peers/setup.sh"], of_peers, [], 1.9),
        Environment(
            "peers-dali",
            peers,
            ["benches/peers/setup.sh", "--dali"],
            [*of_peers, "benches/peers/requirements-dali.txt"],
            [ROOT / "benches/peers/.venv-dali"],
            0.9,
        ),
        Environment(
            "images",
            _folder("IMAGES_VENV", "benches/images/.venv"),
            ["benches/images/setup.sh"],
            of_images,
            [ROOT / "benches/images/.venv-dali"],
            2.8,
        ),
        Environment("pixels", peers, ["benches/pixels/setup.sh"], of_pixels, [ROOT / "benches/pixels/.venv-dali"], 1.0),
        # `pytest --version` sets everything up and runs no test.
        Environment(
            "frameworks",
            ROOT / ".venv-frameworks",
            ["scripts/test_frameworks.sh", "--version"],
            ["requirements-frameworks.txt", "requirements-demo.txt", "requirements-dev.txt"],
            [],
            2.6,
        ),
    )
    return {environment.name: environment for environment in made}
