"""Why a tool is listed or not, who may have it, and what a score is made of, in the console."""

from __future__ import annotations

import argparse
import html
import re
import tomllib
from functools import partial

import pytest
from console_browser import TOOLS, Browser, served

import pml_access.plugin
import pml_exposure_hybrid.lists
import pml_presentation.plugin
import pml_search.plugin
from pml_access.keys import Keys
from pml_clients.configuration.view import SERVED_FILES
from pml_core.plugins.local_plugins import found
from pml_exposure_hybrid import Hybrid
from pml_hookspecs import Offer
from pml_settings.command_files import Files
from pml_store_sqlite import SqliteStore
from pml_testing.dispatching import InOrder
from pml_testing.gateway import ScriptedServer

pytestmark = pytest.mark.anyio
PLUGINS = {
    ("executor", "in_order"): InOrder,
    ("exposure_mode", "hybrid"): Hybrid,
    ("guards", "access"): pml_access.plugin,
    ("hooks", "hybrid"): pml_exposure_hybrid.lists,
    ("hooks", "presentation"): pml_presentation.plugin,
    ("hooks", "search"): pml_search.plugin,
    ("store", "sqlite"): SqliteStore,
}
SCHEMA = {"type": "object"}
MORE = [{"name": name, "description": f"{name} a letter", "inputSchema": SCHEMA} for name in ("send", "erase", "stamp")]


def gateway_of(tmp_path, **gateway):
    tables = {
        "sqlite": {"path": str(tmp_path / "pml.db")},
        "hybrid": {"blacklisted_tools": ["db:drop"], "whitelisted_tools": ["db:read"]},
        "presentation": {"tools": {"db:erase": {"hidden": True}}},
        "search": {"cache": False},
    }
    return served(ScriptedServer([*TOOLS, *MORE]), plugins=PLUGINS, tables=tables, gateway=gateway)


async def reader(made, key="k-ada"):
    browser = Browser(made)
    await browser.log_in(key)
    return browser


def rows(page, label):
    table = re.search(rf'aria-label="{label}">(.*?)</table>', page, re.DOTALL)
    if table is None:
        return None
    body = table[1].partition("<tbody>")[2]
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in body.split("<tr>")[1:]]
    return [[html.unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in row] for row in cells]


async def test_each_reason_is_told_in_the_words_of_who_decides(tmp_path):
    async with gateway_of(tmp_path, tools_exposure="hybrid") as made:
        boss = await reader(made, "k-boss")
        for tool, listed, why in (
            ("db:read", "yes", "whitelisted"),
            ("db:send", "no", "the mode hybrid does not pick it; a search finds it, and it can be called"),
            ("db:erase", "no", "hides it from lists and searches"),
            ("db:drop", "no", "hybrid: [plugins.hybrid] blacklisted_tools has it"),
        ):
            ((_, mode, is_listed, reason),) = rows(await boss.page(f"/tools/{tool}"), "Where it is listed")
            assert (mode, is_listed) == ("hybrid", listed), tool
            assert why in reason


async def test_an_operator_sees_what_is_kept_from_everybody_and_nobody_else_does(tmp_path):
    async with gateway_of(tmp_path) as made:
        boss, ada = await reader(made, "k-boss"), await reader(made)
        ((tool, why),) = rows(await boss.page("/tools"), "Tools that are kept from you")
        assert (tool, "blacklisted_tools" in why) == ("db:drop", True)
        page = await boss.page("/tools/db:drop")
        assert "Try it" not in page
        assert (await boss.send("/tools/db:drop", how="run")).status_code == 404
        assert rows(await ada.page("/tools"), "Tools that are kept from you") is None
        assert "not yours to call" in await ada.page("/tools/db:drop", 404)


async def test_which_key_may_call_a_tool_and_why_not_is_told_to_operators(tmp_path):
    async with gateway_of(tmp_path) as made:
        boss = await reader(made, "k-boss")
        assert "pml keys create" in await boss.page("/tools/db:send")
        keys = Keys(made.gateway.assembly.services("access"))
        about = {"kind": "user", "name": ""}
        await keys.create({**about, "holder": "carl", "deny": ("db:*",)}, by="boss")
        await keys.create({**about, "holder": "dora", "allow": ("mail:*",)}, by="boss")
        gone, _ = await keys.create({**about, "holder": "gone"}, by="boss")
        await keys.create({**about, "holder": "eve"}, by="boss")
        await keys.revoke(gone.id, by="boss")
        page = await boss.page("/tools/db:send")
        told = {of: (may, why) for _, of, may, why in rows(page, "Who may call it")}
        assert told == {
            "eve": ("yes", "\N{EN DASH}"),
            "dora": ("no", "access: the key does not allow it (mail:*)"),
            "carl": ("no", "access: the key denies it (db:*)"),
        }
        assert rows(await (await reader(made)).page("/tools/db:send"), "Who may call it") is None


async def test_a_score_says_what_it_is_made_of(tmp_path):
    async with gateway_of(tmp_path) as made:
        ada = await reader(made)
        page = await ada.page("/tools?query=send+a+letter")
        parts = re.findall(r'<ul class="parts">(.*?)</ul>', page)
        assert parts
        assert "word &#39;send&#39; in name" in parts[0]
        assert "cosine" in parts[0]
        assert "db:drop" not in page


async def test_without_an_index_that_explains_scores_are_told_all_the_same():
    async with served() as made:
        page = await (await reader(made)).page("/tools?query=read")
        assert "db:read" in page
        assert "made of" not in page


FILE = """# mine
[servers.db]
command = "db-mcp"   # from npm
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    """The user's configuration, which has the server."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("PML_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    (home / "config.toml").write_text(FILE)
    return home / "config.toml"


def follow(made):
    """Have a gateway follow the user's files."""
    options = argparse.Namespace(config=None, overrides=[], mode=None)
    made.gateway.offers.add(Offer(SERVED_FILES, partial(Files, options, found, lambda _config: ())))


async def test_an_operator_switches_a_tool_off_and_on_in_the_file_and_all_else_stays(file):
    async with served() as made:
        follow(made)
        chief = await reader(made, "k-chief")
        assert "Switch it off" in await chief.page("/tools/db:read")
        done = await chief.send("/tools/db:read", how="off")
        assert "It is switched off" in done.text
        text = file.read_text()
        assert tomllib.loads(text)["servers"]["db"]["tools"] == {"deny": ["read"]}
        assert "# mine" in text
        assert "# from npm" in text
        await chief.send("/tools/db:read", how="on")
        assert tomllib.loads(file.read_text())["servers"]["db"]["tools"] == {"deny": []}


async def test_what_a_pattern_keeps_away_is_not_switched_on(file):
    file.write_text(FILE + '[servers.db.tools]\ndeny = ["re*"]\n')
    async with served() as made:
        follow(made)
        refused = await (await reader(made, "k-chief")).send("/tools/db:read", how="on")
        assert (refused.status_code, "one of its patterns" in refused.text) == (400, True)
        assert "re*" in file.read_text()


async def test_nobody_else_switches_tools_and_no_gateway_without_a_file(file):
    async with served() as made:
        chief = await reader(made, "k-chief")
        assert "Switch it" not in await chief.page("/tools/db:read")
        assert (await chief.send("/tools/db:read", how="off")).status_code == 400
        follow(made)
        ada = await reader(made)
        assert "Switch it" not in await ada.page("/tools/db:read")
        assert "lacks the scope" in (await ada.send("/tools/db:read", how="off")).text
        assert (await chief.send("/tools/other:read", how="off")).status_code == 400
    assert file.read_text() == FILE
