"""Audio: exact samples of any window, in files and in the batches of a loader."""

from __future__ import annotations

import json
import pickle
import shutil
import struct
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import framespool as fsp
import numpy as np
import pytest
from framespool.cli import main
from processes import wait_until_settled

S, T = fsp.samplers, fsp.transforms
SECONDS = 6
#: A chirp and a pulsed tone with a little noise, different in each channel.
SIGNAL = (
    "aevalsrc=0.3*sin(2*PI*(200+300*t)*t)+0.2*sin(2*PI*997*t)*lt(mod(t\\,1)\\,0.5)+0.02*(random(0)-0.5)"
    "|0.25*sin(2*PI*(900-40*t)*t)+0.1*sin(2*PI*3001*t):s={rate}:d={seconds}"
)
#: Without noise that the decoder invents.
AAC = ["-c:a", "aac", "-aac_pns", "0"]
MP3, OPUS, VORBIS = (["-c:a", f"lib{name}"] for name in ("mp3lame", "opus", "vorbis"))
#: Name: sample rate, encoder arguments, whether decoding is exact to the bit, and the reference decoder's options.
VIDEOS = {
    "aac.mp4": (44100, AAC, True, []),
    "aac_fragments.mp4": (48000, [*AAC, "-movflags", "frag_keyframe+empty_moov"], True, []),
    "aac_surround.mp4": (48000, [*AAC, "-ac", "6"], True, []),
    "aac.mkv": (48000, AAC, True, []),
    "aac.ts": (48000, AAC, True, []),
    "aac.flv": (44100, AAC, True, []),
    "mp3.mp4": (44100, MP3, True, []),
    "mp3.mkv": (44100, MP3, True, []),
    "mp3.avi": (44100, MP3, True, []),
    "mp3.ts": (48000, MP3, True, []),
    "mp2.ts": (48000, ["-c:a", "mp2"], True, ["-c:a", "mp2float"]),
    "opus.mkv": (48000, OPUS, False, []),
    "opus.mp4": (48000, OPUS, False, []),
    "vorbis.mkv": (44100, VORBIS, True, []),
    "flac.mkv": (44100, ["-c:a", "flac"], True, []),
    "alac.mp4": (44100, ["-c:a", "alac"], True, []),
    "pcm16.mov": (48000, ["-c:a", "pcm_s16le"], True, []),
    "pcm24.mov": (48000, ["-c:a", "pcm_s24be"], True, []),
    "pcm.avi": (44100, ["-c:a", "pcm_s16le"], True, []),
    "ac3.mkv": (48000, ["-c:a", "ac3"], True, ["-cons_noisegen", "1"]),
    "ac3.ts": (48000, ["-c:a", "ac3"], True, ["-cons_noisegen", "1"]),
    "eac3.mp4": (48000, ["-c:a", "eac3"], True, ["-cons_noisegen", "1"]),
    "wma.asf": (44100, ["-c:a", "wmav2"], True, []),
}
AUDIO_ONLY = {
    "tone.wav": (44100, ["-c:a", "pcm_s16le"], True, []),
    "float.wav": (48000, ["-c:a", "pcm_f32le"], True, []),
    "tone.flac": (44100, ["-c:a", "flac"], True, []),
    "tone.mp3": (44100, MP3, True, []),
    "low.mp3": (22050, [*MP3, "-b:a", "32k"], True, []),
    "tone.m4a": (44100, AAC, True, []),
    "tone.aac": (44100, AAC, True, []),
    "tone.ogg": (44100, VORBIS, True, []),
    "tone.opus": (48000, OPUS, False, []),
}
FILES = VIDEOS | AUDIO_ONLY
#: Samples that the reference program, of an older release, returns before the audio: the delay of the encoder.
EARLIER = {"aac.mkv": 1024, "ac3.mkv": 256, "mp3.mkv": 1105}
#: Largest difference from a decoder that began with the first packet, where a decoder only converges.
CONVERGED = 1e-4
#: Largest difference between two releases of FFmpeg.
ROUNDED = 1e-6


def run(command: list[str]) -> bytes:
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout


@pytest.fixture(scope="module")
def audio_files(encoder, tmp_path_factory) -> Path:
    """The files of `FILES`."""
    folder = tmp_path_factory.mktemp("audio_files")
    picture = ["-f", "lavfi", "-i", f"testsrc2=s=64x48:r=25:d={SECONDS}"]

    def make(name: str) -> None:
        rate, options, *_ = FILES[name]
        source = ["-f", "lavfi", "-i", SIGNAL.format(rate=rate, seconds=SECONDS)]
        pictures = [*picture, *source, "-c:v", "libx264", "-preset", "ultrafast", "-g", "50", "-threads", "1"]
        start = pictures if name in VIDEOS else source
        run([encoder, "-v", "error", *start, *options, str(folder / name)])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(make, FILES))
    return folder


def reference(encoder: str, path: Path, channels: int, options: list[str]) -> np.ndarray:
    """All samples as the reference program decodes them, (C, S)."""
    if path.suffix == ".ts":
        # The reference program crashes on the service description that its own muxer writes.
        data = path.read_bytes()
        size, sync = (188, 0) if data[0] == 0x47 else (192, 4)
        packets = (data[at : at + size] for at in range(0, len(data), size))
        path = path.with_suffix(".reference.ts")
        path.write_bytes(b"".join(packet for packet in packets if packet[sync + 1 : sync + 3] != b"\x40\x11"))
    raw = run([encoder, "-v", "error", *options, "-i", str(path), "-map", "0:a:0", "-f", "f32le", "-"])
    samples = np.frombuffer(raw, "<f4").reshape(-1, channels).T
    return samples[:, EARLIER.get(path.name, 0) :]


@pytest.mark.parametrize("name", FILES)
def test_windows_equal_the_cut_of_a_whole_decoding(name, audio_files, encoder):
    rate, _, is_exact, options = FILES[name]
    audio = fsp.video.AudioFile(audio_files / name, index=False)
    info = audio.info
    whole = reference(encoder, audio_files / name, info.channels, options)
    assert info.sample_rate == rate
    all_samples = audio.samples().numpy()
    assert all_samples.shape[0] == info.channels
    # The reference program keeps padding after the end of the audio where newer releases remove it.
    extra = whole.shape[1] - all_samples.shape[1]
    assert extra == 0 or 0 < extra <= 1152 and name.endswith((".mp4", ".m4a")), extra
    assert abs(info.duration_seconds - all_samples.shape[1] / rate) < 1e-9
    whole = whole[:, : all_samples.shape[1]]
    is_lossless = any(word in FILES[name][1][1] for word in ("pcm", "flac", "alac"))
    tolerance = 0 if is_lossless else ROUNDED if is_exact else CONVERGED
    assert np.abs(all_samples - whole).max() <= tolerance
    assert np.abs(whole).max() > 0.1
    length = round(0.4 * rate)
    places = [0, 1, rate - 17, whole.shape[1] // 2, whole.shape[1] - length]
    for first in places:
        # Another file object for each window: nothing is left over from the window before.
        alone = fsp.video.AudioFile(audio_files / name, index=False)
        window = alone.samples(info.begin_seconds + first / rate, 0.4).numpy()
        assert window.shape == (info.channels, length)
        assert np.array_equal(window, all_samples[:, first : first + length]), "independent of what is read before"
        again = audio.samples(info.begin_seconds + first / rate, 0.4).numpy()
        assert np.array_equal(window, again)


#: Each audio decoder of the FFmpeg build that `FILES` lacks: the file's extension, and the encoder's options.
CODECS = {
    "aac_latm": ("ts", ["-ar", "48000", *AAC, "-mpegts_flags", "latm"]),
    "wmav1": ("asf", ["-c:a", "wmav1"]),
    "pcm_u8": ("wav", ["-c:a", "pcm_u8"]),
    "pcm_alaw": ("wav", ["-c:a", "pcm_alaw"]),
    "pcm_mulaw": ("wav", ["-c:a", "pcm_mulaw"]),
    "pcm_s24le": ("wav", ["-c:a", "pcm_s24le"]),
    "pcm_s32le": ("w64", ["-c:a", "pcm_s32le"]),
    "pcm_f64le": ("wav", ["-c:a", "pcm_f64le"]),
    "pcm_s8": ("aiff", ["-c:a", "pcm_s8"]),
    "pcm_s16be": ("aiff", ["-c:a", "pcm_s16be"]),
    "pcm_s32be": ("aiff", ["-c:a", "pcm_s32be"]),
    "pcm_f32be": ("aiff", ["-c:a", "pcm_f32be"]),
    "pcm_f64be": ("aiff", ["-c:a", "pcm_f64be"]),
    "pcm_dvd": ("vob", ["-ar", "48000", "-c:a", "pcm_dvd"]),
    "pcm_bluray": ("ts", ["-ar", "48000", "-c:a", "pcm_bluray", "-mpegts_m2ts_mode", "1"]),
    "ac3": ("ac3", ["-ar", "48000", "-c:a", "ac3"]),
    "eac3": ("eac3", ["-ar", "48000", "-c:a", "eac3"]),
    "amr_nb": ("amr", ["-ar", "8000", "-ac", "1", "-c:a", "libopencore_amrnb"]),
    "amr_wb": ("amr", ["-ar", "16000", "-ac", "1", "-c:a", "libvo_amrwbenc"]),
}
#: Decoders and demuxers that no file tests, with the reason.
UNTESTED = {"wmapro": "no encoder exists"}
#: Codecs whose decoder in the build has another name.
DECODED_BY = {"mp2": "mp2float", "mp3": "mp3float", "amr_nb": "amrnb", "amr_wb": "amrwb"}


@pytest.mark.parametrize("codec", CODECS)
def test_each_decoder_and_demuxer(codec, encoder, tmp_path):
    extension, options = CODECS[codec]
    path = tmp_path / f"tone.{extension}"
    source = ["-f", "lavfi", "-i", SIGNAL.format(rate=44100, seconds=1)]
    run([encoder, "-v", "error", *source, *options, str(path)])
    audio = fsp.video.AudioFile(path, index=False)
    whole = audio.samples().numpy()
    expected = reference(encoder, path, audio.info.channels, ["-cons_noisegen", "1"] if "ac3" in codec else [])
    assert audio.info.codec == codec and np.abs(whole).max() > 0.1
    count = min(whole.shape[1], expected.shape[1])
    assert count > 0.95 * audio.info.sample_rate and abs(whole.shape[1] - expected.shape[1]) <= 2048
    tolerance = 0 if "pcm" in codec else CONVERGED if "amr" in codec else ROUNDED
    assert np.abs(whole[:, :count] - expected[:, :count]).max() <= tolerance
    begin, rate = audio.info.begin_seconds, audio.info.sample_rate
    first, length = round(0.4 * rate), round(0.3 * rate)
    window = fsp.video.AudioFile(path, index=False).samples(begin + first / rate, length / rate).numpy()
    assert np.array_equal(window, whole[:, first : first + length])


def test_all_components_of_the_build_are_tested(audio_files):
    script = Path(__file__).resolve().parents[2] / "scripts" / "build_ffmpeg.sh"
    command = f'source {script}; echo "$AUDIO_DECODERS" "$AUDIO_DEMUXERS"'
    decoders, demuxers = (set(line.split(",")) for line in run(["bash", "-c", command]).decode().split())
    codecs = {fsp.video.AudioFile(audio_files / name, index=False).info.codec for name in FILES} | set(CODECS)
    assert decoders == {DECODED_BY.get(codec, codec) for codec in codecs} | set(UNTESTED)
    extensions = {Path(name).suffix[1:] for name in FILES} | {extension for extension, _ in CODECS.values()}
    assert demuxers <= extensions, demuxers - extensions


@pytest.mark.parametrize("name", ["aac.mp4", "opus.mkv", "tone.mp3", "aac.ts", "tone.flac"])
@pytest.mark.parametrize("rate", [16000, 8000, 48000, 22051, 96000])
def test_resampled_windows_equal_the_cut_of_the_whole(name, rate, audio_files):
    audio = fsp.video.AudioFile(audio_files / name, index=False)
    begin = audio.info.begin_seconds
    whole = audio.samples(sample_rate=rate).numpy()
    assert whole.shape[1] == pytest.approx(audio.info.duration_seconds * rate, abs=1)
    for first in (0, 1, 777, rate, whole.shape[1] - 1000):
        window = audio.samples(begin + first / rate, 1000 / rate, sample_rate=rate).numpy()
        assert np.array_equal(window, whole[:, first : first + 1000])


@pytest.mark.parametrize(("name", "options"), [("noise.mp4", []), ("noise.ts", ["-mpegts_flags", "latm"])])
def test_noise_of_the_decoder_does_not_depend_on_the_window(name, options, encoder, tmp_path):
    """AAC's noise substitution draws random numbers for packet after packet."""
    path = tmp_path / name
    source = "anoisesrc=r=48000:d=8:a=0.3:seed=1"
    run([encoder, "-v", "error", "-f", "lavfi", "-i", source, "-c:a", "aac", "-b:a", "48k", *options, str(path)])
    audio = fsp.video.AudioFile(path, index=False)
    whole = audio.samples().numpy()
    begin = audio.info.begin_seconds
    for first in (0, 40000, 100_001, 300_000):
        alone = fsp.video.AudioFile(path, index=False)
        window = alone.samples(begin + first / 48000, 0.5).numpy()
        assert np.array_equal(window, whole[:, first : first + 24000])


#: Files whose windows were once not the cut of the whole: the extension, and the encoder's options.
HARD = {
    "reservoir of many packets": ("mp3", ["-ar", "22050", "-ac", "1", "-c:a", "libmp3lame", "-q:a", "9"]),
    "reservoir of small packets": ("mp3", ["-ar", "24000", "-ac", "1", "-c:a", "libmp3lame", "-b:a", "8k"]),
    "frames of one size in a program stream": ("vob", ["-ar", "48000", "-c:a", "ac3", "-b:a", "64k"]),
    "several frames in a packet": ("3gp", ["-ar", "8000", "-ac", "1", "-c:a", "libopencore_amrnb"]),
}


@pytest.mark.parametrize("kind", HARD)
def test_windows_of_hard_files_equal_the_cut_of_the_whole(kind, encoder, tmp_path):
    extension, options = HARD[kind]
    path = tmp_path / f"hard.{extension}"
    source = "aevalsrc=0.4*sin(2*PI*(300+100*t)*t)*lt(mod(t\\,0.7)\\,0.4):s=48000:d=8"
    run([encoder, "-v", "error", "-f", "lavfi", "-i", source, *options, str(path)])
    audio = fsp.video.AudioFile(path, index=False)
    whole, begin, rate = audio.samples().numpy(), audio.info.begin_seconds, audio.info.sample_rate
    draw = np.random.default_rng(1)
    for first in draw.integers(0, whole.shape[1] - rate // 10, 30):
        alone = fsp.video.AudioFile(path, index=False)
        window = alone.samples(begin + first / rate, 0.1).numpy()
        assert np.array_equal(window, whole[:, first : first + window.shape[1]])


def test_speech_of_opus_is_as_late_as_its_decoder(encoder, tmp_path):
    """At 8 kHz, FFmpeg's decoder returns the last samples of each packet with the next one."""
    path = tmp_path / "speech.opus"
    options = ["-ar", "8000", "-ac", "1", "-c:a", "libopus", "-application", "voip", "-b:a", "8k"]
    source = "aevalsrc=0.4*sin(2*PI*(300+50*t)*t)*lt(mod(t\\,0.7)\\,0.4):s=48000:d=4"
    run([encoder, "-v", "error", "-f", "lavfi", "-i", source, *options, str(path)])
    whole = fsp.video.AudioFile(path, index=False).samples().numpy()
    expected = reference(encoder, path, 1, [])
    assert abs(whole.shape[1] - expected.shape[1]) <= 24
    # The first block is decoded from the begin, as the reference.
    assert np.abs(whole[:, :40000] - expected[:, :40000]).max() <= ROUNDED and np.abs(whole).max() > 0.1
    for first in (0, 5000, 47_900, 100_000, whole.shape[1] - 4800):
        window = fsp.video.AudioFile(path, index=False).samples(first / 48000, 0.1).numpy()
        assert np.array_equal(window, whole[:, first : first + 4800])


def test_windows_of_mp3_of_variable_rate_equal_the_cut_of_the_whole(encoder, tmp_path):
    """The packets of silence are small, and refer to the bytes of many packets before."""
    path = tmp_path / "variable.mp3"
    source = (
        "aevalsrc=lt(mod(t\\,0.31)\\,0.06)*0.9*(random(0)-0.5)+0.01*sin(2*PI*440*t)*gt(mod(t\\,0.9)\\,0.4):s={rate}:d=6"
    )
    for rate, options in ((44100, ["-q:a", "0"]), (44100, ["-q:a", "4"]), (22050, ["-q:a", "6"])):
        inputs = ["-f", "lavfi", "-i", source.format(rate=rate)]
        run([encoder, "-v", "error", "-y", *inputs, "-c:a", "libmp3lame", *options, str(path)])
        audio = fsp.video.AudioFile(path, index=False)
        whole, begin = audio.samples().numpy(), audio.info.begin_seconds
        for first in range(0, whole.shape[1] - 576, 576):
            window = audio.samples(begin + first / rate, 300 / rate).numpy()
            assert np.array_equal(window, whole[:, first : first + 300]), (rate, options, first)


def patched_ogg(data: bytes, pre_skip: int) -> bytes:
    """A file of Opus with another pre-skip."""
    length = 27 + data[26] + sum(data[27 : 27 + data[26]])
    page = bytearray(data[:length])
    struct.pack_into("<H", page, page.index(b"OpusHead") + 10, pre_skip)
    page[22:26] = bytes(4)
    checksum = 0
    for byte in page:
        checksum ^= byte << 24
        for _ in range(8):
            checksum = (checksum << 1 ^ (0x04C11DB7 if checksum >> 31 else 0)) & 0xFFFFFFFF
    struct.pack_into("<I", page, 22, checksum)
    return bytes(page) + data[length:]


#: Speech at 8 kHz, of which FFmpeg's decoder returns the last samples of each packet with the next one.
SPEECH = [
    *("-f", "lavfi", "-i", "aevalsrc=0.4*sin(2*PI*(300+50*t)*t):s=48000:d=4", "-ar", "8000", "-ac", "1"),
    *("-c:a", "libopus", "-application", "voip", "-b:a", "8k"),
]


def test_speech_of_opus_whose_first_packets_are_skipped_is_on_time(encoder, tmp_path):
    path = tmp_path / "speech.opus"
    run([encoder, "-v", "error", *SPEECH, str(path)])
    data = path.read_bytes()
    pre_skip = struct.unpack_from("<H", data, data.index(b"OpusHead") + 10)[0]
    whole = fsp.video.AudioFile(data).samples().numpy()
    for packets in (1, 3):
        skipped = 960 * packets - pre_skip
        later = fsp.video.AudioFile(patched_ogg(data, pre_skip + skipped)).samples().numpy()
        # The first block is decoded from the begin in both.
        assert np.array_equal(later[:, :40000], whole[:, skipped:][:, :40000])


def test_speech_of_opus_whose_first_packets_are_hidden_is_on_time(encoder, tmp_path):
    path = tmp_path / "speech.mp4"
    run([encoder, "-v", "error", *SPEECH, str(path)])
    data = bytearray(path.read_bytes())
    at = data.index(b"elst") + 16
    [media_time] = struct.unpack_from(">I", data, at)
    whole = fsp.video.AudioFile(bytes(data))
    samples = whole.samples().numpy()
    for packets in (1, 5, 40):
        ticks = 160 * packets  # the encoder's program counts at 8 kHz
        struct.pack_into(">I", data, at, media_time + ticks)
        later = fsp.video.AudioFile(bytes(data))
        first = 6 * ticks + round(48000 * (later.info.begin_seconds - whole.info.begin_seconds))
        found = later.samples().numpy()
        assert found.shape[1] > 100_000 and np.abs(found).max() > 0.1
        assert np.array_equal(found, samples[:, first : first + found.shape[1]])


def test_the_end_of_opus_before_a_gap_is_not_in_the_gap(encoder, tmp_path):
    path, gap = tmp_path / "speech.mkv", tmp_path / "gap.mkv"
    run([encoder, "-v", "error", *SPEECH, str(path)])
    run([encoder, "-v", "error", "-i", str(path), "-c", "copy", "-bsf:a", "noise=drop=between(n\\,80\\,99)", str(gap)])
    whole = fsp.video.AudioFile(path, index=False).samples().numpy()[0]
    audio = fsp.video.AudioFile(gap, index=False).samples().numpy()[0]
    first = 80 * 960 - 312
    assert np.all(audio[first : first + 20 * 960] == 0) and np.all(audio[first - 8 : first] != 0)
    assert np.abs(audio[first - 960 : first] - whole[first - 960 : first]).max() < 0.1


def test_a_change_of_the_channels_is_refused(encoder, tmp_path):
    extension, options = CODECS["pcm_bluray"]
    data = b""
    for channels in ("1", "2"):
        path = tmp_path / f"part.{extension}"
        source = ["-f", "lavfi", "-i", SIGNAL.format(rate=48000, seconds=1)]
        run([encoder, "-v", "error", "-y", *source, "-ac", channels, *options, str(path)])
        data += path.read_bytes()
    with pytest.raises(fsp.errors.UnsupportedError, match="a change of the sample rate or of the channels"):
        fsp.video.AudioFile(data).samples()


def flv_tags(data: bytes, delay: int) -> bytes:
    """The tags of an FLV file, later by a time in ms."""
    at, tags = 13, bytearray()
    while at < len(data):
        size = int.from_bytes(data[at + 1 : at + 4], "big")
        time = int.from_bytes(data[at + 4 : at + 7], "big") + delay
        tags += data[at : at + 4] + time.to_bytes(3, "big") + data[at + 7 : at + 15 + size]
        at += 15 + size
    return bytes(tags)


def test_a_change_of_the_configuration_of_aac_is_refused(encoder, tmp_path):
    parts = []
    for number, options in enumerate((["-ar", "44100"], ["-ar", "22050"])):
        path = tmp_path / f"{number}.flv"
        source = ["-f", "lavfi", "-i", SIGNAL.format(rate=44100, seconds=1)]
        run([encoder, "-v", "error", *source, *options, *AAC, str(path)])
        parts.append(path.read_bytes())
    once = fsp.video.AudioFile(parts[0]).samples().numpy()
    # The same configuration again is no change.
    twice = fsp.video.AudioFile(parts[0] + flv_tags(parts[0], 1100)).samples().numpy()
    assert twice.shape[1] > 1.9 * once.shape[1]
    message = r"a change of the configuration of 'aac' at audio packet 45 "
    with pytest.raises(fsp.errors.UnsupportedError, match=message):
        fsp.video.AudioFile(parts[0] + flv_tags(parts[1], 1100)).samples()


def with_boxes(data: bytes, track: bytes, replaced: dict[bytes, bytes]) -> bytes:
    """An MP4 file with other boxes in the sample table of the track that has this sample entry."""
    entry = data.index(track)
    assert data.index(b"mdat") < data.index(b"moov"), "offsets of chunks do not change"
    changed = data
    for name, body in replaced.items():
        at = changed.rindex(b"stbl", 0, entry)
        at = changed.index(name, at) - 4
        size = int.from_bytes(changed[at : at + 4], "big")
        box = struct.pack(">I4s", 8 + len(body), name) + body
        grown = len(box) - size
        changed = bytearray(changed[:at] + box + changed[at + size :])
        for outer in (b"moov", b"trak", b"mdia", b"minf", b"stbl"):
            start = changed.rindex(outer, 0, entry) - 4
            length = int.from_bytes(changed[start : start + 4], "big") + grown
            changed[start : start + 4] = length.to_bytes(4, "big")
        changed = bytes(changed)
    return changed


def box_of(data: bytes, name: bytes, after: int) -> bytes:
    """The body of the first box of a name."""
    at = data.index(name, after) - 4
    return data[at + 8 : at + int.from_bytes(data[at : at + 4], "big")]


@pytest.mark.parametrize("changed_chunk", ["last", "middle"])
def test_a_change_of_the_sample_description_of_mp4_is_refused(changed_chunk, encoder, audio_files, tmp_path):
    # Without pictures, of which few are random access points, seeking skips the packets in the middle.
    path = tmp_path / "alone.mp4"
    run([encoder, "-v", "error", "-i", str(audio_files / "aac.mp4"), "-vn", "-c", "copy", str(path)])
    data = path.read_bytes()
    table = data.rindex(b"stbl", 0, data.index(b"mp4a"))
    entry = box_of(data, b"stsd", table)[8:]
    # The second description has half the rate, in AudioSpecificConfig.
    other = entry.replace(bytes.fromhex("1210"), bytes.fromhex("1390"))
    assert other != entry
    # Chunks of 20 packets; the file has one chunk.
    (begin,) = struct.unpack(">I", box_of(data, b"stco", table)[8:])
    sizes = [size for (size,) in struct.iter_unpack(">I", box_of(data, b"stsz", table)[12:])]
    offsets = [begin + sum(sizes[:first]) for first in range(0, len(sizes) - 20, 20)]
    changed = len(offsets) if changed_chunk == "last" else len(offsets) // 2
    # First chunk, packets of each chunk, description.
    rows = [[chunk, 20, 2 if chunk == changed else 1] for chunk in range(1, len(offsets) + 1)]
    rows[-1][1] += len(sizes) % 20
    boxes = {
        b"stsd": struct.pack(">II", 0, 2) + entry + other,
        b"stsc": struct.pack(">II", 0, len(rows)) + b"".join(struct.pack(">III", *row) for row in rows),
        b"stco": struct.pack(f">II{len(offsets)}I", 0, len(offsets), *offsets),
    }
    changed = with_boxes(data, b"mp4a", boxes)
    with pytest.raises(fsp.errors.UnsupportedError, match=r"configuration of 'aac' at audio packet \d+ is not"):
        fsp.video.AudioFile(changed).samples()


def test_a_file_that_claims_more_packets_than_it_can_hold_is_refused(audio_files):
    data = (audio_files / "aac.mp4").read_bytes()
    count = 100_000_000
    boxes = {
        b"stsz": struct.pack(">III", 0, 1, count),
        b"stts": struct.pack(">IIII", 0, 1, count, 1024),
        b"stsc": struct.pack(">IIIII", 0, 1, 1, count, 1),
    }
    with pytest.raises(fsp.errors.LimitError, match="number of samples of all tracks"):
        fsp.video.AudioFile(with_boxes(data, b"mp4a", boxes))


@pytest.mark.parametrize("name", ["aac.ts", "mp2.ts", "mp3.ts"])
def test_a_window_with_a_corrupt_packet_is_an_error(name, audio_files):
    """A transport stream that lacks one of its packets of 188 bytes: the demuxer marks the audio."""
    data = (audio_files / name).read_bytes()
    audio = fsp.video.AudioFile(data)
    begin, rate = audio.info.begin_seconds, audio.info.sample_rate
    whole = audio.samples(channels=1).numpy()[0]
    packets = [data[at : at + 188] for at in range(0, len(data), 188)]
    audio_packets = of_audio(packets)
    for lost in audio_packets[10 : -10 : len(audio_packets) // 8]:
        damaged = fsp.video.AudioFile(b"".join(packets[:lost] + packets[lost + 1 :]))
        failed = 0
        for first in range(0, len(whole) - 1024, 1024):
            try:
                window = damaged.samples(begin + first / rate, 1024 / rate, channels=1).numpy()[0]
            except fsp.errors.DecodeError as error:
                failed += 1
                assert "audio packet" in str(error)
            else:
                # Packets whose header is lost are missing.
                assert np.all((window == whole[first : first + 1024]) | (window == 0)), (lost, first)
        assert 0 < failed < 30


def test_wave_files_of_unknown_length_are_whole(encoder):
    """The demuxer marks the last packet, which is shorter than the others."""
    source = ["-f", "lavfi", "-i", SIGNAL.format(rate=8000, seconds=1.37)]
    data = run([encoder, "-v", "error", *source, "-c:a", "pcm_s16le", "-f", "wav", "-"])
    samples = fsp.video.AudioFile(data).samples().numpy()
    stored = np.frombuffer(data[-4 * samples.shape[1] :], "<i2").reshape(-1, 2).T
    assert samples.shape[1] == 10960 and np.array_equal(samples, stored.astype(np.float32) / 32768)


def of_audio(packets: list[bytes]) -> list[int]:
    """The numbers of the packets of a transport stream that hold audio.

    Its identifier is that of most packets which neither begin a payload nor have an adaptation field.
    """
    inner = [packet[1:3] for packet in packets if not packet[1] & 0x40 and packet[3] & 0x30 == 0x10]
    identifier = max(set(inner), key=inner.count)
    return [at for at, packet in enumerate(packets) if (packet[1] & 0x1F, packet[2]) == (identifier[0], identifier[1])]


@pytest.mark.parametrize("name", ["aac.ts", "mp2.ts"])
def test_joined_transport_streams_keep_both_parts(name, audio_files):
    data = (audio_files / name).read_bytes()
    packets = [data[at : at + 188] for at in range(0, len(data), 188)]
    lost = of_audio(packets)[-2]
    one, joined = (fsp.video.AudioFile(part) for part in (data, b"".join(packets[:lost] + packets[lost + 1 :]) + data))
    rate, begin = one.info.sample_rate, one.info.begin_seconds
    assert joined.info.duration_seconds > 2 * one.info.duration_seconds - 0.5
    for first in (0, rate, 4 * rate):
        expected = one.samples(begin + first / rate, 1.0).numpy()
        assert np.array_equal(joined.samples(begin + first / rate, 1.0).numpy(), expected)


def test_a_track_without_packets_is_no_audio():
    header = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36, b"WAVE", b"fmt ", 16, 1, 1, 8000, 16000, 2, 16, b"data", 0)
    with pytest.raises(fsp.errors.NoAudioError, match="its audio stream has no packets"):
        fsp.video.AudioFile(header)


def test_an_error_before_a_window_is_one_if_the_window_depends_on_it(audio_files, tmp_path):
    data = bytearray((audio_files / "aac.mp4").read_bytes())
    audio = fsp.video.AudioFile(audio_files / "aac.mp4", index=False)
    whole = audio.samples(channels=1).numpy()[0]
    at = data.index(b"mdat") + (len(data) - data.index(b"mdat")) // 2
    data[at : at + 1500] = b"\xff" * 1500
    damaged = fsp.video.AudioFile(bytes(data))
    failed = 0
    for first in range(0, len(whole) - 1024, 1024):
        try:
            window = damaged.samples(first / 44100, 1024 / 44100, channels=1).numpy()[0]
        except fsp.errors.DecodeError:
            failed += 1
        else:
            assert np.array_equal(window, whole[first : first + 1024]), first
    assert 0 < failed < 30


def test_a_clip_without_length_shifts_no_other(videos_with_audio, photos):
    dataset = [photos[0][0], videos_with_audio[3]]
    sampler = S.Segments(num_segments=4, mode="middle")
    (batch,) = loader_of(dataset, sampler, batch_size=2, audio=fsp.Audio(missing="zeros", channels=2))
    audio, mask = batch.audio.numpy(), batch.audio_mask.numpy()
    assert not audio[0].any() and not mask[0].any()
    assert np.abs(audio[1]).max() > 0.1 and mask[1].any()


def test_audio_outside_the_file_is_silence(audio_files):
    video = fsp.Video(audio_files / "flac.mkv", index=False)
    (info,) = video.info.audio_streams
    assert (info.codec, info.sample_rate, info.channels, info.begin_seconds) == ("flac", 44100, 2, 0.0)
    around = video.audio(-0.5, SECONDS + 1.0).numpy()
    assert not around[:, :22050].any() and not around[:, -22050:].any()
    assert np.array_equal(around[:, 22050:-22050], video.audio().numpy())
    assert not video.audio(100.0, 0.1).numpy().any()
    assert video.audio(1e15, 0.1).numpy().shape == (2, 4410), "far outside"
    assert video.audio(SECONDS + 1.0).shape == (2, 0), "to the end"


def test_late_audio_keeps_its_time(encoder, audio_files, tmp_path):
    """The audio begins 0.75 s after the pictures, and two packets are missing in its middle."""
    path = tmp_path / "late.mkv"
    inputs = ["-i", str(audio_files / "flac.mkv"), "-itsoffset", "0.75", "-i", str(audio_files / "flac.mkv")]
    gap = ["-bsf:a", "noise=drop=eq(n\\,20)+eq(n\\,21)"]
    run([encoder, "-v", "error", *inputs, "-map", "0:v", "-map", "1:a", "-c", "copy", *gap, str(path)])
    video = fsp.Video(path, index=False)
    (info,) = video.info.audio_streams
    assert info.begin_seconds == pytest.approx(0.75, abs=1e-3)
    whole = fsp.video.AudioFile(audio_files / "flac.mkv", index=False).samples().numpy()
    got = video.audio().numpy()
    late = got.shape[1] - whole.shape[1]
    assert abs(late) <= 44, "the audio after the gap is in its place, to the millisecond of Matroska"
    silent = ~got.any(axis=0)
    first, last = np.flatnonzero(silent)[[0, -1]]
    assert silent[first : last + 1].all() and 4000 < last + 1 - first < 10000
    assert np.array_equal(got[:, :first], whole[:, :first])
    assert np.array_equal(got[:, last + 1 :], whole[:, last + 1 - late :])
    loader = loader_of([str(path)], S.Windows(sequence_length=25), audio=fsp.Audio(44100))
    mask = np.concatenate([batch.audio_mask.numpy().reshape(-1) for batch in loader])
    heard = np.concatenate([np.zeros(round(0.75 * 44100), bool), ~silent])[: len(mask)]
    assert (mask[: len(heard)] != heard).sum() <= 2, "but for rounding"


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("name", ["aac_surround.mp4", "tone.flac", "mono.wav"])
def test_channels_are_mixed_as_by_ffmpeg(name, channels, encoder, audio_files, tmp_path):
    path = audio_files / name
    if name == "mono.wav":
        path = tmp_path / name
        run([encoder, "-v", "error", "-i", str(audio_files / "tone.wav"), "-ac", "1", "-c:a", "pcm_f32le", str(path)])
    raw = run([encoder, "-v", "error", "-i", str(path), "-ac", str(channels), "-f", "s16le", "-"])
    whole = np.frombuffer(raw, "<i2").reshape(-1, channels).T / 32768
    mixed = fsp.video.AudioFile(path, index=False).samples(channels=channels).numpy()
    assert mixed.shape[0] == channels
    assert np.abs(mixed - whole[:, : mixed.shape[1]]).max() < 1.01 / 32768


def loader_of(dataset, sampler=None, **more) -> fsp.ClipLoader:
    sampler = S.RandomClips(sequence_length=8, fps=8, clips_per_video=3) if sampler is None else sampler
    settings = {"batch_size": 4, "transforms": [T.Resize((16, 16))], "index": False, "audio": fsp.Audio(), "seed": 5}
    return fsp.ClipLoader(dataset, sampler, **(settings | more))


@pytest.fixture(scope="module")
def videos_with_audio(audio_files) -> list[str]:
    names = ("aac.mp4", "aac.ts", "opus.mkv", "flac.mkv", "mp3.avi", "pcm16.mov")
    return [str(audio_files / name) for name in names]


@pytest.fixture(scope="module")
def whole_audio(videos_with_audio) -> list[tuple[float, np.ndarray]]:
    """Begin and samples of each, mono at 16 kHz."""
    files = [fsp.video.AudioFile(path, index=False) for path in videos_with_audio]
    return [(each.info.begin_seconds, each.samples(sample_rate=16000, channels=1).numpy()[0]) for each in files]


def check(batch, whole_audio, shift=0.0) -> list[int]:
    """Compares the audio of each clip with the cut of the file's; returns the numbers of the clips."""
    length = batch.audio.shape[-1]
    audio, mask = batch.audio.numpy().reshape(-1, length), batch.audio_mask.numpy().reshape(-1, length)
    times = batch.pts_seconds.numpy()
    times = times.reshape(-1, times.shape[-1])
    each = len(audio) // len(batch.video_ids)
    for row, video in enumerate(np.repeat(batch.video_ids.numpy(), each)):
        begin, whole = whole_audio[video]
        first = round((times[row].min() + shift - begin) * 16000)
        padded = np.concatenate([np.zeros(32000, "f4"), whole, np.zeros(64000, "f4")])
        assert np.array_equal(audio[row], padded[32000 + first : 32000 + first + length])
        inside = np.arange(first, first + length)
        assert np.array_equal(mask[row], (inside >= 0) & (inside < len(whole)))
    return batch.clip_ids.numpy().reshape(-1).tolist()


@pytest.mark.parametrize(
    "order",
    [
        {},
        {"shuffle": True},
        {"shuffle": "full"},
        {"shuffle": fsp.BufferShuffle(5)},
        {"shuffle": True, "group_clips": True, "batch_size": 2},
        {"shuffle": "full", "repeats": 2},
        {"shuffle": True, "transforms": [], "batch_size": 1},
        {"num_threads": 1, "cache": "0MiB"},
    ],
    ids=str,
)
def test_clips_have_their_audio(order, videos_with_audio, whole_audio):
    loader = loader_of(videos_with_audio, **order)
    for _ in range(2):
        clips = []
        for batch in loader:
            assert batch.audio.shape[-2:] == (1, 16000) and batch.audio.dtype == "float32"
            clips += check(batch, whole_audio)
        assert sorted(clips) == sorted([*range(18)] * order.get("repeats", 1))


def test_order_and_audio_are_resumed(videos_with_audio):
    batches = [(b.clip_ids.tolist(), b.audio.numpy()) for b in loader_of(videos_with_audio, shuffle=True)]
    for after in range(len(batches)):
        first = loader_of(videos_with_audio, shuffle=True)
        iterator = iter(first)
        for _ in range(after):
            next(iterator)
        resumed = loader_of(videos_with_audio, shuffle=True)
        resumed.load_state_dict(first.state_dict())
        rest = [(b.clip_ids.tolist(), b.audio.numpy()) for b in resumed]
        assert [clips for clips, _ in rest] == [clips for clips, _ in batches[after:]]
        assert all(np.array_equal(a, b) for (_, a), (_, b) in zip(rest, batches[after:], strict=True))


def test_a_state_of_another_audio_is_refused(videos_with_audio):
    state = loader_of(videos_with_audio, audio=fsp.Audio(16000)).state_dict()
    for other in (fsp.Audio(8000), fsp.Audio(16000, shift=0.1), None):
        with pytest.raises(fsp.errors.ArgumentError, match="transforms"):
            loader_of(videos_with_audio, audio=other).load_state_dict(state)


def test_ranks_share_the_clips(videos_with_audio, whole_audio):
    ranks = [loader_of(videos_with_audio, shuffle=True, num_shards=2, shard_id=rank) for rank in (0, 1)]
    clips = [clip for loader in ranks for batch in loader for clip in check(batch, whole_audio)]
    assert sorted(clips) == [*range(18)]


def test_clips_on_disk_have_their_audio(videos_with_audio, whole_audio, tmp_path):
    sampler = S.RandomClips(sequence_length=8, fps=8)
    cache = fsp.Cache("64MiB", disk=tmp_path / "clips", disk_size="1GiB")
    loader = loader_of(videos_with_audio, sampler, shuffle=True, cache=cache)
    for _ in range(4):
        assert sorted(clip for batch in loader for clip in check(batch, whole_audio)) == [*range(6)]
    assert loader.stats()["disk_clips_read"] > 0


def test_views_have_audio_of_their_own(videos_with_audio, whole_audio):
    views = {
        "long": fsp.View(S.RandomClips(sequence_length=16, fps=8), [T.Resize((16, 16))]),
        "short": fsp.View(
            S.RandomClips(sequence_length=4, fps=8, clips_per_video=2), [T.Resize((8, 8))], within="long"
        ),
    }
    loader = fsp.ClipLoader(videos_with_audio, batch_size=2, views=views, audio=fsp.Audio(seconds=0.5), index=False)
    for batch in loader:
        assert batch["long"].audio.shape == (2, 1, 1, 8000) and batch["short"].audio.shape == (2, 2, 1, 8000)
        check(batch["long"], whole_audio)
        check(batch["short"], whole_audio)


def test_the_audio_of_each_view_has_the_length_of_its_rate(videos_with_audio, whole_audio):
    views = {
        "slow": fsp.View(S.RandomClips(sequence_length=5, fps=7), [T.Resize((8, 8))]),
        "fast": fsp.View(S.RandomClips(sequence_length=3, fps=9, clips_per_video=2), [T.Resize((8, 8))]),
    }
    loader = fsp.ClipLoader(videos_with_audio, batch_size=1, views=views, audio=fsp.Audio(), index=False)
    for batch in loader:
        assert batch["slow"].audio.shape[-1] == round(5 / 7 * 16000)
        assert batch["fast"].audio.shape[-1] == round(3 / 9 * 16000)
        check(batch["slow"], whole_audio)
        check(batch["fast"], whole_audio)


def test_buckets_keep_the_audio(videos_with_audio, whole_audio):
    buckets = fsp.Buckets(sizes=[(16, 16), (16, 32)], frames=(17, 9))
    loader = loader_of(videos_with_audio, S.RandomClips(sequence_length=9, fps=8), buckets=buckets, transforms=[])
    seen = []
    for batch in loader:
        assert batch.audio.shape[-1] == batch.frames.shape[1] * 2000
        seen += check(batch, whole_audio)
    assert sorted(seen) == [*range(6)]


@pytest.mark.parametrize(("align", "shift"), [("start", 0.0), ("center", -0.5)])
def test_length_in_seconds(align, shift, videos_with_audio, whole_audio):
    loader = loader_of(videos_with_audio, audio=fsp.Audio(seconds=2.0, align=align))
    for batch in loader:
        assert batch.audio.shape[1:] == (1, 32000)
        check(batch, whole_audio, shift)


def test_random_shift_and_gain(videos_with_audio, whole_audio):
    def epochs(**more):
        loader = loader_of(videos_with_audio[3:4], S.Windows(sequence_length=25), batch_size=6, **more)
        return [next(iter(loader)).audio.numpy() for _ in range(2)]

    def batches(**more):
        return epochs(**more), epochs(**more)

    plain = batches()[0][0]
    (first, second), again = batches(audio=fsp.Audio(gain=(-20, -10)))
    assert np.array_equal(first, again[0]) and np.array_equal(second, again[1])
    factors = [np.median(f[np.abs(p) > 0.1] / p[np.abs(p) > 0.1]) for f, p in zip(first, plain, strict=True)]
    assert all(0.1 <= factor <= 10**-0.5 for factor in factors) and len(set(factors)) == 6
    assert not np.array_equal(first, second), "another epoch"
    (shifted, _), _ = batches(audio=fsp.Audio(shift=0.01))
    _, whole = whole_audio[3]
    padded = np.concatenate([np.zeros(160, "f4"), whole, np.zeros(32000, "f4")])
    shifts = []
    for window, begin in zip(shifted[:, 0], range(0, 96000, 16000), strict=True):
        matching = [s for s in range(-160, 161) if np.array_equal(padded[160 + begin + s :][:16000], window)]
        shifts += matching
    assert len(shifts) == len(set(shifts)) == 6


def test_strided_and_reversed_clips_have_the_audio_of_their_time(videos_with_audio, whole_audio):
    strided = loader_of(videos_with_audio, S.RandomClips(sequence_length=5, stride=4))
    for batch in strided:
        assert batch.audio.shape[-1] == pytest.approx(5 * 4 / 25 * 16000, abs=20)
        check(batch, whole_audio)
    backward = loader_of(videos_with_audio, lambda info, rng: [40, 38, 36, 34])
    for batch in backward:
        assert batch.audio.shape[-1] == pytest.approx(4 * 2 / 25 * 16000, abs=20)
        check(batch, whole_audio)


@pytest.fixture(scope="module")
def with_silent(audio_files, encoder, videos_with_audio, tmp_path_factory) -> list[str]:
    """The videos, and one without audio."""
    silent = tmp_path_factory.mktemp("silent") / "silent.mp4"
    run([encoder, "-v", "error", "-i", videos_with_audio[0], "-an", "-c:v", "copy", str(silent)])
    return [*videos_with_audio[:3], str(silent)]


def test_files_without_audio(with_silent, photos, tmp_path):
    for number in (1, 2):
        shutil.copy(photos[0][0], tmp_path / f"{number}.jpg")
    images = fsp.datasets.ImageSequence(tmp_path, fps=25)
    with pytest.raises(fsp.errors.NoAudioError, match=r"silent\.mp4: no audio stream.*h264"):
        list(loader_of(with_silent))
    with pytest.raises(fsp.errors.NoAudioError, match="silent"):
        fsp.Video(with_silent[-1], index=False).audio()
    with pytest.raises(fsp.errors.NoAudioError, match="images only"):
        fsp.Video(images, index=False).audio()
    with pytest.raises(fsp.errors.NoAudioError, match="stream 0 is not one"):
        fsp.video.AudioFile(with_silent[0], index=False, stream=0)
    for batch in loader_of(with_silent, audio=fsp.Audio(missing="zeros")):
        silent = batch.video_ids.numpy() == 3
        assert not batch.audio.numpy()[silent].any() and not batch.audio_mask.numpy()[silent].any()
        assert batch.audio_mask.numpy()[~silent].any(axis=1).all()


@pytest.mark.parametrize("order", [{}, {"shuffle": True}, {"shuffle": "full", "cache": "0MiB"}], ids=str)
def test_no_frame_of_a_file_without_audio_is_decoded(order, with_silent):
    skipping = loader_of(with_silent[-1:] * 2, on_error="skip", **order)
    with pytest.raises(fsp.errors.NoAudioError):
        next(iter(skipping))
    stats = skipping.stats()
    assert stats["frames_decoded"] == 0 and stats["errors"]["no_audio"] > 0


@pytest.mark.parametrize("order", [{}, {"shuffle": True}, {"shuffle": "full", "cache": "0MiB"}], ids=str)
def test_on_error_applies_to_the_audio(order, with_silent):
    skipping = loader_of(with_silent, on_error="skip", **order)
    assert sorted(clip for batch in skipping for clip in batch.clip_ids.tolist()) == [*range(9)]
    assert skipping.stats()["errors"] == {"no_audio": 3}
    replacing = loader_of(with_silent, on_error="replace", **order)
    made = [clip for batch in replacing for clip in batch.clip_ids.tolist()]
    assert len(made) == 12 and set(made) <= {*range(9)}


def test_damage_is_an_error_at_its_place(audio_files, tmp_path):
    """FLAC has checksums; the second half of the file stays readable."""
    data = bytearray((audio_files / "tone.flac").read_bytes())
    at = len(data) // 2
    data[at : at + 64] = bytes(value ^ 0x55 for value in data[at : at + 64])
    path = tmp_path / "damaged.flac"
    path.write_bytes(data)
    audio = fsp.video.AudioFile(path, index=False)
    whole = fsp.video.AudioFile(audio_files / "tone.flac", index=False).samples().numpy()
    assert np.array_equal(audio.samples(0.0, 1.0).numpy(), whole[:, :44100])
    with pytest.raises(fsp.errors.Error, match=r"damaged\.flac.*audio packet"):
        audio.samples()


@pytest.mark.parametrize(
    "name", ["aac.mp4", "aac.ts", "opus.mkv", "flac.mkv", "mp3.avi", "eac3.mp4", "wma.asf", "tone.ogg"]
)
def test_damaged_files_give_samples_or_an_error(name, audio_files, tmp_path):
    data = (audio_files / name).read_bytes()
    draw = np.random.default_rng(len(data))
    for round_ in range(25):
        damaged = bytearray(data[: draw.integers(1, len(data))] if round_ % 5 == 4 else data)
        for at in draw.integers(0, len(damaged), 1 + 40 * (round_ % 3)):
            damaged[at] ^= 1 << draw.integers(8)
        try:
            audio = fsp.video.AudioFile(bytes(damaged))
            assert audio.samples(0.5, 0.5, sample_rate=16000, channels=1).shape == (1, 8000)
        except fsp.errors.Error as error:
            assert "bytes" in str(error) or "audio" in str(error)


def test_indices_are_cached(audio_files, tmp_path):
    path, cache = tmp_path / "aac.mkv", tmp_path / "cache"
    shutil.copy(audio_files / "aac.mkv", path)
    wait_until_settled(path)
    video = fsp.Video(path, index=cache)
    expected = video.audio(1.0, 0.5).numpy()
    assert fsp.video.AudioFile(path, index=cache).samples(1.0, 0.5).numpy().tolist() == expected.tolist()
    stored = fsp._framespool.Index(cache)
    stored.flush()
    assert stored.summary()["entries"] == 2, "of the pictures and of the audio"
    again = fsp.video.AudioFile(path, index=cache)
    assert np.array_equal(again.samples(1.0, 0.5).numpy(), expected)
    assert fsp.Video(path, index=cache).info.num_frames == video.info.num_frames


def test_the_command_indexes_audio_ahead_of_time(audio_files, photos, tmp_path, capsys):
    folder, cache = tmp_path / "sounds", tmp_path / "cache"
    folder.mkdir()
    for name in ("aac.mkv", "mp3.avi", "tone.ogg"):
        shutil.copy(audio_files / name, folder)
    shutil.copy(photos[0][0], folder / "picture.jpg")

    def index(*options):
        code = main(["index", str(folder), "--audio", "--index", str(cache), "--json", *options])
        summary = json.loads(capsys.readouterr().out)
        return code, summary["videos"], summary["found"], summary["indexed"], summary["frames"], summary["failed"]

    assert index() == (0, 3, 0, 3, 0, [])
    assert index() == (0, 3, 3, 0, 0, [])
    assert index("--check") == (0, 3, 3, 0, 0, [])
    loader = fsp.AudioLoader(
        [str(path) for path in sorted(folder.glob("*.[amo]*"))],
        fsp.Audio(16000, channels=1, seconds=0.5),
        batch_size=3,
        index=cache,
    )
    assert len(next(iter(loader)).audio) == 3
    assert loader.stats()["index_hits"] == 3
    assert main(["index", str(folder), "--audio", "--export", str(tmp_path / "a.jsonl")]) == 2
    assert "videos only" in capsys.readouterr().err


def test_the_command_counts_videos_without_audio(with_silent, bad_file, tmp_path, capsys):
    folder = tmp_path / "videos"
    folder.mkdir()
    for path in with_silent[-2:]:
        shutil.copy(path, folder)
    command = ["index", str(folder), "--audio", "--index", str(tmp_path / "cache")]
    assert main(command) == 0
    said = capsys.readouterr()
    assert "2 files: 0 found, 1 indexed, 0 failed, 1 without audio; " in said.out and said.err == ""
    assert main([*command, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["failed"], summary["without_audio"]) == ([], [str(folder / "silent.mp4")])
    # A requested stream must be audio, and a damaged file is still a failure.
    assert main([*command, "--stream", "0"]) == 1
    assert "stream 0 is not one" in capsys.readouterr().err
    shutil.copy(bad_file, folder / "bad.mp4")
    assert main(command) == 1
    said = capsys.readouterr()
    assert "3 files: 1 found, 0 indexed, 1 failed, 1 without audio; " in said.out and "bad.mp4" in said.err


def test_sources(audio_files, videos_with_audio, tmp_path):
    path = audio_files / "tone.m4a"
    expected = fsp.video.AudioFile(path, index=False).samples(1.0, 0.25).numpy()
    with open(path, "rb") as file:
        assert np.array_equal(fsp.video.AudioFile(file).samples(1.0, 0.25).numpy(), expected)
    assert np.array_equal(fsp.video.AudioFile(path.read_bytes()).samples(1.0, 0.25).numpy(), expected)
    reopened = pickle.loads(pickle.dumps(fsp.video.AudioFile(path, index=False)))
    assert np.array_equal(reopened.samples(1.0, 0.25).numpy(), expected)
    with pytest.raises(TypeError, match="only if it was opened from a path"):
        pickle.dumps(fsp.video.AudioFile(path.read_bytes()))


def test_threads_share_a_file(audio_files):
    audio = fsp.video.AudioFile(audio_files / "aac.ts", index=False)
    whole = audio.samples().numpy()
    begin, wrong = audio.info.begin_seconds, []

    def read(seed: int) -> None:
        draw = np.random.default_rng(seed)
        for first in draw.integers(0, whole.shape[1] - 4800, 20):
            window = audio.samples(begin + first / 48000, 0.1).numpy()
            if not np.array_equal(window, whole[:, first : first + 4800]):
                wrong.append(first)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sample_rate": 0}, "sample_rate must be at least 1"),
        ({"sample_rate": 10**6}, "sample_rate must be at most 768000"),
        ({"channels": 0}, "channels must be at least 1"),
        ({"seconds": 0}, "seconds must be greater than 0"),
        ({"seconds": float("nan")}, "seconds must be finite"),
        ({"align": "end"}, "align must be"),
        ({"missing": "skip"}, "missing must be"),
        ({"stream": -1}, "stream"),
    ],
)
def test_wrong_options(arguments, message):
    with pytest.raises(fsp.errors.ArgumentError, match=message):
        fsp.Audio(**arguments)


def test_wrong_arguments(audio_files):
    audio = fsp.video.AudioFile(audio_files / "tone.wav", index=False)
    for arguments, message in (
        ({"seconds": -1.0}, "seconds must be greater than 0"),
        ({"start": "1"}, "start must be a number"),
        ({"sample_rate": 0}, "sample_rate must be at least 1"),
        ({"channels": 3}, "2 channels.*no standard conversion to 3"),
        ({"seconds": 1e6}, "number of audio samples of a window"),
    ):
        with pytest.raises(fsp.errors.Error, match=message):
            audio.samples(**arguments)
    with pytest.raises(fsp.errors.ArgumentError, match="audio must be Audio"):
        loader_of([str(audio_files / "aac.mp4")], audio=16000)


def test_a_wave_file_of_one_second_is_the_second(tmp_path):
    """Written by hand, so that no encoder has a say."""
    values = (np.sin(np.arange(8000) / 7) * 20000).astype("<i2")
    header = struct.pack(
        "<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + 16000, b"WAVE", b"fmt ", 16, 1, 1, 8000, 16000, 2, 16, b"data", 16000
    )
    audio = fsp.video.AudioFile(header + values.tobytes())
    assert audio.info == fsp.video.AudioInfo(0, "pcm_s16le", 8000, 1, 0.0, 1.0)
    assert np.array_equal(audio.samples().numpy()[0], values.astype("f4") / 32768)
