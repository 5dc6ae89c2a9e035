from __future__ import annotations

import pytest

from pml_console import sessions
from pml_console.sessions import OPERATOR, Sessions, TooManyAttemptsError
from pml_console.settings import Settings
from pml_hookspecs import Identity, UnauthenticatedError

pytestmark = pytest.mark.anyio
ADA = Identity(principal="ada", scopes=frozenset({"approve"}))


class Keys:
    def __init__(self, *, needed=True, **keys):
        self.keys, self.needed = keys, needed

    async def __call__(self, token):
        if token in self.keys:
            return self.keys[token]
        if self.needed:
            raise UnauthenticatedError("The bearer token is not valid")
        return Identity(principal="local")


class Clock:
    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr(sessions.time, "monotonic", lambda: self.now)


async def test_a_key_begins_a_session_that_is_its_owners():
    made, keys = Sessions(Settings()), Keys(k1=ADA)
    session = await made.log_in("k1", keys, "here")
    assert made.of(session.id) is session
    assert await made.identity(session, keys) == ADA
    assert made.of(session.id + "x") is None
    assert made.of("") is None


async def test_a_wrong_key_begins_none():
    with pytest.raises(UnauthenticatedError, match="not valid"):
        await Sessions(Settings()).log_in("k2", Keys(k1=ADA), "here")


async def test_where_everybody_is_let_in_no_key_is_proof_of_anything():
    with pytest.raises(UnauthenticatedError, match="pml console"):
        await Sessions(Settings()).log_in("anything", Keys(needed=False), "here")


async def test_a_key_that_is_revoked_ends_its_session():
    made, keys = Sessions(Settings()), Keys(k1=ADA)
    session = await made.log_in("k1", keys, "here")
    keys.keys.clear()
    with pytest.raises(UnauthenticatedError):
        await made.identity(session, keys)
    assert made.of(session.id) is None


async def test_the_one_time_token_is_good_once():
    made = Sessions(Settings(one_time_token="secret"))
    with pytest.raises(UnauthenticatedError):
        made.enter("wrong", "here")
    session = made.enter("secret", "here")
    assert await made.identity(session, Keys()) == OPERATOR
    with pytest.raises(UnauthenticatedError, match="has been used"):
        made.enter("secret", "here")


def test_without_a_one_time_token_nobody_enters():
    with pytest.raises(UnauthenticatedError):
        Sessions(Settings()).enter("", "here")


async def test_log_ins_that_fail_are_limited_by_address(monkeypatch):
    clock, made, keys = Clock(monkeypatch), Sessions(Settings()), Keys(k1=ADA)
    for _ in range(sessions.ATTEMPTS):
        with pytest.raises(UnauthenticatedError):
            await made.log_in("no", keys, "there")
    with pytest.raises(TooManyAttemptsError):
        await made.log_in("k1", keys, "there")
    assert await made.log_in("k1", keys, "elsewhere")
    clock.now += sessions.ATTEMPTS_S + 1
    assert await made.log_in("k1", keys, "there")


async def test_a_session_ends_in_time(monkeypatch):
    clock, made = Clock(monkeypatch), Sessions(Settings(session_s=100))
    session = await made.log_in("k1", Keys(k1=ADA), "here")
    clock.now += 99
    assert made.of(session.id) is session
    clock.now += 2
    assert made.of(session.id) is None


async def test_the_oldest_of_too_many_sessions_of_one_principal_ends():
    made, keys = Sessions(Settings(max_sessions=2)), Keys(k1=ADA, k2=Identity(principal="bob"))
    first = await made.log_in("k1", keys, "here")
    bobs = await made.log_in("k2", keys, "here")
    others = [await made.log_in("k1", keys, "here") for _ in range(2)]
    assert made.of(first.id) is None
    assert all(made.of(one.id) for one in (*others, bobs))


async def test_logging_out_everywhere_ends_ones_own_sessions():
    made, keys = Sessions(Settings()), Keys(k1=ADA, k2=Identity(principal="bob"))
    mine = [await made.log_in("k1", keys, "here") for _ in range(2)]
    bobs = await made.log_in("k2", keys, "here")
    made.end_all("ada")
    assert [made.of(one.id) for one in mine] == [None, None]
    assert made.of(bobs.id) is bobs
