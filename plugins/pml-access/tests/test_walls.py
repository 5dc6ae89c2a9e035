"""What the holder of a key can find out about servers."""

from __future__ import annotations

import json
import time

import pytest
from gate import PATIENCE_S, Gate

DOWN = "import sys; sys.stderr.write('cannot open /srv/vault/master.db for admin'); sys.exit(3)"


@pytest.fixture(scope="module")
def gate(tmp_path_factory):
    made = Gate(tmp_path_factory.mktemp("gate"))
    made.server("notes", "read", "write")
    made.server("vault", script=DOWN)
    made.server("payroll", "lay_off")
    made.alice, made.bob = made.key("--user", "alice"), made.key("--user", "bob", "--allow", "notes:read")
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
    assert states(status) == {"notes": ("up", 2), "payroll": ("up", 1)}
    assert "master.db" not in json.dumps(status)
    for key in ("", gate.system):
        with gate.caller(key) as operator:
            status = operator.status()
        assert states(status) == {"notes": ("up", 2), "payroll": ("up", 1), "vault": ("down", 0)}
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
        assert local.text("nowhere:x").endswith("configured: notes, payroll, vault")
