"""Secrets of servers: ``env_file`` and the system's keyring besides ``${NAME}``."""

from __future__ import annotations

import dataclasses
import sys
import types

import pytest

from pml_clients.client_configs import references
from pml_clients.secret_values import found_in
from pml_hookspecs import TransportError, setting
from pml_settings.config import ServerSettings, load
from pml_settings.endpoints import endpoint_of

FILE = "# mine\nexport TOKEN='tok-${HOME}-1'\nHOST=h.example\nEMPTY=\nPATH=/only/this\n"


@pytest.fixture
def keyring(monkeypatch):
    """A keyring with one entry of ours and one of somebody else's."""
    kept = {("pml", "crm"): "crm-secret-1", ("https://x", "me"): "x-secret-2"}
    made, errors = types.ModuleType("keyring"), types.ModuleType("keyring.errors")
    errors.KeyringError = type("KeyringError", (Exception,), {})
    asked = []

    def get_password(service, user):
        asked.append((service, user))
        if user == "locked":
            raise errors.KeyringError("it is locked")
        return kept.get((service, user))

    made.get_password, made.errors, made.asked = get_password, errors, asked
    monkeypatch.setitem(sys.modules, "keyring", made)
    monkeypatch.setitem(sys.modules, "keyring.errors", errors)
    return made


def test_a_program_gets_the_variables_of_its_file_and_env_overrides_them(tmp_path):
    path = tmp_path / ".env"
    path.write_text(FILE)
    known = []
    settings = ServerSettings(command="x", env_file=str(path), env={"HOST": "other", "BOTH": "${TOKEN}@${HOST}"})
    endpoint = endpoint_of("git", settings, {"HOST": "of-the-gateway"}, known.extend)
    assert endpoint.env == {
        "TOKEN": "tok-${HOME}-1", "HOST": "other", "PATH": "/only/this", "BOTH": "tok-${HOME}-1@h.example",
    }  # fmt: skip
    assert known == ["tok-${HOME}-1", "h.example"]


def test_a_header_refers_to_the_file_and_no_program_gets_it(tmp_path):
    (tmp_path / ".env").write_text(FILE)
    settings = ServerSettings(
        url="https://h", env_file=str(tmp_path / ".env"), headers={"Authorization": "Bearer ${TOKEN}"}
    )
    endpoint = endpoint_of("far", settings, {})
    assert (endpoint.env, endpoint.options["headers"]) == ({}, {"Authorization": "Bearer tok-${HOME}-1"})


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_named_with_its_server(tmp_path, content):
    path = tmp_path / ".env"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TransportError, match=r"\[servers\.git\] env_file .*\.env cannot be read: ") as caught:
        endpoint_of("git", ServerSettings(command="x", env_file=str(path)), {})
    assert caught.value.retryable is False


def test_the_path_is_seen_from_the_configuration_that_names_it(place, tmp_path, monkeypatch):
    place.users("config.toml", '[servers.a]\ncommand = "x"\nenv_file = "secrets/a.env"\n')
    place.write("pml.toml", '[servers.b]\ncommand = "x"\nenv_file = "../b.env"\n')
    given = tmp_path / "given.json"
    given.write_text('{"servers": {"c": {"command": "x", "env_file": "~/c.env"}}}')
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.chdir(place.project)
    servers = load().servers
    assert servers["a"].env_file == str(place.home.resolve() / "secrets/a.env")
    assert servers["b"].env_file == str(place.project.resolve().parent / "b.env")
    assert load(given).servers["c"].env_file == "/home/me/c.env"


def test_a_path_may_refer_to_the_environment(place, tmp_path, monkeypatch):
    (tmp_path / "x.env").write_text("TOKEN=tok-in-a-folder")
    monkeypatch.setenv("WHERE", str(tmp_path))
    place.users("config.toml", '[servers.a]\ncommand = "x"\nenv_file = "${WHERE}/x.env"\n')
    assert endpoint_of("a", load().servers["a"], {"WHERE": str(tmp_path)}).env == {"TOKEN": "tok-in-a-folder"}


def test_what_a_file_says_is_secret_from_the_beginning(place):
    (place.home / ".env").write_text("TOKEN=tok-of-the-file\nHOME=/home/somebody\nWORD=plainword\n")
    place.users(
        "config.toml",
        '[servers.a]\nurl = "https://h"\nenv_file = ".env"\nheaders = { Authorization = "Bearer x${TOKEN}" }\n'
        '[servers.b]\ncommand = "x"\nenv_file = "not-there"\n',
    )
    known = set(load().secrets())
    assert {"tok-of-the-file", "plainword", "xtok-of-the-file"} <= known
    assert "/home/somebody" not in known


def test_the_keyring_gives_what_a_server_refers_to_under_our_name_or_anothers(keyring):
    settings = ServerSettings(
        url="https://h",
        headers={"A": "Bearer ${keyring:crm}", "B": "${keyring:https://x/me}", "C": "${keyring:no:-none}"},
    )
    known = []
    endpoint = endpoint_of("far", settings, {"crm": "not-this"}, known.extend)
    assert endpoint.options["headers"] == {"A": "Bearer crm-secret-1", "B": "x-secret-2", "C": "none"}
    assert keyring.asked == [("pml", "crm"), ("https://x", "me"), ("pml", "no")]
    assert known == ["crm-secret-1", "x-secret-2"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gone", r"the keyring has no 'gone'; keyring set pml gone; \[servers\.far\] refers to it"),
        ("locked", r"the keyring cannot be asked for 'locked': it is locked"),
    ],
)
def test_what_the_keyring_does_not_give_is_said_with_the_remedy(keyring, name, said):
    with pytest.raises(TransportError, match=said):
        endpoint_of("far", ServerSettings(command="x", env={"T": f"${{keyring:{name}}}", "U": "${UNSET:-1}"}), {})


def test_without_the_library_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(TransportError, match=r"install pml-gateway\[keyring\]"):
        endpoint_of("far", ServerSettings(command="x", env={"T": "${keyring:a}"}), {})


def test_a_reference_to_the_keyring_is_no_secret_and_asks_nobody_before_the_server_starts(place, keyring):
    place.users("config.toml", '[servers.a]\ncommand = "x"\nenv = { API_TOKEN = "${keyring:crm}" }\n')
    config = load()
    assert list(references(config.sources[-1].tree)) == ["keyring:crm"]
    assert found_in({"env": {"API_TOKEN": "${keyring:crm}"}}) == []
    list(config.secrets())
    assert keyring.asked == []


def test_a_plugins_table_refers_to_the_keyring_too(place, keyring):
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Settings:
        token: str = setting("", "A token.", secret=True)

    place.users("config.toml", '[plugins.x]\ntoken = "${keyring:crm}"\n')
    config = load()
    assert config.plugin("x", Settings).token == "crm-secret-1"
    assert list(config.values.secrets) == ["crm-secret-1"]
