"""``pml demo``, for real: packages come from the package index."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PML = str(Path(sys.executable).with_name("pml"))
DEMO_S = 300


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The folder that the demo's servers are installed in, once for all tests here."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def environment(home, tmp_path):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    return {**os.environ, "PML_HOME": str(home), "TMPDIR": str(temporary), "COLUMNS": "100"}


def run(environment, *options):
    return subprocess.run(
        [PML, "demo", *options], capture_output=True, text=True, timeout=DEMO_S, check=False, env=environment
    )


@pytest.fixture(scope="module")
def report(home, tmp_path_factory):
    """Of a demo without Node's servers, which the others have if they can, that keeps its folder."""
    environment = {**os.environ, "PML_HOME": str(home), "TMPDIR": str(tmp_path_factory.mktemp("tmp"))}
    ran = run(environment, "--keep", "--json", "--no-node")
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_every_server_was_found_with_its_tools(report):
    servers = {s["name"]: s for s in report["servers"]}
    assert {"time", "git", "sqlite"} <= set(servers)
    assert {s["state"] for s in servers.values()} == {"up"}
    assert servers["time"]["tools"] == 2
    assert servers["sqlite"]["tools"] == 6
    assert servers["git"]["tools"] >= 10


def test_the_modes_are_compared_by_what_they_really_list(report):
    modes = {m["mode"]: m for m in report["modes"]}
    tools = sum(s["tools"] for s in report["servers"])
    assert modes["full_proxy"]["tools"] == tools
    assert modes["full_proxy"]["saved_percent"] == 0
    assert modes["meta_only"]["tools"] == 3
    assert modes["meta_only"]["tokens"] <= 400
    for mode in ("semantic", "hybrid"):
        assert 3 < modes[mode]["tools"] <= tools
        assert 0 < modes[mode]["saved_percent"] < modes["meta_only"]["saved_percent"]


def test_what_is_saved_is_said_of_a_whole_task_as_well(report):
    listed, searched = report["task_listed"], report["task_searched"]
    steps = len(report["plan"]["request"]["workflow"]["tasks"])
    assert (listed["requests"], searched["requests"]) == (steps, steps + 1)
    modes = {m["mode"]: m["tokens"] for m in report["modes"]}
    assert listed["tokens"] > modes["full_proxy"]
    assert searched["tokens"] > 2 * modes["meta_only"]


def test_the_search_finds_the_tool_that_fits(report):
    assert report["search"]["tools"][0]["name"] == "sqlite__read_query"


def test_the_rehearsal_touched_nothing_and_the_run_did_what_it_said(report):
    plan = report["plan"]
    assert plan["rehearsed"]["status"] == "simulated"
    assert plan["ran"]["status"] == "completed"
    assert plan["after_rehearsal"] == plan["before"]
    assert plan["after_run"]["rows"] == plan["before"]["rows"] + 1
    assert plan["after_run"]["tables"] == plan["before"]["tables"] + 1
    assert plan["after_run"]["repository"] == plan["before"]["repository"]


def test_a_reference_carried_a_result_into_a_later_task(report):
    tasks = {task["id"]: task for task in report["plan"]["ran"]["tasks"]}
    assert {"now", "log", "table"} <= set(tasks["save"]["depends_on"])
    assert tasks["now"]["result"]["day_of_week"] in tasks["read"]["result"]


def test_the_history_tells_of_the_search_and_of_both_plans(report):
    history = report["history"]
    assert history["total_count"] == 3
    assert [ran.get("dry_run", False) for ran in history["executions"]] == [False, True, False]
    assert history["executions"][0]["id"] == history["last"]["id"]
    assert {ran["status"] for ran in history["executions"]} == {"success"}


def test_the_lines_that_connect_clients_name_this_command(report):
    texts = {c["client"]: c["text"] for c in report["connect"]}
    assert texts["Claude Code"] == f"claude mcp add pml -- {PML} serve"
    assert json.loads(texts["Cursor"]) == {"mcpServers": {"pml": {"command": PML, "args": ["serve"]}}}
    entry = {"type": "stdio", "command": PML, "args": ["serve"]}
    assert json.loads(texts["VS Code"]) == {"servers": {"pml": entry}}


def test_the_second_demo_fits_one_screen_and_leaves_nothing(report, environment):
    ran = run(environment)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert len(lines) <= 60
    for shown in (
        "mcp-server-time",
        "meta_only",
        "sqlite__read_query",
        "The rehearsal touched nothing",
        "claude mcp add",
    ):
        assert shown in ran.stdout
    assert not any(Path(environment["TMPDIR"]).iterdir())
    assert not processes_of(environment["TMPDIR"])


def processes_of(folder):
    """Command lines of the processes that work in the folder."""
    listed = subprocess.run(["ps", "-A", "-ww", "-o", "args"], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if str(folder) in line]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_demo_shows_nothing_and_leaves_nothing(report, environment, number):
    process = subprocess.Popen(
        [PML, "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    temporary = Path(environment["TMPDIR"])
    until = time.monotonic() + 120
    while not any("sqlite" in line for line in processes_of(temporary)) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(number)
    output, progress = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert output == ""
    assert "Traceback" not in progress
    assert not any(temporary.iterdir())
    assert not processes_of(temporary)


def test_the_folder_is_kept_when_asked_for(report):
    kept = Path(report["kept"])
    assert (kept / "station.db").is_file()
    assert (kept / "home" / "pml.db").is_file()  # the history, which is not the user's
    assert json.loads((kept / "mcp.json").read_text())["mcpServers"].keys() == {"time", "git", "sqlite"}


def test_what_does_not_work_is_one_sentence_and_a_status(environment, tmp_path):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    ran = run({**environment, "PML_HOME": str(in_the_way)})
    assert ran.returncode == 1
    assert ran.stdout == ""
    assert ran.stderr.splitlines()[-1].startswith("pml demo: ")
    assert "PML_HOME" in ran.stderr
