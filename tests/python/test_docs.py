"""README.md and docs/ are correct: their code runs with the shown output, and all public names are documented."""

from __future__ import annotations

import array
import importlib
import itertools
import json
import math
import os
import re
import shutil
import subprocess
import sys
import wave
from pathlib import Path

import docs_snippets
import framespool as fsp
import pytest
from framespool import _framespool
from PIL import Image

ROOT = docs_snippets.ROOT
#: Example addresses of pages, which servers of the tests answer.
HTTPS, BUCKET = "https://data.example.org", "bucket"
#: Videos of the list that the bucket has for training.
TRAINING = ("a.mp4", "long_gop.mp4", "phone.mp4", "variable.mp4")
#: Files used by the pages, by their paths among the test media.
FILES = {
    "a.mp4": "derived/base_640x360.mp4",
    "long_gop.mp4": "action/street_340x256.mp4",
    "phone.mp4": "derived/rotate_cw90_640x360.mp4",
    "variable.mp4": "derived/vfr_60_15_30_640x360.mp4",
    "damaged.mp4": "corrupt/derived/zero_hole_h264.mp4",
    "audio_only.mp4": "odd/audio_only.mp4",
    "talk.mp4": "odd/data_streams.mp4",
    "evc.mp4": "codecs/evc_sample.mp4",
}


@pytest.fixture
def media_files(tmp_path, monkeypatch, videos, short_clips):
    """The files that README.md and docs/ mention, in the working directory."""
    for name, path in FILES.items():
        shutil.copy(videos / path, tmp_path / name)  # a link would go into a tar as a link
    (tmp_path / "cut.mp4").write_bytes((videos / "derived" / "faststart_640x360.mp4").read_bytes()[:-20000])
    for name, (path, _) in zip(("again", "bird", "book"), short_clips, strict=False):
        folder = tmp_path / "videos" / name
        folder.mkdir(parents=True)
        (folder / f"{name}.mkv").symlink_to(path)
    photos = sorted((videos.parent / "images" / "classes").rglob("*.jpg"))
    for number, (name, photo) in enumerate([(n, p) for n in ("dog", "cat") for p in photos[:5]]):
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number % 5 + 1}.jpg").symlink_to(photo)
    (tmp_path / "examples").symlink_to(ROOT / "examples")  # commands of pages are those of a clone
    for name, frequency in (("bell", 880), ("rain", 310)):
        (tmp_path / "sounds" / name).mkdir(parents=True)
        for number in (1, 2):
            tone = (round(20000 * math.sin(frequency * number * at / 3500)) for at in range(44100))
            with wave.open(str(tmp_path / "sounds" / name / f"{number}.wav"), "wb") as file:
                file.setparams((1, 2, 22050, 0, "NONE", ""))
                file.writeframes(array.array("h", tone).tobytes())
    (tmp_path / "frames").mkdir()
    for number in range(1, 9):
        Image.new("RGB", (32, 16), (number, 0, 0)).save(tmp_path / "frames" / f"img_{number:05}.png")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FRAMESPOOL_INDEX", str(tmp_path / "index"))
    return tmp_path


@pytest.fixture(scope="session")
def bucket(s3, videos):
    """A bucket with the objects that pages read; moto refuses to write an object twice."""
    s3.put(BUCKET)
    s3.put(f"{BUCKET}/videos/a.mp4", (videos / FILES["a.mp4"]).read_bytes())
    for name in TRAINING:
        s3.put(f"{BUCKET}/train/{name}", (videos / FILES[name]).read_bytes())
    s3.put(f"{BUCKET}/train/list.txt", "".join(f"{name} {at}\n" for at, name in enumerate(TRAINING)).encode())
    return s3


@pytest.fixture
def served(request, media_files, monkeypatch, videos):
    """The same files behind URLs: the page's address and the test server's."""
    pytest.importorskip("moto")  # the environment of the frameworks goes without
    nginx, s3 = request.getfixturevalue("nginx"), request.getfixturevalue("bucket")
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    return {f"{HTTPS}/": nginx.url(videos / "x").removesuffix("video/x")}


def chosen():
    """The pages to run: all, or with FRAMESPOOL_PAGES=frameworks those that need optional packages."""
    needy = os.environ.get("FRAMESPOOL_PAGES") == "frameworks"
    return [page for page in docs_snippets.pages() if not needy or docs_snippets.packages((ROOT / page).read_text())]


# Frameworks emit deprecation warnings.
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("page", chosen())
def test_a_page_does_what_it_says(page, media_files, request, monkeypatch):
    text = (ROOT / page).read_text()
    monkeypatch.setenv("RAY_ADDRESS", "local")  # a cluster of its own, also where another one runs
    try:
        if HTTPS in text or f'"s3://{BUCKET}/' in text:
            docs_snippets.run(text, page, request.getfixturevalue("served"))
        else:
            docs_snippets.run(text, page)
    finally:
        if "ray" in sys.modules:
            sys.modules["ray"].shutdown()


def test_migration_examples_show_both_libraries():
    pages = set((ROOT / "docs" / "migrating").glob("*.md"))
    libraries = {page for page in pages if page.name not in ("index.md", "earlier-names.md")}
    assert len(libraries) > 10
    index = (ROOT / "docs" / "migrating" / "index.md").read_text()
    for page in libraries:
        text = page.read_text()
        kinds = [(block.language, block.marks) for block in docs_snippets.blocks(text)]
        assert ("python", "before") in kinds and ("python", "") in kinds, page.name
        assert f"]({page.name})" in index, f"{page.name} is in the table of index.md"
        assert "\n## Differences in results\n" in text, page.name


def test_every_error_is_documented_with_a_real_message():
    _, *parts = re.split(r"^## ", (ROOT / "docs" / "errors.md").read_text(), flags=re.MULTILINE)
    entries = {part.split("\n", 1)[0].strip("`"): part for part in parts}
    classes = {c.__name__ for c in vars(fsp.errors).values() if isinstance(c, type) and issubclass(c, fsp.Error)}
    assert classes - {"Error"} <= set(entries), "docs/errors.md must have an entry for each"
    # An internal error cannot be provoked by a snippet.
    for name in classes - {"Error", "InternalError"}:
        marks = [block.marks for block in docs_snippets.blocks(entries[name])]
        assert f"raises {name}" in marks, f"docs/errors.md, {name}: a snippet that raises it"
        assert all(word in entries[name] for word in ("**Means**", "**Cause**", "**Remedy**")), name


def referred():
    """Names that the reference pages document."""
    text = "\n".join(path.read_text() for path in (ROOT / "docs" / "reference").glob("*.md"))
    return set(re.findall(r"^::: ([\w.]+)$", text, flags=re.MULTILINE))


MODULES = (
    "",
    ".order",
    ".samplers",
    ".samplers.presets",
    ".tools",
    ".transforms",
    ".video",
    ".datasets",
    ".gpu",
    ".options",
    ".ray",
    ".torch",
    ".compat.decord",
    ".compat.torchcodec",
    ".compat.torchvision",
    ".compat.torchvision.datasets",
)


@pytest.mark.parametrize("module", [f"framespool{name}" for name in MODULES])
def test_every_public_name_is_in_the_reference(module):
    names = set(importlib.import_module(module).__all__) - {"__version__"}
    if module == "framespool":
        # Errors have their own page, and modules their own entries.
        names -= {"errors", "Error", *(name.removeprefix(".") for name in MODULES)}
    elif module == "framespool.options":
        names -= set(fsp.__all__)
    elif module == "framespool.video":
        names -= {"Video", "FrameBatch"}  # at the root
    there = referred()
    if module == "framespool.compat.decord":
        names -= {"base", "nd"}  # decord's other names for what has an entry already
    missing = sorted(n for n in names if f"{module}.{n}" not in there)
    assert not missing, f"docs/reference lacks a line '::: {module}.NAME' for {', '.join(missing)}"


def test_counts_of_generated_frames_are_those_of_the_test_media(videos):
    files = json.loads((videos.parent / "manifest.json").read_text())["files"]
    recorded = [file for file in files if file["path"].startswith("video/") and file.get("frame_hashes")]
    assert len(recorded) > 160 and sum(file.get("frames_decoded", 0) for file in recorded) > 13_000
    codecs = {file["codec"] for file in recorded if file.get("codec")}
    for page in ("README.md", "docs/index.md", "docs/concepts/frames.md"):
        text = " ".join((ROOT / page).read_text().split())
        assert "more than 13,000 frames" in text and f"{len(codecs)} codecs" in text, page


def test_every_counter_of_stats_is_on_the_page_about_clips():
    page = (ROOT / "docs" / "concepts" / "life-of-a-clip.md").read_text()
    counters = {name for _, name, *_ in _framespool.counters()} | {"version", "frames_decoded_per_frame_delivered"}
    loader = fsp.ClipLoader(["never_opened.mp4"], fsp.samplers.RandomClips(sequence_length=1), batch_size=1)
    assert set(loader.stats()) == counters
    rows = " ".join(line.split("|")[1] for line in page.splitlines() if line.startswith("|"))
    named = set(re.findall(r"`([^`]+)`", rows)) | {"version", "memory_budget", "frames_used"}
    assert named == counters
    assert all(f"`{name}`" in page for name in counters)


#: What readers search for, and the page that answers.
SEARCHED = {
    "migrating/dali.md": (
        "DALI fn.readers.video sequence_length step pad_sequences initial_fill random_shuffle pad_last_batch"
        " stick_to_shard last_batch_policy DALIGenericIterator prefetch_queue_depth video_resize enable_timestamps"
        " file_list"
    ),
    "migrating/dali-images.md": (
        "DALIClassificationIterator fn.readers.file fn.decoders.image random_resized_crop color_twist"
    ),
    "migrating/decord.md": (
        "decord VideoReader VideoLoader get_batch seek_accurate get_avg_fps get_key_indices set_bridge AudioReader"
        " AVReader"
    ),
    "migrating/torchcodec.md": (
        "torchcodec VideoDecoder get_frames_at get_frames_played_at get_frames_in_range clips_at_random_indices"
        " seek_mode clips_at_regular_timestamps AudioDecoder get_all_samples dimension_order"
    ),
    "migrating/torchvision.md": (
        "torchvision read_video VideoReader VideoClips UniformClipSampler RandomClipSampler read_video_timestamps"
        " Kinetics"
    ),
    "migrating/pyav-opencv.md": (
        "PyAV av.open to_ndarray AudioResampler OpenCV cv2 VideoCapture CAP_PROP_POS_FRAMES CAP_PROP_FPS imread BGR"
    ),
    "migrating/pytorchvideo.md": (
        "PyTorchVideo LabeledVideoDataset make_clip_sampler EncodedVideo UniformTemporalSubsample"
    ),
    "migrating/lerobot.md": "LeRobot LeRobotDataset delta_timestamps image_transforms MultiLeRobotDataset",
    "migrating/dataloader.md": (
        "DataLoader num_workers collate_fn drop_last pin_memory WeightedRandomSampler DistributedSampler"
    ),
    "migrating/ray.md": "Dpex DpexDataLoader head_address read_clips",
    "migrating/video-language.md": (
        "transformers Qwen2VLVideoProcessor process_vision_info vLLM VLLM_VIDEO_LOADER_BACKEND"
    ),
    "reference/limits.md": (
        "HEIC DNxHD MXF HLS AV1 VVC HDR interlaced rotation edit alpha encrypted macOS Jetson DTS clap"
    ),
    "howto/disk-cache.md": "disk_size epochs prune",
    "howto/labels.md": "frame_columns multi-hot captions classes",
    "howto/robotics.md": "delta_timestamps normalize unnormalize depth mix rename",
}


@pytest.mark.parametrize("answer", SEARCHED)
def test_search_finds_the_page_that_answers(answer):
    # A page is found if it has all words of a query, as the search of the site separates them.
    separator = re.search(r"separator: '(.*)'", (ROOT / "mkdocs.yml").read_text())[1]
    words = {word.strip("`_.").lower() for word in re.split(separator, (ROOT / "docs" / answer).read_text())}
    missing = [word for word in re.split(separator, SEARCHED[answer]) if word.lower() not in words]
    assert not missing, f"docs/{answer} lacks {missing}"


def test_limits_page_has_every_format_of_the_build_and_no_other_size():
    page = (ROOT / "docs" / "reference" / "limits.md").read_text()
    script = (ROOT / "scripts" / "build_ffmpeg.sh").read_text()
    for kind, section in (("DEMUXERS", "Containers"), ("DECODERS", "Video codecs"), ("AUDIO_DECODERS", "Audio codecs")):
        built = set(re.search(rf"^{kind}=(.*)$", script, flags=re.M)[1].split(","))
        if kind == "DEMUXERS":
            built |= set(re.search(r"^AUDIO_DEMUXERS=(.*)$", script, flags=re.M)[1].split(","))
        built = {"pcm_*" if name.startswith("pcm_") else name for name in built}
        rows = re.search(rf"^## {section}\n(.*?)^## ", page, flags=re.M | re.S)[1]
        cells = [line.split("|")[2] for line in rows.splitlines() if line.startswith("|")]
        named = set(re.findall(r"`([^`]+)`", " ".join(cells)))
        assert named == built, section
    sizes = set(re.findall(r"\d[\d,]{4,}", page[page.index("## Sizes") :]))
    assert len(sizes) > 3
    limits = (ROOT / "SECURITY.md").read_text()  # test_security.py compares it with the sources
    assert not {size for size in sizes if size not in limits}


def test_figure_of_the_counters_has_keys_of_stats_only():
    drawn = (ROOT / "docs" / "figures" / "stats.svg").read_text()
    names = " ".join(re.findall(r'font-family="monospace">([^<]+)<', drawn)).split()
    keys = {name for _, name, *_ in _framespool.counters()}
    assert len(names) == len(set(names)) > 25
    assert not set(names) - keys, "change the figure in scripts/docs_figures.py, and draw it again"


#: Tables of ARCHITECTURE.md, by their header, and the columns with names and the files that define them.
ARCHITECTURE_TABLES = {
    "| question | file |": [1],
    "| type | file | meaning |": [0, 1],
    "| memory | owner | bound |": [1],
}


def architecture_rows():
    """The header, names and files of each row of these tables."""
    lines = (ROOT / "ARCHITECTURE.md").read_text().splitlines()
    for header, columns in ARCHITECTURE_TABLES.items():
        for line in itertools.takewhile(lambda line: line.startswith("|"), lines[lines.index(header) + 2 :]):
            cells = line.strip("|").split("|")
            words = [word for column in columns for word in re.findall(r"`([^`]+)`", cells[column])]
            yield line, [w for w in words if "/" not in w], [w for w in words if "/" in w]


def test_architecture_and_development_name_existing_files():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert len(text.encode()) <= 15_000, "ARCHITECTURE.md is an overview of at most 15,000 bytes"
    development = (ROOT / "docs" / "development.md").read_text()
    text += development[development.index("## How to add") : development.index("## Releases")]
    paths = {word for word in re.findall(r"`([\w./]+/[\w./]*)`", text) if "NAME" not in word}
    assert len(paths) > 80
    assert not [path for path in sorted(paths) if not (ROOT / path).exists()]


@pytest.mark.parametrize(("row", "names", "files"), list(architecture_rows()))
def test_architecture_names_are_defined_in_the_files_of_their_row(row, names, files):
    text = "\n".join((ROOT / file).read_text() for file in files if (ROOT / file).is_file())
    for name in names:
        owner, _, member = name.rpartition("::")
        for each in filter(None, (owner, member)):
            definition = (
                rf"^\s*{each}\b" if owner and each == member else rf"\b(?:fn|struct|enum|trait|def|void) {each}\b"
            )
            assert re.search(definition, text, re.M), f"`{each}` is defined in none of {', '.join(files)}: {row}"


@pytest.mark.usefixtures("corpus")
def test_figures_are_those_of_the_script(tmp_path):
    """Only figures that are a pure function of their files; those that depend on timing are not compared."""
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "docs_figures.py", "--out", tmp_path, "--only", "exact"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    made = sorted(Path(tmp_path).glob("*.svg"))
    assert len(made) > 3
    for picture in made:
        assert picture.read_text() == (ROOT / "docs" / "figures" / picture.name).read_text(), (
            f"docs/figures/{picture.name} is not what scripts/docs_figures.py draws; run it"
        )
