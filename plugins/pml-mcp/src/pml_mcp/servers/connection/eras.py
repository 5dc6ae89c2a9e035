"""How a conversation with a server begins, with a handshake or without, and what each later request must say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, Literal

from pml_hookspecs import EMPTY, Link, RawObject, RpcError, TransportError, replace
from pml_kit.json_members import meta_of, with_meta
from pml_kit.mcp.principal_logins import LoginRequiredError
from pml_kit.mcp.protocol import (
    HANDSHAKE_REVISIONS,
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_LOG_LEVEL,
    META_PROTOCOL_VERSION,
    META_SERVER_INFO,
    MODERN_REVISIONS,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from pml_mcp.wire.client import Client
from pml_mcp.wire.self_description import SelfDescription, identity

Era = Literal["legacy", "modern"]
PROBE_S = 5.0
"""Longest wait for a server's answer to ``server/discover``, if half of the time for its start is not less: one that
knows nothing of it may not answer at all [s]."""

LONGEST_DESCRIPTION = 4000
"""More of what a server says about itself is of no use [characters]."""


class OtherEra(Exception):  # noqa: N818 - it is no error, but what to do next
    """The connection is spent on an attempt in the wrong era; a new one is to begin in this one."""

    def __init__(self, era: Era, why: str) -> None:
        super().__init__(why)
        self.era = era

    @property
    def refusal(self) -> TransportError | None:
        """What went wrong instead of an answer: that it wants a login, say. None where there was just none in time."""
        cause = self.__cause__
        return cause if isinstance(cause, TransportError) else None


@dataclass(frozen=True, slots=True)
class Offer:
    """What a server said about itself."""

    era: Era
    protocol: str
    capabilities: Mapping[str, Any]
    description: str = ""
    """What it says that it is for."""
    refused: Era | None = None
    """The era that it was first spoken to in, and refused."""
    info: Mapping[str, Any] | None = None
    """Who it was told that its client is; None where it was told of the gateway."""
    words: SelfDescription = field(default_factory=SelfDescription)
    """Who it says that it is, and what it says of its use and of what it can do."""

    @property
    def takes_subscriptions(self) -> bool:
        """Whether it tells of changed resources only those who subscribed; others tell everybody."""
        resources = self.capabilities.get("resources")
        return self.era == "modern" or (isinstance(resources, dict) and bool(resources.get("subscribe")))


def about_gateway() -> dict[str, Any]:
    """How the gateway introduces itself to servers."""
    return {"name": "pml", "version": metadata.version("pml-mcp")}


def about_client(info: Mapping[str, Any] | None) -> dict[str, Any]:
    """How servers are told of a client that says ``info`` of itself; of the gateway where it says nothing."""
    return identity(info) or about_gateway()


async def shake_hands(
    link: Link, capabilities: Mapping[str, Any], within_s: float, info: Mapping[str, Any] | None = None
) -> Offer:
    """``initialize`` and ``notifications/initialized`` (MCP 2025-11-25, lifecycle); ``info`` is who the client is.

    Raises:
        TimeoutError, TransportError, RpcError: As :class:`pml_hookspecs.Link` says.
    """
    hello = {"protocolVersion": HANDSHAKE_REVISIONS[-1], "capabilities": capabilities, "clientInfo": about_client(info)}
    answer = await link.request("initialize", hello, timeout_s=within_s)
    link.notify("notifications/initialized", EMPTY)
    protocol = str(answer.get("protocolVersion") or HANDSHAKE_REVISIONS[-1])
    return _offer("legacy", protocol, answer, answer.get("serverInfo"), info)


async def say_again(link: Link, said: Iterable[tuple[str, Mapping[str, Any]]], within_s: float, log: Any) -> None:
    """Tell a new connection what the one before it was told.

    Raises:
        TimeoutError, TransportError: As :class:`pml_hookspecs.Link` says.
    """
    for method, params in said:
        try:
            await link.request(method, params, timeout_s=within_s)
        except RpcError as exc:
            log.warning("the server refuses what it was told before", method=method, reason=exc.message)


async def discover(
    link: Link, capabilities: Mapping[str, Any], within_s: float, info: Mapping[str, Any] | None = None
) -> Offer:
    """``server/discover`` (MCP 2026-07-28).

    Raises:
        OtherEra: It does not speak a revision without a handshake, and cannot be asked again on this connection.
        LoginRequiredError: It wants one first.
        RpcError: It says that it does not.
    """
    params, limit_s = with_meta(EMPTY, envelope(None, capabilities, info)), min(within_s / 2, PROBE_S)
    try:
        try:
            answer = await link.request("server/discover", params, timeout_s=limit_s)
        except RpcError as refusal:
            if not _names_ours(refusal):
                raise
            answer = await link.request("server/discover", params, timeout_s=limit_s)
    except LoginRequiredError:  # in either era
        raise
    except (TimeoutError, TransportError) as exc:
        raise OtherEra("legacy", f"it did not answer server/discover: {exc}") from exc
    supported = answer.get("supportedVersions")
    if not isinstance(supported, list) or MODERN_REVISIONS[-1] not in supported:
        raise RpcError(UNSUPPORTED_PROTOCOL_VERSION, f"it speaks {supported}, not {MODERN_REVISIONS[-1]}")
    return _offer("modern", MODERN_REVISIONS[-1], answer, meta_of(answer).get(META_SERVER_INFO), info)


async def begin(
    link: Link,
    first: Era,
    capabilities: Mapping[str, Any],
    within_s: float,
    *,
    other: bool,
    info: Mapping[str, Any] | None = None,
) -> Offer:
    """Begin in era ``first``; where the server does not speak it and ``other`` allows, in the other one.

    ``info`` is who the client is that the connection is for; None where it is for several.

    Raises:
        OtherEra: A new connection is needed to begin in the other one.
        TimeoutError, TransportError, RpcError: It speaks neither, or there is no connection.
    """
    if first == "legacy":
        try:
            return await shake_hands(link, capabilities, within_s, info)
        except RpcError as refusal:
            if not other:
                raise
            try:
                return replace(await discover(link, capabilities, within_s, info), refused="legacy")
            except (OtherEra, RpcError):
                raise refusal from None
    try:
        return await discover(link, capabilities, within_s, info)
    except OtherEra as exc:
        if not other:
            raise RpcError(UNSUPPORTED_PROTOCOL_VERSION, str(exc)) from exc
        raise
    except RpcError:
        if not other:
            raise
        return replace(await shake_hands(link, capabilities, within_s, info), refused="modern")


def envelope(
    client: Client | None, capabilities: Mapping[str, Any], info: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What a modern request says in ``_meta``: for a client, what that client can do, and not what the gateway can.

    Without a client, ``info`` is who the connection is for, where it is for one.
    """
    members: dict[str, Any] = {
        META_PROTOCOL_VERSION: MODERN_REVISIONS[-1],
        META_CLIENT_CAPABILITIES: dict(capabilities if client is None else client.capabilities),
        META_CLIENT_INFO: about_client(info if client is None else client.info),
    }
    if client is not None and client.log_level is not None:
        members[META_LOG_LEVEL] = client.log_level
    return members


def _names_ours(refusal: RpcError) -> bool:
    """Whether a refusal of a revision names, as one that the server speaks, the one that we do (MCP 2026-07-28)."""
    supported = refusal.data.get("supported") if isinstance(refusal.data, Mapping) else None
    named = supported if isinstance(supported, list) else ()
    return refusal.code == UNSUPPORTED_PROTOCOL_VERSION and MODERN_REVISIONS[-1] in named


def _offer(era: Era, protocol: str, answer: RawObject, about: Any, info: Mapping[str, Any] | None) -> Offer:
    """What an answer offers by which a server introduces itself; ``about`` is its record of itself."""
    value = answer.get("capabilities")
    offered = value if isinstance(value, dict) else {}
    words = SelfDescription.of(about, answer.get("instructions"), offered)
    return Offer(era, protocol, offered, _description(answer, about), info=info, words=words)


def _description(answer: RawObject, info: Any) -> str:
    """The server's instructions, else what its own record says of it, cut where it gets long."""
    about = info if isinstance(info, Mapping) else {}
    said = (answer.get("instructions"), about.get("description"), about.get("title"))
    return next((text.strip()[:LONGEST_DESCRIPTION] for text in said if isinstance(text, str) and text.strip()), "")
