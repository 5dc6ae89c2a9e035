"""Whether the key still counts that work was begun with for which no client waits."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CallNext, Failure, Identity, Outcome, Run, Session, Status, Task, UnauthenticatedError
from pml_kit.offers import CurrentKeys
from pml_kit.outcomes import ended

if TYPE_CHECKING:
    from pml_kit.offers import Identities

FRESH_S = 2.0
"""How long it is believed what was said of a key that work goes on with [s]."""
MOST_KEYS = 4096
"""Keys of which that is remembered."""
NARROWED = "The API key lets its holder have less than when this was begun"
UNKNOWN = Failure(
    "access.unavailable",
    "It cannot be looked up at the moment whether the key still counts that this was begun with; begin it again later.",
    retryable=True,
)


class KeyRecheck:
    """Refuses tasks of work for which no client waits, when the key that it was begun with does not count any more.

    Where a client waits, its listener sees to it: it ends what the client has open.
    """

    def __init__(self, found: Callable[[], Sequence[tuple[str, Identities]]], log: Any) -> None:
        """``found`` gives all who know keys, each with its plugin."""
        self._found, self._log = found, log
        self._said: OrderedDict[str, tuple[float, Identity | None]] = OrderedDict()

    async def __call__(self, task: Task, run: Run, call_next: CallNext) -> Outcome:
        """Let the task pass or say why not."""
        try:
            await self.check(run.session)
        except UnauthenticatedError as exc:
            message = f"{exc}: what was begun with it does not go on. Begin it again with a key that lets you."
            failure = Failure("access.ended", message, details={"key": run.session.access_key})
        except Exception as exc:
            self._log.warning("a key cannot be looked up", key=run.session.access_key, problem=repr(exc))
            failure = UNKNOWN
        else:
            return await call_next(task, run)
        return ended(task, datetime.now(UTC), Status.DENIED, failure=failure)

    async def check(self, session: Session) -> None:
        """See that the key that ``session`` came with still lets it have what it has.

        Of a key that nobody knows, nothing is known.

        Raises:
            UnauthenticatedError: It does not.
            Exception: It cannot be known now.
        """
        key = session.access_key
        said_at, identity = self._said.get(key, (0.0, None))
        now = time.monotonic()
        if key not in self._said or now - said_at >= FRESH_S:
            self._said.pop(key, None)
            identity = await self._current(session)
            self._said[key] = now, identity
            if len(self._said) > MOST_KEYS:
                self._said.popitem(last=False)
        if identity is not None and _is_narrower(identity, session):
            raise UnauthenticatedError(NARROWED)

    async def _current(self, session: Session) -> Identity | None:
        for _, identities in self._found():
            if isinstance(identities, CurrentKeys) and (identity := await identities.current(session)) is not None:
                return identity
        return None


def _is_narrower(identity: Identity, session: Session) -> bool:
    """Whether a session has what its key would not give it any more."""
    if (identity.principal, identity.agent) != (session.principal, session.agent):
        return True
    if identity.dry_run_only and not session.dry_run_only:
        return True
    if not session.scopes <= identity.scopes or not set(identity.deny) <= set(session.deny):
        return True
    return identity.allow is not None and (session.allow is None or not set(session.allow) <= set(identity.allow))
