"""The connection to a recorded server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pml_hookspecs import EMPTY, Link, RawObject, RpcError, TransportError, encode
from pml_kit.mcp.protocol import (
    HANDSHAKE_REVISIONS,
    INVALID_PARAMS,
    META_PROTOCOL_VERSION,
    METHOD_NOT_FOUND,
    MODERN_REVISIONS,
)

from .session import Session, SessionError, UnmatchedError, load

if TYPE_CHECKING:
    from pml_hookspecs import Endpoint

    from .settings import Settings


class ReplayAddress(NamedTuple):
    """What an address names."""

    path: Path
    server: str
    """``""`` when not said."""


def place_of(endpoint: Endpoint) -> ReplayAddress:
    """The file of ``replay:FILE``, and the option ``server``.

    Raises:
        ValueError: The address or the options are not understood.
    """
    scheme, _, path = endpoint.address.partition(":")
    if scheme != "replay" or not path:
        raise ValueError(f"{endpoint.address!r}: expected replay:FILE, such as replay:session.jsonl")
    unknown = sorted(set(endpoint.options) - {"server"})
    server = endpoint.options.get("server", "")
    if unknown or not isinstance(server, str):
        problem = f"{', '.join(unknown)}: not an option of replay servers" if unknown else "server must be text"
        raise ValueError(f"[servers.{endpoint.name}] {problem}; the only one is server, a recorded server's name")
    return ReplayAddress(Path(path).expanduser(), server)


@asynccontextmanager
async def connected(endpoint: Endpoint, place: ReplayAddress, settings: Settings, log: Any) -> AsyncIterator[Link]:
    """A link to one recorded server.

    Raises:
        TransportError: The file cannot be used, or has no such server.
    """
    try:
        session = load(place.path)
    except SessionError as exc:
        raise TransportError(str(exc), retryable=False) from exc
    link = ReplayLink(session, _server_in(session, endpoint, place), settings, log)
    try:
        yield link
    finally:
        link.close()


def _server_in(session: Session, endpoint: Endpoint, place: ReplayAddress) -> str:
    wanted = place.server or endpoint.name
    if wanted in session.servers:
        return wanted
    if not place.server and len(session.servers) == 1:
        return session.servers[0]
    known = ", ".join(session.servers)
    raise TransportError(
        f"{session.name}: no server {wanted!r} is recorded, only {known}; name one: [servers.{endpoint.name}] server",
        retryable=False,
    )


class ReplayLink:
    """Answers as a server would, in either era. Implements :class:`pml_hookspecs.Link`."""

    def __init__(self, session: Session, server: str, settings: Settings, log: Any) -> None:
        self.session, self._server, self._settings, self._log = session, server, settings, log
        self._open = True

    def close(self) -> None:
        """Answer nothing any more."""
        self._open = False

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Recorded servers take no notice."""

    async def request(self, method: str, params: Mapping[str, Any], *, timeout_s: float) -> RawObject:
        """Answer at once.

        Raises:
            TransportError: The link is closed.
            RpcError: As recorded; or nothing is recorded for the call, or the method is none that is recorded.
        """
        if not self._open:
            raise TransportError(f"the replay of {self.session.name} is closed", retryable=False)
        meta: Any = params.get("_meta")
        modern = isinstance(meta, Mapping) and META_PROTOCOL_VERSION in meta
        if modern and meta[META_PROTOCOL_VERSION] not in MODERN_REVISIONS:
            raise RpcError(INVALID_PARAMS, f"unknown revision {meta[META_PROTOCOL_VERSION]!r}")
        answer = self._answer(method, params, modern=modern)
        if modern and b'"resultType"' not in answer.raw:
            rest = answer.raw.strip()[1:].lstrip()
            return RawObject(b'{"resultType":"complete"' + (b"" if rest[:1] == b"}" else b",") + rest)
        return answer

    def _answer(self, method: str, params: Mapping[str, Any], *, modern: bool) -> RawObject:
        about = {"name": self._server, "version": "replay"}
        if method == "tools/call":
            return self._called(params)
        if method == "tools/list":
            return RawObject.of({"tools": self.session.tools(self._server)})
        if modern and method == "server/discover":
            return RawObject.of({"supportedVersions": list(MODERN_REVISIONS), "capabilities": {"tools": {}}})
        if not modern and method == "initialize":
            wanted = params.get("protocolVersion")
            revision = wanted if wanted in HANDSHAKE_REVISIONS else HANDSHAKE_REVISIONS[-1]
            return RawObject.of({"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": about})
        if not modern and method == "ping":
            return EMPTY
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method} (only calls of tools are recorded)")

    def _called(self, params: Mapping[str, Any]) -> RawObject:
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, (Mapping, type(None))):
            raise RpcError(INVALID_PARAMS, "tools/call needs a name, and arguments that are an object")
        tool = f"{self._server}:{name}"
        try:
            recorded = self.session.answer(tool, arguments or {}, after_last=self._settings.after_last)
        except UnmatchedError as exc:
            if self._log is not None:
                self._log.error("no recording matches", tool=tool, problem=str(exc))
            nearest = None if exc.nearest is None else {"nearest": exc.nearest}
            raise RpcError(INVALID_PARAMS, str(exc), nearest) from exc
        if recorded.kind == "refusal":
            error = recorded.answer
            raise RpcError(error["code"], str(error["message"]), error.get("data"))
        return RawObject(encode(recorded.answer))
