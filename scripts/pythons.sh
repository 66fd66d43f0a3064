#!/usr/bin/env bash
# Finds or fetches a CPython of a given version, and prints the path of its interpreter on the last line.
#
#   scripts/pythons.sh 3.14           an installed one, else one fetched into the cache; needs no root
#   scripts/pythons.sh --here 3.14t   only an installed one; otherwise exits with 1 without output
#
# Searches PATH, /usr/bin, pyenv's versions and the cache. If needed, packages of a Debian release that
# has this Python are fetched, with the C library that they were built for, and unpacked into
# ${FRAMESPOOL_CACHE:-${XDG_CACHE_HOME:-~/.cache}/framespool}/python-VERSION. apt checks their signatures. It uses a private
# list of sources and private state, so the system stays unchanged. Exit code 3: no Debian release has this Python.
# With FRAMESPOOL_TARGET=aarch64-unknown-linux-gnu it is one for that target, which runs in qemu-aarch64-static.
set -euo pipefail

fetch=true
if [ "${1:-}" = --here ]; then
  fetch=false
  shift
fi
[ $# -eq 1 ] || { echo "usage: scripts/pythons.sh [--here] VERSION, for instance 3.14" >&2; exit 2; }
version=$1
cache=${FRAMESPOOL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/framespool}
architecture=
emulator=
case ${FRAMESPOOL_TARGET:-} in
"" | "$(uname -m)-unknown-linux-gnu") ;;
aarch64-unknown-linux-gnu) architecture=arm64 emulator=qemu-aarch64-static ;;
*) echo "pythons: FRAMESPOOL_TARGET is '$FRAMESPOOL_TARGET'; only aarch64-unknown-linux-gnu is supported" >&2; exit 2 ;;
esac
prefix=$cache/python-$version${architecture:+-$architecture}

say() { printf 'pythons: %s\n' "$*" >&2; }
die() {
  say "no Python $version: none on PATH, in /usr/bin, in ~/.pyenv/versions or in $prefix, and none can be fetched: $*"
  say "install Python $version and put python$version on PATH, then run this again"
  exit 1
}

# Debian releases that have the version; the first available one is used.
case $version in
  3.11) releases="bookworm" ;;
  3.13) releases="trixie" ;;
  3.14) releases="forky sid" ;;
  *) releases="" ;;
esac

runs() {
  [ -x "$1" ] && "$1" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '${version%t}')" 2>/dev/null
}

places=("$prefix/usr/bin/python$version")
[ -n "$architecture" ] ||
  places=("$(command -v "python$version" || true)" "/usr/bin/python$version" "$HOME"/.pyenv/versions/"${version%t}".*/bin/"python$version" "${places[@]}")
for python in "${places[@]}"; do
  if runs "$python"; then
    echo "$python"
    exit 0
  fi
done
$fetch || exit 1
[ -n "$releases" ] || { say "no Python $version here, and no Debian release has it"; exit 3; }
for tool in apt-get dpkg-deb $emulator; do
  command -v "$tool" >/dev/null || die "the command $tool is missing"
done

mkdir -p "$cache"
work=$(mktemp -d "$cache/python-XXXXXX")
trap 'rm -rf "$work"' EXIT
log=$work/log
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -f "$keyring" ] || die "$keyring is missing (package debian-archive-keyring)"
# The mirror that this machine already uses.
mirror=$(apt-get indextargets --format '$(SITE)' 2>/dev/null | grep -E '/debian/?$' | head -n 1 || true)
[ -n "$mirror" ] || die "no Debian mirror among apt's sources"

# apt with this release as its only source and no installed packages.
prepare() {
  apt=$work/apt-$1
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
  : >"$apt/status"
  echo "deb [${architecture:+arch=$architecture }signed-by=$keyring target=Packages lang=none] $mirror $1 main" >"$apt/list"
  # A mirror's list of a moving release may have expired; its signature is still checked.
  options=(-qq -o Dir::Etc::sourcelist="$apt/list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$apt/lists"
    -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" -o Debug::NoLocking=true -o APT::Sandbox::User=root
    -o Acquire::Check-Valid-Until=false -o Acquire::Retries=2 -o APT::Update::Error-Mode=any)
  [ -z "$architecture" ] || options+=(-o APT::Architecture="$architecture" -o APT::Architectures::="$architecture")
  apt-get "${options[@]}" update >>"$log" 2>&1
}

# Packages of a release with all their dependencies, unpacked into $work/root.
unpack() {
  local package
  prepare "$1" || return 1
  apt-get "${options[@]}" install -y --download-only --no-install-recommends "python$version" >>"$log" 2>&1 || return 1
  rm -rf "$work/root"
  mkdir "$work/root"
  for package in "$apt"/cache/archives/*.deb; do
    dpkg-deb -x "$package" "$work/root" >>"$log" 2>&1 || return 1
  done
}

tried=""
for release in $releases; do
  say "fetching Python $version from Debian $release"
  unpack "$release" && break
  tried+="${tried:+; }Debian $release ($(grep -E '^[EW]:|error' "$log" | tail -n 1))"
  release=""
done
[ -n "$release" ] || die "$tried"

# These programs need their own release's C library. A script replaces the interpreter and starts it with that release's
# loader, under the script's name. So sys.executable is the script, and the standard library is found next to it.
interpreter=$work/root/usr/bin/python$version
loader=$(cd "$work/root" && find . -type f -name 'ld-linux*.so.*' -printf '%P\n' | head -n 1)
[ -n "$loader" ] || die "the packages of Debian $release have no dynamic loader"
libraries=${loader%/*}
libraries=${libraries#usr/}
mv "$interpreter" "$interpreter.elf"
cat >"$interpreter" <<SCRIPT
#!/bin/sh
root=\$(cd "\$(dirname "\$0")/../.." && pwd -P)
exec $emulator "\$root/$loader" --library-path "\$root/usr/$libraries:\$root/$libraries" --argv0 "\$0" "\$0.elf" "\$@"
SCRIPT
chmod +x "$interpreter"
"$interpreter" -c "import hashlib, zlib" >>"$log" 2>&1 && runs "$interpreter" ||
  die "the one of Debian $release does not run: $(tail -n 1 "$log")"

# Renamed atomically, so that no other process sees a partial folder.
rm -rf "$prefix"
mv "$work/root" "$prefix"
say "fetched $("$prefix/usr/bin/python$version" --version) from Debian $release"
echo "$prefix/usr/bin/python$version"
