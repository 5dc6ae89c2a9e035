"""What work in the background needs of the gateway that runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionId, ExecutionRecord, Outcome, RunOptions, Session, Task, ToolId


class Dispatcher(Protocol):
    """Runs everything."""

    def pending(self, task: Task, session: Session, options: RunOptions, /) -> ExecutionRecord:
        """The row of an execution that has not begun yet; of the id in ``options``, if there is one."""
        ...

    async def begin(self, id: ExecutionId, /) -> None:
        """Record that what waited for its turn begins; it must not begin before this returns."""
        ...

    async def start_unattended(self, task: Task, session: Session, options: RunOptions, /) -> Outcome:
        """Run a task; no client is there to be asked anything."""
        ...


class Executors(Protocol):
    """What can be run here, and how."""

    def is_durable(self) -> bool:
        """Whether there is an executor of durable workflows."""
        ...

    def has_turns(self, tool: ToolId, /) -> bool:
        """Whether calls of a tool wait for their turn, and whoever gives it says when that comes."""
        ...


class Secrets(Protocol):
    """The secrets that the gateway knows."""

    @property
    def known(self) -> Sequence[str]:
        """Their values."""
        ...

    def raw(self, raw: bytes, /) -> bytes:
        """JSON text without them: the same where none is in it."""
        ...

    def swapped(self, text: str, swap: Callable[[str], str], /) -> str:
        """``text`` with what ``swap`` makes of each secret in its place."""
        ...
