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
    from collections.abc import Callable

    from conftest import Distribution

ROOT = Path(__file__).parents[2]
EXAMPLES = [path.parent for path in sorted(ROOT.glob("examples/*/pyproject.toml"))]
EXAMPLE_IS_UNDER = 80
"""Lines of all source of an example together."""
FEWEST_EXAMPLES = 6
NOT_OURS = {"node_modules", "__pycache__"}
"""Folders that are not looked into, like hidden ones."""
HOOKS_WITH_CONTRACT = "def pml_wrap_executor"


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def lane(lanes: configparser.ConfigParser, name: str, option: str) -> list[str]:
    """The lines of an option of a lane."""
    return lines(lanes[f"testenv:{name}"][option])


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
    core = {"hookspecs", "pml_core", "tests", "plugins/pml-gateway"}
    examples = {folder.relative_to(ROOT).as_posix() for folder in EXAMPLES}
    assert folders() == core | {one.path for one in plugins} | examples


@pytest.mark.parametrize(
    ("what", "end"), [("core", "lowest"), ("all", "lowest"), ("all", "highest"), ("examples", "lowest")]
)
def test_every_distribution_is_tested_together_on_the_oldest_and_the_newest(
    what: str, end: str, lanes: configparser.ConfigParser, plugins: list[Distribution]
) -> None:
    """The core and the plugins on the newest: by the README's command; the examples: in the lane downstream."""
    wanted = {"core": set(), "all": {one.path for one in plugins} | {"plugins/pml-gateway"}}
    wanted["examples"] = {f"examples/{folder.name}" for folder in EXAMPLES}
    named = [name.removeprefix("testenv:") for name in lanes.sections() if name.endswith(f"-{what}-{end}")]
    assert named
    for name in named:
        installed = {line.removeprefix("./") for line in lane(lanes, name, "deps")}
        assert {"hookspecs", "pml_core", "tests"} | wanted[what] <= installed
        lowest = "UV_RESOLUTION=lowest-direct" in lane(lanes, name, "set_env")
        assert lowest is (end == "lowest")


def test_every_distribution_is_tested_alone(lanes: configparser.ConfigParser, plugins: list[Distribution]) -> None:
    """Plugins have lanes of their own; of the examples, each has an environment of its own in the lane downstream."""
    assert [one.name for one in plugins if f"testenv:py311-{one.factor}-lowest" not in lanes] == []
    assert "testenv:downstream" in lanes


def test_a_new_folder_has_its_lanes_by_being_there(
    tmp_path: Path, lanes_of: Callable[[Path], configparser.ConfigParser]
) -> None:
    for name in ("tox.ini", "toxfile.py", "hookspecs", "pml_core", "tests"):
        file = ROOT / name if "." in name else ROOT / name / "pyproject.toml"
        copied = tmp_path / file.relative_to(ROOT)
        copied.parent.mkdir(exist_ok=True)
        copied.write_bytes(file.read_bytes())
    added = tmp_path / "plugins" / "pml-brand-new"
    (added / "src").mkdir(parents=True)
    (added / "pyproject.toml").write_text(
        '[project]\nname = "pml-brand-new"\ndescription = "what it is for"\n'
        'dependencies = ["pml-hookspecs>=0.2,<0.3"]\n[project.entry-points."pml.store"]\nnew = "pml_brand_new:New"\n'
        '[dependency-groups]\ntest = ["pml-testing>=0.1,<1", "anything>=1"]\n',
        encoding="utf-8",
    )
    lanes = lanes_of(tmp_path)
    name = "py311-brand_new-lowest"
    assert lanes[f"testenv:{name}"]["description"] == "pml-brand-new alone: what it is for"
    paths = ["./hookspecs", "./pml_core", "./tests", "./plugins/pml-brand-new"]
    assert lane(lanes, name, "deps") == [*paths, "anything>=1"]
    for name in ("types", "py311-all-lowest", "kill"):
        assert "./plugins/pml-brand-new" in lane(lanes, name, "deps")


def test_of_what_is_installed_from_wheels_the_oldest_needs_are_asked_for_as_well(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lanes: configparser.ConfigParser,
    lanes_of: Callable[[Path], configparser.ConfigParser],
) -> None:
    """Of a wheel an installer lowers nothing by itself."""
    wheels = [tmp_path / f"{name}-1-py3-none-any.whl" for name in ("pml_hookspecs", "pml_kit")]
    for wheel in wheels:
        wheel.touch()
    monkeypatch.setenv("PML_WHEELS", str(tmp_path))
    name = "py311-kit-lowest"
    before, now = (lane(one, name, "deps") for one in (lanes, lanes_of(ROOT)))
    needs = {need for folder in ("hookspecs", "plugins/pml-kit") for need in project(ROOT / folder)["dependencies"]}
    assert {*before} - {*now} == {"./hookspecs", "./plugins/pml-kit"}
    assert {*now} - {*before} == {*map(str, wheels), *(need for need in needs if not need.startswith("pml-"))}


def test_every_distribution_is_built_and_installed_from_what_is_built(lanes: configparser.ConfigParser) -> None:
    for name in ("wheels", "downstream"):
        # Nothing of the checkout may be installed there, nor may the root's conftest be read.
        assert [need for need in lane(lanes, name, "deps") if "/" in need] == []
        command = f"pytest --confcutdir=tests/downstream tests/downstream/test_{name}.py"
        assert lane(lanes, name, "commands") == [command]
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


def test_every_lane_says_what_it_is_for(lanes: configparser.ConfigParser) -> None:
    """So that ``tox list`` reads well."""
    silent = [name for name in lanes.sections() if lanes[name]["description"].strip(" -").startswith("on the")]
    assert silent + [name for name in lanes.sections() if not lanes[name]["description"].strip()] == []


def test_there_are_examples_of_every_kind() -> None:
    assert len(EXAMPLES) >= FEWEST_EXAMPLES
    groups = {group for folder in EXAMPLES for group in project(folder)["entry-points"]}
    assert groups >= {"pml.exposure_mode", "pml.transport", "pml.tracer", "pml.store", "pml.plugins"}


def test_all_source_of_an_example_is_under_80_lines(example: Path, sources_of_example: list[Path]) -> None:
    sizes = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in sources_of_example}
    assert sizes
    assert sum(sizes.values()) < EXAMPLE_IS_UNDER, sizes
    table = (ROOT / "examples" / "README.md").read_text(encoding="utf-8").splitlines()
    (row,) = [line for line in table if line.startswith(f"| [{example.name}]({example.name}) |")]
    assert f"| {sum(sizes.values())} |" in row


def test_an_example_has_what_a_distribution_has(example: Path, plugins: list[Distribution]) -> None:
    told = project(example)
    module = told["name"].replace("-", "_")
    assert told["name"] == f"pml-example-{example.name}"
    needed = [example / "README.md", example / "tests", example / "src" / module / "py.typed"]
    assert [path for path in needed if not path.exists()] == []
    assert list((example / "tests").glob("test_*.py")) != []
    readme = (example / "README.md").read_text(encoding="utf-8")
    asked = [re.split(r"[^A-Za-z0-9._-]", line)[0] for line in told["dependencies"]]
    assert [name for name in asked if name not in readme] == []
    ours = {line for line in told["dependencies"] if line.startswith("pml")}
    api = {"pml-hookspecs>=0.2,<0.3"}
    assert api <= ours
    assert ours <= {*api, *(f"{one.name}>=0.1,<1" for one in plugins if one.is_library)}
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


def test_the_lane_of_the_examples_runs_their_tests_and_contracts(lanes: configparser.ConfigParser) -> None:
    commands = lane(lanes, "py311-examples-lowest", "commands")
    contracted = set()
    for folder in EXAMPLES:
        for group, entries in project(folder)["entry-points"].items():
            texts = "".join(path.read_text(encoding="utf-8") for path in (folder / "src").rglob("*.py"))
            # A transport's contract needs servers of its kind: its own tests run it.
            if group not in ("pml.plugins", "pml.transport") or HOOKS_WITH_CONTRACT in texts:
                contracted |= set(entries)
    assert commands == [
        "pytest examples tests/architecture/test_installed.py",
        f"pytest --pml-contract={','.join(sorted(contracted))} examples",
        "pml plugins list",
    ]


def test_the_types_of_the_examples_are_checked(example: Path, lanes: configparser.ConfigParser) -> None:
    checked = " ".join(lane(lanes, "types", "commands")).split()
    assert any(path.endswith(f"examples/{example.name}/src") for path in checked)
