#!/usr/bin/env bash
# Runs the tests, in three tiers. Each step is timed; the first failure ends the run. A summary lists skipped tests with reasons.
#
#   scripts/test.sh check  within a minute, for each small change: formatting, lints, the unit tests of the crates, layering, prose,
#                          and a smoke test of the Python package
#   scripts/test.sh        setup, Rust tests, Python tests, the GPU path on a simulated driver: what README promises; with the
#                          generated media only, even if FRAMESPOOL_CORPUS is set
#   scripts/test.sh rest   all other checks of a change: tests of the project's own tools and pages, licenses, PTX, sanitizers, the
#                          wheel in every Python, PyTorch, JAX and Ray, stubs, documentation, 300 mutated files, the GPU path under
#                          each mode of the simulated driver, and the additional corpus if FRAMESPOOL_CORPUS is set
#
# `make check` runs the first, `make test` the second, `make test-all` the second and the third. The setup generates all test media.
# With CI set, Cargo.lock must be up to date.
set -uo pipefail
cd "$(dirname "$0")/.."

tier=${1:-promised}
case $tier in promised | check | rest) ;; *) echo "test: unknown tier '$tier'; nothing, check, or rest" >&2; exit 2 ;; esac
corpus=${FRAMESPOOL_CORPUS:-}
unset FRAMESPOOL_CORPUS

# Skipped tests: "skipped <tab> test <tab> reason"; a test that ran in another step has a line "passed <tab> test". The second
# tier continues with the file of the first one, so that it also counts tests that only the first one has run.
table=()
mkdir -p target
export FRAMESPOOL_OUTCOMES=$PWD/target/test-outcomes.tsv
[ "$tier" = rest ] || : >"$FRAMESPOOL_OUTCOMES"
left_out() { printf 'skipped\t%s\t%s\n' "$1" "$2" >>"$FRAMESPOOL_OUTCOMES"; }

# Seconds of processor time of all steps so far, which other load on the machine changes little.
cpu_seconds() {
  local ticks
  ticks=$(awk '{ print $16 + $17 }' "/proc/$$/stat")
  echo $((ticks / $(getconf CLK_TCK)))
}

summary() {
  printf '\n%8s %8s  %-6s  %s\n' seconds cpu result step
  printf '%s\n' "${table[@]}"
  printf '%8d %8d  in all\n' "$SECONDS" "$(cpu_seconds)"
  awk -F '\t' '
    $1 == "passed" { passed[$2] = 1 }
    $1 == "skipped" { reason[$2] = $3 }
    END {
      for (test in reason) {
        if (test in passed) continue
        file = test
        sub(/::.*/, "", file)
        count[file "\t" reason[test]]++
      }
      for (line in count) {
        split(line, part, "\t")
        printf "  %5d  %-44s  %s\n", count[line], part[1], part[2]
      }
    }' "$FRAMESPOOL_OUTCOMES" | sort -k 2 | sed '1i\\nskipped, and why (number of tests, file, reason)'
}

step() {
  local name=$1 began=$SECONDS cpu_began code
  cpu_began=$(cpu_seconds)
  shift
  printf '\n== %s\n   %s\n' "$name" "$*"
  "$@" </dev/null
  code=$?
  table+=("$(printf '%8d %8d  %-6s  %s' $((SECONDS - began)) $(($(cpu_seconds) - cpu_began)) "$([ $code -eq 0 ] && echo ok || echo FAILED)" "$name")")
  if [ $code -ne 0 ]; then
    summary
    echo "stopped at '$name', with exit code $code"
    exit "$code"
  fi
}

# check needs no wheel: it builds what changed. Without media it makes them, like the other tiers.
step "set-up" scripts/setup.sh "$([ "$tier" = check ] && echo media || echo tests)"
source scripts/env.sh
# Tests build what they test, and do not touch the user's cache.
export FRAMESPOOL_INDEX=off

locked=${CI:+--locked}
python_code="python tests/python tests/media tests/adversarial demo benches examples scripts"
workspace=(--workspace --features framespool-kernels/shim $locked)
rust=(cargo nextest run "${workspace[@]}" -E)
# What the third tier runs instead of the second: tests of the project's own tools (the simulated driver, fuzz targets, benchmarks,
# scripts), the examples of the pages, and the two searches for pictures that no other picture needs, whose result
# frames_equal_reference_in_every_access_pattern checks too.
tools='package(simulated-gpu) | package(framespool-fuzz) | (binary(engine) & test(/^(disposable_frames|reference_graph)::/))'
python_tools=()
for name in adversarial bench benches build_ffmpeg docs docstrings image_examples loader_mutants notebook prose_check wheel; do
  python_tools+=("tests/python/test_$name.py")
done
# One more than the cores: some tests wait for a time that an interface defines.
pytest=(python -m pytest -n $(($(nproc) + 1)) --dist worksteal)

# The crates without C libraries, for platforms that are not built here.
other_platforms() {
  local target
  for target in aarch64-unknown-linux-gnu aarch64-apple-darwin; do
    rustup -q target add "$target" || { left_out "clippy for $target" "its standard library cannot be fetched"; continue; }
    # shellcheck disable=SC2086
    cargo clippy -p framespool-kernels -p framespool-nvdec --target "$target" $locked -- -D warnings || return 1
  done
}

# What reads the sources without running them.
lints() {
  # shellcheck disable=SC2086
  {
    step "rustfmt" cargo fmt --all --check
    step "ruff" ruff check $python_code
    step "ruff format" ruff format --check $python_code
    step "typos" typos
    step "names and prose" python scripts/prose_check.py
    step "layers of Python" env PYTHONPATH=python lint-imports pyproject.toml --no-cache
    # The test profile, so that FFmpeg's bindings are generated once for clippy and the tests, not once each.
    # With the feature `shim`, the CUDA kernels are compiled as C++ and compared with the reference.
    step "clippy" cargo clippy "${workspace[@]}" --all-targets --profile test -- -D warnings
  }
}

# The Python sources of the working tree with the extension of the test profile, in target/check.
python_smoke() {
  local folder=$PWD/target/check
  # All libraries, so that they have the features with which they were built for the tests.
  cargo build "${workspace[@]}" --lib --profile test &&
    rm -rf "$folder" && mkdir -p "$folder" && cp -rs "$PWD/python/framespool" "$folder" &&
    ln -s ../../debug/lib_framespool.so "$folder/framespool/_framespool.abi3.so" &&
    PYTHONPATH=$folder python -m pytest -q -p no:cacheprovider tests/python/test_package.py tests/python/test_video.py \
      tests/python/test_loader_order.py tests/python/test_docs.py::test_architecture_and_development_name_existing_files \
      tests/python/test_docs.py::test_architecture_names_are_defined_in_the_files_of_their_row
}

check() {
  lints
  step "unit tests and layers of Rust" cargo nextest run "${workspace[@]}" --lib --test layering
  step "Python smoke test" python_smoke
}

promised() {
  # Without the tests that need a GPU, which scripts/test_gpu.sh runs.
  step "Rust tests" "${rust[@]}" "not binary(gpu) - ($tools)"
  step "GPU path, simulated driver" scripts/test_gpu.sh
  step "Python tests" "${pytest[@]}" tests/python --ignore tests/python/gpu "${python_tools[@]/#/--ignore=}"
}

tools() {
  # Initial inputs of fuzz targets in addition to the media; the targets for archives have no others.
  export FRAMESPOOL_FUZZ_SEEDS=$PWD/target/fuzz/seeds
  step "seeds for fuzz targets" python tests/fuzz/seeds.py "$FRAMESPOOL_FUZZ_SEEDS"
  step "tools: Rust tests" "${rust[@]}" "$tools"
  step "tools and pages: Python tests" "${pytest[@]}" "${python_tools[@]}"
}

# The tests that read every video or image, over the corpus too.
corpus_tier() {
  if [ -z "$corpus" ]; then
    left_out "exact frames, damage, images and the GPU path over the additional corpus" "FRAMESPOOL_CORPUS is not set"
    return
  fi
  export FRAMESPOOL_CORPUS=$corpus
  # Without the tests of single generated files, which make test has run.
  local of_one_file='corruption_ts::|image::corruption::|image::png_decoding::|index_cache_processes::'
  of_one_file+='|loader_invariance::|parameter_sets::|timestamps::|is_detected|missing_reference|truncated_p'
  step "corpus: Rust tests" cargo nextest run "${workspace[@]}" -E "binary(engine) - test(/$of_one_file/)"
  step "corpus: GPU path, simulated driver" scripts/test_gpu.sh corpus
  step "corpus: Python tests" "${pytest[@]}" tests/python/test_errors.py tests/python/test_access_cost.py \
    tests/python/test_docs.py::test_figures_are_those_of_the_script
  step "corpus: recipes" scripts/test_frameworks.sh tests/python/test_recipes.py -k camera_recordings
  unset FRAMESPOOL_CORPUS
}

case $tier in
check) check ;;
promised) promised ;;
rest)
  tools
  step "crates of others" scripts/audit.sh
  step "workflows" scripts/check_workflows.sh
  if command -v rustup >/dev/null; then
    step "clippy, other platforms" other_platforms
  else
    left_out "clippy for other platforms" "no rustup, which has their standard libraries"
  fi
  step "examples of the Rust documentation" cargo test --doc "${workspace[@]}"
  corpus_tier
  step "GPU path, modes of the simulated driver" scripts/test_gpu.sh modes
  step "base files of the odd files" python tests/adversarial/run.py --intact
  step "odd files" python tests/adversarial/run.py --cases 300 --seed 1
  step "loaders dropped while decoding mutated files" python tests/adversarial/leaks.py --loaders 1000
  step "nvJPEG's own header and library" scripts/kernels.py nvjpeg
  step "CUDA kernels, sanitized" scripts/kernels.py sanitize
  step "PTX as committed" scripts/kernels.py check
  step "PTX assembled" scripts/kernels.py ptxas
  step "wheel" python scripts/check_wheel.py target/wheels/framespool-*.whl
  step "wheel in every Python" scripts/check_wheel_pythons.sh
  step "frameworks" scripts/test_frameworks.sh
  if [ "${FRAMESPOOL_OLDEST:-on}" = off ]; then
    left_out "oldest versions of the optional packages" "FRAMESPOOL_OLDEST=off"
  else
    step "frameworks, oldest versions" scripts/test_oldest.sh
  fi
  step "stubs" python -m mypy.stubtest --mypy-config-file pyproject.toml --allowlist tests/python/stubtest-allowlist.txt framespool
  step "docs" scripts/docs.sh
  ;;
esac
summary
case $tier in
check) echo "all passed; run the tests with: make test" ;;
promised) echo "all passed; run all other checks with: make test-all" ;;
rest) echo "all passed" ;;
esac
