#!/usr/bin/env bash
# Tests with PyTorch, Lightning, Accelerate, JAX, Ray, decord and torchcodec, which the others do without, in a virtual environment
# of their own.
#
#   scripts/test_frameworks.sh                   all of them
#   scripts/test_frameworks.sh TEST [OPTION...]  pytest's arguments instead
#
# The environment (.venv-frameworks, 2.8 GB) is made when requirements-frameworks.txt has changed, and holds the wheel that
# scripts/setup.sh built last. FRAMESPOOL_FRAMEWORKS=off leaves everything out and says so; with CI set it must run.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${FRAMESPOOL_FRAMEWORKS:-on}" = off ]; then
  [ -z "${CI:-}" ] || { echo "test_frameworks: FRAMESPOOL_FRAMEWORKS=off, but CI must run these tests" >&2; exit 2; }
  echo "test_frameworks: left out, since FRAMESPOOL_FRAMEWORKS=off"
  exit 0
fi
[ -x .venv/bin/python ] && compgen -G 'target/wheels/framespool-*.whl' >/dev/null ||
  { echo "test_frameworks: no .venv or no wheel in target/wheels; run scripts/setup.sh first" >&2; exit 2; }

venv=.venv-frameworks
python=$venv/bin/python

# What decides what is installed, as one number. It is written last, so that what was interrupted is done again.
key=$({ .venv/bin/python -V && cat requirements-frameworks.txt requirements-demo.txt requirements-dev.txt benches/peers/link_libraries.py; } | sha256sum)
if [ "$(cat $venv/requirements.sha256 2>/dev/null)" != "$key" ]; then
  began=$SECONDS
  rm -f $venv/requirements.sha256
  "$python" -m pip --version >/dev/null 2>&1 || { rm -rf $venv && .venv/bin/python -m venv $venv; }
  # The versions that the other tests have. pip takes no extras in constraints.
  sed 's/\[[^]]*\]//' requirements-dev.txt >$venv/constraints.txt
  # Without dependencies: every package is in the list, but for the gigabytes of GPU libraries that torch asks for.
  "$python" -m pip install --quiet --disable-pip-version-check --no-deps \
    --constraint $venv/constraints.txt --requirement requirements-frameworks.txt </dev/null
  "$python" benches/peers/link_libraries.py
  "$python" - <<'PROGRAM'
import accelerate, decord, imageio_ffmpeg, jax, lightning.pytorch, pyarrow, pytorch_lightning, ray, torch, torchdata  # noqa: F401
PROGRAM
  echo "$key" >$venv/requirements.sha256
  echo "test_frameworks: installing took $((SECONDS - began)) s, $(du -sm $venv | cut -f1) MB" >&2
fi
if ! cmp -s target/wheels/built $venv/wheel; then
  # Several builds may lie there: the newest is the one meant.
  "$python" -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps \
    "$(ls -t target/wheels/framespool-*.whl | head -n 1)" </dev/null
  cp target/wheels/built $venv/wheel
fi

# Pages that need nothing of this environment are run by the other tests.
export FRAMESPOOL_INDEX=off FRAMESPOOL_PAGES=frameworks
# torchcodec brings no FFmpeg: it takes the one of PyAV, which link_libraries.py gave its plain names.
export LD_LIBRARY_PATH=$PWD/$venv/lib/ffmpeg:$(echo "$PWD/$venv"/lib/python*/site-packages/av.libs)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
tests=()
# Pages of README.md and docs/ need some of these packages too, and tests of tables write them with
# pyarrow.
for name in torch training tensor compat jax ray docs tables arrow lerobot; do
  [ ! -e "tests/python/test_$name.py" ] || tests+=("tests/python/test_$name.py")
done
[ $# -eq 0 ] || tests=("$@")
# A file's tests in one process, and all that start Ray in one (tests/python/conftest.py).
exec "$python" -m pytest -n 2 --dist loadgroup "${tests[@]}"
