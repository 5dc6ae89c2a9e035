from __future__ import annotations

import subprocess
import sys

import pytest

from pml_core.plugins.drivers import DriverError, load
from pml_core.plugins.registry import State, discover, provide

SOURCE = "class Store:\n    truth = False\n    def __bool__(self): raise AssertionError\n"


def refusal(group: str, name: str, **options) -> tuple[str, str]:
    with pytest.raises(DriverError) as caught:
        load(discover(**options), group, name)
    return caught.value.message, caught.value.remedy


def test_a_driver_is_imported_by_name_and_group(installation):
    installation.add("acme", {"pml.store": {"memo": "memo_plugin:Store"}}, modules={"memo_plugin": SOURCE})
    records = discover()
    cls = load(records, "pml.store", "memo")
    assert (cls.__name__, cls.__module__, records[0].state) == ("Store", "memo_plugin", State.LOADED)
    assert load(records, "pml.store", "memo") is cls


def test_a_driver_given_as_an_object_is_that_object():
    thing = object()
    assert load([provide("pml.store", "memo", thing)], "pml.store", "memo") is thing


def test_an_unknown_name_is_refused_with_the_nearest_or_those_there_are(installation):
    assert refusal("pml.store", "sqlite")[0] == "no store driver named 'sqlite'; installed: none"
    installation.add("acme", {"pml.store": {"sqlite": "x:S", "redis": "x:R"}, "pml.exposure_mode": {"hybrid": "x:H"}})
    assert refusal("pml.store", "sqlit")[0] == "no store driver named 'sqlit'; did you mean 'sqlite'?"
    assert refusal("pml.exposure_mode", "zzz") == (
        "no exposure mode driver named 'zzz'; installed: hybrid",
        "Install the package that provides it.",
    )
    assert "no store driver" in refusal("pml.store", "hybrid")[0]


def test_an_incompatible_or_blocked_driver_is_not_imported(installation):
    points = {"pml.store": {"memo": "memo_plugin:Store"}}
    installation.add("acme", points, modules={"memo_plugin": "raise SystemExit"}, requires=["pml-hookspecs>=99"])
    message, remedy = refusal("pml.store", "memo")
    assert message.startswith("store driver 'memo' (acme 1.0): needs pml-hookspecs")
    assert "upgrade acme" in remedy
    message, _ = refusal("pml.store", "memo", blocked=frozenset(["acme"]))
    assert "blocked by [gateway] block" in message
    assert "memo_plugin" not in sys.modules


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("class Other: pass", "AttributeError"),
        ("def", "SyntaxError"),
    ],
)
def test_a_driver_that_cannot_be_imported_names_itself_and_the_cause(installation, source, cause):
    installation.add("acme", {"pml.store": {"memo": "memo_plugin:Store"}}, modules={"memo_plugin": source})
    records = discover()
    with pytest.raises(DriverError) as caught:
        load(records, "pml.store", "memo")
    assert caught.value.message.startswith("store driver 'memo' (acme 1.0) failed to import: ")
    assert cause in caught.value.message
    assert "acme" in caught.value.remedy
    assert (records[0].state, records[0].error is not None) == (State.FAILED, True)


def test_nothing_of_stevedore_or_pluggy_is_imported_by_looking_for_plugins():
    code = "import sys; from pml_core.plugins import drivers, registry; registry.discover(); "
    subprocess.run(
        [sys.executable, "-c", code + "assert not {'stevedore', 'pluggy'} & set(sys.modules)"], check=True, timeout=30
    )
