"""What a key says now, of which only the public id is known: for work that goes on without its client."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pml_access import identities as module
from pml_hookspecs import Session, UnauthenticatedError

pytestmark = pytest.mark.anyio


def session(key):
    return Session(key="s", principal="alice", access_key=key)


async def test_a_key_says_what_it_lets_its_holder_have(identities, made):
    key, token = await made(allow=("files:*",), deny=("files:delete",), scopes=("approve",))
    assert await identities.current(session(key.id)) == await identities.identify(token)


async def test_a_key_that_was_revoked_has_expired_or_is_gone_does_not_count(identities, made, keys, services):
    key, _ = await made()
    await keys.revoke(key.id, by="root")
    with pytest.raises(UnauthenticatedError, match="was revoked"):
        await identities.current(session(key.id))
    key, _ = await made(expires_at=datetime.now(UTC) - timedelta(seconds=1))
    with pytest.raises(UnauthenticatedError, match="has expired"):
        await identities.current(session(key.id))
    await services.store.documents.delete("access.keys", key.id)
    with pytest.raises(UnauthenticatedError, match="no such API key any more"):
        await identities.current(session(key.id))


@pytest.mark.parametrize("key", ["", "k1", "somebody elses", "UPPERCASEUPPERCA"])
async def test_of_what_is_no_key_of_this_kind_nothing_is_said(identities, key):
    assert await identities.current(session(key)) is None


async def test_a_key_that_was_read_lately_counts_while_the_store_is_down(identities, made, services, monkeypatch):
    key, _ = await made()
    known = await identities.current(session(key.id))

    async def broken(*_what):
        raise OSError("no disk")

    monkeypatch.setattr(services.store.documents, "get", broken)
    assert await identities.current(session(key.id)) == known
    monkeypatch.setattr(module, "TRUSTED_S", -1.0)
    with pytest.raises(OSError, match="no disk"):
        await identities.current(session(key.id))
