"""What packs of plugins have as defaults holds where nobody says otherwise, and it is told whose default it is.

The fixture ``installation`` has one, ``acme-pack``: the store ``sqlite``, the tracers ``log`` and ``store``.
"""

from __future__ import annotations

import shutil

import pytest

from pml_kit.errors import OperatorError
from pml_settings.config import GatewaySettings, load

HARMLESS = "gateway.log_level='info'"
"""An override that says the default: takes the long way through pydantic and changes nothing."""


@pytest.mark.parametrize("overrides", [(), (HARMLESS,)])
def test_they_hold_where_nobody_says_otherwise_and_no_source_says_them(place, installation, overrides):
    loaded = load(overrides=overrides)
    assert (loaded.gateway.store, loaded.gateway.tracers) == ("sqlite", ("log", "store"))
    assert loaded.says("gateway.store") is None
    assert loaded.origin("gateway.store") == loaded.origin(("gateway", "tracers")) == "default of acme-pack"
    assert loaded.origin("gateway.strict") == "default"


def test_without_a_pack_nothing_is_named(place, installation):
    shutil.rmtree(installation.folder / "acme_pack-1.0.dist-info")
    loaded = load()
    assert loaded.gateway == GatewaySettings()
    assert (loaded.gateway.store, loaded.gateway.tracers, loaded.packs) == ("", (), {})
    assert [one for one in loaded.named_drivers() if one[0] in ("store", "tracer")] == []


@pytest.mark.parametrize("how", ["file", "environment", "option"])
def test_whatever_any_source_says_counts_instead(place, installation, monkeypatch, how):
    overrides = []
    if how == "file":
        place.users("config.toml", "[gateway]\nstore = 'memo'\ntracers = []\n")
    elif how == "environment":
        monkeypatch.setenv("PML_GATEWAY__STORE", "memo")
        monkeypatch.setenv("PML_GATEWAY__TRACERS", "[]")
    else:
        overrides = ["gateway.store='memo'", "gateway.tracers=[]"]
    loaded = load(overrides=overrides)
    assert (loaded.gateway.store, loaded.gateway.tracers) == ("memo", ())
    assert loaded.says("gateway.store") == loaded.origin("gateway.store") != "default of acme-pack"


def test_a_projects_tracers_come_to_them_and_take_none_away(place, installation):
    place.write("pml.toml", "[gateway]\ntracers = ['mine']\nstore = 'other'\n")
    loaded = load()
    assert (loaded.gateway.store, loaded.gateway.tracers) == ("sqlite", ("log", "store", "mine"))


@pytest.mark.parametrize(
    "points", [{"nothing": "x"}, {"strict": "true"}, {"tracers": "log"}, {"store.one": "sqlite"}], ids=str
)
def test_one_that_has_a_default_of_what_names_nothing_is_refused_by_name(place, installation, points):
    installation.add("odd-pack", {"pml.defaults": points})
    with pytest.raises(OperatorError, match=r"the pack odd-pack has a default of gateway\.\S+, which can have none"):
        load()


def test_of_several_the_first_by_name_counts(place, installation):
    installation.add("a-pack", {"pml.defaults": {"store": "first"}})
    installation.add("z-pack", {"pml.defaults": {"store": "last", "tools_exposure": "all"}})
    loaded = load()
    assert (loaded.gateway.store, loaded.gateway.tools_exposure) == ("first", "all")
    assert loaded.origin("gateway.store") == "default of a-pack"


def test_items_of_several_are_taken_together(place, installation):
    installation.add("z-pack", {"pml.defaults": {"tracers.own": "own", "tracers.log": "log"}})
    assert load().gateway.tracers == ("log", "store", "own")
