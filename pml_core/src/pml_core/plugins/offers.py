"""What plugins and the core offer one another, by key."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from pml_hookspecs import Key, Offer
from pml_kit.errors import OperatorError
from pml_kit.offers import OF_PLUGINS
from pml_kit.order import check_choices, counting
from pml_kit.shapes import ShapeError

HOOK = "pml_offers"
CORE = "core"
"""The plugin under whose name the gateway's own offers stand."""
T = TypeVar("T")


class Fault(Protocol):
    """Is told of a plugin that offers what cannot be used; may raise."""

    def __call__(self, plugin: str, hook: str, exc: Exception, /) -> object:
        """``exc`` says what is wrong."""
        ...


class Offers:
    """What is offered under each key, and what of it counts."""

    def __init__(self) -> None:
        self._own: list[tuple[str, Offer[Any]]] = []
        self._counting: dict[Key[Any], Sequence[tuple[str, Any]]] = {}

    def add(self, *offers: Offer[Any]) -> None:
        """Offer what the core has, before plugins are asked; it can be found at once."""
        self._own += [(CORE, offer) for offer in offers]
        for offer in offers:
            self._counting[offer.key] = [*self._counting.get(offer.key, ()), (CORE, offer.service)]

    def use(self, found: Iterable[tuple[str, Offer[Any]]], choices: Mapping[str, str], on_fault: Fault) -> list[str]:
        """Have from now on count what plugins offer, each with its name, as ``[gateway.providers]`` chooses.

        Returns:
            One sentence for each key of which several plugins offer one, and nobody chose.

        Raises:
            OperatorError: Nobody offers what was chosen.
        """
        offered = _of_one_key([*self._own, *found], on_fault)
        services: dict[Key[Any], list[tuple[str, Any]]] = {}
        for plugin, offer in sorted(offered, key=lambda one: one[0]):
            services.setdefault(offer.key, []).append((plugin, offer.service))
        problems = []
        try:
            known = sorted({*OF_PLUGINS, *services}, key=lambda key: key.name)
            check_choices(choices, (key.name for key in known))
            for key in known:
                self._counting[key], problem = counting(key.name, key.several, services.get(key, ()), choices)
                problems += [problem] if problem else []
        except LookupError as exc:
            raise OperatorError(str(exc)) from None
        return problems

    def find(self, key: Key[T]) -> T | None:
        """The one that counts; None where there is none, or several plugins offer one."""
        found = self.find_all(key)
        return found[0][1] if len({plugin for plugin, _ in found}) == 1 else None

    def find_all(self, key: Key[T]) -> Sequence[tuple[str, T]]:
        """All that count, each with its plugin's name."""
        return self._counting.get(key, ())


def _of_one_key(found: Sequence[tuple[str, Offer[Any]]], on_fault: Fault) -> list[tuple[str, Offer[Any]]]:
    """Without those of plugins that offer something by another key than others do who have the same name for it."""
    keys: dict[str, tuple[str, Key[Any]]] = {}
    wrong: dict[str, str] = {}
    for plugin, offer in found:
        name = offer.key.name
        owner, known = keys.setdefault(name, (plugin, offer.key))
        if known != offer.key:
            wrong[plugin] = (
                f"{HOOK} gives {name!r} by another key than {owner!r} does; import that one, or give yours another name"
            )
    for plugin, problem in wrong.items():
        on_fault(plugin, HOOK, ShapeError(problem))
    return [(plugin, offer) for plugin, offer in found if plugin not in wrong]


def refuse_unless_guards(found: Iterable[tuple[str, Offer[Any]]], guards: Collection[str], refuse: Fault) -> None:
    """See that what decides who may do what is offered by guards alone.

    Of a guard it is known that the gateway is not to start without what it offers, even where the hook raises before it
    has named a key.

    Raises:
        OperatorError: A plugin that is none offers such a thing.
    """
    for plugin, offer in found:
        if offer.key.guards and plugin not in guards:
            problem = f"it offers {offer.key.name!r} and is no guard; name it in the entry points of pml.guards, too"
            refuse(plugin, HOOK, ShapeError(problem))
