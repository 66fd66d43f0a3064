#!/usr/bin/env bash
# Builds the simulated GPU and the folder that replaces a driver; prints the folder, to be added to LD_LIBRARY_PATH.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../../scripts/env.sh
source "$here/../../scripts/env.sh"
target=${CARGO_TARGET_DIR:-$here/../../target}
# All libraries, so that they have the features with which they were built for the tests: cargo would build them again for others.
cargo build --quiet --manifest-path "$here/../../Cargo.toml" --profile test ${CI:+--locked} --workspace --features framespool-kernels/shim --lib >&2
mkdir -p "$target/simulated_gpu"
target=$(cd "$target" && pwd)
for name in libcuda.so libcuda.so.1 libnvcuvid.so libnvcuvid.so.1 libnvjpeg.so.12 libtorch_cuda.so; do
  ln -sfn ../debug/libsimulated_gpu.so "$target/simulated_gpu/$name"
done
echo "$target/simulated_gpu"
