"""What the page of clients shows is what ``pml connect`` writes, and ``pml disconnect`` takes it back."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path

import pytest
from made_clients import CHECKS, COMMAND, URL, URL_IMPOSSIBLE, clients

from pml_core.cli import main
from pml_setup.clients import connect
from pml_setup.clients.connect_places import CLIENTS

BLOCK = re.compile(r"^```(json|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def shown(client):
    """The section of a client, and what stands in its blocks."""
    section = clients().partition(f"## {CLIENTS[client]}\n")[2].partition("\n## ")[0]
    return section, [(json if kind == "json" else tomllib).loads(text) for kind, text in BLOCK.findall(section)]


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("PML_") or name == "CODEX_HOME"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(connect, "pml_command", lambda *, shared: ["pml" if shared else COMMAND])
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


def written(home):
    """The one file of a client's that there is, as its path below home and as it is parsed."""
    (path,) = [one for one in home.rglob("*") if one.is_file() and ".pml" not in one.relative_to(home).parts]
    text = path.read_text(encoding="utf-8")
    return path.relative_to(home), json.loads(text) if path.suffix == ".json" else tomllib.loads(text)


@pytest.mark.parametrize("by_url", [False, True], ids=["command", "url"])
@pytest.mark.parametrize("client", CLIENTS)
def test_connect_writes_what_the_page_shows(home, capsys, client, by_url):
    options = ["--url", URL] if by_url else []
    status = main(["connect", client, "--yes", *options])
    section, blocks = shown(client)
    if by_url and client in URL_IMPOSSIBLE:
        assert status != 0
        assert len(blocks) == 1
        return
    assert status == 0, capsys.readouterr().err
    path, tree = written(home)
    assert f"`~/{path.as_posix()}`" in section
    assert tree == blocks[by_url]
    assert main(["disconnect", client, "--yes"]) == 0
    assert not (home / path).exists()


@pytest.mark.parametrize("client", CLIENTS)
def test_files_of_projects_are_named(home, client):
    section, _ = shown(client)
    offered = f"`pml connect {client} --project`" in section
    assert (main(["connect", client, "--yes", "--project"]) == 0) is offered
    if offered:
        assert f"`{written(home)[0].as_posix()}`" in section


def test_every_client_has_a_way_to_check():
    assert CHECKS.keys() == CLIENTS.keys()


def test_the_page_does_not_depend_on_where_codex_is(monkeypatch):
    before = clients()
    monkeypatch.setenv("CODEX_HOME", str(Path("/elsewhere")))
    assert clients() == before
