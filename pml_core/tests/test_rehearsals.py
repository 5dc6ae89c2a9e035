"""The lock ``dry_run_only`` where it is judged: at the start of a task, and once more before it is run."""

from __future__ import annotations

import pytest

from pml_hookspecs import Phase, RunOptions, Session, Status, ToolCall, replace
from pml_testing.dispatching import SESSION, Simulator, gateway, records, workflow
from pml_testing.gateway import ScriptedServer

pytestmark = pytest.mark.anyio
LOCKED = Session(key="k", dry_run_only=True)
CALL = ToolCall(id="a", tool="fs:read")


def lock(made):
    made.active.config = replace(made.config, gateway=replace(made.config.gateway, dry_run_only=True))


class Human:
    """Agrees to everything; meanwhile somebody switches the lock on."""

    phase = Phase.APPROVE
    made = None

    async def __call__(self, task, run, call_next):
        if self.made is not None:
            lock(self.made)
        return await call_next(task, run)


@pytest.mark.attack(
    "A rehearsal-only key rehearses", "have a human agree to a real call while the lock is being switched on"
)
async def test_a_human_who_agrees_does_not_open_a_lock_that_was_switched_on_meanwhile():
    server, human = ScriptedServer(["read"]), Human()
    async with gateway({"fs": server}, wrappers=[Simulator(), human]) as made:
        human.made = made
        ended = await made.dispatcher.start(CALL, SESSION, RunOptions(dry_run=False))
    assert (ended.status, ended.failure.code, server.calls) == (Status.DENIED, "dry_run.locked", [])
    assert ended.failure.details == {"dry_run_only": ["gateway"]}


@pytest.mark.parametrize("asked", [None, False, "reads", True])
@pytest.mark.parametrize("task", [CALL, workflow(dry_run=False)])
async def test_under_the_lock_of_a_key_everything_is_rehearsed_and_reads_nothing(task, asked):
    server, simulator = ScriptedServer(["read"]), Simulator()
    async with gateway({"fs": server}, wrappers=[simulator]) as made:
        ended = await made.dispatcher.start(task, LOCKED, RunOptions(dry_run=asked))
        assert {row.dry_run for row in await records(made)} == {True}
    assert (ended.status.good, server.calls) == (True, [])
    assert {(run.dry_run, run.reads_for_real) for _, run in simulator.seen} == {(True, False)}


@pytest.mark.attack(
    "A rehearsal-only key rehearses", "go on with an execution that began for real before the lock was switched on"
)
async def test_what_began_for_real_does_not_go_on_and_is_not_said_to_be_rehearsed_to_its_end():
    server = ScriptedServer(["read"])
    async with gateway({"fs": server}, wrappers=[Simulator()]) as made:
        await made.dispatcher.start(workflow(), SESSION)
        began = next(row for row in await records(made) if row.kind == "workflow")
        lock(made)
        again = await made.dispatcher.start(workflow(dry_run=False), SESSION, RunOptions(id=began.id))
        assert again.failure.code == "dry_run.locked"
        anew = await made.dispatcher.start(workflow(dry_run=False), SESSION)
    assert (anew.failure, len(server.calls)) == (None, 1)
