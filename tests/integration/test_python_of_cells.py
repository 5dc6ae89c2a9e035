"""Who runs Python where two sandboxes can: all of it for programs in a folder, the quick one for code of tasks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import pml_cells.plugin
import pml_code_mode.plugin
import pml_kit.jail
from pml_sandbox_cpython import CPython
from pml_sandbox_monty import Monty
from pml_testing.gateway import Client, running, value_of

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="pml-sandbox-cpython needs Linux"),
]
SOURCE = """
import csv, sqlite3
from prices import price

class Wrong(Exception):
    pass

print(price, csv.__name__)
"""


@pytest.mark.parametrize(
    ("chosen", "walls", "cell", "code"),
    [
        ({}, True, True, False),
        ({}, False, False, False),
        ({"code.python": "monty"}, True, False, False),
        ({"code.python": "cpython"}, True, True, True),
        ({"code.python": "cpython", "program.python": "monty"}, True, False, True),
    ],
)
async def test_cells_have_all_of_python_where_it_can_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: dict[str, str], *, walls: bool, cell: bool, code: bool
) -> None:
    if not walls:
        missing = pml_kit.jail.Wall("files", False, "switched off")
        monkeypatch.setattr(pml_kit.jail, "missing", lambda: [missing])
    plugins: dict[tuple[str, str], Any] = {
        ("hooks", "cells"): pml_cells.plugin,
        ("hooks", "code_mode"): pml_code_mode.plugin,
        ("executor", "cpython"): CPython,
        ("executor", "monty"): Monty,
    }
    tables = {"cells": {"folder": str(tmp_path / "notebooks")}}
    async with running({}, plugins=plugins, tables=tables, executors=chosen) as gateway:
        client = Client(gateway)
        await client.initialize()
        asked = {"title": "Prices", "language": "python"}
        session = value_of(await client.call("notebook_create", asked))["sessionId"]
        prices = {"sessionId": session, "source": "price = 7", "filename": "prices.py"}
        await client.call("cell_create", prices)
        made = await client.call("cell_create", {"sessionId": session, "source": SOURCE, "language": "python"})
        ids = {"sessionId": session, "cellId": value_of(made)["cell"]["id"]}
        ran = value_of(await client.call("cell_execute", ids))
        assert (ran["stdout"] == "7 csv\n") == cell, ran
        asked = {"language": "python", "code": "import sqlite3\nreturn sqlite3.__name__"}
        assert ("isError" not in await client.call("run_code", asked)) == code
