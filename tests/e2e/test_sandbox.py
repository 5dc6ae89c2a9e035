"""A server in its sandbox, from its section to what the gateway, its status and the doctor say of it."""

from __future__ import annotations

import json
import sys

import pytest
from gate import Gate, script

READER = script("""try:
    return open(arguments["path"]).read()
except OSError as error:
    return type(error).__name__""")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the jail is Linux's")


@pytest.fixture
def gate(tmp_path):
    made = Gate(tmp_path)
    (tmp_path / "granted").mkdir()
    (tmp_path / "granted/note.txt").write_text("tea")
    made.server("open", "read", script=READER)
    made.server("closed", "read", script=READER)
    table = f"[servers.closed.sandbox]\nread = {json.dumps([str(tmp_path / 'granted')])}\n"
    made.config.write_text(made.config.read_text() + table)
    return made


@pytest.mark.attack("Servers", "read the gateway's configuration through a tool of a local server")
def test_a_server_reads_what_is_granted_and_nothing_else(gate, tmp_path):
    with gate.serving(), gate.caller() as caller:
        for name in ("open", "closed"):
            assert caller.text(f"{name}__read", path=str(tmp_path / "granted/note.txt")) == "tea"
        assert "[servers.closed]" in caller.text("open__read", path=str(gate.config))
        assert caller.text("closed__read", path=str(gate.config)) in {"FileNotFoundError", "PermissionError"}
        told = {server["name"]: server["sandbox"] for server in caller.status()["servers"]}
    assert told == {"closed": {"read": [str(tmp_path / "granted")]}, "open": False}


def test_the_doctor_says_what_stands_around_each_server(gate):
    lines = {line["subject"]: line for line in json.loads(gate.pml("plugins", "doctor", "--json"))}
    assert lines["server closed"]["detail"].endswith("sandbox (namespaces, Landlock, seccomp); no network")
    assert lines["server open"]["detail"].endswith("no sandbox: it may do what this account may")
    listed = json.loads(gate.pml("servers", "list", "--json"))["servers"]
    assert [bool(server["sandbox"]) for server in sorted(listed, key=lambda one: one["name"])] == [True, False]
