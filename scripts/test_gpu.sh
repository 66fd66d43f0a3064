#!/usr/bin/env bash
# The tests of the GPU path, on the simulated driver, which this script builds; with FRAMESPOOL_GPU=real on the real GPU.
#
#   scripts/test_gpu.sh               all of them
#   scripts/test_gpu.sh -k NAME       those with NAME in their name, in Rust and in Python
#   scripts/test_gpu.sh corpus        only those that read every video and image, for a run with FRAMESPOOL_CORPUS
#   scripts/test_gpu.sh modes [MODE]  under each mode of the simulated driver (tests/simulated_gpu/src/lib.rs) and under three
#                                     random combinations of them, or under one; prints a table
#
# FRAMESPOOL_GPU_LONG=1 tests more of every video.
#
# The Python tests import the installed framespool, or the one that PYTHONPATH names. The first line of output says which.
#
# All tests under all modes take 40 minutes. So that they take about five, each mode runs the tests on another part of the videos,
# and without those that inject a fault into each call, that count calls, or that compare transforms, which no mode
# concerns; nvJPEG is tested in the one mode that concerns its uploads. In Python only test_gpu.py runs, since the other files
# test the scripts for a GPU machine, images and page locks, and only where a loader differs in its results or counters.
#
# Each Rust test runs in a process of its own (cargo-nextest): the driver's state, such as the number of decoders created so
# far, is the same in every run.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/env.sh
export FRAMESPOOL_GPU_TESTS=1 FRAMESPOOL_INDEX=off

nextest=(cargo nextest run ${CI:+--locked} --workspace --features framespool-kernels/shim --test device --test gpu)
if [ "${FRAMESPOOL_GPU:-simulated}" = simulated ]; then
  folder=$(tests/simulated_gpu/build.sh)
  # Only for the tests, not for the build: compilers must not load a simulated driver.
  export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="env LD_LIBRARY_PATH=$folder"
  python=(env "LD_LIBRARY_PATH=$folder" python)
  parallel=$(nproc)
else
  nextest+=(--test-threads 1) # tests of one GPU's memory
  python=(python)
fi

[ "${1:-}" = corpus ] || "${python[@]}" - <<'PROGRAM'
import importlib.util
import os

package = importlib.util.find_spec("framespool")
folder = os.path.dirname(package.origin) if package else "no folder: it is not installed"
named = [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
how = "named by PYTHONPATH" if os.path.dirname(folder) in named else "the installed one; PYTHONPATH selects another"
print(f"test_gpu: the Python tests import framespool from {folder} ({how})", flush=True)
PROGRAM

# Runs the tests under mode $1, as part $2 of $3, with variables $4...; prints a line of the table.
test_mode() {
  local name=$1 part=$2/$3 log=$logs/$1.txt begun=$SECONDS code=0 counts
  local omitted='test(/failing_calls_give|one_failing_call|driver_calls::|uploaded_frames_equal/)'
  local pytest=("${python[@]}" -m pytest -q -p no:cacheprovider tests/python/gpu/test_gpu.py -k "not 8_bit_codes and not several_passes")
  shift 3
  [ "$name" = pageable_waits ] || omitted+=' + test(/^jpeg::/)'
  case $name in
  unmapped_overwritten | status_after_map | failing_create | combination_*) ;;
  *) pytest=() ;;
  esac
  printf '%s\n' "$*" >"$log"
  env "$@" "FRAMESPOOL_GPU_PART=$part" "${nextest[@]}" --binaries-metadata "$logs/binaries.json" --cargo-metadata "$logs/cargo.json" \
    --test-threads 1 --status-level pass -E "all() - ($omitted)" >>"$log" 2>&1 || code=1
  [ ${#pytest[@]} = 0 ] || env "$@" "${pytest[@]}" >>"$log" 2>&1 || code=1
  # What failed, for a reader of this output alone.
  [ $code = 0 ] || grep -nE -A4 'FAIL \[|panicked at|^(FAILED|ERROR|E ) ' "$log" | head -n 60 >&2 || true
  # "Summary [   9.041s] 55 tests run: 54 passed, 1 failed, 3 skipped" and "71 passed, 3 skipped in 9.1s".
  counts=$(awk '/Summary \[|(passed|failed).* in [0-9]/ {
      for (i = 2; i <= NF; i++) { if ($i ~ /^passed/) passed += $(i - 1); if ($i ~ /^failed/) failed += $(i - 1) }
    } END { printf "%6d  %6d", passed, failed }' "$log")
  printf '%-22s %s  %7d  %s\n' "$name" "$counts" $((SECONDS - begun)) "$([ $code = 0 ] && echo ok || echo "FAILED, see $log")"
  return $code
}

modes() {
  local names name part=0 parts failed=0 running=0
  unset FRAMESPOOL_OUTCOMES # the tests that are skipped here run without a mode
  logs=target/gpu-modes
  mkdir -p "$logs"
  # Built once; each mode runs the same programs.
  cargo metadata --format-version 1 ${CI:+--locked} >"$logs/cargo.json"
  "${nextest[@]/#run/list}" --list-type binaries-only --message-format json >"$logs/binaries.json"
  nextest=(cargo nextest run)
  names=$("${python[@]}" -c "import ctypes
driver = ctypes.CDLL('libcuda.so.1')
driver.simulated_gpu_modes.restype = ctypes.c_char_p
print(driver.simulated_gpu_modes().decode().replace(',', ' '))")
  # Each line: name and variables.
  local runs=("unmapped_overwritten FRAMESPOOL_GPU_DISABLE=early-unmap" minimum_zero)
  for name in $names; do runs+=("$name"); done
  for name in "${runs[@]}"; do runs[part]="$name FRAMESPOOL_SIMULATED_BEHAVIORS=${name%% *}" && part=$((part + 1)); done
  for name in 1 2 3; do runs+=("combination_$name FRAMESPOOL_SIMULATED_MODES=$name"); done
  parts=${#runs[@]}
  printf '%-22s %6s  %6s  %7s\n' mode passed failed seconds
  for part in "${!runs[@]}"; do
    # shellcheck disable=SC2086 # a name and variables
    set -- ${runs[part]}
    [ -z "$only" ] || [ "$1" = "$only" ] || continue
    if [ "$running" = 2 ]; then
      wait -n || failed=1
      running=1
    fi
    test_mode "$1" "$part" "$parts" "${@:2}" &
    running=$((running + 1))
  done
  [ "$running" != 0 ] || { echo "test_gpu: no mode '$only'; one of: $(for name in "${runs[@]}"; do printf '%s ' "${name%% *}"; done)" >&2; exit 2; }
  while [ "$running" != 0 ]; do
    wait -n || failed=1
    running=$((running - 1))
  done
  printf '%d seconds\n' $SECONDS
  return $failed
}

case ${1:-} in
corpus) exec "${nextest[@]}" -E 'test(/video::every_video|jpeg::every_good_file|jpeg::odd_files/)' ;;
modes)
  [ -n "${folder:-}" ] || { echo "test_gpu: modes need the simulated driver" >&2; exit 2; }
  only=${2:-}
  modes
  exit
  ;;
-k)
  [ -n "${2:-}" ] || { echo "test_gpu: -k needs a name" >&2; exit 2; }
  "${nextest[@]}" --no-tests pass "$2"
  code=0
  "${python[@]}" -m pytest tests/python/gpu -k "$2" || code=$?
  [ $code = 5 ] || exit $code # 5: no Python test has this name
  exit
  ;;
'') ;;
*) echo "test_gpu: unknown argument '$1'; one of -k NAME, corpus, modes" >&2; exit 2 ;;
esac
"${nextest[@]}"
"${python[@]}" -m pytest ${parallel:+-n "$parallel"} tests/python/gpu
