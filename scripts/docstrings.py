"""Converts the docstrings of the package to Markdown for the reference pages; an extension of griffe.

Docstrings are Google style, with roles such as ``:class:`Video``` and code blocks after ``::``. Roles become links and
literal blocks become Python blocks. A role of a public object that resolves to nothing public fails the build.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data):`(~?)([^`<]*?)(?: <([\w.]+)>)?`", re.DOTALL)
_LITERAL = re.compile(r"^( *)(.*?):?:\n\n((?:\1 {4,}.*\n|\n)+)", re.MULTILINE)
#: griffe recognizes the plural only.
_EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)

#: Modules with public names, the longest first.
MODULES = (
    "framespool.compat.torchcodec.decoders",
    "framespool.compat.torchcodec.samplers",
    "framespool.compat.torchcodec.transforms",
    "framespool.compat.torchcodec",
    "framespool.compat.decord.bridge",
    "framespool.compat.lerobot",
    "framespool.compat.decord.ndarray",
    "framespool.compat.decord",
    "framespool.samplers",
    "framespool.transforms",
    "framespool.datasets",
    "framespool.torch",
    "framespool.ray",
    "framespool.gpu",
    "framespool.errors",
    "framespool",
)


class MarkdownDocstrings(griffe.Extension):
    """Converts all docstrings after griffe has read the package."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Converts the docstrings of framespool. griffe calls this for each loaded package."""
        if pkg.name == "framespool":
            self.public = _public(pkg)
            self._walk(pkg, set())

    def _walk(self, item: griffe.Object, seen: set[str]) -> None:
        if item.path in seen:
            return
        seen.add(item.path)
        if item.docstring is not None:
            item.docstring.value = self.markdown(item.docstring.value, item)
        for member in item.members.values():
            if not member.is_alias:
                self._walk(member, seen)

    def markdown(self, text: str, item: griffe.Object) -> str:
        """Converts a docstring to Markdown; sections remain Google style."""
        text = _EXAMPLE.sub("Examples:", _LITERAL.sub(_code, text + "\n").rstrip())
        return _ROLE.sub(lambda found: self._link(found, item), text)

    def _link(self, found: re.Match[str], item: griffe.Object) -> str:
        name = found[3] or found[2]
        shown = name.rpartition(".")[2] if found[1] else found[2].removeprefix("framespool.")
        for path in _candidates(name, item):
            if path in self.public:
                return f"[`{shown}`][{self.public[path]}]"
        if item.path in self.public:
            raise griffe.GriffeError(f"{item.path}: '{found[0]}' resolves to nothing public; correct the role")
        return f"`{shown}`"


def _public(package: griffe.Module) -> dict[str, str]:
    """Maps every path of each public object to its path in the reference."""
    found: dict[str, str] = {}
    for path in MODULES:
        try:
            module = package if path == "framespool" else package[path.removeprefix("framespool.")]
        except KeyError:
            continue
        found[path] = path
        names = module.exports or [name for name in module.members if not name.startswith("_")]
        if path == "framespool.torch":
            names = [*names, "ClipDataModule", "ImageDataModule"]
        for name in names:
            name = str(name)
            here = f"{path}.{name}"
            found.setdefault(here, here)
            item = module.members.get(name)
            try:
                target = item.final_target if item is not None and item.is_alias else item
            except griffe.AliasResolutionError:
                continue
            if target is None:
                continue
            # Errors are documented on one page.
            is_error = target.path == f"framespool.errors.{name}" or name == "WorkerError"
            home = f"framespool.errors.{name}" if is_error else here
            found[here] = home
            found.setdefault(target.path, home)
            if target.is_class:
                for member, what in target.all_members.items():
                    if not member.startswith("_"):
                        # A member without a docstring has no entry; link to its class.
                        there = f"{home}.{member}" if what.has_docstring else home
                        found[f"{here}.{member}"] = there
                        found.setdefault(f"{target.path}.{member}", there)
    return found


def _candidates(name: str, item: griffe.Object) -> list[str]:
    """Paths that a name in a role can refer to, the nearest scope first."""
    around, holder = [], item
    while holder is not None:
        around.append(f"{holder.path}.{name}")
        around.append(f"{holder.path.rpartition('.')[0]}.{name}")
        holder = holder.parent
    # Methods shared by all loaders are documented at ClipLoader.
    more = [f"{module}.{name}" for module in MODULES]
    return [*around, name, *more, f"framespool.ClipLoader.{name}"]


def _code(found: re.Match[str]) -> str:
    """Formats the block after ``::`` as a fenced Python block."""
    lines = found[3].rstrip("\n").split("\n")
    deep = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    lead = f"{found[1]}{found[2]}:\n\n" if found[2] else ""
    return lead + "```python\n" + "\n".join(line[deep:] for line in lines) + "\n```\n\n"
