"""``call_tool``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments, Step, ToolCall, ToolId
from pml_hookspecs.tasks import ONCE
from pml_kit.references import with_stored

from .arguments import checked
from .definitions import CALL_TOOL

if TYPE_CHECKING:
    from pml_hookspecs import Services, Task

ADVICE = "the tool's own parameters go into 'arguments'"


class CallTool:
    """Turns a call of ``call_tool``, or of a tool like it, into a call of the tool it names."""

    def __init__(self, services: Services, definition: Mapping[str, Any] = CALL_TOOL) -> None:
        """``definition`` is that of the tool that was called."""
        self._services, self._definition = services, definition

    def __call__(self, arguments: Mapping[str, Any]) -> Task:
        """The call meant; with stored results in its arguments, the plan that puts them in.

        Whether there is such a tool is found out when it runs.

        Raises:
            InvalidArguments: No name, arguments that are not an object, or the name of a meta-tool: those would let
                a call contain itself, and clients can call them directly.
        """
        given, own = checked(self._definition, arguments, advice=ADVICE), self._definition["name"]
        name = given["name"].strip()
        if not name:
            raise InvalidArguments(f"{own}: 'name' is empty; give the name of a tool that search_tools found.")
        entry = self._services.catalog.resolve(name)
        if entry is not None and entry.own and entry.meta:
            raise InvalidArguments(f"{own}: {name!r} cannot be called through {own}; call {entry.name} directly.")
        call = ToolCall(
            id="call",
            tool=ToolId(name),
            arguments=given["arguments"] or {},
            step=Step(select=_expression(given["select"], own)) if given["select"] else ONCE,
            dry_run=given["dry_run"],
        )
        return with_stored(call)


def _expression(select: str, own: str) -> str:
    """``select``, which can be read: what it finds is only known when the tool has run.

    Raises:
        InvalidArguments: It is no JMESPath.
    """
    from pml_kit.expressions import Expression, ExpressionError

    try:
        return Expression(select).text
    except ExpressionError as exc:
        raise InvalidArguments(f"{own}: nothing was called; select {exc}.") from exc
