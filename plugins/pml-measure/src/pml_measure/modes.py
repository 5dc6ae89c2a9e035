"""What clients would be shown: every exposure mode as the configuration and the presets set it up."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments
from pml_kit.mcp.tokens import text_of_tool
from pml_kit.offers import VIEWS, required

from . import presets

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, Services

    from .counting import Counter
    from .presets import Preset

CONFIGURED = "as configured"


@dataclass(frozen=True, slots=True)
class Variant:
    """An exposure mode with settings."""

    name: str
    """A preset's, a mode's, ``endpoint <name>``, or :data:`CONFIGURED`."""
    mode: str
    intent: str = ""
    """The hint that all its clients have."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Members of the mode's table that are tried instead of those configured."""

    async def listed(self, services: Services, intent: str = "") -> list[CatalogEntry]:
        """What a client with this hint is shown, in order.

        Raises:
            InvalidArguments: The mode cannot be made.
        """
        try:
            found = await required(services, VIEWS).listed(
                self.mode, intent=self.intent or intent, settings=self.settings
            )
        except (LookupError, ValueError) as exc:
            raise InvalidArguments(
                f"the exposure mode {self.mode!r} ({self.name}) cannot be tried: {exc}; see pml plugins doctor."
            ) from exc
        return list(found)


async def variants(services: Services) -> list[Variant]:
    """Modes as configured for each endpoint, then by preset, then those without a preset.

    Raises:
        OperatorError: A file of presets cannot be read.
    """
    return arranged(services, await asyncio.to_thread(presets.known))


def arranged(services: Services, known: Sequence[Preset]) -> list[Variant]:
    """The variants, with these presets."""
    first, *others = required(services, VIEWS).endpoints()
    made = [Variant(CONFIGURED, first.mode, first.intent)]
    alike = {(first.mode, first.intent)}
    for view in others:
        if (view.mode, view.intent) not in alike:
            made.append(Variant(f"endpoint {view.endpoint}", view.mode, view.intent))
            alike.add((view.mode, view.intent))
    installed = sorted({point.name for point in entry_points(group="pml.exposure_mode")})
    chosen = [(preset, preset.mode or first.mode) for preset in known]
    made += [Variant(p.name, mode, settings=p.settings.get(mode, {})) for p, mode in chosen if mode in installed]
    covered = {mode for _, mode in chosen}
    return made + [Variant(mode, mode) for mode in installed if mode not in covered]


def text_of(entry: CatalogEntry, services: Services) -> str:
    """What a model reads of a tool, under its name as shown."""
    return text_of_tool(entry.definition, services.catalog.exposed_name(entry.id))


class Sizes:
    """Tokens of tools, each counted once."""

    def __init__(self, services: Services, counter: Counter) -> None:
        self._services, self._counter = services, counter
        self._known: dict[str, int] = {}

    def of(self, entry: CatalogEntry) -> int:
        """Tokens of one tool."""
        if entry.id not in self._known:
            self._known[entry.id] = self._counter.count(text_of(entry, self._services))
        return self._known[entry.id]

    def all(self, entries: Sequence[CatalogEntry]) -> int:
        """Tokens of several."""
        return sum(map(self.of, entries))

    def text(self, text: str) -> int:
        """Tokens of any text."""
        return self._counter.count(text)
