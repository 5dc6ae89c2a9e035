"""The values of the contract: those made for each call are structs of msgspec, the others dataclasses."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import NODEFAULT, Struct, structs

_V = TypeVar("_V")


def replace(value: _V, /, **changes: Any) -> _V:
    """A copy of a value with other members, as :func:`copy.replace` makes one from Python 3.13 on.

    Raises:
        TypeError: It is no value, or has no such member.
    """
    if isinstance(value, Struct):
        return structs.replace(value, **changes)
    return dataclasses.replace(value, **changes)  # type: ignore[type-var]


def defaults(kind: type[Any]) -> Mapping[str, Any]:
    """Each member that values of a kind are made with, in order, and its default: ``msgspec.NODEFAULT`` for none."""
    if issubclass(kind, Struct):
        given = kind.__struct_defaults__
        missing = (NODEFAULT,) * (len(kind.__struct_fields__) - len(given))
        pairs = zip(kind.__struct_fields__, (*missing, *given), strict=True)
        return {name: made.factory() if hasattr(made, "factory") else made for name, made in pairs}
    found = {}
    for field in dataclasses.fields(kind):
        if field.init:
            made = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
            found[field.name] = NODEFAULT if made is dataclasses.MISSING else made
    return found
