from __future__ import annotations

import json
import resource
import subprocess
import sys
from contextlib import contextmanager

import pytest

from pml_stores.line_file import LineFile

HEAD = b'{"lines":1}'


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data" / "some.jsonl"


def opened(path, head=HEAD):
    file = LineFile(path, head)
    return file, file.open(json.loads)


@contextmanager
def full_from(size_bytes):
    """No file of this process gets longer."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_lines_are_there_the_next_time(path):
    file, lines = opened(path)
    assert lines == []
    file.append([b"[1]", b"[2]"])
    file.append([])
    file.append([b"[3]"])
    assert (file.count, file.size_bytes) == (3, path.stat().st_size)
    file.close()
    file, lines = opened(path)
    assert (lines, file.count, file.size_bytes) == ([[1], [2], [3]], 3, path.stat().st_size)
    file.close()
    assert path.read_bytes() == HEAD + b"\n[1]\n[2]\n[3]\n"
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("cut_off", [b"[4", b'{"lin', b"[" * 10_000])
def test_a_line_that_was_being_written_is_cut_off(path, cut_off):
    file, _ = opened(path)
    file.append([b"[1]"])
    file.close()
    with path.open("ab") as other:
        other.write(cut_off)
    file, lines = opened(path)
    assert lines == [[1]]
    file.append([b"[2]"])
    file.close()
    assert path.read_bytes() == HEAD + b"\n[1]\n[2]\n"


def test_a_head_that_was_being_written_is_begun_again(path):
    path.parent.mkdir()
    path.write_bytes(HEAD[:4])
    file, lines = opened(path)
    file.close()
    assert (lines, path.read_bytes()) == ([], HEAD + b"\n")


def test_one_process_has_the_file(path):
    file, _ = opened(path)
    with pytest.raises(RuntimeError, match=r"some.jsonl is in use by another gateway"):
        opened(path)
    code = "import sys; from pathlib import Path; from pml_stores.line_file import LineFile\n"
    code += f"LineFile(Path(sys.argv[1]), {HEAD!r}).open(bytes)"
    command = [sys.executable, "-c", code, str(path)]
    assert b"in use by another" in subprocess.run(command, capture_output=True, check=False).stderr
    file.close()
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_file_in_another_form_is_refused_and_left_alone(path):
    path.parent.mkdir()
    path.write_bytes(b'{"lines":2}\n["future"]\n["tor')
    for _ in range(2):
        with pytest.raises(RuntimeError, match="another version of this store"):
            opened(path)
    assert path.read_bytes() == b'{"lines":2}\n["future"]\n["tor'


def test_a_line_that_means_nothing_is_named_and_the_file_is_let_go(path):
    path.parent.mkdir()
    path.write_bytes(HEAD + b"\n[1]\nnonsense\n[2]\n")
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"some.jsonl line 3 cannot be read .*; take the line out"):
            opened(path)


def test_what_does_not_fit_on_the_disk_is_not_there_at_all(path):
    file, _ = opened(path)
    file.append([b"[1]"])
    with full_from(100), pytest.raises(OSError, match="large"):
        file.append([b'["' + b"x" * 60 + b'"]'] * 3)
    assert path.read_bytes() == HEAD + b"\n[1]\n"
    file.append([b"[2]"])
    file.close()
    file, lines = opened(path)
    file.close()
    assert lines == [[1], [2]]


def test_lines_are_replaced_in_one_step(path):
    file, _ = opened(path)
    file.append([b"[1]"] * 100)
    number = path.stat().st_ino
    file.replace(b"[%d]" % n for n in (7, 8))
    assert (file.count, file.size_bytes, path.stat().st_ino != number) == (2, path.stat().st_size, True)
    file.append([b"[9]"])
    file.close()
    assert path.read_bytes() == HEAD + b"\n[7]\n[8]\n[9]\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_replacement_that_does_not_fit_on_the_disk_costs_nothing(path):
    file, _ = opened(path)
    file.append([b"[1]"])
    with full_from(50), pytest.raises(OSError, match="large"):
        file.replace([b"[2]"] * 100)
    assert sorted(p.name for p in path.parent.iterdir()) == ["some.jsonl", "some.lock"]
    file.append([b"[3]"])
    file.close()
    assert path.read_bytes() == HEAD + b"\n[1]\n[3]\n"


def test_a_file_that_is_closed_takes_nothing(path):
    file, _ = opened(path)
    file.close()
    file.close()
    with pytest.raises(OSError, match="it is closed"):
        file.append([b"[1]"])
    assert path.read_bytes() == HEAD + b"\n"
