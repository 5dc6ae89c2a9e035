"""Hook plugin ``execution_tools``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pml_hookspecs import MetaTool, hookimpl, setting

if TYPE_CHECKING:
    from pml_hookspecs import Services


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The table ``[plugins.execution_tools]``."""

    listed: bool = setting(False, "List the tools with the meta-tools; they can be found and called in any case.")


settings_type = Settings


@hookimpl
def pml_meta_tools(services: Services) -> Iterable[MetaTool]:
    """``list_recent_executions`` and ``get_execution_result``."""
    from .definitions import GET_EXECUTION_RESULT, LIST_RECENT_EXECUTIONS
    from .queries import GetExecutionResult, ListRecentExecutions

    settings: Settings = services.settings or Settings()
    return [
        MetaTool(definition=LIST_RECENT_EXECUTIONS, call=ListRecentExecutions(services), listed=settings.listed),
        MetaTool(definition=GET_EXECUTION_RESULT, call=GetExecutionResult(services), listed=settings.listed),
    ]
