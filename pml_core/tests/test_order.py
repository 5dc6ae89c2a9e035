"""Within a phase, wrappers say in which order they run; names decide nothing."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest

from pml_hookspecs import Phase, hookimpl
from pml_kit.order import in_order
from pml_testing.gateway import Client, ScriptedServer, running

ADDRESS = "ada@example.org"


def placed(plugin, phase=Phase.AUDIT, **says):
    return SimpleNamespace(plugin=plugin, wrapper=SimpleNamespace(phase=phase, **says))


def names(*wrappers):
    ordered, problems = in_order(wrappers)
    assert problems == []
    return "".join(one.plugin for one in ordered)


def test_before_and_after_decide():
    assert names(placed("a"), placed("b"), placed("c", before=("a",))) == "bca"
    assert names(placed("a", after=("c",)), placed("b", after=("a",)), placed("c")) == "cab"
    assert names(placed("a", after=("b?", "gone?")), placed("b")) == "ba"
    assert names(placed("a", Phase.RETRY, after=("b",)), placed("b")) == "ba"


@pytest.mark.parametrize(
    ("wrappers", "said"),
    [
        ([placed("a", before=("b",)), placed("b", before=("a",))], "wrappers in AUDIT go round in a circle (a, b)"),
        (
            [placed("a", before=("ledgr",)), placed("ledger")],
            "'ledgr', which wraps nothing here; did you mean 'ledger'?",
        ),
        ([placed("a", after=("zzz",))], "to run after 'zzz', which wraps nothing here; write 'zzz?'"),
        ([placed("a", before=("b",)), placed("b", Phase.OBSERVE)], "to run before 'b', whose phase says the opposite"),
    ],
)
def test_what_cannot_be_had_is_told_and_all_run_nevertheless(wrappers, said):
    ordered, problems = in_order(wrappers)
    assert len(ordered) == len(wrappers)
    assert len(problems) == 1
    assert said in problems[0]


class Redactor:
    """Takes addresses out of the arguments of calls."""

    phase = Phase.AUDIT
    before = ("database",)

    async def __call__(self, task, run, call_next):
        clean = {k: str(v).replace(ADDRESS, "[address]") for k, v in task.arguments.items()}
        return await call_next(type(task)(id=task.id, tool=task.tool, arguments=clean), run)


class Database:
    """Keeps what was asked."""

    phase = Phase.AUDIT

    def __init__(self):
        self.rows = []

    async def __call__(self, task, run, call_next):
        self.rows.append(json.dumps(task.arguments))
        return await call_next(task, run)


@pytest.mark.parametrize("name", ["mask", "a_mask"])
def test_a_redactor_stands_before_the_database_whatever_it_is_called(name):
    database = Database()
    wrapping = {name: Redactor(), "database": database}
    plugins = {
        ("hooks", plugin): SimpleNamespace(pml_wrap_executor=hookimpl(lambda services, one=one: [one]))
        for plugin, one in wrapping.items()
    }

    async def call():
        async with running({"mail": ScriptedServer(["send"])}, plugins=plugins) as made:
            await Client(made).call("mail__send", {"to": ADDRESS})

    asyncio.run(call())
    assert database.rows == ['{"to": "[address]"}']
