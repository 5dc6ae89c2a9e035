from __future__ import annotations

import io
import os

import pytest

from pml_clients import edited_file


def test_a_file_is_replaced_and_a_copy_kept_with_the_same_rights(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b"\xef\xbb\xbfold")
    path.chmod(0o640)
    file = edited_file.read(path)
    backup = edited_file.replace(file, file.encoded("new"))
    assert (path.read_bytes(), backup.read_bytes()) == (b"\xef\xbb\xbfnew", b"\xef\xbb\xbfold")
    assert [one.stat().st_mode & 0o777 for one in (path, backup)] == [0o640, 0o640]
    assert edited_file.backups(path) == [backup]


def test_a_new_file_is_made_with_its_folder_and_no_copy(tmp_path):
    path = tmp_path / "new" / "a.json"
    assert edited_file.replace(edited_file.read(path), b"{}") is None
    assert path.read_bytes() == b"{}"
    assert list(path.parent.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    link.symlink_to(real)
    edited_file.replace(edited_file.read(link), b"new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_a_file_that_somebody_else_has_changed_meanwhile_is_left_alone(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("old")
    file = edited_file.read(path)
    path.write_text("theirs")
    with pytest.raises(edited_file.FileError, match="changed by another program"):
        edited_file.replace(file, b"mine")
    assert path.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_at_any_step_leaves_the_file_as_it_was(tmp_path, monkeypatch, step):
    path = tmp_path / "a.json"
    path.write_text("old")
    file = edited_file.read(path)

    def fail(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    if step == "replace":
        monkeypatch.setattr(type(path), "replace", fail)
    with pytest.raises(edited_file.FileError, match="cannot be written: No space left on device"):
        edited_file.replace(file, b"new")
    assert path.read_text() == "old"
    assert not [one for one in tmp_path.iterdir() if one.name.startswith(".a.json")]


@pytest.mark.parametrize(
    ("answer", "yes"), [("\n", True), ("y\n", True), ("YES\n", True), ("n\n", False), ("", False), ("x\n", False)]
)
def test_at_a_terminal_it_is_asked(monkeypatch, answer, yes):
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", terminal)
    assert edited_file.agreed("Write?", yes=False) is yes
    assert edited_file.agreed("Write?", yes=True)


def test_without_a_terminal_the_command_is_taken_at_its_word(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert edited_file.agreed("Write?", yes=False)
    monkeypatch.setattr("sys.stdin", None)
    assert edited_file.agreed("Write?", yes=False)


def test_what_is_not_text_is_refused(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(edited_file.FileError, match="not UTF-8 text"):
        _ = edited_file.read(path).text
    with pytest.raises(edited_file.FileError, match="cannot be read"):
        edited_file.read(tmp_path)
