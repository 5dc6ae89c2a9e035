"""The part of a store that searches, adds up and deletes history, as it should be."""

from __future__ import annotations

import pickle
from collections import defaultdict

from pml_hookspecs import split_tool_id
from pml_hookspecs.store import Total
from pml_testing.records import is_of, says

OPEN = ("pending", "running")


class GoodHistory:
    """Mixed into a store whose rows are in memory."""

    def sees(self, scope, record):
        if scope.principals is None or record.principal in scope.principals:
            return True
        return record.as_agent and record.agent in scope.agents

    def says(self, record, query):
        return says(record, query.text)

    def is_of(self, record, target):
        return is_of(record, target)

    def group(self, record, by):
        tool = record.target if record.kind == "tool" else ""
        if by == "server":
            return split_tool_id(tool)[0]
        return {
            "agent": record.agent,
            "principal": record.principal,
            "tool": tool,
            "key": record.access_key,
            "day": record.started_at.date().isoformat(),
        }[by]

    def cost(self, records):
        return round(sum(r.cost_usd or 0 for r in records), 6)

    def total(self, group, records):
        times = [r.duration_ms for r in records if r.duration_ms is not None]
        good, running = (sum(r.status in statuses for r in records) for statuses in (("ok", "simulated"), OPEN))
        return Total(
            group=group,
            executions=len(records),
            succeeded=good,
            failed=len(records) - good - running,
            running=running,
            cost_usd=self.cost(records),
            tokens_in=sum(r.tokens_in or 0 for r in records),
            tokens_out=sum(r.tokens_out or 0 for r in records),
            mean_duration_ms=round(sum(times) / len(times)) if times else None,
        )

    def rank(self, total, by):
        return total.group if by == "day" else (-total.cost_usd, -total.executions, total.group)

    async def totals(self, query, by):
        groups = defaultdict(list)
        for record in self.matching(query):
            groups[self.group(record, by)].append(record)
        found = [self.total(group, records) for group, records in groups.items()]
        return sorted(found, key=lambda total: self.rank(total, by))

    def has_ended(self, record):
        return record.status not in OPEN

    def size(self):
        return sum(len(pickle.dumps(record)) for record in self.rows["execution"].values())

    def family(self, id):
        inside = [r.id for r in self.rows["execution"].values() if r.parent == id]
        return [id, *(member for child in inside for member in self.family(child))]

    def forget(self, id):
        for member in self.family(id):
            self.delete("execution", member)
            for key in [k for k, ended in self.rows["span"].items() if ended.span.execution == member]:
                self.delete("span", key)

    async def prune(self, *, before=None, keep_bytes=None):
        self.catch_up()
        heads = [r for r in self.rows["execution"].values() if r.parent is None and self.has_ended(r)]
        gone = 0
        for record in sorted(heads, key=self.place):
            too_old = before is not None and record.started_at < before
            if not too_old and (keep_bytes is None or self.size() <= keep_bytes):
                break
            if not all(self.has_ended(self.rows["execution"][member]) for member in self.family(record.id)):
                continue
            self.forget(record.id)
            gone += 1
        return gone
