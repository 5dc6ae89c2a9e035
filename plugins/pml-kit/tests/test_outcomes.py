from __future__ import annotations

import pytest

from pml_hookspecs import Phase, Status, ToolCall
from pml_kit.outcomes import denied
from pml_testing.wrapper import WrapperContract

CALL = ToolCall(id="t", tool="db:drop")


def test_a_refusal_is_one_line_and_says_why():
    told = denied(CALL, "Not on Fridays. Try again on Monday.", code="policy.day", day="Friday")
    assert (told.task_id, told.status, told.output) == ("t", Status.DENIED, None)
    assert (told.failure.code, told.failure.details) == ("policy.day", {"day": "Friday"})
    assert denied(CALL, "No.").failure.code == "policy.denied"


class TestOneThatRefuses(WrapperContract):
    """What it returns is what the contract asks of a refusal."""

    @pytest.fixture
    def wrapper(self):
        class NoDrops:
            phase = Phase.AUTHORIZE

            async def __call__(self, task, run, call_next):
                if isinstance(task, ToolCall) and task.tool.endswith(":drop"):
                    return denied(task, "Nothing is dropped here. Ask the owner.")
                return await call_next(task, run)

        return NoDrops()

    @pytest.fixture
    def tasks(self):
        return [CALL]
