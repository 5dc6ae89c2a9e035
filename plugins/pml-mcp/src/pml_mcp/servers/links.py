"""Links in what servers answer lead back to the server that gave them.

A URI stays as it is while the one that the gateway would read it from is the one that gave it. Two servers of the same
make have the same URIs; then what the others give is given on as what their lists call it, which names the server. So
nothing has to be remembered: it holds in any session, without sessions, and after the gateway was started again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pml_catalog.addresses import FLAT, alias, is_own, ui_uris, with_ui
from pml_catalog.naming import name_of
from pml_hookspecs import RawObject, encode
from pml_kit.json_members import join, object_in, split

if TYPE_CHECKING:
    from pml_hookspecs import Session

    from . import Server
    from .features import Claims, Features

MARKS = (b'"uri"', b"resourceUri", b"outputTemplate")
"""One of these stands in every answer that has a link."""
OF_GATEWAYS = (b"pml://", b"://pml")
"""One of these stands in every answer that has a URI which looks like the gateway's own."""
EITHER = (*MARKS, *OF_GATEWAYS)
SHORT_BYTES = 10_000
FOR_CLIENTS = ("http:", "https:", "data:")
"""Schemes of what clients get by themselves, where no server is known to have it."""
Allows = Callable[[str, "Session"], bool]
_blocks = msgspec.json.Decoder(list[msgspec.Raw]).decode


class LinkUris(NamedTuple):
    """A URI as clients are given it."""

    read: Callable[[str], str]
    """One that is there to be read."""
    named: Callable[[str], str]
    """One that says what comes with it."""


class Links:
    """Gives on what servers answer, its links as clients can follow them."""

    def __init__(self, features: Features, allows: Allows) -> None:
        self._features, self._allows = features, allows

    def may_have(self, server: Server, result: RawObject) -> bool:
        """Whether ``result`` of ``server`` may have links that are to be given on as others."""
        raw = result.raw
        # Of a short one it is quicker to look; of a long one, to ask.
        if len(raw) > SHORT_BYTES and not server.offers("resources"):
            return False
        if not any(mark in raw for mark in EITHER) or not server.offers("resources"):
            return False
        marks = MARKS if self._features.several else OF_GATEWAYS
        return any(mark in raw for mark in marks)

    async def followable(self, server: Server, result: RawObject, session: Session) -> RawObject:
        """``result`` of ``server`` as ``session`` is given it; as it came, byte by byte, where nothing changes."""
        if not self.may_have(server, result):
            return result
        claims = await self._claims(session)

        def read(uri: str) -> str:
            return _shown(server.name, uri, claims, to_be_read=True)

        def named(uri: str) -> str:
            return _shown(server.name, uri, claims, to_be_read=False)

        try:
            members = split(result.raw)
            changed = _changed(members, LinkUris(read, named))
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            return result  # no link of it can be followed; what it is, its client sees for itself
        return join({**members, **changed}) if changed else result

    def is_plain(self, uri: str) -> bool:
        """Whether ``uri`` can only mean one thing: there is one server, and it is none of the gateway's own."""
        return not self._features.several and not is_own(uri)

    async def readable(self, server: str, uri: str, session: Session) -> str:
        """``uri`` of a resource of ``server``, by name, as ``session`` reads it."""
        return _shown(server, uri, await self._claims(session), to_be_read=True)

    async def _claims(self, session: Session) -> Claims:
        def keeps(server: str, own: str) -> bool:
            return self._allows(name_of(server, "resource", own), session)

        return await self._features.claims(keeps)


def _shown(server: str, uri: str, claims: Claims, *, to_be_read: bool) -> str:
    owner = claims.owner(uri)
    stays = owner == server or (owner is None and (not to_be_read or uri.startswith(FOR_CLIENTS)))
    return uri if stays and not is_own(uri) else alias(server, uri)


def _changed(members: Mapping[str, msgspec.Raw], shown: LinkUris) -> dict[str, bytes]:
    """The members of a result that have a link that is given on as another."""
    ways: dict[str, Callable[[msgspec.Raw], bytes]] = {
        "content": lambda raw: _each(raw, lambda block: _block(block, shown)),
        "contents": lambda raw: _each(raw, lambda one: _with_uri(one, shown.named)),
        "messages": lambda raw: _each(raw, lambda message: _message(message, shown)),
        "_meta": lambda raw: _meta(raw, shown),
    }
    found = {name: way(members[name]) for name, way in ways.items() if name in members}
    return {name: raw for name, raw in found.items() if raw != bytes(members[name])}


def _each(raw: msgspec.Raw, change: Callable[[msgspec.Raw], bytes]) -> bytes:
    """A list with its items changed; as it came when none is."""
    if bytes(raw)[:1] != b"[" or not any(mark in bytes(raw) for mark in MARKS):
        return bytes(raw)
    before = _blocks(raw)
    after = [change(one) for one in before]
    if all(new == bytes(old) for new, old in zip(after, before, strict=True)):
        return bytes(raw)
    return b"[" + b",".join(after) + b"]"


def _with_uri(raw: msgspec.Raw, shown: Callable[[str], str]) -> bytes:
    members = object_in({"x": raw}, "x")
    uri = _text(members.get("uri"))
    if uri is None or (new := shown(uri)) == uri:
        return bytes(raw)
    return join({**members, "uri": encode(new)}).raw


def _block(raw: msgspec.Raw, shown: LinkUris) -> bytes:
    members = object_in({"x": raw}, "x")
    kind = _text(members.get("type"))
    if kind == "resource_link":
        return _with_uri(raw, shown.read)
    if kind != "resource" or "resource" not in members:
        return bytes(raw)
    new = _with_uri(members["resource"], shown.named)
    return bytes(raw) if new == bytes(members["resource"]) else join({**members, "resource": new}).raw


def _message(raw: msgspec.Raw, shown: LinkUris) -> bytes:
    members = object_in({"x": raw}, "x")
    if (content := members.get("content")) is None:
        return bytes(raw)
    several = bytes(content)[:1] == b"["
    new = _each(content, lambda block: _block(block, shown)) if several else _block(content, shown)
    return bytes(raw) if new == bytes(content) else join({**members, "content": new}).raw


def _meta(raw: msgspec.Raw, shown: LinkUris) -> bytes:
    meta = RawObject(bytes(raw)) if bytes(raw)[:1] == b"{" else RawObject(b"{}")
    if all(shown.read(uri) == uri for uri in ui_uris(meta)):
        return bytes(raw)
    changed = with_ui(meta, shown.read)
    return join({**split(raw), **{key: encode(changed[key]) for key in (*FLAT, "ui") if key in meta}}).raw


def _text(raw: msgspec.Raw | None) -> str | None:
    if raw is None or bytes(raw)[:1] != b'"':
        return None
    return msgspec.json.decode(raw, type=str)
