"""Which arguments decide where a tool sends, writes or deletes, by what their schemas and the tool say of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pml_kit.mcp.effects import effects_of_tool, hints_of

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry
    from pml_kit.references import Path

    from .settings import Settings

Role: TypeAlias = Literal["address", "target", "identity", "content"]
"""Where something goes; what is changed or asked; which one it is; what is only said."""
ROLES: Mapping[Role, str] = {
    "address": (
        "account accounts address addresses attendee attendees bcc cc channel channels cmd command commands "
        "domain email emails endpoint host hostname href iban invitee invitees link links origin participant "
        "participants payee phone recipient recipients remote script server shell to uri uris url urls user "
        "username users webhook"
    ),
    "target": (
        "branch code database dest destination dir directory expression file filename files folder path paths "
        "query repo repository room source sql statement table"
    ),
    "identity": ("id ids identifier key keys number uid uuid"),
    "content": (
        "body caption comment content contents description message messages note notes subject summary text title"
    ),
}
"""By the last word of an argument's name."""
FORMATS: Mapping[str, Role] = dict.fromkeys(
    ("uri", "uri-reference", "iri", "url", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6"), "address"
)
DESCRIBED: tuple[tuple[re.Pattern[str], Role], ...] = (
    (
        re.compile(r"\b(?:e-?mail address|recipients?|urls?|uris?|hostname|iban|shell command)\b", re.IGNORECASE),
        "address",
    ),
    (re.compile(r"\b(?:file ?path|path (?:of|to)|directory|sql|search query)\b", re.IGNORECASE), "target"),
)
"""By an argument's description, where its name says nothing."""
COUNTING: Mapping[str, frozenset[str]] = {
    "here": frozenset(),
    "read": frozenset({"address"}),
    "write": frozenset({"address", "target"}),
    "destroy": frozenset({"address", "target", "identity", ""}),
}
"""Roles that count, by what a tool does at most; ``here`` for one that reads and reaches nothing outside. What has no
role counts where anything may be destroyed."""
_OWNERS = frozenset({"account", "channel", "chat", "conversation", "recipient", "room", "user"})
"""Words before ``id`` with which that is an address."""
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_ROLE_OF = {word: role for role, words in ROLES.items() for word in words.split()}
MOST_ROLES = 10_000
"""Places in arguments of tools whose roles are kept."""
MOST_LEAVES = 20_000
"""Values in one argument that are looked at one by one; what has more counts as a whole."""


class Arguments:
    """Tells of a tool's arguments whether they count."""

    def __init__(self, settings: Settings) -> None:
        self._chosen = settings.arguments
        self._roles: dict[tuple[str, str, Path], Role | Literal[""]] = {}

    def counting(self, tool: str, entry: CatalogEntry | None, path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
        """What counts of ``value``, which stands at ``path`` in the arguments of a call, with the place of each.

        Args:
            tool: Its id.
            entry: As it is listed; None for one that nobody knows, which may do anything.
            path: Below the arguments.
            value: JSON; yes, no and nothing never count.
        """
        chosen = self.chosen(tool)
        schema = None if entry is None else entry.definition.get("inputSchema")
        known = (tool, "" if entry is None else entry.digest)
        counting = COUNTING[reach_of(entry)]
        for place, leaf in leaves(value, path):
            if leaf is None or isinstance(leaf, bool):
                continue
            if chosen is not None:
                if place and place[0] in chosen:
                    yield place, leaf
                continue
            names = (*known, tuple([0 if isinstance(key, int) else key for key in place]))
            role = self._roles.get(names)
            if role is None:
                if len(self._roles) >= MOST_ROLES:
                    self._roles.clear()
                role = self._roles[names] = _role(place, schema)
            if role in counting and (role == "identity" or not isinstance(leaf, (int, float))):
                yield place, leaf

    def chosen(self, tool: str) -> tuple[str, ...] | None:
        """What the operator says of the tool; None for nothing."""
        if not self._chosen:
            return None
        return next((names for pattern, names in self._chosen.items() if fnmatchcase(tool, pattern)), None)


def reach_of(entry: CatalogEntry | None) -> str:
    """What a tool does at most, as :data:`COUNTING` has it."""
    if entry is None:
        return "destroy"
    effects = effects_of_tool(entry.definition)
    return "here" if effects == "read" and hints_of(entry.definition).get("openWorldHint") is False else effects


def leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """The values in ``value`` that are neither objects nor arrays; of too many, the whole."""
    waiting, found = [(path, value)], 0
    while waiting:
        place, at = waiting.pop()
        if isinstance(at, (Mapping, list, tuple)):
            if found + len(waiting) + len(at) > MOST_LEAVES:
                yield path, value
                return
            members = at.items() if isinstance(at, Mapping) else enumerate(at)
            waiting += [((*place, key), member) for key, member in members]
            continue
        found += 1
        yield place, at


def _role(place: Path, schema: Any) -> Role | Literal[""]:
    """Of the innermost name that says anything; that of a content for what is one of few."""
    at = _schema_at(schema, place)
    if at.get("type") == "boolean" or "enum" in at or "const" in at:
        return "content"
    for depth in range(len(place), 0, -1):
        key = place[depth - 1]
        if not isinstance(key, str):
            continue
        at = _schema_at(schema, place[:depth])
        if (role := FORMATS.get(str(at.get("format"))) or _role_of_name(key)) is not None:
            return role
        described = at.get("description")
        if isinstance(described, str):
            for pattern, role in DESCRIBED:
                if pattern.search(described):
                    return role
    return ""


def _role_of_name(name: str) -> Role | None:
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words:
        return None
    role = _ROLE_OF.get(words[-1])
    if role == "identity" and len(words) > 1 and words[-2] in _OWNERS:
        return "address"
    return role or next((_ROLE_OF[word] for word in words if _ROLE_OF.get(word) in ("address", "target")), None)


def _schema_at(schema: Any, place: Path) -> Mapping[str, Any]:
    at = schema
    for key in place:
        at = _opened(at, schema)
        if isinstance(key, str):
            members = at.get("properties")
            at = members.get(key) if isinstance(members, Mapping) else None
        else:
            at = at.get("items")
    return _opened(at, schema)


def _opened(at: Any, root: Any) -> Mapping[str, Any]:
    """``at``, or what it refers to in the same schema; of alternatives with one that is not null, that."""
    for _ in range(4):
        if not isinstance(at, Mapping):
            return {}
        reference, either = at.get("$ref"), at.get("anyOf") or at.get("oneOf")
        if isinstance(reference, str) and reference.startswith("#/"):
            found: Any = root
            for key in reference[2:].split("/"):
                found = found.get(key) if isinstance(found, Mapping) else None
            at = found
        elif isinstance(either, list):
            real = [one for one in either if isinstance(one, Mapping) and one.get("type") != "null"]
            if len(real) != 1:
                return at
            at = real[0]
        else:
            return at
    return {}
