"""Keys and who comes with them."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta

import pytest

from pml_access import events, identities, tokens
from pml_access.events import EVENTS
from pml_access.keys import KEYS, USES
from pml_access.settings import Settings
from pml_hookspecs import Identity, UnauthenticatedError

pytestmark = pytest.mark.anyio
INVALID = "The API key is not valid"


async def refusal(identities, token):
    with pytest.raises(UnauthenticatedError) as caught:
        await identities.identify(token)
    return str(caught.value)


async def all_of(services, collection):
    return list((await services.store.documents.find(collection, limit=1000)).items)


async def test_a_key_says_who_comes_with_it(identities, made):
    key, token = await made(
        mode="hybrid",
        intent="read",
        execution_mode="dry_run",
        allow=("files:*",),
        deny=("files:delete",),
        scopes=("approve",),
    )
    assert await identities.identify(token) == Identity(
        principal="alice",
        access_key=key.id,
        scopes=frozenset({"approve"}),
        mode="hybrid",
        intent="read",
        execution_mode="dry_run",
        allow=("files:*",),
        deny=("files:delete",),
    )


async def test_agents_and_systems_have_principals_of_their_own(identities, made):
    bot, bots = await made("agent", "bot")
    all_seeing, systems = await made("system")
    assert await identities.identify(bots) == Identity(principal="agent:bot", agent="bot", access_key=bot.id)
    expected = Identity(principal="system", scopes=frozenset({"system"}), access_key=all_seeing.id)
    assert await identities.identify(systems) == expected


async def test_what_is_no_key_of_ours_is_left_to_others(identities):
    for token in (None, "", "a-token", "ghp_abc"):
        assert await identities.identify(token) is None


async def test_where_keys_are_required_a_missing_one_is_asked_for(services, agents, made):
    strict = identities.KeyIdentities(services, Settings(required=True), agents)
    for missing in (None, ""):
        assert await refusal(strict, missing) == "MCP API key authentication required"
    _, token = await made()
    assert (await strict.identify(token)).principal == "alice"
    assert await strict.identify("a token of somebody else's") is None


async def test_wrong_keys_are_refused_alike(identities, made):
    key, token = await made()
    other, _ = await made()
    unknown = tokens.new().text
    wrong = f"pml_{key.id}_{tokens.new().secret}"
    mixed = f"pml_{other.id}_{token.rpartition('_')[2]}"
    shapes = ("pml_", "pml_x_y", f"{token}a", token[:-1], f"{token}\n", f"pml_{token[4:].upper()}")
    for bad in (unknown, wrong, mixed, *shapes):
        assert await refusal(identities, bad) == INVALID, bad


async def test_an_unknown_id_costs_as_much_as_a_wrong_secret(identities, services, made, monkeypatch):
    key, _ = await made()
    done = []
    get, compare, sha256 = services.store.documents.get, hmac.compare_digest, hashlib.sha256

    async def counted_get(collection, id):
        done.append(f"read {collection}")
        return await get(collection, id)

    monkeypatch.setattr(services.store.documents, "get", counted_get)

    def counted_compare(one, other):
        done.append(f"compare {len(one)} {len(other)}")
        return compare(one, other)

    def counted_hash(data):
        done.append(f"hash {len(data)}")
        return sha256(data)

    monkeypatch.setattr(hmac, "compare_digest", counted_compare)
    monkeypatch.setattr(hashlib, "sha256", counted_hash)
    costs = []
    for token in (tokens.new().text, f"pml_{key.id}_{tokens.new().secret}"):
        done.clear()
        await refusal(identities, token)
        costs.append(list(done))
    assert costs[0] == costs[1] == ["read access.keys", f"hash {len(token)}", "compare 64 64"]


async def test_expired_and_revoked_keys_say_so_only_to_those_who_have_them(identities, keys, made):
    past = datetime.now(UTC) - timedelta(seconds=1)
    expired, gone = await made(expires_at=past)
    lasting, token = await made(expires_at=datetime.now(UTC) + timedelta(days=1))
    assert await refusal(identities, gone) == "The API key has expired"
    assert (await identities.identify(token)).access_key == lasting.id
    assert await keys.revoke(lasting.id, by="root") is not None
    assert await keys.revoke(lasting.id, by="root") is None
    assert await refusal(identities, token) == "The API key was revoked"
    for key in (expired, lasting):
        assert await refusal(identities, f"pml_{key.id}_{tokens.new().secret}") == INVALID


async def test_only_a_hash_is_kept(services, identities, made):
    _, token = await made()
    await identities.identify(token)
    await refusal(identities, f"{token[:-26]}{token[-26:][::-1]}")
    secret = token.rpartition("_")[2]
    kept = [d for name in (KEYS, USES, EVENTS) for d in await all_of(services, name)]
    assert len(kept) == 3
    for document in kept:
        assert secret not in json.dumps([document.key, dict(document.value), document.marks])
    assert hashlib.sha256(token.encode()).hexdigest() in json.dumps(dict(kept[0].value))
    assert secret not in repr(services.log.lines)


async def test_tokens_are_long_and_never_the_same():
    made = {tokens.new() for _ in range(1000)}
    assert len({token.id for token in made}) == len({token.secret for token in made}) == 1000
    for token in made:
        assert tokens.read(token.text) == token
        assert len(token.secret) * 5 >= 256


async def test_uses_are_noted_seldom_and_apart_from_the_key(services, identities, keys, made, monkeypatch):
    key, token = await made()
    assert await keys.last_used(key.id) is None
    (before,) = await all_of(services, KEYS)
    noted = []
    monkeypatch.setattr(identities._keys, "used", lambda key, at: noted.append(key))
    for _ in range(5):
        await identities.identify(token)
    assert noted == [key.id]
    monkeypatch.undo()
    identities._noted.clear()
    await identities.identify(token)
    assert datetime.now(UTC) - await keys.last_used(key.id) < timedelta(minutes=1)
    assert await keys.uses() == {key.id: await keys.last_used(key.id)}
    assert await all_of(services, KEYS) == [before]


async def test_a_revocation_that_meets_a_change_is_not_lost(services, keys, made, monkeypatch):
    key, _ = await made()
    put, beaten = services.store.documents.put, []

    async def beaten_put(collection, id, value, *, if_version=None, **more):
        if not beaten:
            beaten.append(await put(collection, id, {**value, "revoked_at": None}, **more))
        return await put(collection, id, value, if_version=if_version, **more)

    monkeypatch.setattr(services.store.documents, "put", beaten_put)
    assert (await keys.revoke(key.id, by="root")).revoked_by == "root"
    assert (await keys.get(key.id)).revoked_at is not None
    with pytest.raises(LookupError):
        await keys.revoke("nobody", by="root")


async def test_while_the_store_cannot_be_read_keys_used_lately_count_for_a_while(
    services, identities, made, monkeypatch
):
    _, token = await made()
    _, other = await made()
    assert await identities.identify(token)
    problem = OSError("the disk is gone")

    async def broken(collection, id):
        raise problem

    monkeypatch.setattr(services.store.documents, "get", broken)
    for _ in range(3):
        assert (await identities.identify(token)).principal == "alice"
    with pytest.raises(OSError, match="disk"):
        await identities.identify(other)
    with pytest.raises(UnauthenticatedError):
        await identities.identify(token[:-1] + ("a" if token[-1] != "a" else "b"))
    warned = [event for level, event, _ in services.log.lines if "cannot be read" in event]
    assert len(warned) == 1
    monkeypatch.setattr("pml_access.identities.TRUSTED_S", -1.0)
    with pytest.raises(OSError, match="disk"):
        await identities.identify(token)


async def test_refusals_are_kept_for_the_audit_and_a_flood_of_them_is_one(services, identities, made):
    key, _ = await made()
    wrong = f"pml_{key.id}_{tokens.new().secret}"
    for _ in range(50):
        await refusal(identities, wrong)
        await refusal(identities, tokens.new().text)
    kept = sorted((d.value for d in await all_of(services, EVENTS)), key=lambda value: value["key"])
    assert [(v["kind"], v["key"], v["reason"], v["times"]) for v in kept] == [
        ("key.refused", "", INVALID, 1),
        ("key.refused", key.id, INVALID, 1),
    ]
    for noted in identities._refusals._noted.values():
        noted[0] -= events.SILENCE_S
    await refusal(identities, wrong)
    latest = [d.value for d in await all_of(services, EVENTS) if d.value["key"] == key.id and d.value["times"] > 1]
    assert [value["times"] for value in latest] == [50]


async def test_what_is_remembered_is_bounded(identities, made, monkeypatch):
    monkeypatch.setattr("pml_access.identities.MOST_REMEMBERED", 2)
    for _ in range(4):
        _, token = await made()
        await identities.identify(token)
    assert len(identities._read) == len(identities._noted) == 2


async def test_keys_are_listed_the_newest_first_over_pages(keys, made, monkeypatch):
    monkeypatch.setattr("pml_access.keys.PAGE", 2)
    ids = [(await made(holder=f"user{n}"))[0].id for n in range(5)]
    assert [key.id for key in await keys.all()] == ids[::-1]
    assert await keys.any()


async def test_a_key_survives_the_store_as_it_is(keys, made):
    key, _ = await made(allow=(), deny=("a:*",), scopes=("x",), expires_at=datetime.now(UTC) + timedelta(1))
    assert await keys.get(key.id) == key
    assert keys is not None
