"""What ``pml plugin new`` writes passes its own checks as it stands: rules, types, its tests and the contract."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

KINDS = ("exposure-mode", "executor", "transport", "tracer", "store", "hooks")
NAMES = {"exposure-mode": "zz_top", "store": "a"}
"""Names that sort before and after others, where that makes a difference to imports; else of the kind itself."""
RULES = Path(__file__).parents[2] / "pyproject.toml"
TIMEOUT_S = 240


def run(*words: str, cwd: Path, **environment: str) -> str:
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("PML_", "PYTEST_"))} | environment
    done = subprocess.run(
        [sys.executable, "-m", *words],
        capture_output=True,
        check=False,
        cwd=cwd,
        encoding="utf-8",
        env=variables,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


class Made:
    """A distribution that was written, built and installed where nothing else sees it."""

    def __init__(self, kind: str, root: Path) -> None:
        self.kind, self.name = kind, NAMES.get(kind, f"my_{kind.replace('-', '_')}")
        self.folder = root / f"pml-{self.name.replace('_', '-')}"
        self.site, self.home = root / "site", root / "home"
        self.home.mkdir()
        run("pml_core", "plugin", "new", kind, self.name, "--path", str(root), cwd=root)
        run("hatchling", "build", "-t", "wheel", cwd=self.folder)
        (wheel,) = (self.folder / "dist").glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self.site)

    def pml(self, *words: str) -> str:
        return run("pml_core", *words, cwd=self.home, PYTHONPATH=str(self.site), PML_HOME=str(self.home))


@pytest.fixture(scope="module", params=KINDS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(request.param, tmp_path_factory.mktemp("made"))


def test_it_keeps_its_own_rules_and_format(made: Made) -> None:
    run("ruff", "check", "--no-cache", ".", cwd=made.folder)
    run("ruff", "format", "--no-cache", "--check", ".", cwd=made.folder)


def test_its_source_keeps_the_rules_of_this_repository(made: Made) -> None:
    run("ruff", "check", "--no-cache", "--config", str(RULES), "src", cwd=made.folder)


def test_its_types_are_strict(made: Made) -> None:
    run("mypy", "--strict", "--cache-dir", os.devnull, "src", "tests", cwd=made.folder, MYPYPATH="src")


def test_its_tests_and_its_contract_pass(made: Made) -> None:
    said = run("pytest", "-q", "-p", "no:cacheprovider", cwd=made.folder, PYTHONPATH=str(made.site))
    assert " passed" in said


def test_a_store_of_ones_own_is_little_to_write(made: Made) -> None:
    """All Python of it, tests included; before, its source alone was 905 lines."""
    if made.kind == "store":
        texts = [path.read_text(encoding="utf-8") for path in made.folder.rglob("*.py")]
        assert sum(len(text.splitlines()) for text in texts) <= 150


def test_the_contracts_of_all_that_is_installed_pass_with_it(made: Made) -> None:
    environment = {"PYTHONPATH": str(made.site), "PML_HOME": str(made.home)}
    # Where pml_testing is installed from a checkout, that has a conftest of its own.
    words = ("pytest", "-q", "-p", "no:cacheprovider", "--noconftest", f"--pml-contract={made.name}")
    run(*words, cwd=made.folder, **environment)


def test_the_gateway_finds_it_and_the_doctor_is_content(made: Made) -> None:
    records = [one for one in json.loads(made.pml("plugins", "list", "--json")) if one["name"] == made.name]
    assert [(one["distribution"], one["state"], one["problem"]) for one in records] == [(made.folder.name, "found", "")]
    assert records[0]["requires_api"].startswith(("<", ">="))
    script = "import sys; from pml_core.cli import main; sys.exit(main(sys.argv[1:]) > 1)"
    environment = {**os.environ, "PYTHONPATH": str(made.site), "PML_HOME": str(made.home)}
    words = [sys.executable, "-c", script, "plugins", "doctor", "--json"]
    done = subprocess.run(words, capture_output=True, check=True, cwd=made.home, env=environment, timeout=TIMEOUT_S)
    (line,) = (one for one in json.loads(done.stdout) if one["subject"].endswith(f" {made.name}"))
    assert line["ok"], line


def test_every_file_that_a_distribution_needs_is_there(made: Made) -> None:
    found = {path.relative_to(made.folder).as_posix() for path in made.folder.rglob("*") if path.is_file()}
    package = f"src/pml_{made.name}"
    needed = {"pyproject.toml", "README.md", "LICENSE", "tox.ini", ".gitignore", ".github/workflows/test.yml"}
    assert needed | {f"{package}/__init__.py", f"{package}/py.typed", "tests/test_contract.py"} <= found
    for name in found:
        if not name.startswith("dist/") and not name.endswith(".pyc"):
            assert "@@" not in (made.folder / name).read_text(encoding="utf-8"), name


def test_it_imports_nothing_of_the_core(made: Made) -> None:
    sources = [path.read_text(encoding="utf-8") for path in (made.folder / "src").rglob("*.py")]
    assert sources
    assert not [text for text in sources if "pml_core" in text or "pml_testing" in text]
    # What is written is to work as it is, so nothing in it may be left for its owner to do.
    assert not [text for text in sources if "TODO" in text]
