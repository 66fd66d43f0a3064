#!/usr/bin/env bash
# The linker of the wheel's library, for scripts/setup.sh: the C compiler, after reducing the list of exported symbols to Python's
# entry point. Crates that are C libraries too (crc-fast, a dependency of object_store) export their functions,
# and have no switch to disable that when another crate uses them.
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
