"""Docstrings as Markdown, for the reference pages: an extension of griffe.

The docstrings are written to be read in an editor: roles such as ``:class:`Video```, arguments told within sentences
(```` ``stride``: frames from one to the next. ````), code behind ``::``. Here roles become links, what is told of
arguments becomes a list, and code a block. A role that leads nowhere ends a strict build.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data):`(~?)([^`<]*?)(?: <([\w.]+)>)?`", re.DOTALL)
_LITERAL = re.compile(r"^( *)(.*?):?:\n\n((?:\1 {4,}.*\n|\n)+)", re.MULTILINE)
_NAMES = r"``\w+``(?:,? (?:and |of |or )?``\w+``|, ``\w+``)*"
#: A sentence that begins with names and a colon.
_SECTION_TITLES = re.compile(rf"(?:^|(?<=[.;!?)\]] ))({_NAMES})(?=: | \(|$)", re.MULTILINE)

#: The modules whose names are public, the longest first.
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


class Words(griffe.Extension):
    """Goes over the docstrings when the package has been read."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Called once for each package that is loaded."""
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
        """A docstring, as Markdown."""
        text = _LITERAL.sub(_code, text + "\n").rstrip()
        paragraphs = re.split(r"\n\n(?!    )", text)
        names = _arguments(item)
        told = [_listed(p, names) if not p.startswith((" ", "-", "*", "```")) else p for p in paragraphs]
        return _ROLE.sub(lambda found: self._link(found, item), "\n\n".join(told))

    def _link(self, found: re.Match[str], item: griffe.Object) -> str:
        name = found[3] or found[2]
        shown = name.rpartition(".")[2] if found[1] else found[2].removeprefix("framespool.")
        for path in _candidates(name, item):
            if path in self.public:
                return f"[`{shown}`][{self.public[path]}]"
        if item.path in self.public:
            raise griffe.GriffeError(f"{item.path}: '{found[0]}' leads to nothing public")
        return f"`{shown}`"


def _public(package: griffe.Module) -> dict[str, str]:
    """Everything public, by each of its paths: the path under which the reference has it."""
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
            # An error is told of once, where all of them are.
            is_error = target.path == f"framespool.errors.{name}" or name == "WorkerError"
            home = f"framespool.errors.{name}" if is_error else here
            found[here] = home
            found.setdefault(target.path, home)
            if target.is_class:
                for member, what in target.all_members.items():
                    if not member.startswith("_"):
                        # What is told of in the words of its class has no entry of its own.
                        there = f"{home}.{member}" if what.has_docstring else home
                        found[f"{here}.{member}"] = there
                        found.setdefault(f"{target.path}.{member}", there)
    return found


def _candidates(name: str, item: griffe.Object) -> list[str]:
    """What a role's name may stand for, the nearest first."""
    around, holder = [], item
    while holder is not None:
        around.append(f"{holder.path}.{name}")
        around.append(f"{holder.path.rpartition('.')[0]}.{name}")
        holder = holder.parent
    # A loader's methods are written in the class that all loaders share.
    more = [f"{module}.{name}" for module in MODULES]
    return [*around, name, *more, f"framespool.ClipLoader.{name}"]


def _arguments(item: griffe.Object) -> set[str]:
    """Names that a docstring may tell of one by one."""
    if item.is_function:
        return {parameter.name for parameter in item.parameters}
    if item.is_class:
        names = {name for name, member in item.all_members.items() if member.is_attribute}
        begin = item.all_members.get("__init__")
        if begin is not None and begin.is_function:
            names |= {parameter.name for parameter in begin.parameters}
        return names
    return set()


def _listed(paragraph: str, names: set[str]) -> str:
    """A paragraph whose sentences that begin with an argument's name are the entries of a list."""
    flat = " ".join(paragraph.split("\n")) if names else paragraph
    begins = []
    for found in _SECTION_TITLES.finditer(flat):
        mentioned = re.findall(r"``(\w+)``", found[1])
        if names.issuperset(mentioned):
            begins.append(found.start())
    if not begins:
        return paragraph
    lead = flat[: begins[0]].strip()
    entries = [flat[a:b].strip() for a, b in zip(begins, [*begins[1:], len(flat)], strict=True)]
    entries = [f"- {entry[:-1] if entry.endswith(';') else entry}" for entry in entries]
    return "\n\n".join([*([lead] if lead else []), "\n".join(entries)])


def _code(found: re.Match[str]) -> str:
    """What stands behind ``::``, as a block of Python."""
    lines = found[3].rstrip("\n").split("\n")
    deep = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    lead = f"{found[1]}{found[2]}:\n\n" if found[2] else ""
    return lead + "```python\n" + "\n".join(line[deep:] for line in lines) + "\n```\n\n"
