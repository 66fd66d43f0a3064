#!/usr/bin/env bash
# The tests of the GPU path, on the simulated driver, which this script builds; with FRAMESPOOL_GPU=real on the real GPU.
#
#   scripts/test_gpu.sh          all of them
#   scripts/test_gpu.sh corpus   only those that read every video and image, for a run with FRAMESPOOL_CORPUS
#
# FRAMESPOOL_GPU_LONG=1 tests more of every video.
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
if [ "${1:-}" = corpus ]; then
  exec "${rust[@]}" --test gpu -- video::every_video jpeg::every_good_file jpeg::odd_files
fi
"${rust[@]}" --test device --test gpu
"${python[@]}" -m pytest tests/python/gpu
