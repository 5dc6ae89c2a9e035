"""``resume_durable_run`` goes on with a run for a client that waits for the rest of it; ``decide_durable_task``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments, Outcome, Status, ToolFailed

from .decisions import DECISIONS, decide, found
from .ledger import DatabaseError, Ledger
from .passes import plan_of

if TYPE_CHECKING:
    from pml_hookspecs import Run

    from .engine import Engine
    from .executor import Dbos
    from .ledger import RunRow
    from .settings import Settings

_beginning: set[str] = set()
"""Runs that somebody goes on with, of which the engine may not know yet."""


async def resume(arguments: Mapping[str, Any], run: Run, dbos: Dbos | None, system: str) -> Mapping[str, Any]:
    """The report of the run, to its end or to where it waits again.

    Args:
        arguments: ``run_id``; ``decision``, if there is one, must be ``continue``.
        run: Of the tool.
        dbos: Runs durable workflows in this gateway; None when another executor does.
        system: The scope whose holders may go on with everyone's.

    Raises:
        InvalidArguments: There is no such run, not of this principal, or it does not wait.
        ToolFailed: It has not ended well; the content is its report.
    """
    id_ = arguments.get("run_id")
    if not isinstance(id_, str) or not id_:
        raise InvalidArguments("run_id must be the id of a durable run")
    if arguments.get("decision", "continue") != "continue":
        message = f"{id_[:80]!r} would be a durable run, which can be continued, or cancelled with pml runs cancel"
        raise InvalidArguments(message)
    if dbos is None:
        raise InvalidArguments("durable workflows are run by another executor here")
    file = dbos.settings.file
    if file is not None and not file.exists():
        raise InvalidArguments(f"there is no durable run {id_[:80]!r}")
    principal = None if system in run.session.scopes else run.session.principal
    try:
        row = await found(dbos.engine.ledger, id_, principal=principal)
        outcome = await _go_on(dbos.engine, row)
    except DatabaseError as exc:
        raise InvalidArguments(str(exc)) from exc
    failure, output = outcome.failure, outcome.output
    told: dict[str, Any] = dict(output) if isinstance(output, Mapping) else {"status": str(outcome.status)}
    if failure is None or outcome.status is Status.INPUT_REQUIRED:
        return told
    if not isinstance(output, Mapping):
        told["error"] = {"code": failure.code, "message": failure.message}
    raise ToolFailed(failure.message, told)


async def _go_on(engine: Engine, row: RunRow) -> Outcome:
    run = row.id
    if row.state not in ("paused", "cancelled") or engine.has(run) or run in _beginning:
        state = row.state if row.state == "ended" else "under way"
        raise InvalidArguments(f"run {run} is {state}; only what is paused or cancelled can be continued")
    _beginning.add(run)
    try:
        return await engine.again(run, plan_of(row.request), row.request)
    except ValueError as exc:
        raise InvalidArguments(str(exc)) from exc
    finally:
        _beginning.discard(run)


async def decide_task(arguments: Mapping[str, Any], run: Run, settings: Settings, system: str) -> Mapping[str, Any]:
    """What became of the run once it was said what happened to a task.

    Raises:
        InvalidArguments: There is no such run or task, or not of this principal.
    """
    decision = arguments.get("decision")
    if decision not in DECISIONS:
        raise InvalidArguments(f"decision must be one of {', '.join(DECISIONS)}, not {decision!r}")
    ledger = Ledger(settings)
    try:
        principal = None if system in run.session.scopes else run.session.principal
        row = await found(ledger, str(arguments.get("run_id", "")), principal=principal)
        left = await decide(ledger, row, str(arguments.get("path", "")), decision, arguments.get("result"))
        now = await ledger.run(row.id)
    except DatabaseError as exc:
        raise InvalidArguments(str(exc)) from exc
    finally:
        await ledger.close()
    return {"run_id": row.id, "state": now.state if now else "unknown", "in_doubt": [task.path for task in left]}
