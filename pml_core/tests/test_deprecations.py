"""What a plugin has of the contract that is going away is told with the plugin's name."""

from __future__ import annotations

import types

import pluggy
import pytest

from pml_core.plugins import drivers, hooks, registry
from pml_core.plugins.assembly import Assembly
from pml_core.plugins.hooks import HookManager
from pml_core.plugins.registry import State, discover, provide
from pml_hookspecs import hookimpl, hookspec
from pml_kit import shapes
from pml_testing.fakes import FakeLog, FakeServices
from pml_testing.gateway import configuration


class Specs:
    """A contract of the day after tomorrow."""

    @hookspec(warn_on_impl=DeprecationWarning("use pml_new; gone in 1.0"))
    def pml_old(self, services):
        return ()

    @hookspec
    def pml_new(self, services):
        return ()

    @hookspec(warn_on_impl_args={"colour": DeprecationWarning("it is always None (gone in 1.0)")})
    def pml_both(self, services, colour):
        return ()


@pytest.fixture
def manager(monkeypatch):
    class Later(HookManager):
        def __init__(self):
            super().__init__()
            self.add_hookspecs(Specs)

    monkeypatch.setattr(hooks, "HookManager", Later)
    monkeypatch.setattr("pml_core.plugins.assembly.HookManager", Later)
    return Later()


def module(**functions):
    made = types.ModuleType("made")
    for name, function in functions.items():
        setattr(made, name, hookimpl(function))
    return made


def old(services):
    return ["old"]


def both(services, colour):
    return ["both"]


def test_a_deprecated_hook_is_told_with_the_plugin_the_advice_and_the_place(manager):
    record = provide("pml.plugins", "acme", module(pml_old=old))
    with pytest.warns(DeprecationWarning, match=r"hook plugin 'acme' \(in-process 0\): pml_old is deprecated") as told:
        manager.load([record])
    (warning,) = told
    assert str(warning.message).endswith("use pml_new; gone in 1.0")
    assert (warning.filename, warning.lineno) == (__file__, old.__code__.co_firstlineno)
    assert record.state is State.LOADED
    assert manager.gather("pml_old", lambda name: {"services": None}, pytest.fail) == [("acme", "old")]


def test_a_deprecated_argument_is_told_and_only_to_those_who_take_it(manager):
    records = [
        provide("pml.plugins", "acme", module(pml_both=both)),
        provide("pml.plugins", "fine", module(pml_both=lambda services: ["fine"], pml_new=old)),
    ]
    with pytest.warns(DeprecationWarning, match="colour of pml_both is deprecated: it is always None"):
        manager.load(records)
    assert [len(record.deprecated) for record in records] == [1, 0]


def test_the_log_names_the_plugin_once(manager):
    log = FakeLog()
    records = [provide("pml.plugins", "acme", module(pml_old=old))]
    assembly = Assembly(configuration([]), records, lambda name, _: FakeServices(name), log)
    with pytest.warns(DeprecationWarning, match="pml_old"):
        assembly.load_hooks(pytest.fail)
    ((level, _, fields),) = log.lines
    assert level == "warning"
    assert fields == {
        "plugin": "acme",
        "origin": "in-process 0",
        "what": "pml_old is deprecated: use pml_new; gone in 1.0",
    }


def test_pluggys_own_warning_is_silenced_and_no_other(manager):
    class Loud:
        @hookimpl
        def pml_new(self, services):
            return ()

    record = provide("pml.plugins", "acme", Loud())
    manager.load([record])
    assert record.deprecated == []
    assert pluggy.__version__


class Contract:
    def serve(self):
        """As it was."""

    def serve_all(self):
        """As it is."""


Contract.serve.__deprecated__ = "write serve_all; gone in 1.0"


class Outdated:
    def __init__(self, settings, services):
        """Of no concern."""

    def serve(self):
        """Still there."""


class Current(Contract):
    def serve_all(self):
        """All that it has of its own."""


def test_a_deprecated_member_of_a_driver_is_told_once(monkeypatch):
    monkeypatch.setattr(drivers, "_contract", lambda group: Contract)
    log = FakeLog()
    monkeypatch.setattr(shapes, "driver_problem", lambda kind, driver: "")
    records = [provide("pml.store", "acme", Outdated), provide("pml.store", "fine", lambda *_: Current())]
    assembly = Assembly(configuration([]), records, lambda name, _: FakeServices(name), log)
    with pytest.warns(DeprecationWarning, match=r"store driver 'acme' .*: serve is deprecated: write serve_all"):
        assembly.driver("store", "acme")
    assembly.driver("store", "acme")
    assert len(log.lines) == 1
    assembly.driver("store", "fine")
    assert len(log.lines) == 1


def test_what_is_inherited_from_the_contract_is_not_the_plugins():
    assert list(drivers.deprecated(Current, Contract)) == []


def test_nothing_of_the_contract_as_it_is_warns(installation):
    installation.add(
        "acme",
        {"pml.plugins": {"acme": "acme_hooks"}},
        modules={
            "acme_hooks": "from pml_hookspecs import hookimpl\n@hookimpl\ndef pml_meta_tools(services): return ()\n"
        },
    )
    records = discover()
    HookManager().load(records)
    assert [(r.state, r.deprecated) for r in records] == [(registry.State.LOADED, [])]
