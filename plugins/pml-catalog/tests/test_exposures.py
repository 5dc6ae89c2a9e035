"""Which mode each endpoint has: loaded once, taken over by the configuration after, and left when nobody uses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pml_catalog.exposure import META_ONLY
from pml_catalog.exposure.exposures import Exposures, ExposureSettings
from pml_catalog.live import LiveCatalog
from pml_hookspecs import Catalog, CatalogEntry, Peer, Selection, Session
from pml_kit.offers import View
from pml_testing.fakes import FakeLog

pytestmark = pytest.mark.anyio


class Mode:
    async def select(self, catalog: Catalog, session: Session) -> Selection:
        return Selection(())


class ModeKeeper:
    """The modes, and who has been entered and left: all that the library asks of its keeper."""

    shared = True

    def __init__(self, *names: str) -> None:
        self._names = names
        self.entered: list[str] = []
        self.gone: list[Any] = []

    def installed(self, kind: str) -> Sequence[str]:
        return self._names if kind == "exposure_mode" else ()

    def driver(self, kind: str, name: str) -> Any:
        if name == "broken":
            raise ValueError("it cannot be made")
        return Mode()

    async def enter(self, plugin: str, thing: Any, *, required: bool) -> bool:
        self.entered.append(plugin)
        return True

    async def leave(self, thing: Any, tasks: Any) -> None:
        self.gone.append(thing)

    def running(self, plugin: str) -> frozenset[Any]:
        return frozenset()

    def refusing(self, entry: CatalogEntry, session: Session) -> str | None:
        return None

    def locks(self, session: Session) -> Sequence[str]:
        return ()

    def listed(self, definition: Mapping[str, Any], session: Session) -> Mapping[str, Any]:
        return definition


def made(parts: ModeKeeper, log: FakeLog, before: Exposures | None = None, **modes: str) -> Exposures:
    settings = ExposureSettings({name: View(name, mode) for name, mode in modes.items()}, {})
    return Exposures(settings, parts, LiveCatalog(log), parts, parts, parts, log, before)


async def test_each_mode_is_entered_once_and_one_that_is_not_installed_shows_the_meta_tools() -> None:
    parts, log = ModeKeeper("all"), FakeLog()
    exposures = made(parts, log, default="all", ops="all", new="none_such")
    await exposures.open()
    assert [(view.endpoint, view.mode) for view in exposures.endpoints()] == [
        ("default", "all"),
        ("ops", "all"),
        ("new", META_ONLY),
    ]
    assert parts.entered == ["all"]
    assert [line[1] for line in log.lines] == ["Unknown tools_exposure mode: none_such, defaulting to meta_only"]
    with pytest.raises(LookupError, match="There is no endpoint 'x'; configured: ops, new"):
        exposures.view(Peer(address="t", endpoint="x"))


async def test_the_next_configuration_takes_over_what_is_the_same_and_leaves_the_rest() -> None:
    parts, log = ModeKeeper("all", "some"), FakeLog()
    first = made(parts, log, default="all", ops="some")
    await first.open()
    second = made(parts, log, first, default="all")
    await second.open()
    assert parts.entered == ["all", "some"]
    await second.leave_replaced()
    assert len(parts.gone) == 1


async def test_a_mode_that_cannot_be_used_stops_the_start_and_not_a_session_of_a_key() -> None:
    parts, log = ModeKeeper("all", "broken"), FakeLog()
    with pytest.raises(ValueError, match="cannot be made"):
        await made(parts, log, default="broken").open()
    exposures = made(parts, log, default="all")
    await exposures.open()
    shown = await exposures.of(Session(key="k", mode="broken"))
    assert (await shown.tools(Session(key="k", mode="broken"))).value == {"tools": []}
    assert log.lines[-1][2]["problem"] == "it cannot be made"
