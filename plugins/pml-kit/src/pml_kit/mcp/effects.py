"""What tools and tasks do at most, by tools' annotations (MCP, ``ToolAnnotations``), and which clients go by them.

Annotations are words of servers, which nobody has checked; names are words of clients (``clientInfo``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pml_hookspecs import CapabilityRun, CodeRun, Failure, ServerRequest, Task, ToolCall, Workflow, replace

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, Session

Effects: TypeAlias = Literal["read", "write", "destroy"]
"""``write``: changes something and destroys nothing. ``destroy``: may do anything, as what says nothing may (MCP's
defaults)."""
ORDER: tuple[Effects, ...] = ("read", "write", "destroy")
"""From the least to the most."""
ANY: Effects = "destroy"
"""What is bounded by nothing."""
SANDBOXED = frozenset({"typescript", "javascript", "python"})
"""Languages of code that reaches nothing but tools; what others reach, their executors know."""
CODE = "policy.effects"
"""Of the failure of a task that would do more than its session may."""
_ALLOWED: Mapping[Effects, str] = {"read": "only what reads", "write": "nothing that may destroy"}
ASKS_BY_ANNOTATIONS = (
    "chatgpt", "claude-ai", "claude-code", "codex", "cursor", "gemini-cli", "openai-mcp", "visual studio code",
)  # fmt: skip
"""Beginnings of the names of clients that ask their users, or refuse, by a tool's annotations; why each is here says
note 23 of the design."""
SEARCHES_TOOLS = ("claude",)
"""Beginnings of the names of clients that list tools to their models only when these search for them."""
ALWAYS_LOAD = "anthropic/alwaysLoad"
"""Key of ``_meta`` in a tool's definition: such a client always lists it."""
PermissionClasses: TypeAlias = Literal["auto", "always", "never"]
"""Who is shown tools with true annotations in place of one that may do anything; ``auto``: those who ask by them."""


def hints_of(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """A tool's annotations; empty when it has none, or none that can be read."""
    found = definition.get("annotations")
    return found if isinstance(found, Mapping) else {}


def only_reads(entry: CatalogEntry | None) -> bool:
    """Whether a tool says that it changes nothing; one that nobody knows does not say so."""
    return entry is not None and hints_of(entry.definition).get("readOnlyHint") is True


def effects_of_tool(definition: Mapping[str, Any]) -> Effects:
    """By its annotations."""
    hints = hints_of(definition)
    if hints.get("readOnlyHint") is True:
        return "read"
    return "write" if hints.get("destructiveHint") is False else "destroy"


def effects_of(task: Task, entry: CatalogEntry | None) -> Effects:
    """Of a task itself: what it dispatches is a task, too. ``entry`` is the tool that it calls, None for none known."""
    if isinstance(task, ToolCall):
        return "destroy" if entry is None else effects_of_tool(entry.definition)
    if isinstance(task, ServerRequest):
        return "read" if task.only_reads else "destroy"
    if isinstance(task, CodeRun):
        return "read" if task.folder is None and task.language in SANDBOXED else "destroy"
    return "read" if isinstance(task, (Workflow, CapabilityRun)) else "destroy"


def bounded(session: Session, effects: Effects) -> Session:
    """``session``, for which no more than ``effects`` may be done."""
    lesser = min(session.effects, effects, key=ORDER.index)
    return session if lesser == session.effects else replace(session, effects=lesser)


def exceeds(effects: Effects, session: Session) -> bool:
    """Whether that is more than may be done for ``session``."""
    return ORDER.index(effects) > ORDER.index(session.effects)


def refusal(what: str, effects: Effects, session: Session, others: list[str]) -> Failure:
    """Why ``what`` is not run for ``session``; ``others`` are names of the tools that would run it."""
    does = "changes something" if effects == "write" else "may destroy, or does not say that it destroys nothing"
    use = f" Call it with {' or '.join(others)}." if others else ""
    message = f"{what} {does}, and {_ALLOWED[session.effects]} may run here.{use}"
    return Failure(CODE, message, details={"effects": effects, "allowed": session.effects})


def asks_by_annotations(session: Session) -> bool:
    """Whether the client asks its user before tools that do not say that they only read. Its name proves nothing."""
    return session.client.lower().startswith(ASKS_BY_ANNOTATIONS)


def in_classes(choice: PermissionClasses) -> Callable[[Session], bool]:
    """Says of a session whether its client is shown such tools."""
    return asks_by_annotations if choice == "auto" else lambda _session: choice == "always"


def searches_tools(session: Session) -> bool:
    """Whether the client has a search of tools of its own, behind which listed tools may be hidden."""
    return session.client.lower().startswith(SEARCHES_TOOLS)
