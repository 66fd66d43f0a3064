"""scripts/prose_check.py: each of its checks finds a violation and accepts the corrected text."""

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location(
    "prose_check", Path(__file__).resolve().parents[2] / "scripts" / "prose_check.py"
)
prose_check = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(prose_check)

GOOD = """def cut(path, length):
    \"\"\"Cuts a file.

    Args:
        path: File to cut.
        length: Number of bytes to keep.

    Returns:
        The bytes that were removed.
    \"\"\"
"""


@pytest.mark.parametrize(
    ("name", "text", "finding"),
    [
        ("a.rs", "// The caller reports a failure.", None),
        ("a.rs", "// It is " + "to" + "ld of " + "no" + "body.", "no caller"),
        ("a.rs", "struct Work" + "De" + "skState;", "scheduler"),
        ("a.sh", 'echo "\\n' + "ver" + 'dict: done"', "result"),
        ("Makefile", "# Tables are be" + "side the records.", "next to"),
        ("a.rs", "//! I" + "n: a file.", "a plain sentence"),
        ("a.rs", "// In fact, it is truncated.", None),
        ("a.md", "| " + "wide " * 40, None),
        ("a.md", "wide " * 40, "wrap at 120"),
        ("a.md", "```\n" + "wide " * 40 + "\n```", None),
        ("python/a.py", GOOD.replace("path, length)", "path, length) -> bytes"), None),
        ("python/a.py", GOOD.replace("        length: Number of bytes to keep.\n", ""), "lacks length"),
        ("python/a.py", 'def cut(path):\n    """Cuts a file."""\n', "no section 'Args:'"),
        ("python/a.py", 'def cut() -> int:\n    """Cuts a file."""\n', "no section 'Returns:'"),
        ("python/a.py", "def cut() -> None:\n    pass\n", "no docstring"),
        (
            "python/a.py",
            'def cut() -> None:\n    """Cuts a file."""\n    raise ValueError("x")\n',
            "'Raises:' for ValueError",
        ),
        ("python/a.py", 'def cut() -> None:\n    """Cuts a file."""\n    raise NotImplementedError\n', None),
        ("python/a.py", '"""Cuts.\n\n' + "word\n" * 6 + '"""\n', "a paragraph of 6 lines"),
    ],
)
def test_violations_are_found(tmp_path, monkeypatch, name, text, finding):
    monkeypatch.setattr(prose_check, "ROOT", tmp_path)
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    found = list(prose_check.check(file))
    assert (finding is None and not found) or any(finding in line for line in found), found


@pytest.mark.parametrize("suffix", ["py", "pyi"])
def test_exported_names_have_an_example(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(prose_check, "ROOT", tmp_path)
    prose_check.exported.cache_clear()
    package = tmp_path / "python" / "framespool"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('from framespool._cut import cut\n__all__ = ["cut"]\n')
    module = package / f"_cut.{suffix}"
    found = []
    for text in ('    """Cuts a file."""\n', '    """Cuts a file.\n\n    Example:\n        >>> cut()\n    """\n'):
        module.write_text(f'def cut() -> None:\n{text}def inner() -> None:\n    """Is not public."""\n')
        found.append([line.partition(": ")[2] for line in prose_check.check(module)])
    prose_check.exported.cache_clear()
    assert found == [["cut: no section 'Example:'"], []]


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("Read AVI packets directly", None),
        ("Read AVI packets directly\n\nThe demuxer copied each packet.\n", None),
        ("R" * 72, None),
        ("R" * 73, "73 characters"),
        ("video_metadata() of a segment counts within it", None),
        ("env.sh: build scripts use the default linker", None),
        ("GPU: a status is read again", None),
        ("fix: read AVI packets directly", "'fix:'"),
        ("feat(avi)!: read packets directly", "'feat(avi)!:'"),
        ("read AVI packets directly", "'read'"),
        ("Read AVI packets directly.", "period"),
        ("Read AVI packets directly\nThe demuxer copied each packet.\n", "second line"),
        ("", "empty"),
        ("Merge branch 'avi' of " + "x" * 72, None),
        ('Revert "' + "x" * 72 + '"', None),
        ("fixup! Read AVI packets directly", None),
    ],
)
def test_commit_messages(text, finding):
    found = list(prose_check.message("commit", text))
    assert (finding is None and not found) or any(finding in line for line in found), found


def test_hook_ignores_what_git_removes(tmp_path):
    file = tmp_path / "COMMIT_EDITMSG"
    scissors = "# ------------------------ >8 ------------------------\n# Do not modify this.\ndiff --git a/a b/a\n"
    file.write_text(f"\nRead AVI packets directly\n# Please enter the message.\n{scissors}")
    assert list(prose_check.messages(["--message", str(file)])) == []
    file.write_text(f"# Please enter the message.\nread AVI packets directly\n{scissors}")
    assert len(list(prose_check.messages(["--message", str(file)]))) == 1


def test_commits_of_a_range_without_merges(tmp_path, monkeypatch):
    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    # The user may sign commits, or have hooks.
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")

    git("init", "--initial-branch=main")
    for text in ("before the range.", "Good", "bad"):
        git("commit", "--allow-empty", "--message", text)
    git("checkout", "-b", "side", "HEAD~1")
    git("commit", "--allow-empty", "--message", "Good\n\n# Not a comment\n")
    git("merge", "--no-ff", "--message", "merged by hand", "main")
    monkeypatch.setattr(prose_check, "ROOT", tmp_path)
    assert [line.partition(": ")[2][:5] for line in prose_check.messages(["--commits", "main~2..HEAD"])] == ["'bad'"]
