"""Which server a request is for that names none: those about tasks, and methods that are not MCP's own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from pml_catalog.naming import name_of
from pml_catalog.server_views import is_operator
from pml_hookspecs import RawObject, RpcError
from pml_kit.mcp.protocol import INVALID_PARAMS, METHOD_NOT_FOUND
from pml_mcp.wire.self_description import MAPS

if TYPE_CHECKING:
    from pml_hookspecs import Session

    from . import Server

REMEMBERED = 10_000
"""Tasks of each principal that are kept, the newest."""
TASK_METHODS = frozenset({"tasks/get", "tasks/list", "tasks/result", "tasks/cancel", "tasks/update"})
"""Of both eras (MCP 2025-11-25, tasks; extension io.modelcontextprotocol/tasks)."""
LONGEST_ID = 80
"""Characters of a task's id that are shown."""


def no_task(id: Any) -> RpcError:
    """The answer to who asks about a task that there is not, or that is not theirs."""
    return RpcError(INVALID_PARAMS, f"There is no task {str(id)[:LONGEST_ID]!r}")


class Owner(NamedTuple):
    """Who was given a task, and by which server."""

    server: str
    principal: str


Allows = Callable[[str, "Session"], bool]
"""Whether a session may have what patterns call by a name."""


class Route(NamedTuple):
    """Where a request goes, and what patterns it is held to."""

    server: Server
    name: str


class Extensions:
    """Routes by what servers' sections allow, and by the ids of tasks that they gave out."""

    def __init__(self, servers: Mapping[str, Server]) -> None:
        self._servers = servers
        self._tasks: dict[str, dict[Owner, str]] = {}
        """Of each task, whose it is, and the name of what gave it out; two servers may have thought of one id."""
        self._given: dict[str, OrderedDict[tuple[str, str], None]] = {}
        """Server and id of the tasks of each principal, the newest last: nobody's make way for another's."""

    def declared(self) -> dict[str, Any]:
        """What all servers declare together; the first by name wins where two say the same."""
        merged: dict[str, Any] = {}
        for name in sorted(self._servers, reverse=True):
            for capabilities in self._servers[name].declared:
                for member in MAPS:
                    if isinstance(value := capabilities.get(member), dict):
                        merged[member] = {**merged.get(member, {}), **value}
        return merged

    def learn(self, server: Server, result: Mapping[str, Any], name: str, session: Session) -> None:
        """Remember to whom a task was given; ``name`` is that of the tool or method that it came of."""
        task = result.get("task", result)
        id = task.get("taskId") if isinstance(task, Mapping) else None
        if isinstance(id, str):
            self._tasks.setdefault(id, {})[Owner(server.name, session.principal)] = name
            given = self._given.setdefault(session.principal, OrderedDict())
            given[server.name, id] = None
            given.move_to_end((server.name, id))
            if len(given) > REMEMBERED:
                self._forget(*given.popitem(last=False)[0], session.principal)

    def _forget(self, server: str, id: str, principal: str) -> None:
        owners = self._tasks[id]
        del owners[Owner(server, principal)]
        if not owners:
            del self._tasks[id]

    def owns(self, id: Any, session: Session, server: str | None = None) -> bool:
        """Whether a task is the session's; one that was given to nobody is an operator's."""
        owners = self._tasks.get(id) if isinstance(id, str) else None
        if owners is None:
            return is_operator(session)
        return any(o.principal == session.principal and server in (None, o.server) for o in owners)

    def may_have(self, id: Any, *, session: Session, server: str, allows: Allows) -> bool:
        """Whether a task is the session's, and came of what ``allows`` lets it have."""
        name = self._tasks.get(id, {}).get(Owner(server, session.principal)) if isinstance(id, str) else None
        return allows(name, session) if name is not None else self.owns(id, session, server)

    def route(self, method: str, params: RawObject, session: Session, allows: Allows) -> Route:
        """Where a request goes; of several servers to the one of which ``allows`` lets the session have it.

        Raises:
            RpcError: No server is meant, or several; or the task is not the session's, which is answered as one that
                nobody has.
        """
        running = [s for s in self._servers.values() if s.settings.enabled]
        if method in TASK_METHODS:
            return self._of_task(method, params, session, running, allows)
        allowing = [s for s in running if any(fnmatchcase(method, pattern) for pattern in s.settings.methods)]
        return self._by_name(method, [s for s in allowing if _declares(s, method)] or allowing, session, allows)

    def _by_name(self, method: str, candidates: list[Server], session: Session, allows: Allows) -> Route:
        routes = [Route(server, name_of(server.name, "method", method)) for server in candidates]
        if len(routes) > 1:
            routes = [route for route in routes if allows(route.name, session)] or routes
        server = self._one(method, [route.server for route in routes], session)
        return next(route for route in routes if route.server is server)

    def _of_task(
        self, method: str, params: RawObject, session: Session, running: list[Server], allows: Allows
    ) -> Route:
        able = [s for s in running if _declares(s, method)]
        id = params.get("taskId")
        if id is None or (isinstance(id, str) and id not in self._tasks and is_operator(session)):
            # Those of before the gateway was started again are an operator's.
            return self._by_name(method, able or (running if len(running) == 1 else []), session, allows)
        owners = self._tasks.get(id, {}) if isinstance(id, str) else {}
        mine = {o.server: name for o, name in owners.items() if o.principal == session.principal}
        found = [s for s in running if s.name in mine]
        if not found:
            raise no_task(id)
        server = self._one(method, found, session)
        return Route(server, mine[server.name])

    def _one(self, method: str, candidates: list[Server], session: Session) -> Server:
        if len(candidates) == 1:
            return candidates[0]
        why = ""
        if is_operator(session) and candidates:
            why = f" (it may be for {', '.join(s.name for s in candidates)}: which cannot be known)"
        elif is_operator(session) and self._servers:
            why = " (no server's section allows it: methods)"
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method}{why}")


def _declares(server: Server, method: str) -> bool:
    """Whether a server declares something that is called like the first part of ``method``."""
    head = method.partition("/")[0]
    for capabilities in server.declared:
        for member in MAPS:
            value = capabilities.get(member)
            if member == head and isinstance(value, dict):
                return True
            if isinstance(value, dict) and any(_names(name, method, head) for name in value):
                return True
    return False


def _names(extension: str, method: str, head: str) -> bool:
    """Whether a method is an extension's: ``vendor/name`` has ``name/…``, or ``vendor/name/…``."""
    return extension.rpartition("/")[2] == head or method.startswith(f"{extension}/")
