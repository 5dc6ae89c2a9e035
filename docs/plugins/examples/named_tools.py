"""The tools that a rota of people is about: a name in it that fits no tool is told at the start, and by the doctor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pml_hookspecs import NamedTools, Services, hookimpl, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    people: dict[str, list[str]] = setting(dict, "Who looks after which tools, by name or pattern.")


settings_type = Settings


@hookimpl
def pml_named_tools(services: Services) -> Iterable[NamedTools]:
    for person, tools in services.settings.people.items():
        yield NamedTools(f"plugins.{services.plugin}.people.{person}", tools)
