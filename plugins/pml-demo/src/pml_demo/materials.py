"""What the demo's servers work on: a repository, a database and a folder, all made for the occasion."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pml_kit.system.environment import passed_on

from . import processes

GIT_S = 20.0
"""Longest that one git command may take [s]."""
COMMITS = (
    ("README.md", "# Weather station\n", "Describe the station"),
    ("sensor.py", "def read():\n    return 21.5\n", "Read the sensor"),
    ("sensor.py", "def read():\n    return round(21.5)\n", "Round readings to a degree"),
)
"""File, content and message, oldest first. No quotes: the plan puts the messages into SQL."""
READINGS = (("2026-01-05", 21.5), ("2026-01-06", 19.0))
"""Rows that the database has from the start."""


@dataclass(frozen=True, slots=True)
class Materials:
    """Paths inside the demo's temporary folder."""

    folder: Path

    @property
    def repository(self) -> Path:
        """A git repository with as many commits as :data:`COMMITS`."""
        return self.folder / "repository"

    @property
    def database(self) -> Path:
        """A SQLite file with the table ``readings(day, degrees)``."""
        return self.folder / "station.db"

    @property
    def files(self) -> Path:
        """A folder with one text file."""
        return self.folder / "files"

    @property
    def home(self) -> Path:
        """``PML_HOME`` of the gateway that the demo starts."""
        return self.folder / "home"

    @property
    def config(self) -> Path:
        """The configuration of that gateway."""
        return self.folder / "mcp.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Everything that a plan could have changed, to compare before and after."""

    tables: int
    rows: int
    """In all tables of the database together."""
    database: str
    """SHA-256 of the database file, hex."""
    repository: str
    """SHA-256 over names and contents of all files of the repository, hex; ``""`` without one."""


def make_files(materials: Materials) -> None:
    """Make everything that takes no other program."""
    materials.home.mkdir()
    materials.files.mkdir()
    (materials.files / "notes.txt").write_text("PML was here.\n")
    with closing(sqlite3.connect(materials.database)) as database, database:
        database.execute("CREATE TABLE readings (day TEXT, degrees REAL)")
        database.executemany("INSERT INTO readings VALUES (?, ?)", READINGS)


async def make_repository(materials: Materials) -> None:
    """Make the repository, whatever the user's git configuration says.

    Raises:
        DemoError: git failed.
    """
    materials.repository.mkdir()
    env = passed_on(os.environ)
    env |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    for role in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{role}_NAME": "Demo", f"GIT_{role}_EMAIL": "demo@example.org"}

    async def git(*arguments: str) -> None:
        command = ["git", "-c", "init.defaultBranch=main", *arguments]
        await processes.run(command, cwd=materials.repository, env=env, limit_s=GIT_S)

    await git("init", "--quiet", "--template=")
    for name, content, message in COMMITS:
        (materials.repository / name).write_text(content)
        await git("add", name)
        await git("commit", "--quiet", "--message", message)


def look(materials: Materials) -> Trace:
    """What is there now."""
    with closing(sqlite3.connect(f"{materials.database.as_uri()}?mode=ro", uri=True)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        counts = [database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in tables]  # noqa: S608
    content = hashlib.sha256(materials.database.read_bytes()).hexdigest()
    repository = _digest(materials.repository) if materials.repository.is_dir() else ""
    return Trace(tables=len(tables), rows=sum(counts), database=content, repository=repository)


def _digest(folder: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        found.update(f"{path.relative_to(folder)}\0".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()
