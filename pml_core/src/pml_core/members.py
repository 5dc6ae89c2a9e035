"""Members of JSON objects changed without touching the others: the rest stays as it came, byte by byte."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pml_hookspecs import RawObject, encode
from pml_hookspecs.protocol import META_ENVELOPE

_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
META = b'"_meta"'


def split(raw: bytes) -> dict[str, msgspec.Raw]:
    """The members of an object, each as it came.

    Raises:
        msgspec.MsgspecError: It is not an object.
    """
    return _split(raw)


def join(members: Mapping[str, bytes | msgspec.Raw]) -> RawObject:
    """The object that has these members."""
    return RawObject(b"{" + b",".join(encode(k) + b":" + bytes(v) for k, v in members.items()) + b"}")


def with_member(params: RawObject, name: str, value: Any) -> RawObject:
    """``params`` with one member changed; as it came when that changes nothing."""
    if params.get(name) == value:
        return params
    return join({**split(params.raw), name: encode(value)})


def meta_of(params: RawObject) -> dict[str, Any]:
    """The members of ``_meta``; empty when there is none."""
    meta = params.get("_meta") if META in params.raw else None
    return dict(meta) if isinstance(meta, dict) else {}


def with_meta(params: RawObject, members: Mapping[str, Any]) -> RawObject:
    """``params`` with ``members`` added to its ``_meta``."""
    raw = params.raw
    if META not in raw:
        return RawObject(raw[:-1] + (b',"_meta":' if len(raw) > len(b"{}") else b'"_meta":') + encode(members) + b"}")
    return join({**split(raw), "_meta": encode({**meta_of(params), **members})})


def without_envelope(params: RawObject) -> RawObject:
    """``params`` without what ``_meta`` says about revision, client and progress; vendors' and trace keys stay."""
    if META not in params.raw:
        return params
    meta = meta_of(params)
    kept = {k: v for k, v in meta.items() if k not in META_ENVELOPE and k != "progressToken"}
    if len(kept) == len(meta):
        return params
    members = split(params.raw)
    if kept:
        return join({**members, "_meta": encode(kept)})
    del members["_meta"]
    return join(members)
