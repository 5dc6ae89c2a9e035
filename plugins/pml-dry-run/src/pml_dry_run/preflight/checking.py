"""The pre-flight itself."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pml_hookspecs import CapabilityRun, CatalogEntry, CodeRun, ToolCall, ToolId, Workflow

from .arguments import Schemas, check
from .code import Call, Read, read, undefined, uses
from .effects import NOTHING, UNKNOWN, Effects, of_tool, worst
from .estimate import Estimate, estimate
from .facts import MOST_LOOKED_FOR, Facts, Looker, state_of
from .findings import Finding, error, warning
from .graph import Graph, Node
from .outputs import Outputs
from .references import Scanned
from .report import Report, StepReport

if TYPE_CHECKING:
    from pml_dry_run.recordings import Recordings
    from pml_hookspecs import Run, Services

NOT_A_NAME = re.compile(r"\W")


class Preflights:
    """Examines plans. Keeps compiled schemas and, for seconds, what calls took before."""

    def __init__(self, services: Services, recordings: Recordings, most_executions: int) -> None:
        self._services = services
        self._schemas = Schemas()
        self._looker = Looker(services, recordings, most_executions)

    async def of(self, workflow: Workflow, run: Run) -> Report:
        """Everything that can be told of a plan without running any of it."""
        begun = time.perf_counter()
        graph = Graph(workflow)
        facts = await self._looker.facts(graph, run.session)
        made = _Examination(graph, facts, self._services, self._schemas, self._looker).report()
        made.took_ms = (time.perf_counter() - begun) * 1000
        return made


async def preflight(workflow: Workflow, run: Run, services: Services) -> Report:
    """Everything that can be told of ``workflow`` for the caller of ``run``, without reaching a server.

    For occasional use: what one pre-flight compiles, the next could have used again (:class:`Preflights`).
    """
    from .plugin import recordings_for
    from .settings import Settings

    return await Preflights(services, recordings_for(services), Settings().executions).of(workflow, run)


class _Examination:
    """Of one plan."""

    def __init__(self, graph: Graph, facts: Facts, services: Services, schemas: Schemas, looker: Looker) -> None:
        self._graph, self._facts, self._catalog = graph, facts, services.catalog
        self._schemas, self._looker = schemas, looker
        self._outputs = Outputs(facts)
        self._findings: list[Finding] = list(graph.findings)
        self._unknown = 0
        self._names: Mapping[str, Mapping[str, CatalogEntry]] | None = None

    def report(self) -> Report:
        nodes = list(self._graph.nodes())
        estimated = estimate(self._graph.top, self._facts)
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

    def _findings_in_order(self, nodes: list[Node]) -> list[Finding]:
        rank = {node.path: i for i, node in enumerate(nodes)}
        each = {(one.code, one.task, one.at, one.message): one for one in self._findings}
        return sorted(each.values(), key=lambda one: rank.get(one.task, -1))

    def _step(self, node: Node, estimated: Estimate) -> StepReport:
        task, times = node.task, estimated.steps.get(node.path)
        made = StepReport(path=node.path, type="tool", needs=node.needs, effects=NOTHING, reversible=True)
        made.known = node.known
        if not node.known:
            self._findings += self._outputs.findings(node)
        if isinstance(task, ToolCall):
            self._tool(node, task, made)
        elif isinstance(task, CodeRun):
            made.type, made.target = "code", task.language
            self._code(node, task, made)
        elif isinstance(task, CapabilityRun):
            made.type, made.target, made.effects = "capability", task.capability_id, UNKNOWN
            if task.source:
                self._syntax(node, read(task.language, task.source), made)
        else:
            made.type = "workflow"
        undo = task.step.compensate
        made.reversible = not made.effects.any or undo is not None
        if isinstance(undo, ToolCall) and not node.known:
            self._call(node, undo, node.undo, "compensate")
        made.approval = "the plan says so" if task.step.approve else ""
        if times is not None:
            made.duration_ms, made.cost_usd = times.duration_ms, times.cost_usd
            made.samples, made.times = times.samples, times.times
        return made

    def _tool(self, node: Node, task: ToolCall, made: StepReport) -> None:
        entry = self._facts.entry(task.tool)
        made.target, made.effects = (task.tool if entry is None else entry.id), of_tool(entry)
        if not node.known:
            self._call(node, task, node.values, "arguments")
        if entry is not None and not entry.own:
            made.server, made.server_state = entry.server, state_of(entry.server, self._facts)[0]
            made.answer = self._answer(node, entry)

    def _answer(self, node: Node, entry: CatalogEntry) -> str:
        """Where the answer of a rehearsal would come from."""
        if self._facts.answers.get(node.path):
            return "recorded"
        past = self._facts.recorded.get(entry.id)
        if past is not None and any(not one.redacted for one in past.successes):
            return "example"
        if isinstance(entry.definition.get("outputSchema"), Mapping):
            return "schema"
        return "inferred" if past is not None and past.shape is not None else "placeholder"

    def _call(self, node: Node, task: ToolCall, scanned: Scanned, name: str) -> None:
        """One call: the tool, its server, its arguments."""
        found = self._facts.entries.get(task.tool)
        at = "" if name == "arguments" else name
        if found is None:
            self._findings.append(self._missing(node, task.tool, at))
            return
        if found.id in self._facts.denied:
            self._findings.append(error("policy.denied", node.path, f"the tool {found.id!r} is not allowed here", at))
            return
        self._server(node, found, at)
        if isinstance(scanned.value, dict):
            validator = self._schemas.of(found)
            given = lambda reference: self._outputs.given(reference, node)  # noqa: E731 - short and used once
            self._findings += check(node.path, found, validator, scanned, given, name)

    def _server(self, node: Node, entry: CatalogEntry, at: str) -> None:
        state, reason = state_of(entry.server, self._facts)
        if state in ("up", "idle") or entry.own:
            return
        why = f": {reason}" if reason else ""
        level = warning if state == "starting" else error
        message = f"the server {entry.server!r} is {state}{why}"
        self._findings.append(level("server.unavailable", node.path, message, at, server=entry.server, state=state))

    def _missing(self, node: Node, name: str, at: str, where: str = "") -> Finding:
        server = name.partition(":")[0] if ":" in name else name.partition("__")[0]
        status = self._facts.servers.get(server)
        if status is not None and status.state not in ("up", "idle"):
            why = f": {status.reason}" if status.reason else ""
            message = f"the tool {name!r} is not known, and the server {server!r} is {status.state}{why}{where}"
            level = warning if status.state == "starting" else error
            return level("server.unavailable", node.path, message, at, server=server, state=status.state)
        self._unknown += 1
        near = self._looker.near.names(name, self._facts.session) if self._unknown <= MOST_LOOKED_FOR else []
        hint = f"; did you mean {' or '.join(near)}?" if near else "; find tools with search_tools"
        message = f"no tool is called {name!r}{where}{hint}"
        return error("tool.unknown", node.path, message, at, tool=name, nearest=near)

    def _code(self, node: Node, task: CodeRun, made: StepReport) -> None:
        found = read(task.language, task.source)
        self._syntax(node, found, made)
        made.effects = UNKNOWN
        if found.problem:
            return
        entries = [self._called(node, call) for call in found.calls]
        known = [entry for entry in entries if entry is not None]
        made.calls = tuple(dict.fromkeys(entry.id for entry in known))
        if not found.reaches and len(known) == len(entries) and made.checked == "parsed":
            made.effects = worst([of_tool(entry) for entry in known])
        elif task.tools == ():
            made.effects = NOTHING
        if task.folder is not None:
            made.effects = worst([made.effects, Effects(what="destroys")])
        given = {*task.inputs, *node.needs, *node.scope.beyond}
        others = {id_ for id_ in node.scope.nodes if id_ not in given and id_ != task.id}
        for id_ in uses(found, others):
            message = f"the code reads {id_!r}, and does not depend on the task of that name; add it to depends_on"
            self._findings.append(warning("plan.missing_need", node.path, message, "code"))
        for name in undefined(found, {*given, *others}):
            message = f"nothing in the code, its inputs or its dependencies is called {name!r}"
            self._findings.append(warning("code.undefined", node.path, message, "code"))

    def _syntax(self, node: Node, found: Read, made: StepReport) -> None:
        made.checked = found.checked
        if found.problem:
            language = getattr(node.task, "language", "code")
            self._findings.append(error("code.syntax", node.path, f"is no {language}: {found.problem}", "code"))

    def _called(self, node: Node, call: Call) -> CatalogEntry | None:
        """The tool that code names; what is wrong with the call is noted."""
        entry = self._named(call)
        where = f" (line {call.line} of the code)"
        name = f"{call.server}:{call.tool}" if call.server else call.tool
        if entry is None:
            if (found := self._catalog.resolve(name)) is not None:
                message = f"the tool {found.id!r} is not allowed here{where}"
                self._findings.append(error("policy.denied", node.path, message, "code"))
            else:
                self._findings.append(self._missing(node, name, "code", where))
            return None
        self._server(node, entry, "code")
        if call.arguments is not None:
            self._keywords(node, call, entry, where)
        return entry

    def _keywords(self, node: Node, call: Call, entry: CatalogEntry, where: str) -> None:
        """Arguments that code gives by name, against the names that the tool knows."""
        schema = entry.definition.get("inputSchema")
        given = call.arguments or frozenset()
        if not isinstance(schema, Mapping) or {"allOf", "anyOf", "oneOf", "$ref"} & schema.keys():
            return
        named = schema.get("properties", {})
        for name in schema.get("required", ()):
            if name not in given:
                message = f"{entry.id}: {name!r} is missing{where}"
                self._findings.append(error("code.type", node.path, message, "code"))
        if schema.get("additionalProperties") is False and "patternProperties" not in schema:
            for name in sorted(given - set(named)):
                message = f"{entry.id}: {name!r} is no argument of it{where}"
                self._findings.append(error("code.type", node.path, message, "code"))

    def _named(self, call: Call) -> CatalogEntry | None:
        """The tool that code means; names may be spelt with identifiers."""
        if not call.server:
            found = self._catalog.resolve(call.tool)
        else:
            found = self._catalog.get(ToolId(f"{call.server}:{call.tool}")) or self._by_identifier(call)
        allowed = found is not None and self._catalog.allows(found, self._facts.session)
        return found if allowed else None

    def _by_identifier(self, call: Call) -> CatalogEntry | None:
        if self._names is None:
            names: dict[str, dict[str, CatalogEntry]] = {}
            for entry in self._catalog:
                names.setdefault(NOT_A_NAME.sub("_", entry.server), {})[NOT_A_NAME.sub("_", entry.name)] = entry
            self._names = names
        return self._names.get(call.server, {}).get(call.tool)

    def _calls(self, most: int | None, estimated: Estimate) -> None:
        if most is None:
            return
        counted = [
            (estimated.steps[node.path].times, bool(node.task.step.when))
            for node in self._graph.nodes()
            if isinstance(node.task, ToolCall) and not node.known
        ]
        calls, certain = sum(times for times, _ in counted), sum(times for times, maybe in counted if not maybe)
        if calls > most:
            level, how = (error, "makes") if certain > most else (warning, "may make")
            message = f"the plan {how} {calls} tool calls, and max_tool_calls is {most}"
            self._findings.append(level("budget.tool_calls", "", message))

    def _limits(self, estimated: Estimate) -> None:
        """Budgets that the plan itself would exceed."""
        workflow = self._graph.top.workflow
        self._calls(workflow.max_tool_calls, estimated)
        limit_s, took_ms = workflow.timeout_s, estimated.duration_ms
        if limit_s is not None and took_ms is not None and took_ms > limit_s * 1000:
            message = f"the plan takes about {took_ms / 1000:.1f} s, and timeout_s is {limit_s:g}"
            self._findings.append(warning("budget.time", "", message))
        limit_usd, cost_usd = workflow.max_cost_usd, estimated.cost_usd
        if limit_usd is not None and cost_usd is not None and cost_usd > limit_usd:
            message = f"the plan costs about {cost_usd:g} USD, and max_cost_usd is {limit_usd:g}"
            self._findings.append(warning("budget.cost", "", message))
