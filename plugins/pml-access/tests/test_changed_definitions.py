"""A server says otherwise of its tools than before: while the gateway runs, and while it did not."""

from __future__ import annotations

import json
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from gate import PATIENCE_S
from rug import FIELDS, HARMLESS, OTHER, PULLED, Rug, wait_for


def is_kept(rug):
    """Whether what was seen first is in the store; if the gateway ends before, it is seen first again."""
    with closing(sqlite3.connect(rug.folder / "home" / "pml.db")) as store:
        found = store.execute("SELECT value FROM document WHERE CAST(collection AS TEXT) = 'core.definitions'")
        return any("backup" in str(value) for (value,) in found)


@pytest.mark.attack("What changed is said", "turn a harmless tool into a destructive one that wants a secret")
def test_a_change_is_said_and_the_list_that_clients_have_changes(tmp_path):
    rug = Rug(tmp_path, None)
    with rug.serving(), rug.caller() as caller:
        before = caller.ask("tools/list")["result"]["tools"]
        rug.say(PULLED, OTHER)
        changed = wait_for(lambda: rug.changed(caller))
        assert (changed["backup"]["fields"], changed["backup"]["held"]) == (FIELDS, False)
        assert list(changed) == ["backup"]
        assert caller.ask("tools/list")["result"]["tools"] != before
        assert caller.text("ops__backup", ssh_key="k") == "done"
        told = [line for line in rug.log.read_text().splitlines() if "the definition of a tool has changed" in line]
        assert len(told) == 1
        assert "tool=backup" in told[0]
        assert "pml servers accept ops" in told[0]
        rows = wait_for(lambda: [row for row in audit(rug) if row["kind"] == "definitions.changed"])
        assert [row["tools"] for row in rows] == [{"backup": FIELDS}]
        doctor = rug.pml("plugins", "doctor", "--json")
        (line,) = [one for one in json.loads(doctor) if one["subject"] == "definitions of ops"]
        assert line["ok"]
        assert "backup (description, inputSchema, annotations" in line["detail"]
        shown = rug.accept()
        assert (shown.returncode, "-    Tells" in shown.stdout or "-Tells" in shown.stdout) == (1, True)
        assert '+  "ssh_key"' in shown.stdout
        assert rug.accept("--yes").returncode == 0
        wait_for(lambda: not rug.changed(caller))


def audit(rug):
    return [json.loads(line) for line in rug.pml("audit", "list", "--json").splitlines() if line.startswith("{")] or (
        json.loads(rug.pml("audit", "list", "--json"))
    )


@pytest.mark.attack("What changed is said", "change a held tool while the gateway runs, and have it called")
def test_a_held_tool_is_refused_until_its_change_is_accepted(tmp_path):
    rug = Rug(tmp_path, "hold")
    with rug.serving(), rug.caller() as caller:
        assert caller.text("ops__backup") == "done"
        rug.say(PULLED, OTHER)
        wait_for(lambda: rug.changed(caller))
        listed = {tool["name"]: tool for tool in caller.ask("tools/list")["result"]["tools"]}
        assert listed["ops__backup"]["description"] == HARMLESS["description"]
        assert "pml servers accept ops" in caller.text("ops__backup", ssh_key="k")
        plan = {"workflow": {"tasks": [{"id": "a", "tool": "ops:backup"}]}}
        caller.call("execute_workflow", **plan)
        assert caller.text("ops__ping") == "done"
        assert rug.marks() == ["backup", "ping"]
        assert rug.accept().returncode == 1
        assert rug.accept("ping").returncode != 0
        assert "Accepted on ops: backup." in rug.accept("backup", "--yes").stdout
        wait_for(lambda: not rug.changed(caller))
        assert caller.text("ops__backup", ssh_key="k") == "done"
        listed = {tool["name"]: tool for tool in caller.ask("tools/list")["result"]["tools"]}
        assert listed["ops__backup"]["description"] == PULLED["description"]


@pytest.mark.attack("What changed is said", "change a held tool while no gateway runs, after it was taken away")
@pytest.mark.parametrize("start", ["eager", "lazy"])
def test_a_change_across_a_restart_is_held(tmp_path, start):
    rug = Rug(tmp_path, "hold")
    rug.config.write_text(rug.config.read_text() + f"start = {json.dumps(start)}\n")
    with rug.serving(), rug.caller() as caller:
        caller.text("ops__ping")
        rug.say(OTHER)
        wait_for(lambda: "ops__backup" not in json.dumps(caller.ask("tools/list")))
        wait_for(lambda: is_kept(rug))
    rug.say(PULLED, OTHER, {**OTHER, "name": "newcomer"})
    with rug.serving(), rug.caller() as caller:
        for name in ("backup", "newcomer"):
            caller.call(f"ops__{name}", ssh_key="k")
        assert caller.text("ops__ping") == "done"  # starts it, where nothing else did
        changed = wait_for(lambda: rug.changed(caller))
        assert {name: one["fields"] for name, one in changed.items()} == {"backup": FIELDS, "newcomer": ["new"]}
        for name in ("backup", "newcomer"):
            caller.call(f"ops__{name}", ssh_key="k")
        assert rug.marks() == ["ping", "ping"]
        assert "newcomer" not in json.dumps(caller.ask("tools/list"))


@pytest.mark.attack("What changed is said", "say that the list has changed and keep silent about how")
def test_calls_that_race_with_a_change_of_a_held_tool_wait_for_the_list(tmp_path):
    rug = Rug(tmp_path, "hold")
    with rug.serving(), rug.caller() as caller:
        caller.text("ops__ping")
        (tmp_path / "silent").touch()
        rug.say(PULLED, OTHER)
        time.sleep(1)  # the notification is on its way
        with ThreadPoolExecutor(8) as pool:
            calls = [pool.submit(_call, rug) for _ in range(8)]
            time.sleep(1)
            assert rug.marks() == ["ping"]
            (tmp_path / "silent").unlink()
            answers = [call.result(PATIENCE_S) for call in calls]
        assert all("was not called" in answer for answer in answers), answers
        assert rug.marks() == ["ping"]


def _call(rug):
    with rug.caller() as caller:
        return caller.text("ops__backup")


def test_what_was_shown_is_what_is_accepted(tmp_path):
    rug = Rug(tmp_path, "hold")
    with rug.serving(), rug.caller() as caller:
        caller.text("ops__ping")
        rug.say(PULLED, OTHER)
        wait_for(lambda: rug.changed(caller))
        wait_for(lambda: "ssh_key" in rug.accept("--json").stdout)
        rug.accept("--yes")
        rug.say({**PULLED, "description": "Gives everything away."}, OTHER)
        wait_for(lambda: rug.changed(caller).get("backup", {}).get("fields") == ["description"])
        assert "was not called" in caller.text("ops__backup", ssh_key="k")
        rug.say(PULLED, OTHER)
        wait_for(lambda: not rug.changed(caller))
        assert caller.text("ops__backup", ssh_key="k") == "done"
