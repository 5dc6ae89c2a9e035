"""One command renders the changelog and tags the version."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = '[project]\nname = "{name}"\nversion = "{version}"\n[project.urls]\nSource = "https://pml.example"\n'


class Tree:
    """A repository with two distributions."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder = folder
        shutil.copy(root / "release.py", folder)
        self.write("plugins/pml-gateway/pyproject.toml", PROJECT.format(name="pml-gateway", version="1.2.0"))
        self.write("pml_core/pyproject.toml", PROJECT.format(name="pml-core", version="1.1.0"))
        self.write("plugins/pml-gateway/changelog.d/9.added.md", "The gateway can\nwhistle.\n\nIt can sing.\n")
        self.write("pml_core/changelog.d/10.fixed.md", "Later.\n")
        self.write("pml_core/changelog.d/9.fixed.2.md", "Third.\n")
        self.write("pml_core/changelog.d/9.fixed.md", "Second.\n")
        self.write("pml_core/changelog.d/11.changed.md", "First.\n")
        self.git("init", "--quiet")
        self.git("config", "user.name", "test")
        self.git("config", "user.email", "test@example.org")
        self.commit()

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text, encoding="utf-8")

    def git(self, *words: str) -> str:
        command = ["git", *words]
        return subprocess.run(command, cwd=self.folder, check=True, capture_output=True, encoding="utf-8").stdout

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "work")

    def release(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "release.py", *words]
        return subprocess.run(command, cwd=self.folder, check=False, capture_output=True, encoding="utf-8")

    @property
    def changelog(self) -> list[str]:
        return (self.folder / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()


@pytest.fixture
def tree(tmp_path: Path, root: Path) -> Tree:
    return Tree(tmp_path, root)


def test_it_renders_commits_and_tags(tree: Tree) -> None:
    done = tree.release()
    assert done.returncode == 0, done.stderr
    assert "placeholders" in done.stderr
    assert tree.git("status", "--porcelain") == ""
    assert tree.git("tag", "--points-at", "HEAD") == "v1.2.0\n"
    assert tree.git("log", "-1", "--format=%s") == "release: 1.2.0\n"
    head, *lines = [line for line in tree.changelog if line]
    assert head == "# Changelog"
    assert lines[0].startswith("## 1.2.0 (")
    assert lines[1:] == [
        "### pml-gateway 1.2.0",
        "#### Added",
        "- The gateway can whistle.",
        "- It can sing.",
        "### pml-core 1.1.0",
        "#### Changed",
        "- First.",
        "#### Fixed",
        "- Second.",
        "- Third.",
        "- Later.",
    ]
    kept = [path.name for path in (tree.folder / "pml_core" / "changelog.d").iterdir()]
    assert kept == [".gitkeep"]


def test_the_newest_stands_first(tree: Tree) -> None:
    assert tree.release().returncode == 0
    tree.write("plugins/pml-gateway/pyproject.toml", PROJECT.format(name="pml-gateway", version="1.3.0"))
    tree.write("pml_core/changelog.d/12.added.md", "More.\n")
    tree.commit()
    assert tree.release().returncode == 0
    releases = [line.split()[1] for line in tree.changelog if line.startswith("## ")]
    assert releases == ["1.3.0", "1.2.0"]
    assert tree.git("tag").split() == ["v1.2.0", "v1.3.0"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("notes.txt", "something is not committed"),
        ("pml_core/changelog.d/7.mended.md", "pml_core/changelog.d/7.mended.md: call it NUMBER.KIND.md"),
    ],
)
def test_what_is_in_the_way_is_said_and_nothing_is_changed(name: str, said: str, tree: Tree) -> None:
    tree.write(name, "x")
    if name.endswith(".md"):
        tree.commit()
    before = tree.git("status", "--porcelain")
    done = tree.release()
    assert done.returncode == 1
    assert done.stderr.startswith(said)
    assert tree.git("status", "--porcelain") == before
    assert tree.git("tag") == ""


def test_a_version_is_released_once_and_not_without_a_change(tree: Tree) -> None:
    assert tree.release().returncode == 0
    assert tree.release().stderr.startswith("v1.2.0 is there already: raise version")
    tree.write("plugins/pml-gateway/pyproject.toml", PROJECT.format(name="pml-gateway", version="1.3.0"))
    tree.commit()
    assert tree.release().stderr.startswith("nothing has changed")
    assert tree.git("tag") == "v1.2.0\n"


def test_every_fragment_of_this_tree_can_be_rendered(root: Path) -> None:
    command = [sys.executable, root / "release.py", "--draft"]
    done = subprocess.run(command, check=False, capture_output=True, encoding="utf-8")
    fragments = [*root.glob("*/changelog.d/*.md"), *root.glob("plugins/*/changelog.d/*.md")]
    if not fragments:
        assert done.stderr.startswith("nothing has changed")
        return
    assert done.returncode == 0, done.stderr
    assert len([line for line in done.stdout.splitlines() if line.startswith("- ")]) >= len(fragments)


def test_the_command_is_documented(root: Path) -> None:
    assert "`.venv/bin/python release.py`" in (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
