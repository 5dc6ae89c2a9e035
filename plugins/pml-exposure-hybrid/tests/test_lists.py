from __future__ import annotations

from typing import Any

import pytest

from pml_exposure_hybrid import Settings, lists
from pml_hookspecs import CatalogEntry, Session, ToolFilter
from pml_testing.fakes import FakeCatalog, FakeServices, entry

SESSION = Session(key="k")
TOOLS = [entry("a:read"), entry("a:write"), entry("a__b:c"), entry("b:read"), entry("pml:execute_workflow", meta=True)]


class Aliases(FakeCatalog):
    def resolve(self, name: str) -> CatalogEntry | None:
        return super().resolve("pml:execute_workflow" if name == "execute_dag" else name)


def filters(*names: str, catalog: FakeCatalog | None = None) -> list[ToolFilter]:
    services: Any = FakeServices(settings=Settings(blacklisted_tools=list(names)), catalog=catalog or Aliases(TOOLS))
    return list(lists.pml_filter_tools(services))


def kept(*names: str) -> list[str]:
    [keeps] = filters(*names)
    return [e.id for e in TOOLS if keeps(e, SESSION)]


def test_the_plugin_has_the_settings_of_the_mode() -> None:
    assert lists.settings_type is Settings


def test_nothing_blacklisted_means_no_filter() -> None:
    assert filters() == []
    services: Any = FakeServices(settings=None)
    assert list(lists.pml_filter_tools(services)) == []


@pytest.mark.parametrize(
    ("name", "dropped"),
    [
        ("a:read", ["a:read"]),
        ("a__read", ["a:read"]),
        ("a:*", ["a:read", "a:write"]),
        ("a__b__c", ["a__b:c"]),
        ("*:read", ["a:read", "b:read"]),
        ("execute_workflow", ["pml:execute_workflow"]),
        ("execute_dag", ["pml:execute_workflow"]),
        ("a", []),
        ("A:read", []),
        ("a:rea", []),
    ],
)
def test_a_blacklisted_tool_is_dropped_in_any_spelling(name: str, dropped: list[str]) -> None:
    assert kept(name) == [e.id for e in TOOLS if e.id not in dropped]


def test_several_names_are_all_dropped() -> None:
    assert kept("a:read", "b:*", "pml:nothing") == ["a:write", "a__b:c", "pml:execute_workflow"]


def test_a_name_with_brackets_means_itself_too() -> None:
    odd = entry("a:tool[1]")
    [keeps] = filters("a:tool[1]")
    assert not keeps(odd, SESSION)


def test_a_tool_that_the_catalog_does_not_know_yet_is_dropped_too() -> None:
    [keeps] = filters("a:*", catalog=FakeCatalog([]))
    assert not keeps(entry("a:new"), SESSION)
    assert keeps(entry("b:new"), SESSION)


def test_the_whitelist_forbids_nothing() -> None:
    services: Any = FakeServices(settings=Settings(whitelisted_tools=["a:read"]), catalog=FakeCatalog(TOOLS))
    assert list(lists.pml_filter_tools(services)) == []


@pytest.mark.anyio
async def test_both_lists_say_what_they_name() -> None:
    services: Any = FakeServices(settings=Settings(whitelisted_tools=["a:read"], blacklisted_tools=["b:*", "c"]))
    [offer] = lists.pml_offers(services)
    named = await offer.service()
    assert [(one.where, list(one.names)) for one in named] == [
        ("plugins.hybrid.whitelisted_tools", ["a:read"]),
        ("plugins.hybrid.blacklisted_tools", ["b:*", "c"]),
    ]
