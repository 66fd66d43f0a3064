#!/usr/bin/env bash
# Installs the wheel as a user does, in new Debian systems, and runs it there. Needs root (or sudo), apt and a network.
#
#   scripts/test_install.sh                 Debian 11, 12, 13 and 14 (testing)
#   scripts/test_install.sh bookworm        one of them
#
# Each system has Python and pip alone. The wheel is installed by pip, and used by a user without privileges whose home is
# read-only: the smoke test of the wheel, also with another FFmpeg in LD_LIBRARY_PATH, `framespool doctor`, the program of
# README.md; then `framespool preview`, which needs NumPy and Pillow, and decoding next to PyAV and OpenCV in one process, in
# every order of imports. Debian 11 has a Python that is too old: there the library's symbols are looked up in its glibc
# (2.31). The wheel and the test media are those of scripts/setup.sh tests. Prints a table.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- bullseye bookworm trixie forky
[ "$(id -u)" = 0 ] || exec sudo -n --preserve-env=HOME,PATH "$0" "$@"
command -v debootstrap >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends debootstrap </dev/null >&2
wheel=$(compgen -G 'target/wheels/framespool-*.whl' | head -n 1 || true)
[ -f "$wheel" ] && [ -f target/media/manifest.json ] || { echo "test_install: run scripts/setup.sh tests first" >&2; exit 2; }

work=$(mktemp -d)
root=
# The mounts first: what is below them is not this script's.
clean() {
  for folder in dev/shm dev proc; do [ -z "$root" ] || ! mountpoint -q "$root/$folder" || umount "$root/$folder"; done
  root=
}
trap 'clean; rm -rf --one-file-system "$work"' EXIT

PYTHONWARNINGS=ignore .venv/bin/python -m pip install --quiet --no-deps --no-compile --target "$work/reference" "$wheel"
# The reference has the paths of the media, which must be the same in the new systems.
cp -rL target/media "$work/media"
FRAMESPOOL_INDEX=off PYTHONPATH=$work/reference .venv/bin/python scripts/check_wheel_reference.py "$work/media" >"$work/expected.json"

mirror=$(apt-get indextargets --format '$(SITE)' 2>/dev/null | grep -E '/debian/?$' | head -n 1 || true)
failed=0
row() { printf '%-22s %-8s %-6s %-44s %s\n' "$@"; }
# Runs a command of the user; the output is shown if it fails.
check() {
  local name=$1
  shift
  if chroot "$root" su user -c "cd /home/user && HOME=/home/user PATH=/venv/bin:\$PATH $*" >"$work/log.txt" 2>&1; then
    row "$system" "$python" "$glibc" "$name" ok
  else
    row "$system" "$python" "$glibc" "$name" FAILED
    sed 's/^/    /' "$work/log.txt" >&2
    failed=1
  fi
}

for suite; do
  root=$work/$suite
  # A debootstrap that is older than the release has no script of its name; that of unstable is the same.
  script=/usr/share/debootstrap/scripts/$suite
  [ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid
  debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates "$suite" "$root" "${mirror:-http://deb.debian.org/debian}" "$script" \
    >"$work/$suite.log" 2>&1 ||
    { tail -n 5 "$work/$suite.log" >&2; exit 1; }
  system=$(. "$root/etc/os-release" && echo "Debian ${VERSION_ID:-$suite}")
  glibc=$(chroot "$root" ldd --version | sed -n '1s/.* //p')
  row system Python glibc check result
  if ! chroot "$root" python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    cp "$work/reference/framespool/_framespool.abi3.so" "$root/srv/"
    unresolved=$(chroot "$root" ldd -r /srv/_framespool.abi3.so 2>&1 | grep -E 'undefined symbol|not found|version' | grep -vE 'undefined symbol: _?Py' || true)
    if [ -z "$unresolved" ]; then
      row "$system" - "$glibc" "all symbols but Python's are found" ok
    else
      row "$system" - "$glibc" "all symbols but Python's are found" FAILED
      echo "$unresolved" >&2
      failed=1
    fi
    continue
  fi
  mount -t proc proc "$root/proc"
  mount --bind /dev "$root/dev"
  mount -t tmpfs tmpfs "$root/dev/shm"
  cp --dereference /etc/resolv.conf "$root/etc/"
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  mkdir -p "$root/srv/videos/street" "$root/srv/videos/base"
  cp "$wheel" scripts/check_wheel_smoke.py "$root/srv/"
  mkdir -p "$root$work"
  cp -r "$work/media" "$root$work/"
  cp "$work/expected.json" "$root/srv/"
  cp target/media/video/action/street_426x240.mp4 "$root/srv/videos/street/"
  cp target/media/video/derived/base_640x360.mp4 "$root/srv/videos/base/"
  # The first program of README.md, with these videos.
  awk '/^```python/ { code = 1; next } /^```/ && code { exit } code' README.md |
    sed 's|"videos/"|"/srv/videos"|' >"$root/srv/readme.py"
  chroot "$root" useradd --create-home user
  chroot "$root" python3 -m venv /venv
  chroot "$root" /venv/bin/python -m pip install --quiet --no-index --disable-pip-version-check "/srv/$(basename "$wheel")"
  chmod a+rx "$root"
  chmod -R a+rX "$root/srv" "$root$work"
  chown -R root:root "$root/home/user"
  chmod 755 "$root/home/user"
  python=$(chroot "$root" /venv/bin/python -c 'import platform; print(platform.python_version())')

  check "smoke test" python /srv/check_wheel_smoke.py /srv/expected.json
  check "framespool doctor" FRAMESPOOL_INDEX=off framespool doctor --json
  check "README.md" python /srv/readme.py
  # A mirror's list of a moving release may have expired; its signature is still checked.
  chroot "$root" apt-get -qq -o Acquire::Check-Valid-Until=false update
  chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends ffmpeg </dev/null >/dev/null 2>&1
  check "with another FFmpeg in LD_LIBRARY_PATH" "LD_LIBRARY_PATH=/usr/lib/$(uname -m)-linux-gnu python /srv/check_wheel_smoke.py /srv/expected.json"
  chroot "$root" env $(env | grep '^PIP_') /venv/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: av numpy opencv-python-headless pillow
  check "framespool preview" framespool preview /srv/videos --frames 4 --out /tmp/sheet.png
  cat >"$root/srv/together.py" <<'PROGRAM'
import sys

def decode(name):
    if name == "framespool":
        import framespool
        return len(framespool.Video(sys.argv[1])[0].tobytes())
    if name == "av":
        import av
        with av.open(sys.argv[1]) as video:
            return next(video.decode(video=0)).width
    import cv2
    return cv2.VideoCapture(sys.argv[1]).read()[1].size

first = {name: decode(name) for name in sys.argv[2:]}
assert all(first.values()) and {name: decode(name) for name in first} == first, first
PROGRAM
  for order in "framespool av cv2" "av framespool cv2" "cv2 av framespool" "framespool cv2 av" "av cv2 framespool" "cv2 framespool av"; do
    check "with others: $order" python /srv/together.py /srv/videos/street/street_426x240.mp4 $order
  done
  clean
done
exit $failed
