"""Fixed arguments: every call has them, whoever makes it, before anybody judges it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Awaitable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Phase, RawObject, ToolCall, replace, split_tool_id
from pml_kit.mcp.tool_schemas import input_schema
from pml_kit.offers.presentation import same_json, served
from pml_kit.outcomes import denied

from . import schemas

if TYPE_CHECKING:
    from pml_hookspecs import CallNext, Outcome, Run, Services, Task

    from .settings import Tool

CODE = "policy.argument_fixed"
NOT_LETTERS = re.compile(r"[\W_]+")


def folded(name: str) -> str:
    """The same for names that a lenient server may take for one another: ``maxRows``, ``MAX_ROWS``, ``max-rows``."""
    return NOT_LETTERS.sub("", unicodedata.normalize("NFKC", name)).casefold()


class FixedArguments:
    """Gives calls what the configuration fixes, and refuses those that say otherwise.

    Inside of the audit, which is to hear of refusals, and outside of all that judge arguments.
    """

    phase = Phase.AUDIT
    after = ("audit?",)

    def __init__(self, services: Services, tools: Mapping[str, Tool]) -> None:
        self._catalog = services.catalog
        self._tools = {id: tool for id, tool in tools.items() if tool.arguments or tool.defaults}
        self._alike: dict[tuple[str, str], Tool] = {}
        for id, tool in self._tools.items():
            server, own = split_tool_id(id)
            self._alike[server, folded(own)] = tool

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        """Hand the call on as the server is to get it, or say why not."""
        if not isinstance(task, ToolCall) or (tool := self._of(task.tool)) is None:
            return call_next(task, run)
        entry = self._catalog.get(task.tool)
        try:
            given = dict(task.arguments)
        except ValueError as exc:
            return _refused(task, f"Not run: the arguments for {task.tool} are not a JSON object: {exc}", "")
        schema = None if entry is None else input_schema(served(entry))
        wrong = _wrong(given, tool.arguments, schemas.declared(schema))
        # Who may not have the tool is told that by others, and not what is fixed of it.
        if wrong and (entry is None or self._catalog.allows(entry, run.session)):
            return _refused(task, _message(task.tool, *wrong), wrong[0])
        kept = {name: value for name, value in given.items() if name not in tool.arguments and not _is(wrong, name)}
        arguments = RawObject.of({**tool.defaults, **kept, **tool.arguments})
        return call_next(replace(task, arguments=arguments), run)

    def _of(self, id: str) -> Tool | None:
        """What is fixed of a tool; also of one that is not listed, by a name that its server may take for it."""
        if (tool := self._tools.get(id)) is not None or self._catalog.get(id) is not None:  # type: ignore[arg-type]
            return tool
        server, own = split_tool_id(id)
        return self._alike.get((server, folded(own)))


def _wrong(
    given: Mapping[str, Any], fixed: Mapping[str, Any], declared: Collection[str]
) -> tuple[str, str] | None:  # fmt: skip
    """The argument of a call that does not keep to what is fixed, and the one that is fixed; None where all do."""
    alike = {folded(name): name for name in fixed}
    for name, value in given.items():
        if name in fixed:
            if not same_json(value, fixed[name]):
                return name, name
        elif (meant := alike.get(folded(name))) is not None and name not in declared:
            return name, meant
    return None


def _is(wrong: tuple[str, str] | None, name: str) -> bool:
    return wrong is not None and wrong[0] == name


def _message(tool: str, given: str, fixed: str) -> str:
    said = repr(fixed) if given == fixed else f"{fixed!r}, which {given[:64]!r} may be taken for,"
    return f"Not run: the argument {said} of {tool} is fixed in the gateway's configuration; leave it out."


async def _refused(task: Task, message: str, argument: str) -> Outcome:
    return denied(task, message, code=CODE, **({"argument": argument[:64]} if argument else {}))
