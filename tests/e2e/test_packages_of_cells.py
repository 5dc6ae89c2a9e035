"""Packages that npm itself has installed, imported by cells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pml_cells.plugin
from pml_cells.sessions import Sessions
from pml_sandbox_deno import Deno
from pml_testing.gateway import Client, running

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="packages are there inside a kernel jail only"),
]
PACKAGES = ("fast-deep-equal", "zod")
"""A CommonJS and an ES module without dependencies, from what runs on Node: nothing is fetched."""
INSTALL_S = 300
SOURCE = """
import { z } from "zod";
import equal from "fast-deep-equal";
console.log(z.object({ votes: z.number() }).parse({ votes: 7 }).votes);
console.log(equal({ a: [7] }, { a: [7] }));
"""


def install(node_tools: Path, where: Path) -> None:
    """As the hint says, with packages of a folder in place of the registry's."""
    npm = shutil.which("npm")
    assert npm, "install_node_tools.sh needs npm, too"
    packages = [f"{name}@file:{node_tools / 'node_modules' / name}" for name in PACKAGES]
    words = [
        npm,
        "install",
        "--prefix",
        str(where),
        "--offline",
        "--install-links",
        "--no-audit",
        "--no-fund",
        *packages,
    ]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=INSTALL_S, check=False, env=os.environ)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("where", ["beside", "in it"])
async def test_what_npm_has_installed_is_imported(node_tools: Path, tmp_path: Path, where: str) -> None:
    root = tmp_path / "notebooks"
    plugins: dict[tuple[str, str], Any] = {("hooks", "cells"): pml_cells.plugin, ("executor", "deno"): Deno}
    async with running({}, plugins=plugins, tables={"cells": {"folder": str(root)}}) as gateway:
        client = Client(gateway)
        await client.initialize()
        session = (await client.call("notebook_create", {"title": "Packages"}))["structuredContent"]["sessionId"]
        made = await client.call("cell_create", {"sessionId": session, "source": SOURCE})
        cell = {"sessionId": session, "cellId": made["structuredContent"]["cell"]["id"]}
        before = (await client.call("cell_execute", cell))["structuredContent"]
        assert "npm install --prefix FOLDER" in before["stderr"]
        install(node_tools, root if where == "beside" else root / session)
        after = (await client.call("cell_execute", cell))["structuredContent"]
        assert (after["stdout"], after["exitCode"]) == ("7\ntrue\n", 0), after["stderr"]
        assert list(Sessions(root).ids()) == [session]
