#!/usr/bin/env bash
# Checks the licenses of dependencies and the advisories against them.
#
#   scripts/audit.sh          licenses, sources and versions of all crates against deny.toml; licenses/rust-crates.txt against
#                             Cargo.lock; RustSec's advisories, if its database can be reached
#   scripts/audit.sh python   the Python packages for building and testing, with pip-audit in its own virtual environment
#                             (.venv-audit); the wheel itself needs none
#
# Every skipped check is reported; FRAMESPOOL_AUDIT=all makes it an error.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/env.sh

say() { printf 'audit: %s\n' "$*" >&2; }
# $1 was not checked, because $2.
left_out() {
  say "NOT looked at: $1 ($2)"
  [ "${FRAMESPOOL_AUDIT:-}" != all ]
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

crates() {
  # A crate in two versions is worth a warning, but not the tree of its users.
  cargo deny --log-level error --locked check --hide-inclusion-graph licenses bans sources
  .venv/bin/python scripts/sbom.py check
  if timeout 300 cargo deny --log-level error --locked check advisories >"$log" 2>&1; then
    say "RustSec: no advisory on the crates of Cargo.lock"
  elif grep -q 'failed to fetch advisory database' "$log"; then
    left_out "RustSec's advisories on crates" "its database cannot be fetched here"
  else
    cat "$log" >&2
    return 1
  fi
}

packages() {
  local place=.venv-audit list failed=0
  [ -x $place/bin/pip-audit ] || {
    .venv/bin/python -m venv $place
    $place/bin/python -m pip install --quiet --disable-pip-version-check pip-audit==2.10.1 </dev/null
  }
  for list in requirements-*.txt; do
    # Its versions are old on purpose, and only tests use them.
    [ "$list" != requirements-oldest.txt ] || continue
    # Versions are used as written; packages without one get the version of requirements-dev.txt.
    sed -n 's/^\([A-Za-z0-9_.-]*\)\(\[[^]]*\]\)\{0,1\}==/\1==/p' "$list" >"$log.txt"
    if ! timeout 300 $place/bin/pip-audit --no-deps --disable-pip --progress-spinner off --requirement "$log.txt" >"$log" 2>&1 &&
      ! grep -qE 'ConnectionError|ServiceError|Max retries|Timeout|HTTPError' "$log"; then
      cat "$log" >&2
      failed=1
    # If an index answers without advisories, pip-audit reports it and exits with success.
    elif grep -qE 'could not be audited|Error|Max retries|Timeout' "$log"; then
      left_out "packages of $list" "$(tail -n 1 "$log" | tr -s ' ' | cut -c1-160)" || failed=1
    else
      say "$list: no advisory on its packages"
    fi
  done
  rm -f "$log.txt"
  return $failed
}

case ${1:-crates} in
crates) crates ;;
python) packages ;;
*) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
