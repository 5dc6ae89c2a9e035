from __future__ import annotations

import pytest

from pml_core.cli import main

TRANSPORT = """
from contextlib import asynccontextmanager
from pml_hookspecs import Transport, TransportError
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
        show(f"open {endpoint.address}/authorize")
    async def log_out(self, endpoint):
        if "broken" in endpoint.address: raise TransportError("nothing is kept", retryable=False)
"""


def said(capsys, *words: str, status: int = 2) -> str:
    """What ``pml`` prints to standard error; never a traceback."""
    assert main(words) == status
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return captured.err


# pml serve --http and --listen

LISTENER = """
from pml_hookspecs import Transport
class Listener(Transport):
    def __init__(self, settings, services): pass
    async def serve(self, endpoint, accept, *, started, routes=None):
        started(endpoint.address + "-bound")
class Deaf:
    def __init__(self, settings, services): pass
    def connect(self, endpoint, handler): ...
"""


def test_any_installed_transport_can_listen(place, installation, capsys):
    points = {"pml.transport": {"acme": "acme_listener:Listener", "deaf": "acme_listener:Deaf"}}
    installation.add("acme-listener", points, modules={"acme_listener": LISTENER})
    assert main(["serve", "--listen", "acme:/run/x"]) == 0
    assert "serving MCP at acme:/run/x-bound (Ctrl-C ends it)" in capsys.readouterr().err
    message = said(capsys, "serve", "--listen", "nosuch:x")
    assert "cannot serve clients at 'nosuch:x': no transport driver named 'nosuch'" in message
    message = said(capsys, "serve", "--listen", "deaf:x")
    assert (
        "transport driver 'deaf' (acme-listener 1.0): Deaf is no listener: it has no 'serve'; write: async" in message
    )
    assert "Traceback" not in message


def test_serving_over_http_without_its_transport_says_what_is_missing(place, installation, capsys):
    installation.add("acme-all", {}, requires=["pml-transport-http"])
    message = said(capsys, "serve", "--http", "127.0.0.1:8808")
    assert "pml: cannot serve clients at 'http://127.0.0.1:8808': no transport driver named 'http'" in message
    assert "Install pml-transport-http." in message


@pytest.mark.parametrize(("address", "why"), [("h:99999", "the port is too high"), ("h:80", "permission denied")])
def test_an_address_that_cannot_be_served_at_is_a_message(place, installation, capsys, address, why):
    points = {"pml.transport": {"http": "acme_wire:Http"}}
    installation.add("acme-wire", points, modules={"acme_wire": TRANSPORT})
    assert f"pml: cannot serve clients at 'http://{address}': {why}" in said(capsys, "serve", "--http", address)


def test_whoever_serves_over_http_is_told_where(place, installation, capsys):
    points = {"pml.transport": {"http": "acme_wire:Http"}}
    installation.add("acme-wire", points, modules={"acme_wire": TRANSPORT})
    assert "serving MCP at http://127.0.0.1:8808/mcp (Ctrl-C ends it)" in said(
        capsys, "serve", "--http", "127.0.0.1:8808", status=0
    )


# pml auth
