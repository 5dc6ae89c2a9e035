"""What ``pml plugins doctor`` says of a kernel that does not give everything, and that code runs there all the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

WITHOUT_NAMESPACES = ["unshare", "-Ur", "sh", "-c", 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"', "sh"]
"""Words before a command that makes no namespaces: those of whoever began with one are counted."""
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="the jail is Linux's")]


def can_be_without() -> bool:
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return False
    return subprocess.run([*WITHOUT_NAMESPACES, "true"], capture_output=True, check=False).returncode == 0


@pytest.fixture
def without_namespaces(site, monkeypatch):
    """A site whose gateway's kernel lets nobody make namespaces."""
    if not can_be_without():
        pytest.skip("namespaces cannot be taken away here, or are not given")
    serve = type(site).serve
    monkeypatch.setattr(type(site), "serve", lambda site, *options: [*WITHOUT_NAMESPACES, *serve(site, *options)])
    site.configure()
    return site


CODE = "import os\nreturn os.path.exists('/etc/hostname') or os.path.exists('/etc/passwd')"


async def asked(site):
    """Whether code in CPython sees that files exist which it may not open."""
    async with site.connect("--set", 'gateway.executors={"code.python" = "cpython"}', listed=False) as client:
        answer = await client.call_tool("run_code", {"language": "python", "code": CODE})
    assert not answer.is_error, site.text_of(answer)
    return site.text_of(answer)


@pytest.mark.attack("Jail", "see in code of a served gateway which files there are")
async def test_code_does_not_see_files_outside_where_namespaces_are_given(site):
    if not can_be_without():
        pytest.skip("no namespaces here")
    site.configure()
    assert await asked(site) == "false"


async def test_without_namespaces_code_runs_and_sees_names(without_namespaces):
    assert await asked(without_namespaces) == "true"


def test_the_doctor_says_which_wall_does_not_stand(without_namespaces):
    command = [*without_namespaces.serve()[: len(WITHOUT_NAMESPACES) + 1], "plugins", "doctor"]
    environment = {**os.environ, **without_namespaces.environment}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=without_namespaces.folder, env=environment
    )
    (line,) = [line for line in done.stdout.splitlines() if "jail of the cpython sandbox: names" in line]
    assert line.startswith("FAIL")
    assert "stat, readlink" in line
    assert "user.max_user_namespaces" in line
    assert "FAIL  jail of the cpython sandbox: files" not in done.stdout
