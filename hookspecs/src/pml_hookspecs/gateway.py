"""What plugins give the gateway as a whole: tools of its own, guides, checks, names of tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .executor import Run
    from .tasks import Task
    from .types import Session


class InvalidArguments(Exception):  # noqa: N818 - it is not the gateway that errs
    """A meta-tool cannot do anything with its arguments. The message tells the caller what, where and what to do."""


class ToolFailed(Exception):  # noqa: N818 - as above
    """A meta-tool ran and failed, and has more to say than a message: the client gets it with ``isError: true``."""

    def __init__(self, message: str, content: Mapping[str, Any]) -> None:
        """``content`` is the structured content of the result; ``message`` is for the history."""
        super().__init__(message)
        self.content = content


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaTool:
    """A tool the gateway serves itself. Its id is ``pml:<name>``; clients see the bare name.

    Exactly one of :attr:`call` and :attr:`task` is set: a tool either answers, or stands for a task.
    """

    definition: Mapping[str, Any]
    """Wire JSON of an MCP ``Tool``, the same on every start: clients' prompt caches depend on it."""
    call: Callable[[Mapping[str, Any], Run], Awaitable[Mapping[str, Any] | str]] | None = None
    """Returns the structured content, whose text is the same JSON, of a :class:`RawObject` as its bytes stand; or a
    text that stands alone.

    Raises :class:`InvalidArguments` and :class:`ToolFailed`.
    """
    task: Callable[[Mapping[str, Any]], Task] | None = None
    """Turns arguments into the task to run instead. Raises :class:`InvalidArguments`.

    What the definition's ``annotations`` say holds: with ``readOnlyHint`` true, or ``destructiveHint`` false, the task
    and all that it dispatches are refused any tool of which that is not known (:attr:`Session.effects`)."""
    aliases: tuple[str, ...] = ()
    """Other names accepted in calls, never listed."""
    listed: bool | Callable[[Session], bool] = True
    """Whether the meta-tool modes list it, or a function that says so for a client, always the same. Unlisted ones can
    be called by name."""
    recorded: bool = True
    """False for tools that only look at history, which would be full of looks at it otherwise. Wrappers and tracers see
    their calls all the same."""
    whole_catalog: bool = False
    """Whether it speaks of all tools there are, so that a call waits, within a bound, for servers never seen before."""


QUESTIONS = "pml/questions"
"""Key of ``_meta`` in the definition of a gateway's tool: what people ask that it answers, by which it is found."""


@dataclass(frozen=True, slots=True)
class SharedRoute:
    """A route of ``pml_routes`` that is mounted where those of all plugins are, under ``/api/``."""

    route: Any
    """Of Starlette."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of ``pml plugins doctor``."""

    title: str
    ok: bool
    detail: str = ""
    remedy: str = ""
    """What to do when not ok, as an imperative sentence."""
