"""What a model gets in place of an answer that is too large: enough to act on, and how to get the rest."""

from __future__ import annotations

import json

from pml_kit.mcp.tokens import estimate

from .answer import Body
from .definition import READ, URI
from .outline import CHARACTERS_PER_TOKEN, cut_text, text_outline, value_outline
from .shape import shape_of
from .storage import StoredResult

SHAPE_PART = 1 / 3
"""Of the budget, the most that the shape takes."""
LEAST_TOKENS = 60
"""What the beginning gets in any case [tokens]."""


def preview(body: Body, stored: StoredResult, budget_tokens: int, *, by: str, listed: bool = False) -> str:
    """A text of about ``budget_tokens``: why it was cut, what there is, how it begins, how to read on.

    Args:
        body: What was too large.
        stored: Where it is.
        budget_tokens: Of the answer [tokens].
        by: The tool by which the client calls others, such as ``read_result``; ``""`` where there is none.
        listed: Whether the client is shown ``read_result`` itself.
    """
    read_by, passed = "" if listed else by, f"arguments of {by} or a plan" if by else "arguments of a plan"
    size = _size(stored.size_bytes)
    what = "This error" if body.is_error else "This result"
    head = f"{what} is {size}, more than the {budget_tokens:,} tokens allowed; all of it is stored as {stored.id}."
    if body.kind == "json":
        shape = cut_text(str(shape_of(body.text)), int(budget_tokens * SHAPE_PART * CHARACTERS_PER_TOKEN))
        how = (
            f"{call(stored, by=read_by, select='<JMESPath>')} reads parts; path, search and page do as well. "
            f'"{{{{result:{stored.id}.<path>}}}}" in {passed} hands one on unread.'
        )
        room = max(LEAST_TOKENS, budget_tokens - estimate(head) - estimate(shape) - estimate(how))
        return f"{head}\nShape: {shape}\n{how}\nIt begins:\n{value_outline(body.text, room)}"
    lines = body.text.count("\n") + 1
    how = (
        f"{call(stored, by=read_by, lines='1-100')} reads lines, of {lines:,}; search and page do as well. "
        f'"{{{{result:{stored.id}}}}}" in {passed} hands it on unread.'
    )
    room = max(LEAST_TOKENS, budget_tokens - estimate(head) - estimate(how))
    return f"{head}\n{how}\n{text_outline(body.text, room)}"


def about(stored: StoredResult) -> dict[str, object]:
    """The same for programs, in ``_meta``."""
    return {"id": stored.id, "size_bytes": stored.size_bytes, "expires_at": stored.expires_at.isoformat()}


def link(stored: StoredResult) -> dict[str, object]:
    """The same as a block for clients that read resources (MCP 2025-06-18, resource links)."""
    return {
        "type": "resource_link",
        "uri": f"{URI}{stored.id}",
        "name": stored.id,
        "mimeType": "application/json" if stored.kind == "json" else "text/plain",
        "size": stored.size_bytes,
    }


def call(stored: StoredResult, *, by: str, **part: object) -> str:
    """How a part is asked for, as a model would write it."""
    arguments = {"id": stored.id, **part}
    if not by:
        return f"{READ} {json.dumps(arguments)}"
    return f"{by} {json.dumps({'name': READ, 'arguments': arguments})}"


def refusal(stored: StoredResult, *, by: str) -> str:
    """What is said where no preview fits the schema that the tool declares."""
    return (
        f"The call succeeded, and is not to be repeated. Its result is {_size(stored.size_bytes)}, which is more than "
        "may be answered, and the tool declares a schema that no part of it fits. "
        f"Read it with {call(stored, by=by, page=1)}."
    )


def _size(size_bytes: int) -> str:
    for unit, least in (("MB", 10**6), ("kB", 10**3)):
        if size_bytes >= least:
            return f"{size_bytes / least:.{0 if size_bytes >= 10 * least else 1}f} {unit}"
    return f"{size_bytes} bytes"
