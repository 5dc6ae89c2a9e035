"""A history that a test writes, a catalog, and modes as they are installed."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pml_hookspecs import ExecutionQuery, ExecutionRecord, Page, Selection, setting
from pml_measure import configured, modes
from pml_testing.fakes import FakeCatalog, FakeServices, entry

NOW = datetime.now(UTC).replace(microsecond=0)
BALANCED = {
    ("gateway", "tools_exposure"): "chosen",
    ("plugins", "chosen", "most"): 2,
}


class History:
    """The part of a store that is asked: executions, newest first."""

    def __init__(self) -> None:
        self.records: list[ExecutionRecord] = []

    @property
    def executions(self) -> History:
        return self

    def ran(self, target: str, minutes_ago: float = 0, **fields: Any) -> ExecutionRecord:
        """Add a record."""
        given = {"kind": "tool", "principal": "local", "agent": "me", "status": "ok", **fields}
        record = ExecutionRecord(
            id=f"e{len(self.records):05}",  # type: ignore[arg-type]
            target=target,
            started_at=NOW - timedelta(minutes=minutes_ago),
            **given,
        )
        self.records.append(record)
        return record

    def searched(self, query: str, minutes_ago: float, **fields: Any) -> None:
        """Add a search."""
        self.ran("pml:search_tools", minutes_ago, request={"query": query}, **fields)

    async def find(self, query: ExecutionQuery) -> Page[ExecutionRecord]:
        found = [r for r in self.records if query.since is None or r.started_at >= query.since]
        found = sorted((r for r in found if not r.dry_run), key=lambda r: (r.started_at, r.id), reverse=True)
        start = int(query.cursor or 0)
        end = start + query.limit
        return Page(found[start:end], str(end) if end < len(found) else None, len(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Of :class:`Chosen`."""

    most: int = setting(50, "Most tools.")
    least: float = setting(0.0, "Least relevance.")


class Everything:
    """All tools of servers."""

    def __init__(self, settings: Any, services: Any) -> None:
        services.log.warning("this is not said")
        services.spawn(print, "this is not done", name="x")

    async def select(self, catalog: Any, session: Any) -> Selection:
        return Selection(tuple(e.id for e in catalog if not e.own))


class Meta:
    """The meta-tools."""

    settings_type = None

    def __init__(self, settings: Any, services: Any) -> None:
        self.settings = settings

    async def select(self, catalog: Any, session: Any) -> Selection:
        return Selection(tuple(e.id for e in catalog if e.meta))


class Chosen:
    """The meta-tools, and what fits the intent."""

    settings_type = Settings
    settings_fallback = "other"

    def __init__(self, settings: Settings, services: Any) -> None:
        self.settings, self.services = settings, services

    async def select(self, catalog: Any, session: Any) -> Selection:
        assert self.services.catalog is catalog
        assert self.services.store is not None
        hits = await catalog.search(session.intent, limit=self.settings.most, min_score=self.settings.least)
        return Selection((*(e.id for e in catalog if e.meta), *(hit.id for hit in hits)))


class Point:
    """An entry point of a class at hand."""

    def __init__(self, name: str, cls: Any) -> None:
        self.name, self._cls = name, cls

    def load(self) -> Any:
        return self._cls


def tools() -> list[Any]:
    """Two meta-tools, and tools of two servers."""
    own = [entry(f"pml:{name}", "of the gateway", meta=True) for name in ("search_tools", "call_tool")]
    theirs = [
        entry("mail:send_message", "Deliver some text to a person."),
        entry("mail:list_messages", "Show what has arrived lately. " + "It is a long story. " * 40),
        entry("files:read_file", "Give the text of one document."),
        entry("files:delete_file", ""),
    ]
    return own + theirs


@pytest.fixture
def history() -> History:
    return History()


@pytest.fixture
def services(history: History, monkeypatch: pytest.MonkeyPatch, install: Callable[[Mapping[str, Any]], None]) -> Any:
    install({"everything": Everything, "meta": Meta, "chosen": Chosen})

    async def known(_arguments: Any) -> configured.Configured:
        presets = {"small": {("gateway", "tools_exposure"): "meta"}, "balanced": BALANCED}
        return configured.Configured("chosen", "", {"other": {"least": 0.5}}, presets)

    monkeypatch.setattr(configured, "read", known)
    store: Any = history
    return FakeServices("measure", catalog=FakeCatalog(tools()), store=store)


@pytest.fixture
def arguments() -> Callable[..., Namespace]:
    """Makes the options of every command, with their defaults."""
    defaults = {
        "json": True,
        "tokenizer": "estimate",
        "top": 10,
        "context": 100_000,
        "queries": None,
        "source": None,
        "limit": 200,
        "floor": [],
        "days": 30,
        "config": None,
        "mode": None,
        "overrides": [],
    }
    return lambda **given: Namespace(**{**defaults, **given})


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[[], Any]:
    """The JSON document on standard output."""
    return lambda: json.loads(capsys.readouterr().out)


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[str, Any]], None]:
    """Have these exposure modes installed, and no others."""

    def installed(found: Mapping[str, Any]) -> None:
        points = [Point(name, cls) for name, cls in found.items()]
        monkeypatch.setattr(modes, "entry_points", lambda group: points)

    return installed
