#!/usr/bin/env bash
# The tests of the GPU path, on the simulated driver that this builds; with FRAMESPOOL_GPU=real on the GPU that is there.
#
#   scripts/test_gpu.sh          all of them
#   scripts/test_gpu.sh corpus   only those that read every video and image there is, for a run with FRAMESPOOL_CORPUS
#
# FRAMESPOOL_GPU_LONG=1 asks more of every video.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/env.sh

if [ "${FRAMESPOOL_GPU:-simulated}" = simulated ]; then
  folder=$(tests/simulated_gpu/build.sh)
  # For what runs, not for what builds it: compilers are not to meet a simulated driver.
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
