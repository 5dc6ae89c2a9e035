"""What all made pages share: which distributions there are, and prose from docstrings."""

from __future__ import annotations

import inspect
import re
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
Made: TypeAlias = Callable[[], str]
ROLE = re.compile(r":(?:class|attr|meth|func|mod|data|exc):`[~!]?([^`]+)`")
CODE = re.compile(r"``([^`]+)``")
SECTION = re.compile(r"^(Args|Returns|Raises|Yields):$")
ITEM = re.compile(r"^(\*{0,2}[\w.]+): (.*)$")
KINDS = {
    "pml.exposure_mode": "exposure mode",
    "pml.executor": "executor",
    "pml.transport": "transport",
    "pml.tracer": "tracer",
    "pml.store": "store",
    "pml.plugins": "hook plugin",
}


@dataclass(frozen=True, slots=True)
class Plugin:
    """One entry point of a distribution of this repository."""

    group: str
    name: str
    target: str

    @property
    def kind(self) -> str:
        """In words."""
        return KINDS[self.group]

    def load(self) -> Any:
        """What the entry point names.

        Raises:
            SystemExit: It cannot be imported here, so nothing can be said of it.
        """
        module, _, member = self.target.partition(":")
        try:
            found = import_module(module)
        except ImportError as exc:
            raise SystemExit(f"{self.name}: {exc}; install every distribution of this repository first") from exc
        return getattr(found, member) if member else found


@dataclass(frozen=True, slots=True)
class Distribution:
    """One folder with a ``pyproject.toml``."""

    folder: Path
    project: Mapping[str, Any]

    @property
    def name(self) -> str:
        """As it is installed."""
        return str(self.project["name"])

    @property
    def about(self) -> str:
        """What it does, in a line."""
        return str(self.project["description"])

    @property
    def plugins(self) -> list[Plugin]:
        """By kind and name."""
        groups = self.project.get("entry-points", {})
        return [
            Plugin(group, name, groups[group][name])
            for group in KINDS
            if group in groups
            for name in sorted(groups[group])
        ]


@cache
def distributions() -> tuple[Distribution, ...]:
    """Those under ``plugins/``, by name."""
    found = [Distribution(path.parent, _project(path)) for path in ROOT.glob("plugins/*/pyproject.toml")]
    return tuple(sorted(found, key=lambda one: one.name))


def _project(path: Path) -> Mapping[str, Any]:
    project: Mapping[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    return project


def prose(text: str | None) -> str:
    """A docstring as Markdown: roles and literals are code, sections become paragraphs and lists."""
    lines = inspect.cleandoc(text or "").splitlines()
    return "\n".join(_sections(_inline("\n".join(lines)).splitlines())).strip()


def _inline(text: str) -> str:
    return CODE.sub(r"`\1`", ROLE.sub(lambda found: f"`{found[1].rpartition('.')[2]}`", text))


def _sections(lines: list[str]) -> Iterator[str]:
    section: list[str] = []
    title = ""
    for line in [*lines, "End:"]:
        if title and line and not line.startswith(" "):
            yield from _section(title, section)
            title, section = "", []
        if found := SECTION.match(line):
            title = found[1]
        elif title:
            section.append(line)
        elif line != "End:":
            yield line


def _section(title: str, lines: list[str]) -> Iterator[str]:
    names = {"Args": "Arguments", "Returns": "Returns", "Raises": "Raises", "Yields": "Yields"}
    body = textwrap.dedent("\n".join(lines)).strip().splitlines()
    if title in ("Returns", "Yields"):
        yield from ("", f"**{names[title]}** {' '.join(line.strip() for line in body)}", "")
        return
    items: list[str] = []
    for line in body:
        if found := ITEM.match(line):
            items.append(f"- `{found[1]}`: {found[2]}")
        elif items:
            items[-1] += f" {line.strip()}"
    yield from ("", f"**{names[title]}**", "", *items, "")


def cell(text: str) -> str:
    """For a cell of a table."""
    return _inline(" ".join(text.split())).replace("|", "\\|")
