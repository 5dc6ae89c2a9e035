"""Addresses and options of servers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pml_hookspecs import Endpoint
from pml_testing.transport_ends import Recorder
from pml_transport_http import Http
from pml_transport_http.options import parse


def target(address="https://host/mcp", **options):
    return parse(Endpoint(name="git", address=address, options=options))


def test_importing_it_imports_nothing_heavy():
    heavy = ("asyncio", "httpx2", "mcp", "pydantic", "starlette", "uvicorn")
    code = f"import sys, pml_transport_http; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


@pytest.mark.parametrize(
    ("address", "host", "port", "secure"),
    [
        ("https://host/mcp", "host", 443, True),
        ("HTTP://Host:8080/mcp?a=b", "host", 8080, False),
        ("http://[::1]:9/", "::1", 9, False),
        ("https://host", "host", 443, True),
    ],
)
def test_an_address_is_understood(address, host, port, secure):
    found = target(address)
    assert (found.host, found.port, found.secure) == (host, port, secure)


def test_what_may_be_secret_is_not_shown():
    oauth = MACHINE | {"grant": "identity_assertion", "client_secret": "3", "idp": IDP}
    found = target("https://user:pass@host/mcp?key=1", headers={"X-Key": "2"}, oauth=oauth)
    assert found.place == "https://host/mcp"
    signing = target(oauth=MACHINE | {"private_key": "6"})
    shown = repr(found) + repr(signing)
    assert not any(secret in shown for secret in ("pass", "key=1", "'2'", "'3'", "'4'", "'5'", "'6'"))


@pytest.mark.parametrize("address", ["", "https://", "ftp://host/", "https://host:x/", "https://ho st/", "https:host"])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(ValueError, match=r"\[servers\.git\] the address must be a URL such as"):
        target(address)


MACHINE = {"grant": "client_credentials", "client_id": "robot", "issuer": "https://as.example"}
IDP = {"token_url": "https://idp.example/token", "client_id": "us", "client_secret": "4", "id_token": "5"}
MISTAKES = {
    "unknown": ({"barer": "x"}, "unknown option 'barer'; did you mean 'bearer'"),
    "protocol": ({"protocol": "grpc"}, "protocol must be one of streamable, sse, auto, not 'grpc'"),
    "headers": ({"headers": ["a"]}, "headers must be a table"),
    "header name": ({"headers": {"a b": "c"}}, "'a b' is no name of a header"),
    "header value": ({"headers": {"A": "hunter2\r\nB: c"}}, r"headers\.A must be a text on one line"),
    "header number": ({"headers": {"A": 1}}, r"headers\.A must be a text"),
    "bearer": ({"bearer": 1}, "bearer must be a text"),
    "both": ({"bearer": "a", "headers": {"authorization": "b"}}, "say the same thing twice"),
    "oauth": ({"oauth": "yes"}, "oauth must be true, false or a table"),
    "oauth unknown": ({"oauth": {"client": "x"}}, "oauth: unknown option 'client'; did you mean 'client_id'"),
    "oauth port": ({"oauth": {"redirect_port": 70_000}}, "redirect_port must be a port"),
    "oauth scopes": ({"oauth": {"scopes": "a b"}}, "scopes must be a list"),
    "oauth text": ({"oauth": {"client_id": ""}}, "client_id must be a text"),
    "oauth grant": ({"oauth": {"grant": "password"}}, "oauth.grant must be one of authorization_code, client_cred"),
    "oauth auth": ({"oauth": {"client_auth": "jwt"}}, "oauth.client_auth must be one of basic, post, not 'jwt'"),
    "machine": ({"oauth": {"grant": "client_credentials", "client_secret": "hunter2"}}, "needs client_id and issuer"),
    "machine secret": ({"oauth": MACHINE}, "needs either client_secret or private_key"),
    "machine both": ({"oauth": MACHINE | {"client_secret": "hunter2", "private_key": "k"}}, "needs either"),
    "key of a human": ({"oauth": {"private_key": "hunter2"}}, "private_key needs .*grant: one of client_credentials"),
    "assertion": ({"oauth": MACHINE | {"grant": "identity_assertion"}}, "needs client_secret and the table idp"),
    "idp": ({"oauth": MACHINE | {"idp": "x"}}, "oauth.idp must be a table"),
    "idp unknown": ({"oauth": MACHINE | {"idp": {"url": "x"}}}, "oauth.idp: unknown option 'url'; did you mean"),
    "idp incomplete": (
        {"oauth": MACHINE | {"idp": {"id_token": "hunter2"}}},
        "oauth.idp needs token_url and client_id",
    ),
    "idp address": ({"oauth": MACHINE | {"idp": IDP | {"token_url": "hunter2"}}}, "idp.token_url: the address must be"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_at_once_and_no_secret_repeated(mistake):
    options, message = MISTAKES[mistake]
    with pytest.raises(ValueError, match=message) as caught:
        Http().connect(Endpoint(name="git", address="https://host/mcp", options=options), Recorder())
    assert "hunter2" not in str(caught.value)
    assert "[servers.git]" in str(caught.value)


def test_credentials_in_the_configuration_come_before_a_login():
    assert target().login is not None
    assert target(oauth={"scopes": ["a"]}).login.scopes == ("a",)
    assert target(bearer="x").login is None
    assert target(headers={"authorization": "x"}).login is None
    assert target(oauth=False).login is None
    assert target(bearer="x").headers == {"Authorization": "Bearer x"}
