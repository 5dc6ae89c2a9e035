"""Executions that nobody waits for: recorded before they begin, and never lost in silence.

What runs in the background is kept as a document next to its pending row. A gateway that finds the document of one that
is gone begins what had not begun, goes on with the execution if it is a durable workflow, and otherwise records that it
was lost.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pml_hookspecs import (
    ExecutionId,
    ExecutionQuery,
    ExecutionRecord,
    Failure,
    RunOptions,
    Scope,
    Session,
    Status,
    Task,
    ToolCall,
    ToolId,
    Workflow,
    replace,
)
from pml_kit.identifiers import execution_id
from pml_kit.plain import session_from, task_from, to_plain

from . import gateway_process
from .failures import BROKEN, CANCELLED, GIVEN_UP, LOST, NEVER_BEGUN, SECRET_GONE, STOPPED
from .gateway_process import Presence
from .secret_references import SecretGoneError

if TYPE_CHECKING:
    from pml_hookspecs import Document, Store

    from .configuration_comparison import Configuration
    from .ports import Dispatcher
    from .secret_references import SecretReferences

RUNS = "core.runs"
"""Collection of documents: what runs in the background."""
BEGUN, TRIES = "begun", "tries"
"""Marks of a run: it has begun, and must not begin anew unless it is durable; gateways that were killed before."""
MOST_TRIES = 10
"""More than one plan may take gateways down with it, since runs count that only waited there."""
REMEMBERED = 1000
"""Of those begun here, the last ones."""
KEPT = ("intent", "dry_run", "trigger", "agent", "schedule", "meta")
OPEN = ("pending", "running")
PAGE = 100
SKEW = timedelta(seconds=5)
"""How far a gateway's clock may be put back while it runs."""
EVERYONE = Scope(principals=None)


class Background:
    """Runs executions that nobody waits for."""

    def __init__(
        self,
        store: Store,
        dispatcher: Dispatcher,
        log: Any,
        *,
        is_durable: Callable[[], bool],
        has_turns: Callable[[ToolId], bool],
        references: SecretReferences,
    ) -> None:
        """Nothing begins yet.

        Args:
            store: Where pending rows are, and what says how to go on.
            dispatcher: Runs everything.
            log: Where to log.
            is_durable: Whether there is an executor of durable workflows.
            has_turns: Whether calls of a tool wait for their turn, and whoever has it says when that comes.
            references: Stand for secrets in what is kept.
        """
        self._store, self._dispatcher, self._log = store, dispatcher, log
        self._is_durable, self._has_turns, self._references = is_durable, has_turns, references
        self._presence = Presence(store, self._give_up_all)
        self._works: dict[ExecutionId, asyncio.Task[None]] = {}
        self._stopped: set[ExecutionId] = set()
        self._given_up: set[ExecutionId] = set()
        """What another gateway sees to, and records the end of."""
        self._at_work: set[ExecutionId] = set()
        """Of :attr:`_works`, those that have begun: the others wait for their turn."""
        self._begun: OrderedDict[ExecutionId, None] = OrderedDict()
        self._closing = False

    async def start(self, task: Task, session: Session, options: RunOptions) -> ExecutionId:
        """Begin with ``task`` once it is durably recorded as pending; one with an id that exists is not begun again.

        Raises:
            Exception: The store's; nothing runs then.
        """
        id = options.id or execution_id()
        if options.id and await self._store.executions.get(id, EVERYONE) is not None:
            return id
        if isinstance(task, Workflow):
            task = replace(task, wait=True, durable=task.durable or self._is_durable())
        kept = {name: getattr(options, name) for name in KEPT} | {"meta": dict(options.meta)}
        options = RunOptions(id=id, **kept)
        await self._presence.beat()
        value = await self._references.instead({"task": to_plain(task), "session": to_plain(session), "asked": kept})
        # First what says how to go on, so that no pending row is ever without it. Of several with one id, one gets it.
        only = 0 if options.id else None
        if (
            await self._store.documents.put(RUNS, id, value, marks={"gateway": self._presence.me.id}, if_version=only)
            is None
        ):
            return id
        try:
            await self._store.executions.put(self._dispatcher.pending(task, session, options))
        except BaseException:
            with suppress(Exception):
                await self._store.documents.delete(RUNS, id)
            raise
        if not self._closing:  # else it is begun by the next gateway
            self._begin(id, task, session, options)
        return id

    def _begin(self, id: ExecutionId, task: Task, session: Session, options: RunOptions) -> None:
        self._begun[id] = None
        if len(self._begun) > REMEMBERED:
            self._begun.popitem(last=False)
        work = asyncio.get_running_loop().create_task(self._run(id, task, session, options), name=f"background:{id}")
        self._works[id] = work
        work.add_done_callback(lambda _: self._forget_work(id))

    def _forget_work(self, id: ExecutionId) -> None:
        self._works.pop(id, None)
        for known in (self._at_work, self._stopped, self._given_up):
            known.discard(id)

    async def begins(self, id: ExecutionId) -> None:
        """Mark that what waited begins here, or cancel it: of this and being taken over only one can happen."""
        while (work := self._works.get(id)) is not None and id not in self._at_work:
            try:
                document = await self._store.documents.get(RUNS, id)
                if document is None or document.marks.get("gateway") != self._presence.me.id:
                    self._give_up(id, work)
                    await asyncio.get_running_loop().create_future()
                    return
                marks = {**document.marks, BEGUN: "yes"}
                version = document.version
                if await self._store.documents.put(RUNS, id, document.value, marks=marks, if_version=version) is None:
                    continue
            except Exception as exc:  # what runs matters more
                self._log.warning("not marked as begun", execution=id, problem=str(exc))
            self._at_work.add(id)

    def _give_up(self, id: ExecutionId, work: asyncio.Task[None]) -> None:
        self._log.warning("another gateway has taken this over", execution=id)
        self._stopped.add(id)
        self._given_up.add(id)
        work.cancel()

    def _give_up_all(self) -> None:
        """Others took this gateway for gone while it stood still, and see to what it had under way."""
        self._log.warning("this gateway stood still for so long that others took it for gone")
        for id, work in list(self._works.items()):
            self._give_up(id, work)

    async def may_record(self, id: ExecutionId, began_at: datetime) -> bool:
        """Whether the end of what began here then is for this gateway to record: nobody else can have."""
        return id not in self._given_up and await self._presence.holds(began_at) and id not in self._given_up

    async def _run(self, id: ExecutionId, task: Task, session: Session, options: RunOptions) -> None:
        try:
            if not (isinstance(task, ToolCall) and self._has_turns(task.tool)):
                await self._dispatcher.begin(id)
            await self._dispatcher.start_unattended(task, session, options)
        except asyncio.CancelledError:
            if self._closing:
                await self._leave(id, task)
                raise
            if id not in self._stopped:
                raise
        except Exception:
            self._log.exception("work in the background failed", execution=id)
            await self._end(id, Status.ERROR, BROKEN)
        with suppress(Exception):  # found by the next look, which sees that it has ended
            await self._forget(id)

    async def _leave(self, id: ExecutionId, task: Task) -> None:
        """The gateway ends: what has not begun and durable workflows wait for the next one, all else is over."""
        record = await self._store.executions.get(id, EVERYONE, transcript=True)
        if record is not None and record.status in (*OPEN, Status.CANCELLED):
            if id not in self._at_work or _is_durable(task):
                await self._store.executions.put(
                    replace(record, status="pending", failure=None, duration_ms=None, response=None)
                )
                return
            await self._store.executions.put(replace(record, status=Status.CANCELLED, failure=STOPPED))
        await self._forget(id)

    async def _forget(self, id: ExecutionId) -> None:
        """Unless another gateway has it, which took this one for gone."""
        document = await self._store.documents.get(RUNS, id)
        if document is not None and document.marks.get("gateway") == self._presence.me.id:
            await self._store.documents.delete(RUNS, id)

    async def _end(self, id: ExecutionId, status: Status, failure: Failure) -> None:
        """Record the end of what does not say it itself."""
        record = await self._store.executions.get(id, EVERYONE, transcript=True)
        if record is not None and record.status in OPEN:
            await self._store.executions.put(
                replace(record, status=status, failure=failure, duration_ms=_since_ms(record.started_at))
            )

    def has(self, id: ExecutionId) -> bool:
        """Whether it was begun here not long ago."""
        return id in self._begun

    async def stop(self, id: ExecutionId) -> bool:
        """Cancel an execution, wherever it runs; whether it was under way."""
        if (work := self._works.get(id)) is not None:
            self._stopped.add(id)
            work.cancel()
            await asyncio.wait((work,))
            self._stopped.discard(id)
            # What is cancelled before its first step says nothing of it by itself.
            await self._end(id, Status.CANCELLED, NEVER_BEGUN)
            await self._forget(id)
            return True
        document = await self._store.documents.get(RUNS, id)
        if document is None:
            return False
        marks = {**document.marks, "stop": "yes"}
        told = await self._store.documents.put(RUNS, id, document.value, marks=marks, if_version=document.version)
        return told is not None

    async def watch(self, configuration: Callable[[], Configuration]) -> None:
        """Do as other gateways ask, see to what those that are gone left, and compare what all have. Never ends."""
        from .configuration_comparison import ConfigurationComparison

        problem, comparison = "", ConfigurationComparison(self._store.documents, self._log)
        while True:
            try:
                if self._works:
                    await self._obey()
                await self._see_to_orphans()
                await self._see_to_rows()
                await comparison.look(configuration())
                problem = ""
            except Exception as exc:
                if problem != (problem := str(exc) or repr(exc)):
                    self._log.warning("work in the background cannot be looked after", problem=problem)
            await asyncio.sleep(gateway_process.BEAT_S)

    async def live(self) -> None:
        """Give signs of life, whatever else takes its time. Never ends."""
        while True:
            with suppress(Exception):  # the store says itself what is wrong with it
                await self._presence.beat()
            await asyncio.sleep(gateway_process.BEAT_S)

    async def drain(self, limit_s: float) -> None:
        """Begin nothing more, leave what waits for its turn to the next gateway, and let the rest end.

        Args:
            limit_s: How long to wait for that [s].
        """
        self._closing = True
        for id, work in self._works.items():
            if id not in self._at_work:
                work.cancel()
        if self._works:
            await asyncio.wait(list(self._works.values()), timeout=limit_s)

    async def close(self) -> None:
        """Cancel everything; what has not begun and durable workflows are left to the next gateway."""
        self._closing = True
        works = list(self._works.values())
        for work in works:
            work.cancel()
        if works:
            await asyncio.wait(works)
        await self._presence.leave()

    async def _obey(self) -> None:
        """Stop what is to be stopped, and what another gateway took over because this one was silent for too long."""
        asked = await self._store.documents.find(RUNS, marks={"gateway": self._presence.me.id, "stop": "yes"})
        for document in asked.items:
            if (work := self._works.get(ExecutionId(document.key))) is not None:
                self._stopped.add(ExecutionId(document.key))
                work.cancel()
        for id, work in list(self._works.items()):
            mine = await self._store.documents.get(RUNS, id)
            if mine is not None and mine.marks.get("gateway") != self._presence.me.id:
                self._give_up(id, work)

    async def _see_to_orphans(self) -> None:
        cursor = None
        while True:
            page = await self._store.documents.find(RUNS, limit=PAGE, cursor=cursor)
            living = await self._presence.living() if page.items else {}
            for document in page.items:
                if document.marks.get("gateway", "") not in living:
                    try:
                        await self._take_over(document)
                    except Exception as exc:
                        self._log.warning("what was left cannot be taken up", execution=document.key, problem=str(exc))
            if (cursor := page.cursor) is None:
                return

    async def _see_to_rows(self) -> None:
        """Rows of gateways that are gone would say for ever that something runs.

        What began before the oldest gateway that lives can be nobody's; but for what is kept elsewhere to go on.
        """
        query = ExecutionQuery(scope=EVERYONE, statuses=frozenset(OPEN), limit=PAGE)
        while True:
            page = await self._store.executions.find(query)
            # Whoever has a row said before that it lives: asked in this order, nobody is missing.
            oldest = min((await self._presence.living()).values()) if page.items else self._presence.began_at
            for record in page.items:
                if record.started_at < oldest - SKEW and (record.parent is not None or not await self._goes_on(record)):
                    await self._end(record.id, Status.ERROR, LOST)
            if page.cursor is None:
                return
            query = replace(query, cursor=page.cursor)

    async def _goes_on(self, record: ExecutionRecord) -> bool:
        """Whether somebody will see to it; parts of something never do under their old ids."""
        return record.request.get("durable") is True or await self._store.documents.get(RUNS, record.id) is not None

    async def _take_over(self, document: Document) -> None:
        """Of several gateways that see it, one gets it."""
        id, stopped = ExecutionId(document.key), "stop" in document.marks
        record = await self._store.executions.get(id, EVERYONE, transcript=True)
        if record is not None and record.status not in OPEN:
            await self._store.documents.delete(RUNS, id)
            return
        gone = False
        try:
            value = document.value
            try:
                value = await self._references.back(value)
            except SecretGoneError:
                gone = True
            task = task_from(value["task"])
            # What 0.1 kept without saying what triggered it, a client's request did.
            kept = {"trigger": "mcp", **{name: value["asked"][name] for name in KEPT if name in value["asked"]}}
            session, options = session_from(value["session"]), RunOptions(id=id, **kept)
        except (ValueError, KeyError):  # a newer gateway's, which will read it
            self._log.warning("what was left is not readable by this version", execution=id)
            return
        await self._presence.beat()
        tries = int(document.marks.get(TRIES, 0)) + await self._presence.was_killed(document.marks.get("gateway", ""))
        marks = {**document.marks, "gateway": self._presence.me.id, TRIES: str(tries)}
        if await self._store.documents.put(RUNS, id, document.value, marks=marks, if_version=document.version) is None:
            return
        waits = record is not None and record.status == "pending" and BEGUN not in document.marks
        poisonous = waits and tries >= MOST_TRIES
        if (waits or _is_durable(task)) and not (stopped or gone or poisonous):
            self._log.warning("going on with work that another gateway left", execution=id)
            self._begin(id, task, session, options)
            return
        try:
            self._log.warning("work was lost with its gateway", execution=id)
            if record is None:
                await self._store.executions.put(self._dispatcher.pending(task, session, options))
            failure = SECRET_GONE if gone else GIVEN_UP if poisonous else LOST
            await self._end(id, *((Status.CANCELLED, CANCELLED) if stopped else (Status.ERROR, failure)))
            await self._store.documents.delete(RUNS, id)
        except Exception:
            # Nobody's again, for the next look.
            with suppress(Exception):
                await self._store.documents.put(RUNS, id, document.value, marks={**document.marks, "gateway": ""})
            raise


def _is_durable(task: Task) -> bool:
    return isinstance(task, Workflow) and task.durable


def _since_ms(time: datetime) -> int:
    return max(round((datetime.now(UTC) - time).total_seconds() * 1000), 0)
