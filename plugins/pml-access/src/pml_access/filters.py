"""What the holder of a key may call: the filter of tools, and the wrapper that holds code to the same."""

from __future__ import annotations

import fnmatch
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from pml_hookspecs import GATEWAY_SERVER, CodeRun, Outcome, Phase, PluginTask, replace
from pml_kit.mcp.effects import ORDER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from pml_hookspecs import CallNext, CatalogEntry, Run, Session, Task

    from .agents import Agents

AGENTS_SERVER = "agents"
"""Each configured agent is a tool of this server, under its own name."""
RUN_CODE = "pml:run_code"
REQUEST = "@"
"""Begins what stands for a resource, a prompt or a method of a server's (`pml_hookspecs.ServerRequest.name`)."""
CLIMBS = re.compile(r"[/\\](\.|%2e){1,2}([/\\?#]|%2f|%5c|$)|%2f|%5c|%00", re.IGNORECASE)
"""Dot segments of a URI, and separators written as escapes, which servers may or may not take for separators."""
OWN = f"{GATEWAY_SERVER}:"


class KeyToolFilter:
    """Keeps the tools that a session's key and the rules of agents allow. Implements `pml_hookspecs.ToolFilter`."""

    hides = True

    def __init__(self, agents: Agents) -> None:
        self._agents = agents

    @property
    def shared(self) -> bool:
        """Whether it keeps the same for everybody."""
        return self._agents.alike

    def __call__(self, entry: CatalogEntry, session: Session) -> bool:
        """Whether to keep ``entry``."""
        if (session.allow is not None or session.deny) and not allowed(entry.id, session):
            return False
        return entry.server != AGENTS_SERVER or self._agents.may_call(session, entry.name)

    def why(self, entry: CatalogEntry, session: Session) -> str:
        """Which of the key's patterns, or what else, drops ``entry``."""
        if (session.allow is not None or session.deny) and not allowed(entry.id, session):
            if allowed(entry.id, replace(session, deny=())):
                return f"the key denies it ({', '.join(session.deny)})"
            return f"the key does not allow it ({', '.join(session.allow or ()) or 'nothing'})"
        return "the agent belongs to others, who have not shared it"


class CodeFilter:
    """Refuses code to those who may not call the tool that runs it: a workflow runs code as well."""

    phase = Phase.AUTHORIZE
    before = ("core",)

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        """Let the task pass or say why not."""
        session = run.session
        if type(task) is CodeRun and (session.allow is not None or session.deny) and not allowed(RUN_CODE, session):
            return _refused(task)
        if type(task) is PluginTask and (session.allow is not None or session.deny):
            name = f"{GATEWAY_SERVER}:@task/{task.type}"
            if not allowed(name, session):
                return _refused(task, f"Tasks of type {task.type} are not allowed here: the key may not have {name}.")
        return call_next(task, run)


async def _refused(task: Task, why: str = f"Code is not allowed here: the key may not have {RUN_CODE}.") -> Outcome:
    from pml_kit.outcomes import denied

    return denied(task, why)


def allowed(tool: str, session: Session) -> bool:
    """Whether the patterns of a session's key let it have ``tool``.

    The gateway's own tools, which do nothing but with what the key may have, need no pattern as long as none of those
    that allow is about them. What counts for one of them counts for the tools beside it that do less.
    """
    names = (tool, *_whole_of(tool))
    if session.deny and any(_matcher(session.deny).match(one) for one in names):
        return False
    server, _, name = tool.partition(":")
    if name.startswith(REQUEST):
        return session.allow is None or any(_covers(pattern, server, name) for pattern in session.allow)
    if session.allow is None or any(_matcher(session.allow).match(one) for one in names):
        return True
    return tool.startswith(OWN) and not any(pattern.startswith(OWN) for pattern in session.allow)


def _whole_of(tool: str) -> Sequence[str]:
    """Of a tool of the gateway's own for one class of effects, such as ``pml:call_tool_read``: that for all of them."""
    whole, _, effects = tool.rpartition("_")
    return (whole,) if effects in ORDER and tool.startswith(OWN) else ()


def _covers(pattern: str, server: str, name: str) -> bool:
    """Whether a pattern that allows is about what is no tool: only one of the whole server is, or one that says so.

    Its halves are held to the halves, so that what a client writes into a URI cannot pass for a tool's name; and one
    for a part of a server's resources does not cover a URI that climbs out of it.
    """
    if pattern == "*":
        return True
    of_server, _, of_name = pattern.partition(":")
    if not fnmatch.fnmatchcase(server, of_server):
        return False
    if of_name == "*":
        return True
    return of_name.startswith(REQUEST) and fnmatch.fnmatchcase(name, of_name) and not CLIMBS.search(name)


@lru_cache(maxsize=1024)
def _matcher(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Matches what any of the patterns does, as `fnmatch.fnmatchcase`; nothing where there are none."""
    return re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns) or r"(?!)")
