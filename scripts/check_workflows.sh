#!/usr/bin/env bash
# Checks the workflows in .github: actionlint for their syntax and expressions, zizmor for their security. Without a network.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/env.sh

# Without ShellCheck and pyflakes, whose versions differ between machines; steps are calls of scripts and make targets.
actionlint -shellcheck= -pyflakes=
zizmor --offline --quiet --no-progress .
