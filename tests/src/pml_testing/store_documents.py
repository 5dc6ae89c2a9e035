"""What the contract of stores says of documents; part of :class:`pml_testing.store.StoreContract`."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from pml_hookspecs import RawObject, encode

from .records import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pml_hookspecs import Document, Page, Store

WHERE = "test.things"
DEADLINE_S = 90.0
"""Longest that a test waits for anything."""
VALUES: list[dict[str, Any]] = [
    {},
    {"z": 1, "a": [2.5, None, True, False, {"b": "", "a": []}], "nested": {"deep": {"deeper": 0}}},
    {"text": 'größe 日本語 😀 "quoted" \\ \n\t\x00 %_\' --', "größe": 123456789012345678901234567890},
    {"long": "x" * 500_000},
]


async def every_page(store: Store, **query: Any) -> list[Page[Document]]:
    """All pages of what is found."""
    pages = [await store.documents.find(WHERE, **query)]
    while pages[-1].cursor is not None:
        pages.append(await store.documents.find(WHERE, **query, cursor=pages[-1].cursor))
    return pages


async def keys(store: Store, marks: Mapping[str, str] | None = None) -> list[str]:
    """Keys of what is found, in order."""
    return [document.key for document in (await store.documents.find(WHERE, marks=marks, limit=1000)).items]


def now() -> datetime:
    """UTC."""
    return datetime.now(UTC)


@pytest.mark.anyio
class DocumentsContract:
    """Tests of ``store.documents``. The fixture ``store`` gives a store that is up and empty."""

    async def test_a_document_that_was_never_put_is_none(self, store: Store) -> None:
        assert await store.documents.get(WHERE, "a") is None
        assert not await store.documents.delete(WHERE, "a")
        page = await store.documents.find(WHERE)
        assert (list(page.items), page.cursor, page.total) == ([], None, 0)

    @pytest.mark.parametrize("value", VALUES, ids=["empty", "nested", "scripts", "long"])
    async def test_any_object_comes_back_as_a_document(self, store: Store, value: dict[str, Any]) -> None:
        for key, given in (("plain", value), ("raw", RawObject(encode(value)))):
            await store.documents.put(WHERE, key, given)
            found = await store.documents.get(WHERE, key)
            assert found is not None
            assert json.dumps(plain(found.value)) == json.dumps(value)

    @pytest.mark.parametrize("text", ["", "größe 日本語 😀", "a\0b", "a/b:c%_'\"\\", "\ud800", "x" * 512], ids=ascii)
    async def test_any_text_is_a_name_for_documents(self, store: Store, text: str) -> None:
        await store.documents.put(text[:100] or "empty", text, {"n": 1}, marks={text[:100]: text})
        await store.documents.put(text[:100] or "empty", f"{text[:511]}!", {"n": 2}, marks={text[:100]: f"{text}!"})
        (found,) = (await store.documents.find(text[:100] or "empty", marks={text[:100]: text})).items
        assert (found.key, found.value["n"], dict(found.marks)) == (text, 1, {text[:100]: text})
        assert await store.documents.get(text[:100] or "empty", text) == found

    async def test_a_document_says_since_when_and_with_what_it_is_kept(self, store: Store) -> None:
        before = now()
        later = now() + timedelta(days=9000, microseconds=1)
        await store.documents.put(WHERE, "a", {"n": 1}, marks={"kind": "one", "of": "two"}, expires_at=later)
        found = await store.documents.get(WHERE, "a")
        assert found is not None
        assert (found.key, found.version, dict(found.marks)) == ("a", 1, {"kind": "one", "of": "two"})
        assert found.expires_at == later
        assert before <= found.created_at <= found.changed_at <= now()
        assert found.created_at.utcoffset() == found.changed_at.utcoffset() == timedelta(0)

    async def test_a_change_takes_the_place_of_all_but_the_beginning(self, store: Store) -> None:
        await store.documents.put(WHERE, "a", {"one": 1}, marks={"kind": "old"}, expires_at=now() + timedelta(days=1))
        first = await store.documents.get(WHERE, "a")
        await store.documents.put(WHERE, "a", {"two": 2}, marks={"state": "new"})
        second = await store.documents.get(WHERE, "a")
        assert first is not None
        assert second is not None
        assert (dict(second.value), dict(second.marks), second.expires_at) == ({"two": 2}, {"state": "new"}, None)
        assert second.created_at == first.created_at
        assert second.changed_at > first.changed_at
        assert (await keys(store, {"kind": "old"}), await keys(store, {"state": "new"})) == ([], ["a"])

    async def test_each_change_makes_the_version_one_more(self, store: Store) -> None:
        for version in (1, 2, 3):
            assert await store.documents.put(WHERE, "a", {}) == version
        store.documents.put_soon(WHERE, "a", {})
        found = await store.documents.get(WHERE, "a")
        assert found is not None
        assert found.version == 4

    async def test_what_is_changed_in_a_value_after_it_was_put_is_not_kept(self, store: Store) -> None:
        value: dict[str, Any] = {"list": [1]}
        marks = {"kind": "before"}
        await store.documents.put(WHERE, "a", value, marks=marks)
        store.documents.put_soon(WHERE, "b", value, marks=marks)
        value["list"].append(2)
        marks["kind"] = "after"
        for key in ("a", "b"):
            found = await store.documents.get(WHERE, key)
            assert found is not None
            assert (plain(found.value), dict(found.marks)) == ({"list": [1]}, {"kind": "before"})

    async def test_collections_are_apart(self, store: Store) -> None:
        await store.documents.put(WHERE, "a", {"n": 1}, marks={"kind": "one"})
        await store.documents.put("test", ".thingsa", {"n": 2}, marks={"kind": "one"})
        for collection, key, n in ((WHERE, "a", 1), ("test", ".thingsa", 2)):
            found = await store.documents.get(collection, key)
            assert found is not None
            assert (found.value["n"], found.version) == (n, 1)
        assert await store.documents.get("test", "a") is None
        assert (await store.documents.find("test", marks={"kind": "one"})).total == 1
        assert await store.documents.delete("test", ".thingsa")
        assert await store.documents.prune("test", keep=0) == 0
        assert await keys(store) == ["a"]

    async def test_a_write_for_another_version_changes_nothing(self, store: Store) -> None:
        assert await store.documents.put(WHERE, "a", {"n": 0}, if_version=1) is None
        assert await store.documents.get(WHERE, "a") is None
        assert await store.documents.put(WHERE, "a", {"n": 1}, marks={"kind": "one"}, if_version=0) == 1
        assert await store.documents.put(WHERE, "a", {"n": 2}, if_version=0) is None
        assert await store.documents.put(WHERE, "a", {"n": 3}, if_version=2) is None
        found = await store.documents.get(WHERE, "a")
        assert found is not None
        assert (found.value["n"], found.version, await keys(store, {"kind": "one"})) == (1, 1, ["a"])
        assert await store.documents.put(WHERE, "a", {"n": 4}, if_version=1) == 2

    async def test_of_many_who_try_one_succeeds(self, store: Store) -> None:
        for version in (0, 1, 2):
            tries = (store.documents.put(WHERE, "a", {"n": n}, if_version=version) for n in range(40))
            async with asyncio.timeout(DEADLINE_S):
                done = await asyncio.gather(*tries)
            ((winner, new),) = [(n, version) for n, version in enumerate(done) if version is not None]
            found = await store.documents.get(WHERE, "a")
            assert found is not None
            assert (found.value["n"], found.version, new) == (winner, version + 1, version + 1)

    async def test_fifty_counters_lose_nothing(self, store: Store) -> None:
        async def count(n: int) -> None:
            for _ in range(1000):
                found = await store.documents.get(WHERE, "counter")
                version, value = (found.version, found.value["n"]) if found else (0, 0)
                if await store.documents.put(WHERE, "counter", {"n": value + 1}, if_version=version):
                    return
                store.documents.put_soon(WHERE, f"lost {n}", {})
                await asyncio.sleep(0)

        async with asyncio.timeout(DEADLINE_S):
            await asyncio.gather(*map(count, range(50)))
        found = await store.documents.get(WHERE, "counter")
        assert found is not None
        assert (found.value["n"], found.version) == (50, 50)

    async def test_what_is_put_soon_is_read_at_once(self, store: Store) -> None:
        for n in range(20):
            store.documents.put_soon(WHERE, f"{n}", {"n": n}, marks={"all": "yes"})
            found = await store.documents.get(WHERE, f"{n}")
            assert found is not None
            assert found.value["n"] == n
            store.documents.put_soon(WHERE, f"{n}", {"n": -n}, marks={"all": "yes"})
            page = await store.documents.find(WHERE, marks={"all": "yes"})
            assert (page.total, page.items[0].value["n"], page.items[0].version) == (n + 1, -n, 2)
        store.documents.put_soon(WHERE, "gone", {})
        assert await store.documents.delete(WHERE, "gone")
        store.documents.put_soon(WHERE, "more", {})
        assert await store.documents.prune(WHERE, keep=0) == 21

    async def test_putting_soon_costs_the_caller_little(self, store: Store) -> None:
        taken = []
        for n in range(500):
            value, marks = {"n": n, "text": "x" * 200}, {"kind": "one"}
            start = time.perf_counter()
            store.documents.put_soon(WHERE, f"{n}", value, marks=marks)
            taken.append(time.perf_counter() - start)
        assert statistics.median(taken) <= 100e-6

    async def test_putting_soon_never_raises_and_loses_only_what_is_wrong(self, store: Store) -> None:
        store.documents.put_soon(WHERE, "first", {})
        store.documents.put_soon(WHERE, "no json", {"callable": print})
        store.documents.put_soon(WHERE, "k" * 513, {})
        store.documents.put_soon(WHERE, "marks", {}, marks={f"{n}": "" for n in range(9)})
        store.documents.put_soon(WHERE, "zone", {}, expires_at=datetime(2100, 1, 1))  # noqa: DTZ001 - the mistake
        store.documents.put_soon(WHERE, "last", {})
        assert await keys(store) == ["last", "first"]

    async def test_a_document_that_cannot_be_kept_is_refused(self, store: Store) -> None:
        many = {f"{n}": "" for n in range(9)}
        for key, marks, expires_at in (("k" * 513, {}, None), ("a", many, None), ("a", {}, datetime(2100, 1, 1))):  # noqa: DTZ001
            with pytest.raises(ValueError, match=r"512|8|zone"):
                await store.documents.put(WHERE, key, {}, marks=marks, expires_at=expires_at)
        with pytest.raises(TypeError):
            await store.documents.put(WHERE, "a", {"callable": print})
        assert await keys(store) == []
        await store.documents.put(WHERE, "k" * 512, {}, marks={f"{n}": "" for n in range(8)})

    async def test_only_documents_with_all_the_marks_are_found(self, store: Store) -> None:
        given = {
            "1": {"state": "open", "who": "alice"},
            "2": {"state": "open", "who": "bob"},
            "3": {"state": "done", "who": "alice"},
            "4": {"who": "open"},
            "5": {},
        }
        for key, marks in given.items():
            await store.documents.put(WHERE, key, {}, marks=marks)
        asked: list[dict[str, str]] = [
            {},
            {"state": "open"},
            {"who": "alice"},
            {"state": "open", "who": "alice"},
            {"who": "alice", "state": "done"},
            {"state": "ope"},
            {"state": ""},
            {"where": "open"},
            {"state": "open", "where": "x"},
        ]
        for marks in asked:
            expected = [key for key, those in reversed(given.items()) if marks.items() <= those.items()]
            page = await store.documents.find(WHERE, marks=marks)
            assert ([d.key for d in page.items], page.total) == (expected, len(expected)), marks
        assert (await store.documents.find(WHERE, marks=None)).total == 5

    async def test_the_last_changed_come_first(self, store: Store) -> None:
        for key in ("b", "a", "d", "c"):
            await store.documents.put(WHERE, key, {}, marks={"all": "yes"})
        await store.documents.put(WHERE, "a", {}, marks={"all": "yes"})
        for marks in ({}, {"all": "yes"}):
            assert await keys(store, marks) == ["a", "c", "d", "b"]

    @pytest.mark.parametrize("marks", [{}, {"all": "yes"}, {"all": "yes", "every": "one"}], ids=len)
    async def test_pages_neither_skip_nor_repeat_while_documents_are_put(
        self, store: Store, marks: dict[str, str]
    ) -> None:
        both = {"all": "yes", "every": "one"}
        for n in range(30):
            store.documents.put_soon(WHERE, f"{n * 7 % 30:02}", {}, marks=both)
        seen, cursor = [], None
        for added in range(100):
            page = await store.documents.find(WHERE, marks=marks, limit=4, cursor=cursor)
            seen += [d.key for d in page.items]
            if page.cursor is None:
                break
            cursor = page.cursor
            await store.documents.put(WHERE, f"new {added}", {}, marks=both)
            await store.documents.put(WHERE, page.items[0].key, {}, marks=both)
            if added % 2:
                await store.documents.delete(WHERE, page.items[-1].key)
        assert seen == [f"{n * 7 % 30:02}" for n in reversed(range(30))]

    async def test_the_last_page_of_documents_has_no_cursor_and_every_page_has_the_total(self, store: Store) -> None:
        for n in range(12):
            await store.documents.put(WHERE, f"{n}", {}, marks={"third": f"{n % 3}"})
        for limit, lengths in ((4, [4, 4, 4]), (5, [5, 5, 2]), (12, [12]), (1000, [12])):
            pages = await every_page(store, limit=limit)
            assert ([len(p.items) for p in pages], {p.total for p in pages}) == (lengths, {12})
        pages = await every_page(store, limit=3, marks={"third": "1"})
        assert ([len(p.items) for p in pages], {p.total for p in pages}) == ([3, 1], {4})

    async def test_a_page_of_documents_out_of_range_is_refused(self, store: Store) -> None:
        for limit in (0, -1, 1001):
            with pytest.raises(ValueError, match="limit"):
                await store.documents.find(WHERE, limit=limit)
        for n in range(101):
            store.documents.put_soon(WHERE, f"{n}", {})
        assert len((await store.documents.find(WHERE)).items) == 100
        assert len((await store.documents.find(WHERE, limit=1000)).items) == 101

    async def test_a_foreign_cursor_of_documents_is_refused(self, store: Store) -> None:
        for cursor in ("", "x", "größe", "WyJhIiwxLCJiIl0", "0", "a" * 1000):
            with pytest.raises(ValueError, match="cursor"):
                await store.documents.find(WHERE, cursor=cursor)

    async def test_what_has_expired_is_not_found(self, store: Store) -> None:
        past, future = now() - timedelta(microseconds=1), now() + timedelta(days=1)
        for key, expires_at in (("past", past), ("future", future), ("ever", None)):
            await store.documents.put(WHERE, key, {}, marks={"all": "yes"}, expires_at=expires_at)
        store.documents.put_soon(WHERE, "soon", {}, marks={"all": "yes"}, expires_at=past)
        assert await store.documents.get(WHERE, "past") is None
        for marks in ({}, {"all": "yes"}):
            page = await store.documents.find(WHERE, marks=marks)
            assert ([d.key for d in page.items], page.total) == (["ever", "future"], 2)
        assert not await store.documents.delete(WHERE, "past")

    async def test_a_document_expires_while_nothing_is_written(self, store: Store) -> None:
        expires_at = now() + timedelta(milliseconds=200)
        await store.documents.put(WHERE, "a", {}, expires_at=expires_at)
        async with asyncio.timeout(DEADLINE_S):
            while await store.documents.get(WHERE, "a") is not None:  # noqa: ASYNC110 - time is what is waited for
                await asyncio.sleep(0.01)
        assert now() >= expires_at

    async def test_what_has_expired_makes_room_for_a_new_one(self, store: Store) -> None:
        for _ in range(3):
            await store.documents.put(WHERE, "a", {}, expires_at=now() + timedelta(days=1))
        await store.documents.put(WHERE, "a", {"old": True}, expires_at=now() - timedelta(seconds=1))
        before = now()
        assert await store.documents.put(WHERE, "a", {}, if_version=4) is None
        assert await store.documents.put(WHERE, "a", {"new": True}, if_version=0) == 1
        found = await store.documents.get(WHERE, "a")
        assert found is not None
        assert (found.version, dict(found.value)) == (1, {"new": True})
        assert found.created_at >= before

    async def test_a_document_is_deleted(self, store: Store) -> None:
        for key in ("a", "b"):
            await store.documents.put(WHERE, key, {}, marks={"all": "yes"})
        assert await store.documents.delete(WHERE, "a")
        assert not await store.documents.delete(WHERE, "a")
        assert await store.documents.get(WHERE, "a") is None
        assert (await keys(store), await keys(store, {"all": "yes"})) == (["b"], ["b"])
        assert await store.documents.put(WHERE, "a", {}) == 1
        assert await keys(store, {"all": "yes"}) == ["b"]

    async def test_pruning_keeps_the_last_changed_and_nothing_expired(self, store: Store) -> None:
        for n in range(10):
            await store.documents.put(WHERE, f"{n}", {}, marks={"all": "yes"})
        await store.documents.put(WHERE, "0", {}, marks={"all": "yes"})
        await store.documents.put(WHERE, "past", {}, expires_at=now() - timedelta(seconds=1))
        assert await store.documents.prune(WHERE, keep=100) == 1
        assert await store.documents.prune(WHERE, keep=3) == 7
        for marks in ({}, {"all": "yes"}):
            assert await keys(store, marks) == ["0", "9", "8"]
        assert await store.documents.prune(WHERE, keep=3) == 0
        assert await store.documents.prune(WHERE, keep=0) == 3
        assert await keys(store) == []
