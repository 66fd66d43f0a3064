#!/usr/bin/env bash
# Checks and publishes a release. The workflow release.yml calls it; all but the last also run locally.
#
#   scripts/check_release.sh tag vX.Y.Z              the tag, Cargo.toml, CITATION.cff and the changelog have the same version
#   scripts/check_release.sh wheel                   the wheel of `make wheel` is fit for release, and passes the Python tests here
#   scripts/check_release.sh twice                   a second build of the committed state, in another folder, has the same bytes
#   scripts/check_release.sh relink                  the wheel can be linked with another FFmpeg (LGPL) and decodes the same bytes
#   scripts/check_release.sh publish vX.Y.Z FOLDER   creates the release page, with the files of FOLDER and the changelog; needs gh
set -euo pipefail
cd "$(dirname "$0")/.."

die() { echo "check_release: $*" >&2; exit 1; }
usage() { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }

# The section of the changelog for version $1, without its title.
section() { awk -v title="## $1 " 'index($0 " ", title) == 1 { on = 1; next } /^## / { on = 0 } on' CHANGELOG.md; }

same_version() {
  local version=${1#v} cargo citation
  [[ $1 =~ ^v[0-9]+\.[0-9]+\.[0-9]+$ ]] || die "'$1' is not a tag of the form vX.Y.Z"
  cargo=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
  citation=$(sed -n 's/^version: "\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' CITATION.cff)
  [ "$cargo" = "$version" ] || die "the tag is $1, but Cargo.toml has version $cargo"
  [ "$citation" = "$version" ] || die "the tag is $1, but CITATION.cff has version $citation"
  grep -q '[^[:space:]]' <<<"$(section "$version")" || die "CHANGELOG.md has no section '## $version', or an empty one"
}

case ${1:-} in
tag)
  [ $# -eq 2 ] || usage
  same_version "$2"
  ;;
wheel)
  .venv/bin/python scripts/check_wheel.py target/wheels/framespool-*.whl
  scripts/setup.sh tests
  source scripts/env.sh
  FRAMESPOOL_INDEX=off python -m pytest -n 2 tests/python --ignore tests/python/gpu
  ;;
twice)
  [ -z "$(git status --porcelain)" ] || die "there are changes that are not committed; commit them, so that both builds have the same sources"
  scripts/setup.sh wheel
  again=$(mktemp -d)
  trap 'rm -rf "$again"' EXIT
  git clone --quiet . "$again/sources"
  (cd "$again/sources" && scripts/setup.sh wheel)
  .venv/bin/python - target/wheels/framespool-*.whl "$again"/sources/target/wheels/framespool-*.whl <<'PROGRAM'
import sys, zipfile
first, second = sys.argv[1:]
if open(first, "rb").read() == open(second, "rb").read():
    print("check_release: both wheels have the same bytes")
    sys.exit()
a, b = zipfile.ZipFile(first), zipfile.ZipFile(second)
for name in sorted({*a.namelist(), *b.namelist()}):
    if name not in a.namelist() or name not in b.namelist() or a.read(name) != b.read(name):
        print("differs:", name)
sys.exit("check_release: the wheels differ")
PROGRAM
  ;;
relink)
  scripts/setup.sh tests
  source scripts/env.sh
  # The older one of the pinned versions.
  other=$(bash -c 'source scripts/build_ffmpeg.sh && FFMPEG_PINS=("${FFMPEG_PINS[1]}") && main' | tail -n 1)
  again=$(mktemp -d)
  trap 'rm -rf "$again"' EXIT
  git clone --quiet . "$again/sources"
  (cd "$again/sources" && FRAMESPOOL_FFMPEG=$other make wheel)
  decode() {
    python -m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-compile --target "$again/$1" "$2"/framespool-*.whl
    FRAMESPOOL_INDEX=off PYTHONPATH=$again/$1 python -s -W ignore scripts/check_wheel_media.py target/media >"$again/$1.txt"
    FRAMESPOOL_INDEX=off PYTHONPATH=$again/$1 python -s -m framespool doctor | head -n 1
  }
  decode own target/wheels
  decode relinked "$again/sources/target/wheels"
  diff "$again/own.txt" "$again/relinked.txt"
  echo "check_release: $(wc -l <"$again/own.txt") files decode to the same bytes"
  ;;
publish)
  [ $# -eq 3 ] || usage
  same_version "$2"
  section "${2#v}" | gh release create "$2" --verify-tag --title "framespool ${2#v}" --notes-file - "$3"/*
  ;;
*) usage ;;
esac
