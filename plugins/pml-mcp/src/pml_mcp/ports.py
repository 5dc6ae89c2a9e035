"""What both sides of the protocol need of the gateway around them: its objects fit as they are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from pml_catalog.exposure.exposures import Exposures
    from pml_hookspecs import DryRun, ExecutionId, Outcome, RunOptions, Scope, Session, Task
    from pml_kit.offers import AccessEvent


class Rehearsals(Protocol):
    """Whether what runs is a rehearsal."""

    def locks(self, session: Session) -> Sequence[str]:
        """What lets ``session`` only rehearse; empty where nothing does."""
        ...

    def mode(self, session: Session, asked: DryRun | None) -> DryRun:
        """How a task runs; None is as the configuration has it."""
        ...

    def note(self, session: Session, task: Task, asked: DryRun | None) -> str:
        """What a caller is told that asked for more than a rehearsal and does not get it; ``""`` where it does."""
        ...


class Dispatcher(Protocol):
    """The one way to run a task."""

    @property
    def rehearsals(self) -> Rehearsals:
        """Which tasks only rehearse."""
        ...

    async def start(self, task: Task, session: Session, options: RunOptions) -> Outcome:
        """Run a task for a client."""
        ...

    async def start_resolved(self, task: Task, session: Session, options: RunOptions) -> tuple[Task, Outcome]:
        """As :meth:`start`; also gives the task that was run, which may stand behind the one given."""
        ...


class GatewaySettings(Protocol):
    """Of ``[gateway]``, what clients and servers notice."""

    @property
    def name(self) -> str:
        """What it calls itself to clients."""
        ...

    @property
    def list_wait_s(self) -> float:
        """Longest that a list waits for servers [s]."""
        ...

    @property
    def page_size(self) -> int:
        """Items on a page of a list; 0 for all on one."""
        ...


class Configuration(Protocol):
    """One configuration of the gateway."""

    @property
    def gateway(self) -> GatewaySettings:
        """Its ``[gateway]``."""
        ...

    def lock_paths(self) -> Mapping[str, Path]:
        """By server, where the file is, or would be, that has what people took of it."""
        ...


class ActiveConfig(Protocol):
    """The configuration in force, and the lists that it says clients are shown."""

    @property
    def config(self) -> Configuration:
        """What is set."""
        ...

    @property
    def exposures(self) -> Exposures:
        """Which tools each client is shown."""
        ...


class Background(Protocol):
    """Executions that nobody waits for."""

    def has(self, id: ExecutionId) -> bool:
        """Whether it was begun here not long ago."""
        ...

    async def stop(self, id: ExecutionId) -> bool:
        """Cancel it, wherever it runs; whether it was under way."""
        ...


class Identities(Protocol):
    """Who may see which executions."""

    async def scope(self, session: Session, *, results: bool) -> Scope:
        """Whose executions ``session`` may see.

        Raises:
            UnauthenticatedError: A key is needed and there is none.
        """
        ...


class AccessWatchers(Protocol):
    """Whoever hears of access that no wrapper sees."""

    async def tell(self, event: AccessEvent) -> None:
        """Have them hear it."""
        ...


class BackgroundTasks(Protocol):
    """Work beside the requests, which ends with the gateway."""

    def spawn(self, plugin: str, func: Callable[..., Awaitable[None]], args: tuple[Any, ...], name: str) -> None:
        """Run a background task for ``plugin``; its failure reaches nobody else."""
        ...
