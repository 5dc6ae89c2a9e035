"""How long a plan would take and what it would cost, from what its calls took and cost before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from statistics import median

from pml_hookspecs import CapabilityRun, ToolCall
from pml_kit.offers.plan_graphs import PlanGraph, PlanNode

from .facts import PlanFacts

MOST_PARALLEL = 100
"""Tasks that an executor is taken to have under way at once, where the plan does not say."""


@dataclass(slots=True)
class Step:
    """Time and cost of one step, its items together."""

    duration_ms: int | None = None
    """None when nothing is known [ms]."""
    cost_usd: float | None = None
    samples: int = 0
    times: int = 1
    """How often it runs; 1 also where that is not known."""


@dataclass(slots=True)
class Estimate:
    """Time and cost of a whole plan."""

    steps: dict[str, Step] = field(default_factory=dict)
    """By path."""
    critical_path: list[str] = field(default_factory=list)
    """Paths of the steps that take longest one after the other."""
    duration_ms: int | None = None
    """Along the critical path; None when of no step is known how long it takes [ms]."""
    cost_usd: float | None = None
    unknown: list[str] = field(default_factory=list)
    """Paths of steps that count as nothing, because nothing is known of them."""


def estimate(top: PlanGraph, facts: PlanFacts) -> Estimate:
    """What the plan would take, as far as is known."""
    made = Estimate()
    made.duration_ms, made.critical_path = _scope(top, facts, made)
    costs = [step.cost_usd for step in made.steps.values() if step.cost_usd is not None]
    made.cost_usd = round(sum(costs), 6) if costs else None
    return made


def _scope(graph: PlanGraph, facts: PlanFacts, made: Estimate) -> tuple[int | None, list[str]]:
    ends: dict[str, tuple[int, list[str], bool]] = {}
    ordered = [id_ for layer in graph.layers for id_ in layer]
    # Those that wait for each other come last.
    for node in (graph.nodes[id_] for id_ in dict.fromkeys((*ordered, *graph.nodes))):
        step, inside = _step(node, facts, made)
        before = max(
            (ends[need] for need in node.depends_on if need in ends), key=lambda end: end[0], default=(0, [], False)
        )
        known = before[2] or step.duration_ms is not None
        ends[node.task.id] = before[0] + (step.duration_ms or 0), [*before[1], *(inside or [node.path])], known
    if not ends:
        return None, []
    longest = max(ends.values(), key=lambda end: (end[0], len(end[1])))
    return (longest[0] if longest[2] else None), longest[1]


def _step(node: PlanNode, facts: PlanFacts, made: Estimate) -> tuple[Step, list[str]]:
    step = Step()
    inside: list[str] = []
    if node.known:
        step.duration_ms = 0
    elif node.inner is not None:
        step.duration_ms, inside = _scope(node.inner, facts, made)
    else:
        _from_history(node, step, facts)
        if step.duration_ms is None:
            made.unknown.append(node.path)
    each = node.task.step.for_each
    if isinstance(each, Sequence) and not isinstance(each, str) and not node.known:
        step.times = len(each)
        rounds = ceil(len(each) / (node.graph.workflow.max_parallel or MOST_PARALLEL))
        step.duration_ms = None if step.duration_ms is None else step.duration_ms * rounds
        step.cost_usd = None if step.cost_usd is None else step.cost_usd * len(each)
    made.steps[node.path] = step
    return step, inside


def _from_history(node: PlanNode, step: Step, facts: PlanFacts) -> None:
    task = node.task
    entry = facts.entry(task.tool) if isinstance(task, ToolCall) else None
    target = entry.id if entry is not None else task.capability_id if isinstance(task, CapabilityRun) else ""
    past = facts.history.get(target)
    recorded = facts.recorded.get(target)
    durations = [] if recorded is None else list(recorded.durations_ms)
    if past is not None and past.samples >= len(durations):
        step.duration_ms, step.samples = past.duration_ms, past.samples
    elif durations:
        step.duration_ms, step.samples = round(median(durations)), len(durations)
    step.cost_usd = None if past is None else past.cost_usd
