"""How plugins were when the gateway last ran, for the doctor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pml_hookspecs import Store

COLLECTION, KEY = "core.health", "plugins"
UP = "up"


class PluginVersion(Protocol):
    """Which plugin it is, and of what."""

    name: str

    @property
    def origin(self) -> str:
        """Distribution and version, or the file."""
        ...


@dataclass(frozen=True, slots=True)
class PluginProblem:
    """A plugin that was not well."""

    plugin: str
    problem: str
    seen_at: str
    """When it was last seen so, ISO 8601."""


async def keep(store: Store, records: Iterable[PluginVersion], health: Mapping[str, str]) -> None:
    """Keep what is wrong with plugins now instead of what was before."""
    versions = {record.name: record.origin for record in records}
    ill = {
        name: {"problem": problem, "origin": versions[name]}
        for name, problem in health.items()
        if problem != UP and name in versions
    }
    await store.documents.put(COLLECTION, KEY, {"plugins": ill})


async def last(store: Store, records: Iterable[PluginVersion]) -> Sequence[PluginProblem]:
    """What was wrong when a gateway last said; of plugins that are still as they were then."""
    found = await store.documents.get(COLLECTION, KEY)
    if found is None:
        return []
    versions = {record.name: record.origin for record in records}
    return [
        PluginProblem(name, ill["problem"], found.changed_at.isoformat(timespec="seconds"))
        for name, ill in found.value["plugins"].items()
        if versions.get(name) == ill["origin"]
    ]
