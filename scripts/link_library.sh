#!/usr/bin/env bash
# The linker of the wheel's library, for scripts/setup.sh: the C compiler, once the list of what the library shows to others holds
# Python's entry point alone. Crates that are C libraries as well (crc-fast, which comes with object_store) add their functions to it,
# and have no switch against that where they are used by another crate.
set -euo pipefail
for argument in "$@"; do
  case $argument in
  -Wl,--version-script=*)
    list=${argument#-Wl,--version-script=}
    ! grep -q '^ *PyInit_' "$list" || sed -i -E '/^ *[A-Za-z_][A-Za-z0-9_.]*;$/{/PyInit_/!d}' "$list"
    ;;
  esac
done
exec "${CC:-cc}" "$@"
