"""Whatever is installed here is found, loads, and explains its settings. Runs with one plugin, with all, with none."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from pml_core.cli import main
from pml_core.plugins import registry
from pml_core.plugins.registry import State
from pml_settings.config import GatewaySettings, ServerSettings, load

RECORDS = [record for record in registry.discover() if not record.dist.startswith("pml-broken-")]


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place without configuration, whoever runs the tests."""
    monkeypatch.setenv("PML_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_plugin_is_found_without_a_problem() -> None:
    assert [record for record in RECORDS if record.state is not State.FOUND or record.problem] == []


def undescribed(settings_type: Any) -> list[str]:
    """Settings of which nobody could tell what they mean or what they are when nothing is said."""
    missing = dataclasses.MISSING
    return [
        field.name
        for field in dataclasses.fields(settings_type)
        if not field.metadata.get("description") or (field.default is missing and field.default_factory is missing)
    ]


def test_every_setting_has_a_description_and_a_default() -> None:
    types = {record.label: getattr(record.entry_point.load(), "settings_type", None) for record in RECORDS}
    types |= {"[gateway]": GatewaySettings, "[servers.<name>]": ServerSettings}
    declared = {label: settings_type for label, settings_type in types.items() if settings_type is not None}
    assert {label: names for label, made in declared.items() if (names := undescribed(made))} == {}
    assert [label for label, settings_type in declared.items() if settings_type() != settings_type()] == []


def examined(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    """What the doctor finds; the test is skipped where it is not installed: the core alone has none."""
    pytest.importorskip("pml_admin")
    main(["plugins", "doctor", "--json", *words])
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.usefixtures("alone")
def test_the_doctor_finds_every_plugin_well(capsys: pytest.CaptureFixture[str]) -> None:
    """What it may regret is that drivers which are the default are not installed, never a plugin that is."""
    lines = {line["subject"]: line for line in examined(capsys)}
    about = [f"{record.kind} {record.name}" for record in RECORDS]
    assert [lines[subject] for subject in about if not lines[subject]["ok"]] == []
    defaults = {"exposure_mode meta_only", "store sqlite", "tracer log", "tracer store"}
    assert {subject for subject, line in lines.items() if not line["ok"]} <= defaults - set(about)


def said(settings_type: Any) -> str:
    """A table that says of one plain setting what it is anyway."""
    for field in dataclasses.fields(settings_type):
        if isinstance(field.default, str | int | float) and field.default != "":
            return f"{field.name} = {json.dumps(field.default)}\n"
    return ""


def test_every_plugin_with_settings_takes_a_table_of_them(alone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where a distribution registers several things under one name, each of them has to know the table."""
    types = [(one.name, getattr(one.entry_point.load(), "settings_type", None)) for one in RECORDS]
    tables = {name: said(settings_type) for name, settings_type in types if settings_type is not None}
    text = "".join(f"[plugins.{name}]\n{table}" for name, table in tables.items())
    (alone / "pml.toml").write_text(text, encoding="utf-8")
    config = load(alone / "pml.toml")
    assert config.tables.keys() == tables.keys()
    about = {f"{record.kind} {record.name}" for record in RECORDS}
    lines = examined(capsys, "--config", str(alone / "pml.toml"))
    assert [line for line in lines if line["subject"] in about and not line["ok"]] == []
