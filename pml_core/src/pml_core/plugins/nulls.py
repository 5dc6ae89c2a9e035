"""What works with nothing installed: a store that remembers the last hundred executions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pml_stores import memory

if TYPE_CHECKING:
    from pml_hookspecs import Json

REMEMBERED = 100
REMEMBERED_DOCUMENTS = 10_000
REMEMBERED_DOCUMENT_BYTES = 64 * 1024 * 1024


class MemoryStore(memory.MemoryStore):
    """A store that forgets the oldest first, and everything at the end."""

    def __init__(self, settings: Any = None, services: Any = None, *, remembered: int = REMEMBERED) -> None:
        super().__init__(
            most_executions=remembered,
            most_documents=REMEMBERED_DOCUMENTS,
            most_document_bytes=REMEMBERED_DOCUMENT_BYTES,
        )

    async def health(self) -> Mapping[str, Json]:
        """How much it holds."""
        return {"kind": "memory", **await super().health()}
