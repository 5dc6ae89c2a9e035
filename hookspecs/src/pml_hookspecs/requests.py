"""What servers are asked besides tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .executor import Step


def _once() -> Step:
    from .executor import ONCE  # which has this module's class among its kinds of task

    return ONCE


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRequest:
    """Send one server a request of MCP that calls no tool: for a resource, a prompt, a task of its, an extension.

    Only clients ask for it, never a plan. The output is the result as the server sent it.
    """

    id: str
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
    needs: tuple[str, ...] = ()
    step: Step = field(default_factory=_once)

    @property
    def kind(self) -> str:
        """``"resource"``, ``"prompt"``, ``"completion"``, ``"task"`` or, of any other method, ``"method"``."""
        return REQUEST_KINDS.get(self.method.partition("/")[0], "method")

    @property
    def only_reads(self) -> bool:
        """Whether MCP says of its method that it changes nothing (2026-07-28, server features; 2025-11-25, tasks)."""
        return self.method in READING_METHODS

    def with_params(self, params: Mapping[str, Any]) -> ServerRequest:
        """The same with other params."""
        return replace(self, params=params)


REQUEST_KINDS: Mapping[str, str] = {
    "resources": "resource",
    "prompts": "prompt",
    "completion": "completion",
    "tasks": "task",
}
"""What :attr:`ServerRequest.kind` says by the first part of a method."""
READING_METHODS = frozenset(
    {"resources/read", "prompts/get", "completion/complete", "tasks/get", "tasks/list", "tasks/result"}
)
"""Methods of MCP, for one server, that change nothing."""
