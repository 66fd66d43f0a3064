#!/usr/bin/env bash
# The tests of the GPU path, on the simulated driver, which this script builds; with FRAMESPOOL_GPU=real on the real GPU.
#
#   scripts/test_gpu.sh          all of them
#   scripts/test_gpu.sh corpus   only those that read every video and image, for a run with FRAMESPOOL_CORPUS
#   scripts/test_gpu.sh modes    under each mode of the simulated driver (tests/simulated_gpu/src/lib.rs) and under three
#                                random combinations of them, two at a time; prints a table
#
# FRAMESPOOL_GPU_LONG=1 tests more of every video.
#
# All tests under all modes take 40 minutes. So that they take four, each mode runs the tests on another part of the videos,
# and without those that inject a fault into each call, that count calls, or that compare transforms, which no mode
# concerns; nvJPEG is tested in the one mode that concerns its uploads. In Python only test_gpu.py runs, since the other files
# test the scripts for a GPU machine, images and page locks, and only where a loader differs in its results or counters.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/env.sh

if [ "${FRAMESPOOL_GPU:-simulated}" = simulated ]; then
  folder=$(tests/simulated_gpu/build.sh)
  # Only for the tests, not for the build: compilers must not load a simulated driver.
  export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="env LD_LIBRARY_PATH=$folder"
  python=(env "LD_LIBRARY_PATH=$folder" python)
else
  python=(python)
fi
export FRAMESPOOL_GPU_TESTS=1 FRAMESPOOL_INDEX=off

rust=(cargo test ${CI:+--locked} --workspace --features framespool-kernels/shim)

# Runs the tests under one mode, as part $2 of $3, with variables $4...; prints a line of the table.
test_mode() {
  local name=$1 part=$2/$3 log=$logs/$1.txt begun=$SECONDS code=0 again='' skip=(--skip jpeg::) counts
  local pytest=("${python[@]}" -m pytest -q tests/python/gpu/test_gpu.py -k "not 8_bit_codes and not several_passes")
  shift 3
  if [ "$name" = pageable_waits ]; then skip=(); fi
  for omitted in failing_calls_give one_failing_call driver_calls:: uploaded_frames_equal; do skip+=(--skip "$omitted"); done
  case $name in
  unmapped_overwritten | status_after_map | failing_create | combination_*) ;;
  *) pytest=() ;;
  esac
  run_tests() {
    code=0
    : >"$log"
    for test in "${tests[@]}"; do
      env "$@" "LD_LIBRARY_PATH=$folder" "FRAMESPOOL_GPU_PART=$part" "$test" "${skip[@]}" >>"$log" 2>&1 || code=1
    done
    [ ${#pytest[@]} = 0 ] || env "$@" "${pytest[@]}" >>"$log" 2>&1 || code=1
    # What failed, for a reader of this output alone.
    [ $code = 0 ] || grep -nE -A4 '\.\.\. FAILED|panicked at|^(FAILED|ERROR|E ) ' "$log" | head -n 60 >&2 || true
  }
  run_tests "$@"
  if [ $code != 0 ]; then
    # A failure that does not recur is reported and does not fail the run: modes change the order of threads.
    cp "$log" "${log%.txt}-first.txt"
    again=", but FAILED at first, see ${log%.txt}-first.txt"
    run_tests "$@"
  fi
  # "test result: ok. 7 passed; 0 failed" and "71 passed, 3 skipped".
  counts=$(awk '/^test result|passed.* in [0-9]|failed.* in [0-9]/ {
      for (i = 2; i <= NF; i++) { if ($i ~ /^passed/) passed += $(i - 1); if ($i ~ /^failed/) failed += $(i - 1) }
    } END { printf "%6d  %6d", passed, failed }' "$log")
  printf '%-22s %s  %7d  %s\n' "$name" "$counts" $((SECONDS - begun)) "$([ $code = 0 ] && echo "ok$again" || echo "FAILED, see $log")"
  return $code
}

modes() {
  local names name part=0 parts failed=0
  unset FRAMESPOOL_OUTCOMES # the tests that are skipped here run without a mode
  logs=target/gpu-modes
  mkdir -p "$logs"
  mapfile -t tests < <("${rust[@]}" --test device --test gpu --no-run 2>&1 | sed -n 's/.*Executable .*(\(.*\))$/\1/p')
  [ ${#tests[@]} = 2 ] || { echo "test_gpu: the tests do not build" >&2; return 1; }
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
    if [ "$part" -ge 2 ]; then wait -n || failed=1; fi
    # shellcheck disable=SC2086 # a name and variables
    set -- ${runs[part]}
    test_mode "$1" "$part" "$parts" "${@:2}" &
  done
  wait -n || failed=1
  wait -n || failed=1
  printf '%d seconds\n' $SECONDS
  return $failed
}

case ${1:-} in
corpus) exec "${rust[@]}" --test gpu -- video::every_video jpeg::every_good_file jpeg::odd_files ;;
modes)
  [ -n "${folder:-}" ] || { echo "test_gpu: modes need the simulated driver" >&2; exit 2; }
  modes
  exit
  ;;
esac
"${rust[@]}" --test device --test gpu
"${python[@]}" -m pytest tests/python/gpu
