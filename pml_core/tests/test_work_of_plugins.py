"""What plugins have the core do for them, and which executor gets which task."""

from __future__ import annotations

import types

import pytest

from pml_hookspecs import (
    CannotAskError,
    CapabilityRun,
    CodeRun,
    Failure,
    RunOptions,
    Session,
    Status,
    Step,
    ToolCall,
    Workflow,
    hookimpl,
)
from pml_kit.errors import OperatorError
from pml_kit.identifiers import execution_id, time_of
from pml_testing.dispatching import SESSION, Code, InOrder, gateway, records, tool
from pml_testing.fakes import outcome
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio
READ = ToolCall(id="a", tool="fs:read")
SURE = {"message": "sure?", "requestedSchema": {"type": "object"}}


def plan(*tasks, id="w", **options):
    return Workflow(id=id, tasks=tasks, **options)


def asking():
    """A tool that asks the client, which cannot be asked."""

    async def ask(arguments, run):
        try:
            return {"answer": dict(await run.ask("elicitation/create", SURE))}
        except CannotAskError as exc:
            return {"cannot": str(exc)}

    return tool("ask_it", call=ask)


def services_of(made, plugin="made"):
    return made.assembly.services(plugin)


# What plugins run and publish


async def test_a_plugin_runs_a_task_through_the_chain_and_nobody_is_asked():
    seen = []

    class Wrapper:
        phase = 100

        async def __call__(self, task, run, call_next):
            seen.append((task.id, run.session.principal, run.terms.options.trigger))
            return await call_next(task, run)

    async with gateway(wrappers=[Wrapper()], tools=[asking()]) as made:
        done = await services_of(made).run(
            ToolCall(id="q", tool="ask_it"),
            Session(key="k", principal="bob"),
            RunOptions(trigger="schedule", agent="nightly"),
        )
        (record,) = await records(made)
    assert seen == [("q", "bob", "schedule")]
    assert done.output["structuredContent"] == {"cannot": "no client waits for this execution"}
    assert (record.agent, record.trigger, record.principal) == ("nightly", "schedule", "bob")


async def test_an_execution_that_began_before_goes_on_under_its_id_and_start():
    async with gateway() as made:
        began = execution_id()
        await services_of(made).run(plan(READ), SESSION, RunOptions(id=began))
        first, second = await records(made)
    assert (first.id, first.started_at, second.parent) == (began, time_of(began), began)


async def test_a_published_tool_is_listed_found_called_and_taken_back():
    async def answer(arguments, run):
        return {"seen": dict(arguments)}

    published = tool("greet", call=answer)
    async with gateway({}) as made:
        services_of(made).publish("capability", [published])
        found = await made.catalog.search("greet", limit=5)
        assert [m.id for m in found] == ["capability:greet"]
        client = Client(made)
        result = await client.call("capability__greet", {"who": "you"})
        assert result["structuredContent"] == {"seen": {"who": "you"}}
        services_of(made).publish("capability", [])
        assert made.catalog.resolve("capability:greet") is None


async def test_a_published_tool_may_stand_for_a_task():
    Code.answers = {"x": "done"}
    stands = tool("sum_up", task=lambda arguments: CapabilityRun(id="", capability_id="x"))

    async def by_id(task, run):
        return outcome(task.id, task.capability_id)

    class Capabilities:
        handles = frozenset({CapabilityRun})

        def __init__(self, settings=None, services=None):
            pass

        execute = staticmethod(by_id)

    hook = types.ModuleType("hook")
    hook.pml_lifespan = hookimpl(lambda services: services.publish("capability", [stands]) or ())
    async with running({}, plugins={("executor", "c"): Capabilities, ("hooks", "h"): hook}) as made:
        result = await made.dispatcher.start(ToolCall(id="t", tool="capability:sum_up"), SESSION)
    assert (result.task_id, result.output) == ("t", "x")


async def test_a_name_that_is_taken_cannot_be_published():
    async with gateway() as made:
        with pytest.raises(ValueError, match="'fs' is the name of a configured server"):
            services_of(made).publish("fs", [])
        services_of(made).publish("mine", [])
        with pytest.raises(ValueError, match="belongs to the plugin 'made'"):
            made.own_tools.publish("another", "mine", [])


# Who runs what


def executor(answer, *handles, **attributes):
    class Made:
        def __init__(self, settings=None, services=None):
            pass

        async def execute(self, task, run):
            return outcome(task.id, answer)

    Made.handles = frozenset(handles)
    for name, value in attributes.items():
        setattr(Made, name, value)
    return Made


async def test_code_goes_to_the_executor_of_its_language_and_else_to_one_that_names_none():
    plugins = {
        ("executor", "p"): executor("python", CodeRun, languages=frozenset({"python"})),
        ("executor", "any"): executor("any", CodeRun),
    }
    async with running({}, plugins=plugins) as made:
        for language, answer in (("python", "python"), ("cobol", "any")):
            result = await made.dispatcher.start(CodeRun(id="c", language=language, source=""), SESSION)
            assert result.output == answer


async def test_two_executors_of_one_language_need_a_choice_by_language_or_for_all_code():
    python = frozenset({"python"})
    plugins = {
        ("executor", "one"): executor(1, CodeRun, languages=python),
        ("executor", "two"): executor(2, CodeRun, languages=python | {"lua"}),
    }
    with pytest.raises(OperatorError) as caught:
        async with running({}, plugins=plugins):
            pass
    assert caught.value.remedy == 'Choose: [gateway.executors] "code.python" = "two"'
    chosen = {"code.python": "one", "code.lua": "two"}
    async with running({}, plugins=plugins, executors=chosen) as made:
        results = [
            (await made.dispatcher.start(CodeRun(id="c", language=language, source=""), SESSION)).output
            for language in ("python", "lua")
        ]
    assert results == [1, 2]


async def test_an_executor_that_waits_to_be_named_is_used_only_then():
    python = frozenset({"python"})
    plugins = {
        ("executor", "one"): executor(1, CodeRun, languages=python),
        ("executor", "strong"): executor(2, CodeRun, languages=python | {"r"}, opt_in=True),
    }
    async with running({}, plugins=plugins) as made:
        assert (await made.dispatcher.start(CodeRun(id="c", language="python", source=""), SESSION)).output == 1
        result = await made.dispatcher.start(CodeRun(id="c", language="r", source=""), SESSION)
        assert '[gateway.executors] "code.r" = "strong"' in result.failure.message
    async with running({}, plugins=plugins, executors={"code.python": "strong"}) as made:
        assert (await made.dispatcher.start(CodeRun(id="c", language="python", source=""), SESSION)).output == 2


@pytest.mark.parametrize(
    ("chosen", "code", "program"),
    [
        ({}, 1, 2),
        ({"code.python": "one"}, 1, 1),
        ({"code": "one"}, 1, 1),
        ({"code.python": "strong"}, 2, 2),
        ({"program.python": "one"}, 1, 1),
        ({"code.python": "one", "program.python": "strong"}, 1, 2),
        ({"code.python": "strong", "program.python": "one"}, 2, 1),
    ],
)
async def test_programs_go_to_who_is_preferred_for_them_unless_somebody_is_named(chosen, code, program):
    python = frozenset({"python"})
    plugins = {
        ("executor", "one"): executor(1, CodeRun, languages=python),
        ("executor", "strong"): executor(
            2, CodeRun, languages=python | {"r"}, opt_in=True, programs=classmethod(lambda _: python)
        ),
    }
    async with running({}, plugins=plugins, executors=chosen) as made:
        for is_program, answer in ((False, code), (True, program)):
            task = CodeRun(id="c", language="python", source="", program=is_program)
            assert (await made.dispatcher.start(task, SESSION)).output == answer
        for is_program in (False, True):
            task = CodeRun(id="c", language="r", source="", program=is_program)
            assert (await made.dispatcher.start(task, SESSION)).failure.code == "executor.missing"


async def test_who_is_preferred_for_nothing_here_is_not_made():
    class Broken:
        handles, languages, opt_in = frozenset({CodeRun}), frozenset({"python"}), True
        programs = classmethod(lambda _: frozenset())

        def __init__(self, settings=None, services=None):
            raise AssertionError("made")

    python = executor(1, CodeRun, languages=Broken.languages)
    async with running({}, plugins={("executor", "broken"): Broken, ("executor", "one"): python}) as made:
        task = CodeRun(id="c", language="python", source="", program=True)
        assert (await made.dispatcher.start(task, SESSION)).output == 1


async def test_a_language_that_nobody_runs_is_named():
    async with running({}) as made:
        result = await made.dispatcher.start(CodeRun(id="c", language="cobol", source=""), SESSION)
    assert result.failure.code == "executor.missing"
    assert "'cobol'" in result.failure.message


async def test_durable_workflows_have_an_executor_of_their_own():
    plugins = {
        ("executor", "plain"): InOrder,
        ("executor", "lasting"): executor("lasting", Workflow, durable=True),
    }
    async with running({}, plugins=plugins) as made:
        assert (await made.dispatcher.start(plan(durable=True), SESSION)).output == "lasting"
        assert (await made.dispatcher.start(plan(), SESSION)).output == []


async def test_a_durable_workflow_without_such_an_executor_is_refused_and_not_run_otherwise():
    async with gateway() as made:
        result = await made.dispatcher.start(plan(READ, durable=True), SESSION)
    assert isinstance(result.failure, Failure)
    assert result.failure.code == "executor.missing"


async def test_what_wants_approval_and_was_not_approved_by_anybody_is_refused_in_the_end():
    Code.answers, server = {"x": "ran"}, ScriptedServer(["read"])
    async with gateway({"fs": server}) as made:
        wants = Step(approve=True)
        for task in (
            ToolCall(id="a", tool="fs:read", step=wants),
            CodeRun(id="c", language="x", source="x", step=wants),
        ):
            result = await made.dispatcher.start(plan(task), SESSION)
            assert result.status is Status.DENIED
        found = {r.failure.code for r in await records(made) if r.kind != "workflow"}
    assert (found, server.calls) == ({"approval.unavailable"}, [])
