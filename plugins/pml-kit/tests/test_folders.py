"""How much is in a folder that code has written into, whatever the code has made there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pml_hookspecs import FolderSize
from pml_kit.system.folders import size_of


def test_files_folders_and_links_count(tmp_path) -> None:
    (tmp_path / "deep/er").mkdir(parents=True)
    (tmp_path / "deep/er/file").write_bytes(b"x" * 5000)
    (tmp_path / "link").symlink_to("/usr")
    found = size_of(str(tmp_path), 100)
    assert found.files == 4
    assert 5000 <= found.bytes < 50_000
    assert size_of(str(tmp_path / "nothing"), 100) == FolderSize(0, 0)


def test_a_file_with_holes_counts_at_its_length(tmp_path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(10 << 30)
    assert size_of(str(tmp_path), 100).bytes == 10 << 30


def test_it_stops_at_one_name_beyond(tmp_path) -> None:
    for number in range(20):
        (tmp_path / str(number)).touch()
    assert size_of(str(tmp_path), 5).files == 6
    assert size_of(str(tmp_path), 5).exceeds(FolderSize(1000, 5))
    assert not size_of(str(tmp_path), 20).exceeds(FolderSize(1000, 20))


@pytest.mark.skipif(sys.platform == "win32", reason="paths are limited in another way")
def test_what_cannot_be_looked_into_is_taken_for_full(tmp_path) -> None:
    here, deeper = Path.cwd(), Path("d" * 250)
    try:
        os.chdir(tmp_path)
        for _ in range(20):  # no path leads there in one piece
            deeper.mkdir()
            os.chdir(deeper)
        assert size_of(str(tmp_path), 1000).files == 1001
    finally:
        os.chdir(here)
