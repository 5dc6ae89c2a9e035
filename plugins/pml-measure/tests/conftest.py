"""A history that a test writes, a catalog, and modes as they are installed."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pml_hookspecs import ExecutionQuery, ExecutionRecord, Offer, Page, Selection, Session, setting
from pml_kit.offers import VIEWS, View
from pml_measure import modes, presets
from pml_measure.presets import Preset
from pml_testing.fakes import FakeCatalog, FakeServices, entry, outcome

NOW = datetime.now(UTC).replace(microsecond=0)
PRESETS = [Preset("small", "meta"), Preset("balanced", "chosen", {"chosen": {"most": 2}})]


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
        self.settings = settings

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

    def __init__(self, settings: Settings, services: Any) -> None:
        self.settings, self.services = settings, services

    async def select(self, catalog: Any, session: Any) -> Selection:
        hits = await catalog.search(session.intent, limit=self.settings.most, min_score=self.settings.least)
        return Selection((*(e.id for e in catalog if e.meta), *(hit.id for hit in hits)))


class Point:
    """An entry point, of which the name is looked at."""

    def __init__(self, name: str) -> None:
        self.name = name


class Lists:
    """The lists that clients get, by modes that a test installs. What is found under VIEWS."""

    def __init__(self, installed: dict[str, Any]) -> None:
        self.installed = installed
        self.services: Any = None
        self.shown = [View("default", "chosen")]
        self.configured: dict[str, Any] = {"least": 0.5}

    def endpoints(self) -> list[View]:
        return self.shown

    async def listed(self, mode: str, *, intent: str = "", settings: Mapping[str, Any] | None = None) -> list[Any]:
        if mode == "meta_only":  # is always there
            return [one for one in self.services.catalog if one.meta]
        if mode not in self.installed:
            raise LookupError(f"no mode {mode!r}")
        cls, catalog, session = (
            self.installed[mode],
            self.services.catalog,
            Session(key=f"list {intent}", intent=intent),
        )
        settings_type = getattr(cls, "settings_type", None)
        try:
            made = None if settings_type is None else settings_type(**{**self.configured, **(settings or {})})
        except TypeError as exc:
            raise ValueError(str(exc)) from exc
        picked = (await cls(made, self.services).select(catalog, session)).tools
        return [e for e in map(catalog.get, picked) if catalog.allows(e, session)]


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
def views(monkeypatch: pytest.MonkeyPatch) -> Lists:
    made = Lists({"everything": Everything, "meta": Meta, "chosen": Chosen})
    monkeypatch.setattr(modes, "entry_points", lambda group: [Point(name) for name in made.installed])
    return made


@pytest.fixture
def services(history: History, views: Lists, monkeypatch: pytest.MonkeyPatch) -> Any:
    async def answer(task: Any, session: Session) -> Any:
        found = await catalog.search(task.arguments["query"], limit=8, session=session)
        text = json.dumps([hit.id for hit in found])
        return outcome(task.id, {"content": [{"type": "text", "text": text}], "structuredContent": {"x": text * 9}})

    monkeypatch.setattr(presets, "known", lambda: PRESETS)
    catalog, store = FakeCatalog(tools()), history
    given: Any = {"store": store, "offers": [Offer(VIEWS, views)]}
    made: Any = FakeServices("measure", catalog=catalog, answer=answer, **given)
    views.services = made
    return made


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
        "only": None,
        "details": False,
        "compare_embedder": False,
        "wait": 5.0,
        "days": 30,
        "watch": False,
        "interval": 0.2,
        "config": None,
        "mode": None,
        "overrides": [],
    }
    return lambda **given: Namespace(**{**defaults, **given})


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[[], Any]:
    """The JSON document on standard output."""
    return lambda: json.loads(capsys.readouterr().out)
