"""What can be run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from msgspec import Struct, field

if TYPE_CHECKING:
    from .types import Json, Outcome, ToolId

DryRun: TypeAlias = bool | Literal["reads"]
_REQUEST_KINDS: Mapping[str, str] = {
    "resources": "resource",
    "prompts": "prompt",
    "completion": "completion",
    "tasks": "task",
}
"""What :attr:`ServerRequest.kind` says by the first part of a method."""
_READING_METHODS = frozenset(
    {"resources/read", "prompts/get", "completion/complete", "tasks/get", "tasks/list", "tasks/result"}
)
"""Methods of MCP, for one server, that change nothing."""


class FolderSize(NamedTuple):
    """What is in a folder, or may be."""

    bytes: int
    """Of its files together, each at its length or at what it takes up on the disk, whichever is more [bytes]."""
    files: int
    """Names below it: files, folders and links."""

    def exceeds(self, most: FolderSize) -> bool:
        """Whether it is more than ``most``, in one respect or both."""
        return self.bytes > most.bytes or self.files > most.files


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a task of a workflow is tried."""

    attempts: int = 1
    """In all, 1 to 20."""
    delay_s: float = 0.5
    """Before the second attempt; each further one waits twice as long [s]."""
    most_delay_s: float = 30.0
    """No wait is longer [s]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """How a workflow treats one of its tasks. Means nothing for a task on its own."""

    when: str = ""
    """Run only if this holds: a JMESPath expression over the results of the tasks in ``depends_on``, by id. ``""``:
    always. A task that is not run for this reason is ``SKIPPED``, and those that need it run nevertheless."""
    for_each: Json = None
    """Run once for each item of this array, or of the array that this reference finds; ``{{item}}`` and ``{{index}}``
    in the task's arguments stand for the item and its number from 0. The result is the array of results. None: once."""
    max_items: int = 100
    """Most items of ``for_each``; more is a mistake, not cut off."""
    retry: Retry = Retry()
    timeout_s: float | None = None
    """Longest time of one attempt [s]."""
    on_error: Literal["fail", "continue", "skip"] = "fail"
    """What a failure does. ``fail``: tasks that need this one are skipped and the workflow fails. ``continue``: they
    run, and find null where the result would be. ``skip``: they are skipped, and the workflow does not fail by it."""
    compensate: Task | None = None
    """Undoes it: run, last first, for tasks that had ended well when the workflow fails."""
    idempotency_key: str = ""
    """Says that running it twice under this key does no harm."""
    select: str = ""
    """What of its result a client is answered: a JMESPath expression over it. ``""``: all. References to the task and
    the history have all of it either way. Of a call that a client makes, and of a whole plan, it means the same."""
    approve: bool = False
    """Have a human look before it runs, whatever the policy. Whoever asks the human hands the task on without this; a
    task that still has it in the end is refused, because nobody asked."""


ONCE = Step()


class Node(Struct, frozen=True, kw_only=True):
    """What every task has: a name, and a place in a workflow."""

    id: str
    """Name of the task within its workflow; any text for one on its own."""
    depends_on: tuple[str, ...] = ()
    """Ids of tasks in the same workflow that end before this one starts."""
    step: Step = ONCE


class ToolCall(Node, frozen=True, kw_only=True):
    """Call one tool."""

    tool: ToolId
    """Any spelling that ``Catalog.resolve`` knows; the chain sees the canonical one."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Other members of the request's ``params`` (``_meta`` and such), handed on to the server untouched."""
    dry_run: DryRun | None = None
    """As of a workflow."""


class CodeRun(Node, frozen=True, kw_only=True):
    """Run code in a sandbox. ``inputs`` are data: a callable in them is a programming error.

    The output is the value that the code returns, or with :attr:`program`
    ``{"stdout": text, "stderr": text, "exit_code": int}``.
    """

    language: str
    """``typescript``, ``javascript`` or ``python``; an executor may know others."""
    source: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """Variables of the code; of tasks in ``depends_on``, their results under their ids."""
    intent: str = ""
    """What it is for, in the caller's words. For learning; puts no tools into the code's reach."""
    program: bool = False
    """True: the source is a program whose streams are the result. False: the body of a function."""
    folder: str | None = None
    """The one directory it may read and write, and starts in; None for no files at all."""
    folder_limit: FolderSize | None = None
    """What :attr:`folder` may hold, with what is in it already; None for as much as it likes. Code that writes more is
    stopped, with the failure ``code.folder_full``. In a folder that holds more when it starts, it can read and remove
    files, or only read, and write nothing."""
    timeout_s: float | None = None
    """None for the sandbox's own limit [s]."""
    tools: tuple[str, ...] | None = None
    """Patterns of tool ids that it may call (``files:*``); None for all that its caller may call, empty for none."""


class CapabilityRun(Node, frozen=True, kw_only=True):
    """Run a learned capability from the store, or the code given in its place."""

    capability_id: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    """Code to run instead of what is stored; ``""`` for that."""
    language: str = "typescript"
    """Of :attr:`source`."""


class PluginTask(Node, frozen=True, kw_only=True):
    """Something else that a plugin runs, such as a query: of a type that its executor says it runs."""

    type: str
    """``sql``, say: its name in plans, in history and in ``[gateway.executors]``."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """What it is about. In a plan there may be references in it, which are followed before it runs."""


class Workflow(Node, frozen=True, kw_only=True):
    """A directed acyclic graph of tasks. Arguments may refer to the results of tasks named in ``depends_on``."""

    tasks: tuple[Task, ...]
    """Empty: what to do is planned from :attr:`intent` first."""
    intent: str = ""
    """What the workflow is for, in the caller's words."""
    dry_run: DryRun | None = None
    """True: rehearse, nothing in it reaches a server. ``"reads"``: rehearse, but let tools run that say that they only
    read. Either holds for everything inside. False: run for real, unless what it is part of is rehearsed. None: as the
    key, the endpoint or the gateway is configured."""
    durable: bool = False
    """Survives the gateway: what has run is not run again when it goes on after a crash."""
    by_layer: bool = False
    """Stop after each layer of tasks that do not need one another, for somebody to look; ``known`` goes on."""
    known: Mapping[str, Outcome] = field(default_factory=dict)
    """Outcomes of tasks that ran before, by id; they are not run again."""
    max_parallel: int | None = None
    """Most tasks under way at once; None for the executor's own limit."""
    timeout_s: float | None = None
    """Longest time for all of it [s]."""
    max_tool_calls: int | None = None
    """Budget: calls by all tasks in it together, those of code included."""
    max_cost_usd: float | None = None
    """Budget: what all tasks in it together may cost, as far as costs are known [USD]."""
    returns: tuple[str, ...] = ()
    """Ids of the tasks whose results a client is answered; ``("all",)`` for every one. Empty: of those that ended and
    that nothing which ended needs."""
    wait: bool = True
    """False: answer ``{"execution_id": id, "status": "pending"}`` once the execution is durably recorded, and run in
    the background. Means nothing inside another task."""
    mistakes: tuple[str, ...] = ()
    """What is wrong with the request that it was read from, by line: it may be looked at, and is refused, not run."""


class ServerRequest(Node, frozen=True, kw_only=True):
    """Send one server a request of MCP that calls no tool: for a resource, a prompt, a task of its, an extension.

    Only clients ask for it, never a plan. The output is the result as the server sent it.
    """

    server: str
    method: str
    """``resources/read``, say."""
    name: str
    """What patterns of keys and lists are about: ``server:@resource/URI``, ``server:@prompt/NAME``,
    ``server:@method/METHOD``; of a task of the server's the tool that gave it out. No tool's name begins with ``@``."""
    target: str = ""
    """URI, name or task id as the server knows it; ``""`` for what has none."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """As the server gets them."""

    @property
    def kind(self) -> str:
        """``"resource"``, ``"prompt"``, ``"completion"``, ``"task"`` or, of any other method, ``"method"``."""
        return _REQUEST_KINDS.get(self.method.partition("/")[0], "method")

    @property
    def only_reads(self) -> bool:
        """Whether MCP says of its method that it changes nothing (2026-07-28, server features; 2025-11-25, tasks)."""
        return self.method in _READING_METHODS


Task: TypeAlias = ToolCall | ServerRequest | CodeRun | CapabilityRun | PluginTask | Workflow
