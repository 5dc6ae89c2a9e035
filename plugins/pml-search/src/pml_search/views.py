"""Rankers for those who may find only some of the tools.

Words are worth more the rarer they are, common sentences are left out, misspelt words are corrected to words of the
catalog: all of that would tell of tools that are hidden. So whoever may find only some tools has an index of these
tools, the same to the last bit as if there were no others. It is put together from what was already read of each tool,
which takes a tenth of building it, and is kept for all who may find the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from . import index_data
from ._numpy import np
from .piece_vectors import table
from .ranker import Ranker

if TYPE_CHECKING:
    from .rows import Tool

MOST_VIEWS, MOST_TOOLS = 16, 30_000
"""Bounds of what is kept; the view used last stays whatever its size [views, tools in all of them]."""
MOST_OBJECTS = 256
"""Collections of ids of which it is known what view they stand for."""


class Views:
    """The rankers of one catalog.

    Args:
        tools: All of them, in the order of the index.
        whole: The ranker of all of them.
    """

    def __init__(self, tools: Sequence[Tool], whole: Ranker) -> None:
        self.whole = whole
        self._tools = tools
        self._places = {tool.id: place for place, tool in enumerate(tools)}
        self._keys: dict[int, tuple[Collection[str], bytes | None]] = {}
        self._made: dict[bytes, asyncio.Future[Ranker]] = {}
        self._sizes: dict[bytes, int] = {}

    async def of(self, among: Collection[str] | None) -> Ranker:
        """The ranker for whoever may find ``among``: ids, unknown ones included; None for all.

        The first one who asks waits until it is made, in a thread; all others who ask meanwhile wait for the same one.
        """
        key = None if among is None else self._key(among)
        if key is None:
            return self.whole
        making = self._made.pop(key, None)
        if making is None:
            bits = np.unpackbits(np.frombuffer(key, np.uint8))
            tools = [self._tools[place] for place in np.flatnonzero(bits).tolist()]
            making = asyncio.ensure_future(asyncio.to_thread(self._make, tools))
            self._sizes[key] = len(tools)
        self._made[key] = making
        self._tidy()
        try:
            return await asyncio.shield(making)
        except Exception:
            self._made.pop(key, None)
            raise

    def tools_of(self, ranker: Ranker) -> Sequence[Tool]:
        """The tools of a ranker of this catalog, in the order of its index."""
        if ranker is self.whole:
            return self._tools
        return [self._tools[self._places[tool]] for tool in ranker.data.ids]

    def _key(self, among: Collection[str]) -> bytes | None:
        """One bit for each tool, equal for equal views; None when none is missing."""
        known = self._keys.get(id(among))
        if known is None or known[0] is not among:
            bits = np.zeros(len(self._tools), np.uint8)
            bits[[self._places[tool] for tool in among if tool in self._places]] = 1
            if len(self._keys) >= MOST_OBJECTS:
                del self._keys[next(iter(self._keys))]
            known = self._keys[id(among)] = (among, None if bits.all() else np.packbits(bits).tobytes())
        return known[1]

    def _make(self, tools: Sequence[Tool]) -> Ranker:
        before = self.whole.data
        return Ranker(index_data.build(tools, table(), (before.rows, before.vocabulary)))

    def _tidy(self) -> None:
        """Drop what was not used for longest."""
        while len(self._made) > 1:
            if len(self._made) <= MOST_VIEWS and sum(self._sizes[key] for key in self._made) <= MOST_TOOLS:
                return
            oldest = next(iter(self._made))
            del self._made[oldest], self._sizes[oldest]
