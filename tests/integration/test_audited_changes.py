"""Whatever changes something leaves a row in the audit: commands, routes and tools of PML, all of them by name."""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "docs"))

READS = frozenset({
    "access show", "advise", "agents list", "agents queue", "approvals list", "approvals show", "audit export",
    "audit list", "auth list", "audit verify", "capabilities export", "capabilities graph", "capabilities list",
    "capabilities show", "config check", "config explain", "config presets", "config schema", "costs check",
    "costs estimate", "eval", "executions costs", "executions export", "executions list", "executions search",
    "executions show", "executions summary", "executions tail", "inspect", "keys list", "keys show", "limits show",
    "metrics", "notebook export", "notebook list", "notebook show", "plugins chain", "plugins doctor", "plugins list",
    "recordings export", "recordings list", "recordings show", "report", "runs list", "runs show",
    "schedules history", "schedules list", "schedules show", "search", "servers list", "servers tools", "tokens",
})  # fmt: skip
RUNS = {
    "agents chat": "a call: it is in the history, and denied it is in the audit",
    "bench plugins": "calls of its own, in a process and a folder of its own",
    "console": "a page: what is done there has rows of its own",
    "demo": "a gateway of its own in a folder that vanishes",
    "notebook run": "calls: they are in the history",
    "replay": "calls of its own gateway: they are in the history",
    "serve": "gateway.started and gateway.stopped",
}
ELSEWHERE = {
    "connect": "writes the file of another program",
    "disconnect": "writes the file of another program",
    "plugin new": "writes a new folder",
}
FILE = "config.changed"
"""No gateway is told, since none may start with a file that has to be mended: the file itself is watched."""
ROWS = {
    "access disown": "agent.changed", "access forbid": "agent.changed", "access own": "agent.changed",
    "access permit": "agent.changed", "access share": "agent.changed", "access unshare": "agent.changed",
    "approvals approve": "approval.answered", "approvals deny": "approval.answered",
    "auth login": "login.created", "auth logout": "login.deleted", "auth rotate": "login.keys_rotated",
    "capabilities disable": "capability.disabled", "capabilities enable": "capability.enabled",
    "capabilities forget": "capability.deleted", "capabilities import": "capability.imported",
    "capabilities rename": "capability.renamed",
    "config": FILE, "import": FILE, "servers add": FILE, "servers disable": FILE, "servers enable": FILE,
    "servers remove": FILE, "trust": FILE, "untrust": FILE,
    "executions prune": "history.pruned",
    "keys create": "key.created", "keys lock": "key.locked", "keys revoke": "key.revoked",
    "lock": "definitions.accepted", "lock review": "definitions.accepted", "servers accept": "definitions.accepted",
    "notebook create": "notebook.created", "notebook delete": "notebook.deleted",
    "notebook import": "notebook.imported",
    "recordings import": "recordings.imported", "recordings prune": "recordings.pruned",
    "runs cancel": "run.cancelled", "runs decide": "run.decided", "runs resume": "run.resumed",
    "schedules add": "schedule.added", "schedules pause": "schedule.paused", "schedules remove": "schedule.removed",
    "schedules resume": "schedule.resumed", "schedules run-now": "schedule.run_asked",
    "servers restart": "servers.restarted",
}  # fmt: skip
ROUTES = {
    "POST /api/approvals/{id}": "approval.answered",
    "POST /api/definitions": "definitions.accepted",
    "POST /approvals/{id}": "approval.answered",
    "POST /capabilities/{id}": "capability.disabled",
    "POST /enter": "console.login",
    "POST /login": "console.login",
    "POST /logins/{id}": "login.created",
    "POST /logout": "console.logout",
    "POST /schedules/{name}": "schedule.paused",
    "POST /servers/{name:path}": "servers.disabled",
}
CALLS = frozenset({"POST /plans", "POST /tools/{id:path}"})
"""Calls, which are in the history. A tool that is switched has ``tools.switched_off``, one taken, its own row."""


def commands() -> set[str]:
    import made_cli

    return {path for name, (parser, _, _) in made_cli._commands().items() for path in _leaves(parser, name)}


def _leaves(parser: argparse.ArgumentParser, path: str) -> list[str]:
    verbs = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    here = [path] if parser.get_default("run") is not None or not verbs else []
    below = [(f"{path} {name}", one) for verb in verbs for name, one in verb.choices.items()]
    return here + [leaf for name, one in below for leaf in _leaves(one, name)]


def test_each_command_is_known_to_read_to_call_or_to_have_a_row():
    known = [*READS, *RUNS, *ELSEWHERE, *ROWS]
    assert len(known) == len(set(known))
    assert commands() == set(known), "a new command that changes something needs a row in the audit, and a line here"


def test_each_route_that_is_sent_to_has_a_row():
    from pml_console.site import POST

    outside = {"POST /login", "POST /enter", "POST /api/definitions", "POST /api/approvals/{id}", "POST /logins/{id}"}
    assert {f"POST {path}" for path in POST} | outside == {*ROUTES, *CALLS}
    of_approvals, of_logins = "pml-approvals/api.py", "pml-transport-http/pages.py"
    assert sending_routes() == {"pml-console/site.py", "pml-console/review_api.py", of_approvals, of_logins}, (
        "a new route that changes something needs a row in the audit"
    )


def sending_routes() -> set[str]:
    """Files of plugins with routes for more than GET, or for any method."""
    found = set()
    for path in REPOSITORY.glob("plugins/*/src/*/**/*.py"):
        text = path.read_text("utf-8")
        if "Route(" not in text or "starlette" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Route":
                methods = next((one.value for one in node.keywords if one.arg == "methods"), None)
                if methods is None or ast.unparse(methods) != "['GET']":
                    found.add(f"{path.relative_to(REPOSITORY / 'plugins').parts[0]}/{path.name}")
    return found


@pytest.mark.parametrize("kind", sorted({*ROWS.values(), *ROUTES.values(), "tools.switched_on", "definitions.refused"}))
def test_somebody_tells_of_each_kind_of_row(kind):
    said = {kind, kind.rpartition("_")[0] + "_{how}"}
    sources = [*REPOSITORY.glob("plugins/*/src/**/*.py"), *REPOSITORY.glob("pml_core/src/**/*.py")]
    assert any(f'"{word}"' in source.read_text("utf-8") for source in sources for word in said)


# What is done for real


class Operator:
    """Somebody with a terminal."""

    def __init__(self, folder: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
        self.environment = {**kept, "PML_HOME": str(folder / "home"), "PML_GATEWAY__STORE": "sqlite"}
        self.folder = folder
        folder.joinpath("home").mkdir()

    def pml(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "pml_core", *words], env=self.environment, cwd=self.folder, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def rows(self) -> list[dict]:
        text = (self.folder / "home" / "audit" / "audit.jsonl").read_text("utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def kinds(self) -> list[str]:
        return [row["kind"] for row in self.rows() if not row["kind"].startswith(("audit.", "gateway.", "config."))]


@pytest.fixture
def operator(tmp_path):
    return Operator(tmp_path)


@pytest.mark.attack("The audit stands up", "steer, add and take away what runs by itself, and leave no row of it")
def test_schedules_that_are_steered_by_command_leave_rows(operator):
    operator.pml("schedules", "add", "nightly", "--every", "1d", "--tool", "pml:list_capabilities")
    operator.pml("schedules", "pause", "nightly")
    operator.pml("schedules", "resume", "nightly")
    operator.pml("schedules", "run-now", "nightly", "--wait-s", "0")
    operator.pml("schedules", "remove", "nightly")
    steered = [row for row in operator.rows() if row["kind"].startswith("schedule.")]
    assert [row["kind"].removeprefix("schedule.") for row in steered] == [
        "added", "paused", "resumed", "run_asked", "removed",
    ]  # fmt: skip
    assert all(row["schedule"] == "nightly" and row["by"] for row in steered)


def test_notebooks_and_recordings_that_come_by_command_leave_rows(operator):
    id = operator.pml("notebook", "create", "Mine").strip()
    operator.pml("notebook", "delete", id)
    (operator.folder / "taken.jsonl").write_text('{"pml_recordings": 1}\n', "utf-8")
    operator.pml("recordings", "import", "taken.jsonl")
    operator.pml("recordings", "prune", "--yes")
    assert operator.kinds() == ["notebook.created", "notebook.deleted", "recordings.imported", "recordings.pruned"]
    assert {row.get("notebook", id) for row in operator.rows()} == {id}
    verified = json.loads(operator.pml("audit", "verify", "--json"))
    assert verified["ok"]
