# shellcheck shell=bash
# The environment in which cargo, maturin and the tests run. Source it from bash: source scripts/env.sh
# It sets paths and starts nothing; what it points at is made by scripts/setup.sh. Sourcing it twice changes nothing.

framespool_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Rust may stand outside PATH, and outside this HOME: look beside HOME, then in the account's own home.
if ! command -v cargo >/dev/null; then
  for home in "$HOME" "$(getent passwd "$(id -u)" 2>/dev/null | cut -d: -f6)"; do
    [ -x "$home/.cargo/bin/cargo" ] && PATH=$home/.cargo/bin:$PATH && break
  done
fi
# rustup's cargo finds its toolchains through HOME. Where HOME is another one, they lie next to the cargo that was found.
if command -v cargo >/dev/null && ! cargo --version >/dev/null 2>&1; then
  rustup_home=$(dirname "$(dirname "$(dirname "$(command -v cargo)")")")/.rustup
  [ -d "$rustup_home" ] && export RUSTUP_HOME=$rustup_home
fi

case ":$PATH:" in
*":$framespool_root/.venv/bin:"*) ;;
*) PATH=$framespool_root/.venv/bin:$PATH ;;
esac
export PATH
[ -x "$framespool_root/.venv/bin/python" ] && export PYO3_PYTHON=$framespool_root/.venv/bin/python

# FFmpeg: the caller's own, else the one that scripts/setup.sh built or found.
framespool_ffmpeg=${FRAMESPOOL_FFMPEG:-$(cat "$framespool_root/.venv/ffmpeg-prefix" 2>/dev/null || true)}
if [ -n "$framespool_ffmpeg" ]; then
  case "${PKG_CONFIG_PATH:-}" in
  "$framespool_ffmpeg/lib/pkgconfig"*) ;;
  *) export PKG_CONFIG_PATH=$framespool_ffmpeg/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH} ;;
  esac
fi

# bindgen searches the usual library folders by itself; only LLVM's private ones need a hint. Newest first.
framespool_libclang() {
  local folder
  for folder in ${LIBCLANG_PATH:+"$LIBCLANG_PATH"} /usr/lib/*-linux-gnu /usr/lib64 /usr/lib \
    $(printf '%s\n' /usr/lib/llvm-*/lib /usr/lib/llvm/*/lib64 | sort -rV); do
    compgen -G "$folder/libclang[-.]*so*" >/dev/null && echo "$folder" && return
  done
  return 1
}
if [ -z "${LIBCLANG_PATH:-}" ]; then
  case "$(framespool_libclang || true)" in
  */llvm*) LIBCLANG_PATH=$(framespool_libclang) && export LIBCLANG_PATH ;;
  esac
fi

# How Rust is compiled, for the wheel and the tests alike, since cargo shares no build between different settings: names for folders
# of this machine, which panics would show, and a linker that keeps the functions of crates inside the library.
if command -v rustc >/dev/null; then
  # shellcheck disable=SC2086 # RUSTFLAGS is a list of words
  CARGO_ENCODED_RUSTFLAGS=$(printf '%s\x1f' ${RUSTFLAGS:-} "--remap-path-prefix=$framespool_root=/framespool" \
    "--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src=/crates")
  export CARGO_ENCODED_RUSTFLAGS=${CARGO_ENCODED_RUSTFLAGS%$'\x1f'}
  framespool_triple=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
  export "CARGO_TARGET_${framespool_triple}_LINKER=$framespool_root/scripts/link_library.sh"
fi
