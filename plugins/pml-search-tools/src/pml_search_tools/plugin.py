"""Hook plugin ``search_tools``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pml_hookspecs import MetaTool, Offer, Workflow, hookimpl, replace, setting
from pml_kit.mcp.effects import Effects, PermissionClasses, in_classes
from pml_kit.offers import INDIRECT_CALLS, SELECTORS

if TYPE_CHECKING:
    from pml_hookspecs import Json, Services, Session, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """``[plugins.search_tools]``."""

    permission_classes: PermissionClasses = setting(
        "auto",
        "Who is shown call_tool_read, call_tool_write and call_tool_destroy, whose annotations are true, in place of "
        "call_tool: always, never, or auto, clients that are known to ask their users by annotations.",
    )


settings_type = Settings


@hookimpl
def pml_meta_tools(services: Services) -> Iterable[MetaTool]:
    """``search_tools`` and ``call_tool``, and in the latter's place one tool for each class of effects."""
    from .call_tool import CallTool
    from .definitions import CALL_BY_EFFECTS, CALL_TOOL, SEARCH_TOOLS
    from .search_tools import SearchTools

    settings: Settings = services.settings or Settings()
    by_effects = in_classes(settings.permission_classes)
    found = MetaTool(definition=SEARCH_TOOLS, call=SearchTools(services, by_effects), whole_catalog=True)
    classes = [
        MetaTool(definition=one, task=CallTool(services, one), listed=by_effects) for one in CALL_BY_EFFECTS.values()
    ]
    calls = MetaTool(definition=CALL_TOOL, task=CallTool(services, CALL_TOOL), listed=lambda one: not by_effects(one))
    if settings.permission_classes == "never":
        return [found, replace(calls, listed=True)]
    return [found, calls, *classes]


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    """What answers of tools are cut to, and which tool calls others for a client."""
    by_effects = in_classes((services.settings or Settings()).permission_classes)

    async def selected(output: Json, task: Task) -> Json:
        if isinstance(task, Workflow) or not task.step.select:
            return output
        from .selection import selected as cut

        return await cut(output, task)

    def calling(session: Session, effects: Effects) -> str:
        from .definitions import CALL_BY_EFFECTS, CALL_TOOL

        return str((CALL_BY_EFFECTS[effects] if by_effects(session) else CALL_TOOL)["name"])

    return [Offer(SELECTORS, selected), Offer(INDIRECT_CALLS, calling)]
