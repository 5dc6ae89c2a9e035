from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import traceback

import psycopg
import pytest

from pml_hookspecs import ServerStatus
from pml_store_postgres import PostgresStore, Settings, StoreError, database, schema
from pml_testing.fakes import FakeServices
from pml_testing.records import EVERYONE, execution

pytestmark = pytest.mark.anyio
HEAVY = ("asyncio", "psycopg", "sqlalchemy", "pydantic")


async def refused(**settings):
    services = FakeServices()
    with pytest.raises(StoreError) as caught:
        await PostgresStore(Settings(**settings), services).__aenter__()
    return str(caught.value)


def with_part(url, **parts):
    return psycopg.conninfo.make_conninfo(url, **parts)


def execute(url, *statements):
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def test_importing_it_imports_nothing_heavy():
    code = f"import sys, pml_store_postgres; print([m for m in {HEAVY} if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


def test_constructing_it_connects_to_nothing():
    PostgresStore(Settings(url="postgresql://nobody@192.0.2.1/none"), FakeServices())


def test_the_address_is_a_secret():
    settings = Settings(url="postgresql://pml:hunter2@db/pml")
    assert "hunter2" not in repr(settings)


async def test_no_address_is_refused_with_what_to_do():
    assert await refused() == (
        "store driver 'postgres': there is no address of a database; set [plugins.postgres] url to postgresql://…"
    )


@pytest.mark.parametrize(
    "url", ["postgresql://pml:hunter2@[db/pml", "sqlite:///hunter2.db", "hunter2", "host=x hunter2"]
)
async def test_what_is_no_address_is_refused_and_not_quoted(url):
    message = await refused(url=url)
    assert message.startswith("store driver 'postgres': [plugins.postgres] url is not an address of PostgreSQL; write")
    assert "hunter2" not in message


async def test_a_host_that_does_not_exist_is_refused():
    message = await refused(url="postgresql://pml:hunter2@does-not-exist.invalid/pml", connect_timeout_s=3)
    assert message.startswith("store driver 'postgres': does-not-exist.invalid/pml, schema \"pml\" cannot be reached (")
    assert message.endswith("check that the server runs, and the host and port in [plugins.postgres] url")
    assert "hunter2" not in message


async def test_a_port_where_nobody_listens_is_refused(postgres):
    message = await refused(url=with_part(postgres.url, port="1", password="hunter2"))
    assert "127.0.0.1:1/postgres" in message
    assert "refused" in message
    assert "hunter2" not in message


async def test_a_database_that_is_not_there_is_refused(postgres):
    message = await refused(url=with_part(postgres.url, dbname="nowhere"))
    assert 'database "nowhere" does not exist' in message
    assert message.endswith("create the database, or name another in [plugins.postgres] url")


async def test_a_user_that_is_not_there_is_refused(postgres):
    message = await refused(url=with_part(postgres.url, user="mallory"))
    assert 'role "mallory" does not exist' in message
    assert message.endswith("check the user in [plugins.postgres] url, or let an administrator create it")


@pytest.fixture
def guarded(server):
    """The address of a server that asks for passwords."""
    execute(server.url, "DROP ROLE IF EXISTS pml", "CREATE ROLE pml LOGIN PASSWORD 'right'")
    rules = server.data / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text("host all pml 127.0.0.1/32 scram-sha-256\n" + before)
    execute(server.url, "SELECT pg_reload_conf()")
    yield server.url
    rules.write_text(before)
    execute(server.url, "SELECT pg_reload_conf()")


async def test_a_wrong_password_is_refused_and_said_nowhere(guarded, caplog):
    caplog.set_level(logging.DEBUG)
    services, url = FakeServices(), with_part(guarded, user="pml", password="hunter2")
    with pytest.raises(StoreError) as caught:
        await PostgresStore(Settings(url=url), services).__aenter__()
    assert "password authentication failed" in str(caught.value)
    assert str(caught.value).endswith("check user and password in [plugins.postgres] url")
    told = [str(caught.value), *traceback.format_exception(caught.value), caplog.text, repr(services.log.lines)]
    assert not [text for text in told if "hunter2" in text]


async def test_a_user_who_may_not_make_the_schema_is_told_what_an_administrator_can_do(guarded):
    url = with_part(guarded, user="pml", password="right")
    message = await refused(url=url)
    assert "the user may not use" in message
    assert message.endswith('CREATE SCHEMA "pml" AUTHORIZATION <the user of the url>')
    execute(guarded, "CREATE SCHEMA pml AUTHORIZATION pml")
    async with PostgresStore(Settings(url=url)) as store:
        await store.executions.put(execution(1))
        health = await store.health()
    assert "right" not in repr(health)


async def test_data_of_a_newer_version_are_refused_with_what_to_do(url):
    async with PostgresStore(Settings(url=url)):
        pass
    execute(url, "UPDATE pml.pml_store SET version = 99")
    message = await refused(url=url)
    assert f"was written by schema 99, this version knows {schema.BASE + len(schema.STEPS)}; " in message
    assert message.endswith("upgrade pml-store-postgres or set [plugins.postgres] url or schema to another place")


async def test_the_schema_of_another_program_is_refused_and_left_alone(url):
    execute(url, "CREATE SCHEMA pml", "CREATE TABLE pml.bookmark (url text)")
    message = await refused(url=url)
    assert message.endswith("has the tables of another program; set [plugins.postgres] schema to another name")
    with psycopg.connect(url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'pml'").fetchall()
    assert tables == [("bookmark",)]


async def test_a_schema_of_any_name_is_made(url):
    for name in ("pml", "Große 'Daten'; --", 'a "b"'):
        async with PostgresStore(Settings(url=url, schema=name)) as store:
            await store.executions.put(execution(1))
            assert await store.executions.get(execution(1).id, EVERYONE) is not None


async def test_a_database_of_another_encoding_is_refused(postgres):
    execute(postgres.url, "CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
    message = await refused(url=with_part(postgres.url, dbname="ascii"))
    assert "is a database with encoding SQL_ASCII; create one with ENCODING 'UTF8'" in message


async def test_a_standby_is_refused(url):
    execute(url, f"ALTER DATABASE {url.rpartition('/')[2]} SET default_transaction_read_only = on")
    assert "is read-only, as a standby is; name the server that writes" in await refused(url=url)


async def test_a_refused_store_leaves_no_thread_behind(postgres):
    store = PostgresStore(Settings(url=with_part(postgres.url, dbname="nowhere")))
    with pytest.raises(StoreError):
        await store.__aenter__()
    store._writer._thread.join(5)
    assert not store._writer._thread.is_alive()


async def test_an_entry_that_is_cancelled_leaves_no_thread_behind(emptied):
    store = PostgresStore(emptied)
    entering = asyncio.ensure_future(store.__aenter__())
    await asyncio.sleep(0)
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    store._writer._thread.join(5)
    assert not store._writer._thread.is_alive()


async def test_gateways_that_start_together_make_the_schema_once(url):
    stores = [PostgresStore(Settings(url=url)) for _ in range(5)]
    await asyncio.gather(*(store.__aenter__() for store in stores))
    await asyncio.gather(*(store.executions.put(execution(n)) for n, store in enumerate(stores)))
    for store in stores:
        assert len(await store.executions.activity(_everything())) == 1
        await store.__aexit__(None, None, None)


def _everything():
    from pml_hookspecs import ExecutionQuery

    return ExecutionQuery(scope=EVERYONE)


async def test_a_later_schema_step_is_applied_to_older_data(url, monkeypatch):
    async with PostgresStore(Settings(url=url)) as store:
        await store.executions.put(execution(1))
        await store.catalog.report(ServerStatus(name="files", state="up"))
    step = ("ALTER TABLE {schema}.server_status ADD COLUMN extra text DEFAULT 'new'",)
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, step))
    async with PostgresStore(Settings(url=url)) as store:
        assert await store.executions.get(execution(1).id, EVERYONE) is not None
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT extra FROM pml.server_status").fetchall() == [("new",)]


async def test_a_step_that_fails_leaves_the_data_as_they_were(url, monkeypatch):
    async with PostgresStore(Settings(url=url)) as store:
        await store.executions.put(execution(1))
    step = ("ALTER TABLE {schema}.server_status ADD COLUMN extra text", "SELECT 1 / 0")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "STEPS", (*schema.STEPS, step))
        assert "cannot be used (division by zero)" in await refused(url=url)
    async with PostgresStore(Settings(url=url)) as store:
        assert await store.executions.get(execution(1).id, EVERYONE) is not None


@pytest.mark.parametrize(("asked_for", "setting"), [("FULL", "on"), ("NORMAL", "off")])
async def test_writes_are_durable_as_asked_for(emptied, asked_for, setting):
    seen = []
    async with PostgresStore(Settings(url=emptied.url, schema=emptied.schema, synchronous=asked_for)) as store:
        await store._writer.write(apply=lambda c: seen.append(c.execute("SHOW synchronous_commit").fetchone()[0]))
    assert seen == [setting]


async def test_why_it_cannot_be_used_is_not_its_own_cause(url):
    execute(url, "CREATE SCHEMA pml", "CREATE TABLE pml.bookmark (url text)")
    with pytest.raises(StoreError, match="another program") as caught:
        await PostgresStore(Settings(url=url)).__aenter__()
    assert caught.value.__cause__ is not caught.value
    assert caught.value.__context__ is not caught.value


async def test_a_step_of_the_schema_may_take_as_long_as_it_takes(url, monkeypatch):
    monkeypatch.setattr(database, "STATEMENT_S", 1)
    step = ("SELECT pg_sleep(1.5)",)
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, step))
    async with PostgresStore(Settings(url=url)) as store:
        seen = []
        await store._writer.write(apply=lambda c: seen.append(c.execute("SHOW statement_timeout").fetchone()[0]))
    assert seen == ["1s"]
