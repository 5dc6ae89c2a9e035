"""pytest plugin: fixtures, and ``--pml-contract``, which runs the contract of every installed driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from pml_hookspecs import Session, Store

    from .fakes import FakeCatalog, FakeServices
    from .fixtures_clock import FrozenClock
    from .fixtures_gateway import GatewayClient
    from .fixtures_recordings import ServerRecording
    from .fixtures_server import StdioServer

REMEMBERED = 10_000
"""Executions that the fixture ``store`` has room for."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("pml")
    group.addoption(
        "--pml-record",
        action="store_true",
        help="let the fixture 'recorded' use the real servers, and keep what they answer for the next time",
    )
    group.addoption(
        "--pml-contract",
        nargs="?",
        const="",
        metavar="NAMES",
        help="run the contract tests of the installed drivers (all, or the comma-separated names)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Know the contracts' markers, and point pytest at the contracts when they are asked for."""
    config.pluginmanager.register(Backend(), "pml_testing_backend")
    if config.option.pml_contract is not None:
        config.args[:] = [str(Path(__file__).with_name("contracts"))]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One run of a contract class per installed driver of its group."""
    if "installed" not in metafunc.fixturenames or metafunc.cls is None:
        return
    # Imported here: a pytest plugin's module is imported by every pytest run.
    from pml_core.plugins.registry import State, discover

    names = set(filter(None, (metafunc.config.option.pml_contract or "").split(",")))
    records = [r for r in discover() if r.group == metafunc.cls.group and r.state is State.FOUND]
    records = [r for r in records if not names or r.name in names]
    metafunc.parametrize("installed", records, ids=[f"{r.dist}:{r.name}" for r in records], scope="class")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out contracts of kinds that nothing chosen is of, instead of showing them as skipped."""
    if config.option.pml_contract is None:
        return
    empty = [
        item
        for item in items
        if any("empty parameter set" in m.kwargs.get("reason", "") for m in item.iter_markers("skip"))
    ]
    config.hook.pytest_deselected(items=empty)
    items[:] = [item for item in items if item not in set(empty)]


class Backend:
    """The backend of async tests. Registered late, because anyio's own fixture of that name must not win."""

    @pytest.fixture
    def anyio_backend(self) -> str:
        """asyncio only: the stdio wire uses its loop."""
        return "asyncio"


@pytest.fixture
def catalog() -> FakeCatalog:
    """Two servers with five tools each, and the gateway's own."""
    from .fakes import FakeCatalog, some_entries

    return FakeCatalog(some_entries(2, 5))


@pytest.fixture
def session() -> Session:
    """Somebody who asks, with nothing said about them; :func:`pml_hookspecs.replace` makes others of it."""
    from pml_hookspecs import Session

    return Session(key="test")


@pytest.fixture
def store() -> Store:
    """An empty store in memory, ready to use."""
    from pml_core.plugins.nulls import MemoryStore

    return MemoryStore(remembered=REMEMBERED)


@pytest.fixture
def services(catalog: FakeCatalog, store: Store) -> FakeServices:
    """What a plugin gets; records what it logs, runs, publishes and spawns."""
    from .fakes import FakeServices

    return FakeServices(catalog=catalog, store=store)


@pytest.fixture
def gateway(store: Store) -> Callable[..., AbstractAsyncContextManager[GatewayClient]]:
    """``async with gateway(plugins=[MyMode, my_module]) as client``: a gateway in this process with just these plugins.

    Takes what :func:`pml_testing.fixtures_gateway.gateway_of` does. What happened is in the fixture ``store``.
    """
    from .fixtures_gateway import gateway_of

    def start(
        plugins: Sequence[Any] = (), servers: Mapping[str, Any] | None = None, **more: Any
    ) -> AbstractAsyncContextManager[GatewayClient]:
        return gateway_of(plugins, servers, store, **more)

    return start


@pytest.fixture
def stdio_server(tmp_path: Path) -> Callable[..., StdioServer]:
    """``stdio_server(script)``: an MCP server in a process of its own, whose tools are the script's functions."""
    from .fixtures_server import write

    made: list[StdioServer] = []

    def make(script: str, name: str = "") -> StdioServer:
        made.append(write(tmp_path, script, name or f"server_{len(made) + 1}"))
        return made[-1]

    return make


@pytest.fixture
def frozen_clock(request: pytest.FixtureRequest) -> Iterator[FrozenClock]:
    """Time stands still, for the gateway, for plugins and for the test's module, until the test moves it on."""
    from .fixtures_clock import frozen

    with frozen(*([request.module] if request.module is not None else [])) as clock:
        yield clock


@pytest.fixture
def recorded(request: pytest.FixtureRequest) -> Callable[..., ServerRecording]:
    """``recorded("crm.jsonl", "https://crm.example/mcp")``: a server for ``gateway(servers=…)`` that need not be there.

    Answers as the file beside the test says, by pml-replay. With ``--pml-record`` it is the real server, and the file
    is written anew.
    """
    from .fixtures_recordings import recorded_at

    def make(file: str | Path, address: str = "") -> ServerRecording:
        try:
            return recorded_at(request.path.parent / file, address, recording=request.config.option.pml_record)
        except (LookupError, ValueError) as exc:
            pytest.fail(str(exc), pytrace=False)

    return make
