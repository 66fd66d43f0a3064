#!/usr/bin/env bash
# Prepares, checks and publishes a release; docs/development.md, "Releases", has the order. The workflow release.yml calls all but
# the first; all but the last two also run locally. A version is X.Y.Z, or X.Y.ZrcN for a release candidate.
#
#   scripts/check_release.sh set VERSION             writes the version to Cargo.toml, Cargo.lock, CITATION.cff and the changelog
#   scripts/check_release.sh tag [vVERSION]          these have the same version, and that of the tag
#   scripts/check_release.sh wheel                   the wheel of `make wheel` is fit for release: alone in each Python, and in the tests
#   scripts/check_release.sh sdist                   the source distribution builds to a wheel, which decodes alone in an environment
#   scripts/check_release.sh twice                   a second build of the committed state, in another folder, has the same bytes
#   scripts/check_release.sh relink                  the wheel can be linked with another FFmpeg (LGPL) and decodes the same bytes
#   scripts/check_release.sh draft vVERSION FOLDER   drafts the release page, with the files of FOLDER and the changelog; needs gh
#   scripts/check_release.sh publish vVERSION        publishes this draft; needs gh
set -euo pipefail
cd "$(dirname "$0")/.."

die() { echo "check_release: $*" >&2; exit 1; }
usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2; exit 2; }

# The version in Cargo.toml. Cargo's 0.2.0-rc.1 is 0.2.0rc1 in Python and here; maturin does the same for the wheel.
cargo_version() { sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1 | sed 's/-rc\./rc/'; }

# The section of the changelog for version $1, without its title; for a release candidate what is not released yet. A page of a
# release is in another folder than the changelog, so its links need the address of the repository.
section() {
  local title=$1 repository
  [[ $title != *rc* ]] || title=Unreleased
  repository=$(sed -n 's/^repository = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
  awk -v title="## $title " 'index($0 " ", title) == 1 { on = 1; next } /^## / { on = 0 } on' CHANGELOG.md |
    sed -E "s|\]\(([A-Za-z][^):]*)\)|](${repository}/blob/v$1/\1)|g"
}

same_version() {
  local version=${1#v} cargo citation locked
  [[ $1 =~ ^v[0-9]+\.[0-9]+\.[0-9]+(rc[0-9]+)?$ ]] || die "'$1' is not a tag of the form vX.Y.Z or vX.Y.ZrcN"
  cargo=$(cargo_version)
  citation=$(sed -n 's/^version: "\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' CITATION.cff)
  locked=$(sed -n '/^name = "framespool-python"$/{n;s/^version = "\(.*\)"$/\1/p}' Cargo.lock | sed 's/-rc\./rc/')
  [ "$cargo" = "$version" ] || die "the tag is $1, but Cargo.toml has version $cargo"
  [ "$locked" = "$version" ] || die "the version is $version, but Cargo.lock has version $locked; scripts/check_release.sh set $version"
  [ "$citation" = "$version" ] || die "the version is $version, but CITATION.cff has version $citation"
}

has_notes() {
  local title=$1
  [[ $title != *rc* ]] || title=Unreleased
  grep -q '[^[:space:]]' <<<"$(section "$1")" || die "CHANGELOG.md has no section '## $title', or an empty one"
}

case ${1:-} in
set)
  [ $# -eq 2 ] && [[ $2 =~ ^[0-9]+\.[0-9]+\.[0-9]+(rc[0-9]+)?$ ]] || usage
  sed -i "0,/^version = /s/^version = .*/version = \"${2/rc/-rc.}\"/" Cargo.toml
  sed -i "s/^version: .*/version: $2/" CITATION.cff
  [[ $2 == *rc* ]] || sed -i "s/^## Unreleased$/## $2 — $(date -u +%F)/" CHANGELOG.md
  cargo update --quiet --offline --workspace
  sed -i "/^name = \"framespool-kernels\"$/{n;s/^version = .*/version = \"${2/rc/-rc.}\"/}" benches/pixels/Cargo.lock
  same_version "v$2"
  has_notes "$2"
  ;;
tag)
  [ $# -le 2 ] || usage
  same_version "${2:-v$(cargo_version)}"
  [ $# -eq 1 ] || has_notes "${2#v}"
  ;;
wheel)
  .venv/bin/python scripts/check_wheel.py target/wheels/framespool-*.whl
  scripts/setup.sh tests
  scripts/check_wheel_pythons.sh
  source scripts/env.sh
  FRAMESPOOL_INDEX=off python -m pytest -n 2 tests/python --ignore tests/python/gpu
  ;;
sdist)
  rm -rf target/sdist
  make sdist
  again=$(mktemp -d)
  trap 'rm -rf "$again"' EXIT
  mkdir "$again/sources"
  tar -xzf target/sdist/framespool-*.tar.gz -C "$again/sources" --strip-components=1
  make -C "$again/sources" wheel
  .venv/bin/python -m venv "$again/alone"
  "$again/alone/bin/python" -m pip install --quiet --disable-pip-version-check --no-index "$again"/sources/target/wheels/framespool-*.whl
  # It decodes an image, and lists the components.
  FRAMESPOOL_INDEX=off "$again/alone/bin/framespool" doctor
  built=$("$again/alone/bin/framespool" --version)
  [ "$built" = "framespool $(cargo_version)" ] || die "the source distribution builds '$built', but Cargo.toml has version $(cargo_version)"
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
draft)
  [ $# -eq 3 ] || usage
  same_version "$2"
  has_notes "${2#v}"
  # A job that runs again replaces its draft.
  case $(gh release view "$2" --json isDraft --jq .isDraft 2>/dev/null || true) in
  true) gh release delete "$2" --yes ;;
  false) die "the release $2 is published already" ;;
  esac
  for wheel in "$3"/framespool-*.whl; do
    unzip -p "$wheel" '*.dist-info/sboms/framespool.cdx.json' >"${wheel%.whl}.cdx.json"
  done
  kind=()
  [[ $2 != *rc* ]] || kind=(--prerelease)
  section "${2#v}" | gh release create "$2" --draft "${kind[@]}" --verify-tag --title "framespool ${2#v}" --notes-file - "$3"/*
  ;;
publish)
  [ $# -eq 2 ] || usage
  gh release edit "$2" --draft=false
  ;;
*) usage ;;
esac
