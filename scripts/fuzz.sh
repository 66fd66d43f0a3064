#!/usr/bin/env bash
# Fuzzing with arbitrary bytes and arguments (tests/fuzz).
#
#   scripts/fuzz.sh check                     one minute for CI: earlier findings, seeds, mutated seeds
#   scripts/fuzz.sh plain SECONDS [TARGET…]   mutated seeds, SECONDS per target; without instrumentation, on any toolchain
#   scripts/fuzz.sh guided SECONDS [TARGET…]  coverage-guided with libFuzzer, on the stable toolchain
#   scripts/fuzz.sh show TARGET FILE…         runs one input and prints the result
#
# Failing inputs and their messages are written to target/fuzz. Inputs that reach new code are stored in
# target/fuzz/corpus and used by the next run. FUZZ_JOBS processes run in parallel (default: the number of cores).
set -euo pipefail
cd "$(dirname "$0")/.."

goal=${1:-}
case $goal in
check | plain | guided | show) shift ;;
*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
esac

[ "$goal" = show ] || scripts/setup.sh tools
source scripts/env.sh
locked=${CI:+--locked}
here=$PWD/target/fuzz
mkdir -p "$here"
# Targets write one file per input, which is fast in memory.
[ -w /dev/shm ] && export TMPDIR=/dev/shm
# Limits allocations of C code, which has no other limit.
ulimit -v $((16 << 20))

export FRAMESPOOL_FUZZ_SEEDS=$here/seeds
if [ "$goal" != show ]; then
  rm -rf "$FRAMESPOOL_FUZZ_SEEDS"
  python tests/fuzz/seeds.py "$FRAMESPOOL_FUZZ_SEEDS"
fi

# Same settings as the Rust tests, so that nothing is built twice; overflows are errors in this profile.
# shellcheck disable=SC2086
plain() { cargo run --quiet --profile test $locked -p framespool-fuzz --bin fuzz -- "$@"; }

case $goal in
check)
  # All packages and features of the Rust tests, so that their builds are reused.
  # shellcheck disable=SC2086
  FRAMESPOOL_FUZZ_SECONDS=${FUZZ_SECONDS:-60} cargo test --workspace --features framespool-kernels/shim $locked --test replay -- --nocapture
  ;;
show) plain show "$@" ;;
plain)
  seconds=${1:?seconds for each target}
  shift
  plain run --seconds "$seconds" --seed "${FUZZ_SEED:-$RANDOM}" --keep "$here" "$@"
  ;;
guided)
  seconds=${1:?seconds for each target}
  shift
  # shellcheck disable=SC2086
  RUSTC_WORKSPACE_WRAPPER=$PWD/tests/fuzz/rustc.sh \
    cargo build --profile test $locked -p framespool-fuzz --features guided --bin guided
  plain seeds "$here/begin"
  built=${CARGO_TARGET_DIR:-target}/debug/guided
  [ $# -gt 0 ] || mapfile -t targets < <(plain list | cut -d' ' -f1)
  [ $# -eq 0 ] || targets=("$@")
  one() {
    local target=$1 longest
    longest=$(plain list | awk -v name="$target" '$1 == name { print $2 }')
    mkdir -p "$here/corpus/$target" "$here/log"
    FRAMESPOOL_FUZZ_TARGET=$target nice -n 10 "$built" "$here/corpus/$target" "$here/begin/$target" -max_total_time="$seconds" \
      -max_len="$longest" -len_control=20 -timeout=120 -rss_limit_mb=4096 -print_final_stats=1 -use_value_profile=1 \
      -artifact_prefix="$here/$target-" >"$here/log/$target" 2>&1
  }
  failed=0
  for target in "${targets[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge "${FUZZ_JOBS:-$(nproc)}" ]; do wait -n || failed=1; done
    one "$target" &
  done
  while [ -n "$(jobs -rp)" ]; do wait -n || failed=1; done
  printf '%-14s %12s %10s %8s  %s\n' target inputs 'a second' edges result
  for target in "${targets[@]}"; do
    awk -v name="$target" '
      / cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") edges = $(i + 1) }
      /stat::number_of_executed_units/ { inputs = $2 }
      /stat::average_exec_per_sec/ { rate = $2 }
      /panic at|ERROR: libFuzzer|memory allocation of|resident at the most|took / { if (!bad) bad = $0 }
      END { printf "%-14s %12d %10d %8d  %s\n", name, inputs, rate, edges, bad ? bad : "ok" }' "$here/log/$target"
  done | tee "$here/table"
  awk '{ sum += $2 } END { printf "%-14s %12d\n", "all", sum }' "$here/table"
  exit $failed
  ;;
esac
