"""What plugins give the gateway as a whole: tools of its own, guides, checks, names of tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .executor import CallNext, Run, Wrapper
    from .tasks import Task
    from .tracer import Tracer


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
    call: Callable[[Mapping[str, Any], Run], Awaitable[Mapping[str, Any]]] | None = None
    """Returns the structured content; its text is the same JSON, of a :class:`RawObject` as its bytes stand.

    Raises :class:`InvalidArguments` and :class:`ToolFailed`.
    """
    task: Callable[[Mapping[str, Any]], Task] | None = None
    """Turns arguments into the task to run instead. Raises :class:`InvalidArguments`."""
    aliases: tuple[str, ...] = ()
    """Other names accepted in calls, never listed."""
    listed: bool = True
    """Whether the meta-tool modes list it. Unlisted ones can be called by name."""
    recorded: bool = True
    """False for tools that only look at history, which would be full of looks at it otherwise. Wrappers and tracers see
    their calls all the same."""
    whole_catalog: bool = False
    """Whether it speaks of all tools there are, so that a call waits, within a bound, for servers never seen before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guide:
    """A text that says how something of the gateway is used, for those who cannot know it from tools' definitions.

    Clients get it as the resource ``pml://guide/<name>`` and as the prompt ``guide_<name>``, models also by the tool
    ``guide_<name>``, which is not listed and is found by what people ask.
    """

    name: str
    """Letters, digits and ``_``."""
    description: str
    """What it is about, in one sentence."""
    text: str
    """Markdown."""
    questions: tuple[str, ...] = ()
    """What people ask who need it; see :data:`QUESTIONS`."""


QUESTIONS = "pml/questions"
"""Key of ``_meta`` in the definition of a gateway's tool: what people ask that it answers, by which it is found."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of ``pml plugins doctor``."""

    title: str
    ok: bool
    detail: str = ""
    remedy: str = ""
    """What to do when not ok, as an imperative sentence."""


@dataclass(frozen=True, slots=True)
class NamedTools:
    """Tools that somebody names in a configuration or in the store, each of which should be there."""

    where: str
    """Such as ``plugins.hybrid.whitelisted_tools``."""
    names: Sequence[str]
    """Names as clients or the catalog have them, or patterns of :mod:`fnmatch` over them."""
    ids_only: bool = False
    """Whether only ``server:tool`` counts here, and not ``server__tool`` or the tool's own name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A gateway that serves nobody, for commands that try out what is installed.

    It has no servers, keeps what it keeps in memory, and is gone when the command ends.
    """

    plugins: Sequence[Mapping[str, str]]
    """What is installed, as ``pml plugins list --json`` tells of it."""
    hooks: Mapping[str, Sequence[tuple[str, Any]]]
    """What plugins contributed to calls, by hook, each with its plugin's name: ``pml_wrap_executor``, outermost first
    and with the core's own, and ``pml_filter_tools``."""
    tracers: Sequence[str]
    """Names of those that are in use. None of them is told anything before :attr:`use`."""
    driver: Callable[[str, str], Awaitable[Any]]
    """A driver of a kind and a name, with its settings, entered; it is left with the gateway. Raises what says why it
    cannot be had."""
    use: Callable[[Sequence[tuple[str, Wrapper]], Sequence[tuple[str, Tracer]], CallNext], CallNext]
    """From now on calls take these wrappers, are told to these tracers, and are run by what comes last. The
    chain that they take."""
