"""A tool that the gateway itself serves, made of a function: who is on call for a team. Its hints are the schema, its
docstring is the description. A question that has no answer tells the agent which ones have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from pml_hookspecs import InvalidArguments, MetaTool, Services, hookimpl, setting
from pml_kit.mcp.functions import meta_tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    teams: dict[str, str] = setting(dict, "Who is on call, by team.")


settings_type = Settings


@hookimpl
def pml_meta_tools(services: Services) -> Iterable[MetaTool]:
    teams: Mapping[str, str] = services.settings.teams

    async def who_is_on_call(team: Annotated[str, "Name of the team"]) -> Mapping[str, str]:
        """Name the person who is on call for a team."""
        if team not in teams:
            raise InvalidArguments(f"there is no team {team!r}; ask for one of: {', '.join(sorted(teams))}")
        return {"team": team, "person": teams[team]}

    return [meta_tool(who_is_on_call, effects="read")]
