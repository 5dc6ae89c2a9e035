"""What the holder of a key can find out about servers."""

from __future__ import annotations

import json
import re
import time

import pytest
from gate import PATIENCE_S, Gate

DOWN = "import sys; sys.stderr.write('cannot open /srv/vault/master.db for admin'); sys.exit(3)"
COUNTED = {"counted": ("up", 3)}
RULES = """
[plugins.limits.rules.of_gamma]
tool = "counted:own"
agent = "gamma"
rate = "1/day"

[plugins.limits.rules.of_each]
tool = "counted:others"
per = ["agent"]
rate = "2/day"
"""


@pytest.fixture(scope="module")
def gate(tmp_path_factory):
    made = Gate(tmp_path_factory.mktemp("gate"), RULES)
    made.server("notes", "read", "write")
    made.server("vault", script=DOWN)
    made.server("payroll", "lay_off")
    made.server("counted", "own", "others", "read")
    made.alice, made.bob = made.key("--user", "alice"), made.key("--user", "bob", "--allow", "notes:read")
    made.gamma, made.carol = made.key("--agent", "gamma"), made.key("--user", "carol", "--allow", "counted:*")
    made.system = made.key("--system")
    with made.serving():
        with made.caller() as local:
            until_s = time.monotonic() + PATIENCE_S
            while {s["state"] for s in local.status()["servers"]} != {"up", "down"}:
                assert time.monotonic() < until_s
                time.sleep(0.1)
        yield made


def states(status):
    return {server["name"]: (server["state"], server["tools"]) for server in status["servers"]}


@pytest.mark.attack("A key sees its scope", "read pml://status for the names and the stderr of servers of others")
def test_a_key_is_told_of_the_servers_that_it_may_use_and_of_nothing_else(gate):
    with gate.caller(gate.bob) as bob:
        status = bob.status()
    assert states(status) == {"notes": ("up", 1)}
    assert status.keys() == {"version", "mode", "servers"}
    said = json.dumps(status)
    for secret in ("vault", "payroll", "/srv", "master.db", "status 3"):
        assert secret not in said


@pytest.mark.attack("A key sees its scope", "read pml://status for why a server is down")
def test_why_a_server_is_down_is_for_the_operator(gate):
    with gate.caller(gate.alice) as alice:
        status = alice.status()
    assert states(status) == {**COUNTED, "notes": ("up", 2), "payroll": ("up", 1)}
    assert "master.db" not in json.dumps(status)
    for key in ("", gate.system):
        with gate.caller(key) as operator:
            status = operator.status()
        assert states(status) == {**COUNTED, "notes": ("up", 2), "payroll": ("up", 1), "vault": ("down", 0)}
        (vault,) = [server for server in status["servers"] if server["name"] == "vault"]
        assert "/srv/vault/master.db" in vault["reason"]
        assert {"access", "sqlite"} <= status["plugins"].keys()


@pytest.mark.attack("A key sees its scope", "call tools of made-up servers and read which servers the refusals name")
def test_refusals_name_no_server_that_the_key_may_not_use_and_no_reason(gate):
    with gate.caller(gate.bob) as bob:
        refusals = {name: bob.text(f"{name}:x") for name in ("vault", "nowhere")}
    assert refusals["vault"] == refusals["nowhere"].replace("nowhere", "vault")
    assert refusals["nowhere"].endswith("it is not configured; configured: notes")
    with gate.caller() as local:
        assert "/srv/vault/master.db" in local.text("vault:x")
        assert local.text("nowhere:x").endswith("configured: counted, notes, payroll, vault")


@pytest.mark.attack("A key sees its scope", "give the name of a configured agent as clientInfo.name")
def test_a_client_that_calls_itself_like_an_agent_is_not_that_agent(gate):
    with gate.caller(gate.carol, name="gamma") as carol, gate.caller(gate.gamma) as gamma:
        assert "answered" in carol.text("counted:own", by="carol")
        assert "answered" in carol.text("counted:own", by="carol")
        assert "answered" in gamma.text("counted:own", by="gamma")
        assert "of_gamma" in gamma.text("counted:own", by="gamma")
    with gate.caller(gate.system) as system:
        of_gamma = json.loads(system.text("list_recent_executions", agent_name="gamma"))["executions"]
        claimed = json.loads(system.text("list_recent_executions", agent_name="client:gamma"))["executions"]
        (row,) = [
            row
            for row in json.loads(system.text("get_agent_activity_summary"))["by_agent"]
            if row["agent_name"] == "gamma"
        ]
    assert [e["message"] for e in of_gamma if "carol" in e["message"]] == []
    assert [e["message"] for e in claimed if "gamma" in e["message"]] == []
    assert (len(of_gamma), len(claimed), row["executions"]) == (2, 2, 2)


@pytest.mark.attack("A key sees its scope", "give another clientInfo.name with each call, to begin a new limit")
def test_a_new_name_of_a_client_begins_no_new_limit(gate):
    answers = []
    for name in ("one", "two", "three"):
        with gate.caller(gate.carol, name=name) as carol:
            answers.append("answered" in carol.text("counted:others"))
    assert answers == [True, True, False]


@pytest.mark.attack("A key sees its scope", "call tools that others have and made-up ones, and compare the refusals")
@pytest.mark.parametrize(
    ("there", "made_up"),
    [
        ("payroll:lay_off", "payroll:lay_oof"),
        ("payroll__lay_off", "payroll__lay_oof"),
        ("lay_off", "lay_oof"),
        ("notes:write", "notes:wriye"),
        ("notes__write", "notes__wriye"),
        ("agents:gamma", "agents:gamna"),
    ],
)
def test_what_a_key_may_not_have_is_refused_as_what_nobody_has(gate, there, made_up):
    with gate.caller(gate.bob) as bob:
        for ask in (bob.text, by_call_tool(bob), by_plan(bob), by_rehearsal(bob)):
            assert plain(ask(there)) == plain(ask(made_up)).replace(made_up, there)
        assert "answered" in bob.text("read"), "the one of two tools of a name that it may have"


def plain(said):
    """What was said without times, and without digests, which have the name in them."""
    return re.sub(r'(ok_ms"|took_ms"|duration_ms"|plan_digest"):\s*("\w+"|[\d.]+)', r"\1", said)


def by_call_tool(caller):
    def said(name):
        answer = caller.ask("tools/call", name="call_tool", arguments={"name": name, "arguments": {}})
        return json.dumps(answer)

    return said


def by_plan(caller):
    return lambda name: caller.text("execute_workflow", workflow=plan_of(name))


def by_rehearsal(caller):
    return lambda name: caller.text("execute_workflow", workflow=plan_of(name), dry_run=True)


def plan_of(name):
    return {"tasks": [{"id": "a", "tool": name, "arguments": {"x": 1}}]}


@pytest.mark.attack("A key sees its scope", "search for tools and read why servers of others are down")
def test_a_search_names_no_server_that_the_key_may_not_use(gate):
    with gate.caller(gate.bob) as bob:
        said = bob.text("search_tools", query="read master")
    assert "vault" not in said
    assert "master.db" not in said


def told(caller):
    """All that somebody is told of history, counts and tools, without times and ids."""
    answers = [json.dumps(caller.status()), json.dumps(caller.ask("tools/list"))]
    answers += [caller.text("search_executions", query=word) for word in ("payday", "pay", "rose")]
    answers.append(caller.text("list_recent_executions", agent_name="client:client"))
    answers.append(caller.text("get_agent_activity_summary"))
    answers.append(caller.text("search_tools", query="read"))
    return [
        re.sub(r'"(id|\w+_at|next_cursor|\w*duration_seconds)": ("[^"]*"|[\d.e-]+)', r'"\1"', one) for one in answers
    ]


@pytest.mark.attack("A key sees its scope", "ask for everything before and after somebody else has done something")
def test_what_others_do_changes_no_answer(gate):
    seen = []
    with gate.caller(gate.carol) as carol:
        for user in ("dora", "erin"):
            with gate.caller(gate.key("--user", user)) as her:
                her.text("notes:read", flower="rose")
                seen.append(told(her))
            for n in range(5):
                carol.text("counted:read", secret=f"payday {n}", flower="rose")
        assert "payday 4" in carol.text("search_executions", query="payday")
    assert seen[0] == seen[1]
