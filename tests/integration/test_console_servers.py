"""Servers changed on the console's first page: by whom, in which file, and what stays as it was."""

from __future__ import annotations

import argparse
import re
from contextlib import asynccontextmanager
from functools import partial

import pytest
from console_browser import KEYS, Browser, served

from pml_clients.configuration import restarts
from pml_clients.configuration.view import SERVED_FILES
from pml_core.plugins.local_plugins import found
from pml_hookspecs import Identity, Offer, hookimpl
from pml_kit.offers import ACCESS_WATCHERS
from pml_settings.command_files import Files

pytestmark = pytest.mark.anyio
FILE = """# mine
[servers.db]
command = "db-mcp"   # from npm
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The user's folder, with a configuration that has a server; and a key that may change servers."""
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    monkeypatch.setenv("PML_HOME", str(home))
    monkeypatch.chdir(project)
    monkeypatch.setitem(KEYS, "k-oz", Identity(principal="oz", scopes=frozenset({"operate"})))
    (home / "config.toml").write_text(FILE)
    return home


class Watcher:
    """Hears of access and changes, but for log-ins."""

    def __init__(self):
        self.heard = []

    @hookimpl
    def pml_offers(self, services):
        async def watch(event):
            if event.code != "console.login":
                self.heard.append((event.kind, event.code, event.session.principal, dict(event.details)))

        return [Offer(ACCESS_WATCHERS, watch)]


@asynccontextmanager
async def console(key="k-oz", watching=None, given=None):
    """A browser that is logged in to a gateway that follows the user's files."""
    options = argparse.Namespace(config=given, overrides=[], mode=None)
    async with served(watching=watching) as made:
        offer = Offer(SERVED_FILES, partial(Files, options, found, lambda _config: ()))
        made.gateway.offers.add(offer)
        browser = Browser(made)
        await browser.log_in(key)
        yield browser


async def test_a_server_is_disabled_and_enabled_in_the_users_file_and_all_else_stays(folder):
    watcher = Watcher()
    async with console(watching=watcher) as browser:
        page = await browser.page("/")
        assert 'value="disable"' in page
        assert "no agent has its tools until it is enabled again" in page
        done = await browser.send("/servers/db", action="disable")
        assert (done.status_code, done.url.path, "db is disabled." in done.text) == (200, "/console/", True)
        text = (folder / "config.toml").read_text()
        assert "enabled = false" in text
        assert "# mine" in text
        assert "# from npm" in text
        await browser.send("/servers/db", action="enable")
        assert "enabled = true" in (folder / "config.toml").read_text()
    file = str(folder / "config.toml")
    details = {"server": "db", "by": "oz", "file": file}
    assert watcher.heard == [
        ("change", "servers.disabled", "oz", details),
        ("change", "servers.enabled", "oz", details),
    ]


async def test_what_the_file_says_already_is_not_written_again(folder):
    async with console() as browser:
        await browser.send("/servers/db", action="disable")
        before = sorted(folder.iterdir())
        assert (await browser.send("/servers/db", action="disable")).status_code == 200
        assert sorted(folder.iterdir()) == before


async def test_every_running_gateway_of_the_user_hears_of_a_restart(folder):
    watcher = Watcher()
    async with console(watching=watcher) as browser:
        done = await browser.send("/servers/db", action="restart")
        assert "started anew" in done.text
        first = restarts.asked()["db"]
        await browser.send("/servers/db", action="restart")
        assert restarts.asked()["db"] != first
        assert (folder / "config.toml").read_text() == FILE
        await browser.send("/servers/db", action="disable")
        refused = await browser.send("/servers/db", action="restart")
        assert (refused.status_code, "is disabled" in refused.text) == (400, True)
    assert watcher.heard[0] == ("change", "servers.restart_asked", "oz", {"server": "db", "by": "oz"})


@pytest.mark.attack
@pytest.mark.parametrize("key", ["k-ada", "k-boss"])
async def test_a_key_without_the_scope_changes_nothing(folder, key):
    watcher = Watcher()
    async with console(key, watching=watcher) as browser:
        assert "/console/servers/" not in await browser.page("/")
        for action in ("restart", "enable", "disable"):
            refused = await browser.send("/servers/db", action=action)
            assert refused.status_code == 400
            assert "lacks the scope &#39;operate&#39;" in refused.text
    assert (folder / "config.toml").read_text() == FILE
    assert not restarts.file().exists()
    assert [code for _, code, _, _ in watcher.heard] == ["access.denied"] * 3


@pytest.mark.attack
async def test_a_form_without_the_token_of_its_log_in_changes_nothing(folder):
    async with console() as browser:
        for form in ({}, {"form_token": "x"}):
            answer = await browser.http.post("/console/servers/db", data={"action": "disable", **form})
            assert answer.status_code == 403
        assert (await browser.http.get("/console/servers/db?action=disable")).status_code in (404, 405)
    assert (folder / "config.toml").read_text() == FILE


@pytest.mark.parametrize(
    ("server", "action", "said"),
    [
        ("gone", "disable", "there is no server"),
        ("../x", "restart", "there is no server"),
        ("db", "explode", "There is no such action"),
        ("db", "", "There is no such action"),
    ],
)
async def test_what_is_not_there_is_said(folder, server, action, said):
    async with console() as browser:
        refused = await browser.send(f"/servers/{server.replace('/', '%2F')}", action=action)
        assert (refused.status_code, said in refused.text) == (400, True)
    assert (folder / "config.toml").read_text() == FILE


async def test_a_server_of_another_file_stays_and_the_file_is_named(folder, tmp_path):
    other = tmp_path / "given.toml"
    other.write_text('[servers.other]\ncommand = "x"\n')
    async with console(given=str(other)) as browser:
        refused = await browser.send("/servers/db", action="disable")
        assert refused.status_code == 400
        assert f"pml servers disable db --config {folder / 'config.toml'}" in refused.text
    assert other.read_text() == '[servers.other]\ncommand = "x"\n'


async def test_a_file_that_cannot_be_written_is_named(folder, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    async with console() as browser:
        monkeypatch.setattr("pml_clients.edited_file._written", refuse)
        refused = await browser.send("/servers/db", action="disable")
        assert refused.status_code == 400
        assert re.search(r"config\.toml: cannot be written: Permission denied", refused.text)
        assert "Traceback" not in refused.text
    assert (folder / "config.toml").read_text() == FILE


async def test_a_clients_file_is_not_written(folder, tmp_path):
    given = tmp_path / "mcp.json"
    given.write_text('{"mcpServers": {"db": {"command": "x"}}}')
    async with console(given=str(given)) as browser:
        refused = await browser.send("/servers/db", action="disable")
        assert (refused.status_code, "only TOML and YAML are written" in refused.text) == (400, True)


async def test_a_gateway_of_no_file_has_no_buttons(folder):
    async with served() as made:
        browser = Browser(made)
        await browser.log_in("k-oz")
        assert "/console/servers/" not in await browser.page("/")
        refused = await browser.send("/servers/db", action="disable")
        assert (refused.status_code, "No file says which servers" in refused.text) == (400, True)


async def test_a_notice_says_nothing_but_what_can_have_been_done(folder):
    async with console() as browser:
        for query in ("?done=restart&server=<b>x</b>", "?done=paid&server=db", "?server=db", "?done=restart"):
            assert 'role="status"' not in await browser.page(f"/{query}")
        assert "db is started anew" in await browser.page("/?done=restart&server=db")
