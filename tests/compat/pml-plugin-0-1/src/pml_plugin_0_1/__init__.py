"""Hook plugin ``plugin_0_1``: every hook of the contract 0.1.0."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pml_hookspecs import (
    Check,
    Failure,
    InvalidArguments,
    Match,
    MetaTool,
    Outcome,
    Phase,
    Status,
    Suggestion,
    ToolCall,
    Workflow,
    hookimpl,
)

from .settings import Settings

if TYPE_CHECKING:
    import argparse

    from pml_hookspecs import (
        AccessEvent,
        AccessWatcher,
        CallNext,
        CatalogEntry,
        Embedder,
        Identities,
        Identity,
        Run,
        Scope,
        SearchIndex,
        Services,
        Session,
        Suggester,
        Task,
        ToolFilter,
        ToolId,
        Wrapper,
    )

settings_type = Settings
FIRED: set[str] = set()
"""What of this plugin has run."""
ECHO = {
    "name": "plugin_0_1_echo",
    "description": "Says it again.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
}
RELAY = {
    "name": "plugin_0_1_relay",
    "description": "Calls the tool with this name.",
    "inputSchema": {"type": "object", "properties": {"tool": {"type": "string"}}},
}


class Refusal:
    """Refuses by the value of an argument."""

    phase = Phase.AUTHORIZE

    def __init__(self, settings: Settings) -> None:
        """Reads ``refused``."""
        self._refused = settings.refused

    async def __call__(self, task: Task, run: Run, call_next: CallNext) -> Outcome:
        if isinstance(task, ToolCall) and self._refused in task.arguments.values():
            FIRED.add("refusal")
            why = Failure("plugin_0_1.refused", f"{run.session.principal} may not", details={"tool": task.tool})
            now = datetime.now(UTC)
            return Outcome(task_id=task.id, status=Status.DENIED, started_at=now, duration_ms=0, failure=why)
        FIRED.add("passage")
        return await call_next(task, run)


class Index:
    """Finds the words of a query in names."""

    def __init__(self) -> None:
        """Empty."""
        self._entries: Sequence[CatalogEntry] = ()

    async def build(self, entries: Sequence[CatalogEntry], revision: str) -> None:
        FIRED.add("build")
        self._entries = entries

    async def search(
        self,
        query: str,
        *,
        limit: int,
        min_score: float,
        among: Collection[ToolId] | None = None,
        session: Session | None = None,
    ) -> Sequence[Match]:
        FIRED.add("search")
        words = query.lower().split()
        found = [one for one in self._entries if any(word in one.name for word in words)]
        return [Match(one.id, 1.0) for one in found if among is None or one.id in among][:limit]


class Model:
    """Three numbers for any text."""

    name = "plugin_0_1"

    async def embed(self, texts: Sequence[str], *, query: bool) -> list[list[float]]:
        FIRED.add("embed")
        return [[1.0, 0.0, 0.0] for _ in texts]


class Plans:
    """One plan for everything."""

    async def suggest(self, intent: str, run: Run, *, limit: int) -> Sequence[Suggestion]:
        FIRED.add("suggest")
        task = Workflow(id="plan", tasks=(), intent=intent)
        return [Suggestion(workflow=task, confidence=0.5, why="it is the only one")][:limit]


class Nobodys:
    """Knows no key."""

    async def identify(self, token: str | None) -> Identity | None:
        FIRED.add("identify")
        return None

    async def scope(self, session: Session, *, results: bool) -> Scope | None:
        FIRED.add("scope")
        return None


@hookimpl
def pml_identities(services: Services) -> Iterable[Identities]:
    """One that leaves all to others."""
    return [Nobodys()]


@hookimpl
def pml_access_watchers(services: Services) -> Iterable[AccessWatcher]:
    """One that hears who was not let in."""

    async def hear(event: AccessEvent) -> None:
        FIRED.add(f"access {event.kind}")

    return [hear]


@hookimpl
def pml_lifespan(services: Services) -> Iterable[AbstractAsyncContextManager[None]]:
    """With something that runs meanwhile."""
    return [_life(services)]


@asynccontextmanager
async def _life(services: Services) -> AsyncIterator[None]:
    async def watch(word: str) -> None:
        FIRED.add(word)

    services.spawn(watch, "background", name="watch")
    services.log.info("entered", tools=len(services.catalog))
    await services.store.documents.put("plugin_0_1.lives", "last", {"plugin": services.plugin})
    FIRED.add("entered")
    try:
        yield
    finally:
        FIRED.add("left")


@hookimpl
def pml_meta_tools(services: Services) -> Iterable[MetaTool]:
    """One that answers and one that stands for a task."""

    async def echo(arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
        if "text" not in arguments:
            raise InvalidArguments("text: say what to say")
        found = await services.catalog.search(str(arguments["text"]), limit=3, session=run.session)
        plans = await services.suggest("anything", run)
        scope = await services.scope(run.session)
        model = services.embedder
        return {
            "text": services.redact(arguments["text"]),
            "found": [services.catalog.exposed_name(match.id) for match in found],
            "plans": [plan.why for plan in plans],
            "everything": scope.principals is None,
            "vectors": [] if model is None else await model.embed(["text"], query=True),
            "modes": [view.mode for view in services.views.endpoints()],
        }

    def relay(arguments: Mapping[str, Any]) -> Task:
        return ToolCall(id="relay", tool=arguments["tool"], arguments={"path": "relayed"})

    return [MetaTool(definition=ECHO, call=echo), MetaTool(definition=RELAY, task=relay, listed=False)]


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """``pml plugin-0-1``."""
    parser = subcommands.add_parser("plugin-0-1", help="of the contract 0.1.0")
    parser.set_defaults(run_with=_show)


async def _show(arguments: argparse.Namespace, services: Services) -> int:
    page = await services.store.documents.find("plugin_0_1.lives")
    sys.stdout.write(f"{services.plugin}: {len(page.items)} lives, first {services.settings.first}\n")
    return 0


@hookimpl
def pml_checks(services: Services) -> Iterable[Check]:
    """One that is well."""
    return [Check("age", ok=True, detail="of the contract 0.1.0")]


@hookimpl
def pml_search_index(services: Services) -> Iterable[SearchIndex]:
    """One."""
    return [Index()]


@hookimpl
def pml_embedders(services: Services) -> Iterable[Embedder]:
    """One."""
    return [Model()]


@hookimpl
def pml_filter_tools(services: Services) -> Iterable[ToolFilter]:
    """Keeps what the settings do not hide."""
    hidden = frozenset(services.settings.hidden)

    def keep(entry: CatalogEntry, session: Session) -> bool:
        FIRED.add("filter")
        return entry.id not in hidden

    return [keep]


@hookimpl
def pml_wrap_executor(services: Services) -> Iterable[Wrapper]:
    """One."""
    return [Refusal(services.settings)]


@hookimpl
def pml_suggesters(services: Services) -> Iterable[Suggester]:
    """One."""
    return [Plans()]


@hookimpl
def pml_routes(services: Services) -> Iterable[Any]:
    """None, but it was asked."""
    FIRED.add("routes")
    return []


@hookimpl
def pml_api_routes(services: Services) -> Iterable[Any]:
    """As above."""
    FIRED.add("api routes")
    return []
