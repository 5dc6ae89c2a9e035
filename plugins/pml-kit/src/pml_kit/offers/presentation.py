"""What clients are shown of servers' tools in place of what the servers say, and what that is searched for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pml_hookspecs import CatalogEntry, Key, ToolId

if TYPE_CHECKING:
    from pml_kit.text.phrases import Phrase

_SERVED, _HIDDEN, _FIXED = "pml_kit.served", "pml_kit.hidden", "pml_kit.fixed"
"""Where the entry of a presented tool keeps the one that it was made of, that no list has it, and what is fixed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentedTool:
    """One tool as it is shown."""

    definition: Mapping[str, Any]
    """Wire JSON of an MCP ``Tool``. Its name is what clients see, with no server before it."""
    hidden: bool = False
    """Whether no list and no search has it. It can be called all the same."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that every call gets with these values; whoever shows it sees to that. Plans are read accordingly."""


class Presentation(Protocol):
    """Says of servers' tools how they are shown. What is called, judged and recorded are the servers' own."""

    @property
    def names(self) -> Mapping[ToolId, str]:
        """The tools that have another name for clients: 1 to 64 characters of ``[A-Za-z0-9_.-]``, each name once."""
        ...

    def __call__(self, entry: CatalogEntry, /) -> PresentedTool | None:
        """How ``entry``, which is as its server lists it, is shown; None for as it is.

        Asked once for each definition. The answer is the same as long as the gateway runs. Where it raises, the tool is
        shown as it is, and that is logged.
        """
        ...


class DefinitionFilter(Protocol):
    """Says what the catalog has in place of a tool as its server lists it."""

    def __call__(self, entry: CatalogEntry, /) -> Mapping[str, Any] | None:
        """Wire JSON of an MCP ``Tool`` with the name that the server gave it; None for as it is.

        Asked about what the filter before it left, and before :data:`~pml_kit.offers.PRESENTATION` is. The answer is
        the same as long as the gateway runs. Where it raises, the tool stays as it is, and that is logged.
        """
        ...


@runtime_checkable
class WordFilter(Protocol):
    """A :class:`DefinitionFilter` that also looks at what servers say besides definitions of tools."""

    def said(self, id: str, server: str, item: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """What clients have in place of ``item``; itself where it stays, None where it is withheld.

        Args:
            id: What patterns call it: ``server:@prompt/NAME``, ``server:@resource/URI`` (also of a template), or
                ``server:@instructions``.
            server: Its name.
            item: As a list of prompts, resources or templates has it; ``{"instructions": text}``. What it is called by
                stays, whatever is put in its place.

        Raises:
            Exception: Logged; clients have the item as it is.
        """
        ...


class PhraseSource(Protocol):
    """Brings phrases that texts of servers are searched for besides those that PML has."""

    def __call__(self) -> Iterable[Phrase]:
        """All of them. Asked once, when the first text is searched.

        Raises:
            Exception: Logged; texts are searched for the others.
        """
        ...


DEFINITIONS: Key[DefinitionFilter] = Key("definitions", DefinitionFilter, several="all")
PHRASES: Key[PhraseSource] = Key("phrases", PhraseSource, several="all")
PRESENTATION: Key[Presentation] = Key("presentation", Presentation)


def presented(entry: CatalogEntry, shown: PresentedTool, digest: str, tokens: int) -> CatalogEntry:
    """The entry that takes the place of ``entry``: its id, and what is shown."""
    made = CatalogEntry(entry.id, entry.server, shown.definition, tokens, digest)
    made.memo[_SERVED], made.memo[_HIDDEN], made.memo[_FIXED] = entry, shown.hidden, shown.fixed
    return made


def served(entry: CatalogEntry) -> CatalogEntry:
    """The tool as its server lists it, for whoever judges what the server is sent; ``entry`` itself as a rule."""
    found: CatalogEntry = entry.memo.get(_SERVED, entry)
    return found


def is_hidden(entry: CatalogEntry) -> bool:
    """Whether no list and no search has the tool."""
    return _HIDDEN in entry.memo and bool(entry.memo[_HIDDEN])


def fixed_of(entry: CatalogEntry) -> Mapping[str, Any]:
    """Arguments that every call of the tool has with these values; empty as a rule."""
    found: Mapping[str, Any] = entry.memo.get(_FIXED, {})
    return found


def same_json(one: Any, other: Any) -> bool:
    """Whether two values are the same in JSON, where 1 is not true."""
    first, second = (json.dumps(value, sort_keys=True, default=dict) for value in (one, other))
    return first == second


def shown_name(entry: CatalogEntry) -> str:
    """The tool's name without its server, as clients know it."""
    return str(entry.definition["name"])
