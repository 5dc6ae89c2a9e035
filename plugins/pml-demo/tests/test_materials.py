"""What the demo works on, and how it is looked at."""

from __future__ import annotations

import sqlite3
import subprocess
from contextlib import closing

import pytest

from pml_demo.materials import COMMITS, READINGS, Materials, look, make_files, make_repository

pytestmark = pytest.mark.anyio


@pytest.fixture
def materials(tmp_path):
    made = Materials(tmp_path)
    make_files(made)
    return made


def write(materials, statement):
    with closing(sqlite3.connect(materials.database)) as database, database:
        database.execute(statement)


def test_looking_changes_nothing_and_sees_what_is_there(materials):
    first = look(materials)
    assert (first.tables, first.rows, first.repository) == (1, len(READINGS), "")
    assert look(materials) == first


def test_a_change_of_any_kind_in_the_database_is_seen(materials):
    before = look(materials)
    write(materials, "UPDATE readings SET degrees = degrees + 1")
    assert look(materials).rows == before.rows
    assert look(materials) != before
    write(materials, "CREATE TABLE more (id INTEGER)")
    write(materials, "INSERT INTO more VALUES (1)")
    assert (look(materials).tables, look(materials).rows) == (2, before.rows + 1)


async def test_the_repository_has_its_commits_whatever_git_is_configured_to(materials, tmp_path, monkeypatch):
    configuration = tmp_path / "gitconfig"
    configuration.write_text("[commit]\n\tgpgsign = true\n[core]\n\thooksPath = /no/such/folder\n[user]\n\tname = Me\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "another"))
    await make_repository(materials)
    monkeypatch.delenv("GIT_DIR")
    log = subprocess.run(  # noqa: ASYNC221 - nothing else is to run
        ["git", "log", "--format=%s by %an"], cwd=materials.repository, capture_output=True, text=True, check=True
    )
    assert log.stdout.splitlines() == [f"{message} by Demo" for _, _, message in reversed(COMMITS)]


async def test_a_change_in_the_repository_is_seen(materials):
    await make_repository(materials)
    before = look(materials)
    assert look(materials) == before
    (materials.repository / ".git" / "HEAD").write_text("ref: refs/heads/other\n")
    assert look(materials) != before


def test_the_messages_of_the_commits_can_stand_in_sql():
    assert not any("'" in message for _, _, message in COMMITS)
