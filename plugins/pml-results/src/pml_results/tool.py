"""Parts of what was stored: for clients by ``read_result``, for arguments of tasks by references."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio.to_thread
import msgspec

from pml_hookspecs import GATEWAY_SERVER, InvalidArguments, Json, Run, Services, Session, encode
from pml_kit.references import Reference

from .definition import READ, URI
from .levels import beginning, whole
from .outline import CHARACTERS_PER_TOKEN, fits, printed
from .parts import at_keys, at_path, decoded, lines_of, page_of, searched, select_in
from .settings import Settings
from .storage import StoredResult, StoredResults

DEFAULT_TOKENS = 8000
"""Of an answer where the mode has no budget [tokens]."""
LEAST_TOKENS = 200
"""Of an answer, where a budget is smaller than what reading is worth [tokens]."""


class ReadRequest(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What is asked of ``read_result``."""

    id: str
    path: str = ""
    select: str = ""
    lines: str = ""
    search: str = ""
    page: int | None = None


async def resource(arguments: Mapping[str, Any], run: Run, results: StoredResults) -> str:
    """The whole text of the result whose ``uri`` is given.

    Raises:
        InvalidArguments: It is not there for the caller.
    """
    stored = await results.get(str(arguments.get("uri")).removeprefix(URI), run.session)
    return await results.text(stored)


class ReadResult:
    """Answers ``read_result``."""

    def __init__(self, services: Services, settings: Settings, stored: StoredResults) -> None:
        self._services, self._settings, self._stored = services, settings, stored

    async def __call__(self, arguments: Mapping[str, Any], run: Run) -> str:
        request = _request(arguments)
        stored = await self._stored.get(request.id, run.session)
        text = await self._stored.text(stored)
        budget = self._settings.budget(f"{GATEWAY_SERVER}:{READ}", run.session) or DEFAULT_TOKENS
        return await anyio.to_thread.run_sync(_read, request, stored, text, max(budget, LEAST_TOKENS))


def _request(arguments: Mapping[str, Any]) -> ReadRequest:
    try:
        request = msgspec.convert(dict(arguments), ReadRequest)
    except msgspec.ValidationError as exc:
        raise InvalidArguments(f"{READ}: {exc}") from exc
    ways = [way for way in ("lines", "search") if getattr(request, way)]
    if len(ways) > 1 or (ways and request.page is not None):
        raise InvalidArguments(f"{READ}: give one of lines, search and page")
    return request


def _read(request: ReadRequest, stored: StoredResult, text: str, budget_tokens: int) -> str:
    """What was asked for, as text of about ``budget_tokens`` at most.

    Raises:
        InvalidArguments: It does not fit what is stored.
    """
    if stored.kind == "json":
        raw = at_path(text, request.path)
        if request.select:
            raw = encode(select_in(raw, request.select))
            if raw == b"null":
                return "null (select found nothing)"
        text = _text_of(raw)
    elif request.path or request.select:
        raise InvalidArguments(f"{stored.id} is text; path and select are for JSON: give lines, search or page")
    if request.lines:
        part, first, last, count = lines_of(text, request.lines)
        head = f"Lines {first:,} to {last:,} of {count:,}:"
        return (
            f"{head}\n{part}"
            if fits(part, budget_tokens)
            else f"{head} (cut; ask for fewer)\n{_first(part, budget_tokens)}"
        )
    if request.search:
        hits, count = searched(text, request.search)
        shown = "\n".join(f"{number}: {line}" for number, line in hits)
        more = f", the first {len(hits)}" if count > len(hits) else ""
        return f"{count:,} lines{more}:\n{_first(shown, budget_tokens)}" if hits else "No line has all of these words."
    if request.page is None and fits(text, budget_tokens):
        return text
    number = 1 if request.page is None else request.page
    page, pages = page_of(text, number, budget_tokens * CHARACTERS_PER_TOKEN)
    return page if pages == 1 else f"Page {number:,} of {pages:,}:\n{page}"


async def value_of(reference: Reference, session: Session, results: StoredResults) -> Json:
    """What ``reference`` finds for ``session``.

    Raises:
        InvalidArguments: It is to nothing that is there for it.
    """
    stored = await results.get(reference.stored, session)
    text = await results.text(stored)
    if stored.kind == "json":
        value: Json = await anyio.to_thread.run_sync(lambda: decoded(at_keys(text, reference.path)))
        return value
    if reference.path:
        raise InvalidArguments(f"{stored.id} is text, which has no parts; write {{{{{reference.task}}}}}")
    return text


def _text_of(raw: Any) -> str:
    """JSON on lines; a text as it is, without quotation marks."""
    value = whole(raw) if beginning(raw) == b'"' else None
    return value if isinstance(value, str) else printed(raw)


def _first(text: str, budget_tokens: int) -> str:
    return text if fits(text, budget_tokens) else text[: budget_tokens * CHARACTERS_PER_TOKEN]
