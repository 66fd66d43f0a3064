#!/usr/bin/env bash
# Proofs about memory and about what happens at the same time: longer than a test run, or with tools that not everybody has.
#
#   scripts/dynamic_analysis.sh model       the running loader under thousands of schedules that shuttle chooses (src/loader/shuttle_tests.rs)
#   scripts/dynamic_analysis.sh mutants     that this model can fail: one mistake at a time in a copy of the loader, each of which it must notice
#   scripts/dynamic_analysis.sh mutate      mutation testing: the share of mutants of plan, index, order, batch and the pixel pass that the tests kill,
#                                on a sample (cargo-mutants; --minutes 45; scripts/mutation_testing.py)
#   scripts/dynamic_analysis.sh asan        the unit tests and 200 odd files under AddressSanitizer and LeakSanitizer, C included (a nightly Rust)
#   scripts/dynamic_analysis.sh miri        the memory of batches, which threads write in parts, in Rust's own interpreter (a nightly Rust with miri)
#   scripts/dynamic_analysis.sh tsan        shows whether ThreadSanitizer can judge this toolchain's locks (a nightly Rust)
#   scripts/dynamic_analysis.sh valgrind    a Python loop under memcheck: no error of ours, no leak that grows with the batches (valgrind)
#   scripts/dynamic_analysis.sh soak [...]  an hour of everything, measured (tests/python/soak.py; options go to it)
#   scripts/dynamic_analysis.sh             model, mutants, asan and valgrind
#
# FRAMESPOOL_MODEL_ROUNDS: schedules that the model tries. FRAMESPOOL_PYTHON: an interpreter that has framespool's wheel, by default
# .venv's. Videos and pictures are the test media (scripts/setup.sh tests).
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/env.sh
export FRAMESPOOL_INDEX=off
python=${FRAMESPOOL_PYTHON:-python}
target=${CARGO_TARGET_DIR:-target}
host=$(rustc -vV | sed -n 's/^host: //p')

die() { echo "dynamic_analysis: $*" >&2; exit 2; }
nightly() { cargo +nightly --version >/dev/null 2>&1 || die "no nightly Rust: rustup toolchain install nightly"; }

model() { cargo test --features model --lib loader::shuttle_tests "$@"; }
mutants() { python scripts/loader_mutants.py "$@"; }
mutate() { python scripts/mutation_testing.py "$@"; }

# Rust is instrumented by rustc; the C that cargo builds (libjpeg-turbo, its glue, SQLite) by gcc, whose reports rustc's runtime
# understands. FFmpeg is built before and is not: what it allocates is still looked for when a test ends.
asan() {
  nightly
  local flags="-fsanitize=address -fno-omit-frame-pointer -g"
  local run=(env -u CARGO_ENCODED_RUSTFLAGS "CFLAGS_${host//-/_}=$flags" RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR="$target/asan"
    ASAN_OPTIONS="detect_leaks=1:detect_stack_use_after_return=1:allocator_may_return_null=1:${ASAN_OPTIONS:-}"
    cargo +nightly test --target "$host" --package framespool)
  "${run[@]}" --lib "$@"
  [ $# -eq 0 ] || return 0
  "$python" tests/adversarial/run.py --cases 200 --write "$target/odd-files"
  FRAMESPOOL_ODD_FILES=$(realpath "$target/odd-files") "${run[@]}" --test engine -- --ignored odd_files
}

# The one place of `src` where Rust alone hands out memory by address; other `unsafe` calls C, or is vector code (kernels), which Miri
# takes hours for and the tests hold against plain code.
miri() {
  nightly
  cargo +nightly miri --version >/dev/null 2>&1 || die "no miri: rustup component add miri rust-src --toolchain nightly"
  CARGO_TARGET_DIR="$target/miri" cargo +nightly miri test --package framespool --lib batch:: "$@"
}

# The locks of a std that was not built for ThreadSanitizer are invisible to it: it then calls what a Mutex guards a race.
tsan() {
  nightly
  local folder said
  folder=$(mktemp -d)
  cat >"$folder/sound.rs" <<'RUST'
use std::sync::{Arc, Mutex};
fn main() {
    let sums = Arc::new(Mutex::new(vec![0u64; 4]));
    let add = |n: usize| {
        let sums = sums.clone();
        std::thread::spawn(move || (0..20_000).for_each(|i| sums.lock().unwrap()[n % 2] += i))
    };
    let threads: Vec<_> = (0..4).map(add).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("{:?}", sums.lock().unwrap());
}
RUST
  rustc +nightly -Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer -O -g "$folder/sound.rs" -o "$folder/sound"
  said=$("$folder/sound" 2>&1 || true)
  rm -r "$folder"
  if grep -q 'WARNING: ThreadSanitizer: data race' <<<"$said"; then
    echo "a program whose only shared data is behind a Mutex is called a race: ThreadSanitizer needs a std built for it"
    echo "(cargo -Zbuild-std, which needs the component rust-src); 'scripts/dynamic_analysis.sh model' looks for what it would find"
  else
    echo "ThreadSanitizer sees this toolchain's locks: its reports on the tests would mean something"
  fi
}

valgrind() {
  command -v valgrind >/dev/null || die "no valgrind: apt-get install valgrind"
  "$python" scripts/memcheck.py "$@"
}

soak() { "$python" tests/python/soak.py "$@"; }

what=${1:-all}
[ $# -eq 0 ] || shift
case $what in
model | mutants | mutate | asan | miri | tsan | valgrind | soak) "$what" "$@" ;;
all) model && mutants && asan && valgrind ;;
*) die "unknown analysis '$what'; one of model, mutants, mutate, asan, miri, tsan, valgrind, soak" ;;
esac
