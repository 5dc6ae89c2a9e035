"""Who comes with which key. Implements :class:`pml_kit.offers.Identities`."""

from __future__ import annotations

import time
from collections import OrderedDict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from pml_hookspecs import UnauthenticatedError

from . import tokens
from .events import Refusals
from .keys import SYSTEM, Keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pml_hookspecs import Identity, Scope, Services, Session

    from .agents import Agents
    from .keys import Key
    from .settings import Settings

T = TypeVar("T")

REQUIRED = "MCP API key authentication required"
"""What a call without a key is told where keys are required."""
INVALID = "The API key is not valid"
ENDED = {
    "expired": "The API key has expired",
    "revoked": "The API key was revoked",
    "gone": "There is no such API key any more",
}
NOTED_S = 60.0
"""A use of a key is noted no more often [s]."""
TRUSTED_S = 60.0
"""How long a key counts as it was last read while the store cannot be read [s]."""
MOST_REMEMBERED = 1024


class KeyIdentities:
    """Knows the keys of the store."""

    def __init__(self, services: Services, settings: Settings, agents: Agents) -> None:
        self._services, self.settings, self._agents = services, settings, agents
        self._keys, self._refusals = Keys(services), Refusals(services)
        self._read: OrderedDict[str, tuple[float, Key]] = OrderedDict()
        self._noted: OrderedDict[str, float] = OrderedDict()
        self._failing = False

    async def keys(self) -> Sequence[Identity]:
        """Whom each key stands for that can be used, the newest first."""
        now = datetime.now(UTC)
        return [key.identity() for key in await self._keys.all() if key.state(now) == "active"]

    async def identify(self, token: str | None) -> Identity | None:
        """Whose key it is; None for what is no key of this kind.

        Raises:
            UnauthenticatedError: It is not valid, has expired or was revoked; or there is none, and keys are required.
            Exception: The store's, when it cannot be read and the key has not been used lately.
        """
        if not token:
            if self.settings.required:
                raise UnauthenticatedError(REQUIRED)
            return None
        if not tokens.is_ours(token):
            return None
        given = tokens.read(token)
        key = None if given is None else await self._find(given.id)
        # What there is no key of is compared as well, so that no id can be found out by how long it takes.
        digest = tokens.NO_DIGEST if key is None else key.digest
        if given is None or not given.fits(digest) or key is None:
            self._refusals.note("" if key is None else key.id, INVALID)
            raise UnauthenticatedError(INVALID)
        state = key.state(datetime.now(UTC))
        if state != "active":
            self._refusals.note(key.id, ENDED[state])
            raise UnauthenticatedError(ENDED[state])
        self._note(key.id)
        return key.identity()

    async def current(self, session: Session) -> Identity | None:
        """What the key of ``session`` says now; None for what is no key of this kind.

        Raises:
            UnauthenticatedError: It has expired or was revoked, or there is no such key any more.
            Exception: The store's, when it cannot be read and the key has not been used lately.
        """
        if not tokens.ID.fullmatch(session.access_key):
            return None
        key = await self._find(session.access_key)
        state = "gone" if key is None else key.state(datetime.now(UTC))
        if key is None or state != "active":
            raise UnauthenticatedError(ENDED[state])
        return key.identity()

    async def _find(self, id: str) -> Key | None:
        try:
            key = await self._keys.get(id)
        except Exception as exc:
            if not self._failing:
                self._services.log.warning("keys cannot be read; those used lately still count", problem=repr(exc))
            self._failing = True
            read_s, known = self._read.get(id, (0.0, None))
            if known is None or time.monotonic() - read_s > TRUSTED_S:
                raise
            return known
        self._failing = False
        if key is None:
            self._read.pop(id, None)
        else:
            _remember(self._read, id, (time.monotonic(), key))
        return key

    def _note(self, id: str) -> None:
        now_s = time.monotonic()
        if now_s - self._noted.get(id, -NOTED_S) >= NOTED_S:
            _remember(self._noted, id, now_s)
            self._keys.used(id, datetime.now(UTC))

    async def scope(self, session: Session, *, results: bool) -> Scope | None:
        """Whose executions ``session`` may see; None for one of which nothing is known here."""
        scope = await self._agents.scope(session, results=results)
        known = session.access_key or session.agent or SYSTEM in session.scopes or scope.agents
        return scope if known else None


def _remember(known: OrderedDict[str, T], id: str, value: T) -> None:
    known[id] = value
    known.move_to_end(id)
    if len(known) > MOST_REMEMBERED:
        known.popitem(last=False)
