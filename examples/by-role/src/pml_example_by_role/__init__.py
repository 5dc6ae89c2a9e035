"""PML exposure mode ``by_role``: the scopes of a client's key say which tools it sees."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import translate
from typing import TYPE_CHECKING

from pml_hookspecs import Selection, setting

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, Services, Session

__all__ = ["ByRole", "Settings"]
EVERYONE = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The table ``[plugins.by_role]``."""

    roles: dict[str, list[str]] = setting(
        dict, "Role, which is a scope of the client's key, to patterns of the tools that it sees; * is everyone."
    )
    meta_tools: bool = setting(True, "Whether everyone sees the gateway's meta-tools, with which to find the others.")


class ByRole:
    """Shows the tools of the roles that a client has. Implements :class:`pml_hookspecs.ExposureMode`."""

    settings_type = Settings

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        """Needs no services."""
        self._settings = settings or Settings()
        self._patterns = {
            role: re.compile("|".join(map(translate, patterns)))
            for role, patterns in self._settings.roles.items()
            if patterns
        }

    async def select(self, catalog: Catalog, session: Session) -> Selection:
        """The meta-tools, then the tools of everyone and of each of the session's roles, in catalog order."""
        mine = [role for role in self._patterns if role == EVERYONE or role in session.scopes]
        why = {entry.id: "meta-tool" for entry in catalog if entry.meta and self._settings.meta_tools}
        for entry in catalog:
            roles = [] if entry.own else [role for role in mine if self._patterns[role].match(entry.id)]
            if roles:
                why[entry.id] = "for everyone" if EVERYONE in roles else f"for {', '.join(sorted(roles))}"
        return Selection(tuple(why), why=why)
