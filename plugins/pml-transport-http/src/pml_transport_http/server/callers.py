"""Who sends a request: by the tokens of the settings, or by keys that plugins know.

A key that plugins know is asked for anew when what was said of it is older than :data:`FRESH_S`. So it costs no read of
the store with each request, and one that was revoked is refused soon after. What it left open then ends as well:
requests, streams and sessions.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

from pml_hookspecs import UnauthenticatedError
from pml_kit.mcp.protocol import INTERNAL_ERROR, INVALID_REQUEST

from .access.open_work import OpenWorks
from .http import LOCAL, Access, HttpError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import TypeAlias

    from pml_hookspecs import Identity
    from pml_transport_http.logins.token_exchange import SubjectTokens
    from pml_transport_http.settings import Key, Settings

    Identify: TypeAlias = Callable[[str | None], Awaitable[Identity | None]]

FRESH_S = 2.0
"""How long it is believed what was said of a key, and how often open streams are looked after [s]."""
MOST_KEYS = 4096
"""Keys that are remembered; only valid ones are, and above it those of which nothing is open make way."""
BEARER = b"bearer "
RETRY_S = 1


class KnownKey(NamedTuple):
    """A valid key: what it allows, and when that was said."""

    access: Access
    token: str
    said_at: float


class Callers:
    """Says who sent a request, and ends what is open under a key that is not valid any more."""

    def __init__(
        self, settings: Settings, identify: Identify | None, log: Any, subjects: SubjectTokens | None = None
    ) -> None:
        """``identify`` asks the plugins; None where there are none to ask. ``subjects`` note who came with what."""
        self._identify, self._log, self._subjects = identify, log, subjects
        self._keys = [_key(name, said) for name, said in settings.tokens.items()]
        self._salt = secrets.token_bytes(32)
        self._known: dict[bytes, KnownKey] = {}
        self._asking: dict[bytes, asyncio.Task[Access | None]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._failing = False
        self.open = OpenWorks()
        """What they have begun, which ends with their keys."""

    async def access(self, headers: Mapping[bytes, bytes]) -> Access:
        """Who it is, and what its key says.

        Raises:
            HttpError: Nobody we know, with status 401; or it cannot be known now, with status 503.
        """
        given = headers.get(b"authorization", b"")
        token = given[len(BEARER) :].strip() if given[: len(BEARER)].lower() == BEARER else b""
        if token and self._keys and (named := self._named(token)) is not None:
            return named
        if self._identify is not None:
            try:
                found = await self._of_plugins(token)
            except UnauthenticatedError as error:
                raise _unauthenticated(str(error), given) from None
            if found is not None:
                return found
        if not self._keys:
            return LOCAL
        raise _unauthenticated("The bearer token is not valid" if given else "A bearer token is needed", given)

    async def identity(self, token: str | None) -> Identity:
        """Whose key ``token`` is, for a plugin that serves somebody who sends none with a request.

        Raises:
            UnauthenticatedError: It is nobody's, or it cannot be known now.
        """
        if token is not None and not (token.isascii() and token.isprintable()):
            raise UnauthenticatedError("The key is not valid")
        headers = {} if token is None else {b"authorization": b"Bearer " + token.encode()}
        try:
            return (await self.access(headers)).identity()
        except HttpError as refusal:
            raise UnauthenticatedError(refusal.message) from None

    def _named(self, token: bytes) -> Access | None:
        found = None
        for expected, access in self._keys:
            if hmac.compare_digest(token, expected):
                found = access
        return found

    async def _of_plugins(self, token: bytes) -> Access | None:
        if token and token.isascii():
            key = hashlib.blake2b(token, key=self._salt, digest_size=16).digest()
            known = self._known.get(key)
            if known is not None and asyncio.get_running_loop().time() - known.said_at < FRESH_S:
                return known.access
            if (found := await self._ask_once(key, token.decode())) is not None:
                return found
        return await self._ask(None)

    async def _ask_once(self, key: bytes, token: str) -> Access | None:
        """Ask for a key; several requests that come with it at a time ask once."""
        asking = self._asking.get(key)
        if asking is None:
            asking = asyncio.get_running_loop().create_task(self._ask_anew(key, token), name="identify a key")
            self._asking[key] = asking
            asking.add_done_callback(lambda done: self._asked(key, done))
        # A request that is taken back does not end what others wait for.
        return await asyncio.shield(asking)

    def _asked(self, key: bytes, done: asyncio.Task[Access | None]) -> None:
        self._asking.pop(key, None)
        if not done.cancelled():
            done.exception()  # whoever waited has it; nobody may have

    async def _ask_anew(self, key: bytes, token: str) -> Access | None:
        began_at = asyncio.get_running_loop().time()
        try:
            access = await self._ask(token)
        except UnauthenticatedError:
            self._forget(key)
            raise
        if access is None:
            self._forget(key)
            return None
        if self._subjects is not None:
            self._subjects.note(access.principal, token)
        before = self._known.get(key)
        if before is not None and before.access != access:
            self._forget(key)
        self._known[key] = KnownKey(access, token, began_at)
        if len(self._known) > MOST_KEYS:
            self._make_room(key)
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look_after(), name="look after keys")
        return access

    async def _ask(self, token: str | None) -> Access | None:
        if self._identify is None:
            return None
        try:
            identity = await self._identify(token)
        except UnauthenticatedError:
            raise
        except Exception as error:
            if not self._failing:
                self._log.warning("http.keys_unknown", problem=repr(error))
            self._failing = True
            message = "It cannot be looked up at the moment whose key this is; try again"
            raise HttpError(503, INTERNAL_ERROR, message, headers=[(b"retry-after", b"%d" % RETRY_S)]) from None
        self._failing = False
        return None if identity is None else Access.of(identity)

    def _forget(self, key: bytes) -> None:
        """The key does not count any more, and neither does what was begun with it."""
        known = self._known.pop(key, None)
        if known is not None and self._subjects is not None:
            self._subjects.forget(known.access.principal, known.token)
        # A login that goes on with a newer token is the same caller still.
        if known is not None and all(other.access != known.access for other in self._known.values()):
            self.open.expel(known.access)

    def _make_room(self, newest: bytes) -> None:
        self._known = {key: known for key, known in self._known.items() if key == newest or known.access in self.open}

    async def _look_after(self) -> None:
        """See to it that nothing stays open for longer than its key counts."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(FRESH_S)
            for key, known in tuple(self._known.items()):
                if loop.time() - known.said_at < FRESH_S:
                    continue
                if known.access not in self.open:
                    self._known.pop(key, None)
                elif self.open.in_use(known.access):
                    # One that is refused is forgotten; of one that cannot be looked up it is asked again.
                    with contextlib.suppress(UnauthenticatedError, HttpError):
                        await self._ask_once(key, known.token)

    async def close(self) -> None:
        """Ask no more."""
        tasks = [*self._asking.values(), *([self._looking] if self._looking else [])]
        self._looking = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _unauthenticated(what: str, given: bytes) -> HttpError:
    challenge = b'Bearer error="invalid_token"' if given else b"Bearer"
    return HttpError(401, INVALID_REQUEST, what, headers=[(b"www-authenticate", challenge)])


def _key(name: str, said: str | Key) -> tuple[bytes, Access]:
    if isinstance(said, str):
        return said.encode(), Access(name)
    access = Access(
        said.principal or name,
        said.tools_exposure,
        said.intent,
        frozenset(said.scopes),
        said.execution_mode,
        dry_run_only=said.dry_run_only,
    )
    return said.token.encode(), access
