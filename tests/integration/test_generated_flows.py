"""Generated plans against a reference that knows nothing of origins: every result has a token that is like no other.

Where a token arrives tells what has flowed. With the policy off, plans show what would flow; with it on, nothing of
that may arrive.
"""

from __future__ import annotations

import json
import random
import re

import pytest

import pml_code_mode.plugin
import pml_dry_run.plugin
import pml_executor_dag.tool
import pml_flows.plugin
import pml_results.plugin
import pml_search_tools.plugin
from pml_capabilities import Capabilities
from pml_executor_dag import Dag
from pml_sandbox_cpython import CPython
from pml_sandbox_deno import Deno
from pml_sandbox_monty import Monty
from pml_testing.gateway import Client, ScriptedServer, running, value_of

pytestmark = pytest.mark.anyio
WORDS = {"web": "untrusted", "chat": "strangers", "files": "trusted", "mail": "trusted"}
STRINGS = {"type": "string"}
PLANS = 60
TOKEN = re.compile(r"tok-(\w+?)-\d+-end")
ENGINES = {"deno": ("typescript", Deno), "monty": ("python", Monty), "cpython": ("python", CPython)}


class World:
    """Four servers: each answers with a new token of its own and all that it was given, and can send."""

    def __init__(self):
        self.count = 0
        self.arrived = []
        """Server, tool and arguments of all calls that send or delete."""
        self.servers = {name: self._server(name) for name in WORDS}

    def _server(self, name):
        def definition(tool, *arguments, **hints):
            schema = {"type": "object", "properties": dict.fromkeys(arguments, STRINGS)}
            return {"name": tool, "inputSchema": schema, "annotations": hints}

        async def answer(tool, arguments):
            if tool in ("send", "delete"):
                self.arrived.append((name, tool, arguments))
            self.count += 1
            given = "".join(dict.fromkeys(found[0] for found in TOKEN.finditer(json.dumps(arguments))))
            token = f"tok-{name}-{self.count}-end{given}"
            said = {"value": token, "list": [{"v": token}], "flag": True, "echo": token + json.dumps(arguments)}
            return {"content": [{"type": "text", "text": json.dumps(said)}], "structuredContent": said}

        tools = [
            definition("read", "text", readOnlyHint=True, openWorldHint=False),
            definition("send", "to", "body", destructiveHint=False),
            definition("delete", "what", destructiveHint=True),
        ]
        return ScriptedServer(tools, answer)

    def leaks(self):
        """Calls into whose addresses a token of an untrusted server came, and of which servers."""
        found = []
        for server, tool, arguments in self.arrived:
            text = str(arguments.get("to" if tool == "send" else "what"))
            foreign = {
                one for one in TOKEN.findall(text) if WORDS[one] != "trusted" and (one != server or one == "chat")
            }
            if foreign:
                found.append((server, tool, foreign))
        return found


def plugins(*engines):
    return {
        ("executor", "dag"): Dag,
        ("executor", "capabilities"): Capabilities,
        **{("executor", name): ENGINES[name][1] for name in engines},
        ("hooks", "workflow_tool"): pml_executor_dag.tool,
        ("hooks", "search_tools"): pml_search_tools.plugin,
        ("hooks", "code_mode"): pml_code_mode.plugin,
        ("hooks", "dry_run"): pml_dry_run.plugin,
        ("hooks", "results"): pml_results.plugin,
        ("guards", "flows"): pml_flows.plugin,
    }


def gateway(world, action, *engines, results=None):
    tables = {"flows": {"action": action}, "results": results or {}}
    named = {"executors": {"code.python": "cpython"}} if "cpython" in engines else {}
    return running(world.servers, plugins=plugins(*engines), tables=tables, words=WORDS, **named)


async def connected(started):
    client = Client(started)
    await client.initialize()
    return client


class Plans:
    """Draws plans."""

    def __init__(self, seed, language=""):
        self.random, self.language = random.Random(seed), language

    def plan(self):
        tasks, known = [], []
        for number in range(self.random.randint(3, 7)):
            task = self.task(f"t{number}", known)
            tasks.append(task)
            if task.get("tool", "").endswith(":read") or task.get("type") == "code_execution":
                known.append(task["id"])
        return tasks

    def value(self, known):
        """A literal, or a text or a value with references."""
        if not known or self.random.random() < 0.25:
            return self.random.choice(["boss@example.com", "a/b.txt", ""])
        task, step = self.random.choice(known), self.random.choice(["", ".value", ".list[0].v", ".echo"])
        if task.startswith("{{"):
            return task
        reference = f"{{{{{task}{step if self.language == '' else ''}}}}}"
        return self.random.choice([reference, f"to {reference}!", f"{reference}{reference}"])

    def task(self, id_, known, depth=0):
        kind = self.random.random()
        if kind < 0.4 or not known:
            server = self.random.choice(list(WORDS))
            task = {"id": id_, "tool": f"{server}:read", "arguments": {"text": self.value(known)}}
        elif kind < 0.55 and depth == 0 and not self.language:
            inner = self.sink("in", ["{{item}}", "{{item.v}}"])
            each = f"{{{{{self.random.choice(known)}.list}}}}"
            task = {"id": id_, "type": "workflow", "tasks": [inner], "for_each": each}
        elif kind < 0.7 and self.language:
            return {"id": id_, "type": "code_execution", "language": self.language, **self.code(known)}
        else:
            task = self.sink(id_, known)
            if self.random.random() < 0.2 and not self.language:
                task["for_each"] = f"{{{{{self.random.choice(known)}.list}}}}"
                task["arguments"] = self.sink("", ["{{item.v}}"])["arguments"] | {"body": "{{item}}"}
                task["arguments"].setdefault("to" if "send" in task["tool"] else "what", "{{item.v}}")
        if self.random.random() < 0.15:
            task["select"] = "value"
        task["on_error"] = "continue"
        return task

    def sink(self, id_, known):
        server, tool = self.random.choice(list(WORDS)), self.random.choice(["send", "delete"])
        value = self.value(known)
        if tool == "send":
            return {"id": id_, "tool": f"{server}:send", "arguments": {"to": value, "body": self.value(known)}}
        return {"id": id_, "tool": f"{server}:delete", "arguments": {"what": value}}

    def code(self, known):
        """Reads, sends what it has read or a literal, and returns something of it."""
        lines, names = [], ["inputs"]
        use = {"given": f"{{{{{self.random.choice(known)}}}}}"} if known and self.random.random() < 0.5 else {}
        python = self.language == "python"
        text = "str({})" if python else "JSON.stringify({})"
        names = ["given"] if use else []
        for number in range(self.random.randint(1, 3)):
            server = self.random.choice(list(WORDS))
            given = self.random.choice([*(text.format(name) for name in names), '"boss@example.com"'])
            if self.random.random() < 0.5:
                call = (
                    f"await tools.{server}.read(text={given})"
                    if python
                    else f"await tools.{server}.read({{text: {given}}})"
                )
                lines.append(f"v{number} = {call}" if python else f"const v{number} = {call};")
                names.append(f"v{number}")
            else:
                arguments = f'to={given}, body=""' if python else f'{{to: {given}, body: ""}}'
                sent = f"await tools.{server}.send({arguments})"
                lines.append(
                    f"try:\n    {sent}\nexcept Exception:\n    pass" if python else f"try {{ {sent} }} catch {{}}"
                )
        back = text.format(names[-1]) if names else '"nothing"'
        return {"code": "\n".join([*lines, f"return {back}"]), "inputs": use}


async def ran(client, tasks, **more):
    told = value_of(await client.call("execute_workflow", {"workflow": {"tasks": tasks, "return": ["all"]}, **more}))
    return {one["id"]: one for one in told["tasks"]}


def stopped(task):
    return "flows.untrusted" in json.dumps(task.get("error", {})) or "flows.untrusted" in json.dumps(task.get("result"))


async def test_what_is_stopped_is_what_would_have_flowed_and_rehearsals_say_the_same():
    flowed = compared = 0
    off, on = World(), World()
    async with gateway(off, "off") as open_gateway, gateway(on, "deny") as closed_gateway:
        open_client, client = await connected(open_gateway), await connected(closed_gateway)
        for seed in range(PLANS):
            tasks = Plans(seed).plan()
            off.arrived.clear()
            await ran(open_client, tasks)
            would = sorted((server, tool) for server, tool, _ in off.leaks() if tool == "send")
            flowed += len(off.leaks())
            on.arrived.clear()
            real = await ran(client, tasks)
            assert on.leaks() == [], tasks
            came = sum(tool == "send" for _, tool, _ in on.arrived)
            assert sum(tool == "send" for _, tool, _ in off.arrived) - came == len(would), tasks
            rehearsed = await ran(client, tasks, dry_run=True)
            for id_, task in real.items():
                compared += 1
                assert stopped(task) == stopped(rehearsed[id_]), (id_, tasks)
    assert flowed > PLANS / 2
    assert compared > 3 * PLANS


@pytest.mark.parametrize("engine", ENGINES)
async def test_no_engine_lets_code_send_what_it_has_read(engine):
    flowed, sent = 0, 0
    off, on = World(), World()
    async with gateway(off, "off", engine) as open_gateway, gateway(on, "deny", engine) as closed_gateway:
        open_client, client = await connected(open_gateway), await connected(closed_gateway)
        for seed in range(20):
            tasks = Plans(seed, ENGINES[engine][0]).plan()
            await ran(open_client, tasks)
            await ran(client, tasks)
            assert on.leaks() == [], tasks
        flowed, sent = len(off.leaks()), len(on.arrived)
    assert flowed > 5
    assert sent > 5


async def test_capabilities_and_handles_are_followed():
    world = World()
    code = 'page = await tools.web.read(text="x")\nawait tools.mail.send(to=page["value"], body="")'
    inline = {"id": "a", "type": "capability", "capability_id": "none", "code": code, "language": "python"}
    given = 'await tools.mail.send(to=address, body="")'
    second = {**inline, "id": "b", "code": given, "inputs": {"address": "{{page.value}}"}}
    page = {"id": "page", "tool": "web:read", "arguments": {"text": "x" * 6000}}
    results = {"unbounded_modes": (), "budget_tokens": 200, "servers": {"pml": 0}}
    async with gateway(world, "deny", "monty", results=results) as started:
        client = await connected(started)
        told = await ran(client, [page, inline, second])
        assert {told[id_]["status"] for id_ in "ab"} == {"denied"}
        assert "comes from web:read" in told["a"]["error"]["message"]
        assert "comes from web:read in task" in told["b"]["error"]["message"]
        answer = await client.call("call_tool", {"name": "web:read", "arguments": {"text": "x" * 6000}})
        handle = re.search(r"r_\w{12}", str(answer))[0]
        stored = {"id": "c", "tool": "mail:send", "arguments": {"to": f"{{{{result:{handle}.value}}}}"}}
        assert stopped((await ran(client, [stored]))["c"])
        refused = await client.call("call_tool", {"name": "mail:send", "arguments": stored["arguments"]})
        assert refused["isError"]
        assert "comes from a stored result" in str(refused)
    assert world.arrived == []
