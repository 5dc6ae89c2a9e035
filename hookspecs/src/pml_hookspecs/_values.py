"""Frozen dataclasses that are made in a third of the time."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

C = TypeVar("C", bound=type)


def quick(cls: C) -> C:
    """Give a dataclass with ``frozen=True, slots=True, kw_only=True`` another ``__init__``, with the same parameters.

    What ``dataclass`` writes calls ``object.__setattr__`` for every field. Here the new object is of a twin class that
    has the same slots and is not frozen, for as long as they are being filled. Several such objects are made for each
    call that a gateway hands on.

    Raises:
        TypeError: ``cls`` is not such a dataclass, or has what this does not do: ``__post_init__``, or fields that
            are no parameters.
    """
    params, slots = getattr(cls, "__dataclass_params__", None), vars(cls).get("__slots__")
    known = fields(cls) if params is not None else ()
    plain = all(f.init and f.kw_only for f in known) and slots == tuple(f.name for f in known)
    if params is None or not params.frozen or not plain or hasattr(cls, "__post_init__"):
        raise TypeError(f"{cls.__name__} is not a plain frozen dataclass with slots and keywords only")
    usual = vars(cls)["__init__"]
    twin = type(f"_Unfinished{cls.__name__}", (), {"__slots__": slots})
    names: dict[str, Any] = {"twin": twin, "whole": cls, "become": object.__setattr__, "usual": usual}
    given = ", ".join(_parameter(f, names) for f in known)
    # A subclass has another layout than the twin.
    lines = [
        f"def __init__(self, *, {given}):",
        "    if self.__class__ is not whole:",
        f"        return usual(self, {', '.join(f'{f.name}={_value(f)}' for f in known)})",
        "    become(self, '__class__', twin)",
        *(f"    self.{f.name} = {_value(f)}" for f in known),
        "    self.__class__ = whole",
    ]
    exec("\n".join(lines), names)  # noqa: S102 - as dataclass does: the text is made of field names
    made = names["__init__"]
    made.__module__, made.__qualname__, made.__annotations__ = cls.__module__, usual.__qualname__, usual.__annotations__
    type.__setattr__(cls, "__init__", made)
    return cls


def _parameter(field: Field[Any], names: dict[str, Any]) -> str:
    """How ``field`` stands in the signature; puts what that refers to into ``names``."""
    if field.default is not MISSING:
        names[f"default_{field.name}"] = field.default
        return f"{field.name}=default_{field.name}"
    if field.default_factory is not MISSING:
        names[f"make_{field.name}"], names["missing"] = field.default_factory, MISSING
        return f"{field.name}=missing"
    return field.name


def _value(field: Field[Any]) -> str:
    """What is assigned."""
    if field.default_factory is MISSING:
        return field.name
    return f"make_{field.name}() if {field.name} is missing else {field.name}"
