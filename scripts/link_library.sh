#!/usr/bin/env bash
# The linker of the wheel's library, for scripts/setup.sh: the C compiler, after two changes.
#
# The list of exported symbols is reduced to Python's entry point: crates that are C libraries too (crc-fast, a dependency of
# object_store) export their functions, and have no switch to disable that when another crate uses them.
#
# Functions of which glibc has a newer version than 2.28 are bound to the older version, which newer releases of glibc still have,
# so that the wheel runs with glibc 2.28 (RHEL 8, Debian 10) although this machine has a newer one.
#
# The symbols of a stripped library are kept in target/symbols/<build ID>.debug, for backtraces and profiles of the wheel.
set -euo pipefail

compiler=${CC:-cc}
[ -z "${FRAMESPOOL_TARGET:-}" ] || compiler=aarch64-linux-gnu-gcc

# Creates stub libraries in folder $1 that define the older versions, and prints what to link. The linker binds each function to
# the first library that defines it, and records that library's name and the version.
older_glibc() {
  local folder=$1 library name names
  local -A functions=(
    [libdl.so.2]="dlclose dlerror dlopen dlsym"
    [libm.so.6]="exp exp2 hypot log log2 pow"
    [libpthread.so.0]="pthread_attr_getguardsize pthread_attr_getstack pthread_attr_setstacksize pthread_create pthread_detach
      pthread_getaffinity_np pthread_getattr_np pthread_join pthread_key_create pthread_key_delete pthread_mutex_trylock
      pthread_mutexattr_destroy pthread_mutexattr_init pthread_mutexattr_settype pthread_once pthread_setname_np pthread_setspecific"
  )
  # The version of glibc's first release for the architecture, and functions that were added later.
  local base=GLIBC_2.17
  local -A added=()
  if [ "${FRAMESPOOL_TARGET:-$(uname -m)}" = x86_64 ]; then
    base=GLIBC_2.2.5
    added=([pthread_getaffinity_np]=GLIBC_2.3.4 [pthread_setname_np]=GLIBC_2.12)
  fi
  for library in "${!functions[@]}"; do
    names=
    for name in ${functions[$library]}; do
      printf '.globl %s\n.type %s, @function\n%s:\n' "$name" "$name" "$name" >>"$folder/$library.s"
      if [ -n "${added[$name]:-}" ]; then
        echo "${added[$name]} { global: $name; };" >>"$folder/$library.map"
      else
        names+=" $name;"
      fi
    done
    echo "$base { global:$names };" >>"$folder/$library.map"
    "$compiler" -shared -nostdlib -Wl,-soname,"$library" -Wl,--version-script="$folder/$library.map" -o "$folder/$library" "$folder/$library.s"
    echo "$folder/$library"
  done
  "$compiler" -O2 -fPIC -fvisibility=hidden -c -o "$folder/newer_glibc.o" "$(dirname "$0")/newer_glibc.c"
  echo "$folder/newer_glibc.o"
}

more=()
unstripped=()
for argument in "$@"; do
  [ "$argument" = -Wl,--strip-all ] || unstripped+=("$argument")
  case $argument in
  -Wl,--version-script=*)
    list=${argument#-Wl,--version-script=}
    if grep -q '^ *PyInit_' "$list"; then
      sed -i -E '/^ *[A-Za-z_][A-Za-z0-9_.]*;$/{/PyInit_/!d}' "$list"
      stubs=$(mktemp -d)
      trap 'rm -rf "$stubs"' EXIT
      mapfile -t more < <(older_glibc "$stubs")
      [ ${#more[@]} = 4 ] || { echo "link_library: the stubs of glibc were not built" >&2; exit 1; }
    fi
    ;;
  esac
done
"$compiler" "${more[@]}" "$@"
[ ${#more[@]} -gt 0 ] && [ ${#unstripped[@]} -lt $# ] || exit 0

# Symbols and debug information contain the paths of this machine, so they must not be part of what the build ID is computed from:
# the library is linked a second time, with symbols and with the build ID of the first.
for ((i = 0; i < ${#unstripped[@]}; i++)); do
  [ "${unstripped[i]}" != -o ] || { output=${unstripped[i + 1]} && unstripped[i + 1]=$stubs/library.so; }
done
build_id=$(readelf -n "$output" | sed -n 's/^ *Build ID: //p')
[ -n "$build_id" ] || { echo "link_library: the linker gave $output no build ID; link with -Wl,--build-id" >&2; exit 1; }
tools=${compiler%gcc}
[ "$tools" != "$compiler" ] || tools=
symbols=$(dirname "$0")/../target/symbols
mkdir -p "$symbols"
"$compiler" "${more[@]}" "${unstripped[@]}" "-Wl,--build-id=0x$build_id"
"${tools}objcopy" --only-keep-debug --compress-debug-sections=zlib "$stubs/library.so" "$symbols/$build_id.debug"
