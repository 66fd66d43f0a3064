#!/usr/bin/env bash
# Packs everything to test framespool on a machine with an NVIDIA driver and Python: no network, no FFmpeg, no Rust.
#
#   scripts/gpu_bundle.sh [--wheel FILE] [--extra FILE]... [--peers FOLDER] [--out FILE]
#
#   --wheel   the wheel to pack (default: the one in target/wheels, built by scripts/setup.sh wheel if needed)
#   --extra   another video for the benchmarks, repeatable: long 1080p encodes (benches/gpu/encode.py creates some);
#             or the folder "training", the videos that examples/motion_videos.py training writes
#   --peers   a folder of scripts/gpu_peers.sh: wheels of other libraries to install too, and libraries that they load. Such a
#             bundle is for measurements: it has only the media that are timed, to fit into the limit
#   --out     default: target/gpu-bundle.tar
#
# There: tar -xf gpu-bundle.tar && framespool-gpu/run.sh            (check, then bench; see run.sh --help)
# The test media (target/media) are included. If FRAMESPOOL_CORPUS names the additional corpus, so are its clips of
# benches/gpu/clips.txt with their frame records, in the order of the list as far as they fit; skipped ones are printed.
set -euo pipefail
here=$PWD
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

MAX_BYTES=56000000
wheel='' out=$root/target/gpu-bundle.tar peers='' extra=()
say() { printf 'gpu-bundle: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
absolute() { case $1 in /*) echo "$1" ;; *) echo "$here/$1" ;; esac; }
while [ $# -gt 0 ]; do
  case $1 in
  --wheel | --extra | --peers | --out)
    [ $# -ge 2 ] || die "$1 needs a value"
    value=$(absolute "$2")
    case $1 in --wheel) wheel=$value ;; --extra) extra+=("$value") ;; --peers) peers=$value ;; --out) out=$value ;; esac
    shift 2
    ;;
  *) sed -n '2,15s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
done
media=$(absolute "${FRAMESPOOL_MEDIA:-$root/target/media}")
corpus=${FRAMESPOOL_CORPUS:+$(absolute "$FRAMESPOOL_CORPUS")}
cd "$root"

if [ -z "$wheel" ]; then
  scripts/setup.sh wheel
  wheel=$(compgen -G 'target/wheels/framespool-*.whl' | head -n 1) || die "no wheel in target/wheels"
fi
[ -f "$wheel" ] || die "no wheel at $wheel"
[ -f "$media/manifest.json" ] || die "no test media at $media: run scripts/setup.sh tests, which makes them"
[ -z "$corpus" ] || [ -f "$corpus/manifest.json" ] || die "FRAMESPOOL_CORPUS is $corpus, which contains no manifest.json; correct or unset it"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/framespool-gpu
mkdir -p "$bundle"/{wheels,benches,tests/python,extra}
cp "$wheel" "$bundle/wheels/"
if [ -n "$peers" ]; then
  cp "$peers"/*.whl "$bundle/wheels/"
  [ ! -d "$peers/ffmpeg" ] || cp -r "$peers/ffmpeg" "$bundle/ffmpeg"
fi
cp -r benches/gpu benches/harness "$bundle/benches/"
cp docs/gpu-verification.md "$bundle/" 2>/dev/null || true
if [ -d tests/python/gpu ]; then
  cp -r tests/python/gpu "$bundle/tests/python/gpu"
  cp tests/python/{conftest,docs_snippets,processes,servers}.py "$bundle/tests/python/"
fi
mkdir "$bundle/examples" "$bundle/demo"
cp examples/{train_images,train_video,motion_videos}.py "$bundle/examples/"
cp demo/{make_videos,progress}.py "$bundle/demo/"
find "$bundle" -name __pycache__ -prune -exec rm -rf {} +
for file in ${extra[@]+"${extra[@]}"}; do
  cp -r "$file" "$bundle/extra/"
done

if [ -z "$peers" ]; then
  cp -rL "$media" "$bundle/media"
else
  python3 - "$media" benches/gpu/media.txt "$bundle/media" <<'PYTHON'
import fnmatch, json, shutil, sys
from pathlib import Path

media, listed, target = map(Path, sys.argv[1:])
lines = (line.split("#")[0].split() for line in listed.read_text().splitlines())
patterns = [words[0] for words in lines if {"bench", "short", "loader", "photo"} & set(words)]
manifest = json.loads((media / "manifest.json").read_text())
manifest["files"] = [file for file in manifest["files"] if any(fnmatch.fnmatch(file["path"], p) for p in patterns)]
for file in manifest["files"]:
    (target / file["path"]).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(media / file["path"], target / file["path"])
(target / "manifest.json").write_text(json.dumps(manifest, indent=1))
PYTHON
  corpus=
fi

cat >"$bundle/run.sh" <<'RUN'
#!/usr/bin/env bash
# Tests framespool on this machine's GPU: run.sh [smoke|core|peers|check|bench|all|python] [arguments of the program]
#
#   run.sh smoke                           4 minutes: what is correct
#   run.sh core                            9.5 minutes: the experiments of benches/gpu/README.md
#   run.sh                                 check, then bench
#   run.sh check --only decode             items by regular expression (--list names them)
#   run.sh bench --only 'ceiling|dense'
#   run.sh python -c '…'                   the interpreter in which framespool is installed
#
# Needs Python 3.11 or newer and an NVIDIA driver; no network. OUT is the folder for records (default: the folder of this file).
# Exits with 3 if there is no GPU.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
what=${1:-all}
[ $# -eq 0 ] || shift
case $what in smoke | core | peers | check | bench | all | python) ;; *) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2 ;; esac
export FRAMESPOOL_MEDIA=$here/media FRAMESPOOL_INDEX=off PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
[ ! -d "$here/ffmpeg" ] || export LD_LIBRARY_PATH=$here/ffmpeg${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
[ ! -d "$here/corpus" ] || export FRAMESPOOL_CORPUS=$here/corpus

place=${FRAMESPOOL_VENV:-$here/.venv}
python=$place/bin/python
# The mark names the wheels, since another bundle may have been unpacked here before.
wheels=$(cd "$here/wheels" && sha256sum -- *.whl)
if [ -z "${FRAMESPOOL_VENV:-}" ] && [ "$(cat "$place/wheels" 2>/dev/null)" != "$wheels" ]; then
  rm -rf "$place"
fi
if ! "$python" -c 'import framespool' 2>/dev/null; then
  # --system-site-packages keeps torch and others usable. ensurepip may be missing, so pip comes from the outer Python too.
  host=$(command -v python3) || { echo "run.sh: no python3 here" >&2; exit 2; }
  "$host" -m venv --system-site-packages "$place" 2>/dev/null || "$host" -m venv --system-site-packages --without-pip "$place"
  # A venv created in a venv does not see the outer packages: add their folders.
  site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  "$host" -c 'import sysconfig; print(sysconfig.get_path("purelib")); print(sysconfig.get_path("platlib"))' | sort -u >"$site/outer.pth"
  "$python" -m pip --version >/dev/null 2>&1 || { echo "run.sh: no pip for $python" >&2; exit 2; }
  "$python" -m pip install --quiet --no-index --no-deps --no-warn-script-location --disable-pip-version-check "$here"/wheels/*.whl
  echo "$wheels" >"$place/wheels"
fi
[ "$what" = python ] && exec "$python" "$@"

run() {
  local name=$1 code=0
  shift
  local out=()
  [ -z "${OUT:-}" ] || out=(--out "$OUT/$name.json")
  "$python" "$here/benches/gpu/$name.py" ${out[@]+"${out[@]}"} "$@" || code=$?
  return $code
}
case $what in
smoke | core | peers) "$python" "$here/benches/gpu/plan.py" "$what" ${OUT:+--out "$OUT"} "$@" ;;
check | bench) run "$what" "$@" ;;
all)
  code=0
  run check "$@" || code=$?
  [ $code -le 1 ] || exit $code # no GPU, or an error that bench would hit too
  run bench "$@" || code=$?
  exit $code
  ;;
esac
RUN
chmod +x "$bundle/run.sh"

# The listed clips of the corpus with their frame records and manifest entries, while there is space.
if [ -n "$corpus" ]; then
  python3 - "$corpus" benches/gpu/clips.txt "$bundle" "$MAX_BYTES" <<'PYTHON'
import json, shutil, sys
from pathlib import Path

corpus, listed, bundle = map(Path, sys.argv[1:4])


def archived(path: Path) -> int:
    """Bytes that a file or folder takes in a tar: its blocks, a header, and two more blocks for a long name."""
    return 3 * 512 + (-(-path.stat().st_size // 512) * 512 if path.is_file() else 0)


names = [words[0] for line in listed.read_text().splitlines() if (words := line.split("#")[0].split())]
manifest = json.loads((corpus / "manifest.json").read_text())
known = {entry["path"]: entry for entry in manifest.pop("files")}
# Appended last: the new manifest (at most as long as the old one), new folders, and the final block of the tar.
room = int(sys.argv[4]) - sum(map(archived, bundle.rglob("*"))) - archived(corpus / "manifest.json") - (64 << 10)
kept, left_out = [], []
for name in names:
    if name not in known or not (corpus / name).is_file():
        raise SystemExit(f"gpu-bundle: {name} of {listed} is not in the corpus")
    files = [file for file in (Path(name), Path("frames") / f"{name}.txt") if (corpus / file).is_file()]
    size = sum(archived(corpus / file) for file in files)
    if size > room:
        left_out.append(name)
        continue
    room -= size
    kept.append(name)
    for file in files:
        target = bundle / "corpus" / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(corpus / file, target)
if kept:
    manifest |= {"left_out": left_out, "files": [known[name] for name in kept]}
    (bundle / "corpus" / "manifest.json").write_text(json.dumps(manifest, indent=1))
for name in left_out:
    print(f"gpu-bundle: skipped, no room: corpus/{name}", file=sys.stderr)
PYTHON
fi

mkdir -p "$(dirname "$out")"
tar --sort=name --owner=0 --group=0 --numeric-owner -C "$work" -cf "$out.part" framespool-gpu
bytes=$(stat -c %s "$out.part")
if [ "$bytes" -gt "$MAX_BYTES" ]; then
  du -ak "$bundle" | sort -rn | head -n 20 >&2
  rm -f "$out.part"
  die "the bundle would be $bytes bytes, over the limit of $MAX_BYTES: pack fewer --extra or --peers"
fi
mv "$out.part" "$out"
# Lists the contents with their sizes.
for part in wheels media corpus extra; do
  [ ! -d "$bundle/$part" ] || say "$(printf '%-6s %5d files %9d bytes' "$part" \
    "$(find "$bundle/$part" -type f | wc -l)" "$(find "$bundle/$part" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum + 0 }')")"
done
[ -n "$corpus$peers" ] || say "no clips of a corpus: FRAMESPOOL_CORPUS is not set"
echo "$out: $bytes bytes ($((bytes * 100 / MAX_BYTES)) % of the limit)"
