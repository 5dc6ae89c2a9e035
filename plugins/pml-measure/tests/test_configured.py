from __future__ import annotations

from typing import Any

import pytest

from pml_hookspecs import InvalidArguments
from pml_measure import configured

pytestmark = pytest.mark.anyio


@pytest.fixture
def project(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PML_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def test_the_configuration_is_the_one_that_the_same_options_give_the_gateway(
    project: Any, arguments: Any
) -> None:
    (project / "pml.toml").write_text('[gateway]\ntools_exposure = "hybrid"\nintent = "mail"\n')
    found = await configured.read(arguments(overrides=["plugins.hybrid.semantic_threshold=0.4"]))
    assert (found.mode, found.intent, found.tables) == ("hybrid", "mail", {"hybrid": {"semantic_threshold": 0.4}})
    assert found.presets["hybrid_balanced"]["plugins", "hybrid", "max_underlying_tools"] == 20
    other = project / "other.toml"
    other.write_text('[gateway]\nintent = "files"\n')
    found = await configured.read(arguments(config=other, mode="semantic"))
    assert (found.mode, found.intent, found.tables) == ("semantic", "files", {})


async def test_a_configuration_that_does_not_fit_is_told_as_it_is(project: Any, arguments: Any) -> None:
    (project / "pml.toml").write_text("[gateway]\ntools = 1\n")
    with pytest.raises(InvalidArguments, match=r"pml config --json failed: .*gateway\.tools"):
        await configured.read(arguments())
