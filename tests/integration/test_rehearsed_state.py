"""What a plan wrote it reads, in a rehearsal as in the real run: compared with it on a server that remembers."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pml_core.gateway import Gateway
from pml_core.plugins import registry
from pml_dry_run import plugin as dry_run
from pml_executor_dag import Dag, tool
from pml_hookspecs import RpcError
from pml_preflight import plugin as preflight
from pml_settings.config import Config, GatewaySettings, ServerSettings, Source
from pml_store_sqlite import SqliteStore
from pml_testing.gateway import Client, value_of
from pml_transport_stdio import Stdio

SERVER = Path(__file__).with_name("pages_server.py")
MODES = [True, "reads"]


@contextmanager
def serving(folder, kind):
    """A gateway with that server, and a client."""
    config = Config(
        gateway=GatewaySettings(log_level="error", store="sqlite"),
        servers={"wiki": ServerSettings(command=sys.executable, args=(str(SERVER), kind))},
        tables={
            "sqlite": {"path": str(folder / "pml.db")},
            "dry_run": {"per_second": 1e6, "cpu_share": 1.0, "max_per_tool": 1000},
        },
        sources=(Source("test", {}),),
    )
    found = [
        registry.provide("pml.transport", "stdio", Stdio),
        registry.provide("pml.executor", "dag", Dag),
        registry.provide("pml.store", "sqlite", SqliteStore),
        registry.provide("pml.plugins", "workflow_tool", tool),
        registry.provide("pml.plugins", "dry_run", dry_run),
        registry.provide("pml.plugins", "preflight", preflight),
    ]
    with asyncio.Runner() as runner:
        gateway = runner.run(Gateway(config, None, found).__aenter__())
        runner.run(gateway.servers_tried())
        client = Client(gateway)
        runner.run(client.initialize())

        try:
            yield Plans(runner, client)
        finally:
            runner.run(gateway.__aexit__(None, None, None))


class Plans:
    """Runs plans."""

    def __init__(self, runner, client):
        self._runner, self._client = runner, client

    def report(self, tasks, *, dry_run=False, **meta):
        """What the client is told."""
        asked = {"workflow": {"tasks": tasks, "return": "all"}, **({} if dry_run is None else {"dry_run": dry_run})}
        more = {"_meta": meta} if meta else {}
        answer = self._runner.run(self._client.call("execute_workflow", asked, **more))
        self.length = len(json.dumps(answer))
        self.text = answer["content"][0]["text"]
        return value_of(answer)

    def __call__(self, *steps, dry_run=False):
        """How each step ended, all one after the other, whether those before ended well or not."""
        return self.report([{**task, "on_error": "continue"} for task in chain(*steps)], dry_run=dry_run)["tasks"]


def chain(*steps):
    """Tasks of which each waits for the one before."""
    return [
        {"id": f"s{n}", "tool": f"wiki:{name}", "arguments": arguments, "depends_on": [f"s{n - 1}"] if n else []}
        for n, (name, arguments) in enumerate(steps)
    ]


@pytest.fixture(params=["structured", "text"])
def run(tmp_path, request):
    with serving(tmp_path, request.param) as made:
        yield made


def page(name, slug, **more):
    return f"{name}_page", {"slug": slug, **more}


def ends(tasks):
    """Of each step: its result, or that it failed."""
    return ["failed" if task["status"] == "error" else task["result"] for task in tasks]


def compared(run, *steps):
    """How the last step ends, rehearsed in each of both ways and then for real."""
    rehearsed = [run(*steps, dry_run=mode) for mode in MODES]
    real = run(*steps)
    return [ends(tasks)[-1] for tasks in (*rehearsed, real)], [tasks[-1] for tasks in rehearsed]


NEW = {"title": "t", "body": "b"}


def test_an_error_of_before_is_no_answer_for_what_the_plan_creates(run):
    assert ends(run(page("get", "a"))) == ["failed"]
    run(page("create", "other", **NEW), page("get", "other"))
    (*rehearsed, real), _ = compared(run, page("create", "a", **NEW), page("get", "a"))
    assert rehearsed == [real, real] == [{"slug": "a", **NEW}] * 2


def test_an_update_of_what_the_plan_creates_does_not_fail_as_it_did_before(run):
    assert ends(run(page("update", "a", title="x"), page("get", "a"))) == ["failed"] * 2
    (*rehearsed, real), told = compared(run, page("create", "a", **NEW), page("update", "a", title="x"))
    assert "failed" not in (*rehearsed, real)
    assert "is an error from before" in told[0]["_meta"]["pml/simulated"]["notes"][0]


def test_what_is_read_after_an_update_is_not_stale(run):
    run(page("create", "a", **NEW), page("get", "a"))
    (*rehearsed, real), _ = compared(run, page("update", "a", title="new"), page("get", "a"))
    assert rehearsed == [real, real] == [{"slug": "a", "title": "new", "body": "b"}] * 2


def test_what_was_read_last_is_what_the_next_rehearsal_reads(run):
    run(page("create", "a", **NEW), page("get", "a"), page("update", "a", title="new"), page("get", "a"))
    (*rehearsed, real), _ = compared(run, page("get", "a"))
    assert rehearsed == [real, real]


def test_reading_what_the_plan_deletes_fails(run):
    run(page("create", "a", **NEW), page("get", "a"))
    (*rehearsed, real), told = compared(run, page("delete", "a"), page("get", "a"))
    assert rehearsed == [real, real] == ["failed"] * 2
    assert {task["error"]["code"] for task in told} == {"dry_run.deleted"}
    assert {task["_meta"]["pml/simulated"]["journal"][0]["task_id"] for task in told} == {"s0"}


def test_the_same_thing_may_be_named_by_its_kind(run):
    run(("create_ticket", {"title": "It breaks"}), ("get_ticket", {"ticket_id": 1}))
    steps = ("close_ticket", {"id": 1, "state": "closed"}), ("get_ticket", {"ticket_id": 1})
    (*rehearsed, real), _ = compared(run, *steps)
    assert rehearsed == [real, real] == [{"id": 1, "title": "It breaks", "state": "closed"}] * 2


def test_what_may_be_another_is_flagged_in_the_report_of_the_plan(run):
    run(page("create", "a", **NEW), ("list_pages", {}))
    _, told = compared(run, page("create", "b", **NEW), ("list_pages", {}))
    assert [task["_meta"]["pml/would_differ"][0]["task_id"] for task in told] == ["s0", "s0"]


SLUGS = ("x", "y")
OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["create", "update", "delete", "get"]), st.sampled_from(SLUGS), st.sampled_from("pqr")),
    min_size=1,
    max_size=6,
)


def possible(operations, there, prefix):
    """The steps of these that succeed for real, reads of what is not there aside; keeps ``there``."""
    for n, (name, slug, value) in enumerate(operations):
        if name != "get" and (slug in there) is (name == "create"):
            continue
        there.add(slug) if name == "create" else there.discard(slug) if name == "delete" else None
        more = {"create": {"title": value, "body": f"{n}"}, "update": {"title": value}}.get(name, {})
        yield page(name, f"{prefix}{slug}", **more)


def test_what_is_neither_flagged_nor_made_up_is_as_in_the_real_run(run):
    numbers = count()
    seen = {"journal": 0, "recorded": 0, "real": 0, "failed": 0}

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(before=OPERATIONS, plan=OPERATIONS)
    @example(
        before=[("create", "x", "p")], plan=[(name, "x", "q") for name in ("get", "update", "get", "delete", "get")]
    )
    def compare(before, plan):
        prefix, there = f"{next(numbers)}-", set()
        run(*possible(before, there, prefix), *(page("get", f"{prefix}{slug}") for slug in SLUGS))
        steps = list(possible(plan, there, prefix))
        if not steps:
            return
        rehearsed, real = [run(*steps, dry_run=mode) for mode in MODES], ends(run(*steps))
        for tasks in rehearsed:
            for (name, _), task, end in zip(steps, tasks, real, strict=True):
                meta = task.get("_meta", {})
                source = meta.get("pml/simulated", {"source": "real"})["source"]
                if name != "get_page" or "pml/would_differ" in meta or source in ("example", "inferred", "placeholder"):
                    continue
                assert ends([task]) == [end], (steps, task, end)
                seen["failed" if end == "failed" else source] += 1

    compare()
    assert min(seen["journal"], seen["recorded"], seen["failed"]) > 0, seen


@pytest.mark.parametrize(
    "steps",
    [
        [page("get", "none")],
        [page("create", "a", **NEW)],
        [page("create", "none", **NEW), page("get", "none"), page("update", "none", title="x")],
        [page("delete", "a"), page("get", "a")],
        [page("update", "a", title="x"), page("get", "a")],
        [page("update", "a", titel="x"), page("get", "a")],
    ],
)
def test_the_verdict_is_that_of_the_real_run(run, steps):
    """Two fail as they failed before, one reads what it deletes."""
    run(page("get", "none"), page("update", "none", title="x"))
    run(page("create", "a", **NEW), page("create", "a", **NEW), page("get", "a"))
    reports = [run.report(chain(*steps), dry_run=mode) for mode in MODES]
    real = run.report(chain(*steps))
    assert [report["preflight"]["ok"] for report in reports] == [real["status"] == "completed"] * 2
    assert [bool(report["preflight"]["errors"]) for report in reports] == [real["status"] != "completed"] * 2


def test_a_recorded_error_of_that_very_call_is_told_with_the_step(run):
    run(page("get", "none"))
    nested = [{"id": "in", "type": "workflow", "tasks": chain(page("get", "none"))}]
    for tasks, path in ((chain(page("get", "none")), "s0"), (nested, "in/s0")):
        report = run.report(tasks, dry_run=True)["preflight"]
        (wrong,) = report["errors"]
        assert (wrong["code"], wrong["task"]) == ("tool.failed", path)
        assert "there is no none" in wrong["message"]
        assert wrong["message"] in report["text"].splitlines()[1]


def test_a_failure_that_the_plan_allows_is_a_warning(run):
    run(page("get", "none"))
    task = {**chain(page("get", "none"))[0], "on_error": "continue"}
    report = run.report([task], dry_run=True)["preflight"]
    assert (report["ok"], [one["code"] for one in report["warnings"]]) == (True, ["tool.failed"])
    assert run.report([task])["status"] == "completed"


@pytest.mark.parametrize("wrong", ["${s0.result}", "$s0.result", "${s0.result.slug}"])
def test_a_reference_of_another_language_is_told_and_the_right_one_works(run, wrong):
    tasks = chain(page("create", "a", **NEW), page("get", wrong))
    report = run.report(tasks, dry_run=True)["preflight"]
    assert (report["ok"], [one["code"] for one in report["errors"]]) == (False, ["reference.foreign"])
    right = report["errors"][0]["message"].rpartition("write ")[2]
    assert right == ("{{s0.slug}}" if "slug" in wrong else "{{s0}}")


def test_a_misspelt_key_of_ours_is_refused_and_nothing_runs(run):
    create = chain(page("create", "a", **NEW))
    with pytest.raises(RpcError, match="did you mean 'pml/dry_run'") as refused:
        run.report(create, dry_run=None, **{"pml/dryrun": True})
    assert refused.value.code == -32602
    assert ends(run(page("get", "a"))) == ["failed"]


def test_the_report_of_twenty_steps_is_short_and_begins_with_what_is_for_reading(run):
    """It was 59 kB."""
    steps = [page("create" if n % 2 else "get", f"p{n}", **(NEW if n % 2 else {})) for n in range(20)]
    report = run.report(chain(*steps), dry_run=True)
    assert (next(iter(report)), next(iter(report["preflight"]))) == ("preflight", "text")
    assert run.text.startswith('{"preflight":{"text":"Pre-flight of 20 steps: nothing wrong.')
    assert len(report["preflight"]["text"]) < 2_500
    assert run.length < 36_000
