#!/usr/bin/env bash
# Builds the wheel for aarch64 on x86-64 with Debian's cross compiler, and tests it in an emulator. Needs apt and a network.
#
#   scripts/test_aarch64.sh            all of it, about ten minutes
#   scripts/test_aarch64.sh kernels    only the pixel pass: every backend against the scalar reference
#
# The wheel must pass scripts/check_wheel.py, decode all test media to the same bytes as the wheel of this machine
# (scripts/check_wheel_media.py), and pass the smoke test. Times in an emulator mean nothing and are not printed.
set -euo pipefail
cd "$(dirname "$0")/.."
export FRAMESPOOL_TARGET=aarch64-unknown-linux-gnu FRAMESPOOL_INDEX=off
[ "$(uname -m)" = x86_64 ] || { echo "test_aarch64: this machine is not x86-64; on aarch64 'make test-all' tests the wheel" >&2; exit 2; }
[ "${1:-}" = kernels ] || (unset FRAMESPOOL_TARGET && scripts/setup.sh tests)
if ! command -v qemu-aarch64-static >/dev/null; then
  as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo -n)
  "${as_root[@]}" apt-get -qq update </dev/null >&2
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get -qq install -y --no-install-recommends qemu-user-static </dev/null >&2
fi
scripts/setup.sh "$([ "${1:-}" = kernels ] && echo tools || echo wheel)"
source scripts/env.sh

failed=0
check() {
  local name=$1
  shift
  if "$@"; then echo "aarch64: $name: ok"; else echo "aarch64: $name: FAILED"; failed=1; fi
}

pixel_pass() { PROPTEST_CASES=${PROPTEST_CASES:-16} cargo test -q ${CI:+--locked} -p framespool-kernels; }
check "pixel pass" pixel_pass
[ "${1:-}" != kernels ] || exit $failed

wheel=$(compgen -G "target/$FRAMESPOOL_TARGET/wheels/framespool-*.whl")
own=$(compgen -G 'target/wheels/framespool-*.whl')
check "wheel" python scripts/check_wheel.py "$wheel"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
install() {
  python -m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-compile --only-binary :all: --python-version 3.11 \
    --platform "$1" --target "$2" "$3"
}
install manylinux_2_28_aarch64 "$work/aarch64" "$wheel"
install manylinux_2_28_x86_64 "$work/own" "$own"

same_bytes() {
  PYTHONPATH=$work/own python -s -W ignore scripts/check_wheel_media.py target/media >"$work/own.txt"
  PYTHONPATH=$work/aarch64 "$python" -s -W ignore scripts/check_wheel_media.py target/media >"$work/aarch64.txt"
  echo "aarch64: $(wc -l <"$work/own.txt") files compared, $(grep -cE '(Error)$' "$work/own.txt") of them are damaged"
  diff "$work/own.txt" "$work/aarch64.txt"
}
PYTHONPATH=$work/own python scripts/check_wheel_reference.py target/media >"$work/expected.json"
for version in 3.11 3.13 3.14; do
  python=$(scripts/pythons.sh $version)
  check "smoke test" env PYTHONPATH="$work/aarch64" "$python" -s scripts/check_wheel_smoke.py "$work/expected.json"
done
check "framespool doctor" env PYTHONPATH="$work/aarch64" "$python" -m framespool doctor
check "same bytes as on x86-64" same_bytes
exit $failed
