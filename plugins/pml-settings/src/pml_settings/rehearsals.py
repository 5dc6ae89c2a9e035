"""Whether what runs is a rehearsal: the one place that decides it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import DryRun, Failure, Session, Task, ToolCall, Workflow

if TYPE_CHECKING:
    from .config import Config

LOCKED = "dry_run.locked"
"""Code of the failure of what began for real and may not go on."""
ARGUMENT = "dry_run"
"""Member of a tool's arguments by which its caller asks for a rehearsal."""


class Rehearsals:
    """Reads the configuration that is in force, so that a lock holds from the moment that it is switched on.

    A default says what happens where nobody says otherwise; a lock (``dry_run_only``) is overridden by nothing. Under
    one all that begins is rehearsed, and without reads, which rely on what servers say of their tools. What began for
    real is stopped: half of it rehearsed would look like all of it done.
    """

    def __init__(self, config: Callable[[], Config]) -> None:
        """``config`` gives the configuration as it is now."""
        self._config = config

    def locks(self, session: Session) -> Sequence[str]:
        """What lets ``session`` only rehearse: ``gateway``, ``endpoint``, ``key``; empty where nothing does."""
        config = self._config()
        endpoint = config.endpoints.get(session.endpoint)
        found = ["gateway"] if config.gateway.dry_run_only else []
        if endpoint is not None and endpoint.dry_run_only:
            found.append("endpoint")
        if session.dry_run_only:
            found.append("key")
        return found

    def mode(self, session: Session, asked: DryRun | None) -> DryRun:
        """How a task runs; None is as the session's key, its endpoint or the gateway has it."""
        if self.locks(session):
            return True
        if asked is not None:
            return asked
        return (session.execution_mode or self._config().gateway.execution_mode) == "dry_run"

    def refusal(self, session: Session) -> Failure | None:
        """Why what began for real may not go on; None where it may."""
        found = self.locks(session)
        if not found:
            return None
        message = (
            f"Only rehearsals are allowed here (dry_run_only of the {_named(found)}), and this began for real: it does "
            "not go on. Begin it again to have it rehearsed."
        )
        return Failure(LOCKED, message, details={"dry_run_only": list(found)})

    def note(self, session: Session, task: Task, asked: DryRun | None) -> str:
        """What a caller is told that asked for more than a rehearsal and does not get it; ``""`` where it does."""
        asked = asked_of(task, asked)
        if asked is None or asked is True or not (found := self.locks(session)):
            return ""
        return (
            f"This was rehearsed: nothing reached a server. Only rehearsals are allowed here (dry_run_only of the "
            f"{_named(found)}), whatever a call asks for."
        )

    def listed(self, definition: Mapping[str, Any], session: Session) -> Mapping[str, Any]:
        """The definition of one of the gateway's own tools, which says so where a rehearsal is all that it does."""
        found, schema = self.locks(session), definition.get("inputSchema")
        if not found or not isinstance(schema, Mapping):
            return definition
        properties = schema.get("properties")
        argument = properties.get(ARGUMENT) if isinstance(properties, Mapping) else None
        if not isinstance(properties, Mapping) or not isinstance(argument, Mapping):
            return definition
        about = f"Always true here, whatever is given (dry_run_only of the {_named(found)}): nothing reaches a server"
        locked = {**properties, ARGUMENT: {**argument, "default": True, "description": about}}
        return {**definition, "inputSchema": {**schema, "properties": locked}}

    def all_locks(self) -> Sequence[str]:
        """What the configuration locks: ``gateway``, ``endpoints.<name>``."""
        config = self._config()
        found = ["gateway"] if config.gateway.dry_run_only else []
        return found + [f"endpoints.{name}" for name, one in config.endpoints.items() if one.dry_run_only]


def asked_of(task: Task, asked: DryRun | None) -> DryRun | None:
    """What a task is to be run as, where its request asks for ``asked``; None for nothing."""
    wanted = wanted_of(task)
    return asked if wanted is None else wanted


def wanted_of(task: Task) -> DryRun | None:
    """What a task says itself about being rehearsed; None for nothing."""
    return task.dry_run if isinstance(task, (Workflow, ToolCall)) else None


def _named(locks: Sequence[str]) -> str:
    return " and the ".join(locks)
