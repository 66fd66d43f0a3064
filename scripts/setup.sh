#!/usr/bin/env bash
# Sets up a machine. Each step runs only if needed, so a second run takes seconds.
#
#   scripts/setup.sh           system packages, .venv, FFmpeg, the wheel, and the wheel installed into .venv
#   scripts/setup.sh tools     system packages, .venv, FFmpeg: enough for cargo and ruff
#   scripts/setup.sh media     the same, and the test media in target/media: enough for unit tests
#   scripts/setup.sh wheel     as tools, and the wheel in target/wheels, not installed
#   scripts/setup.sh tests     everything, the programs that tests run (nginx, zsh, fish), and the test media in target/media
#
# PYTHON is the interpreter for .venv (default: the first usual name that is 3.11 or newer).
# FRAMESPOOL_FFMPEG is the prefix of your own FFmpeg; without it scripts/build_ffmpeg.sh builds one.
# FRAMESPOOL_TARGET=aarch64-unknown-linux-gnu makes tools and wheel for that target, with Debian's cross compiler; the wheel is then
# in target/aarch64-unknown-linux-gnu/wheels.
# FRAMESPOOL_RELEASE, if set, marks a release wheel: it must contain a pinned FFmpeg.
set -euo pipefail
cd "$(dirname "$0")/.."

goal=${1:-all}
case $goal in all | tools | media | wheel | tests) ;; *) echo "setup: unknown goal '$goal'; one of all, tools, media, wheel, tests" >&2; exit 2 ;; esac
case ${FRAMESPOOL_TARGET:-}:$goal in
:* | aarch64-unknown-linux-gnu:tools | aarch64-unknown-linux-gnu:wheel) ;;
aarch64-unknown-linux-gnu:*) echo "setup: with FRAMESPOOL_TARGET the goal must be tools or wheel, not '$goal'" >&2; exit 2 ;;
*) echo "setup: FRAMESPOOL_TARGET is '$FRAMESPOOL_TARGET'; only aarch64-unknown-linux-gnu is supported" >&2; exit 2 ;;
esac
wheels=target/${FRAMESPOOL_TARGET:+$FRAMESPOOL_TARGET/}wheels

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
# Runs a step and prints its duration if it is long enough to matter.
timed() {
  local name=$1 began=$SECONDS
  shift
  "$@"
  [ $((SECONDS - began)) -lt 2 ] || say "$name took $((SECONDS - began)) s"
}

# Files of a source distribution are not executable.
[ -x scripts/link_library.sh ] || chmod +x scripts/*.sh scripts/*.py

source scripts/env.sh

# ---- system packages -------------------------------------------------------------------------------------------

fitting_python() {
  local name
  for name in ${PYTHON:+"$PYTHON"} python3 python3.11 python3.12 python3.13 python3.14 /usr/bin/python3; do
    "$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$name" && return
  done
  return 1
}

# Whether packages have the names of Fedora and RHEL.
fedora_names() { command -v rpm >/dev/null && ! command -v apt-get >/dev/null; }

# One line per missing package: its name in Debian or in Fedora, then its purpose.
missing() {
  local command debian fedora package python=python3-venv
  lacking() { echo "$(if fedora_names; then echo "$2"; else echo "$1"; fi) ($3)"; }
  while read -r command debian fedora; do
    command -v "$command" >/dev/null || lacking "$debian" "$fedora" "the command $command"
  done <<'LIST'
gcc gcc gcc
g++ g++ gcc-c++
make make make
nasm nasm nasm
patch patch patch
pkg-config pkg-config pkgconf-pkg-config
xz xz-utils xz
tar tar tar
find findutils findutils
cmp diffutils diffutils
LIST
  if [ -n "${FRAMESPOOL_TARGET:-}" ]; then
    command -v aarch64-linux-gnu-g++ >/dev/null || echo "g++-aarch64-linux-gnu (the cross compiler)"
  fi
  if [ "$goal" = tests ]; then
    # It is in /usr/sbin, which is not on the PATH of a user without root.
    command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] || lacking nginx-light nginx "nginx, against which videos by URL are tested"
    for package in zsh fish; do command -v "$package" >/dev/null || echo "$package (the shell $package, whose completions are tested)"; done
    [ -e /usr/include/ffnvcodec/dynlink_nvcuvid.h ] ||
      lacking libffmpeg-nvenc-dev nv-codec-headers "NVDEC's headers, against which its bindings are checked"
  fi
  echo '#include <stdio.h>' | gcc -E - >/dev/null 2>&1 || lacking libc6-dev glibc-devel "the C library's headers"
  echo '#include <zlib.h>' | gcc -E - >/dev/null 2>&1 || lacking zlib1g-dev zlib-devel "zlib's header"
  framespool_libclang >/dev/null || lacking libclang clang-devel "libclang, with which bindgen reads C headers"
  compgen -G '/usr/lib/llvm*/lib*/clang/*/include/stddef.h' >/dev/null || compgen -G '/usr/lib*/clang/*/include/stddef.h' >/dev/null ||
    [ -n "${LIBCLANG_PATH:-}" ] || lacking libclang clang-devel "libclang's own headers"
  # Ubuntu 22.04 has a newer Python in addition to its own.
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || ! command -v python3 >/dev/null || python=python3.11-venv
  fitting_python >/dev/null || [ -x .venv/bin/python ] || lacking "$python" python3.12 "Python 3.11 or newer with venv"
  [ -e /etc/ssl/certs/ca-certificates.crt ] || [ -e /etc/pki/tls/certs/ca-bundle.crt ] || echo "ca-certificates (to download anything)"
}

# The packages that contain libclang and its headers, of the version that libclang-dev depends on, without the
# half gigabyte of libclang-dev itself.
libclang_packages() {
  local version
  version=$(apt-cache depends libclang-dev 2>/dev/null | sed -n 's/.*Depends: libclang-\([0-9]*\)-dev.*/\1/p' | head -n 1)
  if [ -z "$version" ] || ! apt-cache show "libclang1-$version" >/dev/null 2>&1; then
    version=$(apt-cache search --names-only '^libclang1-[0-9]+$' | sed 's/^libclang1-\([0-9]*\).*/\1/' | sort -rn | head -n 1)
  fi
  [ -n "$version" ] && echo "libclang1-$version libclang-common-$version-dev" || echo libclang-dev
}

system_packages() {
  local list packages as_root=() without_rust=
  list=$(missing)
  [ -n "$list" ] || return 0
  say "missing on this system:"
  sed 's/^/  /' <<<"$list" >&2
  packages=$(cut -d' ' -f1 <<<"$list" | sort -u)
  command -v cargo >/dev/null || without_rust="; and Rust: $(rust_advice "$(rust_wanted)")"
  if fedora_names; then
    die "install them, then run this again: dnf install" $packages "(on RHEL, first enable CRB and EPEL, where some of them are)$without_rust"
  fi
  command -v apt-get >/dev/null || die "no apt-get here: install the listed packages with this system's package manager, then run this again"
  if [ "$(id -u)" -ne 0 ]; then
    sudo -n true 2>/dev/null ||
      die "not root, and no sudo without a password; ask an administrator to run this, then run setup again: apt-get install $(sed 's/^libclang$/libclang-dev/' <<<"$packages" | paste -sd ' ')$without_rust"
    as_root=(sudo -n)
  fi
  as_root+=(env DEBIAN_FRONTEND=noninteractive)
  say "apt-get update"
  "${as_root[@]}" apt-get -qq update >&2
  packages=$(cut -d' ' -f1 <<<"$list" | sort -u)
  grep -qx libclang <<<"$packages" && packages="$(grep -vx libclang <<<"$packages" || true) $(libclang_packages)"
  say "apt-get install" $packages
  "${as_root[@]}" apt-get -qq install -y --no-install-recommends $packages </dev/null >&2
  list=$(missing)
  [ -z "$list" ] || die "still missing after the installation: $list"
}

# ---- Rust ------------------------------------------------------------------------------------------------------

# Whether version $1 is $2 or newer.
at_least() { [ "$(printf '%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# How to get Rust $1 or newer on this system. Nothing is installed here: a toolchain goes into the user's home.
rust_advice() {
  local offered advice="curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"
  if fedora_names; then
    advice="'dnf install cargo rustfmt clippy' where that is new enough (Fedora), or $advice"
  elif apt-cache policy rustup 2>/dev/null | grep -q 'Candidate: [0-9]'; then
    advice="'apt-get install rustup', then 'rustup default stable'"
  else
    offered=$(apt-cache policy cargo 2>/dev/null | sed -n 's/^ *Candidate: \([0-9.]*\).*/\1/p') || true
    [ -z "$offered" ] || ! at_least "$offered" "$1" || advice="'apt-get install cargo rustfmt rust-clippy'"
  fi
  echo "$advice, then a new shell"
}

rust_wanted() { sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1; }

rust() {
  local have want
  want=$(rust_wanted)
  command -v cargo >/dev/null || die "no cargo, and Rust $want or newer is needed: $(rust_advice "$want")"
  have=$(cargo --version 2>/dev/null | cut -d' ' -f2) || true
  [ -n "$have" ] || die "$(command -v cargo) does not run: $(cargo --version 2>&1 | head -n 1); 'rustup default stable' usually fixes it"
  at_least "$have" "$want" ||
    die "cargo is $have, and $want or newer is needed: $(if command -v rustup >/dev/null; then echo "rustup update stable"; else rust_advice "$want"; fi)"
  [ -z "${FRAMESPOOL_TARGET:-}" ] || [ -d "$(rustc --print target-libdir --target "$FRAMESPOOL_TARGET")" ] || rustup -q target add "$FRAMESPOOL_TARGET" >&2 ||
    die "Rust's standard library for $FRAMESPOOL_TARGET is missing: rustup target add $FRAMESPOOL_TARGET"
}

# ---- .venv -----------------------------------------------------------------------------------------------------

venv() {
  local python stamp=.venv/requirements.sha256
  if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    rm -rf .venv
    python=$(fitting_python) || die "no Python 3.11 or newer with venv; set PYTHON to one"
    say "making .venv with $python"
    "$python" -m venv .venv
  fi
  sha256sum --status --check "$stamp" 2>/dev/null && return 0
  say "installing requirements-dev.txt into .venv"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --requirement requirements-dev.txt </dev/null
  sha256sum requirements-dev.txt >"$stamp"
}

# ---- FFmpeg ----------------------------------------------------------------------------------------------------

ffmpeg() {
  local prefix=${FRAMESPOOL_FFMPEG:-} noted=.venv/ffmpeg-prefix${FRAMESPOOL_TARGET:+-$FRAMESPOOL_TARGET}
  if [ -z "$prefix" ]; then
    prefix=$(scripts/build_ffmpeg.sh </dev/null | tail -n 1)
  fi
  [ -e "$prefix/lib/pkgconfig/libavcodec.pc" ] ||
    die "'$prefix' contains no lib/pkgconfig/libavcodec.pc; FRAMESPOOL_FFMPEG must be the prefix of an installed FFmpeg"
  if [ -n "${FRAMESPOOL_RELEASE:-}" ]; then
    [ -e "$prefix/BUILT" ] && ! grep -q unpinned "$prefix/BUILT" ||
      die "FRAMESPOOL_RELEASE is set, and '$prefix' is not a build of pinned versions: unset FRAMESPOOL_FFMPEG, so that scripts/build_ffmpeg.sh builds one"
  fi
  [ "$(cat "$noted" 2>/dev/null)" = "$prefix" ] || echo "$prefix" >"$noted"
}

# ---- wheel -----------------------------------------------------------------------------------------------------

# Checksum of everything that determines the contents of the wheel.
wheel_key() {
  {
    find Cargo.toml Cargo.lock build.rs pyproject.toml README.md LICENSE THIRD_PARTY.md licenses src kernels nvdec datasets python \
      scripts/link_library.sh scripts/newer_glibc.c scripts/sbom.py \
      -type f ! -name '*.pyc' ! -name '*.so' -print0 2>/dev/null | sort -z | xargs -0 sha256sum
    cargo --version
    echo "$framespool_ffmpeg"
    env | grep -E '^CARGO_(ENCODED_RUSTFLAGS|TARGET_[A-Z0-9_]+_LINKER)=' | sort
  } | sha256sum
}

wheel() {
  local key stamp=$wheels/built
  key=$(wheel_key)
  [ "$(cat "$stamp" 2>/dev/null)" = "$key" ] && compgen -G "$wheels/framespool-*.whl" >/dev/null && return 0
  say "building the wheel"
  rm -f $wheels/framespool-*.whl "$stamp"
  .venv/bin/python scripts/sbom.py list target/sbom/framespool.cdx.json
  maturin build --profile dev --out "$wheels" --interpreter .venv/bin/python --sbom-include target/sbom/framespool.cdx.json \
    ${CI:+--locked} </dev/null >&2
  echo "$key" >"$stamp"
}

install_wheel() {
  local stamp=.venv/wheel
  cmp -s target/wheels/built "$stamp" && return 0
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps \
    target/wheels/framespool-*.whl </dev/null
  cp target/wheels/built "$stamp"
}

timed "system packages" system_packages
rust
timed ".venv" venv
timed "FFmpeg" ffmpeg
source scripts/env.sh # again, now that .venv and FFmpeg exist
case $goal in media | tests) timed "the test media" .venv/bin/python tests/media/make.py >/dev/null ;; esac
case $goal in
all | wheel | tests) timed "the wheel" wheel ;;
esac
case $goal in
all | tests)
  timed "installing the wheel" install_wheel
  say "ready: .venv/bin/python -c 'import framespool'"
  ;;
esac
