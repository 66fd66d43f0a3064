#!/usr/bin/env bash
# Builds the documentation into target/site and checks it. Any warning of the build is an error.
#
#   scripts/docs.sh            build; open target/site/index.html, needs no server
#   scripts/docs.sh serve      rebuild at every change, at http://127.0.0.1:8000
#
# The tools are in .venv-docs (requirements-docs.txt). Pages about the command line show the output of .venv's framespool.
set -euo pipefail
cd "$(dirname "$0")/.."

[ -x .venv/bin/framespool ] || { echo "docs: no framespool in .venv; run scripts/setup.sh first" >&2; exit 2; }
venv=.venv-docs
key=$({ .venv/bin/python -V && cat requirements-docs.txt; } | sha256sum)
if [ "$(cat $venv/requirements.sha256 2>/dev/null)" != "$key" ]; then
  rm -rf $venv
  .venv/bin/python -m venv $venv
  # Without dependencies: requirements-docs.txt lists every package.
  $venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement requirements-docs.txt </dev/null
  $venv/bin/python -m pip check --disable-pip-version-check >&2
  echo "$key" >$venv/requirements.sha256
fi

export NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true
if [ "${1:-}" = serve ]; then
  exec $venv/bin/python -m mkdocs serve --strict
fi
$venv/bin/python -m mkdocs build --strict --quiet --clean
$venv/bin/python scripts/docs_check.py target/site
