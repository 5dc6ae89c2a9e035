from __future__ import annotations

import sys
from importlib import metadata

import pytest

from pml_core.plugins.registry import Record, State, canonical, discover, provide

GOOD = {"pml.store": {"memo": "memo_plugin:Store"}}
BOOM = {"memo_plugin": "raise RuntimeError('imported')"}


def one(**options) -> Record:
    (record,) = discover(**options)
    return record


def test_nothing_installed_finds_nothing(installation):
    assert discover() == []


def test_a_record_says_what_and_whose_it_is_without_importing_it(installation):
    installation.add("Acme.Store", GOOD, version="1.2", modules=BOOM)
    record = one()
    assert (record.group, record.kind, record.name, record.target) == (
        "pml.store",
        "store",
        "memo",
        "memo_plugin:Store",
    )
    assert (record.dist, record.version, record.requires_api) == ("acme-store", "1.2", ">=0.2,<0.3")
    assert (record.state, record.problem, record.error) == (State.FOUND, "", None)
    assert record.label == "store driver 'memo' (acme-store 1.2)"
    assert "memo_plugin" not in sys.modules


def test_every_group_is_searched_and_the_order_is_by_group_name_and_distribution(installation):
    installation.add(
        "z", {"pml.plugins": {"b": "x", "a": "x"}, "pml.transport": {"stdio": "x:T"}, "console_scripts": {"c": "x:m"}}
    )
    installation.add("a", {"pml.exposure_mode": {"m": "x:M"}, "pml.executor": {"e": "x:E"}, "pml.tracer": {"t": "x:T"}})
    found = [(r.kind, r.name, r.dist) for r in discover()]
    assert found == [
        ("executor", "e", "a"),
        ("exposure_mode", "m", "a"),
        ("hooks", "a", "z"),
        ("hooks", "b", "z"),
        ("tracer", "t", "a"),
        ("transport", "stdio", "z"),
    ]
    assert [r.label for r in discover()][2] == "hook plugin 'a' (z 1.0)"


@pytest.mark.parametrize("name", ["Memo", "my-store", "_memo", "memo_", "a__b", "1st", "memo.x"])
def test_a_name_that_is_not_snake_case_is_incompatible(installation, name):
    installation.add("acme", {"pml.store": {name: "x:S"}})
    record = one()
    assert record.state is State.INCOMPATIBLE
    assert f"name {name!r} is not snake_case" in record.problem
    assert "acme" in record.remedy


def test_a_distribution_that_does_not_say_its_api_is_incompatible(installation):
    installation.add("acme", GOOD, requires=["anyio"])
    record = one()
    assert record.state is State.INCOMPATIBLE
    assert "does not declare which pml-hookspecs" in record.problem
    assert "acme" in record.remedy


def test_a_range_that_admits_a_contract_which_was_broken_since_is_refused(installation):
    installation.add("acme", GOOD, requires=["pml-hookspecs>=0.1,<1"])
    record = one()
    assert record.state is State.INCOMPATIBLE
    assert record.problem.startswith("was made for pml-hookspecs 0.1.0")
    assert "docs/plugins/changes-0.2.md" in record.remedy


def test_what_the_core_asks_for_and_does_not_find_is_one_line(monkeypatch, capsys):
    from pml_core import cli

    def fail(_words):
        raise ImportError("cannot import name 'replace'")

    monkeypatch.setattr(cli, "build_parser", fail)
    with pytest.raises(ImportError):
        cli.main(["--version"])
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "0.1.0" if name == "pml-hookspecs" else real(name))
    assert cli.main(["--version"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("pml: pml-core needs pml-hookspecs<0.3,>=0.2, found 0.1.0: upgrade both")


@pytest.mark.parametrize("written", ["pml-hookspecs>=99", "PML_hookspecs (>=99)", "pml.hookspecs<0.1"])
def test_an_api_range_that_is_not_met_is_incompatible_and_names_both_versions(installation, written):
    installation.add("acme", GOOD, requires=[written])
    record = one()
    assert record.state is State.INCOMPATIBLE
    assert f"found {metadata.version('pml-hookspecs')}" in record.problem
    assert "pip install --upgrade acme pml-core" in record.remedy


def test_an_api_range_that_is_written_differently_and_met_will_do(installation):
    installation.add("acme", GOOD, requires=["pml_hookspecs >= 0.2 ; python_version >= '3'"])
    assert one().state is State.FOUND


def test_a_name_claimed_by_two_distributions_belongs_to_neither(installation):
    installation.add("acme", GOOD)
    installation.add("other", {"pml.plugins": {"memo": "x"}})
    installation.add("third", {"pml.tracer": {"fine": "x:T"}})
    by_dist = {r.dist: r for r in discover()}
    assert by_dist["acme"].state is by_dist["other"].state is State.INCOMPATIBLE
    assert by_dist["acme"].problem == "name also claimed by other"
    assert by_dist["other"].remedy == "Uninstall other or acme."
    assert by_dist["third"].state is State.FOUND


def test_one_distribution_may_use_a_name_in_two_groups(installation):
    installation.add("acme", {"pml.store": {"memo": "x:S"}, "pml.plugins": {"memo": "x"}})
    assert {r.state for r in discover()} == {State.FOUND}


@pytest.mark.parametrize("blocked", ["memo", "acme-store"])
def test_a_plugin_is_blocked_by_its_name_or_its_distributions(installation, blocked):
    installation.add("acme_store", GOOD)
    record = one(blocked=frozenset([blocked]))
    assert (record.state, record.problem) == (State.BLOCKED, "blocked by [gateway] block")


def test_a_blocked_plugin_stays_blocked_whatever_else_is_wrong_with_it(installation):
    installation.add("acme", GOOD, requires=["pml-hookspecs>=99"])
    assert one(blocked=frozenset(["memo"])).state is State.BLOCKED


def test_blocking_one_of_two_that_clash_leaves_the_name_to_the_other(installation):
    installation.add("acme", GOOD)
    installation.add("other", GOOD)
    states = {r.dist: r.state for r in discover(frozenset(["other"]))}
    assert states == {"acme": State.FOUND, "other": State.BLOCKED}


def test_requirements_besides_the_api_are_checked_when_asked_to_be_thorough(installation):
    needs = [
        "pml-hookspecs>=0.2,<0.3",
        "no-such-thing>=2",
        "anyio>=999",
        "never; python_version<'3'",
        "extra-only; extra=='x'",
    ]
    installation.add("acme", GOOD, requires=needs)
    assert one().state is State.FOUND
    record = one(thorough=True)
    assert record.state is State.INCOMPATIBLE
    assert "needs no-such-thing>=2, which is not installed" in record.problem
    assert f"needs anyio>=999, found {metadata.version('anyio')}" in record.problem
    assert "never" not in record.problem
    assert "extra-only" not in record.problem


@pytest.mark.parametrize(
    "broken",
    [
        {"points": GOOD, "requires": ["pml-hookspecs>=0.1.x.y"]},
        {"points": GOOD, "requires": ["pml-hookspecs ~~ 1"]},
        {"points": GOOD, "metadata": ""},
        {"points": GOOD, "metadata": "nothing useful"},
        {"points": "[pml.store]\nmemo\n"},
    ],
    ids=["range", "requirement", "no-metadata", "bad-metadata", "no-target"],
)
@pytest.mark.parametrize("thorough", [False, True])
def test_a_broken_installation_never_hides_the_others(installation, broken, thorough):
    options = dict(broken)
    installation.add("broken", options.pop("points"), **options)
    installation.add("fine", {"pml.tracer": {"fine": "x:T"}})
    found = discover(thorough=thorough)
    assert [r.state for r in found if r.name == "fine"] == [State.FOUND]
    assert all(r.state is State.INCOMPATIBLE for r in found if r.name == "memo")


def test_a_distribution_found_twice_counts_once(installation, monkeypatch, tmp_path):
    installation.add("acme", GOOD)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert one().state is State.FOUND


def test_the_first_problem_of_a_record_stays():
    record = provide("pml.store", "memo", object())
    record.fail(State.FAILED, "first", "do this")
    record.fail(State.INCOMPATIBLE, "second")
    assert (record.state, record.problem, record.remedy) == (State.FAILED, "first", "do this")


def test_a_plugin_can_be_given_as_an_object():
    class Store:
        pass

    record = provide("pml.store", "memo", Store)
    assert (record.kind, record.name, record.state, record.provided) == ("store", "memo", State.FOUND, Store)


def test_distribution_names_are_compared_as_installers_do():
    assert {canonical(n) for n in ("Acme.Store", "acme_store", "ACME--store")} == {"acme-store"}
