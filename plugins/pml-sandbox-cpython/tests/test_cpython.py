"""Code in CPython: values, tools, limits, programs and every way to end."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import pml_kit.jail
from pml_hookspecs import CodeRun, Failure, Outcome, Run, Session, Status, Task, ToolCall
from pml_kit.jail import Wall
from pml_sandbox_cpython import CPython, Settings
from pml_sandbox_cpython.checks import pml_checks
from pml_sandbox_cpython.interpreter import find
from pml_testing.fakes import FakeRun, outcome
from pml_testing.isolation import WatchedRun, services

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="the jail is Linux's")]
Ran = Callable[..., Awaitable[Outcome]]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("1 + 1", 2),
        ("return {'a': [1, (2,)]}", {"a": [1, [2]]}),
        ("x = 3", None),
        ("numbers = numbers + [4]\nreturn sum(numbers) + inputs['numbers'][0]", 11),
        ("from math import *\ndef f():\n    global kept\n    kept = sqrt(4)\nf()\nkept", 2.0),
        ("class Base: pass\nclass E(Base, Exception): pass\n[n for n in (n for n in range(3))]", [0, 1, 2]),
        ("async def f():\n    return 1\nawait f()", 1),
        ("async def f():\n    yield 1\nreturn [n async for n in f()]", [1]),
        ("import asyncio\nasync def f():\n    return 2\nreturn asyncio.run(f())", 2),
        ("import asyncio\nasync def f():\n    return 2\nasyncio.run(f())", 2),
        ("import statistics, uuid, csv, io, decimal\nstatistics.mean([1, 3])", 2),
        ("def f():\n    return 1\nf()", 1),
    ],
)
async def test_code_gives_its_value(run: Ran, source: str, value: Any) -> None:
    ended = await run(source, inputs={"numbers": [1, 2, 3]})
    assert (ended.status, ended.output, ended.failure) == (Status.OK, value, None)


async def test_inputs_with_names_that_are_none_are_in_inputs(run: Ran) -> None:
    inputs = {"a-b": 1, "y": 2, "class": 3, "1x": 4, "tools": 5, "inputs": 6}
    source = "[inputs['a-b'], y, inputs['class'], inputs['tools'], inputs['inputs'], await tools.open.echo(a=1)]"
    assert (await run(source, inputs=inputs)).output == [1, 2, 3, 5, 6, {"a": 1}]
    assert (await run(f"return {source}", inputs=inputs)).output == [1, 2, 3, 5, 6, {"a": 1}]


@pytest.mark.parametrize(
    "call",
    [
        "tools.open.echo(a=1)",
        "tools.open.echo({'a': 1})",
        "tools('open:echo', a=1)",
        "tools['open:echo'](a=1)",
        "tools['open']['echo'](a=1)",
    ],
)
async def test_every_spelling_of_a_call_reaches_the_tool(run: Ran, call: str) -> None:
    on = WatchedRun()
    assert (await run(f"await {call}", on)).output == {"a": 1}
    assert [(task.tool, dict(task.arguments)) for task in on.dispatched if isinstance(task, ToolCall)] == [
        ("open:echo", {"a": 1})
    ]


async def test_calls_side_by_side_run_side_by_side(cpython: CPython) -> None:
    arrived, all_there = [0], asyncio.Event()

    async def meet(task: Task, run: Run) -> Outcome:
        arrived[0] += 1
        if arrived[0] == 20:
            all_there.set()
        await all_there.wait()
        return outcome(task.id, arrived[0])

    source = "import asyncio\nreturn await asyncio.gather(*[tools.open.echo(i=i) for i in range(20)])"
    task = CodeRun(id="task", language="python", source=source)
    assert (await cpython.execute(task, FakeRun(meet))).output == [20] * 20


async def test_an_error_tells_its_line(run: Ran) -> None:
    failure = (await run("print('so far')\n\ndef f():\n    raise ValueError('no good')\n\nf()")).failure
    assert failure
    assert failure.code == "code.raised"
    assert failure.message == "ValueError: no good (line 4)"
    assert failure.details["stack"] == ["f (line 4, column 5)", "the code (line 6, column 1)"]
    assert failure.details["printed"] == "so far\n"


async def test_a_line_is_the_same_in_code_that_returns(run: Ran) -> None:
    failure = (await run("x = 1\nif x:\n    1 / 0\nreturn 2")).failure
    assert failure
    assert (failure.details["line"], failure.details["stack"]) == (3, ["the code (line 3, column 5)"])


async def test_an_error_in_the_syntax_tells_its_line(run: Ran) -> None:
    failure = (await run("x = 1\ny = (")).failure
    assert failure
    assert (failure.code, failure.details["name"], failure.details["line"]) == ("code.raised", "SyntaxError", 2)


async def test_a_failed_call_can_be_caught_and_tells_what_it_was(run: Ran) -> None:
    source = "try:\n    await tools.closed.door()\nexcept ToolError as exc:\n    return [str(exc), exc.code, exc.tool]"
    assert (await run(source)).output == ["This tool is out of reach.", "access.denied", "closed:door"]


async def test_a_call_that_fails_and_is_not_caught_fails_the_code_with_its_cause() -> None:
    async def answer(task: Task, run: Run) -> Outcome:
        failure = Failure("tool.failed", "It broke.", retryable=True)
        return outcome(task.id, status=Status.ERROR, failure=failure)

    async with CPython(Settings(), services()) as made:
        task = CodeRun(id="task", language="python", source="x = 1\nawait tools.open.echo(a=1)")
        failure = (await made.execute(task, FakeRun(answer))).failure
    assert failure
    assert failure.message == "ToolError: It broke. (line 2)"
    assert failure.retryable
    assert failure.details["cause"] == {"tool": "open:echo", "code": "tool.failed", "message": "It broke."}


async def test_a_refusal_that_is_not_caught_is_that_of_the_code(run: Ran) -> None:
    ended = await run("await tools.closed.door()")
    assert ended.failure
    assert (ended.status, ended.failure.code) == (Status.DENIED, "access.denied")


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
    assert failure.message == (
        "Security violation detected: FUNCTION_IN_CONTEXT - Context key 'f' contains function value"
    )


@pytest.mark.parametrize("value", ["{1, 2}", "float('inf')", "b'x'", "lambda: 1"])
async def test_a_value_that_is_no_data_is_the_codes_mistake(run: Ran, value: str) -> None:
    failure = (await run(f"return {value}")).failure
    assert failure
    assert (failure.code, failure.details["name"]) == ("code.raised", "TypeError")
    assert "JSON cannot say" in failure.message


async def test_arguments_that_are_no_data_are_the_codes_mistake(run: Ran) -> None:
    failure = (await run("\nawait tools.open.echo(x={1, 2})")).failure
    assert failure
    assert (failure.code, failure.details["line"]) == ("code.raised", 2)


@pytest.mark.parametrize("source", ["while True: pass", "await tools.open.wait()", "import time\ntime.sleep(60)"])
async def test_time_that_is_up_is_no_error_of_the_code(cpython: CPython, source: str) -> None:
    async def never(task: Task, run: Run) -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError

    began = time.monotonic()
    task = CodeRun(id="task", language="python", source=source, timeout_s=0.3)
    ended = await cpython.execute(task, FakeRun(never))
    took_s = time.monotonic() - began
    assert ended.failure
    assert (ended.status, ended.failure.code) == (Status.TIMED_OUT, "code.timed_out")
    assert 0.3 <= took_s < 30


ENDINGS = {
    "code.memory": "x = []\nwhile True:\n    x.append('x' * 1000 + str(len(x)))",
    "code.call_limit": "while True:\n    await tools.open.echo()",
    "code.output_limit": "return 'x' * 2_000_000",
    "code.exited": "import os\nos._exit(3)",
}


@pytest.mark.parametrize("code", ENDINGS)
async def test_every_limit_has_an_ending_of_its_own(run: Ran, code: str) -> None:
    ended = await run(ENDINGS[code])
    assert ended.failure
    assert (ended.status, ended.failure.code) == (Status.ERROR, code)


async def test_a_crash_is_an_ending_too(run: Ran) -> None:
    failure = (await run("import ctypes\nctypes.string_at(0)")).failure
    assert failure
    assert (failure.code, failure.details["exit_code"]) == ("code.exited", -11)


async def test_what_code_changes_does_not_hinder_the_bridge(run: Ran) -> None:
    source = "import json\njson.dumps = json.loads = None\njson.JSONEncoder.encode = None\nawait tools.open.echo(a=1)"
    assert (await run(source)).output == {"a": 1}


async def test_a_program_gives_its_streams(run: Ran) -> None:
    source = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(0)"
    assert (await run(source, program=True)).output == {"stdout": "out\n", "stderr": "err\n", "exit_code": 0}


async def test_a_program_is_main_and_may_have_a_loop_of_its_own(run: Ran) -> None:
    source = """
import asyncio
async def main():
    print(__name__, await tools.open.echo(a=1))
if __name__ == "__main__":
    asyncio.run(main())
"""
    ended = await run(source, program=True)
    assert ended.output == {"stdout": "__main__ {'a': 1}\n", "stderr": "", "exit_code": 0}


@pytest.mark.parametrize(
    ("source", "exit_code", "said"),
    [
        ("import sys\nsys.exit(3)", 3, ""),
        ("raise SystemExit('no')", 1, "no\n"),
        (
            "\n1 / 0",
            1,
            'Traceback (most recent call last):\n  File "<code>", line 2, in <module>\n    1 / 0\n',
        ),
        ("x = (", 1, '  File "<code>", line 1\n    x = (\n        ^\n'),
    ],
)
async def test_a_program_that_fails_says_so_as_python_does(run: Ran, source: str, exit_code: int, said: str) -> None:
    ended = await run(source, program=True)
    assert ended.failure
    assert ended.failure.code == "code.exited"
    assert isinstance(ended.output, dict)
    assert ended.output["exit_code"] == exit_code
    assert ended.output["stderr"].startswith(said)


async def test_a_program_that_takes_too_long_ends_with_124(run: Ran) -> None:
    ended = await run("print('out')\nwhile True: pass", program=True, timeout_s=3.0)
    assert ended.status is Status.TIMED_OUT
    assert ended.output == {"stdout": "out\n", "stderr": "", "exit_code": 124}


async def test_a_program_without_tools_reads_an_empty_input(run: Ran) -> None:
    ended = await run("import sys\nprint(repr(sys.stdin.read()))", program=True, tools=())
    assert isinstance(ended.output, dict)
    assert ended.output["stdout"] == "''\n"


async def test_a_folder_can_be_read_written_and_imported_from(run: Ran, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("VALUE = 'in'")
    source = "import beside, shutil\nopen('out.txt', 'w').write(beside.VALUE)\nshutil.copy('out.txt', 'copy.txt')"
    for program in (False, True):
        assert (await run(source, folder=str(tmp_path), program=program)).failure is None
    assert (tmp_path / "copy.txt").read_text() == "in"
    found = await asyncio.to_thread(lambda: list(tmp_path.iterdir()))
    assert {path.name for path in found} == {"beside.py", "out.txt", "copy.txt"}


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A virtual environment with a package."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    [packages] = (tmp_path / "env/lib").glob("python*/site-packages")
    (packages / "a_package.py").write_text("VALUE = 42")
    return tmp_path / "env/bin/python"


async def test_there_are_no_packages_but_those_of_a_chosen_interpreter(run: Ran, environment: Path) -> None:
    task = CodeRun(id="task", language="python", source="import a_package\na_package.VALUE")
    assert (await run(task.source)).failure
    async with CPython(Settings(python=str(environment)), services()) as made:
        assert (await made.execute(task, FakeRun())).output == 42


async def test_others_go_on_while_an_interpreter_is_asked_about_itself(tmp_path: Path) -> None:
    slow, asked, answer = tmp_path / "python", tmp_path / "asked", tmp_path / "answer"
    slow.write_text(
        f'#!/bin/sh\necho asked >>{asked}\nwhile [ ! -e {answer} ]; do sleep 0.05; done\nexec {sys.executable} "$@"\n'
    )
    slow.chmod(0o755)
    async with CPython(Settings(python=str(slow), spare=0), services()) as made:
        tasks = [CodeRun(id="task", language="python", source="1") for _ in range(2)]
        running = asyncio.gather(*(made.execute(task, FakeRun()) for task in tasks))
        async with asyncio.timeout(20):
            while not asked.exists():  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(0.01)
        answer.touch()
        await running
        assert asked.read_text().count("asked") == 1


async def test_an_interpreter_that_cannot_be_started_fails_each_run_alone(tmp_path: Path) -> None:
    async with CPython(Settings(python=str(tmp_path / "none")), services()) as made:
        for _ in range(2):
            with pytest.raises(OSError, match=r"\[plugins.cpython\] python"):
                await made.execute(CodeRun(id="task", language="python", source="1"), FakeRun())


def test_a_program_that_is_no_python_is_told_of() -> None:
    with pytest.raises(OSError, match=r"/bin/cat is no Python.*\[plugins.cpython\] python"):
        find("/bin/cat")


async def test_runs_find_nothing_of_one_another(run: Ran) -> None:
    assert (await run("import builtins\nbuiltins.kept = 1\n1")).output == 1
    failure = (await run("kept")).failure
    assert failure
    assert failure.details["name"] == "NameError"


async def test_code_has_no_environment(run: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "x")
    assert (await run("import os\nsorted(os.environ)")).output == ["LC_ALL", "TZ"]


async def test_cancelling_ends_the_process_and_its_calls(cpython: CPython) -> None:
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
    running = asyncio.ensure_future(cpython.execute(task, FakeRun(wait)))
    await asyncio.wait_for(began.wait(), 10)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert under_way == [0]


async def test_another_language_is_refused(cpython: CPython) -> None:
    failure = (await cpython.execute(CodeRun(id="task", language="ruby", source="1"), FakeRun())).failure
    assert failure
    assert failure.code == "code.unknown_language"


@pytest.mark.parametrize("wall", ["files", "network", "processes", "kernel"])
async def test_it_does_not_start_without_every_wall(monkeypatch: pytest.MonkeyPatch, wall: str) -> None:
    monkeypatch.setattr(pml_kit.jail, "missing", lambda: [Wall(wall, False, "not here")])
    with pytest.raises(RuntimeError, match=f"{wall}: not here"):
        CPython(Settings(), services())


async def test_doctor_says_which_walls_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(line.ok for line in pml_checks(services()))
    monkeypatch.setattr(pml_kit.jail, "walls", lambda: [Wall("files", False, "no Landlock")])
    [line] = pml_checks(services())
    assert (line.ok, line.detail, bool(line.remedy)) == (False, "no Landlock", True)


@pytest.mark.attack("Jail", "ask for 200 runs of code at once, so that everybody else waits for all of them (CPython)")
async def test_a_principal_does_not_wait_for_all_that_another_one_asked_for() -> None:
    task = CodeRun(id="task", language="python", source="import time\ntime.sleep(0.05)")
    mallory, alice = (FakeRun(session=Session(key=name, principal=name)) for name in ("mallory", "alice"))
    ended: list[str] = []

    async def ran(run: FakeRun) -> None:
        assert (await made.execute(task, run)).status is Status.OK
        ended.append(run.session.principal)

    async with CPython(Settings(spare=0, max_processes=2), services()) as made, asyncio.TaskGroup() as group:
        many = [group.create_task(ran(mallory)) for _ in range(200)]
        await asyncio.sleep(0.2)
        for _ in range(3):
            await ran(alice)
        for one in many:
            one.cancel()
    assert ended.count("mallory") < 60
