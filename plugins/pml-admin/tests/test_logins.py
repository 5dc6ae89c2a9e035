from __future__ import annotations

from importlib import import_module

import pytest

from pml_core.cli import main

TRANSPORT = """
from contextlib import asynccontextmanager
from pml_hookspecs import Transport, TransportError
from pml_kit.mcp.principal_logins import principal_of
class Base(Transport):
    def __init__(self, settings, services): pass
class Stdio(Base):
    pass
class Http(Base):
    async def serve(self, endpoint, accept, *, started, routes=None):
        if endpoint.address.endswith(":99999"): raise ValueError("the port is too high")
        if endpoint.address.endswith(":80"): raise TransportError("permission denied", retryable=False)
        started(endpoint.address)
    async def log_in(self, endpoint, *, show):
        if "broken" in endpoint.address: raise TransportError("the browser said no", retryable=False)
        if "odd" in endpoint.options: raise ValueError("option 'odd' is not understood")
        show(f"open {endpoint.address}/authorize for {principal_of(endpoint)}")
    async def invite(self, endpoint): ...
    async def logins(self, endpoint): return ["alice", "bob"]
    async def rotate(self): return 2
    async def log_out(self, endpoint):
        if whose := principal_of(endpoint): print(f"gone for {whose}")
        if "broken" in endpoint.address: raise TransportError("nothing is kept", retryable=False)
"""
SERVERS = """
[servers.near]
command = "x"
[servers.far]
url = "https://far/mcp"
[servers.broken]
url = "https://broken/mcp"
[servers.odd]
url = "https://odd/mcp"
odd = 1
[servers.unset]
url = "https://${NO_SUCH_HOST}/mcp"
"""


@pytest.fixture
def remote(place, installation):
    """Servers near and far, and transports for both."""
    place.write("pml.toml", SERVERS)
    points = {"pml.transport": {"stdio": "acme_wire:Stdio", "http": "acme_wire:Http"}}
    installation.add("acme-wire", points, modules={"acme_wire": TRANSPORT})


def said(capsys, *words: str, status: int = 2) -> str:
    """What ``pml`` prints to standard error; never a traceback."""
    assert main(words) == status
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return captured.err


WATCHER = """
from pml_hookspecs import Offer, hookimpl
from pml_kit.offers import ACCESS_WATCHERS

heard = []

@hookimpl
def pml_offers(services):
    async def watch(event):
        heard.append((event.kind, event.code, event.details["server"], bool(event.details["by"])))

    return [Offer(ACCESS_WATCHERS, watch)]
"""

# pml serve --http and --listen


# pml auth


def test_a_login_shows_what_to_do_and_says_when_it_is_done(remote, capsys):
    assert main(["auth", "login", "far"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "logged in to far\n"
    assert "open https://far/mcp/authorize" in captured.err
    assert main(["auth", "logout", "far"]) == 0
    assert capsys.readouterr().out == "logged out of far\n"


@pytest.mark.attack("The audit stands up", "log in to a server as somebody else, and leave no row of it")
def test_whoever_watches_access_hears_of_log_ins_and_log_outs(remote, installation, capsys):
    installation.add("acme-ears", {"pml.plugins": {"ears": "acme_ears"}}, modules={"acme_ears": WATCHER})
    assert main(["auth", "login", "far"]) == 0
    assert main(["auth", "logout", "far"]) == 0
    assert import_module("acme_ears").heard == [
        ("change", "login.created", "far", True),
        ("change", "login.deleted", "far", True),
    ]


OWN = SERVERS + '[servers.own]\nurl = "https://own/mcp"\nsharing = "per_principal"\n'


def test_a_login_of_ones_own_is_made_shown_and_forgotten_under_its_name(remote, place, capsys):
    place.write("pml.toml", OWN)
    assert main(["auth", "login", "own", "--principal", "alice"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "logged in to own as alice\n"
    assert "open https://own/mcp/authorize for alice" in captured.err
    assert main(["auth", "list"]) == 0
    assert capsys.readouterr().out == "own\talice\nown\tbob\n"
    assert main(["auth", "logout", "own", "--principal", "alice"]) == 0
    assert capsys.readouterr().out == "gone for alice\nlogged out of own as alice\n"
    assert main(["auth", "rotate"]) == 0
    assert capsys.readouterr().out == "2 logins have a new key\n"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("login", "own"), "pml: each principal has a login of its own at own; say whose: --principal NAME"),
        (("logout", "far", "--principal", "bob"), "pml: all share one login at far; sharing = "),
    ],
)
def test_whose_login_it_is_has_to_be_said_where_there_are_several(remote, place, capsys, words, why):
    place.write("pml.toml", OWN)
    assert why in said(capsys, "auth", *words)


def test_without_logins_of_principals_that_is_said(remote, capsys):
    assert 'pml: no server has sharing = "per_principal"' in said(capsys, "auth", "list")


def test_logins_that_all_share_get_a_new_key_too(place, remote, capsys):
    place.write("pml.toml", '[servers.near]\ncommand = "x"\n[servers.far]\nurl = "https://far/mcp"\n')
    assert main(["auth", "rotate"]) == 0
    assert capsys.readouterr().out == "2 logins have a new key\n"


def test_without_a_remote_server_there_is_no_login_to_rotate(place, remote, capsys):
    place.write("pml.toml", '[servers.near]\ncommand = "x"\n')
    assert "pml: no server is reached by an address, so there are no logins" in said(capsys, "auth", "rotate")


@pytest.mark.parametrize("verb", ["login", "logout"])
@pytest.mark.parametrize(
    ("server", "why"),
    [
        ("nosuch", "pml: there is no server 'nosuch'; configured: broken, far, near, odd, unset"),
        ("near", "pml: server 'near' needs no login"),
        ("unset", "pml: server 'unset': environment variable NO_SUCH_HOST is not set; [servers.unset] refers to it"),
    ],
)
def test_a_server_that_nobody_can_log_in_to_is_a_message(remote, capsys, verb, server, why):
    assert why in said(capsys, "auth", verb, server)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("login", "broken"), "pml: server 'broken': the browser said no"),
        (("logout", "broken"), "pml: server 'broken': nothing is kept"),
        (("login", "odd"), "pml: server 'odd': option 'odd' is not understood"),
    ],
)
def test_a_login_that_fails_is_a_message(remote, capsys, words, why):
    assert why in said(capsys, "auth", *words)


def test_a_login_without_the_transport_says_what_is_missing(place, installation, capsys):
    place.write("pml.toml", SERVERS)
    message = said(capsys, "auth", "login", "far")
    assert "pml: server 'far': no transport driver named 'http'" in message


def test_without_any_server_there_is_none_to_log_in_to(place, installation, capsys):
    assert "pml: there is no server 'far'; configured: none" in said(capsys, "auth", "login", "far")


@pytest.mark.parametrize("words", [("auth",), ("auth", "login"), ("auth", "nosuch", "far")])
def test_a_command_that_is_not_complete_is_refused_with_the_usage(place, installation, capsys, words):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert "usage: pml auth" in capsys.readouterr().err
