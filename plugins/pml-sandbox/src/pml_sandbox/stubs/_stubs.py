"""Stubs of tools, kept as long as the tools do not change."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TypeAlias

from pml_hookspecs import CatalogEntry
from pml_kit.offers import ToolNote

from . import _python, _typescript

MOST_KEPT = 4096
"""Tools whose text is kept."""
MOST_DESCRIPTION = 300
"""Characters of a tool's description that are told."""


Notes: TypeAlias = Callable[[CatalogEntry], ToolNote | None]
"""What calls of a tool have shown whoever reads the types; None for nothing."""


def _nothing(_entry: CatalogEntry) -> None:
    """Nothing is known but what tools say themselves."""


def _description(entry: CatalogEntry, note: ToolNote | None, *, returns: bool) -> str:
    """What the tool says, and what calls have shown; with ``returns``, what came back as well."""
    text = " ".join(entry.description[: 4 * MOST_DESCRIPTION].split())
    text = text if len(text) <= MOST_DESCRIPTION else text[: MOST_DESCRIPTION - 1] + "…"
    seen = {} if note is None else note.members()
    parts = [seen["advice"]] if "advice" in seen else []
    if "returns" in seen:
        parts.append(f"returns {seen['returns']}" if returns else "the result")
    if "arguments" in seen:
        parts.append(f"worked with {json.dumps(seen['arguments'], ensure_ascii=False, default=dict)}")
    return " | ".join(part for part in (text, f"seen, not declared: {'; '.join(parts)}" if parts else "") if part)


class _StubCache:
    """Texts by tool, the least recently used thrown out."""

    def __init__(self, *, lenient: bool = False) -> None:
        """Of types to be read, or with ``lenient`` of types to check code with: what may be right passes."""
        self._lenient = lenient
        self._texts: OrderedDict[tuple[str, str], tuple[str, list[str]]] = OrderedDict()

    def of(self, entry: CatalogEntry) -> tuple[str, list[str]]:
        """The text of one tool, and of the types that it needs."""
        key = (entry.id, entry.digest)
        if entry.digest and key in self._texts:
            self._texts.move_to_end(key)
            return self._texts[key]
        made = self._texts[key] = self._make(entry)
        if len(self._texts) > MOST_KEPT:
            self._texts.popitem(last=False)
        return made

    def _make(self, entry: CatalogEntry, note: ToolNote | None = None) -> tuple[str, list[str]]:
        raise NotImplementedError

    def _by_server(
        self, entries: Iterable[CatalogEntry], notes: Notes = _nothing
    ) -> tuple[dict[str, list[str]], list[str]]:
        servers: dict[str, list[str]] = {}
        types: list[str] = []
        for entry in sorted(entries, key=lambda e: (e.server, e.name)):
            # What calls have shown changes, and is one caller's.
            text, needed = self.of(entry) if (note := notes(entry)) is None else self._make(entry, note)
            servers.setdefault(entry.server, []).append(text)
            types += needed
        return servers, types


class TypeScriptStubs(_StubCache):
    """Declarations such as ``declare const tools: { files: { read(args: { path: string }): Promise<any>; }; };``."""

    def _make(self, entry: CatalogEntry, note: ToolNote | None = None) -> tuple[str, list[str]]:
        seen = "" if note is None else note.returns
        return _typescript.method(entry, _description(entry, note, returns=False), seen), []

    def write(self, entries: Iterable[CatalogEntry], notes: Notes = _nothing) -> str:
        """The declaration of ``tools`` with these on it, by server and name; ``any`` for none.

        What ``notes`` tell is said as a comment, and as the type of what a tool returns that declares none.
        """
        return _typescript.whole(self._by_server(entries, notes)[0], lenient=self._lenient)


class PythonStubs(_StubCache):
    """A stub of an object ``tools`` with an attribute for each server, and a method on that for each tool.

    Names are spelt as :func:`pml_sandbox.calls.identifier` does.
    """

    def _make(self, entry: CatalogEntry, note: ToolNote | None = None) -> tuple[str, list[str]]:
        types: list[str] = []
        if self._lenient:
            return _python.lenient_method(entry, types), types
        return _python.method(entry, _description(entry, note, returns=True), types), types

    def write(self, entries: Iterable[CatalogEntry], notes: Notes = _nothing) -> str:
        """The stub of ``tools`` with these on it, by server and name; ``Any`` for none.

        What ``notes`` tell is said in the tools' docstrings.
        """
        return _python.whole(*self._by_server(entries, notes), lenient=self._lenient)
