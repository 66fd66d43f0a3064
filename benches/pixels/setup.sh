#!/usr/bin/env bash
# Creates the environments for run.py: the peers' virtual environment (benches/peers/setup.sh), DALI's own, and the Rust worker.
#
#   benches/pixels/setup.sh             creates or updates all
#   benches/pixels/setup.sh --no-dali   skips DALI, about 1 GB
#
# PEERS_VENV and PEERS_PYTHON are those of benches/peers/setup.sh.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)

"$here/../peers/setup.sh"
if [ "${1:-}" != --no-dali ]; then
  venv=$here/.venv-dali
  [ -x "$venv/bin/python" ] || "${PEERS_PYTHON:-python3}" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --no-deps -r "$here/requirements-dali.txt"
fi
cargo build --release --locked --manifest-path "$here/Cargo.toml"
