#!/usr/bin/env bash
# Checks the workflows in .github: zizmor for their security and, where it is installed, actionlint for syntax and expressions.
# Without a network. actionlint is not in requirements-dev.txt: no package of its own authors contains the program.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/env.sh

if command -v actionlint >/dev/null; then
  # Without ShellCheck and pyflakes, whose versions differ between machines; steps are calls of scripts and make targets.
  actionlint -shellcheck= -pyflakes=
else
  echo "check_workflows: without actionlint, which is not installed"
  [ -z "${FRAMESPOOL_OUTCOMES:-}" ] || printf 'skipped\t%s\t%s\n' "syntax of the workflows" "no actionlint" >>"$FRAMESPOOL_OUTCOMES"
fi
zizmor --offline --quiet --no-progress .
