"""Code in Monty beside other code, and beside everybody else in the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pml_hookspecs import Outcome, ToolCall
from pml_sandbox.inputs import to_json
from pml_sandbox_monty import session
from pml_testing.isolation import WatchedRun

pytestmark = pytest.mark.anyio
Ran = Callable[..., Awaitable[Outcome]]


async def test_codes_that_run_side_by_side_call_for_themselves(run: Ran) -> None:
    runs = [WatchedRun() for _ in range(4)]
    codes = (run(f"first = await tools.open.slow(a={n})\nawait tools.open.slow(b={n})\nfirst", on)
             for n, on in enumerate(runs))  # fmt: skip
    assert [ended.output for ended in await asyncio.gather(*codes)] == [{"a": n} for n in range(4)]
    for n, on in enumerate(runs):
        asked = [dict(task.arguments) for task in on.dispatched if isinstance(task, ToolCall)]
        assert asked == [{"a": n}, {"b": n}]


async def test_what_is_far_too_large_is_refused_before_it_is_written_as_json(
    run: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    def watched(value: Any) -> bytes:
        text = to_json(value)
        written.append(len(text))
        return text

    monkeypatch.setattr(session, "to_json", watched)
    ended = await run("await tools.open.echo(text='x' * 5_000_000)")
    assert ended.failure
    assert "bytes of JSON that fit" in ended.failure.message
    ended = await run("return 'x' * 5_000_000")
    assert ended.failure
    assert ended.failure.code == "code.output_limit"
    assert max(written, default=0) < 1 << 20
