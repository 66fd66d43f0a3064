"""The mutants of `scripts/dynamic_analysis.sh` apply to the current sources."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_loader_mutant_still_applies(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import loader_mutants

    assert len(loader_mutants.MUTANTS) > 10
    assert loader_mutants.inapplicable() == [], "the sources of these mutants have changed; update them"
    sys.modules.pop("loader_mutants")
