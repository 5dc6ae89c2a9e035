"""Lines of ``pml plugins doctor``."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pml_hookspecs import Check, split_tool_id

from .prices import Prices
from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services


def checks(services: Services) -> Iterator[Check]:
    """One for each price that fits nothing, or one for all when there is none such."""
    settings: Settings = services.settings or Settings()
    tools = {str(entry.id) for entry in services.catalog}
    known = {split_tool_id(tool)[0] for tool in tools}
    prices, wrong = Prices(settings), 0
    for pattern, price in settings.tools.items():
        problem, remedy = "", "Mend or remove it in [plugins.costs.tools]."
        # Of a server that was never up, no tools are known.
        server = split_tool_id(pattern)[0]
        if (not server or server in known) and not any(fnmatchcase(tool, pattern) for tool in tools):
            problem = "it fits no tool"
        elif price.model and prices.of_model(price.model) is None:
            problem, remedy = f"there is no price of the model {price.model}", "Add it to [plugins.costs.models]."
        if problem:
            wrong += 1
            yield Check(f"price of {pattern}", ok=False, detail=problem, remedy=remedy)
    if settings.tools and not wrong:
        yield Check("costs", ok=True, detail=f"{len(settings.tools)} prices of tools, {len(settings.models)} of models")
