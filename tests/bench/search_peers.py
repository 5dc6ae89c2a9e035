"""Other ways to search for tools, behind the protocol of ``pml search --jsonl``.

    python tests/bench/search_peers.py PEER CATALOG

PEER is ``fts5`` (SQLite's, all texts of a tool in one row each for name, description and parameters), ``words`` (what
PML falls back on without pml-search), ``bm25s`` (that package, names split, stop words out) or ``fastmcp`` (the search
transform of FastMCP; runs in an environment that has FastMCP 4).
"""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import sys
from pathlib import Path

WORD = re.compile(r"[^\W_]+")
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def words(text):
    return [word.lower() for word in WORD.findall(CAMEL.sub(" ", text))]


def parameters(schema):
    for name, inner in ((schema or {}).get("properties") or {}).items():
        yield name
        if isinstance(inner, dict) and isinstance(inner.get("description"), str):
            yield inner["description"]


def texts(tool):
    yield f"{tool['server']} {tool['name']} {tool.get('title') or ''}"
    yield tool.get("description") or ""
    yield " ".join(parameters(tool.get("input_schema")))


class Fts5:
    """Each word of the query may match; columns weigh 4, 1 and 1."""

    def __init__(self, tools):
        self._ids = [tool["id"] for tool in tools]
        self._database = sqlite3.connect(":memory:")
        self._database.execute("CREATE VIRTUAL TABLE tools USING fts5(name, description, parameters, tokenize=porter)")
        rows = [[" ".join(words(text)) for text in texts(tool)] for tool in tools]
        self._database.executemany("INSERT INTO tools VALUES (?, ?, ?)", rows)

    def search(self, query, k):
        asked = " OR ".join(f'"{word}"' for word in dict.fromkeys(words(query)))
        if not asked:
            return []
        found = self._database.execute(
            "SELECT rowid FROM tools WHERE tools MATCH ? ORDER BY bm25(tools, 4, 1, 1) LIMIT ?", (asked, k)
        )
        return [self._ids[row - 1] for (row,) in found]


class Words:
    """The index of pml-catalog."""

    def __init__(self, tools):
        from pml_catalog.search.word_index import WordIndex
        from pml_hookspecs import CatalogEntry, ToolId

        self._index = WordIndex()
        entries = []
        for tool in tools:
            definition = {"name": tool["name"], "description": tool.get("description") or ""}
            definition["inputSchema"] = tool.get("input_schema") or {}
            entries.append(CatalogEntry(ToolId(tool["id"]), tool["server"], definition, 0))
        asyncio.run(self._index.build(entries, ""))

    def search(self, query, k):
        found = asyncio.run(self._index.search(query, limit=k, min_score=0.0))
        return [match.id for match in found]


class Bm25s:
    """The package bm25s with its usual settings."""

    def __init__(self, tools):
        import bm25s

        self._package, self._ids = bm25s, [tool["id"] for tool in tools]
        self._index = bm25s.BM25()
        corpus = [" ".join(words(" ".join(texts(tool)))) for tool in tools]
        self._index.index(bm25s.tokenize(corpus, stopwords="en", show_progress=False), show_progress=False)

    def search(self, query, k):
        asked = self._package.tokenize([" ".join(words(query))], stopwords="en", show_progress=False)
        found, _ = self._index.retrieve(asked, k=min(k, len(self._ids)), show_progress=False)
        return [self._ids[place] for place in found[0]]


class Fastmcp:
    """FastMCP's transform, asked for its ranking as its search tool does; names carry the server, as mounted."""

    def __init__(self, tools):
        from fastmcp.server.transforms.search import BM25SearchTransform
        from fastmcp.tools import Tool

        self._loop, self._ids, self._tools = asyncio.new_event_loop(), {}, []
        for tool in tools:
            name = re.sub(r"[^A-Za-z0-9_.-]", "_", f"{tool['server']}_{tool['name']}")
            name = name if name not in self._ids else f"{name}_{len(self._ids)}"
            self._ids[name] = tool["id"]
            given = tool.get("input_schema") or {"type": "object"}
            self._tools.append(Tool(name=name, description=tool.get("description"), parameters=given))
        self._transform = BM25SearchTransform(max_results=50)

    def search(self, query, k):
        found = self._loop.run_until_complete(self._transform._search(self._tools, query))
        return [self._ids[tool.name] for tool in found][:k]


PEERS = {"fts5": Fts5, "words": Words, "bm25s": Bm25s, "fastmcp": Fastmcp}


def main():
    name, catalog = sys.argv[1:]
    with Path(catalog).open(encoding="utf-8") as lines:
        peer = PEERS[name]([json.loads(line) for line in lines])
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps({"qid": asked["qid"], "ids": peer.search(asked["query"], asked["k"])}), flush=True)


if __name__ == "__main__":
    main()
