"""What MkDocs is told besides mkdocs.yml: files of the repository that pages link to, marks of snippets, help texts.

Pages are read on their own too, where the repository is shown, so they link to its files by ordinary relative paths,
and their fences carry marks for the tests (tests/python/docs_snippets.py). Both are made into what MkDocs understands here.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import subprocess
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
#: Where copies of the repository's files are, in the site.
_COPIES = "repository"
_LINK = re.compile(r"(\]\()((?:\.\./)+[^)#\s]+)((?:#[^)\s]*)?\))")
_FENCE = re.compile(r"^( *```)(\w+) (before|output|raises \w+)$", re.MULTILINE)
_TITLES = {"before": ' title="the other library, not run"', "output": ' title="prints"', "raises": ' title="raises"'}
_SHIM = "https://unpkg.com/iframe-worker/shim"
_HELP = "<!-- help of every command -->"
_PRESETS = "<!-- every preset -->"
_BIN = ROOT / ".venv" / "bin"


def on_files(files: Any, config: Any) -> Any:
    """Copies what pages link to outside docs/ into the site, as text that a browser shows."""
    docs = Path(config.docs_dir)
    for page in [file for file in files if file.is_documentation_page()]:
        text = (docs / page.src_uri).read_text()
        for _, target, _ in _LINK.findall(text):
            place = _outside(page.src_uri, target)
            if place is not None and (ROOT / place).is_file() and files.get_file_from_path(_copy(place)) is None:
                files.append(File.generated(config, _copy(place), abs_src_path=str(ROOT / place)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links to the repository's files lead to their copies; fences lose the marks of the tests."""

    def link(found: re.Match[str]) -> str:
        place = _outside(page.file.src_uri, found[2])
        if place is None:
            return found[0]
        if not (ROOT / place).is_file():
            raise PluginError(f"{page.file.src_uri} links to {found[2]}: {place} is no file of the repository")
        return found[1] + posixpath.relpath(_copy(place), posixpath.dirname(page.file.src_uri) or ".") + found[3]

    def fence(found: re.Match[str]) -> str:
        return f"{found[1]}{found[2]}{_TITLES[found[3].split()[0]]}"

    markdown = _FENCE.sub(fence, _LINK.sub(link, markdown))
    if page.file.src_uri == "errors.md":
        # Where docstrings that name an error lead to.
        markdown = "[](){#framespool.errors.Error}\n\n" + markdown
        markdown = re.sub(r"^## `(\w+)`$", r"[](){#framespool.errors.\1}\n\n\g<0>", markdown, flags=re.MULTILINE)
    for mark, text in ((_HELP, _help), (_PRESETS, _presets)):
        if mark in markdown:
            markdown = markdown.replace(mark, text())
    return markdown


def on_post_page(output: str, page: Any, config: Any) -> str:
    """What the theme would fetch for searching without a server is docs/worker.js instead."""
    return output.replace(_SHIM, posixpath.relpath("worker.js", posixpath.dirname(page.file.dest_uri) or "."))


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    """The page of what is not found is no page to MkDocs."""
    return output_content.replace(_SHIM, "worker.js")


def _outside(page: str, target: str) -> str | None:
    """The path from the repository's root of what a page links to, if it is not in docs/."""
    place = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    return None if place.startswith("docs/") else place


def _copy(place: str) -> str:
    """Where the copy of a file is; the ending is one that browsers show."""
    return f"{_COPIES}/{place}" if place.endswith((".txt", ".svg", ".png")) else f"{_COPIES}/{place}.txt"


def _help() -> str:
    """``framespool COMMAND --help`` for each command there is."""
    first = _said("framespool", "--help")
    commands = re.findall(r"^    (\w[\w-]*)(?:  |$)", first, flags=re.MULTILINE)
    if not commands:
        raise PluginError("framespool --help lists no command that could be recognised")
    parts = [f"## framespool\n\n```text\n{first}\n```"]
    parts += [f"## framespool {name}\n\n```text\n{_said('framespool', name, '--help')}\n```" for name in commands]
    return "\n\n".join(parts)


def _presets() -> str:
    """What each preset says of itself, and its options."""
    told = json.loads(
        _said("python", "-c", "import framespool, json; print(json.dumps(framespool.samplers.presets()))")
    )
    return "\n\n".join(f"### `{name}`\n\n{text}" for name, text in sorted(told.items()))


def _said(program: str, *words: str) -> str:
    """What a program of .venv prints."""
    environment = {**os.environ, "COLUMNS": "96", "NO_COLOR": "1"}
    try:
        done = subprocess.run([_BIN / program, *words], capture_output=True, text=True, env=environment, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise PluginError(f"{program} {' '.join(words)}: {error}; run scripts/setup.sh first") from error
    return done.stdout.rstrip()
