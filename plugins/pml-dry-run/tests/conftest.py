"""A plugin with a store, whose real calls a test answers."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from pml_core.plugins.nulls import MemoryStore
from pml_dry_run import plugin
from pml_hookspecs import RawObject, Session, Status, ToolCall, encode
from pml_testing.fakes import FakeCatalog, FakeRun, FakeServices, outcome


class Kit:
    """The plugin in a gateway of fakes."""

    def __init__(self, entries, store=None, **settings):
        settings = plugin.settings_type(**settings)
        self.store = store or MemoryStore()
        self.services = FakeServices("dry_run", catalog=FakeCatalog(entries), store=self.store, settings=settings)
        self.dry_run, self.recorder = plugin.pml_wrap_executor(self.services)
        self.recordings = plugin.parts_of(self.services).recordings
        self.reached = []

    async def real(self, tool, answer, arguments=None, *, principal="local", failure=None, **extra):
        """Call a tool for real: the server answers with ``answer``, as bytes, text or an object."""
        raw = answer if isinstance(answer, bytes) or answer is None else encode(answer)
        output = None if raw is None else RawObject(raw)
        status = Status.OK if failure is None else Status.ERROR

        async def server(task, run):
            return outcome(task.id, output, status, failure=failure)

        task = ToolCall(id="real", tool=tool, arguments=RawObject(encode(arguments or {})), extra=extra)
        return await self.recorder(task, FakeRun(session=Session(key="k", principal=principal)), server)

    async def rehearse(self, tool, arguments=None, *, run=None, answer=None, id_="t", extra=None, principal="local"):
        """Call a tool in a rehearsal; ``answer`` is what its server would say, if it were reached."""

        async def server(task, run):
            self.reached.append(task)
            return outcome(task.id, None if answer is None else RawObject(encode(answer)))

        run = run or FakeRun(dry_run=True, session=Session(key="k", principal=principal))
        task = ToolCall(id=id_, tool=tool, arguments=arguments or {}, extra=extra or {})
        return await self.dry_run(task, run, server)

    async def label(self, tool, arguments=None, **how):
        """What the simulated answer to a call says about itself, and the rest of it."""
        ended = await self.rehearse(tool, arguments, **how)
        result = dict(ended.output)
        return result.pop("_meta")["pml/simulated"], result


@pytest.fixture
def kit():
    """``async with kit([entry(…)], level="strict") as made``: recording while it is open."""

    @asynccontextmanager
    async def make(entries, store=None, **settings):
        made = Kit(entries, store, **settings)
        (lifespan,) = plugin.pml_lifespan(made.services)
        try:
            async with lifespan:
                yield made
        finally:
            await made.services.stop()

    return make
