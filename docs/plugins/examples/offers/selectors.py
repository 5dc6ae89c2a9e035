"""Of large records, clients get the members that are of use to them; the history has the whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from pml_hookspecs import Json, Offer, Services, Task, ToolCall, hookimpl, setting
from pml_kit.offers import SELECTORS


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    members: dict[str, list[str]] = setting(dict, "Members of answers that clients get, by pattern of tools.")


settings_type = Settings


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    members: dict[str, list[str]] = services.settings.members

    async def select(output: Json, task: Task) -> Json:
        if not isinstance(task, ToolCall) or not isinstance(output, Mapping):
            return output
        shown = next((names for pattern, names in members.items() if fnmatchcase(task.tool, pattern)), None)
        answer = output.get("structuredContent")
        if shown is None or not isinstance(answer, Mapping):
            return output
        text = ", ".join(f"{name}: {answer[name]}" for name in shown if name in answer)
        return {"content": [{"type": "text", "text": text}]}

    return [Offer(SELECTORS, select)]
