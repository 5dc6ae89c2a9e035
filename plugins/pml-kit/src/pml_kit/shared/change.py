"""Changes of documents that several gateways change: each is made to what is there, and none is lost."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from pml_hookspecs import encode

if TYPE_CHECKING:
    from pml_hookspecs import Document, Documents

T = TypeVar("T")
ATTEMPTS = 60
"""How often others may be faster before the store is taken for out of order."""
LONGEST_PAUSE_S = 0.05
"""Between two attempts [s]."""


class ContentionError(RuntimeError):
    """Others changed the document at each attempt."""


@dataclass(frozen=True, slots=True)
class Write:
    """What is to stand in a document."""

    value: Mapping[str, Any]
    marks: Mapping[str, str] | None = None
    keep_s: float | None = None
    """Forgotten when it was not written for so long, by the clock of whoever looks; None for never [s]."""


async def change(
    documents: Documents, collection: str, key: str, edit: Callable[[Document | None], tuple[T, Write | None]]
) -> T:
    """What ``edit`` returns first, once what it returns second is durable.

    Args:
        documents: Where.
        collection: Which one.
        key: Which document.
        edit: Gets the document that is there, None when there is none. None leaves it as it is, and so does what stands
            there already. Called once for each attempt; what it raises ends the change.

    Raises:
        ContentionError: Others were faster each time.
        Exception: The store cannot be read or written.
    """
    import asyncio  # a tenth of a plugin's import, which those pay as well that change nothing

    for attempt in range(ATTEMPTS):
        found = await documents.get(collection, key)
        result, write = edit(found)
        if write is None or (found is not None and _stands(found, write)):
            return result
        until = None if write.keep_s is None else datetime.now(UTC) + timedelta(seconds=write.keep_s)
        version = 0 if found is None else found.version
        put = documents.put(collection, key, write.value, marks=write.marks, expires_at=until, if_version=version)
        if await put is not None:
            return result
        await asyncio.sleep(random.uniform(0, min(LONGEST_PAUSE_S, 0.001 * 2**attempt)))  # noqa: S311 - no secret
    raise ContentionError(f"{collection} {key}: {ATTEMPTS} times another gateway was faster")


def plain(found: Document | None) -> dict[str, Any]:
    """The value of a document, to be changed in place; empty when there is none."""
    value: dict[str, Any] = {} if found is None else json.loads(encode(found.value))
    return value


def _stands(found: Document, write: Write) -> bool:
    same: bool = plain(found) == json.loads(encode(write.value))
    return same and dict(found.marks) == dict(write.marks or {})
