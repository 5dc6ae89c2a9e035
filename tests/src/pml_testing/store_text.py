"""What the contract of stores says of searching for text; part of :class:`pml_testing.store.StoreContract`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pml_hookspecs import ExecutionQuery, Failure, RawObject, Status, encode, replace

from .records import ALICE, BOB, EVERYONE, execution, says

if TYPE_CHECKING:
    from pml_hookspecs import Scope, Store

SYNTAX = (
    *('"', "'", "''", '"zebra', 'zebra"', '""', "(", ")", "*", "zebra*", "*zebra", "^zebra", "-zebra", "+zebra"),
    *("NOT zebra", "zebra NOT apple", "zebra AND", "OR", "apple OR zebra", "NEAR(zebra apple)", "NEAR/2"),
    *("intent:zebra", "intent : zebra", "{intent target}: zebra", "rank:zebra", "rowid", "zebra:*", "zebra:A"),
    *("zebra & apple", "zebra | apple", "!zebra", "zebra <-> apple", "zebra <2> apple", "\\", "\\zebra", "a\\'b"),
    *("%", "_", "z_bra", "zebr%", "'; DROP TABLE execution; --", "$1", "?", ":x", "@x", "zebra\x00apple", "\x00"),
    *(
        "\ud83c",
        "zebra \udc00",
        "zebra;apple",
        "zebra/apple",
        "<zebra>",
        "[zebra]",
        "zebra~1",
        "{}",
        "\N{ZERO WIDTH SPACE}",
    ),
)
"""Texts that mean something to one search engine or another."""


async def found(store: Store, text: str | None, scope: Scope = ALICE) -> set[str]:
    """Ids of what is found, as long as items and total agree, and the same is found when all of it is written."""
    query = ExecutionQuery(scope=scope, text=text, limit=100)
    pages = [await store.executions.find(query)]
    await store.executions.put(execution(10**6, principal="carol", agent="", target="", dry_run=True))
    pages.append(await store.executions.find(query))
    soon, later = [{str(record.id) for record in page.items} for page in pages]
    assert [page.total for page in pages] == [len(soon), len(later)]
    assert soon == later, text
    return later


@pytest.mark.anyio
class TextContract:
    """Tests of ``ExecutionQuery.text``. The fixture ``store`` gives a store that is up and empty."""

    @pytest.mark.parametrize(
        "members",
        [
            {"intent": "Count a zebra or two"},
            {"target": "zoo:zebra"},
            {"request": {"animal": "zebra"}},
            {"request": RawObject(b'{"animal":{"deep":["a","zebra"]}}')},
            {"response": {"content": [{"type": "text", "text": "one zebra"}]}},
            {"response": "zebra"},
            {"response": RawObject(encode({"text": "zebra " + "x" * 50_000}))},
            {"failure": Failure("zoo.closed", "No zebra today."), "status": Status.ERROR},
        ],
        ids=lambda members: next(iter(members)),
    )
    async def test_words_are_found_wherever_they_are(self, store: Store, members: dict[str, Any]) -> None:
        await store.executions.put(execution(1))
        await store.executions.put(execution(2, **members))
        for text in ("zebra", "ZEB", " zebra, "):
            assert await found(store, text) == {execution(2).id}

    async def test_words_are_found_whole_and_by_their_beginning_only(self, store: Store) -> None:
        await store.executions.put(execution(1, intent="Forecast for Größenwahn 2026 日本語"))
        for text in ("forecast", "f", "FORE", "größen", "GRÖ", "2026", "20", "日本", "for fore"):
            assert await found(store, text) == {execution(1).id}, text
        for text in ("cast", "orecast", "forecasts", "wahn", "026", "本語", "fore x", "ore"):
            assert await found(store, text) == set(), text

    async def test_all_the_words_must_occur_in_whatever_part(self, store: Store) -> None:
        await store.executions.put(execution(1, intent="red", request={"a": "green"}, response={"b": "blue"}))
        await store.executions.put(execution(2, intent="red", request={"a": "green"}))
        assert await found(store, "red green") == {execution(1).id, execution(2).id}
        assert await found(store, "blue red GREEN") == {execution(1).id}
        assert await found(store, "red green blue yellow") == set()

    @pytest.mark.parametrize(
        ("said", "asked"),
        [
            ("/srv/data/report.csv", ("srv", "data", "report", "csv", "/srv/data", "report.csv")),
            ("https://example.org/a_page?key=value#end", ("example", "org", "page", "value", "end", "https")),
            ("ann.smith@example.org", ("ann", "smith", "smith@example")),
            ("read_file and web-search", ("read", "file", "search", "web-search", "read_file")),
            ("version 1.20.3-rc1 of files:read", ("20", "rc1", "1.20", "read", "files:read")),
            ("first\nsecond\tthird", ("first", "second", "third")),
            ("the and of not", ("the", "and", "not")),
            ("running quickly", ("running",)),
        ],
        ids=lambda given: given if isinstance(given, str) else "",
    )
    async def test_a_word_ends_where_letters_and_digits_do(
        self, store: Store, said: str, asked: tuple[str, ...]
    ) -> None:
        await store.executions.put(execution(1, target="zoo:x", intent="hello"))
        await store.executions.put(execution(2, target="zoo:x", intent=said))
        await store.executions.put(execution(3, target="zoo:x", response={"text": said}))
        for text in asked:
            assert await found(store, text) == {execution(2).id, execution(3).id}, text

    async def test_words_are_not_made_to_look_alike(self, store: Store) -> None:
        await store.executions.put(execution(1, intent="running résumés"))
        for text in ("run", "résumé"):
            assert await found(store, text) == {execution(1).id}
        for text in ("runs", "ran", "resume", "resumes"):
            assert await found(store, text) == set(), text

    async def test_the_first_2048_characters_of_each_part_are_searched(self, store: Store) -> None:
        early, late = "x" * 1900 + " zebra ", "x" * 2100 + " zebra "
        await store.executions.put(execution(1, intent=early))
        await store.executions.put(execution(2, intent=late))
        await store.executions.put(execution(3, request={"a": early}, response={"b": early}))
        await store.executions.put(execution(4, request={"a": late}, response={"b": late}))
        failed = {"status": Status.ERROR, "failure": Failure("a.b", late)}
        await store.executions.put(execution(5, **failed))
        await store.executions.put(execution(6, response="\u00e4\U0001f388" * 950 + " zebra"))
        assert await found(store, "zebra") == {execution(n).id for n in (1, 3, 6)}

    async def test_only_what_a_client_asked_for_is_found(self, store: Store) -> None:
        await store.executions.put(execution(1, intent="zebra"))
        await store.executions.put(execution(2, intent="zebra", parent=execution(1).id))
        assert await found(store, "zebra") == {execution(1).id}
        children = ExecutionQuery(scope=ALICE, text="zebra", parent=execution(1).id)
        assert (await store.executions.find(children)).total == 0

    async def test_no_words_find_everything(self, store: Store) -> None:
        await store.executions.put(execution(1))
        await store.executions.put(execution(2, parent=execution(1).id))
        for text in (None, "", " ", "\n", "*", "!?", "\N{BALLOON}", '""', "-", "_"):
            assert await found(store, text) == {execution(1).id, execution(2).id}, text

    async def test_text_is_never_syntax(self, store: Store) -> None:
        records = [
            execution(n, intent=intent)
            for n, intent in enumerate(("zebra", "apple", "apple zebra", "not near or and", "", "a b"))
        ]
        for record in records:
            store.executions.record(record)
        for text in (*SYNTAX, " ".join(["zebra"] * 300), "z" * 3000):
            assert await found(store, text) == {record.id for record in records if says(record, text)}, ascii(text)

    async def test_what_is_found_by_text_is_counted_up_to_a_thousand_at_least(self, store: Store) -> None:
        """All of it is listed, and all that is found without a word is counted."""
        for n in range(1050):
            store.executions.record(execution(n, intent="zebra" if n % 3 else "zebra apple"))
        for text, totals in (("zebra", (1000, 1050)), ("zebra apple", (350,)), ("-", (1050,))):
            page = await store.executions.find(ExecutionQuery(scope=ALICE, text=text, limit=100))
            there = [record.id for record in page.items]
            while page.cursor is not None:
                assert page.total in totals
                query = ExecutionQuery(scope=ALICE, text=text, limit=100, cursor=page.cursor)
                page = await store.executions.find(query)
                there += [record.id for record in page.items]
            assert there == [execution(n).id for n in reversed(range(1050)) if text != "zebra apple" or n % 3 == 0]

    async def test_scope_limits_what_is_found_by_text(self, store: Store) -> None:
        await store.executions.put(execution(1, intent="zebra"))
        await store.executions.put(execution(2, intent="zebra", principal="bob"))
        await store.executions.put(execution(3, intent="apple", principal="bob"))
        assert await found(store, "zebra", ALICE) == {execution(1).id}
        assert await found(store, "zebra", BOB) == {execution(2).id}
        assert await found(store, "apple", ALICE) == set()
        assert await found(store, "zebra", EVERYONE) == {execution(1).id, execution(2).id}
        for text in ("alice", "zebra bob", "claude"):
            assert await found(store, text, ALICE) == set(), text

    async def test_scope_limits_what_is_added_up_by_text(self, store: Store) -> None:
        for n, principal in enumerate(("alice", "bob", "bob")):
            await store.executions.put(execution(n, intent="zebra", principal=principal, cost_usd=1.0))
        for scope, expected in ((ALICE, 1), (BOB, 2), (EVERYONE, 3)):
            query = ExecutionQuery(scope=scope, text="zeb")
            (activity,) = await store.executions.activity(query)
            (total,) = await store.executions.totals(query, "agent")
            assert (activity.executions, total.executions, total.cost_usd) == (expected, expected, expected)
            assert not await store.executions.activity(replace(query, text="apple"))
            assert not await store.executions.totals(replace(query, text="apple"), "agent")

    async def test_what_is_replaced_is_found_by_its_new_words(self, store: Store) -> None:
        for n in range(3):
            store.executions.record(execution(n, status="running", duration_ms=None, intent="count", response="zebra"))
        assert len(await found(store, "zebra")) == 3
        store.executions.record(execution(1, intent="count", response="apple"))
        assert await found(store, "zebra") == {execution(0).id, execution(2).id}
        assert await found(store, "apple") == {execution(1).id}
        assert len(await found(store, "count")) == 3

    async def test_pages_of_a_search_neither_skip_nor_repeat(self, store: Store) -> None:
        for n in range(40):
            at = execution(n // 4).started_at
            store.executions.record(execution(n, intent="apple zebra" if n % 3 else "apple", started_at=at))
        query, seen = ExecutionQuery(scope=ALICE, text="zebra", limit=5), []
        while True:
            page = await store.executions.find(query)
            seen += [record.id for record in page.items]
            assert page.total == 26
            if page.cursor is None:
                break
            query = replace(query, cursor=page.cursor)
        expected = sorted((n for n in range(40) if n % 3), key=lambda n: (n // 4, n), reverse=True)
        assert seen == [execution(n).id for n in expected]
