"""References find in a rehearsal what they find in the real run, and the reverse: compared with it, by chance."""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from contextlib import contextmanager

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pml_dry_run.plugin
import pml_executor_dag.tool
from pml_capabilities import Capabilities
from pml_capabilities import plugin as capabilities
from pml_executor_dag import Dag
from pml_hookspecs import CodeRun, MetaTool, hookimpl
from pml_sandbox_monty import Monty
from pml_store_sqlite import SqliteStore
from pml_testing.gateway import Client, ScriptedServer, running, value_of

NAMES = st.sampled_from(
    ["id", "title", "result", "output", "content", "tasks", "status", "simulated", "arguments", "0"]
)
LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "x", "7", '{"id": 1}', "null"])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=3)
PATHS = st.lists(NAMES.map(lambda name: f".{name}") | st.sampled_from(["[0]", "[1]"]), max_size=3).map("".join)
ANY = {"type": "object"}
ISSUE = {
    "id": {"type": "integer"},
    "title": {"type": "string"},
    "by": {"anyOf": [{"type": "string"}, {"type": "null"}]},
}
DECLARED = {
    "type": "object",
    "properties": {
        **ISSUE,
        "items": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "object", "properties": ISSUE, "required": list(ISSUE), "additionalProperties": False},
        },
    },
    "required": [*ISSUE, "items"],
    "additionalProperties": False,
}


def text(value):
    return {"type": "text", "text": value}


def spelled(value):
    return text(json.dumps(value))


RESULTS = st.one_of(
    OBJECTS.map(lambda value: {"content": [spelled(value)], "structuredContent": value}),
    OBJECTS.map(lambda value: {"content": [], "structuredContent": value}),
    VALUES.map(lambda value: {"content": [spelled(value)]}),
    st.sampled_from(["plain", "Created 7", ""]).map(lambda said: {"content": [text(said)]}),
    VALUES.map(lambda value: {"content": [text("Found:"), spelled(value)]}),
    st.just({"content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}]}),
    st.just({"content": []}),
)


def code(given):
    return CodeRun(id="code", language="python", source=given["source"])


class OwnTools:
    """Tools as agents, notebooks and capabilities are: answered in the gateway, or standing for a piece of code."""

    def __init__(self, answers):
        self._answers = answers

    async def _said(self, arguments, _run):
        return self._answers[arguments["number"]]

    @hookimpl
    def pml_meta_tools(self, services):
        services.publish("agents", [MetaTool(definition={"name": "ask", "inputSchema": ANY}, call=self._said)])
        return [MetaTool(definition={"name": "run_code", "inputSchema": ANY}, task=code)]


class Rig:
    """One gateway for all plans."""

    def __init__(self, folder):
        self.answers = {}
        """What tools answer, by the number that they are called with: whatever was drawn since."""
        self.own = OwnTools(self.answers)
        declared = {"name": "declared", "inputSchema": ANY, "outputSchema": DECLARED}
        self.server = ScriptedServer(["give", "take", declared], self._answer)
        self.folder = folder

    async def _answer(self, name, arguments):
        return self.answers[arguments["number"]] if name != "take" else {"content": [], "structuredContent": arguments}

    @contextmanager
    def running(self):
        plugins = {
            ("executor", "dag"): Dag,
            ("executor", "monty"): Monty,
            ("executor", "capabilities"): Capabilities,
            ("hooks", "capabilities"): capabilities,
            ("hooks", "workflow_tool"): pml_executor_dag.tool,
            ("hooks", "dry_run"): pml_dry_run.plugin,
            ("hooks", "own"): self.own,
            ("store", "sqlite"): SqliteStore,
        }
        tables = {
            "sqlite": {"path": str(self.folder / "pml.db")},
            "dry_run": {"per_second": 1e6, "cpu_share": 1.0, "max_per_tool": 1000},
        }
        with asyncio.Runner() as runner:
            started = running({"s": self.server}, plugins=plugins, tables=tables, store="sqlite")
            gateway = runner.run(started.__aenter__())
            client = Client(gateway)
            runner.run(client.initialize())
            self.call = lambda *given, **params: runner.run(client.call(*given, **params))
            try:
                yield lambda tasks, **how: runner.run(self._report(client, tasks, **how))
            finally:
                runner.run(started.__aexit__(None, None, None))

    async def _report(self, client, tasks, **how):
        return value_of(await client.call("execute_workflow", {"workflow": {"tasks": tasks}, **how}))


def found(report):
    """What the reference found: a value, None for nothing, or ``...`` where the rehearsal says that it cannot know."""
    tasks = {task["id"]: task for task in report["tasks"]}
    assert tasks["a"]["status"] in ("ok", "simulated"), tasks["a"]
    last = tasks["b"]
    if "error" in last:
        assert last["error"]["code"] == "reference.missing", last
        return None
    if any("simulated" in warning for warning in last.get("warnings", ())):
        return ...
    # A tool of the test's making repeats what it was given.
    return timeless(last["arguments"] if "simulated" in last else last["result"])


def is_guess(report):
    """Whether what is shown of ``a`` is labelled as what another call answered: this one may answer anything."""
    (first,) = [task for task in report["tasks"] if task["id"] == "a"]
    return re.search(r'"source": "(example|inferred)"', json.dumps(first)) is not None


def timeless(value):
    """JSON text without the times that reports of workflows have."""
    return re.sub(r'"duration_ms": \d+', "", json.dumps(value))


class Kinds:
    """Tasks of every kind that give ``value`` or a ``result`` with it."""

    def __init__(self, rig, number):
        self._rig, self._number = rig, number

    def tool(self, result):
        self._rig.answers[self._number] = result
        return {"tool": "s:give", "arguments": {"number": self._number}}

    def own(self, value):
        self._rig.answers[self._number] = value
        return {"tool": "agents:ask", "arguments": {"number": self._number}}

    def code(self, value):
        return {"type": "code_execution", "language": "python", "code": f"return {value!r} # {self._number}"}

    def stands_for_code(self, value):
        return {"tool": "pml:run_code", "arguments": {"source": f"return {value!r} # {self._number}"}}

    def capability(self, value):
        source = f"return {value!r} # {self._number}"
        return {"type": "capability", "capability_id": "mine", "code": source, "language": "python"}


@st.composite
def tasks(draw, rig):
    """A task ``a`` of any kind, alone, in a loop, in a workflow, or in one in a loop."""
    kind = draw(st.sampled_from(["tool", "own", "code", "stands_for_code", "capability"]))
    value = draw(RESULTS if kind == "tool" else OBJECTS if kind == "own" else VALUES)
    # The same call is always answered alike.
    number = zlib.crc32(f"{kind} {value!r}".encode())
    task = getattr(Kinds(rig, number), kind)(value)
    around = draw(st.sampled_from(["alone", "loop", "workflow", "loop of workflows"]))
    if "workflow" in around:
        task = {"type": "workflow", "tasks": [{"id": "in", **task}]}
    if "loop" in around:
        task["for_each"] = [1, 2]
    start = draw(st.sampled_from({
        "alone": [""], "loop": ["", "[0]", "[2]"], "workflow": ["", ".tasks[0]", ".tasks[0].result", ".status"],
        "loop of workflows": ["", "[1]", "[1].tasks[0].result", "[1].tasks[0]"],
    }[around]))  # fmt: skip
    return [{"id": "a", **task}, {"id": "b", "tool": "s:take", "arguments": {"x": f"{{{{a{start}{draw(PATHS)}}}}}"}}]


LENIENT = settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))


def test_references_find_the_same_in_a_rehearsal_and_in_the_real_run(tmp_path):
    rig = Rig(tmp_path)
    seen = {"the same": 0, "nothing in both": 0, "not known before it ran": 0}
    with rig.running() as report:

        @LENIENT
        @given(plan=tasks(rig))
        def compare(plan):
            rehearsed = report(plan, dry_run=True)
            before = ... if is_guess(rehearsed) else found(rehearsed)
            real = found(report(plan))
            after = found(report(plan, dry_run=True))
            assert before is ... or (before is None) == (real is None), (before, real)
            # A rehearsal that finds nothing cannot know that there will be nothing, and says that.
            assert after == (... if real is None else real)
            seen["not known before it ran"] += before is ...
            seen["nothing in both"] += real is None
            seen["the same"] += real is not None

        compare()
    assert min(seen.values()) > 0, seen


ISSUES = st.fixed_dictionaries(
    {"id": st.integers(1, 9), "title": st.text(max_size=3), "by": st.none() | st.just("ada")}
)
STEPS = st.sampled_from([".id", ".title", ".by", ".items", "[0]", ".label"])


def test_what_a_schema_promises_is_found_before_anything_ran(tmp_path):
    rig = Rig(tmp_path)
    with rig.running() as report:

        @settings(LENIENT, max_examples=80)
        @given(
            path=st.lists(STEPS, max_size=3).map("".join),
            issue=ISSUES,
            items=st.lists(ISSUES, min_size=1, max_size=2),
            number=st.integers(0, 10**12),
        )
        def compare(path, issue, items, number):
            value = {**issue, "items": items}
            rig.answers[number] = {"content": [spelled(value)], "structuredContent": value}
            plan = [
                {"id": "a", "tool": "s:declared", "arguments": {"number": number}},
                {"id": "b", "tool": "s:take", "arguments": {"x": f"{{{{a{path}}}}}"}},
            ]
            before, real = found(report(plan, dry_run=True)), found(report(plan))
            assert (before is ...) == (real is None), (before, real)

        compare()


def test_the_label_of_code_stands_beside_what_it_returns_in_the_answer_to_a_client(tmp_path):
    rig = Rig(tmp_path)
    given = {"source": "return {'total': 7}"}
    with rig.running():
        rehearsal = {"_meta": {"pml/dry_run": True}}
        before = rig.call("run_code", given, **rehearsal)
        real = rig.call("run_code", given)
        after = rig.call("run_code", given, **rehearsal)
    assert before["_meta"]["pml/simulated"]["source"] == "placeholder"
    assert after.pop("_meta")["pml/simulated"]["source"] == "recorded"
    assert after == real
    assert value_of(real) == {"total": 7}
