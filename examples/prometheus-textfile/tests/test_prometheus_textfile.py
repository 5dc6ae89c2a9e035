from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from threading import Event

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pml_example_prometheus_textfile import MOST, NAME, PrometheusTextfile, Settings
from pml_testing.records import ended
from pml_testing.tracer import TracerContract

pytestmark = pytest.mark.anyio


def samples(path):
    """What a reader of the file finds: name and labels to number."""
    text = path.read_text() if path.exists() else ""
    found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(one.name, *(one.labels[label] for label in ("task", "tool", "status"))): one.value for one in found}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics" / "pml.prom"


class TestContract(TracerContract):
    @pytest.fixture
    def tracer_type(self):
        return Noting

    @pytest.fixture
    def settings(self, path):
        return Settings(path=str(path), interval_s=0.05)

    @pytest.fixture
    def delivered(self, tracer, path):
        """A sum tells how many spans there were, not which: these are the first so many that ended."""

        def delivered():
            count = sum(int(n) for (name, *_), n in samples(path).items() if name.endswith("_count"))
            return Counter(tracer.noted[:count] + ["one too many"] * (count - len(tracer.noted)))

        return delivered

    @pytest.fixture
    def dropped(self):
        return lambda: 0


class Noting(PrometheusTextfile):
    """Knows in which order spans ended."""

    def __init__(self, settings=None, services=None):
        super().__init__(settings, services)
        self.noted = []

    def ended(self, ended):
        super().ended(ended)
        if len(self.noted) < 20_000:
            self.noted.append(ended.span.span_id)


async def test_the_file_says_how_many_tasks_ended_how_and_how_long_they_took(path, services):
    tracer = PrometheusTextfile(Settings(path=str(path)), services)
    for n in range(3):
        tracer.ended(ended(n, attributes={"gen_ai.tool.name": "files:read"}))
    tracer.ended(ended(9, name="workflow"))
    await tracer.flush()
    found = samples(path)
    assert found[f"{NAME}_count", "tools/call", "files:read", "ok"] == 3
    assert found[f"{NAME}_sum", "tools/call", "files:read", "ok"] == pytest.approx(3e-8)
    assert found[f"{NAME}_count", "workflow", "", "ok"] == 1
    assert f"# HELP {NAME} How long tasks took.\n# TYPE {NAME} summary\n" in path.read_text()


async def test_odd_names_do_not_break_the_format(path):
    tracer = PrometheusTextfile(Settings(path=str(path)))
    tracer.ended(ended(1, attributes={"gen_ai.tool.name": 'a:"b"\\\nc'}))
    await tracer.flush()
    assert (f"{NAME}_count", "tools/call", 'a:"b"\\\nc', "ok") in samples(path)


async def test_a_file_that_cannot_be_written_is_said_and_made_up_for(path, services):
    path.parent.write_text("in the way")
    tracer = PrometheusTextfile(Settings(path=str(path)), services)
    tracer.ended(ended(1))
    await tracer.flush()
    assert [(level, event) for level, event, _ in services.log.lines] == [("warning", "metrics are not written")]
    path.parent.unlink()
    await tracer.flush()
    assert samples(path)


async def test_the_default_is_beside_the_gateways_other_files(monkeypatch, tmp_path):
    monkeypatch.setenv("PML_HOME", str(tmp_path))
    tracer = PrometheusTextfile()
    tracer.ended(ended(1))
    await tracer.flush()
    assert (tmp_path / "metrics" / "pml.prom").exists()
    monkeypatch.delenv("PML_HOME")
    assert PrometheusTextfile()._path == Path.home() / ".pml" / "metrics" / "pml.prom"


async def test_a_gateway_is_measured(gateway, path):
    async with gateway([PrometheusTextfile], settings={"prometheus_textfile": {"path": str(path)}}) as client:
        await client.call("files__read_file")
        await client.call("files__read_file")
    assert samples(path)[f"{NAME}_count", "tools/call", "files:read_file", "ok"] == 2


async def test_names_that_clients_make_up_do_not_fill_the_memory(path):
    tracer = PrometheusTextfile(Settings(path=str(path)))
    for n in range(MOST + 10):
        tracer.ended(ended(n, attributes={"gen_ai.tool.name": f"files:{n}"}))
    tracer.ended(ended(0, attributes={"gen_ai.tool.name": "files:0"}))
    await tracer.flush()
    found = samples(path)
    assert sum(name == f"{NAME}_count" for name, *_ in found) == MOST + 1
    assert found[f"{NAME}_count", "other", "other", "ok"] == 10
    assert found[f"{NAME}_count", "tools/call", "files:0", "ok"] == 2


async def test_a_slow_disk_holds_up_nobody(path, monkeypatch):
    writing, go_on = Event(), Event()
    write = prometheus_client.write_to_textfile

    def write_slowly(*given):
        writing.set()
        go_on.wait(60)
        write(*given)

    monkeypatch.setattr(prometheus_client, "write_to_textfile", write_slowly)
    tracer = PrometheusTextfile(Settings(path=str(path)))
    tracer.ended(ended(1))
    flushing = asyncio.create_task(tracer.flush())
    await asyncio.to_thread(writing.wait, 60)
    tracer.ended(ended(2))
    assert not flushing.done()
    go_on.set()
    await flushing
    assert samples(path)


async def test_nothing_but_the_file_is_left_in_its_folder(path):
    tracer = PrometheusTextfile(Settings(path=str(path)))
    tracer.ended(ended(1))
    await asyncio.gather(tracer.flush(), tracer.flush())
    assert [one.name for one in path.parent.iterdir()] == [path.name]


async def test_a_command_that_traces_nothing_leaves_what_the_gateway_wrote(path):
    gateway, command = (PrometheusTextfile(Settings(path=str(path))) for _ in range(2))
    gateway.ended(ended(1))
    await gateway.flush()
    await command.flush()
    assert samples(path)
