"""Starting and ending servers."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import anyio
import pytest

from pml_hookspecs import Endpoint, TransportError
from pml_testing.transport import LONG_S, SOON_S, Recorder, alive, ended, mourned
from pml_transport_stdio import Settings, Stdio
from pml_transport_stdio.command import parse

pytestmark = pytest.mark.anyio


def endpoint(address, **options):
    return Endpoint(name="git", address=address, options=options)


async def start(address, **options):
    async with Stdio().connect(endpoint(address, **options), Recorder()):
        pass


# What may be written.


@pytest.mark.parametrize(
    ("address", "argv"),
    [
        ("stdio:npx -y server", ("npx", "-y", "server")),
        ("stdio:'/a folder/x' \"b c\" d\\ e ''", ("/a folder/x", "b c", "d e", "")),
        ("stdio: x  y ", ("x", "y")),
        ("stdio:echo $HOME # no comment", ("echo", "$HOME", "#", "no", "comment")),
    ],
)
def test_an_address_is_quoted_as_for_a_shell(address, argv):
    assert parse(endpoint(address)).argv == argv


@pytest.mark.parametrize(
    ("address", "options", "message"),
    [
        ("stdio:", {}, r"^\[servers\.git\] the command is empty"),
        ("stdio:  ", {}, r"^\[servers\.git\] the command is empty"),
        ("stdio:''", {}, r"^\[servers\.git\] the command is empty"),
        ("stdio:x 'y", {}, r"^\[servers\.git\] cannot read the command line: no closing quotation; quote it"),
        ("http://x", {}, r"^\[servers\.git\] the address of a stdio server starts with 'stdio:'"),
        ("stdio:x", {"cdw": "/"}, r"^\[servers\.git\] unknown option 'cdw'; did you mean 'cwd'\?"),
        ("stdio:x", {"encoding": "utf-8"}, r"unknown option 'encoding'; did you mean"),
        ("stdio:x", {"cwd": 5}, r"^\[servers\.git\] cwd must be the path of a folder, not 5"),
        ("stdio:x", {"cwd": ""}, r"^\[servers\.git\] cwd must be the path of a folder, not ''"),
        ("stdio:x", {"allow_concurrent_requests": "no"}, r"allow_concurrent_requests must be true or false, not 'no'"),
    ],
)
def test_what_is_not_understood_is_refused_before_anything_starts(address, options, message):
    with pytest.raises(ValueError, match=message):
        Stdio().connect(endpoint(address, **options), Recorder())


def test_a_command_line_is_not_repeated_in_messages():
    with pytest.raises(ValueError, match="quotation") as caught:
        parse(endpoint("stdio:server --token=hunter2 'x"))
    assert "hunter2" not in str(caught.value)


# What cannot be started.


async def test_a_command_not_on_the_path_is_named_with_a_remedy():
    with pytest.raises(TransportError) as caught:
        await start("stdio:no-such-command-at-all x")
    assert not caught.value.retryable
    assert str(caught.value) == (
        "server 'git': command 'no-such-command-at-all' not found on PATH; install it or give the full path in "
        "[servers.git] command"
    )


async def test_other_commands_that_cannot_start_say_why(tmp_path):
    plain, lost, text = tmp_path / "plain", tmp_path / "lost", tmp_path / "text"
    plain.write_text("not executable")
    lost.write_text("#!/no/such/interpreter\n")
    text.write_text("neither a program nor a script")
    for file in (lost, text):
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    for address, problem in (
        ("stdio:'no-such-command -y x'", "not found on PATH; .* full path, and its arguments apart from it,"),
        (f"stdio:{tmp_path}/none", "does not exist; correct the path"),
        (f"stdio:{plain}", "is not executable; make it so"),
        (f"stdio:{lost}", "names an interpreter in its first line that does not exist"),
        (f"stdio:{text}", "is not a program this system can run"),
        (f"stdio:{plain}/x", "cannot be started: Not a directory"),
    ):
        with pytest.raises(TransportError, match=problem) as caught:
            await start(address)
        assert "in [servers.git] command" in str(caught.value)
        assert not caught.value.retryable


async def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(TransportError, match=r"working directory '.*none' is not a folder; .* \[servers\.git\] cwd"):
        await start("stdio:true", cwd=str(tmp_path / "none"))


async def test_a_server_that_fails_to_start_tells_its_last_words(connect):
    async with connect("broken") as link:
        with pytest.raises(TransportError) as caught:
            await link.request("initialize", {}, timeout_s=LONG_S)
    assert str(caught.value) == ("server 'git' exited with code 3; its last words: no configuration found")
    assert caught.value.retryable


# What a server gets.


async def test_a_server_gets_its_folder_the_usual_variables_and_those_that_it_names(connect, monkeypatch, tmp_path):
    others = {"PML_GATEWAY__TOKEN": "a", "GITHUB_TOKEN": "b", "DOCKER_HOST": "c", "ONE": "d", "CHANGED": "old"}
    for name, value in others.items():
        monkeypatch.setenv(name, value)
    added = {"CHANGED": "new", "PML_ASKED_FOR": "x"}
    async with connect(env=added, cwd=str(tmp_path), inherit_env=["DOCKER_*", "ONE", "*_GATEWAY__*"]) as link:
        told = await link.request("describe", {}, timeout_s=SOON_S)
    assert told["cwd"] == str(tmp_path)
    environment = told["env"]
    assert {name: value for name, value in environment.items() if name in others} == {
        "CHANGED": "new",
        "DOCKER_HOST": "c",
        "ONE": "d",
    }
    assert environment["PML_ASKED_FOR"] == "x"
    assert environment["PATH"] == os.environ["PATH"]


async def test_a_server_is_in_a_group_of_its_own(connect):
    async with connect() as link:
        pid = (await link.request("describe", {}, timeout_s=SOON_S))["pid"]
        assert os.getpgid(pid) == pid != os.getpgid(0)


# Its end.


async def test_a_server_that_stops_when_its_input_ends_is_not_waited_for(connect):
    loop = asyncio.get_running_loop()
    async with connect(settings=Settings(close_grace_s=LONG_S)) as link:
        pid = (await link.request("describe", {}, timeout_s=SOON_S))["pid"]
        start = loop.time()
    assert loop.time() - start < LONG_S / 2
    assert not alive(pid)


async def test_children_left_by_a_dead_server_are_ended(connect):
    async with connect(settings=Settings(close_grace_s=0.1)) as link:
        pids = await link.request("spawn", {}, timeout_s=SOON_S)
        with mourned({"child": pids["child"]}):
            with pytest.raises(TransportError):
                await link.request("kill", {}, timeout_s=LONG_S)
            assert alive(pids["child"])
    assert await ended(*pids.values())


@pytest.mark.parametrize("script", ["obliging", "stubborn"])
async def test_nothing_remains_when_an_anyio_scope_is_cancelled(connect, script):
    async with anyio.create_task_group() as tasks:

        async def use():
            nonlocal pids
            async with connect(script, settings=Settings(close_grace_s=0.3)) as link:
                pids = await link.request("spawn", {}, timeout_s=SOON_S)
                tasks.cancel_scope.cancel()
                await link.request("hold", {}, timeout_s=LONG_S)

        pids = {}
        tasks.start_soon(use)
    with mourned(pids):
        assert pids
        assert not any(map(alive, pids.values()))


async def test_closing_under_cancellation_does_not_spin(connect):
    async with anyio.create_task_group() as tasks:

        async def use():
            nonlocal spent
            async with connect("stubborn", settings=Settings(close_grace_s=0.3)) as link:
                pids = await link.request("spawn", {}, timeout_s=SOON_S)
                tasks.cancel_scope.cancel()
                spent = -os.times().user
            assert not any(map(alive, pids.values()))

        spent = 0.0
        tasks.start_soon(use)
    assert spent + os.times().user < 0.3


async def test_an_error_inside_comes_out_as_it_is(connect):
    with pytest.raises(ZeroDivisionError):
        async with connect():
            raise ZeroDivisionError


async def test_nothing_is_leaked(connect):
    def descriptors():
        return {file.name for file in Path("/proc/self/fd").iterdir()}

    await start(f"stdio:{sys.executable} -I -S -c pass")
    gc.collect()
    before, tasks = descriptors(), asyncio.all_tasks()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        async with connect() as link:
            await link.request("echo", {}, timeout_s=SOON_S)
        async with connect() as link:
            with pytest.raises(TransportError):
                await link.request("kill", {}, timeout_s=SOON_S)
        with pytest.raises(TransportError):
            await start("stdio:no-such-command-at-all")
        gc.collect()
    assert len(descriptors()) == len(before)
    assert asyncio.all_tasks() == tasks


async def test_a_server_that_was_started_for_nothing_is_ended(connect, monkeypatch):
    started = []

    def fail(_name, popen, *_arguments):
        started.append(popen)
        raise MemoryError

    monkeypatch.setattr("pml_transport_stdio.client.Child", fail)
    with pytest.raises(MemoryError):
        async with connect():
            pass
    assert started[0].returncode == -signal.SIGKILL


async def test_a_driver_without_services_logs_nothing():
    async with Stdio().connect(endpoint("stdio:sh -c 'echo words >&2; echo junk'"), Recorder()) as link:
        with pytest.raises(TransportError):
            await link.request("m", {}, timeout_s=LONG_S)
        assert link.counters["junk"] == 1


async def test_without_pidfd_the_end_is_noticed_too(connect, monkeypatch):
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    async with connect() as link:
        with pytest.raises(TransportError, match="exited with code 6"):
            await link.request("leave", {"code": 6}, timeout_s=LONG_S)
    async with connect(settings=Settings(close_grace_s=0.1)) as link:
        pids = await link.request("spawn", {}, timeout_s=SOON_S)
        with pytest.raises(TransportError, match="exited with code 6"):
            await link.request("leave", {"code": 6}, timeout_s=LONG_S)
    assert await ended(*pids.values())


def test_importing_the_plugin_is_cheap():
    program = "import sys, pml_transport_stdio; print(*[m for m in ('asyncio', 'anyio') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_process_is_started_before_what_reads_its_messages_is_imported():
    program = """
import asyncio, sys
from pml_hookspecs import Endpoint
import pml_transport_stdio.process as process, pml_transport_stdio.client as client
from pml_transport_stdio import Stdio
from pml_testing.transport import Recorder

def spawn(*arguments):
    print("pml_kit.jsonrpc.envelope" in sys.modules)
    return process.spawn(*arguments)

async def main():
    client.spawn = spawn
    async with Stdio().connect(Endpoint(name="x", address="stdio:cat"), Recorder()):
        print("pml_kit.jsonrpc.envelope" in sys.modules)

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
