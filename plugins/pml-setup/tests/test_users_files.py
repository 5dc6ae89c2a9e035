"""What commands leave of a file that somebody wrote by hand: all but what they were asked to change."""

from __future__ import annotations

import json

import pytest

from pml_core.cli import main
from pml_testing.commands import installed

MARK = b"\xef\xbb\xbf"
TOML = """# mine
[gateway]
tools_exposure = "x # y" # my note

# the servers
[servers]
git  =  {command = 'git-mcp', args = ["a","b"]}  # flow

[servers.crm]   # ours
command = "crm-mcp"
"""
YAML = """# mine
gateway: {tools_exposure:   "x # y",store: sqlite} # my note

# the servers
servers:
    git:   {command: 'git-mcp', args: ["a","b"]}  # flow
    # ours
    crm:
      command: crm-mcp
"""
WRITTEN = {
    "lines of Linux": lambda text: text.encode(),
    "lines of Windows": lambda text: text.replace("\n", "\r\n").encode(),
    "a byte order mark": lambda text: MARK + text.encode(),
    "no final line break": lambda text: text.removesuffix("\n").encode(),
}
PLACES = {
    "config.toml": (TOML, ('"x # y"', '"meta_only"'), ('["a","b"]}', '["a","b"], enabled = false}')),
    "config.yaml": (YAML, ('"x # y"', '"meta_only"'), ('["a","b"]}', '["a","b"], enabled: false}')),
}


@pytest.fixture(autouse=True)
def gateway(place, installation):
    """What the files name is installed."""
    installed(installation, place)
    installation.add("acme-presets", {"pml.presets": {"meta_only": "pml_exposure_meta_only:presets.toml"}})


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize("name", PLACES)
def test_a_command_changes_what_it_says_and_not_one_byte_else(place, capsys, name, written):
    text, mode, switch = PLACES[name]
    path = place.home / name
    path.write_bytes(written(text))
    assert main(["config", "--preset", "meta_only", "--user", "--yes"]) == 0
    assert path.read_bytes() == written(text.replace(*mode))
    assert main(["servers", "disable", "git", "--yes"]) == 0
    assert path.read_bytes() == written(text.replace(*mode).replace(*switch))
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_an_import_puts_its_servers_behind_all_that_was_there(place, capsys, written):
    place.write("mcp.json", json.dumps({"mcpServers": {"mail": {"command": "mail-mcp"}}}))
    path = place.project / "pml.toml"
    path.write_bytes(written(TOML))
    assert main(["import", "mcp.json"]) == 0
    newline = b"\r\n" if b"\r\n" in path.read_bytes() else b"\n"
    added = [b"", b"[servers.mail]", b'command = "mail-mcp"', b""]
    assert path.read_bytes() == written(TOML).removesuffix(newline) + newline + newline.join(added)


BROKEN = {
    "config.toml": ("[gateway]\nstore = = 1\n", "Invalid value (at line 2, column 9)"),
    "config.yaml": ("gateway: {\n", "expected the node content, but found '<stream end>' (at line 2, column 1)"),
    "config.yml": ("gateway:\n  store: \t1\n\t- x\n", "at line 2, column 10"),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("words", [("config", "--preset", "meta_only"), ("servers", "add", "x", "--", "x-mcp")])
def test_a_file_that_is_not_valid_gets_one_line_with_its_place_and_stays(place, capsys, name, words):
    text, where = BROKEN[name]
    path = place.users(name, text)
    command, *rest = words
    assert main([command, *rest[:1], "--config", str(path), *rest[1:]] if command == "servers" else [*words]) == 2
    said = capsys.readouterr().err
    [line] = [line for line in said.splitlines() if "not valid" in line]
    assert str(path) in line
    assert where in line
    assert "Correct it first." in said
    assert path.read_text() == text
    assert list(place.home.iterdir()) == [path]
