"""Stores that each break one thing in what the contract says of searching, adding up and deleting history."""

from __future__ import annotations

import re

from wrong_stores import Alters, Good

from pml_hookspecs import replace
from pml_testing.records import said, words


class HasNoSharedAgents(Good):
    def sees(self, scope, record):
        return super().sees(replace(scope, agents=frozenset()), record)


class TakesAnyNameForASharedAgent(Good):
    def sees(self, scope, record):
        return super().sees(scope, replace(record, as_agent=True))


class TellsTranscripts(Good):
    async def get(self, id, scope, *, transcript=False):
        return await super().get(id, scope, transcript=True)


class ListsTranscripts(Good):
    def listed(self, record):
        return record


class KeepsTheOldTranscript(Good):
    def write(self, kind, key, value):
        before = self.rows["execution"].get(key)
        if kind == "execution" and before and value.transcript is None:
            value = replace(value, transcript=before.transcript)
        super().write(kind, key, value)


class LosesTokens(Alters):
    def alter(self, record):
        return replace(record, tokens_in=None, tokens_out=None)


class TakesServersForPatterns(Good):
    def is_of(self, record, target):
        if target is None or not target.endswith(":*"):
            return super().is_of(record, target)
        pattern = re.escape(target[:-1]).replace("_", ".").replace("%", ".*")
        return record.kind == "tool" and re.match(pattern, record.target, re.IGNORECASE) is not None


class EndsLater(Good):
    def matches(self, record, query):
        in_time = query.until is None or record.started_at <= query.until
        return in_time and super().matches(record, replace(query, until=None))


class SearchesIntentsOnly(Good):
    def says(self, record, query):
        parent = record.parent if record.nested else None
        return super().says(replace(record, parent=parent, target="", request={}, response=None, failure=None), query)


class SearchesInsideWords(Good):
    def says(self, record, query):
        wanted = words(query.text or "")
        if not wanted or record.nested:
            return not wanted
        return all(word in " ".join(words(said(record))) for word in wanted)


class NeedsOneOfTheWords(Good):
    def says(self, record, query):
        wanted = words(query.text or "")
        return not wanted or any(super(NeedsOneOfTheWords, self).says(record, replace(query, text=w)) for w in wanted)


class MindsCase(Good):
    def says(self, record, query):
        wanted = re.findall(r"[^\W_]+", query.text or "")
        if not wanted or record.nested:
            return not wanted
        return all(any(there.startswith(word) for there in re.findall(r"[^\W_]+", said(record))) for word in wanted)


class SearchesAllOfTheIntent(Good):
    def says(self, record, query):
        return super().says(record, query) or super().says(replace(record, intent=record.intent[-2000:]), query)


class FindsWhatRanInside(Good):
    def says(self, record, query):
        return super().says(replace(record, parent=None), query)


class FindsNothingForNoWords(Good):
    def says(self, record, query):
        return super().says(record, query) and (query.text is None or bool(words(query.text)))


class TakesTextForSyntax(Good):
    def says(self, record, query):
        if query.text and query.text.count('"') % 2:
            raise ValueError("unterminated string")
        return super().says(record, query)


class SplitsAtBlanksOnly(Good):
    def says(self, record, query):
        if not words(query.text or ""):
            return True
        there = said(record).lower().split()
        return not record.nested and all(any(t.startswith(w) for t in there) for w in query.text.lower().split())


class FindsTextForEveryone(Good):
    """Looks for the text first, and at the scope only when there is none."""

    def matches(self, record, query):
        if words(query.text or ""):
            query = replace(query, scope=replace(query.scope, principals=None))
        return super().matches(record, query)


class CountsTextForEveryone(Good):
    async def find(self, query):
        page = await super().find(query)
        if not words(query.text or ""):
            return page
        return replace(page, total=len(self.matching(replace(query, scope=replace(query.scope, principals=None)))))


class AddsUpTextForEveryone(Good):
    async def totals(self, query, by):
        if words(query.text or ""):
            query = replace(query, scope=replace(query.scope, principals=None))
        return await super().totals(query, by)


class AddsUpForEveryone(Good):
    async def totals(self, query, by):
        return await super().totals(replace(query, scope=replace(query.scope, principals=None)), by)


class TakesSimulatedForFailed(Good):
    def total(self, group, records):
        simulated = sum(r.status == "simulated" for r in records)
        right = super().total(group, records)
        return replace(right, succeeded=right.succeeded - simulated, failed=right.failed + simulated)


class LosesSmallCosts(Good):
    def cost(self, records):
        return round(sum(r.cost_usd or 0 for r in records), 1)


class CountsServersOfEverything(Good):
    def group(self, record, by):
        if by == "tool":
            return record.target
        return super().group(record, by)


class MostExecutionsFirst(Good):
    def rank(self, total, by):
        return (-total.executions, total.group)


class TakesDaysForHours(Good):
    """Adds up whole days, whatever the hour asked for."""

    async def totals(self, query, by):
        if query.since is not None:
            query = replace(query, since=query.since.replace(hour=0, minute=0, second=0, microsecond=0))
        return await super().totals(query, by)


class AddsWhatIsReplaced(Good):
    """Adds up as it writes, and takes nothing off."""

    def __init__(self, settings=None, services=None):
        super().__init__(settings, services)
        self.sum = []

    def write(self, kind, key, value):
        super().write(kind, key, value)
        if kind == "execution":
            self.sum.append(value)

    def delete(self, kind, key):
        super().delete(kind, key)
        self.sum = [r for r in self.sum if r.id != key]

    async def totals(self, query, by):
        self.catch_up()
        rows = self.rows["execution"]
        try:
            self.rows["execution"] = dict(enumerate(self.sum))
            return await super().totals(query, by)
        finally:
            self.rows["execution"] = rows


class DeletesWhatIsRunning(Good):
    def has_ended(self, record):
        return True


class DeletesWhatRunsInside(Good):
    def has_ended(self, record):
        return record.parent is not None or super().has_ended(record)


class LeavesChildrenBehind(Good):
    def family(self, id):
        return [id]


class LeavesGrandchildrenBehind(Good):
    def family(self, id):
        return [id, *(r.id for r in self.rows["execution"].values() if r.parent == id)]


class LeavesSpansBehind(Good):
    def forget(self, id):
        for member in self.family(id):
            self.delete("execution", member)


class DeletesTheNewestFirst(Good):
    async def prune(self, *, before=None, keep_bytes=None):
        if keep_bytes is None or before is not None:
            return await super().prune(before=before, keep_bytes=keep_bytes)
        place, self.place = self.place, lambda record: -record.started_at.timestamp()
        try:
            return await super().prune(before=before, keep_bytes=keep_bytes)
        finally:
            self.place = place


class DeletesOneTooMany(Good):
    async def prune(self, *, before=None, keep_bytes=None):
        gone = await super().prune(before=before, keep_bytes=keep_bytes)
        left = sorted(self.rows["execution"].values(), key=self.place)
        if before is not None and gone and len(left) > 1:
            self.forget(left[0].id)
        return gone


class CountsEverythingDeleted(Good):
    async def prune(self, *, before=None, keep_bytes=None):
        self.catch_up()
        there = len(self.rows["execution"])
        await super().prune(before=before, keep_bytes=keep_bytes)
        return there - len(self.rows["execution"])


class DeletesDocumentsToo(Good):
    async def prune(self, *, before=None, keep_bytes=None):
        if keep_bytes == 0:
            self.rows["document"].clear()
        return await super().prune(before=before, keep_bytes=keep_bytes)
