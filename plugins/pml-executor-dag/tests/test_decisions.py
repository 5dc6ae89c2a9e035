from __future__ import annotations

import pytest

from pml_executor_dag.pauses.continuation import decision_from
from pml_hookspecs import InvalidArguments


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "workflow_id: is missing; give the workflow_id of a result"),
        ({"workflow_id": "x"}, "decision: is missing; say 'continue', 'abort' or 'replan'"),
        ({"workflow_id": "x", "decision": "yes"}, "decision: must be 'continue', 'abort' or 'replan', not 'yes'"),
        ({"workflow_id": 1, "decision": "abort"}, "workflow_id: must be a string, not a number"),
        ({"workflow_id": "x", "decision": "replan"}, "tasks: is missing"),
        (
            {"workflow_id": "x", "decision": "abort", "tasks": []},
            "tasks: means something only with the decision 'replan'",
        ),
        ({"workflow_id": "x", "decision": "abort", "id": 1}, "id: unknown"),
    ],
)
def test_a_decision_that_cannot_be_read_is_told(arguments, says):
    with pytest.raises(InvalidArguments) as caught:
        decision_from(arguments)
    assert says in str(caught.value)
