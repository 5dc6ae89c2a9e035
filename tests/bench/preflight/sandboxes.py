"""What a gateway has besides a pre-flight: sandboxes that check code, and a policy that has humans look."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from pml_approvals.settings import Settings as Policy
from pml_approvals.wrapper import Approvals
from pml_core.plugins.nulls import MemoryStore
from pml_executor_dag import Dag
from pml_hookspecs import CodeRun, Run, Session, Task, ToolCall
from pml_kit.offers import Verdict
from pml_sandbox_deno import Deno
from pml_sandbox_monty import Monty
from pml_testing.fakes import FakeServices


class WithPlans(FakeServices):
    """Services whose plans are read by the executor that runs them."""

    async def check(self, task: Task, session: Session, *, within_s: float) -> Verdict:
        """Of code, nothing is known."""
        return await Dag().check(task, session, within_s=within_s)


class WithSandboxes(WithPlans):
    """Services that ask the real thing."""

    async def check(self, task: Task, session: Session, *, within_s: float) -> Verdict:
        """By whoever runs the plan, or the language."""
        if not isinstance(task, CodeRun):
            return await super().check(task, session, within_s=within_s)
        checker = self._python if task.language == "python" else self._scripts
        return await checker.check(task, session, within_s=within_s)

    async def would_ask(self, task: Task, above: Run) -> Sequence[str]:
        """By the policy that there is by default."""
        if isinstance(task, ToolCall) and (entry := self.catalog.resolve(task.tool)) is not None:
            task = ToolCall(id=task.id, tool=entry.id, arguments=task.arguments, step=task.step)
        why = await self._approvals.would_ask(task, above)
        return [why] if why else []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """While these are up."""
        async with MemoryStore() as self._store, Monty(None, self) as self._python, Deno(None, self) as self._scripts:
            self._approvals = Approvals(self, Policy())
            yield
