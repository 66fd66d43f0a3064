#!/usr/bin/env bash
# Tests the wheels in qemu's user mode: that for aarch64, which is built here with Debian's cross compiler, and that for x86-64 on
# a processor of the x86-64 baseline (SSE2). Runs on x86-64; needs apt and a network.
#
#   scripts/test_emulated.sh            both, about 20 minutes
#   scripts/test_emulated.sh kernels    only the pixel pass on aarch64: every backend against the scalar reference
#
# Each wheel must pass the smoke test and decode all test media to the same bytes as the wheel on this machine
# (scripts/check_wheel_media.py). Times in an emulator mean nothing and are not printed.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(uname -m)" = x86_64 ] || { echo "test_emulated: this machine is not x86-64; on aarch64 'make test-all' tests the wheel" >&2; exit 2; }
target=aarch64-unknown-linux-gnu
export FRAMESPOOL_INDEX=off
if ! command -v qemu-aarch64-static >/dev/null; then
  as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo -n)
  "${as_root[@]}" apt-get -qq update </dev/null >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends qemu-user-static </dev/null >&2
fi

failed=0
check() {
  local name=$1
  shift
  if "$@"; then echo "emulated: $name: ok"; else echo "emulated: $name: FAILED"; failed=1; fi
}

pixel_pass() (
  FRAMESPOOL_TARGET=$target scripts/setup.sh tools || exit
  export FRAMESPOOL_TARGET=$target PROPTEST_CASES=${PROPTEST_CASES:-16}
  source scripts/env.sh
  cargo test -q ${CI:+--locked} -p framespool-kernels
)
check "aarch64, pixel pass" pixel_pass
[ "${1:-}" != kernels ] || exit $failed

scripts/setup.sh tests
FRAMESPOOL_TARGET=$target scripts/setup.sh wheel
source scripts/env.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
install() {
  python -m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-compile --only-binary :all: --python-version 3.11 \
    --platform "manylinux_2_28_$1" --target "$work/$1" "$2"/framespool-*.whl
}
install x86_64 target/wheels
install aarch64 target/$target/wheels
PYTHONPATH=$work/x86_64 python scripts/check_wheel_reference.py target/media >"$work/expected.json"
PYTHONPATH=$work/x86_64 python -s -W ignore scripts/check_wheel_media.py target/media >"$work/expected.txt"

# Tests a platform: its name, the folder of its framespool, and the command that is its Python.
platform() {
  local name=$1 folder=$2
  shift 2
  check "$name, smoke test" env PYTHONPATH="$folder" "$@" -s -W ignore scripts/check_wheel_smoke.py "$work/expected.json"
  check "$name, framespool doctor" env PYTHONPATH="$folder" "$@" -s -m framespool doctor
}
same_bytes() {
  local name=$1 folder=$2
  shift 2
  PYTHONPATH=$folder "$@" -s -W ignore scripts/check_wheel_media.py target/media >"$work/media.txt"
  diff "$work/expected.txt" "$work/media.txt" | cut -c1-120 &&
    echo "emulated: $name: $(wc -l <"$work/media.txt") files compared; $(grep -c 'Error$' "$work/media.txt") of them give an error on both"
}

check "aarch64, wheel" env FRAMESPOOL_TARGET=$target python scripts/check_wheel.py target/$target/wheels/framespool-*.whl
for version in 3.14 3.13 3.11; do
  interpreter=$(FRAMESPOOL_TARGET=$target scripts/pythons.sh $version)
  platform "aarch64, Python $version" "$work/aarch64" "$interpreter"
done
baseline=(qemu-x86_64-static -cpu "qemu64,-sse3" "$(readlink -f .venv/bin/python)")
platform "x86-64 baseline" "$work/x86_64" "${baseline[@]}"
check "aarch64, same bytes" same_bytes aarch64 "$work/aarch64" "$interpreter"
check "x86-64 baseline, same bytes" same_bytes "x86-64 baseline" "$work/x86_64" "${baseline[@]}"
exit $failed
