"""``pml bench plugins``."""

from __future__ import annotations

import json
import os

import pytest

from pml_core.cli import main
from pml_dev.measures import Figure

HOOKS = """
import time
from pml_hookspecs import Phase, hookimpl

class Slow:
    phase = Phase.OBSERVE
    def __call__(self, task, run, call_next):
        until = time.process_time() + 300e-6
        while time.process_time() < until:
            pass
        return call_next(task, run)

@hookimpl
def pml_wrap_executor(services):
    return [Slow()]
"""
DENYING = """
from datetime import datetime, UTC
from pml_hookspecs import Failure, Outcome, Phase, Status, hookimpl

class Deny:
    phase = Phase.AUTHORIZE
    async def __call__(self, task, run, call_next):
        return Outcome(task_id=task.id, status=Status.DENIED, started_at=datetime.now(UTC), duration_ms=0,
                       failure=Failure("deny.denied", "No."))

@hookimpl
def pml_wrap_executor(services):
    return [Deny()]

@hookimpl
def pml_filter_tools(services):
    return [lambda entry, session: True]
"""
DRIVERS = """
import time
time.sleep(0.05)
from pml_core.plugins.nulls import MemoryStore as Store

class Tracer:
    def __init__(self, settings, services):
        self.late = 0
    def started(self, span): ...
    def ended(self, ended):
        self.late += 1
    async def flush(self):
        until = time.process_time() + self.late * 200e-6
        while time.process_time() < until:
            pass
        self.late = 0
"""


@pytest.fixture
def measured(place, installation, monkeypatch, capsys):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(installation.folder), os.environ.get("PYTHONPATH", "")]))
    installation.add("slow", {"pml.plugins": {"slow": "slow_hooks"}}, modules={"slow_hooks": HOOKS})
    installation.add("deny", {"pml.plugins": {"deny": "deny_hooks"}}, modules={"deny_hooks": DENYING})
    points = {"pml.store": {"memo": "acme_drivers:Store"}, "pml.tracer": {"late": "acme_drivers:Tracer"}}
    installation.add("acme", points, modules={"acme_drivers": DRIVERS})
    installation.add("bad", {"pml.exposure_mode": {"bad": "bad_module:M"}}, modules={"bad_module": "import not_there"})
    installation.add("old", {"pml.tracer": {"old": "x:T"}}, requires=["pml-hookspecs>=99"])

    def run(*words):
        assert main(["bench", "plugins", "--rounds", "3", "--calls", "40", *words]) == 0
        return capsys.readouterr().out

    return run


def test_the_cost_of_each_plugin_is_found(measured):
    found = json.loads(measured("--json", "--set", "gateway.tracers=['late']"))
    plugins = {(one["kind"], one["name"]): one for one in found["plugins"]}
    assert plugins.pop(("exposure_mode", "bad"))["start_ms"] is None
    assert plugins.pop(("hooks", "dev"))["call_us"] is None
    assert set(plugins) == {("hooks", "slow"), ("hooks", "deny"), ("store", "memo"), ("tracer", "late")}
    assert 280 <= plugins["hooks", "slow"]["call_us"]["median"] <= 2000
    assert 180 <= plugins["tracer", "late"]["call_us"]["median"] <= 2000, "what is done later counts, too"
    assert plugins["store", "memo"]["start_ms"]["median"] >= 50
    assert plugins["hooks", "slow"]["start_ms"]["median"] < plugins["store", "memo"]["start_ms"]["median"]
    assert plugins["store", "memo"]["call_us"]["median"] > 0
    assert plugins["hooks", "deny"]["note"] == "answers by itself: denied"
    assert found["call"]["alone_us"]["median"] > 0


def test_a_plugin_that_does_not_start_alone_is_noted_and_the_others_are_measured(measured, place):
    table = measured("--rounds", "1", "--calls", "4")
    (line,) = [line for line in table.splitlines() if " bad " in line]
    assert "does not start alone: ModuleNotFoundError: No module named 'not_there'" in line
    assert [line for line in table.splitlines() if " memo " in line]
    assert "± half of the quartiles' distance" in table
    assert list(place.home.iterdir()) == [], "something is kept where the user's data is"
    assert os.environ["PML_HOME"] == str(place.home)


def test_where_no_gateway_can_be_made_the_reason_is_told(place, installation, capsys):
    installation.add("bad", {"pml.executor": {"bad": "bad_module:E"}}, modules={"bad_module": "import not_there"})
    assert main(["bench", "plugins", "--rounds", "1", "--calls", "1"]) == 2
    assert "executor driver 'bad' (bad 1.0) failed to import" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", ["0", "-1", "many"])
def test_a_number_that_is_none_is_refused(place, capsys, wrong):
    with pytest.raises(SystemExit) as left:
        main(["bench", "plugins", "--rounds", wrong])
    assert left.value.code == 2
    assert "--rounds" in capsys.readouterr().err


def test_a_figure_is_the_median_and_the_distance_of_the_quartiles():
    assert Figure.of([5.0]) == Figure(5.0, 0.0)
    assert Figure.of([1.0, 2.0, 3.0, 4.0, 100.0]) == Figure(3.0, 2.0)
