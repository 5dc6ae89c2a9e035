"""``reference/plugins.md``: every distribution, what it does, and how it is installed."""

from __future__ import annotations

import re
from collections.abc import Mapping

from made import Distribution, cell, distributions

METAPACKAGE = "pml-gateway"
INTRODUCTION = """\
# Plugin catalogue

Every part of PML is a distribution. `pip install pml-gateway` brings those whose extra is *standard*, and
`pip install 'pml-gateway[EXTRA]'` the others; each can be installed by its own name. `pml plugins list` shows what is
there, `pml plugins doctor` what is wrong with it. Uninstalling one leaves a gateway that does the rest.

A driver (exposure mode, executor, transport, tracer, store) is named in the configuration; a hook plugin takes effect
because it is installed, unless `[gateway] block` names it. Each name leads to the distribution's own page.

| distribution | plugins | what it does | extra |
|---|---|---|---|"""
LIBRARY = "library"
NAME = re.compile(r"[A-Za-z0-9._-]+")


def plugins() -> str:
    """The page."""
    brought = _extras()
    rows = [_row(one, brought.get(one.name, "none")) for one in distributions() if one.name != METAPACKAGE]
    return "\n".join([INTRODUCTION, *rows, "", *_metapackage()])


def _row(one: Distribution, extra: str) -> str:
    brings = ", ".join(f"{plugin.kind} `{plugin.name}`" for plugin in one.plugins) or LIBRARY
    return f"| [`{one.name}`](../../plugins/{one.folder.name}/README.md) | {brings} | {cell(one.about)} | {extra} |"


def _extras() -> Mapping[str, str]:
    """The extra of the metapackage that brings each distribution."""
    (meta,) = [one for one in distributions() if one.name == METAPACKAGE]
    found = {_name(line): "*standard*" for line in meta.project["dependencies"]}
    for extra, lines in meta.project["optional-dependencies"].items():
        for line in lines:
            if _name(line) != METAPACKAGE:
                found.setdefault(_name(line), f"`{extra}`")
    return found


def _name(requirement: str) -> str:
    found = NAME.match(requirement)
    return found[0] if found else ""


def _metapackage() -> list[str]:
    (meta,) = [one for one in distributions() if one.name == METAPACKAGE]
    rows = []
    for extra, lines in sorted(meta.project["optional-dependencies"].items()):
        brought = ", ".join(f"`{_name(line)}`" for line in lines if _name(line) != METAPACKAGE)
        rows.append(f"| `{METAPACKAGE}[{extra}]` | {brought or 'all'} |")
    return ["## Extras", "", "| install | brings |", "|---|---|", *rows]
