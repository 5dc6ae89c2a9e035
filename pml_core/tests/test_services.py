from __future__ import annotations

import asyncio
import types

import pytest

from pml_core.plugins.nulls import MemoryStore
from pml_hookspecs import hookimpl
from pml_testing.gateway import running

pytestmark = pytest.mark.anyio


async def test_a_store_that_asks_for_the_store_is_told_that_it_is_not_up():
    asked: list[str] = []

    class Store(MemoryStore):
        def __init__(self, settings, services):
            super().__init__()
            try:
                _ = services.store
            except RuntimeError as exc:
                asked.append(str(exc))

    async with running({}, plugins={("store", "sqlite"): Store}):
        assert asked == ["plugin 'sqlite' asked for the store before it was up"]


async def test_a_plugins_background_task_runs_with_its_arguments_until_the_gateway_ends():
    begun, ended = asyncio.Event(), []

    async def works(number):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    def starts(services):
        services.spawn(works, 7, name="work")
        return ()

    plugin = types.ModuleType("plugin")
    plugin.pml_lifespan = hookimpl(starts)
    async with running({}, plugins={("hooks", "worker"): plugin}):
        async with asyncio.timeout(30):
            await begun.wait()
        assert ended == []
    assert ended == [7]


async def test_a_plugins_log_says_whose_it_is(capsys):
    def says(services):
        services.log.warning("hello")
        return ()

    plugin = types.ModuleType("plugin")
    plugin.pml_lifespan = hookimpl(says)
    async with running({}, plugins={("hooks", "talker"): plugin}):
        pass
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "hello" in line]
    assert "plugin=talker" in line


async def test_what_a_plugin_keeps_can_be_rid_of_the_secrets_that_the_gateway_knows():
    seen = []

    def keeps(services):
        seen.append(services.redact({"a": ["token is sesame-open", 1], "b": None}))
        return ()

    plugin = types.ModuleType("plugin")
    plugin.pml_lifespan = hookimpl(keeps)
    async with running({}, plugins={("hooks", "keeper"): plugin}) as made:
        made.redactor.learn(["sesame-open"])
        seen.append(made.assembly.services("keeper").redact({"a": ["token is sesame-open", 1], "b": None}))
    assert seen[-1] == {"a": ["token is **********", 1], "b": None}
