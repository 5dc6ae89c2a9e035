"""One schema with everything that it refers to, read within a budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .budget import PER_STEP, Budget, UnreadableError
from .intersection import Flat, merged
from .pointers import target_of

DEEPEST = 64
"""Levels of references and parts that are followed."""
MOST_BRANCHES = 64
"""Alternatives that are told apart."""
CHOICES = ("anyOf", "oneOf")
_FOLDED = ("$ref", "allOf")
_UNSURE = frozenset({"$dynamicRef", "$recursiveRef"})


class Document:
    """A schema, and how much work it may still cost. Nothing here is more work than the budget has steps."""

    def __init__(self, root: Any, budget: Budget | None = None, *, deepest: int = DEEPEST) -> None:
        """Of ``root``, to which its references lead; several documents may share one ``budget``."""
        self.root, self.budget, self._deepest = root, budget or Budget(), deepest

    def look(self, schema: Any, depth: int) -> None:
        """Count a look at ``schema``.

        Raises:
            UnreadableError: There were too many, or they lie too deep within one another.
        """
        if isinstance(schema, Mapping):
            self.budget.look_at(schema)
        else:
            self.budget.spend()
        if depth > self._deepest:
            raise UnreadableError("the schema nests too deep, or refers to itself without end")

    def target(self, reference: Any) -> Any:
        """What ``$ref`` leads to; None when that is nowhere, or out of the document.

        Raises:
            OverBudgetError: It is too long a way.
        """
        if not isinstance(reference, str) or not reference.startswith("#") or reference[1:2] not in ("", "/"):
            return None
        self.budget.spend(len(reference) // PER_STEP)
        return target_of(self.root, reference)

    def every(self, schema: Flat) -> Sequence[Any]:
        """Schemas that must hold besides: what it refers to, None when that is nowhere, then its parts.

        Raises:
            UnreadableError: The parts are no list, or it is too much work.
        """
        parts = listed(schema, "allOf")
        return [self.target(schema["$ref"]), *parts] if "$ref" in schema else parts

    def flat(self, schema: Flat, depth: int = 0) -> Flat:
        """``schema`` with ``$ref`` and ``allOf`` folded in; choices stay.

        Raises:
            UnreadableError: A reference leads nowhere or out of the document, the parts contradict each other, or it is
                too much work.
        """
        self.look(schema, depth)
        if "$ref" not in schema and "allOf" not in schema:
            return schema
        if [*schema] == ["$ref"] and isinstance(found := self.target(schema["$ref"]), Mapping):
            return self.flat(found, depth + 1)
        folded: Flat | None = {word: value for word, value in schema.items() if word not in _FOLDED}
        for part in self.every(schema):
            if part is True:
                continue
            if part is None:
                raise UnreadableError("the schema refers to a part that it does not have, or to another document")
            if not isinstance(part, Mapping):
                raise UnreadableError("a part of the schema allows nothing")
            folded = self.merge(folded or {}, self.flat(part, depth + 1))
            if folded is None:
                raise UnreadableError("parts of the schema have nothing in common")
        return folded or {}

    def merge(self, one: Flat, other: Flat) -> Flat | None:
        """As :func:`.intersection.merged`, which is counted."""
        self.budget.look_at(one)
        self.budget.look_at(other)
        return merged(one, other)

    def branches(self, schema: Any, depth: int = 0) -> list[Flat] | None:
        """The alternatives of a schema, without references, parts and choices; None when it says nothing.

        Raises:
            UnreadableError: There is no telling, or it is too much work.
        """
        if not isinstance(schema, Mapping) or not schema or depth > self._deepest or not _UNSURE.isdisjoint(schema):
            return None
        self.budget.look_at(schema)
        mapped(schema, "properties"), listed(schema, "required"), listed(schema, "prefixItems")
        own: list[Flat] = [{word: of for word, of in schema.items() if word not in (*_FOLDED, *CHOICES)}]
        for inner in self._conditions(schema):
            several = [self.branches(one, depth + 1) for one in inner]
            if None in several:
                # Of one that says nothing, the rest still holds; a choice with such a one may be anything.
                own = [] if len(inner) > 1 else own
            else:
                flats = [flat for found in several for flat in found or ()]
                own = [both for one in own for other in flats if (both := self.merge(one, other)) is not None]
            if not 0 < len(own) <= MOST_BRANCHES:
                return None
        return own

    def _conditions(self, schema: Flat) -> Iterator[Sequence[Any]]:
        """Lists of schemas of each of which one must hold."""
        for one in self.every(schema):
            yield [one]
        for word in CHOICES:
            if options := listed(schema, word):
                yield options


def listed(schema: Flat, word: str) -> Sequence[Any]:
    """The list under ``word``; empty when there is none.

    Raises:
        UnreadableError: What is there is no list.
    """
    found = schema.get(word, [])
    if not isinstance(found, list):
        raise UnreadableError(f"{word} is no list")
    return found


def mapped(schema: Flat, word: str) -> Mapping[str, Any]:
    """The object under ``word``; empty when there is none.

    Raises:
        UnreadableError: What is there is no object.
    """
    found = schema.get(word, {})
    if not isinstance(found, Mapping):
        raise UnreadableError(f"{word} is no object")
    return found


def item_schemas(schema: Flat) -> tuple[Sequence[Any], Any]:
    """Schemas of the first items and of all others, as the older drafts or the newest write them.

    Raises:
        UnreadableError: They are no list.
    """
    items = schema.get("items", True)
    if isinstance(items, list):
        return items, schema.get("additionalItems", True)
    return listed(schema, "prefixItems"), items
