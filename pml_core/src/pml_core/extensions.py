"""Methods that the gateway does not know (tasks, other extensions): which server they are for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import RawObject, RpcError
from pml_hookspecs.protocol import METHOD_NOT_FOUND

if TYPE_CHECKING:
    from .downstream import Server

REMEMBERED = 10_000
"""Task ids that are kept, the newest."""
MAPS = ("extensions", "experimental", "tasks")
"""Members of the capabilities by which servers and clients tell of what the gateway need not understand."""


class Extensions:
    """Routes by what servers declared, and by the ids of tasks that they gave out."""

    def __init__(self, servers: Mapping[str, Server]) -> None:
        self._servers = servers
        self._tasks: OrderedDict[str, set[str]] = OrderedDict()
        """Servers by the id of a task that they gave out; two may have thought of the same."""

    def declared(self) -> dict[str, Any]:
        """What all connected servers declare together; the first by name wins where two say the same."""
        merged: dict[str, Any] = {}
        for name in sorted(self._servers, reverse=True):
            for capabilities in self._servers[name].declared:
                for member in MAPS:
                    if isinstance(value := capabilities.get(member), dict):
                        merged[member] = {**merged.get(member, {}), **value}
        return merged

    def learn(self, server: Server, result: Mapping[str, Any]) -> None:
        """Remember who gave out a task id, so that later requests about it find their way."""
        if isinstance(result, RawObject) and b'"taskId"' not in result.raw:
            return
        task = result.get("task", result)
        id = task.get("taskId") if isinstance(task, Mapping) else None
        if isinstance(id, str):
            self._tasks.setdefault(id, set()).add(server.name)
            self._tasks.move_to_end(id)
            if len(self._tasks) > REMEMBERED:
                self._tasks.popitem(last=False)

    def server_for(self, method: str, params: RawObject) -> Server:
        """The server that a request is for: it gave out the task, or it alone can be meant.

        Raises:
            RpcError: None can, or several.
        """
        running = [s for s in self._servers.values() if s.settings.enabled]
        task = params.get("taskId")
        owners = self._tasks.get(task, set()) if isinstance(task, str) else set()
        candidates = [s for s in running if s.name in owners]
        candidates = candidates or [s for s in running if any(_declares(c, method) for c in s.declared)]
        if not candidates and len(running) == 1:
            candidates = running
        if len(candidates) == 1:
            return candidates[0]
        names = ", ".join(s.name for s in candidates or running)
        why = f" (it may be for {names}: which cannot be known)" if candidates else f" (declared by none of: {names})"
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method}{why if running else ''}")


def _declares(capabilities: Mapping[str, Any], method: str) -> bool:
    """Whether a server declares something that is called like the first part of ``method``."""
    head = method.partition("/")[0]
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
