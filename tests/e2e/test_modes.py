"""Four modes, three ways of using each (EXP-57)."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.anyio, pytest.mark.seed("EXP-57")]
META_TOOLS = {"call_tool", "execute_workflow", "search_tools"}
TOOLS = {"plain__echo", "plain__fail", "plain__write_note", "typed__add"}
INTENT = "add a line of text to the notebook"
FOUND = "plain__write_note"

WITHOUT_HINT = {"meta_only": META_TOOLS, "semantic": META_TOOLS, "hybrid": META_TOOLS, "full_proxy": TOOLS}


async def names(client, intent=""):
    meta = {"pml/intent": intent} if intent else None
    return {t.name for t in (await client.list_tools(meta=meta)).tools}


@pytest.mark.parametrize("mode", WITHOUT_HINT)
async def test_without_a_hint_a_mode_lists_what_it_always_lists(site, mode):
    async with site.connect("--mode", mode) as client:
        assert await names(client) == WITHOUT_HINT[mode]


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
async def test_a_hint_adds_the_tools_that_fit_to_modes_that_choose_by_it(site, mode):
    async with site.connect("--mode", mode) as client:
        with_hint = await names(client, INTENT)
        assert with_hint >= META_TOOLS | {FOUND}
        assert await names(client) == META_TOOLS


@pytest.mark.parametrize("mode", ["meta_only", "full_proxy"])
async def test_a_hint_changes_nothing_in_the_other_modes(site, mode):
    async with site.connect("--mode", mode) as client:
        assert await names(client, INTENT) == WITHOUT_HINT[mode]


@pytest.mark.seed("EXP-12")
@pytest.mark.parametrize("mode", WITHOUT_HINT)
async def test_a_tool_can_be_called_directly_whether_listed_or_not(site, mode):
    async with site.connect("--mode", mode) as client:
        written = await client.call_tool("plain__write_note", {"text": mode})
    assert not written.is_error
    assert site.notes.read_text() == f"{mode}\n"


@pytest.mark.seed("EXP-9")
async def test_an_unknown_mode_is_warned_of_and_read_as_meta_only(site):
    async with site.connect("--mode", "everything") as client:
        assert await names(client) == META_TOOLS
    assert "Unknown tools_exposure mode: everything, defaulting to meta_only" in site.log.read_text()
