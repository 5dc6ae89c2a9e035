"""What is uploaded: it is complete, says what it is, and works where nothing else of ours is."""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_string
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Built, Distribution, Environment

ROOT = Path(__file__).parents[2]
ALSO_AS_SDIST = (
    *("pml-hookspecs", "pml-core", "pml-admin"),
    *("pml-transport-stdio", "pml-store-sqlite", "pml-example-by-role"),
)


def inside(built: Built, distribution: Distribution) -> dict[str, str]:
    """Texts of the wheel's metadata, by file; and the names of all other files."""
    with zipfile.ZipFile(built.wheel(distribution)) as wheel:
        return {
            name: wheel.read(name).decode() if ".dist-info/" in name else ""
            for name in wheel.namelist()
            if not name.endswith("/")
        }


def of(files: dict[str, str], end: str) -> str:
    (text,) = (text for name, text in files.items() if name.endswith(f".dist-info/{end}"))
    return text


def test_there_is_one_sdist_and_one_wheel_of_each(built: Built, distribution: Distribution) -> None:
    assert built.sdist(distribution).is_file()
    assert built.wheel(distribution).name == f"{distribution.stem}-py3-none-any.whl"


def test_one_environment_can_build_all(distribution: Distribution) -> None:
    document = tomllib.loads((distribution.folder / "pyproject.toml").read_text(encoding="utf-8"))
    assert document["build-system"] == {"requires": ["hatchling>=1.26"], "build-backend": "hatchling.build"}


def test_a_build_in_isolation_gives_the_same(built: Built, examples: list[Distribution], tmp_path: Path) -> None:
    one = examples[0]
    built.in_isolation(one, tmp_path)
    for path in (built.wheel(one), built.sdist(one)):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


def test_the_index_would_take_them(built: Built) -> None:
    from twine.commands.check import check

    files = sorted(str(path) for path in built.folder.iterdir() if path.suffix in (".whl", ".gz"))
    assert len(files) >= 2
    assert not check(files, strict=True)


def test_the_metadata_say_what_it_is(built: Built, distribution: Distribution) -> None:
    metadata = message_from_string(of(inside(built, distribution), "METADATA"))
    project = distribution.project
    assert (metadata["Name"], metadata["Version"]) == (project["name"], project["version"])
    assert metadata["Summary"] == project["description"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Author"] == "PML contributors"
    assert "LICENSE" in metadata.get_all("License-File", [])
    assert {line.partition(", ")[0] for line in metadata.get_all("Project-URL", [])} >= {"Source", "Changelog"}
    assert metadata.get_all("Classifier") == project["classifiers"]
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert str(metadata.get_payload()).lstrip().startswith("# ")
    assert [need for need in metadata.get_all("Requires-Dist", []) if "@" in need] == []


def test_a_wheel_carries_the_licence(built: Built, distribution: Distribution) -> None:
    assert of(inside(built, distribution), "licenses/LICENSE") == (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_a_wheel_has_its_module_typed_and_nothing_else(built: Built, distribution: Distribution) -> None:
    files = inside(built, distribution)
    code = {PurePosixPath(name) for name in files if ".dist-info/" not in name}
    if distribution.name == "pml-gateway":
        assert code == set()
        return
    assert {path.parts[0] for path in code} == {distribution.module}
    assert PurePosixPath(distribution.module, "py.typed") in code
    assert [path for path in code if "__pycache__" in path.parts or path.suffix == ".pyc"] == []
    points: dict[str, Any] = dict(distribution.project.get("entry-points", {}))
    told = of(files, "entry_points.txt") if points else ""
    assert [f"{n} = {t}" for group in points.values() for n, t in group.items() if f"{n} = {t}" not in told] == []


def test_an_sdist_has_what_it_takes_to_build_and_no_rubbish(built: Built, distribution: Distribution) -> None:
    with tarfile.open(built.sdist(distribution)) as sdist:
        names = {PurePosixPath(*PurePosixPath(name).parts[1:]) for name in sdist.getnames()}
    assert {PurePosixPath("pyproject.toml"), PurePosixPath("README.md"), PurePosixPath("PKG-INFO")} <= names
    rubbish = {"__pycache__", ".venv", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox"}
    assert [name for name in names if rubbish & set(name.parts)] == []


@pytest.fixture(scope="module")
def everything(built: Built, environment: Any, distributions: list[Distribution]) -> Environment:
    """All wheels in one environment; what is not ours comes from the index."""
    made: Environment = environment([built.wheel(one) for one in distributions])
    return made


def test_all_wheels_fit_together(everything: Environment) -> None:
    everything.check()
    assert everything.strays() == []


def test_the_command_runs_from_wheels(everything: Environment) -> None:
    version = everything.run("pml", "--version")
    assert (version.status, version.error) == (0, "")
    assert "0.1.0" in version.out


def test_the_doctor_finds_every_plugin_of_every_wheel_well(
    everything: Environment, distributions: list[Distribution]
) -> None:
    doctor = everything.run("pml", "plugins", "doctor")
    assert doctor.status == 0, doctor.said
    listed = everything.run("pml", "plugins", "list").out
    # Defaults of a pack and tables at the top of a configuration are no plugins.
    points = [(k, g) for one in distributions for k, g in one.project.get("entry-points", {}).items()]
    groups = [g for k, g in points if k.startswith("pml.") and k not in ("pml.defaults", "pml.sections")]
    assert groups
    assert [name for group in groups for name in group if name not in listed] == []


@pytest.mark.parametrize("tool", ["uv", "pipx", "uvx"])
def test_a_tool_that_installs_commands_needs_nothing_but_the_name(tool: str, built: Built, tmp_path: Path) -> None:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "wheels", "version": "1"}}
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    done = built.by(tool, tmp_path, "serve", told=f"{hello}\n")
    assert done.status == 0, done.said
    assert json.loads(done.out)["result"]["serverInfo"]["name"] == "pml"


def test_a_client_is_told_to_start_what_is_still_there_when_the_cache_of_uvx_was_cleared(
    built: Built, tmp_path: Path
) -> None:
    client = tmp_path / "mcp.json"
    done = built.by("uvx", tmp_path, "connect", "cursor", "--file", str(client), "--yes")
    assert done.status == 0, done.said
    entry = json.loads(client.read_text(encoding="utf-8"))["mcpServers"]["pml"]
    assert Path(entry["command"]).name == "uvx"
    assert entry["args"][:4] == ["--from", "pml-gateway", "pml", "serve"]


def test_a_plugin_from_its_wheel_is_well_alone(built: Built, environment: Any, plugin: Distribution) -> None:
    """With the newest of what it needs, and pml-admin, which lists plugins: found, loaded, its settings explained."""
    made: Environment = environment([built.wheel(one) for one in built.named(plugin.name, "pml-admin", "pml-testing")])
    shutil.copy(ROOT / "tests" / "architecture" / "test_installed.py", made.work)
    done = made.run("pytest", "-q", "-p", "no:cacheprovider", "test_installed.py")
    assert done.status == 0, done.said
    assert made.run("pml", "plugins", "list").status == 0


def test_sdists_can_be_installed_from(built: Built, environment: Any) -> None:
    made: Environment = environment([built.sdist(one) for one in built.named(*ALSO_AS_SDIST)])
    assert made.strays() == []
    assert made.run("pml", "--version").status == 0
    listed = made.run("pml", "plugins", "list")
    assert listed.status == 0, listed.said
    assert [name for name in ("by_role", "sqlite", "stdio") if name not in listed.out] == []


def test_this_is_run_by_the_python_that_is_tested(everything: Environment) -> None:
    version = everything.run("python", "-c", "import sys; print(sys.version_info[:2])").out
    assert version.strip() == str(sys.version_info[:2])
