"""Attacks by a server that looks at its environment, and by one that tells what it was given."""

from __future__ import annotations

import json

import pytest
from gate import Gate

TELLER = """
import json, os, sys
print("starting with", os.environ.get("MINE"), file=sys.stderr, flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params") or {}
    if "id" not in message:
        continue
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "teller", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "tell", "description": "Tells.", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": json.dumps(dict(os.environ))}]}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
FALLEN = "import os, sys; print('no way in with', os.environ.get('MINE'), file=sys.stderr); sys.exit(3)"
ALICE, SECRET, ITS_OWN = "tok-alice-4f1c77aa", "the-house-secret-91", "plainword-given-by-name"
KEYS = """
[gateway]
log_level = "debug"
[plugins.http.tokens]
alice = "${ALICE_TOKEN}"
bob = "${BOB_TOKEN}"
"""
BOB = "tok-bob-77ac0b1d"


@pytest.fixture
def gate(tmp_path):
    made = Gate(tmp_path, KEYS)
    secrets = {"ALICE_TOKEN": ALICE, "BOB_TOKEN": BOB, "SECRET_TOKEN": SECRET, "WORD": ITS_OWN}
    made.environment |= {**secrets, "DOCKER_HOST": "unix:///d", "DOCKER_CONFIG": "/d", "LC_TIME": "C"}
    return made


def server(gate, name, script, **more):
    gate.server(name, script=script, **more)
    gate.config.write_text(gate.config.read_text() + f'[servers.{name}.env]\nMINE = "${{WORD}}"\n')


@pytest.mark.attack("A server's environment", "read the gateway's secrets and other clients' tokens")
def test_a_server_gets_the_usual_variables_and_what_it_was_given(gate):
    server(gate, "teller", TELLER, inherit_env=["DOCKER_*"])
    with gate.serving(), gate.caller(BOB) as bob:
        environment = json.loads(bob.text("teller__tell"))
    said = json.dumps(environment)
    assert ALICE not in said
    assert BOB not in said
    assert SECRET not in said
    assert not [name for name in environment if name.startswith("PML_") and name != "PML_STDIO_MARK"]
    assert environment["MINE"] == ITS_OWN
    assert (environment["DOCKER_HOST"], environment["DOCKER_CONFIG"]) == ("unix:///d", "/d")
    assert (environment["PATH"], environment["LC_TIME"]) == (gate.environment["PATH"], "C")


@pytest.mark.attack("A server's environment", "print a value that was given by reference")
def test_what_a_reference_stands_for_is_kept_nowhere(gate):
    server(gate, "teller", TELLER)
    server(gate, "fallen", FALLEN)
    with gate.serving(), gate.caller(BOB) as bob:
        assert ITS_OWN in bob.text("teller__tell", mine=ITS_OWN)
        status = json.dumps(bob.status())
        shown = gate.pml("executions", "list", "--json")
    assert ITS_OWN not in status
    assert ITS_OWN not in shown
    assert ITS_OWN not in gate.log.read_text()
    kept = [path for path in (gate.folder / "home").rglob("*") if path.is_file()]
    assert kept
    assert [str(path) for path in kept if ITS_OWN.encode() in path.read_bytes()] == []


@pytest.mark.attack("A server's environment", "print what env_file gave it, also after the file was changed")
def test_what_a_file_of_variables_says_is_kept_nowhere(gate):
    first, second = "first-of-the-file-1", "second-of-the-file-2"
    secrets = gate.folder / "secrets.env"
    secrets.write_text(f"MINE={first}\n")
    gate.server("teller", script=TELLER, env_file="secrets.env")
    gate.server("late", script=TELLER, env_file="secrets.env", start="lazy")
    gate.server("fallen", script=FALLEN, env_file="secrets.env")
    with gate.serving(), gate.caller(BOB) as bob:
        assert json.loads(bob.text("teller__tell", mine=first))["MINE"] == first
        assert json.loads(bob.text("late__tell"))["MINE"] == first
        shown = json.dumps(bob.status()) + gate.log.read_text()
    with gate.serving(), gate.caller(BOB) as bob:  # whose catalog is kept, so that the lazy one has not started
        secrets.write_text(f"MINE={second}\n")
        assert json.loads(bob.text("late__tell", mine=second))["MINE"] == second
        shown += json.dumps(bob.status()) + gate.pml("executions", "list", "--json") + gate.pml("config")
    shown += gate.log.read_text()
    kept = [path for path in (gate.folder / "home").rglob("*") if path.is_file()]
    assert kept
    for secret in (first, second):
        assert secret not in shown
        assert [str(path) for path in kept if secret.encode() in path.read_bytes()] == []
