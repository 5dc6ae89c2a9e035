"""Plans from recipes: when all words of a recipe are in the intent, its tools are called one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pml_hookspecs import Offer, Run, Services, ToolCall, Workflow, hookimpl, setting
from pml_kit.offers import SUGGESTER, Suggestion


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    recipes: dict[str, list[str]] = setting(dict, "Ids of tools, by the words that an intent has to have.")


settings_type = Settings


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    return [Offer(SUGGESTER, Recipes(services))]


class Recipes:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def suggest(self, intent: str, run: Run, *, limit: int) -> Sequence[Suggestion]:
        said = set(intent.lower().split())
        recipes: dict[str, list[str]] = self._services.settings.recipes
        fitting = [words for words in sorted(recipes) if said.issuperset(words.split())]
        plans = [self._plan(words, recipes[words], run) for words in fitting]
        return [plan for plan in plans if plan is not None][:limit]

    def _plan(self, words: str, tools: Sequence[str], run: Run) -> Suggestion | None:
        entries = [self._services.catalog.resolve(tool) for tool in tools]
        tasks: list[ToolCall] = []
        for number, entry in enumerate(entries, 1):
            if entry is None or not self._services.catalog.allows(entry, run.session):
                return None
            before = (tasks[-1].id,) if tasks else ()
            tasks.append(ToolCall(id=f"step{number}", tool=entry.id, depends_on=before))
        workflow = Workflow(id="recipe", tasks=tuple(tasks))
        return Suggestion(workflow=workflow, confidence=0.95, why=f"The recipe for {words!r}.")
