"""Notes of an operator, which clients read as resources: ``pml://notes/NAME``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pml_hookspecs import InvalidArguments, MetaTool, Offer, Run, Services, ToolId, hookimpl, setting
from pml_kit.offers import RESOURCE_TOOLS, ResourceTool

NOTES = ResourceTool(
    template={"uriTemplate": "pml://notes/{name}", "name": "note", "mimeType": "text/plain"},
    tool=ToolId("notes:read"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    texts: dict[str, str] = setting(dict, "Notes by name.")


settings_type = Settings


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    texts: dict[str, str] = services.settings.texts

    async def read(arguments: Mapping[str, Any], _run: Run) -> str:
        name = str(arguments.get("uri")).removeprefix(NOTES.prefix)
        if name not in texts:
            raise InvalidArguments(f"there is no note {name!r}")
        return texts[name]

    schema = {"type": "object", "properties": {"uri": {"type": "string"}}}
    services.publish("notes", [MetaTool(definition={"name": "read", "inputSchema": schema}, call=read)])
    return [Offer(RESOURCE_TOOLS, NOTES)]
