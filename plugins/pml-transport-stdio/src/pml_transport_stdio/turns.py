"""The fallback for servers that cannot work on several requests at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Turns:
    """Lets one request of ours be on its way at a time; the others wait in order."""

    def __init__(self, write: Callable[[tuple[bytes, ...]], None]) -> None:
        """Send with ``write`` what has its turn."""
        self._write = write
        self._active: int | None = None
        self._waiting: dict[int, tuple[bytes, ...]] = {}

    def submit(self, key: int, chunks: tuple[bytes, ...]) -> None:
        """Send a request now, or in its turn."""
        self._waiting[key] = chunks
        self._next()

    def sent(self, key: int) -> bool:
        """Whether a request has had its turn."""
        return key not in self._waiting

    def leave(self, key: int) -> None:
        """A request is over."""
        self._waiting.pop(key, None)
        if key == self._active:
            self._active = None
            self._next()

    def clear(self) -> None:
        """All requests are over."""
        self._active = None
        self._waiting.clear()

    def _next(self) -> None:
        if self._active is None and self._waiting:
            self._active = next(iter(self._waiting))
            self._write(self._waiting.pop(self._active))
