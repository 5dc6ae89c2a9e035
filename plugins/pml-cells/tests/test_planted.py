"""What code could leave behind in its folder, where no sandbox stops it: the test puts it there."""

from __future__ import annotations

import os
import sys

import pytest

import pml_cells.files
from pml_cells.errors import SessionAccessError
from pml_cells.notebook import new_code, new_notebook
from pml_cells.sessions import Sessions
from pml_cells.tools import cell_update
from pml_hookspecs import Session as Asking

if sys.platform == "win32":
    pytest.skip("links take privileges there", allow_module_level=True)


@pytest.fixture(params=[True, False], ids=["by-descriptor", "by-path"])
def sessions(tmp_path, monkeypatch, request):
    monkeypatch.setattr(pml_cells.files, "_BY_DESCRIPTOR", request.param)
    return Sessions(tmp_path / "notebooks")


@pytest.fixture
def session(sessions):
    notebook = new_notebook("T", "typescript")
    cells = (*notebook.cells, new_code("victim.ts", "export {}"))
    return sessions.create(type(notebook)(language="typescript", cells=cells), "local")


def update(sessions, session, cell, **changes):
    given = {"sessionId": session.id, "cellId": cell.id, "source": None, "text": None, "filename": None, **changes}
    return cell_update(sessions, given, Asking(key="test"))


def test_links_are_neither_read_nor_written_through(sessions, session, tmp_path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    folder = sessions.root / session.id
    for name in ("src/victim.ts", "victim.ts", "package.json", "README.md"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(secret)
    victim = session.notebook.cells[2]
    with pytest.raises(SessionAccessError, match=r"STORAGE_ERROR - src/victim\.ts cannot be read"):
        sessions.cell(session.id, victim.id, None)
    assert all(cell.text != "secret" for cell in sessions.get(session.id, None).notebook.cells)
    update(sessions, session, victim, source="console.log(1)")
    sessions.stage(session.id, None)
    assert secret.read_text() == "secret"
    for name in ("src/victim.ts", "victim.ts"):
        assert not (folder / name).is_symlink()
        assert (folder / name).read_text() == "console.log(1)"


def test_a_folder_of_sources_that_became_a_link_is_not_entered(sessions, session, tmp_path) -> None:
    folder, elsewhere = sessions.root / session.id, tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "victim.ts").write_text("theirs")
    (folder / "src").rename(folder / "away")
    (folder / "src").symlink_to(elsewhere)
    victim = session.notebook.cells[2]
    with pytest.raises(SessionAccessError, match="STORAGE_ERROR"):
        sessions.cell(session.id, victim.id, None)
    with pytest.raises(SessionAccessError, match=r"STORAGE_ERROR - session \w+ cannot be saved"):
        update(sessions, session, victim, source="mine")
    with pytest.raises(SessionAccessError, match="STORAGE_ERROR"):
        update(sessions, session, victim, filename="other.ts", source="mine")
    assert [path.name for path in elsewhere.iterdir()] == ["victim.ts"]
    assert (elsewhere / "victim.ts").read_text() == "theirs"


def test_a_session_folder_that_became_a_link_is_no_session(sessions, session, tmp_path) -> None:
    folder = sessions.root / session.id
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    with pytest.raises(SessionAccessError, match="STORAGE_ERROR"):
        sessions.get(session.id, None)
    sessions.delete(session.id, None)
    assert (tmp_path / "moved" / "README.md").exists()


def test_pipes_and_folders_in_place_of_sources_hold_nobody_up(sessions, session) -> None:
    folder, victim = sessions.root / session.id, session.notebook.cells[2]
    (folder / "src" / "victim.ts").unlink()
    os.mkfifo(folder / "src" / "victim.ts")
    with pytest.raises(SessionAccessError, match="no plain file"):
        sessions.cell(session.id, victim.id, None)
    update(sessions, session, victim, source="export {}")
    (folder / "victim.ts").mkdir()
    with pytest.raises(SessionAccessError, match=r"STORAGE_ERROR - victim\.ts cannot be put into the folder"):
        sessions.stage(session.id, None)


def test_hard_links_are_replaced_not_written_through(sessions, session, tmp_path) -> None:
    folder, victim = sessions.root / session.id, session.notebook.cells[2]
    (tmp_path / "kept.txt").write_text("kept")
    (folder / "src" / "victim.ts").unlink()
    (folder / "src" / "victim.ts").hardlink_to(tmp_path / "kept.txt")
    update(sessions, session, victim, source="new")
    assert (tmp_path / "kept.txt").read_text() == "kept"


def test_what_is_too_large_is_not_read(tmp_path) -> None:
    from pml_cells.settings import Settings

    small = Sessions(tmp_path / "small", Settings(max_cell_bytes=2000))
    notebook = new_notebook("T", "typescript")
    made = small.create(type(notebook)(language="typescript", cells=(*notebook.cells, new_code("a.ts", "1"))), "local")
    with (small.root / made.id / "src" / "a.ts").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(SessionAccessError, match="larger than 2000 bytes"):
        small.cell(made.id, made.notebook.cells[2].id, None)
