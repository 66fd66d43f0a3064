#!/usr/bin/env bash
# The tests of the GPU road, on the simulated GPU that this builds; with FRAMESPOOL_GPU=real on the one that is there.
# FRAMESPOOL_GPU_LONG=1 asks more of every video.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/env.sh

if [ "${FRAMESPOOL_GPU:-simulated}" = simulated ]; then
  folder=$(tests/simulated_gpu/folder.sh)
  # For what runs, not for what builds it: compilers are not to meet a simulated driver.
  export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="env LD_LIBRARY_PATH=$folder"
  python=(env "LD_LIBRARY_PATH=$folder" python)
else
  python=(python)
fi
export FRAMESPOOL_GPU_TESTS=1 FRAMESPOOL_INDEX=off

cargo test ${CI:+--locked} --workspace --features framespool-kernels/shim --test device --test gpu_road --test gpu_jpeg
"${python[@]}" -m pytest tests/python/gpu
