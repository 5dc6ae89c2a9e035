"""Hook plugin ``schedules``. Imported by every ``pml --help``, so nothing heavy is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Check, MetaTool, hookimpl

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Run, Services

settings_type = Settings
LIST: Mapping[str, Any] = {
    "name": "list_schedules",
    "description": "List what runs at certain times, with the next and the last run of each.",
    "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
    "annotations": {"readOnlyHint": True},
}
STEER: Mapping[str, Any] = {
    "name": "steer_schedule",
    "description": "Pause a schedule, resume it, or run it once now. Needs a key with the scope 'operate'.",
    "inputSchema": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "action": {"enum": ["pause", "resume", "run_now"]}},
        "required": ["name", "action"],
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": False, "destructiveHint": False},
}


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
def pml_meta_tools(services: Services) -> Iterable[MetaTool]:
    """``list_schedules`` and ``steer_schedule``, unlisted: what the commands do, for programs."""

    async def tell(_arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
        from . import operations

        return await operations.tell(run, services)

    async def steer(arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
        from . import operations

        return await operations.steer(arguments, run, services)

    return [
        MetaTool(definition=LIST, call=tell, listed=False, recorded=False),
        MetaTool(definition=STEER, call=steer, listed=False),
    ]


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
