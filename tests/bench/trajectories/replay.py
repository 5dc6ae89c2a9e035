"""Every task in every way, and what each took."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from . import request, session
from .flow import Flow, Result, flow_of, has, stages
from .session import Exchange, Peer, States
from .suite import Suite, Task
from .tokens import Tokenizer, quarter

WAYS = ("direct", "call", "plan", "select", "code", "stages")
"""Direct calls; one search and ``call_tool`` for each; a plan; a plan with ``select``; code; plans between looks."""
PLACES = ("alone", "beside")
LISTED = "[plugins.code_mode]\nlisted = true"
MORE = 3
"""Tools that a search may show beyond the gold ones."""
MOST = 50
"""Tools of one search, which the tool allows."""


@dataclass
class Cost:
    """What one task took in one way; counts in tokens, and in quarters of bytes."""

    definitions: int = 0
    """What ``tools/list`` and ``search_tools`` bring."""
    arguments: int = 0
    results: int = 0
    quarters: int = 0
    """All three by the quarter of their bytes."""
    trips: int = 0
    again: int = 0
    """Tokens of the second searches, which nothing above has."""
    again_trips: int = 0
    seconds: float = 0.0
    same: bool = True
    """Whether the servers end in the state that direct calls leave."""
    told: int = 0
    """Texts to be told to the user that are in what was answered."""
    problem: str = ""

    @property
    def total(self) -> int:
        return self.definitions + self.arguments + self.results


@dataclass
class Search:
    """What the searches of one task found."""

    gold: int = 0
    found: int = 0
    """By the user's words."""
    missed: list[str] = field(default_factory=list)
    """Neither by these nor by a second search with the words of their names."""
    first: list[Exchange] = field(default_factory=list)
    second: list[Exchange] = field(default_factory=list)


@dataclass
class Row:
    """One task."""

    id: str
    calls: int
    tools: int
    turns: int
    told: int
    """Texts to be told to the user that direct calls answer with."""
    origins: dict[str, int]
    failing: int
    costs: dict[str, dict[str, Cost]] = field(default_factory=lambda: {place: {} for place in PLACES})
    recall: dict[str, tuple[int, int, list[str]]] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Row:
        """The inverse of :meth:`plain`."""
        costs = {place: {way: Cost(**one) for way, one in ways.items()} for place, ways in plain["costs"].items()}
        return cls(**{**plain, "costs": costs})


class Replay:
    """One suite.

    Args:
        others: The command of the server with the tools of others.
        step: Called with a text whenever a task has gone one way.
    """

    def __init__(self, suite: Suite, others: Sequence[str], tokenizer: Tokenizer, step: Callable[[str], None]) -> None:
        self._suite, self._others, self._count, self._step = suite, others, tokenizer.count, step
        self._flows: dict[str, list[Flow]] = {}
        self._results: dict[str, list[list[Result]]] = {}
        self._states: dict[str, Any] = {}
        self._rows: dict[str, Row] = {}

    @staticmethod
    def steps(tasks: int) -> int:
        """How often ``step`` is called."""
        return tasks * (1 + len(PLACES) * len(WAYS))

    async def run(self) -> list[Row]:
        """All rows, in the order of tasks."""
        await self._direct()
        for place, others in zip(PLACES, (None, self._others), strict=True):
            async with session.gateway(self._suite, others) as (peer, states):
                searches = await self._search(peer, place)
                for way in ("call", "plan", "select", "stages"):
                    await self._go(peer, states, place, way, getattr(self, f"_{way}"), searches)
            async with session.gateway(self._suite, others, LISTED) as (peer, states):
                await self._go(peer, states, place, "code", self._code, searches)
        return list(self._rows.values())

    async def _direct(self) -> None:
        async with session.crowd(self._others) as peer:
            theirs = await peer.definitions()
        async with session.direct(self._suite) as (peers, states):
            listed = {name: await peer.definitions() for name, peer in peers.items()}
            for task in self._suite.tasks:
                self._step(f"{self._suite.name} direct")
                states.reset(task)
                exchanges: list[Exchange] = []
                self._flows[task.id], self._results[task.id] = [], []
                seen = ""
                for turn in task.turns:
                    said = [await peers[call.server].call(call.tool, call.arguments) for call in turn.calls]
                    results = [Result(one.text, one.failed) for one in said]
                    seen += f"{turn.words}\n"
                    self._flows[task.id].append(flow_of(turn, results, self._suite.reads, seen))
                    self._results[task.id].append(results)
                    exchanges += said
                    seen += "\n".join(one.text for one in said)
                self._states[task.id] = states.of(task)
                self._begin(task, exchanges)
                mine = [one for name in task.servers for one in listed[name]]
                for place, shown in zip(PLACES, (mine, mine + theirs), strict=True):
                    self._enter(task, place, "direct", exchanges, shown, Search())
                    self._step(f"{self._suite.name} direct")

    def _begin(self, task: Task, exchanges: Sequence[Exchange]) -> None:
        calls = [call for turn in task.turns for call in turn.calls]
        origins: dict[str, int] = {}
        for flow in self._flows[task.id]:
            origins = {name: origins.get(name, 0) + count for name, count in flow.origins.items()}
        told, failing = _told(task, exchanges), sum(one.failed for one in exchanges)
        tools = len({call.name for call in calls})
        self._rows[task.id] = Row(task.id, len(calls), tools, len(task.turns), told, origins, failing)

    def _enter(self, task: Task, place: str, way: str, exchanges, definitions, search: Search) -> Cost:
        searched = search.first
        cost = Cost(trips=len(exchanges) + len(searched), told=_told(task, exchanges))
        cost.again = sum(self._count(one.request) + self._count(one.text) for one in search.second)
        cost.again_trips = len(search.second)
        cost.seconds = sum(one.seconds for one in (*exchanges, *searched))
        read = [*definitions, *(one.text for one in searched)]
        written, results = [one.request for one in (*exchanges, *searched)], [one.text for one in exchanges]
        cost.definitions, cost.arguments, cost.results = (sum(map(self._count, t)) for t in (read, written, results))
        cost.quarters = sum(map(quarter, (*read, *written, *results)))
        self._rows[task.id].costs[place][way] = cost
        return cost

    async def _search(self, peer: Peer, place: str) -> dict[str, Search]:
        """Searches of each turn that needs tools that are not known yet, before anything has run.

        The first has the user's words. Where it misses tools, whoever knows what is needed searches once more.
        """
        found = {}
        for task in self._suite.tasks:
            search, known = Search(), set()
            for turn in task.turns:
                gold = dict.fromkeys(call.name for call in turn.calls if call.name not in known)
                if gold:
                    limit = min(MOST, len(gold) + MORE)
                    names = await _found(peer, turn.words, limit, search.first)
                    search.gold += len(gold)
                    search.found += len(gold.keys() & names)
                    if missed := [name for name in gold if name not in names]:
                        again = ", ".join(name.partition("__")[2].replace("_", " ") for name in missed)
                        names |= await _found(peer, again, min(MOST, len(missed) + MORE), search.second)
                    search.missed += [name for name in missed if name not in names]
                    known |= names | gold.keys()
            found[task.id] = search
            self._rows[task.id].recall[place] = (search.found, search.gold, search.missed)
            self._step(f"{self._suite.name} {place} search")
        return found

    async def _go(self, peer: Peer, states: States, place: str, way: str, send, searches: Mapping[str, Search]) -> None:
        definitions = await peer.definitions()
        for task in self._suite.tasks:
            states.reset(task)
            exchanges: list[Exchange] = []
            for flow, results in zip(self._flows[task.id], self._results[task.id], strict=True):
                exchanges += await send(peer, flow, results)
            cost = self._enter(task, place, way, exchanges, definitions, searches[task.id])
            cost.same = states.of(task) == self._states[task.id]
            cost.problem = _problem(way, exchanges)
            self._step(f"{self._suite.name} {place} {way}")

    async def _call(self, peer: Peer, flow: Flow, results: list[Result]) -> list[Exchange]:
        return [
            await peer.call("call_tool", {"name": call.name, "arguments": call.arguments}) for call in flow.turn.calls
        ]

    async def _plan(self, peer: Peer, flow: Flow, results: list[Result]) -> list[Exchange]:
        return [await peer.call(*request.request(flow, results, select=False))]

    async def _select(self, peer: Peer, flow: Flow, results: list[Result]) -> list[Exchange]:
        return [await peer.call(*request.request(flow, results, select=True))]

    async def _stages(self, peer: Peer, flow: Flow, results: list[Result]) -> list[Exchange]:
        exchanges = []
        for part, numbers in stages(flow):
            mine = [results[number] for number in numbers]
            exchanges.append(await peer.call(*request.request(part, mine, select=False)))
        return exchanges

    async def _code(self, peer: Peer, flow: Flow, results: list[Result]) -> list[Exchange]:
        return [await peer.call("run_code", request.code(flow, results))]


async def _found(peer: Peer, query: str, limit: int, exchanges: list[Exchange]) -> set[str]:
    """Names of the tools that a search brings."""
    one = await peer.call("search_tools", {"query": query, "limit": limit})
    exchanges.append(one)
    return set() if one.failed else {tool["name"] for tool in json.loads(one.text)["tools"]}


def _told(task: Task, exchanges: Sequence[Exchange]) -> int:
    text = "\n".join(one.text for one in exchanges).lower()
    wanted = [told.lower().replace(",", "") for turn in task.turns for told in turn.told]
    return sum(has(text, one) for one in wanted)


def _problem(way: str, exchanges: Sequence[Exchange]) -> str:
    """What went wrong in a plan or code; calls may fail as they do directly."""
    if way == "call":
        return ""
    for one in exchanges:
        single = one.request.startswith('{"name":"call_tool"')
        ended = way == "code" or '"status":"completed"' in one.text[:40]
        if not single and (one.failed or not ended or '"select_error"' in one.text):
            return f"{one.request[:1500]} -> {one.text[:1500]}"
    return ""
