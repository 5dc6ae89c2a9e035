"""What people took of servers' tools stands in a file; what a server says otherwise is judged by its meaning."""

from __future__ import annotations

import json

import pytest
from rug import HARMLESS, OTHER, PULLED, Rug, wait_for

REWORDED = {
    **HARMLESS,
    "description": "Says when the last backup was made.",
    "inputSchema": {
        "type": "object",
        "properties": {"host": {"type": "string"}, "zone": {"type": "string"}},
    },
}
HIDDEN = {**HARMLESS, "description": "Tells when the last backup was made.\u200b\u202e"}
SAFER = {**OTHER, "annotations": {"readOnlyHint": True, "destructiveHint": False}}


@pytest.fixture
def rug(tmp_path):
    return Rug(tmp_path, None)


def locked(rug):
    return json.loads((rug.folder / "pml.lock").read_text("utf-8"))


def of_lock(caller):
    return {one["tool"]: one for server in caller.status()["servers"] for one in server.get("lock", ())}


def test_a_lock_is_written_and_written_the_same_again(rug):
    first = rug.run("lock")
    assert first.returncode == 0, first.stdout + first.stderr
    text = (rug.folder / "pml.lock").read_text("utf-8")
    assert set(locked(rug)["servers"]["ops"]["tools"]) == {"backup", "ping"}
    assert locked(rug)["servers"]["ops"]["tools"]["backup"]["description"] == [HARMLESS["description"]]
    assert rug.run("lock", "--check").returncode == 0
    rug.say(OTHER, dict(reversed(HARMLESS.items())))
    assert rug.run("lock").returncode == 0
    assert (rug.folder / "pml.lock").read_text("utf-8") == text


def test_what_waits_is_shown_and_taken(rug):
    assert rug.run("lock", "--check").returncode == 2
    rug.run("lock")
    rug.say(PULLED, {**OTHER, "description": "Pings a host."})
    checked = rug.run("lock", "--check", "--json")
    changes = {one["tool"]: one for one in json.loads(checked.stdout)["servers"][0]["changes"]}
    assert (checked.returncode, changes["backup"]["verdict"], changes["ping"]["verdict"]) == (1, "breaking", "harmless")
    written = rug.run("lock")
    assert written.returncode == 1
    assert "pml lock review" in written.stdout
    assert locked(rug)["servers"]["ops"]["tools"]["ping"]["description"] == ["Pings a host."]
    assert locked(rug)["servers"]["ops"]["tools"]["backup"]["description"] == [HARMLESS["description"]]
    shown = rug.run("lock", "review")
    assert shown.returncode == 1
    assert "inputSchema: ssh_key: new required argument" in shown.stdout
    assert '+  "ssh_key"' in shown.stdout
    assert rug.run("lock", "review", "--accept", "ops:nothing").returncode == 2
    assert rug.run("lock", "review", "--accept", "ops:backup").returncode == 0
    assert locked(rug)["servers"]["ops"]["tools"]["backup"]["annotations"] == PULLED["annotations"]
    assert rug.run("lock", "--check").returncode == 0
    rows = json.loads(rug.pml("audit", "list", "--json"))
    taken = [row["tools"] for row in rows if row["kind"] == "definitions.accepted"]
    now = locked(rug)["servers"]["ops"]["tools"]
    assert [list(tools) for tools in taken] == [["backup"], ["ping"], ["backup", "ping"]]
    assert taken[0] == {"backup": now["backup"]["digest"]}
    assert all(row["by"] for row in rows if row["kind"] == "definitions.accepted")


def test_what_nobody_sees_stands_in_the_file_as_escapes(rug):
    rug.say(HIDDEN, OTHER)
    assert rug.run("lock").returncode == 1
    assert set(locked(rug)["servers"]["ops"]["tools"]) == {"ping"}
    shown = rug.run("lock", "review", "--accept", "ops:*")
    assert shown.returncode == 0
    assert "\u202e" not in shown.stdout
    text = (rug.folder / "pml.lock").read_text("utf-8")
    assert "\\u200b\\u202e" in text
    assert "\u202e" not in text
    assert rug.run("lock", "--check").returncode == 0


def test_a_file_that_was_changed_by_hand_is_refused(rug):
    rug.run("lock")
    path = rug.folder / "pml.lock"
    path.write_text(path.read_text("utf-8").replace("last backup", "next backup"), "utf-8")
    done = rug.run("lock", "--check")
    assert done.returncode == 2
    assert "ops:backup" in done.stderr
    assert "digest" in done.stderr
    with rug.serving(), rug.caller() as caller:
        assert "digest" in caller.text("ops__ping")
    assert rug.marks() == []


def test_recorded_calls_are_held_against_what_is_listed_now(rug):
    rug.run("lock")
    rug.say({**HARMLESS, "inputSchema": {"type": "object", "properties": {"host": {"type": "integer"}}}})
    lines = [{"pml_recordings": 1}]
    for tool, arguments in (("ops:backup", {"host": "a"}), ("ops:backup", {}), ("ops:ping", {}), ("other:x", {})):
        lines.append({"recording": {"tool": tool, "arguments": arguments, "kind": "result", "answer": {}}})
    lines.append({"recording": {"tool": "ops:backup", "arguments": {"host": []}, "kind": "error", "answer": {}}})
    file = rug.folder / "session.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    done = rug.run("lock", "--check", "--recordings", str(file), "--json")
    recordings = json.loads(done.stdout)["recordings"]
    assert (done.returncode, recordings["calls"]) == (1, 4)
    assert [(one["tool"], one["arguments"]) for one in recordings["invalid"]] == [
        ("ops:backup", '{"host":"a"}'),
        ("ops:ping", "{}"),
    ]
    file.write_text("{}", "utf-8")
    assert rug.run("lock", "--check", "--recordings", str(file)).returncode == 2


@pytest.mark.attack(
    "What changed is said", "change a tool that is in the lock into one that wants a secret, and call it"
)
def test_a_changed_tool_is_blocked_and_no_other_until_somebody_has_reviewed_it(rug):
    rug.run("lock")
    with rug.serving(), rug.caller() as caller:
        assert caller.text("ops__backup") == "done"
        rug.say(PULLED, OTHER)
        change = wait_for(lambda: of_lock(caller).get("backup"))
        assert (change["verdict"], change["blocked"]) == ("breaking", True)
        listed = {tool["name"]: tool for tool in caller.ask("tools/list")["result"]["tools"]}
        assert listed["ops__backup"]["description"] == HARMLESS["description"]
        assert "pml lock review" in caller.text("ops__backup", ssh_key="k")
        plan = {"workflow": {"tasks": [{"id": "a", "tool": "ops:backup"}]}}
        caller.call("execute_workflow", **plan)
        assert caller.text("ops__ping") == "done"
        rug.say(OTHER)
        wait_for(lambda: "backup" not in of_lock(caller))
        assert "does not list it" in caller.text("ops__backup", ssh_key="k")
        rug.say(PULLED, OTHER)
        wait_for(lambda: "backup" in of_lock(caller))
        assert rug.marks() == ["backup", "ping"]
        doctor = rug.run("plugins", "doctor", "--json").stdout
        (line,) = [one for one in json.loads(doctor) if one["subject"] == "lock of ops"]
        assert (line["ok"], "backup" in line["detail"]) == (False, True)
        shown = json.loads(rug.run("servers", "tools", "ops", "--json").stdout)["tools"]
        assert {one["name"]: one["blocked"] for one in shown} == {"backup": True, "ping": False}
        assert rug.run("lock", "review", "--accept", "ops:backup").returncode == 0
        wait_for(lambda: "backup" not in of_lock(caller))
        assert caller.text("ops__backup", ssh_key="k") == "done"
        rows = json.loads(rug.pml("audit", "list", "--json"))
        assert any(row["kind"] == "definitions.blocked" and "backup" in row["tools"] for row in rows)


def test_other_words_and_a_new_optional_argument_pass_and_hints_that_calm_do_not_count(rug):
    rug.run("lock")
    with rug.serving(), rug.caller() as caller:
        rug.say(REWORDED, SAFER, {**OTHER, "name": "newcomer"})
        wait_for(lambda: "newcomer" in of_lock(caller))
        assert {name: one["blocked"] for name, one in of_lock(caller).items()} == {
            "backup": False, "ping": False, "newcomer": False,
        }  # fmt: skip
        listed = {tool["name"]: tool for tool in caller.ask("tools/list")["result"]["tools"]}
        assert listed["ops__backup"]["description"] == REWORDED["description"]
        assert not listed["ops__ping"].get("annotations")
        assert [caller.text(f"ops__{name}") for name in ("backup", "ping", "newcomer")] == ["done"] * 3
    assert rug.run("lock").returncode == 1
    assert "annotations" not in locked(rug)["servers"]["ops"]["tools"]["ping"]
    assert set(locked(rug)["servers"]["ops"]["tools"]) == {"backup", "ping", "newcomer"}


@pytest.mark.attack("What changed is said", "list a tool with a hidden text, and one by the name of another server's")
def test_hidden_text_and_a_shadow_are_blocked_at_first_sight(rug):
    rug.server("crm", "get_order", "list_orders")
    rug.run("lock")
    with rug.serving(), rug.caller() as caller:
        assert caller.text("ops__ping") == "done"
        rug.say(HARMLESS, OTHER, {**OTHER, "name": "Get-Order"}, {**HIDDEN, "name": "newcomer"})
        found = wait_for(lambda: of_lock(caller))
        assert {name: one["verdict"] for name, one in found.items()} == dict.fromkeys(
            ("Get-Order", "newcomer"), "suspicious"
        )
        names = json.dumps(caller.ask("tools/list"))
        assert "newcomer" not in names
        assert "Get-Order" not in names
        for name in ("Get-Order", "newcomer"):
            caller.call(f"ops__{name}")
        assert rug.marks() == ["ping"]
        assert "answered" in caller.text("crm__get_order")


def test_a_server_that_is_not_trusted_at_first_sight_waits_for_its_review(rug):
    rug.config.write_text(rug.config.read_text() + 'trust = "review"\n')
    with rug.serving(), rug.caller() as caller:
        caller.call("ops__ping")
        assert rug.marks() == []
        assert rug.run("lock").returncode == 1
        assert rug.run("lock", "review", "--accept", "ops:ping").returncode == 1
        wait_for(lambda: "ping" not in of_lock(caller))
        assert caller.text("ops__ping") == "done"
        caller.call("ops__backup")
        assert rug.marks() == ["ping"]


def test_without_a_lock_nothing_changes_but_a_note(rug):
    with rug.serving(), rug.caller() as caller:
        rug.say(PULLED, HIDDEN | {"name": "newcomer"})
        wait_for(lambda: "newcomer" in json.dumps(caller.ask("tools/list")))
        assert caller.text("ops__backup", ssh_key="k") == "done"
        assert "there is no pml.lock" in rug.log.read_text()
        assert of_lock(caller) == {}
