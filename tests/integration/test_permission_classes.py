"""What a client's user was asked about is what runs: meta-tools keep what their annotations say, at any depth."""

import json

import pytest

import pml_code_mode.plugin
import pml_executor_dag.tool
import pml_search_tools.plugin
from pml_executor_dag import Dag
from pml_exposure_meta_only import MetaOnly
from pml_hookspecs import CodeRun, MetaTool, Outcome, RpcError, Session, ToolCall, encode, hookimpl
from pml_kit.mcp.effects import ORDER, bounded
from pml_kit.mcp.tokens import READ_BY_MODELS, estimate
from pml_kit.plain import session_from, to_plain
from pml_testing.fakes import outcome
from pml_testing.gateway import Client, ScriptedServer, running, until, value_of

pytestmark = pytest.mark.anyio
HINTS = {
    "look": {"readOnlyHint": True},
    "add": {"readOnlyHint": False, "destructiveHint": False},
    "drop": {"destructiveHint": True},
    "unsaid": {},
    "odd": ["readOnlyHint"],
}
EFFECTS = {"look": "read", "add": "write", "drop": "destroy", "unsaid": "destroy", "odd": "destroy"}
ASKS = {"name": "claude-code", "version": "2.1"}
FAMILY = {effects: f"call_tool_{effects}" for effects in ORDER}
READING = {"name": "own_read", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}


class Sandbox:
    """Runs 'code' that is a name of a tool: calls it."""

    handles = frozenset({CodeRun})

    def __init__(self, settings=None, services=None) -> None:
        """Nothing to set."""

    async def execute(self, task, run) -> Outcome:
        ended = await run.dispatch(ToolCall(id="in_code", tool=task.source))
        return outcome(task.id, {"status": str(ended.status), "failure": ended.failure and ended.failure.message})


class OwnTools:
    """Tools of the gateway's own beside PML's, and a filter that hides one of the server's."""

    hidden = ()

    @hookimpl
    def pml_meta_tools(self, services):
        async def answers(arguments, run):
            return "read"

        return [
            MetaTool(definition=READING, call=answers, listed=False),
            MetaTool(definition={**READING, "name": "own_any", "annotations": {}}, call=answers, listed=False),
            MetaTool(definition={**READING, "name": "breaks"}, call=answers, listed=lambda session: 1 / 0),
        ]

    @hookimpl
    def pml_filter_tools(self, services):
        def keeps(entry, session):
            return entry.name not in self.hidden

        keeps.hides = True
        return [keeps]


def definition(name):
    return {"name": name, "inputSchema": {"type": "object"}, "annotations": HINTS[name]}


def plugins(own=None):
    return {
        ("exposure_mode", "meta_only"): MetaOnly,
        ("executor", "dag"): Dag,
        ("executor", "sandbox"): Sandbox,
        ("hooks", "search_tools"): pml_search_tools.plugin,
        ("hooks", "workflow_tool"): pml_executor_dag.tool,
        ("hooks", "code_mode"): pml_code_mode.plugin,
        ("hooks", "own"): own or OwnTools(),
    }


@pytest.fixture
def server():
    return ScriptedServer([definition(name) for name in HINTS])


@pytest.fixture
async def client(server):
    tables = {"code_mode": {"listed": True}}
    async with running({"db": server}, plugins=plugins(), tables=tables, tools_exposure="meta_only") as gateway:
        client = Client(gateway, info=ASKS)
        await client.initialize()
        yield client


def refused(answer):
    """The failure's code, and the message; None when it ran."""
    failure = (answer.get("_meta") or {}).get("pml/failure")
    return (failure["code"], answer["content"][0]["text"]) if failure else None


def called(server):
    return [name for name, _ in server.calls]


async def listed(gateway, **who):
    client = Client(gateway, **who)
    if not who.get("modern"):
        await client.initialize()
    return await client.request("tools/list")


@pytest.mark.parametrize("spelling", ["db:{}", "db__{}", "{}"])
@pytest.mark.parametrize("variant", ORDER)
@pytest.mark.parametrize("tool", HINTS)
@pytest.mark.attack("A meta-tool keeps what it says", "call a tool of a higher class than a user was asked about")
async def test_a_tool_of_a_higher_class_is_refused_and_the_right_one_named(client, server, tool, variant, spelling):
    answer = await client.call(FAMILY[variant], {"name": spelling.format(tool)})
    if ORDER.index(EFFECTS[tool]) <= ORDER.index(variant):
        assert refused(answer) is None
        assert called(server) == [tool]
    else:
        code, message = refused(answer)
        assert code == "policy.effects"
        assert message.startswith(f"Tool 'db:{tool}' ")
        assert message.partition(" Call it with ")[2].rstrip(".").split(" or ")[0] == FAMILY[EFFECTS[tool]]
        assert called(server) == []


async def test_a_rehearsal_is_refused_alike(client):
    answer = await client.call("call_tool_read", {"name": "db:drop", "dry_run": True})
    assert refused(answer)[0] == "policy.effects"


async def test_search_says_which_tool_calls_each(client):
    found = value_of(await client.call("search_tools", {"query": "db:add"}))["tools"]
    assert found[0]["call"] == "call_tool_write"


async def test_a_hidden_tool_is_unknown_whatever_its_class(server):
    own = OwnTools()
    own.hidden = ("drop", "look")
    async with running({"db": server}, plugins=plugins(own), tools_exposure="meta_only") as gateway:
        client = Client(gateway, info=ASKS)
        await client.initialize()
        for name in own.hidden:
            with pytest.raises(RpcError, match=f"Unknown tool: db:{name}"):
                await client.call("call_tool_read", {"name": f"db:{name}"})


async def test_a_tool_that_its_server_does_not_list_counts_as_destroying(client, server):
    code, _ = refused(await client.call("call_tool_write", {"name": "db:secret"}))
    assert code == "policy.effects"
    assert called(server) == []
    await client.call("call_tool_destroy", {"name": "db:secret"})
    assert called(server) == ["secret"]


async def test_the_gateways_own_tools_are_judged_by_theirs(client):
    assert refused(await client.call("call_tool_read", {"name": "own_read"})) is None
    assert refused(await client.call("call_tool_read", {"name": "own_any"}))[0] == "policy.effects"
    assert refused(await client.call("call_tool_read", {"name": "continue_workflow"}))[0] == "policy.effects"


@pytest.mark.parametrize("name", ["execute_workflow", "execute_dag", "call_tool_destroy", "pml:call_tool", "run_code"])
async def test_listed_meta_tools_are_not_called_through_it(client, server, name):
    answer = await client.call("call_tool_read", {"name": name, "arguments": {"name": "db:drop", "code": "db:drop"}})
    assert "cannot be called through call_tool_read" in refused(answer)[1]
    assert called(server) == []


def plan(*tools, **more):
    return {"workflow": {"tasks": [{"id": f"t{n}", **tool} for n, tool in enumerate(tools)], **more}}


@pytest.mark.attack("A meta-tool keeps what it says", "destroy in a plan that only reads, through a tool or code")
async def test_a_reading_plan_runs_what_reads_and_nothing_else(client, server):
    steps = ({"tool": "db:look"}, {"tool": "db:add"}, {"tool": "call_tool_destroy", "arguments": {"name": "db:drop"}},
             {"type": "code_execution", "code": "db:drop"})  # fmt: skip
    report = (await client.call("execute_workflow_read", plan(*steps, **{"return": "all"})))["content"][0]["text"]
    assert called(server) == ["look"]
    assert report.count("may run here") == 3
    assert "execute_workflow" in report
    await client.call("execute_workflow", plan(*steps))
    assert sorted(called(server)) == ["add", "drop", "drop", "look", "look"]


async def test_code_that_only_reads(client, server):
    ran = value_of(await client.call("run_code_read", {"code": "db:drop"}))
    assert ran["status"] == "denied"
    assert "run_code" in ran["failure"]
    assert value_of(await client.call("run_code_read", {"code": "db:look"}))["status"] == "ok"
    assert called(server) == ["look"]
    assert refused(await client.call("run_code_read", {"code": "x", "language": "sql"}))[0] == "policy.effects"


async def test_a_plan_in_the_background_keeps_to_it(client, server):
    given = plan({"tool": "db:drop"}, {"tool": "db:look"})
    await client.call("execute_workflow_read", {**given, "async": True})
    await until(lambda: called(server) == ["look"])
    assert called(server) == ["look"]


def test_what_is_gone_on_with_later_keeps_to_it():
    session = bounded(Session(key="k"), "read")
    assert session_from(json.loads(json.dumps(to_plain(session)))).effects == "read"
    assert bounded(session, "write").effects == "read"


async def test_only_clients_that_ask_see_the_classes(server):
    async with running({"db": server}, plugins=plugins(), tools_exposure="meta_only") as gateway:
        plain, asking = await listed(gateway), await listed(gateway, info=ASKS)
        again, vscode = (
            await listed(gateway),
            await listed(gateway, info={"name": "Visual Studio Code", "version": "1"}),
        )
        modern = [await listed(gateway, modern=True, info=info) for info in (None, ASKS)]
    names = [[tool["name"] for tool in answer["tools"]] for answer in (plain, asking)]
    assert names[0] == ["call_tool", "execute_workflow", "search_tools"]
    assert names[1] == [
        "call_tool_destroy", "call_tool_read", "call_tool_write", "execute_workflow", "execute_workflow_read",
        "search_tools",
    ]  # fmt: skip
    assert again == plain
    assert [answer["tools"] for answer in modern] == [plain["tools"], asking["tools"]]
    assert [answer["cacheScope"] for answer in modern] == ["private", "private"]
    assert [tool["name"] for tool in vscode["tools"]] == names[1]
    assert not any("_meta" in tool for tool in (*plain["tools"], *vscode["tools"]))
    assert all(tool["_meta"] == {"anthropic/alwaysLoad": True} for tool in asking["tools"])


async def test_what_the_classes_cost(server):
    """Of what a model reads: names, descriptions and parameters."""
    async with running({"db": server}, plugins=plugins(), tools_exposure="meta_only") as gateway:
        costs = [
            sum(estimate(encode({part: tool[part] for part in READ_BY_MODELS}).decode()) for tool in tools)
            for tools in [(await listed(gateway, info=info))["tools"] for info in (None, ASKS)]
        ]
    print(costs)
    assert costs[0] <= 400
    assert costs[1] <= 600


async def test_a_client_that_asks_is_told_of_what_it_has(server):
    async with running({"db": server}, plugins=plugins(), tools_exposure="meta_only") as gateway:
        said = (await Client(gateway, info=ASKS).initialize())["instructions"]
    assert "call_tool_destroy, call_tool_read, call_tool_write, execute_workflow and execute_workflow_read" in said


@pytest.mark.parametrize(("choice", "shown"), [("always", 6), ("never", 3)])
async def test_one_setting_says_it_for_all(server, choice, shown):
    tables = {"search_tools": {"permission_classes": choice}}
    async with running({"db": server}, plugins=plugins(), tables=tables, tools_exposure="meta_only") as gateway:
        for info in (None, ASKS):
            assert len((await listed(gateway, info=info))["tools"]) == shown
