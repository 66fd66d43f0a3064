#!/usr/bin/env bash
# Cargo calls this instead of rustc for the crates of this workspace (RUSTC_WORKSPACE_WRAPPER), so that they count which of their
# code runs, with LLVM's own instrumentation, which every toolchain has. Build scripts and third-party crates are not instrumented.
rustc=$1
shift
case " $* " in
*" --crate-name build_script_"* | *" --print "* | *" -vV "*) exec "$rustc" "$@" ;;
*" --crate-name framespool"* | *" --crate-name guided "*) ;;
*) exec "$rustc" "$@" ;;
esac
exec "$rustc" "$@" -Cpasses=sancov-module \
  -Cllvm-args=-sanitizer-coverage-level=4 \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
  -Cllvm-args=-sanitizer-coverage-pc-table \
  -Cllvm-args=-sanitizer-coverage-trace-compares \
  -Cllvm-args=-simplifycfg-branch-fold-threshold=0
