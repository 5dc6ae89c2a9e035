"""Which of what plugins contribute counts, and in which order: as they and a setting say.

Names only decide where nobody says anything, so that it is the same on every start.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from pml_hookspecs import Key, Offer, Wrapper

OPTIONAL = "?"
"""Behind the name of a plugin that need not be there."""


class PluginWrapper(Protocol):
    """A wrapper with its plugin."""

    @property
    def plugin(self) -> str:
        """Who contributed it."""
        ...

    @property
    def wrapper(self) -> Wrapper:
        """What it contributed."""
        ...


C = TypeVar("C", bound=PluginWrapper)


class Order(NamedTuple):
    """What a wrapper says of its place."""

    before: tuple[str, ...] = ()
    """Plugins whose wrappers it is outside of."""
    after: tuple[str, ...] = ()
    """Plugins whose wrappers it is inside of."""

    @classmethod
    def of(cls, wrapper: Any) -> Order:
        """What one says; nothing where it has no such members."""
        return cls(tuple(getattr(wrapper, "before", ())), tuple(getattr(wrapper, "after", ())))

    def said(self) -> dict[str, tuple[str, ...]]:
        """``before`` and ``after``, without what is empty."""
        return {how: names for how, names in self._asdict().items() if names}

    def __str__(self) -> str:
        return "; ".join(f"{how} {', '.join(names)}" for how, names in self.said().items())


def in_order(wrappers: Iterable[C]) -> tuple[list[C], list[str]]:
    """The wrappers, outermost first, and one sentence for each wish that cannot be had.

    What says nothing of each other stands in the order of names, so that it is the same on every start.
    """
    found = sorted(wrappers, key=lambda one: (int(one.wrapper.phase), one.plugin))
    problems = list(_unknown(found))
    ordered: list[C] = []
    for phase in sorted({int(one.wrapper.phase) for one in found}):
        ordered += _within([one for one in found if int(one.wrapper.phase) == phase], problems)
    return ordered, problems


def _within(waiting: list[C], problems: list[str]) -> Iterator[C]:
    """Those of one phase: always the first that nobody is before who still waits."""
    while waiting:
        free = next((one for one in waiting if not any(_is_before(o, one) for o in waiting if o is not one)), None)
        if free is None:
            free = waiting[0]
            phase, names = free.wrapper.phase.name, ", ".join(one.plugin for one in waiting)
            problems.append(f"wrappers in {phase} go round in a circle ({names}): take a before or after out of one")
        waiting.remove(free)
        yield free


def _is_before(one: PluginWrapper, other: PluginWrapper) -> bool:
    wished, theirs = Order.of(one.wrapper), Order.of(other.wrapper)
    return _names(other.plugin, wished.before) or _names(one.plugin, theirs.after)


def _names(plugin: str, names: Collection[str]) -> bool:
    return plugin in names or f"{plugin}{OPTIONAL}" in names


def _unknown(found: Sequence[PluginWrapper]) -> Iterator[str]:
    phases: dict[str, set[int]] = {}
    for one in found:
        phases.setdefault(one.plugin, set()).add(int(one.wrapper.phase))
    for one in found:
        for how, names in Order.of(one.wrapper).said().items():
            for name in names:
                where = phases.get(name.removesuffix(OPTIONAL))
                told = f"the wrapper of {one.plugin!r} in {one.wrapper.phase.name} is to run {how} {name!r}"
                mine = int(one.wrapper.phase)
                if where is None and not name.endswith(OPTIONAL):
                    hint = near(name, phases, f"write {name + OPTIONAL!r} if it need not be there")
                    yield f"{told}, which wraps nothing here; {hint}"
                elif where and all(p < mine if how == "before" else p > mine for p in where):
                    yield f"{told}, whose phase says the opposite; give one of them another phase"


Offered: TypeAlias = tuple[str, Any]
"""A plugin, and what it offers."""


def near(name: str, names: Iterable[str], otherwise: str = "") -> str:
    """Which of ``names`` was meant, as a clause; ``otherwise``, or which there are, where none is like ``name``."""
    known = sorted(names)
    found = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {found[0]!r}?" if found else otherwise or f"installed: {', '.join(known) or 'none'}"


def check_choices(choices: Iterable[str], names: Iterable[str]) -> None:
    """See that each part that somebody chose for is one of ``names``.

    Raises:
        LookupError: There is no such part.
    """
    known = set(names)
    if unknown := sorted(set(choices) - known):
        raise LookupError(f"gateway.providers.{unknown[0]}: there is no such part; {near(unknown[0], known)}")


def counting(
    part: str, several: str, found: Sequence[Offered], choices: Mapping[str, str]
) -> tuple[list[Offered], str]:
    """Of what plugins offer as ``part``, what counts; and one sentence where several do and nobody chose.

    Args:
        part: What it is, as ``[gateway.providers]`` calls it.
        several: What counts where nobody chose, as of :class:`pml_hookspecs.Key`.
        found: What they offer.
        choices: Part to plugin, ``[gateway.providers]``.

    Raises:
        LookupError: The plugin that was chosen offers none.
    """
    plugins = sorted({plugin for plugin, _ in found})
    if (choice := choices.get(part)) is not None:
        if choice not in plugins:
            raise LookupError(f"gateway.providers.{part}: no plugin {choice!r} brings one; {near(choice, plugins)}")
        return [one for one in found if one[0] == choice], ""
    if several == "all" or not plugins[1:]:
        return list(found), ""
    counts = "none of them counts" if several == "none" else "all of them are asked"
    how = f'choose one: [gateway.providers] {part} = "{plugins[0]}"'
    those = [] if several == "none" else list(found)
    return those, f"several plugins bring {part} ({', '.join(plugins)}): {counts}; {how}"


def unchosen(offers: Iterable[tuple[str, Offer[Any]]], choices: Mapping[str, str]) -> Iterator[str]:
    """One sentence for each key under which several plugins offer something and of which nobody chose one.

    Args:
        offers: What they offer, with their names.
        choices: As of :func:`counting`; a wrong one is not told.
    """
    offered: dict[Key[Any], list[Offered]] = {}
    for plugin, offer in offers:
        offered.setdefault(offer.key, []).append((plugin, offer.service))
    for key, services in offered.items():
        with suppress(LookupError):
            if problem := counting(key.name, key.several, services, choices)[1]:
                yield problem
