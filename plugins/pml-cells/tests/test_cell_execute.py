"""``cell_execute`` through a real gateway, with real sandboxes."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

import pml_cells.plugin
from pml_cells.definitions import CELL_EXECUTE
from pml_cells.sessions import Sessions
from pml_hookspecs import CodeRun, ExecutionQuery, Scope
from pml_sandbox_deno import Deno
from pml_testing.gateway import Client, running

pytestmark = pytest.mark.anyio


async def test_executes_cell_and_returns_stdout(book) -> None:
    cell = await book.add('console.log("test output")')
    parsed = await book.execute(cell)
    assert "test output" in parsed["stdout"]
    assert parsed["exitCode"] == 0
    assert list(parsed) == ["stdout", "stderr", "exitCode", "executionTime"]


async def test_returns_stderr_for_errors(book) -> None:
    cell = await book.add('throw new Error("test error")')
    parsed = await book.execute(cell)
    assert "test error" in parsed["stderr"]
    assert parsed["exitCode"] != 0


async def test_handles_missing_session(book) -> None:
    arguments = {"sessionId": "nonexistent-session", "cellId": "any-cell"}
    answer = await book.client.call("cell_execute", arguments)
    assert answer["isError"] is True
    assert json.loads(answer["content"][0]["text"]) == {
        "stdout": "",
        "stderr": "Error: SESSION_NOT_FOUND - there is no session 'nonexistent-session' in the folder of this gateway; "
        "notebook_create makes one.",
        "exitCode": 1,
        "executionTime": 0,
    }


async def test_handles_missing_cell(book) -> None:
    answer = await book.client.call("cell_execute", {"sessionId": book.id, "cellId": "nonexistent-cell"})
    assert answer["isError"] is True
    parsed = json.loads(answer["content"][0]["text"])
    assert parsed["stderr"].startswith("Error: CELL_NOT_FOUND - ")
    assert "'nonexistent-cell'" in parsed["stderr"]
    assert (parsed["stdout"], parsed["exitCode"], parsed["executionTime"]) == ("", 1, 0)


async def test_respects_timeout(book) -> None:
    """The limit is long enough for Deno to start on a machine that does much else, which waiting does not keep busy."""
    cell = await book.add("console.log('so far'); await new Promise((done) => setTimeout(done, 3_600_000))")
    answer = await book.client.call("cell_execute", {"sessionId": book.id, "cellId": cell, "timeout": 10_000})
    parsed = json.loads(answer["content"][0]["text"])
    assert parsed["exitCode"] == 124
    assert parsed["executionTime"] >= 10_000
    assert parsed["stdout"] == "so far\n"
    assert "10 s" in parsed["stderr"]
    assert not answer.get("isError")


async def test_cell_execute_loads_session_and_cell_via_session_accessor(book, monkeypatch) -> None:
    asked = []
    real = Sessions.cell
    monkeypatch.setattr(Sessions, "cell", lambda self, *given: asked.append(given) or real(self, *given))
    cell = await book.add("1")
    await book.execute(cell)
    assert asked == [(book.id, cell, "local")]


async def test_cell_execute_executes_cell_code_via_buffered_execution(book, monkeypatch) -> None:
    tasks: list[CodeRun] = []
    real = Deno.execute

    def spy(self: Deno, task: CodeRun, run: Any) -> Any:
        tasks.append(task)
        return real(self, task, run)

    monkeypatch.setattr(Deno, "execute", spy)
    cell = await book.add("console.log(1)", filename="one.js")
    await book.execute(cell)
    await book.execute(cell, timeout=2500)
    assert [(t.language, t.source, t.program) for t in tasks] == [("javascript", "console.log(1)", True)] * 2
    assert {t.folder for t in tasks} == {str(book.folder)}
    assert [t.timeout_s for t in tasks] == [30, 2.5]


async def test_returns_real_stdout_from_executed_code(book) -> None:
    assert (await book.run("const n: number = 6 * 7; console.log(n); console.log('grüß dich ✓')"))["stdout"] == (
        "42\ngrüß dich ✓\n"
    )


async def test_returns_real_stderr_from_executed_code(book) -> None:
    parsed = await book.run("console.error('careful')")
    assert (parsed["stdout"], parsed["stderr"], parsed["exitCode"]) == ("", "careful\n", 0)


@pytest.mark.parametrize(("source", "code"), [("Deno.exit(3)", 3), ("process.exit(0)", 0), ("let x = = 1", 1)])
async def test_returns_correct_exit_codes(book, source: str, code: int) -> None:
    if "process" in source:
        source = f'import process from "node:process"; {source}'
    answer = await book.client.call("cell_execute", {"sessionId": book.id, "cellId": await book.add(source)})
    assert json.loads(answer["content"][0]["text"])["exitCode"] == code
    assert not answer.get("isError")


async def test_returns_accurate_execution_time(book) -> None:
    cell = await book.add("await new Promise((done) => setTimeout(done, 400))")
    begun = time.perf_counter()
    parsed = await book.execute(cell)
    took_ms = (time.perf_counter() - begun) * 1000
    assert isinstance(parsed["executionTime"], int)
    assert 400 <= parsed["executionTime"] <= took_ms + 1


async def test_the_definition_is_that_of_the_seed(book) -> None:
    assert CELL_EXECUTE == {
        "name": "cell_execute",
        "description": "Execute a notebook cell and return the result",
        "inputSchema": {
            "type": "object",
            "properties": {
                "sessionId": {"type": "string", "description": "The session/notebook ID"},
                "cellId": {"type": "string", "description": "The cell ID to execute"},
                "timeout": {
                    "type": "number",
                    "description": "Execution timeout in milliseconds (default: 30000)",
                    "default": 30000,
                },
            },
            "required": ["sessionId", "cellId"],
        },
    }
    entry = book.gateway.catalog.get("pml:cell_execute")
    assert entry.definition == CELL_EXECUTE
    assert not entry.meta


async def test_a_file_that_a_cell_writes_lands_in_the_session_folder(book) -> None:
    await book.run("Deno.writeTextFileSync('made.txt', Deno.readTextFileSync('package.json').slice(0, 1))")
    assert (book.folder / "made.txt").read_text() == "{"


async def test_a_session_that_cannot_be_read_is_a_storage_error(book) -> None:
    cell = await book.add("1", filename="gone.ts")
    (book.folder / "src" / "gone.ts").unlink()
    answer = await book.client.call("cell_execute", {"sessionId": book.id, "cellId": cell})
    assert answer["isError"] is True
    parsed = json.loads(answer["content"][0]["text"])
    assert parsed["stderr"] == (
        "Error: STORAGE_ERROR - src/gone.ts cannot be read: No such file or directory. "
        "Give the cell a new source with cell_update."
    )
    await book.told("cell_update", sessionId=book.id, cellId=cell, source="console.log('healed')")
    assert (await book.execute(cell))["stdout"] == "healed\n"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"timeout": 0}, "timeout must be a number of milliseconds, above 0 and up to 3600000, not 0"),
        ({"timeout": -1}, "timeout must be"),
        ({"timeout": "1000"}, "timeout must be"),
        ({"timeout": True}, "timeout must be"),
        ({"timeout": 10**400}, "timeout must be"),
        ({"sessionId": 7}, "sessionId must be a string, not 7"),
        ({"cellId": None}, "cellId must be a string, not None"),
    ],
)
async def test_what_cannot_be_run_is_an_unexpected_error(book, changes: dict[str, Any], says: str) -> None:
    arguments = {"sessionId": book.id, "cellId": await book.add("1"), **changes}
    answer = await book.client.call("cell_execute", arguments)
    assert answer["isError"] is True
    parsed = json.loads(answer["content"][0]["text"])
    assert parsed["stderr"].startswith(f"Unexpected error: {says}")
    assert (parsed["stdout"], parsed["exitCode"], parsed["executionTime"]) == ("", 1, 0)


async def test_only_code_can_be_executed(book) -> None:
    cells = (await book.told("notebook_get", sessionId=book.id))["cells"]
    for cell in cells:
        parsed = await book.execute(cell["id"])
        assert "only code cells can be executed" in parsed["stderr"]
        assert parsed["exitCode"] == 1


async def test_without_a_runtime_the_message_names_what_is_missing(tmp_path) -> None:
    tables = {"cells": {"folder": str(tmp_path)}}
    async with running({}, plugins={("hooks", "cells"): pml_cells.plugin}, tables=tables) as gateway:
        client = Client(gateway)
        await client.initialize()
        for language, spoken in (("typescript", "TypeScript"), ("javascript", "JavaScript"), ("python", "Python")):
            made = (await client.call("notebook_create", {"title": "T", "language": language}))["structuredContent"]
            told = await client.call("cell_create", {"sessionId": made["sessionId"], "source": "1"})
            cell = told["structuredContent"]["cell"]["id"]
            answer = await client.call("cell_execute", {"sessionId": made["sessionId"], "cellId": cell})
            parsed = json.loads(answer["content"][0]["text"])
            assert parsed["exitCode"] == 1
            assert f"the runtime for {spoken} is missing" in parsed["stderr"]


async def test_cells_import_one_another(book) -> None:
    await book.add("export const price = (n: number) => n * 1.5;", filename="prices.ts")
    await book.add("import { price } from './prices.ts'; export const all = [1, 2].map(price);", filename="all.mjs")
    cell = await book.add("import { all } from './all.mjs'; console.log(all);")
    assert (await book.execute(cell))["stdout"] == "[ 1.5, 3 ]\n"
    (book.folder / "src" / "prices.ts").write_text("export const price = (n: number) => -n;")
    assert (await book.execute(cell))["stdout"] == "[ -1, -2 ]\n"


async def test_after_a_cell_is_renamed_its_old_file_cannot_be_imported(book) -> None:
    old = await book.add("export const n = 1;", filename="old.ts")
    cell = await book.add("import { n } from './old.ts'; console.log(n);", filename="main.ts")
    assert (await book.execute(cell))["stdout"] == "1\n"
    await book.told("cell_update", sessionId=book.id, cellId=old, filename="new.ts")
    assert (await book.execute(cell))["exitCode"] == 1
    source = "import { n } from './new.ts'; console.log(n);"
    await book.told("cell_update", sessionId=book.id, cellId=cell, source=source)
    assert (await book.execute(cell))["stdout"] == "1\n"


async def test_each_run_is_an_execution_with_a_record_of_its_own(book) -> None:
    for source in ("console.log(1)", "Deno.exit(2)"):
        await book.run(source)
    page = await book.gateway.store.executions.find(ExecutionQuery(scope=Scope(principals=None), limit=100))
    code = [record for record in page.items if record.kind == "code"]
    calls = {record.id: record for record in page.items if record.target == "pml:cell_execute"}
    assert sorted(record.status for record in code) == ["error", "ok"]
    assert all(record.parent in calls for record in code)
    assert {record.status for record in calls.values()} == {"ok"}


async def test_cells_call_no_tools_unless_the_session_says_so(book) -> None:
    source = "console.log(typeof tools === 'undefined' ? 'none' : await tools.fs.read({ path: 'a' }))"
    assert (await book.run(source))["stdout"] == "none\n"


async def test_cells_call_the_tools_that_the_session_allows(book) -> None:
    await book.create("With tools", tools=["fs:*"])
    parsed = await book.run("console.log(JSON.stringify(await tools.fs.read({ path: 'a' })))")
    assert (parsed["exitCode"], parsed["stderr"]) == (0, "")
    refused = await book.run("console.log(await tools.pml.notebook_get({}))")
    assert refused["exitCode"] == 1
    page = await book.gateway.store.executions.find(ExecutionQuery(scope=Scope(principals=None), limit=100))
    records = {record.id: record for record in page.items}
    (call,) = [record for record in page.items if record.target == "fs:read"]
    assert records[call.parent].kind == "code"


async def test_code_cannot_give_itself_tools(book) -> None:
    await book.add("export {}", filename="other.ts")
    source = f"""
for (const path of ["../.pml/{book.id}.json", "../.pml", ".."]) {{
  try {{ Deno.writeTextFileSync(path, "{{}}"); console.log("wrote", path) }} catch {{ }}
  try {{ Deno.readTextFileSync(path); console.log("read", path) }} catch {{ }}
}}
Deno.writeTextFileSync("README.md", '<!-- srcbook:{{"language":"typescript","tools":["*:*"]}} -->\\n');
console.log("done");
"""
    cell = await book.add(source)
    assert (await book.execute(cell))["stdout"] == "done\n"
    assert (await book.told("notebook_get", sessionId=book.id))["tools"] == []
    assert (await book.execute(cell))["stdout"] == "done\n"


async def test_in_a_dry_run_nothing_is_executed(book) -> None:
    cell = await book.add("Deno.writeTextFileSync('made.txt', '')")
    arguments = {"sessionId": book.id, "cellId": cell}
    await book.client.call("cell_execute", arguments, _meta={"pml/dry_run": True})
    assert not (book.folder / "made.txt").exists()


async def test_a_session_of_somebody_else_does_not_exist(book) -> None:
    cell = await book.add("console.log(1)")
    other, operator = Client(book.gateway, principal="eve"), Client(book.gateway, scopes=frozenset({"system"}))
    for client in (other, operator):
        await client.initialize()
    arguments = {"sessionId": book.id, "cellId": cell}
    missing = await other.call("cell_execute", {**arguments, "sessionId": "x" * 26})
    refused = await other.call("cell_execute", arguments)
    assert refused["content"][0]["text"].replace(book.id, "x" * 26) == missing["content"][0]["text"]
    assert "SESSION_NOT_FOUND" in (await other.call("notebook_get", {"sessionId": book.id}))["content"][0]["text"]
    assert (await operator.call("cell_execute", arguments))["structuredContent"]["stdout"] == "1\n"
