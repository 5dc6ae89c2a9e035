"""The store in memory keeps the contract of stores, and so does one that is told everything again."""

from __future__ import annotations

import pytest

from pml_hookspecs import Document, ExecutionQuery, ExecutionRecord, Failure, ServerStatus, Status
from pml_stores.lines import from_line, to_line
from pml_stores.memory import MemoryStore
from pml_testing.records import EVERYONE, ended, execution, tools
from pml_testing.store import StoreContract

pytestmark = pytest.mark.anyio
ALL = ExecutionQuery(scope=EVERYONE)


class TestMemoryStore(StoreContract):
    """The contract of every store, but for what only lasting data can keep."""

    test_leaving_writes_what_is_queued = None  # memory is gone when it is left
    test_everything_is_there_the_next_time = None  # so there is no next time
    test_what_was_put_survives_a_kill = None
    test_construction_takes_settings_and_services = None  # a library registers no driver

    @pytest.fixture
    def open_store(self):
        return MemoryStore


class LineStore(MemoryStore):
    """Keeps what changes as lines in a list, and begins with what is in the list."""

    def __init__(self, lines):
        super().__init__()
        self._lines = lines

    async def __aenter__(self):
        super().change(*map(from_line, self._lines))
        return self

    def change(self, *changes, soon=False):
        lines = [to_line(*change) for change in changes]
        super().change(*map(from_line, lines))
        self._lines += lines


class TestLineStore(StoreContract):
    """The same of a store that is made by overriding the one way in."""

    test_what_was_put_survives_a_kill = None  # the list is in memory
    test_construction_takes_settings_and_services = None

    @pytest.fixture
    def lines(self):
        return []

    @pytest.fixture
    def open_store(self, lines):
        return lambda: LineStore(lines)


async def some_of_everything(store):
    await store.executions.put(execution(1, intent="größe \ud800", tool_calls=("a:b",), transcript=[{"n": 1}]))
    store.executions.record(execution(2, status="running", duration_ms=None))
    await store.executions.put(
        execution(3, status=Status.ERROR, failure=Failure("a.b", "It broke.", details={"rpc": {"code": 1}}))
    )
    await store.traces.append([ended(1, execution(1).id), ended(2), ended(3, execution(1).id, attributes={"a": [1]})])
    await store.catalog.replace("files", "v1", tools(["read", "write"]))
    await store.catalog.report(ServerStatus(name="files", state="up", tools=2))
    await store.secrets.put("http", "git", "token")
    await store.documents.put("a", "b", {"n": 1}, marks={"kind": "one"})
    store.documents.put_soon("a", "c", {"n": [1, None]})
    await store.documents.put("b", "b", {})


async def copy_of(store):
    copied = MemoryStore()
    copied.change(*(from_line(to_line(*change)) for change in store.changes()))
    return copied


async def test_a_store_that_is_told_the_changes_of_another_is_like_it():
    store = MemoryStore()
    await some_of_everything(store)
    copied = await copy_of(store)
    assert copied.count == store.count == 12
    assert list(copied.changes()) == list(store.changes())
    assert [to_line(*change) for change in copied.changes()] == [to_line(*change) for change in store.changes()]


async def test_what_is_gone_is_no_change_any_more():
    store = MemoryStore()
    await some_of_everything(store)
    await store.executions.put(execution(2))
    assert await store.executions.prune(before=execution(9).started_at) == 3
    await store.secrets.put("http", "git", None)
    await store.documents.delete("a", "b")
    await store.documents.prune("b", keep=0)
    left = [(kind, key) for kind, key, _ in store.changes()]
    assert left == [
        ("server", "files"),
        ("tools", "files"),
        ("document", ("a", "c")),
        ("span", (f"{1:032x}", f"{2:016x}")),
    ]
    assert store.count == 4


async def test_many_changes_at_once_are_one():
    told = []

    class Told(MemoryStore):
        def change(self, *changes, soon=False):
            told.append(([kind for kind, _, _ in changes], soon))
            super().change(*changes, soon=soon)

    store = Told()
    await store.executions.put(execution(1))
    await store.executions.put(execution(2, parent=execution(1).id))
    await store.traces.append([ended(1, execution(1).id), ended(2)])
    await store.executions.prune(before=execution(9).started_at)
    store.executions.record(execution(3))
    store.documents.put_soon("a", "b", {})
    assert told == [
        (["execution"], False),
        (["execution"], False),
        (["span", "span"], False),
        (["execution", "execution"], False),
        (["execution"], True),
        (["document"], True),
    ]


async def test_what_a_store_refuses_to_keep_is_raised_to_those_who_wait_and_counted_for_the_others():
    class Full(MemoryStore):
        def change(self, *changes, soon=False):
            raise OSError("no room")

    store = Full()
    with pytest.raises(OSError, match="no room"):
        await store.executions.put(execution(1))
    with pytest.raises(OSError, match="no room"):
        await store.documents.put("a", "b", {})
    store.executions.record(execution(1))
    store.documents.put_soon("a", "b", {})
    assert (await store.health())["drops"] == 2
    assert store.count == 0


async def test_over_the_bound_the_first_executions_are_forgotten_with_their_spans():
    store = MemoryStore(most_executions=3)
    await store.executions.put(execution(0))
    await store.traces.append([ended(0, execution(0).id)])
    for n in range(1, 5):
        store.executions.record(execution(n))
    page = await store.executions.find(ALL)
    assert ([record.id for record in page.items], page.total) == ([execution(n).id for n in (4, 3, 2)], 3)
    await store.executions.put(execution(0))
    assert not await store.traces.of(execution(0).id, EVERYONE)


async def test_pages_go_on_after_what_is_forgotten():
    store = MemoryStore(most_executions=3)
    for n in range(3):
        store.executions.record(execution(n, started_at=execution(10 - n).started_at))
    page = await store.executions.find(ExecutionQuery(scope=EVERYONE, limit=1))
    assert [record.id for record in page.items] == [execution(0).id]
    store.executions.record(execution(3, started_at=execution(1).started_at))
    rest = await store.executions.find(ExecutionQuery(scope=EVERYONE, cursor=page.cursor))
    assert [record.id for record in rest.items] == [execution(n).id for n in (1, 2, 3)]


async def test_over_the_bound_the_first_spans_are_forgotten():
    store = MemoryStore(most_executions=2)
    one = execution(0)
    await store.executions.put(one)
    spans = [ended(n, one.id) for n in range(5)]
    await store.traces.append(spans)
    assert [e.span.span_id for e in await store.traces.of(one.id, EVERYONE)] == [e.span.span_id for e in spans[-2:]]


async def test_over_the_bound_the_documents_changed_longest_ago_are_forgotten_whatever_their_collection():
    store = MemoryStore(most_documents=3)
    for number in (0, 1, 2, 0, 3, 4):
        store.documents.put_soon(f"c{number % 2}", f"{number}", {"n": number})
    assert [d.key for d in (await store.documents.find("c0")).items] == ["4", "0"]
    assert [d.key for d in (await store.documents.find("c1")).items] == ["3"]
    assert store.drops == 2


async def test_large_documents_push_out_others_and_are_kept_themselves():
    store = MemoryStore(most_document_bytes=1000)
    for number in range(5):
        await store.documents.put("test", f"{number}", {"text": "x" * 300})
    assert (await store.documents.find("test")).total == 3
    await store.documents.delete("test", "4")
    await store.documents.put("test", "5", {"text": "x" * 300})
    assert (await store.documents.find("test")).total == 3
    await store.documents.put("test", "large", {"text": "x" * 3000})
    assert [d.key for d in (await store.documents.find("test")).items] == ["large"]


async def test_pruning_by_size_counts_spans():
    store = MemoryStore()
    for n in range(10):
        await store.executions.put(execution(n))
    await store.traces.append([ended(n, execution(0).id) for n in range(100)])
    assert await store.executions.prune(keep_bytes=10_000) == 1
    assert await store.executions.get(execution(0).id, EVERYONE) is None


async def test_what_is_changed_in_a_document_that_was_got_is_not_kept():
    store = MemoryStore()
    await store.documents.put("test", "a", {"list": [1]})
    found = await store.documents.get("test", "a")
    found.value["list"].append(2)
    assert (await store.documents.get("test", "a")).value["list"] == [1]


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"[]", b'["execution","1"]', b'["other","1",{}]', b'["execution","1",{"id":"1"}]', b'["tools","a",[]]'],
)
def test_a_line_that_is_no_change_is_refused(line):
    with pytest.raises(ValueError, match="is not a change of a store"):
        from_line(line)


def test_a_line_leaves_out_what_is_by_default():
    assert len(to_line("execution", "1", execution(1))) < 300
    kind, key, value = from_line(to_line("execution", "1", execution(1)))
    assert (kind, key, type(value), value) == ("execution", "1", ExecutionRecord, execution(1))


def test_what_json_has_no_form_for_makes_no_line():
    with pytest.raises(TypeError):
        to_line("execution", "1", execution(1, request={"no": object()}))


def test_a_document_comes_back_from_its_line():
    at = execution(1).started_at
    document = Document(key="b", value={"größe": 1.5}, version=1, marks={}, created_at=at, changed_at=at)
    (_, key, value) = from_line(to_line("document", ("a", "b"), document))
    assert (key, dict(value.value), value.version, value.marks) == (("a", "b"), {"größe": 1.5}, 1, {})
