from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pml_kit.errors import OperatorError
from pml_measure import comparison, presets


@pytest.fixture
def project(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PML_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_presets_are_those_that_come_with_the_gateway_and_the_users_own(project: Any) -> None:
    (project / "home").mkdir()
    mine = "mine:\n  hybrid:\n    max_underlying_tools: 7\n"
    (project / "home" / "gateway-presets.yaml").write_text(mine)
    found = {preset.name: preset for preset in presets.known()}
    assert {"meta_only", "hybrid_balanced", "hybrid_permissive", "full_proxy"} <= found.keys()
    assert found["hybrid_balanced"].mode == "hybrid"
    assert found["hybrid_balanced"].settings["hybrid"]["max_underlying_tools"] == 20
    assert (found["mine"].mode, found["mine"].settings) == ("", {"hybrid": {"max_underlying_tools": 7}})


def test_a_file_of_presets_that_is_none_is_told_as_it_is(project: Any) -> None:
    (project / "home").mkdir()
    (project / "home" / "gateway-presets.yaml").write_text("[")
    with pytest.raises(OperatorError, match=r"gateway-presets\.yaml"):
        presets.known()


def test_the_same_configuration_is_named_to_another_command(arguments: Any) -> None:
    given = arguments(overrides=["a.b=1"], config=Path("x.toml"), mode="hybrid")
    assert comparison.options(given) == ["--set=a.b=1", "--config=x.toml", "--mode=hybrid"]
    assert comparison.options(arguments()) == []
