from __future__ import annotations

import pytest

from pml_hookspecs import RawObject
from pml_kit.expressions import Expression, ExpressionError
from pml_testing.work import counted


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("a.n > `3`", True),
        ("a.n > `4`", False),
        ("a.n == `4` && b", False),
        ("a.missing", False),
        ("nobody", False),
        ("!b", True),
        ("a.zero", True),
        ("a.list[?n > `1`]", True),
        ("a.list[?n > `9`]", False),
        ("length(a.list) == `2`", True),
        ("contains(a.text, 'el')", True),
        ('"my-task".ok', True),
        ("a.text", True),
        ("a.none", False),
        ("a.empty", False),
        ("c.raw == `1`", True),
    ],
)
def test_a_condition_holds_as_jmespath_says(text, holds):
    a = {"n": 4, "zero": 0, "list": [{"n": 1}, {"n": 2}], "text": "hello", "none": None, "empty": {}}
    results = {"a": a, "b": None, "my-task": {"ok": True}, "c": RawObject(b'{"raw":1}')}
    assert Expression(text).holds(results) is holds


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a.b[0] > c", ["a", "c"]),
        ("a | b", ["a"]),
        ("a[?b == 'x'].c", ["a"]),
        ("max_by(a.b, &c).d", ["a"]),
        ("{x: a, y: [b, c]}", ["a", "b", "c"]),
        ("sum(a[].b) > `1` || !d.*.e", ["a", "d"]),
        ("@", []),
    ],
)
def test_it_knows_the_results_it_looks_at(text, names):
    assert list(Expression(text).names) == names


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a[", "is no JMESPath expression: Invalid jmespath expression: Incomplete expression"),
        ("a $ b", "is no JMESPath expression: Bad jmespath expression: Unknown token $"),
        (" ", "is no JMESPath expression"),
        ("a == ", "Incomplete expression"),
        ("size(a) > `1`", "there is no function size(); there are abs, avg,"),
        ("length(a, b)", "length() takes 1 arguments, not 2"),
        ("not_null()", "not_null() takes at least 1 arguments, not 0"),
        ("a" * 2001, "has 2001 characters; it may have 2000"),
        ("(" * 900 + "a" + ")" * 900, "is nested too deeply"),
        ("to_string(" + "|".join(["[@,@]"] * 7) + ")", "makes 128 copies of its data; it may make 64"),
    ],
)
def test_a_bad_expression_is_told_in_one_line(text, says):
    with pytest.raises(ExpressionError) as caught:
        Expression(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_function_that_cannot_take_what_it_gets_is_told():
    with pytest.raises(ExpressionError, match="abs"):
        Expression("abs(a)").holds({"a": "text"})


TEN = "`[1,1,1,1,1,1,1,1,1,1]`"
EMPTY_TEXTS = '`["","","","","","","","","",""]`'


@pytest.mark.parametrize(
    "text",
    ["map(&" * 10 + "x" + f",{TEN})" * 10, "|".join(["a", *[f"join(@,{EMPTY_TEXTS})"] * 20])],
    ids=["maps", "joins"],
)
def test_an_expression_cannot_make_endless_work(text):
    with counted() as work, pytest.raises(ExpressionError, match="makes too much work"):
        Expression(text).holds({"a": "x"})
    assert work.calls < 3_000_000
