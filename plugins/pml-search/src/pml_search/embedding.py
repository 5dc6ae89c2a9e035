"""What a model that embeds texts adds to a search, if one is installed.

Vectors of tools are made in the background, by text, and kept in a file for each model. What is made for a catalog
counts when all of it is done, so that results change once, not with every batch. A query waits for its vector for a
short while; what comes later, and a model that fails, leaves the table of word pieces as it is.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pml_kit.offers import EMBEDDER

from . import vector_file
from ._numpy import Array, NDArray, np
from .rows import short
from .vectors import CentredVectors, PackedVectors, joined, packed
from .words import CAMEL

if TYPE_CHECKING:
    from pml_hookspecs import Services
    from pml_kit.offers import Embedder

    from .ranker import Ranker
    from .rows import Tool

LONGEST_TEXT = 1000
"""What of a tool is embedded [characters]."""
BATCH = 32
"""Texts that are embedded together."""
SAVED_EACH = 1024
"""Texts after which the file is written, so that an end in between loses little."""
MOST_QUERIES = 1000
"""Parts of queries whose vectors are remembered."""
CENTRED = 0.5
"""How much of what all tools have in common is taken out of a model's vectors."""
ENOUGH = 0.9
"""Share of the tools that have vectors for these to count: what the model has not seen would be at a disadvantage."""
REST_S = 30.0
"""How long a model that failed is left alone [s]."""


def text_of_tool(tool: Tool) -> str:
    """What of a tool is embedded."""
    name, description = tool.definition.get("name"), tool.definition.get("description")
    words = CAMEL.sub(" ", str(name or "")).replace("_", " ").replace("-", " ")
    said = description if isinstance(description, str) else ""
    return f"{short(tool.server)} {words}: {said}"[:LONGEST_TEXT]


def _texts(tools: Sequence[Tool]) -> dict[bytes, str]:
    return {vector_file.key(text): text for text in map(text_of_tool, tools)}


def _gathered(
    tools: Sequence[Tool], known: PackedVectors | None, of_key: Mapping[bytes, int]
) -> tuple[CentredVectors, NDArray[np.bool_]] | None:
    """Vectors of ``tools`` and which of them have one; None when too few have."""
    places = np.array([of_key.get(vector_file.key(text_of_tool(tool)), -1) for tool in tools], np.int64)
    has = (places >= 0) & (places < (0 if known is None else len(known)))
    if known is None or has.sum() < max(1, ENOUGH * len(tools)):
        return None
    return CentredVectors(known.chosen(places[has]), CENTRED), has


class EmbeddingScores:
    """What the model says about one query and the tools of one ranker."""

    def __init__(self, vectors: CentredVectors, has: NDArray[np.bool_], asked: Array, weight: float) -> None:
        self._vectors, self._has, self._asked, self.weight = vectors, has, asked, weight

    def cosines(self) -> Array:
        out = np.full((len(self._asked), len(self._has)), np.nan, np.float32)
        out[:, self._has] = self._vectors.cosines(self._asked)
        return out


class EmbeddingIndex:
    """The vectors of the catalog by the configured model, computed in the background.

    Args:
        services: Its embedder may appear after the gateway has started.
        weight: What the model counts against the table [0 to 1].
        deadline_s: How long a search waits for the vector of its query [s].
        folder: Where vectors are kept; None keeps none.
    """

    def __init__(self, services: Services, *, weight: float, deadline_s: float, folder: Path | None) -> None:
        self._services, self._weight, self._deadline_s, self._folder = services, weight, deadline_s, folder
        self._found: Embedder | None = None
        self._model = ""
        self._places: dict[bytes, int] = {}
        self._known: PackedVectors | None = None
        self._wanted: Sequence[Tool] = ()
        self._working: asyncio.Event | None = None
        self.busy = False
        """Whether vectors of tools are being made."""
        self._of_ranker: WeakKeyDictionary[Ranker, tuple[CentredVectors, NDArray[np.bool_]] | None] = (
            WeakKeyDictionary()
        )
        self._queries: OrderedDict[str, Array] = OrderedDict()
        self._pending: dict[str, asyncio.Event] = {}
        self._resting_until = 0.0

    def request_vectors(self, tools: Sequence[Tool]) -> None:
        """Have the vectors of ``tools``, all there are now, made in the background, if there is a model."""
        self._wanted = tools
        if self._embedder() is None:
            return
        if self._working is None:
            self._working = asyncio.Event()
            self._working.set()
            self._services.spawn(self._work, name="embed-tools")
        else:
            self._working.set()

    def _embedder(self) -> Embedder | None:
        if self._found is None and self._weight > 0:
            self._found = self._services.find(EMBEDDER)
        return self._found

    async def _work(self) -> None:
        while self._working is not None:
            await self._working.wait()
            self._working.clear()
            self.busy = True
            try:
                await self._embed_tools()
            except Exception as exc:
                self._rest("tools are searched without the model that embeds texts: it failed", exc)
                await asyncio.sleep(REST_S)
                self._working.set()
            finally:
                self.busy = False

    async def _embed_tools(self) -> None:
        embedder, tools = self._embedder(), self._wanted
        if embedder is None:
            return
        if self._model != embedder.name:
            self._model, self._places, self._known = embedder.name, {}, None
            self._queries.clear()
            if self._folder is not None:
                known = await asyncio.to_thread(vector_file.load, self._folder, embedder.name)
                if known is not None:
                    self._places, self._known = {key: place for place, key in enumerate(known[0])}, known[1]
        texts = await asyncio.to_thread(_texts, tools)
        missing = [key for key in texts if key not in self._places]
        for at in range(0, len(missing), SAVED_EACH):
            some = missing[at : at + SAVED_EACH]
            made = []
            for first in range(0, len(some), BATCH):
                batch = [texts[key] for key in some[first : first + BATCH]]
                made.append(self._checked(await embedder.embed(batch, query=False), len(batch)))
            self._add(some, made, frozenset(texts))
            await self._save()
            if self._wanted is not tools:
                return
        self._of_ranker.clear()

    def _checked(self, vectors: Any, count: int) -> PackedVectors:
        made = np.asarray(vectors, np.float32)
        if made.ndim != 2 or len(made) != count or not np.isfinite(made).all():  # noqa: PLR2004 - rows, columns
            raise ValueError(f"it gave an array of shape {made.shape} or with bad numbers for {count} texts")
        if self._known is not None and self._known.numbers.shape[1] != made.shape[1]:
            self._places, self._known = {}, None
            raise ValueError(f"its vectors have another size than before: {made.shape[1]}")
        return packed(made)

    def _add(self, keys: Sequence[bytes], vectors: Sequence[PackedVectors], used: frozenset[bytes]) -> None:
        known = joined([*([] if self._known is None else [self._known]), *vectors])
        left, self._known = vector_file.kept([*self._places, *keys], known, used)
        # Others: a thread may look up the ones before.
        self._places = {key: place for place, key in enumerate(left)}

    async def _save(self) -> None:
        if self._folder is None or self._known is None:
            return
        try:
            await asyncio.to_thread(vector_file.save, self._folder, self._model, list(self._places), self._known)
        except OSError as exc:
            self._services.log.warning("vectors of tools are not kept for the next start", error=str(exc))

    async def scores(
        self, ranker: Ranker, tools: Callable[[], Sequence[Tool]], texts: Sequence[str]
    ) -> EmbeddingScores | None:
        """What the model says about a query; None without a model, without vectors, or when it takes too long.

        Args:
            ranker: Whose tools they are.
            tools: Gives them in the order of the ranker's index.
            texts: The query and its clauses.
        """
        embedder = self._embedder()
        if embedder is None:
            return None
        if self._working is None:
            self.request_vectors(self._wanted)
        if embedder.name != self._model:
            return None
        if ranker not in self._of_ranker:
            of_tools = await asyncio.to_thread(_gathered, tools(), self._known, self._places)
            self._of_ranker[ranker] = of_tools
        vectors = self._of_ranker[ranker]
        if vectors is None:
            return None
        asked = await self._asked(embedder, texts)
        return None if asked is None else EmbeddingScores(*vectors, asked, self._weight)

    async def _asked(self, embedder: Embedder, texts: Sequence[str]) -> Array | None:
        """The vectors of the parts of a query; None when they are not there in time."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._queries]
        if missing:
            if time.monotonic() < self._resting_until:
                return None
            key = "\0".join(missing)
            ended = self._pending.get(key)
            if ended is None:
                ended = self._pending[key] = asyncio.Event()
                self._services.spawn(self._embed_query, embedder, key, missing, name="embed-query")
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), self._deadline_s)
        if any(text not in self._queries for text in texts):
            return None
        for text in texts:
            self._queries.move_to_end(text)
        return np.stack([self._queries[text] for text in texts])

    async def _embed_query(self, embedder: Embedder, key: str, texts: Sequence[str]) -> None:
        try:
            vectors = np.asarray(await embedder.embed(texts, query=True), np.float32)
            size = -1 if self._known is None else self._known.numbers.shape[1]
            if vectors.shape != (len(texts), size) or not np.isfinite(vectors).all():
                raise ValueError(f"it gave an array of shape {vectors.shape} for {len(texts)} texts")
            self._queries.update(zip(texts, vectors, strict=True))
            while len(self._queries) > MOST_QUERIES:
                self._queries.popitem(last=False)
        except Exception as exc:
            self._rest("a query is searched without the model that embeds texts: it failed", exc)
        finally:
            self._pending.pop(key).set()

    def _rest(self, event: str, exc: Exception) -> None:
        self._resting_until = time.monotonic() + REST_S
        self._services.log.warning(event, model=self._model, error=str(exc) or type(exc).__name__, again_in_s=REST_S)
