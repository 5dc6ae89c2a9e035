"""What tests of the gateway's servers share: servers that list as they are told, and looks at what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from pml_core.gateway import Gateway
from pml_core.plugins import registry
from pml_hookspecs import Catalog, ExecutionQuery, ExecutionRecord, Scope, Selection, ServerStatus, Session, replace
from pml_settings.config import ServerSettings

from .gateway import ScriptedServer, ScriptedTransport, configuration, drivers_in, provided

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pml_hookspecs import Endpoint, Handler, Link


async def until(condition: Callable[[], object], within_s: float = 120.0) -> None:
    """Let the others work until something holds of which nothing tells. Raises TimeoutError."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)


async def a_while(turns: int = 50) -> None:
    """Let everything happen that can happen without time going by."""
    for _ in range(turns):
        await asyncio.sleep(0)


def state(made: Gateway, name: str = "fs") -> ServerStatus:
    """How a server is doing."""
    status = made.catalog.status(name)
    assert status is not None
    return status


def tools_of(made: Gateway, name: str = "fs") -> list[str]:
    """The names of a server's tools in the catalog."""
    return [e.name for e in made.catalog if e.server == name]


async def records(made: Gateway) -> Sequence[ExecutionRecord]:
    """What was executed."""
    assert made.store is not None
    page = await made.store.executions.find(ExecutionQuery(scope=Scope(principals=None), limit=100))
    return page.items


def named(*names: str) -> list[dict[str, Any]]:
    """Definitions of tools."""
    return [{"name": n, "inputSchema": {"type": "object"}} for n in names]


class Lister(ScriptedServer):
    """Lists what ``pages`` says, by cursor; waits for ``gate`` first when there is one."""

    def __init__(self, pages: dict[Any, Any], **options: Any) -> None:
        super().__init__((), **options)
        self.pages = pages
        self.cursors: list[dict[str, Any]] = []
        """Params of each request for a page."""
        self.gate: asyncio.Event | None = None
        self.listing = asyncio.Event()

    async def serve(self, method: str, params: dict[str, Any]) -> Mapping[str, Any]:
        if method != "tools/list":
            return await super().serve(method, params)
        self.cursors.append(params)
        self.listing.set()
        page = self.pages[params.get("cursor")]
        if self.gate is not None:
            await self.gate.wait()
        if isinstance(page, Exception):
            raise page
        answer: Mapping[str, Any] = page
        return answer


class Connections(ScriptedTransport):
    """Transport of scripted servers that counts connections, and makes one server for each where asked to."""

    def __init__(self, make: Mapping[str, Callable[[], ScriptedServer]]) -> None:
        super().__init__({})
        self._make = make
        self.opened: list[ScriptedServer] = []
        """One server for each connection, in order."""
        self.closed: list[ScriptedServer] = []

    @asynccontextmanager
    async def connect(self, endpoint: Endpoint, handler: Handler) -> AsyncIterator[Link]:
        server = self._make[endpoint.name]()
        self._servers = {endpoint.name: server}
        at = replace(endpoint, address=f"scripted:{endpoint.name}")
        async with super().connect(at, handler) as link:
            self.opened.append(server)
            try:
                yield link
            finally:
                self.closed.append(server)

    @property
    def open(self) -> list[ScriptedServer]:
        """Those that are connected."""
        return [server for server in self.opened if server not in self.closed]


@asynccontextmanager
async def connected(
    transport: Connections,
    servers: Mapping[str, ServerSettings],
    *,
    plugins: Mapping[tuple[str, str], Any] | None = None,
    one_client: bool = False,
    **gateway: Any,
) -> AsyncIterator[Gateway]:
    """A started gateway whose servers have settings; ``gateway`` are fields of ``[gateway]``."""
    config = replace(
        configuration([], **{"tools_exposure": "all", **drivers_in(plugins or ()), **gateway}), servers=dict(servers)
    )
    found = [registry.provide("pml.transport", scheme, transport) for scheme in ("scripted", "http")]
    found.append(registry.provide("pml.exposure_mode", "all", Everything))
    for (kind, name), plugin in (plugins or {}).items():
        found.append(provided(kind, name, plugin))
    async with Gateway(config, records=found, one_client=one_client) as made:
        if not one_client:
            await made.servers_tried()
        yield made


def moving_clock(patch: Any) -> Callable[[float], None]:
    """A function that moves the running loop's clock on [s]: timers that have become due fire at once."""
    loop = asyncio.get_running_loop()
    real, ahead_s = loop.time, 0.0

    def advance(by_s: float) -> None:
        nonlocal ahead_s
        ahead_s += by_s

    patch.setattr(loop, "time", lambda: real() + ahead_s)
    return advance


class Everything:
    """An exposure mode that shows all there is, under the name ``all``."""

    def __init__(self, settings: Any = None, services: Any = None) -> None:
        """Takes what every driver does."""

    async def select(self, catalog: Catalog, session: Session) -> Selection:
        return Selection(tuple(entry.id for entry in catalog))
