"""The guide that models get tells what is so: its examples are plans, and it names all that a task can say."""

from __future__ import annotations

import json
import re

import pytest
from plans_kit import workflow_from

from pml_executor_dag import tool
from pml_executor_dag.guide import TEXT
from pml_executor_dag.plan import graph_of
from pml_hookspecs import Step
from pml_kit.offers import GUIDES

EXAMPLES = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)


def test_there_is_one_guide_and_it_is_found_by_questions():
    (guide,) = (offer.service for offer in tool.pml_offers() if offer.key == GUIDES)
    assert (guide.name, guide.text) == ("workflows", TEXT)
    assert guide.questions


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_a_plan_without_mistakes(example):
    workflow = workflow_from(json.loads(example))
    assert graph_of(workflow)[1] == []


@pytest.mark.parametrize(
    "name", ["when", "for_each", "retry", "timeout_s", "on_error", "compensate", "inputs", "approve"]
)
def test_it_names_what_a_task_can_say(name):
    assert f"| `{name}` |" in TEXT
    assert name == "inputs" or hasattr(Step(), name)


def test_it_is_short():
    assert len(TEXT) < 4500
