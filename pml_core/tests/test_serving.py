"""Where others can reach the gateway, no plugin that is installed may be missing: it may be the one that guards it."""

from __future__ import annotations

import types
from importlib import metadata

import pytest

from pml_core.gateway import Gateway
from pml_core.plugins import registry
from pml_core.plugins.listener import check_complete
from pml_core.plugins.registry import Record, State
from pml_hookspecs import hookimpl
from pml_kit.errors import OperatorError
from pml_testing.gateway import ScriptedServer, ScriptedTransport, configuration

pytestmark = pytest.mark.anyio
HTTP, STDIO = "http://127.0.0.1:0", "stdio:"


def record(state=State.FOUND, *, group="pml.plugins", name="guard"):
    """A plugin that cannot be imported."""
    point = metadata.EntryPoint(name, "no_such_module_anywhere", group)
    return Record(
        group, name, point.value, f"pml-{name}", "1.0", point, state=state, problem="it broke", remedy="Mend."
    )


class Listens(ScriptedTransport):
    """Serves nobody, for no time."""

    def __init__(self):
        super().__init__({"one": ScriptedServer(["a"])})
        self.served = []

    async def serve(self, endpoint, accept, *, started, routes=None):
        self.served.append(endpoint.address)


@pytest.mark.parametrize("address", [HTTP, STDIO])
async def test_a_plugin_that_cannot_be_imported_keeps_all_but_stdio_from_serving(address):
    listens = Listens()
    schemes = [registry.provide("pml.transport", scheme, listens) for scheme in ("scripted", "http", "stdio")]
    async with Gateway(configuration(["one"], log_level="error"), None, [*schemes, record()]) as gateway:
        assert "quarantined" in gateway.supervisor.health["guard"]
        if address == STDIO:
            await gateway.serve(address)
            assert listens.served == [STDIO]
            return
        with pytest.raises(OperatorError, match=r"'guard' \(pml-guard 1.0\) cannot be used: .*may be what") as refused:
            await gateway.serve(address)
        assert 'block = ["guard"]' in refused.value.remedy
        assert listens.served == []


def broken(services):
    raise ValueError("no policy")


@pytest.mark.parametrize("address", [HTTP, STDIO])
async def test_a_guard_that_loaded_and_failed_keeps_all_but_stdio_from_serving(address):
    listens = Listens()
    found = [registry.provide("pml.transport", scheme, listens) for scheme in ("scripted", "http", "stdio")]
    guard = registry.provide("pml.plugins", "policy", types.SimpleNamespace(pml_wrap_executor=hookimpl(broken)))
    guard.guard = True
    async with Gateway(configuration(["one"], log_level="error"), None, [*found, guard]) as gateway:
        if address == STDIO:
            await gateway.serve(address)
            assert listens.served == [STDIO]
            return
        with pytest.raises(OperatorError, match=r"'policy'.*cannot be used: ValueError: no policy"):
            await gateway.serve(address)
        assert listens.served == []


@pytest.mark.parametrize("state", [State.INCOMPATIBLE, State.FAILED])
def test_whatever_keeps_a_hook_plugin_from_loading_counts(state):
    with pytest.raises(OperatorError, match="it broke"):
        check_complete([record(state)], HTTP, {})


def test_all_that_are_missing_are_named_at_once():
    with pytest.raises(OperatorError, match="the same holds for guard, other") as refused:
        check_complete([record(State.FAILED), record(State.INCOMPATIBLE, name="other")], HTTP, {})
    assert 'block = ["guard", "other"]' in refused.value.remedy


def test_what_is_blocked_or_is_no_hook_plugin_or_has_loaded_is_no_obstacle():
    records = [record(State.BLOCKED), record(State.LOADED), record(State.FAILED, group="pml.store", name="other")]
    check_complete(records, HTTP, {})
