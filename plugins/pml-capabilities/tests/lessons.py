"""What the tests of this plugin share."""

from __future__ import annotations

import itertools

from pml_capabilities import Settings
from pml_capabilities.capability import Capability
from pml_capabilities.learning import Learning
from pml_capabilities.library import library_of
from pml_capabilities.publisher import Publisher
from pml_hookspecs import CodeRun, ExecutionId, ExecutionRecord, Scope, ServerStatus, Session, Status, ToolCall, replace
from pml_store_sqlite import SqliteStore
from pml_testing.fakes import EPOCH, FakeCatalog, FakeRun, FakeServices, entry, outcome

READ = {"readOnlyHint": True, "openWorldHint": False}
_numbers = itertools.count(1)


def catalog_of(*entries, **servers):
    """A catalog of ``entries``; their servers are up unless ``servers`` says otherwise."""
    names = {e.server for e in entries} | set(servers)
    return FakeCatalog(
        list(entries), [ServerStatus(name=name, state=servers.get(name, "up")) for name in sorted(names)]
    )


def some_catalog():
    return catalog_of(
        entry("files:read", "read a file", annotations=READ),
        entry("files:write", "write a file"),
        entry("web:get", "get a page", annotations={"readOnlyHint": True}),
    )


def run_of(*, parent=None, intent="", dry_run=False, principal="alice", answer=None):
    """A run with an id of its own."""
    run = FakeRun(
        answer, parent=parent, intent=intent, dry_run=dry_run, session=Session(key=principal, principal=principal)
    )
    run.id = ExecutionId(f"01900000-0000-7000-8000-{next(_numbers):012x}")
    return run


def code(source="return 1", **more):
    return CodeRun(**{"id": "c", "language": "javascript", "source": source, "intent": "count open issues", **more})


async def recorded(store, task, run):
    """The gateway's own record of code that runs, unless a test has made one."""
    if isinstance(task, CodeRun) and await store.executions.get(run.id, Scope(principals=None)) is None:
        record = ExecutionRecord(
            id=run.id, kind="code", target=task.language, principal=run.session.principal, status="running",
            started_at=EPOCH, request={"source": task.source}, intent=task.intent or run.intent,
        )  # fmt: skip
        await store.executions.put(record)


class Gateway:
    """The wrapper, the publisher and what they use, as in a gateway with nothing else."""

    def __init__(self, store=None, catalog=None, **settings):
        self.settings, self.recorded = Settings(**settings), isinstance(store, SqliteStore)
        self.services = FakeServices(
            settings=self.settings, catalog=some_catalog() if catalog is None else catalog, store=store
        )
        self.publisher = Publisher(self.services, self.settings)
        self.learning = Learning(self.services, self.settings, self.publisher.changed)

    @property
    def library(self):
        return library_of(self.services)

    @property
    def tools(self):
        """What is published, by name."""
        return {tool.definition["name"]: tool for tool in self.services.published.get(self.settings.server, [])}

    async def ran(self, task, run, *, calls=(), status=Status.OK, duration_ms=7, failure=None):
        """Let ``task`` pass the wrapper; inside, ``calls`` are made, and it ends with ``status``."""

        async def inside(task, run):
            for tool in calls:
                await self.learning(ToolCall(id="t", tool=tool), run_of(parent=run.id), ended)
            made = outcome(task.id, "answer", status, failure=failure)
            return replace(made, duration_ms=duration_ms)

        async def ended(task, run):
            return outcome(task.id)

        if self.recorded:
            await recorded(self.services.store, task, run)
        done = await self.learning(task, run, inside)
        await self.learning.settled()
        return done

    async def learned(self):
        """The one capability that is kept."""
        (found,) = await self.library.all()
        return found


def capability(id="c1", **more):
    given = {
        "id": id,
        "name": id,
        "code": "return 1",
        "language": "javascript",
        "program": False,
        "intents": ("count open issues",),
        "tools": {},
        "inputs": {"type": "object", "properties": {}, "required": []},
        "principals": frozenset({"alice"}),
        "total_ms": 7,
    }
    return Capability(**{**given, **more})
