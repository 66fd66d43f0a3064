"""Selection of a file's video stream: the one of av_find_best_stream, or the requested one."""

from __future__ import annotations

import pickle
import re
import subprocess
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest
from framespool import datasets
from framespool.samplers import Windows

SMALL, LARGE = (320, 180), (480, 270)

#: Arguments of the ffmpeg program (inputs: 0 small video, 1 large video, 2 audio, 3 an image) and the stream that
#: av_find_best_stream of libavformat 62 selects, as reported by PyAV 18.
FILES = {
    "small_large.mp4": ("-map 0 -map 1", 1),
    "large_small.mp4": ("-map 1 -map 0", 0),
    "audio_small_large.mp4": ("-map 2 -map 0 -map 1", 2),
    "small_default.mp4": ("-map 0 -map 1 -disposition:0 default -disposition:1 0", 0),
    "large_default.mp4": ("-map 0 -map 1 -disposition:0 0 -disposition:1 default", 1),
    "fragments.mp4": ("-map 0 -map 1 -movflags +frag_keyframe+empty_moov", 1),
    "small_large.mov": ("-map 0 -map 1", 1),
    "small_large.mkv": ("-map 0 -map 1", 0),
    "large_default.mkv": ("-map 0 -map 1 -disposition:0 0 -disposition:1 default", 1),
    "impaired.mkv": ("-map 0 -map 1 -disposition:0 default+visual_impaired -disposition:1 default", 1),
    "small_large.avi": ("-map 0 -map 1 -map 2", 1),
    "small_large.ts": ("-map 0 -map 1", 0),
    "programs.ts": ("-map 0 -map 1 -map 2 -program program_num=1:st=0 -program program_num=2:st=1:st=2", 0),
    "picture.mp4": ("-map 3 -map 0 -map 1 -disposition:0 attached_pic", 1),
    "attached.mkv": ("-map 0 -map 1 -attach cover.png -metadata:s:t:0 mimetype=image/png", 0),
    "one_video.mp4": ("-map 2 -map 0", 1),
}


@pytest.fixture(scope="module")
def made(encoder: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all files and their sources."""
    folder = tmp_path_factory.mktemp("streams")

    def run(*arguments: str) -> None:
        subprocess.run([encoder, "-v", "error", "-y", *arguments], cwd=folder, check=True)

    def x264(source: str, size: tuple[int, int], path: str) -> None:
        picture = f"{source}=size={size[0]}x{size[1]}:rate=25:duration=2"
        run(*f"-f lavfi -i {picture} -threads 1 -c:v libx264 -preset veryfast -g 12 -bf 2 {path}".split())

    x264("testsrc", SMALL, "small.mp4")
    x264("testsrc2", LARGE, "large.mp4")
    run(*["-f", "lavfi", "-i", "sine", "-t", "2", "-c:a", "aac", "audio.m4a"])
    run(*["-f", "lavfi", "-i", "color=red:size=64x64", "-frames:v", "1", "cover.png"])
    for name, (arguments, _) in FILES.items():
        inputs = ["-i", "small.mp4", "-i", "large.mp4", "-i", "audio.m4a", "-i", "cover.png"]
        run(*inputs, "-c", "copy", *arguments.split(), name)
    return folder


def frames(video: fsp.Video) -> bytes:
    return video[::7].numpy().tobytes()


@pytest.fixture(scope="module")
def plain(made: Path) -> dict[tuple[int, int], bytes]:
    """Frames of the files with one stream, by their size."""
    return {
        size: frames(fsp.Video(made / name, layout="THWC"))
        for size, name in ((SMALL, "small.mp4"), (LARGE, "large.mp4"))
    }


@pytest.mark.parametrize("name", FILES)
def test_default_stream_is_best_stream(made: Path, plain: dict[tuple[int, int], bytes], name: str) -> None:
    video = fsp.Video(made / name, layout="THWC")
    assert video.info.stream == FILES[name][1]
    streams = video.info.streams
    assert [stream.index for stream in streams] == list(range(len(streams)))
    assert streams[video.info.stream].kind == "video"
    for stream in streams:
        if stream.kind != "video":
            with pytest.raises(
                fsp.errors.NoVideoError, match=re.escape(f"stream {stream.index} is not a video stream")
            ):
                fsp.Video(made / name, stream=stream.index, layout="THWC")
            continue
        chosen = fsp.Video(made / name, stream=stream.index, layout="THWC")
        size = (chosen.info.width, chosen.info.height)
        assert (chosen.info.stream, size) == (stream.index, (stream.width, stream.height))
        assert frames(chosen) == plain[size]
        assert chosen.info.streams == streams
        if stream.index == video.info.stream:
            assert frames(video) == plain[size]
    with pytest.raises(fsp.errors.NoVideoError, match=rf"stream {len(streams)} is not.*0: .*video h264 \d+x\d+"):
        fsp.Video(made / name, stream=len(streams), layout="THWC")


def test_streams_are_listed(made: Path) -> None:
    listed = fsp.Video(made / "audio_small_large.mp4").info.streams
    assert [(stream.kind, stream.codec, (stream.width, stream.height)) for stream in listed] == [
        ("audio", "aac", (0, 0)),
        ("video", "h264", SMALL),
        ("video", "h264", LARGE),
    ]
    assert [stream.num_frames for stream in listed] == [None, 50, 50]
    assert [stream.default for stream in fsp.Video(made / "large_default.mkv").info.streams] == [False, True]
    assert "attached_picture" in {stream.kind for stream in fsp.Video(made / "picture.mp4").info.streams}


def test_one_stream_of_pictures(made: Path, videos: Path, tmp_path: Path) -> None:
    """Cover art is never the video, however the container marks it."""
    assert fsp.Video(made / "attached.mkv").info.streams[2].kind == "attached_picture"
    with pytest.raises(fsp.errors.NoVideoError, match="cover art"):
        fsp.Video(videos / "derived/cover_art_only.m4a", layout="THWC")
    (tmp_path / "0.png").write_bytes((made / "cover.png").read_bytes())
    folder = datasets.ImageSequence(tmp_path)
    assert fsp.Video(folder, stream=0).info.streams[0].kind == "video"
    with pytest.raises(fsp.errors.NoVideoError, match="stream 1 is not"):
        fsp.Video(folder, stream=1, layout="THWC")


@pytest.mark.parametrize("wrong", [-1, 2**32, 1.5, "0", True])
def test_what_is_no_index_is_refused(made: Path, wrong: object) -> None:
    with pytest.raises(fsp.errors.ArgumentError, match="stream"):
        fsp.Video(made / "small_large.mp4", stream=wrong, layout="THWC")  # type: ignore[arg-type]


def test_stored_index_is_per_stream(made: Path, plain: dict[tuple[int, int], bytes], tmp_path: Path) -> None:
    place = tmp_path / "index"
    for _ in range(2):
        for stream, size in ((None, LARGE), (0, SMALL), (1, LARGE)):
            video = fsp.Video(made / "small_large.mp4", index=place, stream=stream, layout="THWC")
            assert frames(video) == plain[size], stream
            assert len(video.info.streams) == 2
        fsp._framespool.flush_index()
    loader = fsp.ClipLoader(
        fsp.datasets.Dataset([(made / "small_large.mp4", 0)], stream=0),
        Windows(sequence_length=2, step=8),
        batch_size=1,
        index=place,
    )
    assert next(iter(loader)).frames[0].shape == (2, 3, SMALL[1], SMALL[0])
    assert loader.stats()["index_hits"] == 1


@pytest.mark.parametrize("name", ["small_large.mp4", "small_large.mkv", "small_large.ts"])
def test_loaders_and_datasets_take_a_stream(made: Path, plain: dict[tuple[int, int], bytes], name: str) -> None:
    every = Windows(sequence_length=1, step=7)

    def loaded(dataset: datasets.Dataset) -> bytes:
        loader = fsp.ClipLoader(dataset, every, batch_size=1, layout="NTHWC")
        return b"".join(clip.numpy().tobytes() for batch in loader for clip in batch.frames)

    for stream, size in ((0, SMALL), (1, LARGE)):
        dataset = datasets.Dataset([(made / name, 0)]).with_stream(stream)
        assert loaded(dataset) == plain[size]
        assert loaded(datasets.Dataset([((made / name).read_bytes(), 0)], stream=stream)) == plain[size]
        assert loaded(pickle.loads(pickle.dumps(dataset[:].subset([0])))) == plain[size]
    video = pickle.loads(pickle.dumps(fsp.Video(made / name, stream=1, layout="THWC")))
    assert frames(video) == plain[LARGE]


def test_torch_datasets_take_a_stream(made: Path, plain: dict[tuple[int, int], bytes]) -> None:
    pytest.importorskip("torch")
    from framespool.torch import ClipDataset

    batches = list(
        ClipDataset(
            fsp.datasets.Dataset([(made / "small_large.mp4", 0)], stream=0),
            Windows(sequence_length=1, step=7),
            batch_size=1,
            layout="NTHWC",
        )
    )
    assert b"".join(clip.numpy().tobytes() for batch in batches for clip in batch["frames"]) == plain[SMALL]


def test_datasets_of_different_streams_are_not_joined(made: Path) -> None:
    one = datasets.Dataset([(made / "small_large.mp4", 0)])
    assert one != one.with_stream(0) == one.with_stream(0)
    assert (one.with_stream(0) + one.with_stream(0)).stream == 0
    with pytest.raises(fsp.errors.ArgumentError, match="stream=None and stream=1"):
        one + one.with_stream(1)
    with pytest.raises(fsp.errors.ArgumentError, match="stream=0 and stream=1"):
        datasets.mix((one.with_stream(0), 1), (one.with_stream(1), 1))
    mixed = datasets.mix((one, 1), (one, 2)).with_stream(1)
    assert (mixed.stream, mixed.weights, mixed.filter(lambda *_: True).stream) == (1, [1, 2], 1)


def test_a_state_belongs_to_the_stream(made: Path) -> None:
    def loader(stream: int | None) -> fsp.ClipLoader:
        return fsp.ClipLoader(
            fsp.datasets.Dataset([(made / "small_large.mp4", 0)], stream=stream),
            Windows(sequence_length=1),
            batch_size=1,
        )

    state = loader(1).state_dict()
    loader(1).load_state_dict(state)
    for other in (None, 0):
        with pytest.raises(fsp.errors.ArgumentError, match="stream"):
            loader(other).load_state_dict(state)


def test_a_file_without_the_stream_is_a_bad_file(made: Path) -> None:
    files = [made / "small.mp4", made / "small_large.mp4"]
    loader = fsp.ClipLoader(
        fsp.datasets.Dataset([(file, 0) for file in files], stream=1),
        Windows(sequence_length=1, step=10),
        batch_size=1,
        on_error="skip",
    )
    assert sum(len(batch) - int(np.sum(batch.padding.numpy())) for batch in loader) == 5
    (failure,) = loader.failures()
    assert (failure["kind"], failure["path"]) == ("no_video", str(files[0]))
    assert "stream 1 is not a video stream; the file has 0: video h264 320x180" in failure["message"]


def test_probe_and_the_command_line(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from framespool.cli import main

    file = str(made / "small_large.mp4")
    dataset = datasets.Dataset([file])
    for chosen, size in ((dataset, LARGE), (dataset.with_stream(0), SMALL)):
        assert list(fsp.tools.probe(chosen).frame_sizes) == [f"{size[0]}x{size[1]}"]
    loader = fsp.ClipLoader(dataset.with_stream(0), Windows(sequence_length=1), batch_size=1)
    assert list(fsp.tools.probe(loader).frame_sizes) == [f"{SMALL[0]}x{SMALL[1]}"]
    assert main(["probe", file, "--stream", "0"]) == 0
    out = capsys.readouterr().out
    assert "1 of 1 files have several video streams" in out and "320x180  1  100%" in out
    assert "0: video h264 320x180 (read)" in out and "1: video h264 480x270  " in out
    assert main(["probe", file, "--stream", "5"]) == 1
    assert "stream 5 is not a video stream" in " ".join(capsys.readouterr().out.split())
    assert not fsp.tools.probe([made / "small.mp4"]).streams


def test_transcode_and_validate_use_dataset_stream(made: Path, tmp_path: Path, encoder: str) -> None:
    dataset = datasets.Dataset([(made / "small_large.mp4", 3)])
    for stream, size in ((0, SMALL), (1, LARGE)):
        chosen = dataset.with_stream(stream)
        report = fsp.tools.transcode(chosen, tmp_path / str(stream), ffmpeg=encoder)
        info = fsp.Video(report.paths[0]).info  # type: ignore[arg-type]
        assert (info.width, info.height) == size
        assert report.dataset.stream is None
    lines = tmp_path / "report.jsonl"
    checked = [fsp.tools.validate(dataset.with_stream(stream), report=lines).checked for stream in (0, 1, 0)]
    assert checked == [1, 1, 0]
    assert not fsp.tools.validate(dataset.with_stream(1)).failures
    assert fsp.tools.validate(dataset.with_stream(2)).failures[0]["kind"] == "no_video"


def test_stream_index_can_be_prebuilt_and_exported(made: Path, tmp_path: Path) -> None:
    from framespool.cli import main

    folder = tmp_path / "videos"
    folder.mkdir()
    (folder / "a.mp4").write_bytes((made / "small_large.mp4").read_bytes())
    lines, here, there = tmp_path / "lines.jsonl", tmp_path / "here", tmp_path / "there"
    assert main(["index", str(folder), "--index", str(here), "--stream", "0", "--export", str(lines)]) == 0
    assert main(["index", str(folder), "--index", str(there), "--stream", "0", "--import", str(lines)]) == 0
    loader = fsp.ClipLoader(
        fsp.datasets.Dataset([(folder / "a.mp4", 0)], stream=0), Windows(sequence_length=1), batch_size=1, index=there
    )
    assert next(iter(loader)).frames[0].shape[2:] == SMALL[::-1]
    assert loader.stats()["index_hits"] == 1
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_text(lines.read_text().replace('"stream":0', '"stream":1'))
    assert damaged.read_text() != lines.read_text()
    index = fsp._framespool.Index(str(tmp_path / "fresh"))
    taken, left = index.import_(damaged, folder)
    assert (taken, "checksum" in left[0][1]) == (0, True)
