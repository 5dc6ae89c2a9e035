"""Installations: complete, or not there."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from pml_demo import environments
from pml_demo.environments import install, installed
from pml_demo.problem import DemoError
from pml_demo.servers import Environment

pytestmark = pytest.mark.anyio
PYTHON = Environment(runtime="python", requirements=("some-server==1",), servers=("some",))
NODE = Environment(runtime="node", requirements=("some-server@1",), servers=("some",))
# Stands for uv: ``uv venv … FOLDER`` makes an interpreter, ``uv pip …`` does what the test wants; both are noted.
UV = """#!/bin/sh
echo "$@" >> "$UV_CALLS"
for last; do :; done
if [ "$1" = venv ]; then mkdir -p "$last/bin" && touch "$last/bin/python"; exit; fi
echo "PYTHONPATH=$PYTHONPATH AWS_SECRET_ACCESS_KEY=$AWS_SECRET_ACCESS_KEY" >> "$UV_CALLS"
{install}
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("PML_HOME", str(tmp_path))
    monkeypatch.setenv("UV_CALLS", str(tmp_path / "calls"))
    return tmp_path / "demo"


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Makes a program that stands for uv or npm."""

    def make(name, text):
        script = tmp_path / "bin" / name
        script.parent.mkdir(exist_ok=True)
        script.write_text(text)
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setattr(environments, "find_uv", lambda: [str(script)])
        return script

    return make


def calls(root):
    return (root.parent / "calls").read_text().splitlines()


async def test_an_installation_is_made_once_and_found_again(root, program):
    program("uv", UV.format(install="exit 0"))
    assert installed(PYTHON) is None
    folder = await install(PYTHON)
    assert folder == root / PYTHON.folder == installed(PYTHON)
    assert await install(PYTHON) == folder
    assert [call.split()[0] for call in calls(root) if "=" not in call.split()[0]] == ["venv", "pip"]
    assert "some-server==1" in calls(root)[1]
    assert [path.name for path in root.iterdir()] == [PYTHON.folder]


async def test_variables_that_would_lead_elsewhere_or_are_nobodys_business_are_taken_away(root, program, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "poison")
    program("uv", UV.format(install="exit 0"))
    await install(PYTHON)
    assert "PYTHONPATH= AWS_SECRET_ACCESS_KEY=" in calls(root)


async def test_a_failure_leaves_nothing_and_tells_of_both_ways(root, program, monkeypatch):
    program("uv", UV.format(install="echo no such package; exit 1"))
    monkeypatch.setattr(environments.sys, "executable", "/no/such/python")
    with pytest.raises(DemoError) as failure:
        await install(PYTHON)
    message = str(failure.value)
    assert message.startswith("the servers some could not be installed: ")
    assert "no such package" in message
    assert "/no/such/python" in message
    assert message.endswith("the package index can be reached.")
    assert installed(PYTHON) is None
    assert list(root.iterdir()) == []


async def test_an_interrupted_installation_leaves_nothing(root, program):
    program("uv", UV.format(install='echo started >> "$UV_CALLS"; sleep 60'))
    task = asyncio.create_task(install(PYTHON))
    async with asyncio.timeout(20):
        while not (root.parent / "calls").exists() or "started" not in calls(root):  # noqa: ASYNC110 - a process
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert installed(PYTHON) is None
    assert list(root.iterdir()) == []


async def test_what_a_killed_demo_left_is_not_an_installation_and_goes_in_time(root, program):
    program("uv", UV.format(install="exit 0"))
    old, new = (root / f"{PYTHON.folder}.partial-{name}" for name in ("old", "new"))
    for path in (old, new):
        path.mkdir(parents=True)
    long_ago = time.time() - 2 * environments.ABANDONED_S
    os.utime(old, (long_ago, long_ago))
    assert installed(PYTHON) is None
    await install(PYTHON)
    assert not old.exists()
    assert new.exists()


async def test_an_installation_whose_python_has_gone_is_made_again(root, program):
    program("uv", UV.format(install="exit 0"))
    folder = await install(PYTHON)
    (folder / "bin" / "python").unlink()
    (folder / "bin" / "python").symlink_to("/no/such/python")
    assert installed(PYTHON) is None
    assert (await install(PYTHON) / "bin" / "python").is_file()


async def test_two_demos_at_once_both_get_the_installation(root, program):
    program("uv", UV.format(install="exit 0"))
    assert await asyncio.gather(install(PYTHON), install(PYTHON)) == [root / PYTHON.folder] * 2
    assert [path.name for path in root.iterdir()] == [PYTHON.folder]


async def test_node_packages_are_installed_by_npm_without_their_scripts(root, program):
    program("npm", '#!/bin/sh\necho "$@" >> "$UV_CALLS"\n')
    assert await install(NODE) == root / NODE.folder
    assert "--ignore-scripts" in calls(root)[0]
    assert "some-server@1" in calls(root)[0]


async def test_an_old_node_is_refused_by_its_version(root, program):
    program("npm", "#!/bin/sh\n")
    program("node", "#!/bin/sh\necho v16.20.2\n")
    with pytest.raises(DemoError, match=r"Node 18 or newer is needed, this is v16\.20\.2"):
        await environments.node_version()
    program("node", "#!/bin/sh\necho v20.1.0\n")
    assert await environments.node_version() == 20


async def test_a_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    monkeypatch.setenv("PML_HOME", str(in_the_way))
    with pytest.raises(DemoError, match="set PML_HOME"):
        await install(PYTHON)
