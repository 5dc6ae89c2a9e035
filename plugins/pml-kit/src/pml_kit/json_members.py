"""Members of JSON objects changed without touching the others: the rest stays as it came, byte by byte."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from pml_hookspecs import RawObject, RpcError, encode
from pml_kit.mcp.protocol import INVALID_PARAMS, META_ENVELOPE

_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_empty = re.compile(rb"\{[ \t\r\n]*\}").fullmatch
META = b'"_meta"'
OURS = META_ENVELOPE | {"progressToken"}
"""Keys of ``_meta`` that are between a client and the gateway."""
LONG_BYTES = 64 * 1024
"""Params longer than this are read beside the loop, which goes on between their objects."""
NAME_SHOWN = 80
"""Characters of a member's name in a message."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names: set[str] = set()
        for name, _ in pairs:
            if name in names:
                raise ValueError(f"the member {name[:NAME_SHOWN]!r} stands twice in one object")
            names.add(name)
    return members


_read_strictly = json.JSONDecoder(object_pairs_hook=_object).decode


def read_strictly(params: RawObject) -> RawObject:
    """``params`` of a client, read: everybody who reads them finds in them what a server will.

    JSON lets a member stand twice, and readers differ in which one counts: a policy or a human would judge the one,
    and the server obey the other.

    Raises:
        RpcError: A member stands twice in an object of theirs, at any depth; or they cannot be read.
    """
    raw = params.raw
    try:
        value = _decoded(raw)
    except RecursionError:
        raise RpcError(INVALID_PARAMS, "Invalid params: they are nested too deeply") from None
    except ValueError as exc:
        raise RpcError(INVALID_PARAMS, f"Invalid params: {exc}") from None
    return RawObject(raw, value)


def _decoded(raw: bytes) -> dict[str, Any]:
    value = _read_strictly(raw.decode("utf-8", "surrogatepass"))
    if not isinstance(value, dict):
        raise ValueError(f"they must be an object, not {type(value).__name__}")  # noqa: TRY004 - as of all bad JSON
    return value


def split(raw: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    """The members of an object, each as it came.

    Raises:
        msgspec.MsgspecError: It is not an object.
    """
    try:
        return _split(raw)
    except msgspec.MsgspecError:
        # Lone surrogates and NaN, which others take for JSON.
        try:
            value = json.loads(bytes(raw))
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise
        return {name: msgspec.Raw(encode(member)) for name, member in value.items()}


def object_in(members: Mapping[str, msgspec.Raw], name: str) -> dict[str, msgspec.Raw]:
    """The members of the object that is the member ``name``; empty when there is none, or it is no object."""
    raw = members.get(name)
    return split(raw) if raw is not None and bytes(raw)[:1] == b"{" else {}


def join(members: Mapping[str, bytes | msgspec.Raw]) -> RawObject:
    """The object that has these members."""
    return RawObject(b"{" + b",".join(encode(k) + b":" + bytes(v) for k, v in members.items()) + b"}")


def enclosed(head: bytes, params: RawObject, tail: bytes = b"") -> RawObject:
    """``params`` with members written before and after its own; each is JSON text without braces, or empty."""
    raw = params.raw.strip()
    own = b"" if _empty(raw) else raw[1:-1]
    return RawObject(b"{" + b",".join(part for part in (head, own, tail) if part) + b"}")


def with_member(params: RawObject, name: str, value: Any) -> RawObject:
    """``params`` with one member changed; as it came when that changes nothing."""
    new = encode(value)
    if name in params and encode(params[name]) == new:
        return params
    return join({**split(params.raw), name: new})


def meta_of(params: RawObject) -> dict[str, Any]:
    """The members of ``_meta``; empty when there is none."""
    meta = params.get("_meta") if META in params.raw else None
    return dict(meta) if isinstance(meta, dict) else {}


def with_meta(params: RawObject, members: Mapping[str, Any]) -> RawObject:
    """``params`` with ``members`` added to its ``_meta``."""
    if META not in params.raw:
        return enclosed(b"", params, META + b":" + encode(members))
    parts = split(params.raw)
    meta = join({**object_in(parts, "_meta"), **{name: encode(value) for name, value in members.items()}})
    return join({**parts, "_meta": meta.raw})


def without_meta(members: Mapping[str, msgspec.Raw], names: frozenset[str] = OURS) -> dict[str, msgspec.Raw]:
    """``members`` without those of ``_meta`` that are in ``names``; without ``_meta`` when nothing is left of it."""
    meta = object_in(members, "_meta")
    kept = {name: value for name, value in meta.items() if name not in names}
    if len(kept) == len(meta):
        return dict(members)
    rest = dict(members)
    if kept:
        rest["_meta"] = msgspec.Raw(join(kept).raw)
    else:
        del rest["_meta"]
    return rest


def without_envelope(params: RawObject, names: frozenset[str] = OURS) -> RawObject:
    """``params`` without what ``_meta`` says about revision, client and progress; vendors' and trace keys stay."""
    if names.isdisjoint(meta_of(params)):
        return params
    return join(without_meta(split(params.raw), names))
