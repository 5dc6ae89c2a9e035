"""What whoever asked has written."""

from __future__ import annotations

import pytest

from pml_flows.caller_words import CallerWords
from pml_flows.settings import Rule, Settings, rule_of
from pml_hookspecs import CodeRun, ToolCall, ToolId, Workflow


def plan(*arguments, source=""):
    tasks = [ToolCall(id=f"t{i}", tool=ToolId("s:t"), arguments=one) for i, one in enumerate(arguments)]
    code = CodeRun(id="code", language="python", source=source)
    return Workflow(id="w", tasks=(*tasks, code))


@pytest.mark.parametrize(
    ("value", "is_named"),
    [
        ("a@b.example", True),
        ("b.example", False),
        ("a@b", False),
        (7, True),
        ("", True),
        ("{{t0.x}}", False),
        ("in 'code'", True),
        ("in", False),
        (12.5, True),
        ("12.5", False),
        ("7", False),
        (13, False),
        ("100", True),
        ("100 Main St", True),
        ("Main", True),
        ("ain", False),
        ("mail.example", True),
        ("ail.example", False),
        ("mail", False),
        (None, False),
    ],
)
def test_values_that_the_caller_named(value, is_named):
    source = "x = \"in 'code'\" + f(12.5) + r[13] + t[5:13]"
    words = CallerWords(
        plan({"to": ["a@b.example"], "n": 7, "r": "{{t0.x}}"}, source=source), "Ship to 100 Main St, see mail.example."
    )
    assert words.has(value) is is_named


def test_tools_that_the_caller_named():
    words = CallerWords(CodeRun(id="c", language="python", source="tools.shop.list_all()"), "")
    assert words.mentions("shop:list-all")
    assert not words.mentions("shop:remove")
    assert CallerWords(plan({"name": "shop:remove"}), "", words).mentions("shop:list-all")


def test_rules():
    assert rule_of("web -> a:b*.to") == Rule("web", "a:b*", "to")
    assert Settings(allow=("w* -> a:b",)).rules()[0].covers("web", "a:b", "")
    assert not Settings(allow=("w* -> a:b.x",)).rules()[0].covers("web", "a:b", "")
    for wrong in ("web", "web -> a", "-> a:b", "web -> :b"):
        with pytest.raises(ValueError, match="is not 'SERVER -> SERVER:TOOL'"):
            Settings(allow=(wrong,))
