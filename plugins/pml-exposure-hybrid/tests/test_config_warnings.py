"""What is legal in the table, but hardly meant."""

from __future__ import annotations

import pytest

from pml_exposure_hybrid import Settings
from pml_exposure_hybrid.lists import settings_warnings
from pml_kit.offers import View

USED = (View("default", "hybrid", "mail"),)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"expose_meta_tools": False}, "what is not listed cannot be found"),
        ({"expose_meta_tools": False, "expose_underlying_tools": False}, "both off: clients see nothing"),
        ({"expose_underlying_tools": False, "whitelisted_tools": ["git:a"]}, "has no effect while"),
        ({"max_underlying_tools": 0, "whitelisted_tools": ["git:a"]}, "names more tools than"),
        ({"max_underlying_tools": 300}, "over 100 tools fill a context"),
        ({"semantic_threshold": 0}, "filled up with tools that do not fit"),
        ({"semantic_threshold": 1}, "hardly any tool is listed"),
        ({"whitelisted_tools": ["git:a"], "blacklisted_tools": ["git:a"]}, "'git:a' is in both lists"),
        (
            {"whitelisted_tools": ["gti:a"]},
            "'gti' is configured and enabled; correct the name, maybe to 'git'",
        ),
        ({"blacklisted_tools": ["delete_*"]}, "so it fits nothing; write '*:delete_*'"),
    ],
)
def test_what_is_hardly_meant_is_said(settings: dict, said: str) -> None:
    (line,) = settings_warnings(Settings(**settings), USED, {"git"})
    assert line.startswith("plugins.hybrid")
    assert said in line


def test_an_empty_intent_is_said_of_each_endpoint_that_needs_one() -> None:
    views = [
        View("default", "hybrid"),
        View("ops", "hybrid", " "),
        View("all", "full_proxy"),
        View("mail", "hybrid", "m"),
    ]
    lines = list(settings_warnings(Settings(), views, {"git"}))
    assert [line.partition(":")[0] for line in lines] == ["gateway.intent", "endpoints.ops.intent"]
    assert "or one by one in plugins.hybrid.intents" in lines[0]
    for settings in ({"intents": ["mail"]}, {"fallback": "most_used"}, {"apply_semantic_filter": False}):
        assert list(settings_warnings(Settings(**settings), views, {"git"})) == []


def test_settings_that_no_mode_reads_are_said_except_the_blacklist() -> None:
    views = [View("default", "meta_only")]
    settings = Settings(semantic_threshold=0.5, blacklisted_tools=["git:x"])
    assert ["semantic_threshold has no effect" in line for line in settings_warnings(settings, views, {"git"})] == [
        True
    ]
    assert list(settings_warnings(settings, [View("default", "semantic", "mail")], {"git"})) == []


def test_what_is_meant_so_has_no_warnings() -> None:
    assert list(settings_warnings(Settings(blacklisted_tools=["git:rm", "*:x"]), USED, {"git"})) == []
