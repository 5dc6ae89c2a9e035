from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import pml_cells.files
from pml_cells import records
from pml_cells.errors import NotebookError, SessionAccessError
from pml_cells.notebook import Notebook, Session, new_code, new_markdown, new_notebook
from pml_cells.sessions import Sessions
from pml_cells.settings import Settings
from pml_hookspecs import replace


@pytest.fixture
def sessions(tmp_path):
    return Sessions(tmp_path / "notebooks")


def with_cell(session: Session, cell) -> Session:
    return replace(session, notebook=replace(session.notebook, cells=(*session.notebook.cells, cell)))


def test_a_session_has_a_folder_as_srcbook_lays_it_out(sessions) -> None:
    made = sessions.create(new_notebook("Prices", "typescript"), "ann", ["fs:*"])
    sessions.change(made.id, "ann", lambda s: with_cell(s, new_code("a.ts", "export {}\n")))
    folder = sessions.root / made.id
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == {"README.md", "package.json", "tsconfig.json", "src/a.ts"}
    assert (folder / "README.md").read_text() == (
        '<!-- srcbook:{"language":"typescript"} -->\n\n# Prices\n\n###### package.json\n\n'
        "[package.json](./package.json)\n\n###### a.ts\n\n[a.ts](./src/a.ts)\n"
    )
    again = Sessions(sessions.root).get(made.id, "ann")
    assert (again.owner, again.tools, again.created_at) == ("ann", ("fs:*",), made.created_at)
    assert [(c.kind, c.text) for c in again.notebook.cells][2:] == [("code", "export {}\n")]
    assert again.notebook.cells[:2] == made.notebook.cells


@pytest.mark.parametrize("id_", ["", "..", "../x", "a/b", "/etc", ".pml", "UPPER", "a" * 65, "a\0b", "con\n", 7, None])
def test_ids_that_are_none_find_nothing(sessions, id_) -> None:
    sessions.create(new_notebook("T", "python"), "local")
    for reach in (sessions.get, sessions.stage, sessions.delete):
        with pytest.raises(SessionAccessError, match="SESSION_NOT_FOUND"):
            reach(id_, None)
    assert not list(sessions.root.glob("*.lock"))


def test_a_cell_that_is_not_there_is_told_with_what_to_do(sessions) -> None:
    made = sessions.create(new_notebook("T", "python"), "local")
    with pytest.raises(SessionAccessError) as caught:
        sessions.cell(made.id, "nope", "local")
    assert str(caught.value) == (
        f"Error: CELL_NOT_FOUND - session {made.id} has 1 cells and none of them is 'nope'; notebook_get lists them."
    )


def test_a_session_of_somebody_else_cannot_be_told_from_none(sessions) -> None:
    made = sessions.create(new_notebook("T", "python"), "ann")
    with pytest.raises(SessionAccessError) as theirs:
        sessions.get(made.id, "eve")
    with pytest.raises(SessionAccessError) as nobodys:
        sessions.get("x" * 26, "eve")
    assert str(theirs.value).replace(made.id, "x" * 26) == str(nobodys.value)


def test_edits_at_the_same_time_are_all_kept(sessions) -> None:
    made = sessions.create(new_notebook("T", "typescript"), "local")

    def edit(number: int) -> None:
        Sessions(sessions.root).change(made.id, None, lambda s: with_cell(s, new_code(f"c{number}.ts", str(number))))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(edit, range(40)))
    cells = sessions.get(made.id, None).notebook.cells
    assert {(cell.filename, cell.text) for cell in cells[2:]} == {(f"c{n}.ts", str(n)) for n in range(40)}


def test_another_process_waits_its_turn(sessions) -> None:
    made = sessions.create(new_notebook("T", "typescript"), "local")
    script = f"""
import sys
from dataclasses import replace
from pathlib import Path
from pml_cells.notebook import new_markdown
from pml_cells.sessions import Sessions
def edit(s):
    return replace(s, notebook=replace(s.notebook, cells=(*s.notebook.cells, new_markdown("theirs"))))
print("ready", flush=True)
sys.stdin.readline()
Sessions(Path({str(sessions.root)!r})).change({made.id!r}, None, edit)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"

        def edit(session: Session) -> Session:
            process.stdin.write(b"go\n")
            process.stdin.flush()
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.3)
            return with_cell(session, new_markdown("ours"))

        sessions.change(made.id, None, edit)
        assert process.wait(10) == 0
    assert [cell.text for cell in sessions.get(made.id, None).notebook.cells[2:]] == ["ours", "theirs"]


def test_who_waits_too_long_is_told(sessions, monkeypatch) -> None:
    monkeypatch.setattr(pml_cells.files, "LOCK_S", 0.05)
    made = sessions.create(new_notebook("T", "typescript"), "local")
    inside, over = threading.Event(), threading.Event()

    def slow(session: Session) -> Session:
        inside.set()
        over.wait(5)
        return session

    with ThreadPoolExecutor(1) as pool:
        changed = pool.submit(sessions.change, made.id, None, slow)
        assert inside.wait(5)
        with pytest.raises(SessionAccessError, match=r"STORAGE_ERROR - .*somebody else has been changing it"):
            sessions.get(made.id, None)
        over.set()
        changed.result()


def test_a_change_that_fails_leaves_everything_as_it_was(sessions) -> None:
    made = sessions.create(new_notebook("T", "typescript"), "local")
    before = {path: path.read_bytes() for path in sessions.root.rglob("*") if path.is_file() and path.suffix != ".lock"}
    for cell in (new_code("Package.ts", "\ud800"), replace(new_code("a.ts", ""), filename="PACKAGE.JSON")):
        with pytest.raises(NotebookError):
            sessions.change(made.id, None, lambda s, cell=cell: with_cell(s, cell))
    after = {path: path.read_bytes() for path in sessions.root.rglob("*") if path.is_file()}
    assert {path: data for path, data in after.items() if path.suffix != ".lock"} == before


def test_a_disk_that_cannot_be_written_is_a_storage_error(sessions, monkeypatch) -> None:
    made = sessions.create(new_notebook("T", "typescript"), "local")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(
        SessionAccessError, match=r"STORAGE_ERROR - session .* cannot be saved: No space left on device"
    ):
        sessions.change(made.id, None, lambda s: with_cell(s, new_code("a.ts", "1")))
    with pytest.raises(SessionAccessError, match="a new session cannot be saved: No space left"):
        sessions.create(new_notebook("U", "typescript"), "local")
    monkeypatch.undo()
    assert len(sessions.get(made.id, None).notebook.cells) == 2
    assert [path.name for path in sessions.root.iterdir() if path.name != ".pml"] == [made.id]
    assert not list(sessions.root.rglob("*.tmp"))


@pytest.mark.parametrize("damage", [b"", b"[]", b"{}", b'{"version": 2}', b"\xff"])
def test_a_damaged_record_is_a_storage_error(sessions, damage: bytes) -> None:
    made = sessions.create(new_notebook("T", "typescript"), "local")
    (sessions.root / ".pml" / f"{made.id}.json").write_bytes(damage)
    with pytest.raises(SessionAccessError, match=r"STORAGE_ERROR - the record of session .* cannot be read"):
        sessions.get(made.id, None)
    assert sessions.all() == []


def test_limits_are_told(tmp_path) -> None:
    small = Sessions(tmp_path, Settings(max_cells=3, max_cell_bytes=1000, max_sessions=2))
    made = small.create(new_notebook("T", "typescript"), "local")
    with pytest.raises(NotebookError, match=r"a\.ts has 1001 bytes; a cell has at most 1000"):
        small.change(made.id, None, lambda s: with_cell(s, new_code("a.ts", "x" * 1001)))
    small.change(made.id, None, lambda s: with_cell(s, new_code("a.ts", "x" * 1000)))
    with pytest.raises(NotebookError, match="4 cells are too many; a notebook has at most 3"):
        small.change(made.id, None, lambda s: with_cell(s, new_markdown("x")))
    small.create(new_notebook("T", "python"), "local")
    with pytest.raises(NotebookError, match="there are 2 notebooks of all principals together"):
        small.create(new_notebook("T", "python"), "local")
    small.delete(made.id, None)
    small.create(new_notebook("T", "python"), "local")


@pytest.mark.attack("Notebooks", "make notebooks until there is none left for anybody else")
def test_one_principal_does_not_take_the_notebooks_of_another(tmp_path) -> None:
    small = Sessions(tmp_path, Settings(max_sessions=1000, max_principal_sessions=3))
    made = [small.create(new_notebook("T", "python"), "mallory") for _ in range(3)]
    with pytest.raises(NotebookError, match=r"you have 3 notebooks.*max_principal_sessions.*cell_update.*operator"):
        small.create(new_notebook("T", "python"), "mallory")
    small.create(new_notebook("T", "python"), "alice")
    small.delete(made[0].id, "mallory")
    small.create(new_notebook("T", "python"), "mallory")


def test_notebooks_from_before_they_were_counted_count(tmp_path) -> None:
    first = Sessions(tmp_path, Settings(max_principal_sessions=2))
    for owner in ("ann", "ann", "bob"):
        first.create(new_notebook("T", "python"), owner)
    shutil.rmtree(tmp_path / ".pml" / "owners")
    again = Sessions(tmp_path, Settings(max_principal_sessions=2))
    with pytest.raises(NotebookError, match="you have 2 notebooks"):
        again.create(new_notebook("T", "python"), "ann")
    again.create(new_notebook("T", "python"), "bob")


def test_what_cells_say_fits_into_what_a_notebook_and_a_principal_may_hold(tmp_path) -> None:
    limits = Settings(
        max_notebook_bytes=100_000, max_notebook_files=100, max_principal_bytes=150_000, max_principal_files=100
    )
    small = Sessions(tmp_path, limits)
    one, two = (small.create(new_notebook("T", "python"), "ann") for _ in range(2))
    with pytest.raises(NotebookError, match=r"the cells take 120\d* bytes.*max_notebook_bytes.*max_principal_bytes"):
        small.change(one.id, "ann", lambda s: with_cell(s, new_code("a.py", "x" * 60_000)))
    small.change(one.id, "ann", lambda s: with_cell(s, new_code("a.py", "x" * 40_000)))
    small.stage(one.id, "ann")
    small.measure(one)
    assert small.room(two).bytes < 70_000
    with pytest.raises(NotebookError, match="there is room for"):
        small.change(two.id, "ann", lambda s: with_cell(s, new_code("a.py", "x" * 40_000)))
    other = small.create(new_notebook("T", "python"), "bob")
    small.change(other.id, "bob", lambda s: with_cell(s, new_code("a.py", "x" * 40_000)))
    small.delete(one.id, "ann")
    small.change(two.id, "ann", lambda s: with_cell(s, new_code("a.py", "x" * 40_000)))


def test_sessions_are_listed_the_last_changed_first_and_can_be_deleted(sessions) -> None:
    assert sessions.all() == []
    first, second = (sessions.create(new_notebook(title, "python"), "local") for title in ("one", "two"))
    sessions.change(first.id, None, lambda s: s)
    assert [s.id for s in sessions.all()] == [first.id, second.id]
    sessions.delete(first.id, None)
    assert [s.id for s in sessions.all()] == [second.id]
    assert not [path for path in sessions.root.rglob("*") if first.id in path.name]
    with pytest.raises(SessionAccessError, match="SESSION_NOT_FOUND"):
        sessions.get(first.id, None)


def test_records_come_back_as_they_were() -> None:
    notebook = new_notebook("Tïtle", "typescript")
    made = Session(id="a", owner="ann", notebook=notebook, tools=("a:*",), created_at="x", changed_at="y")
    back = records.from_json(records.to_json(made))
    texts = {cell.id: cell.text for cell in notebook.cells if cell.filename}
    cells = tuple(replace(cell, text=texts.get(cell.id, cell.text)) for cell in back.notebook.cells)
    whole = Notebook(language=back.notebook.language, cells=cells, tsconfig=back.notebook.tsconfig)
    assert replace(back, notebook=whole) == made
