"""What a plugin sees of the gateway, in memory and deterministic."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from pml_hookspecs import (
    GATEWAY_SERVER,
    CannotAskError,
    CatalogEntry,
    ExecutionId,
    Identity,
    Match,
    Outcome,
    RunOptions,
    Scope,
    ServerStatus,
    Session,
    Status,
    ToolCall,
    ToolId,
    encode,
)
from pml_kit.offers import ACCESS, STATIC_CHECKS, Verdict

from .work import SPAWNED

if TYPE_CHECKING:
    from pml_hookspecs import Journal, Key, MetaTool, Offer, Run, Store, Task
    from pml_kit.offers import AccessEvent

T = TypeVar("T")
NUMBERS = itertools.count()
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def entry(
    tool: str,
    description: str = "",
    *,
    input_schema: Mapping[str, Any] | None = None,
    meta: bool = False,
    **members: Any,
) -> CatalogEntry:
    """A catalog entry for ``server:tool``; ``members`` are added to its definition (``outputSchema`` and such)."""
    server, _, name = tool.partition(":")
    definition = {
        "name": name,
        "description": description,
        "inputSchema": input_schema or {"type": "object"},
        **members,
    }
    raw = encode(definition)
    return CatalogEntry(ToolId(tool), server, definition, len(raw) // 4, hashlib.sha256(raw).hexdigest(), meta)


def some_entries(servers: int, tools: int) -> list[CatalogEntry]:
    """Two meta-tools, one unlisted tool of the gateway, and ``tools`` tools on each of ``servers`` servers."""
    own = [
        entry(f"{GATEWAY_SERVER}:{name}", f"{name} of the gateway", meta=True) for name in ("execute_it", "search_it")
    ]
    own.append(entry(f"{GATEWAY_SERVER}:unlisted", "can be called, is not listed"))
    verbs = ("read", "write", "list", "delete", "copy")
    theirs = [
        entry(f"s{s:02}:{verbs[t % len(verbs)]}_thing_{t:03}", f"{verbs[t % len(verbs)]} thing number {t}")
        for s in range(servers)
        for t in range(tools)
    ]
    return own + theirs


class FakeCatalog:
    """A catalog of fixed entries. Search counts the words that query and entry share."""

    def __init__(self, entries: Sequence[CatalogEntry] = (), servers: Sequence[ServerStatus] = ()) -> None:
        self._entries = {e.id: e for e in sorted(entries, key=lambda e: (e.server, e.name))}
        self._servers = list(servers)
        self.denied: set[str] = set()
        """Ids that a filter drops."""

    def allows(self, entry: CatalogEntry, session: Session) -> bool:
        return entry.id not in self.denied

    @property
    def revision(self) -> str:
        """A digest of the entries."""
        return hashlib.sha256("".join(e.id + e.digest for e in self).encode()).hexdigest()[:16]

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[CatalogEntry]:
        return iter(self._entries.values())

    def get(self, id: ToolId) -> CatalogEntry | None:
        return self._entries.get(id)

    def resolve(self, name: str, session: Session | None = None) -> CatalogEntry | None:
        own = ToolId(f"{GATEWAY_SERVER}:{name}")
        return self.get(ToolId(name)) or self.get(own) or self.get(ToolId(name.replace("__", ":", 1)))

    def exposed_name(self, id: ToolId) -> str:
        return id.removeprefix(f"{GATEWAY_SERVER}:").replace(":", "__")

    def visible(self, session: Session) -> Collection[ToolId]:
        return frozenset(e.id for e in self if self.allows(e, session))

    async def search(
        self,
        query: str,
        *,
        limit: int,
        min_score: float = 0.0,
        session: Session | None = None,
        keep: Callable[[CatalogEntry], bool] | None = None,
    ) -> Sequence[Match]:
        words = set(query.lower().split())
        hits = []
        for e in self:
            text = set(f"{e.name} {e.description}".lower().replace("_", " ").split())
            hidden = (session is not None and not self.allows(e, session)) or (keep is not None and not keep(e))
            if not e.own and not hidden and words and (shared := words & text):
                hits.append(Match(e.id, len(shared) / len(words)))
        hits = [h for h in hits if h.score >= min_score]
        return sorted(hits, key=lambda h: (-h.score, h.id))[:limit]

    def servers(self, session: Session | None = None) -> Sequence[ServerStatus]:
        return self._servers


class FakeLog:
    """Keeps what is logged as ``(level, event, fields)``."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, Any]]] = []

    def _at(self, level: str) -> Callable[..., None]:
        return lambda event, **fields: self.lines.append((level, event, fields))

    def __getattr__(self, level: str) -> Callable[..., None]:
        if level not in ("debug", "info", "warning", "error", "exception", "critical"):
            raise AttributeError(level)
        return self._at(level)

    def is_enabled_for(self, level: int) -> bool:
        """Everything is kept."""
        return True

    def bind(self, **_fields: Any) -> FakeLog:
        return self


class FakeServices:
    """Services with a fixed catalog, an optional store, and background tasks that the test ends with :meth:`stop`.

    It is itself what is found under ``ACCESS`` and ``STATIC_CHECKS``.
    """

    def __init__(
        self,
        plugin: str = "plugin_under_test",
        *,
        settings: Any = None,
        catalog: FakeCatalog | None = None,
        store: Store | None = None,
        answer: Callable[[Task, Session], Awaitable[Outcome]] | None = None,
        offers: Iterable[Offer[Any]] = (),
    ) -> None:
        """``answer`` says how a task ends that the plugin runs by :meth:`run`; ``offers`` are found."""
        self.plugin, self.settings, self.log = plugin, settings, FakeLog()
        self.catalog = FakeCatalog() if catalog is None else catalog
        self._store, self._answer = store, answer
        self.published: dict[str, list[MetaTool]] = {}
        self.ran: list[Task] = []
        self.started: list[tuple[ExecutionId, Task, Session, RunOptions]] = []
        """What was to run in the background."""
        self.stopped: list[ExecutionId] = []
        self.keys: dict[str | None, Identity] = {}
        """Who has which key."""
        self.access: list[AccessEvent] = []
        """What was told of access."""
        self.verdicts: dict[str, Verdict] = {}
        """What is known of tasks before they run, by id of the task; nothing of all others."""
        self.checked: list[Task] = []
        """What was asked about so."""
        self.asking: dict[str, str] = {}
        """Why a human would have to look at a task, by its id or by the tool it calls."""
        self.judging: set[ToolId] = set()
        """Tools whose arguments are judged here and not by their servers."""
        self.types: Sequence[str] = ()
        """Of tasks that plugins run."""
        self.told_of_lists = 0
        self.tasks: list[asyncio.Task[None]] = []
        self.offered: list[tuple[Key[Any], str, Any]] = []
        """What is found, by key: with the plugin that offers it."""
        self.offer(ACCESS, self, "core")
        self.offer(STATIC_CHECKS, self, "core")
        for one in offers:
            self.offer(one.key, one.service)

    def offer(self, key: Key[T], service: T, plugin: str = "another_plugin") -> None:
        """Have it found under ``key``."""
        self.offered.append((key, plugin, service))

    def find(self, key: Key[T]) -> T | None:
        """What was offered last; None for nothing."""
        found = [service for known, _, service in self.offered if known == key]
        return found[-1] if found else None

    def find_all(self, key: Key[T]) -> Sequence[tuple[str, T]]:
        return [(plugin, service) for known, plugin, service in self.offered if known == key]

    @property
    def store(self) -> Store:
        if self._store is None:
            raise RuntimeError("this test gave the plugin no store")
        return self._store

    async def run(self, task: Task, session: Session, options: RunOptions = RunOptions()) -> Outcome:
        self.ran.append(task)
        return outcome(task.id) if self._answer is None else await self._answer(task, session)

    async def start(self, task: Task, session: Session, options: RunOptions = RunOptions()) -> ExecutionId:
        """Keeps what was started, with how; runs nothing."""
        id = options.id or ExecutionId(f"01900000-0000-7000-8000-{next(NUMBERS):012x}")
        if all(known != id for known, *_ in self.started):
            self.started.append((id, task, session, options))
        return id

    async def check(self, task: Task, session: Session, *, within_s: float) -> Verdict:
        """Of :attr:`verdicts`."""
        self.checked.append(task)
        return self.verdicts.get(task.id, Verdict())

    def task_types(self) -> Sequence[str]:
        """Of :attr:`types`."""
        return self.types

    def judges(self, entry: CatalogEntry) -> bool:
        """Of :attr:`judging`."""
        return entry.id in self.judging

    async def would_ask(self, task: Task, above: Run) -> Sequence[str]:
        """Of :attr:`asking`."""
        names = [task.id, *([task.tool] if isinstance(task, ToolCall) else [])]
        return [self.asking[name] for name in names if name in self.asking]

    async def identify(self, token: str | None) -> Identity | None:
        """Of :attr:`keys`; None for a token that is not there."""
        return self.keys.get(token)

    async def report(self, event: AccessEvent) -> None:
        """Keeps it in :attr:`access`."""
        self.access.append(event)

    async def scope(self, session: Session, *, results: bool = False) -> Scope:
        """All with the scope ``system``, else those of the session's principal."""
        return Scope(principals=None if "system" in session.scopes else frozenset({session.principal}))

    def session(self, identity: Identity, *, endpoint: str = "default", client: str = "") -> Session:
        return Session(
            key=f"{endpoint}\n{identity.principal}\n{identity.access_key}",
            endpoint=endpoint,
            client=client,
            principal=identity.principal,
            scopes=identity.scopes,
            access_key=identity.access_key,
            agent=identity.agent,
            allow=identity.allow,
            deny=identity.deny,
        )

    def redact(self, value: Any) -> Any:
        """``value`` with the word ``hunter2`` taken out of its texts."""
        return json.loads(encode(value).replace(b"hunter2", b"***"))

    def publish(self, server: str, tools: Sequence[MetaTool]) -> None:
        self.published[server] = list(tools)

    def lists_changed(self) -> None:
        """Counted in :attr:`told_of_lists`."""
        self.told_of_lists += 1

    def spawn(self, func: Callable[..., Awaitable[None]], *args: Any, name: str) -> None:
        async def run() -> None:
            await func(*args)

        self.tasks.append(asyncio.get_running_loop().create_task(run(), name=SPAWNED + name))

    async def stop(self, id: ExecutionId | None = None) -> bool:
        """Cancel what was spawned and wait for it; with an id, keep that it was to be stopped."""
        if id is not None:
            self.stopped.append(id)
            return any(known == id for known, *_ in self.started)
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        return True


def outcome(task_id: str, output: Any = None, status: Status = Status.OK, **more: Any) -> Outcome:
    """An outcome at a fixed time."""
    return Outcome(task_id=task_id, status=status, started_at=EPOCH, duration_ms=0, output=output, **more)


class FakeRun:
    """A run whose children are answered by ``answer(task, run)``; keeps what was dispatched, in order."""

    def __init__(
        self,
        answer: Callable[[Task, Run], Awaitable[Outcome]] | None = None,
        *,
        session: Session | None = None,
        intent: str = "",
        dry_run: bool = False,
        parent: ExecutionId | None = None,
        deadline: datetime | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        self.id = ExecutionId(f"01900000-0000-7000-8000-{next(NUMBERS):012x}")
        self.parent, self.intent, self.dry_run, self.deadline = parent, intent, dry_run, deadline
        self.session = session or Session(key="test")
        self.meta: Mapping[str, Any] = meta or {}
        self.answer = answer
        self.reads_for_real = self.durable = False
        self.indirect = parent is not None
        self.wants_progress = True
        self.path = "test"
        self.replies: list[Mapping[str, Any]] = []
        """What the client answers, in order; it cannot answer when there is nothing left."""
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.dispatched: list[Task] = []
        self.progressed: list[tuple[float, float | None, str]] = []
        self.asked_s = 0.0
        """How long people have been asked; for a test to set."""
        self.noted: dict[str, Any] = {}
        """What was said by :meth:`note`."""

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        self.asked.append((method, params))
        if not self.replies:
            raise CannotAskError("this client cannot be asked")
        return self.replies.pop(0)

    @contextmanager
    def question(self) -> Iterator[None]:
        yield

    def note(self, **said: Any) -> None:
        self.noted.update({name: value for name, value in said.items() if value is not None})

    async def begin(self) -> None:
        self.begun = True

    async def dispatch(self, task: Task, *, journal: Journal | None = None) -> Outcome:
        self.dispatched.append(task)
        if self.answer is None:
            return outcome(task.id, {"content": [{"type": "text", "text": f"{task.id} ran"}]})
        return await self.answer(task, self)

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        self.progressed.append((done, total, message))
