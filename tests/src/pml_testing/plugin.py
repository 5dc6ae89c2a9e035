"""pytest plugin: fixtures, and ``--pml-contract``, which runs the contract of every installed driver."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .fakes import FakeCatalog, FakeServices


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("pml").addoption(
        "--pml-contract",
        nargs="?",
        const="",
        metavar="NAMES",
        help="run the contract tests of the installed drivers (all, or the comma-separated names)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Know the contracts' markers, and point pytest at the contracts when they are asked for."""
    config.pluginmanager.register(Backend(), "pml_testing_backend")
    config.addinivalue_line("markers", "seed(id): the requirement of the original documents that the test holds")
    if config.option.pml_contract is not None:
        config.args[:] = [str(Path(__file__).with_name("contracts"))]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One run of a contract class per installed driver of its group."""
    if "installed" not in metafunc.fixturenames or metafunc.cls is None:
        return
    # Imported here: a pytest plugin's module is imported by every pytest run.
    from pml_core.registry import State, discover

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
def services(catalog: FakeCatalog) -> Any:
    """What a plugin gets; records what it logs and spawns."""
    from .fakes import FakeServices

    made: FakeServices = FakeServices(catalog=catalog)
    return made
