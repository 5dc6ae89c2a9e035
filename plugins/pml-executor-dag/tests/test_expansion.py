"""What a plan may make of results by putting them in again and again."""

from __future__ import annotations

import pytest

from pml_executor_dag.expansion import MOST_OF_TASK, MOST_OF_WORKFLOW, Expansion, size_of
from pml_executor_dag.references import TooLargeError
from pml_kit.references import parse

(ONCE,) = parse("{{a}}")
HALF = "x" * (MOST_OF_TASK // 2)


def test_a_result_of_any_size_can_be_handed_on_as_often_as_there_are_tasks():
    expansion = Expansion()
    for _ in range(100):
        expansion.of_task()(ONCE, "x" * MOST_OF_TASK * 2, whole=True)


def test_in_one_task_it_can_be_put_in_again_up_to_a_limit():
    count = Expansion().of_task()
    count(ONCE, HALF, whole=True)
    count(ONCE, HALF, whole=True)
    with pytest.raises(TooLargeError, match="makes the arguments too large"):
        count(ONCE, HALF, whole=True)


def test_what_is_written_into_texts_counts_for_the_whole_workflow():
    expansion, text = Expansion(), "x" * MOST_OF_TASK
    for _ in range(MOST_OF_WORKFLOW // MOST_OF_TASK - 1):
        expansion.of_task()(ONCE, text, whole=False)
    with pytest.raises(TooLargeError) as found:
        expansion.of_task()(ONCE, text, whole=False)
    assert found.value.failure.code == "reference.too_large"


def test_a_large_value_is_not_counted_to_its_end():
    value = {}
    value["a"] = [value] * 10
    assert size_of(value, 1000) > 1000
