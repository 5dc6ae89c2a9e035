"""Answers that are too large become previews."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import anyio.to_thread

from pml_hookspecs import RawObject, Services, Session, ToolId
from pml_kit.mcp.tool_schemas import output_schema
from pml_kit.offers import INDIRECT_CALLS

from .answer import Body, body_of
from .compaction import compacted
from .definition import LINKS_SINCE, META
from .outline import fits
from .preview import about, link, preview, refusal
from .settings import Settings, Way
from .storage import FullError, StoredResult, StoredResults

T = TypeVar("T")
LARGE = 16 * 1024
"""Bytes of an answer from which it is looked at beside the event loop: counting tokens takes 0.5 ms a kB."""


class LargeAnswers:
    """Stores what exceeds its budget, and answers a preview with a handle; writes compactly what is to be."""

    def __init__(self, services: Services, settings: Settings, stored: StoredResults) -> None:
        self._services, self._settings, self._stored = services, settings, stored

    async def shaped(self, answer: Mapping[str, Any], tool: str, session: Session) -> Mapping[str, Any]:
        """What ``session`` is answered in place of ``answer``, or that itself."""
        if ways := self._settings.compactions(tool):
            answer = await _off_loop(answer, lambda: self._compacted(answer, tool, ways))
        budget = self._settings.budget(tool, session)
        if not budget or _is_small(answer, budget):
            return answer
        body = await _off_loop(answer, lambda: _too_large(answer, budget))
        return answer if body is None else await self._cut(answer, body, tool, session, budget)

    async def _cut(
        self, answer: Mapping[str, Any], body: Body, tool: str, session: Session, budget: int
    ) -> Mapping[str, Any]:
        """What is answered in place of an answer whose ``body`` is too large."""
        declared = body.structured and not body.is_error and self._declares(tool)
        if declared and self._settings.declared == "whole":
            return answer
        try:
            stored = await self._stored.keep(body.text, body.kind, tool, session)
        except FullError as exc:
            self._services.log.warning(
                "a large result is answered whole, as it cannot be stored", tool=tool, why=str(exc)
            )
            return answer
        if declared:
            by = "" if self._settings.listed else self._by(session)
            return _shaped(body, refusal(stored, by=by), (), stored) | {"isError": True}
        # Revisions are dates; the empty one is that of whoever is no client, such as a schedule.
        links = [link(stored)] if session.protocol >= LINKS_SINCE else []
        text = await self._preview(body, stored, budget, self._by(session))
        return _shaped(body, text, (*body.others, *links), stored)

    def _compacted(self, answer: Mapping[str, Any], tool: str, ways: Sequence[Way]) -> Mapping[str, Any]:
        """``answer`` with shorter texts; one that declares its schema, or of which nothing gets shorter, as it is."""
        body = body_of(answer)
        if body is None or body.is_error or self._declares(tool):
            return answer
        text = compacted(body.text, ways)
        if text is body.text:
            return answer
        return {**body.rest, "content": [{"type": "text", "text": text}, *body.others]}

    def _by(self, session: Session) -> str:
        """The tool by which a client calls ``read_result``, which only reads; ``""`` where no plugin has one."""
        calls = self._services.find(INDIRECT_CALLS)
        return "" if calls is None else calls(session, "read")

    async def _preview(self, body: Body, stored: StoredResult, budget: int, by: str) -> str:
        def made() -> str:
            return preview(body, stored, budget, by=by, listed=self._settings.listed)

        return made() if len(body.text) < LARGE else await anyio.to_thread.run_sync(made)

    def _declares(self, tool: str) -> bool:
        entry = self._services.catalog.get(ToolId(tool))
        return entry is not None and output_schema(entry) is not None


async def _off_loop(answer: Mapping[str, Any], work: Callable[[], T]) -> T:
    """Do what takes long with a large answer beside the event loop."""
    is_large = not isinstance(answer, RawObject) or len(answer.raw) > LARGE
    return await anyio.to_thread.run_sync(work) if is_large else work()


def _too_large(answer: Mapping[str, Any], budget: int) -> Body | None:
    """What of ``answer`` exceeds its budget; None where nothing does."""
    body = body_of(answer)
    return None if body is None or fits(body.text, budget) else body


def _is_small(answer: Mapping[str, Any], budget: int) -> bool:
    """Whether an answer is so small that it need not be read: no text has more tokens than bytes."""
    return isinstance(answer, RawObject) and len(answer.raw) <= budget


def _shaped(body: Body, text: str, others: tuple[Mapping[str, Any], ...], stored: StoredResult) -> dict[str, Any]:
    meta = body.rest.get("_meta")
    return {
        **body.rest,
        "content": [{"type": "text", "text": text}, *others],
        "_meta": {**(meta if isinstance(meta, Mapping) else {}), META: about(stored)},
    }
