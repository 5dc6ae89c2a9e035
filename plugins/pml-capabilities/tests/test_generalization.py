from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lessons import Gateway, code, run_of

from pml_capabilities.capability import from_value, to_value
from pml_capabilities.generalization import skeleton
from pml_capabilities.literals import find
from pml_hookspecs import CapabilityRun

pytestmark = pytest.mark.anyio


def told(language, source):
    return [(one.value, one.name, source[one.start : one.end]) for one in find(language, source).literals]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("return await tools.a.b(query='is:open', most=3)", [("is:open", "query"), (3, "most")]),
        ("least = -10\nreturn [x for x in all if x['votes'] >= 7.5]", [(-10, "least"), (7.5, "votes")]),
        ("return rows[:3] + rows[0] + rows['a']", [(3, "")]),
        ("return {'state': 'open', 'n': [1, True, None, b'x']}", [("open", "state"), (1, ""), (True, "")]),
        ("def f(a: 'int' = 5) -> 'str':\n    'Why.'\n    return a\nreturn f()", [(5, "")]),
        ("x: 'int' = 5\nreturn x", [(5, "x")]),
        ("é = 'ü'; y = 'ö'\nreturn é + y", [("ü", "é"), ("ö", "y")]),
        ("return 1e999, 99999999999999999999, 2j", []),
        ("return f'{1} of' + 'x'", [("x", "")]),
        ("match a:\n    case 'x': pass", []),
        ("not python (", []),
        ("return inputs['a'] + 1", []),
    ],
)
def test_literals_of_python(source, expected):
    found = told("python", source)
    assert [one[:2] for one in found] == expected
    for value, _, text in found:
        assert ast.literal_eval(text) == value


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "const least = 10;\nreturn all.items.filter((bug) => bug.votes >= 7 && bug.open === true);",
            [(10, "least"), (7, "votes"), (True, "open")],
        ),
        ("await tools.a.b({ query: 'is:\\n\"open\"', 'most': 3 })", [('is:\n"open"', "query"), (3, "most")]),
        ("return a ? 'b' : \"c\"", [("b", ""), ("c", "")]),
        ("return rows[0].concat(['x'], rows.slice(1, 2))", [("x", ""), (1, ""), (2, "")]),
        ("return `a ${ f('x', `${'y'}`) } b` + 'z' // 'no'\n/* 'no' */", [("z", "")]),
        ("return a / 2 / 3 + (b) / 4", [(2, ""), (3, ""), (4, "")]),
        ("return /'\\/[/']/g.test('a')", [("a", "")]),
        ("const m = await import('node:fs'); return require('x')", []),
        ("'use strict'; type A = 'x' | 'y'; const b = 'c' as const; return 0x10 + 1n + 1_0 + -5", []),
        ("enum A { X = 'a' }", [("a", "X")]),
        ("return 'unfinished", []),
        ("return `unfinished ${", []),
        ("return (a) /'x'/ 2", []),
        ("return inputs.a + 1", []),
        ("return '\\u0041' + '\\\n' + 'b'", [("b", "")]),
    ],
)
def test_literals_of_scripts(source, expected):
    assert [one[:2] for one in told("typescript", source)] == expected


@given(st.text(alphabet="'\"`/\\\n ${}()[]=:;,.-+*ab01#é", max_size=40), st.sampled_from(["python", "typescript"]))
def test_any_text_can_be_looked_at(source, language):
    for one in find(language, source).literals:
        assert source[one.start : one.end]
    skeleton(language, source)


async def test_code_that_differs_in_literals_is_one_capability_with_inputs(store):
    gateway = Gateway(store, proven_after=3)
    text = "const found = await tools.web.get({{ query: {q}, most: 5 }});\nreturn found.filter((f) => f.votes > {n});"
    for q, n in (("'is:open'", 10), ("'is:closed'", 10), ('"is:open"', 2.5)):
        await gateway.ran(code(text.format(q=q, n=n)), run_of(), calls=["web:get"])
    found = await gateway.learned()
    assert (found.successes, found.code) == (3, text.format(q='inputs["query"]', n='inputs["votes"]'))
    assert found.inputs == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "default": "is:open"},
            "votes": {"type": "number", "default": 10},
        },
        "required": [],
        "additionalProperties": False,
    }
    assert from_value(found.id, to_value(found)) == found
    await gateway.publisher.look()
    (tool,) = gateway.tools.values()
    assert tool.task({"query": "is:late"}).inputs == {"query": "is:late"}
    await gateway.services.stop()


async def test_what_is_left_out_is_as_it_was_learned_first(gateway, store):
    from pml_capabilities import Capabilities, Settings

    for n in (3, 4):
        await gateway.ran(code(f"return {n} * a", inputs={"a": 1}), run_of())
    known, run = await gateway.learned(), run_of()
    await Capabilities(Settings(), gateway.services).execute(
        CapabilityRun(id="t", capability_id=known.id, inputs={"a": 2}), run
    )
    (task,) = run.dispatched
    assert (task.source, dict(task.inputs)) == ('return inputs["number_value"] * a', {"a": 2, "number_value": 3})


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("return f(max={}) or max(a)", "max_value"),
        ("sum = {}\nreturn sum", "sum"),
        ("def f():\n    sum = {}\n    return sum\nreturn f() + sum(a)", "sum_value"),
        ("return g(**{{'not a name': {}}})", "number_value"),
        ("return g(inputs={})", "number_value"),
        ("return f(a={})", "a_2"),
    ],
)
async def test_an_input_has_no_name_that_the_code_means_otherwise(gateway, source, name):
    for n in (1, 2):
        await gateway.ran(code(source.format(n), language="python", inputs={"a": 1}), run_of())
    found = await gateway.learned()
    assert set(found.inputs["properties"]) == {"a", name}
    assert f'inputs["{name}"]' in found.code


async def test_an_input_keeps_its_name_and_first_value_when_others_come(gateway):
    for a, b in ((1, 2), (1, 3), (4, 2), (5, 6)):
        await gateway.ran(code(f"return f(x={a}) + f(x={b})", language="python"), run_of())
    found = await gateway.learned()
    assert found.code == 'return f(x=inputs["x"]) + f(x=inputs["x_2"])'
    assert {name: kind["default"] for name, kind in found.inputs["properties"].items()} == {"x": 1, "x_2": 2}


@pytest.mark.attack(
    "A key sees its scope", "run another's code with literals of one's own, and read theirs as defaults"
)
async def test_literals_of_one_are_not_told_to_another(store):
    gateway = Gateway(store)
    for principal, word in (("alice", "'carol is leaving'"), ("alice", "'x'"), ("bob", "'a'"), ("bob", "'b'")):
        await gateway.ran(code(f"return f({word})"), run_of(principal=principal))
    mine = [one for one in await gateway.library.all() if one.visible("bob", gateway.settings)]
    assert [dict(one.inputs["properties"]) for one in mine] == [{"text_value": {"type": "string", "default": "a"}}]
    assert "carol" not in str(mine)
    await gateway.services.stop()
