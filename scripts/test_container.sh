#!/usr/bin/env bash
# Runs a command on the committed state of this repository in a new container of a Debian or Ubuntu image, with docker.
#
#   scripts/test_container.sh debian:12 make test
#
# The container gets make, git and Rust; everything else is installed by the command, as on a new machine.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 2 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
image=$1
shift
command -v docker >/dev/null || { echo "test_container: docker is not installed" >&2; exit 2; }

exec docker run --rm --volume "$PWD:/source:ro" --env CI --env FRAMESPOOL_FRAMEWORKS "$image" bash -euo pipefail -c '
  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq update
  apt-get -qq install -y --no-install-recommends ca-certificates curl git make
  # Debian 12 has neither a recent Rust nor rustup.
  if apt-cache policy rustup | grep -q "Candidate: [0-9]"; then
    apt-get -qq install -y --no-install-recommends rustup
    rustup -q default stable
  else
    curl --proto "=https" --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -q -y --profile minimal --component rustfmt,clippy
  fi
  # The mounted files belong to another user.
  git -c safe.directory="*" clone --quiet --no-hardlinks /source /framespool
  cd /framespool
  exec "$@"' bash "$@"
