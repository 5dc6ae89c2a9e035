"""What OAuth asks of whoever serves a resource: its metadata, challenges that name them, tokens for this resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pml_hookspecs import UnauthenticatedError, encode
from pml_kit.mcp.protocol import INVALID_REQUEST
from pml_kit.offers import MissingScopeError
from pml_transport_http.server.http import JSON, OK, HttpError, reply
from pml_transport_http.server.messages import params_of

if TYPE_CHECKING:
    from pml_kit.jsonrpc.envelope import Message
    from pml_kit.offers import ProtectedResource
    from pml_transport_http.server.http import Access, Headers, Scope, Send

WELL_KNOWN = ".well-known"
METADATA = "/.well-known/oauth-protected-resource"
CHALLENGE = b"www-authenticate"
CALL = "tools/call"
UNAUTHENTICATED, FORBIDDEN, NOT_FOUND = 401, 403, 404


class Protection:
    """Asks the plugin that knows about access tokens; nothing is asked of anybody without one."""

    def __init__(self, resource: ProtectedResource | None) -> None:
        self._resource = resource

    async def describe(self, scope: Scope, send: Send) -> None:
        """Send what clients read about the resource that they name.

        Raises:
            HttpError: There is nothing at this path.
        """
        path = scope["path"]
        about = None
        if self._resource is not None and (path == METADATA or path.startswith(f"{METADATA}/")):
            about = self._resource.metadata(path.removeprefix(METADATA))
        if about is None or scope["method"] not in ("GET", "HEAD"):
            refusal = HttpError(NOT_FOUND, INVALID_REQUEST, "Nothing is served at this path; MCP is at /mcp")
            refusal.plain = True
            raise refusal
        await reply(send, OK, (encode(about),), (JSON, (b"cache-control", b"no-cache")))

    def check(self, access: Access, path: str) -> None:
        """See that what a caller came with is for this ``path``.

        Raises:
            HttpError: It is not (401), or is not enough (403).
        """
        if self._resource is None:
            return
        try:
            self._resource.check(access.identity(), path)
        except UnauthenticatedError as error:
            challenge = (CHALLENGE, b'Bearer error="invalid_token"')
            raise HttpError(UNAUTHENTICATED, INVALID_REQUEST, str(error), headers=[challenge]) from None
        except MissingScopeError as error:
            raise self._insufficient(error, path, access) from None

    def check_call(self, access: Access, message: Message, path: str) -> None:
        """See that it is enough for the tool that a request calls.

        Raises:
            HttpError: It is not (403).
        """
        if self._resource is None or message.method != CALL:
            return
        try:
            self._resource.check_call(access.identity(), params_of(message))
        except MissingScopeError as error:
            raise self._insufficient(error, path, access, message.id) from None

    def challenge(self, refusal: HttpError, path: str) -> Headers:
        """The headers of a ``refusal``; one that wants a login says where."""
        if self._resource is None or refusal.status != UNAUTHENTICATED:
            return refusal.headers
        more = _parameters(self._resource.challenge(path))
        return [(n, _joined(value, more) if n == CHALLENGE else value) for n, value in refusal.headers]

    def _insufficient(self, error: MissingScopeError, path: str, access: Access, id: Any = None) -> HttpError:
        said = {"error": "insufficient_scope"}
        if error.scopes:
            said["scope"] = " ".join(error.scopes)
        if self._resource is not None:
            said |= {n: value for n, value in self._resource.challenge(path).items() if n != "scope"}
        said["error_description"] = str(error)
        header = (CHALLENGE, _joined(b"Bearer", _parameters(said)))
        refusal = HttpError(FORBIDDEN, INVALID_REQUEST, str(error), id=id, headers=[header])
        refusal.principal = access.identity().principal
        return refusal


def _joined(challenge: bytes, more: bytes) -> bytes:
    return challenge + (b", " if b"=" in challenge else b" ") + more


def _parameters(values: Any) -> bytes:
    """As in a header: what would end a value there, or cannot stand in one, is left out."""
    said = (
        f'{name}="{"".join(c for c in value if " " <= c <= "~" and c not in _ENDS)}"' for name, value in values.items()
    )
    return ", ".join(said).encode("ascii")


_ENDS = '"\\'
