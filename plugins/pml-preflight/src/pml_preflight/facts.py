"""Everything that a pre-flight has to look up: tools, permissions, servers, recordings, history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pml_hookspecs import (
    CapabilityRun,
    CatalogEntry,
    CodeRun,
    InvalidArguments,
    Json,
    ServerStatus,
    Session,
    Task,
    ToolCall,
)
from pml_kit.offers import RECORDED_ANSWERS, RecordedTool, ToolNote, Verdict, note_of, stored_values

from .code import CodeSummary
from .history import CallStatistics, History
from .similar_names import SimilarNames

if TYPE_CHECKING:
    from pml_hookspecs import Services
    from pml_kit.offers.plan_graphs import PlanGraph, PlanNode

MOST_LOOKED_FOR = 10
"""Unknown tools for which near names are looked for; comparing with thousands of names takes its time."""


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """What is known of the code of one step before it runs."""

    verdict: Verdict
    code: CodeRun | None = None
    """What it runs in the end, where that is code."""
    read: CodeSummary | None = None
    """That code, read here."""


@dataclass(slots=True)
class PlanFacts:
    """What was looked up for a plan: its tools, their servers, recordings and history."""

    session: Session
    entries: dict[str, CatalogEntry | None] = field(default_factory=dict)
    """By the name that the plan uses; None for unknown ones."""
    denied: set[str] = field(default_factory=set)
    """Ids of tools that the caller may not have."""
    servers: Mapping[str, ServerStatus] = field(default_factory=dict)
    recorded: dict[str, RecordedTool] = field(default_factory=dict)
    """By id."""
    notes: dict[str, ToolNote] = field(default_factory=dict)
    """By id: what the caller's own calls have shown of tools."""
    answers: dict[str, bool] = field(default_factory=dict)
    """By path of the step: whether this very call is on record."""
    history: Mapping[str, CallStatistics] = field(default_factory=dict)
    """By id of tool or capability."""
    code_facts: Mapping[str, CodeFacts] = field(default_factory=dict)
    """By path of the step: what is known of code before it runs."""
    stored: Mapping[str, Json | InvalidArguments] = field(default_factory=dict)
    """What references to stored results find, by their text; where that is nothing, why."""

    def entry(self, name: str) -> CatalogEntry | None:
        """The tool that a plan means by ``name``; None when it is unknown or forbidden."""
        found = self.entries.get(name)
        return None if found is None or found.id in self.denied else found


class FactCollector:
    """Looks up the facts that a plan depends on. Calls no server."""

    def __init__(self, services: Services, most_executions: int) -> None:
        self._services = services
        self._history = History(services, most_executions)
        self.near = SimilarNames(services.catalog)

    def tools(self, graph: PlanGraph, session: Session) -> PlanFacts:
        """What the catalog has of one plan."""
        catalog = self._services.catalog
        facts = PlanFacts(session, servers={status.name: status for status in catalog.servers(session)})
        for task in _tasks(graph):
            if not isinstance(task, ToolCall) or task.tool in facts.entries:
                continue
            found = facts.entries[task.tool] = catalog.resolve(task.tool, session)
            if found is not None and not catalog.allows(found, session):
                facts.denied.add(found.id)
        return facts

    async def facts(self, graph: PlanGraph, session: Session) -> PlanFacts:
        """What concerns the steps of one plan."""
        facts, nodes = self.tools(graph, session), list(graph.all_nodes())
        targets = dict.fromkeys(task.capability_id for task in _tasks(graph) if isinstance(task, CapabilityRun))
        await self._recorded(facts, nodes)
        entries = [entry for name in facts.entries if (entry := facts.entry(name)) is not None]
        facts.notes = {one.id: note for one in entries if (note := note_of(self._services, one, session)) is not None}
        targets |= {entry.id: None for name in facts.entries if (entry := facts.entry(name)) is not None}
        references = (one for node in nodes for one in node.references())
        facts.stored = await stored_values(self._services, references, session)
        facts.history = await self._history.of(session.principal, targets)
        return facts

    async def _recorded(self, facts: PlanFacts, nodes: list[PlanNode]) -> None:
        if (recordings := self._services.find(RECORDED_ANSWERS)) is None:
            return
        for node in nodes:
            task = node.task
            entry = facts.entry(task.tool) if isinstance(task, ToolCall) else None
            if entry is None or not isinstance(task, ToolCall) or entry.own:
                continue
            if entry.id not in facts.recorded:
                facts.recorded[entry.id] = await recordings.of_tool(entry, facts.session)
            if not node.values and facts.recorded[entry.id].calls:
                facts.answers[node.path] = await recordings.answers(task, entry, facts.session)


def _tasks(graph: PlanGraph) -> Iterator[Task]:
    """The tasks of the plan, and those that undo them."""
    for node in graph.all_nodes():
        yield node.task
        if node.task.step.compensate is not None:
            yield node.task.step.compensate


def state_of(server: str, facts: PlanFacts) -> tuple[str, str]:
    """State and reason of a server; ``up`` for those that no configuration names: they run in a plugin."""
    status: Any = facts.servers.get(server)
    return ("up", "") if status is None else (status.state, status.reason)
