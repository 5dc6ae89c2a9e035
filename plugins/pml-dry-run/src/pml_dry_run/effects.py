"""What a rehearsal would have changed, and what later reads of it would find.

Only names and equal values are looked at. A match is certain where a read names exactly what a simulated step named;
what may have changed besides is said, not guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pml_hookspecs import replace
from pml_kit.mcp.effects import hints_of, only_reads
from pml_kit.mcp.named_tools import named_in

from .argument_echo import normal
from .result_shapes import value_of

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, CatalogEntry, CodeRun, Session, Task, ToolCall

What = Literal["create", "change", "delete", "unknown"]
Match = Literal["certain", "made", "maybe", "none"]
IDENTITIES = frozenset(
    (
        *("path", "file", "filename", "filepath", "uri", "url", "id", "uuid", "key", "slug", "sku", "name"),
        *("owner", "repo", "repository", "number", "issuenumber", "pullnumber", "ordernumber"),
    )
)
IDENTITY_ENDS = ("id", "path", "key", "uri", "slug")
VERBS: Mapping[What, frozenset[str]] = {
    "create": frozenset({"create", "add", "new", "insert", "make", "open", "post", "upload", "save", "put"}),
    "change": frozenset(
        (
            *("update", "edit", "write", "set", "modify", "patch", "rename", "replace", "change"),
            *("close", "reopen", "assign", "resolve", "complete", "archive"),
        )
    ),
    "delete": frozenset({"delete", "remove", "drop", "destroy", "rm", "unlink", "erase", "purge", "clear"}),
}
READS_ONE = frozenset({"read", "get", "fetch", "show", "describe", "view", "cat", "retrieve", "load", "download"})
"""Verbs of tools that fail, or say so, where the one thing that they name is not there."""


READS = READS_ONE | {"list", "ls", "search", "find", "lookup", "count", "exists", "head"}
"""Verbs of tools that read, where their server does not say what they do."""
CHANGES = frozenset({"fields", "data", "patch", "changes", "values", "attributes", "properties", "body", "updates"})
"""Arguments that hold what is to be changed."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What one simulated step would have done."""

    task_id: str
    path: str
    """Where the step stands in the workflow."""
    server: str
    tool: str
    what: What
    identity: Mapping[str, Any]
    """Arguments that say which thing, by normalised name."""
    arguments: Mapping[str, Any]
    made: Mapping[str, Any]
    """Identities in its simulated result, by normalised name."""
    value: Any
    """The value in its simulated result."""

    def to_report(self) -> dict[str, Any]:
        """For labels."""
        return {"task_id": self.task_id, "tool": self.tool, "effect": self.what, "of": dict(self.identity)}


@dataclass(frozen=True, slots=True)
class ReadOverlay:
    """The answer to a read as it would be after a step."""

    value: Any
    pointers: list[str]
    """JSON Pointers of what changed in it."""
    whole: bool
    """Whether everything that the step was given is in it."""


def effect_of(task: ToolCall, entry: CatalogEntry, path: str, result: Mapping[str, Any]) -> Effect:
    """What a simulated call would have done, as far as its name, annotations, arguments and result tell."""
    seen = value_of(result)
    value = None if seen is None or seen.form == "text" else seen.value
    return Effect(
        task_id=task.id,
        path=path,
        server=entry.server,
        tool=entry.id,
        what=_what(entry),
        identity=identity_of(task.arguments),
        arguments={normal(name): argument for name, argument in task.arguments.items()},
        made=identity_of(value) if isinstance(value, Mapping) else {},
        value=value,
    )


def effects_of_code(task: Task, path: str, code: CodeRun, catalog: Catalog, session: Session) -> list[Effect]:
    """What code that is not run might have done: the tools that stand in it, of which nobody knows what they would get.

    Args:
        task: The step.
        path: Where it stands in the workflow.
        code: What it runs.
        catalog: Finds the tools.
        session: Whose code it is.
    """
    entries = [entry for entry in named_in(code.source, catalog) if catalog.allows(entry, session)]
    return [
        Effect(
            task_id=task.id,
            path=path,
            server=entry.server,
            tool=entry.id,
            what=_what(entry),
            identity={},
            arguments={},
            made={},
            value=None,
        )
        for entry in entries
        if not only_reads(entry)
    ]


def reads(entry: CatalogEntry) -> bool:
    """Whether a tool reads: its server says so, or says nothing and its name does."""
    said = hints_of(entry.definition).get("readOnlyHint")
    if isinstance(said, bool):
        return said
    words = _words(entry.name)
    return bool(words & READS) and not any(words & verbs for verbs in VERBS.values())


def identity_of(members: Mapping[str, Any]) -> dict[str, Any]:
    """Members that say which thing is meant: ids, paths, addresses, names."""
    return {
        normal(name): value
        for name, value in members.items()
        if isinstance(value, (str, int))
        and not isinstance(value, bool)
        and (normal(name) in IDENTITIES or normal(name).endswith(IDENTITY_ENDS))
    }


def reads_one(entry: CatalogEntry) -> bool:
    """Whether a tool reads the one thing that it names."""
    return not READS_ONE.isdisjoint(_words(entry.name))


def match(effect: Effect, task: ToolCall, entry: CatalogEntry) -> Match:
    """How a read has to do with an earlier effect.

    ``certain``: it names exactly what the step named. ``made``: it names what the step would have created, under an
    id that was made up. ``maybe``: it may see a difference. ``none``: it names something else, or asks another server.
    """
    if effect.server != entry.server:
        return "none"
    read = identity_of(task.arguments)
    if not read:
        return "maybe"
    if _means(effect, read, entry):
        return "certain"
    if effect.what == "create" and _named_by(effect.made, read):
        return "made"
    comparable = bool(read.keys() & effect.identity.keys())
    if not comparable or any(_touch(one, other) for one in read.values() for other in effect.identity.values()):
        return "maybe"
    return "none"


def _named_by(made: Mapping[str, Any], read: Mapping[str, Any]) -> bool:
    """Whether every identity in the read is one that was made, ``id`` and ``issue_id`` being the same."""
    return bool(made) and all(
        any(value == other and (name.endswith(known) or known.endswith(name)) for known, other in made.items())
        for name, value in read.items()
    )


def _means(effect: Effect, read: Mapping[str, Any], entry: CatalogEntry) -> bool:
    """Whether a call names exactly what the step named; between tools of an issue, ``id`` is ``issue_id``."""
    tools = [normal(tool) for tool in (effect.tool.partition(":")[2], entry.name)]

    def same(one: str, other: str) -> bool:
        long, short = (one, other) if len(one) >= len(other) else (other, one)
        of = long.removesuffix(short)
        return one == other or (of != long and all(of in tool for tool in tools))

    return len(read) == len(effect.identity) and all(
        any(str(value) == str(other) and same(name, known) for known, other in effect.identity.items())
        for name, value in read.items()
    )


def _touch(one: Any, other: Any) -> bool:
    """Equal, or one a path above the other."""
    if one == other:
        return True
    if not (isinstance(one, str) and isinstance(other, str)):
        return False
    one, other = one.rstrip("/"), other.rstrip("/")
    return bool(one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/"))


def _words(name: str) -> set[str]:
    """``createIssue`` and ``create_issue`` alike."""
    spaced = "".join(f" {char.lower()}" if char.isupper() else char for char in name)
    return set("".join(char if char.isalnum() else " " for char in spaced).split())


def _what(entry: CatalogEntry) -> What:
    words = _words(entry.name)
    return next((what for what in ("delete", "create", "change") if words & VERBS[what]), "unknown")


def overlay_read(value: Any, effect: Effect) -> ReadOverlay | None:
    """``value`` as it would be after ``effect``; None where that cannot be told.

    Members that the step gave an argument for get it, in the only object within where the outermost has none of them.
    A text becomes the step's only text that is no identity.
    """
    news = {name: argument for name, argument in effect.arguments.items() if name not in effect.identity}
    texts = [argument for argument in news.values() if isinstance(argument, str)]
    if effect.what == "unknown":
        return None
    if isinstance(value, str):
        return ReadOverlay(texts[0], [""], whole=True) if len(texts) == len(news) == 1 else None
    for name in CHANGES & news.keys():
        if isinstance(within := news[name], Mapping):
            news = {**{normal(n): member for n, member in within.items()}, **news}
            del news[name]
    if effect.what == "create":
        news = {**effect.identity, **news}
    return _with(value, news, "") if news else None


def _with(value: Any, news: Mapping[str, Any], at: str) -> ReadOverlay | None:
    if not isinstance(value, Mapping):
        return None
    changed = [name for name in value if normal(name) in news]
    if changed:
        now = {name: news[normal(name)] if name in changed else member for name, member in value.items()}
        return ReadOverlay(now, [f"{at}/{name}" for name in changed], whole=news.keys() <= {normal(n) for n in changed})
    within = [name for name, member in value.items() if isinstance(member, Mapping)]
    inner = _with(value[within[0]], news, f"{at}/{within[0]}") if len(within) == 1 else None
    return None if inner is None else replace(inner, value={**value, within[0]: inner.value})
