"""Code that is compiled and not run."""

from __future__ import annotations

import sys

import pytest

from pml_hookspecs import CodeRun, Session
from pml_kit.offers import Verdict
from pml_sandbox_cpython import CPython, Settings
from pml_testing.fakes import FakeServices
from pml_testing.foresight import CheckerContract

pytestmark = pytest.mark.anyio
SESSION = Session(key="k")


def code(source, **more):
    return CodeRun(id="c", language="python", source=source, **{"inputs": {"a": None, "b-c": 1}, **more})


@pytest.fixture
async def cpython():
    async with CPython(Settings(spare=0), FakeServices("cpython")) as made:
        yield made


class TestChecker(CheckerContract):
    @pytest.fixture
    async def checker(self, cpython):
        return cpython

    @pytest.fixture
    def right(self):
        return [
            code(source)
            for source in (
                "return a",
                "1 + 1",
                "",
                "x = await tools.fs.read(path='x')\nreturn x",
                "await tools.fs.read(path='x')",
                "def g():\n    yield 1\nreturn list(g())",
                "def f():\n    return 1\nf()",
                "if a:\n    return 1\nyield 2",
                "class A(int):\n    pass\nreturn A(1)",
                "import numpy\nasync def f():\n    return [x async for x in numpy]\nreturn await f()",
                "return '\\d'",
            )
        ]

    @pytest.fixture
    def wrong(self):
        return [
            (code(source), line)
            for source, line in (
                ("return (", 1),
                ("x = 1\ny = = 2", 2),
                ("return 1\nbreak", 2),
                ("def f(x, x):\n    pass", 1),
                ("x = 1\ndef f():\n    print(x)\n    global x\nreturn f()", 4),
                ("def f():\n    await a\nreturn f()", 2),
            )
        ]

    @pytest.fixture
    def endless(self):
        return code("while True:\n    pass")


async def test_a_program_is_no_body_of_a_function(cpython):
    assert (await cpython.check(code("return 1", program=True), SESSION, within_s=1)).problems
    assert not (await cpython.check(code("print(await a)", program=True), SESSION, within_s=1)).problems


async def test_code_that_cannot_be_compiled_is_no_fault(cpython):
    for source in ("x\0", "(" * 5000, "x = " + "-" * 100_000 + "1"):
        verdict = await cpython.check(code(source), SESSION, within_s=5)
        assert [one.code for one in verdict.problems] == ["code.syntax"]
    assert (await cpython.check(code("x = 1\n" * 40_000), SESSION, within_s=1)).unchecked


async def test_another_interpreter_may_take_other_code():
    async with CPython(Settings(spare=0, python=sys.executable), FakeServices("cpython")) as made:
        verdict = await made.check(code("return ("), SESSION, within_s=1)
    assert (verdict.checked, verdict.problems) == ("nothing", ())
    assert "another Python" in verdict.unchecked


async def test_other_languages_are_not_looked_at(cpython):
    assert await cpython.check(CodeRun(id="c", language="ruby", source="("), SESSION, within_s=1) == Verdict()
