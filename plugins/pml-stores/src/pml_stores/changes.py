"""What changes in a store in memory: what it is called, and who takes note of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
Key: TypeAlias = str | tuple[str, ...]
Change: TypeAlias = tuple[str, Key, Any]
"""What it is, under which name, and what it is now: None when it is gone.

============= ======================= =========================================================
``execution`` id                      :class:`~pml_hookspecs.ExecutionRecord`; its spans go with it
``span``      trace id, span id       :class:`~pml_hookspecs.Ended`
``document``  collection, key         :class:`~pml_hookspecs.Document`
``tools``     server                  fingerprint and the sequence of :class:`~pml_hookspecs.CatalogEntry`
``server``    name                    :class:`~pml_hookspecs.ServerStatus`
``secret``    owner, name             text
============= ======================= =========================================================
"""


class Changes(Protocol):
    """Where the parts of a store tell what changes."""

    drops: int
    """What nobody waits for and could not be kept, and documents forgotten for lack of room."""

    def change(self, *changes: Change, soon: bool = False) -> None:
        """Have all of this be so; ``soon``: nobody waits for it to be durable."""
        ...

    def change_soon(self, kind: str, key: Key, value: Any) -> None:
        """As :meth:`change`, for the request path: never raises, and counts what cannot be kept."""
        ...


class MemoryTable(Generic[T]):
    """One table in memory: values by key."""

    def __init__(self) -> None:
        """Empty."""
        self.values: dict[Key, T] = {}

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.values)

    def apply(self, key: Key, value: T | None) -> None:
        """Take note that this is under ``key`` now; None for nothing."""
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value

    def all(self) -> Iterator[tuple[Key, T]]:
        """What :meth:`apply` would have to be told."""
        return iter(self.values.items())
