from __future__ import annotations

import pytest

from pml_hookspecs import ServerStatus, ToolCall, ToolId, Workflow
from pml_testing.fakes import FakeCatalog, FakeRun, FakeServices, entry
from pml_testing.records import ended
from pml_testing.wrapper import Next, WrapperContract
from pml_tracer_otel import OtelTracer, Settings
from pml_tracer_otel.wrappers import ClientTraceWrapper, ServerCallWrapper

TOOL = "gen_ai.tool.name"
CATALOG = FakeCatalog([entry("contract:unmatched")], [ServerStatus(name="contract", state="up")])


@pytest.fixture
async def tracer(receiver, anyio_backend):
    settings = Settings(endpoint=receiver.endpoint, arguments=True)
    async with OtelTracer(settings, FakeServices(catalog=CATALOG)) as tracer:
        yield tracer


def watched(tracer, **how):
    """A run that the tracer knows."""
    run = FakeRun(**how)
    tracer.started(
        ended(1, run.id, span_id=run.id[-16:].replace("-", "0"), attributes={TOOL: "contract:unmatched"}).span
    )
    return run


class ActiveExecution(WrapperContract):
    __test__ = False

    @pytest.fixture
    def runs(self, tracer):
        return [watched(tracer), watched(tracer, dry_run=True)]


class TestIncoming(ActiveExecution):
    __test__ = True

    @pytest.fixture
    def wrapper(self, tracer):
        return ClientTraceWrapper(tracer)


class TestOutgoing(ActiveExecution):
    __test__ = True

    @pytest.fixture
    def wrapper(self, tracer):
        return ServerCallWrapper(tracer, CATALOG)

    @pytest.fixture
    def unmatched(self):
        return ToolCall(id="own", tool=ToolId("pml:search_tools"), arguments={"x": 1})


@pytest.mark.anyio
async def test_each_attempt_is_a_span_of_its_own(tracer, receiver):
    wrapper, rest = ServerCallWrapper(tracer, CATALOG), Next()
    task, run = ToolCall(id="c", tool=ToolId("contract:unmatched")), watched(tracer)
    for _ in range(3):
        await wrapper(task, run, rest)
    await tracer.flush()
    told = [called.extra["_meta"]["traceparent"][36:52] for called, _, _ in rest.calls]
    assert len(set(told)) == 3
    assert [span.id for span in receiver.spans] == told


@pytest.mark.anyio
async def test_a_server_that_is_added_later_is_told_and_names_of_clients_are_not_kept(receiver):
    catalog = FakeCatalog([entry("contract:unmatched")], [])
    async with OtelTracer(Settings(endpoint=receiver.endpoint), FakeServices(catalog=catalog)) as tracer:
        wrapper, rest, task = (
            ServerCallWrapper(tracer, catalog),
            Next(),
            ToolCall(id="c", tool=ToolId("contract:unmatched")),
        )
        await wrapper(task, watched(tracer), rest)
        catalog._servers.append(ServerStatus(name="contract", state="up"))
        await wrapper(task, watched(tracer), rest)
        assert ["_meta" in (called.extra or {}) for called, _, _ in rest.calls] == [False, True]
        assert wrapper._configured == {"contract"}


@pytest.mark.anyio
async def test_executions_that_nobody_told_of_and_other_tasks_pass(tracer):
    rest, run = Next(), FakeRun()
    for task in (ToolCall(id="c", tool=ToolId("contract:unmatched")), Workflow(id="w", tasks=())):
        await ClientTraceWrapper(tracer)(task, run, rest)
        await ServerCallWrapper(tracer, CATALOG)(task, run, rest)
        assert [called for called, _, _ in rest.calls[-2:]] == [task, task]
