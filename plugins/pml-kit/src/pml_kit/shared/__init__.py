"""What several gateways share in one store, where no clock of another machine is read; what a plugin's hooks share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from pml_hookspecs import Services

T = TypeVar("T")
MEMBER = "_parts_of_plugins"


class GatewayParts(Generic[T]):
    """Parts that are made when they are first asked for, and end with their gateway.

    They hang on an object of the gateway. In a table by that object, even one with weak keys, they would never be
    collected: parts hold their services, so the table would hold its own keys.
    """

    def __init__(
        self, make: Callable[[Services], T], of: Callable[[Services], Any] = lambda services: services
    ) -> None:
        """``of`` gives the object: the services themselves, or what stays the same when settings change."""
        self._make, self._of = make, of

    def __call__(self, services: Services) -> T:
        """The parts of this gateway."""
        known: dict[Any, T] = vars(self._of(services)).setdefault(MEMBER, {})
        if self not in known:
            known[self] = self._make(services)
        return known[self]
