"""What plugins, and the gateway itself, offer one another: a service under a typed key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar

_T = TypeVar("_T")
Several: TypeAlias = Literal["none", "asked", "all"]
"""What counts where several plugins offer something and ``[gateway.providers]`` names none of them: nothing; all of it;
or all of it as a matter of course. In the first two cases the operator is told to choose."""


@dataclass(frozen=True)
class Key(Generic[_T]):
    """Under which something is offered and found: ``SEARCH: Key[SearchIndex] = Key("search", SearchIndex)``.

    Whoever offers it and whoever looks for it import the same key, from a library that both depend on. Keys are equal
    when all that they say is.
    """

    name: str
    """The word that ``[gateway.providers]`` chooses by, and that messages have."""
    protocol: type[Any]
    """What a service has to be, seen to before anybody is given it: a protocol, or a class of values."""
    several: Several = "none"
    guards: bool = False
    """Whether what is found decides who may do what. Only a plugin that is a guard (entry point group ``pml.guards``)
    may offer it, and without what such a plugin offers the gateway does not start."""


@dataclass(frozen=True)
class Offer(Generic[_T]):
    """Something that others may find."""

    key: Key[_T]
    service: _T
