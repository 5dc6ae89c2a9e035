"""What code really returned, and when a rehearsal shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pml_dry_run import commands, outputs
from pml_hookspecs import CapabilityRun, CodeRun, Failure, Session, Status
from pml_testing.fakes import FakeRun, outcome

pytestmark = pytest.mark.anyio
CODE = CodeRun(id="c", language="python", source="return {'total': n + 1}", inputs={"n": 1, "of": {"a": 1.0, "b": 2}})
TOTAL = {"total": 2}


async def run_for_real(made, task, output, *, principal="local", failure=None):
    async def executor(task, run):
        return outcome(task.id, output, Status.OK if failure is None else Status.ERROR, failure=failure)

    return await made.recorder(task, FakeRun(session=Session(key="k", principal=principal)), executor)


async def rehearsed(made, task, *, principal="local"):
    """How it ends, without having run."""

    async def executor(task, run):
        pytest.fail("it was run")

    return await made.dry_run(task, FakeRun(dry_run=True, session=Session(key="k", principal=principal)), executor)


def source_of(ended):
    return ended.output["_meta"]["pml/simulated"]["source"]


@pytest.mark.seed("GAP-9")
@pytest.mark.parametrize(
    "task",
    [CODE, CapabilityRun(id="c", capability_id="sum", source="return 1", inputs={"n": 1})],
    ids=["code", "given"],
)
async def test_the_same_code_with_the_same_inputs_is_answered_as_it_was_and_says_so(kit, task):
    async with kit([], level="strict") as made:
        ran = await run_for_real(made, task, TOTAL)
        ended = await rehearsed(made, task)
    assert (ended.status, ended.output["total"]) == (Status.SIMULATED, 2)
    label = ended.output["_meta"]["pml/simulated"]
    assert (label["source"], label["mocked"]) == ("recorded", False)
    assert label["recorded_at"] == ran.started_at.isoformat()
    assert "not rehearsed" in label["notes"][0]


async def test_inputs_are_compared_by_value(kit):
    async with kit([]) as made:
        await run_for_real(made, CODE, TOTAL)
        ended = await rehearsed(made, replace(CODE, id="other", inputs={"of": {"b": 2.0, "a": 1}, "n": 1}))
    assert source_of(ended) == "recorded"


@pytest.mark.parametrize(
    "changed",
    [
        {"source": "return {'total': n + 2}"},
        {"inputs": {"n": 2}},
        {"language": "javascript"},
        {"program": True},
        {"tools": ("crm:*",)},
    ],
    ids=lambda changed: next(iter(changed)),
)
async def test_other_code_is_not_answered_by_it(kit, changed):
    async with kit([]) as made:
        await run_for_real(made, CODE, TOTAL)
        ended = await rehearsed(made, replace(CODE, **changed))
    assert source_of(ended) == "placeholder"


@pytest.mark.parametrize("value", [7, "text", None, [1, 2]])
async def test_what_is_no_object_is_shown_with_its_label(kit, value):
    async with kit([]) as made:
        await run_for_real(made, CODE, value)
        ended = await rehearsed(made, CODE)
    assert (ended.output["output"], ended.output["_source"], ended.output["_mocked"]) == (value, "recorded", False)
    assert source_of(ended) == "recorded"


async def test_nobody_gets_what_somebody_elses_code_returned(kit):
    async with kit([]) as made:
        await run_for_real(made, CODE, TOTAL, principal="ada")
        assert source_of(await rehearsed(made, CODE, principal="bob")) == "placeholder"
        assert source_of(await rehearsed(made, CODE, principal="ada")) == "recorded"


@pytest.mark.parametrize(
    ("task", "settings", "failure"),
    [
        (replace(CODE, folder="/work"), {}, None),
        (CapabilityRun(id="c", capability_id="stored"), {}, None),
        (CODE, {"record": False}, None),
        (CODE, {"never_record": ("code:*",)}, None),
        (CODE, {}, Failure("code.failed", "no")),
    ],
    ids=["folder", "stored capability", "off", "never", "failed"],
)
async def test_what_depends_on_more_or_is_not_wanted_is_not_kept(kit, task, settings, failure):
    async with kit([], **settings) as made:
        await run_for_real(made, task, TOTAL, failure=failure)
        assert source_of(await rehearsed(made, task)) == "placeholder"
        assert (await made.store.documents.find(outputs.COLLECTION)).total == 0


async def test_an_output_that_is_too_long_or_has_secrets_is_not_kept(kit):
    async with kit([], max_bytes=256) as made:
        await run_for_real(made, CODE, {"total": "x" * 300})
        made.services.redact = lambda value: {**value, "total": "***"} if "total" in value else value
        await run_for_real(made, CODE, TOTAL)
        assert (await made.store.documents.find(outputs.COLLECTION)).total == 0


async def test_code_whose_output_cannot_be_kept_has_run_all_the_same(kit):
    async with kit([]) as made:
        ended = await run_for_real(made, CODE, {"total": object()})
    assert ended.status is Status.OK


async def test_only_the_newest_are_kept(kit, monkeypatch):
    monkeypatch.setattr(outputs, "MOST", 3)
    monkeypatch.setattr(outputs, "SLACK", 4)
    async with kit([]) as made:
        for n in range(5):
            await run_for_real(made, replace(CODE, inputs={"n": n}), TOTAL)
    assert (await made.store.documents.find(outputs.COLLECTION)).total == 3


async def test_to_forget_everything_forgets_what_code_returned(kit):
    import argparse

    parser = argparse.ArgumentParser()
    commands.add(parser.add_subparsers())
    async with kit([]) as made:
        await run_for_real(made, CODE, TOTAL)
        arguments = parser.parse_args(["recordings", "prune", "--yes"])
        assert await arguments.run_with(arguments, made.services) == 0
        assert source_of(await rehearsed(made, CODE)) == "placeholder"
