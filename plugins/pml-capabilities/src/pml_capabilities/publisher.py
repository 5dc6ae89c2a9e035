"""Shows proven capabilities beside tools, and takes back those that do not hold any more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CapabilityRun, InvalidArguments, MetaTool, ToolId, replace
from pml_kit.schema.members import properties

from .inputs import problems
from .library import Library, library_of
from .normalization import one_line, owned
from .tools import floor, staleness, takes, usable

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, CatalogEntry, Services, Session

    from .capability import Capability
    from .settings import Settings

META = "pml/capability"
"""Member of a definition's ``_meta`` that says which capability it is."""
ANYWAY_S = 60.0
"""Look at the store so often even when nothing is known to have changed: other gateways learn, too."""
LONGEST_DESCRIPTION = 300
SHOWN_TOOLS = 8


class OwnerFilter:
    """Hides published capabilities of other principals. Implements :class:`pml_hookspecs.ToolFilter`."""

    hides = True

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher

    @property
    def shared(self) -> bool:
        """Whether everybody sees the same: nothing is published yet."""
        return not self._publisher.publishes

    def __call__(self, entry: CatalogEntry, session: Session) -> bool:
        """Whether the session's principal may have ``entry``."""
        return self._publisher.keeps(entry, session)

    def why(self, _entry: CatalogEntry, _session: Session) -> str:
        """In a few words."""
        return "code of others taught it"


class Publisher:
    """Keeps the tools that clients see in step with what is kept."""

    def __init__(self, services: Services, settings: Settings) -> None:
        self._services, self._settings = services, settings
        self._changed = asyncio.Event()
        self._revision, self._looked_at = "", 0.0
        self._shown: list[dict[str, Any]] = []
        self._visible: Mapping[ToolId, Capability] = {}

    def changed(self) -> None:
        """What is kept has changed: look soon."""
        self._changed.set()

    @property
    def publishes(self) -> bool:
        """Whether there are tools of ours."""
        return bool(self._visible)

    def keeps(self, entry: CatalogEntry, session: Session) -> bool:
        """As a filter of tools: what others taught is not for everybody, unless the settings say so."""
        if entry.server != self._settings.server or self._settings.shared:
            return True
        capability = self._visible.get(entry.id)
        return capability is not None and capability.visible(session.principal, self._settings)

    async def keep_in_step(self) -> None:
        """Look whenever something has changed, until cancelled."""
        while True:
            try:
                await self.look()
            except Exception:  # the store may be well again the next time
                self._services.log.exception("capabilities could not be looked through")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), self._settings.refresh_s)

    async def look(self) -> None:
        """Retire what does not hold, and publish what is proven; nothing when nothing can have changed."""
        overdue = time.monotonic() - self._looked_at >= ANYWAY_S
        if not (self._changed.is_set() or overdue or self._services.catalog.revision != self._revision):
            return
        library = library_of(self._services)
        if library is None:
            return
        self._changed.clear()
        revision = self._services.catalog.revision
        known = [await self._checked(capability, library) for capability in await library.all()]
        self._publish(known)
        # Not the revision afterwards: what came in between is looked at the next time.
        self._revision, self._looked_at = revision, time.monotonic()

    async def _checked(self, capability: Capability, library: Library) -> Capability:
        if capability.retired or not (why := staleness(capability, self._services.catalog)):
            return capability
        self._services.log.info("capability retired", capability=capability.id, name=capability.name, reason=why)
        # The tools that others may have found meanwhile count, not those looked at.
        changed = await library.change(
            capability.id,
            lambda now: replace(now, retired=now.retired or why) if now.tools == capability.tools else now,
        )
        return changed or replace(capability, retired=why)

    def _publish(self, known: Sequence[Capability]) -> None:
        catalog, settings = self._services.catalog, self._settings
        proven = [c for c in known if (settings.shared or c.owner) and c.proven(settings) and usable(c, catalog)]
        best = named(best_of_alike(proven, settings), settings)
        tools = [tool_of(capability, name, catalog) for name, capability in best.items()]
        definitions = [dict(tool.definition) for tool in tools]
        if definitions == self._shown:
            return
        self._visible = {ToolId(f"{settings.server}:{name}"): capability for name, capability in best.items()}
        try:
            self._services.publish(settings.server, tools)
        except ValueError as exc:
            self._services.log.warning(
                "proven capabilities are not listed", problem=str(exc), remedy="set [plugins.capabilities] server"
            )
        self._shown = definitions


def best_of_alike(proven: Sequence[Capability], settings: Settings) -> list[Capability]:
    """Of those that do the same for the same people, the one that did it best: most often well, then fastest."""
    kept: list[Capability] = []
    for one in sorted(proven, key=lambda c: (-c.successes / max(1, c.runs), -c.successes, c.duration_ms, c.id)):
        if not any(alike(one, better, settings) for better in kept):
            kept.append(one)
    return kept


def alike(one: Capability, other: Capability, settings: Settings) -> bool:
    """Whether clients would take one for the other: same tools, same inputs, intents that say the same."""
    from .similarity import likeness

    return (
        one.tools.keys() == other.tools.keys()
        and properties(one.inputs).keys() == properties(other.inputs).keys()
        and (settings.shared or one.principals <= other.principals)
        and likeness(one.intent, other.intent) >= settings.alike
    )


def named(capabilities: Sequence[Capability], settings: Settings) -> dict[str, Capability]:
    """By name, in order of name; two that got the same from different gateways are told apart."""
    found: dict[str, Capability] = {}
    for capability in sorted(capabilities, key=lambda c: (c.name, c.id)):
        name = owned(capability.name, "" if settings.shared else capability.owner)
        found[name if name not in found else f"{name}_{capability.id[:6]}"] = capability
    return found


def tool_of(capability: Capability, name: str, catalog: Catalog) -> MetaTool:
    """What clients see. Nothing in it changes with each run."""
    used = [str(tool) for tool in sorted(capability.tools)]
    more = f" and {len(used) - SHOWN_TOOLS} more" if len(used) > SHOWN_TOOLS else ""
    using = f" Uses {', '.join(used[:SHOWN_TOOLS])}{more}." if used else ""
    intent = one_line(capability.intent, LONGEST_DESCRIPTION).rstrip(".")
    definition = {
        "name": name,
        "description": f"{intent[:1].upper()}{intent[1:]}. Learned from code that worked.{using}",
        "inputSchema": capability.inputs,
        "annotations": floor(catalog.get(tool) for tool in capability.tools),
        "_meta": {META: {"id": capability.id, "learned_from": len(capability.principals)}},
    }
    return MetaTool(definition=definition, task=_task_of(capability, name))


def _task_of(capability: Capability, name: str) -> Callable[[Mapping[str, Any]], CapabilityRun]:
    def task(arguments: Mapping[str, Any]) -> CapabilityRun:
        if wrong := problems(capability.inputs, arguments):
            raise InvalidArguments(f"{name}: {'; '.join(wrong)}. It takes: {takes(capability)}.")
        return CapabilityRun(id=name, capability_id=capability.id, inputs=arguments)

    return task
