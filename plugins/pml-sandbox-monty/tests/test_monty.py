"""Code in Monty: values, tools, limits and every way to end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import pml_kit.jail
from pml_hookspecs import CodeRun, Failure, FolderSize, Outcome, Run, Status, Task, ToolCall, replace
from pml_hookspecs import Session as CallerSession
from pml_kit.jail import Wall
from pml_kit.system.folders import size_of
from pml_sandbox_monty import Monty, Settings
from pml_sandbox_monty.checks import pml_checks
from pml_testing.fakes import FakeRun, outcome
from pml_testing.isolation import WatchedRun, services

pytestmark = pytest.mark.anyio
Ran = Callable[..., Awaitable[Outcome]]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("1 + 1", 2),
        ("return {'a': [1, (2,)]}", {"a": [1, [2]]}),
        ("x = 3", None),
        ("return sum(n for n in numbers) + inputs['numbers'][0]", 7),
        ("import json\njson.loads('[1]')", [1]),
        ("async def f():\n    return 1\nawait f()", 1),
        ("import asyncio\nawait asyncio.sleep(0.01)\n'slept'", "slept"),
        ("import time\ntime.sleep(0.01)\n'slept'", "slept"),
    ],
)
async def test_code_gives_its_value(run: Ran, source: str, value: Any) -> None:
    ended = await run(source, inputs={"numbers": [1, 2, 3]})
    assert (ended.status, ended.output, ended.failure) == (Status.OK, value, None)


async def test_inputs_with_names_that_are_none_are_in_inputs(run: Ran) -> None:
    inputs = {"a-b": 1, "y": 2, "class": 3, "1x": 4, "tools": 5, "inputs": 6}
    source = "[inputs['a-b'], y, inputs['class'], inputs['tools'], inputs['inputs'], await tools.open.echo(a=1)]"
    assert (await run(source, inputs=inputs)).output == [1, 2, 3, 5, 6, {"a": 1}]


@pytest.mark.parametrize(
    "call",
    [
        "tools.open.echo(a=1)",
        "tools.open.echo({'a': 1})",
        "tools('open:echo', a=1)",
        "getattr(tools, 'open').echo(a=1)",
        "tools.open('echo', a=1)",
    ],
)
async def test_every_spelling_of_a_call_reaches_the_tool(run: Ran, call: str) -> None:
    on = WatchedRun()
    assert (await run(f"await {call}", on)).output == {"a": 1}
    assert [(task.tool, dict(task.arguments)) for task in on.dispatched if isinstance(task, ToolCall)] == [
        ("open:echo", {"a": 1})
    ]


async def test_a_tool_can_be_kept_and_called_later(run: Ran) -> None:
    source = "f = tools.open.echo\nfirst = await f(a=1)\nreturn [first, await f(a=2)]"
    assert (await run(source)).output == [{"a": 1}, {"a": 2}]


async def test_calls_side_by_side_run_side_by_side(monty: Monty) -> None:
    arrived, all_there = [0], asyncio.Event()

    async def meet(task: Task, run: Run) -> Outcome:
        arrived[0] += 1
        if arrived[0] == 20:
            all_there.set()
        await all_there.wait()
        return outcome(task.id, arrived[0])

    source = "import asyncio\nreturn await asyncio.gather(*[tools.open.echo(i=i) for i in range(20)])"
    task = CodeRun(id="task", language="python", source=source)
    assert (await monty.execute(task, FakeRun(meet))).output == [20] * 20


async def test_code_that_runs_itself_is_refused_at_once(monty: Monty) -> None:
    task, ends = CodeRun(id="task", language="python", source="return await tools.open.echo(a=1)"), []

    async def again(_call: Task, run: Run) -> Outcome:
        ends.append(await monty.execute(task, run))
        return ends[-1]

    async with asyncio.timeout(8.0):
        await monty.execute(task, FakeRun(again))
    codes = [ended.failure.code for ended in ends if ended.failure is not None]
    assert (len(ends), codes[0]) == (3, "code.nested")


@pytest.mark.parametrize("workers", [1, 2])
async def test_code_that_other_code_waits_for_runs_while_all_turns_are_held(workers: int) -> None:
    inner = CodeRun(id="inner", language="python", source="return 7")
    outer = CodeRun(id="outer", language="python", source="return await tools.open.echo(a=1)", timeout_s=20.0)
    arrived, all_there = [0], asyncio.Event()
    async with Monty(Settings(workers=workers), services()) as made, asyncio.TaskGroup() as group:

        async def nested(_call: Task, run: Run) -> Outcome:
            arrived[0] += 1
            if arrived[0] == workers:
                all_there.set()
            await all_there.wait()
            return await made.execute(inner, run)

        running = [group.create_task(made.execute(outer, FakeRun(nested))) for _ in range(workers)]
    assert [task.result().output for task in running] == [7] * workers


async def test_an_error_tells_its_line(run: Ran) -> None:
    failure = (await run("x = 1\n\ndef f():\n    raise ValueError('no good')\n\nf()")).failure
    assert failure
    assert failure.code == "code.raised"
    assert failure.message == "ValueError: no good (line 4)"
    assert failure.details["stack"] == ["f (line 4, column 11)", "the code (line 6, column 1)"]


async def test_what_it_printed_is_told_with_its_error_only(run: Ran) -> None:
    failure = (await run("print('so far')\n1 / 0")).failure
    assert failure
    assert failure.details["printed"] == "so far\n"
    assert (await run("print('so far')\n1")).output == 1


async def test_an_error_in_the_syntax_tells_its_line(run: Ran) -> None:
    failure = (await run("x = 1\ny = (")).failure
    assert failure
    assert (failure.code, failure.details["name"], failure.details["line"]) == ("code.raised", "SyntaxError", 2)


@pytest.mark.parametrize(
    "source", ["import numpy", "class A(Exception): pass", "def f():\n    yield 1", "from math import *"]
)
async def test_what_monty_lacks_is_told_with_where_to_find_it(run: Ran, source: str) -> None:
    failure = (await run(source)).failure
    assert failure
    assert "pml-sandbox-cpython" in failure.message


async def test_a_failed_call_can_be_caught(run: Ran) -> None:
    source = "try:\n    await tools.closed.door()\nexcept Exception as exc:\n    return str(exc)"
    assert (await run(source)).output == "This tool is out of reach."


async def test_a_call_that_fails_and_is_not_caught_fails_the_code_with_its_cause() -> None:
    async def answer(task: Task, run: Run) -> Outcome:
        failure = Failure("tool.failed", "It broke.", retryable=True)
        return outcome(task.id, status=Status.ERROR, failure=failure)

    async with Monty(Settings(), services()) as made:
        task = CodeRun(id="task", language="python", source="x = 1\nawait tools.open.echo(a=1)")
        failure = (await made.execute(task, FakeRun(answer))).failure
    assert failure
    assert failure.message == "ToolError: It broke. (line 2)"
    assert failure.retryable
    assert failure.details["cause"] == {"tool": "open:echo", "code": "tool.failed", "message": "It broke."}


@pytest.mark.parametrize(
    "ending", ["await tools.open.slow(a=1)", "try:\n    await tools.open.slow(a=1)\nexcept Exception:\n    raise first"]
)
async def test_of_tools_that_fail_with_the_same_message_none_is_blamed_alone(ending: str) -> None:
    async def answer(task: Task, run: Run) -> Outcome:
        return outcome(task.id, status=Status.ERROR, failure=Failure("tool.failed", "It broke."))

    source = f"try:\n    await tools.open.echo(a=1)\nexcept Exception as exc:\n    first = exc\n{ending}"
    async with Monty(Settings(), services()) as made:
        task = CodeRun(id="task", language="python", source=source)
        failure = (await made.execute(task, FakeRun(answer))).failure
    assert failure
    assert failure.details["cause"]["tool"] == "open:echo or open:slow"


async def test_a_refusal_that_is_not_caught_is_that_of_the_code(run: Ran) -> None:
    ended = await run("await tools.closed.door()")
    assert ended.status is Status.DENIED
    assert ended.failure
    assert ended.failure.code == "access.denied"


async def test_tools_that_the_task_does_not_list_are_not_called(run: Ran) -> None:
    on = WatchedRun()
    ended = await run("await tools.closed.door()", on, tools=("open:*",))
    assert ended.failure
    assert (ended.status, ended.failure.code) == (Status.DENIED, "code.tool_not_allowed")
    assert on.dispatched == []
    failure = (await run("tools", tools=(), intent="call open:echo")).failure
    assert failure
    assert failure.details["name"] == "NameError"


async def test_a_function_among_the_inputs_is_refused_by_name(run: Ran) -> None:
    failure = (await run("1", inputs={"f": print})).failure
    assert failure
    assert failure.code == "code.function_in_context"
    assert failure.message == (
        "Security violation detected: FUNCTION_IN_CONTEXT - Context key 'f' contains function value"
    )


@pytest.mark.parametrize("argument", ["{1, 2}", "float('nan')", "b'x'"])
async def test_arguments_that_are_no_data_are_the_codes_mistake(run: Ran, argument: str) -> None:
    on = WatchedRun()
    ended = await run(f"x = {argument}\nawait tools.open.echo(x=x)", on)
    assert ended.status is Status.ERROR
    assert on.trespasses == []


@pytest.mark.parametrize("value", ["{1, 2}", "float('inf')", "b'x'"])
async def test_a_value_that_is_no_data_is_the_codes_mistake(run: Ran, value: str) -> None:
    failure = (await run(f"return {value}")).failure
    assert failure
    assert (failure.code, failure.details["name"]) == ("code.raised", "TypeError")
    assert "JSON cannot say" in failure.message


@pytest.mark.parametrize("source", ["while True: pass", "await tools.open.wait()", "import time\ntime.sleep(60)"])
async def test_time_that_is_up_is_no_error_of_the_code(monty: Monty, source: str) -> None:
    async def never(task: Task, run: Run) -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError

    began = time.monotonic()
    task = CodeRun(id="task", language="python", source=source, timeout_s=0.3)
    ended = await monty.execute(task, FakeRun(never))
    took_s = time.monotonic() - began
    assert ended.failure
    assert (ended.status, ended.failure.code) == (Status.TIMED_OUT, "code.timed_out")
    assert 0.3 <= took_s < 30


async def test_the_start_of_the_first_worker_takes_no_time_from_the_code() -> None:
    async with Monty(Settings(), services()) as made:
        task = CodeRun(id="task", language="python", source="1", timeout_s=0.05)
        assert (await made.execute(task, FakeRun())).output == 1


async def test_an_error_that_looks_like_a_limit_is_none(run: Ran) -> None:
    failure = (await run("raise TimeoutError('the server took too long')")).failure
    assert failure
    assert failure.code == "code.raised"


ENDINGS = {
    "code.memory": "x = []\nwhile True:\n    x.append('x' * 1000 + str(len(x)))",
    "code.call_limit": "while True:\n    await tools.open.echo()",
    "code.output_limit": "return 'x' * 2_000_000",
}


@pytest.mark.parametrize("code", ENDINGS)
async def test_every_limit_has_an_ending_of_its_own(run: Ran, code: str) -> None:
    ended = await run(ENDINGS[code])
    assert ended.failure
    assert (ended.status, ended.failure.code) == (Status.ERROR, code)


async def test_calls_side_by_side_count_too(run: Ran) -> None:
    source = "import asyncio\nawait asyncio.gather(*[tools.open.echo(i=i) for i in range(200)])"
    on = WatchedRun()
    failure = (await run(source, on)).failure
    assert failure
    assert failure.code == "code.call_limit"
    assert len(on.dispatched) <= 100


async def test_printing_without_end_is_stopped(run: Ran) -> None:
    ended = await run("while True:\n    print('x' * 100)")
    assert ended.failure
    assert ended.failure.code == "code.output_limit"


async def test_a_program_gives_its_streams(run: Ran) -> None:
    ended = await run("import sys\nprint('out')\nprint('err', file=sys.stderr)\n5", program=True)
    assert ended.output == {"stdout": "out\n", "stderr": "err\n", "exit_code": 0}


async def test_a_program_that_fails_says_so_on_its_streams(run: Ran) -> None:
    ended = await run("print('out')\n1 / 0", program=True)
    assert ended.failure
    assert ended.failure.code == "code.exited"
    assert isinstance(ended.output, dict)
    assert (ended.output["stdout"], ended.output["exit_code"]) == ("out\n", 1)
    assert "line 2" in ended.output["stderr"]
    assert "ZeroDivisionError" in ended.output["stderr"]


async def test_a_program_that_takes_too_long_ends_with_124(run: Ran) -> None:
    ended = await run("print('out')\nwhile True: pass", program=True, timeout_s=0.3)
    assert ended.status is Status.TIMED_OUT
    assert ended.output == {"stdout": "out\n", "stderr": "", "exit_code": 124}


async def test_long_output_of_a_program_is_cut_and_said_to_be(run: Ran) -> None:
    ended = await run("print('x' * 5000)", program=True)
    assert isinstance(ended.output, dict)
    assert ended.output["stdout"].startswith("x" * 2000 + "\n[cut here: 3001 of 5001")


async def test_a_folder_can_be_read_and_written(run: Ran, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("in")
    source = "open('out.txt', 'w').write(open('in.txt').read() + '!')"
    assert (await run(source, folder=str(tmp_path))).failure is None
    assert (tmp_path / "out.txt").read_text() == "in!"
    assert (await run("open('in.txt').read()")).failure


async def test_runs_find_nothing_of_one_another(run: Ran) -> None:
    assert (await run("kept = 1\nimport json\njson.kept = 1\n1")).output in (1, None)
    failure = (await run("kept")).failure
    assert failure
    assert failure.details["name"] == "NameError"


async def test_cancelling_stops_the_code_and_its_calls(monty: Monty) -> None:
    began, under_way = asyncio.Event(), [0]

    async def wait(task: Task, run: Run) -> Outcome:
        under_way[0] += 1
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            under_way[0] -= 1
        raise AssertionError

    task = CodeRun(id="task", language="python", source="await tools.open.slow()")
    running = asyncio.ensure_future(monty.execute(task, FakeRun(wait)))
    await asyncio.wait_for(began.wait(), 10)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert under_way == [0]


async def test_code_within_code_does_not_wait_for_ever() -> None:
    began, ended = asyncio.Event(), asyncio.Event()
    async with Monty(Settings(workers=1), services()) as made:
        holds = CodeRun(id="holds", language="python", source="return await tools.open.slow()")
        waits = CodeRun(id="waits", language="python", source="1", timeout_s=0.3)

        async def answer(task: Task, run: Run) -> Outcome:
            assert isinstance(task, ToolCall)
            if task.tool == "open:slow":
                began.set()
                await ended.wait()
                return outcome(task.id, 1)
            if task.arguments["which"] == "holds":
                return replace(await made.execute(holds, run), task_id=task.id)
            await began.wait()
            failed = await made.execute(waits, run)
            ended.set()
            return replace(failed, task_id=task.id)

        source = "import asyncio\nawait asyncio.gather(*[tools.open.echo(which=which) for which in ('holds', 'waits')])"
        failure = (await made.execute(CodeRun(id="outer", language="python", source=source), FakeRun(answer))).failure
    assert failure
    assert "longer than its limit of 0.3 s" in failure.message


async def test_another_language_is_refused(monty: Monty) -> None:
    failure = (await monty.execute(CodeRun(id="task", language="ruby", source="1"), FakeRun())).failure
    assert failure
    assert failure.code == "code.unknown_language"


def without_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pml_kit.jail, "missing", lambda: [Wall("files", False, "no Landlock")])


async def test_a_wall_that_is_missing_is_told_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    without_files(monkeypatch)
    used = services()
    async with Monty(Settings(), used) as made:
        for _ in range(2):
            assert (await made.execute(CodeRun(id="task", language="python", source="1"), FakeRun())).output == 1
    assert [fields["missing"] for level, _, fields in used.log.lines if level == "warning"] == ["files: no Landlock"]


async def test_a_jail_that_is_required_and_missing_means_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    without_files(monkeypatch)
    async with Monty(Settings(jail="required"), services()) as made:
        failure = (await made.execute(CodeRun(id="task", language="python", source="1"), FakeRun())).failure
    assert failure
    assert failure.code == "sandbox.fault"
    assert "no Landlock" in failure.message


async def test_it_runs_also_while_the_gateway_is_not_up() -> None:
    made = Monty(Settings(), services())
    task = CodeRun(id="task", language="python", source="1")
    assert [one.output for one in await asyncio.gather(*(made.execute(task, FakeRun()) for _ in range(3)))] == [1] * 3


async def test_doctor_says_which_walls_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = list(pml_checks(services()))
    assert lines[0].title == "interpreter"
    assert all(line.ok for line in lines)
    monkeypatch.setattr(pml_kit.jail, "walls", lambda: [Wall("files", False, "no Landlock")])
    line = list(pml_checks(services()))[1]
    assert (line.ok, line.detail, bool(line.remedy)) == (False, "no Landlock", True)


@pytest.mark.attack("Jail", "ask for 200 runs of code at once, so that everybody else waits for all of them (Monty)")
async def test_a_principal_does_not_wait_for_all_that_another_one_asked_for() -> None:
    task = CodeRun(id="task", language="python", source="import time\ntime.sleep(0.05)")
    mallory, alice = (FakeRun(session=CallerSession(key=name, principal=name)) for name in ("mallory", "alice"))
    ended: list[str] = []

    async def ran(run: FakeRun) -> None:
        assert (await made.execute(task, run)).status is Status.OK
        ended.append(run.session.principal)

    async with Monty(Settings(workers=2), services()) as made, asyncio.TaskGroup() as group:
        many = [group.create_task(ran(mallory)) for _ in range(200)]
        await asyncio.sleep(0.2)
        for _ in range(3):
            await ran(alice)
        for one in many:
            one.cancel()
    assert ended.count("mallory") < 60


@pytest.mark.attack("Jail", "fill the disk by the folder that code may write into (Monty)")
async def test_code_that_fills_its_folder_is_stopped(monty: Monty, tmp_path: Path) -> None:
    source = "from pathlib import Path\nfor i in range(100_000):\n    Path(f'f{i}').write_text('x')\n"
    task = CodeRun(
        id="task",
        language="python",
        source=source,
        program=True,
        folder=str(tmp_path),
        folder_limit=FolderSize(1 << 20, 200),
        timeout_s=60.0,
    )
    ended = await monty.execute(task, FakeRun())
    assert ended.failure
    assert ended.failure.code == "code.folder_full"
    assert 200 < size_of(str(tmp_path), 100_000).files < 50_000
    # Full: it is read and not written.
    ended = await monty.execute(replace(task, source="from pathlib import Path\nPath('f0').write_text('')"), FakeRun())
    assert ended.output
    assert "Read-only file system" in ended.output["stderr"]
