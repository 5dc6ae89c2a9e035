"""A bad server gets one clear message and harms no other: in the log, in the status, and from the doctor."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.anyio
MISSING = ["/no/such/program"]


async def settled(client, site):
    """The servers' status by name, once none is starting any more."""
    status = {s["name"]: s for s in (await site.status(client))["servers"]}
    assert "starting" not in {s["state"] for s in status.values()}
    return status


async def good_one_works(client, site):
    echoed = await client.call_tool("plain__echo", {"text": "still here"})
    return site.text_of(echoed) == "still here"


def command_of(fault, site):
    return MISSING if fault == "missing" else site.plain("--bad", fault)


NOT_UP = {
    "missing": ("'/no/such/program' does not exist",),
    "exit": ("code 1", "cannot open the database"),
    "only-junk": ("did not answer within 3 s", "check that it speaks MCP"),
}
"""Fault to what the reason must hold."""
QUICK = ("--set", "gateway.start_timeout_s=3")


@pytest.mark.parametrize("fault", NOT_UP)
async def test_the_status_says_which_server_is_missing_and_why(site, fault):
    site.configure(plain=site.plain(), bad=command_of(fault, site))
    async with site.connect(*QUICK) as client:
        status = await settled(client, site)
        assert status["plain"]["state"] == "up"
        assert status["bad"]["state"] == "down"
        for part in NOT_UP[fault]:
            assert part in status["bad"]["reason"]
        assert await good_one_works(client, site)


@pytest.mark.parametrize("fault", NOT_UP)
async def test_the_log_says_which_server_is_missing_and_why(site, fault):
    site.configure(plain=site.plain(), bad=command_of(fault, site))
    async with site.connect(*QUICK) as client:
        await settled(client, site)
    log = site.log.read_text()
    lines = [line for line in log.splitlines() if "server is not connected" in line]
    assert lines
    assert all("server=bad" in line for line in lines)
    for part in NOT_UP[fault]:
        assert part in log


@pytest.mark.parametrize("fault", NOT_UP)
async def test_a_call_to_a_missing_server_says_so_and_what_to_do(site, fault):
    site.configure(plain=site.plain(), bad=command_of(fault, site))
    async with site.connect(*QUICK) as client:
        await settled(client, site)
        task = {"id": "t", "tool": "bad:echo", "arguments": {"text": "x"}}
        failed = await client.call_tool("execute_workflow", {"workflow": {"tasks": [task]}})
    assert failed.is_error
    assert "MCP server bad not connected" in site.text_of(failed)
    for part in NOT_UP[fault]:
        assert part in site.text_of(failed)


@pytest.mark.parametrize("fault", NOT_UP)
def test_the_doctor_names_the_bad_server_and_only_that(site, fault):
    site.configure(plain=site.plain(), bad=command_of(fault, site))
    checked = site.pml("plugins", "doctor", "--connect", *QUICK)
    assert checked.returncode == 1
    failures = [line for line in checked.stdout.splitlines() if line.startswith("FAIL") and "server" in line]
    assert len(failures) == 1
    assert "server bad" in failures[0]
    for part in NOT_UP[fault]:
        assert part in checked.stdout
    assert "server plain" in checked.stdout


@pytest.mark.parametrize("fault", ["junk", "only-junk"])
async def test_junk_is_warned_of_once_with_an_example(site, fault):
    site.configure(bad=site.plain("--bad", fault))
    async with site.connect(*QUICK) as client:
        await client.call_tool("bad__echo", {"text": "x"})
    warned = [line for line in site.log.read_text().splitlines() if "[warning" in line and "JUNK" in line.upper()]
    assert len(warned) == 1
    assert "bad" in warned[0]
    assert "starting up, please wait" in warned[0]


async def test_junk_between_messages_is_passed_over(site):
    site.configure(plain=site.plain("--bad", "junk"))
    async with site.connect("--mode", "full_proxy") as client:
        assert {t.name for t in (await client.list_tools()).tools} >= {"plain__echo"}
        assert await good_one_works(client, site)


@pytest.mark.parametrize(
    ("fault", "tool"), [("empty-schema", "shapeless"), ("duplicate", "echo"), ("nameless", "Has no name")]
)
async def test_a_tool_that_is_listed_badly_hides_no_other(site, fault, tool):
    site.configure(bad=site.plain("--bad", fault), plain=site.plain())
    async with site.connect("--mode", "full_proxy") as client:
        listed = [t.name for t in (await client.list_tools()).tools]
        assert {"bad__echo", "bad__fail", "plain__echo"} <= set(listed)
        assert len(listed) == len(set(listed))
        assert (await client.call_tool("bad__echo", {"text": "x"})).is_error is False
        assert await good_one_works(client, site)
    warned = [line for line in site.log.read_text().splitlines() if "[warning" in line and "server=bad" in line]
    assert len(warned) == 1
    assert tool in warned[0]


async def test_a_tool_with_an_empty_schema_is_listed_with_one_that_clients_accept(site):
    site.configure(bad=site.plain("--bad", "empty-schema"))
    async with site.connect("--mode", "full_proxy") as client:
        shapeless = next(t for t in (await client.list_tools()).tools if t.name == "bad__shapeless")
        assert shapeless.input_schema["type"] == "object"
        assert not (await client.call_tool("bad__shapeless", {})).is_error
