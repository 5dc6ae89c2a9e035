from __future__ import annotations

from typing import Any

import pytest

from pml_hookspecs import InvalidArguments
from pml_kit.mcp.tokens import estimate
from pml_measure import metrics_command, usage
from pml_measure.counting import counter
from pml_testing.records import execution

pytestmark = pytest.mark.anyio
DAY = 24 * 60


async def test_calls_are_told_apart_by_the_way_they_came(
    services: Any, history: Any, arguments: Any, printed: Any
) -> None:
    plan = history.ran("", 5, kind="workflow", response={"a": 1})
    history.ran("mail:send_message", 5, parent=plan.id, response={"text": "long " * 100})
    history.ran("files:read_file", 4, response={"text": "one two three"}, agent="other")
    history.ran("files:read_file", 3, status="error")
    history.searched("mail", 2, response={"tools": []})
    history.ran("pml:list_recent_executions", 1)
    history.ran("files:read_file", 40 * DAY)
    history.ran("files:read_file", 1, dry_run=True)
    assert await metrics_command.run(arguments(), services) == 0
    said = printed()
    ways = {way: said["total"][way] for way in usage.WAYS}
    assert ways == {"direct": 2, "workflow": 1, "code": 0, "search": 1}
    assert (said["total"]["calls"], said["total"]["failed"]) == (3, 1)
    assert said["total"]["planned_share"] == pytest.approx(1 / 3)
    assert 0 < said["total"]["answer_tokens"] < 50, "answers inside a plan do not reach the client"
    assert said["tools"] == {"files:read_file": 2, "mail:send_message": 1}
    assert set(said["agents"]) == {"me", "other"}
    assert sum(week["calls"] for week in said["weeks"].values()) == 3
    assert said["complete"]
    assert said["mode"]["mode"] == "chosen"
    assert {mode["name"] for mode in said["modes"]} >= {"small", "balanced"}


async def test_weeks_are_told_in_order(services: Any, history: Any, arguments: Any, printed: Any) -> None:
    for days_ago in (1, 8, 15):
        history.ran("files:read_file", days_ago * DAY)
    await metrics_command.run(arguments(), services)
    weeks = list(printed()["weeks"])
    assert len(weeks) == 3
    assert weeks == sorted(weeks)


async def test_people_get_tables_or_hear_that_there_is_nothing(
    services: Any, history: Any, arguments: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    await metrics_command.run(arguments(json=False), services)
    assert "No tool was called or searched for in the last 30 days." in capsys.readouterr().out
    history.ran("files:read_file", 1, agent="evil\x1b[31m")
    await metrics_command.run(arguments(json=False), services)
    out = capsys.readouterr().out
    assert "files:read_file" in out
    assert "PLANNED" in out
    assert "\x1b" not in out


@pytest.mark.parametrize("days", [0, -1, 10**6])
async def test_a_look_back_that_makes_no_sense_is_refused(services: Any, arguments: Any, days: int) -> None:
    with pytest.raises(InvalidArguments, match="--days"):
        await metrics_command.run(arguments(days=days), services)


async def test_use_and_tokens_are_told_by_mode(services: Any, history: Any, arguments: Any, printed: Any) -> None:
    history.ran("files:read_file", 9, mode="full_proxy", endpoint="default", response={"text": "one two three"})
    plan = history.ran("", 5, kind="workflow", mode="meta_only", endpoint="default")
    history.ran("files:read_file", 5, parent=plan.id, mode="meta_only", endpoint="default")
    history.searched("mail", 4, mode="meta_only", endpoint="default", response={"tools": ["x"]})
    history.ran("files:read_file", 3)
    assert await metrics_command.run(arguments(), services) == 0
    used = printed()["used_modes"]
    assert list(used) == ["full_proxy", "meta_only"], "what has no mode is in none"
    assert (used["full_proxy"]["calls"], used["full_proxy"]["planned_share"]) == (1, 0)
    assert (used["meta_only"]["calls"], used["meta_only"]["search"], used["meta_only"]["planned_share"]) == (1, 1, 1)
    assert used["full_proxy"]["answer_tokens"] > 0 < used["meta_only"]["answer_tokens"]


async def test_changes_of_mode_are_told_by_endpoint_and_principal(
    services: Any, history: Any, arguments: Any, printed: Any
) -> None:
    def came(mode: str, days_ago: float, endpoint: str = "default", principal: str = "ada", **more: Any) -> None:
        history.ran("files:read_file", days_ago * DAY, mode=mode, endpoint=endpoint, principal=principal, **more)

    for days_ago, mode in ((20, "full_proxy"), (19, "full_proxy"), (12, "hybrid"), (9, "full_proxy"), (2, "meta_only")):
        came(mode, days_ago)
    came("hybrid", 11, principal="bob")
    came("hybrid", 1, principal="bob")
    came("own_mode", 3, endpoint="ops")
    came("hybrid", 1, endpoint="ops")
    came("meta_only", 11, parent="e00000")
    await metrics_command.run(arguments(), services)
    told = printed()["endpoints"]
    assert [(c["principal"], c["from"], c["to"], c["step"]) for c in told["default"]["changes"]] == [
        ("ada", "full_proxy", "hybrid", 1),
        ("ada", "hybrid", "full_proxy", -1),
        ("ada", "full_proxy", "meta_only", 3),
    ]
    assert (told["default"]["forward"], told["default"]["back"]) == (2, 1)
    assert told["default"]["modes"] == {"full_proxy": 3, "hybrid": 3, "meta_only": 1}
    assert sum(sum(week.values()) for week in told["default"]["weeks"].values()) == 7
    assert list(told["default"]["weeks"]) == sorted(told["default"]["weeks"])
    assert [(c["from"], c["step"]) for c in told["ops"]["changes"]] == [("own_mode", 0)]


async def test_people_see_modes_in_the_order_of_the_migration(
    services: Any, history: Any, arguments: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for minutes_ago, mode in ((9, "full_proxy"), (5, "own"), (4, "hybrid"), (2, "meta_only")):
        history.ran("files:read_file", minutes_ago, mode=mode, endpoint="default")
    await metrics_command.run(arguments(json=False), services)
    out = capsys.readouterr().out
    assert out.split("ENDPOINT  WEEK")[1].split()[:4] == ["FULL_PROXY", "HYBRID", "META_ONLY", "OWN"]
    assert "Changes of mode (1 towards meta_only, 0 back):" in out
    assert "default, local: own → hybrid" in out
    assert "default, local: hybrid → meta_only" in out


async def test_of_an_answer_its_text_is_counted_and_not_a_second_form_of_it() -> None:
    text = '{"files": ["a", "b"]}'
    result = {"content": [{"type": "text", "text": text}], "structuredContent": {"files": ["a", "b"]}, "isError": False}
    answered = execution(1, response=result)
    assert usage.answer_tokens(answered, counter("estimate")) == estimate(text)
