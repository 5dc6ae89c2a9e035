"""What was backed up while a gateway worked is all there in another gateway that gets it."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import urllib.error
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from gateways import Gateway, post

from pml_testing.postgres import Cluster, programs

CONFIG = """
[gateway]
{store}
tools_exposure = "full_proxy"
durability = "full"
block = ["dbos"]

[plugins.access]
required = true

[plugins.approvals]
require = ["things:fail"]
ask_client = false
scope = "everywhere"
wait_s = 0

[servers.things]
command = {{python}}
args = [{{server}}]
"""
PLAN = {"tasks": [{"id": "a", "tool": "things:echo", "arguments": {"text": "scheduled"}}]}
Settings = Callable[[str], str]


def gateway_on(folder: Path, store: str, name: str) -> Gateway:
    folder.mkdir(exist_ok=True)
    return Gateway.with_server(folder, CONFIG.replace("{store}", store, 1).replace("{{", "{").replace("}}", "}"), name)


def used(gateway: Gateway) -> str:
    """Have a gateway know a key, a call, a schedule and a request for approval; the key."""
    key: str = json.loads(gateway.pml("keys", "create", "--user", "ada", "--json"))["key"]
    bearer = {"Authorization": f"Bearer {key}"}
    for tool in ("things__echo", "things__fail"):
        params = {"name": tool, "arguments": {"text": "before the backup"}}
        assert "result" in post(gateway.url, "tools/call", params, tool, **bearer)
    plan = gateway.folder / "plan.json"
    plan.write_text(json.dumps(PLAN), encoding="utf-8")
    gateway.pml("schedules", "add", "nightly", "--cron", "0 3 * * *", "--workflow", str(plan), "--principal", "ada")
    return key


def known(gateway: Gateway, key: str) -> dict[str, Any]:
    """What a gateway has of it."""
    executions = json.loads(gateway.pml("executions", "list", "--json"))["executions"]
    approvals = json.loads(gateway.pml("approvals", "list", "--json"))
    schedules = json.loads(gateway.pml("schedules", "list", "--json"))
    params = {"name": "things__echo", "arguments": {"text": "with the old key"}}
    answer = post(gateway.url, "tools/call", params, "things__echo", Authorization=f"Bearer {key}")
    return {
        "executions": sorted(one["id"] for one in executions),
        "approvals": approvals,
        "schedules": "nightly" in json.dumps(schedules),
        "answer": answer["result"]["content"][0]["text"],
    }


def check(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert len(before["executions"]) >= 2
    assert "things:fail" in json.dumps(before["approvals"])
    assert before["schedules"]
    # The old key's own call of the check comes after the backup.
    assert set(before["executions"]) <= set(after["executions"])
    assert {**after, "executions": 0} == {**before, "executions": 0}


def test_sqlite_is_copied_while_it_is_written(tmp_path: Path, missing: Callable[[str], None]) -> None:
    if (sqlite := shutil.which("sqlite3")) is None:
        missing("sqlite3")
    first = gateway_on(tmp_path / "first", 'store = "sqlite"', "first")
    copy = tmp_path / "copy.db"
    with first.running():
        key = used(first)
        before = known(first, key)
        subprocess.run([sqlite, f"{first.home}/pml.db", f".backup {copy}"], check=True)
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    second = gateway_on(tmp_path / "second", 'store = "sqlite"', "second")
    Path(second.home).mkdir(mode=0o700)
    shutil.copy(copy, f"{second.home}/pml.db")
    with second.running():
        check(before, known(second, key))
        with pytest.raises(urllib.error.HTTPError, match="401"):
            post(second.url, "tools/list", {}, Authorization="Bearer pml_other")


def test_postgresql_is_dumped_and_restored_into_a_new_database(
    tmp_path: Path, database: Cluster, missing: Callable[[str], None]
) -> None:
    folder = programs()
    dump, restore = (shutil.which(name, path=f"{folder}:{os.environ['PATH']}") for name in ("pg_dump", "pg_restore"))
    if dump is None or restore is None:
        missing("pg_dump and pg_restore")
    old, new = database.database(), database.database()
    first = gateway_on(tmp_path / "first", "", "first")
    for gateway, url in ((first, old), (second := gateway_on(tmp_path / "second", "", "second"), new)):
        text = gateway.config.read_text(encoding="utf-8").replace("[gateway]\n", '[gateway]\nstore = "postgres"\n', 1)
        gateway.config.write_text(f'{text}\n[plugins.postgres]\nurl = "{url}"\n', encoding="utf-8")
    file = tmp_path / "pml.dump"
    with first.running():
        key = used(first)
        before = known(first, key)
        subprocess.run([dump, "--format", "custom", "--file", str(file), old], check=True)
    subprocess.run([restore, "--no-owner", "--exit-on-error", "--dbname", new, str(file)], check=True)
    with second.running():
        check(before, known(second, key))
