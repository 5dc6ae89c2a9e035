from __future__ import annotations

from typing import Any

import pytest

from pml_hookspecs import InvalidArguments
from pml_measure import usage

pytestmark = [pytest.mark.anyio, pytest.mark.seed("EXP-40", "EXP-41", "EXP-42", "GAP-23")]
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
    assert await usage.run(arguments(), services) == 0
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
    await usage.run(arguments(), services)
    weeks = list(printed()["weeks"])
    assert len(weeks) == 3
    assert weeks == sorted(weeks)


async def test_people_get_tables_or_hear_that_there_is_nothing(
    services: Any, history: Any, arguments: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    await usage.run(arguments(json=False), services)
    assert "No tool was called or searched for in the last 30 days." in capsys.readouterr().out
    history.ran("files:read_file", 1, agent="evil\x1b[31m")
    await usage.run(arguments(json=False), services)
    out = capsys.readouterr().out
    assert "files:read_file" in out
    assert "PLANNED" in out
    assert "\x1b" not in out


@pytest.mark.parametrize("days", [0, -1, 10**6])
async def test_a_look_back_that_makes_no_sense_is_refused(services: Any, arguments: Any, days: int) -> None:
    with pytest.raises(InvalidArguments, match="--days"):
        await usage.run(arguments(days=days), services)
