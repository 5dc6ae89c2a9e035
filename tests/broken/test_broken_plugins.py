"""A broken plugin is named, with its cause and what to do, and stops nobody else. See tests/broken/README.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

try:
    metadata.version("pml-broken-import")
except metadata.PackageNotFoundError:
    pytest.skip("the plugins of tests/broken are not installed; run: tox run -e py311-broken", allow_module_level=True)


@dataclass(frozen=True)
class Fault:
    kind: str
    name: str
    dist: str
    cause: str


HOOKS = (
    Fault("hooks", "broken_api", "pml-broken-api", "needs pml-hookspecs<100,>=99, found "),
    Fault("hooks", "broken_async", "pml-broken-async", "pml_meta_tools is async"),
    Fault("hooks", "broken_clash", "pml-broken-clash", "name also claimed by pml-broken-clash-twin"),
    Fault("hooks", "broken_clash", "pml-broken-clash-twin", "name also claimed by pml-broken-clash"),
    Fault("hooks", "broken_exit", "pml-broken-exit", "SystemExit: please install the native helper"),
    Fault("hooks", "broken_import", "pml-broken-import", "No module named 'not_a_real_module_at_all'"),
    Fault("hooks", "broken_typo", "pml-broken-typo", "unknown hook 'pml_wrap_executer'"),
)
UNMET = Fault("hooks", "broken_requirement", "pml-broken-requirement", "which is not installed")
"""Runs as long as nothing of it needs what is not there: a gateway does not look at every requirement."""
UNHEALTHY = Fault("hooks", "broken_unhealthy", "pml-broken-unhealthy", "the licence server does not answer")
DRIVERS = (
    Fault("exposure_mode", "broken_settings", "pml-broken-settings", "address"),
    Fault("store", "broken_constructor", "pml-broken-constructor", "RuntimeError: no licence key"),
    Fault("store", "broken_exit", "pml-broken-exit", "SystemExit: please install the native helper"),
    Fault("tracer", "broken_import", "pml-broken-import", "No module named 'not_a_real_module_at_all'"),
)
EXAMINED = (*HOOKS, UNMET, *DRIVERS)
SEEN_WITHOUT_IMPORT = ("pml-broken-api", "pml-broken-clash", "pml-broken-clash-twin", "pml-broken-requirement")
BLOCK_ALL = "gateway.block=" + json.dumps(sorted({fault.dist for fault in (*EXAMINED, UNHEALTHY)}))
TIMEOUT_S = 60


def environment(home: Path) -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith("PML_")} | {"PML_HOME": str(home)}


def pml(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pml_core", *arguments],
        capture_output=True,
        check=False,
        cwd=home,
        encoding="utf-8",
        env=environment(home),
        stdin=subprocess.DEVNULL,
        timeout=TIMEOUT_S,
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def listed(home: Path) -> subprocess.CompletedProcess[str]:
    return pml(home, "plugins", "list", "--json")


@pytest.fixture(scope="module")
def examined(home: Path) -> subprocess.CompletedProcess[str]:
    return pml(home, "plugins", "doctor", "--json")


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    """What the command said as it refused, after it is sure that this was a refusal and not an accident."""
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 2, done.stderr
    _, found, said = done.stderr.rpartition("pml: ")
    assert found, done.stderr
    return said


def test_every_broken_distribution_is_installed_and_known_to_this_test() -> None:
    folders = {path.name for path in Path(__file__).parent.glob("pml-broken-*")}
    assert {fault.dist for fault in (*EXAMINED, UNHEALTHY)} == folders
    assert all(metadata.version(name) for name in folders)


@pytest.mark.parametrize("fault", EXAMINED, ids=lambda f: f"{f.dist}-{f.kind}")
def test_list_shows_distribution_version_and_what_metadata_tells(
    listed: subprocess.CompletedProcess[str], fault: Fault
) -> None:
    assert listed.returncode == 0, listed.stderr
    (record,) = (
        r
        for r in json.loads(listed.stdout)
        if (r["kind"], r["name"], r["distribution"]) == (fault.kind, fault.name, fault.dist)
    )
    assert record["version"] == "0.1.0"
    if fault.dist in SEEN_WITHOUT_IMPORT:
        assert record["state"] == "incompatible"
        assert fault.cause in record["problem"]
        assert fault.dist in record["remedy"]
    else:
        assert (record["state"], record["problem"]) == ("found", "")


def test_list_finds_nothing_wrong_with_the_others(listed: subprocess.CompletedProcess[str]) -> None:
    good = [r for r in json.loads(listed.stdout) if not r["distribution"].startswith("pml-broken-")]
    assert good
    assert [r for r in good if r["state"] != "found"] == []


@pytest.mark.parametrize("fault", EXAMINED, ids=lambda f: f"{f.dist}-{f.kind}")
def test_doctor_names_distribution_version_cause_and_remedy(
    examined: subprocess.CompletedProcess[str], fault: Fault
) -> None:
    assert "Traceback" not in examined.stderr, examined.stderr
    (line,) = (
        one
        for one in json.loads(examined.stdout)
        if one["subject"] == f"{fault.kind} {fault.name}" and one["detail"].split(" ")[0] == fault.dist
    )
    assert not line["ok"]
    assert line["detail"].startswith(f"{fault.dist} 0.1.0")
    assert fault.cause in line["detail"]
    assert fault.dist in line["remedy"]


def test_doctor_exits_with_1_and_finds_the_good_plugins_well(examined: subprocess.CompletedProcess[str]) -> None:
    assert examined.returncode == 1, examined.stderr
    lines = [one for one in json.loads(examined.stdout) if not one["detail"].startswith("pml-broken-")]
    assert lines
    assert [one for one in lines if not one["ok"] and UNHEALTHY.name not in one["subject"]] == []


@pytest.mark.parametrize(
    ("name", "place"),
    [("broken_import", "pml_broken_import/__init__.py:5"), ("broken_exit", "pml_broken_exit/__init__.py:7")],
)
def test_doctor_says_in_which_line_an_import_failed(
    examined: subprocess.CompletedProcess[str], name: str, place: str
) -> None:
    lines = [one for one in json.loads(examined.stdout) if one["subject"].endswith(f" {name}")]
    assert lines
    assert all(one["detail"].endswith(f"{place})") for one in lines), lines


def test_doctor_names_every_requirement_that_is_not_met(examined: subprocess.CompletedProcess[str]) -> None:
    (line,) = (one for one in json.loads(examined.stdout) if one["subject"] == f"hooks {UNMET.name}")
    assert "needs no-such-distribution-of-that-name>=2, which is not installed" in line["detail"]
    assert f"needs anyio>=999, found {metadata.version('anyio')}" in line["detail"]
    assert "pip install --upgrade pml-broken-requirement" in line["remedy"]


def test_doctor_shows_what_a_plugin_says_of_itself(examined: subprocess.CompletedProcess[str]) -> None:
    (line,) = (one for one in json.loads(examined.stdout) if one["subject"] == f"{UNHEALTHY.name}: licence")
    assert (line["ok"], line["detail"], line["remedy"]) == (False, UNHEALTHY.cause, "Start it.")


def test_doctor_knows_what_went_wrong_when_the_gateway_last_ran(tmp_path: Path) -> None:
    only_this = f"gateway.block={json.dumps(sorted({fault.dist for fault in EXAMINED}))}"
    _, status, log = converse(tmp_path, "--set", only_this, stay_s=2.0)
    assert (status, "background task failed" in log) == (0, True), log
    done = pml(tmp_path, "plugins", "doctor", "--json", "--set", only_this)
    wrong = [one for one in json.loads(done.stdout) if one["subject"] == f"last run of {UNHEALTHY.name}"]
    assert len(wrong) == 1, done.stdout
    assert "background task 'watch' failed" in wrong[0]["detail"]
    assert UNHEALTHY.cause in wrong[0]["detail"]


def test_doctor_puts_the_plugins_together_when_it_connects(home: Path) -> None:
    done = pml(home, "plugins", "doctor", "--connect", "--json")
    assert done.returncode == 1, done.stderr
    lines = {one["subject"]: one for one in json.loads(done.stdout)}
    assert lines["health of sqlite"]["ok"]
    for fault in HOOKS:
        assert fault.cause in lines[f"start of {fault.name}"]["detail"] or "broken_clash" in fault.name


def test_doctor_that_cannot_read_the_configuration_exits_with_2(home: Path) -> None:
    done = pml(home, "plugins", "doctor", "--json", "--set", "gateway.page_size=many")
    assert (done.returncode, done.stdout) == (2, "")
    assert "gateway.page_size (--set)" in done.stderr


def test_doctor_in_words_says_the_same(home: Path) -> None:
    done = pml(home, "plugins", "doctor")
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    for fault in EXAMINED:
        assert f"FAIL  {fault.kind} {fault.name}: {fault.dist} 0.1.0" in done.stdout
        assert fault.cause in done.stdout


def test_with_the_broken_ones_blocked_the_doctor_is_content(home: Path) -> None:
    done = pml(home, "plugins", "doctor", "--json", "--set", BLOCK_ALL)
    assert [one for one in json.loads(done.stdout) if not one["ok"]] == []
    assert done.returncode == 0


def test_a_wrong_table_of_one_plugin_does_not_hide_the_state_of_others(home: Path) -> None:
    """Settings that do not fit are one finding of the doctor's, not the end of its examination."""
    done = pml(
        home, "plugins", "doctor", "--json", "--set", BLOCK_ALL, "--set", "plugins.execution_tools.no_such_setting=1"
    )
    assert done.returncode == 1, done.stderr
    wrong = [one for one in json.loads(done.stdout) if not one["ok"]]
    assert any("plugins.execution_tools.no_such_setting (--set)" in one["detail"] for one in wrong), wrong
    assert [one for one in wrong if "execution_tools" not in one["subject"] + one["detail"]] == []


def test_help_is_printed_all_the_same(home: Path) -> None:
    done = pml(home, "--help")
    assert done.returncode == 0, done.stderr
    assert "usage: pml" in done.stdout


def test_good_wrappers_stay_in_the_chain(home: Path) -> None:
    done = pml(home, "plugins", "chain", "--json")
    assert done.returncode == 0, done.stderr
    assert {"argument_validation", "core", "dry_run"} <= {link["plugin"] for link in json.loads(done.stdout)}


def converse(home: Path, *arguments: str, stay_s: float = 0.0) -> tuple[dict[Any, Any], int, str]:
    """Answers by request id, exit status and log of a gateway that a client greets, asks for tools and leaves."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    with (home / "log.txt").open("w+", encoding="utf-8") as log:
        gateway = subprocess.Popen(
            [sys.executable, "-m", "pml_core", "serve", *arguments],
            cwd=home,
            encoding="utf-8",
            env=environment(home),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
        watchdog = threading.Timer(TIMEOUT_S, gateway.kill)
        watchdog.start()
        with gateway:
            assert gateway.stdin is not None
            assert gateway.stdout is not None
            gateway.stdin.writelines(json.dumps(message) + "\n" for message in messages)
            gateway.stdin.flush()
            answers: dict[Any, Any] = {}
            while not {1, 2} <= answers.keys() and (line := gateway.stdout.readline()):
                message = json.loads(line)
                answers[message.get("id")] = message
            time.sleep(stay_s)  # what it says of itself, it says after the first client has been answered
            gateway.stdin.close()
            status = gateway.wait()
        watchdog.cancel()
        log.seek(0)
        return answers, status, log.read()


def test_the_gateway_starts_without_them_serves_and_logs_each_by_name(home: Path) -> None:
    answers, status, log = converse(home, "--set", f'gateway.block=["{UNHEALTHY.dist}"]')
    assert "result" in answers[1], log
    assert answers[2]["result"]["tools"], "the meta-tools of the good plugins are missing"
    assert status == 0
    assert "Traceback" not in log
    for fault in HOOKS:
        (line, *_) = [one for one in log.splitlines() if fault.name in one and fault.cause in one] or [""]
        assert "quarantined" in line, f"{fault.dist} is not named in the log:\n{log}"


def test_where_others_can_reach_it_nothing_is_served_without_a_plugin_that_may_guard_it(home: Path) -> None:
    # Its background task fails, with a traceback, before or after the refusal.
    without = f'gateway.block=["{UNHEALTHY.name}"]'
    said = refusal(pml(home, "serve", "--http", "127.0.0.1:0", "--set", without))
    message, remedy = said.splitlines()
    assert HOOKS[0].name in message
    assert HOOKS[0].cause in message
    assert all(fault.name in remedy for fault in HOOKS)
    assert "[gateway] block = " in remedy


def test_what_is_blocked_keeps_nothing_from_being_served(home: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "pml_core", "serve", "--http", "127.0.0.1:0", "--set", BLOCK_ALL],
        cwd=home,
        encoding="utf-8",
        env=environment(home),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as gateway:
        watchdog = threading.Timer(TIMEOUT_S, gateway.kill)
        watchdog.start()
        assert gateway.stderr is not None
        lines = []
        while (line := gateway.stderr.readline()) and "http://127.0.0.1:" not in line:
            lines.append(line)
        gateway.terminate()
        gateway.wait()
        watchdog.cancel()
    assert "http://127.0.0.1:" in line, lines


def test_a_strict_gateway_refuses_to_start_in_one_sentence(home: Path) -> None:
    said = refusal(pml(home, "serve", "--strict"))
    message, remedy = said.splitlines()
    assert any(fault.name in message and fault.cause in message for fault in HOOKS)
    assert remedy.strip().endswith(".")


@pytest.mark.parametrize("fault", DRIVERS, ids=lambda f: f"{f.dist}-{f.kind}")
def test_a_broken_driver_that_the_configuration_names_refuses_the_start(home: Path, fault: Fault) -> None:
    chosen = {
        "exposure_mode": f"gateway.tools_exposure={fault.name}",
        "store": f"gateway.store={fault.name}",
        "tracer": f'gateway.tracers=["{fault.name}"]',
    }[fault.kind]
    said = refusal(pml(home, "serve", "--set", chosen, "--set", 'gateway.log_level="error"'))
    message, *remedy = said.splitlines()
    assert f"{fault.name!r} ({fault.dist} 0.1.0)" in message
    assert fault.cause in message
    assert fault.dist in "".join(remedy)


def test_settings_out_of_bounds_refuse_the_start_and_name_path_and_source(home: Path) -> None:
    table = ("plugins.broken_settings.address=here", "plugins.broken_settings.limit=-1")
    overrides = [word for text in table for word in ("--set", text)]
    said = refusal(pml(home, "serve", "--mode", "broken_settings", *overrides))
    assert "plugins.broken_settings.limit (--set): Input should be greater than or equal to 0" in said


def test_settings_that_need_a_value_work_once_they_have_it(home: Path) -> None:
    answers, status, log = converse(home, "--mode", "broken_settings", "--set", "plugins.broken_settings.address=here")
    assert "result" in answers[2], log
    assert status == 0


def test_explain_shows_a_setting_without_a_default(home: Path) -> None:
    done = pml(home, "config", "explain", "plugins.broken_settings")
    assert "Traceback" not in done.stderr, done.stderr
    assert "plugins.broken_settings.address" in done.stdout
