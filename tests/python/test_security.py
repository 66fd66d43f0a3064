"""SECURITY.md is correct: its limits match the sources, and no module of the package executes file contents."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from servers import FaultyResponse, FaultyServer

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "framespool"

#: Calls and modules that create code, or arbitrary objects, from bytes.
FORBIDDEN_MODULES = {
    "pickle",
    "cPickle",
    "_pickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "joblib",
    "yaml",
    "code",
}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "system", "popen", "getoutput", "mktemp", "extractall"}
#: Used between Ray's own processes, which are trusted according to SECURITY.md.
ALLOWED = {("ray/_worker.py", "pickle")}
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "s": 1, "": 1}


def imported(node: ast.AST) -> set[str]:
    """The modules that a statement imports, or a call imports by name."""
    match node:
        case ast.Import(names=names):
            return {name.name.split(".")[0] for name in names}
        case ast.ImportFrom(module=str(module), level=0):
            return {module.split(".")[0]}
        case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(module)), *_]):
            return {module.split(".")[0]}
    return set()


def called(node: ast.AST) -> str | None:
    """The last name of a call; unpickling methods of torch and numpy include their arguments."""
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re" | "platform"), attr="compile" | "system")):
            return None
        case ast.Call(func=ast.Attribute(attr="eval"), args=[]):
            return None  # a model's
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="load"), keywords=keywords):
            safe = any(k.arg == "weights_only" and getattr(k.value, "value", None) is True for k in keywords)
            return None if safe else "torch.load without weights_only=True"
        case ast.Call(func=ast.Attribute(attr=name), keywords=keywords):
            shell = any(k.arg in ("shell", "allow_pickle") and getattr(k.value, "value", None) for k in keywords)
            return f"{name} with shell or allow_pickle" if shell else name
    return None


def breaches(source: str, file: str) -> list[str]:
    """Forbidden calls and imports of a module."""
    found = []
    for node in ast.walk(ast.parse(source)):
        for module in imported(node) & FORBIDDEN_MODULES:
            if (file, module) not in ALLOWED:
                found.append(f"{file}:{node.lineno}: imports {module}")
        name = called(node)
        if name in FORBIDDEN_CALLS or (name or "").count(" "):
            found.append(f"{file}:{node.lineno}: calls {name}")
    return found


def test_no_module_runs_or_unpickles_what_it_reads():
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 80
    assert [line for f in files for line in breaches(f.read_text(), f.relative_to(PACKAGE).as_posix())] == []
    examples = sorted((ROOT / "examples").glob("*.py"))
    assert examples and [line for f in examples for line in breaches(f.read_text(), f.name)] == []


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from yaml import load",
        "import importlib; importlib.import_module('marshal')",
        "eval(text)",
        "builtins.exec(text)",
        "__import__(name)",
        "os.system(line)",
        "subprocess.run(line, shell=True)",
        "numpy.load(file, allow_pickle=True)",
        "torch.load(file)",
        "torch.load(file, weights_only=False)",
        "tarfile.open(file).extractall(folder)",
    ],
)
def test_what_may_not_be_done_is_seen(code):
    assert breaches(code, "module.py"), code


def constants(text: str) -> dict[str, str]:
    """Constants of a Rust file, and the fields of a struct's default, as they are written."""
    found = dict(re.findall(r"\bconst ([A-Z][A-Z0-9_]*): [^=]+ = ([^;]+);", text))
    for default in re.findall(r"fn default\(\) -> Self \{\s*Self \{(.*?)\}", text, flags=re.DOTALL):
        found |= dict(re.findall(r"(\w+): ([^,\n]+),", default))
    return found


def value(expression: str) -> int:
    """A number as Rust writes it."""
    expression = re.sub(r"Duration::from_secs\((\d+)\)", r"\1", expression)
    assert re.fullmatch(r"[\d_\s<*()+-]+", expression), expression
    tree = ast.parse(expression.strip(), mode="eval").body

    def of(node: ast.AST) -> int:
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.BinOp(left=left, op=ast.LShift(), right=right):
                return of(left) << of(right)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return of(left) * of(right)
        raise AssertionError(f"{expression} is beyond this reader")

    return of(tree)


def caps() -> list[tuple[str, int, str, str]]:
    """The rows of SECURITY.md's table: subject, limit, file, constant."""
    table = (ROOT / "SECURITY.md").read_text().split("<!-- caps:begin -->")[1].split("<!-- caps:end -->")[0]
    rows = []
    for line in table.strip().splitlines()[2:]:
        what, most, where = (cell.strip() for cell in line.strip("|").split(" | "))
        number, unit = re.match(r"([\d,]+) ?(KiB|MiB|GiB|s\b|)", most).groups()
        file, name = re.fullmatch(r"`([^`]+)` `([^`]+)`", where).groups()
        rows.append((what, int(number.replace(",", "")) * UNITS[unit], file, name))
    return rows


@pytest.mark.parametrize(("what", "most", "file", "name"), caps(), ids=lambda part: str(part).replace(" ", "-"))
def test_caps_are_those_of_the_sources(what, most, file, name):
    written = constants((ROOT / file).read_text())
    assert name in written, f"{file} no longer has {name}; update SECURITY.md"
    assert value(written[name]) == most, f"{what}: {file} has {written[name]} for {name}"


def test_no_cap_on_a_file_is_left_out():
    """Every field of the limits is in the table."""
    listed = {name for _, _, file, name in caps() if file == "src/limits.rs"}
    assert listed == set(constants((ROOT / "src" / "limits.rs").read_text()))


SECRETS = {
    "URL password": "hushpass",
    "URL signature": "hushsign",
    "AWS_SECRET_ACCESS_KEY": "hushaws",
    "AWS_SESSION_TOKEN": "hushsession",
    "HF_TOKEN": "hf_hush",
}

_SECRETS_PROGRAM = """
import json, logging, pathlib, sys, traceback
logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)
import framespool as fsp

folder, good, bad, on_error = sys.argv[1:]
folder = pathlib.Path(folder)
rule = fsp.samplers.RandomClips(sequence_length=2)
segment = fsp.datasets.VideoSegment(bad, start_frame=0)
member = fsp.datasets.ArchiveMember(bad, 512, 1000)
cell = fsp.datasets.TableCell(bad, "video", 0)
dataset = fsp.datasets.Dataset([(good, 0), (bad, 1), (segment, 2), (member, 3), (cell, 4)])
(folder / "in").mkdir()
(folder / "in" / "list.txt").write_text(f"{good} 0\\n{bad} 1\\n")
listed = fsp.datasets.annotation_file(folder / "in" / "list.txt").samples
(folder / "in" / "list.txt").unlink()
print(dataset, dataset._repr_html_(), segment, member, cell, repr(listed))
for wrong in (good, [(good, object())], [(good, 0, 0)]):
    try:
        fsp.ClipLoader(wrong, rule, batch_size=1)
    except fsp.errors.ArgumentError:
        traceback.print_exc()
loader = fsp.ClipLoader(dataset, rule, batch_size=2, on_error=on_error, index=folder / "index")
print(repr(loader))
try:
    for batch in loader:
        print(repr(batch), batch.video_ids.tolist())
except fsp.Error:
    traceback.print_exc()
print(loader.failures(), loader.stats(), loader.describe_clip(0))
(folder / "state.json").write_text(json.dumps(loader.state_dict()))
for source in (good, bad, "s3://bucket/key.mp4", "hf://datasets/owner/name/a.mp4"):
    try:
        video = fsp.Video(source, index=folder / "index")
        print(repr(video), video.info, video._repr_html_())
    except fsp.Error:
        traceback.print_exc()
try:
    loader.write_failures(folder / "failures.jsonl")
    print("rest", len(dataset.exclude(folder / "failures.jsonl")), len(dataset.exclude(loader.failures())))
    report = fsp.tools.validate(dataset, report=folder / "report", index=folder / "index")
    print(report, report.failures, report.write_failures(folder / "validated.jsonl"))
    print(len(dataset.exclude(folder / "validated.jsonl")))
    print(fsp.tools.probe(dataset), fsp.tools.probe(dataset).as_dict())
    fsp.tools.preview(loader, folder / "preview.html")
except fsp.Error:
    traceback.print_exc()
fsp._framespool.flush_index()
"""


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_secrets_are_in_no_output(short_clips, tmp_path, on_error):
    """Nothing printed, logged or written has a secret; pickles of a dataset have the URLs, which workers need."""
    content = Path(short_clips[0][0]).read_bytes()
    refused = FaultyServer(content, lambda number, asked: FaultyResponse(status=403))
    with FaultyServer(content).running() as server, refused.running() as refusing:
        good, bad = (
            f"http://me:{SECRETS['URL password']}@127.0.0.1:{each.port}/a.mkv?sig={SECRETS['URL signature']}"
            for each in (server, refusing)
        )
        environment = {name: secret for name, secret in SECRETS.items() if name.isupper()}
        environment |= {"AWS_ACCESS_KEY_ID": "key", "AWS_ENDPOINT_URL": refusing.url(""), "AWS_ALLOW_HTTP": "true"}
        environment |= {"HF_ENDPOINT": refusing.url("").rstrip("/"), "FRAMESPOOL_INDEX": str(tmp_path / "index")}
        done = subprocess.run(
            [sys.executable, "-c", _SECRETS_PROGRAM, tmp_path, good, bad, on_error],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    written = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    names = {path.name for path in written}
    assert {"framespool-index.sqlite3", "failures.jsonl", "report", "state.json"} <= names
    outputs = {"stdout": done.stdout.encode(), "stderr": done.stderr.encode(), **written}
    for name, secret in SECRETS.items():
        for place, text in outputs.items():
            at = text.find(secret.encode())
            assert at < 0, f"{name} in {place}: {text[max(0, at - 300) : at + 100]!r}"
    if on_error == "skip":
        assert "rest 1 1" in done.stdout and "framespool.loader" in done.stdout and "/a.mkv?…" in done.stdout
