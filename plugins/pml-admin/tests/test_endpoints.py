from __future__ import annotations

import json

from pml_core.cli import main

# Configuration


def test_the_configuration_is_shown_and_explained(place, capsys, monkeypatch):
    file = place.write("pml.toml", '[endpoints.ops]\ntools_exposure = "full_proxy"\n')
    monkeypatch.setenv("PML_ENDPOINTS__OPS__INTENT", "run things")
    assert main(["config", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["endpoints.ops.tools_exposure"] == {"value": "full_proxy", "source": str(file)}
    assert shown["endpoints.ops.intent"] == {"value": "run things", "source": "environment"}
    assert main(["config", "explain", "endpoints.ops.tools_exposure"]) == 0
    out = capsys.readouterr().out
    assert f"endpoints.ops.tools_exposure = 'full_proxy'  ({file})" in out
    assert "Exposure mode: which tools its clients see." in out
    assert main(["config", "explain", "endpoints.ops"]) == 0
    assert "endpoints.ops.intent = 'run things'  (environment)" in capsys.readouterr().out
    assert main(["config", "explain", "endpoints.ops.zzz"]) == 2


def test_a_mode_that_is_not_installed_is_found_by_the_check(place, installation, capsys):
    file = place.write("pml.toml", '[endpoints.ops]\ntools_exposure = "full_proxi"\n')
    driver = "class D:\n    def __init__(self, settings, services): pass\n"
    points = {"pml.exposure_mode": {"meta_only": "acme:D", "full_proxy": "acme:D"}}
    installation.add("acme", points, modules={"acme": driver})
    assert main(["config", "check"]) == 1
    assert (
        f"endpoints.ops.tools_exposure ({file}): no exposure_mode named 'full_proxi'; did you mean 'full_proxy'?"
        in capsys.readouterr().out
    )


# At work
