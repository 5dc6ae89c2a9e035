from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pml_hookspecs import ExecutionId, ExecutionRecord, Page, Session, Status
from pml_search import calibration, catalogs, history, index_data
from pml_search.history import History, PrincipalHistory, stretches, usage_examples
from pml_search.index import Index
from pml_search.piece_vectors import table
from pml_search.ranker import Ranker
from pml_search.settings import Settings
from pml_testing.fakes import EPOCH, FakeLog, FakeServices, entry

pytestmark = pytest.mark.anyio

CATALOG = Path(__file__).parent / "data" / "catalog.jsonl"
ANN = Session(key="a", principal="ann")
TWINS = [entry(f"{server}:create_ticket", "Create a ticket") for server in ("alpha", "beta", "gamma")] + [
    entry("alpha:assign_ticket", "Give a ticket to somebody"),
    entry("files:read_file", "Read a file"),
]


def record(number, kind, target, minute, **more):
    members = {"principal": "ann", "agent": "client", "status": Status.OK} | more
    return ExecutionRecord(
        id=ExecutionId(f"{number:032d}"),
        kind=kind,
        target=target,
        started_at=EPOCH + timedelta(minutes=minute),
        **members,
    )


def used(*steps, **more):
    """Records of searches (``"?query"``) and calls (``"server:tool"``), one a minute."""
    records = []
    for number, step in enumerate(steps):
        target, request = ("pml:search_tools", {"query": step[1:]}) if step.startswith("?") else (step, {})
        records.append(record(number, "tool", target, number, request=request, **more))
    return records


class Executions:
    """Answers as a store does: the scope's own, newest first, by the page."""

    def __init__(self, records):
        self.records, self.asked, self.gate = list(records), [], None

    async def find(self, query):
        self.asked.append(query)
        if self.gate is not None:
            await self.gate.wait()
        mine = [
            one
            for one in sorted(self.records, key=lambda one: (one.started_at, one.id), reverse=True)
            if one.principal in query.scope.principals
            and one.status in query.statuses
            and not (query.top_level and one.parent)
            and (query.include_dry_runs or not one.dry_run)
        ]
        start = int(query.cursor or 0)
        more = start + query.limit < len(mine)
        return Page(mine[start : start + query.limit], str(start + query.limit) if more else None, len(mine))


class Store:
    def __init__(self, records):
        self.executions = Executions(records)


async def index_of(records, settings=None, entries=TWINS):
    services = FakeServices("search", store=Store(records))
    index = Index(FakeLog(), None, services, settings or Settings())
    await index.build(entries, "1")
    return index, services


async def ids(index, query, session=ANN):
    return [match.id for match in await index.search(query, limit=10, min_score=0.0, session=session)]


async def read(services):
    await asyncio.gather(*services.tasks)


async def test_what_was_used_after_a_like_search_comes_first_of_its_likes():
    index, services = await index_of(
        used("?open a ticket", "beta:create_ticket", "?create ticket", "beta:create_ticket")
    )
    assert await ids(index, "create a ticket") == await ids(index, "create a ticket", None)
    await read(services)
    assert (await ids(index, "create a ticket", None))[0] == "alpha:create_ticket"
    assert (await ids(index, "create a ticket"))[0] == "beta:create_ticket"


async def test_only_ones_own_past_counts():
    index, services = await index_of(used("?create a ticket", "beta:create_ticket"))
    other = Session(key="b", principal="bob")
    await ids(index, "create a ticket", other)
    await ids(index, "create a ticket")
    await read(services)
    assert (await ids(index, "create a ticket", other))[0] == "alpha:create_ticket"
    assert (await ids(index, "create a ticket"))[0] == "beta:create_ticket"
    scopes = [query.scope.principals for query in services.store.executions.asked]
    assert scopes == [frozenset({"bob"}), frozenset({"ann"})]


async def test_what_is_searched_for_a_list_is_found_without_the_past():
    index, services = await index_of(used("?create a ticket", "beta:create_ticket"))
    lists = Session(key="a", principal="ann", intent="create a ticket")
    await ids(index, "something else", lists)
    await read(services)
    assert (await ids(index, " create a ticket ", lists))[0] == "alpha:create_ticket"
    assert (await ids(index, "create a new ticket", lists))[0] == "beta:create_ticket"


async def test_a_search_never_waits_for_the_store():
    index, services = await index_of(used("?create a ticket", "beta:create_ticket"))
    gate = services.store.executions.gate = asyncio.Event()
    assert (await ids(index, "create a ticket"))[0] == "alpha:create_ticket"
    assert (await ids(index, "create a ticket"))[0] == "alpha:create_ticket"
    gate.set()
    await read(services)
    assert len(services.store.executions.asked) == 1, "read once for both"
    assert (await ids(index, "create a ticket"))[0] == "beta:create_ticket"


async def test_the_past_is_read_again_when_it_is_old(monkeypatch):
    index, services = await index_of([])
    await ids(index, "create a ticket")
    await read(services)
    services.store.executions.records = used("?create a ticket", "beta:create_ticket")
    assert (await ids(index, "create a ticket"))[0] == "alpha:create_ticket"
    monkeypatch.setattr(history, "FRESH_S", 0.0)
    await ids(index, "create a ticket")
    await read(services)
    assert (await ids(index, "create a ticket"))[0] == "beta:create_ticket"


async def test_a_long_past_is_read_by_the_page_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(history, "MOST_RECORDS", 250)
    index, services = await index_of(used(*["files:read_file"] * 1000))
    await ids(index, "read")
    await read(services)
    assert [query.cursor for query in services.store.executions.asked] == [None, "100", "200"]


async def test_a_store_that_fails_is_reported_and_search_works():
    services = FakeServices("search")
    index = Index(FakeLog(), None, services, Settings())
    await index.build(TWINS, "1")
    assert await ids(index, "create a ticket")
    await read(services)
    assert [level for level, *_ in services.log.lines] == ["warning"]
    assert await ids(index, "create a ticket")


async def test_learning_can_be_switched_off():
    index, services = await index_of(used("?create", "beta:create_ticket"), Settings(learn_from_history=False))
    await ids(index, "create")
    assert services.tasks == []


async def test_only_so_many_principals_are_remembered(monkeypatch):
    monkeypatch.setattr(history, "MOST_PRINCIPALS", 2)
    services = FakeServices("search", store=Store(used("?create", "beta:create_ticket", principal="p0")))
    known = History(services)
    for number in range(3):
        known.of(f"p{number}")
        await read(services)
    assert list(known._pasts) == ["p1", "p2"]
    assert known.of("p0") is None


def test_a_search_is_answered_by_what_the_same_agent_used_soon_after():
    records = used("?a file", "files:read", "files:write", "?mail", "mail:send")
    records.append(record(50, "tool", "other:tool", 0.5, agent="another"))
    records.append(record(51, "tool", "late:tool", 60))
    assert [(one.wanted, one.tools) for one in usage_examples(sorted(records, key=lambda one: one.started_at))] == [
        ("a file", ("files:read", "files:write")),
        ("mail", ("mail:send",)),
    ]


def test_intents_teach_what_workflows_and_calls_used():
    records = [
        record(1, "workflow", "", 0, intent="file a ticket", tool_calls=("alpha:x", "pml:now", "alpha:x", "beta:y")),
        record(2, "tool", "gamma:z", 1, intent="look it up"),
        record(3, "code", "python", 2, intent="nothing used"),
    ]
    assert [(one.wanted, one.tools) for one in usage_examples(records)] == [
        ("file a ticket", ("alpha:x", "beta:y")),
        ("look it up", ("gamma:z",)),
    ]


@pytest.mark.parametrize(
    "more",
    [{"status": Status.ERROR}, {"dry_run": True}, {"parent": ExecutionId("1")}, {"status": "running"}],
)
def test_what_did_not_end_well_or_did_not_happen_teaches_nothing(more):
    records = [
        record(1, "tool", "pml:search_tools", 0, request={"query": "ticket"}),
        record(2, "tool", "alpha:create_ticket", 1, intent="a ticket", **more),
    ]
    assert list(usage_examples(records)) == []
    assert list(stretches(records)) == []


def test_a_search_without_a_query_and_a_cut_request_teach_nothing():
    records = [
        record(1, "tool", "pml:search_tools", 0, request={"truncated": True, "head": "{"}),
        record(2, "tool", "alpha:create_ticket", 1),
        record(3, "tool", "pml:search_tools", 2, request={"query": "   "}),
        record(4, "tool", "alpha:create_ticket", 3),
    ]
    assert list(usage_examples(records)) == []


def test_tools_of_one_stretch_of_work_were_used_together():
    records = [*used("a:1", "?find", "a:2", "a:1"), record(9, "tool", "b:1", 60), record(10, "tool", "b:2", 61)]
    assert list(stretches(records)) == [("a:1", "a:2"), ("b:1", "b:2")]


def test_what_is_used_with_a_tool_that_matches_is_preferred(ranker):
    query, beside = "create an issue in forge", "forge:merge_pull_request"
    before = ranker.search(query, 50)
    steps = [step for _ in range(12) for step in ("forge:create_issue", beside)]
    after = ranker.rank(ranker.prepare(query), 50, past=PrincipalHistory(used(*steps)))
    rank = [[ranker.data.ids[tool] for tool in found.tools].index(beside) for found in (before, after)]
    assert rank[1] <= rank[0]
    assert after.relevance[rank[1]] > before.relevance[rank[0]]


WORK = st.lists(
    st.sampled_from(["?create an issue", "?read file", "?zebra", *(tool.id for tool in catalogs.read(CATALOG, print))]),
    max_size=60,
)


@settings(max_examples=40, deadline=None)
@given(WORK, st.sampled_from(["read a file", "create an issue", "issue", "tune my guitar", "zebra", "send an email"]))
def test_the_past_never_lifts_what_is_irrelevant_over_the_usual_threshold(ranker, work, query):
    usual, found = ranker.search(query, 50), ranker.rank(ranker.prepare(query), 50, past=PrincipalHistory(used(*work)))
    if usual is None:
        assert found is None
        return
    before = dict(zip(usual.tools.tolist(), usual.relevance.tolist(), strict=True))
    after = dict(zip(found.tools.tolist(), found.relevance.tolist(), strict=True))
    assert before.keys() == after.keys()
    assert all(after[tool] >= before[tool] - 1e-6 for tool in before)
    assert all(after[tool] < 0.6 for tool in before if before[tool] < 0.5)
    assert sorted(after.values(), reverse=True) == list(after.values())
    again = ranker.rank(ranker.prepare(query), 50, past=PrincipalHistory(used(*work)))
    assert (again.tools == found.tools).all()


def test_a_longer_answer_begins_with_the_shorter_one(ranker):
    past = PrincipalHistory(used("?file", "files:file_size", "?file", "files:delete_file"))
    parts = ranker.prepare("file")
    long, short = (ranker.rank(parts, limit, past=past).tools.tolist() for limit in (30, 5))
    assert long[:5] == short


def test_only_what_the_ranker_may_find_is_recalled(tools):
    some = Ranker(index_data.build(tools[:5], table()))
    past = PrincipalHistory(used("?read a file", "mail:send_email", "files:read_file"))
    found = some.rank(some.prepare("read a file"), 50, past=past)
    assert {some.data.ids[tool] for tool in found.tools} == {tool.id for tool in tools[:5]}


def test_the_most_the_past_can_do_is_documented():
    assert 0.59 < calibration.with_past(0.5, 1.0) < 0.6
    assert 0.9 < calibration.with_past(0.8, 1.0) < 0.95
    steps = [calibration.with_past(step / 100, 0.7) for step in range(101)]
    assert steps == sorted(steps)
    assert calibration.with_past(0.0, 1.0) < 0.001
    assert calibration.with_past(1.0, 1.0) <= 1.0
