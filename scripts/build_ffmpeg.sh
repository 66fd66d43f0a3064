#!/usr/bin/env bash
# Builds the FFmpeg that framespool links: static, decode-only, LGPL, with dav1d for AV1.
#
#   scripts/build_ffmpeg.sh            builds (or finds) it and prints the prefix on the last line
#
# FRAMESPOOL_FFMPEG_TARBALL, FRAMESPOOL_DAV1D_TARBALL   local release tarballs, for a machine without network
# FRAMESPOOL_RELEASE                                    if set, pinned versions only, for a release wheel
# FRAMESPOOL_TARGET=aarch64-unknown-linux-gnu           compiles for that Rust target, with Debian's cross compiler
# FRAMESPOOL_SANITIZE=address                           instruments FFmpeg's C code, without assembly (scripts/dynamic_analysis.sh asan)
# FRAMESPOOL_CACHE                                      default: ${XDG_CACHE_HOME:-~/.cache}/framespool
#
# Sources are upstream's release tarballs, pinned by SHA-256, and scripts/ffmpeg.patch, which states its purpose. Each is taken from the first of: the variables above, the
# cache, the project's own site, Debian's source package (the same file) if apt has a Debian mirror. Nothing on the
# system changes: apt gets a private list of sources and private state. Tarballs and results are stored in the cache.
# To use your own FFmpeg, set FRAMESPOOL_FFMPEG to a prefix whose lib/pkgconfig contains libavcodec.pc; then
# scripts/setup.sh does not run this script. Tests source it (tests/python/test_build_ffmpeg.py).
set -euo pipefail

# Version and SHA-256 of the release tarball, newest first; the first one that can be fetched is built. A newer patch
# release of one of these series is taken from Debian if none of them is available, and such a build is marked "unpinned".
# All decode the corpus to the same frames; FFmpeg 7.1 does not (different rounding in MPEG-4, MS-MPEG-4 and VC-1).
# THIRD_PARTY.md lists the versions of the first line of each.
FFMPEG_PINS=(
  "9.0.2 8c3850283eb25fa026482078a04051e0be17347b09ef81a0849bec15a96e002e"
  "8.1.2 464beb5e7bf0c311e68b45ae2f04e9cc2af88851abb4082231742a74d97b524c"
)
DAV1D_PINS=(
  "1.5.4 686616b7c69eb88d44459391ab25cac13b6647a3b288835c5784e71c1514a5c5"
  "1.5.1 401813f1f89fa8fd4295805aa5284d9aed9bc7fc1fdbe554af4292f64cbabe21"
)
FFMPEG_URL=https://ffmpeg.org/releases/ffmpeg-VERSION.tar.xz
DAV1D_URL=https://downloads.videolan.org/pub/videolan/dav1d/VERSION/dav1d-VERSION.tar.xz
SUITES="sid forky trixie"
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

DEMUXERS=mov,matroska,avi,mpegts,mpegps,mpegvideo,flv,ogg,h264,hevc,vvc,ivf,obu,av1,mjpeg,m4v,asf,gif
AUDIO_DEMUXERS=mp3,wav,w64,flac,aac,ac3,eac3,amr,aiff
DECODERS=h264,hevc,vvc,vp8,vp9,libdav1d,mpeg4,msmpeg4v1,msmpeg4v2,msmpeg4v3,mpeg1video,mpeg2video,mjpeg,png,rawvideo,ffv1,flv,h263,theora,vc1,wmv1,wmv2,wmv3,prores,gif,cinepak
AUDIO_DECODERS=aac,aac_latm,mp2float,mp3float,opus,vorbis,flac,alac,ac3,eac3,wmav1,wmav2,wmapro,amrnb,amrwb,pcm_alaw,pcm_mulaw,pcm_u8,pcm_s8,pcm_s16le,pcm_s16be,pcm_s24le,pcm_s24be,pcm_s32le,pcm_s32be,pcm_f32le,pcm_f32be,pcm_f64le,pcm_f64be,pcm_dvd,pcm_bluray
PARSERS=h264,hevc,vvc,vp8,vp9,av1,mpeg4video,mpegvideo,mjpeg,png,h263,vc1,gif,vp3,ffv1,prores
AUDIO_PARSERS=aac,aac_latm,mpegaudio,opus,vorbis,flac,ac3,amr
BSFS=h264_mp4toannexb,hevc_mp4toannexb,vvc_mp4toannexb,extract_extradata,av1_frame_merge,av1_frame_split,vp9_superframe,vp9_superframe_split,mpeg4_unpack_bframes,null

CONFIGURE=(
  --disable-everything --disable-autodetect --disable-programs --disable-doc --disable-debug
  --disable-avdevice --disable-avfilter --disable-swscale --disable-network --disable-iconv
  --enable-static --disable-shared --enable-pic --enable-zlib
  --enable-demuxer="$DEMUXERS,$AUDIO_DEMUXERS" --enable-decoder="$DECODERS,$AUDIO_DECODERS" --enable-parser="$PARSERS,$AUDIO_PARSERS"
  --enable-bsf="$BSFS"
  --enable-libdav1d --pkg-config-flags=--static
)
[ "${FRAMESPOOL_SANITIZE:-}" != address ] || CONFIGURE+=(--toolchain=gcc-asan --disable-asm)

# The prefix of the cross compiler's programs; empty to compile for this machine.
cross=
case ${FRAMESPOOL_TARGET:-} in
"" | "$(uname -m)-unknown-linux-gnu") ;;
aarch64-unknown-linux-gnu) cross=aarch64-linux-gnu- ;;
*) echo "build_ffmpeg: FRAMESPOOL_TARGET=$FRAMESPOOL_TARGET: this script compiles for aarch64-unknown-linux-gnu only; build on the target itself" >&2; exit 1 ;;
esac

say() { printf 'build_ffmpeg: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PATCH=$root/scripts/ffmpeg.patch
# .venv has meson and ninja, and a tested Python.
PATH=$root/.venv/bin:$PATH
cache=${FRAMESPOOL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/framespool}
work= # temporary folder, removed at the end

# ---- sources ---------------------------------------------------------------------------------------------------

# What is built, by package (ffmpeg, dav1d): its version, its tarball, and the tarball's SHA-256 or "unpinned".
declare -A version=() tarball=() sha=()
declare -A site_failed=() # packages whose site did not answer; it is not requested again for an older version
tried=()                  # sources that failed, with the reason
debian=                   # "ready", or why Debian's source packages are not available; empty until checked

take() {
  version[$1]=$2 tarball[$1]=$3 sha[$1]=$4
}

sha256() { sha256sum "$1" | cut -d' ' -f1; }

# Fails the build unless file $1 has SHA-256 $2. $3: where it comes from; $4: what to do about it.
verify() {
  local got
  got=$(sha256 "$1")
  [ "$got" = "$2" ] || die "$3: its SHA-256 is $got, expected $2; $4"
}

# The URL of version $2 of package $1.
url() {
  local -n pattern=${1^^}_URL
  echo "${pattern//VERSION/$2}"
}

# Uses the tarball of FRAMESPOOL_<PACKAGE>_TARBALL, if it is set.
take_given() {
  local package=$1 name=FRAMESPOOL_${1^^}_TARBALL file pin got
  local -n pins=${1^^}_PINS
  file=${!name:-}
  [ -n "$file" ] || return 0
  [ -f "$file" ] || die "$name=$file: no such file; it must be a release tarball, for instance of $(url "$package" "${pins[0]%% *}")"
  got=$(sha256 "$file")
  for pin in "${pins[@]}"; do
    if [ "${pin##* }" = "$got" ]; then
      take "$package" "${pin%% *}" "$(realpath "$file")" "$got"
      return
    fi
  done
  die "$name=$file: its SHA-256 is $got, expected that of one of the pinned releases:$(printf ' %s,' "${pins[@]}" | sed 's/,$//');" \
    "download $(url "$package" "${pins[0]%% *}")"
}

# Downloads $1 to file $2; prints the reason if it fails. An unreachable site costs the timeout, in seconds.
download() {
  python3 - "$1" "$2" 2>&1 <<'PY'
import http.client
import shutil
import sys
import urllib.error
import urllib.request

request = urllib.request.Request(sys.argv[1], headers={"User-Agent": "framespool"})
try:
    with urllib.request.urlopen(request, timeout=10) as answer, open(sys.argv[2], "wb") as file:
        shutil.copyfileobj(answer, file)
        size, got = answer.headers.get("Content-Length"), file.tell()
except urllib.error.HTTPError as error:
    sys.exit(str(error))
except (OSError, http.client.HTTPException) as error:
    sys.exit(str(getattr(error, "reason", error)) or type(error).__name__)
if size is not None and int(size) != got:
    sys.exit(f"the connection ended after {got} of {size} bytes")
PY
}

# Fetches version $2 of package $1, with SHA-256 $3, from the project's own site, to file $4.
from_site() {
  local place why
  [ -z "${site_failed[$1]:-}" ] || return 1
  place=$(url "$1" "$2")
  say "fetching $place"
  if ! why=$(download "$place" "$work/download"); then
    site_failed[$1]=1
    tried+=("$place: $why")
    say "not available: $why"
    return 1
  fi
  verify "$work/download" "$3" "$place" "try another network, or download the file elsewhere and name it in FRAMESPOOL_${1^^}_TARBALL"
  mv "$work/download" "$4"
}

# Runs apt program $1 with a private list of sources and private state. A mirror's list of a moving suite may have
# expired; its signature is still checked.
apt_src() {
  local verb=$1
  shift
  "$verb" -o Dir::Etc::sourcelist="$work/src.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$work/lists" \
    -o APT::Get::List-Cleanup=0 -o Acquire::Check-Valid-Until=false -o APT::Sandbox::User=root "$@"
}

# The Debian mirror that this machine already uses; empty if there is none.
mirror() { apt-get indextargets --format '$(SITE)' 2>/dev/null | grep -E '/debian/?$' | head -n 1 || true; }

# Whether apt can fetch Debian's source packages. Checked once, and only if something is needed from there.
debian_ready() {
  local mirror suite
  if [ -z "$debian" ]; then
    mirror=$(mirror)
    if ! command -v apt-get >/dev/null; then
      debian="no apt-get here"
    elif [ -z "$mirror" ]; then
      debian="no Debian mirror among apt's sources"
    elif [ ! -f "$KEYRING" ]; then
      debian="$KEYRING is missing (package debian-archive-keyring)"
    else
      mkdir -p "$work/lists/partial"
      for suite in $SUITES; do
        echo "deb-src [signed-by=$KEYRING] $mirror $suite main" >>"$work/src.list"
      done
      apt_src apt-get -qq update >&2 || say "not every one of the suites $SUITES is available"
      debian=ready
    fi
    [ "$debian" = ready ] || tried+=("Debian's source packages: $debian")
  fi
  [ "$debian" = ready ]
}

# Debian's versions of package $1 whose upstream version matches the regular expression $2, newest first.
debian_versions() {
  apt_src apt-cache showsrc --only-source "$1" 2>/dev/null | sed -n 's/^Version: //p' | grep -E "^([0-9]+:)?$2-" | sort -urV
}

# Fetches the upstream tarball of Debian's version $2 of package $1; sets $fetched. Only the tarball: a mirror during
# an update may lack a package's Debian-specific files.
debian_tarball() {
  local folder=$work/debian/$1-$2
  say "fetching Debian's $1 $2"
  mkdir -p "$folder"
  (cd "$folder" && apt_src apt-get -qq source --tar-only --download-only "$1=$2" >&2) || true
  fetched=$(find "$folder" -name "$1_*.orig.tar.*" ! -name '*.asc' | head -n 1)
  [ -n "$fetched" ]
}

# Fetches version $2 of package $1, with SHA-256 $3, from Debian to file $4.
from_debian() {
  local offered fetched
  debian_ready || return 1
  for offered in $(debian_versions "$1" "${2//./\\.}"); do
    debian_tarball "$1" "$offered" || continue
    verify "$fetched" "$3" "$(basename "$fetched") of Debian's $1 $offered" "Debian carries other bytes than upstream; download $(url "$1" "$2") elsewhere and name it in FRAMESPOOL_${1^^}_TARBALL"
    mv "$fetched" "$4"
    return 0
  done
  tried+=("Debian's suites $SUITES: $1 $2 is not available")
  return 1
}

# Takes from Debian a newer patch release of one of the series of package $1. It is verified by Debian's signature only,
# and no test has run with it.
take_unpinned() {
  local package=$1 pin major minor offered upstream fetched
  local -n pins=${1^^}_PINS
  debian_ready || return 1
  for pin in "${pins[@]%% *}"; do
    IFS=. read -r major minor _ <<<"$pin"
    for offered in $(debian_versions "$package" "$major\.$minor(\.[0-9]+)*"); do
      upstream=${offered#*:}
      upstream=${upstream%-*}
      [ "$upstream" != "$pin" ] && [ "$(printf '%s\n' "$pin" "$upstream" | sort -V | tail -n 1)" = "$upstream" ] || continue
      debian_tarball "$package" "$offered" || continue
      take "$package" "$upstream" "$fetched" unpinned
      say "unpinned: $package $upstream from Debian, since no pinned version (${pins[*]%% *}) can be fetched; good for development, not for a release"
      return 0
    done
  done
  return 1
}

# Fetches package $1, from the sources in the order at the top.
fetch() {
  local package=$1 pin number hash file
  local -n pins=${1^^}_PINS
  [ -z "${version[$package]:-}" ] || return 0
  mkdir -p "$cache/sources"
  for pin in "${pins[@]}"; do
    read -r number hash <<<"$pin"
    file=$cache/sources/$package-$number.tar.xz
    if [ -f "$file" ]; then
      verify "$file" "$hash" "$file" "delete it and build again"
    elif ! from_site "$package" "$number" "$hash" "$file" && ! from_debian "$package" "$number" "$hash" "$file"; then
      continue
    fi
    take "$package" "$number" "$file" "$hash"
    return
  done
  if [ -z "${FRAMESPOOL_RELEASE:-}" ] && take_unpinned "$package"; then
    return
  fi
  say "no pinned version of $package (${pins[*]%% *}) can be fetched:"
  printf '  %s\n' "${tried[@]}" >&2
  die "download $(url "$package" "${pins[0]%% *}") elsewhere and name it in FRAMESPOOL_${package^^}_TARBALL, or set FRAMESPOOL_FFMPEG to an FFmpeg of your own"
}

unpack() {
  mkdir "$work/$1"
  tar -xf "${tarball[$1]}" -C "$work/$1" --strip-components=1
}

# ---- build -----------------------------------------------------------------------------------------------------

# Debian's zlib for the target: its headers and its shared library, into $work/prefix.
target_zlib() {
  local package architecture=arm64 suite
  suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  debian_ready || die "zlib for $FRAMESPOOL_TARGET is taken from Debian: $debian"
  echo "deb [arch=$architecture signed-by=$KEYRING] $(mirror) $suite main" >>"$work/src.list"
  apt_src apt-get -qq -o APT::Architectures::="$architecture" update >&2 || true
  for package in zlib1g zlib1g-dev; do
    (cd "$work" && apt_src apt-get -qq -o APT::Architectures::="$architecture" download "$package:$architecture" >&2) &&
      dpkg-deb -x "$work/$package"_*.deb "$work/zlib" || die "Debian's $package for $architecture cannot be fetched"
  done
  mkdir -p "$work/prefix/include" "$work/prefix/lib"
  cp "$work"/zlib/usr/include/z*.h "$work"/zlib/usr/include/*/z*.h "$work/prefix/include/" 2>/dev/null || true
  cp "$(find "$work/zlib" -name 'libz.so.1.*' -type f)" "$work/prefix/lib/libz.so"
}

# The text of the build_* functions is part of the cache key. Both install into $work/prefix.
build_dav1d() {
  local options=()
  if [ -n "$cross" ]; then
    printf "[binaries]\nc = '%sgcc'\nar = '%sar'\nstrip = '%sstrip'\n[host_machine]\nsystem = 'linux'\ncpu_family = 'aarch64'\ncpu = 'aarch64'\nendian = 'little'\n" \
      "$cross" "$cross" "$cross" >"$work/target.ini"
    options=(--cross-file "$work/target.ini")
  fi
  (cd "$work/dav1d" && meson setup build "${options[@]}" --prefix="$work/prefix" --libdir=lib --buildtype=release --default-library=static \
    -Denable_tools=false -Denable_tests=false && ninja -C build install) >"$work/dav1d.log" 2>&1
}

build_ffmpeg() {
  local extra=("$@")
  if [ -n "$cross" ]; then
    # The libraries contain their configure line, which must not contain this machine's folders.
    extra+=(--enable-cross-compile --arch=aarch64 --target-os=linux --cross-prefix="$cross" --pkg-config=pkg-config
      --extra-cflags=-I../prefix/include --extra-ldflags=-L../prefix/lib)
  fi
  patch --directory="$work/ffmpeg" --strip=1 --forward --fuzz=3 <"$PATCH" >"$work/ffmpeg.log" 2>&1 || return 1
  (cd "$work/ffmpeg" && PKG_CONFIG_PATH="$work/prefix/lib/pkgconfig" ./configure --prefix=/ffmpeg "${CONFIGURE[@]}" "${extra[@]}" &&
    make -j"$(nproc)" && make install DESTDIR="$work/installed") >>"$work/ffmpeg.log" 2>&1 &&
    cp -r "$work/installed/ffmpeg/." "$work/prefix/"
}

# The prefix of a build from tarballs with these two SHA-256 ("unpinned" for one that has none). Its name covers
# everything that determines the result, and the list of pins, so that a changed list never reuses an older build.
prefix_of() {
  printf '%s/ffmpeg-%s\n' "$cache" "$(printf '%s\n' "$1" "$2" "${FFMPEG_PINS[@]}" "${DAV1D_PINS[@]}" "${CONFIGURE[@]}" \
    "$(declare -f build_dav1d build_ffmpeg)" "$(cat "$PATCH")" "$("${cross}gcc" -dumpfullversion)" "${FRAMESPOOL_TARGET:-$(uname -m)}" | sha256sum | cut -c1-12)"
}

# SHA-256 sums of package $1 whose builds may be in the cache, in the order of preference.
choices() {
  local -n pins=${1^^}_PINS
  if [ -n "${sha[$1]:-}" ]; then
    echo "${sha[$1]}"
  else
    printf '%s\n' "${pins[@]##* }"
    [ -n "${FRAMESPOOL_RELEASE:-}" ] || echo unpinned
  fi
}

# Prints the prefix of an existing build.
cached() {
  local ffmpeg dav1d prefix
  for ffmpeg in $(choices ffmpeg); do
    for dav1d in $(choices dav1d); do
      prefix=$(prefix_of "$ffmpeg" "$dav1d")
      if [ -f "$prefix/BUILT" ]; then
        say "cached: $(cat "$prefix/BUILT")"
        echo "$prefix"
        return
      fi
    done
  done
  return 1
}

# A package with its version, for BUILT and for messages.
described() {
  echo "$1 ${version[$2]}$([ "${sha[$2]}" != unpinned ] || echo " (unpinned)")"
}

main() {
  local tool prefix mark=()
  command -v "${cross}gcc" >/dev/null || die "${cross}gcc is missing; 'make build' installs it if it is allowed to, else see docs/development.md"
  take_given ffmpeg
  take_given dav1d
  cached && return
  for tool in make nasm patch pkg-config meson ninja xz; do
    command -v "$tool" >/dev/null || die "$tool is missing; 'make build' installs it if it is allowed to, else see docs/development.md"
  done

  mkdir -p "$cache"
  work=$(mktemp -d "$cache/build-XXXXXX")
  trap 'rm -rf "$work"' EXIT
  fetch ffmpeg
  fetch dav1d
  prefix=$(prefix_of "${sha[ffmpeg]}" "${sha[dav1d]}")

  [ -z "$cross" ] || target_zlib
  unpack dav1d
  say "building dav1d ${version[dav1d]}"
  build_dav1d || { tail -n 30 "$work/dav1d.log" >&2; die "dav1d did not build"; }
  unpack ffmpeg
  say "building FFmpeg ${version[ffmpeg]} (some minutes)"
  # The mark becomes part of FFmpeg's version string, so that `framespool doctor` and the SBOM show it.
  case ${sha[ffmpeg]}${sha[dav1d]} in *unpinned*) mark=(--extra-version=unpinned) ;; esac
  build_ffmpeg "${mark[@]}" || { tail -n 30 "$work/ffmpeg.log" >&2; die "FFmpeg did not build"; }

  # Installed under a temporary name and moved atomically, so that another process never sees a partial build.
  sed -i "s|=/ffmpeg|=$prefix|; s|$work/prefix|$prefix|g" "$work"/prefix/lib/pkgconfig/*.pc
  rm -rf "$work/prefix/share" "$work/prefix/bin"
  cp "$work/ffmpeg/COPYING.LGPLv2.1" "$work/dav1d/COPYING" "$work/prefix/" 2>/dev/null || true
  echo "$(described FFmpeg ffmpeg), $(described dav1d dav1d)" >"$work/prefix/BUILT"
  rm -rf "$prefix"
  mv "$work/prefix" "$prefix"
  say "built: $(cat "$prefix/BUILT")"
  echo "$prefix"
}

# Exits here, so that bash does not read on in a file that may have changed during the build.
if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  main
  exit
fi
