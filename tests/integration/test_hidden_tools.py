"""What ``search_tools`` answers tells nothing of hidden tools, and finds tools by what they take and give."""

from __future__ import annotations

import json
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pml_catalog.live import LiveCatalog, make_entry
from pml_catalog.search.word_index import WordIndex
from pml_search.index import Index
from pml_search_tools.search_tools import SearchTools
from pml_testing.fakes import FakeRun, FakeServices

pytestmark = pytest.mark.anyio
LOG = structlog.get_logger()
WORDS = ("read", "write", "page", "pages", "invoice", "remove", "list", "send", "zyxx", "quarterly")
SCHEMAS = ({}, {"path": {"type": "string"}}, {"url": {"type": "string"}, "count": {"type": "integer"}})
TOOLS = st.lists(
    st.tuples(
        st.sampled_from(["files", "web", "mail"]),
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map("_".join),
        st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join),
        st.sampled_from(SCHEMAS),
        st.sampled_from([None, {"readOnlyHint": True}]),
        st.booleans(),
    ),
    max_size=14,
    unique_by=lambda tool: tool[:2],
)
QUERIES = st.lists(st.sampled_from((*WORDS, "pag", "files__read", "a path")), min_size=1, max_size=4).map(" ".join)
INDEXES = {"pml-search": Index, "words": lambda _log: WordIndex()}


def catalog_of(tools: list[Any], index: Any, hidden: frozenset[str] = frozenset()) -> LiveCatalog:
    catalog = LiveCatalog(LOG, index)
    for server in sorted({tool[0] for tool in tools}):
        definitions = [
            {
                "name": name,
                "description": text,
                "inputSchema": {"type": "object", "properties": schema},
                "annotations": hints,
            }
            for of, name, text, schema, hints, _ in tools
            if of == server
        ]
        catalog.publish(server, [make_entry(server, definition) for definition in definitions])
    catalog.filter_with(lambda entry, _session: "secrecy" if entry.id in hidden else None)
    return catalog


async def answer(catalog: LiveCatalog, arguments: dict[str, Any]) -> bytes:
    services: Any = FakeServices()
    services.catalog = catalog
    return (await SearchTools(services)(arguments, FakeRun())).raw


@pytest.mark.parametrize("index", INDEXES)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(tools=TOOLS, query=QUERIES, reading=st.booleans())
async def test_no_byte_of_an_answer_depends_on_hidden_tools(
    *, index: str, tools: list[Any], query: str, reading: bool
) -> None:
    hidden = frozenset(f"{tool[0]}:{tool[1]}" for tool in tools if tool[-1])
    arguments = {"query": query, "limit": 5, **({"effects": "read_only"} if reading else {})}
    filtered = catalog_of(tools, INDEXES[index](LOG), hidden)
    without = catalog_of([tool for tool in tools if not tool[-1]], INDEXES[index](LOG))
    try:
        for asked in (arguments, arguments | {"detail": "full"}):
            assert await answer(filtered, asked) == await answer(without, asked)
    finally:
        await filtered.close()
        await without.close()


def tool(name: str, text: str, takes: dict[str, Any], gives: dict[str, Any]) -> Any:
    members = {"inputSchema": {"type": "object", "properties": takes}, "outputSchema": gives}
    return make_entry("things", {"name": name, "description": text, **members})


async def test_a_tool_is_found_by_what_it_takes_and_gives() -> None:
    path, url = {"path": {"type": "string"}}, {"url": {"type": "string", "format": "uri"}}
    text = {"type": "object", "properties": {"text": {"type": "string"}}}
    number = {"type": "object", "properties": {"count": {"type": "integer"}}}
    catalog = LiveCatalog(LOG, Index(LOG))
    catalog.publish(
        "things",
        [
            tool("alpha", "Works on one thing.", path, text),
            tool("beta", "Works on one thing.", url, text),
            tool("gamma", "Works on one thing.", path, number),
            tool("delta", "Works on one thing.", url, number),
        ],
    )
    try:
        for query, best in (
            ("takes a path, returns text", "things__alpha"),
            ("takes a url, returns text", "things__beta"),
            ("takes a path, returns a number", "things__gamma"),
            ("takes a url, returns a number", "things__delta"),
        ):
            assert json.loads(await answer(catalog, {"query": query}))["tools"][0]["name"] == best, query
    finally:
        await catalog.close()
