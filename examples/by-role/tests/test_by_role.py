from __future__ import annotations

from datetime import datetime

import pytest

from pml_example_by_role import ByRole, Settings
from pml_hookspecs import replace
from pml_testing.exposure_mode import ExposureModeContract
from pml_testing.fakes import FakeCatalog, entry
from pml_testing.gateway import until

ROLES = {"*": ["docs:*"], "finance": ["billing:*", "crm:get_*"], "support": ["crm:*"], "nobody": []}
TOOLS = ("docs:search", "billing:refund", "crm:get_deal", "crm:delete_deal")


class TestContract(ExposureModeContract):
    @pytest.fixture
    def mode_type(self):
        return ByRole


class TestContractWithRoles(TestContract):
    @pytest.fixture
    def settings(self):
        return Settings(roles={"*": ["s00:*"], "system": ["s01:*"]})


class TestContractWithHours(TestContract):
    @pytest.fixture
    def settings(self):
        return Settings(
            roles={"*": ["s00:*"], "system": ["s01:*"]}, hours={"*": "00:00-24:00", "system": "03:00-03:00"}
        )


@pytest.fixture
def catalog():
    own = [entry("pml:search_tools", meta=True), entry("pml:unlisted")]
    return FakeCatalog([*own, *map(entry, TOOLS)])


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("scopes", "seen"),
    [
        ((), ["docs:search"]),
        (("finance",), ["billing:refund", "crm:get_deal", "docs:search"]),
        (("support",), ["crm:delete_deal", "crm:get_deal", "docs:search"]),
        (("nobody", "unheard of"), ["docs:search"]),
        (("support", "finance"), ["billing:refund", "crm:delete_deal", "crm:get_deal", "docs:search"]),
    ],
)
async def test_each_role_sees_its_tools(catalog, session, scopes, seen):
    selection = await ByRole(Settings(roles=ROLES)).select(catalog, replace(session, scopes=frozenset(scopes)))
    assert list(selection.tools) == ["pml:search_tools", *seen]


@pytest.mark.anyio
async def test_it_says_why(catalog, session):
    mode = ByRole(Settings(roles=ROLES, meta_tools=False))
    selection = await mode.select(catalog, replace(session, scopes=frozenset({"support", "finance"})))
    assert selection.why == {
        "billing:refund": "for finance",
        "crm:delete_deal": "for support",
        "crm:get_deal": "for finance, support",
        "docs:search": "for everyone",
    }


@pytest.mark.anyio
async def test_clients_of_one_gateway_see_what_their_keys_say(gateway):
    servers = {"docs": ["search"], "billing": ["refund"]}
    settings = {"by_role": {"roles": ROLES}}
    async with gateway([ByRole], servers, settings=settings) as anybody:
        bookkeeper = await anybody.another(principal="ada", scopes=frozenset({"finance"}))
        assert await anybody.tools() == ["docs__search"]
        assert await bookkeeper.tools() == ["billing__refund", "docs__search"]


def at(hour, minute=0):
    """A time of day, where this runs."""
    return datetime(2026, 3, 2, hour, minute).astimezone()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("hours", "when", "seen"),
    [
        ("08:00-18:00", at(7, 59), False),
        ("08:00-18:00", at(8), True),
        ("08:00-18:00", at(17, 59), True),
        ("08:00-18:00", at(18), False),
        ("22:00-06:00", at(21, 59), False),
        ("22:00-06:00", at(23), True),
        ("22:00-06:00", at(5, 59), True),
        ("22:00-06:00", at(6), False),
        ("00:00-24:00", at(23, 59), True),
    ],
)
async def test_a_role_sees_its_tools_at_its_hours(catalog, session, frozen_clock, hours, when, seen):
    frozen_clock.move_to(when)
    mode = ByRole(Settings(roles=ROLES, hours={"support": hours}))
    selection = await mode.select(catalog, replace(session, scopes=frozenset({"support"})))
    assert ("crm:delete_deal" in selection.tools) is seen
    assert "docs:search" in selection.tools


@pytest.mark.parametrize("hours", ["8-18", "08:00", "08:00-18:60", "always", ""])
def test_hours_that_are_none_are_named(hours):
    with pytest.raises(ValueError, match=r"\[plugins.by_role\] hours.support: write it as 08:00-18:00"):
        ByRole(Settings(roles=ROLES, hours={"support": hours}))


@pytest.mark.anyio
async def test_clients_are_told_when_the_hours_change(gateway, frozen_clock):
    frozen_clock.move_to(at(17, 59))
    settings = {"by_role": {"roles": ROLES, "hours": {"support": "08:00-18:00"}}}
    changed = ("notifications/tools/list_changed", {})
    async with gateway([ByRole], {"crm": ["get_deal"]}, settings=settings) as anybody:
        support = await anybody.another(scopes=frozenset({"support"}))
        await until(lambda: anybody.gateway.catalog.get("by_role:roles_now"))
        assert await support.tools() == ["crm__get_deal"]
        for minutes, listed in ((1, []), (14 * 60, ["crm__get_deal"])):
            support.link.notified.clear()
            frozen_clock.advance(minutes=minutes)
            await until(lambda: changed in support.link.notified)
            assert await support.tools() == listed
        assert (await support.call("by_role__roles_now"))["structuredContent"] == {"roles": ["*", "finance", "support"]}
