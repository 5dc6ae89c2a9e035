"""Release what the tree holds: ``.venv/bin/python release.py`` renders the changelog, commits it and tags the commit.

The fragments in every ``changelog.d`` become a section of ``CHANGELOG.md``, and are removed. The tag is the version of
the metapackage; raise the versions of what has changed before. ``--draft`` prints the section and does nothing else.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent
WHERE = ("hookspecs", "pml_core", "tests", "plugins/*")
METAPACKAGE = "plugins/pml-gateway"
CHANGELOG = ROOT / "CHANGELOG.md"
TITLE = "# Changelog\n"
KINDS = ("added", "changed", "fixed", "removed")
FRAGMENT = re.compile(rf"(\d+)\.({'|'.join(KINDS)})(?:\.(\d+))?\.md")
"""A number that tells whence it comes, what kind of change it is, and a number of its own."""
KEPT = ".gitkeep"
"""In each folder of fragments, so that it stays when they have gone."""


def project(folder: Path) -> dict[str, Any]:
    """The ``[project]`` table of a distribution."""
    found: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def folders() -> list[Path]:
    """Every distribution that tells of its changes, by name; what most people install first."""
    found = [path.parent for where in WHERE for path in ROOT.glob(f"{where}/changelog.d")]
    return sorted(found, key=lambda one: (one != ROOT / METAPACKAGE, project(one)["name"]))


def fragments(folder: Path) -> dict[str, list[Path]]:
    """Those of a distribution, by kind.

    Raises:
        SystemExit: A file is called as no fragment is.
    """
    found: dict[str, list[tuple[int, int, Path]]] = {}
    for path in (folder / "changelog.d").iterdir():
        if path.name != KEPT:
            name = FRAGMENT.fullmatch(path.name)
            if name is None:
                sys.exit(
                    f"{path.relative_to(ROOT)}: call it NUMBER.KIND.md or NUMBER.KIND.N.md; KIND: {', '.join(KINDS)}"
                )
            found.setdefault(name[2], []).append((int(name[1]), int(name[3] or 0), path))
    return {kind: [path for *_, path in sorted(found[kind])] for kind in KINDS if kind in found}


def entries(path: Path) -> Iterator[str]:
    """One for each paragraph."""
    for paragraph in path.read_text(encoding="utf-8").split("\n\n"):
        if words := paragraph.split():
            yield f"- {' '.join(words)}"


def section(title: str) -> str:
    """All that has changed since the last release.

    Raises:
        SystemExit: Nothing has.
    """
    lines = [f"## {title}"]
    for folder in folders():
        if found := fragments(folder):
            told = project(folder)
            lines += ["", f"### {told['name']} {told['version']}"]
        for kind, paths in found.items():
            lines += ["", f"#### {kind.capitalize()}", "", *(line for path in paths for line in entries(path))]
    if len(lines) == 1:
        sys.exit("nothing has changed: there is no fragment in any changelog.d")
    return "\n".join([*lines, ""])


def git(*words: str) -> str:
    """What git answers.

    Raises:
        SystemExit: It does not do it; it has said why.
    """
    done = subprocess.run(["git", *words], cwd=ROOT, check=False, stdout=subprocess.PIPE, encoding="utf-8")  # noqa: S607
    if done.returncode:
        sys.exit(f"git {words[0]}: exit status {done.returncode}; nothing more is done")
    return done.stdout


def release(version: str) -> str:
    """Write the changelog, commit it and tag it; the tag.

    Raises:
        SystemExit: There is nothing to release, or something is in the way.
    """
    tag = f"v{version}"
    if git("status", "--porcelain"):
        sys.exit("something is not committed: commit it, or put it away (git stash)")
    if git("tag", "--list", tag):
        sys.exit(f"{tag} is there already: raise version in {METAPACKAGE}/pyproject.toml, and commit that")
    told = section(f"{version} ({datetime.now(UTC):%Y-%m-%d})")
    before = CHANGELOG.read_text(encoding="utf-8").removeprefix(TITLE) if CHANGELOG.exists() else ""
    CHANGELOG.write_text(f"{TITLE}\n{told}{before}", encoding="utf-8")
    for folder in folders():
        for path in (path for paths in fragments(folder).values() for path in paths):
            path.unlink()
        (folder / "changelog.d" / KEPT).touch()
    git("add", "--all")
    git("commit", "--quiet", "--message", f"release: {version}")
    git("tag", "--annotate", tag, "--message", f"PML {version}")
    return tag


def main() -> None:
    """Do as the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--draft", action="store_true", help="print what would be written")
    draft = parser.parse_args().draft
    told = project(ROOT / METAPACKAGE)
    if draft:
        sys.stdout.write(section(f"{told['version']} ({datetime.now(UTC):%Y-%m-%d})"))
        return
    tag = release(told["version"])
    sys.stdout.write(f"{tag} is tagged. Look at it: git show {tag}. Then: git push --follow-tags\n")
    if any(".example" in url for url in told["urls"].values()):
        sys.stderr.write("The project's URLs are placeholders still: mend them before anything is uploaded.\n")


if __name__ == "__main__":
    main()
