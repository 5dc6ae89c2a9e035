"""Every distribution has the same shape, and every place that lists them lists them all."""

from __future__ import annotations

import configparser
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conftest import Distribution

PYTHONS = ("py311", "py312", "py313")
ALONE_ON = ("py311", "py313")
REQUIREMENT_NAME = re.compile(r"[A-Za-z0-9._-]+")


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def env_list(tox: configparser.ConfigParser) -> set[str]:
    """``env_list`` with its braces expanded."""

    def expand(text: str) -> list[str]:
        head, brace, rest = text.partition("{")
        if not brace:
            return [text]
        choices, _, tail = rest.partition("}")
        return [head + choice.strip() + end for choice in choices.split(",") for end in expand(tail)]

    return {name for line in lines(tox["tox"]["env_list"]) for name in expand(line)}


def under(factor: str, option: str) -> list[str]:
    """What ``factor`` alone adds to an option of ``[testenv]``."""
    return [line.removeprefix(f"{factor}: ") for line in lines(option) if line.startswith(f"{factor}: ")]


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


def test_it_is_named_after_its_folder(plugin: Distribution) -> None:
    assert plugin.folder.name == plugin.name
    assert plugin.name.startswith("pml-")


def test_it_has_tests(plugin: Distribution) -> None:
    assert list((plugin.folder / "tests").rglob("test_*.py")) != []


def test_it_asks_for_the_hook_specs_with_a_range_and_for_nothing_else_of_ours(
    plugin: Distribution, plugins: list[Distribution]
) -> None:
    ours = {"pml", "pml-core", "pml-testing", "pml-hookspecs", *(one.name for one in plugins)}
    libraries = set() if plugin.library else {one.name for one in plugins if one.library}
    asked = {found.group(): line for line in plugin.project["dependencies"] if (found := REQUIREMENT_NAME.match(line))}
    assert (ours & asked.keys()) - libraries == {"pml-hookspecs"}
    for name in ours & asked.keys():
        assert re.fullmatch(rf"{name}>=\d+\.\d+,<\d+", asked[name])


def test_its_readme_says_what_each_dependency_is_for(plugin: Distribution) -> None:
    readme = (plugin.folder / "README.md").read_text(encoding="utf-8")
    asked = [found.group() for line in plugin.project["dependencies"] if (found := REQUIREMENT_NAME.match(line))]
    assert [name for name in asked if name != "pml-hookspecs" and name not in readme] == []


def test_tox_tests_it_alone(plugin: Distribution, tox: configparser.ConfigParser) -> None:
    testenv = tox["testenv"]
    wanted = {f"{python}-{plugin.factor}" for python in ALONE_ON}
    assert wanted <= env_list(tox)
    assert f"./{plugin.path}" in under(plugin.factor, testenv["deps"])
    commands = under(plugin.factor, testenv["commands"])
    assert f"pytest {plugin.path}/tests tests/architecture/test_installed.py {{posargs}}" in commands


def test_tox_gives_its_tests_what_they_ask_for(plugin: Distribution, tox: configparser.ConfigParser) -> None:
    document = tomllib.loads((plugin.folder / "pyproject.toml").read_text(encoding="utf-8"))
    option = tox["testenv"]["deps"]
    given = {*lines(option), *under(plugin.factor, option)}
    asked = {need.partition(";")[0] for need in document["dependency-groups"]["test"]}
    asked = {need for need in asked if not need.startswith("pml-testing")}
    ours = {f"./plugins/{found.group()}" for need in asked if (found := re.match(r"pml-[a-z-]+", need))}
    assert ({need for need in asked if not need.startswith("pml-")} | ours) - given == set()


def test_tox_holds_it_alone_to_the_contracts_it_has_to_keep(
    plugin: Distribution, tox: configparser.ConfigParser
) -> None:
    commands = under(plugin.factor, tox["testenv"]["commands"])
    names = ",".join(plugin.contracted)
    wanted = [f"pytest --pml-contract={names} {{posargs}}"] if names else []
    assert [line for line in commands if "--pml-contract" in line] == wanted


def test_tox_tests_it_with_all_others(plugin: Distribution, tox: configparser.ConfigParser) -> None:
    assert f"./{plugin.path}" in lines(tox["plugins"]["deps"])
    together = "all,broken,kill,e2e: {[plugins]deps}"
    assert together in lines(tox["testenv"]["deps"])


def test_tox_checks_the_types_of_it(distribution: Distribution, tox: configparser.ConfigParser) -> None:
    assert f"{distribution.path}/src" in tox["testenv:types"]["commands"].replace("\\", " ").split()


def test_the_workspace_installs_it(distribution: Distribution, workspace: Mapping[str, Any]) -> None:
    assert distribution.name in workspace["dependency-groups"]["workspace"]
    assert workspace["tool"]["uv"]["sources"][distribution.name] == {"workspace": True}


def test_the_demo_runs_on_the_standard_set(root: Path, workspace: Mapping[str, Any]) -> None:
    document = tomllib.loads((root / "plugins" / "pml" / "pyproject.toml").read_text(encoding="utf-8"))
    standard = {
        found.group() for line in document["project"]["dependencies"] if (found := REQUIREMENT_NAME.match(line))
    }
    group = workspace["dependency-groups"]["demo"]
    assert {name.partition("~=")[0] for name in standard} | {"pml-hookspecs", "pml-demo", "pml"} == set(group)


def test_the_import_contracts_know_it(plugin: Distribution, workspace: Mapping[str, Any]) -> None:
    linter = workspace["tool"]["importlinter"]
    assert plugin.module in linter["root_packages"]
    contracts = {contract["id"]: contract for contract in linter["contracts"]}
    assert plugin.module in contracts["plugins-import-the-hook-specs"]["source_modules"]
    assert (plugin.module in contracts["plugins-are-independent"]["modules"]) is not plugin.library
    assert (plugin.module in contracts["libraries-import-no-plugin"]["source_modules"]) is plugin.library
    assert (plugin.module in contracts["libraries-import-no-plugin"]["forbidden_modules"]) is not plugin.library
    assert plugin.module in contracts["nobody-imports-a-plugin"]["forbidden_modules"]


def test_the_metapackage_offers_it(plugin: Distribution, root: Path) -> None:
    text = (root / "plugins" / "pml" / "pyproject.toml").read_text(encoding="utf-8")
    assert plugin.library or f'"{plugin.name}~=' in text


def test_tox_has_a_lane_for_everything_there_is_to_hold(tox: configparser.ConfigParser) -> None:
    ends = [f"{python}-{what}-{end}" for python in PYTHONS for what in ("core", "all") for end in ("lowest", "highest")]
    broken = [f"{python}-broken" for python in ALONE_ON]
    assert {*ends, *broken, "e2e", "imports", "kill", "lint", "selftest", "types"} <= env_list(tox)


def test_every_broken_distribution_is_installed_by_its_lane(root: Path, tox: configparser.ConfigParser) -> None:
    folders = {f"./{path.parent.relative_to(root).as_posix()}" for path in root.glob("tests/broken/*/pyproject.toml")}
    testenv = tox["testenv"]
    installed = set(under("broken", testenv["deps"]))
    installed |= {word for line in under("broken", testenv["commands_pre"]) for word in line.split()[1:]}
    assert folders
    assert folders <= installed


def test_every_suite_is_run_by_some_lane(root: Path, tox: configparser.ConfigParser) -> None:
    commands = " ".join(tox[section].get("commands", "") for section in tox.sections()).split()
    suites = {path.parent.relative_to(root).parts[1] for path in (root / "tests").glob("*/test_*.py")}
    run = {"bench"} | {word.split("/")[1] for word in commands if word.startswith("tests/")}
    assert suites - run == set()
