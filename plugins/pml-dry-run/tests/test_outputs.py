"""What code really returned, and when a rehearsal shows it."""

from __future__ import annotations

import argparse
import json

import pytest

from pml_dry_run import commands, outputs
from pml_hookspecs import CapabilityRun, CodeRun, Failure, Session, Status, replace
from pml_kit.offers import Verdict
from pml_testing.fakes import FakeRun, outcome

pytestmark = pytest.mark.anyio
CODE = CodeRun(id="c", language="python", source="return {'total': n + 1}", inputs={"n": 1, "of": {"a": 1.0, "b": 2}})
TOTAL = {"total": 2}


async def run_for_real(made, task, output, *, principal="local", failure=None, **may):
    async def executor(task, run):
        return outcome(task.id, output, Status.OK if failure is None else Status.ERROR, failure=failure)

    return await made.recorder(task, FakeRun(session=Session(key="k", principal=principal, **may)), executor)


async def rehearsed(made, task, *, principal="local", **may):
    """How it ends, without having run."""

    async def executor(task, run):
        pytest.fail("it was run")

    session = Session(key="k", principal=principal, **may)
    return await made.dry_run(task, FakeRun(dry_run=True, session=session), executor)


def source_of(ended):
    return ended.meta["pml/simulated"]["source"]


@pytest.mark.parametrize(
    "task",
    [CODE, CapabilityRun(id="c", capability_id="sum", source="return 1", inputs={"n": 1})],
    ids=["code", "given"],
)
async def test_the_same_code_with_the_same_inputs_is_answered_as_it_was_and_says_so(kit, task):
    async with kit([], level="strict") as made:
        ran = await run_for_real(made, task, TOTAL)
        ended = await rehearsed(made, task)
    assert (ended.status, ended.output) == (Status.SIMULATED, TOTAL)
    label = ended.meta["pml/simulated"]
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
async def test_what_is_no_object_comes_back_as_it_was_too(kit, value):
    async with kit([]) as made:
        await run_for_real(made, CODE, value)
        ended = await rehearsed(made, CODE)
    assert ended.output == value
    assert source_of(ended) == "recorded"


async def test_nobody_gets_what_somebody_elses_code_returned(kit):
    async with kit([]) as made:
        await run_for_real(made, CODE, TOTAL, principal="ada")
        assert source_of(await rehearsed(made, CODE, principal="bob")) == "placeholder"
        assert source_of(await rehearsed(made, CODE, principal="ada")) == "recorded"


@pytest.mark.parametrize("may", [{"allow": ("crm:*",)}, {"allow": ()}, {"deny": ("crm:delete",)}])
async def test_nobody_gets_what_code_returned_that_could_call_other_tools(kit, may):
    async with kit([]) as made:
        await run_for_real(made, CODE, TOTAL)
        assert source_of(await rehearsed(made, CODE, **may)) == "placeholder"
        await run_for_real(made, CODE, TOTAL, **may)
        assert source_of(await rehearsed(made, CODE, **may)) == "recorded"


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


async def test_what_code_returned_that_was_given_secrets_is_not_kept(kit):
    async with kit([]) as made:
        made.services.redact = lambda value: {**value, "token": "***"} if "token" in value else value
        for token in ("s1", "s2"):
            await run_for_real(made, replace(CODE, inputs={"token": token}), TOTAL)
            assert source_of(await rehearsed(made, replace(CODE, inputs={"token": token}))) == "placeholder"
        await run_for_real(made, replace(CODE, inputs={"token": "***"}), TOTAL)
        assert source_of(await rehearsed(made, replace(CODE, inputs={"token": "s1"}))) == "placeholder"
        assert (await made.store.documents.find(outputs.COLLECTION)).total == 1


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


async def kept(made):
    """Whose outputs of what are kept."""
    page = await made.store.documents.find(outputs.COLLECTION)
    return sorted((document.value.get("principal"), document.value["target"]) for document in page.items)


async def forget(made, capsys, *words):
    parser = argparse.ArgumentParser()
    commands.add(parser.add_subparsers())
    arguments = parser.parse_args(["recordings", "prune", *words])
    capsys.readouterr()
    assert await arguments.run_with(arguments, made.services) == 0
    return capsys.readouterr().out


ADA, BOB = ("ada", "code:python"), ("bob", "code:python")
SUM = ("ada", "capability:sum")


@pytest.mark.parametrize(
    ("words", "left", "forgotten"),
    [
        (["--principal", "ada"], [BOB], 2),
        (["--tool", "code:*"], [SUM], 2),
        (["--tool", "code:*", "--principal", "ada"], [SUM, BOB], 1),
        (["--keep", "1"], [BOB], 2),
        (["--tool", "crm:*"], [SUM, ADA, BOB], 0),
        (["--stale"], [SUM, ADA, BOB], 0),
        (["--yes"], [], 3),
    ],
)
async def test_what_code_returned_is_forgotten_as_recordings_are(kit, capsys, words, left, forgotten):
    async with kit([]) as made:
        for principal, task in (
            ("ada", CODE),
            ("ada", CapabilityRun(id="c", capability_id="sum", source="return 1")),
            ("bob", CODE),
        ):
            await run_for_real(made, task, TOTAL, principal=principal)
            await made.store.documents.find(outputs.COLLECTION)
        out = await forget(made, capsys, *words, "--json")
        assert json.loads(out) == {"forgotten": 0, "outputs": forgotten}
        assert await kept(made) == left


async def test_how_many_outputs_were_forgotten_is_told(kit, capsys):
    async with kit([]) as made:
        await run_for_real(made, CODE, TOTAL)
        assert await forget(made, capsys, "--tool", "code:*") == "Forgot 0 recordings and 1 outputs of code.\n"


async def test_outputs_of_an_older_version_are_forgotten_with_anybodys(kit, capsys):
    async with kit([]) as made:
        old = {"version": 1, "target": "code:python", "output": "1", "recorded_at": "", "duration_ms": 1}
        await made.store.documents.put(outputs.COLLECTION, "out-old", old, marks={"target": "code:python"})
        await forget(made, capsys, "--principal", "ada")
        assert await kept(made) == []


async def test_to_forget_everything_forgets_what_code_returned(kit):
    parser = argparse.ArgumentParser()
    commands.add(parser.add_subparsers())
    async with kit([]) as made:
        await run_for_real(made, CODE, TOTAL)
        arguments = parser.parse_args(["recordings", "prune", "--yes"])
        assert await arguments.run_with(arguments, made.services) == 0
        assert source_of(await rehearsed(made, CODE)) == "placeholder"


async def test_a_stored_capability_is_answered_by_what_its_code_returned(kit):
    """The code runs as a task of its own below the capability, and is kept as that."""
    step = CapabilityRun(id="k", capability_id="sum", inputs={"n": 1})
    runs = CodeRun(id="code", language="python", source="return n", inputs={"n": 1}, tools=("fs:read",))
    async with kit([], level="strict") as made:
        await run_for_real(made, runs, TOTAL)
        assert (await rehearsed(made, step)).status is Status.ERROR
        made.services.verdicts = {"k": Verdict(becomes=runs)}
        ended = await rehearsed(made, step)
        assert (ended.status, ended.output, source_of(ended)) == (Status.SIMULATED, TOTAL, "recorded")
        assert ended.meta["pml/simulated"]["task_id"] == "k"
        changed = replace(runs, source="return n + 1")
        made.services.verdicts = {"k": Verdict(becomes=changed)}
        assert (await rehearsed(made, step)).status is Status.ERROR
