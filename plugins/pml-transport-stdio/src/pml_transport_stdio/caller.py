"""Who the client is: whoever started this process, or whom the key belongs to that it put into the environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from pml_hookspecs import Identity, Peer, RpcError, UnauthenticatedError
from pml_kit.mcp.protocol import INTERNAL_ERROR, INVALID_REQUEST
from pml_kit.offers import AccessEvent

if TYPE_CHECKING:
    from pml_hookspecs import Handler, Origin, RawObject, TransportError
    from pml_kit.offers import AccessWatcher

Identify: TypeAlias = Callable[[str | None], Awaitable[Identity | None]]

KEY = "PML_API_KEY"
STDIO = "stdio"
LONGEST_TARGET = 200
"""Characters of what was asked for that are reported."""
LOCAL = Peer(address=STDIO)


async def identify(ask: Identify | None, log: Any, report: AccessWatcher | None = None) -> Peer | Handler:
    """The client as its key says; or, when it is not let in, what answers all its requests so.

    The key is taken out of the environment: what this process starts has no business with it.

    Args:
        ask: Asks the plugins that know keys; None where there are none to ask.
        log: Where to log what went wrong.
        report: Told of each request that is refused.
    """
    token = os.environ.pop(KEY, "").strip() or None
    if ask is None:
        return LOCAL
    try:
        identity = await ask(token)
    except UnauthenticatedError as error:
        return _refuse(str(error), INVALID_REQUEST, report)
    except Exception:
        log.exception("stdio.key_unknown")
        return _refuse("It cannot be looked up whose key this is; start again later", INTERNAL_ERROR, None)
    if identity is not None:
        return Peer(address=STDIO, **identity.members())
    return LOCAL if token is None else _refuse("The API key is not valid", INVALID_REQUEST, report)


def _refuse(why: str, code: int, report: AccessWatcher | None) -> Handler:
    if sys.stderr is not None:
        sys.stderr.write(f"pml: every request is refused: {why} (a key is read from the variable {KEY})\n")
        sys.stderr.flush()
    return ErrorHandler(RpcError(code, why), report)


class ErrorHandler:
    """Answers everything with one error. Implements :class:`pml_hookspecs.Handler`."""

    def __init__(self, error: RpcError, report: AccessWatcher | None = None) -> None:
        self._error, self._report = error, report

    async def request(self, method: str, params: RawObject, origin: Origin) -> NoReturn:
        """Refuse it."""
        if self._report is not None:
            code, message = "access.unauthenticated", str(self._error)
            event = AccessEvent(
                kind="denied", target=method[:LONGEST_TARGET], address=STDIO, code=code, message=message
            )
            await self._report(event)
        raise RpcError(self._error.code, str(self._error))

    def notification(self, method: str, params: RawObject) -> None:
        """Nobody hears it."""

    def closed(self, error: TransportError | None) -> None:
        """Nothing was begun."""
