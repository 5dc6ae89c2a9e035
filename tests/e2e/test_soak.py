"""Many calls through a real gateway: every answer is the one to its call, whatever the server does in between."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[1] / "soak"
RAW = Path(__file__).parents[1] / "bench"
IN_FLIGHT = 10_000
LIMIT_S = 600


def run(script, *options):
    """Run a script of ``tests/soak`` to its end."""
    command = [sys.executable, str(SOAK / script), *options]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    print(ran.stdout, ran.stderr)
    return ran


def gateway(folder):
    """Command line and environment of a gateway in front of the echo server."""
    config = folder / "pml.toml"
    server = f"command = {sys.executable!r}\nargs = ['-I', '-S', {str(SOAK / 'echo_server.py')!r}, '1']"
    config.write_text(
        f"[gateway]\ntools_exposure = 'full_proxy'\n\n[servers.echo]\n{server}\nmax_in_flight = {IN_FLIGHT}\n"
    )
    command = [str(Path(sys.executable).with_name("pml")), "serve", "--config", str(config)]
    return command, {**os.environ, "PML_HOME": str(folder / "home")}


def test_twenty_thousand_calls_to_a_server_that_goes_wrong_now_and_then():
    ran = run("soak.py", "--calls", "20000", "--faulty", "0.005", "--exits", "0.0001")
    assert "wrong answers: 0" in ran.stdout
    assert ran.returncode == 0


def test_ten_thousand_calls_in_flight_on_one_server(tmp_path):
    """The server answers none before it has all of them, and then all of them in disorder."""
    sys.path.insert(0, str(RAW))
    try:
        from client import Connection
    finally:
        sys.path.remove(str(RAW))
    command, environment = gateway(tmp_path)

    async def calls():
        connection = Connection(command, tmp_path, environment)
        try:
            await connection.start()
            await connection.tools()
            arguments = ({"text": f"number {n}", "together": IN_FLIGHT} for n in range(IN_FLIGHT))
            asked = [connection.request("tools/call", {"name": "echo__echo", "arguments": a}) for a in arguments]
            async with asyncio.timeout(LIMIT_S):
                answers = await asyncio.gather(*asked)
        finally:
            await connection.close()
        return [answer.text() for answer in answers]

    assert asyncio.run(calls()) == [f"number {n} of {IN_FLIGHT}" for n in range(IN_FLIGHT)]


NOTES = 200_000
GROWTH_MB = 25


def resident_mb(process):
    return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="measures memory with /proc")
def test_a_flood_of_notifications_to_a_client_that_does_not_read_takes_no_memory(tmp_path):
    command, environment = gateway(tmp_path)
    log = (tmp_path / "stderr.txt").open("wb")
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment)

    def send(**message):
        client.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        client.stdin.flush()

    def answer_to(key):
        """The messages up to the answer."""
        found = [json.loads(client.stdout.readline())]
        while found[-1].get("id") != key:
            found.append(json.loads(client.stdout.readline()))
        return found

    def call(key, text, **more):
        arguments = {"text": text, **more}
        params = {"name": "echo__echo", "arguments": arguments, "_meta": {"progressToken": text}}
        send(id=key, method="tools/call", params=params)

    with log, client:
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        send(id=1, method="initialize", params=hello)
        answer_to(1)
        send(method="notifications/initialized")
        call(2, "first", flood=2000, done=str(tmp_path / "warm"))
        answer_to(2)
        before = resident_mb(client)
        done = tmp_path / "done"
        call(3, "second", flood=NOTES, done=str(done))
        until = time.monotonic() + LIMIT_S
        while not done.exists() and time.monotonic() < until:
            time.sleep(0.05)
        assert done.exists()
        assert resident_mb(client) - before < GROWTH_MB
        *notes, answer = answer_to(3)
        assert answer["result"]["content"] == [{"type": "text", "text": "second"}]
        progress = [note["params"] for note in notes if note["method"] == "notifications/progress"]
        assert progress[-1] == {"progressToken": "second", "progress": NOTES - 2}
        assert len(notes) < NOTES / 10
        client.stdin.close()
        assert client.wait(10) == 0
