"""Going on with a run that waits, while the gateway looks for runs that it lost and for those that are ready."""

from __future__ import annotations

from typing import Any

import pytest
from durable_kit import Gateway, PlanRun, call, plan

from pml_hookspecs import Failure, Outcome, Run, Status, Task
from pml_testing.fakes import outcome

pytestmark = pytest.mark.anyio


async def test_who_goes_on_is_told_how_it_went_on_though_the_gateway_looks_for_work_meanwhile(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = {"b"}

    async def answer(task: Task, run: Run) -> Outcome:
        if task.id in waits:
            return outcome(task.id, status=Status.INPUT_REQUIRED, failure=Failure("approval.required", "look"))
        return outcome(task.id)

    engine = gateway.executor.engine
    first = await gateway.executor.execute(plan(call("a"), call("b")), PlanRun("r1", answer))
    assert first.status is Status.INPUT_REQUIRED
    waits.clear()
    looks: list[str] = []

    def looking_around(name: str) -> None:
        plain = getattr(engine.ledger, name)

        async def looked_around(*given: Any, **how: Any) -> Any:
            if not looks.count(name):
                looks.append(name)
                await engine.tick()
            return await plain(*given, **how)

        monkeypatch.setattr(engine.ledger, name, looked_around)

    for name in ("run", "ready", "history"):
        looking_around(name)
    ended = await gateway.executor.execute(plan(call("a"), call("b")), PlanRun("r1", answer))
    assert ended.status is Status.OK
    assert looks == ["run", "ready", "history"]
