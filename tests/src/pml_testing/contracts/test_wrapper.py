"""The contract of every wrapper that an installed hook plugin contributes, with default settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pml_core.plugins.registry import State, discover
from pml_hookspecs import ToolCall
from pml_testing.fakes import FakeCatalog, FakeServices, entry, some_entries
from pml_testing.wrapper import GROUP, WrapperContract

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pml_hookspecs import Task, Wrapper

STRICT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


def _catalog() -> FakeCatalog:
    destructive = entry("s00:destroy", input_schema=STRICT, annotations={"destructiveHint": True})
    return FakeCatalog([*some_entries(1, 5), destructive])


def _contributed(record: Any) -> list[Wrapper]:
    """The wrappers of one hook plugin, made anew; empty when it has none."""
    plugin = record.entry_point.load()
    if not hasattr(plugin, "pml_wrap_executor"):
        return []
    settings = plugin.settings_type() if hasattr(plugin, "settings_type") else None
    return list(plugin.pml_wrap_executor(services=FakeServices(record.name, settings=settings, catalog=_catalog())))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One run per wrapper. A plugin that cannot be loaded, or raises, is one too, so that its failure is seen."""
    if "contributed" not in metafunc.fixturenames:
        return
    names = set(filter(None, (metafunc.config.option.pml_contract or "").split(",")))
    given: list[tuple[Any, int]] = []
    for record in discover():
        if record.group != GROUP or record.state is not State.FOUND or (names and record.name not in names):
            continue
        try:
            count = len(_contributed(record))
        except Exception:
            count = 1
        given += [(record, i) for i in range(count)]
    ids = [f"{record.dist}:{record.name}" + (f":{i}" if i else "") for record, i in given]
    metafunc.parametrize("contributed", given, ids=ids, scope="class")


class TestInstalledWrapper(WrapperContract):
    """One run per wrapper."""

    @pytest.fixture
    def wrapper(self, contributed: tuple[Any, int]) -> Wrapper:
        record, i = contributed
        return _contributed(record)[i]

    @pytest.fixture
    def tasks(self) -> Sequence[Task]:
        arguments: list[dict[str, Any]] = [{}, {"n": 1}, {"n": "many", "m": None}]
        return [
            ToolCall(id=f"{e.name} {i}", tool=e.id, arguments=a) for e in _catalog() for i, a in enumerate(arguments)
        ]
