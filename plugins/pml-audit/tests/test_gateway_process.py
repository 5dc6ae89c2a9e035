"""A gateway as users start it, killed while it answers; and the command that looks at what it left."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
from datetime import UTC, datetime

import pytest

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


@pytest.fixture
def environment(folder, tmp_path):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
    return {**kept, "PML_HOME": str(tmp_path / "home"), "PML_GATEWAY__STORE": "sqlite", "COLUMNS": "200"}


class Gateway:
    """On stdio."""

    def __init__(self, environment, folder):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pml_core", "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=folder,
        )
        self._ids = itertools.count(1)
        self.ask("initialize", HELLO)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def send(self, method, params):
        id = next(self._ids)
        self._send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        return id

    def answer(self):
        while line := self.process.stdout.readline():
            message = json.loads(line)
            if "id" in message and "method" not in message:
                return message
        return None

    def ask(self, method, params):
        self.send(method, params)
        return self.answer()

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(20)


def pml(environment, folder, *words):
    command = [sys.executable, "-m", "pml_core", *words]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)


def query(marker):
    return {"name": "get_execution_result", "arguments": {"agent_name": "x", "execution_id": marker}}


def test_every_query_that_was_answered_before_a_gateway_was_killed_has_its_row(environment, folder, tmp_path):
    rng, answered = random.Random(3), set()
    for life in range(2):
        gateway = Gateway(environment, tmp_path)
        sent = {gateway.send("tools/call", query(f"{life}-{n}")): f"{life}-{n}" for n in range(40)}
        for _ in range(rng.randrange(1, 30)):
            answered.add(sent[gateway.answer()["id"]])
        gateway.process.kill()
        gateway.process.wait()
        gateway.process.stdin.close()
        gateway.process.stdout.close()
    ran = pml(environment, tmp_path, "audit", "verify")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    listed = json.loads(
        pml(environment, tmp_path, "audit", "list", "--kind", "query", "--limit", "1000", "--json").stdout
    )
    assert answered
    assert answered <= {row["arguments"]["execution_id"] for row in listed}


@pytest.mark.attack("The audit stands up", "delete the history by command, and leave no row of it")
def test_whoever_deletes_history_leaves_rows_with_what_and_how_much(environment, folder, tmp_path):
    gateway = Gateway(environment, tmp_path)
    gateway.ask("tools/call", query("only"))
    gateway.end()
    now = datetime.now(UTC).isoformat()
    ran = pml(environment, tmp_path, "executions", "prune", "--before", now, "--json")
    assert ran.returncode == 0, ran.stderr
    gone = json.loads(ran.stdout)["deleted"]
    all_rows = [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]
    asked, done = (row for row in all_rows if row["kind"].startswith("history."))
    assert (asked["kind"], done["kind"], done["deleted"]) == ("history.prune", "history.pruned", gone)
    assert asked["before"].startswith(now[:10])
    assert asked["by"]
    assert pml(environment, tmp_path, "audit", "verify").returncode == 0


@pytest.mark.attack("The audit stands up", "cut rows off with their head, and run pml plugins doctor")
def test_the_doctor_of_an_installation_finds_what_was_cut_off(environment, folder, tmp_path):
    gateway = Gateway(environment, tmp_path)
    gateway.ask("tools/call", query("only"))
    gateway.end()

    def doctor():
        lines = json.loads(pml(environment, tmp_path, "plugins", "doctor", "--json").stdout)
        return next(line for line in lines if line["subject"] == "audit: audit")

    assert doctor()["ok"], doctor()
    path = folder / "audit.jsonl"
    left = path.read_bytes().splitlines(keepends=True)[:-2]
    path.write_bytes(b"".join(left))
    last = json.loads(left[-1])
    head = {"n": last["n"], "hash": last["hash"], "size": sum(map(len, left))}
    (folder / "audit.head").write_text(json.dumps(head))
    assert not doctor()["ok"]
    assert "the store knows of them" in doctor()["detail"]


def test_a_gateway_that_ends_in_good_order_leaves_a_whole_audit_and_tampering_shows(environment, folder, tmp_path):
    gateway = Gateway(environment, tmp_path)
    gateway.ask("tools/call", query("only"))
    gateway.end()
    kinds = [json.loads(line)["kind"] for line in (folder / "audit.jsonl").read_text().splitlines()]
    assert kinds[0] == "audit.began"
    assert kinds[-1] == "gateway.stopped"
    assert {"gateway.started", "key.used", "query"} <= set(kinds)
    assert pml(environment, tmp_path, "audit", "verify").returncode == 0
    path = folder / "audit.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"only"', b'"0nly"'))
    ran = pml(environment, tmp_path, "audit", "verify", "--json")
    assert ran.returncode == 1
    assert json.loads(ran.stdout)["first_broken"]["line"] == kinds.index("query") + 1


@pytest.mark.attack("The audit stands up", "delete by other commands than those of the history, and leave no row of it")
def test_whatever_a_command_deletes_leaves_a_row_with_who_and_what(environment, folder, tmp_path):
    gateway = Gateway(environment, tmp_path)
    gateway.end()
    notes = ["schedules", "add", "nightly", "--every", "1h", "--tool", "pml:search_tools", "--arguments", "{}"]
    added = pml(environment, tmp_path, *notes, "--json")
    for ran in (
        added,
        pml(environment, tmp_path, "schedules", "remove", "nightly"),
        pml(environment, tmp_path, "recordings", "prune", "--yes"),
        pml(environment, tmp_path, "capabilities", "forget", "--all"),
    ):
        assert ran.returncode == 0, ran.stderr
    all_rows = [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]
    found = {row["kind"]: row for row in all_rows}
    assert found["schedule.removed"]["schedule"] == "nightly"
    assert found["recordings.pruned"]["recordings"] == 0
    assert all(found[kind]["by"] for kind in ("schedule.removed", "recordings.pruned"))
    assert pml(environment, tmp_path, "audit", "verify").returncode == 0
