"""The executor of durable workflows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pml_hookspecs import Workflow

from .settings import Settings

if TYPE_CHECKING:
    import asyncio

    from pml_hookspecs import Outcome, Run, Services, Task

    from .engine import Engine


class Dbos:
    """Runs workflows that say ``durable``: after a crash they go on, and what has run is not run again.

    It schedules nothing. The plan goes back into the chain without ``durable``, to the executor of ordinary workflows,
    together with a journal that keeps what each task came to.
    """

    handles: ClassVar[frozenset[type]] = frozenset({Workflow})
    durable: ClassVar[bool] = True
    settings_type = Settings
    latest: ClassVar[Dbos | None] = None
    """The one that the gateway of this process made, for the hooks of the same distribution."""

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        self.settings, self._services = settings or Settings(), services
        self._engine: Engine | None = None
        self.closed = False
        self.main: asyncio.Task[Any] | None = None
        """The asyncio task that the gateway's life is bound to, as far as known."""
        Dbos.latest = self

    @property
    def engine(self) -> Engine:
        """What runs them; made when it is first needed.

        Raises:
            RuntimeError: The executor has no services.
        """
        if self._engine is None:
            from .engine import Engine

            if self._services is None:
                raise RuntimeError("durable workflows need the gateway's services")
            self._engine = Engine(self.settings, self._services, self.main)
        return self._engine

    @property
    def is_up(self) -> bool:
        """Whether DBOS runs."""
        return self._engine is not None and self._engine.up

    async def execute(self, task: Task, run: Run) -> Outcome:
        """Run ``task`` to its end, or to where it must wait for somebody: then the status is ``INPUT_REQUIRED``.

        Raises:
            TypeError: ``task`` is no workflow.
            Exception: The database cannot be used.
        """
        if not isinstance(task, Workflow):
            raise TypeError(f"{type(task).__name__} is not a workflow")
        return await self.engine.run(task, run)

    async def close(self) -> None:
        """Leave what is not done to the next gateway."""
        self.closed = True
        if self._engine is not None:
            await self._engine.close()
