"""Sees to it that nothing goes on in the background with a key that was taken away."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CallNext, Failure, Outcome, Run, Status, Task, UnauthenticatedError

from .dispatch import ended

if TYPE_CHECKING:
    from .identities import KnownIdentities

UNKNOWN = Failure(
    "access.unavailable",
    "It cannot be looked up at the moment whether the key still counts that this was begun with; begin it again later.",
    retryable=True,
)


class Standing:
    """Refuses tasks of work for which no client waits, when the key that it was begun with does not count any more.

    Where a client waits, its listener sees to it: it ends what the client has open.
    """

    def __init__(self, identities: Callable[[], KnownIdentities], log: Any) -> None:
        self._identities, self._log = identities, log

    async def check(self, task: Task, run: Run, call_next: CallNext) -> Outcome:
        """Let the task pass or say why not."""
        try:
            await self._identities().check(run.session)
        except UnauthenticatedError as exc:
            message = f"{exc}: what was begun with it does not go on. Begin it again with a key that lets you."
            failure = Failure("access.ended", message, details={"key": run.session.access_key})
        except Exception as exc:
            self._log.warning("a key cannot be looked up", key=run.session.access_key, problem=repr(exc))
            failure = UNKNOWN
        else:
            return await call_next(task, run)
        return ended(task, datetime.now(UTC), Status.DENIED, failure=failure)
