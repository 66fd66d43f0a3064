#!/usr/bin/env bash
# Everything that must hold before a change goes in. Each step is timed, the first failure ends the run.
#
#   scripts/test.sh
#
# The corpus is looked for at FRAMESPOOL_CORPUS, by default beside the repository. With CI set, it must be there and
# Cargo.lock must be up to date; without, tests that need the corpus say that they are skipped.
set -uo pipefail
cd "$(dirname "$0")/.."

table=()
summary() {
  printf '\n%8s  %-6s  %s\n' seconds result step
  printf '%s\n' "${table[@]}"
  printf '%8d  in all\n' "$SECONDS"
}

step() {
  local name=$1 began=$SECONDS code
  shift
  printf '\n== %s\n   %s\n' "$name" "$*"
  "$@" </dev/null
  code=$?
  table+=("$(printf '%8d  %-6s  %s' $((SECONDS - began)) "$([ $code -eq 0 ] && echo ok || echo FAILED)" "$name")")
  if [ $code -ne 0 ]; then
    summary
    echo "stopped at '$name', which ended with code $code"
    exit "$code"
  fi
}

step "set-up" scripts/setup.sh tests
source scripts/env.sh
# Tests build what they test, and leave the user's cache alone.
export FRAMESPOOL_INDEX=off

locked=${CI:+--locked}
python_code="python tests/python demo benches examples scripts"
stubtest=(python -m mypy.stubtest --mypy-config-file pyproject.toml framespool)
[ -f tests/python/stubtest-allowlist.txt ] && stubtest+=(--allowlist tests/python/stubtest-allowlist.txt)

# shellcheck disable=SC2086
{
  step "crates of others" scripts/audit.sh
  step "rustfmt" cargo fmt --all --check
  step "ruff" ruff check $python_code
  step "ruff format" ruff format --check $python_code
  # The test profile, so that FFmpeg's bindings are generated once for clippy and the tests, not once for each.
  # With the feature `shim`, the CUDA kernels are compiled as C++ and held against the oracle.
  step "clippy" cargo clippy --workspace --all-targets --features framespool-kernels/shim --profile test $locked -- -D warnings
  # What fuzz targets begin with beside the corpus; without, those for archives would begin with nothing.
  export FRAMESPOOL_FUZZ_SEEDS=$PWD/target/fuzz/seeds
  step "seeds for fuzz targets" python tests/fuzz/seeds.py "$FRAMESPOOL_FUZZ_SEEDS"
  step "Rust tests" cargo test --workspace --features framespool-kernels/shim $locked
  step "CUDA kernels, sanitized" scripts/kernels.py sanitize
  step "PTX as committed" scripts/kernels.py check
  step "PTX assembled" scripts/kernels.py ptxas
  step "GPU road, simulated" scripts/test_gpu.sh
  step "Python tests" python -m pytest tests/python --ignore tests/python/gpu
  step "wheel" python scripts/check_wheel.py target/wheels/framespool-*.whl
  step "wheel in every Python" scripts/check_wheel_pythons.sh
  step "frameworks" scripts/test_frameworks.sh
  step "stubs" "${stubtest[@]}"
  step "docs" scripts/docs.sh
}
summary
echo "all passed"
