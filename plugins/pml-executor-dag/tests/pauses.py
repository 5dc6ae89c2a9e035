"""Somebody who approves, and who decides what becomes of a workflow that waits."""

from __future__ import annotations

from pml_executor_dag.pauses.continuation import carry_out, decision_from
from pml_hookspecs import (
    ToolFailed,
)
from pml_testing.fakes import outcome


class Approver:
    """Lets tasks wait until their ids are approved."""

    def __init__(self, make, *ids, fail=()):
        self.make, self.ids, self.approved, self.fail = make, set(ids), set(), set(fail)

    async def __call__(self, task, run):
        if task.id in self.ids - self.approved:
            return self.make.waits(task)
        if task.id in self.fail:
            return self.make.failed(task)
        return outcome(task.id, self.make.structured({"id": task.id}))


async def decide(world, ended, what="continue", session=None, **more):
    """Continue the workflow that waits; its report."""
    id_ = ended["workflow_id"] if isinstance(ended, dict) else ended.output["workflow_id"]
    decision = decision_from({"workflow_id": id_, "decision": what, **more})
    run = world.run("continue", session=session)
    try:
        return await carry_out(decision, world.documents, run, world.services.catalog)
    except ToolFailed as exc:
        return exc.content
