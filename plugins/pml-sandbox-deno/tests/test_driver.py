"""Settings, the pool, the jail's setting, the type check, and what the doctor is told."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

import pytest

import pml_kit.jail
from pml_hookspecs import CodeRun
from pml_kit.jail import Wall
from pml_sandbox_deno import Deno, Settings, checks
from pml_sandbox_deno.checker import Checker
from pml_sandbox_deno.dialect import DenoDialect
from pml_testing.fakes import FakeCatalog, FakeRun, FakeServices, entry, outcome
from pml_testing.isolation import children

pytestmark = pytest.mark.anyio
ONE = CodeRun(id="t", language="typescript", source="return 1")
NO_WALL = Wall("files", False, "switched off")
PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
LINES = {"type": "object", "properties": {"lines": {"type": "integer"}}, "required": ["lines"]}


async def test_nothing_is_started_before_the_first_code_and_nothing_is_left_after_the_last() -> None:
    before = children()
    async with Deno(Settings(spare=2), FakeServices("deno")) as deno:
        assert children() == before
        assert (await deno.execute(ONE, FakeRun())).output == 1
        await until(lambda: len(children() - before) == 2)
    assert children() == before


async def until(holds, within_s: float = 30.0) -> None:
    async with asyncio.timeout(within_s):
        while not holds():  # noqa: ASYNC110 - processes tell nobody
            await asyncio.sleep(0.01)


async def test_each_process_runs_one_piece_of_code() -> None:
    task = CodeRun(id="t", language="typescript", source="return Deno.pid")
    async with Deno(Settings(spare=2), FakeServices("deno")) as deno:
        pids = [(await deno.execute(task, FakeRun())).output for _ in range(6)]
        pids += [one.output for one in await asyncio.gather(*[deno.execute(task, FakeRun()) for _ in range(6)])]
    assert len(set(pids)) == 12


async def test_no_more_processes_run_than_may() -> None:
    under_way, most, full = 0, 0, asyncio.Event()

    async def answer(task, run):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == 2:
            full.set()
        await full.wait()
        under_way -= 1
        return outcome(task.id, {"content": []})

    task = CodeRun(id="t", language="typescript", source="await tools.a.b(); return 1")
    async with Deno(Settings(spare=0, max_processes=2), FakeServices("deno")) as deno:
        ended = await asyncio.gather(*[deno.execute(task, FakeRun(answer)) for _ in range(6)])
    assert [one.output for one in ended] == [1] * 6
    assert most == 2


async def test_code_within_code_does_not_wait_for_ever_for_its_turn() -> None:
    begun = asyncio.Event()
    async with Deno(Settings(spare=0, max_processes=1), FakeServices("deno")) as deno:

        async def answer(task, run):
            if task.tool == "a:began":
                begun.set()
                return outcome(task.id, {"content": []})
            if task.tool == "a:second":
                await begun.wait()
            source, limit_s = ("await tools.a.began(); while (true);", 5.0) if task.tool == "a:first" else ("", 0.3)
            return await deno.execute(CodeRun(id="in", language="typescript", source=source, timeout_s=limit_s), run)

        source = "tools.a.first(); try { await tools.a.second() } catch (e: any) { return e.code }"
        ended = await deno.execute(CodeRun(id="out", language="typescript", source=source), FakeRun(answer))
    assert ended.output == "code.timed_out"


async def test_code_that_runs_itself_is_refused_at_once_and_holds_up_no_other_code() -> None:
    async with Deno(Settings(spare=0, max_processes=1, timeout_s=20.0), FakeServices("deno")) as deno:
        source = "try { return 1 + (await tools.a.again()).n } catch (e: any) { return [e.code, e.message] }"
        task, depths = CodeRun(id="t", language="typescript", source=source), []

        async def again(_call, run):
            ended = await deno.execute(task, run)
            depths.append(ended)
            return ended

        async with asyncio.timeout(15.0):
            await deno.execute(task, FakeRun(again))
            assert (await deno.execute(ONE, FakeRun())).output == 1
    assert depths[0].failure.code == "code.nested"
    assert len(depths) == 3
    assert depths[1].output == ["code.nested", depths[0].failure.message]


async def test_spare_processes_do_not_outlive_their_idleness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pml_sandbox.pool.IDLE_S", 0.05)
    before = children()
    async with Deno(Settings(spare=1), FakeServices("deno")) as deno:
        await deno.execute(ONE, FakeRun())
        await until(lambda: len(children() - before) == 1)
        await until(lambda: children() == before)
        assert (await deno.execute(ONE, FakeRun())).output == 1


async def test_a_required_jail_that_does_not_stand_runs_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pml_kit.jail, "missing", lambda: [NO_WALL])
    async with Deno(Settings(jail="required"), FakeServices("deno")) as deno:
        ended = await deno.execute(ONE, FakeRun())
    assert ended.failure.code == "sandbox.fault"
    assert "files: switched off" in ended.failure.message


async def test_a_preferred_jail_that_does_not_stand_is_warned_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pml_kit.jail, "missing", lambda: [NO_WALL])
    monkeypatch.setattr(DenoDialect, "jail", lambda self, folder, **_: None)
    services = FakeServices("deno")
    async with Deno(Settings(spare=0), services) as deno:
        for _ in range(2):
            assert (await deno.execute(ONE, FakeRun())).output == 1
    assert [(level, fields) for level, _, fields in services.log.lines] == [
        ("warning", {"missing": "files: switched off"})
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="there is no jail on this system")
async def test_the_process_is_in_the_jail_and_has_nothing_of_the_gateways() -> None:
    seen = {}

    async def answer(task, run):
        look(*(children() - before))
        return outcome(task.id, {"content": []})

    def look(child):
        seen["status"] = Path(f"/proc/{child}/status").read_text()
        seen["environment"] = Path(f"/proc/{child}/environ").read_bytes()
        for path in Path(f"/proc/{child}/fd").iterdir():
            seen[path.name] = path.readlink()

    before = children()
    with socket.socket() as leaked:
        leaked.set_inheritable(True)
        open_socket = Path(f"/proc/self/fd/{leaked.fileno()}").readlink()  # noqa: ASYNC240 - takes no time
        async with Deno(Settings(spare=0), FakeServices("deno")) as deno:
            ended = await deno.execute(
                CodeRun(id="t", language="javascript", source="await tools.a.b()"), FakeRun(answer)
            )
    assert ended.failure is None
    assert open_socket not in [seen.get(str(number)) for number in range(256)]
    assert "NoNewPrivs:\t1" in seen["status"]
    assert "Seccomp:\t2" in seen["status"]
    assert "CapEff:\t0000000000000000" in seen["status"]
    assert {each.partition(b"=")[0] for each in seen["environment"].split(b"\0") if each} <= {
        b"DENO_DIR",
        b"DENO_NO_UPDATE_CHECK",
        b"NO_COLOR",
    }


async def test_a_program_that_cannot_be_started_is_a_fault_that_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pml_sandbox_deno.executor.find_program", lambda: Path("/no/such/deno"))
    services = FakeServices("deno")
    async with Deno(Settings(spare=0), services) as deno:
        ended = await deno.execute(ONE, FakeRun())
    assert ended.failure.code == "sandbox.fault"
    assert services.log.lines[-1][0] == "error"


async def test_a_jail_that_cannot_be_put_up_starts_nothing_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(_self, _write, *, writable):
        raise OSError("no such wall")

    monkeypatch.setattr(DenoDialect, "jail", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    services = FakeServices("deno")
    async with Deno(Settings(spare=1), services) as deno:
        ended = await deno.execute(ONE, FakeRun())
    assert ended.failure.code == "sandbox.fault"
    assert "no such wall" in services.log.lines[0][2]["problem"]
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - takes no time


async def test_nothing_is_left_in_the_temporary_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    async with Deno(Settings(spare=1), FakeServices("deno")) as deno:
        ended = [
            await deno.execute(CodeRun(id="t", language="typescript", source=source, timeout_s=2.0), FakeRun())
            for source in ("return 1", "while (true);", "Deno.exit(1)")
        ]
        assert [one.status.value for one in ended] == ["ok", "timed_out", "error"]
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - takes no time


async def test_a_program_that_ends_at_once_is_a_fault_that_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pml_sandbox_deno.executor.find_program", lambda: Path("/bin/false"))
    services = FakeServices("deno")
    async with Deno(Settings(spare=0), services) as deno:
        ended = await deno.execute(ONE, FakeRun())
    assert ended.failure.code == "sandbox.fault"
    assert services.log.lines[-1][1] == "a sandbox did not come up"


@pytest.mark.skipif(sys.platform != "linux", reason="types are checked in the jail only")
async def test_types_are_checked_against_the_tools_schemas_before_code_runs() -> None:
    catalog = FakeCatalog([entry("fs:read", input_schema=PATH, outputSchema=LINES)])
    async with Deno(Settings(spare=0, check=True), FakeServices("deno", catalog=catalog)) as deno:

        async def ended(source: str, run: FakeRun):
            return await deno.execute(CodeRun(id="t", language="typescript", source=source, inputs={"a": 1}), run)

        called = FakeRun()
        wrong = await ended("const ok = a;\nconst r = await tools.fs.read({ paht: 'x' });\nreturn r.lnes", called)
        fine = await ended("const r = await tools.fs.read({ path: 'x' }); return typeof r + a", called)
        unknown = await ended("return await tools.fs.raed({ path: 'x' })", called)
        stolen = await ended('return (await import("/etc/passwd", { with: { type: "text" } } as any)).default', called)
    assert wrong.failure.code == "code.invalid"
    assert [one["line"] for one in wrong.failure.details["mistakes"]] == [2, 3]
    assert "line 2:" in wrong.failure.message
    assert fine.output == "string1"
    assert unknown.failure.code == "code.invalid"
    assert len(called.dispatched) == 1
    assert "root:" not in str(stolen)
    assert not stolen.status.good


@pytest.mark.skipif(sys.platform != "linux", reason="types are checked in the jail only")
async def test_a_check_that_had_no_time_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def late(_checker, _declared, tasks, **_):
        asked.append(len(tasks))
        return None if len(asked) == 1 else [()]

    asked: list[int] = []
    monkeypatch.setattr(Checker, "found", late)
    async with Deno(Settings(spare=0, check=True), FakeServices("deno")) as deno:
        for _ in range(3):
            assert (await deno.execute(ONE, FakeRun())).output == 1
    assert asked == [1, 1]


def test_the_doctor_is_told_of_deno_and_of_every_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = {check.title: check for check in checks.pml_checks(services=FakeServices("deno"))}
    assert lines["Deno starts"].ok
    assert lines["Deno starts"].detail.startswith("deno 2.")
    assert {f"jail of the deno sandbox: {wall.name}" for wall in pml_kit.jail.walls()} < set(lines)
    monkeypatch.setattr(pml_kit.jail, "walls", lambda: [NO_WALL])
    services = FakeServices("deno", settings=Settings(jail="required"))
    (_, wall) = checks.pml_checks(services=services)
    assert not wall.ok
    assert "jail = 'preferred'" in wall.remedy
