"""``call_tool``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments, ToolCall, ToolId

from .arguments import checked
from .definitions import CALL_TOOL

if TYPE_CHECKING:
    from pml_hookspecs import Services

ADVICE = "the tool's own parameters go into 'arguments'"


class CallTool:
    """Turns a call of ``call_tool`` into a call of the tool it names."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def __call__(self, arguments: Mapping[str, Any]) -> ToolCall:
        """The call meant. Whether there is such a tool is found out when it runs.

        Raises:
            InvalidArguments: No name, arguments that are not an object, or the name of a meta-tool: those would let
                a call contain itself, and clients can call them directly.
        """
        given = checked(CALL_TOOL, arguments, advice=ADVICE)
        name = given["name"].strip()
        if not name:
            raise InvalidArguments("call_tool: 'name' is empty; give the name of a tool that search_tools found.")
        entry = self._services.catalog.resolve(name)
        if entry is not None and entry.own and entry.meta:
            raise InvalidArguments(
                f"call_tool: {name!r} cannot be called through call_tool; call {entry.name} directly."
            )
        return ToolCall(id="call", tool=ToolId(name), arguments=given["arguments"] or {}, dry_run=given["dry_run"])
