"""What the schema forbids, told beside what a server answered: its own words come first, and stay as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import RawObject, replace

if TYPE_CHECKING:
    from pml_hookspecs import Outcome

    from .problems import Problem

MOST_PROBLEMS = 5
MOST_CHARACTERS = 200
"""Longest line about one problem [characters]."""
MOST_OF_NAME = 100
"""Characters of the tool's id."""


def hint(tool: str, told: Sequence[Problem]) -> str:
    """A note of at most some 1,300 characters; ``""`` where nothing is wrong."""
    if not told:
        return ""
    lines = [_cut(f"- {problem.path}: {problem.message}", MOST_CHARACTERS) for problem in told[:MOST_PROBLEMS]]
    more = ["- and more"] if len(told) > MOST_PROBLEMS else []
    name = _cut(tool, MOST_OF_NAME)
    head = f"Note by the gateway: the arguments do not fit the input schema of {name}, which may be why:"
    return "\n".join([head, *lines, *more])


def with_hint(outcome: Outcome, text: str) -> Outcome:
    """``outcome``, which a server's error is, with ``text`` after its message and as the last block of its content.

    The server's JSON-RPC error stands in the failure's details as it came.
    """
    failure, output = outcome.failure, outcome.output
    if failure is None:
        return outcome
    told = replace(failure, message=f"{failure.message}\n{text}")
    content: Any = output.get("content") if isinstance(output, Mapping) else None
    if not isinstance(output, Mapping) or not isinstance(content, (list, tuple)):
        return replace(outcome, failure=told)
    block = {"type": "text", "text": text}
    return replace(outcome, output=RawObject.of({**output, "content": [*content, block]}), failure=told)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
