"""A tool that the gateway itself serves: who is on call for a team. A question that has no answer tells the agent which
ones have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pml_hookspecs import InvalidArguments, MetaTool, Run, Services, hookimpl, setting

DEFINITION = {
    "name": "who_is_on_call",
    "description": "Name the person who is on call for a team.",
    "inputSchema": {"type": "object", "properties": {"team": {"type": "string"}}, "required": ["team"]},
    "annotations": {"readOnlyHint": True},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    teams: dict[str, str] = setting(dict, "Who is on call, by team.")


settings_type = Settings


@hookimpl
def pml_meta_tools(services: Services) -> Iterable[MetaTool]:
    teams: Mapping[str, str] = services.settings.teams

    async def who_is_on_call(arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
        team = str(arguments.get("team", ""))
        if team not in teams:
            raise InvalidArguments(f"there is no team {team!r}; ask for one of: {', '.join(sorted(teams))}")
        return {"team": team, "person": teams[team]}

    return [MetaTool(definition=DEFINITION, call=who_is_on_call)]
