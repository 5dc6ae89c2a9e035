from __future__ import annotations

import json
from typing import Any

import pytest

from pml_hookspecs import InvalidArguments
from pml_measure import evaluation
from pml_measure.modes import CONFIGURED

pytestmark = pytest.mark.anyio


@pytest.fixture
def file(tmp_path: Any) -> str:
    path = tmp_path / "q.jsonl"
    lines = [
        {"query": "send_message deliver text", "gold": ["mail:send_message"]},
        {"query": "give the text of one document.", "gold": ["files:read_file"]},
        {"query": "nothing alike", "gold": ["files:delete_file"]},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    return str(path)


async def test_search_and_each_mode_have_a_row(services: Any, arguments: Any, printed: Any, file: str) -> None:
    assert await evaluation.run(arguments(queries=file), services) == 0
    said = printed()
    assert said["queries"] == {"source": "file", "count": 3}
    rows = {row["name"]: row for row in said["rows"]}
    assert list(rows) == ["search", CONFIGURED, "small", "balanced", "everything"]
    assert (rows["search"]["recall@1"], rows["search"]["hit@1"]) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert rows["small"]["listed"] == 0
    assert rows["everything"]["listed"] == 1
    assert rows["balanced"]["listed"] == pytest.approx(2 / 3)
    assert rows["small"]["tokens"] == rows["search"]["tokens"] < rows["balanced"]["tokens"]
    assert all(0 <= row["p50_ms"] <= row["p95_ms"] for row in rows.values())


@pytest.mark.parametrize(
    ("floors", "status", "missed"),
    [
        (["recall@5=0.6"], 0, []),
        (["recall@5=0.7"], 1, ["search"]),
        (["recall@5=0.6", "small.listed=0.1", "everything.listed=1"], 1, ["small"]),
        ([f"{CONFIGURED}.ndcg@10=0.9"], 1, [CONFIGURED]),
    ],
)
async def test_below_a_floor_the_status_is_1(
    *, services: Any, arguments: Any, printed: Any, file: str, floors: list[str], status: int, missed: list[str]
) -> None:
    assert await evaluation.run(arguments(queries=file, floor=floors), services) == status
    assert [one["row"] for one in printed()["floors_missed"]] == missed


@pytest.mark.parametrize(
    ("floor", "said"),
    [
        ("recall@7=0.5", "'recall@7' is not measured"),
        ("none.hit@1=0.5", "no row 'none'"),
        ("hit@1", "expected METRIC=VALUE"),
        ("hit@1=2", "from 0 to 1"),
        ("hit@1=nan", "from 0 to 1"),
    ],
)
async def test_a_floor_that_means_nothing_is_refused(services: Any, arguments: Any, floor: str, said: str) -> None:
    with pytest.raises(InvalidArguments, match=said):
        await evaluation.run(arguments(floor=[floor]), services)


async def test_people_are_told_where_the_queries_are_from(
    services: Any, arguments: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await evaluation.run(arguments(json=False, floor=["small.listed=1"]), services) == 1
    out = capsys.readouterr().out
    assert "made of the tools' own descriptions, which flatters every search" in out
    assert "NDCG@10" in out
    assert "BELOW: small listed is 0.000, the floor is 1." in out


async def test_a_filter_holds_for_the_search_too(services: Any, arguments: Any, printed: Any, file: str) -> None:
    services.catalog.denied.add("mail:send_message")
    await evaluation.run(arguments(queries=file), services)
    assert printed()["rows"][0]["recall@10"] == pytest.approx(1 / 3)


async def test_no_queries_at_most_is_refused(services: Any, arguments: Any) -> None:
    with pytest.raises(InvalidArguments, match="--limit 0"):
        await evaluation.run(arguments(limit=0), services)
