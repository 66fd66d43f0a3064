#!/usr/bin/env bash
# Builds the FFmpeg that framespool links: static, decode-only, LGPL, with dav1d for AV1.
#
#   scripts/build_ffmpeg.sh            builds (or finds) it and prints the prefix on the last line
#
# Sources are Debian's source packages, whose signatures apt checks; nothing on the system is changed (apt gets a
# private list of sources and private state). The result is cached by version and configuration under
# ${FRAMESPOOL_CACHE:-${XDG_CACHE_HOME:-~/.cache}/framespool}. To use an FFmpeg of your own, set
# FRAMESPOOL_FFMPEG to a prefix whose lib/pkgconfig holds libavcodec.pc, and this script is not run.
set -euo pipefail

# Release series, newest first; the first one that a Debian suite offers is taken, in its latest patch release.
FFMPEG_VERSIONS="9.0 8.1 7.1"
DAV1D_VERSIONS="1.5"
SUITES="sid forky trixie"

DEMUXERS=mov,matroska,avi,mpegts,mpegps,mpegvideo,flv,ogg,h264,hevc,ivf,obu,av1,mjpeg,m4v,asf,gif
DECODERS=h264,hevc,vp8,vp9,libdav1d,mpeg4,msmpeg4v1,msmpeg4v2,msmpeg4v3,mpeg1video,mpeg2video,mjpeg,png,rawvideo,ffv1,flv,h263,theora,vc1,wmv1,wmv2,wmv3,prores,gif,cinepak
PARSERS=h264,hevc,vp8,vp9,av1,mpeg4video,mpegvideo,mjpeg,png,h263,vc1
BSFS=h264_mp4toannexb,hevc_mp4toannexb,extract_extradata,av1_frame_merge,av1_frame_split,vp9_superframe,vp9_superframe_split,mpeg4_unpack_bframes,null

CONFIGURE=(
  --disable-everything --disable-autodetect --disable-programs --disable-doc --disable-debug
  --disable-avdevice --disable-avfilter --disable-swresample --disable-swscale --disable-network --disable-iconv
  --enable-static --disable-shared --enable-pic --enable-zlib
  --enable-demuxer="$DEMUXERS" --enable-decoder="$DECODERS" --enable-parser="$PARSERS" --enable-bsf="$BSFS"
  --enable-libdav1d --pkg-config-flags=--static
)

say() { printf 'build_ffmpeg: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

cache=${FRAMESPOOL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/framespool}
# The key covers everything that decides the result, so a changed line never meets a stale build.
key=$( (cat "$0"; gcc -dumpfullversion; uname -m) | sha256sum | cut -c1-12)
prefix=$cache/ffmpeg-$key
if [ -f "$prefix/BUILT" ]; then
  say "cached: $(cat "$prefix/BUILT")"
  echo "$prefix"
  exit 0
fi
for tool in gcc make nasm pkg-config meson ninja apt-get xz; do
  command -v "$tool" >/dev/null || die "$tool is missing; 'make build' installs it where it may, else see README, Building"
done

mkdir -p "$cache"
work=$(mktemp -d "$cache/build-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -f "$keyring" ] || die "$keyring is missing (package debian-archive-keyring); or set FRAMESPOOL_FFMPEG to an FFmpeg of your own"
# The mirror this machine already uses, whatever it is.
mirror=$(apt-get indextargets --format '$(SITE)' 2>/dev/null | grep -E '/debian/?$' | head -n 1)
[ -n "$mirror" ] || die "no Debian mirror among this machine's apt sources; set FRAMESPOOL_FFMPEG to an FFmpeg of your own"

mkdir -p lists/partial
# A mirror's list of a moving suite may be past its date; its signature is checked all the same.
apt_src() {
  local verb=$1
  shift
  "$verb" -o Dir::Etc::sourcelist="$work/src.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$work/lists" \
    -o APT::Get::List-Cleanup=0 -o Acquire::Check-Valid-Until=false -o APT::Sandbox::User=root "$@"
}

for suite in $SUITES; do
  echo "deb-src [signed-by=$keyring] $mirror $suite main" >>src.list
done
apt_src apt-get -qq update >&2 || say "not every one of the suites $SUITES is on offer"

# Fetches the upstream tarball of source package $1 in the first of the versions $2... that can be had, and unpacks it
# into ./$1. Only the tarball: a mirror in the middle of an update may lack a package's Debian-specific files.
fetch() {
  local package=$1 version debian
  shift
  for version in "$@"; do
    for debian in $(apt_src apt-cache showsrc --only-source "$package" 2>/dev/null |
      sed -n 's/^Version: //p' | grep -E "^([0-9]+:)?${version//./\\.}(\.[0-9]+)*[-+~]" | sort -rV); do
      say "fetching $package $debian"
      if apt_src apt-get -qq source --tar-only --download-only "$package=$debian" >&2; then
        mkdir "$package"
        find . -maxdepth 1 -name "${package}_*.orig.tar.*" ! -name '*.asc' -exec tar -xf {} -C "$package" --strip-components=1 \;
        echo "$debian"
        return
      fi
    done
  done
  die "none of $package $* can be fetched from $SUITES"
}
# shellcheck disable=SC2086
ffmpeg=$(fetch ffmpeg $FFMPEG_VERSIONS)
# shellcheck disable=SC2086
dav1d=$(fetch dav1d $DAV1D_VERSIONS)

jobs=$(nproc)
say "building dav1d"
(cd dav1d && meson setup build --prefix="$work/prefix" --libdir=lib --buildtype=release --default-library=static \
  -Denable_tools=false -Denable_tests=false && ninja -C build install) >dav1d.log 2>&1 || { tail -n 30 dav1d.log >&2; die "dav1d did not build"; }

say "building FFmpeg (some minutes)"
# glibc 2.35 has a new hypot, the one thing for which the wheel would need more than glibc 2.34 (RHEL 9); the older one will do.
cat >ffmpeg/older_hypot.h <<'HEADER'
#ifdef __x86_64__
__asm__(".symver hypot, hypot@GLIBC_2.2.5");
#endif
HEADER
# The libraries keep the line that they were configured with: it must not tell of this machine's folders.
(cd ffmpeg && PKG_CONFIG_PATH="$work/prefix/lib/pkgconfig" ./configure --prefix=/ffmpeg --extra-cflags="-include older_hypot.h" "${CONFIGURE[@]}" &&
  make -j"$jobs" && make install DESTDIR="$work/installed") >ffmpeg.log 2>&1 || { tail -n 30 ffmpeg.log >&2; die "FFmpeg did not build"; }
cp -r "$work/installed/ffmpeg/." "$work/prefix/"

# Installed under a temporary name and moved in one step, so that a second builder never sees half of it.
sed -i "s|=/ffmpeg|=$prefix|; s|$work/prefix|$prefix|g" "$work"/prefix/lib/pkgconfig/*.pc
rm -rf "$work/prefix/share" "$work/prefix/bin"
cp ffmpeg/COPYING.LGPLv2.1 dav1d/COPYING "$work/prefix/" 2>/dev/null || true
echo "FFmpeg $ffmpeg, dav1d $dav1d" >"$work/prefix/BUILT"
rm -rf "$prefix"
mv "$work/prefix" "$prefix"
say "built: $(cat "$prefix/BUILT")"
echo "$prefix"
