"""Folders that may hold so much: code that fills one is stopped, and can clear it up afterwards."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pml_hookspecs import CodeRun, FolderSize
from pml_kit.system.folders import size_of
from pml_sandbox_cpython import CPython
from pml_testing.fakes import FakeRun
from pml_testing.isolation import services

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="the jail is Linux's")]
LIMIT = FolderSize(8 << 20, 200)
MOST = FolderSize(2 << 30, 50_000)
"""What there may be at the most when it is stopped, on a busy machine."""
FILLS = {
    "200,000 files": "for i in range(200000):\n    open(f'f{i}', 'w').close()",
    "200,000 folders": "import os\nfor i in range(200000):\n    os.mkdir(f'f{i}')",
    "10 GB": "for i in range(10000):\n    open(f'f{i}', 'wb').write(bytes(1 << 20))",
    "10 GB with holes": "for i in range(10000):\n    open(f'f{i}', 'wb').truncate(60 << 20)",
    "10 GB reserved": "import os\nfor i in range(160):\n    os.posix_fallocate(os.open(f'f{i}', 66), 0, 60 << 20)",
    "a little too much, quickly": "open('f', 'wb').write(bytes(9 << 20))",
    "folders too deep for a path": "import os\nfor i in range(30):\n    os.mkdir('d' * 250)\n    os.chdir('d' * 250)",
}
CLEAR = """
import os
for name in os.listdir("."):
    (os.rmdir if os.path.isdir(name) else os.unlink)(name)
for attempt in (lambda: open("new", "w"), lambda: os.mkdir("new")):
    try:
        attempt()
    except OSError as exc:
        print(type(exc).__name__)
"""


@pytest.fixture
async def cpython() -> AsyncIterator[CPython]:
    async with CPython(services=services()) as made:
        yield made


async def ran(cpython: CPython, source: str, folder: Path) -> Any:
    task = CodeRun(
        id="a",
        language="python",
        source=source,
        program=True,
        folder=str(folder),
        folder_limit=LIMIT,
        timeout_s=60.0,
    )
    return await cpython.execute(task, FakeRun())


def on_disk(folder: Path) -> FolderSize:
    files = list(folder.iterdir())
    return FolderSize(sum(path.stat().st_blocks * 512 for path in files if path.is_file()), len(files))


@pytest.mark.attack("Jail", "fill the disk by the folder that code may write into: 200,000 files, 10 GB, holes")
@pytest.mark.parametrize("what", FILLS)
async def test_code_that_fills_its_folder_is_stopped(cpython: CPython, tmp_path: Path, what: str) -> None:
    ended = await ran(cpython, FILLS[what], tmp_path)
    assert ended.failure.code == "code.folder_full"
    assert ended.failure.details == {"limit_bytes": 8 << 20, "limit_files": 200}
    found = on_disk(tmp_path)
    assert found.bytes < MOST.bytes
    assert found.files < MOST.files


async def test_a_full_folder_can_be_read_and_cleared_and_not_written_into(cpython: CPython, tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / str(number)).touch()
    (tmp_path / "folder").mkdir()
    cleared = await ran(cpython, CLEAR, tmp_path)
    assert cleared.output["stdout"].splitlines() == ["PermissionError"] * 2
    assert size_of(str(tmp_path), 10).files == 0
    written = await ran(cpython, "open('new', 'w').write('room again')", tmp_path)
    assert written.failure is None
    assert size_of(str(tmp_path), 10).files == 1
