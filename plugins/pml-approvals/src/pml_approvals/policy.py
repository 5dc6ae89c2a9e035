"""Which tasks need a human's word."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pml_hookspecs import CapabilityRun, CodeRun, ToolCall, Workflow

from .subject import hints

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, CatalogEntry, Run, Task

    from .settings import Settings


TASKS = (ToolCall, CodeRun, CapabilityRun, Workflow)


class Policy:
    """Decides by what the task asks for itself, by lists, and by what its tool says of itself, in this order."""

    def __init__(self, settings: Settings, catalog: Catalog) -> None:
        self._settings, self._catalog = settings, catalog

    def needs(self, task: Task, run: Run) -> bool:
        """Whether ``task`` waits for a human."""
        if isinstance(task, TASKS) and task.step.approve:
            return True
        if not isinstance(task, ToolCall):
            return False  # what a plan or code does comes by as the calls that it makes
        if _fits(task.tool, self._settings.require):
            return True
        entry = self._catalog.get(task.tool)
        if entry is None or entry.own or _fits(task.tool, self._settings.trust):
            return False
        planned = run.parent is not None or self._settings.scope == "everywhere"
        return planned and self._by_effects(entry)

    def _by_effects(self, entry: CatalogEntry) -> bool:
        said = hints(entry.definition)
        if said.get("readOnlyHint") is True:
            return False
        if said.get("destructiveHint") is True:
            return self._settings.effects != "none"
        return self._settings.effects == "unknown" and said.get("destructiveHint") is not False


def _fits(tool: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(tool, pattern) for pattern in patterns)
