from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from lessons import Gateway, capability, catalog_of, code, run_of, some_catalog

from pml_capabilities import Capabilities, Settings
from pml_capabilities.capability import to_value
from pml_capabilities.inputs import schema_of
from pml_capabilities.library import COLLECTION
from pml_hookspecs import CapabilityRun, CodeRun, Failure, Status, ToolCall, ToolId
from pml_testing.executor import FAILS, GOOD, NEVER_ENDS, TIMES_OUT, ContractRun, ExecutorContract
from pml_testing.fakes import FakeServices, entry, outcome

pytestmark = pytest.mark.anyio


def executor_with(store, catalog=None, **settings):
    return Capabilities(
        Settings(**settings), FakeServices(store=store, catalog=some_catalog() if catalog is None else catalog)
    )


async def kept(store, **more):
    made = capability(**more)
    await store.documents.put(COLLECTION, made.id, to_value(made), marks={"name": made.name, "state": "active"})
    return made


class CodeContractRun(ContractRun):
    """Code is named after the tool it calls."""

    async def _answer(self, task, run):
        return await super()._answer(ToolCall(id=task.id, tool=ToolId(task.source)), run)


class TestCapabilities(ExecutorContract):
    @pytest.fixture
    def executor(self):
        return Capabilities()

    @pytest.fixture
    def run(self):
        return CodeContractRun()

    @pytest.fixture
    def good_task(self):
        return CapabilityRun(id="contract", capability_id="x", source=GOOD)

    @pytest.fixture
    def failing_task(self):
        return CapabilityRun(id="contract", capability_id="x", source=FAILS)

    @pytest.fixture
    def timing_out_task(self):
        return CapabilityRun(id="contract", capability_id="x", source=TIMES_OUT)

    @pytest.fixture
    def endless_task(self):
        return CapabilityRun(id="contract", capability_id="x", source=NEVER_ENDS)


async def test_stored_code_runs_with_what_it_is_given(store):
    digests = {e.id: e.digest for e in some_catalog()}
    tools = {"files:read": digests["files:read"]}
    made = await kept(store, code="return a", tools=tools, inputs=schema_of({"a": {"b": 2}}))
    run = run_of()
    ended = await executor_with(store).execute(
        CapabilityRun(id="task", capability_id=made.id, inputs={"a": {"b": 1}}), run
    )
    assert run.dispatched == [
        CodeRun(id="code", language="javascript", source="return a", inputs={"a": {"b": 1}}, tools=("files:read",))
    ]
    assert (ended.task_id, ended.status) == ("task", Status.OK)


async def test_inline_code_wins(store):
    made = await kept(store, code="return 'stored'")
    run = run_of()
    task = CapabilityRun(id="t", capability_id=made.id, source="print(1)", language="python", inputs={"a": 1})
    await executor_with(store).execute(task, run)
    assert run.dispatched == [CodeRun(id="code", language="python", source="print(1)", inputs={"a": 1})]


async def test_without_code_and_store_it_says_so():
    for executor in (Capabilities(), executor_with(None)):
        ended = await executor.execute(CapabilityRun(id="task-7", capability_id="x"), run_of())
        assert ended.failure == Failure(
            "capability.no_store", "Capability task task-7 has no code and CapabilityStore is not configured."
        )


async def test_an_unknown_id_is_named(store):
    ended = await executor_with(store).execute(CapabilityRun(id="t", capability_id="cap-404"), run_of())
    assert ended.failure == Failure("capability.not_found", "Capability cap-404 not found in CapabilityStore")


@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        ({}, "'a' is missing"),
        ({"a": 1, "b": 2}, "there is no 'b'"),
        ({"a": "one"}, "'a' must be an integer, not a string"),
        ({"a": True}, "'a' must be an integer, not a boolean"),
        ({"a": None}, "'a' must be an integer, not null"),
    ],
)
async def test_inputs_that_it_does_not_take_run_nothing(store, inputs, problem):
    made = await kept(store, inputs=schema_of({"a": 1}))
    run = run_of()
    ended = await executor_with(store).execute(CapabilityRun(id="t", capability_id=made.id, inputs=inputs), run)
    assert (ended.status, run.dispatched) == (Status.ERROR, [])
    assert ended.failure == Failure("capability.invalid_inputs", f"Capability c1: {problem}. It takes: a. Nothing ran.")


async def test_results_of_tasks_that_it_waits_for_need_not_be_taken(store):
    made = await kept(store, inputs=schema_of({"a": 1}))
    run = run_of()
    task = CapabilityRun(id="t", capability_id=made.id, inputs={"a": 1, "before": [2]}, depends_on=("before",))
    assert (await executor_with(store).execute(task, run)).status is Status.OK
    assert [dict(code.inputs) for code in run.dispatched] == [{"a": 1}]


async def test_a_check_looks_at_names_only_and_knows_that_results_will_come(store):
    made = await kept(store, inputs=schema_of({"a": 1, "b": 1}))
    check = executor_with(store).check
    for inputs, depends_on, problems in (
        ({"a": "{{x.y}}", "b": 1}, (), []),
        ({"a": 1}, ("b", "c"), []),
        ({"a": 1}, (), ["capability.invalid_inputs"]),
    ):
        task = CapabilityRun(id="t", capability_id=made.id, inputs=inputs, depends_on=depends_on)
        checked = await check(task, run_of().session, within_s=1)
        assert [problem.code for problem in checked.problems] == problems


async def test_what_is_switched_off_is_not_run_and_says_how_to_allow_it(store):
    made = await kept(store, disabled=True)
    run = run_of()
    ended = await executor_with(store).execute(CapabilityRun(id="t", capability_id=made.id), run)
    assert (ended.failure.code, run.dispatched) == ("capability.disabled", [])
    assert f"`pml capabilities enable {made.id}`" in ended.failure.message


@pytest.mark.parametrize("given", ["capability:count_issues", "capability__count_issues"])
async def test_the_name_that_clients_see_does_for_the_id(store, given):
    made = await kept(store, code="return 7")
    published = entry("capability:count_issues", _meta={"pml/capability": {"id": made.id}})
    run = run_of()
    await executor_with(store, catalog_of(*some_catalog(), published)).execute(
        CapabilityRun(id="t", capability_id=given), run
    )
    assert [task.source for task in run.dispatched] == ["return 7"]


async def test_a_tool_that_is_no_capability_is_not_found(store):
    ended = await executor_with(store).execute(CapabilityRun(id="t", capability_id="files:read"), run_of())
    assert ended.failure.code == "capability.not_found"


@pytest.mark.parametrize(("shared", "found"), [(False, False), (True, True)])
async def test_what_others_taught_is_not_found_unless_it_is_shared(store, shared, found):
    made = await kept(store)
    executor = executor_with(store, shared=shared)
    ended = await executor.execute(CapabilityRun(id="t", capability_id=made.id), run_of(principal="bob"))
    assert ended.status.good == found
    if not found:
        assert ended.failure.message == f"Capability {made.id} not found in CapabilityStore"


@pytest.mark.parametrize(
    ("catalog", "why"),
    [
        (catalog_of(entry("files:read", "reads otherwise")), "the definition of files:read has changed"),
        (catalog_of(files="up"), "the tool files:read is gone"),
    ],
)
async def test_it_retires_what_a_changed_tool_would_break_and_runs_nothing(store, catalog, why):
    digest = some_catalog().get("files:read").digest
    made = await kept(store, tools={"files:read": digest})
    run = run_of()
    for _ in range(2):
        ended = await executor_with(store, catalog).execute(CapabilityRun(id="t", capability_id=made.id), run)
        assert ended.failure.code == "capability.retired"
        assert why in ended.failure.message
    assert run.dispatched == []
    found = await Gateway(store).library.get(made.id)
    assert why in found.retired


async def test_a_check_tells_what_would_run_and_runs_nothing(store):
    made = await kept(store, code="return a", inputs=schema_of({"a": 7}))
    checked = await executor_with(store).check(
        CapabilityRun(id="t", capability_id=made.id, inputs={"a": 1}), run_of().session, within_s=1
    )
    assert (checked.becomes.source, dict(checked.becomes.inputs), list(checked.problems)) == ("return a", {"a": 1}, [])


async def test_a_check_finds_what_would_be_refused_and_retires_nothing(store):
    made = await kept(store, tools={"files:read": some_catalog().get("files:read").digest})
    changed = executor_with(store, catalog_of(entry("files:read", "reads otherwise")))
    for capability_id, why in ((made.id, "capability.retired"), ("nobody", "capability.not_found")):
        task = CapabilityRun(id="t", capability_id=capability_id)
        checked = await changed.check(task, run_of().session, within_s=1)
        assert ([problem.code for problem in checked.problems], checked.becomes) == ([why], None)
    assert (await Gateway(store).library.get(made.id)).retired == ""


@pytest.mark.parametrize("state", ["down", "starting", "idle"])
async def test_a_server_that_is_not_up_retires_nothing(store, state):
    made = await kept(store, tools={"files:read": "d"})
    ended = await executor_with(store, catalog_of(files=state)).execute(
        CapabilityRun(id="t", capability_id=made.id), run_of()
    )
    assert ended.status is Status.OK


async def test_retired_code_is_not_run_even_if_the_store_cannot_be_written(store, monkeypatch):
    made = await kept(store, tools={"files:read": "d"})

    async def full(*args, **named):
        raise OSError("disk full")

    monkeypatch.setattr(store.documents, "put", full)
    run = run_of()
    ended = await executor_with(store).execute(CapabilityRun(id="t", capability_id=made.id), run)
    assert (ended.failure.code, run.dispatched) == ("capability.retired", [])


async def test_a_tool_that_is_named_like_a_pattern_opens_no_other(store):
    names = ("s:*", "s:a?", "s:[ab]")
    catalog = catalog_of(*(entry(name) for name in names), entry("s:ab"))
    made = await kept(store, tools={name: catalog.get(name).digest for name in names})
    run = run_of()
    await executor_with(store, catalog).execute(CapabilityRun(id="t", capability_id=made.id), run)
    (task,) = run.dispatched
    for tool in ("s:ab", "s:x", "s:a", *names):
        assert any(fnmatchcase(tool, pattern) for pattern in task.tools) == (tool in names)


async def test_code_that_fails_is_the_capabilitys_failure(store):
    made = await kept(store)

    async def fails(task, run):
        return outcome(task.id, status=Status.TIMED_OUT, failure=Failure("code.timed_out", "Too slow."), cost_usd=0.25)

    ended = await executor_with(store).execute(CapabilityRun(id="t", capability_id=made.id), run_of(answer=fails))
    assert (ended.task_id, ended.status, ended.failure.code, ended.cost_usd) == (
        "t", Status.TIMED_OUT, "code.timed_out", 0.25,
    )  # fmt: skip


async def test_learned_by_the_wrapper_it_is_run_by_the_executor(gateway, store):
    await gateway.ran(code("return n", inputs={"n": 1}), run_of(), calls=["files:read"])
    known = await gateway.learned()
    run = run_of()
    await executor_with(store).execute(CapabilityRun(id="t", capability_id=known.id, inputs={"n": 2}), run)
    (task,) = run.dispatched
    assert (task.source, task.inputs, task.tools) == ("return n", {"n": 2}, ("files:read",))
