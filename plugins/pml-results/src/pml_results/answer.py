"""A ``CallToolResult`` taken apart: what a budget counts, and what stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from pml_hookspecs import RawObject, encode

from .levels import beginning, level, long_text, whole
from .storage import Kind

STRUCTURED = "structuredContent"
_members: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
_blocks: msgspec.json.Decoder[list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class Body:
    """What of an answer is read as text."""

    text: str
    kind: Kind
    others: tuple[Mapping[str, Any], ...]
    """Blocks that are no text: images, audio, resources and links."""
    rest: Mapping[str, Any]
    """Members of the answer besides both contents."""
    structured: bool = False
    """Whether there is a structured content."""

    @property
    def is_error(self) -> bool:
        """Whether the tool failed."""
        return bool(self.rest.get("isError"))


def opened(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The members of ``answer``, its structured content as JSON text.

    :attr:`RawObject.value` takes the text of the whole besides, and keeps what it finds as long as the answer is used.
    """
    if not isinstance(answer, RawObject):
        return answer
    try:
        members = _members.decode(answer.raw)
        return {name: READERS.get(name, whole)(raw) for name, raw in members.items()}
    except (msgspec.MsgspecError, ValueError):  # lone surrogates and what only Python takes for JSON
        return answer


def _structured(raw: msgspec.Raw) -> Any:
    return raw if beginning(raw) == b"{" else whole(raw)


def _content(raw: msgspec.Raw) -> Any:
    return [_block(one) if beginning(one) == b"{" else whole(one) for one in _blocks.decode(raw)]


def _block(raw: msgspec.Raw) -> dict[str, Any]:
    return {name: long_text(member) for name, member in _members.decode(raw).items()}


READERS: Mapping[str, Callable[[msgspec.Raw], Any]] = {"content": _content, STRUCTURED: _structured}


def body_of(answer: Mapping[str, Any]) -> Body | None:
    """What a budget counts: the structured content, else the texts, as references to the result see them.

    The texts beside a structured content count as the same told twice (MCP 2025-06-18, structured content); where they
    are no JSON, both are kept, as ``{"structured": ..., "text": ...}``. None for an answer without text.
    """
    members = opened(answer)
    content, structured = members.get("content"), members.get(STRUCTURED)
    blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, Sequence) else []
    texts = [text for block in blocks if (text := _text(block)) is not None]
    others = tuple(block for block in blocks if _text(block) is None)
    rest = {name: member for name, member in members.items() if name not in ("content", STRUCTURED)}
    if structured is not None:
        text = _json(structured)
        if texts and not is_json("\n".join(texts)):
            text = '{"structured":' + text + ',"text":' + _json("\n".join(texts)) + "}"
        return Body(text, "json", others, rest, structured=True)
    if not texts:
        return None
    if len(texts) == 1 and is_json(texts[0]):
        return Body(texts[0], "json", others, rest)
    return Body("\n".join(texts), "text", others, rest)


def is_json(text: str) -> bool:
    """Whether ``text`` is a JSON object or array: a number or a word in quotation marks is a text as well."""
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        level(text)
    except ValueError:
        return False
    return True


def _text(block: Mapping[str, Any]) -> str | None:
    text = block.get("text") if block.get("type") == "text" else None
    return text if isinstance(text, str) else None


def _json(value: Any) -> str:
    if isinstance(value, msgspec.Raw):
        return str(memoryview(value), "utf-8", "replace")
    return encode(value).decode(errors="replace")
