"""Services whose plans are read by an executor, as in a gateway."""

from __future__ import annotations

from pml_executor_dag import Dag
from pml_hookspecs import Workflow
from pml_testing.fakes import FakeServices


class PlanServices(FakeServices):
    """Tells of plans what their executor does, and of all else what the test says."""

    async def check(self, task, session, *, within_s):
        if isinstance(task, Workflow):
            return await Dag().check(task, session, within_s=within_s)
        return await super().check(task, session, within_s=within_s)
