"""A store that keeps the contract, and many that each break one thing in it."""

from __future__ import annotations

import asyncio
import pickle
import time
from dataclasses import dataclass
from pathlib import Path

from good_documents import GoodDocuments
from good_history import GoodHistory

from pml_hookspecs import Page, RawObject, Total, encode, replace, setting


@dataclass(frozen=True)
class Settings:
    path: str = setting("journal", "File that everything is appended to.")


class GoodSecrets:
    """The part of a store that keeps secrets."""

    def __init__(self, store):
        self.store = store

    def key(self, owner, name):
        return owner, name

    async def get(self, owner, name):
        return self.store.rows["secret"].get(self.key(owner, name))

    async def put(self, owner, name, value):
        self.store.write("secret", self.key(owner, name), value)


class Good(GoodHistory):
    """Keeps everything in memory, and in a file that is only ever appended to."""

    settings_type = Settings
    secrets_type = GoodSecrets
    documents_type = GoodDocuments
    buffering = 0

    def __init__(self, settings=None, services=None):
        self.path = Path((settings or Settings()).path)
        self.executions = self.traces = self.catalog = self
        self.secrets = self.secrets_type(self)
        self.documents = self.documents_type(self)
        self.queue = []
        self.rows = {"execution": {}, "span": {}, "tools": {}, "status": {}, "secret": {}, "document": {}}

    async def __aenter__(self):
        if self.path.exists():
            with self.path.open("rb") as file:
                while True:
                    try:
                        kind, key, value = pickle.load(file)
                    except (EOFError, pickle.UnpicklingError):
                        break
                    if value is None:
                        self.rows[kind].pop(key, None)
                    else:
                        self.rows[kind][key] = value
        self.file = self.path.open("ab", buffering=self.buffering)
        return self

    async def __aexit__(self, *exc):
        self.catch_up()
        self.file.close()

    def write(self, kind, key, value):
        self.rows[kind][key] = value
        self.file.write(pickle.dumps((kind, key, value)))

    def delete(self, kind, key):
        self.rows[kind].pop(key, None)
        self.file.write(pickle.dumps((kind, key, None)))

    def catch_up(self):
        queue, self.queue = self.queue, []
        for record in queue:
            self.write("execution", record.id, record)

    def record(self, record):
        self.queue.append(record)

    async def put(self, record):
        self.record(record)
        self.catch_up()

    def listed(self, record):
        return replace(record, transcript=None)

    async def get(self, id, scope, *, transcript=False):
        self.catch_up()
        record = self.rows["execution"].get(id)
        if record is None or not self.sees(scope, record):
            return None
        return record if transcript else self.listed(record)

    def matches(self, record, query):
        return (
            self.sees(query.scope, record)
            and (query.since is None or record.started_at >= query.since)
            and (query.until is None or record.started_at < query.until)
            and query.agent in (None, record.agent)
            and query.principal in (None, record.principal)
            and (record.as_agent or not query.agents_only)
            and (query.statuses is None or record.status in query.statuses)
            and query.trigger in (None, record.trigger)
            and query.parent in (None, record.parent)
            and not (query.top_level and record.nested)
            and (query.include_dry_runs or not record.dry_run)
            and self.is_of(record, query.target)
            and self.says(record, query)
        )

    def matching(self, query):
        self.catch_up()
        return [record for record in self.rows["execution"].values() if self.matches(record, query)]

    def place(self, record):
        return record.started_at.timestamp(), record.id

    def after(self, cursor):
        mark, started_at, id = cursor.split("/")
        if mark != "journal":
            raise ValueError(mark)
        return float(started_at), id

    def check_limit(self, limit):
        if not 1 <= limit <= 100:
            raise ValueError("limit must be 1 to 100")
        return limit

    async def find(self, query):
        limit = self.check_limit(query.limit)
        found = sorted(self.matching(query), key=self.place, reverse=True)
        total = len(found)
        if query.cursor is not None:
            try:
                after = self.after(query.cursor)
            except ValueError as exc:
                raise ValueError("not a cursor of this store") from exc
            found = [record for record in found if self.place(record) < after]
        items = [self.listed(record) for record in found[:limit]]
        cursor = "journal/{!r}/{}".format(*self.place(items[-1])) if len(found) > limit else None
        return Page(items, cursor, total)

    def activity_of(self, agent, records):
        running = [r for r in records if r.status in ("pending", "running")]
        good = [r for r in records if r.status in ("ok", "simulated")]
        times = [r.duration_ms for r in records if r.duration_ms is not None]
        return Total(
            group=agent,
            executions=len(records),
            succeeded=len(good),
            failed=len(records) - len(good) - len(running),
            running=len(running),
            cost_usd=round(sum(r.cost_usd or 0 for r in records), 6),
            tokens_in=sum(r.tokens_in or 0 for r in records),
            tokens_out=sum(r.tokens_out or 0 for r in records),
            mean_duration_ms=round(sum(times) / len(times)) if times else None,
            last_started_at=max(r.started_at for r in records),
        )

    async def activity(self, query):
        records = self.matching(query)
        rows = [self.activity_of(a, [r for r in records if r.agent == a]) for a in {r.agent for r in records}]
        return sorted(rows, key=lambda row: (-row.executions, row.group))

    async def append(self, spans):
        for ended in spans:
            key = (ended.span.trace_id, ended.span.span_id)
            if key not in self.rows["span"]:
                self.write("span", key, ended)

    async def of(self, execution, scope):
        if await self.get(execution, scope) is None:
            return []
        found = [ended for ended in self.rows["span"].values() if ended.span.execution == execution]
        return sorted(found, key=lambda ended: ended.span.start_ns)

    async def replace(self, server, fingerprint, entries):
        self.write("tools", server, (fingerprint, sorted(entries, key=lambda entry: entry.name)))

    async def entries(self, server, fingerprint):
        known, entries = self.rows["tools"].get(server, (None, []))
        return entries if known == fingerprint else []

    async def report(self, status):
        self.write("status", status.name, status)

    async def statuses(self):
        return [self.rows["status"][name] for name in sorted(self.rows["status"])]

    async def health(self):
        return {"path": str(self.path)}


class Alters(Good):
    """Stores what ``alter`` makes of a record."""

    def write(self, kind, key, value):
        super().write(kind, key, self.alter(value) if kind == "execution" else value)


class LosesFailures(Alters):
    def alter(self, record):
        return replace(record, failure=None)


class LosesTheEndpoint(Alters):
    def alter(self, record):
        return replace(record, endpoint="")


class TakesFalseForNothing(Alters):
    def alter(self, record):
        return replace(record, response=record.response or None)


class SortsMembers(Alters):
    def alter(self, record):
        if not isinstance(record.response, RawObject):
            return record
        return replace(record, response=dict(sorted(record.response.items())))


class CutsLongResponses(Alters):
    def alter(self, record):
        if isinstance(record.response, RawObject) and len(record.response.raw) > 4500:
            return replace(record, response={"truncated": True})
        return record


class StoresLatinOne(Alters):
    def alter(self, record):
        return replace(record, intent=record.intent.encode("latin-1", "replace").decode("latin-1"))


class LosesWhatIsNotUtf8(Good):
    def write(self, kind, key, value):
        if kind == "execution":
            try:
                value.intent.encode()
            except UnicodeEncodeError:
                return
        super().write(kind, key, value)


class ReadsWhatIsWritten(Good):
    async def get(self, id, scope, *, transcript=False):
        queue, self.queue = self.queue, []
        try:
            return await super().get(id, scope, transcript=transcript)
        finally:
            self.queue = queue + self.queue


class KeepsTheFirst(Good):
    def write(self, kind, key, value):
        if kind != "execution" or key not in self.rows[kind]:
            super().write(kind, key, value)


class Blocks(Good):
    def record(self, record):
        time.sleep(0.00015)
        super().record(record)


class LosesAWholeBatch(Good):
    def catch_up(self):
        try:
            [encode(record.request) for record in self.queue]
        except TypeError:
            self.queue = []
        super().catch_up()


class LosesUpdates(Good):
    async def put(self, record):
        self.catch_up()
        rows = {**self.rows["execution"], record.id: record}
        self.file.write(pickle.dumps(("execution", record.id, record)))
        await asyncio.sleep(0)
        self.rows["execution"] = rows


class GetsForEveryone(Good):
    async def get(self, id, scope, *, transcript=False):
        return await super().get(id, replace(scope, principals=None), transcript=transcript)

    async def of(self, execution, scope):
        record = await self.get(execution, scope)
        return await super().of(execution, scope) if record and self.sees(scope, record) else []


class CountsForEveryone(Good):
    async def find(self, query):
        page = await super().find(query)
        everyone = replace(query, scope=replace(query.scope, principals=None))
        return replace(page, total=len(self.matching(everyone)))


class SumsForEveryone(Good):
    async def activity(self, query):
        return await super().activity(replace(query, scope=replace(query.scope, principals=None)))


class FindsLaterOnly(Good):
    async def find(self, query):
        self.later = query.since
        return await super().find(query)

    def matches(self, record, query):
        return super().matches(record, query) and not (query.since and record.started_at == query.since)


class TakesAnyLimit(Good):
    def check_limit(self, limit):
        return max(1, min(limit, 100))


class GivesFiftyAtMost(Good):
    def check_limit(self, limit):
        return min(super().check_limit(limit), 50)


class TakesAnyCursor(Good):
    def after(self, cursor):
        try:
            return super().after(cursor)
        except ValueError:
            return (float("inf"), "")


class CountsRows(Good):
    async def find(self, query):
        if query.cursor is not None and not query.cursor.startswith("cursor "):
            raise ValueError("cursor")
        start = 0 if query.cursor is None else int(query.cursor.removeprefix("cursor "))
        found = sorted(self.matching(query), key=self.place, reverse=True)
        end = start + self.check_limit(query.limit)
        return Page(found[start:end], f"cursor {end}" if end < len(found) else None, len(found))


class CountsAHundredAtMost(Good):
    async def find(self, query):
        page = await super().find(query)
        return replace(page, total=min(page.total, 100)) if query.text else page


class CountsWhatIsLeft(Good):
    async def find(self, query):
        page = await super().find(query)
        if query.cursor is None:
            return page
        after = self.after(query.cursor)
        return replace(page, total=sum(self.place(r) < after for r in self.matching(query)))


class PagesByTimeOnly(Good):
    def after(self, cursor):
        return super().after(cursor)[0], ""


class TakesRunningForFailed(Good):
    def activity_of(self, agent, records):
        row = super().activity_of(agent, records)
        return replace(row, failed=row.failed + row.running, running=0)


class NeedsItsArguments(Good):
    def __init__(self, settings, services):
        super().__init__(settings, services)


class LeavesTheQueue(Good):
    async def __aexit__(self, *exc):
        self.file.close()


class RemembersNothing(Good):
    async def __aenter__(self):
        self.path.unlink(missing_ok=True)
        return await super().__aenter__()


class WritesWhenItIsLeft(Good):
    buffering = 10_000_000


class IsSlowToSayHowItIs(Good):
    async def health(self):
        time.sleep(0.03)  # noqa: ASYNC251 - the fault
        return await super().health()
