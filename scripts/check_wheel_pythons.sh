#!/usr/bin/env bash
# The wheel in every Python that is here: scripts/check_wheel_smoke.py in each from 3.11 on, with nothing else installed; older
# ones must be refused by pip. Which versions are not here is said.
#
#   scripts/check_wheel_pythons.sh [WHEEL]
set -euo pipefail
cd "$(dirname "$0")/.."
wheel=${1:-$(compgen -G 'target/wheels/framespool-*.whl' | head -n 1)}
[ -f "$wheel" ] || { echo "check_wheel_pythons: no wheel in target/wheels; run scripts/setup.sh wheel first" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export FRAMESPOOL_INDEX=off PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INDEX=1 PIP_ROOT_USER_ACTION=ignore

# The interpreter of a version: from PATH, the system's, or one of pyenv's.
python_of() {
  local found
  for found in "$(command -v "python$1" || true)" "/usr/bin/python$1" "$HOME"/.pyenv/versions/"${1%t}".*/bin/"python$1"; do
    [ -x "$found" ] && "$found" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '${1%t}')" 2>/dev/null &&
      echo "$found" && return
  done
  return 1
}

failed=0
for version in 3.10 3.11 3.12 3.13 3.14 3.14t; do
  if ! python=$(python_of "$version"); then
    echo "smoke: no Python $version here"
    continue
  fi
  # pip of .venv, which judges the wheel as that interpreter's would.
  install=(.venv/bin/python -m pip --python "$python" install --quiet --no-deps --target "$work/$version" "$wheel")
  if [ "$version" = 3.10 ]; then
    said=$("${install[@]}" 2>&1) && { echo "smoke: pip took the wheel for Python 3.10"; failed=1; }
    grep -qE "not a supported wheel|requires a different Python" <<<"$said" || { echo "smoke: pip on Python 3.10 says: $said"; failed=1; }
    echo "smoke: pip on Python 3.10 says: $(grep -E 'wheel|Python' <<<"$said" | head -n 1)"
    continue
  fi
  "${install[@]}" && PYTHONPATH=$work/$version "$python" -s -W ignore::DeprecationWarning -X faulthandler scripts/check_wheel_smoke.py ||
    { echo "smoke: FAILED on Python $version"; failed=1; }
done
exit $failed
