"""The Helm chart: rendered by Helm's own code, and what comes out is what Kubernetes takes."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

VERSIONS = ("1.30.0", "1.34.0")
KINDS = ["ConfigMap", "Deployment", "PodDisruptionBudget", "Service", "ServiceAccount"]
Render = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture
def render(deploy: Path, missing: Callable[[str], None]) -> Render:
    try:
        import helm_python
        import kubernetes_validate
        import yaml
    except ImportError as exc:
        missing(str(exc.name))

    def rendered(**values: Any) -> dict[str, dict[str, Any]]:
        with helm_python.Chart.load(str(deploy / "chart")) as chart:
            found = chart.render(values, name="fleet", namespace="tools")
        documents = [one for text in found.values() for one in yaml.safe_load_all(text) if one]
        for document in documents:
            for version in VERSIONS:
                kubernetes_validate.validate(document, version, strict=True)
        return {document["kind"]: document for document in documents}

    return rendered


def container(deployment: Mapping[str, Any]) -> dict[str, Any]:
    (only,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(only)


def test_the_chart_has_nothing_to_complain_about(deploy: Path, render: Render) -> None:
    import helm_python.chart

    report = helm_python.chart.lint(str(deploy / "chart"), strict=True)
    assert [one for one in report.get("messages", []) if "icon" not in str(one)] == [], report


def test_what_it_makes_is_valid(render: Render) -> None:
    assert sorted(render()) == KINDS
    more = render(ingress={"enabled": True, "className": "nginx", "tlsSecret": "t"}, metricsNetwork="10.0.0.0/8")
    assert sorted(more) == sorted([*KINDS, "Ingress"])


def test_a_mistake_in_it_would_be_found(render: Render) -> None:
    import kubernetes_validate

    deployment = render()["Deployment"]
    deployment["spec"]["replica"] = 2
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, VERSIONS[0], strict=True)


def test_pods_have_no_rights_and_write_nowhere_but_in_their_folders(render: Render) -> None:
    deployment = render()["Deployment"]
    pod, only = deployment["spec"]["template"]["spec"], container(deployment)
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["automountServiceAccountToken"] is False
    security = only["securityContext"]
    assert security["readOnlyRootFilesystem"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert {one["mountPath"] for one in only["volumeMounts"] if not one.get("readOnly")} == {"/var/lib/pml", "/tmp"}


def test_no_gateway_is_stopped_before_another_is_ready_nor_while_it_ends(render: Render) -> None:
    deployment = render(shutdownDelaySeconds=20)["Deployment"]
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > 20 + 9
    only = container(deployment)
    assert only["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
    assert only["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}


def test_a_gateway_can_read_its_configuration(render: Render, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pml_settings.config import load

    for name, value in (("PML_DATABASE_URL", "postgresql://db/pml"), ("PML_TOKEN", "t0k3n")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PML_HOME", str(tmp_path / "home"))
    made = render(shutdownDelaySeconds=11, metricsNetwork="10.0.0.0/8")
    text = made["ConfigMap"]["data"]["pml.toml"]
    assert tomllib.loads(text)["plugins"]["http"]["metrics_networks"] == ["10.0.0.0/8"]
    file = tmp_path / "pml.toml"
    file.write_text(text, encoding="utf-8")
    config = load(file)
    assert (config.gateway.shutdown_delay_s, config.gateway.store) == (11.0, "postgres")
    other = render(shutdownDelaySeconds=12)["Deployment"]["spec"]["template"]["metadata"]["annotations"]
    assert other != made["Deployment"]["spec"]["template"]["metadata"]["annotations"]
