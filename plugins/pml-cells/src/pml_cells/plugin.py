"""Hook plugin ``cells``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_hookspecs import MetaTool, hookimpl, setting

if TYPE_CHECKING:
    from pml_hookspecs import Services

    from .sessions import Sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """``[plugins.cells]``."""

    folder: str = setting("", "Folder of all sessions. Empty: notebooks in the folder PML_HOME, or in ~/.pml.")
    listed: bool = setting(False, "Whether the meta-tool modes list the tools; unlisted, they can be called by name.")
    max_timeout_s: float = setting(3600.0, "Longest time that a cell may be given [s].", ge=0.05, le=604800)
    max_cells: int = setting(500, "Cells of one notebook.", ge=2, le=100_000)
    max_cell_bytes: int = setting(1 << 20, "Size of one cell [bytes].", ge=1024, le=1 << 28)
    max_sessions: int = setting(1000, "Sessions in all; to make more, delete some.", ge=1, le=1_000_000)


settings_type = Settings


def sessions_of(services: Services) -> Sessions:
    """The sessions that the settings name."""
    from .sessions import Limits, Sessions

    settings: Settings = services.settings or Settings()
    home = Path(os.environ.get("PML_HOME") or Path.home() / ".pml")
    folder = Path(settings.folder).expanduser() if settings.folder else home / "notebooks"
    limits = Limits(cells=settings.max_cells, cell_bytes=settings.max_cell_bytes, sessions=settings.max_sessions)
    return Sessions(folder, limits)


@hookimpl
def pml_meta_tools(services: Services) -> Iterable[MetaTool]:
    """``cell_execute``, ``notebook_create``, ``cell_create``, ``cell_update``, ``notebook_get``."""
    from .tools import all_tools

    settings: Settings = services.settings or Settings()
    most_ms = settings.max_timeout_s * 1000
    return all_tools(sessions_of(services), most_ms=most_ms, log=services.log, listed=settings.listed)


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """``pml notebook``."""
    from .command import add

    add(subcommands)
