"""Examines plans: calls every check, and makes the report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pml_hookspecs import CapabilityRun, CatalogEntry, CodeRun, PluginTask, ToolCall, Workflow, replace
from pml_kit.mcp.tool_schemas import output_schema
from pml_kit.offers import STATIC_CHECKS, required
from pml_kit.offers.plan_graphs import PlanGraph, PlanNode
from pml_kit.references import Slot

from .approval_steps import approvals
from .arguments import Schemas, check, without_fixed
from .code_checks import CodeChecks
from .code_findings import CodeFindings
from .effects import NOTHING, UNKNOWN, of_tool
from .estimate import Estimate, estimate
from .facts import FactCollector, PlanFacts, state_of
from .findings import Finding, error, warning
from .outputs import Outputs
from .plan import read
from .references import scan
from .report import Report, StepReport
from .settings import Settings
from .targets import Targets

if TYPE_CHECKING:
    from pml_hookspecs import Run, Services


class Preflights:
    """Examines plans. Keeps compiled schemas and, for seconds, what calls took before."""

    def __init__(self, services: Services, settings: Settings) -> None:
        self._services = services
        self._schemas = Schemas()
        self._collector = FactCollector(services, settings.executions)
        self._code_checks = CodeChecks(services, settings.check_code_s)

    async def of(self, workflow: Workflow, run: Run) -> Report:
        """Everything that can be told of a plan without running any of it."""
        begun = time.perf_counter()
        graph, findings = await read(workflow, run.session, self._services)
        facts = await self._collector.facts(graph, run.session)
        facts.code_facts = await self._code_checks.of(graph, facts)
        made = _Examination(graph, findings, facts, self._services, self._schemas, self._collector).report()
        await approvals(made, graph, run, self._services)
        made.took_ms = (time.perf_counter() - begun) * 1000
        return made

    async def certain(self, workflow: Workflow, run: Run) -> list[str]:
        """Lines about what fails as it stands, whatever happens: no past is looked at, and no server's state."""
        graph, findings = await read(workflow, run.session, self._services)
        facts = self._collector.tools(graph, run.session)
        # Code on its own says itself what is wrong with it, and nothing has run by then.
        if len(list(graph.all_nodes())) > 1:
            facts.code_facts = await self._code_checks.of(graph, facts)
        made = _Examination(graph, findings, facts, self._services, self._schemas, self._collector).report()
        return [one.line() for one in made.findings if one.certain]


async def preflight(workflow: Workflow, run: Run, services: Services) -> Report:
    """Everything that can be told of ``workflow`` for the caller of ``run``, without reaching a server.

    For occasional use: what one pre-flight compiles, the next could have used again (:class:`Preflights`).
    """
    return await Preflights(services, Settings()).of(workflow, run)


class _Examination:
    """The examination of one plan."""

    def __init__(
        self,
        graph: PlanGraph,
        findings: list[Finding],
        facts: PlanFacts,
        services: Services,
        schemas: Schemas,
        collector: FactCollector,
    ) -> None:
        self._graph, self._facts, self._services, self._schemas = graph, facts, services, schemas
        self._outputs = Outputs(facts)
        self._findings = findings
        self._targets = Targets(facts, collector.near, self._findings)
        self._in_code = CodeFindings(facts, services.catalog, self._targets, self._findings)

    def report(self) -> Report:
        nodes = list(self._graph.all_nodes())
        estimated = estimate(self._graph, self._facts)
        steps = [self._step(node, estimated) for node in nodes]
        self._limits(estimated)
        return Report(
            steps=steps,
            findings=self._findings_in_order(nodes),
            critical_path=estimated.critical_path,
            duration_ms=estimated.duration_ms,
            cost_usd=estimated.cost_usd,
            unknown=estimated.unknown,
        )

    def _findings_in_order(self, nodes: list[PlanNode]) -> list[Finding]:
        rank = {node.path: i for i, node in enumerate(nodes)}
        each = {(one.code, one.task, one.at, one.message): one for one in self._findings}
        return sorted(each.values(), key=lambda one: rank.get(one.task, -1))

    def _step(self, node: PlanNode, estimated: Estimate) -> StepReport:
        task, times = node.task, estimated.steps.get(node.path)
        made = StepReport(path=node.path, type="tool", depends_on=node.depends_on, effects=NOTHING, reversible=True)
        made.known = node.known
        if not node.known:
            self._findings += self._outputs.findings(node)
        if isinstance(task, ToolCall):
            self._tool(node, task, made)
        elif isinstance(task, CodeRun):
            made.type, made.target, made.effects = "code", task.language, UNKNOWN
        elif isinstance(task, CapabilityRun):
            made.type, made.target, made.effects = "capability", task.capability_id, UNKNOWN
        elif isinstance(task, PluginTask):
            made.type, made.effects = task.type, UNKNOWN
        else:
            made.type = "workflow"
        if node.path in self._facts.code_facts:
            self._in_code.look(node, made)
        undo = task.step.compensate
        made.reversible = not made.effects.any or undo is not None
        if isinstance(undo, ToolCall) and not node.known:
            self._call(node, undo, node.undo, "compensate")
        if times is not None:
            made.duration_ms, made.cost_usd = times.duration_ms, times.cost_usd
            made.samples, made.times = times.samples, times.times
        return made

    def _tool(self, node: PlanNode, task: ToolCall, made: StepReport) -> None:
        entry = self._facts.entry(task.tool)
        made.target, made.effects = (task.tool if entry is None else entry.id), of_tool(entry)
        if not node.known:
            self._call(node, task, node.values, "arguments")
        if entry is not None and not entry.own:
            made.server, made.server_state = entry.server, state_of(entry.server, self._facts)[0]
            made.answer = self._answer(node, entry)

    def _answer(self, node: PlanNode, entry: CatalogEntry) -> str:
        """Where the answer of a rehearsal would come from."""
        if self._facts.answers.get(node.path):
            return "recorded"
        past = self._facts.recorded.get(entry.id)
        if past is not None and past.shown:
            return "example"
        if output_schema(entry) is not None:
            return "schema"
        return "inferred" if past is not None and past.result is not None else "placeholder"

    def _call(self, node: PlanNode, task: ToolCall, slots: Sequence[Slot], name: str) -> None:
        """One call: the tool, its server, its arguments."""
        found = self._facts.entries.get(task.tool)
        at = "" if name == "arguments" else name
        if found is None:
            self._findings.append(self._targets.missing(node, task.tool, at))
            return
        if found.id in self._facts.denied:
            self._findings.append(error("policy.denied", node.path, f"the tool {found.id!r} is not allowed here", at))
            return
        self._targets.server(node, found, at)
        scanned = scan(task.arguments, slots)
        if isinstance(scanned.value, dict):
            scanned, wrong = without_fixed(node.path, found, scanned, name)
            self._findings += wrong
            validator = self._schemas.of(found)
            given = lambda reference: self._outputs.given(reference, node)  # noqa: E731 - short and used once
            wrong = check(node.path, found, validator, scanned, given, name)
            judged = any(one.open for one in wrong) and required(self._services, STATIC_CHECKS).judges(found)
            self._findings += [replace(one, open=False) for one in wrong] if judged else wrong
            known = self._facts.notes.get(found.id)
            if known is not None and not wrong and known.is_mistake(scanned.value):
                message = f"calls of {found.id} {known.advice}"
                self._findings.append(warning("argument.failed_before", node.path, message, name))

    def _calls(self, most: int | None, estimated: Estimate) -> None:
        if most is None:
            return
        counted = [
            (estimated.steps[node.path].times, bool(node.task.step.when))
            for node in self._graph.all_nodes()
            if isinstance(node.task, ToolCall) and not node.known
        ]
        calls, certain = sum(times for times, _ in counted), sum(times for times, maybe in counted if not maybe)
        if calls > most:
            level, how = (error, "makes") if certain > most else (warning, "may make")
            message = f"the plan {how} {calls} tool calls, and max_tool_calls is {most}"
            self._findings.append(level("budget.tool_calls", "", message))

    def _limits(self, estimated: Estimate) -> None:
        """Budgets that the plan itself would exceed."""
        workflow = self._graph.workflow
        self._calls(workflow.max_tool_calls, estimated)
        limit_s, took_ms = workflow.timeout_s, estimated.duration_ms
        if limit_s is not None and took_ms is not None and took_ms > limit_s * 1000:
            message = f"the plan takes about {took_ms / 1000:.1f} s, and timeout_s is {limit_s:g}"
            self._findings.append(warning("budget.time", "", message))
        limit_usd, cost_usd = workflow.max_cost_usd, estimated.cost_usd
        if limit_usd is not None and cost_usd is not None and cost_usd > limit_usd:
            message = f"the plan costs about {cost_usd:g} USD, and max_cost_usd is {limit_usd:g}"
            self._findings.append(warning("budget.cost", "", message))
