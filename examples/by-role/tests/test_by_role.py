from __future__ import annotations

from dataclasses import replace

import pytest

from pml_example_by_role import ByRole, Settings
from pml_testing.exposure_mode import ExposureModeContract
from pml_testing.fakes import FakeCatalog, entry

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
