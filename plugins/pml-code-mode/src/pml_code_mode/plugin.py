"""Hook plugin ``code_mode``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pml_hookspecs import GATEWAY_SERVER, MetaTool, ToolFilter, hookimpl, setting

from .definitions import DESCRIBE, DESCRIBE_CODE_TOOLS, RUN_CODE, run_code

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


settings_type = Settings


@hookimpl
def pml_meta_tools(services: Services) -> Iterable[MetaTool]:
    """``run_code``, and ``describe_code_tools`` beside it, which is never listed."""
    from .describe_tools import DescribeCodeTools
    from .run_code import RunCode

    settings: Settings = services.settings or Settings()
    return [
        MetaTool(definition=run_code(settings.language), task=RunCode(settings.language), listed=settings.listed),
        MetaTool(
            definition=DESCRIBE_CODE_TOOLS,
            call=DescribeCodeTools(services, settings.language),
            listed=False,
            whole_catalog=True,
        ),
    ]


@hookimpl
def pml_filter_tools(services: Services) -> Iterable[ToolFilter]:
    """Takes both tools away from endpoints that have not been given them."""
    endpoints = frozenset((services.settings or Settings()).endpoints)
    if not endpoints:
        return []

    def has(entry: CatalogEntry, session: Session) -> bool:
        ours = entry.server == GATEWAY_SERVER and entry.name in (RUN_CODE, DESCRIBE)
        return not ours or session.endpoint in endpoints

    return [has]
