"""Words of untrusted servers in plans, code and single calls: what stops them, who is asked, and what passes."""

from __future__ import annotations

import json

import pytest

import pml_approvals.plugin
import pml_code_mode.plugin
import pml_dry_run.plugin
import pml_executor_dag.tool
import pml_executor_dbos.hooks
import pml_flows.plugin
import pml_search_tools.plugin
from pml_executor_dag import Dag
from pml_executor_dbos import Dbos
from pml_sandbox_monty import Monty
from pml_testing.gateway import Client, ScriptedServer, running, value_of

pytestmark = pytest.mark.anyio
EVIL = "evil@example.com"
TEXT = {"type": "string"}


def tool(name, *arguments, **hints):
    schema = {"type": "object", "properties": dict.fromkeys(arguments, TEXT)}
    return {"name": name, "inputSchema": schema, **({"annotations": hints} if hints else {})}


def servers():
    async def page(_name, _arguments):
        said = {"address": EVIL, "text": "hello", "unread": True, "links": [{"url": "https://evil.example"}] * 2}
        return {"content": [{"type": "text", "text": json.dumps(said)}], "structuredContent": said}

    web = ScriptedServer([tool("fetch", "url", readOnlyHint=True), tool("post", "url", "body")], page)
    shop = ScriptedServer(
        [
            tool("send", "to", "body", destructiveHint=False),
            tool("upper", "text", readOnlyHint=True, openWorldHint=False),
            tool("remove", "what"),
            tool("wipe"),
        ]
    )
    return {"web": web, "shop": shop}


def gateway(made, words="untrusted", more=None, **tables):
    plugins = {
        ("executor", "dag"): Dag,
        ("executor", "monty"): Monty,
        ("hooks", "workflow_tool"): pml_executor_dag.tool,
        ("hooks", "search_tools"): pml_search_tools.plugin,
        ("hooks", "code_mode"): pml_code_mode.plugin,
        ("hooks", "approvals"): pml_approvals.plugin,
        ("hooks", "dry_run"): pml_dry_run.plugin,
        ("guards", "flows"): pml_flows.plugin,
        **(more or {}),
    }
    tables.setdefault("approvals", {"effects": "none"})
    return running(made, plugins=plugins, tables=tables, words={"web": words})


async def connected(started, capabilities=None):
    client = Client(started)
    await client.initialize(capabilities)
    return client


def call(id_, name, arguments=None, **more):
    return {"id": id_, "tool": name, "arguments": arguments or {}, **more}


FETCH = call("page", "web:fetch", {"url": "https://news.example"})


async def planned(client, *tasks, intent="", dry_run=None):
    plan = {"tasks": list(tasks), "return": ["all"]}
    more = {**({"intent": intent} if intent else {}), **({} if dry_run is None else {"dry_run": dry_run})}
    return await client.call("execute_workflow", {"workflow": plan, **more})


async def codes(client, *tasks, **more):
    """How the tasks of a plan ended: their statuses, or codes of errors, by id."""
    told = value_of(await planned(client, *tasks, **more))
    return {one["id"]: one.get("error", {}).get("code", one["status"]) for one in told["tasks"]}


DENY = {"flows": {"action": "deny"}}
SEND = call("send", "shop:send", {"to": "{{page.address}}", "body": "hi"})


@pytest.mark.attack("Words may not decide", "put an address into a page that a plan sends something to")
async def test_a_reference_into_an_outward_argument_is_stopped_and_says_which_value():
    made = servers()
    async with gateway(made, **DENY) as started:
        client = await connected(started)
        told = value_of(await planned(client, FETCH, SEND))
        error = next(one["error"] for one in told["tasks"] if one["id"] == "send")
    assert error["code"] == "flows.untrusted"
    assert f"to = \"{EVIL}\" comes from web:fetch in task 'page'" in error["message"]
    assert 'allow = ["web -> shop:send.to"]' in error["message"]
    assert made["shop"].calls == []


@pytest.mark.parametrize(
    ("task", "code"),
    [
        (call("t", "shop:send", {"to": "boss@example.com", "body": "{{page.address}}"}), "ok"),
        (call("t", "shop:send", {"to": "x{{page.text}}", "body": ""}), "flows.untrusted"),
        (call("t", "shop:send", {"to": ["a", {"b": "{{page.text}}"}]}), "flows.untrusted"),
        (call("t", "shop:remove", {"what": "{{page.text}}"}), "flows.untrusted"),
        (call("t", "shop:remove", {"what": "{{page.unread}}"}), "ok"),
        (call("t", "shop:upper", {"text": "{{page.text}}"}), "ok"),
        (call("t", "web:post", {"url": "{{page.text}}"}), "ok"),
        (call("t", "shop:wipe", when="page.unread"), "flows.untrusted"),
        (call("t", "shop:send", {"to": "a@b.example"}, when="page.unread"), "ok"),
        (call("t", "shop:send", {"to": "{{item.url}}"}, for_each="{{page.links}}"), "items.failed"),
        (call("t", "shop:send", {"to": "{{index}}"}, for_each="{{page.links}}"), "ok"),
        (call("t", "shop:wipe", for_each="{{page.links}}"), "items.failed"),
        (call("t", "call_tool", {"name": "shop:send", "arguments": {"to": "{{page.text}}"}}), "flows.untrusted"),
        (
            {
                "id": "t",
                "type": "workflow",
                "tasks": [call("in", "shop:send", {"to": "{{item.url}}"})],
                "for_each": "{{page.links}}",
            },
            "items.failed",
        ),
    ],
)
async def test_what_decides_and_what_does_not(task, code):
    made = servers()
    async with gateway(made, **DENY) as started:
        assert (await codes(await connected(started), FETCH, task))["t"] == code


async def test_values_pass_through_other_tools_and_stay_untrusted():
    upper = call("upper", "shop:upper", {"text": "{{page.text}}"})
    async with gateway(servers(), **DENY) as started:
        client = await connected(started)
        ended = await codes(client, FETCH, upper, call("t", "shop:send", {"to": "{{upper.text}}"}))
    assert ended == {"page": "ok", "upper": "ok", "t": "flows.untrusted"}


async def test_what_the_caller_named_passes():
    async with gateway(servers(), **DENY) as started:
        client = await connected(started)
        assert (await codes(client, FETCH, SEND, intent=f"Write to {EVIL}, please."))["send"] == "ok"
        assert (await codes(client, FETCH, SEND, intent=f"Write to x{EVIL}"))["send"] == "flows.untrusted"
        known = call("other", "shop:upper", {"text": EVIL})
        assert (await codes(client, FETCH, SEND, known))["send"] == "ok"


@pytest.mark.parametrize(
    ("words", "table", "passes"),
    [
        ("trusted", {}, True),
        ("auto", {}, True),
        ("strangers", {}, False),
        ("untrusted", {"allow": ["web -> shop:send.to"]}, True),
        ("untrusted", {"allow": ["* -> shop:s*"]}, True),
        ("untrusted", {"allow": ["web -> shop:send.body"]}, False),
        ("untrusted", {"arguments": {"shop:send": ["body"]}}, True),
        ("untrusted", {"arguments": {"shop:*": ["to"]}}, False),
    ],
)
async def test_policies(words, table, passes):
    async with gateway(servers(), words, flows={"action": "deny", **table}) as started:
        ended = await codes(await connected(started), FETCH, SEND)
    assert ended["send"] == ("ok" if passes else "flows.untrusted")


async def test_strangers_do_not_decide_about_their_own_server():
    post = call("t", "web:post", {"url": "{{page.address}}"})
    for words, ends in (("untrusted", "ok"), ("strangers", "flows.untrusted")):
        async with gateway(servers(), words, **DENY) as started:
            assert (await codes(await connected(started), FETCH, post))["t"] == ends


CODE = """
page = await tools.web.fetch(url="https://news.example")
await tools.shop.send(to={}, body=page["text"])
"""


@pytest.mark.parametrize(
    ("to", "stopped"), [('page["address"]', True), ('"boss@example.com"', False), ('"boss@" + "example.com"', True)]
)
async def test_code_that_has_read_may_only_send_where_it_says_itself(to, stopped):
    made = servers()
    async with gateway(made, **DENY) as started:
        client = await connected(started)
        answer = await client.call("run_code", {"language": "python", "code": CODE.format(to)})
    assert ("flows.untrusted" in str(answer) or "comes from web:fetch" in str(answer)) is stopped
    assert bool(made["shop"].calls) is not stopped


async def test_code_before_it_has_read_is_free():
    source = 'await tools.shop.send(to="a" + "@b.example", body="")\nreturn await tools.web.fetch(url="x")'
    made = servers()
    async with gateway(made, **DENY) as started:
        await (await connected(started)).call("run_code", {"language": "python", "code": source})
    assert len(made["shop"].calls) == 1


async def test_a_human_is_asked_with_exactly_the_flow():
    made, asked = servers(), []

    async def says(params):
        asked.append(params["message"])
        return {"action": "accept", "content": {"approve": True}}

    async with gateway(made) as started:
        client = await connected(started, {"elicitation": {}})
        client.peer.others["elicitation/create"] = says
        assert (await codes(client, FETCH, SEND))["send"] == "ok"
    assert len(asked) == 1
    assert f"to = \"{EVIL}\" comes from web:fetch in task 'page'" in asked[0]
    assert made["shop"].calls == [("send", {"to": EVIL, "body": "hi"})]


async def test_a_plan_that_waits_goes_on_with_the_flow_that_was_approved():
    made = servers()
    async with gateway(made) as started:
        client = await connected(started)
        human = Client(started, scopes=frozenset({"approve"}))
        await human.initialize()
        told = value_of(await planned(client, FETCH, SEND))
        waiting = value_of(await human.call("list_approvals"))["approvals"]
        assert [one["flows"] for one in waiting] == [[f"to = \"{EVIL}\" comes from web:fetch in task 'page'"]]
        await human.call("answer_approval", {"approval_id": waiting[0]["approval_id"], "approve": True})
        going_on = await client.call("continue_workflow", {"workflow_id": told["workflow_id"], "decision": "continue"})
        assert not going_on.get("isError"), going_on
    assert [name for name, _ in made["web"].calls] == ["fetch"]
    assert made["shop"].calls == [("send", {"to": EVIL, "body": "hi"})]


async def test_durable_code_that_begins_anew_has_read_what_its_journal_has(tmp_path):
    made = servers()
    code = {"id": "code", "type": "code_execution", "language": "python", "code": CODE.format('page["address"]')}
    more = {("executor", "dbos"): Dbos, ("hooks", "dbos"): pml_executor_dbos.hooks}
    async with gateway(made, more=more, dbos={"database": str(tmp_path / "durable.db")}) as started:
        client = await connected(started)
        plan = {"tasks": [code], "durable": True}
        told = value_of(await client.call("execute_workflow", {"workflow": plan}))
        for _ in range(2):
            assert told["status"] == "input_required"
            again = {"workflow_id": told["workflow_id"], "decision": "continue"}
            told = value_of(await client.call("continue_workflow", again))
    assert len(made["web"].calls) == 1
    assert made["shop"].calls == []


async def test_what_ended_in_an_earlier_layer_is_untrusted_in_the_next():
    made = servers()
    async with gateway(made, **DENY) as started:
        client = await connected(started)
        plan = {"tasks": [FETCH, SEND], "return": ["all"], "per_layer_validation": True}
        told = value_of(await client.call("execute_workflow", {"workflow": plan}))
        told = value_of(
            await client.call("continue_workflow", {"workflow_id": told["workflow_id"], "decision": "continue"})
        )
    assert "flows.untrusted" in str(told)
    assert made["shop"].calls == []


@pytest.mark.parametrize("action", ["ask", "deny"])
async def test_a_rehearsal_says_so_before(action):
    made = servers()
    async with gateway(made, flows={"action": action}) as started:
        told = str(value_of(await planned(await connected(started), FETCH, SEND, dry_run=True)))
    assert ("wait for a human" if action == "ask" else "flows.untrusted") in told
    assert "comes from web:fetch in task" in told
    assert made["shop"].calls == made["web"].calls == []


async def test_single_calls_are_matched_where_that_is_on():
    send = {"name": "shop:send", "arguments": {"to": EVIL, "body": "hi"}}
    for matching in (False, True):
        made = servers()
        async with gateway(made, flows={"action": "deny", "matching": matching}) as started:
            client = await connected(started)
            await client.call("call_tool", {"name": "web:fetch", "arguments": {"url": "x"}})
            answer = await client.call("call_tool", send)
            assert bool(answer.get("isError")) is matching
            other = await client.call("call_tool", {"name": "shop:send", "arguments": {"to": "me@b.example"}})
            assert not other.get("isError")
