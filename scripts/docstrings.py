"""Links names in docstrings on the reference pages; an extension of griffe.

Docstrings are Google style with Markdown. A name in backquotes that is public becomes a link to its entry: a class
(`Video`), a call (`state_dict()`) or a dotted name (`datasets.folder`).
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_NAME = re.compile(r"(?<![`\[])`([A-Za-z_][\w.]*)(\(\))?`(?!`)")
#: griffe recognizes the plural only.
_EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)
#: A list directly after a line of text; Markdown needs an empty line between them.
_LIST = re.compile(r"^( *)(?!- )(\S.*)\n(?= *- )", re.MULTILINE)
#: Pages are named by their paths, as in the repository.
_PAGE = re.compile(r"\bdocs/([\w/-]+)\.md\b")
#: Sphinx roles are shown as plain names.
_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data):`~?(?:framespool\.)?([^`]*)`")

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
    "framespool.samplers.presets",
    "framespool.samplers",
    "framespool.transforms",
    "framespool.datasets",
    "framespool.torch",
    "framespool.ray",
    "framespool.gpu",
    "framespool.errors",
    "framespool.order",
    "framespool.tools",
    "framespool.video",
    "framespool",
)


class LinkedDocstrings(griffe.Extension):
    """Adds links to all docstrings after griffe has read the package."""

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
        """Adds the links to a docstring; code blocks and sections remain as they are."""
        lines = _ROLE.sub(r"`\1`", _EXAMPLE.sub("Examples:", text)).split("\n")
        lines = _PAGE.sub(r"[docs/\1.md](../\1.html)", _LIST.sub(r"\g<0>\n", "\n".join(lines))).split("\n")
        code = re.compile(r"^ *(?:>>>|\.\.\.) ")
        return "\n".join(line if code.match(line) else _NAME.sub(lambda m: self._link(m, item), line) for line in lines)

    def _link(self, found: re.Match[str], item: griffe.Object) -> str:
        name, call = found[1], found[2] or ""
        # A plain lower-case word is a parameter or a value.
        if call or "." in name or name[0].isupper():
            for path in _candidates(name, item):
                if path in self.public and self.public[path] != item.path:
                    return f"[`{name}{call}`][{self.public[path]}]"
        return found[0]


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
        if path == "framespool.video":
            # The others have their entries as names of the root.
            names = [name for name in names if str(name) not in map(str, package.exports or ())]
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
    """Paths that a name can refer to, the nearest scope first."""
    around, holder = [], item
    while holder is not None:
        around.append(f"{holder.path}.{name}")
        around.append(f"{holder.path.rpartition('.')[0]}.{name}")
        holder = holder.parent
    # Methods shared by all loaders are documented at ClipLoader.
    more = [f"{module}.{name}" for module in MODULES]
    return [*around, name, *more, f"framespool.ClipLoader.{name}"]
