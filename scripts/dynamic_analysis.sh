#!/usr/bin/env bash
# Checks of memory safety and concurrency that take longer than a test run or need tools that are not installed everywhere.
#
#   scripts/dynamic_analysis.sh model       the loader under thousands of thread schedules that shuttle chooses (src/loader/shuttle_tests.rs)
#   scripts/dynamic_analysis.sh mutants     one bug at a time in a copy of the loader, each of which the model must detect
#   scripts/dynamic_analysis.sh mutate      mutation testing: the share of mutants of plan, index, batch_sampler, batch and transforms that the tests kill,
#                                on a sample (cargo-mutants; --minutes 45; scripts/mutation_testing.py)
#   scripts/dynamic_analysis.sh asan        the unit tests and 4,000 odd files under AddressSanitizer and LeakSanitizer, C and FFmpeg included (a nightly Rust)
#   scripts/dynamic_analysis.sh miri        batch buffers, which threads write concurrently, under Miri (a nightly Rust with miri)
#   scripts/dynamic_analysis.sh tsan        shows whether ThreadSanitizer supports this toolchain's locks (a nightly Rust)
#   scripts/dynamic_analysis.sh valgrind    a Python loop under memcheck: no error of ours, no leak that grows with the batches (valgrind)
#   scripts/dynamic_analysis.sh soak [...]  an hour of all operations, measured (tests/python/soak.py, which gets the options)
#   scripts/dynamic_analysis.sh             model, mutants, asan and valgrind
#
# Python is .venv's; FRAMESPOOL_PYTHON names another. Videos and images are the test media (scripts/setup.sh tests).
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

# Rust is instrumented by rustc; C (FFmpeg, libjpeg-turbo, its glue, SQLite) by gcc, whose reports rustc's runtime understands. dav1d is
# not instrumented, but its leaks are still reported at the end of a test. Duplicate globals are not checked: the check reports the static
# locals of FFmpeg's templates.
asan() {
  nightly
  local flags="-fsanitize=address -fno-omit-frame-pointer -g"
  local ffmpeg
  ffmpeg=$(FRAMESPOOL_SANITIZE=address scripts/build_ffmpeg.sh | tail -n 1)
  local run=(env -u CARGO_ENCODED_RUSTFLAGS "CFLAGS_${host//-/_}=$flags" RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR="$target/asan"
    PKG_CONFIG_PATH="$ffmpeg/lib/pkgconfig"
    ASAN_OPTIONS="detect_leaks=1:detect_stack_use_after_return=1:allocator_may_return_null=1:detect_odr_violation=0:${ASAN_OPTIONS:-}"
    cargo +nightly test --target "$host" --package framespool)
  "${run[@]}" --lib "$@"
  [ $# -eq 0 ] || return 0
  "$python" tests/adversarial/run.py --cases 4000 --seed 9 --write "$target/odd-files"
  FRAMESPOOL_ODD_FILES=$(realpath "$target/odd-files") "${run[@]}" --test engine -- --ignored odd_files
}

# The only module of `src` in which Rust alone manages memory by address. Other `unsafe` code calls C, or is vector code (kernels), which
# takes hours under Miri and which the tests compare with scalar code.
miri() {
  nightly
  cargo +nightly miri --version >/dev/null 2>&1 || die "no miri: rustup component add miri rust-src --toolchain nightly"
  CARGO_TARGET_DIR="$target/miri" cargo +nightly miri test --package framespool --lib batch:: "$@"
}

# ThreadSanitizer cannot see the locks of a std that was not built for it, and reports data behind a Mutex as a race.
tsan() {
  nightly
  local folder said
  folder=$(mktemp -d)
  cat >"$folder/mutex.rs" <<'RUST'
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
  rustc +nightly -Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer -O -g "$folder/mutex.rs" -o "$folder/mutex"
  said=$("$folder/mutex" 2>&1 || true)
  rm -r "$folder"
  if grep -q 'WARNING: ThreadSanitizer: data race' <<<"$said"; then
    echo "false positive for data behind a Mutex: ThreadSanitizer needs a std built for it"
    echo "(cargo -Zbuild-std, which needs the component rust-src); 'scripts/dynamic_analysis.sh model' checks for races without it"
  else
    echo "ThreadSanitizer sees this toolchain's locks: its reports on the tests would be valid"
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
