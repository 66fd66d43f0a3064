#!/usr/bin/env bash
# Tests the wheel in every supported Python: scripts/check_wheel_smoke.py in each, with nothing else installed. A version that is not
# installed and cannot be fetched (scripts/pythons.sh) is a failure, except 3.12, which no Debian release has. If Python 3.10 is
# installed, its pip must refuse the wheel. If a free-threaded 3.14 is installed, a wheel is built for it, since it has no stable ABI.
#
#   scripts/check_wheel_pythons.sh [WHEEL]
#
# The test media are read from FRAMESPOOL_MEDIA, by default target/media.
set -euo pipefail
cd "$(dirname "$0")/.."
media=${FRAMESPOOL_MEDIA:-target/media}
wheel=${1:-$(compgen -G 'target/wheels/framespool-*.whl' | head -n 1 || true)}
[ -f "$wheel" ] || { echo "check_wheel_pythons: no wheel in target/wheels; run scripts/setup.sh wheel first" >&2; exit 2; }
[ -f "$media/manifest.json" ] || { echo "check_wheel_pythons: no test media at $media; 'make test' generates them in target/media" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export FRAMESPOOL_INDEX=off PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INDEX=1 PIP_ROOT_USER_ACTION=ignore

# pip of .venv, which applies the same compatibility rules as the interpreter's own pip.
install() {
  PYTHONWARNINGS=ignore .venv/bin/python -m pip --python "$1" install --quiet --no-deps --no-compile --target "$2" "$wheel"
}

install .venv/bin/python "$work/reference"
PYTHONPATH=$work/reference .venv/bin/python scripts/check_wheel_reference.py "$media" >"$work/expected.json" ||
  { echo "smoke: FAILED, no reference to compare with"; exit 1; }

failed=0
left_out() {
  echo "smoke: skipped: $1: $2"
  [ -z "${FRAMESPOOL_OUTCOMES:-}" ] || printf 'skipped\t%s\t%s\n' "$1" "$2" >>"$FRAMESPOOL_OUTCOMES"
}
smoke() {
  local version=$1 python=$2
  install "$python" "$work/$version" &&
    PYTHONPATH=$work/$version "$python" -s -W ignore::DeprecationWarning -X faulthandler scripts/check_wheel_smoke.py "$work/expected.json" ||
    { echo "smoke: FAILED on Python $version ($python)"; failed=1; }
}

for version in 3.11 3.12 3.13 3.14; do
  code=0
  python=$(scripts/pythons.sh "$version") || code=$?
  if [ $code -eq 0 ]; then
    smoke "$version" "$python"
  elif [ $code -eq 3 ]; then
    left_out "the wheel in Python $version" "not on this machine, and no Debian release has it"
  else
    echo "smoke: FAILED, Python $version is supported and could not be tested"
    failed=1
  fi
done

if python=$(scripts/pythons.sh --here 3.14t); then
  source scripts/env.sh
  maturin build --quiet --profile dev --out "$work/free-threaded" --interpreter "$python" ${CI:+--locked} </dev/null >&2
  (wheel=$(compgen -G "$work/free-threaded/framespool-*.whl") && failed=0 && smoke 3.14t "$python" && exit $failed) || failed=1
else
  left_out "the wheel in free-threaded Python 3.14" "not on this machine"
fi

if python=$(scripts/pythons.sh --here 3.10); then
  said=$(install "$python" "$work/3.10" 2>&1) && { echo "smoke: pip accepted the wheel for Python 3.10"; failed=1; }
  grep -qE "not a supported wheel|requires a different Python" <<<"$said" || failed=1
  echo "smoke: pip on Python 3.10 says: $(grep -E 'wheel|Python' <<<"$said" | head -n 1)"
else
  left_out "the wheel refused by pip of Python 3.10" "not on this machine"
fi
exit $failed
