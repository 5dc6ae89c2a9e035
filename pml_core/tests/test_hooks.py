from __future__ import annotations

import sys
import types
from typing import Any

import pluggy
import pytest

from pml_core.plugins.hooks import HookManager
from pml_core.plugins.registry import State, discover, provide
from pml_hookspecs import hookimpl
from pml_kit.shapes import ShapeError


def module(name: str = "made", **hooks: Any) -> types.ModuleType:
    made = types.ModuleType(name)
    for hook, function in hooks.items():
        setattr(made, hook, hookimpl(function))
    return made


def nothing(services: Any) -> Any:
    return ()


async def asynchronous(services: Any) -> Any:
    return ()


async def async_generator(services: Any) -> Any:
    yield 1


def loaded(**plugins: Any) -> HookManager:
    manager = HookManager()
    manager.load([provide("pml.plugins", name, plugin) for name, plugin in plugins.items()])
    return manager


def refused(plugin: Any) -> str:
    manager, record = HookManager(), provide("pml.plugins", "wrong", plugin)
    manager.load([record])
    assert record.state is State.FAILED
    assert manager.get_plugin("wrong") is None
    assert not [i for h in vars(manager.hook).values() if hasattr(h, "get_hookimpls") for i in h.get_hookimpls()]
    return record.problem


@pytest.mark.parametrize("function", [asynchronous, async_generator])
def test_an_async_hook_is_refused(function):
    assert "pml_lifespan is async; hooks are plain functions" in refused(
        module(pml_lifespan=function, pml_meta_tools=nothing)
    )


def test_an_unknown_hook_is_refused_by_name():
    assert "unknown hook 'pml_lifspan'" in refused(module(pml_meta_tools=nothing, pml_lifspan=nothing))


def test_a_hook_with_arguments_that_the_spec_does_not_have_is_refused():
    assert "pml_meta_tools" in refused(module(pml_meta_tools=lambda service: (), pml_checks=nothing))


def test_a_hook_may_leave_out_its_argument():
    manager = loaded(a=module(pml_meta_tools=lambda: ["x"]))
    assert manager.gather("pml_meta_tools", lambda name: {"services": name}, pytest.fail) == [("a", "x")]


def test_properties_are_not_touched():
    class Plugin:
        @property
        def pml_other(self) -> Any:
            return None

        @property
        def dangerous(self) -> Any:
            raise AssertionError("evaluated")

        @hookimpl
        def pml_meta_tools(self, services: Any) -> Any:
            return ["x"]

    manager = loaded(a=Plugin())
    assert manager.gather("pml_meta_tools", lambda name: {"services": None}, pytest.fail) == [("a", "x")]


@pytest.mark.parametrize("source", ["import no_such_module", "raise SystemExit(1)", "def", "raise ValueError('x')"])
def test_a_plugin_that_cannot_be_imported_does_not_stop_the_others(installation, source):
    installation.add("bad", {"pml.plugins": {"aaa": "bad_module"}}, modules={"bad_module": source})
    good = "from pml_hookspecs import hookimpl\n@hookimpl\ndef pml_meta_tools(services):\n    return ['fine']\n"
    installation.add("good", {"pml.plugins": {"bbb": "good_module"}}, modules={"good_module": good})
    manager, records = HookManager(), discover()
    manager.load(records)
    assert {r.name: r.state for r in records} == {"aaa": State.FAILED, "bbb": State.LOADED}
    assert records[0].error is not None
    assert "bad" in records[0].remedy
    assert manager.gather("pml_meta_tools", lambda name: {"services": None}, pytest.fail) == [("bbb", "fine")]


def test_only_healthy_hook_plugins_are_loaded(installation):
    installation.add(
        "acme", {"pml.plugins": {"old": "boom"}}, requires=["pml-hookspecs>=99"], modules={"boom": "raise SystemExit"}
    )
    installation.add("driver", {"pml.store": {"memo": "boom:S"}})
    manager, records = HookManager(), discover()
    manager.load(records)
    assert {r.name: r.state for r in records} == {"old": State.INCOMPATIBLE, "memo": State.FOUND}
    assert manager.list_name_plugin() == []


def test_the_same_module_under_two_names_is_refused_and_the_first_stays():
    same = module(pml_meta_tools=lambda services: ["x"])
    records = [provide("pml.plugins", "a", same), provide("pml.plugins", "b", same)]
    manager = HookManager()
    manager.load(records)
    assert [r.state for r in records] == [State.LOADED, State.FAILED]
    assert manager.gather("pml_meta_tools", lambda name: {"services": None}, pytest.fail) == [("a", "x")]


def test_contributions_come_in_name_order_each_from_its_own_services():
    def contributes(services: Any) -> Any:
        return [f"{services}1", f"{services}2"]

    manager = loaded(b=module("b", pml_meta_tools=contributes), a=module("a", pml_meta_tools=contributes))
    found = manager.gather("pml_meta_tools", lambda name: {"services": name.upper()}, pytest.fail)
    assert found == [("a", "A1"), ("a", "A2"), ("b", "B1"), ("b", "B2")]


def raising(services: Any) -> Any:
    raise ValueError("no")


def half(services: Any) -> Any:
    yield "half"
    raise ValueError("no")


def unawaited(services: Any) -> Any:
    return asynchronous(services)


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (raising, ValueError),
        (half, ValueError),
        (lambda services: 5, ShapeError),
        (lambda services: None, ShapeError),
        (lambda services: "text", ShapeError),
        (lambda services: {"name": "x"}, ShapeError),
        (unawaited, ShapeError),
        (lambda services: sys.exit(3), ShapeError),
    ],
)
def test_one_plugins_exception_does_not_stop_the_others(function, error):
    manager = loaded(
        a=module("a", pml_meta_tools=lambda services: ["x"]),
        b=module("b", pml_meta_tools=function),
        c=module("c", pml_meta_tools=lambda services: []),
        d=module("d", pml_meta_tools=lambda services: iter(["y"])),
    )
    faults: list[tuple[str, str, type]] = []
    found = manager.gather(
        "pml_meta_tools", lambda name: {"services": None}, lambda p, h, e: faults.append((p, h, type(e)))
    )
    assert found == [("a", "x"), ("d", "y")]
    assert faults == [("b", "pml_meta_tools", error)]


def test_every_hook_of_the_contract_is_known():
    manager = HookManager()
    hooks = ("pml_lifespan", "pml_meta_tools", "pml_commands", "pml_checks", "pml_wrap_executor")
    for hook in (*hooks, "pml_offers", "pml_filter_tools", "pml_routes"):
        assert getattr(manager.hook, hook).has_spec(), hook


def test_adding_says_what_is_wrong():
    with pytest.raises(pluggy.PluginValidationError, match="unknown hook"):
        HookManager().add(module(pml_nothing=nothing), "x")
