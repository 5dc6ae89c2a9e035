"""What it means that a server says otherwise of a tool than it did when somebody took that: a pure function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pml_catalog.definitions import changed
from pml_kit.schema.budget import UnreadableError
from pml_kit.text.characters import skeleton

from .schema_changes import SchemaChange, schema_changes
from .suspicion import suspicions, texts_of

Verdict: TypeAlias = Literal["same", "harmless", "breaking", "suspicious"]
"""In this order: what is worst of the reasons counts. The last two block a tool."""
ORDER: tuple[Verdict, ...] = ("same", "harmless", "breaking", "suspicious")
Suspicions: TypeAlias = Callable[[Iterable[str]], Mapping[str, int]]
"""What is wrong with texts, as words for people, and how often."""
TEXTS = ("title", "description", "inputSchema", "outputSchema", "annotations")
MOST_REASONS = 20

_INPUT: Mapping[str, tuple[Verdict, str]] = {
    "added": ("harmless", "new optional argument"),
    "demanded": ("breaking", "new required argument"),
    "removed": ("breaking", "argument is gone"),
    "required": ("breaking", "argument is required now"),
    "optional": ("harmless", "argument need not be given any more"),
    "wider": ("breaking", "wider"),
    "narrower": ("breaking", "narrower"),
    "other": ("breaking", "not comparable"),
    "closed": ("harmless", "closed"),
    "default": ("breaking", "another default"),
    "number": ("harmless", "another default"),
}
_OUTPUT: Mapping[str, tuple[Verdict, str]] = {
    "added": ("harmless", "new member"),
    "demanded": ("harmless", "new member"),
    "removed": ("breaking", "member is gone"),
    "required": ("harmless", "member is always there now"),
    "optional": ("breaking", "member may be missing now"),
    "wider": ("breaking", "wider"),
    "narrower": ("harmless", "narrower"),
    "other": ("breaking", "not comparable"),
    "closed": ("harmless", "closed"),
    "default": ("harmless", "another default"),
    "number": ("harmless", "another default"),
}
_HINTS: Mapping[str, tuple[bool, bool, str]] = {
    "readOnlyHint": (False, False, "changes things"),
    "destructiveHint": (True, True, "may destroy"),
    "idempotentHint": (False, False, "does more when it is called again"),
    "openWorldHint": (True, True, "reaches the world outside"),
}
"""By name: what counts where a server says nothing, the value that is more dangerous, and what that means."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that is otherwise, and how bad that is."""

    verdict: Verdict
    place: str
    """A member of the definition, and where in it: ``inputSchema: filter.tags[]``."""
    text: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.place}: {self.text}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is otherwise of one tool."""

    verdict: Verdict
    reasons: tuple[Reason, ...] = ()
    """Worst first; empty for ``same``."""
    new: bool = False
    """Whether the tool was not there when the others were taken."""
    safer_hints: bool = False
    """Whether a hint says that the tool is less dangerous than was taken. That is no reason to ask people less."""

    @property
    def blocks(self) -> bool:
        """Whether the tool is not called before somebody has looked at it."""
        return self.verdict in ("breaking", "suspicious")


def judge(
    before: Mapping[str, Any] | None,
    now: Mapping[str, Any],
    *,
    shadowed: str = "",
    suspicions: Suspicions = suspicions,
) -> Judgement:
    """What it means that a tool was ``before`` and is ``now``.

    Args:
        before: Its definition when somebody took it; None for one that was not there.
        now: Its definition as its server lists it.
        shadowed: The tool of another server that has its name; empty where none has. Counts for a new tool only.
        suspicions: What is wrong with texts. What was wrong with those that were taken is no news.
    """
    if before is not None and not changed(before, now):
        return Judgement("same")
    reasons: list[Reason] = []
    if before is None:
        reasons.append(Reason("harmless", "tool", "new"))
        if shadowed:
            reasons.append(Reason("suspicious", "name", f"{shadowed} of another server has it"))
    else:
        reasons += _words(before, now)
        reasons += _schemas(before, now)
        reasons += _hints(before, now)
    reasons += _texts(before, now, suspicions)
    reasons.sort(key=lambda one: -ORDER.index(one.verdict))
    safer = before is not None and any(r.place.startswith("annotations") and r.text.startswith("less") for r in reasons)
    return Judgement(reasons[0].verdict, tuple(reasons[:MOST_REASONS]), before is None, safer)


def judge_text(before: str, now: str, place: str, *, suspicions: Suspicions = suspicions) -> Judgement:
    """The same for a text, such as a server's instructions."""
    if before == now:
        return Judgement("same")
    reasons = [Reason("suspicious", place, one) for one in _news(suspicions([before]), suspicions([now]))]
    return Judgement("suspicious" if reasons else "harmless", (*reasons, Reason("harmless", place, "other words")))


def _words(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Reason]:
    for member in ("title", "description"):
        if before.get(member) != now.get(member):
            yield Reason("harmless", member, "other words")


def _schemas(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Reason]:
    for member, table in (("inputSchema", _INPUT), ("outputSchema", _OUTPUT)):
        old, new = before.get(member), now.get(member)
        if old == new and not changed({member: old}, {member: new}):
            continue
        if member == "outputSchema" and (old is None or new is None):
            gone = new is None
            text = "results have no described values any more" if gone else "results have described values now"
            yield Reason("breaking" if gone else "harmless", member, text)
            continue
        try:
            found = schema_changes({} if old is None else old, {} if new is None else new)
        except (UnreadableError, RecursionError, TypeError, ValueError, ArithmeticError) as exc:
            yield Reason("breaking", member, f"nobody can tell what is otherwise: {exc}")
            continue
        yield from (_of(member, one, *table[one.kind]) for one in found)
        if not found:
            yield Reason("harmless", member, "other words, which mean the same")


def _of(member: str, change: SchemaChange, verdict: Verdict, text: str) -> Reason:
    place = f"{member}: {change.place}" if change.place else member
    return Reason(verdict, place, f"{text} ({change.detail})" if change.detail else text)


def _hints(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Reason]:
    old, new = (side if isinstance(side := d.get("annotations"), Mapping) else {} for d in (before, now))
    if old.get("title") != new.get("title"):
        yield Reason("harmless", "annotations.title", "other words")
    for name, (default, danger, text) in _HINTS.items():
        was, said = old.get(name, default), new.get(name, default)
        if was is said:
            if old.get(name) is not new.get(name):
                yield Reason("harmless", f"annotations.{name}", "says what counted without it")
        elif said is not (not danger):
            yield Reason("breaking", f"annotations.{name}", f"{said} now: {text}")
        else:
            yield Reason("harmless", f"annotations.{name}", "less dangerous than was taken; what was taken counts")
    if {k: v for k, v in old.items() if k not in _HINTS and k != "title"} != {
        k: v for k, v in new.items() if k not in _HINTS and k != "title"
    }:
        yield Reason("harmless", "annotations", "others, which nobody acts on")


def _texts(before: Mapping[str, Any] | None, now: Mapping[str, Any], look: Suspicions) -> Iterator[Reason]:
    known = {} if before is None else before
    for member in ("name", *TEXTS):
        if known.get(member) != now.get(member):
            old, new = (look(texts_of(side[member])) if member in side else Counter() for side in (known, now))
            yield from (Reason("suspicious", member, one) for one in _news(old, new))


def _news(before: Mapping[str, int], now: Mapping[str, int]) -> Iterator[str]:
    return (text for text, count in now.items() if count > before.get(text, 0))


def folded(name: str) -> str:
    """The same for names that people take for one another: letters that look alike, or other marks between."""
    return "".join(filter(str.isalnum, skeleton(name)))
