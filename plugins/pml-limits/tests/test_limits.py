from __future__ import annotations

import time

import pytest

from pml_core.plugins.nulls import MemoryStore
from pml_hookspecs import MetaTool, RunOptions, Session, Status, ToolCall, Workflow, replace
from pml_kit.errors import OperatorError
from pml_kit.shared import window as windows
from pml_limits import plugin
from pml_limits.settings import Rule, Settings
from pml_limits.wrapper import Limiter
from pml_testing.dispatching import Code, InOrder, Simulator, hooks
from pml_testing.fakes import FakeRun, FakeServices
from pml_testing.gateway import Client, ScriptedServer, running
from pml_testing.wrapper import Next, WrapperContract

pytestmark = pytest.mark.anyio
ALICE = Session(key="a", principal="alice", client="tester/1", agent="tester")
BOB = Session(key="b", principal="bob", client="tester/2")


def gateway(server=None, *, shared=False, plugins=None, **rules):
    used = {("executor", "in_order"): InOrder, ("executor", "code"): Code, ("hooks", "limits"): plugin}
    tables = {"limits": {"shared": shared, "rules": rules}}
    servers = {"fs": server or ScriptedServer(["read", "write"])}
    return running(servers, plugins={**used, **(plugins or {})}, tables=tables)


def call(tool="fs:read", id="a"):
    return ToolCall(id=id, tool=tool)


def limiter(*, shared=False, store=None, **rules):
    services = FakeServices("limits", store=store or MemoryStore())
    return Limiter(services, Settings(rules={n: Rule(**r) for n, r in rules.items()}, shared=shared))


@pytest.fixture
def clock(monkeypatch):
    """Time stands still until it is moved."""

    class Clock:
        now, back_s = 1_800_000_000.0, 0.0

        def monotonic(self):
            return self.now

        def time(self):
            return self.now - self.back_s

    made = Clock()
    monkeypatch.setattr(windows, "time", made)
    return made


# Rates


@pytest.mark.parametrize("shared", [False, True])
async def test_a_rate_is_kept_to_and_says_when_to_try_again(shared):
    server = ScriptedServer(["read", "write"])
    async with gateway(server, shared=shared, few={"tool": "fs:read", "rate": "3/hour"}) as made:
        results = [await made.dispatcher.start(call(), ALICE) for _ in range(5)]
        other = await made.dispatcher.start(call("fs:write"), ALICE)
    assert [r.status for r in results] == [Status.OK] * 3 + [Status.DENIED] * 2
    assert other.status is Status.OK
    assert len([c for c in server.calls if c[0] == "read"]) == 3
    failure = results[-1].failure
    assert (failure.code, failure.retryable) == ("limit.rate", True)
    assert failure.details["rule"] == "few"
    assert failure.details["allowed"] == "3/hour"
    assert 0 < failure.details["retry_after_s"] <= 3600
    assert "fs:read" in failure.message
    assert "'few'" in failure.message
    assert "Try again in" in failure.message


@pytest.mark.parametrize("shared", [False, True])
async def test_a_client_gets_the_refusal_as_a_result_it_can_act_on(shared):
    async with gateway(shared=shared, few={"rate": "1/hour"}) as made:
        client = Client(made)
        await client.initialize()
        await client.call("fs__read")
        refused = await client.call("fs__read")
    assert refused["isError"]
    about = refused["_meta"]["pml/failure"]
    assert (about["code"], about["retryable"]) == ("limit.rate", True)
    assert about["details"]["retry_after_s"] > 0


@pytest.mark.parametrize("shared", [False, True])
async def test_each_principal_has_a_rate_of_its_own_where_the_rule_says_so(shared):
    async with gateway(shared=shared, few={"rate": "1/hour", "per": ["principal"]}) as made:
        statuses = [(await made.dispatcher.start(call(), who)).status for who in (ALICE, BOB, ALICE)]
        last = await made.dispatcher.start(call(), BOB)
    assert statuses == [Status.OK, Status.OK, Status.DENIED]
    assert last.failure.details["for"] == {"principal": "bob"}
    assert "principal 'bob'" in last.failure.message


async def test_together_they_have_one_where_it_does_not():
    async with gateway(few={"rate": "1/hour"}) as made:
        statuses = [(await made.dispatcher.start(call(), who)).status for who in (ALICE, BOB)]
    assert statuses == [Status.OK, Status.DENIED]


@pytest.mark.parametrize(
    ("rule", "session", "tool", "limited"),
    [
        ({"principal": "alice"}, ALICE, "fs:read", True),
        ({"principal": "alice"}, BOB, "fs:read", False),
        ({"agent": "test*"}, ALICE, "fs:read", True),
        ({"agent": "test*"}, BOB, "fs:read", False),
        ({"server": "fs"}, ALICE, "fs:write", True),
        ({"server": "git"}, ALICE, "fs:write", False),
        ({"tool": "fs:re*"}, ALICE, "fs:write", False),
        ({"tool": "*:read", "principal": "b*"}, ALICE, "fs:read", False),
        ({"kind": "workflow"}, ALICE, "fs:read", False),
    ],
)
async def test_who_and_what_a_rule_fits(rule, session, tool, limited):
    wrapper, following = limiter(r={**rule, "rate": "1/hour"}), Next()
    for _ in range(2):
        ended = await wrapper(call(tool), FakeRun(session=session), following)
    assert (ended.status is Status.DENIED) is limited


@pytest.mark.parametrize("shared", [False, True])
async def test_a_refused_call_counts_for_no_rate(shared):
    rules = {"wide": {"rate": "10/hour"}, "zero": {"tool": "fs:read", "rate": "1/hour"}}
    wrapper, following = limiter(shared=shared, **rules), Next()
    for _ in range(8):
        await wrapper(call("fs:read"), FakeRun(), following)
    done = [(await wrapper(call("fs:write"), FakeRun(), following)).status for _ in range(10)]
    assert done == [Status.OK] * 9 + [Status.DENIED]


@pytest.mark.parametrize("shared", [False, True])
async def test_a_window_slides(clock, shared):
    wrapper, following = limiter(shared=shared, r={"rate": "10/minute"}), Next()

    async def passed(n):
        return sum([(await wrapper(call(), FakeRun(), following)).status is Status.OK for _ in range(n)])

    assert await passed(12) == 10
    clock.now += 60.1
    assert await passed(12) == 1, "right after the turn nearly all of the stretch before counts"
    clock.now += 30
    assert await passed(12) == 5
    clock.now += 130
    assert await passed(12) == 10


@pytest.mark.parametrize("shared", [False, True])
async def test_after_the_time_told_there_is_room(clock, shared):
    wrapper, following = limiter(shared=shared, r={"rate": "5/minute"}), Next()
    for _ in range(6):
        ended = await wrapper(call(), FakeRun(), following)
    clock.now += ended.failure.details["retry_after_s"] + 0.1
    assert (await wrapper(call(), FakeRun(), following)).status is Status.OK


@pytest.mark.parametrize("shared", [False, True])
async def test_a_clock_that_is_put_back_lets_nothing_more_through(clock, shared):
    wrapper, following = limiter(shared=shared, r={"rate": "2/minute"}), Next()
    for _ in range(2):
        await wrapper(call(), FakeRun(), following)
    clock.back_s = 3600
    assert (await wrapper(call(), FakeRun(), following)).status is Status.DENIED
    clock.now += 121
    assert (await wrapper(call(), FakeRun(), following)).status is Status.OK


async def test_gateways_whose_clocks_are_an_hour_apart_keep_one_rate_together(clock, monkeypatch):
    store, following = MemoryStore(), Next()
    apart = [limiter(shared=True, store=store, r={"rate": "10/minute"}) for _ in range(2)]

    async def passed(n):
        done = []
        for number in range(n):
            clock.back_s = 3600 * (number % 2)
            monkeypatch.setattr(windows, "HOST", f"machine {number % 2}")
            done.append((await apart[number % 2](call(), FakeRun(), following)).status is Status.OK)
        return sum(done)

    assert await passed(30) == 10
    clock.now += 30
    assert await passed(30) == 0
    clock.now += 60
    assert await passed(30) == 5, "half of the stretch before counts"


async def test_a_new_gateway_on_the_same_machine_knows_how_old_a_window_is(clock):
    store, following = MemoryStore(), Next()
    for expected in (Status.OK, Status.DENIED):
        one = limiter(shared=True, store=store, r={"rate": "1/day"})
        assert (await one(call(), FakeRun(), following)).status is expected
        clock.now += 3600
    clock.now += 2 * 86_400
    one = limiter(shared=True, store=store, r={"rate": "1/day"})
    assert (await one(call(), FakeRun(), following)).status is Status.OK


async def test_windows_that_are_over_make_way(clock, monkeypatch):
    monkeypatch.setattr(windows, "MOST", 50)
    wrapper, following = limiter(r={"rate": "2/minute", "per": ["principal"]}), Next()
    for n in range(200):
        clock.now += 10
        await wrapper(call(), FakeRun(session=replace(ALICE, principal=f"p{n}")), following)
    assert len(wrapper.rates.windows.kept) <= 50


async def test_a_new_name_costs_the_same_however_many_there_are(clock, monkeypatch):
    monkeypatch.setattr(windows, "MOST", 500)
    rolled = 0
    upright = windows.Window.roll

    def roll(window):
        nonlocal rolled
        rolled += 1
        return upright(window)

    monkeypatch.setattr(windows.Window, "roll", roll)
    wrapper, following = limiter(r={"rate": "2/minute", "per": ["agent"]}), Next()
    for n in range(2000):
        await wrapper(call(), FakeRun(session=replace(ALICE, agent=f"a{n}")), following)
    assert len(wrapper.rates.windows.kept) == 500
    assert rolled <= 2000 * (windows.LOOKED_AT + 1)


# What counts


async def test_a_rehearsal_costs_no_quota():
    simulator = hooks(wrappers=[Simulator()])
    server = ScriptedServer(["read"])
    async with gateway(server, plugins={("hooks", "simulator"): simulator}, few={"rate": "1/hour"}) as made:
        for _ in range(5):
            result = await made.dispatcher.start(call(), ALICE, RunOptions(dry_run=True))
            assert result.status is Status.SIMULATED
        assert (await made.dispatcher.start(call(), ALICE)).status is Status.OK
        assert (await made.dispatcher.start(call(), ALICE)).status is Status.DENIED
    assert len(server.calls) == 1


async def test_calls_in_a_plan_count_once_each_by_the_rule_of_their_tool():
    server = ScriptedServer(["read", "write"])
    rules = {"all": {"rate": "100/hour"}, "reads": {"tool": "fs:read", "rate": "3/hour"}}
    async with gateway(server, **rules) as made:
        for n in range(2):
            plan = Workflow(id="w", tasks=(call(id="1"), call("fs:write", id="2")))
            inner = Workflow(id=f"outer{n}", tasks=(plan,))
            assert (await made.dispatcher.start(inner, ALICE)).status is Status.OK
        assert (await made.dispatcher.start(call(), ALICE)).status is Status.OK
        assert (await made.dispatcher.start(call(), ALICE)).failure.details["rule"] == "reads"
        (limits,) = {id(found): found for found in limits_of(made).rules.seen() if len(found.rates) == 1}.values()
        (rated,) = limits.rates
        counted = limits_of(made).rates.windows.kept[rated.limit.key].current
    assert counted == 5, "three reads and two writes; neither the plans nor the refused call"


def limits_of(made):
    return plugin.limiter_of(made.assembly.services("limits"))


async def test_a_tool_that_stands_for_another_call_counts_once():
    def other(arguments):
        return call()

    tool = MetaTool(definition={"name": "call_it", "inputSchema": {"type": "object"}}, task=other)
    async with gateway(plugins={("hooks", "tools"): hooks(tool)}, few={"rate": "2/hour"}) as made:
        statuses = [(await made.dispatcher.start(call("pml:call_it"), ALICE)).status for _ in range(3)]
    assert statuses == [Status.OK, Status.OK, Status.DENIED]


async def test_the_gateways_own_tools_are_limited_too():
    async def answer(arguments, run):
        return {"executions": []}

    definition = {"name": "list_recent_executions", "inputSchema": {"type": "object"}}
    plugins = {("hooks", "tools"): hooks(MetaTool(definition=definition, call=answer))}
    async with gateway(
        plugins=plugins, history={"tool": "pml:list_*", "rate": "2/minute", "per": ["principal"]}
    ) as made:
        statuses = [(await made.dispatcher.start(call("pml:list_recent_executions"), ALICE)).status for _ in range(3)]
    assert statuses[-1] is Status.DENIED


async def test_a_rule_can_be_for_workflows_themselves():
    async with gateway(plans={"kind": "workflow", "rate": "1/hour"}) as made:
        plan = Workflow(id="w", tasks=(call(),))
        assert (await made.dispatcher.start(plan, ALICE)).status is Status.OK
        refused = await made.dispatcher.start(plan, ALICE)
    assert refused.failure.code == "limit.rate"
    assert "Workflow" in refused.failure.message


# Settings


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"rate": "many"}, "rate 'many' is not understood; write it as '100/minute'"),
        ({"rate": "0/minute"}, "lets nothing pass"),
        ({"rate": "1/second; 5/minute"}, "more than one"),
        ({}, "it limits nothing"),
        ({"queue_s": 3, "rate": "1/second"}, "queue_s means nothing without concurrency"),
        ({"concurrency": -1}, "concurrency is -1"),
        ({"time_out_s": float("inf")}, "finite"),
        ({"kind": "code", "tool": "fs:*", "rate": "1/second"}, "mean nothing for kind = 'code'"),
        ({"principal": "", "rate": "1/second"}, "principal is empty"),
        ({"per": ["tool", "tool"], "rate": "1/second"}, "twice"),
        ({"per": ["key"], "rate": "1/second"}, "Input should be 'principal', 'agent', 'tool' or 'server'"),
        ({"rat": "1/second"}, "unknown key"),
        ({"concurrency": "few"}, "valid integer"),
    ],
)
async def test_mistakes_in_rules_keep_the_gateway_from_starting_and_say_where(rule, message):
    with pytest.raises(OperatorError) as caught:
        async with gateway(mine=rule):
            pass
    assert message in str(caught.value)
    assert "plugins.limits.rules.mine" in str(caught.value)


async def test_without_rules_no_call_passes_it():
    async with gateway() as made:
        assert [w.wrapper for w in made.wrappers if w.plugin == "limits"] == []


def test_the_doctor_names_rules_that_fit_nothing():
    from pml_testing.fakes import FakeCatalog, some_entries

    rules = {
        "ghost": Rule(server="ghost", rate="1/second"),
        "typo": Rule(tool="s00:raed*", rate="1/second"),
        "good": Rule(tool="s00:read*", rate="1/second", server="*"),
    }
    from pml_hookspecs import ServerStatus

    known = FakeCatalog(some_entries(1, 5), [ServerStatus(name="s00", state="up")])
    found = {c.title: c for c in plugin.pml_checks(FakeServices(settings=Settings(rules=rules), catalog=known))}
    assert set(found) == {"limit ghost", "limit typo"}
    assert "no server fits 'ghost'; there are pml, s00" in found["limit ghost"].detail
    assert "no tool of s00" in found["limit typo"].detail


# What it costs


async def test_a_call_within_its_rate_costs_no_coroutine_and_few_microseconds():
    wrapper = limiter(r={"rate": "1000000000/hour"})
    task, run, made = call(), FakeRun(), object()
    assert wrapper(task, run, lambda t, r: made) is made

    def following(task, run):
        return made

    def per_call_us(function):
        best = float("inf")
        for _ in range(7):
            started = time.thread_time()
            for _ in range(2000):
                function(task, run)
            best = min(best, (time.thread_time() - started) / 2000)
        return best * 1e6

    bare = per_call_us(following)
    limited = per_call_us(lambda t, r: wrapper(t, r, following)) - bare
    unmatched = limiter(r={"tool": "x:*", "rate": "1/hour"})
    free = per_call_us(lambda t, r: unmatched(t, r, following)) - bare
    # 1.7 and 0.3 on a machine that does nothing else.
    assert limited <= 6
    assert free <= 2


class TestContract(WrapperContract):
    @pytest.fixture(params=[False, True])
    def wrapper(self, request):
        return limiter(
            shared=request.param,
            few={"tool": "contract:few", "rate": "1/hour"},
            one={"tool": "contract:*", "concurrency": 5, "time_out_s": 60, "daily_usd": 5},
        )

    @pytest.fixture
    def unmatched(self):
        return call("other:tool")

    @pytest.fixture
    def tasks(self):
        return [call("contract:few"), call("contract:more")]
