"""Programs: their streams are the result."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pml_hookspecs import Failure, FolderSize, Status
from pml_kit.system.folders import size_of
from pml_testing.fakes import FakeRun, outcome

pytestmark = pytest.mark.anyio


async def test_streams_and_exit_code_are_the_output(run) -> None:
    ended = await run("console.log('out'); console.error('err')", program=True, tools=())
    assert ended.status is Status.OK
    assert ended.output == {"stdout": "out\n", "stderr": "err\n", "exit_code": 0}


async def test_a_program_runs_until_nothing_is_left_to_do(run) -> None:
    source = "setTimeout(() => console.log('late'), 30); console.log('soon')"
    assert (await run(source, program=True, tools=())).output["stdout"] == "soon\nlate\n"
    source = "console.log(await tools.a.b()); setTimeout(() => console.log('late'), 30)"
    ended = await run(source, FakeRun(), program=True)
    assert ended.output == {"stdout": "a:b#1 ran\nlate\n", "stderr": "", "exit_code": 0}


@pytest.mark.parametrize(
    ("source", "exit_code", "says"),
    [
        ("Deno.exit(3)", 3, ""),
        ("\nthrow new Error('bad')", 1, "Uncaught (in promise) Error: bad"),
        ("let x = = 1", 1, "Expression expected"),
    ],
)
async def test_a_program_that_fails_has_streams_all_the_same(run, source: str, exit_code: int, says: str) -> None:
    ended = await run(source, program=True, tools=())
    assert (ended.status, ended.failure.code) == (Status.ERROR, "code.exited")
    assert ended.output["exit_code"] == exit_code
    assert says in ended.output["stderr"]
    assert "boot.js" not in ended.output["stderr"]


@pytest.mark.parametrize("message", ["Give it --connect.", "In two\nlines"])
@pytest.mark.parametrize("rest", ["", "; await new Promise((r) => setTimeout(r, 5000))"], ids=["awaited", "loose"])
async def test_a_program_that_does_not_catch_a_calls_error_says_what_was_wrong(run, message: str, rest: str) -> None:
    async def answer(task, _run):
        return outcome(task.id, status=Status.ERROR, failure=Failure("tool.failed", message))

    ended = await run(f"{'' if rest else 'await '}tools.a.b(){rest}", FakeRun(answer), program=True)
    assert (ended.failure.code, ended.output["exit_code"]) == ("code.exited", 1)
    assert f"Error: {message}\n" in ended.output["stderr"]
    assert "boot.js" not in ended.output["stderr"]
    assert "order.file" not in ended.output["stderr"]


async def test_a_program_that_takes_too_long_ends_with_124(run) -> None:
    ended = await run("console.log('so far'); while (true);", program=True, tools=(), timeout_s=3.0)
    assert (ended.status, ended.failure.code) == (Status.TIMED_OUT, "code.timed_out")
    assert ended.output == {"stdout": "so far\n", "stderr": "", "exit_code": 124}


async def test_output_is_cut_and_says_so(run) -> None:
    ended = await run("console.log('x'.repeat(2_000_000))", program=True, tools=())
    assert ended.status is Status.OK
    assert ended.output["stdout"].endswith("[cut here: 951425 of 2000001 bytes are left out]\n")


async def test_a_program_without_an_end_is_stopped_when_it_has_printed_too_much(run) -> None:
    ended = await run("while (true) Deno.stdout.writeSync(new Uint8Array(65536).fill(97))", program=True, tools=())
    assert ended.failure.code == "code.output_limit"
    assert len(ended.output["stdout"]) < 1_100_000


async def test_a_program_sees_its_folder_and_no_other(run, tmp_path: Path) -> None:
    folder, outside = tmp_path / "in, side#?", tmp_path / "outside.txt"
    folder.mkdir()
    outside.write_text("secret")
    (folder / "beside.ts").write_text("export const n: number = 41;")
    (folder / "data.json").write_text('{"a": 1}')
    source = f"""
import {{ n }} from "./beside.ts";
import data from "./data.json" with {{ type: "json" }};
Deno.writeTextFileSync("made.txt", `${{n + data.a}}`);
console.log(Deno.readTextFileSync("made.txt"), [...Deno.readDirSync(".")].length);
try {{ Deno.readTextFileSync({str(outside)!r}) }} catch (e) {{ console.log(e.name) }}
"""
    ended = await run(source, program=True, tools=(), folder=str(folder))
    assert ended.output == {"stdout": "42 4\nNotCapable\n", "stderr": "", "exit_code": 0}
    assert sorted(path.name for path in folder.iterdir()) == ["beside.ts", "data.json", "made.txt"]


async def test_static_imports_of_a_program_do_not_read_what_is_outside(run, tmp_path: Path) -> None:
    folder, outside = tmp_path / "inside", tmp_path / "outside.json"
    folder.mkdir()
    outside.write_text('{"secret": 42}')
    source = f'import it from {str(outside)!r} with {{ type: "json" }}; console.log(it.secret)'
    for where in (str(folder), None):
        ended = await run(source, program=True, tools=(), folder=where)
        assert ended.output["exit_code"] == 1
        assert "42" not in ended.output["stdout"]


async def test_places_in_errors_are_those_of_the_source(run, tmp_path: Path) -> None:
    for folder in (None, str(tmp_path)):
        ended = await run("\n\n  null.x", program=True, tools=(), folder=folder)
        assert "code:3:8" in ended.output["stderr"], ended.output["stderr"]
        assert str(tmp_path) not in ended.output["stderr"]


async def test_inputs_of_a_program_are_data(run) -> None:
    ended = await run("console.log(inputs.a, typeof tools)", program=True, tools=(), inputs={"a": [1]})
    assert ended.output["stdout"] == "[ 1 ] undefined\n"


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links take privileges there")
async def test_without_a_jail_a_folder_with_a_way_out_is_refused(run, deno, tmp_path: Path, monkeypatch) -> None:
    import pml_kit.jail

    wall = pml_kit.jail.Wall("files", False, "switched off")
    monkeypatch.setattr(pml_kit.jail, "missing", lambda: [wall])
    (tmp_path / "fine").symlink_to(tmp_path)
    assert (await run("return 1", folder=str(tmp_path))).output == 1
    (tmp_path / "out").symlink_to("/etc")
    ended = await run("return Deno.readTextFileSync('out/passwd')", folder=str(tmp_path))
    assert ended.failure.code == "sandbox.fault"
    assert "'out'" in ended.failure.message


async def test_a_folder_that_is_not_there_is_named(run, tmp_path: Path) -> None:
    ended = await run("1", program=True, folder=str(tmp_path / "none"))
    assert ended.failure.code == "sandbox.fault"
    assert "none' is not there" in ended.failure.message


@pytest.mark.attack("Jail", "fill the disk by the folder that code may write into (Deno)")
async def test_code_that_fills_its_folder_is_stopped(run, tmp_path: Path) -> None:
    about = {"program": True, "tools": (), "folder": str(tmp_path), "folder_limit": FolderSize(8 << 20, 200)}
    source = "for (let i = 0; i < 10000; i++) Deno.writeTextFileSync(`f${i}`, '')"
    ended = await run(source, **about, timeout_s=60.0)
    assert ended.failure.code == "code.folder_full"
    assert 200 < size_of(str(tmp_path), 10_000).files < 5000
    source = """for (const file of Deno.readDirSync(".")) Deno.removeSync(file.name);
try { Deno.writeTextFileSync("new", "") } catch (error) { console.log(error.name) }"""
    ended = await run(source, **about)
    assert ended.output["stdout"] in ("PermissionDenied\n", "NotCapable\n")
    assert size_of(str(tmp_path), 10).files == 0
