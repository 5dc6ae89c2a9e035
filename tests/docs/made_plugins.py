"""``reference/plugins.md``: every distribution by kind, what it does, and how it is installed."""

from __future__ import annotations

import re
from collections.abc import Mapping

from made import KINDS, Distribution, cell, distributions

METAPACKAGE = "pml-gateway"
INTRODUCTION = """\
# Plugins

Every part of PML is a distribution of its own. `pip install pml-gateway` brings those that come *with PML*; each of the
others is one command more, and can be installed by its own name as well (`pip install pml-access`, or
`uv tool install pml-gateway --with pml-access`). `pml plugins list` shows what is there, `pml plugins doctor` what is
wrong with it. Uninstalling one leaves a gateway that does the rest. Each name leads to the distribution's own page.

A driver (exposure mode, executor, transport, tracer, store) is named in the configuration; a hook plugin takes effect
because it is installed, unless `[gateway] block` names it."""
ABOUT = {
    "exposure mode": "Which tools clients are shown; named by `[gateway] tools_exposure`.",
    "executor": "What runs tasks of one kind; chosen by `[gateway.executors]`.",
    "transport": "How servers and clients are reached; chosen by the server's table, or by `pml serve`.",
    "tracer": "Who is told what runs; named by `[gateway] tracers`.",
    "store": "Where the history is kept; named by `[gateway] store`.",
    "hook plugin": "Everything else: tools, commands, pages, guards around calls. In effect when installed.",
}
COLUMNS = ("| distribution | plugin | what it does | install |", "|---|---|---|---|")
YOURS = """\
## Yours

`pml plugin new` writes a package that has its tests ([your first plugins](../plugins/first-plugin.md),
[publishing](../plugins/publishing.md)). Nobody is asked for leave: `pml plugins list` names whatever has an entry
point. To have one of yours on this page, add a line to the table below, in `tests/docs/made_plugins.py`, with a link to
a repository whose tests run `pytest --pml-contract`.

| distribution | kind | what it does |
|---|---|---|
| [`examples/`](../../examples/README.md) | each kind | six to copy, each under eighty lines |
"""
NAME = re.compile(r"[A-Za-z0-9._-]+")


def plugins() -> str:
    """The page."""
    brought = _extras()
    every = [one for one in distributions() if one.name != METAPACKAGE]
    lines = [INTRODUCTION]
    for kind in KINDS.values():
        found = [one for one in every if any(plugin.kind == kind for plugin in one.plugins)]
        lines += [
            "",
            f"## {kind.capitalize()}s",
            "",
            ABOUT[kind],
            "",
            "| distribution | plugin | what it does | install |",
        ]
        lines += ["|---|---|---|---|", *(_row(one, kind, brought) for one in found)]
    lines += ["", "## Libraries", "", "What plugins share; they come with those that need them.", ""]
    lines += ["| distribution | what it holds |", "|---|---|"]
    lines += [f"| {_link(one)} | {cell(one.about)} |" for one in every if not one.plugins]
    return "\n".join([*lines, "", *_metapackage(), "", YOURS])


def _row(one: Distribution, kind: str, brought: Mapping[str, str]) -> str:
    names = ", ".join(f"`{plugin.name}`" for plugin in one.plugins if plugin.kind == kind)
    return f"| {_link(one)} | {names} | {cell(one.about)} | {brought.get(one.name, f'`pip install {one.name}`')} |"


def _link(one: Distribution) -> str:
    return f"[`{one.name}`](../../plugins/{one.folder.name}/README.md)"


def _extras() -> Mapping[str, str]:
    """How each distribution is installed that the metapackage or one of its extras brings."""
    (meta,) = [one for one in distributions() if one.name == METAPACKAGE]
    found = {_name(line): "*with PML*" for line in meta.project["dependencies"]}
    for extra, lines in meta.project["optional-dependencies"].items():
        for line in lines:
            if _name(line) != METAPACKAGE:
                found.setdefault(_name(line), f"`pip install '{METAPACKAGE}[{extra}]'`")
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
