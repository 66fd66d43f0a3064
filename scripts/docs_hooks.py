"""MkDocs hooks: links to files of the repository, marks of code blocks, generated help texts and plots.

The pages are also read in the repository. They therefore link to its files by relative paths, and their code blocks
have marks for the tests (tests/python/docs_snippets.py). These hooks convert both for MkDocs.
"""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "benches"))

import plots  # noqa: E402
from suite.benches import BENCHES  # noqa: E402
from suite.published_tables import PLOTS_MARK  # noqa: E402
from suite.record import Records  # noqa: E402

#: Folder of the site with copies of repository files.
_COPIES = "repository"
#: An inline link, or the definition of one that is referred to by name.
_LINK = re.compile(r"(\]\(|^\[[^\]\n]+\]: )((?:\.\./)+[^)#\s]+)((?:#[^)\s]*)?\)?)", re.MULTILINE)
_FENCE = re.compile(r"^( *```)(\w+) (before|shown|output|raises \w+)$", re.MULTILINE)
_TITLES = {
    "before": ' title="the other library, not run"',
    "shown": ' title="not run"',
    "output": ' title="prints"',
    "raises": ' title="raises"',
}
_SHIM = "https://unpkg.com/iframe-worker/shim"
_HELP = "<!-- help of every command -->"
_BIN = ROOT / ".venv" / "bin"


def on_files(files: Any, config: Any) -> Any:
    """Draws the plots, and copies the files outside docs/ that pages link to into the site, as text."""
    for picture in plots.pictures(Records()):
        files.append(File.generated(config, f"benchmarks/{picture.file_name}", content=plots.draw(picture)))
    docs = Path(config.docs_dir)
    for page in [file for file in files if file.is_documentation_page()]:
        text = (docs / page.src_uri).read_text()
        for _, target, _ in _LINK.findall(text):
            path = _outside(page.src_uri, target)
            if path is not None and (ROOT / path).is_file() and files.get_file_from_path(_copy(path)) is None:
                files.append(File.generated(config, _copy(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Redirects links to copied files and replaces the test marks of code blocks with titles."""

    def link(found: re.Match[str]) -> str:
        path = _outside(page.file.src_uri, found[2])
        if path is None:
            return found[0]
        if not (ROOT / path).is_file():
            raise PluginError(f"{page.file.src_uri} links to {found[2]}: {path} is not a file of the repository")
        return found[1] + posixpath.relpath(_copy(path), posixpath.dirname(page.file.src_uri) or ".") + found[3]

    def fence(found: re.Match[str]) -> str:
        return f"{found[1]}{found[2]}{_TITLES[found[3].split()[0]]}"

    markdown = _FENCE.sub(fence, _LINK.sub(link, markdown))
    if page.file.src_uri == "errors.md":
        # Anchors for the links in docstrings.
        markdown = "[](){#framespool.errors.Error}\n\n" + markdown
        markdown = re.sub(r"^## `(\w+)`$", r"[](){#framespool.errors.\1}\n\n\g<0>", markdown, flags=re.MULTILINE)
    for mark, text in ((_HELP, _help), (PLOTS_MARK, _plots)):
        if mark in markdown:
            markdown = markdown.replace(mark, text())
    return markdown


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Replaces the theme's remote script for search without a server with docs/worker.js."""
    return output.replace(_SHIM, posixpath.relpath("worker.js", posixpath.dirname(page.file.dest_uri) or "."))


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    """Does the same for 404.html, which MkDocs does not treat as a page."""
    return output_content.replace(_SHIM, "worker.js")


def _outside(page: str, target: str) -> str | None:
    """The path of a link target from the repository root; ``None`` if it is in docs/."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    return None if path.startswith("docs/") else path


def _copy(path: str) -> str:
    """The path of the copy in the site, with a suffix that browsers display; a notebook is downloaded."""
    return f"{_COPIES}/{path}" if path.endswith((".txt", ".svg", ".png", ".ipynb")) else f"{_COPIES}/{path}.txt"


def _help() -> str:
    """The output of ``framespool COMMAND --help`` for each command."""
    first = _output("framespool", "--help")
    commands = re.findall(r"^    (\w[\w-]*)(?:  |$)", first, flags=re.MULTILINE)
    if not commands:
        raise PluginError("framespool --help lists no command that could be recognized")
    parts = [f"## framespool\n\n```text\n{first}\n```"]
    parts += [f"## framespool {name}\n\n```text\n{_output('framespool', name, '--help')}\n```" for name in commands]
    return "\n\n".join(parts)


def _plots() -> str:
    """The plots of all benches, below what their marks mean."""
    legend = (
        "Lines at the bars show the middle half of the values, or the range where there are few values; some older "
        "records have only medians. Blue: framespool. Gray: a peer. Hatched: a peer with wrong output or none."
    )
    images = [f"![{BENCHES[each.bench].title}](benchmarks/{each.file_name})" for each in plots.pictures(Records())]
    return "\n\n".join([legend, *images])


def _output(program: str, *words: str) -> str:
    """The standard output of a program in .venv."""
    environment = {**os.environ, "COLUMNS": "96", "NO_COLOR": "1"}
    try:
        done = subprocess.run([_BIN / program, *words], capture_output=True, text=True, env=environment, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise PluginError(f"{program} {' '.join(words)}: {error}; run scripts/setup.sh first") from error
    return done.stdout.rstrip()
