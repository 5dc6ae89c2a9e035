"""The executor of workflows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from pml_hookspecs import Failure, Outcome, Status, Workflow, setting

from .plan import graph_of
from .results import failure_of, report
from .scheduler import Scheduler

if TYPE_CHECKING:
    from pml_hookspecs import Run, Services, Task

MOST_MISTAKES = 100
"""Lines of one message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """``[plugins.dag]``."""

    max_parallel: int = setting(64, "Most tasks of one workflow under way at once [tasks].", ge=1, le=1000)


class Dag:
    """Runs workflows (tech-spec DAG-1..9). Every task goes through the gateway's whole chain of wrappers."""

    handles: ClassVar[frozenset[type]] = frozenset({Workflow})
    settings_type = Settings

    def __init__(
        self,
        settings: Settings | None = None,
        services: Services | None = None,
    ) -> None:
        self._settings = settings or Settings()

    async def execute(self, task: Task, run: Run) -> Outcome:
        """Run a workflow to its end.

        Returns:
            ``OK``, or ``SIMULATED`` in a dry run, when every task ended well; else ``ERROR`` with the code
            ``workflow.failed``. Either way the output tells of every task, in plan order. ``ERROR`` with the code
            ``workflow.invalid`` and no output when the graph has mistakes; nothing ran then.

        Raises:
            TypeError: ``task`` is no workflow.
        """
        if not isinstance(task, Workflow):
            raise TypeError(f"the dag executor runs workflows, not {type(task).__name__}")
        started_at = datetime.now(UTC)
        nodes, mistakes = graph_of(task)
        if mistakes:
            return _over(task, started_at, Status.ERROR, failure=Failure("workflow.invalid", refusal(mistakes)))
        scheduler = Scheduler({node.id: node for node in task.tasks}, nodes, run, self._settings.max_parallel)
        await scheduler.run()
        output = report(task, nodes, scheduler, dry_run=run.dry_run)
        failure = failure_of([scheduler.outcomes[node.id] for node in task.tasks])
        good = Status.SIMULATED if run.dry_run else Status.OK
        return _over(task, started_at, Status.ERROR if failure else good, output=output, failure=failure)


def refusal(mistakes: list[str]) -> str:
    """One message for everything that is wrong with a plan."""
    count = f"{len(mistakes)} mistakes" if len(mistakes) > 1 else "1 mistake"
    more = [f"and {len(mistakes) - MOST_MISTAKES} more"] if len(mistakes) > MOST_MISTAKES else []
    lines = "".join(f"\n- {mistake}" for mistake in [*mistakes[:MOST_MISTAKES], *more])
    return f"Nothing was run; the workflow has {count}:{lines}"


def _over(
    task: Workflow, started_at: datetime, status: Status, *, output: Any = None, failure: Failure | None = None
) -> Outcome:
    duration_ms = round((datetime.now(UTC) - started_at) / timedelta(milliseconds=1))
    return Outcome(
        task_id=task.id, status=status, started_at=started_at, duration_ms=duration_ms, output=output, failure=failure
    )
