"""Who is logged in with a browser. Kept in memory: a gateway that was started anew asks again."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from pml_hookspecs import Identity, UnauthenticatedError

from .settings import Settings

Identify: TypeAlias = Callable[[str | None], Awaitable[Identity]]
OPERATOR = Identity(principal="local", scopes=frozenset({"system", "approve", "operate"}))
"""Who starts the gateway on a machine of their own: sees, answers and changes everything, as the command line does."""
ATTEMPTS, ATTEMPTS_S = 10, 60.0
"""Log-ins that one address may fail in so many seconds."""
MOST_ADDRESSES = 10_000
MOST_SESSIONS = 10_000
NO_KEYS = (
    "This gateway lets everybody on this machine in, so nobody can log in here: run `pml console`, which opens a page "
    "for you alone, or make keys with `pml keys create` and have them be required."
)


@dataclass(slots=True)
class BrowserSession:
    """One log-in."""

    id: str
    principal: str
    token: str | None
    """The key it was begun with; None for the operator of this machine."""
    expires_at: float
    """By the clock :func:`time.monotonic` [s]."""
    form_token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    """What each form of its pages carries, so that no other site can send one."""


class TooManyAttemptsError(Exception):
    """An address failed to log in too often."""


class Sessions:
    """All log-ins."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._by_id: OrderedDict[str, BrowserSession] = OrderedDict()
        self._one_time_token = settings.one_time_token
        self._failures: OrderedDict[str, list[float]] = OrderedDict()

    async def log_in(self, token: str, identify: Identify, address: str) -> BrowserSession:
        """Begin a session with a key.

        Raises:
            UnauthenticatedError: It is nobody's, or no keys are needed here, which is no proof of anything.
            TooManyAttemptsError: ``address`` has failed too often in the last minute.
        """
        self._check_attempts(address)
        try:
            if await _lets_everybody_in(identify):
                raise UnauthenticatedError(NO_KEYS)
            identity = await identify(token)
        except UnauthenticatedError:
            self._failed(address)
            raise
        return self._begin(identity.principal, token)

    def enter(self, token: str, address: str) -> BrowserSession:
        """Begin the operator's session with the one-time token, which is good for nothing afterwards.

        Raises:
            UnauthenticatedError: It is another, or has been used.
            TooManyAttemptsError: ``address`` has failed too often in the last minute.
        """
        self._check_attempts(address)
        if not self._one_time_token or not hmac.compare_digest(token.encode(), self._one_time_token.encode()):
            self._failed(address)
            raise UnauthenticatedError("This link has been used, or is not of this gateway: run `pml console` again.")
        self._one_time_token = ""
        return self._begin(OPERATOR.principal, None)

    def of(self, id: str) -> BrowserSession | None:
        """None when there is none, or it has ended."""
        session = self._by_id.get(_digest(id))
        if session is None or session.expires_at <= time.monotonic():
            self.end(id)
            return None
        return session

    async def identity(self, session: BrowserSession, identify: Identify) -> Identity:
        """Who it is now: what its key says may have changed.

        Raises:
            UnauthenticatedError: Its key does not count any more; the session has ended with it.
        """
        if session.token is None:
            return OPERATOR
        try:
            return await identify(session.token)
        except UnauthenticatedError:
            self.end(session.id)
            raise

    def end(self, id: str) -> None:
        """Log out."""
        self._by_id.pop(_digest(id), None)

    def end_all(self, principal: str) -> None:
        """Log out everywhere."""
        for key, session in tuple(self._by_id.items()):
            if session.principal == principal:
                del self._by_id[key]

    def _begin(self, principal: str, token: str | None) -> BrowserSession:
        id = secrets.token_urlsafe(32)
        session = BrowserSession(id, principal, token, time.monotonic() + self._settings.session_s)
        theirs = [key for key, other in self._by_id.items() if other.principal == principal]
        for key in theirs[: max(0, len(theirs) + 1 - self._settings.max_sessions)]:
            del self._by_id[key]
        self._by_id[_digest(id)] = session
        while len(self._by_id) > MOST_SESSIONS:
            self._by_id.popitem(last=False)
        return session

    def _check_attempts(self, address: str) -> None:
        recent = [at for at in self._failures.get(address, ()) if at > time.monotonic() - ATTEMPTS_S]
        if len(recent) >= ATTEMPTS:
            raise TooManyAttemptsError

    def _failed(self, address: str) -> None:
        now = time.monotonic()
        recent = [at for at in self._failures.pop(address, ()) if at > now - ATTEMPTS_S]
        self._failures[address] = [*recent, now][-ATTEMPTS:]
        while len(self._failures) > MOST_ADDRESSES:
            self._failures.popitem(last=False)


async def _lets_everybody_in(identify: Identify) -> bool:
    try:
        await identify(None)
    except UnauthenticatedError:
        return False
    return True


def _digest(id: str) -> str:
    """What a session is kept under: looking it up tells nothing of ids that are near."""
    return hashlib.sha256(id.encode()).hexdigest()
