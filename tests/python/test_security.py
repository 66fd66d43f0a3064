"""SECURITY.md is correct: its limits match the sources, and no module of the package executes file contents."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

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
