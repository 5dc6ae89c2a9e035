"""Cells in Python, in a real CPython."""

from __future__ import annotations

import sys
from typing import Any

import pytest

if sys.platform != "linux":
    pytest.skip("pml-sandbox-cpython needs Linux", allow_module_level=True)

from pml_sandbox_cpython import CPython

pytestmark = pytest.mark.anyio


@pytest.fixture
def plugins(plugins: dict[tuple[str, str], Any]) -> dict[tuple[str, str], Any]:
    return {**plugins, ("executor", "cpython"): CPython}


async def test_a_python_cell_is_a_program_in_the_session_folder(book) -> None:
    parsed = await book.run(
        "import sys\nprint('hi')\nprint('err', file=sys.stderr)\nopen('made.txt', 'w').write('x')", language="python"
    )
    assert (parsed["stdout"], parsed["stderr"], parsed["exitCode"]) == ("hi\n", "err\n", 0)
    assert (book.folder / "made.txt").read_text() == "x"


async def test_python_cells_import_one_another(book) -> None:
    helper = await book.add("value = 1", filename="helper.py")
    cell = await book.add("import helper; print(helper.value)", language="python")
    assert (await book.execute(cell))["stdout"] == "1\n"
    await book.told("cell_update", sessionId=book.id, cellId=helper, source="value = 2")
    assert (await book.execute(cell))["stdout"] == "2\n"


async def test_exit_codes_of_python(book) -> None:
    raised = await book.run("raise ValueError('bad')", language="python")
    assert raised["exitCode"] == 1
    assert raised["stderr"].endswith("ValueError: bad\n")
    assert (await book.run("import sys; sys.exit(5)", language="python"))["exitCode"] == 5
    endless = await book.add("while True: pass", language="python")
    parsed = await book.execute(endless, timeout=1000)
    assert parsed["exitCode"] == 124
    assert parsed["executionTime"] >= 1000
