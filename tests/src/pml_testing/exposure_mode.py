"""The contract every exposure mode keeps.

Subclass :class:`ExposureModeContract` and override ``mode_type`` (and ``settings``, to test a mode set up otherwise);
or run ``pytest --pml-contract`` against what is installed.
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from inspect import getfile
from typing import Any

import pytest

from pml_hookspecs import ExposureMode, Selection, Session, encode, replace

from .fakes import FakeCatalog, FakeServices, entry, some_entries

WHO: dict[str, Any] = {"key": "local/intent", "intent": "read thing number 3"}
ASKING = Session(**WHO)
SILENT = Session(key="local/")
REAL = 687
"""Size of the catalog that the speed limit is for [tools]."""
SIZES = (0, 1, 30, REAL, 5000)
LIMIT_S = 0.05
"""Longest that one selection over :data:`REAL` tools may take [s]."""
IO_EVENTS = ("open", "os.", "socket.", "subprocess.", "sqlite3.", "urllib.", "shutil.", "tempfile.", "http.")
"""What of Python's audit events is input or output."""

_events: list[str] | None = None


@cache
def catalog_of(size: int) -> FakeCatalog:
    """A catalog of ``size`` tools, the gateway's own included; the same one each time."""
    return FakeCatalog(some_entries(size // 40 + 1, 40)[:size])


@cache
def _install_audit() -> None:
    """Audit hooks cannot be taken out again, so there is one, which is off most of the time."""

    def note(event: str, _arguments: tuple[Any, ...]) -> None:
        if _events is not None and event.startswith(IO_EVENTS):
            _events.append(event)

    sys.addaudithook(note)


@contextmanager
def input_and_output() -> Iterator[list[str]]:
    """Names of the audit events for files, sockets and processes that happen inside."""
    global _events  # noqa: PLW0603 - the hook outlives every test
    _install_audit()
    seen: list[str] = []
    _events = seen
    try:
        yield seen
    finally:
        _events = None


CHILD = """
import asyncio, importlib, importlib.util, json, sys

module, name, path, settings, size, session = json.loads(sys.argv[1])
try:
    found = importlib.import_module(module)
except ImportError:
    spec = importlib.util.spec_from_file_location(module, path)
    found = sys.modules[module] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
from pml_hookspecs import Session
from pml_testing.fakes import FakeCatalog, FakeServices, some_entries

mode_type = found
for part in name.split("."):
    mode_type = getattr(mode_type, part)
mode = mode_type(mode_type.settings_type(**settings) if settings is not None else None, FakeServices())
catalog = FakeCatalog(some_entries(size // 40 + 1, 40)[:size])
print(json.dumps(asyncio.run(mode.select(catalog, Session(**session))).tools))
"""


def _answer_of_another_process(mode_type: Any, settings: Any) -> Any:
    """The tools that the mode picks from the catalog of :data:`REAL` tools for :data:`ASKING`."""
    table = None if settings is None else dataclasses.asdict(settings)
    asked = [mode_type.__module__, mode_type.__qualname__, getfile(mode_type), table, REAL, WHO]
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", CHILD, json.dumps(asked)]
    done = subprocess.run(command, env=env, capture_output=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


class ExposureModeContract:
    """Tests of one exposure mode with one table of settings."""

    pytestmark = pytest.mark.anyio
    group = "pml.exposure_mode"

    @pytest.fixture
    def mode_type(self) -> Any:
        """The class to test. Override it; at the top level of its module, so that another process can import it."""
        raise NotImplementedError("override the fixture mode_type: return the class of the exposure mode to test")

    @pytest.fixture
    def settings(self, mode_type: Any) -> Any:
        """The settings to test it with: the defaults; None for a class that has no ``settings_type``."""
        settings_type = getattr(mode_type, "settings_type", None)
        return None if settings_type is None else settings_type()

    @pytest.fixture
    def mode(self, mode_type: Any, settings: Any) -> ExposureMode:
        """The mode, made as the gateway makes it."""
        made: ExposureMode = mode_type(settings, FakeServices())
        return made

    @pytest.fixture(params=SIZES)
    def catalog(self, request: pytest.FixtureRequest) -> FakeCatalog:
        """Catalogs of every size."""
        return catalog_of(request.param)

    @pytest.fixture(params=[SILENT, ASKING], ids=["silent", "asking"])
    def session(self, request: pytest.FixtureRequest) -> Session:
        """Someone who says what for, and someone who does not."""
        asked: Session = request.param
        return asked

    # The answer

    async def test_returns_a_selection(self, mode: ExposureMode, catalog: FakeCatalog, session: Session) -> None:
        selection = await mode.select(catalog, session)
        assert isinstance(selection, Selection)
        assert isinstance(selection.tools, tuple), "Selection.tools is a tuple: lists can change after they are cached"
        assert isinstance(selection.shared, bool)

    async def test_every_id_is_in_the_catalog(self, mode: ExposureMode, catalog: FakeCatalog, session: Session) -> None:
        tools = (await mode.select(catalog, session)).tools
        assert not [tool for tool in tools if catalog.get(tool) is None]

    async def test_no_tool_is_listed_twice(self, mode: ExposureMode, catalog: FakeCatalog, session: Session) -> None:
        tools = (await mode.select(catalog, session)).tools
        assert len(tools) == len(set(tools))

    async def test_reasons_are_one_line_each_and_for_listed_tools(
        self, mode: ExposureMode, catalog: FakeCatalog, session: Session
    ) -> None:
        selection = await mode.select(catalog, session)
        assert not selection.why.keys() - set(selection.tools)
        assert not [line for line in selection.why.values() if not line.strip() or "\n" in line]

    async def test_is_usable_without_an_intent(self, mode: ExposureMode) -> None:
        assert (await mode.select(catalog_of(30), SILENT)).tools, "the client sees no tool at all"

    async def test_definitions_are_left_as_they_are(self, mode: ExposureMode, session: Session) -> None:
        catalog = FakeCatalog(some_entries(2, 5))
        before = [encode(e.definition) for e in catalog]
        await mode.select(catalog, session)
        assert [encode(e.definition) for e in catalog] == before

    # The same answer

    async def test_the_same_question_gets_the_same_answer(
        self, mode: ExposureMode, catalog: FakeCatalog, session: Session
    ) -> None:
        first = await mode.select(catalog, session)
        for other in (ASKING, SILENT, replace(ASKING, key="delete", intent="delete")):
            await mode.select(catalog, other)
        assert await mode.select(catalog, replace(session)) == first

    async def test_a_new_instance_gives_the_same_answer(
        self, mode: ExposureMode, mode_type: Any, settings: Any, session: Session
    ) -> None:
        catalog = catalog_of(REAL)
        await mode.select(catalog, ASKING)
        again = mode_type(settings, FakeServices())
        assert await again.select(catalog, session) == await mode.select(catalog, session)

    async def test_another_process_with_another_hash_seed_gives_the_same_answer(
        self, mode: ExposureMode, mode_type: Any, settings: Any
    ) -> None:
        mine = (await mode.select(catalog_of(REAL), ASKING)).tools
        assert _answer_of_another_process(mode_type, settings) == list(mine)

    async def test_a_shared_answer_is_the_same_for_everyone(self, mode: ExposureMode) -> None:
        catalog = catalog_of(30)
        others = [
            ASKING,
            replace(SILENT, key="delete", intent="delete thing number 5"),
            replace(SILENT, key="other", principal="other", client="other/1", scopes=frozenset({"system"})),
        ]
        first = await mode.select(catalog, SILENT)
        if first.shared:
            assert [(await mode.select(catalog, other)).tools for other in others] == [first.tools] * len(others)

    async def test_the_order_stays_when_an_unrelated_server_changes(self, mode: ExposureMode, session: Session) -> None:
        entries = some_entries(3, 10)
        unrelated = [entry(f"{server}:zebra_{n}", "stripes") for server in ("aa", "zz") for n in range(9)]
        before = (await mode.select(FakeCatalog(entries), session)).tools
        after = (await mode.select(FakeCatalog([*entries, *unrelated]), session)).tools
        assert [tool for tool in after if tool in before] == [tool for tool in before if tool in after]

    # The cost

    async def test_a_large_catalog_is_answered_in_time(self, mode: ExposureMode, session: Session) -> None:
        catalog = catalog_of(REAL)
        times = []
        for _ in range(7):
            start = time.perf_counter()
            await mode.select(catalog, session)
            times.append(time.perf_counter() - start)
        assert statistics.median(times) <= LIMIT_S

    # Construction and settings

    def test_is_constructed_from_settings_and_services_without_input_or_output(
        self, mode_type: Any, settings: Any
    ) -> None:
        mode_type(settings, FakeServices())  # imports what the class imports when it is first used
        with input_and_output() as events:
            mode_type(settings, FakeServices())
        assert not events

    def test_settings_are_a_frozen_dataclass(self, settings: Any) -> None:
        if settings is not None:
            made_with: Any = getattr(type(settings), "__dataclass_params__", None)
            assert made_with is not None, "settings_type is not a dataclass"
            assert made_with.frozen, "declare settings_type with @dataclass(frozen=True)"

    def test_every_setting_has_a_default_and_a_description(self, settings: Any) -> None:
        for field in () if settings is None else dataclasses.fields(settings):
            has_default = (field.default, field.default_factory) != (dataclasses.MISSING, dataclasses.MISSING)
            assert has_default, f"{field.name} has no default"
            assert str(field.metadata.get("description") or "").strip(), f"{field.name} has no description"

    def test_settings_survive_a_round_trip(self, settings: Any) -> None:
        if settings is not None:
            assert type(settings)(**json.loads(json.dumps(dataclasses.asdict(settings)))) == settings
