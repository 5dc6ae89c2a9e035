"""PML exposure mode ``by_role``: the scopes of a client's key, and the time of day, say which tools it sees."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from datetime import datetime
from fnmatch import translate
from typing import TYPE_CHECKING, Self

from pml_hookspecs import MetaTool, Selection, setting

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, Services, Session

__all__ = ["ByRole", "Settings"]
EVERYONE, LOOK_S = "*", 10
HOURS = re.compile(r"[0-2]\d:[0-5]\d-[0-2]\d:[0-5]\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The table ``[plugins.by_role]``."""

    roles: dict[str, list[str]] = setting(dict, "Role, a scope of a key, to patterns of its tools; * is everyone.")
    hours: dict[str, str] = setting(dict, "Role to when it sees them, local time: 08:00-18:00. Always, if not said.")
    meta_tools: bool = setting(True, "Whether everyone sees the gateway's meta-tools, with which to find the others.")


class ByRole:
    """Shows the tools of the roles that a client has now. Implements :class:`pml_hookspecs.ExposureMode`."""

    settings_type = Settings

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        """Raises ValueError for hours that are none."""
        self._settings, self._services = settings or Settings(), services
        roles = self._settings.roles.items()
        self._patterns = {role: re.compile("|".join(map(translate, tools))) for role, tools in roles if tools}
        for role, hours in self._settings.hours.items():
            if not HOURS.fullmatch(hours):
                raise ValueError(f"[plugins.by_role] hours.{role}: write it as 08:00-18:00, not {hours!r}")
        self._now = self._roles_now()

    async def __aenter__(self) -> Self:
        if self._services is not None and self._settings.hours:
            self._services.spawn(self._tell_the_time, self._services, name="hours")
        return self

    async def __aexit__(self, *_: object) -> None:
        """What was spawned is ended by the gateway."""

    def _roles_now(self) -> list[str]:
        now, everything = datetime.now().astimezone().strftime("%H:%M"), self._settings.hours
        hours = {role: everything.get(role, "00:00-24:00").split("-") for role in sorted(self._patterns)}
        return [role for role, (a, b) in hours.items() if (a <= now < b if a <= b else not b <= now < a)]

    async def _tell_the_time(self, services: Services) -> None:
        """Lists are made once for each catalog, so the catalog says who sees something: it changes with the hours."""

        async def roles(*_: object) -> dict[str, list[str]]:
            return {"roles": self._now}

        while True:
            self._now = self._roles_now()
            told = {"name": "roles_now", "description": f"Roles whose tools are listed now: {', '.join(self._now)}"}
            services.publish("by_role", [MetaTool(definition={**told, "inputSchema": {"type": "object"}}, call=roles)])
            await asyncio.sleep(LOOK_S)

    async def select(self, catalog: Catalog, session: Session) -> Selection:
        """The meta-tools, then the tools of everyone and of each of the session's roles, in catalog order."""
        mine = [role for role in self._now if role == EVERYONE or role in session.scopes]
        why = {entry.id: "meta-tool" for entry in catalog if entry.meta and self._settings.meta_tools}
        for entry in catalog:
            roles = [] if entry.own else [role for role in mine if self._patterns[role].match(entry.id)]
            if roles:
                why[entry.id] = "for everyone" if EVERYONE in roles else f"for {', '.join(roles)}"
        return Selection(tuple(why), why=why)
