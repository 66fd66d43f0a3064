#!/usr/bin/env bash
# Makes the peers' own virtual environment, apart from the project's: their wheels weigh a gigabyte and more.
#
#   benches/peers/setup.sh              makes or refreshes benches/peers/.venv
#   benches/peers/setup.sh --dali       the same, and benches/peers/.venv-dali (0.9 GB) for index_cost.py
#
# PEERS_VENV chooses another place, PEERS_PYTHON another interpreter (CPython 3.11 is what the pins were tried with).
# Nothing outside that folder is changed. A wheel of framespool in target/wheels is installed too; run this again
# after each build.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
venv=${PEERS_VENV:-$here/.venv}

[ -x "$venv/bin/python" ] || "${PEERS_PYTHON:-python3}" -m venv "$venv"
python=$venv/bin/python
"$python" -m pip install --quiet --no-deps -r "$here/requirements.txt"
"$python" "$here/link_libraries.py"

# Several builds may lie there: the newest is the one meant.
wheel=$(ls -t "$here"/../../target/wheels/framespool-*.whl 2>/dev/null | head -n 1 || true)
if [ -n "$wheel" ]; then
  "$python" -m pip install --quiet --no-deps --force-reinstall "$wheel"
else
  echo "setup.sh: no framespool wheel in target/wheels (maturin build --release makes one); peers only"
fi

if [ "${1:-}" = --dali ]; then
  [ -x "$here/.venv-dali/bin/python" ] || "${PEERS_PYTHON:-python3}" -m venv "$here/.venv-dali"
  "$here/.venv-dali/bin/python" -m pip install --quiet --no-deps -r "$here/requirements-dali.txt"
fi

"$python" "$here/random_clips.py" --list
