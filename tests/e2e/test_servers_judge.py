"""A server judges the arguments of its tools: what it takes directly it takes through the gateway, and no more."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest

from .visit import Server, Visitor, beyond_gateway, configuration, directly, through

LENIENT = Server(name="lenient", command=[sys.executable, str(Path(__file__).with_name("servers") / "lenient.py")])
TAKEN = [
    ("add", {"a": 5}),
    ("add", {"a": "5"}),
    ("add", {"a": "5", "b": "6"}),
    ("tag", {"names": ["x", "y"], "deep": "true", "times": "2.5"}),
    ("tag", {"names": ["x"], "deep": 1}),
    ("shoot", {}),
    ("shoot", {"full": "yes"}),
]
NOT_TAKEN = [
    ("add", {"a": "five"}),
    ("add", {"a": 5, "b": None}),
    ("add", {}),
    ("add", {"a": 5, "bee": 6}),
    ("tag", {"names": '["x", "y"]'}),
]
NOTE = "Note by the gateway: the arguments do not fit the input schema of lenient:"


async def visit(v):
    await v.list_tools()
    for tool, arguments in [*TAKEN, *NOT_TAKEN]:
        await v.call(tool, arguments)


async def by_meta_tool(folder, mode):
    async with beyond_gateway(folder, mode, configuration(LENIENT)) as (made, witness):
        visitor = Visitor(made, witness, LENIENT.name, wrapped=True)
        await visit(visitor)
        return visitor


@pytest.fixture(scope="module", params=["legacy", "auto"])
def visits(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(f"lenient-{request.param}")

    async def all_three():
        direct = await directly(LENIENT, folder, request.param, visit)
        return direct, [
            await through(LENIENT, folder, request.param, visit),
            await by_meta_tool(folder, request.param),
        ]

    return anyio.run(all_three)


def test_what_the_server_takes_is_answered_as_it_answers(visits):
    direct, proxied = visits
    expected = direct.outcomes[: len(TAKEN)]
    assert [label for label, answer in expected if answer["result"].get("isError")] == []
    for visitor in proxied:
        assert visitor.outcomes[: len(TAKEN)] == expected


def test_its_errors_come_as_they_are_with_a_note_of_what_the_schema_forbids(visits):
    direct, proxied = visits
    for visitor in proxied:
        pairs = zip(direct.outcomes[len(TAKEN) :], visitor.outcomes[len(TAKEN) :], strict=True)
        for (label, expected), (_, answer) in pairs:
            assert expected["result"]["isError"], label
            *content, note = answer["result"]["content"]
            assert {**answer["result"], "content": content} == expected["result"], label
            assert note["type"] == "text"
            assert note["text"].startswith(NOTE), label
