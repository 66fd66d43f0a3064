#!/usr/bin/env bash
# Whether what comes from others may be used, and whether anything is known against it.
#
#   scripts/audit.sh          licences, sources and versions of all crates against deny.toml; licenses/rust-crates.txt against
#                             Cargo.lock; RustSec's advisories, where its database can be reached
#   scripts/audit.sh python   the packages that building and testing use, by pip-audit, in a virtual environment of its own
#                             (.venv-audit); the wheel itself needs none
#
# What could not be looked at is said, never passed over; FRAMESPOOL_AUDIT=all makes it an error.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/env.sh

say() { printf 'audit: %s\n' "$*" >&2; }
# $1 was not looked at, because $2.
left_out() {
  say "NOT looked at: $1 ($2)"
  [ "${FRAMESPOOL_AUDIT:-}" != all ]
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

crates() {
  # Twice in different versions is worth a warning and not the tree of who uses it.
  cargo deny --log-level error --locked check --hide-inclusion-graph licenses bans sources
  .venv/bin/python scripts/sbom.py check
  if timeout 300 cargo deny --log-level error --locked check advisories >"$log" 2>&1; then
    say "RustSec: nothing is known against the crates of Cargo.lock"
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
    # Versions are taken as they are written; those without one are those of requirements-dev.txt.
    sed -n 's/^\([A-Za-z0-9_.-]*\)\(\[[^]]*\]\)\{0,1\}==/\1==/p' "$list" >"$log.txt"
    if ! timeout 300 $place/bin/pip-audit --no-deps --disable-pip --progress-spinner off --requirement "$log.txt" >"$log" 2>&1 &&
      ! grep -qE 'ConnectionError|ServiceError|Max retries|Timeout|HTTPError' "$log"; then
      cat "$log" >&2
      failed=1
    # Where an index answers without the part about advisories, pip-audit says so and ends well.
    elif grep -qE 'could not be audited|Error|Max retries|Timeout' "$log"; then
      left_out "packages of $list" "$(tail -n 1 "$log" | tr -s ' ' | cut -c1-160)" || failed=1
    else
      say "$list: nothing is known against its packages"
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
