"""What `scripts/proof.sh` needs to be able to prove something."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_mistake_that_the_model_must_notice_still_has_its_place(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import proof_mutants

    assert len(proof_mutants.MUTANTS) > 10
    assert proof_mutants.misplaced() == [], "the sources have changed there; write these mistakes anew"
    sys.modules.pop("proof_mutants")
