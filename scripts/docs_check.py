#!/usr/bin/env python3
"""Checks the built site: every link resolves, and nothing is loaded from other hosts.

    scripts/docs_check.py target/site

Links within the site must lead to an existing file and anchor. Of links to other sites only the form is checked.
Scripts, styles, fonts and images must be part of the site, so that it works without a network.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Attributes that make a browser load a resource.
_FETCHED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src"), ("video", "src")}
#: Link relations of the theme that state a page's address and load nothing.
_RELATIONS = {"canonical", "next", "prev"}


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        for name in ("src", "href"):
            if (tag, name) in _FETCHED and name in given and given.get("rel") not in _RELATIONS:
                self.fetched.append(given[name])


def find_errors(site: Path) -> list[str]:
    """Problems found in a site."""
    pages: dict[Path, _Page] = {}
    for file in sorted(site.rglob("*.html")):
        pages[file] = page = _Page()
        page.feed(file.read_text(encoding="utf-8"))
    found = []
    for file in pages:
        for target in re.findall(r"\]\[(framespool[\w.]*)\]", file.read_text(encoding="utf-8")):
            found.append(f"{file.relative_to(site)}: {target} is not documented")
    for file, page in pages.items():
        name = file.relative_to(site)
        for target in page.fetched:
            if urlsplit(target).netloc:
                found.append(f"{name}: fetches {target}")
            elif not target.startswith("data:") and not _resolve(file, target, site).exists():
                found.append(f"{name}: lacks {target}")
        for target in page.links:
            wrong = _link_error(file, target, site, pages)
            if wrong and name.name != "404.html":
                found.append(f"{name}: link to {target}: {wrong}")
    for file in sorted(site.rglob("*.css")):
        for target in re.findall(r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]+)", file.read_text(encoding="utf-8")):
            found.append(f"{file.relative_to(site)}: fetches {target}")
    return found if pages else [f"{site}: no pages"]


def _resolve(page: Path, target: str, site: Path) -> Path:
    path = unquote(urlsplit(target).path)
    base = site if path.startswith("/") else page.parent
    return (base / path.lstrip("/")).resolve()


def _link_error(page: Path, target: str, site: Path, pages: dict[Path, _Page]) -> str | None:
    try:
        parts = urlsplit(target)
    except ValueError as error:
        return str(error)
    if parts.scheme in ("http", "https"):
        return None if re.fullmatch(r"[\w.-]+\.[a-z]{2,}(:\d+)?", parts.netloc) else "not a host name"
    if parts.scheme or parts.netloc:
        return None if parts.scheme == "mailto" else f"a link by {parts.scheme or '//'}"
    there = _resolve(page, target, site) if parts.path else page
    if there.is_dir():
        there = there / "index.html"
    if not there.exists() or site not in there.parents:
        return "file not found in the site"
    if parts.fragment and there in pages and not parts.fragment.startswith("__"):
        return None if unquote(parts.fragment) in pages[there].anchors else "anchor not found in that page"
    return None


def main() -> int:
    """Returns the exit code."""
    site = Path(sys.argv[1]).resolve()
    found = find_errors(site)
    print("\n".join(found), file=sys.stderr)
    print(f"{len(list(site.rglob('*.html')))} pages, {len(found)} errors")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
