"""What the demo does with the gateway, and what came of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from pml_kit.mcp.tokens import estimate, text_of_result, text_of_tool

from .client import Gateway, started
from .materials import Materials, Trace, look
from .plan import SOUGHT, workflow
from .problem import DemoError
from .progress import Steps
from .setup import DemoSetup

MODES = ("full_proxy", "hybrid", "semantic", "meta_only")
"""From most to least in the client's context."""
INTENT, INTENT_WITHOUT_GIT = "show the git log", "query the database"
"""What the modes that choose by intent are told."""
QUERY = "read rows from the database"
UP_S, ASK_AGAIN_S = 45.0, 0.2
"""Longest wait for all servers to come up, and how often to ask [s]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """What one exposure mode puts into a client's context."""

    mode: str
    tools: int
    tokens: int
    """Tokens of the list, estimated by :mod:`pml_kit.mcp.tokens`."""
    saved_percent: float
    """Share of the tokens of the list of all tools. A task saves less, see :class:`TaskCost`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCost:
    """What the plan as one task takes of a model's context, and how many requests, in one way of doing it."""

    tokens: int
    """Tokens of the list and of all requests and answers."""
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One workflow, rehearsed and run."""

    request: dict[str, Any]
    rehearsed: dict[str, Any]
    ran: dict[str, Any]
    before: Trace
    after_rehearsal: Trace
    after_run: Trace
    answer: str
    """What a model reads of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that the demo shows."""

    version: str
    """Version of the gateway."""
    servers: list[dict[str, Any]]
    """name, package, state, tools."""
    modes: list[Mode]
    intent: str
    task_listed: TaskCost
    """With every tool listed, and one call for each step."""
    task_searched: TaskCost
    """With the meta-tools: a search for each step, then one plan."""
    search: dict[str, Any]
    """The query, and the answer of ``search_tools``."""
    plan: Plan
    history: dict[str, Any]
    """The answer of ``list_recent_executions``, and as ``last`` what ``get_execution_result`` tells of the newest."""
    notes: list[str]
    """What was left out, and why."""


def tokens_of(tools: Sequence[dict[str, Any]]) -> int:
    """What a list of tools takes in a client's context, as ``pml tokens`` counts it [tokens]."""
    return sum(estimate(text_of_tool(tool)) for tool in tools)


class Story:
    """Tells the demo from beginning to end."""

    def __init__(self, folder: Path, steps: Steps, log: TextIO, *, node: bool) -> None:
        """``folder`` exists and is empty; ``log`` is a file that the gateway's log goes to."""
        self._materials, self._steps, self._log = Materials(folder), steps, log
        self._setting_up = DemoSetup(self._materials, steps, node=node)

    async def tell(self) -> Report:
        """Install, start, ask, run, and look at the history.

        Raises:
            DemoError: Something did not work.
        """
        await self._setting_up.run()
        with self._steps.step("Start PML and its servers, search, rehearse, run"):
            async with started(self._materials, self._log, "--mode", "meta_only") as gateway:
                rows = await self._up(gateway)
                listed = {"meta_only": await gateway.tools()}
                search = {"query": QUERY, **await gateway.call("search_tools", {"query": QUERY, "limit": 3})}
                plan = await self._plan(gateway)
                history = await self._history(gateway)
                searches = await self._searches(gateway, plan)
                version = gateway.version
        with self._steps.step("List the tools in every mode"):
            others = [mode for mode in MODES if mode not in listed]
            listed.update(zip(others, await asyncio.gather(*map(self._list, others)), strict=True))
        return Report(
            version=version,
            servers=rows,
            modes=_compared(listed),
            intent=self._intent,
            task_listed=_listed(listed["full_proxy"], plan),
            task_searched=_searched(listed["meta_only"], searches, plan),
            search=search,
            plan=plan,
            history=history,
            notes=self._setting_up.notes,
        )

    @property
    def _with_git(self) -> bool:
        return self._materials.repository.is_dir()

    @property
    def _intent(self) -> str:
        return INTENT if self._with_git else INTENT_WITHOUT_GIT

    async def _up(self, gateway: Gateway) -> list[dict[str, Any]]:
        """One row per server once none is starting any more."""
        states: dict[str, dict[str, Any]] = {}
        try:
            async with asyncio.timeout(UP_S):
                while not states or any(s["state"] == "starting" for s in states.values()):
                    await asyncio.sleep(ASK_AGAIN_S if states else 0)
                    states = {s["name"]: s for s in (await gateway.status())["servers"]}
        except TimeoutError:
            pass
        rows = [
            {"name": s.name, "package": s.package, "state": about["state"], "tools": about["tools"]}
            for s in self._setting_up.servers
            if (about := states.get(s.name)) is not None
        ]
        down = [f"{s['name']} ({s['reason'] or s['state']})" for s in states.values() if s["state"] != "up"]
        if down or len(rows) != len(self._setting_up.servers):
            raise DemoError(f"not every server came up: {'; '.join(down) or 'the gateway does not know all of them'}")
        return rows

    async def _plan(self, gateway: Gateway) -> Plan:
        request = workflow(self._materials, with_git=self._with_git)
        before = look(self._materials)
        rehearsed = await gateway.call("execute_workflow", {**request, "dry_run": True})
        after_rehearsal = look(self._materials)
        if after_rehearsal != before:
            raise DemoError(f"the rehearsal changed something: before {before}, after {after_rehearsal}")
        told, answer = await gateway.answer("execute_workflow", {**request, "dry_run": False})
        after_run = look(self._materials)
        if after_run.rows != before.rows + 1 or told["status"] != "completed":
            raise DemoError(f"the run did not add its one row: before {before}, after {after_run}; it answered {told}")
        # The answer has the results of the last tasks, the history those of all.
        ran = (await self._history(gateway))["last"]["response"]
        return Plan(
            request=request,
            rehearsed=rehearsed,
            ran=ran,
            before=before,
            after_rehearsal=after_rehearsal,
            after_run=after_run,
            answer=answer,
        )

    async def _searches(self, gateway: Gateway, plan: Plan) -> list[str]:
        """What a model asks and is answered to find the tools of the plan, one search for each step."""
        asked = [{"query": SOUGHT[task["id"]]} for task in plan.request["workflow"]["tasks"]]
        return [f"{_json(query)}{(await gateway.answer('search_tools', query))[1]}" for query in asked]

    async def _history(self, gateway: Gateway) -> dict[str, Any]:
        history = await gateway.call("list_recent_executions", {"hours": 1, "limit": 5})
        if not history["executions"]:
            raise DemoError("the history is empty, although a search and a plan have just run")
        newest = history["executions"][0]
        asked = {"agent_name": newest["agent_name"], "execution_id": newest["id"]}
        return {**history, "last": (await gateway.call("get_execution_result", asked))["execution"]}

    async def _list(self, mode: str) -> list[dict[str, Any]]:
        """What a client sees in ``mode``; the gateway knows all tools from the first start."""
        async with started(self._materials, self._log, "--mode", mode) as gateway:
            return await gateway.tools(self._intent if mode in ("semantic", "hybrid") else "")


def _listed(tools: Sequence[dict[str, Any]], plan: Plan) -> TaskCost:
    """Each step as a call of its own."""
    asked = [_json(task["arguments"]) for task in plan.request["workflow"]["tasks"]]
    answered = [
        result if isinstance(result, str) else text_of_result(result)
        for result in (task.get("result") for task in plan.ran["tasks"])
    ]
    return TaskCost(tokens=tokens_of(tools) + sum(map(estimate, [*asked, *answered])), requests=len(asked))


def _searched(tools: Sequence[dict[str, Any]], searches: Sequence[str], plan: Plan) -> TaskCost:
    """Searches, then the plan."""
    said = [*searches, _json(plan.request), plan.answer]
    return TaskCost(tokens=tokens_of(tools) + sum(map(estimate, said)), requests=len(searches) + 1)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _compared(listed: dict[str, list[dict[str, Any]]]) -> list[Mode]:
    whole = max(1, tokens_of(listed["full_proxy"]))
    tokens = {mode: tokens_of(tools) for mode, tools in listed.items()}
    return [
        Mode(
            mode=mode,
            tools=len(listed[mode]),
            tokens=tokens[mode],
            saved_percent=round(100 * (1 - tokens[mode] / whole), 1),
        )
        for mode in MODES
    ]
