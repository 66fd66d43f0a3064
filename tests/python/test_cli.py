"""The command line: help texts, suggestions for wrong arguments, documented exit codes, shell completion."""

from __future__ import annotations

import csv
import json
import os
import pty
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from framespool.cli import _completions as completions
from framespool.cli import _exit_codes, main, parser
from servers import FaultyServer

COMMANDS = ["doctor", "probe", "validate", "preview", "bench", "index", "cache", "shots", "transcode", "completions"]


def run(capsys, *arguments):
    """Exit code, output and errors."""
    try:
        code = main([*map(str, arguments)])
    except SystemExit as ended:
        code = ended.code
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_no_arguments_lists_the_commands(capsys):
    code, out, err = run(capsys)
    assert code == 0 and not err
    places = [out.index(f"    {command}") for command in COMMANDS]
    assert places == sorted(places) and list(parser().commands()) == COMMANDS == list(_exit_codes.MEANS)
    assert _exit_codes.table() in out
    assert run(capsys, "--help") == (0, out, "")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches(command, capsys):
    code, out, _ = run(capsys, command, "--help")
    assert code == 0 and "--json" in out and _exit_codes.of(command) in out
    explained, examples = out.partition("examples:")[::2]
    assert len(explained) > 200 and max(map(len, out.splitlines())) <= 110
    shown = [line for line in examples.splitlines() if f"framespool {command} " in line or line.endswith(command)]
    assert 2 <= len(shown) <= 5
    # The examples are valid command lines.
    for line in shown:
        words = line.replace("source <(", "").split("  framespool ")[-1].strip().removeprefix("framespool ")
        words = words.split("  ")[0].split(" > ")[0].split(" | ")[0].rstrip(")").replace(" ...", "").split()
        assert parser().parse_args(words).command == command, line


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["analyze", "a.mp4"], "did you mean probe?"),
        (["previw", "a.mp4"], "did you mean preview?"),
        (["doctor", "videos/"], "for a dataset are framespool probe and framespool bench"),
        (["probe", "a.mp4", "--stridde", "3"], "did you mean --stride?"),
        (["validate", "v", "--failurres=x"], "did you mean --failures?"),
        (["transcode", "v", "--out", "o", "--codec", "h265"], "did you mean h264?"),
        (["transcode", "v", "--out", "o", "--bframes", "2"], "did you mean --b-frames?"),
        (["completions", "zhs"], "did you mean zsh?"),
        (["preview", "v", "--preset", "videomae_pretran"], "did you mean videomae_pretrain?"),
        (["index", "v", "--threads", "0"], "from 1 to 4096"),
        (["bench"], "required: DATASET"),
    ],
)
def test_wrong_arguments_exit_with_2_and_a_suggestion(words, meant, capsys):
    code, out, err = run(capsys, *words)
    assert code == _exit_codes.USAGE and not out and meant in err and "--help" in err
    assert err.startswith(f"framespool{' ' + words[0] if words[0] in COMMANDS else ''}: error: ")


def test_codes_are_those_of_the_table(short_clips, bad_file, tmp_path, capsys):
    """For each command one line that succeeds, if that is quick, and one that fails."""
    good, nowhere = short_clips[0][0], tmp_path / "nowhere.mp4"
    lines = {
        "doctor": (["--index", tmp_path / "i"], ["--index", bad_file]),
        "probe": ([good], [good, bad_file]),
        "validate": ([good], [bad_file]),
        "preview": ([good, "--out", tmp_path / "a.png"], [nowhere]),
        "bench": ([good, "--seconds", "0.2"], [nowhere]),
        "index": ([good, "--index", tmp_path / "i"], [bad_file, "--index", tmp_path / "i"]),
        "cache": ([tmp_path], None),
        "shots": ([good, "--output", tmp_path / "s"], [bad_file, "--output", tmp_path / "s"]),
        "transcode": (None, [bad_file, "--out", tmp_path / "o"]),
        "completions": (["bash"], None),
    }
    assert list(lines) == COMMANDS
    for command, (well, badly) in lines.items():
        for words, code in ((well, _exit_codes.DONE), (badly, _exit_codes.BAD)):
            if words is not None:
                got, out, err = run(capsys, command, "--json", *words)
                assert got == code, (command, words, err)
                # One JSON object per line and nothing else; no progress output.
                assert all(json.loads(line)["command"] == command for line in out.splitlines())
                assert "\r" not in err and (out or err)


def test_invalid_arguments_exit_with_2_before_any_work(short_clips, tmp_path, capsys):
    good, nowhere = short_clips[0][0], tmp_path / "no" / "where"
    for words, what in [
        (["validate", good, "--report", nowhere], "--report"),
        (["validate", good, "--report", tmp_path], "--report"),
        (["validate", tmp_path], "has no videos"),
        (["probe", good, "--output", nowhere], "--output"),
        (["cache", nowhere], "is not a folder"),
        (["cache", tmp_path, tmp_path], "one FOLDER"),
        (["cache", "prune"], "one FOLDER"),
        (["cache", tmp_path, "--all"], "need prune"),
        (["cache", "prune", tmp_path, "--all", "--older-than", "1"], "exclude each other"),
        (["cache", "prune", tmp_path, "--older-than", "some"], "number of days"),
        (["probe", good, "--output", tmp_path / "a.gif"], ".png or .html"),
        (["probe", good, "--max-files", "none"], "or all"),
        (["preview", good, "--out", nowhere], "--out"),
        (["preview", good, "--out", tmp_path / "a.jpg"], ".png or .html"),
        (["bench", good, "--plot", nowhere], "--plot"),
        (["bench", good, "--stride", "2", "--fps", "8"], "stride"),
        (["bench", good, "--device", "gpu"], "device must be"),
        (["bench", good, "--seconds", "0"], "seconds"),
        (["shots", good, "--output", nowhere], "--output"),
        (["transcode", good, "--out", tmp_path / "o", "--ffmpeg", nowhere], "--ffmpeg"),
        (["index", good, "--root", nowhere], "--root"),
        (["preview", good, "--preset", "tsn", "--preset-option", "num_segments"], "NAME=VALUE"),
    ]:
        code, out, err = run(capsys, *words)
        assert code == _exit_codes.USAGE and not out and what in err and "Traceback" not in err, (words, err)
    assert os.listdir(tmp_path) == []


def test_a_reader_that_has_seen_enough_ends_it_quietly(short_clips):
    for words in (f"probe {short_clips[0][0]} {short_clips[1][0]}", "--help", ""):
        command = f"{sys.executable} -m framespool {words} | head -n 0; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
        assert (done.stdout, done.stderr, done.returncode) == ("", "", 0), words


def words_of_bash(script, line):
    """bash's completions for the last word of a line."""
    program = (
        f"source {script}; COMP_WORDS=({line}); [[ '{line}' == *' ' ]] && COMP_WORDS+=(''); "
        "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _framespool; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(["bash", "--norc", "-c", program], capture_output=True, text=True, check=True)
    assert not done.stderr
    return done.stdout.split()


def words_of_fish(script, line):
    program = f"source {script}; complete -C {line!r}"
    done = subprocess.run(["fish", "--no-config", "-c", program], capture_output=True, text=True, check=True)
    return [each.split("\t")[0] for each in done.stdout.splitlines()]


def words_of_zsh(script, line):
    """zsh completes only in its line editor, so it gets a terminal; returns the completed line."""
    line_file = script.with_name("line")
    line_file.unlink(missing_ok=True)
    ours, theirs = pty.openpty()
    setup = (
        f"PS1='ready> '; autoload -U compinit; compinit -u -d {script.with_name('dump')}; source {script}; "
        f"tell() {{ print -r -- $BUFFER > {line_file}.half; mv {line_file}.half {line_file} }}; "
        f"zle -N tell; bindkey '^X' tell; "
        "setopt no_list_ambiguous no_always_last_prompt; unsetopt beep; echo set''tled\n"
    )
    with subprocess.Popen(["zsh", "-f", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=script.parent) as shell:
        os.close(theirs)
        try:
            os.write(ours, setup.encode())
            wait_for(ours, lambda shown: b"settled" in shown)
            os.write(ours, f"{line}\t\x18".encode())
            wait_for(ours, lambda _: line_file.exists())
        finally:
            shell.kill()
            os.close(ours)
    return line_file.read_text().split()[-1:]


def wait_for(terminal, found):
    """Reads a shell's output until a condition is true."""
    shown = b""
    while not found(shown):
        if select.select([terminal], [], [], 0.05)[0]:
            shown += os.read(terminal, 1 << 12)


def needs(shell):
    if shutil.which(shell) is None:
        assert not os.environ.get("CI"), f"{shell} is missing; scripts/setup.sh tests installs it"
        pytest.skip(f"no {shell}")


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("framespool pre", {"preview"}),
        ("framespool prob", {"probe"}),
        ("framespool probe --output cli", {"clip one.mp4"}),
        ("framespool --v", {"--version"}),
        ("framespool transcode --co", {"--codec"}),
        ("framespool transcode --codec ", {"h264", "hevc"}),
        ("framespool transcode some/folder --codec h", {"h264", "hevc"}),
        ("framespool completions ", {"bash", "fish", "zsh"}),
        ("framespool probe cli", {"clip one.mp4"}),
        ("framespool validate --report cli", {"clip one.mp4"}),
        ("framespool bench --threads ", set()),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_shells_offer_what_there_is(shell, line, offered, tmp_path, monkeypatch, capsys):
    needs(shell)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clip one.mp4").touch()
    script = tmp_path / "script"
    script.write_text(run(capsys, "completions", shell)[1])
    got = {"bash": words_of_bash, "fish": words_of_fish}[shell](script, line)
    if shell == "fish":
        assert set(got) == offered
    else:
        assert " ".join(sorted(got)) == " ".join(sorted(offered))


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("framespool trans", "transcode"),
        ("framespool transcode --cod", "--codec"),
        ("framespool transcode --codec he", "hevc"),
        ("framespool completions b", "bash"),
        ("framespool probe onl", "only.mp4"),
        ("framespool validate --report onl", "only.mp4"),
    ],
)
def test_zsh_completes_what_is_clear(line, completed, tmp_path, capsys):
    needs("zsh")
    (tmp_path / "only.mp4").touch()
    script = tmp_path / "script"
    script.write_text(run(capsys, "completions", "zsh")[1])
    assert words_of_zsh(script, line) == [completed]


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_scripts_name_every_option_of_the_parser(shell, capsys):
    script = run(capsys, "completions", shell)[1]
    said = json.loads(run(capsys, "completions", shell, "--json")[1])
    assert said["script"] == script
    known = completions.words(parser())
    assert [command.name for command in known] == ["", *COMMANDS]
    for option in (option for command in known for option in command.options):
        for name in option.names:
            assert (name if shell != "fish" else name.lstrip("-")) in script


def test_import_of_the_command_line_is_light():
    heavy = "{'numpy', 'PIL', 'torch', 'imageio_ffmpeg'} & set(sys.modules)"
    program = f"import sys, framespool.cli; assert not {heavy}, {heavy}"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    "words",
    [
        ["probe"],
        ["validate"],
        ["preview", "--out", "clips.html"],
        ["bench", "--seconds", "0.1"],
        ["index"],
        ["shots", "--output", "shots.jsonl"],
        ["transcode", "--out", "small", "--dry-run"],
    ],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize("is_list", [False, True])
def test_each_command_takes_urls(words, is_list, short_clips, encoder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FRAMESPOOL_INDEX", str(tmp_path / "index"))
    with FaultyServer(Path(short_clips[0][0]).read_bytes()).running() as server:
        url = f"http://me:hush@127.0.0.1:{server.port}/a.mkv?sig=hush#t"
        if is_list:
            (tmp_path / "list.txt").write_text(f"{url} 0\n")
            url = "list.txt"
        code, out, err = run(capsys, words[0], url, "--json", *words[1:])
    assert code == 0, err
    assert "hush" not in out + err and server.ranges
    if words[0] == "index":
        summary = json.loads(out)
        assert (summary["videos"], summary["indexed"], summary["failed"]) == (1, 1, [])


@pytest.mark.parametrize(
    "words",
    [
        ["probe"],
        ["validate"],
        ["preview", "--out", "clips.html"],
        ["bench", "--seconds", "0.1"],
        ["index"],
        ["shots", "--output", "shots.jsonl"],
        ["transcode", "--out", "small", "--dry-run"],
    ],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize("name", ["all.csv", "all.tsv", "all.jsonl"])
def test_each_command_reads_tables(words, name, short_clips, encoder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FRAMESPOOL_INDEX", str(tmp_path / "index"))
    rows = [{"id": "7", "video": str(Path(path).resolve()), "label": "run"} for path, _ in short_clips[:2]]
    rows[1] |= {"label": "walk, slowly", "start": 0, "end": 60}
    with open(name, "w") as file:
        if name.endswith(".jsonl"):
            file.writelines(f"{json.dumps(row)}\n" for row in rows)
        else:
            writer = csv.DictWriter(file, rows[1], delimiter="\t" if name.endswith(".tsv") else ",")
            writer.writeheader()
            writer.writerows(rows)
    code, out, err = run(capsys, words[0], name, "--json", *words[1:])
    assert code == 0, err
    if words[0] == "probe":
        summary = json.loads(out)
        assert (summary["num_samples"], summary["classes"]) == (2, {"run": 1, "walk, slowly": 1})
    if words[0] in ("index", "validate"):
        assert 2 in json.loads(out).values()
    Path(name).write_text("number\n1\n" if name.endswith("sv") else '{"number": 1}\n')
    code, out, err = run(capsys, words[0], name, "--json", *words[1:])
    assert code == 2 and f"{name}" in err and "'number'" in err.replace('"', "'")
