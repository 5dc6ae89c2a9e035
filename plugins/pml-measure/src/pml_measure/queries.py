"""Queries with the tools that answer them: from a file, from the history, or made of descriptions."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_hookspecs import GATEWAY_SERVER, ExecutionQuery, InvalidArguments, Scope, Status
from pml_kit.pages import every_execution

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, CatalogEntry, ExecutionRecord, Services

SEARCH_TOOL = f"{GATEWAY_SERVER}:search_tools"
ENOUGH = 20
"""Queries of the history that say something."""
SOON = timedelta(minutes=10)
"""A tool that ran so long after a search was found by it."""
MOST_RECORDS = 5_000
PAGE = 100
FEWEST_WORDS = 3
"""A query that is made has as many, if its description allows."""
_WORD = re.compile(r"[^\W_]+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n")


@dataclass(frozen=True, slots=True)
class Query:
    """What somebody asks for, and what answers it."""

    text: str
    gold: tuple[frozenset[str], ...]
    """Ids of the tools needed; any one of a group will do."""


@dataclass(frozen=True, slots=True)
class Queries:
    """Some queries, and where they are from."""

    source: str
    """``"file"``, ``"history"`` or ``"generated"``."""
    items: Sequence[Query]

    @property
    def about(self) -> str:
        """One sentence for people."""
        count = f"{len(self.items)} {'query' if len(self.items) == 1 else 'queries'}"
        return {
            "file": f"{count} of yours.",
            "history": f"{count} from your history: what was intended or searched for, and the tools that then ran.",
            "generated": (
                f"{count} made of the tools' own descriptions, which flatters every search: "
                "compare the rows with each other only."
            ),
        }[self.source]


async def gather(services: Services, *, file: str | None, source: str | None, limit: int) -> Queries:
    """The queries asked for; without a wish those of the history if there are enough, else made ones.

    Raises:
        InvalidArguments: There are none.
    """
    if file is not None:
        found = Queries("file", list(from_file(file, services.catalog))[:limit])
    else:
        history = [] if source == "generated" else await from_history(services)
        if source == "history" or len(history) >= ENOUGH:
            found = Queries("history", history[:limit])
        else:
            found = Queries("generated", generated(services.catalog)[:limit])
    if not found.items:
        raise InvalidArguments(_why_none(found.source))
    return found


def _why_none(source: str) -> str:
    return {
        "file": "--queries: there are no queries in the file.",
        "history": "the history has no intents or searches after which tools ran; use --from generated, or --queries.",
        "generated": "the catalog has no tools with descriptions; start the servers once (--connect).",
    }[source]


def from_file(name: str, catalog: Catalog) -> Iterator[Query]:
    """The queries of a file of JSON lines.

    Raises:
        InvalidArguments: A line is not one, or names a tool that does not exist; says which.
    """
    try:
        lines = Path(name).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise InvalidArguments(f"--queries {name}: cannot be read: {exc}; give a file of JSON lines.") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _of_line(line, f"--queries {name}, line {number}", catalog)


def _of_line(line: str, where: str, catalog: Catalog) -> Query:
    try:
        said: Any = json.loads(line)
    except ValueError as exc:
        raise InvalidArguments(f"{where}: not JSON: {exc}.") from None
    text, gold = (said.get("query"), said.get("gold")) if isinstance(said, dict) else (None, None)
    gold = [gold] if isinstance(gold, str) else gold
    if not isinstance(text, str) or not text.strip() or not isinstance(gold, list) or not gold:
        raise InvalidArguments(f'{where}: expected {{"query": "…", "gold": ["server:tool", …]}}.')
    groups = said.get("gold_groups") or [[tool] for tool in gold]
    if not isinstance(groups, list) or not all(isinstance(group, list) and group for group in groups):
        raise InvalidArguments(f"{where}: gold_groups must be a list of lists of tools.")
    return Query(text, tuple(frozenset(_id(tool, where, catalog) for tool in group) for group in groups))


def _id(tool: Any, where: str, catalog: Catalog) -> str:
    entry = catalog.resolve(tool) if isinstance(tool, str) else None
    if entry is None:
        raise InvalidArguments(f"{where}: there is no tool {tool!r}; tools are named server:tool.")
    return entry.id


async def from_history(services: Services) -> list[Query]:
    """Intents with the tools that ran for them, and searches with the tool that ran next; latest first."""
    found = [record async for record in records(services)]
    known: set[str] = {entry.id for entry in services.catalog if not entry.own}
    gold: dict[str, dict[str, None]] = defaultdict(dict)
    for record in found:
        if record.intent.strip() and record.parent is None and record.status == Status.OK:
            gold[record.intent.strip()].update(dict.fromkeys(t for t in _ran(record) if t in known))
    for text, tool in _searches(found, known):
        gold[text].setdefault(tool)
    return [Query(text, tuple(frozenset((tool,)) for tool in tools)) for text, tools in gold.items() if tools]


def records(services: Services, since: datetime | None = None) -> AsyncIterator[ExecutionRecord]:
    """What ran, newest first; not what was only rehearsed, and not more than :data:`MOST_RECORDS`."""
    query = ExecutionQuery(scope=Scope(principals=None), since=since, include_dry_runs=False, limit=PAGE)
    return every_execution(services.store.executions, query, most=MOST_RECORDS)


def _ran(record: ExecutionRecord) -> Sequence[str]:
    return [record.target] if record.kind == "tool" else record.tool_calls


def _searches(found: Sequence[ExecutionRecord], known: set[str]) -> Iterator[tuple[str, str]]:
    """Each search with the first tool that the same agent then ran, if it did so soon and before it searched again."""
    waiting: dict[tuple[str, str], tuple[str, datetime]] = {}
    for record in reversed(found):
        who = (record.principal, record.agent)
        if record.target == SEARCH_TOOL:
            text = record.request.get("query")
            if isinstance(text, str) and text.strip():
                waiting[who] = (text.strip(), record.started_at)
        elif record.kind == "tool" and record.target in known and record.status == Status.OK and who in waiting:
            text, searched_at = waiting.pop(who)
            if record.started_at - searched_at <= SOON:
                yield text, record.target


def generated(catalog: Catalog) -> list[Query]:
    """One query for each tool that has a description: its first sentence without the words of the tool's name.

    In an order that has nothing to do with names, so that the first ones are a fair sample.
    """
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for entry in catalog:
        if not entry.own and entry.description.strip():
            alike[entry.name, entry.description].append(entry.id)
    theirs = sorted((entry for entry in catalog if not entry.own), key=lambda entry: (entry.digest, entry.id))
    made = ((made_query(entry), frozenset(alike[entry.name, entry.description])) for entry in theirs)
    return [Query(text, (gold,)) for text, gold in made if text]


def made_query(entry: CatalogEntry) -> str:
    """A query that the tool answers; ``""`` when it has no description."""
    sentence = _SENTENCE_END.split(entry.description.strip(), maxsplit=1)[0].strip()
    name = {word.lower() for word in _WORD.findall(entry.name.replace("_", " "))}
    words = [word for word in sentence.split() if not name.intersection(w.lower() for w in _WORD.findall(word))]
    return " ".join(words) if len(words) >= FEWEST_WORDS else sentence
