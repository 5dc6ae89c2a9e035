"""Engines, against processes that say whatever a test wants: frames cut anywhere, forged, wrong, too large."""

from __future__ import annotations

import asyncio
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

import pml_kit.jail
from pml_hookspecs import CodeRun, Outcome, Status, replace
from pml_kit.jail import Wall
from pml_sandbox.child import Command
from pml_sandbox.dialect import Dialect
from pml_sandbox.engine import ProcessEngine
from pml_sandbox.pieces import ProcessSettings
from pml_testing.fakes import FakeRun, FakeServices, outcome

pytestmark = pytest.mark.anyio

BOOT = """
import json, os, sys, time
mark = json.loads(sys.stdin.readline())["mark"]
def say(text):
    sys.stdout.write("\\x1e" + mark + text + "\\n"); sys.stdout.flush()
def frame(**members):
    say(json.dumps(members))
def hear():
    return json.loads(sys.stdin.readline())
frame(t="ready")
order = hear()
exec(order["code"])
"""


WORDS = (sys.executable, "-I", "-S", "-c", BOOT)


class Python(Dialect):
    """Runs the source as it is, with the bridge's own channel in its hands."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words

    def make(self, folder: str | None, *, writable: bool) -> Command:
        return Command(words=self.words)

    def out_of_memory(self, printed: str) -> bool:
        return "OUT OF MEMORY" in printed


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(ProcessSettings):
    jail: str = "preferred"
    spare: int = 0
    max_processes: int = 2
    words: tuple[str, ...] = field(default=WORDS)


class Raw(ProcessEngine[Limits]):
    """What any program needs to become an engine."""

    name: ClassVar[str] = "raw"
    languages: ClassVar[frozenset[str]] = frozenset({"raw"})
    settings_type = Limits

    async def dialect(self) -> Python:
        return Python(self._settings.words)


LIMITS = Limits(timeout_s=5.0, frame_bytes=100_000, output_bytes=10_000, max_calls=20, max_in_flight=4)


async def ran(source: str, run: FakeRun | None = None, *, limits: Limits = LIMITS, **more: Any) -> Outcome:
    services = FakeServices("raw")
    task = CodeRun(id="t", language="raw", source=source, **more)
    ended = await Raw(limits, services).execute(task, run or FakeRun())
    assert [line for line in services.log.lines if line[0] == "error"] == []
    return ended


async def test_a_frame_may_come_in_any_pieces_among_text() -> None:
    source = """
line = b"text before \\x1e" + mark.encode() + b'{"t":"done","value":{"a":[1,2]}}\\n'
for i in range(len(line)):
    os.write(1, line[i:i + 1]); time.sleep(0.0005)
time.sleep(9)
"""
    assert (await ran(source)).output == {"a": [1, 2]}


async def test_several_frames_may_come_at_once() -> None:
    source = """
asked = [json.dumps({"t": "call", "id": i, "tool": "a:b", "args": {}}) for i in range(9)]
calls = "".join("\\x1e%s%s\\n" % (mark, each) for each in asked)
os.write(1, calls.encode())
frame(t="done", value=sorted(hear()["id"] for _ in range(9)))
"""
    assert (await ran(source)).output == list(range(9))


async def test_of_many_calls_that_come_at_once_one_begins_before_others_have_their_turn() -> None:
    begun, most, watching = 0, 0, True

    async def answer(task: Any, _: Any) -> Outcome:
        nonlocal begun
        begun += 1
        return outcome(task.id, {"content": []})

    async def watch() -> None:
        nonlocal most
        while watching:
            before = begun
            await asyncio.sleep(0)
            most = max(most, begun - before)

    source = """
asked = [json.dumps({"t": "call", "id": i, "tool": "a:b", "args": {}}) for i in range(60)]
os.write(1, "".join("\\x1e%s%s\\n" % (mark, each) for each in asked).encode())
frame(t="done", value=sorted(hear()["id"] for _ in range(60)))
"""
    beside = asyncio.create_task(watch())
    limits = replace(LIMITS, max_calls=60, max_in_flight=64)
    assert (await ran(source, FakeRun(answer), limits=limits)).output == list(range(60))
    watching = False
    await beside
    assert begun == 60
    assert most == 1


async def test_what_looks_like_a_frame_without_the_mark_is_text() -> None:
    run = FakeRun()
    source = """
os.write(1, b'\\x1e{"t":"done","value":1}\\n\\x1e0123456789abcdef{"t":"call","id":1,"tool":"a:b"}\\n')
frame(t="done", value=2)
"""
    assert (await ran(source, run)).output == 2
    assert run.dispatched == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "1",
        "null",
        "[]",
        "{}",
        '{"t":1}',
        '{"t":"what"}',
        '{"t":"call"}',
        '{"t":"call","id":"x","tool":"a:b"}',
        '{"t":"done"}',
        '{"t":"done","value":NaN}',
        '{"t":"done","value":1e999}',
        '{"t":"fail"}',
        '{"t":"fail","error":1}',
    ],
)
async def test_a_frame_that_is_none_breaks_the_run_and_nothing_else(text: str) -> None:
    ended = await ran(f"say({text!r}); time.sleep(9)")
    assert (ended.status, ended.failure.code) == (Status.ERROR, "sandbox.fault")


@pytest.mark.parametrize("size", [99_000, 200_000])
async def test_what_is_returned_may_be_as_large_as_a_frame(size: int) -> None:
    ended = await ran(f"frame(t='done', value='x' * {size}); time.sleep(9)")
    if size < LIMITS.frame_bytes:
        assert ended.output == "x" * size
    else:
        assert ended.failure.code == "code.output_limit"


@pytest.mark.parametrize(
    "source",
    [
        "say('[' * 5000)",
        "say('{\"t\":\"done\",\"value\":' + '[' * 5000 + ']' * 5000 + '}')",
        "say('{\"t\":\"done\",\"value\":' + '[' * 300 + ']' * 300 + '}')",
    ],
)
async def test_nesting_without_end_is_refused(source: str) -> None:
    ended = await ran(source + "; time.sleep(9)")
    assert ended.failure.code in ("code.output_limit", "sandbox.fault")
    assert (await ran("say('{\"t\":\"done\",\"value\":' + '[' * 99 + ']' * 99 + '}')")).status is Status.OK


async def test_an_answer_is_only_given_once_and_to_the_call_that_asked() -> None:
    async def answer(task, run):
        return outcome(task.id, {"content": [], "structuredContent": {"n": task.arguments["n"]}})

    source = """
for n in (7, 8, 7):
    frame(t="call", id=n, tool="a:b", args={"n": n})
frame(t="done", value=sorted([f["id"], f["value"]["n"]] for f in (hear(), hear(), hear())))
"""
    assert (await ran(source, FakeRun(answer))).output == [[7, 7], [7, 7], [8, 8]]


async def test_a_process_that_does_not_read_answers_is_not_asked_for_more_calls() -> None:
    """Otherwise the gateway would have to keep all answers in its memory."""
    called = []

    async def answer(task, run):
        called.append(task)
        return outcome(task.id, {"content": [], "structuredContent": {"x": "y" * 90_000}})

    source = "for i in range(20): frame(t='call', id=i, tool='a:b', args={})\ntime.sleep(9)"
    ended = await ran(source, FakeRun(answer), timeout_s=0.6)
    assert ended.status is Status.TIMED_OUT
    assert len(called) < 10


@pytest.mark.parametrize(
    ("source", "code", "says"),
    [
        ("os._exit(0)", "code.exited", "exited with code 0"),
        ("os.write(2, b'why not'); os._exit(7)", "code.exited", "It said: why not"),
        ("os.kill(os.getpid(), 11)", "code.exited", "ended by signal 11"),
        ("os.write(2, b'OUT OF MEMORY'); os._exit(1)", "code.memory", "512 MiB"),
        ("frame(t='fail', error={'name': 'MemoryError'}); time.sleep(9)", "code.memory", "512 MiB"),
        ("frame(t='fail', error={'name': 'E', 'message': 'm'}); time.sleep(9)", "code.raised", "E: m"),
        ("frame(t='fail', error={'name': 'E', 'message': 'm', 'call': 3}); time.sleep(9)", "code.raised", "E: m"),
        ("sys.stdout.write('x' * 200_000); sys.stdout.flush(); time.sleep(9)", "code.output_limit", "printed"),
        ("sys.stderr.write('x' * 200_000); sys.stderr.flush(); time.sleep(9)", "code.output_limit", "printed"),
        ("[frame(t='call', id=i, tool='a:b', args={}) for i in range(21)]; time.sleep(9)", "code.call_limit", "20"),
    ],
)
async def test_ends_have_their_codes(source: str, code: str, says: str) -> None:
    ended = await ran(source)
    assert (ended.status, ended.failure.code) == (Status.ERROR, code)
    assert says in ended.failure.message


@pytest.mark.skipif(sys.platform == "win32", reason="no fork there")
async def test_what_code_has_started_dies_with_it() -> None:
    source = """
child = os.fork()
if child == 0:
    while True: time.sleep(1)
frame(t="done", value=child)
time.sleep(9)
"""
    child = (await ran(source)).output
    async with asyncio.timeout(30):
        while _lives(child):  # noqa: ASYNC110 - a process tells nobody but its parent
            await asyncio.sleep(0.01)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_memory_is_watched_where_the_kernel_does_not_limit_it() -> None:
    limits = Limits(timeout_s=5.0, memory_bytes=64 << 20)
    ended = await ran(
        "kept = []\nwhile True: kept.append(bytearray(b'x' * 1_000_000)); time.sleep(0.002)", limits=limits
    )
    assert ended.failure.code == "code.memory"
    assert "64 MiB" in ended.failure.message


async def test_a_process_that_does_not_come_up_is_a_fault() -> None:
    services = FakeServices("raw")
    task = CodeRun(id="t", language="raw", source="")
    for words in ((sys.executable, "-c", "raise SystemExit('broken')"), ("/no/such/program",)):
        engine = Raw(replace(LIMITS, words=words), services)
        assert (await engine.execute(task, FakeRun())).failure.code == "sandbox.fault"
    assert [line[0] for line in services.log.lines] == ["error", "error"]


async def test_a_spare_process_that_has_died_is_not_used() -> None:
    task = CodeRun(id="t", language="raw", source="frame(t='done', value=os.getpid())")
    async with Raw(replace(LIMITS, spare=1), FakeServices("raw")) as engine:
        await engine.execute(task, FakeRun())
        while not engine._pool._children:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.01)
        (spare,) = engine._pool._children
        spare.kill()
        await spare.gone
        assert (await engine.execute(task, FakeRun())).output not in (None, spare.pid)


CALLS = "frame(t='call', id=1, tool='a:b', args={}); frame(t='done', value=hear())"


def nesting(*engines: Raw, limit_s: float = 5.0) -> tuple[CodeRun, FakeRun, list[Outcome]]:
    """Code that runs itself by its call, in one engine after the other; its ends, the innermost first."""
    task, ends = CodeRun(id="t", language="raw", source=CALLS, timeout_s=limit_s), list[Outcome]()

    async def again(_call: Any, run: Any) -> Outcome:
        ends.append(await engines[len(run.dispatched) % len(engines)].execute(task, run))
        return ends[-1]

    return task, FakeRun(again), ends


def engine(max_processes: int) -> Raw:
    return Raw(replace(LIMITS, max_processes=max_processes), FakeServices("raw"))


@pytest.mark.parametrize("engines", [1, 2])
async def test_code_within_code_goes_three_deep_also_through_several_sandboxes(engines: int) -> None:
    made = [engine(1) for _ in range(engines)]
    task, run, ends = nesting(*made)
    outermost = await made[0].execute(task, run)
    assert outermost.status is Status.OK
    assert [(end.failure and end.failure.code, end.status) for end in ends] == [
        ("code.nested", Status.ERROR),
        (None, Status.OK),
        (None, Status.OK),
    ]
    assert not ends[0].failure.retryable


async def test_pieces_of_code_that_all_run_code_do_not_wait_for_one_another() -> None:
    made, all_here, here = engine(2), asyncio.Event(), []
    inner = CodeRun(id="in", language="raw", source="frame(t='done', value=1)")

    async def answer(task: Any, run: Any) -> Outcome:
        here.append(task)
        if len(here) == 2:
            all_here.set()
        await all_here.wait()
        return await made.execute(inner, run)

    outer = CodeRun(id="out", language="raw", source=CALLS)
    ended = await asyncio.gather(*(made.execute(outer, FakeRun(answer)) for _ in range(2)))
    assert [one.output["value"] for one in ended] == [1, 1]


README = Path(__file__).parents[1] / "README.md"


@pytest.mark.skipif(sys.platform != "linux", reason="the jail is Linux's")
async def test_the_engine_of_the_readme_runs_code_in_its_jail(tmp_path: Path) -> None:
    blocks = dict(re.findall(r"^```(python|sh)\n(.*?)^```", README.read_text("utf-8"), re.MULTILINE | re.DOTALL))
    (tmp_path / "boot.sh").write_text(blocks["sh"])
    (tmp_path / "sums.py").write_text(blocks["python"])
    made: Any = {"__name__": "sums", "__file__": str(tmp_path / "sums.py")}
    exec(compile(blocks["python"], str(tmp_path / "sums.py"), "exec"), made)
    async with made["Sums"](None, FakeServices("sums")) as sums:
        task = CodeRun(id="t", language="sums", source="1\n2\n39")
        assert (await sums.execute(task, FakeRun())).output == 42
        task = CodeRun(id="t", language="sums", source="no number")
        assert (await sums.execute(task, FakeRun())).failure.code == "code.exited"
    assert len("".join(blocks.values()).splitlines()) < 55


@pytest.mark.parametrize(("jail", "says"), [("required", "[plugins.raw] jail = 'required'"), (None, "jail only, and")])
async def test_an_engine_runs_nothing_where_a_wall_is_missing_unless_it_is_told_to(
    monkeypatch: pytest.MonkeyPatch, jail: str | None, says: str
) -> None:
    monkeypatch.setattr(pml_kit.jail, "missing", lambda: [Wall("files", False, "switched off")])
    chosen: Any = replace(LIMITS, jail=jail)
    services, task = FakeServices("raw"), CodeRun(id="t", language="raw", source="frame(t='done', value=1)")
    failure = (await Raw(chosen, services).execute(task, FakeRun())).failure
    assert failure.code == "sandbox.fault"
    assert says in failure.message
    assert "files: switched off" in failure.message
    verdict = await Raw(chosen, services).check(task, FakeRun().session, within_s=1)
    assert [one.message for one in verdict.problems] == [failure.message]
    assert (await Raw(LIMITS, services).execute(task, FakeRun())).output == 1
    assert [line[0] for line in services.log.lines] == ["warning"]
