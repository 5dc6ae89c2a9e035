"""What a broken server said last reaches whoever has to mend it: once, on one line, everywhere in the same words."""

from __future__ import annotations

import asyncio
import sys

import pytest

pytestmark = pytest.mark.anyio
PYTHON = [sys.executable, "-c"]
USAGE = [*PYTHON, "print('usage: tickets-mcp [--token TOKEN]\\n\\n  serves tickets')"]
COLOURS = [*PYTHON, "import sys; sys.exit('\\x1b[31mno\\r\\n\\x07token\\x1b[0m in the   environment')"]
TRACEBACK = [*PYTHON, "import sys; print('x' * 5000, file=sys.stderr); raise ModuleNotFoundError('no tickets')"]
FLOOD = [*PYTHON, "for _ in range(1234): print('GET /health 200', flush=True)\nimport sys\nsys.stdin.read()"]
SILENT = [*PYTHON, "import sys\nprint('listening on port 3000', file=sys.stderr, flush=True)\nsys.stdin.read()"]
BROKEN = {
    "usage": (USAGE, ("exited with code 0", "usage: tickets-mcp [--token TOKEN] serves tickets")),
    "colours": (COLOURS, ("exited with code 1", "; its last words: no token in the environment")),
    "traceback": (TRACEBACK, ("exited with code 1", "ModuleNotFoundError: no tickets")),
    "flood": (
        FLOOD,
        (
            "did not answer within 5 s",
            "what it wrote to its standard output is no JSON-RPC",
            "the first: 'GET /health 200'",
        ),
    ),
    "silent": (SILENT, ("did not answer within 5 s", "listening on port 3000")),
}
"""Command, and what is to be read everywhere."""
LONGEST = 1000
"""Of a reason [characters]."""
QUICK = ("--set", "gateway.start_timeout_s=5")


async def settled(client, site):
    """The servers' status by name, once all have been tried."""
    while True:
        status = {s["name"]: s for s in (await site.status(client))["servers"]}
        if all(one["state"] == "down" for one in status.values()):
            return status
        await asyncio.sleep(0.2)


async def test_its_last_words_are_in_the_status_the_log_and_the_error_of_a_call(site):
    site.configure(**{name: command for name, (command, _) in BROKEN.items()})
    async with site.connect(*QUICK, listed=False) as client:
        status = await settled(client, site)
        called = {
            name: site.text_of(await client.call_tool("call_tool", {"name": f"{name}:do", "arguments": {}}))
            for name in BROKEN
        }
    log = site.log.read_text().splitlines()
    for name, (_, parts) in BROKEN.items():
        reason = status[name]["reason"]
        assert len(reason) < LONGEST
        assert reason.isprintable(), reason
        for part in parts:
            for where in (reason, called[name]):
                assert part in where, (name, where)
            assert any(part in line and "not connected" in line and f"server={name}" in line for line in log), name


@pytest.mark.parametrize("name", ["usage", "flood"])
def test_the_doctor_says_the_same(site, name):
    command, parts = BROKEN[name]
    site.configure(**{name: command})
    checked = site.pml("plugins", "doctor", "--connect", *QUICK)
    (line,) = [line for line in checked.stdout.splitlines() if line.startswith("FAIL") and f"server {name}" in line]
    for part in parts:
        assert part in line, checked.stdout


async def test_a_server_that_fails_again_and_again_has_one_line_in_the_log(site):
    site.configure(**{f"bad{n}": TRACEBACK for n in range(9)})
    async with site.connect(*QUICK, listed=False) as client:
        async with asyncio.timeout(120):
            while min(s["restarts"] for s in (await site.status(client))["servers"]) < 3:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.2)
        log = site.log.read_text()
    for n in range(9):
        assert 1 <= sum(f"server=bad{n}" in line for line in log.splitlines()) <= 2, log  # the fifth failure has one
    assert len(log) < 9 * 2 * LONGEST
