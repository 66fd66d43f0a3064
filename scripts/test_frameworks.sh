#!/usr/bin/env bash
# Tests with PyTorch, Lightning, Accelerate, JAX, Ray, decord and torchcodec, in a virtual environment of their own. The other tests
# do not need these packages.
#
#   scripts/test_frameworks.sh                   all of them
#   scripts/test_frameworks.sh TEST [OPTION...]  pytest's arguments, instead of all
#   scripts/test_frameworks.sh runs COUNT        checks that many training runs, others each time; one in ten of them
#                                                with DataLoader, Lightning, Accelerate or Trainer
#
# The environment (.venv-frameworks, 2.8 GB) is created when requirements-frameworks.txt has changed. It contains the wheel that
# scripts/setup.sh built last. FRAMESPOOL_FRAMEWORKS=off skips everything and reports it; with CI set the tests must run.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${FRAMESPOOL_FRAMEWORKS:-on}" = off ]; then
  [ -z "${CI:-}" ] || { echo "test_frameworks: FRAMESPOOL_FRAMEWORKS=off, but CI must run these tests" >&2; exit 2; }
  echo "test_frameworks: skipped, since FRAMESPOOL_FRAMEWORKS=off"
  exit 0
fi
[ -x .venv/bin/python ] && compgen -G 'target/wheels/framespool-*.whl' >/dev/null ||
  { echo "test_frameworks: no .venv or no wheel in target/wheels; run scripts/setup.sh first" >&2; exit 2; }

venv=.venv-frameworks
python=$venv/bin/python

# Checksum of everything that determines the environment. Written last, so that an interrupted installation is repeated.
key=$({ .venv/bin/python -V && cat requirements-frameworks.txt requirements-demo.txt requirements-dev.txt benches/peers/link_libraries.py; } | sha256sum)
if [ "$(cat $venv/requirements.sha256 2>/dev/null)" != "$key" ]; then
  began=$SECONDS
  rm -f $venv/requirements.sha256
  "$python" -m pip --version >/dev/null 2>&1 || { rm -rf $venv && .venv/bin/python -m venv $venv; }
  # The versions of the other tests. pip accepts no extras in constraints.
  sed 's/\[[^]]*\]//' requirements-dev.txt >$venv/constraints.txt
  # Without dependencies: the file lists every package except the gigabytes of GPU libraries that torch requests.
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
  # If there are several builds, use the newest.
  "$python" -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps \
    "$(ls -t target/wheels/framespool-*.whl | head -n 1)" </dev/null
  cp target/wheels/built $venv/wheel
fi

# The other tests run the pages that need nothing of this environment.
export FRAMESPOOL_INDEX=off FRAMESPOOL_PAGES=frameworks
# torchcodec contains no FFmpeg: it uses the one of PyAV, to which link_libraries.py adds the plain file names.
export LD_LIBRARY_PATH=$PWD/$venv/lib/ffmpeg:$(echo "$PWD/$venv"/lib/python*/site-packages/av.libs)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
if [ "${1:-}" = runs ]; then
  count=${2:?the number of runs}
  failed=0
  "$python" tests/python/training_runs.py --runs $((count - count / 10)) || failed=$?
  "$python" tests/python/framework_runs.py --runs $((count / 10)) || failed=$?
  exit "$failed"
fi
tests=()
# Pages of README.md and docs/ need some of these packages too, and tests of tables write files with
# pyarrow.
for name in torch torch_datasets feature_cache feature_loader map_dataset trainer training_runs framework_runs torchvision torchvision_augment torchvision_drawn installed_peers training tensor compat_decord compat_torchcodec compat_torchcodec_images compat_torchvision compat_qwen_vl_utils compat_transformers serving recipes recipe_trainings jax ray ray_data ray_faults docs docstrings migrating tables in_memory_tables collate file_objects arrow lerobot lerobot_frames sampler_orders streams notebook; do
  [ ! -e "tests/python/test_$name.py" ] || tests+=("tests/python/test_$name.py")
done
[ $# -eq 0 ] || tests=("$@")
# All tests of a file in one process, and all tests that start Ray in one (tests/python/conftest.py). One process more than
# the cores, since many tests wait for processes that they start.
exec "$python" -m pytest -n $(($(nproc) + 1)) --dist loadgroup "${tests[@]}"
