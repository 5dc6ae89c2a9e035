"""Every distribution has the same shape, and every place that lists them lists them all."""

from __future__ import annotations

import configparser
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Distribution

PYTHONS = ("py311", "py312", "py313")
ALONE = "py311-{}-lowest"
TOGETHER = ("py311-all-lowest", "py312-all-highest", "py313-all-highest")
EVERYTHING = ("types", "imports", "kill", "conformance", "py311-broken", "py313-broken")
"""More lanes that hold every plugin."""
PUBLISHED = ("hookspecs", "pml_core", "tests", "plugins/*", "examples/*")
LOOKING = "./plugins/pml-admin"
"""What looks at each plugin from outside: its doctor, and what lists it."""
REQUIREMENT_NAME = re.compile(r"[A-Za-z0-9._-]+")


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def lane(lanes: configparser.ConfigParser, name: str, option: str) -> list[str]:
    """The lines of an option of a lane."""
    return lines(lanes[f"testenv:{name}"][option])


def test_it_has_the_five_things(distribution: Distribution) -> None:
    folder = distribution.folder
    needed = [
        folder / "pyproject.toml",
        folder / "README.md",
        folder / "changelog.d",
        distribution.package / "__init__.py",
        distribution.package / "py.typed",
        folder / ("selftest" if distribution.module == "pml_testing" else "tests"),
    ]
    assert [path for path in needed if not path.exists()] == []


FORBIDDING = re.compile(r"Phase\.(AUTHORIZE|VALIDATE|APPROVE|LIMIT)\b|def pml_(filter_tools|identities)\b")
ONLY_THEIR_OWN = {"pml-capabilities", "pml-code-mode", "pml-executor-dag"}
"""What these keep from callers is gone with them."""


def test_what_forbids_declares_itself_a_guard(plugin: Distribution) -> None:
    groups = plugin.project.get("entry-points", {})
    guards = groups.get("pml.guards", {})
    assert guards.items() <= groups.get("pml.plugins", {}).items()
    forbids = any(FORBIDDING.search(path.read_text(encoding="utf-8")) for path in plugin.package.rglob("*.py"))
    assert not forbids or guards or plugin.name in ONLY_THEIR_OWN


def test_it_is_named_after_its_folder(plugin: Distribution) -> None:
    assert plugin.folder.name == plugin.name
    assert plugin.name.startswith("pml-")


LICENCE = "LICENSE"
SAID_BY_ALL = ("license", "requires-python", "authors", "classifiers", "urls")
"""What each distribution says of itself in the very words of the metapackage."""
MACOS = "Operating System :: MacOS"
NOT_ON_MACOS = {"pml-sandbox-cpython"}


def test_every_wheel_will_say_whose_it_is_and_carry_the_licence(root: Path) -> None:
    """Builders see nothing outside a distribution's folder, so each has a copy of both."""
    folders = [path.parent for where in PUBLISHED for path in sorted(root.glob(f"{where}/pyproject.toml"))]
    projects = {one: tomllib.loads((one / "pyproject.toml").read_text(encoding="utf-8"))["project"] for one in folders}
    wanted = {key: projects[root / "plugins" / "pml-gateway"][key] for key in SAID_BY_ALL}
    assert all(wanted.values())
    there = {**wanted, "classifiers": [line for line in wanted["classifiers"] if line != MACOS]}
    said = {one.name: {key: projects[one].get(key) for key in wanted} for one in folders}
    assert [name for name, texts in said.items() if texts != (there if name in NOT_ON_MACOS else wanted)] == []
    assert [one.name for one in folders if LICENCE not in projects[one].get("license-files", [])] == []
    text = (root / LICENCE).read_bytes()
    copies = {one: one / LICENCE for one in folders}
    assert [one.name for one, copy in copies.items() if not copy.is_file() or copy.read_bytes() != text] == []


def test_it_has_tests(plugin: Distribution) -> None:
    assert list((plugin.folder / "tests").rglob("test_*.py")) != []


def test_it_asks_for_the_hook_specs_with_a_range_and_for_nothing_else_of_ours(
    plugin: Distribution, plugins: list[Distribution]
) -> None:
    ours = {"pml-gateway", "pml-core", "pml-testing", "pml-hookspecs", *(one.name for one in plugins)}
    libraries = {one.name for one in plugins if one.is_library} - {plugin.name}
    asked = {found.group(): line for line in plugin.project["dependencies"] if (found := REQUIREMENT_NAME.match(line))}
    assert (ours & asked.keys()) - libraries == {"pml-hookspecs"}
    for name in ours & asked.keys():
        assert re.fullmatch(rf"{name}>=\d+\.\d+,<\d+(\.\d+)?", asked[name])


def test_it_is_left_out_of_a_contract_that_may_break_it(plugin: Distribution, root: Path) -> None:
    """And so is the core: whoever asks for a contract asks for less than the next version that may break."""
    contract = tomllib.loads((root / "hookspecs" / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    major, minor = (int(number) for number in contract.split(".")[:2])
    wanted = f"pml-hookspecs>={major}.{minor},<{major + 1 if major else f'0.{minor + 1}'}"
    core = tomllib.loads((root / "pml_core" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert wanted in core["dependencies"]
    assert wanted in plugin.project["dependencies"]


def test_its_readme_says_what_each_dependency_is_for(plugin: Distribution) -> None:
    readme = (plugin.folder / "README.md").read_text(encoding="utf-8")
    asked = [found.group() for line in plugin.project["dependencies"] if (found := REQUIREMENT_NAME.match(line))]
    assert [name for name in asked if name != "pml-hookspecs" and name not in readme] == []


def test_tox_tests_it_alone(plugin: Distribution, lanes: configparser.ConfigParser) -> None:
    """With the oldest dependencies; with the newest, its tests run beside all others, and its wheel is alone."""
    alone = ALONE.format(plugin.factor)
    assert f"./{plugin.path}" in lane(lanes, alone, "deps")
    tests = f"pytest {plugin.path}/tests tests/architecture/test_installed.py"
    assert lane(lanes, alone, "commands") == [tests, "pml plugins list"]
    assert "UV_RESOLUTION=lowest-direct" in lane(lanes, alone, "set_env")


def test_tox_gives_its_tests_what_they_ask_for_and_no_other_plugin(
    plugin: Distribution, plugins: list[Distribution], lanes: configparser.ConfigParser
) -> None:
    given = lane(lanes, ALONE.format(plugin.factor), "deps")
    asked = [*plugin.project["dependencies"], *plugin.needs_for_tests]
    ours = {one.name: f"./{one.path}" for one in plugins}
    named = {need: found.group() for need in asked if (found := REQUIREMENT_NAME.match(need))}
    assert {ours.get(named[need], need) for need in plugin.needs_for_tests if named[need] != "pml-testing"} <= {*given}
    libraries = {f"./{one.path}" for one in plugins if one.is_library}
    asked_for = {ours[name] for name in named.values() if name in ours} | {f"./{plugin.path}"}
    assert ({*given} & {*ours.values()}) - libraries <= asked_for | {LOOKING}


@pytest.mark.parametrize("name", [*TOGETHER, *EVERYTHING])
def test_tox_tests_it_with_all_others(name: str, plugin: Distribution, lanes: configparser.ConfigParser) -> None:
    assert f"./{plugin.path}" in lane(lanes, name, "deps")


def test_tox_checks_the_types_of_it(distribution: Distribution, lanes: configparser.ConfigParser) -> None:
    checked = [word.strip("\\") for line in lane(lanes, "types", "commands") for word in line.split()]
    assert any(path.endswith(f"{distribution.path}/src") for path in checked)


REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[([a-z,]+)\])?")


def installed_by(needs: Sequence[str], projects: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Names of ours that requirements lead to, with the extras that they ask for."""
    left, done = [*needs], set()
    while left:
        need = left.pop()
        found = REQUIREMENT.match(need)
        if found is None or found[1] not in projects or found[0] in done:
            continue
        done.add(found[0])
        project = projects[found[1]]
        left += project.get("dependencies", [])
        for extra in filter(None, (found[2] or "").split(",")):
            left += project["optional-dependencies"][extra]
    return {name.partition("[")[0] for name in done}


@pytest.fixture(scope="session")
def projects(root: Path) -> dict[str, Mapping[str, Any]]:
    """The ``[project]`` of everything that is published, by name."""
    files = [path for where in PUBLISHED for path in sorted(root.glob(f"{where}/pyproject.toml"))]
    found = [tomllib.loads(path.read_text(encoding="utf-8"))["project"] for path in files]
    return {project["name"]: project for project in found}


def test_the_workspace_installs_it(
    distribution: Distribution, workspace: Mapping[str, Any], projects: Mapping[str, Mapping[str, Any]]
) -> None:
    group = workspace["dependency-groups"]["workspace"]
    assert distribution.name in installed_by(group, projects), "offer it in the metapackage"
    sources = workspace["tool"]["uv"]["sources"]
    assert sources.get(distribution.name) == {"workspace": True}, "name it under [tool.uv.sources], as all others"


def test_the_demo_runs_on_the_standard_set(
    workspace: Mapping[str, Any], projects: Mapping[str, Mapping[str, Any]]
) -> None:
    standard = installed_by(["pml-gateway"], projects)
    assert {"pml-core", "pml-exposure-meta-only", "pml-stores"} <= standard
    assert installed_by(workspace["dependency-groups"]["demo"], projects) == standard | {"pml-demo"}


def test_the_metapackage_offers_it(plugin: Distribution, root: Path) -> None:
    text = (root / "plugins" / "pml-gateway" / "pyproject.toml").read_text(encoding="utf-8")
    assert plugin.is_library or f'"{plugin.name}=={plugin.project["version"]}"' in text


def test_defaults_are_of_what_their_distribution_brings_and_the_metapackage_brings_them(
    projects: Mapping[str, Mapping[str, Any]],
) -> None:
    kinds = {"store": "pml.store", "tracers": "pml.tracer"}
    having = {name: of for name, one in projects.items() if (of := one.get("entry-points", {}).get("pml.defaults"))}
    for distribution, defaults in having.items():
        brought = [projects[name].get("entry-points", {}) for name in installed_by([distribution], projects)]
        for name, driver in defaults.items():
            assert any(driver in points.get(kinds[name.partition(".")[0]], {}) for points in brought), name
    assert {*having} <= {*installed_by(["pml-gateway"], projects)}
    assert {name.partition(".")[0] for defaults in having.values() for name in defaults} == {*kinds}


def test_tox_has_a_lane_for_everything_there_is_to_hold(lanes: configparser.ConfigParser) -> None:
    single = ("lint", "py311-core-lowest", "templates", "wheels", "downstream")
    assert {f"testenv:{name}" for name in (*TOGETHER, *EVERYTHING, *single)} <= {*lanes.sections()}
    for python in PYTHONS:
        assert any(name.startswith(f"{python}-all-") for name in TOGETHER)


def test_the_contracts_are_held_at_both_ends(lanes: configparser.ConfigParser) -> None:
    assert ["pytest --pml-contract" in lane(lanes, name, "commands") for name in TOGETHER] == [True] * len(TOGETHER)


def test_what_tests_need_is_installed_for_developers(plugins: list[Distribution], workspace: Mapping[str, Any]) -> None:
    """So that none is skipped where the README's command runs all of them."""
    asked = {need for one in plugins for need in one.needs_for_tests if not need.startswith("pml-")}
    assert sorted(asked - {*workspace["dependency-groups"]["test"]}) == []


def test_every_broken_distribution_is_installed_by_its_lane(root: Path, lanes: configparser.ConfigParser) -> None:
    folders = {f"./{path.parent.relative_to(root).as_posix()}" for path in root.glob("tests/broken/*/pyproject.toml")}
    installed = {word for line in lane(lanes, "py311-broken", "commands_pre") for word in line.split()}
    assert folders
    assert folders <= installed | {*lane(lanes, "py311-broken", "deps")}


def test_every_suite_is_run(root: Path, workspace: Mapping[str, Any], lanes: configparser.ConfigParser) -> None:
    """By the README's command, or by a lane."""
    once = workspace["tool"]["pytest"]["ini_options"]["testpaths"]
    assert {"hookspecs/tests", "pml_core/tests", "plugins"} <= {*once}
    commands = " ".join(lanes[section]["commands"] for section in lanes.sections()).split()
    suites = {path.parent.relative_to(root).parts[1] for path in (root / "tests").glob("*/test_*.py")}
    run = {"bench"} | {word.split("/")[1] for word in (*once, *commands) if word.startswith("tests/")}
    assert suites - run == set()
