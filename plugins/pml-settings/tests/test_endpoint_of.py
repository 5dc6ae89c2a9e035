from __future__ import annotations

import pytest

from pml_hookspecs import TransportError
from pml_mcp.wire.schemes import scheme_of
from pml_settings.config import ServerSettings
from pml_settings.endpoints import endpoint_of


def test_an_endpoint_is_quoted_as_a_shell_would_and_variables_are_filled_in():
    settings = ServerSettings(
        command="${BIN}", args=("a b", "${X:-y z}", "$HOME"), env={"TOKEN": "${T}"}, cwd="${D}", options={"k": 1}
    )
    endpoint = endpoint_of("git", settings, {"BIN": "/my bin/x", "T": "t t", "D": "/d"})
    assert endpoint.address == "stdio:'/my bin/x' 'a b' 'y z' '$HOME'"
    assert (endpoint.name, endpoint.env, endpoint.options) == ("git", {"TOKEN": "t t"}, {"k": 1, "cwd": "/d"})


def test_an_endpoint_of_a_url_has_its_headers():
    settings = ServerSettings(url="https://${HOST}/mcp", headers={"Authorization": "Bearer ${T}"})
    endpoint = endpoint_of("far", settings, {"HOST": "h", "T": "t"})
    assert (endpoint.address, endpoint.options) == ("https://h/mcp", {"headers": {"Authorization": "Bearer t"}})
    assert endpoint_of("x", ServerSettings(address="custom:y"), {}).address == "custom:y"


def test_variables_in_a_transports_options_are_filled_in_however_deep():
    options = {"bearer": "${T}", "oauth": {"client_secret": "${S}", "scopes": ["a", "${T}"], "port": 1}}
    endpoint = endpoint_of("far", ServerSettings(url="https://h", options=options), {"T": "t", "S": "s"})
    assert endpoint.options == {"bearer": "t", "oauth": {"client_secret": "s", "scopes": ["a", "t"], "port": 1}}


def test_variables_that_are_not_set_are_named_each_once():
    settings = ServerSettings(command="x", args=("${B}", "${A}"), env={"T": "${B}"})
    with pytest.raises(
        TransportError, match=r"environment variable A, B is not set; \[servers.git\] refers to it"
    ) as caught:
        endpoint_of("git", settings, {})
    assert caught.value.retryable is False


@pytest.mark.parametrize(
    ("address", "scheme"), [("stdio:x", "stdio"), ("HTTPS://h", "http"), ("http://h", "http"), ("x", "x")]
)
def test_the_scheme_picks_the_transport(address, scheme):
    assert scheme_of(address) == scheme
