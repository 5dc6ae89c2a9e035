"""The matrix holds every distribution: alone and together, lowest and highest, from the tree and as it is uploaded."""

from __future__ import annotations

import ast
import configparser
import os
import re
import sys
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Distribution

ROOT = Path(__file__).parents[2]
EXAMPLES = [path.parent for path in sorted(ROOT.glob("examples/*/pyproject.toml"))]
LONGEST_EXAMPLE = 80
"""Lines of a source file."""
FEWEST_EXAMPLES = 6
ENDS = ("lowest", "highest")
NOT_OURS = {"node_modules", "__pycache__"}
"""Folders that are not looked into, like hidden ones."""
HOOKS_WITH_CONTRACT = "def pml_wrap_executor"


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def under(factor: str, option: str) -> list[str]:
    return [line.removeprefix(f"{factor}: ") for line in lines(option) if line.startswith(f"{factor}: ")]


def environments(tox: configparser.ConfigParser) -> set[str]:
    """Names of all lanes."""

    def expand(text: str) -> list[str]:
        found = re.search(r"\{([^{}]*)\}", text)
        if found is None:
            return [text]
        return [one for choice in found[1].split(",") for one in expand(text.replace(found[0], choice.strip(), 1))]

    return {name for line in lines(tox["tox"]["env_list"]) for name in expand(line)}


def project(folder: Path) -> dict[str, Any]:
    made: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return made


def folders() -> set[str]:
    """Every folder that is a distribution, but for those that are broken on purpose."""
    found = set()
    for folder, inside, files in os.walk(ROOT):
        path = Path(folder).relative_to(ROOT)
        inside[:] = [name for name in inside if not name.startswith(".") and name not in NOT_OURS]
        if (
            "pyproject.toml" in files
            and path.parts
            and path.parts[:2] not in {("tests", "broken"), ("tests", "compat")}
        ):
            found.add(path.as_posix())
    return found


@pytest.fixture(params=EXAMPLES, ids=lambda folder: folder.name)
def example(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.param
    return folder


@pytest.fixture
def sources_of_example(example: Path) -> list[Path]:
    return sorted((example / "src").rglob("*.py"))


def test_every_folder_that_is_a_distribution_is_of_a_known_kind(plugins: list[Distribution]) -> None:
    core = {"hookspecs", "pml_core", "tests", "plugins/pml"}
    examples = {folder.relative_to(ROOT).as_posix() for folder in EXAMPLES}
    assert folders() == core | {one.path for one in plugins} | examples


def test_every_distribution_is_tested_together_on_the_oldest_and_the_newest(
    tox: configparser.ConfigParser, plugins: list[Distribution]
) -> None:
    lanes = environments(tox)
    for what in ("core", "all", "examples"):
        for end in ENDS:
            assert [lane for lane in lanes if lane.endswith(f"-{what}-{end}")], f"no lane for {what} on the {end}"
    deps = tox["testenv"]["deps"]
    assert {"./hookspecs", "./pml_core", "./tests"} <= set(lines(deps))
    assert {f"./{one.path}" for one in plugins} | {"./plugins/pml"} == set(lines(tox["plugins"]["deps"]))
    assert {f"./examples/{folder.name}" for folder in EXAMPLES} == set(lines(tox["examples"]["deps"]))
    assert "{[examples]deps}" in under("examples", deps)
    assert "lowest: UV_RESOLUTION = lowest-direct" in lines(tox["testenv"]["set_env"])


def test_every_distribution_is_tested_alone(tox: configparser.ConfigParser, plugins: list[Distribution]) -> None:
    """Plugins have lanes of their own; of the examples, each has an environment of its own in the lane downstream."""
    lanes = environments(tox)
    assert [one.name for one in plugins if not any(lane.endswith(f"-{one.factor}") for lane in lanes)] == []
    assert "downstream" in lanes


def test_every_distribution_is_built_and_installed_from_what_is_built(tox: configparser.ConfigParser) -> None:
    assert {"wheels", "downstream"} <= environments(tox)
    for lane in ("wheels", "downstream"):
        section = tox[f"testenv:{lane}"]
        # Nothing of the checkout may be installed there, nor may the root's conftest be read.
        assert [need for need in lines(section["deps"]) if "/" in need] == []
        command = f"pytest --confcutdir=tests/downstream tests/downstream/test_{lane}.py {{posargs}}"
        assert lines(section["commands"]) == [command]
    path = ROOT / "tests" / "downstream" / "conftest.py"
    spec = spec_from_file_location("downstream_conftest", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    # Where dataclasses look their own module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    del sys.modules[spec.name]
    assert {one.folder.relative_to(ROOT).as_posix() for one in module.DISTRIBUTIONS} == folders()


def test_every_lane_says_what_it_is_for(tox: configparser.ConfigParser) -> None:
    """So that ``tox list`` reads well."""
    told = lines(tox["testenv"]["description"])
    factors = {factor.strip() for line in told for factor in line.partition(":")[0].split(",")}
    silent = []
    for lane in environments(tox):
        section = f"testenv:{lane}"
        if section in tox:
            silent += [] if tox[section].get("description") else [lane]
        else:
            silent += [] if factors & set(lane.split("-")) - set(ENDS) else [lane]
    assert silent == []


def test_there_are_examples_of_every_kind() -> None:
    assert len(EXAMPLES) >= FEWEST_EXAMPLES
    groups = {group for folder in EXAMPLES for group in project(folder)["entry-points"]}
    assert groups >= {"pml.exposure_mode", "pml.transport", "pml.tracer", "pml.store", "pml.plugins"}


def test_no_source_file_of_an_example_is_long(example: Path, sources_of_example: list[Path]) -> None:
    sizes = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in sources_of_example}
    assert sizes
    assert {name: size for name, size in sizes.items() if size > LONGEST_EXAMPLE} == {}
    if len(sizes) > 1:
        assert "## Why it" in (example / "README.md").read_text(encoding="utf-8")


def test_an_example_has_what_a_distribution_has(example: Path) -> None:
    told = project(example)
    module = told["name"].replace("-", "_")
    assert told["name"] == f"pml-example-{example.name}"
    needed = [example / "README.md", example / "tests", example / "src" / module / "py.typed"]
    assert [path for path in needed if not path.exists()] == []
    assert list((example / "tests").glob("test_*.py")) != []
    readme = (example / "README.md").read_text(encoding="utf-8")
    asked = [re.split(r"[^A-Za-z0-9._-]", line)[0] for line in told["dependencies"]]
    assert [name for name in asked if name not in readme] == []
    assert [line for line in told["dependencies"] if line.startswith("pml")] == ["pml-hookspecs>=0.1,<1"]
    assert f"[{example.name}]({example.name})" in (ROOT / "examples" / "README.md").read_text(encoding="utf-8")


def test_an_example_imports_the_hook_specs_and_what_it_declares(example: Path, sources_of_example: list[Path]) -> None:
    told = project(example)
    known = {re.split(r"[^A-Za-z0-9._-]", line)[0].replace("-", "_") for line in told["dependencies"]}
    known |= {told["name"].replace("-", "_"), *sys.stdlib_module_names}
    imported = set()
    for path in sources_of_example:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add((node.module or "").partition(".")[0])
    assert imported - known == set()


def test_the_lane_of_the_examples_runs_their_tests_and_contracts(tox: configparser.ConfigParser) -> None:
    commands = under("examples", tox["testenv"]["commands"])
    contracted = set()
    for folder in EXAMPLES:
        for group, entries in project(folder)["entry-points"].items():
            texts = "".join(path.read_text(encoding="utf-8") for path in (folder / "src").rglob("*.py"))
            # A transport's contract needs servers of its kind: its own tests run it.
            if group not in ("pml.plugins", "pml.transport") or HOOKS_WITH_CONTRACT in texts:
                contracted |= set(entries)
    assert commands == [
        "pytest examples tests/architecture/test_installed.py {posargs}",
        f"pytest --pml-contract={','.join(sorted(contracted))} {{posargs}}",
    ]


def test_the_types_of_the_examples_are_checked(example: Path, tox: configparser.ConfigParser) -> None:
    assert f"examples/{example.name}/src" in tox["testenv:types"]["commands"].replace("\\", " ").split()
