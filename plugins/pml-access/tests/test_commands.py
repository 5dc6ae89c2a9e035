"""``pml keys`` and ``pml access``."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest

from pml_access import plugin, tokens
from pml_access.events import EVENTS
from pml_hookspecs import InvalidArguments


def events(services):
    async def read():
        return [dict(d.value) for d in (await services.store.documents.find(EVENTS, limit=100)).items]

    return sorted(asyncio.run(read()), key=lambda value: value["at"])


def test_a_key_is_printed_once_and_alone(pml, capsys, services):
    printed = pml("keys", "create", "--user", "alice", "--expires", "30d")
    token = tokens.read(printed.strip())
    assert token is not None
    for words in (["list"], ["list", "--all", "--json"], ["show", token.id], ["show", token.id, "--json"]):
        shown = pml("keys", *words)
        assert token.secret not in str(shown)
        assert token.digest not in str(shown)
        assert token.id in str(shown)
    assert token.secret not in json.dumps(events(services))


def test_programs_get_the_key_and_all_about_it(pml):
    made = pml("keys", "create", "--agent", "report", "--json")
    assert made["key"].split("_")[1] == made["id"]
    assert (made["principal"], made["kind"], made["state"]) == ("agent:report", "agent", "active")


def test_all_that_a_key_may_say_is_kept(pml):
    words = "--name ci --expires 2w --tools-exposure hybrid --execution-mode dry_run --intent tests"
    patterns = ["--allow", "files:*", "--allow", "git:log", "--deny", "files:delete", "--scope", "approve"]
    made = pml("keys", "create", "--user", "alice", *words.split(), *patterns, "--json")
    shown = pml("keys", "show", made["id"], "--json")
    del made["key"]
    assert shown == made
    assert (shown["name"], shown["mode"], shown["execution_mode"], shown["intent"]) == (
        "ci",
        "hybrid",
        "dry_run",
        "tests",
    )
    assert (shown["allow"], shown["deny"], shown["scopes"]) == (["files:*", "git:log"], ["files:delete"], ["approve"])
    expires = datetime.fromisoformat(shown["expires_at"])
    assert abs(expires - datetime.now(UTC) - timedelta(weeks=2)) < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--user", ""], "'' is no name"),
        (["--user", "two words"], "is no name"),
        (["--user", "a\nb"], "is no name"),
        (["--user", "x" * 201], "is no name"),
        (["--user", "system"], "'system' is taken"),
        (["--user", "local"], "'local' is taken"),
        (["--user", "agent:report"], "'agent:report' is taken"),
        (["--agent", "agent:report"], "--agent: the name 'agent:report' is taken"),
        (["--user", "a", "--expires", "soon"], "'soon' is no time"),
        (["--user", "a", "--expires", "99999999999w"], "is no time"),
        (["--user", "a", "--expires", "0d"], "over already"),
        (["--user", "a", "--expires", "2020-01-01"], "over already"),
        (["--user", "a", "--allow", "files"], "--allow files: no tool is called so"),
        (["--user", "a", "--deny", "files__read"], "--deny files__read"),
        (["--user", "a", "--scope", "system"], "--scope system"),
    ],
)
def test_mistakes_are_told_and_no_key_is_made(pml, words, said):
    with pytest.raises(InvalidArguments) as caught:
        pml("keys", "create", *words)
    assert said in str(caught.value)
    assert pml("keys", "list", "--all", "--json") == []


def test_the_option_that_all_commands_have_is_not_taken_for_the_keys(pml):
    with pytest.raises(InvalidArguments) as caught:
        pml("keys", "create", "--user", "a", mode="hybrid")
    assert "--tools-exposure" in str(caught.value)


@pytest.mark.parametrize("words", [[], ["--user", "a", "--system"], ["--user", "a", "--execution-mode", "maybe"]])
def test_whose_a_key_is_must_be_said_once(pml, words):
    with pytest.raises(SystemExit):
        pml("keys", "create", *words)


def test_the_patterns_of_keys_that_are_good_are_named_so_that_one_that_fits_nothing_is_told(pml, services):
    good = pml("keys", "create", "--user", "alice", "--allow", "crm:*", "--deny", "crm:delete_tickets", "--json")
    gone = pml("keys", "create", "--user", "bob", "--allow", "git:*", "--json")
    pml("keys", "revoke", gone["id"])
    (_, names) = (offer.service for offer in plugin.pml_offers(services))

    async def named():
        return [(one.where, tuple(one.names), one.ids_only) for one in await names()]

    about = f"key {good['id']} of {good['principal']}"
    assert asyncio.run(named()) == [
        (f"{about}: allow", ("crm:*",), True),
        (f"{about}: deny", ("crm:delete_tickets",), True),
    ]


def test_a_revoked_key_is_listed_only_with_all_and_cannot_be_revoked_again(pml, services):
    made = pml("keys", "create", "--user", "alice", "--json")
    kept = pml("keys", "create", "--user", "bob", "--json")
    assert "is revoked" in pml("keys", "revoke", made["id"][:8])
    assert [key["id"] for key in pml("keys", "list", "--json")] == [kept["id"]]
    states = {key["id"]: key["state"] for key in pml("keys", "list", "--all", "--json")}
    assert states == {made["id"]: "revoked", kept["id"]: "active"}
    with pytest.raises(InvalidArguments, match="revoked already"):
        pml("keys", "revoke", made["id"])
    noted = events(services)
    assert [(event["kind"], event["key"], event["principal"]) for event in noted] == [
        ("key.created", made["id"], "alice"),
        ("key.created", kept["id"], "bob"),
        ("key.revoked", made["id"], "alice"),
    ]


@pytest.fixture
def no_events(services, monkeypatch):
    """A store that keeps everything but events."""
    documents = services.store.documents
    put = documents.put

    async def refusing(collection, *given, **more):
        if collection == EVENTS:
            raise OSError("the disk is full")
        return await put(collection, *given, **more)

    return lambda: monkeypatch.setattr(documents, "put", refusing)


MISSING = "the event {} for the audit could not be written: the disk is full"


def test_a_key_is_printed_though_its_event_is_missing_and_that_is_told(pml, no_events, monkeypatch):
    told = []
    monkeypatch.setattr("pml_access.output.tell", told.append)
    no_events()
    token = tokens.read(pml("keys", "create", "--user", "alice").strip())
    assert [key["id"] for key in pml("keys", "list", "--json")] == [token.id]
    assert MISSING.format("key.created") in told[0]
    assert token.secret not in told[0]


def test_what_was_revoked_or_changed_is_told_though_its_event_is_missing(pml, no_events, monkeypatch):
    told = []
    monkeypatch.setattr("pml_access.output.tell", told.append)
    made = pml("keys", "create", "--user", "alice", "--json")
    no_events()
    assert "is revoked" in pml("keys", "revoke", made["id"])
    assert pml("access", "own", "report", "alice", "--json")["owner"] == "alice"
    assert len(told) == 2
    assert MISSING.format("key.revoked") in told[0]
    assert MISSING.format("agent.changed") in told[1]


@pytest.mark.parametrize("verb", ["revoke", "show"])
def test_an_id_must_be_one_keys(pml, verb):
    made = pml("keys", "create", "--user", "alice", "--json")
    for id in ("", "zzz"):
        with pytest.raises(InvalidArguments, match="There is no key"):
            pml("keys", verb, id)
    with pytest.raises(InvalidArguments) as caught:
        pml("keys", verb, made["key"])
    assert "give its id" in str(caught.value)
    assert made["key"] not in str(caught.value)


def test_a_beginning_that_several_keys_have_is_refused(pml, monkeypatch):
    ids = iter(["aaaaaaaaaaaaaaa2", "aaaaaaaaaaaaaaa3"])
    monkeypatch.setattr(tokens, "new", lambda: tokens.Token(next(ids), "a" * 52))
    for name in ("alice", "bob"):
        pml("keys", "create", "--user", name)
    with pytest.raises(InvalidArguments, match="More than one key"):
        pml("keys", "revoke", "aaaa")


def test_tables_obey_nobody(pml):
    pml("keys", "create", "--user", "alice", "--name", "\x1b[31m[bold]red")
    printed = pml("keys", "list")
    assert "\x1b[31m" not in printed


def test_there_are_no_keys_yet(pml):
    assert "pml keys create" in pml("keys", "list")
    assert pml("keys", "list", "--json") == []


def test_agents_are_owned_shared_and_permitted(pml, services):
    assert "everybody may call" in pml("access", "show")
    pml("access", "own", "report", "alice")
    pml("access", "share", "report", "bob")
    pml("access", "share", "report", "carol")
    pml("access", "permit", "report", "mailer")
    expected = {
        "agent": "report",
        "owner": "alice",
        "shared_with": ["bob", "carol"],
        "permits": ["mailer"],
        "declared": False,
    }
    assert pml("access", "show", "report", "--json") == expected
    assert pml("access", "show", "--json") == [expected]
    assert "alice" in pml("access", "show")
    pml("access", "unshare", "report", "bob")
    pml("access", "forbid", "report", "mailer")
    left = pml("access", "disown", "report", "--json")
    assert left == {**expected, "owner": None, "shared_with": ["carol"], "permits": []}
    assert [(event["verb"], event["agent"], event["other"]) for event in events(services)][:2] == [
        ("own", "report", "alice"),
        ("share", "report", "bob"),
    ]
    assert pml("access", "show", "nobody", "--json")["owner"] is None


def test_what_the_settings_say_is_not_changed_here(pml, services):
    from pml_access.settings import Agent, Settings

    services.settings = Settings(agents={"report": Agent(owner="alice")})
    with pytest.raises(InvalidArguments, match=r"\[plugins.access.agents.report\]"):
        pml("access", "own", "report", "bob")
    assert pml("access", "show", "report", "--json")["declared"] is True
    assert "settings" in pml("access", "show")


@pytest.mark.parametrize("words", [["own", "", "alice"], ["share", "report", "a b"], ["own", "report", "system"]])
def test_names_that_cannot_be_are_refused(pml, words):
    with pytest.raises(InvalidArguments, match="name"):
        pml("access", *words)
