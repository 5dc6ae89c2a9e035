"""Hook plugin ``code_mode``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pml_hookspecs import GATEWAY_SERVER, MetaTool, ToolFilter, hookimpl, setting
from pml_kit.mcp.effects import PermissionClasses, in_classes

from .definitions import DESCRIBE, DESCRIBE_CODE_TOOLS, RUN_CODE, RUN_CODE_READ, run_code, run_code_read

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, Services, Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """``[plugins.code_mode]``."""

    listed: bool = setting(False, "Whether the meta-tool modes list run_code; unlisted, it can be called by name.")
    endpoints: tuple[str, ...] = setting(
        (),
        "Names of the endpoints that have run_code and describe_code_tools; elsewhere they do not exist. Empty: all.",
    )
    language: Literal["typescript", "javascript", "python"] = setting(
        "typescript", "Language of code that does not say; an executor for it must be installed."
    )
    permission_classes: PermissionClasses = setting(
        "auto",
        "Where run_code is listed, who is shown run_code_read beside it; as of [plugins.search_tools] if not set.",
    )


settings_type = Settings
settings_fallback = "search_tools"


@hookimpl
def pml_meta_tools(services: Services) -> Iterable[MetaTool]:
    """``run_code``, and ``describe_code_tools`` beside it, which is never listed.

    For clients that are shown tools in classes of effects also ``run_code_read``.
    """
    from .describe_tools import DescribeCodeTools
    from .run_code import RunCode

    settings: Settings = services.settings or Settings()
    listed = in_classes(settings.permission_classes) if settings.listed else False
    reading = MetaTool(definition=run_code_read(), task=RunCode(settings.language), listed=listed)
    return [
        MetaTool(definition=run_code(settings.language), task=RunCode(settings.language), listed=settings.listed),
        *([] if settings.permission_classes == "never" else [reading]),
        MetaTool(
            definition=DESCRIBE_CODE_TOOLS,
            call=DescribeCodeTools(services, settings.language),
            listed=False,
            whole_catalog=True,
        ),
    ]


@hookimpl
def pml_filter_tools(services: Services) -> Iterable[ToolFilter]:
    """Takes these tools away from endpoints that have not been given them."""
    endpoints = frozenset((services.settings or Settings()).endpoints)
    if not endpoints:
        return []

    def has(entry: CatalogEntry, session: Session) -> bool:
        ours = entry.server == GATEWAY_SERVER and entry.name in (RUN_CODE, RUN_CODE_READ, DESCRIBE)
        return not ours or session.endpoint in endpoints

    return [has]
