from __future__ import annotations

from typing import Any

import pytest

from pml_hookspecs import InvalidArguments
from pml_measure import advice
from pml_measure.advice import Facts, advise

pytestmark = pytest.mark.anyio
FEW = ("a:b",)


def facts(**given: Any) -> Facts:
    plain: dict[str, Any] = {
        "context": 100_000,
        "full": 40_000,
        "recall": 0.9,
        "measured_on": "history",
        "favourites": (),
        "covered": 0.0,
        "calls": 0,
    }
    return Facts(**{**plain, **given})


@pytest.mark.parametrize(
    ("given", "preset", "said"),
    [
        ({"full": 5_000}, "full_proxy", "little to save"),
        ({}, "meta_only", "agents can rely on it"),
        ({"measured_on": "generated"}, "hybrid_balanced", "history is too short"),
        ({"recall": 0.5}, "hybrid_permissive", "list more tools"),
        ({"favourites": FEW, "covered": 0.9, "calls": 50}, "hybrid_balanced", "1 tools account for 90.0 %"),
        ({"favourites": FEW, "covered": 0.5, "calls": 50}, "meta_only", "rely on it"),
        ({"favourites": FEW, "covered": 0.9, "calls": 3}, "meta_only", "rely on it"),
    ],
)
def test_the_preset_follows_from_cost_history_and_search(given: dict[str, Any], preset: str, said: str) -> None:
    found = advise(facts(**given))
    assert found.preset == preset
    assert said in " ".join(found.reasons)
    assert found.whitelist == (FEW if preset == "hybrid_balanced" and "favourites" in given else ())


async def test_the_advice_rests_on_the_catalog_and_the_history(
    services: Any, history: Any, arguments: Any, printed: Any
) -> None:
    for number in range(30):
        history.ran("mail:send_message" if number % 10 else "files:read_file", number)
    assert await advice.run(arguments(context=2000), services) == 0
    said = printed()
    assert said["preset"] == "hybrid_balanced"
    assert said["whitelisted_tools"] == ["mail:send_message", "files:read_file"]
    assert (said["facts"]["calls"], said["facts"]["calls_of_favourites"]) == (30, 1.0)
    assert said["now"]["mode"] == "chosen"


async def test_people_are_told_why_and_what_to_type(
    services: Any, arguments: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await advice.run(arguments(json=False), services) == 0
    out = capsys.readouterr().out
    assert out.startswith("Preset: full_proxy\n")
    assert "pml config --preset full_proxy" in out
    assert "Now, chosen costs" in out


async def test_a_context_too_small_to_be_one_is_refused(services: Any, arguments: Any) -> None:
    with pytest.raises(InvalidArguments, match="--context 8"):
        await advice.run(arguments(context=8), services)
