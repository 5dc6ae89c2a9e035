"""The object ``tools`` inside of Monty.

Monty asks for attributes and calls of a host object by messages; the answers are made of names alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_monty import ClassInstance

_SERVERS = re.compile(r"\btools\s*\.\s*([A-Za-z_]\w*)")
MOST_EAGER = 100


class Tools:
    """Stands for all tools."""


class Server:
    """Stands for the tools of one server."""


class Names:
    """The objects that code was given, and what they stand for."""

    def __init__(
        self, source: str, call: Callable[[str, tuple[Any, ...], dict[str, Any]], Coroutine[Any, Any, Any]]
    ) -> None:
        """Make ``tools``, with the servers that ``source`` names already in it: to ask for each costs a message.

        Args:
            source: The code.
            call: Calls a tool with what it was given by position and by name.
        """
        self._known: dict[UUID, str] = {}
        self._functions: dict[str, Callable[[], None]] = {}
        self.call = call
        held = Tools()
        servers = sorted(set(_SERVERS.findall(source)))[:MOST_EAGER]
        for name in servers:
            setattr(held, name, self.server(name))
        self.tools = self._instance(held, eager_attrs=servers)
        self._known[self.tools.id] = ""

    def _instance(self, held: Tools | Server, **how: Any) -> ClassInstance:
        kind, types = _kinds()
        made: ClassInstance = kind(held, class_type=types[type(held)], names=self, **how)
        return made

    def server(self, name: str) -> ClassInstance:
        """An object for the tools of the server that code calls ``name``."""
        made = self._instance(Server())
        self._known[made.id] = name
        return made

    def attribute(self, of: UUID | None, name: str) -> Any:
        """What to answer when code reads an attribute; None when there is none such."""
        server = None if of is None else self._known.get(of)
        if server is None or name.startswith("__"):
            return None
        return self.function(f"{server}:{name}") if server else self.server(name)

    def function(self, tool: str) -> Callable[[], None]:
        """A value that code can keep and call."""
        if tool not in self._functions:

            def stand_in() -> None:
                """Never called: Monty takes its name."""

            stand_in.__name__ = stand_in.__qualname__ = tool
            self._functions[tool] = stand_in
        return self._functions[tool]

    def called(self, of: UUID | None, name: str, given: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]] | None:
        """The tool that a call means, and the arguments that are left; None for a call of something else."""
        server = None if of is None else self._known.get(of)
        if server is None:
            return (name, given) if name in self._functions else None
        if name == "__call__":
            named = given[0] if given and isinstance(given[0], str) else ""
            return (named if not server else f"{server}:{named}"), given[1:]
        return (f"{server}:{name}" if server else name), given


@cache
def _kinds() -> tuple[Any, Mapping[type, Any]]:
    """Objects whose every method is a tool, and the types that they say they are of.

    Made once: to make a class takes longer than all else that a run needs before it starts.
    """
    from pydantic_monty import ClassInstance, ClassType

    class Instance(ClassInstance):
        def __init__(self, *given: Any, names: Names, **how: Any) -> None:
            super().__init__(*given, **how)
            self.names = names

        def call_method(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            meant = self.names.called(self.id, name, args)
            if meant is None:
                raise self.attr_error(name)
            return self.names.call(*meant, kwargs)

    return Instance, {kind: ClassType(kind) for kind in (Tools, Server)}


def arguments(tool: str, given: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """The one object of arguments of a call.

    Raises:
        TypeError: They are neither given by name nor as one object.
    """
    if given and (named or len(given) > 1):
        raise TypeError(f"{tool} takes its arguments by name, or as one object.")
    return given[0] if given else dict(named)
