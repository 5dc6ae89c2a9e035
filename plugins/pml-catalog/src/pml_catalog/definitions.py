"""What a server said of its tools when they were accepted, and what it says otherwise since.

What is seen of a server first is trusted: there is nothing to compare it with. From then on a tool whose description,
title, schemas or hints differ has changed, wherever it was meanwhile: not listed, or on a server that was not running.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CatalogEntry, Document, Documents, ToolId, encode

from .live import make_entry

if TYPE_CHECKING:
    from .ports import Guard, ServerSource

COLLECTION = "core.definitions"
"""Documents, one for each server and what it is started from."""
LOCK = "core.lock"
"""Documents, one for each server: its tools that are blocked, as a gateway that runs last found it."""
JUDGED = ("title", "description", "inputSchema", "outputSchema", "annotations")
"""Members of a definition by which people and models decide; all else may change."""
NEW = "new"
"""Stands for the members of a tool that was not there when the others were accepted."""
MOST = 10_000
"""Tools of one server that are known, those that it does not list any more included."""
MOST_CHANGES = 1000
MOST_REASONS = 3
"""Of one tool that are named in a line."""


def fingerprint(source: ServerSource) -> str:
    """Changes with what is started or connected to."""
    parts = [source.command, list(source.args), source.url, source.address]
    return hashlib.sha256(encode([*parts, source.cwd or ""])).hexdigest()[:16]


def key_of(server: str, source: ServerSource) -> str:
    """Of the document of a server: what it is started from is part of who it is."""
    return f"{server} {fingerprint(source)}"


class HeldError(Exception):
    """The tool is not called, because it is not what was accepted."""

    def __init__(self, message: str, remedy: str = "") -> None:
        """``remedy`` is the command by which it is looked at; empty for ``pml servers accept``."""
        super().__init__(message)
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Change:
    """A tool that is not what it was."""

    tool: str
    fields: tuple[str, ...]
    """Members that differ; :data:`NEW` alone for a new tool."""
    before: Mapping[str, Any] | None
    """As it was last looked at by somebody; None for a new tool."""
    now: Mapping[str, Any]
    seen_at: str
    """ISO 8601."""

    def kept(self) -> dict[str, Any]:
        """As JSON."""
        return {**self.shown(), "before": self.before, "now": self.now}

    def shown(self) -> dict[str, Any]:
        """For status and logs."""
        return {"tool": self.tool, "fields": list(self.fields), "seen_at": self.seen_at}


class Definitions:
    """Those of one server."""

    guard: Guard | None = None
    """Goes by what people took into the lock; None where there is none."""

    def __init__(self, *, holds: bool) -> None:
        """``holds``: what changed is neither shown nor called before somebody accepts it."""
        self.holds = holds
        self.accepted: dict[str, Mapping[str, Any]] | None = None
        """By the tool's name; None before the server was ever seen."""
        self.changes: dict[str, Change] = {}
        """What nobody has looked at yet."""
        self.noted: dict[str, dict[str, Any]] = {}
        """Of tools that are new or have changed since, when that was last seen and what differed, accepted or not."""
        self._digests: dict[str, str] = {}
        self._entries: dict[str, CatalogEntry] = {}
        """Those that were shown in place of what was listed."""

    @classmethod
    def of(cls, kept: Mapping[str, Any] | None, *, holds: bool) -> Definitions:
        """As they were kept; None for nothing."""
        made = cls(holds=holds)
        if kept is not None:
            made.accepted = dict(kept["tools"])
            made._digests = dict(kept["digests"])
            changes = (Change(**{**one, "fields": tuple(one["fields"])}) for one in kept["changes"])
            made.changes = {one.tool: one for one in changes}
            made.noted = dict(kept.get("noted", {}))
        return made

    def kept(self) -> dict[str, Any] | None:
        """As JSON; None while nothing was seen."""
        if self.accepted is None:
            return None
        changes = [one.kept() for one in self.changes.values()]
        return {"tools": self.accepted, "digests": self._digests, "changes": changes, "noted": self.noted}

    def judge(self, entries: Sequence[CatalogEntry]) -> tuple[list[CatalogEntry], list[Change]]:
        """What is shown of what a server lists now, and what has changed that was not said before."""
        shown, said = self._judge(entries)
        return (shown if self.guard is None else self.guard.judge(entries, shown)), said

    def _judge(self, entries: Sequence[CatalogEntry]) -> tuple[list[CatalogEntry], list[Change]]:
        if self.accepted is None:
            if entries:
                self.accepted = {}
                self._take(entries)
            return list(entries), []
        shown: list[CatalogEntry] = []
        said: list[Change] = []
        for entry in entries:
            if self._digests.get(entry.name) == entry.digest:
                if self.holds:
                    self.changes.pop(entry.name, None)
                shown.append(entry)
                continue
            before = self.accepted.get(entry.name)
            fields = changed(before, entry.definition)
            if not fields or (before is None and not self.holds):
                self._note(entry.name, fields)
                self._take([entry])
                shown.append(entry)
                continue
            if (change := self._change(entry, fields, before)) is not None:
                said.append(change)
            if not self.holds:
                self._take([entry])
                shown.append(entry)
            elif before is not None:
                shown.append(self._entry(entry.server, before))
        self._bound({entry.name for entry in entries})
        return shown, said

    def compare(self, entries: Sequence[CatalogEntry]) -> tuple[list[CatalogEntry], frozenset[str]]:
        """What is shown of what a server lists for some clients only, and the names of what is held of it.

        Nothing is accepted by being listed for some: what waits to be accepted is what is listed for all.
        """
        shown, held = self._compare(entries) if self.holds else (list(entries), frozenset())
        if self.guard is not None:
            held |= {entry.name for entry in entries if self.guard.blocks(entry)}
            shown = self.guard.allowed(shown)
        return shown, held

    def _compare(self, entries: Sequence[CatalogEntry]) -> tuple[list[CatalogEntry], frozenset[str]]:
        shown: list[CatalogEntry] = []
        held: set[str] = set()
        for entry in entries:
            before = (self.accepted or {}).get(entry.name)
            if before is not None and not changed(before, entry.definition):
                shown.append(entry)
                continue
            held.add(entry.name)
            if before is not None:
                shown.append(self._entry(entry.server, before))
        return shown, frozenset(held)

    def _change(self, entry: CatalogEntry, fields: tuple[str, ...], before: Mapping[str, Any] | None) -> Change | None:
        """Note a change; None when it is known."""
        known = self.changes.get(entry.name)
        if known is not None:
            if not changed(known.now, entry.definition):
                return None
            before = known.before
        seen_at = self._note(entry.name, fields)
        change = self.changes[entry.name] = Change(entry.name, fields, before, dict(entry.definition), seen_at)
        return change

    def _note(self, tool: str, fields: tuple[str, ...]) -> str:
        """Keep that it is new or has changed, if it has; when this is [ISO 8601]."""
        seen_at = datetime.now(UTC).isoformat(timespec="seconds")
        if fields:
            self.noted.pop(tool, None)
            self.noted[tool] = {"at": seen_at, "fields": list(fields)}
        while len(self.noted) > MOST_CHANGES:
            del self.noted[next(iter(self.noted))]
        return seen_at

    def _take(self, entries: Iterable[CatalogEntry]) -> None:
        accepted = {} if self.accepted is None else self.accepted
        for entry in entries:
            accepted[entry.name] = dict(entry.definition)
            self._digests[entry.name] = entry.digest
            self._entries.pop(entry.name, None)

    def _entry(self, server: str, definition: Mapping[str, Any]) -> CatalogEntry:
        # Not digested anew: of a thousand that takes a tenth of a second.
        name = definition["name"]
        if (known := self._entries.get(name)) is None:
            id, tokens = ToolId(f"{server}:{name}"), len(encode(definition)) // 4
            known = self._entries[name] = CatalogEntry(id, server, definition, tokens, self._digests[name])
        return known

    def _bound(self, listed: set[str]) -> None:
        """Forget what is not listed any more, where there is too much of it."""
        if self.holds:  # what comes back is compared anew
            self.changes = {name: change for name, change in self.changes.items() if name in listed}
        while len(self.changes) > MOST_CHANGES and not self.holds:
            del self.changes[next(iter(self.changes))]
        accepted = self.accepted or {}
        for name in [name for name in accepted if name not in listed][: max(0, len(accepted) - MOST)]:
            del accepted[name], self._digests[name]
            self._entries.pop(name, None)

    def accept(self, tools: Iterable[str], server: str) -> None:
        """Take the changes of these tools for what they are from now on."""
        for name in tools:
            self._take([make_entry(server, self.changes.pop(name).now)])

    def check(self, tool: str) -> None:
        """See that a tool is what was accepted.

        Raises:
            HeldError: It is not.
        """
        if self.guard is not None:
            self.guard.check(tool)
        if self.holds and (change := self.changes.get(tool)) is not None:
            raise HeldError(
                f"what its server says of it has changed ({', '.join(change.fields)}) since it was accepted"
            )
        if self.holds and tool not in (self.accepted or {}):
            raise HeldError("its server does not list it, so that nobody has accepted it")


def news_in(document: Document, since: datetime, until: datetime) -> list[dict[str, Any]]:
    """What a document of :data:`COLLECTION` says was new from ``since`` until before ``until``.

    Returns:
        ``{"what", "name", "fields", "at"}`` each: a ``server`` that was not known before, or was started from something
        else; a ``tool`` that a known server had not had; a ``definition`` in which ``fields`` differ from before.
    """
    server, found = document.key.rpartition(" ")[0], []
    if since <= document.created_at < until:
        at = document.created_at.isoformat(timespec="seconds")
        found.append({"what": "server", "name": server, "fields": [], "at": at})
    for tool, note in document.value.get("noted", {}).items():
        if since <= datetime.fromisoformat(note["at"]) < until:
            new = note["fields"] == [NEW]
            about = {"what": "tool" if new else "definition", "name": f"{server}:{tool}"}
            found.append({**about, "fields": [] if new else note["fields"], "at": note["at"]})
    return found


async def stored_changes(documents: Documents, server: str, source: ServerSource) -> tuple[dict[str, Change], int]:
    """What nobody has accepted yet of a configured server, by tool, and the version of what is kept of it."""
    kept = await documents.get(COLLECTION, key_of(server, source))
    if kept is None:
        return {}, 0
    return Definitions.of(kept.value, holds=True).changes, kept.version


async def blocked_tools(documents: Documents, server: str, source: ServerSource) -> str:
    """What waits for ``pml lock review`` of a server, and why, as a gateway found it last; empty for nothing."""
    kept = await documents.get(LOCK, key_of(server, source))
    tools = [] if kept is None else kept.value["blocked"]
    return "; ".join(f"{one['tool']} ({', '.join(one['reasons'][:MOST_REASONS])})" for one in tools)


async def accept_stored(
    documents: Documents, server: str, source: ServerSource, tools: Iterable[str], version: int
) -> bool:  # fmt: skip
    """Take changes as they were shown for what the tools are from now on, also for a gateway that runs elsewhere.

    False, and nothing is taken, where they have changed again since ``version``.
    """
    key = key_of(server, source)
    kept = await documents.get(COLLECTION, key)
    if kept is None or kept.version != version:
        return False
    definitions = Definitions.of(kept.value, holds=True)
    definitions.accept(tools, server)
    return await documents.put(COLLECTION, key, definitions.kept() or {}, if_version=version) is not None


def changed(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the judged members that differ; :data:`NEW` where there was nothing before."""
    if before is None:
        return (NEW,)
    found = tuple(name for name in JUDGED if before.get(name) != now.get(name))
    # To Python 1 is True and 1.0; not to JSON.
    return found or tuple(name for name in JUDGED if _canonical(before.get(name)) != _canonical(now.get(name)))


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=dict)
