"""What plugins say of their settings is shown by ``pml config check``."""

from __future__ import annotations

import json

import pytest

from pml_core.cli import main

SERVER = '[servers.git]\ncommand = "git"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[gateway]\ntools_exposure = "full_proxy"', "gateway.tools_exposure: full_proxy puts every tool"),
        ('[endpoints.ops]\ntools_exposure = "full_proxy"', "endpoints.ops.tools_exposure: full_proxy"),
        ('[gateway]\ntools_exposure = "semantic"', "gateway.intent: is empty, so semantic lists no tools"),
        (
            '[gateway]\ntools_exposure = "semantic"\nintent = "x"\n[plugins.hybrid]\nsemantic_threshold = 1',
            "plugins.semantic.semantic_threshold: at 1 hardly any tool is listed",
        ),
        (
            '[gateway]\ntools_exposure = "semantic"\nintent = "x"\n[plugins.semantic]\nmax_underlying_tools = 101',
            "plugins.semantic.max_underlying_tools: over 100 tools fill a context",
        ),
        ('[gateway]\ntools_exposure = "hybrid"', "or one by one in plugins.hybrid.intents"),
        ("[plugins.hybrid]\nsemantic_threshold = 0.5", "semantic_threshold has no effect"),
    ],
)
def test_what_is_legal_and_doubtful_is_a_warning_and_no_mistake(tmp_path, monkeypatch, capsys, text, said):
    monkeypatch.setenv("PML_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "config.toml"
    file.write_text(f"{text}\n{SERVER}", encoding="utf-8")
    assert main(["config", "check", "--json", "--config", str(file)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], [line for line in found["warnings"] if said in line] != []) == (True, True), found


def test_a_preset_is_written_with_what_is_doubtful_about_its_mode(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PML_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "config.toml"
    file.write_text(SERVER, encoding="utf-8")
    assert main(["config", "--preset", "hybrid_permissive", "--json", "--to", str(file)]) == 0
    done = json.loads(capsys.readouterr().out)
    assert [note for note in done["notes"] if "plugins.hybrid.intents" in note]
