"""Which tasks need a human's word."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pml_hookspecs import CapabilityRun, CodeRun, PluginTask, ServerRequest, ToolCall, Workflow

from .subject import hints

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, CatalogEntry, Task

    from .settings import Settings


OF_REQUESTS = ":@"
"""In a pattern that is about what servers are asked besides tools; one for tools is not about that."""
TASKS = (ToolCall, CodeRun, CapabilityRun, PluginTask, Workflow)


class Policy:
    """Decides by what the task asks for itself, by lists, and by what its tool says of itself, in this order."""

    def __init__(self, settings: Settings, catalog: Catalog) -> None:
        self._settings, self._catalog = settings, catalog

    def why(self, task: Task, *, indirect: bool) -> str:
        """Why ``task`` waits for a human; ``""`` when it does not.

        Args:
            task: What is to run.
            indirect: Whether no client names it, and so no client's human was asked: a step of a plan, or what a
                meta-tool stands for.
        """
        if isinstance(task, TASKS) and task.step.approve:
            return "the plan says so"
        if isinstance(task, ServerRequest):
            named = tuple(pattern for pattern in self._settings.require if OF_REQUESTS in pattern)
            return "policy: it always needs approval" if _fits(task.name, named) else ""
        if not isinstance(task, ToolCall):
            return ""  # what a plan or code does comes by as the calls that it makes
        if _fits(task.tool, self._settings.require):
            return "policy: it always needs approval"
        entry = self._catalog.get(task.tool)
        if (entry is not None and entry.own) or _fits(task.tool, self._settings.trust):
            return ""
        return self._by_effects(entry) if indirect or self._settings.scope == "everywhere" else ""

    def _by_effects(self, entry: CatalogEntry | None) -> str:
        if entry is None:
            return "" if self._settings.effects == "none" else "policy: its server does not list it, so it may destroy"
        said = hints(entry.definition)
        if said.get("readOnlyHint") is True:
            return ""
        if said.get("destructiveHint") is True:
            return "" if self._settings.effects == "none" else "policy: it says that it may destroy"
        effects = self._settings.effects
        unsaid = effects == "writes" or (effects == "unknown" and said.get("destructiveHint") is not False)
        return "policy: it does not say that it only reads" if unsaid else ""


def _fits(tool: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(tool, pattern) for pattern in patterns)
