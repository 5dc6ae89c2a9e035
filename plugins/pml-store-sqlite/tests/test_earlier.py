"""Files that earlier versions made, each by the code of its time, are read, searched, added up and pruned."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pml_store_sqlite import Settings, SqliteStore
from pml_testing.records import assert_is_of_earlier_version

pytestmark = pytest.mark.anyio
FILES = sorted((Path(__file__).parent / "earlier").glob("schema_*.db.gz"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.partition(".")[0])
async def test_a_file_of_an_earlier_version_is_as_good_as_a_new_one(path, file):
    path.write_bytes(gzip.decompress(file.read_bytes()))
    with closing(sqlite3.connect(path)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    assert file.name == f"schema_{version}.db.gz"
    async with SqliteStore(Settings(path=str(path), keep_days=0)) as store:
        await assert_is_of_earlier_version(store, version, as_agent=version >= 4, documents=version >= 3)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
