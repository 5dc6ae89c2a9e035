"""Code that Deno looks at without running it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

import pml_kit.jail
from pml_hookspecs import CodeRun, Session
from pml_kit.jail import Wall
from pml_kit.offers import Verdict
from pml_sandbox_deno import Deno, Settings
from pml_sandbox_deno.parser import Parser
from pml_testing.fakes import FakeCatalog, FakeRun, FakeServices, entry
from pml_testing.foresight import CheckerContract

pytestmark = pytest.mark.anyio
TYPED = pytest.mark.skipif(sys.platform != "linux", reason="types are checked in the jail only")
TEXT = {"type": "string"}
INPUT = {
    "type": "object",
    "properties": {
        "path": TEXT,
        "state": {"enum": ["open", "closed"]},
        "who": {"type": "object", "properties": {"name": TEXT}, "required": ["name"]},
        "tags": {"type": "array", "items": TEXT},
    },
    "required": ["path"],
    "additionalProperties": False,
}
OUTPUT = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "items": {"type": "object", "properties": {"id": TEXT}}},
        "total": {"type": "integer"},
        "by": {"type": ["string", "null"]},
    },
}
CATALOG = FakeCatalog([entry("fs:read", input_schema=INPUT, outputSchema=OUTPUT), entry("my-srv:odd-tool")])
SESSION = Session(key="k")
ENOUGH_S = 240.0


def code(source, language="typescript", **more):
    return CodeRun(id="c", language=language, source=source, **{"inputs": {"a": None, "b-c": 1}, **more})


@pytest.fixture
async def deno():
    async with Deno(Settings(spare=0), FakeServices("deno", catalog=CATALOG)) as made:
        yield made


class TestTypeScript(CheckerContract):
    @pytest.fixture
    async def checker(self, deno):
        return deno

    @pytest.fixture
    def right(self):
        return [
            code(source)
            for source in (
                "return 1",
                "",
                "const r = await tools.fs.read({ path: 'x' });\nreturn r.items.map((i) => i.id.length + r.total)",
                "await tools['fs:read']({ path: a });\nawait tools['my-srv']['odd-tool']({});\nawait tools.my_srv.x()",
                "await tools.not_there_yet.read({ path: 1 })",
                "let state = 'open';\nconst who = { name: 'x' };\nawait tools.fs.read({ path: 'x', state, who })",
                "const found = {};\nfound.total = a.b;\nreturn found",
                "try { await tools.fs.read({ path: a }) } catch (e) { return e.message }",
                "enum Kind { A, B }\nnamespace N { export const x = Kind.A }\nreturn N.x",
                "class A { constructor(private x: number) {} }\nreturn new A(1)",
                "const f = async <T>(x: Array<T>, y?: T): Promise<void> => { await x; };\nreturn a satisfies any",
                "const tools = 1; const inputs = 2; return tools + inputs",
                "interface R { a?: string }\nconst r: R = a;\nreturn r.a!.replaceAll('a', 'b').at(-1)",
                "return Object.groupBy([1, 2], (x) => x % 2 ? 'odd' : 'even')",
            )
        ]

    @pytest.fixture
    def wrong(self):
        return [
            (code(source), line)
            for source, line in (
                ("return [1", 1),
                ("\n\nconst = 5;", 3),
                ("let x y = 3;", 1),
                ("const x = 1;\nfor (const of x) {}", 2),
                ("let b = 1;\nlet c = 2;\nlet b = 3;", 3),
                ("return 1;\nbreak;", 2),
                ("import x from 'y'; return x", 1),
                ("1 = a;", 1),
                *((
                    ("return undefd", 1),
                    ("const x = 1;\nawait tools.fs.read({ path: x })", 2),
                    ("await tools.fs.read()", 1),
                    ("await tools.fs.read({ path: 'x', state: 'opn' })", 1),
                    ("const x: number = 'a';\nreturn x", 1),
                ) if sys.platform == "linux" else ()),
            )
        ]  # fmt: skip

    @pytest.fixture
    def endless(self):
        return code("while (true);")


class TestJavaScript(CheckerContract):
    @pytest.fixture
    async def checker(self, deno):
        return deno

    @pytest.fixture
    def right(self):
        return [
            code(source, "javascript")
            for source in (
                "return a",
                "const r = await tools.fs.read({ nothing: 5 });\nreturn r.what.ever",
                "return a < 1 > (2)",
                "const text = `a ${`b${1}`}`;\nreturn /[)\\]/]/.test(text)",
                "label: for (;;) { break label }\nreturn { get x() { return 1 }, async *y() {} }",
                "using z = a;\nreturn undefd",
            )
        ]

    @pytest.fixture
    def wrong(self):
        return [
            (code(source, "javascript"), line)
            for source, line in (
                ("return [1", 1),
                ("const x = 1;\nconst x = 2;", 2),
                ("return 1;\nlet y: number = 3;", 2),
                ("if () {}", 1),
                ("const a1 = 1;\n\n\nfunction f(b, b) {}", 4),
            )
        ]

    @pytest.fixture
    def endless(self):
        return code("while (true);", "javascript")


async def looked(deno, source, **more):
    return await deno.check(code(source, **more), SESSION, within_s=ENOUGH_S)


@TYPED
async def test_members_that_no_schema_names_are_doubts(deno):
    verdict = await looked(deno, "const r = await tools.fs.read({ path: 'x' });\nreturn r.totl")
    assert verdict.problems == []
    assert [(one.code, one.details["line"]) for one in verdict.doubts] == [("code.type", 2)]


@TYPED
async def test_each_kind_of_mistake_has_its_code(deno):
    assert [one.code for one in (await looked(deno, "return (")).problems] == ["code.syntax"]
    assert [one.code for one in (await looked(deno, "return undefd")).problems] == ["code.undefined"]
    assert [one.code for one in (await looked(deno, "await tools.fs.read({ path: 5 })")).problems] == ["code.type"]


@TYPED
async def test_tools_that_the_caller_may_not_have_are_not_told_of():
    catalog = FakeCatalog(list(CATALOG))
    catalog.denied = {"fs:read"}
    async with Deno(Settings(spare=0), FakeServices("deno", catalog=catalog)) as deno:
        verdict = await looked(deno, "await tools.fs.read({ path: 5 }); return tools.fs.raed")
    assert (verdict.checked, verdict.problems, verdict.doubts) == ("types", [], [])


@TYPED
async def test_nobody_gets_what_was_found_for_another(deno):
    """Sources of several callers that wait together are not checked with one another's tools."""
    others = [Session(key=key) for key in ("k1", "k2", "k1", "k2")]
    sources = [f"const x{i}: {'string' if i % 2 else 'number'} = 'a'; return x{i}" for i in range(4)]
    found = await asyncio.gather(
        *(deno.check(code(s), session, within_s=ENOUGH_S) for s, session in zip(sources, others, strict=True))
    )
    assert [bool(one.problems) for one in found] == [True, False, True, False]


@TYPED
async def test_without_time_for_types_code_is_parsed_all_the_same(deno):
    await looked(deno, "return 0", language="javascript")
    verdict = await deno.check(code("return 1 as unknown"), SESSION, within_s=0.3)
    assert (verdict.checked, verdict.problems) == ("syntax", [])
    assert verdict.unchecked == "Types were not checked within 0.3 s."


async def test_without_a_wall_types_are_not_checked_and_code_is_parsed(monkeypatch):
    monkeypatch.setattr(pml_kit.jail, "missing", lambda: [Wall("files", False, "not on this machine")])
    async with Deno(Settings(spare=0), FakeServices("deno", catalog=CATALOG)) as deno:
        verdict = await looked(deno, "return undefd")
        assert (verdict.checked, verdict.problems) == ("syntax", [])
        assert "no wall" in verdict.unchecked
        assert (await looked(deno, "return (")).problems
    async with Deno(Settings(spare=0, jail="required"), FakeServices("deno", catalog=CATALOG)) as deno:
        assert [one.code for one in (await looked(deno, "return 1")).problems] == ["sandbox.fault"]


async def test_code_that_leaves_the_function_it_is_put_into_does_not_run(deno):
    """It would end the process, and be seen as a failure of the parser."""
    for source in ("})(); Deno.exit(1); (async () => {", "})(); }); while (true); (async () => { (async () => {"):
        for language in ("typescript", "javascript"):
            verdict = await deno.check(code(source, language), SESSION, within_s=ENOUGH_S)
            assert not verdict.unchecked


async def test_a_program_is_a_module(deno):
    assert not (await looked(deno, "import fs from 'node:fs';\nexport const x: any = fs;", program=True)).problems
    assert (await looked(deno, "import fs from;", program=True)).problems


async def test_a_parser_that_dies_is_replaced(deno):
    assert (await looked(deno, "return (")).problems
    child = deno._checking._parser._child
    child.kill()
    await child.gone
    assert (await looked(deno, "return [")).problems


async def test_a_parser_that_cannot_be_started_finds_nothing(monkeypatch):
    monkeypatch.setattr("pml_sandbox_deno.executor.find_program", lambda: Path("/bin/false"))
    services = FakeServices("deno", catalog=CATALOG)
    async with Deno(Settings(spare=0), services) as deno:
        verdict = await looked(deno, "return (")
    assert (verdict.checked, verdict.problems) == ("nothing", [])
    assert "log" in verdict.unchecked
    assert services.log.lines[-1][1] == "code cannot be parsed"


async def test_who_waits_for_the_parser_hears_of_its_end(deno):
    await looked(deno, "return 1", language="javascript")
    parser: Parser = deno._checking._parser
    waiting = asyncio.ensure_future(parser.mistake(code("return 2")))
    await asyncio.sleep(0)
    assert not parser._answer.done()
    parser.close()
    with pytest.raises(OSError, match="closed"):
        await waiting


async def test_nothing_is_left_in_the_temporary_folder(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    async with Deno(Settings(spare=0), FakeServices("deno", catalog=CATALOG)) as deno:
        await looked(deno, "return 1")
    alone = Deno(Settings(spare=0), FakeServices("deno", catalog=CATALOG))
    await looked(alone, "return undefd")
    assert list(tmp_path.iterdir()) == []


@TYPED
async def test_what_is_checked_before_it_runs_and_without_running_share_one_folder(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    async with Deno(Settings(spare=0, check=True), FakeServices("deno", catalog=CATALOG)) as deno:
        ended, verdict = await asyncio.gather(
            deno.execute(code("const a: number = 'x'; return a"), FakeRun()), looked(deno, "return undefd")
        )
        assert ended.failure.code == "code.invalid"
        assert verdict.checked == "types"
        assert len([path for path in tmp_path.iterdir() if path.name.startswith("pml-check-")]) == 1
    assert list(tmp_path.iterdir()) == []


async def test_other_languages_and_very_long_code_are_not_looked_at(deno):
    assert await looked(deno, "(", language="ruby") == Verdict()
    verdict = await looked(deno, "x();\n" * 50_000)
    assert (verdict.checked, verdict.problems) == ("nothing", [])
