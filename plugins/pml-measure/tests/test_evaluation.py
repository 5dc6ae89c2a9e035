from __future__ import annotations

import json
from statistics import fmean
from typing import Any

import pytest

from pml_hookspecs import InvalidArguments, RunOptions, Status
from pml_measure import eval_command
from pml_measure.counting import estimate
from pml_measure.modes import CONFIGURED
from pml_measure.queries import SEARCH_TOOL
from pml_testing.fakes import FakeCatalog, outcome

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
    assert await eval_command.run(arguments(queries=file), services) == 0
    said = printed()
    assert said["queries"] == {"source": "file", "count": 3}
    rows = {row["name"]: row for row in said["rows"]}
    assert list(rows) == ["search", CONFIGURED, "small", "balanced", "everything"]
    assert (rows["search"]["recall@1"], rows["search"]["hit@1"]) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert rows["small"]["listed"] == 0
    assert rows["everything"]["listed"] == 1
    assert rows["balanced"]["listed"] == pytest.approx(2 / 3)
    assert rows["small"]["tokens"] == rows["search"]["tokens"] < rows["balanced"]["tokens"]
    assert rows["everything"]["task_tokens"] == rows["everything"]["tokens"]
    assert (rows["everything"]["task_requests"], rows["small"]["task_requests"]) == (1, 2)
    assert rows["balanced"]["task_requests"] == pytest.approx(4 / 3)
    assert all(0 <= row["p50_ms"] <= row["p95_ms"] for row in rows.values())
    assert "details" not in said


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
    assert await eval_command.run(arguments(queries=file, floor=floors), services) == status
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
        await eval_command.run(arguments(floor=[floor]), services)


async def test_people_are_told_where_the_queries_are_from(
    services: Any, arguments: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await eval_command.run(arguments(json=False, floor=["small.listed=1"]), services) == 1
    out = capsys.readouterr().out
    assert "made of the tools' own descriptions, which flatters every search" in out
    assert "NDCG@10" in out
    assert "BELOW: small listed is 0.000, the floor is 1." in out


async def test_a_filter_holds_for_the_search_too(services: Any, arguments: Any, printed: Any, file: str) -> None:
    services.catalog.denied.add("mail:send_message")
    await eval_command.run(arguments(queries=file), services)
    assert printed()["rows"][0]["recall@10"] == pytest.approx(1 / 3)


async def test_no_queries_at_most_is_refused(services: Any, arguments: Any) -> None:
    with pytest.raises(InvalidArguments, match="--limit 0"):
        await eval_command.run(arguments(limit=0), services)


async def test_answers_of_search_tools_are_counted_as_the_model_reads_them(
    services: Any, arguments: Any, printed: Any, file: str
) -> None:
    await eval_command.run(arguments(queries=file, only="search"), services)
    (row,) = printed()["rows"]
    asked = [task.arguments["query"] for task in services.ran]
    assert asked == ["send_message deliver text", "give the text of one document.", "nothing alike"]
    found = [[hit.id for hit in await services.catalog.search(query, limit=8)] for query in asked]
    texts = [json.dumps(ids) for ids in found]
    assert row["answer_tokens"] == pytest.approx(fmean(map(estimate, texts))), "the structured content is not read"


async def test_searches_that_only_measure_are_rehearsals_of_nobody(
    services: Any, arguments: Any, printed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    async def run(task: Any, session: Any, options: RunOptions) -> Any:
        seen.append((session.principal, options))
        return outcome(task.id, status=Status.DENIED)

    monkeypatch.setattr(services, "run", run)
    await eval_command.run(arguments(only="search"), services)
    assert {principal for principal, _ in seen} == {"pml eval"}
    assert all(options.dry_run and options.trigger == "manual" for _, options in seen)
    assert printed()["rows"][0]["answer_tokens"] is None, "none was answered"


async def test_without_search_tools_no_answers_are_counted(services: Any, arguments: Any, printed: Any) -> None:
    services.catalog = FakeCatalog([one for one in services.catalog if one.id != SEARCH_TOOL])
    await eval_command.run(arguments(only="search"), services)
    assert printed()["rows"][0]["answer_tokens"] is None
    assert services.ran == []


async def test_one_row_and_what_it_found_can_be_asked_for(
    services: Any, arguments: Any, printed: Any, file: str
) -> None:
    await eval_command.run(arguments(queries=file, only="small", details=True), services)
    said = printed()
    assert [row["name"] for row in said["rows"]] == ["search", "small"]
    assert said["details"][0]["query"] == "send_message deliver text"
    assert said["details"][0]["found"][0] == {"tool": "mail:send_message", "score": pytest.approx(2 / 3)}
    with pytest.raises(InvalidArguments, match="no such row; rows: search, as configured, small"):
        await eval_command.run(arguments(queries=file, only="tiny"), services)
