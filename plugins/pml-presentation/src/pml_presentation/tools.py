"""Tools as clients are shown them. Implements :class:`pml_kit.offers.Presentation`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import ToolId
from pml_kit.mcp.tool_schemas import input_schema
from pml_kit.offers import PresentedTool

from . import schemas

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry

    from .settings import Tool


class ShownTools:
    """Those that the configuration has a table for."""

    def __init__(self, tools: Mapping[str, Tool], log: Any) -> None:
        self._tools, self._log = tools, log
        self._told: set[tuple[str, str]] = set()
        self._names = {ToolId(id): tool.name for id, tool in tools.items() if tool.name}

    @property
    def names(self) -> Mapping[ToolId, str]:
        """Those with another name."""
        return self._names

    def __call__(self, entry: CatalogEntry) -> PresentedTool | None:
        """How ``entry`` is shown."""
        if (tool := self._tools.get(entry.id)) is None:
            return None
        schema = input_schema(entry)
        self._tell_of_undeclared(entry.id, tool, schema)
        said = {name: value for name in ("name", "title", "description") if (value := getattr(tool, name))}
        if schema is not None and (tool.arguments or tool.defaults):
            said["inputSchema"] = schemas.shown(schema, tool.arguments, tool.defaults)
        return PresentedTool(definition={**entry.definition, **said}, hidden=tool.hidden, fixed=tool.arguments)

    def _tell_of_undeclared(self, id: str, tool: Tool, schema: Any) -> None:
        """Say once of each argument that it is none of the tool's, as far as its schema says."""
        known = schemas.declared(schema)
        for name in (*tool.arguments, *tool.defaults) if known else ():
            if name not in known and (id, name) not in self._told:
                self._told.add((id, name))
                self._log.warning(
                    "an argument is given in the configuration that the tool does not declare; correct its name",
                    tool=id,
                    argument=name,
                    declared=sorted(known),
                )
