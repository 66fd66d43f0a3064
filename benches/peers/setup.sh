#!/usr/bin/env bash
# Creates the peers' virtual environment, separate from the project's: their wheels take more than a gigabyte.
#
#   benches/peers/setup.sh              creates or updates benches/peers/.venv
#   benches/peers/setup.sh --dali       the same, and benches/peers/.venv-dali (0.9 GB) for index_cost.py
#
# PEERS_VENV selects another folder, PEERS_PYTHON another interpreter (the pins were tested with CPython 3.11).
# Nothing else is changed. A framespool wheel in target/wheels is installed too; run this again
# after each build.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
venv=${PEERS_VENV:-$here/.venv}

[ -x "$venv/bin/python" ] || "${PEERS_PYTHON:-python3}" -m venv "$venv"
python=$venv/bin/python
"$python" -m pip install --quiet --no-deps -r "$here/requirements.txt"
"$python" "$here/link_libraries.py"

# If there are several builds, use the newest.
wheel=$(ls -t "$here"/../../target/wheels/framespool-*.whl 2>/dev/null | head -n 1 || true)
if [ -n "$wheel" ]; then
  "$python" -m pip install --quiet --no-deps --force-reinstall "$wheel"
else
  echo "setup.sh: no framespool wheel in target/wheels (maturin build --release builds one); peers only"
fi

if [ "${1:-}" = --dali ]; then
  [ -x "$here/.venv-dali/bin/python" ] || "${PEERS_PYTHON:-python3}" -m venv "$here/.venv-dali"
  "$here/.venv-dali/bin/python" -m pip install --quiet --no-deps -r "$here/requirements-dali.txt"
fi

"$python" "$here/random_clips.py" --list
