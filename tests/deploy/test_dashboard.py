"""The dashboard asks for nothing that a gateway does not tell."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gateways import Gateway

CONFIG = """
[gateway]
store = "sqlite"
tools_exposure = "full_proxy"
tracers = ["store", "otel"]

[plugins.otel]
traces = false
metrics = false

[plugins.dbos]
database = ""

[servers.things]
command = {python}
args = [{server}]
"""
OF_PROMETHEUS = {"instance", "le"}
"""Labels that a scrape adds, and those of histograms."""


@pytest.fixture(scope="module")
def scrape(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """What a gateway tells that did a bit of everything: labels by the name of the series."""
    gateway = Gateway.with_server(tmp_path_factory.mktemp("scraped"), CONFIG)
    with gateway.running():
        assert not gateway.call("things__echo", {"text": "hello"}).get("isError")
        assert gateway.call("things__fail", {}).get("isError")
        tasks = [{"id": "a", "tool": "things:echo", "arguments": {"text": "in a plan"}}]
        assert not gateway.call("execute_workflow", {"workflow": {"tasks": tasks}}).get("isError")
        page = gateway.get("/metrics")
    series: dict[str, set[str]] = {}
    for line in page.splitlines():
        if line and not line.startswith("#"):
            name, labels = re.match(r"([a-zA-Z_:]\w*)(?:\{(.*)\})? ", line).groups()  # type: ignore[union-attr]
            series.setdefault(name, set()).update(re.findall(r'(\w+)="', labels or ""))
    return series


def queries(dashboard: dict[str, Any]) -> Iterator[str]:
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            # What Grafana puts in before it asks.
            yield target["expr"].replace("$__rate_interval", "5m").replace("$instance", ".*")


@pytest.fixture(scope="module")
def dashboard(deploy: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((deploy / "monitoring" / "dashboard.json").read_text(encoding="utf-8"))
    return found


def test_every_query_is_of_a_metric_and_of_labels_that_there_are(
    dashboard: dict[str, Any], scrape: dict[str, set[str]]
) -> None:
    asked = list(queries(dashboard))
    assert len(asked) > 10
    for query in asked:
        for name, labels in re.findall(r"\b((?:pml|mcp|gen_ai|otel)_\w+)\{([^}]*)\}", query):
            assert name in scrape, f"{name} in {query}"
            assert set(re.findall(r"(\w+)=", labels)) <= scrape[name] | OF_PROMETHEUS, query
            for group in re.findall(r"by \(([^)]*)\)", query):
                assert set(group.replace(" ", "").split(",")) <= scrape[name] | OF_PROMETHEUS, query


def test_prometheus_understands_every_query(dashboard: dict[str, Any], missing: Callable[[str], None]) -> None:
    try:
        from promql_parser import parse
    except ImportError:
        missing("promql-parser")
    for query in queries(dashboard):
        parse(query)
    with pytest.raises(ValueError, match="parenthesis"):
        parse("sum by (rate(x[5m])")


def test_panels_do_not_lie_upon_each_other(dashboard: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        here = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not here & taken, panel["title"]
        taken |= here
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
