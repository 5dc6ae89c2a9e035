from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from pml_hookspecs import InvalidArguments
from pml_measure import queries
from pml_testing.fakes import FakeCatalog, entry

pytestmark = pytest.mark.anyio


def said(found: Any) -> list[tuple[str, list[list[str]]]]:
    return [(query.text, [sorted(group) for group in query.gold]) for query in found]


async def test_intents_and_searches_of_the_history_have_the_tools_that_then_ran(services: Any, history: Any) -> None:
    history.ran("mail:send_message", 50, intent="tell Ann")
    history.ran("", 40, kind="workflow", intent="tidy up", tool_calls=("files:delete_file", "pml:x", "gone:tool"))
    history.searched("a document", 30)
    history.ran("pml:search_tools", 29, agent="other", request={"query": "mine"})
    history.ran("files:read_file", 28)
    found = await queries.from_history(services)
    assert said(found) == [
        ("tidy up", [["files:delete_file"]]),
        ("tell Ann", [["mail:send_message"]]),
        ("a document", [["files:read_file"]]),
    ]


async def test_what_says_nothing_is_left_out(services: Any, history: Any) -> None:
    history.ran("mail:send_message", 90, intent="failed", status="error")
    history.ran("mail:send_message", 80, intent="rehearsed", dry_run=True)
    history.ran("mail:send_message", 70, intent="inside", parent="e0")
    history.ran("gone:tool", 60, intent="gone")
    history.searched("too long ago", 50)
    history.ran("files:read_file", 50 - queries.SOON / timedelta(minutes=1) - 1)
    history.searched("searched again", 20)
    history.searched("second try", 19)
    history.ran("files:read_file", 18)
    history.ran("mail:send_message", 17)
    history.ran("pml:search_tools", 10, request={"query": 3})
    history.ran("files:read_file", 9)
    assert said(await queries.from_history(services)) == [("second try", [["files:read_file"]])]


async def test_all_pages_of_the_history_are_read_up_to_a_limit(
    services: Any, history: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(250):
        history.ran("files:read_file", number, intent=f"read {number}")
    assert len(await queries.from_history(services)) == 250
    monkeypatch.setattr(queries, "MOST_RECORDS", 150)
    assert len(await queries.from_history(services)) == 150


def test_made_queries_are_first_sentences_without_the_words_of_the_name() -> None:
    entries = [
        entry("a:read_file", "Read the whole file from the disk. More."),
        entry("b:read_file", "Read the whole file from the disk. More."),
        entry("a:send", "Send it"),
        entry("a:silent"),
    ]
    assert sorted(said(queries.generated(FakeCatalog(entries)))) == [
        ("Send it", [["a:send"]]),
        ("the whole from the disk.", [["a:read_file", "b:read_file"]]),
        ("the whole from the disk.", [["a:read_file", "b:read_file"]]),
    ]


def test_a_file_has_queries_with_tools_in_any_spelling(tmp_path: Any, services: Any) -> None:
    lines = [
        {"query": "tell Ann", "gold": ["mail__send_message"]},
        {"query": "x", "gold": "files:read_file"},
        {"query": "y", "gold": ["mail:send_message"], "gold_groups": [["mail:send_message", "files:read_file"]]},
    ]
    path = tmp_path / "q.jsonl"
    path.write_text("\ufeff" + "\n\n".join(map(json.dumps, lines)))
    assert said(queries.from_file(str(path), services.catalog)) == [
        ("tell Ann", [["mail:send_message"]]),
        ("x", [["files:read_file"]]),
        ("y", [["files:read_file", "mail:send_message"]]),
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2: not JSON"),
        ("[]", "line 2: expected"),
        ('{"query": " ", "gold": ["a"]}', "line 2: expected"),
        ('{"query": "a", "gold": []}', "line 2: expected"),
        ('{"query": "a", "gold": ["no:tool"]}', "line 2: there is no tool 'no:tool'"),
        ('{"query": "a", "gold": [3]}', "line 2: there is no tool 3"),
        ('{"query": "a", "gold": ["files:read_file"], "gold_groups": [3]}', "line 2: gold_groups"),
    ],
)
def test_a_line_that_does_not_fit_is_named(tmp_path: Any, services: Any, line: str, said: str) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(f'{{"query": "a", "gold": ["files:read_file"]}}\n{line}\n')
    with pytest.raises(InvalidArguments, match=said.replace("[", r"\[")):
        list(queries.from_file(str(path), services.catalog))


async def test_the_source_is_as_asked_or_the_best_there_is(tmp_path: Any, services: Any, history: Any) -> None:
    async def source(**wish: Any) -> str:
        wishes = {"file": None, "source": None, "limit": 3, **wish}
        found = await queries.gather(services, **wishes)
        assert len(found.items) <= 3
        return found.source

    assert await source() == "generated"
    with pytest.raises(InvalidArguments, match="use --from generated"):
        await source(source="history")
    for number in range(queries.ENOUGH):
        history.ran("files:read_file", number, intent=f"read {number}")
    assert await source() == "history"
    assert await source(source="generated") == "generated"
    (tmp_path / "empty").touch()
    with pytest.raises(InvalidArguments, match="no queries in the file"):
        await source(file=str(tmp_path / "empty"))
    with pytest.raises(InvalidArguments, match="cannot be read"):
        await source(file=str(tmp_path))
    services.catalog = FakeCatalog([entry("a:b")])
    with pytest.raises(InvalidArguments, match="no tools with descriptions"):
        await source(source="generated")
