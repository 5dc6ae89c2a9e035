"""Who shapes what clients are answered, and who has the results that were too large for that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pml_hookspecs import InvalidArguments, Json, Key, Services, Session, Task, ToolId

if TYPE_CHECKING:
    from pml_kit.references import Reference


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceTool:
    """Resources of the gateway's own that a meta-tool of a plugin reads (MCP, server features, resources)."""

    template: Mapping[str, Any]
    """As ``resources/templates/list`` has it, the same on every start. Its URIs begin with ``pml://`` and a word of
    the plugin's own, and end with the one variable."""
    tool: ToolId
    """A tool of the plugin's own, ``pml:NAME`` say, that answers ``{"uri": uri}`` with a text, the resource's, and has
    invalid arguments where its caller has no such resource. It is called like any, so that keys, limits and audits
    count for it."""
    listed: Callable[[Session], bool] = lambda _session: True
    """Whether the template is listed to a client: not where it can be given no such resource."""

    @property
    def prefix(self) -> str:
        """What its URIs begin with."""
        return str(self.template["uriTemplate"]).partition("{")[0]


class AnswerSelector(Protocol):
    """Says what of the output of a task a client is answered, after it was recorded as it came."""

    async def __call__(self, output: Json, task: Task) -> Json:
        """What of ``output`` to answer, or ``output`` itself. A text is answered as text, without structured content.

        Args:
            output: As in :class:`~pml_hookspecs.Outcome`: of a call of a tool the ``CallToolResult``, of which it
                gives another one. Not to be changed in place.
            task: What ran.

        Raises:
            Exception: Logged; the output is answered as it came.
        """
        ...


class AnswerFilter(Protocol):
    """Changes what a client is answered to ``tools/call``, after it was recorded as it came.

    What a plan, code or a capability gets of its calls is not asked about: it enters no context.
    """

    async def __call__(self, answer: Mapping[str, Any], task: Task, session: Session) -> Mapping[str, Any]:
        """What to answer in place of ``answer``, or ``answer`` itself.

        Args:
            answer: A ``CallToolResult`` as MCP has it, errors of tools included. Not to be changed in place.
            task: What ran: where a tool stood for a call of another, for a workflow or for code, that.
            session: Whose call it was.

        Raises:
            Exception: Logged; the answer is given as it came.
        """
        ...


class ResultValues(Protocol):
    """Knows stored results, and who may have them."""

    async def value(self, reference: Reference, session: Session) -> Json:
        """What ``reference`` finds in the stored result that it is to.

        Args:
            reference: With an id in :attr:`~pml_kit.references.Reference.stored`.
            session: For whom: only what was stored for its principal is there, of tools that it may have.

        Raises:
            InvalidArguments: There is no such result for ``session`` (any more), whatever the reason is, or its path
                leads nowhere.
        """
        ...


SELECTORS: Key[AnswerSelector] = Key("selectors", AnswerSelector, several="all")
"""Each is given what the one before it gave, in the order of the plugins' names."""
ANSWERS: Key[AnswerFilter] = Key("answers", AnswerFilter, several="all")
"""Each is given what the one before it gave, in the order of the plugins' names."""
RESOURCE_TOOLS: Key[ResourceTool] = Key("resource_tools", ResourceTool, several="all")
RESULT_VALUES: Key[ResultValues] = Key("result_values", ResultValues)
NOBODY = "this gateway stores no results (pml-results does)"


async def stored_values(
    services: Services | None, references: Iterable[Reference], session: Session
) -> dict[str, Json | InvalidArguments]:
    """What each of ``references`` finds, by its text; where that is nothing, why. Those to tasks are left out."""
    found: dict[str, Json | InvalidArguments] = {}
    for reference in references:
        if not reference.stored or reference.text in found:
            continue
        results = None if services is None else services.find(RESULT_VALUES)
        try:
            if results is None:
                raise InvalidArguments(NOBODY)
            found[reference.text] = await results.value(reference, session)
        except InvalidArguments as exc:
            found[reference.text] = exc
    return found
