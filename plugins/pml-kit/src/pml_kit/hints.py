"""What to do about a name that nothing has, and about several that offer the same."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

Offer: TypeAlias = tuple[str, Any]
"""A plugin, and what it offers."""
PARTS: Mapping[str, str] = {
    "pml_search_index": "search",
    "pml_embedders": "embedder",
    "pml_suggesters": "suggester",
    "pml_identities": "identities",
}
"""What plugins offer in place of one another, by the hook that they offer it by."""
TOGETHER = frozenset({"suggester", "identities"})
"""Parts of which all that are installed are asked where none is chosen."""


def near(name: str, names: Iterable[str], otherwise: str = "") -> str:
    """Which of ``names`` was meant, as a clause; ``otherwise``, or which there are, where none is like ``name``."""
    known = sorted(names)
    found = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {found[0]!r}?" if found else otherwise or f"installed: {', '.join(known) or 'none'}"


def chosen(hook: str, found: Sequence[Offer], choices: Mapping[str, str]) -> tuple[list[Offer], str]:
    """Of what plugins offer by ``hook``, what counts; and one sentence where several do and nobody chose.

    Args:
        hook: One of :data:`PARTS`.
        found: What they offer.
        choices: Part to plugin, ``[gateway.providers]``.

    Raises:
        LookupError: The plugin that was chosen offers none, or there is no such part.
    """
    part = PARTS[hook]
    if unknown := sorted(set(choices) - set(PARTS.values())):
        raise LookupError(f"gateway.providers.{unknown[0]}: there is no such part; {near(unknown[0], PARTS.values())}")
    plugins = sorted({plugin for plugin, _ in found})
    if (choice := choices.get(part)) is not None:
        if choice not in plugins:
            raise LookupError(f"gateway.providers.{part}: no plugin {choice!r} brings one; {near(choice, plugins)}")
        return [one for one in found if one[0] == choice], ""
    if not plugins[1:]:
        return list(found), ""
    counting = list(found) if part in TOGETHER else []
    counts = "all of them are asked" if counting else "none of them counts"
    how = f'choose one: [gateway.providers] {part} = "{plugins[0]}"'
    return counting, f"several plugins bring {part} ({', '.join(plugins)}): {counts}; {how}"


def unchosen(gather: Callable[[str], Sequence[Offer]], choices: Mapping[str, str]) -> Iterator[str]:
    """One sentence for each part that several plugins offer and of which nobody chose one.

    Args:
        gather: What plugins offer by a hook.
        choices: As of :func:`chosen`; a wrong one is not told.
    """
    for hook in PARTS:
        with suppress(LookupError):
            if problem := chosen(hook, gather(hook), choices)[1]:
                yield problem
