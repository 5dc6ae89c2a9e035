from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

import pytest

from pml_execution_tools import plugin
from pml_hookspecs import (
    ExecutionId,
    ExecutionRecord,
    Failure,
    Identity,
    InvalidArguments,
    Outcome,
    Phase,
    RunOptions,
    Scope,
    Session,
    Status,
    hookimpl,
)
from pml_store_sqlite import Settings as SqliteSettings
from pml_store_sqlite import SqliteStore
from pml_testing.fakes import FakeCatalog, FakeRun, FakeServices, outcome
from pml_testing.gateway import running

KEYS = {
    "root": Identity(principal="root", scopes=frozenset({"system"}), access_key="key-root"),
    "alice": Identity(principal="alice", access_key="key-alice"),
    "bob": Identity(principal="bob", access_key="key-bob"),
    "ruby": Identity(principal="alice", agent="ruby-agent", access_key="key-ruby"),
    "barred": Identity(principal="alice", access_key="key-barred", deny=("pml:*",)),
    "limited": Identity(principal="limited", access_key="key-limited"),
}


class Services(FakeServices):
    """Whose scopes a test can set."""

    scopes: dict[tuple[str, bool], Scope | Exception]

    async def scope(self, session: Session, *, results: bool = False) -> Scope:
        said = self.scopes.get((session.principal, results))
        if isinstance(said, Exception):
            raise said
        return said or await super().scope(session, results=results)


@dataclass
class History:
    """Records in a store, and the tools that read them."""

    store: Any
    now: datetime = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))

    def __post_init__(self):
        self.services = Services("execution_tools", store=self.store, catalog=FakeCatalog())
        self.services.scopes = {}

    @property
    def started(self) -> datetime:
        """When records begin that do not say."""
        return self.now - timedelta(minutes=1)

    def record(self, name: str = "abc123", **members: Any) -> ExecutionRecord:
        defaults = {
            "id": ExecutionId(name),
            "kind": "tool",
            "target": "files:read",
            "principal": "local",
            "agent": "ruby-agent",
            "as_agent": True,
            "intent": "Process daily invoices",
            "status": Status.OK,
            "started_at": self.started,
            "duration_ms": 45_000,
            "response": {"content": [{"type": "text", "text": "15 invoices"}]},
        }
        return ExecutionRecord(**{**defaults, **members})

    async def put(self, *records: ExecutionRecord) -> None:
        for record in records:
            self.store.executions.record(record)
        if records:
            await self.store.executions.put(records[-1])

    async def ask(self, tool: str, arguments: Any = None, *, session: Session | None = None, **more: Any) -> Any:
        tools = {made.definition["name"]: made for made in plugin.pml_meta_tools(self.services)}
        return await tools[tool].call({**(arguments or {}), **more}, FakeRun(session=session))

    async def list(self, *records: ExecutionRecord, session: Session | None = None, **arguments: Any) -> Any:
        await self.put(*records)
        return await self.ask("list_recent_executions", arguments, session=session)

    async def ids(self, *records: ExecutionRecord, session: Session | None = None, **arguments: Any) -> list[str]:
        answer = await self.list(*records, session=session, **arguments)
        return [execution["id"] for execution in answer["executions"]]

    async def result(
        self, *records: ExecutionRecord, session: Session | None = None, execution: str = "abc123", **more: Any
    ) -> Any:
        await self.put(*records)
        arguments = {"agent_name": "ruby-agent", "execution_id": execution, **more}
        answer = await self.ask("get_execution_result", arguments, session=session)
        assert answer.keys() == {"execution"}
        return answer["execution"]

    async def summary(self, *records: ExecutionRecord, session: Session | None = None, **arguments: Any) -> Any:
        await self.put(*records)
        return await self.ask("get_agent_activity_summary", arguments, session=session)

    async def refused(self, tool: str, arguments: Any = None, session: Session | None = None, **more: Any) -> str:
        with pytest.raises(InvalidArguments) as caught:
            await self.ask(tool, arguments, session=session, **more)
        return str(caught.value)


@pytest.fixture
async def store(tmp_path, anyio_backend):
    async with SqliteStore(SqliteSettings(path=str(tmp_path / "pml.db"), flush_interval_ms=1)) as made:
        yield made


@pytest.fixture
def history(store):
    return History(store)


@dataclass
class RoutesOnPort:
    """A gateway with its routes on a port, each caller known by its bearer token."""

    gateway: Any
    url: str
    history: History
    ran: list[Any]
    """What the routes had the gateway run: task, session, trigger."""


class Listener:
    """Lets in whoever has a key, as the gateway's own listener does."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        token = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
        if token in KEYS:
            scope.setdefault("state", {})["identity"] = KEYS[token]
        await self.application(scope, receive, send)


class Policies:
    """Refuses callers what their keys deny, and lets nobody call too often whose key is ``limited``."""

    phase = Phase.LIMIT

    @hookimpl
    def pml_filter_tools(self, services: Any) -> Any:
        return [lambda entry, session: not any(fnmatchcase(entry.id, pattern) for pattern in session.deny)]

    @hookimpl
    def pml_wrap_executor(self, services: Any) -> Any:
        return [self]

    async def __call__(self, task: Any, run: Any, call_next: Any) -> Outcome:
        if run.session.principal != "limited":
            return await call_next(task, run)
        failure = Failure("limit.rate", "30/minute are used up.", retryable=True, details={"retry_after_s": 2.5})
        return outcome(task.id, status=Status.ERROR, failure=failure)


@contextlib.asynccontextmanager
async def listening(routes: Any) -> Any:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.routing import Mount

    application = Listener(Starlette(routes=[Mount("/api", routes=list(routes))]))
    config = uvicorn.Config(application, port=0, lifespan="off", log_config=None, ws="none", loop="none")
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    port = server.servers[0].sockets[0].getsockname()[1]
    loop = asyncio.get_running_loop().create_task(server.main_loop())
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await loop
        await server.shutdown()


@pytest.fixture
async def served(tmp_path, anyio_backend):
    plugins = {
        ("hooks", "execution_tools"): plugin,
        ("hooks", "policies"): Policies(),
        ("store", "sqlite"): SqliteStore,
    }
    tables = {"sqlite": {"path": str(tmp_path / "pml.db"), "flush_interval_ms": 1}}
    async with running({}, plugins=plugins, tables=tables, store="sqlite") as gateway:
        services = gateway.assembly.services("execution_tools")
        run, ran = services.run, []

        async def noted(task: Any, session: Any, options: RunOptions) -> Any:
            ran.append((task, session, options.trigger))
            return await run(task, session, options)

        services.run = noted
        async with listening([shared.route for shared in plugin.pml_routes(services)]) as url:
            yield RoutesOnPort(gateway, url, History(gateway.store), ran)
