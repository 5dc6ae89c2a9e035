"""Hook plugin ``schedules``. Imported by every ``pml --help``, so nothing heavy is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Check, hookimpl

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services

settings_type = Settings


@hookimpl
def pml_lifespan(services: Services) -> Iterable[AbstractAsyncContextManager[None]]:
    """Begin what is due, while the gateway is up."""
    return [_scheduling(services)]


@asynccontextmanager
async def _scheduling(services: Services) -> AsyncIterator[None]:
    from .scheduler import Scheduler

    services.spawn(Scheduler(services, services.settings or Settings()).run, name="schedules")
    yield


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """``pml schedules``."""
    from .command import add

    add(subcommands)


@hookimpl
def pml_checks(services: Services) -> Iterable[Check]:
    """Whether the schedules in the configuration could run."""
    from .plan import plan_of
    from .run_task import likely_problem

    settings: Settings = services.settings or Settings()
    for name, schedule in settings.schedules.items():
        try:
            plan = plan_of(name, schedule, settings, declared=True)
            problem = likely_problem(schedule, services.catalog)
        except ValueError as exc:
            yield Check(
                f"schedule {name}", ok=False, detail=str(exc), remedy=f"Mend [plugins.schedules.schedules.{name}]."
            )
            continue
        remedy = f"Mend [plugins.schedules.schedules.{name}], or what it names." if problem else ""
        yield Check(f"schedule {name}", ok=not problem, detail=problem or f"{plan.what}, {plan.when}", remedy=remedy)
