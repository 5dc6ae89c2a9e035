"""An agent's and a plan's answer, and what it cost, is in the history when the gateway is killed right after it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_process import GatewayProcess, Site

from pml_testing.postgres import HOW, Cluster, cluster, programs

pytestmark = pytest.mark.anyio
TIMES = 3
PAID = {"result": "done", "total_cost_usd": 0.25}
CONFIG = """
[gateway]
tools_exposure = "full_proxy"
block = ["dbos"]
store = "{store}"
durability = "soon"

[plugins.postgres]
url = "{url}"

[plugins.agents.agents.paid]
command = {command}
parser = "json"

[servers.counting]
command = {server}
args = {args}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster | None]:
    if programs() is None:
        yield None
        return
    with cluster() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgres"])
def site(request: pytest.FixtureRequest, tmp_path: Path, server: Cluster | None) -> Site:
    if request.param == "postgres" and server is None:
        pytest.skip(HOW)
    made = Site(tmp_path)
    agent = [sys.executable, "-c", f"print({json.dumps(json.dumps(PAID))})"]
    made.config.write_text(
        CONFIG.format(
            store=request.param,
            url=server.database() if server is not None and request.param == "postgres" else "",
            command=json.dumps(agent),
            server=json.dumps(sys.executable),
            args=json.dumps([str(Path(__file__).with_name("counting_server.py")), str(made.traces)]),
        )
    )
    return made


async def killed_after(site: Site, tool: str, arguments: dict[str, Any]) -> None:
    """Kill the gateway as soon as it has answered."""
    gateway = await GatewayProcess(site).start()
    await gateway.hello()
    answer = await gateway.call(tool, arguments)
    await gateway.kill()
    assert not answer.get("isError"), answer


async def history(site: Site) -> list[dict[str, Any]]:
    code, said = await site.pml("executions", "list", "--json", "--limit", "100")
    assert code == 0, said
    executions: list[dict[str, Any]] = json.loads(said)["executions"]
    return executions


async def test_what_an_agent_answered_and_cost_is_there(site: Site) -> None:
    for _ in range(TIMES):
        await killed_after(site, "agents__paid", {"message": "work"})
    ended = [(one["status"], one["cost_usd"]) for one in await history(site)]
    assert ended == [("success", 0.25)] * TIMES


async def test_what_an_agent_cost_within_a_plan_is_there(site: Site) -> None:
    tasks = [
        {"id": "look", "tool": "counting:look", "arguments": {"key": "k"}},
        {"id": "ask", "tool": "agents:paid", "arguments": {"message": "work"}, "depends_on": ["look"]},
    ]
    for _ in range(TIMES):
        await killed_after(site, "execute_workflow", {"workflow": {"tasks": tasks}})
    found = await history(site)
    assert {one["status"] for one in found} == {"success"}
    # Each run of the agent is a row of its own, and what the plan cost besides is the plan's.
    assert [one["agent_name"] == "paid" for one in found].count(True) == TIMES, found
    assert len(found) == 2 * TIMES, found
