#!/usr/bin/env bash
# Collects the GPU libraries that framespool is compared with, for scripts/gpu_bundle.sh --peers FOLDER.
#
#   scripts/gpu_peers.sh [--python 3.12] [--out FOLDER]        default: target/gpu-peers
#
# torchcodec and PyNvVideoCodec as wheels of that Python, and the FFmpeg libraries that torchcodec loads, built here from the source
# of scripts/build_ffmpeg.sh with H.264, HEVC and VP9 only. PyNvVideoCodec's wheel contains the source of its FFmpeg, samples
# and three copies of each library; it is packed again without samples and source. NVIDIA DALI (199 MB) does not fit into a bundle.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# torchcodec 0.17 works with torch 2.11 and newer.
TORCHCODEC=0.17.0
PYNVVIDEOCODEC=2.2.4

python=3.12 out=target/gpu-peers
while [ $# -gt 0 ]; do
  case $1 in
  --python) python=${2:?} ;;
  --out) out=${2:?} ;;
  *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  shift 2
done
out=$(realpath -m "$out")
source scripts/build_ffmpeg.sh

platforms=()
for glibc in 2_28 2_27 2_17; do platforms+=(--platform "manylinux_${glibc}_x86_64"); done
mkdir -p "$out/ffmpeg"
rm -f "$out"/*.whl
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --dest "$out" --implementation cp \
  --python-version "$python" "${platforms[@]}" "torchcodec==$TORCHCODEC" "PyNvVideoCodec==$PYNVVIDEOCODEC"

python3 - "$out"/pynvvideocodec-*.whl <<'PYTHON'
import re, sys, zipfile
from pathlib import Path

wheel = Path(sys.argv[1])
unused = re.compile(r"samples/|benchmarks/|.*\.data/data/external/|.*PyNvVideoCodec_121\.")
with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(wheel.with_suffix(".part"), "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new:
    for entry in old.infolist():
        if unused.match(entry.filename):
            continue
        data = old.read(entry)
        if entry.filename.endswith(".dist-info/RECORD"):
            data = b"".join(line for line in data.splitlines(keepends=True) if not unused.match(line.decode()))
        new.writestr(entry, data)
wheel.with_suffix(".part").replace(wheel)
PYTHON

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fetch ffmpeg
unpack ffmpeg
say "building the FFmpeg libraries of torchcodec (some minutes)"
(cd "$work/ffmpeg" && ./configure --prefix="$work/prefix" --disable-everything --disable-autodetect --disable-programs --disable-doc \
  --disable-debug --disable-network --disable-iconv --disable-static --enable-shared --enable-zlib --enable-protocol=file \
  --enable-demuxer=mov,matroska,h264,hevc --enable-decoder=h264,hevc,vp9 --enable-parser=h264,hevc,vp9 \
  --enable-bsf=h264_mp4toannexb,hevc_mp4toannexb,extract_extradata --enable-filter=scale,format,buffer,buffersink,null &&
  make -j"$(nproc)" install) >"$work/ffmpeg.log" 2>&1 || { tail -n 20 "$work/ffmpeg.log" >&2; die "FFmpeg cannot be built, see above"; }
rm -f "$out"/ffmpeg/*
for library in "$work"/prefix/lib/lib*.so; do
  # By the name that programs load; the longer ones are links.
  cp "$(realpath "$library")" "$out/ffmpeg/$(readelf --dynamic "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')"
done
strip --strip-unneeded "$out"/ffmpeg/*.so.*
du -sh "$out"/*.whl "$out/ffmpeg" >&2
echo "$out"
