"""Attacks by a server that looks at its environment, and by one that tells what it was given."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from gate import Gate, script

from pml_kit.system.environment import is_usual

TELLER = script(
    "return json.dumps(dict(os.environ))",
    'print("starting with", os.environ.get("MINE"), file=sys.stderr, flush=True)',
)
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
    gate.server(name, "tell", script=script, **more)
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
    assert not [name for name in environment if name.startswith("PML_")]
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
    gate.server("teller", "tell", script=TELLER, env_file="secrets.env")
    gate.server("late", "tell", script=TELLER, env_file="secrets.env", start="lazy")
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


POISON = {
    "AWS_SECRET_ACCESS_KEY": "poison-aws-1", "OPENAI_API_KEY": "poison-openai-1", "LD_PRELOAD": "/poison/preload.so",
    "PYTHONPATH": "/poison/python", "NODE_OPTIONS": "--poison", "GIT_SSH_COMMAND": "poison-git-1",
    "PML_GATEWAY__PAGE_SIZE": "7717", "pml_gateway__intent": "poison-intent",
}  # fmt: skip
MARKS = {"_PML_STARTED_BY", "_PML_AGENT_TURN"}
DUMP = "import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1], 'w')); print('tok-of-a-command')"
DUMP_AND_ANSWER = "import json, os, sys; print(json.dumps(dict(os.environ)))"
CODE = "import os\nreturn dict(os.environ)"


def descendants(pid):
    """All processes below one, by number: what each was given as its environment."""
    parents = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
    found, below = {}, {pid}
    while below:
        below = {one for one, parent in parents.items() if parent in below}
        for one in below:
            with suppress(OSError):
                found[one] = Path(f"/proc/{one}/environ").read_bytes().decode(errors="replace")
    return found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks at the environment of others in /proc")
@pytest.mark.attack(
    "A server's environment", "look for keys of clouds and models, or be loaded with a library of others"
)
def test_nothing_that_is_started_gets_more_than_the_documented_minimum(gate):
    gate.environment |= {**POISON, "VAULT_ADDR": "https://vault.example"}
    dump = gate.folder / "command.json"
    asked = f"${{command:{sys.executable} -c {shlex.quote(DUMP)} {dump}}}"
    server(gate, "teller", TELLER)
    gate.config.write_text(
        f"{gate.config.read_text()}TOKEN = {json.dumps(asked)}\n"
        '[gateway.executors]\n"code.python" = "cpython"\n'
        f"[plugins.agents.agents.helper]\ncommand = {json.dumps([sys.executable, '-c', DUMP_AND_ANSWER])}\n"
    )
    with gate.serving() as served, gate.caller(BOB) as bob:
        told = {"server": bob.text("teller__tell")}
        told["code"] = bob.text("run_code", language="python", code=CODE)
        told["agent"] = bob.text("agents__helper", message="hello")
        below = descendants(served.pid)
    dump, doctor_dump = dump.rename(gate.folder / "of-the-gateway.json"), dump
    assert "ok  server teller" in gate.pml("plugins", "doctor")
    told["command"], told["command of the doctor"] = dump.read_text(), doctor_dump.read_text()
    said = [*told.values(), *below.values()]
    assert len(below) >= len(("server", "its watchdog", "what starts code"))
    assert [
        name for name, value in POISON.items() if any(f'"{name}"' in one or f"{name}=" in one for one in said)
    ] == []
    assert [value for value in POISON.values() if any(value in one for one in said)] == []
    assert set(json.loads(told["code"])) == {"LC_ALL", "TZ"}
    assert set(json.loads(json.loads(told["agent"])["response"])) <= {"PATH", "HOME", "LANG", *MARKS}
    for name, more in {"server": {"MINE", "TOKEN"}, "command": {"VAULT_ADDR"}}.items():
        environment = json.loads(told[name])
        assert more <= set(environment)
        assert [one for one in environment if not is_usual(one) and one not in {*more, *MARKS}] == []
    assert told["command of the doctor"] == told["command"]
