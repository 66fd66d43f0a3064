#!/usr/bin/env bash
# Tests with the oldest supported versions of the optional packages, in a virtual environment of their own (.venv-oldest, 2.9 GB).
#
#   scripts/test_oldest.sh                   the tests of all of them
#   scripts/test_oldest.sh TEST [OPTION...]  pytest's arguments, instead
#
# The environment is created when requirements-oldest.txt has changed, and contains the wheel that scripts/setup.sh built last.
# Its Python is 3.11, for which all these versions have wheels; without one the tests are skipped and reported.
# FRAMESPOOL_FRAMEWORKS=off skips them too.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "test_oldest: $*" >&2; }
if [ "${FRAMESPOOL_FRAMEWORKS:-on}" = off ]; then
  [ -z "${CI:-}" ] || { say "FRAMESPOOL_FRAMEWORKS=off, but CI must run these tests"; exit 2; }
  say "skipped, since FRAMESPOOL_FRAMEWORKS=off"
  exit 0
fi
# Not fetched: an unpacked Python has no venv.
base=$(scripts/pythons.sh --here 3.11) || {
  say "skipped, since there is no Python 3.11 here"
  [ -z "${FRAMESPOOL_OUTCOMES:-}" ] ||
    printf 'skipped\t%s\t%s\n' "oldest versions of the optional packages" "no Python 3.11 on this machine" >>"$FRAMESPOOL_OUTCOMES"
  exit 0
}
wheel=$(ls -t target/wheels/framespool-*.whl 2>/dev/null | head -n 1)
[ -n "$wheel" ] || { say "no wheel in target/wheels; run scripts/setup.sh first"; exit 2; }

venv=.venv-oldest python=.venv-oldest/bin/python
key=$({ "$base" -V && cat requirements-oldest.txt benches/peers/link_libraries.py; } | sha256sum)
if [ "$(cat $venv/requirements.sha256 2>/dev/null)" != "$key" ]; then
  began=$SECONDS
  rm -rf $venv
  "$base" -m venv $venv
  # Without dependencies: the file lists every package except the gigabytes of GPU libraries that torch requests.
  $python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --requirement requirements-oldest.txt </dev/null
  $python benches/peers/link_libraries.py
  echo "$key" >$venv/requirements.sha256
  say "installing took $((SECONDS - began)) s, $(du -sm $venv | cut -f1) MB"
fi
if ! cmp -s target/wheels/built $venv/wheel; then
  $python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps "$wheel" </dev/null
  cp target/wheels/built $venv/wheel
fi

export FRAMESPOOL_INDEX=off
tests=()
for name in tensor jax map_dataset trainer lerobot_frames in_memory_tables compat_transformers ray; do
  tests+=("tests/python/test_$name.py")
done
# Of the tests that start several processes, those of the functions that only Lightning and Accelerate call.
for name in "accelerate_delivers_every_clip_once[full]" "accelerate_saves_the_position_in_the_epoch[full]" \
  "lightning_resumes_in_the_middle_of_an_epoch[lightning.pytorch-full]" \
  "lightning_resumes_exactly_in_another_process[1]" "lightning_resumes_exactly_in_another_process[2]"; do
  tests+=("tests/python/test_torch.py::test_$name")
done
[ $# -eq 0 ] || tests=("$@")
exec $python -m pytest -n 2 --dist loadgroup "${tests[@]}"
