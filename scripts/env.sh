# shellcheck shell=bash
# The environment for cargo, maturin and the tests. Source it from bash: source scripts/env.sh
# It only sets paths, to things that scripts/setup.sh creates. Sourcing it twice changes nothing.
# FRAMESPOOL_TARGET=aarch64-unknown-linux-gnu makes cargo and maturin compile for that target, with Debian's cross compiler.

framespool_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Rust may be installed outside PATH and outside HOME: search the sibling folders of HOME, then the account's home.
if ! command -v cargo >/dev/null; then
  for home in "$HOME" "$(getent passwd "$(id -u)" 2>/dev/null | cut -d: -f6)"; do
    [ -x "$home/.cargo/bin/cargo" ] && PATH=$home/.cargo/bin:$PATH && break
  done
fi
# rustup's cargo finds its toolchains through HOME. If HOME differs, they are next to the cargo that was found.
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

# FFmpeg: the user's own prefix, else the one that scripts/setup.sh built or found.
framespool_ffmpeg=${FRAMESPOOL_FFMPEG:-$(cat "$framespool_root/.venv/ffmpeg-prefix${FRAMESPOOL_TARGET:+-$FRAMESPOOL_TARGET}" 2>/dev/null || true)}
if [ -n "$framespool_ffmpeg" ]; then
  case "${PKG_CONFIG_PATH:-}" in
  "$framespool_ffmpeg/lib/pkgconfig"*) ;;
  *) export PKG_CONFIG_PATH=$framespool_ffmpeg/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH} ;;
  esac
fi

# bindgen searches the usual library folders; only LLVM's private ones need a hint. Newest first.
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

# Compiler flags, the same for the wheel and the tests, since cargo shares no build between different flags: remapped paths, because
# panic messages contain them, and a linker that does not export the functions of crates.
if command -v rustc >/dev/null; then
  # shellcheck disable=SC2086 # RUSTFLAGS is a list of words
  CARGO_ENCODED_RUSTFLAGS=$(printf '%s\x1f' ${RUSTFLAGS:-} "--remap-path-prefix=$framespool_root=/framespool" \
    "--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src=/crates")
  export CARGO_ENCODED_RUSTFLAGS=${CARGO_ENCODED_RUSTFLAGS%$'\x1f'}
  framespool_triple=$(rustc -vV | sed -n 's/^host: //p')
  if [ -n "${FRAMESPOOL_TARGET:-}" ]; then
    # Build scripts and macros are for this machine and need nothing from the linker script.
    unset "CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$framespool_triple")_LINKER"
    framespool_triple=$FRAMESPOOL_TARGET
  fi
  export "CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$framespool_triple")_LINKER=$framespool_root/scripts/link_library.sh"
  if [ -n "${FRAMESPOOL_TARGET:-}" ]; then
    export CARGO_BUILD_TARGET=$FRAMESPOOL_TARGET PKG_CONFIG_ALLOW_CROSS=1
    # Tests of this target run in an emulator.
    export "CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$framespool_triple")_RUNNER=qemu-aarch64-static -L /usr/aarch64-linux-gnu"
  fi
fi
