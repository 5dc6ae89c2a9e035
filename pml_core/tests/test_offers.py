"""What plugins and the core offer one another."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Protocol

import pytest

from pml_core.plugins.offers import Offers
from pml_hookspecs import Key, Offer, Session, hookimpl
from pml_kit.errors import OperatorError
from pml_testing.gateway import running

pytestmark = pytest.mark.anyio


class Clock(Protocol):
    def now(self) -> str: ...


class Noon:
    def __init__(self, hour="noon"):
        self.hour = hour

    def now(self):
        return self.hour


CLOCK: Key[Clock] = Key("clock", Clock)
EVERY: Key[Clock] = Key("every", Clock, several="all")
ASKED: Key[Clock] = Key("asked", Clock, several="asked")
GUARD: Key[Clock] = Key("guard", Clock, guards=True)


def offering(*keys, service=None):
    made = SimpleNamespace()
    made.pml_offers = hookimpl(lambda services: [Offer(key, service or Noon()) for key in keys])
    return made


def looking():
    """A plugin that looks for clocks in another hook."""
    made = SimpleNamespace(found={})

    def look(services):
        made.services = services
        made.found = {key.name: services.find(key) for key in (CLOCK, EVERY, ASKED)}
        return []

    made.pml_meta_tools = hookimpl(look)
    return made


async def test_what_one_plugin_offers_another_finds_when_its_hooks_are_asked():
    plugins = {("hooks", "b"): offering(CLOCK), ("hooks", "a"): (sees := looking())}
    async with running({}, plugins=plugins):
        assert sees.found["clock"].now() == "noon"
        assert sees.services.find_all(CLOCK) == [("b", sees.found["clock"])]
        assert sees.found["every"] is None
        assert sees.services.find_all(EVERY) == ()


async def test_of_several_none_counts_all_are_asked_or_all_count_as_the_key_says(capsys):
    three = {("hooks", name): offering(CLOCK, EVERY, ASKED) for name in ("c", "a", "b")}
    async with running({}, plugins={**three, ("hooks", "sees"): (sees := looking())}):
        assert sees.found == {"clock": None, "every": None, "asked": None}
        assert [list(dict(sees.services.find_all(key))) for key in (CLOCK, ASKED, EVERY)] == [[], [*"abc"], [*"abc"]]
    err = capsys.readouterr().err
    assert "several plugins bring clock (a, b, c): none of them counts; choose one: [gateway.providers] clock" in err
    assert "several plugins bring asked (a, b, c): all of them are asked; choose one" in err
    assert "bring every" not in err


async def test_a_setting_chooses_by_the_name_of_the_key():
    two = {("hooks", name): offering(CLOCK, EVERY, service=Noon(name)) for name in "ab"}
    chosen = {"clock": "b", "every": "a"}
    async with running({}, plugins={**two, ("hooks", "sees"): (sees := looking())}, providers=chosen):
        assert sees.found["clock"].now() == "b"
        assert sees.found["every"].now() == "a"


async def test_what_was_chosen_and_nobody_offers_keeps_it_from_starting():
    for providers, said in (
        ({"clock": "x"}, "gateway.providers.clock: no plugin 'x' brings one; installed: a"),
        ({"clok": "a"}, "gateway.providers.clok: there is no such part; did you mean 'clock'?"),
    ):
        with pytest.raises(OperatorError) as refused:
            async with running({}, plugins={("hooks", "a"): offering(CLOCK)}, providers=providers):
                pass
        assert str(refused.value) == said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            Offer(CLOCK, object()),
            "as 'clock' it offers 'object', which is no Clock: it has no 'now'; write: def now(self)",
        ),
        (Offer(CLOCK, Noon), "as 'clock' it offers 'Noon', which is no Clock: it is the class itself; make an"),
        (Offer(Key("number", int), "one"), "as 'number' it offers 'str', which is no int: it is a str; make it a int"),
        (Offer("clock", Noon()), "its key is a str; give it a Key with a name"),
        (Noon(), "pml_offers gives 'Noon', which is no Offer: it is a Noon; make it a Offer(...)"),
    ],
)
async def test_what_is_not_of_the_keys_protocol_quarantines_its_plugin(given, said):
    wrong = SimpleNamespace(pml_offers=hookimpl(lambda services: [Offer(EVERY, Noon()), given]))
    plugins = {("hooks", "bad"): wrong, ("hooks", "good"): offering(CLOCK), ("hooks", "sees"): (sees := looking())}
    async with running({}, plugins=plugins) as made:
        assert said in made.status(Session(key="test"))["plugins"]["bad"]
        assert sees.found["clock"] is not None
        assert sees.found["every"] is None, "nothing of the plugin counts"


async def test_one_name_by_two_keys_is_a_mistake_of_the_second():
    other = Key("clock", Noon)
    plugins = {("hooks", "a"): offering(CLOCK), ("hooks", "b"): offering(other), ("hooks", "sees"): (sees := looking())}
    async with running({}, plugins=plugins) as made:
        assert "by another key than 'a' does" in made.status(Session(key="test"))["plugins"]["b"]
        assert sees.found["clock"] is not None
        assert sees.services.find(other) is None


async def test_a_hook_that_raises_quarantines_and_that_of_a_guard_keeps_it_from_starting():
    def boom(services):
        raise ValueError("broken plugin")

    async with running({}, plugins={("hooks", "bad"): SimpleNamespace(pml_offers=hookimpl(boom))}) as made:
        assert made.status(Session(key="test"))["plugins"]["bad"] == "quarantined: ValueError: broken plugin"
    with pytest.raises(OperatorError, match=r"plugin 'bad' failed in pml_offers: broken plugin.*does not start"):
        async with running({}, plugins={("guards", "bad"): SimpleNamespace(pml_offers=hookimpl(boom))}):
            pass


async def test_what_decides_who_may_do_what_is_taken_from_guards_alone():
    async with running({}, plugins={("guards", "a"): offering(GUARD)}) as made:
        assert made.offers.find(GUARD) is not None
    with pytest.raises(
        OperatorError, match=r"'a' failed in pml_offers: it offers 'guard' and is no guard; .*pml\.guards"
    ):
        async with running({}, plugins={("hooks", "a"): offering(GUARD)}):
            pass


def test_what_the_core_offers_stands_under_its_name_and_can_be_replaced_by_choice():
    offers, own, theirs = Offers(), Noon("own"), Noon("theirs")
    offers.add(Offer(CLOCK, own))
    assert offers.find(CLOCK) is own, "before plugins are asked"
    assert offers.use([("a", Offer(CLOCK, theirs))], {}, print)
    assert offers.find(CLOCK) is None
    for choice, counts in (("core", own), ("a", theirs)):
        offers.use([("a", Offer(CLOCK, theirs))], {"clock": choice}, print)
        assert offers.find_all(CLOCK) == [(choice, counts)]
