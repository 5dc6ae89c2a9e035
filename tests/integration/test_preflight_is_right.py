"""A thousand plans made by chance, looked at by the pre-flight and run by the executor, with servers that are none.

What the pre-flight calls an error fails for real, before anything has an effect. What it passes does not fail for a
reason that it could have known.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter

import jsonschema_rs
import pytest

from pml_executor_dag import Dag, tool
from pml_hookspecs import Failure, ServerStatus, Status, ToolCall, Workflow, replace
from pml_preflight import plugin
from pml_preflight.examination import Preflights
from pml_preflight.settings import Settings
from pml_testing.fakes import FakeCatalog, FakeRun, FakeServices, entry, outcome

pytestmark = pytest.mark.anyio
SEED = int(os.environ.get("PML_PLANS_SEED", "20261126"))
PLANS = 1200
TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


def closed(required=(), **members):
    return {"type": "object", "properties": members, "required": list(required), "additionalProperties": False}


ITEM = closed(["id", "n"], id=TEXT, n=WHOLE, tag=TEXT)
TOOLS = {
    "s:list": (closed(), closed(["items", "total"], items={"type": "array", "items": ITEM}, total=WHOLE)),
    "s:get": (closed(["id"], id=TEXT), closed(["id", "n", "in"], id=TEXT, n=WHOLE, **{"in": closed(["x"], x=WHOLE)})),
    "s:make": (
        closed(["title"], title=TEXT, n={"type": "integer", "minimum": 0}, labels={"type": "array", "items": TEXT}),
        closed(["id"], id=TEXT, note=TEXT),
    ),
    "s:drop": (closed(["id"], id=TEXT, kind={"enum": ["soft", "hard"]}), closed(["ok"], ok={"type": "boolean"})),
    "s:raw": ({"type": "object"}, None),
    "s:fail": ({"type": "object"}, None),
}
PATHS = {
    "s:list": ["total", "items", "items[0].id", "items[1].n", "items[0].tag"],
    "s:get": ["id", "n", "in.x", "in"],
    "s:make": ["id", "note"],
    "s:drop": ["ok"],
    "s:raw": ["some.thing", "any"],
    "s:fail": ["any"],
}
GOOD = {"id": "a1", "title": "T", "n": 3, "labels": ["x"], "kind": "soft"}
WRONG = {"id": {"no": 1}, "title": ["no"], "n": -4, "labels": {"no": 1}, "kind": "other"}
LATER = frozenset({"arguments.invalid", "condition.failed", "for_each.no_array", "reference.missing"})
"""Codes of failures that the pre-flight could know, where it knows what is handed on."""
NEVER = frozenset({"tool.unknown", "workflow.invalid", "reference.unreadable"})
CODE = re.compile(r"\(([a-z_]+\.[a-z_]+): ")


class Planner:
    """Makes plans by chance."""

    def __init__(self, chance):
        self.chance = chance

    def often(self, part):
        return self.chance.random() < part

    def plan(self, most=6, *, depth=0, each=False):
        tasks, before = [], []
        for i in range(self.chance.randint(1, most)):
            task = self.inner(i) if depth < 2 and self.often(0.08) else self.call(f"t{i}", before, each=each)
            if self.often(0.15) and before:
                task["depends_on"] = [self.chance.choice(before)["id"]]
            tasks.append(task)
            before.append(task)
        self.spoil(tasks)
        return {"tasks": tasks}

    def spoil(self, tasks):
        one = self.chance.choice(tasks)
        if self.often(0.03):
            one["id"] = tasks[0]["id"]
        if self.often(0.03):
            tasks[0]["depends_on"] = [tasks[-1]["id"]]
        if self.often(0.03):
            one["depends_on"] = ["nobody"]

    def inner(self, i):
        each = self.often(0.5)
        task = {"id": f"w{i}", "type": "workflow", **self.plan(3, depth=1, each=each)}
        return task | ({"for_each": [{"id": "p", "n": 1}, {"id": "q", "n": 2}]} if each else {})

    def call(self, id_, before, *, each):
        tool_ = self.chance.choice(list(TOOLS)[:5] if self.often(0.93) else ["s:fail", "s:nothing", "t:none"])
        task = {"id": id_, "tool": tool_}
        if self.often(0.15):
            each = True
            feeds = [one["id"] for one in before if one.get("tool") == "s:list" and "for_each" not in one]
            task["for_each"] = (
                f"{{{{{self.chance.choice(feeds)}.items}}}}" if feeds else [{"id": "a", "n": 1}, {"id": "b", "n": 2}]
            )
            if before and self.often(0.1):
                task["for_each"] = f"{{{{{self.reference(before)}}}}}"
        task["arguments"] = self.arguments(tool_, before, each=each)
        if before and self.often(0.15):
            task["when"] = self.condition(before)
        if self.often(0.15):
            task["on_error"] = self.chance.choice(["continue", "skip"])
        if tool_ == "s:make" and self.often(0.3):
            path = "id" if self.often(0.9) else "idd"
            task["compensate"] = {"tool": "s:drop", "arguments": {"id": f"{{{{{id_}.{path}}}}}"}}
        return task

    def condition(self, before):
        other = self.chance.choice(before)["id"]
        status = self.chance.choice(before)["id"]
        return self.chance.choice(
            [f"{other}.total > `0`", f"{other}", f"{other}.{status} == 'x'", f"!{other}.ok"]
            + ([f"{other}x.total", f"{other} ="] if self.often(0.15) else [])
        )

    def arguments(self, tool_, before, *, each):
        if tool_ not in TOOLS or tool_ in ("s:raw", "s:fail"):
            return {"v": self.text(before, each=each)} if self.often(0.7) else {}
        schema = TOOLS[tool_][0]
        names = [name for name in schema["properties"] if name in schema["required"] or self.often(0.3)]
        made = {name: self.value(name, before, each=each) for name in names}
        if made and self.often(0.04):
            made.pop(self.chance.choice(list(made)))
        if self.often(0.03):
            made["nonsense"] = 1
        return made

    def value(self, name, before, *, each):
        if self.often(0.06):
            return WRONG[name]
        if each and self.often(0.4):
            fits = {"id": "id", "title": "id", "n": "n"}.get(name, "id")
            return f"{{{{item.{fits if self.often(0.9) else 'nope'}}}}}"
        if before and self.often(0.5):
            return f"{{{{{self.reference(before)}}}}}" if self.often(0.7) else self.text(before, each=each)
        return GOOD[name]

    def text(self, before, *, each):
        if not before:
            return "plain \\{{braces}}"
        odd = ["${%s.result.id}", "{{ %s", "see $%s.result", "{{%s} }"]
        shown = self.chance.choice(before)["id"]
        return self.chance.choice(odd) % shown if self.often(0.05) else f"of {{{{{self.reference(before)}}}}}!"

    def reference(self, before):
        if self.often(0.03):
            return self.chance.choice(["nobody.id", "item.id", "t99"])
        other = self.chance.choice(before)
        paths = PATHS.get(other.get("tool"), ["status", "tasks"])
        path = self.chance.choice(paths) if self.often(0.93) else f"{self.chance.choice(paths)}x"
        if "for_each" in other:
            path = f"[0].{path}"
            return f"{other['id']}{path}"
        return other["id"] if self.often(0.08) else f"{other['id']}.{path}"


class World:
    """The executor, with a server that judges arguments by its schemas and answers by them."""

    def __init__(self, chance):
        self.chance, self.calls = chance, []
        entries = [entry(id_, input_schema=given, outputSchema=gives) if gives else entry(id_, input_schema=given)
                   for id_, (given, gives) in TOOLS.items()]  # fmt: skip
        self.catalog = FakeCatalog(entries, [ServerStatus(name="s", state="up", tools=len(entries))])
        self.judges = {id_: jsonschema_rs.validator_for(given) for id_, (given, _) in TOOLS.items()}
        self.services = Services(catalog=self.catalog)
        # As where the gateway refuses what does not fit, and asks no server.
        self.services.judging = set(TOOLS)
        self.examiner = Preflights(self.services, Settings())

    async def report(self, workflow):
        return await self.examiner.of(workflow, FakeRun(dry_run=True))

    async def ended(self, workflow, *, preflight):
        """How the plan ends for real."""
        self.calls, run = [], FakeRun(self.dispatched)
        if not preflight:
            return await Dag().execute(workflow, run)
        (wrapper,) = plugin.pml_wrap_executor(self.services)
        return await wrapper(workflow, run, Dag().execute)

    async def dispatched(self, task, run):
        if isinstance(task, Workflow):
            return await Dag().execute(task, FakeRun(self.dispatched, parent=run.id))
        assert isinstance(task, ToolCall)
        if task.tool not in TOOLS:
            return self.failed(task, "tool.unknown")
        if not self.judges[task.tool].is_valid(json.loads(json.dumps(task.arguments))):
            return self.failed(task, "arguments.invalid")
        self.calls.append(task.tool)
        if task.tool == "s:fail":
            return self.failed(task, "tool.failed")
        return outcome(task.id, {"content": [], "structuredContent": self.answer(task.tool)})

    def failed(self, task, code):
        return outcome(task.id, None, Status.ERROR, failure=Failure(code, "no"))

    def answer(self, tool_):
        tag = {"tag": "t"} if self.chance.random() < 0.5 else {}
        items = [{"id": f"i{n}", "n": n, **tag} for n in range(self.chance.randint(0, 3))]
        note = {"note": "x"} if tag else {}
        return {
            "s:list": {"items": items, "total": len(items)},
            "s:get": {"id": "g", "n": 1, "in": {"x": 2}},
            "s:make": {"id": "m", **note},
            "s:drop": {"ok": bool(tag)},
        }.get(tool_, {"some": {"thing": 1}})


class Services(FakeServices):
    """Plans are read by the executor that runs them."""

    async def check(self, task, session, *, within_s):
        return await Dag().check(task, session, within_s=within_s)


def nodes_of(graph):
    return {node.path: node for node in graph.all_nodes()}


def above(node):
    while node is not None:
        yield node
        node = node.graph.above


def needs_of(node):
    """What a task waits for, and what that waits for; also what a workflow does that it is in."""
    found, left = {}, [node]
    while left:
        one = left.pop()
        for holder in above(one):
            for id_ in holder.depends_on:
                need = holder.graph.nodes[id_]
                if need.path not in found:
                    found[need.path] = need
                    left.append(need)
    return list(found.values())


def surely_runs(node):
    """Whether it is run, or something that it needs makes the plan fail."""
    return all(
        not one.task.step.when and one.task.step.for_each is None and one.task.step.on_error == "fail"
        for one in (*above(node), *needs_of(node))
    )


def is_known(node):
    """Whether everything is declared that is handed on to a task, and nothing of it can be missing."""
    if any(one.task.step.on_error != "fail" or one.task.step.when for one in needs_of(node)):
        return False  # null is handed on
    for one in above(node):
        if any(isinstance(key, int) for reference in one.references() for key in reference.path):
            return False  # lists may be shorter
        if any(slot.path == ("kind",) and slot.whole for slot in one.values):
            return False  # any text may be one of several
        sources = [
            one.graph.nodes[reference.task] for reference in one.references() if reference.task in one.graph.nodes
        ]
        if any(not isinstance(source.task, ToolCall) or TOOLS[source.task.tool][1] is None for source in sources):
            return False
    return True


def failures(output, path=""):
    """``(path, code)`` of every task that failed; of items by the message, as those of plans have no report."""
    for told in output.get("tasks", ()):
        here, plan = f"{path}{told['id']}", told.get("type") == "workflow"
        if "error" in told:
            code = told["error"]["code"]
            items = CODE.findall(told["error"]["message"]) if code == "items.failed" else []
            yield from ((here, code) for code in {code, *items})
        if plan and isinstance(told.get("result"), dict):
            yield from failures(told["result"], f"{here}/")


def unexplained(report, nodes, output):
    """A failure that was to be known before; ``""`` without one."""
    told = {one.task for one in report.findings}
    for path, code in failures(output):
        within = [node for at, node in nodes.items() if f"{at}/".startswith(f"{path}/")]
        tools = {node.task.tool for node in within if isinstance(node.task, ToolCall)}
        if code in NEVER or (code == "tool.failed" and "s:fail" not in tools):
            return f"passed, and {path} failed with {code}"
        around = [*within, *above(nodes[path])]
        if code in LATER and not any(one.path in told for one in around) and all(is_known(one) for one in within):
            return f"passed, and {path} failed with {code}, which what is declared tells"
    return ""


async def checked(world, plan, counted):
    """What is not as it is to be with one plan; ``""`` for nothing."""
    workflow = tool.workflow_from({"workflow": plan, "dry_run": True})
    if workflow.mistakes:
        return ""  # no plan at all
    workflow = replace(workflow, dry_run=False)
    report = await world.report(workflow)
    verdict = await Dag().check(workflow, FakeRun().session, within_s=1)
    nodes = nodes_of(verdict.plan)
    held = await world.ended(workflow, preflight=True)
    if report.errors:
        counted["with errors"] += 1
        if held.status is Status.OK or held.failure.code != "workflow.invalid" or world.calls:
            return f"called an error, and ran: {held.failure}, {world.calls}"
        free = await world.ended(workflow, preflight=False)
        sure = [one for one in report.errors if not one.at.startswith("compensate") and surely_runs(nodes[one.task])]
        counted["that fail without a pre-flight"] += bool(sure)
        return f"called an error, and ends well: {sure}" if sure and free.status is Status.OK else ""
    counted["passed"] += 1
    counted["that fail all the same"] += held.status is not Status.OK
    if held.output is None:
        return f"passed, and refused: {held.failure}"
    return unexplained(report, nodes, held.output)


async def test_what_is_called_an_error_fails_before_any_effect_and_what_passes_fails_for_nothing_that_is_known():
    chance = random.Random(SEED)
    planner, counted = Planner(chance), Counter()
    for number in range(PLANS):
        plan = planner.plan()
        wrong = await checked(World(random.Random(SEED + number)), plan, counted)
        assert not wrong, f"PML_PLANS_SEED={SEED}, plan {number}: {wrong}\n{json.dumps(plan)}"
    # The generator has to bring forth enough of each kind.
    assert sum(counted[name] for name in ("with errors", "passed")) >= 1000, counted
    assert min(counted.values()) >= PLANS // 20, counted
