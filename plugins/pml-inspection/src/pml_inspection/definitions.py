"""Findings about definitions, and what is put in place of these."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pml_hookspecs import encode
from pml_kit.offers import PHRASES
from pml_kit.offers.presentation import served
from pml_kit.text.characters import mixed_words, skeleton, visible
from pml_kit.text.inspection import Finding, findings
from pml_kit.text.phrases import Phrases, default_phrases

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, Services, Session

    from .settings import Settings

META = "pml/inspection"
"""Member of ``_meta`` that says what was found."""
MOST_DEPTH = 64
"""Of a document whose texts are read."""
APART = frozenset({"_meta", "icons"})
"""Members of a definition that no model reads."""
IDENTITY = frozenset({"name", "uri", "uriTemplate"})
"""Members that something is called by: what is found in them is in the names of tools only."""
LARGE_BYTES = 131_072
"""A larger definition is not searched, which is a finding: its texts would take long, all in one turn of the loop."""
LONGEST_NAME = 1000
"""Characters of a name that are looked at."""
MOST_TOLD = 4_096
"""Findings of which it is remembered that the log has them."""
SHORTEST_NAME = 4
"""Characters of a name that may be taken for another one."""
_MEMO = "pml_inspection.findings"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A finding, and which text of a definition or a result it is about."""

    where: str
    """Members that lead to it: ``inputSchema.properties.path.description``; ``(name)`` ends it for a name in there."""
    finding: Finding


TOO_LARGE = Occurrence(
    "definition", Finding("length", f"it is larger than {LARGE_BYTES} bytes, and is not searched", "")
)


def texts(value: Any) -> Iterator[tuple[str, str]]:
    """Each text in a JSON value, names of members as well, with the members that lead to it, in order."""
    left: list[tuple[str, Any, int]] = [("", value, 0)]
    while left:
        where, one, depth = left.pop()
        if isinstance(one, str):
            yield where, one
        elif depth < MOST_DEPTH and isinstance(one, dict):
            inside: list[tuple[str, Any, int]] = []
            for name, member in one.items():
                inside.append((f"{where}(name)", name, depth))
                inside.append((f"{where}.{name}" if where else name, member, depth + 1))
            left += reversed(inside)
        elif depth < MOST_DEPTH and isinstance(one, (list, tuple)):
            left += [(f"{where}[{number}]", one[number], depth + 1) for number in reversed(range(len(one)))]


def all_phrases(services: Services) -> Phrases:
    """PML's phrases and those that plugins bring."""
    brought = []
    for plugin, source in services.find_all(PHRASES):
        try:
            new = list(source())
            for phrase in new:
                _ = phrase.search, phrase.groups[0]
            brought += new
        except Exception:
            services.log.exception("phrases that a plugin brings are not searched for", plugin=plugin)
    return Phrases([*default_phrases().all, *brought]) if brought else default_phrases()


def marked(found: Iterable[Occurrence], done: str) -> dict[str, Any]:
    """What is said in ``_meta``: rules and reasons, and not what was found, which a model would read again."""
    told = {(one.finding.rule, one.finding.reason): None for one in found}
    return {META: {"action": done, "findings": [{"rule": rule, "reason": reason} for rule, reason in told]}}


class DefinitionInspector:
    """Finds, marks, strips, and says which tools are withheld. Implements :class:`pml_kit.offers.DefinitionFilter`."""

    def __init__(self, services: Services, settings: Settings) -> None:
        self._services, self._settings = services, settings
        self._phrases: Phrases | None = None
        self._told: set[tuple[str, str]] = set()
        self._said: dict[tuple[str, str], tuple[Occurrence, ...]] = {}
        self.quarantine: dict[str, tuple[Occurrence, ...]] = {}
        """What is withheld besides tools, by what patterns call it, and why."""

    @property
    def phrases(self) -> Phrases:
        """What texts are searched for."""
        if self._phrases is None:
            self._phrases = all_phrases(self._services)
        return self._phrases

    def found(self, entry: CatalogEntry) -> tuple[Occurrence, ...]:
        """What is suspicious about a tool as its server lists it; empty as a rule. Kept with the entry."""
        known: tuple[Occurrence, ...] | None = entry.memo.get(_MEMO)
        if known is None:
            known = entry.memo[_MEMO] = tuple(self._look(entry))
        return known

    def _look(self, entry: CatalogEntry) -> Iterator[Occurrence]:
        definition, most = entry.definition, self._settings.longest_description
        description = definition.get("description")
        if most and isinstance(description, str) and len(description) > most:
            reason = f"it has {len(description)} characters, more than {most}"
            yield Occurrence("description", Finding("length", reason, ""))
        if mixed_words(entry.name[:LONGEST_NAME]):
            reason = "it is a name with letters of another script that look Latin"
            yield Occurrence("name", Finding("homoglyph", reason, ascii(entry.name[:LONGEST_NAME])[1:-1]))
        if _is_large(entry):
            yield TOO_LARGE
            return
        yield from self._search(definition)

    def _search(self, item: Mapping[str, Any]) -> Iterator[Occurrence]:
        read = {name: member for name, member in item.items() if name not in APART and name not in IDENTITY}
        if not self.phrases.may_be_in(encode(read)):
            return
        every = list(texts(read))
        # Of most that may have something all texts together show that they have not.
        whole = "\n".join(text for _, text in every)
        if not findings(whole, self.phrases):
            return
        for where, text in every:
            for finding in findings(text, self.phrases):
                yield Occurrence(where, finding)

    def __call__(self, entry: CatalogEntry) -> Mapping[str, Any] | None:
        """What the catalog has in place of ``entry``."""
        level = self._settings.of_definitions(entry.id, entry.server)
        if level == "off" or not (found := self.found(entry)):
            return None
        self._tell(entry, found, level)
        meta = entry.definition.get("_meta")
        changed = stripped(entry.definition) if level == "strip" and not _is_large(entry) else entry.definition
        return {**changed, "_meta": {**(meta if isinstance(meta, Mapping) else {}), **marked(found, level)}}

    def said(self, id: str, server: str, item: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """What clients have of a prompt, a resource, a template or instructions; None in quarantine."""
        level = self._settings.of_definitions(id, server)
        if level == "off":
            return item
        raw = encode(item)
        key, large = (id, hashlib.sha256(raw).hexdigest()), len(raw) > LARGE_BYTES
        if (found := self._said.get(key)) is None:
            if len(self._said) >= MOST_TOLD:
                self._said.clear()
            found = self._said[key] = (TOO_LARGE,) if large else tuple(self._search(item))
        if not found:
            return item
        self._report(key, "what a server says has suspicious text", {"of": id}, found, level)
        if level == "quarantine":
            self.quarantine[id] = found
            return None
        left = stripped(item) if level == "strip" and not large else item
        if "instructions" in item:  # which have no place for a mark
            return left
        return {**left, "_meta": {**(item.get("_meta") or {}), **marked(found, level)}}

    def withheld(self, entry: CatalogEntry) -> tuple[Occurrence, ...]:
        """Why a tool is withheld; empty where it is not."""
        own = served(entry)
        if own.own or self._settings.of_definitions(own.id, own.server) != "quarantine":
            return ()
        return self.found(own)

    def _tell(self, entry: CatalogEntry, found: tuple[Occurrence, ...], level: str) -> None:
        what = "the definition of a tool has suspicious text; see: pml inspect"
        self._report((entry.id, entry.digest), what, {"tool": entry.id}, found, level)

    def _report(
        self, key: tuple[str, str], what: str, whose: Mapping[str, str], found: tuple[Occurrence, ...], level: str
    ) -> None:
        """Say it once."""
        if key in self._told:
            return
        if len(self._told) >= MOST_TOLD:
            self._told.clear()
        self._told.add(key)
        told = [f"{one.where}: {one.finding.reason}" for one in found[:5]]
        self._services.log.warning(what, **whose, action=level, findings=told)


def _is_large(entry: CatalogEntry) -> bool:
    """Whether reading it would take long."""
    return entry.tokens > LARGE_BYTES // 4


def stripped(value: Any, depth: int = 0) -> Any:
    """A JSON value whose texts have nothing that nobody sees or a terminal obeys; names of members stay."""
    if isinstance(value, str):
        return visible(value)
    if depth < MOST_DEPTH and isinstance(value, Mapping):
        return {name: stripped(member, depth + 1) for name, member in value.items()}
    if depth < MOST_DEPTH and isinstance(value, (list, tuple)):
        return [stripped(member, depth + 1) for member in value]
    return value


class QuarantineFilter:
    """Keeps tools that are not withheld. Implements `pml_hookspecs.ToolFilter`."""

    shared = True

    def __init__(self, inspector: DefinitionInspector) -> None:
        self._inspector = inspector

    def __call__(self, entry: CatalogEntry, session: Session) -> bool:
        """Whether to keep ``entry``."""
        return not self._inspector.withheld(entry)


def alike(entries: Iterable[CatalogEntry]) -> dict[str, Occurrence]:
    """By id, tools whose names look like those of other servers' tools and are spelt otherwise."""
    known: dict[str, list[CatalogEntry]] = {}
    listed = [served(entry) for entry in entries if not entry.own]
    for entry in listed:
        known.setdefault(skeleton(entry.name), []).append(entry)
    found: dict[str, Occurrence] = {}
    for looks, those in known.items():
        for entry in those if len(looks) >= SHORTEST_NAME else ():
            others = [one.id for one in those if one.server != entry.server and one.name.lower() != entry.name.lower()]
            if others and entry.name.lower() != looks:
                reason = f"it is a name that looks like {others[0]}"
                found[entry.id] = Occurrence("name", Finding("homoglyph", reason, ascii(entry.name)[1:-1]))
    return found
