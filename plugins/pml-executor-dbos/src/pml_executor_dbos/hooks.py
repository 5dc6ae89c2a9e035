"""The hook plugin ``dbos``: takes up what is left of durable runs, and lets people look at them and decide.

Imported by every ``pml --help``, so nothing heavy is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Check, MetaTool, hookimpl

from .executor import Dbos
from .settings import Settings

if TYPE_CHECKING:
    import argparse

    from pml_hookspecs import Run, Services

settings_type = Settings
SYSTEM = "system"
"""The scope whose holders may decide about everyone's runs."""
QUIET_S = 0.2
"""The first client need not wait for what is imported after that [s]."""
STATES = ("running", "ready", "paused", "ended", "cancelled")
DECIDE = {
    "name": "decide_durable_task",
    "description": "Say what happened to a task that was running when the gateway went down, so that its durable "
    "workflow goes on. repeat: run it again. done: it took effect, with this result. fail: count it as failed.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "run_id": {"type": "string", "description": "As the failure durable.in_doubt tells it"},
            "path": {"type": "string", "description": "The task in doubt"},
            "decision": {"type": "string", "enum": ["repeat", "done", "fail"]},
            "result": {"description": "For done: what the task came to; any JSON value"},
        },
        "required": ["run_id", "path", "decision"],
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": False},
}


RESUME = {
    "name": "resume_durable_run",
    "description": "Go on with a durable workflow that waits, or was cancelled. What has run is not run again.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "run_id": {"type": "string", "description": "The workflow_id that its report tells"},
            "decision": {"type": "string", "description": "continue, which is the default"},
        },
        "required": ["run_id"],
    },
    "annotations": {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": False},
}


@hookimpl
def pml_lifespan(services: Services) -> Iterable[AbstractAsyncContextManager[None]]:
    """Take up runs that were left behind, while the gateway is up; leave them in good order when it ends."""
    return [_watching(services)]


@asynccontextmanager
async def _watching(services: Services) -> AsyncIterator[None]:
    dbos = Dbos.latest
    if dbos is None:  # durable workflows are another executor's
        yield
        return
    import asyncio

    dbos.main = asyncio.current_task()
    services.spawn(_watch, dbos, services.log, name="watch")
    try:
        yield
    finally:
        await dbos.close()


async def _watch(dbos: Dbos, log: Any) -> None:
    """Until the executor is closed: take up runs that nobody has. Brings DBOS up only when there are some."""
    import asyncio

    problem = ""
    await asyncio.sleep(QUIET_S)
    while not dbos.closed:
        try:
            from .presence import is_work_left

            if dbos.is_up or await asyncio.to_thread(is_work_left, dbos.settings.file):
                await dbos.engine.start()
                await dbos.engine.tick()
            problem = ""
        except Exception as exc:
            # Whatever the database has today, the gateway serves on, and the next look may do.
            if problem != (problem := str(exc) or repr(exc)):
                log.warning("durable runs cannot be looked after", problem=problem)
        await asyncio.sleep(dbos.settings.heartbeat_s)


@hookimpl
def pml_meta_tools(services: Services) -> Iterable[MetaTool]:
    """``decide_durable_task``, for clients whose users decide there, and ``resume_durable_run``."""

    async def call(arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
        from .run_tools import decide_task

        return await decide_task(arguments, run, services.settings or Settings(), SYSTEM)

    async def resume(arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
        from .run_tools import resume

        return await resume(arguments, run, Dbos.latest, SYSTEM)

    return [
        MetaTool(definition=DECIDE, call=call, listed=False),
        MetaTool(definition=RESUME, call=resume, listed=False),
    ]


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """Add ``pml runs``."""
    about = "durable workflows: list, show, resume, cancel, decide"
    runs = subcommands.add_parser("runs", help=about, description="Look at durable workflows, and steer them.")
    verbs = runs.add_subparsers(dest="verb", required=True, metavar="VERB")
    listing = _verb(verbs, "list", "all of them, the newest first")
    listing.add_argument("--state", choices=STATES, help="only those")
    listing.add_argument("--limit", type=int, default=50, metavar="N", help="at most so many")
    listing.add_argument("--long", action="store_true", help="whole ids")
    _named(_verb(verbs, "show", "one of them, with its tasks"))
    _named(_verb(verbs, "resume", "go on with one that is paused or cancelled"))
    _named(_verb(verbs, "cancel", "begin no further task of it"))
    deciding = _verb(verbs, "decide", "say what happened to a task that was running at a crash")
    _named(deciding)
    deciding.add_argument("path", metavar="PATH", help="the task, as pml runs show names it")
    deciding.add_argument(
        "decision",
        choices=("repeat", "done", "fail"),
        help="repeat: run it again; done: it took effect; fail: it counts as failed",
    )
    deciding.add_argument("--result", metavar="JSON", help="for done: what it came to")


def _verb(verbs: Any, name: str, about: str) -> argparse.ArgumentParser:
    async def run_with(arguments: argparse.Namespace, services: Services) -> int:
        from .commands import VERBS

        return await VERBS[name](arguments, services)

    parser: argparse.ArgumentParser = verbs.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(run_with=run_with)
    return parser


def _named(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_id", metavar="ID", help="of the run, or its beginning")


@hookimpl
def pml_checks(services: Services) -> Iterable[Awaitable[Check]]:
    """Whether the database can be used, and whether runs wait for somebody."""
    return [_checked(services.settings or Settings())]


async def _checked(settings: Settings) -> Check:
    from .commands import check

    return await check(settings)
