"""Reads the arguments of ``execute_workflow``, strictly, and says everything that is wrong with them at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pml_hookspecs import DryRun, Outcome, Step, Task, Workflow
from pml_hookspecs.tasks import ONCE
from pml_kit.offers.plan_graphs import EACH
from pml_kit.plain import parsed

from .fields import Fields, kind
from .pauses.agreement import DIGEST, agreed_on
from .plan import MOST_NESTED, TaskSpec, check, did_you_mean, lines, sketch_of
from .task_fields import LIMITS, TaskFields, expression, limits

MOST_TASKS = 1000
"""Tasks in one request, those of workflows within the workflow included."""
PLAN = ("tasks", "return", "select", *LIMITS, "durable", "per_layer_validation")
ALL = "all"
"""In ``return``: every task."""
SHAPE = '{"tasks": [{"id": "a", "tool": "server:tool", "arguments": {}}]}'


def read(arguments: Mapping[str, Any], types: Collection[str] = ()) -> tuple[Workflow, list[str]]:
    """The workflow, and everything that is wrong with it as ``where: what`` lines.

    The workflow is only usable when nothing is wrong. Without tasks it is to be planned from its intent. One that is to
    be rehearsed may have mistakes in the order of its tasks, of which the rehearsal tells. ``types`` are those of tasks
    that plugins run.
    """
    reader = _Reader(types)
    workflow, mistakes = reader.workflow(arguments), reader.fields.mistakes
    return workflow, [] if workflow.dry_run and reader.of_order == len(mistakes) else mistakes


def read_tasks(
    given: Mapping[str, Any], external_ids: Collection[str], types: Collection[str] = ()
) -> tuple[tuple[Task, ...], list[str]]:
    """The tasks in ``given["tasks"]``, and all that is wrong with them; they may refer to ``external_ids``."""
    reader = _Reader(types)
    return reader.tasks(given, "tasks", frozenset(external_ids)), reader.fields.mistakes


class _Reader:
    def __init__(self, types: Collection[str]) -> None:
        self.fields = Fields()
        self._task = TaskFields(self.fields, self._inner, types)
        self._count = self._depth = self.of_order = 0

    def workflow(self, arguments: Mapping[str, Any]) -> Workflow:
        fields, dry_run = self.fields, self._dry_run(arguments)
        elsewhere = f"; in workflow: {', '.join(PLAN)}" if any(name in PLAN for name in arguments) else ""
        fields.names(arguments, ("workflow", "intent", "dry_run", "plan_digest", "async"), "", elsewhere)
        intent = fields.text(arguments, "intent", "")
        plan, known = parsed(arguments.get("workflow")), self._known(arguments)
        wait = not fields.boolean(arguments, "async", "")
        if "workflow" not in arguments and intent.strip():
            return Workflow(id="workflow", tasks=(), intent=intent, dry_run=dry_run, known=known, wait=wait)
        if not isinstance(plan, Mapping):
            what = f"must be an object, not {kind(plan)}" if "workflow" in arguments else "is missing"
            fields.wrong("workflow", f"{what}; give {SHAPE}")
            return Workflow(id="workflow", tasks=())
        fields.names(plan, PLAN, "workflow.")
        if plan.get("durable") is True and plan.get("per_layer_validation") is True:
            what = "cannot be had together with durable, which goes on by itself; let tasks have approve instead"
            fields.wrong("workflow.per_layer_validation", what)
        tasks = self.tasks(plan, "workflow.tasks", frozenset())
        select = expression(fields, plan, "workflow.")
        return Workflow(
            id="workflow",
            tasks=tasks,
            step=Step(select=select) if select else ONCE,
            returns=self._returns(plan, {task.id for task in tasks}),
            intent=intent,
            dry_run=dry_run,
            durable=fields.boolean(plan, "durable", "workflow."),
            by_layer=fields.boolean(plan, "per_layer_validation", "workflow."),
            known=known,
            wait=wait,
            **limits(fields, plan, "workflow."),
        )

    def _returns(self, plan: Mapping[str, Any], ids: Collection[str]) -> tuple[str, ...]:
        """The tasks whose results are answered; empty without any said."""
        given = parsed(plan.get("return", ()))
        names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, (list, tuple)) else None
        if names is None or not all(isinstance(name, str) for name in names):
            self.fields.wrong("workflow.return", f'must be ids of tasks such as ["a"], or "{ALL}", not {kind(given)}')
            return ()
        for name in names:
            if name != ALL and name not in ids:
                self.fields.wrong("workflow.return", f"there is no task {name[:80]!r}{did_you_mean(name, ids)}")
        return names

    def _dry_run(self, arguments: Mapping[str, Any]) -> DryRun | None:
        asked = arguments.get("dry_run")
        if "dry_run" not in arguments or isinstance(asked, bool):
            return asked
        if asked == "reads":
            return "reads"
        self.fields.wrong("dry_run", f"must be true, false or 'reads', not {kind(asked)}")
        return None

    def _known(self, arguments: Mapping[str, Any]) -> Mapping[str, Outcome]:
        """The rehearsal that the plan has to be the same as in."""
        if "plan_digest" not in arguments:
            return {}
        digest = self.fields.text(arguments, "plan_digest", "")
        if isinstance(arguments["plan_digest"], str) and not DIGEST.fullmatch(digest):
            self.fields.wrong("plan_digest", "is none; give the plan_digest that a rehearsal (dry_run: true) told")
        return agreed_on(digest)

    def tasks(self, holder: Mapping[str, Any], where: str, external_ids: frozenset[str]) -> tuple[Task, ...]:
        tasks = parsed(holder.get("tasks"))
        if self._depth > MOST_NESTED:
            self.fields.wrong(where, f"more than {MOST_NESTED} workflows within workflows")
            return ()
        if not isinstance(tasks, (list, tuple)) or not tasks:
            what = f"must be an array, not {kind(tasks)}" if "tasks" in holder else "is missing"
            what = "is empty" if tasks == [] else what
            self.fields.wrong(where, f'{what}; give at least one task, such as {{"id": "a", "tool": "server:tool"}}')
            return ()
        self._count += len(tasks)
        if self._count > MOST_TASKS:
            self.fields.wrong(where, f"{self._count} tasks; one workflow may have {MOST_TASKS}; split it")
            return ()
        read = [self._one(task, f"{where}[{i}]") for i, task in enumerate(tasks)]
        mistakes = lines(check([spec for _, spec in read if spec is not None], external_ids)[1])
        self.of_order += len(mistakes)
        self.fields.mistakes += mistakes
        return tuple(task for task, _ in read if task is not None)

    def _one(self, task: Any, where: str) -> tuple[Task | None, TaskSpec | None]:
        if not isinstance(task, Mapping):
            what = f'must be an object such as {{"id": "a", "tool": "server:tool"}}, not {kind(task)}'
            self.fields.wrong(where, what)
            return None, None
        made, depends_on = self._task.task(task, where)
        if made is not None:
            return made, sketch_of(made, where, depends_on) if made.id else None
        # Of an unknown type, but there: others may need it.
        id_ = task.get("id")
        return None, TaskSpec(id=id_, where=where, depends_on=depends_on) if isinstance(id_, str) else None

    def _inner(self, holder: Mapping[str, Any], where: str, each: bool) -> tuple[Task, ...]:  # noqa: FBT001 - see Tasks
        self._depth += 1
        try:
            return self.tasks(holder, where, EACH if each else frozenset())
        finally:
            self._depth -= 1
