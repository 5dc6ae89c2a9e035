from __future__ import annotations

import pytest

from pml_costs import plugin
from pml_costs.settings import Model, Price, Settings
from pml_costs.wrapper import Pricing
from pml_hookspecs import MetaTool, RawObject, RunOptions, Session, Status, ToolCall, Workflow
from pml_kit.errors import OperatorError
from pml_limits import plugin as limits
from pml_testing.dispatching import InOrder, Simulator, hooks, tool
from pml_testing.downstream import records
from pml_testing.fakes import FakeRun, FakeServices, outcome
from pml_testing.gateway import Client, ScriptedServer, running
from pml_testing.work import counted
from pml_testing.wrapper import WrapperContract

pytestmark = pytest.mark.anyio
ALICE = Session(key="a", principal="alice", client="tester/1")


def gateway(costs, server=None, *, plugins=None, tables=None, **servers):
    used = {("hooks", "costs"): plugin, ("executor", "in_order"): InOrder, **(plugins or {})}
    return running(
        {"fs": server or ScriptedServer(["read", "write"]), **servers},
        plugins=used,
        tables={"costs": costs, **(tables or {})},
    )


def answering(**result):
    async def answer(name, arguments):
        return {"content": [{"type": "text", "text": "done"}], **result}

    return ScriptedServer(["read", "write"], answer)


def call(tool="fs:read", id="a", **arguments):
    return ToolCall(id=id, tool=tool, arguments=arguments)


async def cost_of(costs, server=None, task=None):
    """What one call costs, and its row."""
    async with gateway(costs, server) as made:
        ended = await made.dispatcher.start(task or call(), ALICE)
        (row,) = await records(made)
    assert row.cost_usd == ended.cost_usd
    return ended.cost_usd, row


class TestPricing(WrapperContract):
    @pytest.fixture
    def wrapper(self):
        return Pricing(Settings(tools={"contract:priced": Price(per_call_usd=1)}))

    @pytest.fixture
    def tasks(self):
        return [ToolCall(id="contract", tool="contract:priced")]


async def test_each_call_costs_what_the_table_says():
    cost, _ = await cost_of({"tools": {"fs:*": {"per_call_usd": 0.005}}})
    assert cost == 0.005


async def test_of_several_patterns_the_longest_counts():
    prices = {"*": {"per_call_usd": 1}, "fs:*": {"per_call_usd": 2}, "fs:read": {}, "fs:r*": {"per_call_usd": 3}}
    assert (await cost_of({"tools": prices}))[0] == 0
    assert (await cost_of({"tools": prices}, task=call("fs:write")))[0] == 2


async def test_what_nobody_prices_costs_what_nobody_knows():
    cost, row = await cost_of({"tools": {"git:*": {"per_call_usd": 1}}})
    assert cost is None
    assert (row.tokens_in, row.tokens_out) == (0, 17)


@pytest.mark.parametrize("estimates", [True, False])
async def test_tokens_are_a_quarter_of_the_bytes_unless_nobody_wants_to_know(estimates):
    arguments = {"text": "x" * 396}
    async with gateway({"estimates": estimates}, answering()) as made:
        client = Client(made)
        await client.initialize()
        await client.call("fs__read", arguments)
        (row,) = await records(made)
    sizes = (101, 10) if estimates else (None, None)
    assert (row.tokens_in, row.tokens_out) == sizes


async def test_tokens_cost_by_the_thousand():
    price = {"per_1k_tokens_in_usd": 0.1, "per_1k_tokens_out_usd": 1.0, "per_call_usd": 0.5}
    cost, row = await cost_of({"tools": {"fs:*": price}}, answering(), call(text="x" * 390))
    assert (row.tokens_in, row.tokens_out) == (100, 10)
    assert cost == pytest.approx(0.5 + 0.01 + 0.01)


async def test_the_result_says_what_it_cost():
    prices = {"fs:*": {"result_cost": "structuredContent.bill.usd", "per_call_usd": 0.01}}
    cost, _ = await cost_of({"tools": prices}, answering(structuredContent={"bill": {"usd": 0.2}}))
    assert cost == 0.21


@pytest.mark.parametrize("said", ["free", -1, True, None, [], float("inf")])
async def test_what_is_no_cost_is_none(said):
    prices = {"fs:*": {"result_cost": "structuredContent.usd"}}
    cost, _ = await cost_of({"tools": prices}, answering(structuredContent={"usd": said}))
    assert cost is None


async def test_meta_keys_of_the_result_are_read_where_a_pattern_fits():
    meta = {"pml/cost_usd": 0.25, "pml/tokens_in": 7, "pml/tokens_out": 9, "pml/model": "m"}
    cost, row = await cost_of({"tools": {"fs:*": {}}}, answering(_meta=meta))
    assert (cost, row.tokens_in, row.tokens_out) == (0.25, 7, 9)
    other, _ = await cost_of({"tools": {"git:*": {}}}, answering(_meta=meta))
    assert other is None


async def test_tokens_of_a_model_cost_what_the_model_costs():
    models = {"large-*": {"input_per_million_usd": 3, "output_per_million_usd": 15}}
    paths = {"result_tokens_in": "structuredContent.in", "result_tokens_out": "structuredContent.out"}
    price = {**paths, "result_model": "structuredContent.model", "model": "large-0"}
    content = {"in": 1000, "out": 2000}
    named, row = await cost_of(
        {"tools": {"fs:*": price}, "models": models}, answering(structuredContent={**content, "model": "large-2"})
    )
    assert named == pytest.approx(0.003 + 0.03)
    assert (row.tokens_in, row.tokens_out) == (1000, 2000)
    usual, _ = await cost_of({"tools": {"fs:*": price}, "models": models}, answering(structuredContent=content))
    assert usual == named
    unknown, _ = await cost_of(
        {"tools": {"fs:*": price}, "models": models}, answering(structuredContent={**content, "model": "other"})
    )
    assert unknown is None


async def test_an_error_of_the_tools_own_is_paid_for_and_a_server_that_is_gone_is_not():
    prices = {"tools": {"*": {"per_call_usd": 1}}}
    cost, row = await cost_of(prices, answering(isError=True))
    assert (cost, row.status) == (1, "error")
    gone = ScriptedServer(["read"])
    async with gateway(prices, gone) as made:
        gone.script = [OSError("gone")]
        ended = await made.dispatcher.start(call(), ALICE)
    assert ended.status is Status.ERROR
    assert ended.cost_usd is None


async def test_rehearsals_cost_nothing():
    rehearses = {("hooks", "simulates"): hooks(wrappers=[Simulator()])}
    async with gateway({"tools": {"*": {"per_call_usd": 1}}}, plugins=rehearses) as made:
        ended = await made.dispatcher.start(call(), ALICE, RunOptions(dry_run=True))
    assert ended.status is Status.SIMULATED
    assert ended.cost_usd is None


async def test_what_a_tool_says_of_itself_stays():
    async def paid(arguments, run):
        run.note(cost_usd=0.7, tokens_in=5, tokens_out=6)
        return {"response": "done", "tokens_in": 5, "tokens_out": 6, "model": "m", "cost_usd": 0.7}

    async def used(arguments, run):
        run.note(tokens_in=1_000_000, tokens_out=0)
        return {"response": "done", "tokens_in": 1_000_000, "tokens_out": 0, "model": "m", "cost_usd": None}

    costs = {"models": {"m": {"input_per_million_usd": 3}}}
    async with gateway(costs, plugins={("hooks", "other"): hooks()}) as made:
        services = made.assembly.services("other")
        tools: list[MetaTool] = [tool("paid", call=paid), tool("used", call=used)]
        services.publish("agents", tools)
        own = await made.dispatcher.start(call("agents:paid"), ALICE)
        priced = await made.dispatcher.start(call("agents:used"), ALICE)
        rows = {r.target: r for r in await records(made)}
    assert own.cost_usd == rows["agents:paid"].cost_usd == 0.7
    assert priced.cost_usd == rows["agents:used"].cost_usd == 3.0
    assert (rows["agents:paid"].tokens_in, rows["agents:used"].tokens_in) == (5, 1_000_000)


async def test_the_budget_of_a_plan_sees_the_cost():
    tasks = tuple(call(id=f"t{number}") for number in range(5))
    async with gateway({"tools": {"fs:*": {"per_call_usd": 0.4}}}) as made:
        await made.dispatcher.start(Workflow(id="w", tasks=tasks, max_cost_usd=1.0), ALICE)
        rows = [r for r in await records(made) if r.target == "fs:read"]
    assert sorted(r.status for r in rows) == ["error", "error", "ok", "ok", "ok"]
    assert {r.failure.code for r in rows if r.failure} == {"budget.cost"}


async def test_the_daily_budget_of_a_rule_sees_the_cost():
    tables = {"limits": {"rules": {"money": {"daily_usd": 1, "per": ["principal"]}}}}
    async with gateway(
        {"tools": {"fs:*": {"per_call_usd": 0.5}}}, plugins={("hooks", "limits"): limits}, tables=tables
    ) as made:
        ended = [await made.dispatcher.start(call(), ALICE) for _ in range(4)]
        others = await made.dispatcher.start(call(), Session(key="b", principal="bob"))
    assert [e.status for e in ended] == [Status.OK, Status.OK, Status.DENIED, Status.DENIED]
    assert ended[2].failure.code == "limit.budget"
    assert others.status is Status.OK


async def test_nothing_is_wrapped_where_there_is_nothing_to_say():
    assert list(plugin.pml_wrap_executor(FakeServices("costs", settings=Settings(estimates=False)))) == []
    assert len(list(plugin.pml_wrap_executor(FakeServices("costs")))) == 1


async def test_a_call_without_a_price_takes_a_few_calls_however_many_prices_there_are():
    wrapper = Pricing(Settings(tools={f"s{n}:*": Price(per_call_usd=1) for n in range(50)}))
    task = ToolCall(id="a", tool="fs:read", arguments=RawObject(b'{"path":"/a/b"}'))
    instant = outcome("a", RawObject(b'{"content":[{"type":"text","text":"' + b"x" * 1000 + b'"}]}'))

    class Run(FakeRun):
        def note(self, **said):
            pass

    async def following(task, run):
        return instant

    run = Run()
    await wrapper(task, run, following)
    with counted() as work:
        await wrapper(task, run, following)
    assert work.calls <= 25


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"tools": {"x:*": {"per_call_usd": -1}}}, "per_call_usd is -1"),
        ({"tools": {"x:*": {"per_1k_tokens_in_usd": float("inf")}}}, "it must be 0 or more"),
        ({"tools": {"x:*": {"result_cost": "a b"}}}, "result_cost is no JMESPath expression"),
        ({"tools": {"x:*": {"per_cal": 1}}}, "plugins.costs.tools.x:*.per_cal"),
        ({"models": {"m": {"input_per_million_usd": -3}}}, "input_per_million_usd is -3"),
    ],
)
async def test_a_mistake_in_the_table_is_explained(table, words):
    with pytest.raises(OperatorError) as told:
        async with gateway(table):
            pass
    assert words in str(told.value)


def test_models_may_cost_nothing():
    assert Model() == Model(input_per_million_usd=0, output_per_million_usd=0)
