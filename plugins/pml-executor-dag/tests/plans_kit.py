"""What tests read plans with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pml_executor_dag import tool
from pml_executor_dag.fields import refusal
from pml_hookspecs import InvalidArguments, Workflow


def workflow_from(arguments: Mapping[str, Any]) -> Workflow:
    """The workflow that ``arguments`` ask for.

    Raises:
        InvalidArguments: It has mistakes; the message is the one that whoever sent it gets.
    """
    workflow = tool.workflow_from(arguments)
    if workflow.mistakes:
        raise InvalidArguments(refusal(workflow.mistakes))
    return workflow
