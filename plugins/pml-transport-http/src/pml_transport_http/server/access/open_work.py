"""What callers have open: a session, requests of a stateless client, a page. It ends with the key it was begun with."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pml_transport_http.server.http import Access


class OpenWork:
    """One thing that is open."""

    __slots__ = ("expel", "in_use")

    def __init__(self, expel: Callable[[], None], in_use: Callable[[], bool]) -> None:
        """``expel`` ends it; ``in_use`` says whether it goes on without a further request, as a stream does."""
        self.expel, self.in_use = expel, in_use


class OpenWorks:
    """All that is open, by who began it."""

    def __init__(self) -> None:
        self._of: dict[Access, dict[OpenWork, None]] = {}
        self.arriving: Counter[Access] = Counter()
        """Requests that are served, their bodies included that still come in; these open nothing once a key is over."""

    def __contains__(self, access: Access) -> bool:
        return access in self._of or access in self.arriving

    def begin(self, access: Access, work: OpenWork) -> None:
        """It is open from now on."""
        self._of.setdefault(access, {})[work] = None

    def end(self, access: Access, work: OpenWork) -> None:
        """It is over; nothing happens when it was already."""
        mine = self._of.get(access, {})
        mine.pop(work, None)
        if not mine:
            self._of.pop(access, None)

    def in_use(self, access: Access) -> bool:
        """Whether anything of one caller goes on without a further request."""
        return any(work.in_use() for work in self._of.get(access, ()))

    def expel(self, access: Access) -> None:
        """End all of one caller: its key does not count any more."""
        for work in tuple(self._of.get(access, ())):
            work.expel()
