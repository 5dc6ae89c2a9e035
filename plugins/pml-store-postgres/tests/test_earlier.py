"""Schemas that earlier versions made, each by the code of its time, are read, searched, added up and pruned."""

from __future__ import annotations

import gzip
from pathlib import Path

import psycopg
import pytest

from pml_store_postgres import PostgresStore, Settings
from pml_testing.records import assert_is_of_earlier_version

pytestmark = pytest.mark.anyio
FILES = sorted((Path(__file__).parent / "earlier").glob("schema_*.sql.gz"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.partition(".")[0])
async def test_a_schema_of_an_earlier_version_is_as_good_as_a_new_one(url, file):
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(gzip.decompress(file.read_bytes()).decode())
        (version,) = connection.execute("SELECT version FROM pml.pml_store").fetchone()
    assert file.name == f"schema_{version}.sql.gz"
    async with PostgresStore(Settings(url=url, keep_days=0)) as store:
        await assert_is_of_earlier_version(store, version, as_agent=True, documents=True)
