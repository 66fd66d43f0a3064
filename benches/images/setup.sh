#!/usr/bin/env bash
# Creates the environments for run.py: the peers' virtual environment (1.8 GB), and DALI's own (1 GB).
#
#   benches/images/setup.sh             creates or updates both
#   benches/images/setup.sh --no-dali   skips DALI's
#
# IMAGES_VENV selects another folder, PEERS_PYTHON another interpreter (the pins were tested with CPython 3.11).
# Nothing else is changed. The newest framespool wheel in target/wheels is installed too; run this
# again after each build.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
venv=${IMAGES_VENV:-$here/.venv}

[ -x "$venv/bin/python" ] || "${PEERS_PYTHON:-python3}" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --no-deps -r "$here/requirements.txt"
"$venv/bin/python" "$here/../peers/link_libraries.py"

wheel=$(ls -t "$here"/../../target/wheels/framespool-*.whl 2>/dev/null | head -n 1 || true)
if [ -n "$wheel" ]; then
  "$venv/bin/python" -m pip install --quiet --no-deps --force-reinstall "$wheel"
else
  echo "setup.sh: no framespool wheel in target/wheels (maturin build --release builds one); peers only"
fi

if [ "${1:-}" != --no-dali ]; then
  dali=$here/.venv-dali
  [ -x "$dali/bin/python" ] || "${PEERS_PYTHON:-python3}" -m venv "$dali"
  "$dali/bin/python" -m pip install --quiet --no-deps -r "$here/requirements-dali.txt"
fi
